//! What the engine holds at most, and the alert on a group that is too busy.

use crate::model::{Level, Text};

use super::bounds::Bounds;
use super::rule::{Kind, Rule};
use super::stages::{Chain, Order, Slot, Stage};
use super::tally::{Count, Counted};

/// The name of the alerts on groups with very many calls. No rule has it.
pub const STATE_SATURATED: &str = "state-saturated";

/// What is held in memory at most. What goes beyond is read again from the store when it is touched:
/// no bound changes what is found.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "each is the most of something, and says so last")]
pub(super) struct Limits {
    /// Groups of one rule.
    pub(super) groups_max: usize,
    /// Calls over all groups of one rule, with those that open episodes rest on, and a group by itself counted as an
    /// eighth of one; of a first-seen rule, values.
    pub(super) calls_max: usize,
    /// Calls of one group within what its rule looks back over. More of them are told: every batch
    /// that touches the group goes through them.
    pub(super) group_calls_max: u64,
    /// Groups of one rule that were let go to make room and are remembered one by one.
    pub(super) evicted_max: usize,
    /// Values that are remembered of first-seen groups which were let go, some fifty bytes each; what is
    /// touched of others is asked for.
    pub(super) values_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            groups_max: 131_072,
            calls_max: 250_000,
            group_calls_max: 50_000,
            evicted_max: 262_144,
            values_max: 1_000_000,
        }
    }
}

impl Limits {
    /// The rule that tells of the busy groups of another one: a count over its calls in what it looks
    /// back over, grouped as it groups them. None for a rule that looks at nothing but single calls.
    pub(super) fn load(&self, rule: &Rule) -> Option<Rule> {
        let Kind::Chain(chain) = &rule.kind else { return None };
        if chain.is_single() {
            return None;
        }
        let min = self.group_calls_max.saturating_add(1);
        let count = Count {
            timespan_micros: chain.lookback_micros(),
            slots: 1,
            what: Counted::Events(Bounds::at_least(min), min),
        };
        let counting = Chain {
            slots: vec![Slot {
                name: "call".into(),
                detection: 0,
                mark: rule.mark,
                is_excepted: false,
            }],
            stages: vec![Stage { slot: 0, count: Some(count) }],
            order: match chain.order {
                Order::Any => Order::Sequence,
                order => order,
            },
            is_same_event_allowed: false,
            timespan_micros: 0,
            quiet_micros: chain.quiet_micros,
            inner: Vec::new(),
        };
        let names = rule.group_by.iter().map(Text::clone);
        Some(Rule {
            name: STATE_SATURATED.into(),
            title: "A group of calls is too busy".to_owned(),
            id: None,
            status: None,
            description: String::new(),
            level: Level::Medium,
            tags: vec!["owasp.mcp08".into()],
            falsepositives: Vec::new(),
            references: Vec::new(),
            why: format!(
                "The group has more than {} calls within the time that its rule looks back over. All of them were \
                 looked at and nothing was missed, but each batch that touches the group takes longer, which whoever \
                 makes them may want. See who makes them, and stop it; if they are wanted, give the rule a shorter \
                 timespan or an exception for the caller in overrides.toml.",
                self.group_calls_max
            ),
            file: rule.file.clone(),
            mark: rule.mark,
            group_by: std::iter::once(Text::from("rule")).chain(names).collect(),
            type_word: "event_count",
            stage_names: Vec::new(),
            is_grouped: true,
            groupings: Vec::new(),
            kind: Kind::Chain(counting),
            cases: Vec::new(),
        })
    }
}
