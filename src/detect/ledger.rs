//! A stand-in for the store that holds everything in memory: for the rule files' cases and for
//! tests.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{
    Alert, AlertChange, AlertId, Call, CallChange, CallId, FirstSeen, Micros, Text,
};

use super::engine::Engine;
use super::field::GroupField;
use super::history::{History, HistoryNeed, KnownAlert};
use super::rule::RuleSet;

/// All calls and all alerts, as they stand.
pub(super) struct Ledger {
    rules: Arc<RuleSet>,
    calls: FxHashMap<CallId, Arc<Call>>,
    pub(super) alerts: FxHashMap<AlertId, Alert>,
    /// First calls, as they were told.
    pub(super) first_seen: FxHashMap<(Text, Vec<(Text, Text)>), FirstSeen>,
    /// First calls of an earlier store.
    pub(super) remembered: Vec<FirstSeen>,
    /// Calls that were asked for, over all batches.
    pub(super) read: usize,
    /// Keys that this store was told of, whatever was told.
    told: FxHashSet<(Text, Vec<(Text, Text)>)>,
}

impl Ledger {
    pub(super) fn new(rules: Arc<RuleSet>) -> Self {
        Self {
            rules,
            calls: FxHashMap::default(),
            alerts: FxHashMap::default(),
            first_seen: FxHashMap::default(),
            remembered: Vec::new(),
            read: 0,
            told: FxHashSet::default(),
        }
    }

    /// Takes a batch through an engine, as the shell does: plan, read, apply, write.
    pub(super) fn run(&mut self, engine: &mut Engine, changes: &[CallChange]) -> Vec<AlertChange> {
        let needs = engine.plan(changes);
        let history = needs.into_iter().map(|need| self.answer(need)).collect();
        let told = engine.apply(changes, history);
        for change in changes {
            if let Some(old) = &change.old {
                self.calls.remove(&old.id);
            }
            if let Some(new) = &change.new {
                self.calls.insert(new.id, Arc::clone(new));
            }
        }
        for change in &told {
            self.write(change);
        }
        for fact in engine.take_first_seen() {
            let key = (Text::clone(&fact.rule), fact.group.clone());
            self.told.insert(key.clone());
            if fact.is_gone {
                self.first_seen.remove(&key);
            } else {
                self.first_seen.insert(key, fact);
            }
        }
        told
    }

    /// The newest time of any call, and of those that are not ahead of the clock.
    #[cfg(test)]
    pub(super) fn newest(&self) -> (Option<Micros>, Option<Micros>) {
        let settled = self.calls.values().filter(|call| !super::chain::is_future(call));
        (
            self.calls.values().filter_map(|call| call.at).max(),
            settled.filter_map(|call| call.at).max(),
        )
    }

    fn write(&mut self, change: &AlertChange) {
        match change {
            AlertChange::Set { alert, replaces, .. } => {
                for id in replaces {
                    self.alerts.remove(id);
                }
                self.alerts.insert(alert.id, Alert::clone(alert));
            }
            AlertChange::Retracted { id, .. } => {
                self.alerts.remove(id);
            }
        }
    }

    fn is_told(&self, fact: &FirstSeen) -> bool {
        self.told.contains(&(Text::clone(&fact.rule), fact.group.clone()))
    }

    fn answer(&mut self, need: HistoryNeed) -> History {
        let rule = self.rules.rules.get(need.rule).map(|rule| Text::clone(&rule.name));
        let rule = rule.as_ref();
        let is_listed = |alert: &&Alert| {
            rule.is_some_and(|rule| need.concerns(rule, &alert.rule, &alert.group))
                && alert.last_seen.is_some_and(|at| at >= need.touched.minus(need.reach_micros))
        };
        let alerts: Vec<KnownAlert> =
            self.alerts.values().filter(is_listed).map(KnownAlert::from).collect();
        let starts = alerts.iter().filter_map(|alert| alert.closing_at);
        let from = starts.fold(need.touched, Micros::min).minus(need.reach_micros);
        let until = need.until(&alerts).unwrap_or(Micros(i64::MAX));
        let is_member = |call: &&Arc<Call>| {
            call.at.is_some_and(|at| (from..=until).contains(&at))
                && need.group.iter().all(|(field, value)| {
                    GroupField::parse(field).is_ok_and(|field| field.value(call) == Some(value))
                })
        };
        let calls: Vec<Arc<Call>> = self.calls.values().filter(is_member).cloned().collect();
        self.read += calls.len();
        // What this store was told of a group itself stands in its own calls.
        let first_seen = self.remembered.iter().filter(|fact| {
            Some(&fact.rule) == rule
                && fact.group.split_last().is_some_and(|(_, others)| *others == *need.group)
                && !self.is_told(fact)
        });
        let first_seen = first_seen.cloned().collect();
        History { need, calls, alerts, first_seen }
    }
}
