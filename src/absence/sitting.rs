//! One sitting: every call that may have become unwitnessed, or may no longer be, is judged as it is stored.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::{
    Absence, DAY_MINUTES, Heard, Spans, TOLERANCE_MINUTES, end_of, is_lone, minute, start_of,
    unwitnessed,
};
use crate::model::{
    Call, CallChange, Discrepancy, IngestCode, IngestEvent, Micros, RecordId, Text, Witness,
};

/// What is judged at a time, and what it showed of logs that fell silent.
#[derive(Debug)]
pub struct Sitting {
    due: Spans,
    /// (log, minute of its last record) for every call that a silent log does not witness.
    silent: BTreeSet<(Text, i64)>,
}

/// Clients' records that memory does not hold: of these logs, in these minutes, ends included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeardNeed {
    pub streams: FxHashSet<Text>,
    from: i64,
    to: i64,
}

impl HeardNeed {
    pub const fn from(&self) -> Micros {
        start_of(self.from)
    }

    pub const fn to(&self) -> Micros {
        end_of(self.to)
    }
}

impl Absence {
    /// What is to be judged; none if nothing is.
    pub fn sit(&mut self) -> Option<Sitting> {
        self.close();
        if self.due.is_empty() {
            return None;
        }
        let mut due = std::mem::take(&mut self.due);
        // A silence is known again by all calls that could show it.
        let mut grew = true;
        while std::mem::take(&mut grew) {
            for (from, to) in self.silences.keys().map(|(_, last)| shown_by(*last)) {
                if due.meets(from, to) && !due.covers(from, to) {
                    due.add(from, to);
                    grew = true;
                }
            }
        }
        Some(Sitting { due, silent: BTreeSet::new() })
    }

    /// Up to which time silence is judged.
    pub fn closed_at(&self) -> Option<Micros> {
        self.closed.map(start_of)
    }

    /// Marks the calls that lie a day back by now and that a client's log, alive until then, does not follow.
    fn close(&mut self) {
        let Some(horizon) = self.horizon.filter(|horizon| self.closed < Some(*horizon)) else {
            return;
        };
        let closed = self.closed.replace(horizon);
        let to = horizon - DAY_MINUTES - 1;
        // Before that there is no call to judge: a pair that begins marks what lies behind it.
        let from = closed.map_or(to, |closed| closed - DAY_MINUTES);
        let mut ended = Spans::default();
        self.lone.common(from, to, &mut ended);
        for (from, to) in ended.iter() {
            if !self.heard.holds(from - DAY_MINUTES) {
                self.due.add(from, to);
                continue;
            }
            for upper in self.pairs.uppers() {
                close_one(&self.heard, upper, (from, to), &mut self.due);
            }
        }
    }

    fn is_closed(&self, at: i64) -> bool {
        self.closed.is_some_and(|closed| closed > at + DAY_MINUTES)
    }

    /// What has to be looked up before these calls can be judged.
    pub fn plan(&self, calls: &[Call]) -> Option<HeardNeed> {
        let mut need: Option<HeardNeed> = None;
        for call in calls.iter().filter(|call| is_lone(call)) {
            let Some(at) = call.at.map(minute).filter(|at| !self.heard.holds(at - DAY_MINUTES))
            else {
                continue;
            };
            for upper in self.pairs.expected(call) {
                if goes_on(at, self.heard.after(&upper, at + TOLERANCE_MINUTES)) {
                    continue;
                }
                let (from, to) = (at - DAY_MINUTES, at + DAY_MINUTES);
                let need = need.get_or_insert(HeardNeed { from, to, ..HeardNeed::default() });
                (need.from, need.to) = (need.from.min(from), need.to.max(to));
                need.streams.insert(upper);
            }
        }
        need
    }
}

/// The minutes from which a log's last record makes calls show that it fell silent.
const fn shown_by(last: i64) -> (i64, i64) {
    (last - TOLERANCE_MINUTES + 1, last + DAY_MINUTES)
}

/// Whether a log that has a record then went on after a call.
fn goes_on(call: i64, next: Option<i64>) -> bool {
    next.is_some_and(|next| next <= call + DAY_MINUTES)
}

/// Adds those minutes of `from..=to` after which a log has nothing for a day, though it was alive the day before.
fn close_one(heard: &Heard, upper: &str, (from, to): (i64, i64), due: &mut Spans) {
    let mut at = from;
    while at <= to {
        let next = heard.after(upper, at + TOLERANCE_MINUTES);
        if let Some(next) = next.filter(|_| goes_on(at, next)) {
            at = next - TOLERANCE_MINUTES + 1;
            continue;
        }
        let end = next.map_or(to, |next| to.min(next - DAY_MINUTES - 1));
        if let Some(last) = heard.before(upper, at + TOLERANCE_MINUTES) {
            due.add(at, end.min(last + DAY_MINUTES));
        }
        at = end + 1;
    }
}

impl Sitting {
    /// The minutes whose calls are to be judged, as stretches with both ends included.
    pub fn due(&self) -> impl Iterator<Item = (Micros, Micros)> + '_ {
        self.due.iter().map(|(from, to)| (start_of(from), end_of(to)))
    }

    /// Judges calls as they are stored; `more` answers [`Absence::plan`].
    pub fn judge(
        &mut self,
        known: &mut Absence,
        calls: Vec<Call>,
        more: &Heard,
    ) -> Vec<CallChange> {
        let mut changes = Vec::new();
        for call in calls {
            let found = self.of_call(known, &call, more);
            if unwitnessed(&call) == found {
                continue;
            }
            if let Some(at) = call.at.filter(|_| !found.is_empty()) {
                let (first, last) = known.marked.unwrap_or((at, at));
                known.marked = Some((first.min(at), last.max(at)));
            }
            let mut new = call.clone();
            new.discrepancies.retain(|found| !matches!(found, Discrepancy::Unwitnessed { .. }));
            new.discrepancies.extend(found);
            changes.push(CallChange { old: Some(Arc::new(call)), new: Some(Arc::new(new)) });
        }
        changes
    }

    fn of_call(&mut self, known: &Absence, call: &Call, more: &Heard) -> Vec<Discrepancy> {
        let mut found = Vec::new();
        let Some(at) = call.at.map(minute).filter(|_| is_lone(call)) else { return found };
        for stream in known.pairs.expected(call) {
            let from = at + TOLERANCE_MINUTES;
            let next =
                known.heard.after(&stream, from).into_iter().chain(more.after(&stream, from));
            if goes_on(at, next.min()) {
                found.push(Discrepancy::Unwitnessed { by: Witness::Client, stream });
            } else if known.is_closed(at)
                && let Some(last) =
                    known.heard.before(&stream, from).max(more.before(&stream, from))
                && last >= at - DAY_MINUTES
            {
                self.silent.insert((stream, last));
            }
        }
        found
    }

    /// Ends the sitting: logs that have fallen silent, and those that were told and have not.
    pub fn end(self, known: &mut Absence) -> Vec<CallChange> {
        let mut changes = Vec::new();
        let is_gone = |key: &(Text, i64)| {
            let (from, to) = shown_by(key.1);
            self.due.meets(from, to) && !self.silent.contains(key)
        };
        let gone: Vec<(Text, i64)> =
            known.silences.keys().filter(|key| is_gone(key)).cloned().collect();
        for key in gone {
            let old = known.silences.remove(&key);
            changes.push(CallChange { old, new: None });
        }
        for key in self.silent {
            if let Entry::Vacant(entry) = known.silences.entry(key) {
                let (stream, last) = entry.key();
                let event = Arc::new(silence(stream, *last).to_call());
                changes.push(CallChange { old: None, new: Some(Arc::clone(&event)) });
                entry.insert(event);
            }
        }
        changes
    }
}

/// That a log has said nothing for a day after this minute; the same event however often it is noticed.
fn silence(stream: &Text, last: i64) -> IngestEvent {
    IngestEvent {
        code: IngestCode::WitnessSilent,
        at: start_of(last + DAY_MINUTES),
        stream: Text::clone(stream),
        position: RecordId { generation: 0, offset: 0, index: 0 },
        bytes: 0,
        seconds: (DAY_MINUTES * Micros::MINUTE / Micros::SECOND).cast_unsigned(),
        more: 0,
        line: None,
    }
}
