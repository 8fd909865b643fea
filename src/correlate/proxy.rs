//! One stdio proxy's stream: replies carry no tool, so they go to the requests that wait, first in first out.

use std::collections::VecDeque;
use std::sync::Arc;

use super::unit::{Unit, record_order};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{Micros, OutcomeClass, Record, RecordId, RecordKind, Step};

/// A request without a reply for so long is given up: its reply was lost.
const WAIT_MICROS_MAX: i64 = Micros::HOUR;

#[derive(Default)]
pub(super) struct ProxyState {
    /// In order.
    records: Vec<Seen>,
    /// Everything from here on is held; none: everything.
    floor: Option<Micros>,
}

struct Seen {
    record: Arc<Record>,
    /// Requests still waiting after this record; at zero a new run begins.
    waiting: usize,
    /// The unit that began with this record.
    unit: Option<Unit>,
}

/// A request that waits for its reply.
struct Waiting {
    index: usize,
    record: Arc<Record>,
}

impl ProxyState {
    /// Takes records in and says which units are gone and which are new.
    pub(super) fn add(&mut self, mut records: Vec<Arc<Record>>) -> (Vec<Unit>, Vec<Unit>) {
        records.sort_by_key(|record| record_order(record));
        let Some(first) = records.first().map(|record| record_order(record)) else {
            return (Vec::new(), Vec::new());
        };
        let split = self.records.partition_point(|seen| record_order(&seen.record) < first);
        // The run that holds the first new record began after the last moment at which nothing waited.
        let start = self.records[..split]
            .iter()
            .rposition(|seen| seen.waiting == 0)
            .map_or(0, |index| index + 1);
        let old = self.records.split_off(start);
        let mut gone: Vec<Unit> = old.iter().filter_map(|seen| seen.unit.clone()).collect();
        let mut all: Vec<Arc<Record>> =
            old.into_iter().map(|seen| seen.record).chain(records).collect();
        all.sort_by_key(|record| record_order(record));
        all.dedup_by_key(|record| record.id);
        let rerun = run(all);
        let mut new: Vec<Unit> = rerun.iter().filter_map(|seen| seen.unit.clone()).collect();
        // Most of the run is as it was, and may be forgotten elsewhere.
        let before: FxHashMap<RecordId, Vec<Step>> =
            gone.iter().map(|unit| (unit.base.id, unit.steps.clone())).collect();
        new.retain(|unit| before.get(&unit.base.id) != Some(&unit.steps));
        let changed: FxHashSet<RecordId> = new.iter().map(|unit| unit.base.id).collect();
        gone.retain(|unit| changed.contains(&unit.base.id));
        self.records.extend(rerun);
        (gone, new)
    }

    pub(super) fn oldest(&self) -> Option<Micros> {
        self.records.first().map(|seen| record_order(&seen.record).0)
    }

    pub(super) const fn floor(&self) -> Option<Micros> {
        self.floor
    }

    /// What was put in is whole from here on.
    pub(super) fn hold_from(&mut self, floor: Micros) {
        self.floor = Some(floor);
    }

    /// Forgets runs that ended before `floor`.
    pub(super) fn forget(&mut self, floor: Micros) {
        let floor = self.floor.map_or(floor, |known| known.max(floor));
        self.floor = Some(floor);
        let old = self.records.partition_point(|seen| record_order(&seen.record).0 < floor);
        let given_up = self
            .records
            .partition_point(|seen| record_order(&seen.record).0 < floor.minus(WAIT_MICROS_MAX));
        let ended = self.records[..old].iter().rposition(|seen| seen.waiting == 0);
        self.records.drain(..given_up.max(ended.map_or(0, |end| end + 1)));
    }
}

/// Pairs requests and replies in order.
fn run(records: Vec<Arc<Record>>) -> Vec<Seen> {
    let mut seen: Vec<Seen> = Vec::with_capacity(records.len());
    let mut queue: VecDeque<Waiting> = VecDeque::new();
    for (index, record) in records.into_iter().enumerate() {
        let now = record.at;
        // The queue is in order of time, so what is given up stands at its front.
        while queue.front().is_some_and(|waiting| is_given_up(waiting.record.at, now)) {
            queue.pop_front();
        }
        let mut unit = None;
        match record.kind {
            RecordKind::Call => {
                unit = Some(Unit::single(Arc::clone(&record)));
                // The proxy answers a denied request itself, and logs no reply.
                if record.class == OutcomeClass::Approved {
                    queue.push_back(Waiting { index, record: Arc::clone(&record) });
                }
            }
            RecordKind::Request => {
                queue.push_back(Waiting { index, record: Arc::clone(&record) });
            }
            RecordKind::Reply => answer(&record, &mut queue, &mut seen),
            RecordKind::Context => {}
        }
        seen.push(Seen { record, waiting: queue.len(), unit });
    }
    seen
}

/// Records without a time come last, and answer only each other.
fn is_given_up(asked: Option<Micros>, now: Option<Micros>) -> bool {
    match (asked, now) {
        (Some(asked), Some(now)) => now.since(asked) > WAIT_MICROS_MAX,
        (asked, now) => asked.is_none() != now.is_none(),
    }
}

/// Gives a reply to the request with its id, else to the one that has waited longest. With several waiting and no id
/// it is anyone's, so its outcome is not believed.
fn answer(reply: &Arc<Record>, queue: &mut VecDeque<Waiting>, seen: &mut [Seen]) {
    let by_id = reply.request_id.as_ref().and_then(|id| {
        queue.iter().position(|waiting| waiting.record.request_id.as_ref() == Some(id))
    });
    let several = queue.len() > 1;
    let Some(waiting) = queue.remove(by_id.unwrap_or(0)) else { return };
    let Some(unit) = seen.get_mut(waiting.index).and_then(|seen| seen.unit.as_mut()) else {
        return;
    };
    unit.push(reply);
    if by_id.is_none()
        && several
        && reply.request_id.is_none()
        && let Some(step) = unit.steps.last_mut()
    {
        step.class = OutcomeClass::Unknown;
    }
}
