//! A pipeline over a new database, in which everything that an older one had read is read again: from the files that
//! are still there, and from the old database where they are gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Pipeline, Setup, Step, cursor, tail};
use crate::daemon::carried::Carried;
use crate::daemon::intake::Again;
use crate::model::{Call, CallChange, IngestCode, Micros};
use crate::store::{Batch, Parts, Position, Restored, Store, StoreError, unless_damaged};

/// Rejects carried over at a time.
const PAGE_ROWS: usize = 50_000;
/// Looks that the contents of compressed files may take to be told apart; what is undecided then is taken over.
const LOOKS_MAX: usize = 10_000;

/// What is read of an older database before anything is made.
pub(in crate::daemon) struct Old {
    pub(in crate::daemon) store: Store,
    pub(in crate::daemon) positions: Vec<Position>,
    pub(in crate::daemon) facts: Restored,
    /// How much of each generation was a copy of another.
    pub(in crate::daemon) copied: BTreeMap<u64, u64>,
    pub(in crate::daemon) history_read_at: Option<Micros>,
}

/// What the second reading has to know at its end.
pub(in crate::daemon) struct Reading {
    positions: Vec<Position>,
    history_read_at: Option<Micros>,
    records_carried: u64,
    alerts_kept: u64,
    /// What could not be carried over, a sentence each.
    losses: Vec<String>,
}

/// What a second reading came to.
#[derive(Debug, Default)]
pub(in crate::daemon) struct ReadAgain {
    pub(in crate::daemon) records_carried: u64,
    /// Alerts that the records and rules no longer show.
    pub(in crate::daemon) alerts_kept: u64,
    pub(in crate::daemon) losses: Vec<String>,
}

impl Pipeline {
    /// Takes over what the old database has of files that are gone, and goes back to the beginning of the others.
    /// [`Pipeline::step`] then gives what was read before, until [`Pipeline::end_again`].
    pub(in crate::daemon) fn again(
        setup: &Setup,
        mut store: Store,
        old: Old,
        now: Micros,
    ) -> Result<(Self, Reading), StoreError> {
        let mut tail = tail(setup, &old.positions);
        // A file that one listing misses because it is being renamed is there at the next.
        tail.scan(now);
        for _ in 0..LOOKS_MAX {
            tail.scan(now);
            if !tail.is_deciding() {
                break;
            }
        }
        let mut limits = BTreeMap::new();
        let mut gone: Parts = Vec::new();
        let mut positions = old.positions.clone();
        for position in positions.iter_mut().filter(|position| position.offset > 0) {
            let generation = position.generation;
            if tail.is_found(generation) {
                tail.reread(generation, old.copied.get(&generation).copied().unwrap_or(0));
                limits.insert(generation, position.offset);
                (position.last_at, position.records, position.rejects) = (None, 0, 0);
            } else {
                gone.push((generation, 0));
            }
        }
        let mut losses = Vec::new();
        let generations: FxHashSet<u64> = gone.iter().map(|(generation, _)| *generation).collect();
        let kept = old.store.kept_lines(&generations, |lost| losses.push(lost));
        let kept = unless_damaged(kept, |error| {
            losses.push(format!("the lines that alerts keep of files that are gone: {error}"));
        })?;
        carry(&old.store, &mut store, &gone, &old.positions, &mut losses)?;
        let mut pipeline = Self::with(setup, store, tail, &positions, old.facts, now)?;
        pipeline.lines.keep(kept);
        pipeline.is_again = true;
        pipeline.intake.begin_again(Again { limits, carried: Some(Carried::new(old.store, gone)) });
        let reading = Reading {
            positions: old.positions,
            history_read_at: old.history_read_at,
            records_carried: 0,
            alerts_kept: 0,
            losses,
        };
        Ok((pipeline, reading))
    }

    /// Carries over what could not be read again after all, puts back what has to do with alerts, and goes on as usual.
    pub(in crate::daemon) fn end_again(
        &mut self,
        mut reading: Reading,
        clock: fn() -> Micros,
        on_step: &mut dyn FnMut(Step),
    ) -> Result<ReadAgain, StoreError> {
        let mut rest: Parts = self.intake.unread_again();
        let mut old = self.take_old(&mut reading)?;
        if let Some(store) = old.take_if(|_| !rest.is_empty()) {
            // A file that vanished meanwhile, or the unfinished last line of one that is not written to any more.
            carry(&store, &mut self.store, &rest, &reading.positions, &mut reading.losses)?;
            let parts = std::mem::take(&mut rest);
            let resumed: Vec<u64> = parts.iter().map(|(generation, _)| *generation).collect();
            let carried = Some(Carried::new(store, parts));
            self.intake.begin_again(Again { limits: BTreeMap::new(), carried });
            while let Some(step) = self.step(clock())? {
                on_step(step);
            }
            for position in &reading.positions {
                if resumed.contains(&position.generation) {
                    self.intake.resume(position, &cursor(position));
                }
            }
            old = self.take_old(&mut reading)?;
        }
        if let Some(store) = &old {
            let events = unless_damaged(store.events(), |error| {
                reading.losses.push(format!("what reading showed: {error}"));
            })?;
            self.take_events(noticed(events), clock())?;
        }
        let remembered = std::mem::take(&mut self.remembered);
        let lose = |lost| reading.losses.push(lost);
        reading.alerts_kept =
            remembered.settle(&mut self.store, &self.rules, old.as_ref(), lose)?;
        self.is_again = false;
        self.is_history_pending = reading.history_read_at.is_none();
        if let Some(at) = reading.history_read_at {
            self.store.end_history(at)?;
        }
        self.lines.keep(FxHashMap::default());
        Ok(ReadAgain {
            records_carried: reading.records_carried,
            alerts_kept: reading.alerts_kept,
            losses: reading.losses,
        })
    }

    /// Takes over what reading showed about the logs: it cannot be noticed again.
    fn take_events(&mut self, events: Vec<Call>, now: Micros) -> Result<(), StoreError> {
        let change = |event| CallChange { old: None, new: Some(Arc::new(event)) };
        let changes: Vec<CallChange> = events.into_iter().map(change).collect();
        for changes in changes.chunks(PAGE_ROWS) {
            let alerts = self.detect(changes)?;
            let mut batch = Batch { calls: changes.to_vec(), ..Batch::default() };
            self.store_batch(alerts, now, &mut batch)?;
        }
        Ok(())
    }

    fn take_old(&mut self, reading: &mut Reading) -> Result<Option<Store>, StoreError> {
        let Some(carried) = self.intake.end_again() else { return Ok(None) };
        let (store, records, failed) = carried.end()?;
        reading.records_carried += records;
        reading.losses.extend(failed);
        Ok(Some(store))
    }

    /// Bytes that no record, reject or gap accounts for, since the old database could not give what was in them, become
    /// gaps, and counters what is there. Returns the bytes.
    pub(in crate::daemon) fn declare_lost(&mut self) -> Result<u64, StoreError> {
        self.store.declare_lost()
    }
}

/// What reading showed but for what the records show again.
fn noticed(mut events: Vec<Call>) -> Vec<Call> {
    events
        .retain(|event| !IngestCode::from_word(&event.code).is_some_and(IngestCode::is_of_records));
    events
}

/// Takes over the rejects, gaps and positions of these parts. What cannot be read of them is a loss.
fn carry(
    old: &Store,
    store: &mut Store,
    parts: &Parts,
    positions: &[Position],
    losses: &mut Vec<String>,
) -> Result<(), StoreError> {
    if parts.is_empty() {
        return Ok(());
    }
    let mut after = (0, 0);
    loop {
        let rejects = unless_damaged(old.rejects_of(parts, after, PAGE_ROWS), |error| {
            losses.push(format!("rejects of files that are gone: {error}"));
        })?;
        let Some(last) = rejects.last() else { break };
        after = (last.generation, last.offset);
        store.commit(&Batch { rejects, ..Batch::default() })?;
    }
    let gaps = unless_damaged(old.gaps_of(parts), |error| {
        losses.push(format!("gaps of files that are gone: {error}"));
    })?;
    let is_part = |position: &&Position| {
        parts.iter().any(|(generation, _)| *generation == position.generation)
    };
    let positions = positions.iter().filter(is_part).cloned().collect();
    store.commit(&Batch { gaps, positions, ..Batch::default() })
}
