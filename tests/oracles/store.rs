//! A store in memory: all calls and alerts as they stand, asked as the real one is.

use std::collections::BTreeMap;
use std::sync::Arc;

use calltrail::detect::{Engine, History, HistoryNeed, KnownAlert, RuleSet};
use calltrail::model::{Alert, AlertChange, AlertId, Call, CallChange, Micros};

use super::calls::labels;

/// Takes calls in batches through an engine.
pub(super) struct Shop {
    rules: Arc<RuleSet>,
    engine: Engine,
    calls: Vec<Arc<Call>>,
    pub(super) alerts: BTreeMap<AlertId, Alert>,
}

impl Shop {
    pub(super) fn new(rules: &Arc<RuleSet>) -> Self {
        Self {
            rules: Arc::clone(rules),
            engine: Engine::new(Arc::clone(rules), Arc::new(labels)),
            calls: Vec::new(),
            alerts: BTreeMap::new(),
        }
    }

    /// Forgets what is not stored.
    pub(super) fn restart(&mut self) {
        self.engine = Engine::new(Arc::clone(&self.rules), Arc::new(labels));
        let newest = self.calls.iter().filter_map(|call| call.at).max();
        self.engine.cold(newest, newest);
    }

    pub(super) fn take(&mut self, batch: &[Arc<Call>]) {
        let added = |call: &Arc<Call>| CallChange { old: None, new: Some(Arc::clone(call)) };
        let changes: Vec<CallChange> = batch.iter().map(added).collect();
        let needs = self.engine.plan(&changes);
        let history = needs.into_iter().map(|need| self.answer(need)).collect();
        let told = self.engine.apply(&changes, history);
        self.calls.extend(batch.iter().map(Arc::clone));
        for change in told {
            match change {
                AlertChange::Set { alert, replaces, .. } => {
                    for id in replaces {
                        self.alerts.remove(&id);
                    }
                    self.alerts.insert(alert.id, *alert);
                }
                AlertChange::Retracted { id, .. } => {
                    self.alerts.remove(&id);
                }
            }
        }
    }

    fn answer(&self, need: HistoryNeed) -> History {
        let rule = &self.rules.rules()[need.rule].name;
        let is_listed = |alert: &&Alert| {
            alert.rule == *rule
                && alert.group == need.alert_group
                && alert.last_seen.unwrap() >= need.touched.minus(need.reach_micros)
        };
        let alerts: Vec<KnownAlert> =
            self.alerts.values().filter(is_listed).map(KnownAlert::from).collect();
        let starts = alerts.iter().filter_map(|alert| alert.closing_at);
        let from = starts.fold(need.touched, Micros::min).minus(need.reach_micros);
        let until = need.until(&alerts).unwrap_or(Micros(i64::MAX));
        let is_member = |call: &&Arc<Call>| {
            (from..=until).contains(&call.at.unwrap())
                && need.group.iter().all(|(field, value)| has(call, field, value))
        };
        let calls = self.calls.iter().filter(is_member).cloned().collect();
        History { need, calls, alerts, first_seen: Vec::new() }
    }
}

fn has(call: &Call, field: &str, value: &str) -> bool {
    match field {
        "session" => &*call.session == value,
        "tool.name" => &*call.tool == value,
        "principal" => call.principal.as_deref() == Some(value),
        other => panic!("no rule of these groups by {other}"),
    }
}
