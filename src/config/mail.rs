//! The mail sections: who is mailed, by which way, and with which password.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::folders::Folders;
use super::problem::{Given, Place, Problems};
use super::raw::{RawMail, RawSmtp};
use super::resolve::{number, path, word_of};
use super::sources::Field;
use crate::model::Level;
use crate::notify::{Login, MailConfig, MailConfigError, Secret, Security, SmtpConfig, Transport};

const LEVEL_MIN: Level = Level::High;
/// Longest password file and certificate file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The name under which the service manager may hand over the password.
const CREDENTIAL: &str = "smtp-password";
const SECURITY: [(&str, Security); 3] =
    [("tls", Security::Tls), ("starttls", Security::StartTls), ("plain", Security::Plain)];

/// Mail as it is shown: without the password.
#[derive(Clone, Debug)]
pub(super) struct MailSettings {
    pub(super) from: String,
    pub(super) to: Vec<String>,
    pub(super) level_min: Level,
    pub(super) way: Way,
}

/// The way a mail takes, as it is shown.
#[derive(Clone, Debug)]
pub(super) enum Way {
    Folder(PathBuf),
    Smtp {
        host: String,
        port: u16,
        security: &'static str,
        username: Option<String>,
        password: Option<PasswordOrigin>,
        ca_file: Option<PathBuf>,
    },
}

/// Where the password comes from.
#[derive(Clone, Debug)]
pub(super) enum PasswordOrigin {
    File(PathBuf),
    /// A variable or the service manager, by name.
    Elsewhere(String),
}

/// Resolves the mail sections, which begin at `begun`; none when a problem stands in the way.
pub(super) fn resolve(
    raw: RawMail,
    begun: &Place,
    base_url: &str,
    folders: &Folders,
    problems: &mut Problems,
) -> Option<(MailConfig, MailSettings)> {
    if raw.from.is_absent() {
        problems.push(begun, "[mail] needs `from`, the address that mails come from");
    }
    let to_place = raw.to.place().unwrap_or(begun).clone();
    let to_is_bad = matches!(raw.to, Field::Bad);
    let from = raw.from.into_given();
    let to = raw.to.into_given().map(|typed| typed.value).unwrap_or_default();
    let level_min = raw.level_min.into_given().and_then(|typed| {
        let known = Level::ALL.map(Level::as_str);
        problems.take(&typed.place, word_of(&typed.value, &known, Level::from_word))
    });
    let level_min = level_min.unwrap_or(LEVEL_MIN);
    let security_place = raw.smtp.security.place().or(raw.smtp.begun.as_ref()).cloned();
    let host_place = raw.smtp.host.place().or(raw.smtp.begun.as_ref()).cloned();
    let way = way(raw.folder, raw.smtp, begun, folders, problems);

    // The addresses are checked whatever is wrong with the way.
    let nowhere = Transport::File { folder: PathBuf::new() };
    let (transport, way) = way.map_or((nowhere, None), |(way, shown)| (way, Some(shown)));
    let addresses: Vec<String> = to.iter().map(|to| to.value.clone()).collect();
    let from_text = from.as_ref().map_or("unknown@localhost", |from| &from.value);
    let made = MailConfig::new(from_text, &addresses, transport, base_url, level_min);
    let config = made.map_err(|errors| {
        for error in errors {
            let place = match &error {
                MailConfigError::Address(address) => {
                    let typed = from.iter().chain(&to).find(|typed| typed.value == *address);
                    typed.map_or(begun, |typed| &typed.place)
                }
                MailConfigError::NoRecipient if to_is_bad => continue,
                MailConfigError::NoRecipient => &to_place,
                MailConfigError::PlainToRemote(_) => security_place.as_ref().unwrap_or(begun),
                MailConfigError::NoHost => host_place.as_ref().unwrap_or(begun),
                MailConfigError::BaseUrl(_) | MailConfigError::Root(_) => begun,
            };
            problems.push(place, error.to_string());
        }
    });
    let settings = MailSettings { from: from?.value, to: addresses, level_min, way: way? };
    Some((config.ok()?, settings))
}

fn way(
    folder: Field<String>,
    smtp: RawSmtp,
    begun: &Place,
    folders: &Folders,
    problems: &mut Problems,
) -> Option<(Transport, Way)> {
    match (folder, smtp.begun.clone()) {
        (Field::Absent, None) => {
            problems.push(begun, "[mail] needs a way: the section [mail.smtp], or `folder`");
            None
        }
        (Field::Absent, Some(begun)) => smtp_way(smtp, &begun, folders, problems),
        (Field::Bad, _) => None,
        (Field::Set(folder), Some(begun)) => {
            problems.push(&folder.place, "mails go to `folder` or by [mail.smtp], not both");
            smtp_way(smtp, &begun, folders, problems)
        }
        (folder, None) => {
            let folder = path(folder, folders, problems)?.value;
            Some((Transport::File { folder: folder.clone() }, Way::Folder(folder)))
        }
    }
}

fn smtp_way(
    raw: RawSmtp,
    begun: &Place,
    folders: &Folders,
    problems: &mut Problems,
) -> Option<(Transport, Way)> {
    if raw.host.is_absent() {
        problems.push(begun, "[mail.smtp] needs `host`, the mail server's name");
    }
    let security = raw.security.into_given().and_then(|typed| {
        let known = SECURITY.map(|(word, _)| word);
        let find = |word: &str| SECURITY.into_iter().find(|(known, _)| *known == word);
        problems.take(&typed.place, word_of(&typed.value, &known, find))
    });
    let (security_word, security) = security.unwrap_or(("tls", Security::Tls));
    let port = number(&raw.port, 1, 65_535, problems).and_then(|port| u16::try_from(port).ok());
    let port = port.unwrap_or(match security {
        Security::Tls => 465,
        Security::StartTls => 587,
        Security::Plain => 25,
    });
    let username_place = raw.username.place().cloned();
    let username_is_absent = raw.username.is_absent();
    let username = raw.username.into_given().map(|typed| typed.value);
    // A credential of the service manager counts only where a login is wanted.
    let wants_login = username.is_some();
    let password_is_bad = matches!(raw.password, Field::Bad);
    let password = password(raw.password, raw.password_file, wants_login, folders, problems);
    match (&username_place, &password) {
        (Some(place), Password::Absent) if !password_is_bad => {
            problems.push(
                place,
                "a login needs a password: set `password_file`, or CALLTRAIL__MAIL__SMTP__PASSWORD",
            );
        }
        (None, Password::Set { place, .. }) if username_is_absent => {
            problems.push(place, "a password needs a login: set `username` in [mail.smtp]");
        }
        _ => {}
    }
    let ca_file = path(raw.ca_file, folders, problems);
    let extra_root_pem = ca_file
        .as_ref()
        .and_then(|file| problems.take(&file.place, read_certificates(&file.value)));
    let host = raw.host.into_given()?.value;
    let (secret, origin) = match password {
        Password::Set { secret, origin, .. } => (Some(secret), Some(origin)),
        Password::Absent | Password::Bad => (None, None),
    };
    let login = username.clone().zip(secret);
    let login = login.map(|(username, password)| Login { username, password });
    let transport = SmtpConfig { host: host.clone(), port, security, login, extra_root_pem };
    let ca_file = ca_file.map(|file| file.value);
    let way =
        Way::Smtp { host, port, security: security_word, username, password: origin, ca_file };
    Some((Transport::Smtp(transport), way))
}

enum Password {
    Absent,
    /// Reported already.
    Bad,
    Set {
        secret: Secret,
        origin: PasswordOrigin,
        place: Place,
    },
}

/// The password from the environment, else from its file, else from the service manager.
fn password(
    typed: Field<Secret>,
    file: Field<String>,
    wants_login: bool,
    folders: &Folders,
    problems: &mut Problems,
) -> Password {
    if let Field::Set(Given { value: secret, place }) = typed {
        let origin = PasswordOrigin::Elsewhere(place.origin().to_owned());
        return Password::Set { secret, origin, place };
    }
    if !file.is_absent() {
        let Some(file) = path(file, folders, problems) else { return Password::Bad };
        let read = read_password(&file.value, true);
        return match problems.take(&file.place, read) {
            Some(secret) => {
                let origin = PasswordOrigin::File(file.value);
                Password::Set { secret, origin, place: file.place }
            }
            None => Password::Bad,
        };
    }
    let credential = folders.credentials.as_ref().map(|folder| folder.join(CREDENTIAL));
    let Some(credential) = credential.filter(|file| wants_login && file.exists()) else {
        return Password::Absent;
    };
    let place = Place::named(&credential.to_string_lossy());
    // The service manager guards the file by other means than its mode.
    match problems.take(&place, read_password(&credential, false)) {
        Some(secret) => {
            let origin = PasswordOrigin::Elsewhere(format!("the credential {CREDENTIAL}"));
            Password::Set { secret, origin, place }
        }
        None => Password::Bad,
    }
}

/// Reads a password: the file's first and only line. The mode is asked of the open file, so that
/// nothing can be put in its place in between.
fn read_password(path: &Path, must_be_private: bool) -> Result<Secret, String> {
    use std::os::unix::fs::MetadataExt;
    let shown = path.display();
    let unreadable = |error| format!("the password file {shown} cannot be read: {error}");
    let mut file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.mode();
    if must_be_private && mode & 0o077 != 0 {
        return Err(format!(
            "others may use the password file {shown} (mode {:04o}); chmod 0600 it",
            mode & 0o7777
        ));
    }
    let mut text = String::new();
    (&mut file).take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
    let password = text.trim_end_matches(['\n', '\r']);
    if password.is_empty() {
        return Err(format!("the password file {shown} is empty"));
    }
    if password.contains(['\n', '\r']) {
        return Err(format!("the password file {shown} has more than one line"));
    }
    Ok(Secret::new(password.to_owned()))
}

fn read_certificates(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let unreadable = |error| format!("the certificate file {shown} cannot be read: {error}");
    let mut pem = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut pem).map_err(unreadable)?;
    if memchr::memmem::find(&pem, b"-----BEGIN CERTIFICATE-----").is_none() {
        return Err(format!("there is no PEM certificate in {shown}"));
    }
    Ok(pem)
}
