//! Configuration: the defaults, one TOML file, the environment and the command line's flags, in
//! that order.
//!
//! Two stages: a `RawConfig` is what was typed, key by key with its place; a [`Config`] is
//! resolved, typed and in range. Every problem is reported at once, with the file's line or the variable's
//! name. Nothing here starts anything, and nothing else in the crate reads the file or the
//! environment.

mod document;
mod environment;
mod folders;
mod mail;
mod problem;
mod raw;
mod resolve;
mod shown;
mod sources;
mod suggest;
#[cfg(test)]
mod tests;
mod units;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::model::{OutcomeClass, PathPattern, Text};
use crate::notify::MailConfig;
use document::Document;
pub use environment::Environment;
use folders::Folders;
use mail::MailSettings;
pub use problem::ConfigProblem;
use problem::{Place, Problems};
use raw::RawConfig;
use sources::Sources;

/// A configuration file with every key, its default and what it means.
pub const EXAMPLE: &str = include_str!("example.toml");

/// Where the file is when neither a flag nor the user's own folder has one.
const SYSTEM_FILE: &str = "/etc/calltrail/config.toml";

/// What the command line says about the configuration. Relative paths are relative to the current
/// folder.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--config`: this file and no other; it must exist.
    pub config: Option<PathBuf>,
    /// The folders named on the command line; if there are any, those of the configuration do not
    /// count.
    pub logs: Vec<PathBuf>,
    /// `--db`
    pub db: Option<PathBuf>,
    /// `--listen`
    pub listen: Option<String>,
    /// `--rules`
    pub rules: Option<PathBuf>,
    /// `--catalogue`
    pub catalogue: Option<PathBuf>,
    /// `--no-mail`, and for commands that never mail: the mail sections are not resolved and no
    /// password is read.
    pub no_mail: bool,
    /// For commands that keep a temporary database: where the configured one lies is not checked.
    pub no_db: bool,
}

/// Everything Calltrail can be told, resolved.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file it was read from; none if there was none.
    pub file: Option<PathBuf>,
    /// Folders and files to watch, absolute.
    pub logs: Vec<PathBuf>,
    pub store: StoreSettings,
    pub web: WebSettings,
    /// None: nobody is mailed.
    pub mail: Option<MailConfig>,
    pub tail: TailSettings,
    pub rules: RulesSettings,
    /// The operator's labels of tools.
    pub catalogue: Option<PathBuf>,
    /// Stream -> microseconds to add to its times.
    pub clocks: Vec<(Text, i64)>,
    /// Outcome words that no dialect knows, or means otherwise.
    pub outcomes: Vec<(String, OutcomeClass)>,
    /// Mail as it is shown, without its password.
    mail_settings: Option<MailSettings>,
}

/// The database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    pub db: PathBuf,
    /// What DuckDB may use, in its own words, such as `1GB`.
    pub memory_max: String,
    /// Bytes below which reading waits for room on the database's disk.
    pub free_min: u64,
}

/// The dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSettings {
    /// A loopback address unless `allow_remote`.
    pub listen: SocketAddr,
    pub allow_remote: bool,
    /// Host names to answer to besides the loopback ones, that of the base URL among them.
    pub allowed_hosts: Vec<String>,
    /// What the links in mails begin with, without a slash at its end.
    pub base_url: String,
}

/// Reading log files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailSettings {
    /// Longest line read whole.
    pub line_bytes_max: usize,
    /// Files held open at a time.
    pub open_files_max: usize,
    /// Time between two looks at the folders when the system reports no change.
    pub scan_secs: u64,
    /// Hours after which a log that was written to counts as silent; 0: never.
    pub silent_hours: u64,
    /// What the paths of logs name; of those that fit, the first counts.
    pub path_patterns: Vec<PathPattern>,
}

/// Detection rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesSettings {
    /// Rules besides the shipped ones.
    pub folder: Option<PathBuf>,
    /// Names of rules that are not evaluated.
    pub disabled: Vec<String>,
}

/// Reads the configuration. Works without any file.
pub fn load(
    overrides: &Overrides,
    environment: &Environment,
) -> Result<Config, Vec<ConfigProblem>> {
    load_with(overrides, environment, Path::new(SYSTEM_FILE))
}

impl Config {
    /// The configuration in force as TOML that could be a configuration file. The password is not
    /// in it; a comment says where it comes from.
    pub fn to_masked_toml(&self) -> String {
        shown::to_toml(self)
    }
}

fn load_with(
    overrides: &Overrides,
    environment: &Environment,
    system_file: &Path,
) -> Result<Config, Vec<ConfigProblem>> {
    let mut problems = Problems::default();
    let found = document::find(overrides.config.as_deref(), environment, system_file);
    let found = found.unwrap_or_else(|(path, message)| {
        problems.push(&Place::named(&path.to_string_lossy()), message);
        None
    });
    let file = found.as_ref().map(|(path, _)| path.as_path());
    let document = found.as_ref().map(|(path, text)| Document::parse(path, text, &mut problems));
    let broken = problems.len();
    let mut sources = Sources::new(document.as_ref(), environment, problems);
    let raw = RawConfig::read(&mut sources);
    let mut problems = sources.into_problems();
    if broken > 0 {
        problems.drop_consequences(broken);
        // What such a file lacks may be what could not be read, so the second stage would mislead.
        return Err(problems.into_sorted());
    }
    let folders = Folders::new(file, environment);
    let config = resolve::resolve(raw, overrides, &folders, file, &mut problems);
    let problems = problems.into_sorted();
    if problems.is_empty() { Ok(config) } else { Err(problems) }
}
