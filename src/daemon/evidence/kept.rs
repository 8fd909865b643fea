//! What is stored of the evidence of alerts that changed lately, so that one that grows writes what it grew by.
//!
//! An alert grows with every batch that touches its group, and comes from the rules as a whole each time. Of what was
//! written a hash is kept for each row. Where it is not kept, all of the evidence is written again.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Lines, steps};
use crate::model::{Alert, AlertId, Call, CallId, Evidence, EvidenceView, event_words};
use crate::store::{EvidenceRow, EvidenceRows};

/// Rows after which those of alerts that did not change since half as many were written are forgotten, eight bytes each.
const ROWS_MAX: usize = 8_000_000;
/// A row that the alert rests on no longer.
const GONE: u64 = 0;
/// The bit of a row's hash that says that all lines of its call are there.
const WHOLE: u64 = 1;
/// Numbers of rows that are gone which a set may have beside twice as many as the alert has: with more of them it is
/// written as a new one.
const GONE_MAX: usize = 64;

#[derive(Default)]
pub(in crate::daemon) struct Kept {
    sets: FxHashMap<AlertId, Set>,
    /// Sets that have not changed since `sets` was begun.
    older: FxHashMap<AlertId, Set>,
    /// Rows of `sets`.
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

/// The calls that a batch's alerts rest on. Several alerts rest on one call.
#[derive(Default)]
struct Calls {
    /// So that nobody who writes logs can have two calls look alike.
    hasher: RandomState,
    known: FxHashMap<CallId, Known>,
}

struct Known {
    call: Arc<Call>,
    hash: u64,
    /// The number of the batch's text that shows it, and whether that has all lines.
    text: Option<(u32, bool)>,
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
}

impl Plan {
    /// The calls whose lines are wanted.
    pub(in crate::daemon) fn calls<'a>(&self, alert: &'a Alert) -> impl Iterator<Item = &'a Call> {
        let evidence = self.wanted.iter().filter_map(|wanted| alert.evidence.get(wanted.index));
        evidence.map(|evidence| &*evidence.call)
    }
}

impl Kept {
    /// Says what of an alert's evidence is to be written. What is planned has to be put.
    pub(in crate::daemon) fn plan(&mut self, alert: &Alert) -> Plan {
        let set = self.take(alert.id);
        let set = set.filter(|set| set.rows.len() <= 2 * alert.evidence.len() + GONE_MAX);
        let hashes = alert.evidence.iter().map(|evidence| self.calls.hash(evidence));
        match set {
            Some(set) => compare(set, hashes),
            None => {
                let wanted = hashes.enumerate();
                let wanted = wanted.map(|(index, hash)| Wanted { index, hash, lacking: None });
                Plan { set: None, wanted: wanted.collect(), gone: Vec::new() }
            }
        }
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
        for Wanted { index, hash, lacking } in wanted {
            let Some(evidence) = alert.evidence.get(index) else { continue };
            let (text, is_whole) = self.calls.text(&evidence.call, lines, texts);
            if lacking.is_some() && !is_whole {
                continue;
            }
            gone.extend(lacking);
            added.push(EvidenceRow {
                number: u32::try_from(set.rows.len()).unwrap_or(u32::MAX),
                stage: evidence.stage.clone(),
                call_id: evidence.call.id,
                order: evidence.call.order(),
                text,
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

    /// Lets go of a batch's calls.
    pub(in crate::daemon) fn end_batch(&mut self) {
        self.calls.known = FxHashMap::default();
    }

    fn take(&mut self, id: AlertId) -> Option<Set> {
        match self.sets.remove(&id) {
            Some(set) => {
                self.rows -= set.rows.len();
                Some(set)
            }
            None => self.older.remove(&id),
        }
    }

    fn keep(&mut self, id: AlertId, set: Set) {
        self.rows += set.rows.len();
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
            wanted.push(Wanted { index, hash, lacking: None });
            continue;
        };
        next = number + 1;
        if let Some(is_met) = is_met.get_mut(number) {
            *is_met = true;
        }
        if set.rows.get(number).is_some_and(|row| row & WHOLE == 0) {
            wanted.push(Wanted { index, hash, lacking: u32::try_from(number).ok() });
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

    /// The number of the text that shows the call, and whether that has all lines.
    fn text(&mut self, call: &Arc<Call>, lines: &Lines, texts: &mut Vec<String>) -> (u32, bool) {
        let known = self.known(call);
        *known.text.get_or_insert_with(|| {
            let evidence = Evidence { stage: "".into(), call: Arc::clone(call) };
            let view = EvidenceView::new(&evidence, lines.of(call));
            let is_whole = view.lines.iter().all(|line| line.text.is_some());
            texts.push(serde_json::to_string(&view).unwrap_or_default());
            (u32::try_from(texts.len() - 1).unwrap_or(u32::MAX), is_whole)
        })
    }

    fn known(&mut self, call: &Arc<Call>) -> &mut Known {
        let hasher = &self.hasher;
        let fresh = || Known { call: Arc::clone(call), hash: hash(hasher, call), text: None };
        let known = self.known.entry(call.id).or_insert_with(fresh);
        // Two rules may hold the same call each for itself; should they not say the same of it, each counts.
        if !Arc::ptr_eq(&known.call, call) && known.call != *call {
            *known = fresh();
        }
        known
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
