//! The rules as the pages tell of them. The daemon fills it in; nothing here measures.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::Level;

/// All rules, in force or not, and what those in force cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesShown {
    /// By name.
    pub rules: Arc<Vec<RuleShown>>,
    /// Since the rules were taken over, by the rule's name.
    pub loads: Arc<BTreeMap<String, RuleLoad>>,
    /// Why the files that are there now were refused, a line each; none where these rules are theirs.
    pub refused: Option<String>,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleShown {
    pub name: String,
    pub title: String,
    /// None for a rule that cannot be read.
    pub level: Option<Level>,
    /// What it looks for, in the word of the rule language.
    pub kind: &'static str,
    pub group_by: Vec<String>,
    /// The calls that it counts before it fires.
    pub count: Option<u64>,
    pub timespan_micros: Option<i64>,
    pub status: Option<String>,
    pub description: String,
    pub why: String,
    pub falsepositives: Vec<String>,
    pub tags: Vec<String>,
    pub references: Vec<String>,
    /// Built in, or the file.
    pub origin: String,
    /// The file as it is.
    pub text: String,
    pub cases: Vec<CaseShown>,
    pub is_disabled: bool,
    /// What the overrides change, a phrase each.
    pub changes: Vec<String>,
    /// Why it probably does not do what is meant, since they changed it: a line each.
    pub doubts: Vec<String>,
}

/// One case of a rule's tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaseShown {
    pub name: String,
    /// Whether the rule must fire.
    pub fires: bool,
    /// The formats of its raw lines, by name; empty for a case that describes calls.
    pub dialects: String,
}

/// What one rule has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleLoad {
    /// Calls looked at; a call that changed is looked at twice.
    pub looked_at: u64,
    /// Those of them that fit.
    pub fitting: u64,
    /// Time spent, in nanoseconds.
    pub nanos: u64,
    /// Groups held in memory.
    pub groups: u64,
    /// What they hold: calls, or values of a first-seen rule, and one for each group.
    pub held: u64,
    /// Groups that were let go to make room.
    pub let_go: u64,
}

impl RulesShown {
    pub(crate) fn rule(&self, name: &str) -> Option<&RuleShown> {
        self.rules.iter().find(|rule| rule.name == name)
    }

    pub(crate) fn load(&self, name: &str) -> RuleLoad {
        self.loads.get(name).copied().unwrap_or_default()
    }

    /// Time spent on all rules, in nanoseconds.
    pub(crate) fn nanos(&self) -> u64 {
        self.loads.values().map(|load| load.nanos).sum()
    }
}
