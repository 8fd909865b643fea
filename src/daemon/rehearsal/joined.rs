//! Records joined to calls, and joined anew where they tell more of their clocks: all of it over what is in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::pipeline::WIDER_MAX;
use crate::correlate::{Clocks, Correlator, Loaded, Need, Outcome, Rejoin, Scope};
use crate::model::{Call, CallChange, CallId, Dialect, Micros, Record, RecordId, RecordKind, Text};

/// How often a day's calls are joined anew, at most. Once is enough where the clocks of logs are what they are.
pub(super) const ROUNDS_MAX: usize = 8;

/// The calls that all of these records tell of; the error says that the clocks of the logs still show themselves to be
/// other ones after so many rounds.
pub(super) fn calls(
    records: &[Arc<Record>],
    clocks: Clocks,
    rounds_max: usize,
) -> Result<Vec<CallChange>, String> {
    let mut correlator = Correlator::new(clocks);
    let mut calls = Calls::default();
    calls.take(correlator.apply(records, Vec::new()));
    let mut rounds = 0;
    loop {
        let stale = correlator.stale_clocks(true);
        if stale.is_empty() {
            return Ok(calls.told());
        }
        if rounds == rounds_max {
            return Err(format!(
                "how far the clocks of these logs are apart does not settle: joined {rounds} times anew, they show \
                 others. Give fewer lines, or lines whose times are surer"
            ));
        }
        rounds += 1;
        for stale in stale {
            let mut rejoin = correlator.begin_rejoin(stale);
            let shelf = Shelf::of(records, &calls, &rejoin);
            for (tool, of_tool) in &shelf.records {
                let count = of_tool.len() as u64;
                for (need, from, to) in Correlator::plan_rejoin(&rejoin, tool, count) {
                    let loaded = shelf.load_around(&correlator, need);
                    correlator.rejoin_loaded(&mut rejoin, loaded, from, to);
                }
            }
            let outcome = correlator.end_rejoin(rejoin);
            calls.take(outcome);
        }
    }
}

/// The calls as they stand.
#[derive(Default)]
struct Calls(BTreeMap<CallId, Arc<Call>>);

impl Calls {
    fn take(&mut self, outcome: Outcome) {
        for old in outcome.changes.iter().filter_map(|change| change.old.as_ref()) {
            self.0.remove(&old.id);
        }
        let new = outcome.changes.into_iter().filter_map(|change| change.new);
        self.0.extend(new.map(|call| (call.id, call)));
    }

    fn told(self) -> Vec<CallChange> {
        self.0.into_values().map(|call| CallChange { old: None, new: Some(call) }).collect()
    }
}

/// What one day's calls are joined anew from, by tool.
struct Shelf {
    records: BTreeMap<Text, Vec<Arc<Record>>>,
    calls: FxHashMap<Text, Vec<Arc<Call>>>,
    replies: FxHashMap<RecordId, Arc<Record>>,
}

impl Shelf {
    fn of(records: &[Arc<Record>], calls: &Calls, rejoin: &Rejoin) -> Self {
        let ((from, to), streams) = (rejoin.loaded_span(), rejoin.streams());
        let is_near = |record: &Record| record.at.is_some_and(|at| (from..=to).contains(&at));
        let is_call = |record: &&Arc<Record>| record.kind == RecordKind::Call;
        let tools: FxHashSet<&str> = records
            .iter()
            .filter(is_call)
            .filter(|record| is_near(record) && streams.contains(&record.stream))
            .filter_map(|record| record.bare_tool())
            .collect();
        let mut shelf = Self {
            records: BTreeMap::new(),
            calls: FxHashMap::default(),
            replies: FxHashMap::default(),
        };
        for record in records.iter().filter(is_call) {
            if let Some(tool) = record.bare_tool().filter(|tool| tools.contains(tool)) {
                shelf.records.entry(tool.into()).or_default().push(Arc::clone(record));
            }
        }
        for call in calls.0.values().filter(|call| tools.contains(call.bare_tool())) {
            shelf.calls.entry(call.bare_tool().into()).or_default().push(Arc::clone(call));
        }
        let replies = records.iter().filter(|record| record.kind == RecordKind::Reply);
        shelf.replies.extend(replies.map(|reply| (reply.id, Arc::clone(reply))));
        shelf
    }

    /// A tool's records with all that they are joined with.
    fn load_around(&self, correlator: &Correlator, need: Need) -> Loaded {
        let mut found = self.load(need);
        for _ in 0..WIDER_MAX {
            let Some(wider) = correlator.widen(&[], &found) else { break };
            found = self.load(wider);
        }
        found
    }

    fn load(&self, need: Need) -> Loaded {
        let is_within = |at: Option<Micros>| {
            at.map_or(need.to.is_none(), |at| at >= need.from && need.to.is_none_or(|to| at <= to))
        };
        let (mut records, mut calls) = (Vec::new(), Vec::new());
        if let Scope::Tool(tool) = &need.of {
            let of_tool = self.records.get(tool).map(Vec::as_slice).unwrap_or_default();
            records.extend(of_tool.iter().filter(|record| is_within(record.at)).cloned());
            // Replies name no tool, and the calls tell whose each is.
            if records.iter().any(|record| record.dialect == Dialect::StdioProxy) {
                let of_tool = self.calls.get(tool).map(Vec::as_slice).unwrap_or_default();
                calls.extend(of_tool.iter().map(|call| Call::clone(call)));
                records.extend(self.replies_of(&calls).filter(|reply| is_within(reply.at)));
            }
        }
        Loaded { need, records, calls }
    }

    fn replies_of<'a>(&'a self, calls: &'a [Call]) -> impl Iterator<Item = Arc<Record>> + 'a {
        let sightings = calls.iter().flat_map(|call| &call.sightings);
        let steps = sightings.flat_map(|sighting| &sighting.steps);
        steps.filter_map(|step| self.replies.get(&step.record).cloned())
    }
}
