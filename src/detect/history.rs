//! What the engine asks of the store, and what it gets.

use std::sync::Arc;

use crate::model::{Alert, AlertId, Call, CallId, FirstSeen, Micros, Text};

use super::episode::Reported;
use super::limits::STATE_SATURATED;

/// What has to be read from the store before a batch can be applied: the past of one group of one
/// rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryNeed {
    /// Index into the rule set's rules.
    pub rule: usize,
    /// Fields and the values that the calls (and the alerts' groups) must have. For a first-seen
    /// rule this is the group without its last field, whose values are all wanted.
    pub group: Vec<(Text, Text)>,
    /// The group as alerts name it: the same, unless the rule has aliases for its fields. A rule whose
    /// calls are grouped by different fields has a need for each of them.
    pub alert_group: Vec<(Text, Text)>,
    /// The earliest time that the batch touches; before everything where all of the past is wanted.
    pub touched: Micros,
    /// When the batch first touches the group at this part of its past; tells the needs of one group
    /// apart.
    pub since: Micros,
    /// How far before `touched`, and before the first close of the earliest listed alert, calls
    /// still matter.
    pub reach_micros: i64,
    /// The latest time at which a match can close that rests on what the batch changes in the past.
    pub felt_until: Micros,
    /// Matches at most this far apart, in microseconds, are one alert.
    pub quiet_micros: i64,
    /// From here on the group is in memory, or is not asked for yet.
    pub settled_before: Micros,
    /// All calls of the group are wanted, however old.
    pub whole: bool,
    /// The store has no call of the group, so that only what is remembered of it is wanted.
    pub only_remembered: bool,
}

impl HistoryNeed {
    /// Up to when calls are wanted, given all alerts that the answer lists: up to the end of the
    /// run of matches that the batch can change. None: to the end of time.
    pub fn until(&self, alerts: &[KnownAlert]) -> Option<Micros> {
        if self.whole {
            return None;
        }
        let mut spans: Vec<(Micros, Micros)> =
            alerts.iter().filter_map(|alert| Some((alert.closing_at?, alert.last_seen?))).collect();
        spans.sort_unstable();
        // A change can move the cuts of a run that is longer than an episode can be.
        let until = spans.into_iter().fold(self.felt_until, |until, (first, last)| {
            if first <= until.plus(self.quiet_micros) { until.max(last) } else { until }
        });
        (until.plus(self.quiet_micros) < self.settled_before).then_some(until)
    }

    /// Whether an alert with that group has to be in the answer, as far as its group goes: it is one
    /// of the rule in the group that is asked for, or tells how busy that group is. `rule` is the
    /// name of the need's rule, `of` that of the alert's.
    pub fn concerns(&self, rule: &str, of: &str, group: &[(Text, Text)]) -> bool {
        let is_of_load = of == STATE_SATURATED
            && group.iter().any(|(name, value)| &**name == "rule" && &**value == rule);
        (of == rule || is_of_load) && self.alert_group.iter().all(|pair| group.contains(pair))
    }
}

impl History {
    /// From when on the answer holds the group's calls.
    fn from(&self) -> Micros {
        let starts = self.alerts.iter().filter_map(|alert| alert.closing_at);
        starts.fold(self.need.touched, Micros::min).minus(self.need.reach_micros)
    }

    /// Whether the answer reaches to where a later one of the same group begins. One without an end
    /// takes everything along.
    pub(super) fn meets(&self, later: Option<&Self>) -> bool {
        match (self.need.until(&self.alerts), later) {
            (None, _) => true,
            (Some(until), Some(later)) => until >= later.from(),
            (Some(_), None) => false,
        }
    }

    /// Takes a later answer of the same group in.
    pub(super) fn join(&mut self, later: Self) {
        self.need.felt_until = self.need.felt_until.max(later.need.felt_until);
        self.calls.extend(later.calls);
        for alert in later.alerts {
            if !self.alerts.iter().any(|known| known.id == alert.id) {
                self.alerts.push(alert);
            }
        }
    }
}

/// The answer to a need: the group as it stands in the store, before the batch.
#[derive(Clone, Debug)]
pub struct History {
    pub need: HistoryNeed,
    /// All calls of the group from `min(touched, closing_at of the earliest listed alert) - reach`
    /// to [`HistoryNeed::until`], in any order. Calls that the rule does not ask for do no harm.
    pub calls: Vec<Arc<Call>>,
    /// The alerts of the rule and group ([`HistoryNeed::concerns`]) that are not retracted, with
    /// `last_seen` no earlier than `touched - reach`. Where `whole` is set: all alerts of the rule
    /// whose group holds the need's fields and values.
    pub alerts: Vec<KnownAlert>,
    /// For a first-seen rule: what is remembered of first calls that an earlier database had.
    pub first_seen: Vec<FirstSeen>,
}

/// An alert as it stands in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownAlert {
    pub id: AlertId,
    /// The closing call of the first match, and its time.
    pub closing: CallId,
    pub closing_at: Option<Micros>,
    pub first_seen: Option<Micros>,
    pub last_seen: Option<Micros>,
    pub count: u64,
    /// It tells how busy the group is, and is none of the rule's own.
    pub is_of_load: bool,
}

impl From<&Alert> for KnownAlert {
    fn from(alert: &Alert) -> Self {
        Self {
            id: alert.id,
            closing: alert.closing,
            closing_at: alert.closing_at,
            first_seen: alert.first_seen,
            last_seen: alert.last_seen,
            count: alert.count,
            is_of_load: *alert.rule == *STATE_SATURATED,
        }
    }
}

impl KnownAlert {
    /// None for an alert on a call without a time, which is in no group's window.
    pub(super) fn reported(&self) -> Option<Reported> {
        Some(Reported {
            id: self.id,
            closing: self.closing,
            closing_at: self.closing_at?,
            first_seen: self.first_seen?,
            last_seen: self.last_seen?,
            count: self.count,
            fingerprint: None,
        })
    }
}
