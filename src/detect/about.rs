//! What people are told of a rule: its type, its stages, its cases, where it stands.

use super::cases::Given;
use super::logs;
use super::matcher::Expr;
use super::rule::{Kind, Rule, RuleSet};
use super::stages::Slot;
use super::tally::Counted;
use crate::model::Dialect;

impl Kind {
    /// The kinds of calls that the rule looks for, in the order of its stages.
    pub(super) fn slots(&self) -> &[Slot] {
        match self {
            Self::Chain(chain) => &chain.slots,
            Self::FirstSeen(first) => std::slice::from_ref(&first.slot),
        }
    }

    pub(super) fn slots_mut(&mut self) -> &mut [Slot] {
        match self {
            Self::Chain(chain) => &mut chain.slots,
            Self::FirstSeen(first) => std::slice::from_mut(&mut first.slot),
        }
    }
}

impl RuleSet {
    /// Leaves these rules in the set and no others.
    pub fn keep(&mut self, is_kept: impl FnMut(&Rule) -> bool) {
        self.rules.retain(is_kept);
    }

    /// Whether the rule asks for the kind of events: one that does not is about calls alone.
    pub(super) fn asks_for_kind(&self, rule: &Rule) -> bool {
        let asks =
            |slot: &Slot| self.detections.get(slot.detection).is_some_and(Expr::asks_for_kind);
        rule.kind.slots().iter().any(asks)
    }
}

impl Rule {
    /// The word of the rule language for what it looks for: `detection`, or the type of its correlation.
    pub const fn type_word(&self) -> &'static str {
        self.type_word
    }

    /// The calls or values that it counts before it fires, where it counts.
    pub fn count_min(&self) -> Option<u64> {
        let Kind::Chain(chain) = &self.kind else { return None };
        chain.counts().find_map(|count| match count.what {
            Counted::Events(_, min) | Counted::Values { min, .. } => Some(min),
            Counted::Share { .. } => None,
        })
    }

    /// How far back from a call others matter to it, in microseconds; none where all of the past does.
    pub fn reach_micros(&self) -> Option<i64> {
        match &self.kind {
            Kind::Chain(chain) => Some(chain.reach_micros()),
            Kind::FirstSeen(_) => None,
        }
    }

    /// The name of the file it was read from, as it was given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Its cases.
    pub fn cases(&self) -> impl Iterator<Item = CaseTold<'_>> {
        self.cases.iter().map(|case| CaseTold {
            name: &case.name,
            fires: !case.fires.is_empty(),
            dialects: match &case.given {
                Given::Events(_) => Vec::new(),
                Given::Logs(logs) => logs::dialects(logs),
            },
        })
    }
}

/// One case of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseTold<'a> {
    pub name: &'a str,
    /// Whether the rule must fire.
    pub fires: bool,
    /// What its raw lines are in; none for a case that describes calls.
    pub dialects: Vec<Dialect>,
}
