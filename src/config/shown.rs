//! The configuration in force, written as TOML.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use super::Config;
use super::mail::{MailSettings, PasswordOrigin, Way};
use super::units::{show_duration, show_size};

/// Writes every key that has a value. The result reads back as the same configuration, but for a
/// password that comes from elsewhere.
pub(super) fn to_toml(config: &Config) -> String {
    let mut shown = Shown::default();
    shown.pair("logs", paths(&config.logs));
    shown.section("store");
    shown.pair("db", path(&config.store.db));
    shown.pair("memory_max", text(&config.store.memory_max));
    shown.pair("free_min", text(&show_size(config.store.free_min)));
    shown.section("web");
    shown.pair("listen", text(&config.web.listen.to_string()));
    shown.pair("allow_remote", config.web.allow_remote);
    shown.pair("allowed_hosts", texts(&config.web.allowed_hosts));
    shown.pair("base_url", text(&config.web.base_url));
    if let Some(mail) = &config.mail_settings {
        shown.mail(mail);
    }
    shown.section("tail");
    shown.pair("line_bytes_max", text(&show_size(config.tail.line_bytes_max as u64)));
    shown.pair("open_files_max", config.tail.open_files_max);
    shown.pair("scan_secs", config.tail.scan_secs);
    shown.pair("silent_hours", config.tail.silent_hours);
    let patterns = config.tail.path_patterns.iter().map(|pattern| text(pattern.as_str()));
    shown.pair("path_patterns", list(patterns));
    shown.section("rules");
    shown.optional("folder", config.rules.folder.as_deref().map(path));
    shown.pair("disabled", texts(&config.rules.disabled));
    shown.section("catalogue");
    shown.optional("file", config.catalogue.as_deref().map(path));
    shown.section("clocks");
    for (stream, micros) in &config.clocks {
        shown.pair(&text(stream), text(&show_duration(*micros)));
    }
    shown.section("outcomes");
    for (word, class) in &config.outcomes {
        shown.pair(&text(word), text(class.as_str()));
    }
    shown.0
}

#[derive(Default)]
struct Shown(String);

impl Shown {
    fn section(&mut self, name: &str) {
        self.line(format_args!("\n[{name}]"));
    }

    fn pair(&mut self, key: &str, value: impl Display) {
        self.line(format_args!("{key} = {value}"));
    }

    fn optional(&mut self, key: &str, value: Option<String>) {
        if let Some(value) = value {
            self.pair(key, value);
        }
    }

    fn mail(&mut self, mail: &MailSettings) {
        self.section("mail");
        self.pair("from", text(&mail.from));
        self.pair("to", texts(&mail.to));
        self.pair("level_min", text(mail.level_min.as_str()));
        match &mail.way {
            Way::Folder(folder) => self.pair("folder", path(folder)),
            Way::Smtp { host, port, security, username, password, ca_file } => {
                self.section("mail.smtp");
                self.pair("host", text(host));
                self.pair("port", port);
                self.pair("security", text(security));
                self.optional("username", username.as_deref().map(text));
                match password {
                    Some(PasswordOrigin::File(file)) => self.pair("password_file", path(file)),
                    Some(PasswordOrigin::Elsewhere(origin)) => {
                        self.line(format_args!("# password: *** from {origin}"));
                    }
                    None => {}
                }
                self.optional("ca_file", ca_file.as_deref().map(path));
            }
        }
    }

    fn line(&mut self, line: impl Display) {
        self.0.extend([line.to_string().as_str(), "\n"]);
    }
}

fn path(path: &Path) -> String {
    text(&path.to_string_lossy())
}

fn paths(paths: &[PathBuf]) -> String {
    list(paths.iter().map(|each| path(each)))
}

fn texts(texts: &[String]) -> String {
    list(texts.iter().map(|each| text(each)))
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// A text as a basic string of TOML.
fn text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if character.is_control() => {
                let code = u32::from(character);
                quoted.extend(["\\u", &format!("{code:04X}")]);
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
