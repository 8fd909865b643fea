//! Whom calls lack as a witness: judged behind what was read, over what is stored.

use super::{Micros, Pipeline, StoreError};
use crate::absence::{self, Absence, Heard, Resumed, Sitting};
use crate::model::{Call, CallChange, CallId, WitnessPair};
use crate::store::{Batch, CallPlace, Judged, Store, WantedPair};

/// Calls judged at a time.
const PAGE_CALLS: usize = 20_000;
/// Calls looked at for a pair at a time, where the first one does not show it.
const PAIR_CALLS: usize = 64;
/// How far behind its beginning a pair is looked for, one after the other; at last without an end.
const PAIR_SPANS_MICROS: [Option<i64>; 3] = [Some(Micros::HOUR), Some(24 * Micros::HOUR), None];
/// How much of clients' life is known at the start: a day to judge, the day before, and a little.
const HEARD_MICROS: i64 = 50 * Micros::HOUR;

/// What is stored of absence, and what was not judged when the last process ended.
pub(super) fn resume(store: &Store) -> Result<Absence, StoreError> {
    if store.is_empty()? {
        return Ok(Absence::resume(Resumed::default()));
    }
    let judged = store.judged()?;
    let newest = store.newest_own_time()?;
    let heard_from = newest.map(|newest| newest.minus(HEARD_MICROS));
    let heard = match (heard_from, newest) {
        (Some(from), Some(to)) => store.heard(None, from, to)?,
        _ => Vec::new(),
    };
    let mut absence = Absence::resume(Resumed {
        pairs: store.pairs()?,
        heard,
        // The first minute may be half known.
        heard_from: heard_from.map(|from| absence::minute(from) + 1),
        silences: store.silences()?,
        newest,
        newest_call: store.newest_call_at()?,
        closed: judged.closed_at,
        marked: store.unwitnessed_span()?,
    });
    for seq in judged.seq + 1..=store.seq() {
        absence.note(&store.changes_of(seq)?, &[]);
    }
    if judged.seq < store.seq() {
        absence.note_again(&store.heard_since(judged.seq)?);
    }
    Ok(absence)
}

impl Pipeline {
    /// Correlation knows nothing of absence: puts what was found of calls on those before, as they are stored, and
    /// on those after.
    pub(super) fn recall_unwitnessed(&self, calls: &mut [CallChange]) -> Result<(), StoreError> {
        let asked = self.absence.may_be_marked(calls);
        if !asked.is_empty() {
            absence::carry_over(calls, &self.store.unwitnessed(&asked)?);
        }
        Ok(())
    }

    /// Hears of a batch that was stored.
    pub(super) fn note_absence(&mut self, batch: &Batch) {
        self.judged = batch.judged.unwrap_or(self.judged);
        self.absence.note(&batch.calls, &batch.records);
        self.unjudged += 1;
    }

    /// How far absence is judged, if everything stored is and that is not stored yet.
    pub(super) fn settled(&self) -> Option<Judged> {
        let judged = Judged { seq: self.store.seq(), closed_at: self.absence.closed_at() };
        (self.absence.is_settled() && judged != self.judged).then_some(judged)
    }

    /// Drops what is void, once all of it is judged: until then it tells what was.
    pub(super) fn rest_absence(&mut self) -> Result<(), StoreError> {
        if let Some(judged) = self.settled() {
            self.store.note_judged(judged)?;
            self.judged = judged;
        }
        if self.absence.is_settled() {
            let is_tidied = self.store.tidy()?;
            if is_tidied {
                self.kept.forget_texts();
            }
        }
        Ok(())
    }

    /// Judges what was noted; the number of alerts that are new or changed, if anything was stored.
    pub(super) fn judge(&mut self, now: Micros) -> Result<Option<u64>, StoreError> {
        self.unjudged = 0;
        for (pair, first_at) in self.first_of(self.absence.suspects())? {
            self.absence.clear(&pair, first_at);
        }
        let mut changes = Vec::new();
        if let Some(mut sitting) = self.absence.sit() {
            self.judge_calls(&mut sitting, &mut changes)?;
            changes.extend(sitting.end(&mut self.absence));
        }
        if self.absence.is_full() {
            tracing::warn!(
                "too many pairs of logs and names: calls of further ones are not missed anywhere"
            );
        }
        let pairs = self.absence.take_changed_pairs();
        if changes.is_empty() && pairs.is_empty() {
            return Ok(None);
        }
        let alerts = self.detect(&changes)?;
        let mut batch = Batch { calls: changes, pairs, ..Batch::default() };
        let judged = Judged { seq: self.store.seq() + 1, closed_at: self.absence.closed_at() };
        batch.judged = Some(judged);
        self.store_batch(alerts, now, &mut batch)?;
        self.judged = judged;
        Ok(Some((batch.alerts.len() + batch.retracted.len()) as u64))
    }

    fn judge_calls(
        &mut self,
        sitting: &mut Sitting,
        changes: &mut Vec<CallChange>,
    ) -> Result<(), StoreError> {
        let due: Vec<(Micros, Micros)> = sitting.due().collect();
        let lowers: Vec<&str> = self.absence.lowers().map(|stream| &**stream).collect();
        let lowers = serde_json::to_string(&lowers).unwrap_or_default();
        let mut after = None;
        loop {
            let calls = self.store.lone_calls(&due, &lowers, after, PAGE_CALLS)?;
            let is_last = calls.len() < PAGE_CALLS;
            after = calls.last().and_then(|call| Some((call.at?, call.id)));
            let heard = self.heard_around(&calls)?;
            changes.extend(sitting.judge(&mut self.absence, calls, &heard));
            if is_last {
                return Ok(());
            }
        }
    }

    /// What memory does not hold of the life of the logs that these calls should be in.
    fn heard_around(&self, calls: &[Call]) -> Result<Heard, StoreError> {
        let mut heard = Heard::default();
        if let Some(need) = self.absence.plan(calls) {
            for (stream, minute) in self.store.heard(Some(&need.streams), need.from(), need.to())? {
                heard.add(&stream, minute);
            }
        }
        Ok(heard)
    }

    /// When a call first showed each of these pairs, as calls now stand. None did before the pair began.
    fn first_of(
        &self,
        pairs: Vec<(WitnessPair, Micros)>,
    ) -> Result<Vec<(WitnessPair, Option<Micros>)>, StoreError> {
        let mut found: Vec<Option<Micros>> = vec![None; pairs.len()];
        let begins = |at: Micros| (at, CallId([0; 16]));
        let mut open: Vec<(usize, CallPlace)> =
            pairs.iter().enumerate().map(|(index, (_, at))| (index, begins(*at))).collect();
        // Most pairs show again soon, and that is read soonest.
        for span in PAIR_SPANS_MICROS {
            let until = |index: usize| {
                let at = pairs.get(index).map_or(Micros(0), |(_, at)| *at);
                span.map(|span| at.plus(span))
            };
            let mut asked = std::mem::take(&mut open);
            let mut each_max = 1;
            while !asked.is_empty() {
                let wanted: Vec<WantedPair<'_>> = asked
                    .iter()
                    .filter_map(|(index, after)| {
                        let (pair, _) = pairs.get(*index)?;
                        Some(WantedPair { pair, after: *after, until: until(*index) })
                    })
                    .collect();
                let mut calls: Vec<Vec<Call>> = vec![Vec::new(); wanted.len()];
                for (number, call) in self.store.calls_of_pairs(&wanted, each_max)? {
                    if let Some(calls) = calls.get_mut(number) {
                        calls.push(call);
                    }
                }
                let mut again = Vec::new();
                for ((index, after), calls) in asked.into_iter().zip(calls) {
                    let Some((pair, _)) = pairs.get(index) else { continue };
                    let last = calls.last().and_then(|call| Some((call.at?, call.id)));
                    let first = calls.iter().find(|call| absence::shows(call, pair));
                    match (first, last) {
                        (Some(call), _) => found[index] = call.at,
                        (None, Some(last)) if calls.len() >= each_max => again.push((index, last)),
                        (None, last) => open.push((index, last.unwrap_or(after))),
                    }
                }
                asked = again;
                each_max = PAIR_CALLS;
            }
        }
        Ok(pairs.into_iter().map(|(pair, _)| pair).zip(found).collect())
    }
}

#[cfg(test)]
pub(super) mod tests;
