//! The rules in force and where each comes from: the built-in files with a user's folder laid over them, changed by the
//! folder's `overrides.toml`, without those that are switched off.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::rule_folder::{self, Fingerprint, RuleFolder};
use crate::detect::{Effort, Overrides, Rule, RuleProblem, RuleSet, merge, rule_name, shipped};
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
    overrides: Overrides,
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
    /// Why the rule, since they changed it, probably does not do what is meant.
    pub doubts: Vec<RuleProblem>,
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
    #[error(
        "reading the rules broke off, which is a fault of Calltrail's: please report it with what its log says"
    )]
    BrokeOff,
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
            Self::Folder { .. }
                | Self::BrokeOff
                | Self::Configuration(_)
                | Self::Problems { may_pass: true, .. }
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
        let before = rules.doubted(&overrides, Effort::Load);
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
        let mut doubts = rules.doubted_since(&before, &overrides);
        let paths: BTreeMap<&str, &PathBuf> =
            own.files.iter().map(|(name, _, path)| (&**name, path)).collect();
        let entries: Vec<RuleEntry> = files
            .iter()
            .map(|(file, text)| {
                let path = paths.get(file).copied();
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
        Ok(Rulebook { rules: Arc::new(rules), entries, off, overrides })
    }

    /// What the folder looks like now; empty for one that cannot be looked at.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.folder.as_deref().map(rule_folder::fingerprint).unwrap_or_default()
    }
}

impl Rulebook {
    /// The rule of an entry; none for one that is switched off and cannot be read.
    pub fn rule(&self, name: &str) -> Option<&Rule> {
        self.all().find(|rule| *rule.name == *name)
    }

    /// All rules that can be read.
    pub(super) fn all(&self) -> impl Iterator<Item = &Rule> {
        self.rules.rules().iter().chain(self.off.rules())
    }

    /// Whether the overrides of both change a rule in the same way.
    pub(super) fn is_changed_like(&self, other: &Self, name: &str) -> bool {
        self.overrides.is_alike(&other.overrides, name)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const RULE: &str =
        "title: Mine\nlogsource: {product: mcp}\ndetection:\n  s: {ran: no}\n  condition: s\n";

    #[test]
    fn one_broken_file_hides_nothing_that_is_wrong_with_the_others() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str| home.path().join(name);
        fs::write(file("broken.yml"), "title: [\n").unwrap();
        fs::write(file("latin.yml"), b"title: \xe9\n").unwrap();
        fs::write(file("wrong.yml"), RULE.replace("ran", "rann")).unwrap();
        let overrides =
            "[broken]\ncount = 1\n[latin]\n[call-brust]\n[call-burst]\ncuont = 2\nlevel = \n";
        fs::write(file("overrides.toml"), overrides).unwrap();
        let wanted = RuleSource {
            folder: Some(home.path().to_path_buf()),
            disabled: vec!["no-such".to_owned()],
        };
        let told = wanted.load().unwrap_err().to_string();
        let starts: Vec<&str> =
            told.lines().skip(1).filter_map(|line| line.split(": ").next()).collect();
        assert!(told.contains("no-such"), "{told}");
        let expected = [
            "broken.yml:1:8",
            "latin.yml:1:8",
            "overrides.toml:4:2",
            "overrides.toml:6:1",
            "overrides.toml:7:9",
            "wrong.yml:4:7",
        ];
        assert_eq!(starts, expected, "{told}");
    }
}
