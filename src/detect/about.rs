//! What people are told of a rule: its type, its stages, its cases, where it stands.

use super::rule::{Kind, Rule, RuleSet, Stage};

impl Kind {
    /// The stages that calls fill, in order.
    pub(super) fn stages(&self) -> &[Stage] {
        match self {
            Self::Chain(chain) => &chain.stages,
            Self::FirstSeen(first) => std::slice::from_ref(&first.stage),
        }
    }

    pub(super) fn stages_mut(&mut self) -> &mut [Stage] {
        match self {
            Self::Chain(chain) => &mut chain.stages,
            Self::FirstSeen(first) => std::slice::from_mut(&mut first.stage),
        }
    }
}

impl RuleSet {
    /// Leaves these rules in the set and no others.
    pub fn keep(&mut self, is_kept: impl FnMut(&Rule) -> bool) {
        self.rules.retain(is_kept);
    }
}

impl Rule {
    /// The word of the rule language for what it looks for: `detection`, or the type of its correlation.
    pub const fn type_word(&self) -> &'static str {
        match &self.kind {
            Kind::Chain(chain) if chain.stages.len() > 1 => "temporal_ordered",
            Kind::Chain(chain) if chain.count.is_some() => "event_count",
            Kind::Chain(_) => "detection",
            Kind::FirstSeen(_) => "first_seen",
        }
    }

    /// The calls it counts before it fires, where it counts.
    pub const fn count_min(&self) -> Option<u64> {
        match &self.kind {
            Kind::Chain(chain) => match chain.count {
                Some(count) => Some(count.min),
                None => None,
            },
            Kind::FirstSeen(_) => None,
        }
    }

    /// How far back from a call others matter to it, in microseconds; none where all of the past does.
    pub const fn reach_micros(&self) -> Option<i64> {
        match &self.kind {
            Kind::Chain(chain) => Some(chain.reach_micros()),
            Kind::FirstSeen(_) => None,
        }
    }

    /// The name of the file it was read from, as it was given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Its cases: the name of each, and whether it must fire.
    pub fn cases(&self) -> impl Iterator<Item = (&str, bool)> {
        self.cases.iter().map(|case| (case.name.as_str(), !case.fires.is_empty()))
    }
}
