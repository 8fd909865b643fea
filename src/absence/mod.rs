//! Absence: calls that ran and that the client they came from never logged, although its log went on.
//!
//! A client's log is missed only where it was there before: a *pair* is a log near the work and a client's log that
//! have told of one call together. Everything here is counted in whole minutes, so that what is known of a log's life
//! is a small set. A call of a pair that no client tells of is *unwitnessed* when the client's log has a record in one
//! of the minutes from the second after the call to a day after it; where it has none though other logs went on for a
//! day, the client's log fell silent, which is said once of the log and not of each call.
//!
//! [`Absence::note`] hears of every stored batch and marks the minutes whose calls may have to be judged anew. A
//! [`Sitting`] then judges them as they are stored: what stands at rest depends on what is stored alone.

mod heard;
mod pairs;
mod sitting;
mod span;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{
    Call, CallChange, CallId, Discrepancy, EventKind, Micros, PairFact, Ran, Record, Text,
    TimeQuality, Witness, WitnessPair,
};
pub use heard::Heard;
pub use sitting::{HeardNeed, Sitting};

use pairs::Pairs;
use span::Spans;

/// From how many minutes after a call on a client's record shows that its log went on: a client may log a call when it
/// is over, its clock may be off by the better part of a minute, and five seconds are what joins allow.
const TOLERANCE_MINUTES: i64 = 2;
/// A day: how long a client's log may take to go on, and how long ago it may have been alive to be missed.
const DAY_MINUTES: i64 = 24 * 60;
/// Clients' logs that one call is judged against, those first that have been paired for longest.
const UPPERS_MAX: usize = 8;

/// What is known of pairs and of the life of clients' logs, and what has to be judged.
#[derive(Debug)]
pub struct Absence {
    pairs: Pairs,
    heard: Heard,
    /// Minutes that may hold calls that no client tells of, by logs that are in pairs: few, where all is well.
    lone: Spans,
    /// The newest minute of any call.
    newest_call: Option<i64>,
    /// Minutes whose calls are to be judged.
    due: Spans,
    /// Pairs that the call which began them may no longer show.
    suspects: FxHashSet<WitnessPair>,
    /// Logs that fell silent, as told: by log and the minute of its last record.
    silences: BTreeMap<(Text, i64), Arc<Call>>,
    /// The newest minute that any record has.
    horizon: Option<i64>,
    /// Up to where silence was judged.
    closed: Option<i64>,
    /// From the first to the last call that was ever found to be unwitnessed.
    marked: Option<(Micros, Micros)>,
}

/// What was known when the store was last open.
#[derive(Debug, Default)]
pub struct Resumed {
    pub pairs: Vec<PairFact>,
    /// (log, minute) of clients' records, all of them from `heard_from` on.
    pub heard: Vec<(Text, i64)>,
    pub heard_from: Option<i64>,
    /// The events that tell of silent logs.
    pub silences: Vec<Call>,
    /// The newest time of any record that has one of its own.
    pub newest: Option<Micros>,
    /// The newest time of any call, those ahead of the clock included.
    pub newest_call: Option<Micros>,
    /// Up to which time silence was judged.
    pub closed: Option<Micros>,
    /// From the first to the last call that is unwitnessed.
    pub marked: Option<(Micros, Micros)>,
}

impl Absence {
    pub fn resume(known: Resumed) -> Self {
        let mut pairs = Pairs::default();
        for fact in known.pairs {
            pairs.set(&fact.pair, fact.first_at);
        }
        drop(pairs.take_changed());
        let silence = |event: Call| {
            let last = minute(event.at?) - DAY_MINUTES;
            Some(((Text::clone(&event.stream), last), Arc::new(event)))
        };
        let mut heard = Heard::from(known.heard_from);
        for (stream, at) in known.heard {
            heard.add(&stream, at);
        }
        // Of what was stored before, nobody knows where such calls are.
        let mut lone = Spans::default();
        if let Some(newest) = known.newest_call {
            lone.add(i64::MIN, minute(newest));
        }
        Self {
            pairs,
            heard,
            lone,
            newest_call: known.newest_call.map(minute),
            due: Spans::default(),
            suspects: FxHashSet::default(),
            silences: known.silences.into_iter().filter_map(silence).collect(),
            horizon: known.newest.map(minute),
            closed: known.closed.map(minute),
            marked: known.marked,
        }
    }

    /// Hears of a batch that was stored.
    pub fn note(&mut self, changes: &[CallChange], records: &[Arc<Record>]) {
        self.note_records(records);
        for change in changes {
            self.note_call(change);
        }
    }

    /// Hears again of clients' records, by log and minute, that were stored and not judged before the end.
    pub fn note_again(&mut self, minutes: &[(Text, i64)]) {
        for (stream, at) in minutes {
            self.horizon = self.horizon.max(Some(*at));
            self.heard.add(stream, *at);
            self.note_minute(stream, *at);
        }
    }

    /// Whether everything that was noted is judged.
    pub fn is_settled(&self) -> bool {
        self.due.is_empty() && self.suspects.is_empty() && !self.pairs.is_changed()
    }

    /// Clients' logs with new records, and the newest time. Neighbours in a batch mostly share log and minute.
    fn note_records(&mut self, records: &[Arc<Record>]) {
        let mut last: Option<(&Text, i64)> = None;
        let mut fresh: Vec<(&Text, i64)> = Vec::new();
        for record in records.iter().filter(|record| record.time_quality == TimeQuality::Own) {
            let Some(at) = record.at.map(minute) else { continue };
            self.horizon = self.horizon.max(Some(at));
            if is_upper(record.witness) && last != Some((&record.stream, at)) {
                last = Some((&record.stream, at));
                if self.heard.add(&record.stream, at) {
                    fresh.push((&record.stream, at));
                }
            }
        }
        for (stream, at) in fresh {
            self.note_minute(stream, at);
        }
        self.heard.forget(self.horizon.unwrap_or(i64::MIN));
    }

    /// A client's log has a record in this minute: calls between it and the log's record before have been seen to go
    /// unwitnessed, and a silence that was told may be none.
    fn note_minute(&mut self, stream: &Text, at: i64) {
        if !self.pairs.knows_upper(stream) {
            return;
        }
        let earliest = at - DAY_MINUTES;
        let before = self.heard.before(stream, at).map_or(earliest, |before| before.max(earliest));
        let unseen = (before - TOLERANCE_MINUTES + 1, at - TOLERANCE_MINUTES);
        self.lone.common(unseen.0, unseen.1, &mut self.due);
        if let Some(closed) = self.closed {
            let until = at + DAY_MINUTES;
            let until = until.min(closed - DAY_MINUTES);
            self.lone.common(at - TOLERANCE_MINUTES + 1, until, &mut self.due);
        }
    }

    fn note_call(&mut self, change: &CallChange) {
        for call in [&change.old, &change.new].into_iter().flatten() {
            let Some(at) = call.at else { continue };
            self.newest_call = self.newest_call.max(Some(minute(at)));
            if is_lone(call) && self.pairs.knows_lower(call) {
                self.lone.add(minute(at), minute(at));
                // Before any log went on behind it nothing can be missed: the client's record that does so marks it.
                if self.horizon.is_some_and(|horizon| minute(at) + TOLERANCE_MINUTES <= horizon) {
                    self.due.add(minute(at), minute(at));
                }
            }
        }
        if let Some((at, joints)) = change.old.as_ref().and_then(|old| joints(old)) {
            let lost = joints.into_iter().filter(|pair| self.pairs.first_at(pair) == Some(at));
            self.suspects.extend(lost);
        }
        if let Some((at, joints)) = change.new.as_ref().and_then(|new| joints(new)) {
            for pair in joints {
                if self.pairs.first_at(&pair) == Some(at) {
                    self.suspects.remove(&pair);
                } else if self.pairs.first_at(&pair).is_none_or(|first| at < first) {
                    self.suspects.remove(&pair);
                    self.set_first(&pair, Some(at));
                }
            }
        }
    }

    /// The pairs whose first call has to be looked up, with its time: it is no longer what it was.
    pub fn suspects(&self) -> Vec<(WitnessPair, Micros)> {
        let began = |pair: &WitnessPair| {
            (pair.clone(), self.pairs.first_at(pair).unwrap_or(Micros(i64::MIN / 2)))
        };
        let mut suspects: Vec<(WitnessPair, Micros)> = self.suspects.iter().map(began).collect();
        suspects.sort_unstable();
        suspects
    }

    /// Answers for a pair of [`Absence::suspects`]: when a call first showed it, if one does.
    pub fn clear(&mut self, pair: &WitnessPair, first_at: Option<Micros>) {
        self.suspects.remove(pair);
        self.set_first(pair, first_at);
    }

    /// The pairs that changed since they were last asked for, to be stored.
    pub fn take_changed_pairs(&mut self) -> Vec<PairFact> {
        self.pairs.take_changed()
    }

    /// Whether so many pairs are known that no further ones are learned.
    pub fn is_full(&self) -> bool {
        self.pairs.is_full()
    }

    /// Calls after a pair's beginning are judged by it; where it moves, those between are judged anew.
    fn set_first(&mut self, pair: &WitnessPair, first_at: Option<Micros>) {
        let old = self.pairs.set(pair, first_at);
        if old == first_at {
            return;
        }
        let heard_until = self.heard.last(&pair.upper).map_or(i64::MAX, |last| last + DAY_MINUTES);
        let Some(last) = self.horizon.map(|horizon| horizon.min(heard_until)) else { return };
        let (from, to) = match (old, first_at) {
            (Some(left), Some(right)) => (minute(left.min(right)), minute(left.max(right))),
            (Some(only), None) | (None, Some(only)) => (minute(only), last),
            (None, None) => return,
        };
        self.due.add(from, to);
        // What came before the log was in a pair was not marked.
        self.lone.add(from, self.newest_call.unwrap_or(to).max(to));
    }

    /// The logs near the work that are in pairs.
    pub fn lowers(&self) -> impl Iterator<Item = &Text> {
        self.pairs.lowers()
    }

    /// Of these changes, the calls before that may be stored as unwitnessed, which correlation knows nothing of.
    pub fn may_be_marked(&self, changes: &[CallChange]) -> Vec<(CallId, Micros)> {
        let Some((first, last)) = self.marked else { return Vec::new() };
        let of_change = |change: &CallChange| {
            let old = change.old.as_ref().filter(|old| is_lone(old))?;
            let at = old.at.filter(|at| (first..=last).contains(at))?;
            Some((old.id, at))
        };
        changes.iter().filter_map(of_change).collect()
    }
}

/// Puts the calls before as they are stored, and what was found of them on the calls after, until those are judged.
pub fn carry_over(changes: &mut [CallChange], stored: &[Call]) {
    let by_id: FxHashMap<CallId, &Call> = stored.iter().map(|call| (call.id, call)).collect();
    for change in changes {
        let Some(old) = &mut change.old else { continue };
        let Some(stored) = by_id.get(&old.id) else { continue };
        let found = unwitnessed(stored);
        if found.is_empty() {
            continue;
        }
        Arc::make_mut(old).discrepancies.clone_from(&stored.discrepancies);
        if let Some(new) = change.new.as_mut().filter(|new| is_lone(new) && new.at == stored.at) {
            Arc::make_mut(new).discrepancies.extend(found);
        }
    }
}

fn unwitnessed(call: &Call) -> Vec<Discrepancy> {
    let found = call.discrepancies.iter();
    found.filter(|found| matches!(found, Discrepancy::Unwitnessed { .. })).cloned().collect()
}

/// A call that ran and that no client tells of.
fn is_lone(call: &Call) -> bool {
    call.kind == EventKind::Call
        && call.ran == Ran::Yes
        && !call.sightings.iter().any(|sighting| is_upper(sighting.witness))
}

const fn is_upper(witness: Witness) -> bool {
    matches!(witness, Witness::Client | Witness::Transcript)
}

/// The pairs that a call shows, and when.
fn joints(call: &Call) -> Option<(Micros, Vec<WitnessPair>)> {
    let at = call.at.filter(|_| call.kind == EventKind::Call && call.sightings.len() > 1)?;
    let of_kind = |upper: bool| {
        call.sightings.iter().filter(move |sighting| is_upper(sighting.witness) == upper)
    };
    let mut pairs = Vec::new();
    for upper in of_kind(true) {
        for lower in of_kind(false) {
            let pair = WitnessPair {
                lower: Text::clone(&lower.stream),
                upper: Text::clone(&upper.stream),
                principal: call.principal.clone(),
                client: call.client.clone(),
            };
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
    }
    Some((at, pairs))
}

/// Whether a call shows this pair.
pub fn shows(call: &Call, pair: &WitnessPair) -> bool {
    joints(call).is_some_and(|(_, pairs)| pairs.contains(pair))
}

/// The whole minute that a time is in.
pub const fn minute(at: Micros) -> i64 {
    at.0.div_euclid(Micros::MINUTE)
}

const fn start_of(minute: i64) -> Micros {
    Micros(minute.saturating_mul(Micros::MINUTE))
}

/// The last time that is in a minute.
const fn end_of(minute: i64) -> Micros {
    Micros(start_of(minute).0.saturating_add(Micros::MINUTE - 1))
}
