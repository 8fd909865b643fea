//! Calls joined anew, once the clocks of their streams are known better.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::near::{self, Shelf};
use super::{Pipeline, Step, WIDER_MAX};
use crate::correlate::{Clocks, Correlator, Loaded, Need, Outcome, Rejoin, StaleDay};
use crate::fault::{self, Point};
use crate::model::{Micros, Record};
use crate::store::{Batch, Store, StoreError};

/// So many times as long as it takes to join the newest day anew passes before that is done again: reading goes before.
const REST_TIMES: u32 = 20;
/// So long at least: what is read next finds nothing in memory.
const REST_MIN: Duration = Duration::from_secs(1);
/// And no longer: meanwhile the newest calls are joined by what was known before.
const REST_MAX: Duration = Duration::from_hours(1);

/// What is to be joined anew.
///
/// Until the newest day is, its calls depend on what came first. Its measures move most while it holds little, and then
/// it is cheap: how long it rests goes by what it costs.
#[derive(Default)]
pub(super) struct Rejoining {
    stale: Vec<StaleDay>,
    /// True where these are of the newest day, which rests.
    is_newest: bool,
    is_single_pass: bool,
    /// When the newest day was last joined anew, and how long that is not done again.
    at: Option<Micros>,
    rest_micros: i64,
}

impl Rejoining {
    /// Begins with what an earlier run left. A single pass ends with the newest day, so nothing makes it wait.
    pub(super) fn open(store: &Store, is_single_pass: bool) -> Result<Self, StoreError> {
        let mut stale = Vec::new();
        for day in store.clock_days()? {
            let (samples, uses) = store.clocks_on(day)?;
            stale.extend(Clocks::stale_on(day, samples, uses));
        }
        Ok(Self { stale, is_single_pass, ..Self::default() })
    }

    /// The next day to be joined anew. With `all`, the newest one too, if it has rested.
    fn next(&mut self, all: bool, now: Micros, correlator: &mut Correlator) -> Option<StaleDay> {
        if self.stale.is_empty() {
            self.stale = correlator.stale_clocks(false);
            self.is_newest = false;
        }
        if self.stale.is_empty() && all && self.has_rested(now) {
            self.stale = correlator.stale_clocks(true);
            self.is_newest = true;
        }
        self.stale.pop()
    }

    fn has_rested(&self, now: Micros) -> bool {
        self.at.is_none_or(|at| now.since(at).abs() >= self.rest_micros)
    }

    /// How long it took to join a day anew.
    fn note(&mut self, took: Duration, now: Micros) {
        if self.is_newest && !self.is_single_pass {
            let rest = (took * REST_TIMES).clamp(REST_MIN, REST_MAX);
            self.rest_micros = i64::try_from(rest.as_micros()).unwrap_or(i64::MAX);
            self.at = Some(now);
        }
    }
}

impl Pipeline {
    /// Loads the measured clocks of the days that these records and those loaded for them touch.
    pub(super) fn know_clocks(
        &mut self,
        records: &[Arc<Record>],
        loaded: &[Loaded],
    ) -> Result<(), StoreError> {
        let days = self.correlator.plan_clocks(records, loaded);
        self.know_days(&days)
    }

    fn know_days(&mut self, days: &[Micros]) -> Result<(), StoreError> {
        for day in days {
            let (samples, uses) = self.store.clocks_on(*day)?;
            self.correlator.know_clocks(&[*day], samples, uses);
        }
        Ok(())
    }

    /// Joins one day of two streams anew, if there is one to be. With `all`, the newest day as well.
    pub(super) fn rejoin(&mut self, all: bool, now: Micros) -> Result<Option<Step>, StoreError> {
        let Some(stale) = self.rejoining.next(all, now, &mut self.correlator) else {
            return Ok(None);
        };
        let began = Instant::now();
        self.know_days(&self.correlator.plan_clock(&stale))?;
        let rejoin = self.correlator.begin_rejoin(stale);
        let outcome = self.rejoin_tools(rejoin)?;
        let mut calls = outcome.changes;
        self.recall_unwitnessed(&mut calls)?;
        let alerts = self.detect(&calls)?;
        fault::at(Point::InStep)?;
        let mut batch = Batch {
            calls,
            merged: outcome.merged,
            clock_samples: outcome.clock_samples,
            clock_uses: outcome.clock_uses,
            ..Batch::default()
        };
        batch.judged = self.settled();
        self.store_batch(alerts, now, &mut batch)?;
        self.note_absence(&batch);
        self.rejoining.note(began.elapsed(), now);
        Ok(Some(Step {
            alerts: (batch.alerts.len() + batch.retracted.len()) as u64,
            seq: self.store.seq(),
            ..Step::default()
        }))
    }

    /// Joins each tool's calls anew, over what is stored around the day.
    fn rejoin_tools(&mut self, mut rejoin: Rejoin) -> Result<Outcome, StoreError> {
        let span = rejoin.loaded_span();
        let tools = self.store.tools_between(span.0, span.1, &rejoin.streams())?;
        for part in near::parts(tools) {
            let read = Shelf::read(&self.store, &part, span)?;
            for (tool, records) in &part {
                for (need, from, to) in Correlator::plan_rejoin(&rejoin, tool, *records) {
                    let loaded = self.load_around(need, read.as_ref())?;
                    self.correlator.rejoin_loaded(&mut rejoin, loaded, from, to);
                }
            }
        }
        Ok(self.correlator.end_rejoin(rejoin))
    }

    /// Loads a tool's past with all that it is joined with, from what was read already as far as that is enough.
    fn load_around(&self, need: Need, read: Option<&Shelf>) -> Result<Loaded, StoreError> {
        let load = |need: Need| match read.filter(|read| read.covers(&need)) {
            Some(read) => Ok(read.load(need)),
            None => near::load(&self.store, need),
        };
        let mut found = load(need)?;
        for _ in 0..WIDER_MAX {
            let Some(wider) = self.correlator.widen(&[], &found) else { break };
            found = load(wider)?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
