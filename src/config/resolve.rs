//! The second stage: what was typed becomes values of their types, in range, that fit each other.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::folders::{Folders, absolute, is_inside};
use super::problem::{Given, Place, Problems, quote};
use super::raw::{RawConfig, RawRules, RawStore, RawTail, RawWeb};
use super::sources::Field;
use super::suggest::nearest;
use super::units::{parse_duration, parse_size, show_size};
use super::{Config, Overrides, RulesSettings, StoreSettings, TailSettings, WebSettings, mail};
use crate::model::{Micros, OutcomeClass, PathField, PathPattern, PathPatternError, Text};

const DB_FILE: &str = "calltrail/calltrail.duckdb";
const MEMORY_MAX: &str = "1GB";
const FREE_MIN: u64 = 64 << 20;
/// DuckDB needs some memory to do anything at all.
const MEMORY_BYTES_MIN: u64 = 64_000_000;
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7700);
const LINE_BYTES_MAX: u64 = 16 << 20;
const OPEN_FILES_MAX: u64 = 256;
const SCAN_SECS: u64 = 2;
/// A day and a night: a log of office hours does not fall silent.
const SILENT_HOURS: u64 = 24;
const PATH_PATTERNS_MAX: usize = 100;

/// Resolves everything; what cannot be is reported and its default taken.
pub(super) fn resolve(
    raw: RawConfig,
    overrides: &Overrides,
    folders: &Folders,
    file: Option<&Path>,
    problems: &mut Problems,
) -> Config {
    let logs = logs(raw.logs, overrides, folders, problems);
    let store = store(raw.store, overrides, folders, &logs, problems);
    let base_url_is_typed = !raw.web.base_url.is_absent();
    let web = web(raw.web, overrides, problems);
    let mut mail = None;
    if !overrides.no_mail
        && let Some(begun) = raw.mail.begun.clone()
    {
        if !base_url_is_typed && (web.listen.ip().is_unspecified() || web.listen.port() == 0) {
            let message = format!(
                "mails need `base_url` in [web] for their links: nobody can open http://{}",
                web.listen
            );
            problems.push(&begun, message);
        }
        mail = mail::resolve(raw.mail, &begun, &web.base_url, folders, problems);
    }
    let (mail, mail_settings) = mail.unzip();
    Config {
        file: file.map(absolute),
        logs: logs.into_iter().map(|log| log.value).collect(),
        store,
        web,
        mail,
        tail: tail(raw.tail, problems),
        rules: rules(raw.rules, overrides, folders, problems),
        catalogue: catalogue(raw.catalogue_file, overrides, folders, problems),
        clocks: clocks(&raw.clocks, problems),
        outcomes: outcomes(raw.outcomes, problems),
        mail_settings,
    }
}

/// The path of a key, absolute; reports one that has no meaning.
pub(super) fn path(
    field: Field<String>,
    folders: &Folders,
    problems: &mut Problems,
) -> Option<Given<PathBuf>> {
    let typed = field.into_given()?;
    let value = problems.take(&typed.place, folders.resolve(&typed))?;
    Some(Given { value, place: typed.place })
}

fn logs(
    typed: Field<Vec<Given<String>>>,
    overrides: &Overrides,
    folders: &Folders,
    problems: &mut Problems,
) -> Vec<Given<PathBuf>> {
    if !overrides.logs.is_empty() {
        let given = |path: &PathBuf| Given::by_flag(absolute(path), "command line");
        return overrides.logs.iter().map(given).collect();
    }
    let typed = typed.into_given().map(|typed| typed.value).unwrap_or_default();
    let each = typed.into_iter().map(|log| path(Field::Set(log), folders, problems));
    each.flatten().collect()
}

fn store(
    typed: RawStore,
    overrides: &Overrides,
    folders: &Folders,
    logs: &[Given<PathBuf>],
    problems: &mut Problems,
) -> StoreSettings {
    let db = match &overrides.db {
        Some(path) => Some(Given::by_flag(absolute(path), "--db")),
        None => path(typed.db, folders, problems),
    };
    let place = db.as_ref().map(|db| db.place.clone());
    let db = db.map_or_else(|| folders.state.join(DB_FILE), |db| db.value);
    if db.is_dir() {
        let place = place.clone().unwrap_or_else(|| Place::named("the default database"));
        problems.push(&place, format!("{} is a folder, not a database", db.display()));
    }
    let watching = logs.iter().find(|log| is_inside(&db, &log.value));
    if !overrides.no_db
        && let Some(watching) = watching
    {
        let message = format!(
            "the database {} lies in the watched folder {}, where whoever writes the logs could \
             reach it; name another place with `db` in [store] or --db",
            db.display(),
            watching.value.display()
        );
        problems.push(place.as_ref().unwrap_or(&watching.place), message);
    }
    let memory_max = typed.memory_max.into_given().and_then(|typed| {
        let size = size_within(&typed.value, MEMORY_BYTES_MIN, u64::MAX);
        problems.take(&typed.place, size).map(show_size)
    });
    let free_min = typed.free_min.into_given().and_then(|typed| {
        let size = size_within(&typed.value, 0, u64::MAX);
        problems.take(&typed.place, size)
    });
    StoreSettings {
        db,
        memory_max: memory_max.unwrap_or_else(|| MEMORY_MAX.to_owned()),
        free_min: free_min.unwrap_or(FREE_MIN),
    }
}

fn web(typed: RawWeb, overrides: &Overrides, problems: &mut Problems) -> WebSettings {
    let allow_remote = typed.allow_remote.into_given().is_some_and(|typed| typed.value);
    let listen = match &overrides.listen {
        Some(address) => Some(Given::by_flag(address.clone(), "--listen")),
        None => typed.listen.into_given(),
    };
    let listen = listen.and_then(|typed| {
        let address = problems.take(&typed.place, parse_listen(&typed.value))?;
        if !allow_remote && !address.ip().is_loopback() {
            let message = format!(
                "{address} can be reached from other machines; if that is meant, set \
                 `allow_remote = true` in [web] and put TLS in front"
            );
            problems.push(&typed.place, message);
        }
        Some(address)
    });
    let listen = listen.unwrap_or(LISTEN);
    let mut allowed_hosts = Vec::new();
    for host in typed.allowed_hosts.into_given().map(|typed| typed.value).unwrap_or_default() {
        if is_host(&host.value) {
            allowed_hosts.push(host.value);
        } else {
            let message = format!(
                "{} is no host name; write it without scheme and path, like trail.example.org",
                quote(&host.value)
            );
            problems.push(&host.place, message);
        }
    }
    let base_url = typed.base_url.into_given().and_then(|typed| {
        let Some(host) = host_of(&typed.value) else {
            // Not quoted: a login may be in it.
            let message = "this is no base URL; write it as https://host/path, without login, \
                           query or fragment";
            problems.push(&typed.place, message);
            return None;
        };
        // Links that lead to a name we do not answer to would be of no use.
        let is_allowed = |allowed: &String| allowed.eq_ignore_ascii_case(host);
        if host != listen.to_string() && !allowed_hosts.iter().any(is_allowed) {
            allowed_hosts.push(host.to_owned());
        }
        Some(typed.value.trim_end_matches('/').to_owned())
    });
    let base_url = base_url.unwrap_or_else(|| format!("http://{listen}"));
    WebSettings { listen, allow_remote, allowed_hosts, base_url }
}

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.split_once(':') {
        Some((host, port)) if host.eq_ignore_ascii_case("localhost") => format!("127.0.0.1:{port}"),
        _ => text.to_owned(),
    };
    numeric.parse().map_err(|_| {
        format!("{} is no address to listen on; write it like 127.0.0.1:7700", quote(text))
    })
}

/// A host name or address, with or without a port.
fn is_host(host: &str) -> bool {
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    !host.is_empty() && host.bytes().all(is_of_host)
}

/// The host and port of a URL that can be a base: nothing in it could mislead or leak.
fn host_of(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let is_of_url = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/[]%".contains(&byte);
    let host = rest.split('/').next().filter(|host| is_host(host))?;
    rest.bytes().all(is_of_url).then_some(host)
}

fn tail(typed: RawTail, problems: &mut Problems) -> TailSettings {
    let line_bytes_max = match &typed.line_bytes_max {
        Field::Set(typed) => {
            problems.take(&typed.place, size_within(&typed.value, 64 << 10, 256 << 20))
        }
        Field::Absent | Field::Bad => None,
    };
    let line_bytes_max = line_bytes_max.unwrap_or(LINE_BYTES_MAX);
    let open_files_max = number(&typed.open_files_max, 16, 65_536, problems);
    let open_files_max = open_files_max.unwrap_or(OPEN_FILES_MAX);
    TailSettings {
        line_bytes_max: usize::try_from(line_bytes_max).unwrap_or(usize::MAX),
        open_files_max: usize::try_from(open_files_max).unwrap_or(usize::MAX),
        scan_secs: number(&typed.scan_secs, 1, 3_600, problems).unwrap_or(SCAN_SECS),
        silent_hours: number(&typed.silent_hours, 0, 8_760, problems).unwrap_or(SILENT_HOURS),
        path_patterns: path_patterns(typed.path_patterns, problems),
    }
}

fn path_patterns(typed: Field<Vec<Given<String>>>, problems: &mut Problems) -> Vec<PathPattern> {
    let Some(typed) = typed.into_given() else { return Vec::new() };
    if typed.value.len() > PATH_PATTERNS_MAX {
        problems.push(&typed.place, format!("more than {PATH_PATTERNS_MAX} patterns"));
    }
    let each = typed.value.into_iter().take(PATH_PATTERNS_MAX).filter_map(|pattern| {
        let parsed = PathPattern::parse(&pattern.value);
        problems.take(&pattern.place, parsed.map_err(|error| no_pattern(&pattern.value, &error)))
    });
    each.collect()
}

fn no_pattern(pattern: &str, error: &PathPatternError) -> String {
    let hint = match error {
        PathPatternError::UnknownField { name } => {
            let known = PathField::ALL.map(PathField::as_str);
            match nearest(name, known) {
                Some(near) => format!("; did you mean {{{near}}}?"),
                None => format!(": there are {{{}}}", known.join("}, {")),
            }
        }
        _ => String::new(),
    };
    format!("{} is no pattern of paths: {error}{hint}", quote(pattern))
}

/// The number of a key, if it lies within the bounds.
pub(super) fn number(
    typed: &Field<u64>,
    least: u64,
    most: u64,
    problems: &mut Problems,
) -> Option<u64> {
    let Field::Set(typed) = typed else { return None };
    if (least..=most).contains(&typed.value) {
        return Some(typed.value);
    }
    problems.push(&typed.place, format!("{} is not between {least} and {most}", typed.value));
    None
}

fn size_within(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let size = parse_size(text).map_err(|problem| format!("{} {problem}", quote(text)))?;
    if size < least {
        return Err(format!("{} is less than {}", quote(text), show_size(least)));
    }
    if size > most {
        return Err(format!("{} is more than {}", quote(text), show_size(most)));
    }
    Ok(size)
}

fn rules(
    typed: RawRules,
    overrides: &Overrides,
    folders: &Folders,
    problems: &mut Problems,
) -> RulesSettings {
    let folder = match &overrides.rules {
        Some(path) => Some(Given::by_flag(absolute(path), "--rules")),
        None => path(typed.folder, folders, problems),
    };
    if let Some(folder) = folder.as_ref().filter(|folder| !folder.value.is_dir()) {
        let message = format!("{} is no folder that can be read", folder.value.display());
        problems.push(&folder.place, message);
    }
    let disabled = typed.disabled.into_given().map(|typed| typed.value).unwrap_or_default();
    RulesSettings {
        folder: folder.map(|folder| folder.value),
        disabled: disabled.into_iter().map(|rule| rule.value).collect(),
    }
}

fn catalogue(
    typed: Field<String>,
    overrides: &Overrides,
    folders: &Folders,
    problems: &mut Problems,
) -> Option<PathBuf> {
    let file = match &overrides.catalogue {
        Some(path) => Given::by_flag(absolute(path), "--catalogue"),
        None => path(typed, folders, problems)?,
    };
    if !file.value.is_file() {
        let message = format!("{} is no file that can be read", file.value.display());
        problems.push(&file.place, message);
    }
    Some(file.value)
}

fn clocks(typed: &[(Given<String>, Given<String>)], problems: &mut Problems) -> Vec<(Text, i64)> {
    let mut clocks = Vec::with_capacity(typed.len());
    for (stream, offset) in typed {
        if stream.value.is_empty() || stream.value.starts_with(['/', '~']) {
            let message = format!(
                "{} is no stream: it is named by its path below the watched folder",
                quote(&stream.value)
            );
            problems.push(&stream.place, message);
        }
        match parse_duration(&offset.value) {
            Ok(micros) if micros.abs() <= Micros::DAY => {
                clocks.push((Text::from(stream.value.as_str()), micros));
            }
            Ok(_) => {
                let message = format!("{} is more than a day", quote(&offset.value));
                problems.push(&offset.place, message);
            }
            Err(problem) => {
                problems.push(&offset.place, format!("{} {problem}", quote(&offset.value)));
            }
        }
    }
    clocks
}

fn outcomes(
    typed: Vec<(Given<String>, Given<String>)>,
    problems: &mut Problems,
) -> Vec<(String, OutcomeClass)> {
    let mut outcomes = Vec::with_capacity(typed.len());
    for (word, class) in typed {
        if word.value.trim().is_empty() {
            problems.push(&word.place, "an outcome word is empty");
        }
        let known = OutcomeClass::ALL.map(OutcomeClass::as_str);
        match word_of(&class.value, &known, OutcomeClass::from_word) {
            Ok(class) => outcomes.push((word.value, class)),
            Err(problem) => problems.push(&class.place, problem),
        }
    }
    outcomes
}

/// One of some words as what it stands for.
pub(super) fn word_of<T>(
    typed: &str,
    known: &[&str],
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, String> {
    read(typed).ok_or_else(|| match nearest(typed, known.iter().copied()) {
        Some(near) => format!("{} is none of the words here; did you mean `{near}`?", quote(typed)),
        None => format!("{} is none of {}", quote(typed), known.join(", ")),
    })
}
