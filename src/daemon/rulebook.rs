//! The rules in force and where each comes from: the built-in files with a user's folder laid over them, changed by the
//! folder's `overrides.toml`, without those that are switched off.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::rule_folder::{self, Fingerprint, RuleFolder};
use crate::detect::{Overrides, Rule, RuleProblem, RuleSet, merge, rule_name, shipped};
use crate::untrusted::display_untrusted;

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
    off: RuleSet,
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
    /// Why the rule, since they changed it, probably does not do what is meant: a line each.
    pub doubts: Vec<String>,
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
    /// The configuration switches off what there is not; the rules may have problems, too.
    #[error(
        "rules.disabled names {}, and there is no such rule; `calltrail rules list` names them{}",
        names.join(", "),
        lines(problems)
    )]
    Unknown { names: Vec<String>, problems: Vec<RuleProblem> },
    /// The configuration that names them cannot be read again.
    #[error("{0}")]
    Configuration(String),
    #[error("rules cannot be used:{}", lines(problems))]
    Problems {
        problems: Vec<RuleProblem>,
        /// It may be otherwise later though no file changes.
        may_pass: bool,
    },
}

impl RulesError {
    /// Files that say what cannot be used.
    pub const fn of(problems: Vec<RuleProblem>) -> Self {
        Self::Problems { problems, may_pass: false }
    }

    /// It may be otherwise later though nothing is seen to change.
    pub(super) const fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Folder { .. } | Self::Configuration(_) | Self::Problems { may_pass: true, .. }
        )
    }
}

/// A line each, after a line that there is.
fn lines(problems: &[RuleProblem]) -> String {
    let told = problems.iter().map(|problem| display_untrusted(&problem.to_string()));
    told.flat_map(|line| ["\n".to_owned(), line]).collect()
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
        let is_off = |file: &str| self.disabled.iter().any(|name| name == rule_name(file));
        let (off, on): (Vec<_>, Vec<_>) = files.iter().partition(|(file, _)| is_off(file));
        let (mut rules, found, unreadable) = RuleSet::readable(&on);
        let unread = || own.problems().map(|problem| rule_name(&problem.file));
        let of_files = own.problems().filter(|problem| !is_off(&problem.file)).cloned();
        let mut problems: Vec<RuleProblem> = of_files.chain(found).collect();
        let (overrides, found) = own.overrides();
        problems.extend(found);
        let off_or_bad = off.iter().map(|(file, _)| *file).chain(unreadable).map(rule_name);
        let others: Vec<&str> = off_or_bad.chain(unread()).collect();
        problems.extend(rules.tune(&overrides, &others));
        problems.sort();
        let is_there = |name: &String| files.iter().any(|(file, _)| rule_name(file) == *name);
        let is_unknown = |name: &&String| !is_there(name) && !unread().any(|other| other == *name);
        let unknown: Vec<String> = self.disabled.iter().filter(is_unknown).cloned().collect();
        if !unknown.is_empty() {
            return Err(RulesError::Unknown { names: unknown, problems });
        }
        if !problems.is_empty() {
            let may_pass = own.unread.iter().any(|unread| unread.may_pass);
            return Err(RulesError::Problems { problems, may_pass });
        }
        let mut doubts = doubts(&rules, &on, &overrides);
        let entries: Vec<RuleEntry> = files
            .iter()
            .map(|(file, text)| {
                let path = own.files.iter().find(|(name, ..)| name == file).map(|(.., path)| path);
                let name = rule_name(file);
                let is_shipped = shipped.iter().any(|(file, _)| rule_name(file) == name);
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
                    doubts: doubts.remove(name).unwrap_or_default(),
                }
            })
            .collect();
        let is_off = |file: &str| is_off(file) || overrides.disables(rule_name(file));
        let off: Vec<_> = files.iter().filter(|(file, _)| is_off(file)).copied().collect();
        let (off, ..) = RuleSet::readable(&off);
        Ok(Rulebook { rules: Arc::new(rules), entries, off })
    }

    /// What the folder looks like now; empty for one that cannot be looked at.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.folder.as_deref().map(rule_folder::fingerprint).unwrap_or_default()
    }
}

/// What is doubted of rules only since overrides changed them, by name.
fn doubts(
    rules: &RuleSet,
    files: &[(&str, &str)],
    overrides: &Overrides,
) -> BTreeMap<String, Vec<String>> {
    if overrides.changed() == 0 {
        return BTreeMap::new();
    }
    let (written, ..) = RuleSet::readable(files);
    let lines = |doubts: Vec<RuleProblem>| doubts.iter().map(ToString::to_string).collect();
    let found = rules.inspect_tuned(&written, overrides);
    found.into_iter().map(|(name, doubts)| (name, lines(doubts))).collect()
}

impl Rulebook {
    /// The rule of an entry; none for one that is switched off and cannot be read.
    pub fn rule(&self, name: &str) -> Option<&Rule> {
        self.rules.rules().iter().chain(self.off.rules()).find(|rule| *rule.name == *name)
    }
}
