//! What is stored of the evidence of alerts that changed lately, so that one that grows writes what it grew by.
//!
//! An alert grows with every batch that touches its group, and comes from the rules as a whole each time. Of what was
//! written a hash is kept for each row. Where it is not kept, all of the evidence is written again.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use super::{Lines, steps};
use crate::model::{Alert, AlertId, Call, Evidence, EvidenceView, event_words};
use crate::store::{EvidenceRow, EvidenceRows, TextPlace};

/// Rows after which those of alerts that did not change since half as many were written are forgotten: eight bytes
/// each.
const ROWS_MAX: usize = 8_000_000;
/// A set takes as much of memory as so many rows, beside its own.
const ROWS_OF_A_SET: usize = 16;
/// A row that the alert rests on no longer.
const GONE: u64 = 0;
/// The bit of a row's hash that says that all lines of its call are there.
const WHOLE: u64 = 1;
/// Numbers of rows that are gone which a set may have beside twice as many as the alert has: with more of them it is
/// written as a new one.
const GONE_MAX: usize = 64;

/// Calls that are known without a look at who else holds them.
const SWEPT_MIN: usize = 10_000;

#[derive(Default)]
pub(in crate::daemon) struct Kept {
    sets: FxHashMap<AlertId, Set>,
    /// Sets that have not changed since `sets` was begun.
    older: FxHashMap<AlertId, Set>,
    /// What `sets` take of memory, in rows.
    rows: usize,
    calls: Calls,
}

/// What is stored of one alert's evidence.
struct Set {
    /// The batch that began it.
    seq: u64,
    /// A hash of what each row says, by its number.
    rows: Vec<u64>,
}

impl Set {
    /// What it takes of memory, in rows.
    fn weight(&self) -> usize {
        self.rows.len() + ROWS_OF_A_SET
    }
}

/// The calls that alerts rest on, as long as somebody else holds them. Several alerts rest on one call, and an alert
/// that grows names all of its calls again: to hash each of them anew would be most of the work.
#[derive(Default)]
struct Calls {
    /// So that nobody who writes logs can have two calls look alike.
    hasher: RandomState,
    /// By address: as long as a call is known here, no other one has it.
    known: FxHashMap<usize, Known>,
    /// Calls that were known after those gone were forgotten last.
    swept: usize,
}

struct Known {
    call: Weak<Call>,
    hash: u64,
    text: Option<Shown>,
}

/// The text that shows a call.
#[derive(Clone, Copy)]
struct Shown {
    place: TextPlace,
    /// It has all lines.
    is_whole: bool,
}

/// What an alert's evidence needs to be stored.
pub(in crate::daemon) struct Plan {
    /// What is stored of it, none if all of it is to be written.
    set: Option<Set>,
    wanted: Vec<Wanted>,
    /// Rows that it rests on no longer.
    gone: Vec<u32>,
}

/// Evidence that is to be written.
struct Wanted {
    index: usize,
    hash: u64,
    /// The row that says it without all of its lines.
    lacking: Option<u32>,
    /// A text with all lines shows it already.
    is_shown: bool,
}

impl Wanted {
    const fn new(index: usize, hash: u64) -> Self {
        Self { index, hash, lacking: None, is_shown: false }
    }
}

impl Plan {
    /// The calls whose lines are wanted.
    pub(in crate::daemon) fn calls<'a>(&self, alert: &'a Alert) -> impl Iterator<Item = &'a Call> {
        let wanted = self.wanted.iter().filter(|wanted| !wanted.is_shown);
        let evidence = wanted.filter_map(|wanted| alert.evidence.get(wanted.index));
        evidence.map(|evidence| &*evidence.call)
    }
}

impl Kept {
    /// Says what of an alert's evidence is to be written. What is planned has to be put.
    pub(in crate::daemon) fn plan(&mut self, alert: &Alert) -> Plan {
        let set = self.take(alert.id);
        let set = set.filter(|set| set.rows.len() <= 2 * alert.evidence.len() + GONE_MAX);
        let hashes = alert.evidence.iter().map(|evidence| self.calls.hash(evidence));
        let mut plan = if let Some(set) = set {
            compare(set, hashes)
        } else {
            let wanted = hashes.enumerate().map(|(index, hash)| Wanted::new(index, hash));
            Plan { set: None, wanted: wanted.collect(), gone: Vec::new() }
        };
        for wanted in &mut plan.wanted {
            let call = alert.evidence.get(wanted.index).map(|evidence| &evidence.call);
            wanted.is_shown = call.is_some_and(|call| self.calls.shows(call));
        }
        plan
    }

    /// The rows of what was planned, which the batch `seq` stores. `lines` has been asked for them; what they show is
    /// added to the batch's texts.
    pub(in crate::daemon) fn put(
        &mut self,
        plan: Plan,
        alert: &Alert,
        lines: &Lines,
        texts: &mut Vec<String>,
        seq: u64,
    ) -> EvidenceRows {
        let Plan { set, wanted, mut gone } = plan;
        let grown = set.as_ref().map(|set| set.seq);
        let mut set = set.unwrap_or_else(|| Set { seq, rows: Vec::with_capacity(wanted.len()) });
        let mut added = Vec::new();
        for Wanted { index, hash, lacking, is_shown } in wanted {
            let Some(evidence) = alert.evidence.get(index) else { continue };
            if lacking.is_some() && !is_shown && !lines.are_whole(&evidence.call) {
                continue;
            }
            let Shown { place, is_whole } = self.calls.text(&evidence.call, lines, texts, seq);
            gone.extend(lacking);
            added.push(EvidenceRow {
                number: u32::try_from(set.rows.len()).unwrap_or(u32::MAX),
                stage: evidence.stage.clone(),
                call_id: evidence.call.id,
                order: evidence.call.order(),
                text: place,
            });
            set.rows.push(hash | if is_whole { WHOLE } else { 0 });
        }
        for number in &gone {
            if let Some(row) = set.rows.get_mut(*number as usize) {
                *row = GONE;
            }
        }
        self.keep(alert.id, set);
        match grown {
            Some(set) => EvidenceRows::Grown { set, added, gone },
            None => EvidenceRows::Begun(added),
        }
    }

    /// Forgets calls that nobody else holds any more. To be asked after each batch.
    pub(in crate::daemon) fn end_batch(&mut self) {
        self.calls.sweep();
    }

    /// Says that texts which no row names any more may be gone.
    pub(in crate::daemon) fn forget_texts(&mut self) {
        self.calls.known.values_mut().for_each(|known| known.text = None);
    }

    fn take(&mut self, id: AlertId) -> Option<Set> {
        match self.sets.remove(&id) {
            Some(set) => {
                self.rows -= set.weight();
                Some(set)
            }
            None => self.older.remove(&id),
        }
    }

    fn keep(&mut self, id: AlertId, set: Set) {
        self.rows += set.weight();
        self.sets.insert(id, set);
        if self.rows > ROWS_MAX / 2 {
            (self.older, self.rows) = (std::mem::take(&mut self.sets), 0);
        }
    }
}

/// Compares what is stored with the hashes of what is to be. Both are mostly in the same order, with more at the end.
fn compare(set: Set, hashes: impl Iterator<Item = u64>) -> Plan {
    let mut is_met = vec![false; set.rows.len()];
    let mut places: Option<FxHashMap<u64, usize>> = None;
    let mut wanted = Vec::new();
    let mut next = 0;
    for (index, hash) in hashes.enumerate() {
        let says = |number: &usize| set.rows.get(*number).is_some_and(|row| row & !WHOLE == hash);
        while set.rows.get(next) == Some(&GONE) {
            next += 1;
        }
        let number = Some(next).filter(says).or_else(|| {
            let places = places.get_or_insert_with(|| {
                let rows = set.rows.iter().enumerate().filter(|(_, row)| **row != GONE);
                rows.map(|(number, row)| (row & !WHOLE, number)).collect()
            });
            places.get(&hash).copied()
        });
        let Some(number) = number else {
            wanted.push(Wanted::new(index, hash));
            continue;
        };
        next = number + 1;
        if let Some(is_met) = is_met.get_mut(number) {
            *is_met = true;
        }
        if set.rows.get(number).is_some_and(|row| row & WHOLE == 0) {
            let lacking = u32::try_from(number).ok();
            wanted.push(Wanted { lacking, ..Wanted::new(index, hash) });
        }
    }
    let rows = set.rows.iter().zip(is_met).enumerate();
    let gone = rows.filter(|(_, (row, is_met))| **row != GONE && !is_met);
    let gone = gone.filter_map(|(number, _)| u32::try_from(number).ok()).collect();
    Plan { set: Some(set), wanted, gone }
}

impl Calls {
    /// A hash of what is stored of one piece of evidence, but for the text of its lines; never [`GONE`], and without
    /// the bit [`WHOLE`].
    fn hash(&mut self, evidence: &Evidence) -> u64 {
        let call = self.known(&evidence.call).hash;
        let hash = self.hasher.hash_one((call, &*evidence.stage)) & !WHOLE;
        if hash == GONE { WHOLE << 1 } else { hash }
    }

    /// Whether a text with all lines shows the call.
    fn shows(&self, call: &Arc<Call>) -> bool {
        let known = self.known.get(&Arc::as_ptr(call).addr());
        known.and_then(|known| known.text).is_some_and(|text| text.is_whole)
    }

    /// The text that shows the call: a stored one, if that has all lines, or one of the batch `seq`.
    fn text(
        &mut self,
        call: &Arc<Call>,
        lines: &Lines,
        texts: &mut Vec<String>,
        seq: u64,
    ) -> Shown {
        let known = self.known(call);
        // One without all lines is shared within its batch, unless they were found meanwhile.
        let is_as_good = |text: &Shown| text.place.seq == seq && !lines.are_whole(call);
        if let Some(shown) = known.text.filter(|text| text.is_whole || is_as_good(text)) {
            return shown;
        }
        let evidence = Evidence { stage: "".into(), call: Arc::clone(call) };
        let view = EvidenceView::new(&evidence, lines.of(call));
        let is_whole = view.lines.iter().all(|line| line.text.is_some());
        let number = u32::try_from(texts.len()).unwrap_or(u32::MAX);
        texts.push(serde_json::to_string(&view).unwrap_or_default());
        *known.text.insert(Shown { place: TextPlace { seq, number }, is_whole })
    }

    fn known(&mut self, call: &Arc<Call>) -> &mut Known {
        let hasher = &self.hasher;
        self.known.entry(Arc::as_ptr(call).addr()).or_insert_with(|| Known {
            call: Arc::downgrade(call),
            hash: hash(hasher, call),
            text: None,
        })
    }

    /// Forgets calls that nobody else holds any more, once there may be as many of them as of others.
    fn sweep(&mut self) {
        if self.known.len() / 2 > self.swept.max(SWEPT_MIN) {
            self.known.retain(|_, known| known.call.strong_count() > 0);
            self.swept = self.known.len();
        }
    }
}

/// A hash of all that an [`EvidenceView`] shows of a call, of its place, and of where its lines are.
fn hash(hasher: &RandomState, call: &Call) -> u64 {
    let mut hasher = hasher.build_hasher();
    (call.id, call.at, &call.stream, call.position, call.ended).hash(&mut hasher);
    (&call.server, &call.tool, &call.code, call.class, call.ran).hash(&mut hasher);
    (&call.principal, &call.client, &call.tenant, &call.session).hash(&mut hasher);
    event_words(call).hash(&mut hasher);
    for (witness, step) in steps(call) {
        (witness, step.record, step.length).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
