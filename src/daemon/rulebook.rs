//! The rules in force and where each comes from: the built-in files with a user's folder laid over them, changed by the
//! folder's `overrides.toml`, without those that are switched off.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::detect::{Overrides, Rule, RuleProblem, RuleSet, merge, shipped};

/// The file of a rules folder that changes rules without being one.
pub const OVERRIDES: &str = "overrides.toml";
/// The longest file of a rules folder, in bytes: people write them.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The most files of a rules folder.
const FILES_MAX: usize = 10_000;

/// Where rules come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSource {
    /// A user's own folder.
    pub folder: Option<PathBuf>,
    /// Rules that the configuration switches off.
    pub disabled: Vec<String>,
}

/// All rules there are, and those of them that are in force.
#[derive(Debug, Default)]
pub struct Rulebook {
    /// Those in force, changed as the overrides say.
    pub rules: Arc<RuleSet>,
    /// Every rule there is, by name.
    pub entries: Vec<RuleEntry>,
    /// Those that are switched off, as far as they can be read.
    off: Vec<RuleSet>,
}

/// One rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleEntry {
    /// The rule's name.
    pub name: String,
    pub text: String,
    pub origin: Origin,
    pub is_disabled: bool,
    /// What the overrides change, a phrase each.
    pub changes: Vec<String>,
}

/// Where a rule file comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    BuiltIn,
    Own(PathBuf),
    /// A file of the user that takes a built-in one's place.
    Replaced(PathBuf),
}

/// Why rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    #[error("the rules folder {}: {reason}", path.display())]
    Folder { path: PathBuf, reason: io::Error },
    #[error(
        "rules.disabled names {name}, and there is no such rule; `calltrail rules list` names them"
    )]
    Unknown { name: String },
    /// The configuration that names them cannot be read again.
    #[error("{0}")]
    Configuration(String),
    #[error("rules cannot be used:\n{}", lines(.0))]
    Problems(Vec<RuleProblem>),
}

fn lines(problems: &[RuleProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// A folder of rules as it was read.
#[derive(Debug, Default)]
pub struct RuleFolder {
    /// The rule files, by name: each with its name, which ends in `.yml`, its text, and where it lies.
    pub files: Vec<(String, String, PathBuf)>,
    /// What [`OVERRIDES`] holds, if it is there.
    pub overrides: Option<String>,
}

/// What tells that a folder may have changed: each file's name with its size, its times and its number.
pub(super) type Fingerprint = Vec<(PathBuf, [i64; 6])>;

impl RuleFolder {
    pub fn read(folder: &Path) -> Result<Self, RulesError> {
        Self::read_files(folder)
            .map_err(|reason| RulesError::Folder { path: folder.to_path_buf(), reason })
    }

    fn read_files(folder: &Path) -> io::Result<Self> {
        let mut found = Self::default();
        for path in paths(folder)? {
            let text = text(&path)?;
            if path.file_name().is_some_and(|name| name == OVERRIDES) {
                found.overrides = Some(text);
            } else {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                found.files.push((format!("{stem}.yml"), text, path));
            }
        }
        found.files.sort();
        Ok(found)
    }

    /// The rule files as (name, text).
    pub fn texts(&self) -> Vec<(&str, &str)> {
        self.files.iter().map(|(name, text, _)| (&**name, &**text)).collect()
    }

    /// What the overrides say, or everything wrong with them.
    pub fn overrides(&self) -> Result<Overrides, Vec<RuleProblem>> {
        self.overrides
            .as_deref()
            .map_or_else(|| Ok(Overrides::default()), |text| Overrides::parse(OVERRIDES, text))
    }
}

/// The files of a folder that have to do with rules, by name.
fn paths(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_rule = path.extension().is_some_and(|ending| ending == "yml" || ending == "yaml");
        let is_named = is_rule || path.file_name().is_some_and(|name| name == OVERRIDES);
        // Whatever is no file, such as a pipe, could be waited for without end.
        if is_named && fs::metadata(&path)?.is_file() {
            found.push(path);
        }
        if found.len() > FILES_MAX {
            return Err(io::Error::other(format!("more than {FILES_MAX} files")));
        }
    }
    found.sort();
    Ok(found)
}

fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
    let mut file = fs::File::open(path).map_err(named)?.take(FILE_BYTES_MAX + 1);
    file.read_to_string(&mut text).map_err(named)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("{name} is longer than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

impl RuleSource {
    /// Reads and compiles all rules; everything wrong with them is told at once.
    pub fn load(&self) -> Result<Rulebook, RulesError> {
        let own = self.folder.as_deref().map(RuleFolder::read).transpose()?.unwrap_or_default();
        self.compile(&own)
    }

    fn compile(&self, own: &RuleFolder) -> Result<Rulebook, RulesError> {
        let shipped = shipped();
        let files = merge(&shipped, &own.texts());
        if let Some(name) =
            self.disabled.iter().find(|name| !files.iter().any(|(file, _)| stem(file) == **name))
        {
            return Err(RulesError::Unknown { name: name.clone() });
        }
        let is_off = |file: &str| self.disabled.iter().any(|name| name == stem(file));
        let (off, on): (Vec<_>, Vec<_>) = files.iter().partition(|(file, _)| is_off(file));
        let compiled = RuleSet::compile(&on);
        let overrides = own.overrides();
        let (mut rules, overrides) = match (compiled, overrides) {
            (Ok(rules), Ok(overrides)) => (rules, overrides),
            (compiled, overrides) => {
                let problems = [compiled.err(), overrides.err()];
                return Err(RulesError::Problems(
                    problems.into_iter().flatten().flatten().collect(),
                ));
            }
        };
        let others: Vec<&str> = off.iter().map(|(file, _)| stem(file)).collect();
        let problems = rules.tune(&overrides, &others);
        if !problems.is_empty() {
            return Err(RulesError::Problems(problems));
        }
        let entries: Vec<RuleEntry> = files
            .iter()
            .map(|(file, text)| {
                let path = own.files.iter().find(|(name, ..)| name == file).map(|(.., path)| path);
                let is_shipped = shipped.iter().any(|(name, _)| name == file);
                let name = stem(file);
                RuleEntry {
                    name: name.to_owned(),
                    text: (*text).to_owned(),
                    origin: match path {
                        None => Origin::BuiltIn,
                        Some(path) if is_shipped => Origin::Replaced(path.clone()),
                        Some(path) => Origin::Own(path.clone()),
                    },
                    is_disabled: is_off(file) || overrides.disables(name),
                    changes: overrides.words(name),
                }
            })
            .collect();
        let off = files.iter().filter(|(file, _)| is_off(file) || overrides.disables(stem(file)));
        let off = off.filter_map(|file| RuleSet::compile(&[*file]).ok()).collect();
        Ok(Rulebook { rules: Arc::new(rules), entries, off })
    }

    /// What the folder looks like now; empty for one that cannot be looked at.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let Some(folder) = &self.folder else { return Fingerprint::new() };
        paths(folder).unwrap_or_default().into_iter().map(marked).collect()
    }
}

/// A file with what tells that it may have changed.
pub(super) fn marked(path: PathBuf) -> (PathBuf, [i64; 6]) {
    let mark = fs::metadata(&path).map_or([0; 6], |file| {
        let number = i64::from_ne_bytes(file.ino().to_ne_bytes());
        let size = i64::from_ne_bytes(file.size().to_ne_bytes());
        [size, file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec(), number]
    });
    (path, mark)
}

impl Rulebook {
    /// The rule of an entry; none for one that is switched off and cannot be read.
    pub fn rule(&self, name: &str) -> Option<&Rule> {
        let off = self.off.iter().flat_map(RuleSet::rules);
        self.rules.rules().iter().chain(off).find(|rule| *rule.name == *name)
    }
}

/// A rule file's name without its ending: the rule's name.
fn stem(file: &str) -> &str {
    file.strip_suffix(".yml").unwrap_or(file)
}
