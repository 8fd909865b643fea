//! Calls joined anew, once the clocks of their streams are known better.

use std::sync::Arc;

use super::{Pipeline, Step};
use crate::correlate::{Clocks, Correlator, Loaded, StaleDay};
use crate::fault::{self, Point};
use crate::model::{Micros, Record};
use crate::store::{Batch, Store, StoreError};

/// What is to be joined anew.
pub(super) struct Rejoining {
    stale: Vec<StaleDay>,
    /// How often the newest day may be, while its measures still move.
    every_micros: i64,
    /// When it last was.
    at: Option<Micros>,
}

impl Rejoining {
    /// Begins with what an earlier run left. A single pass ends with the newest day, so nothing makes it wait.
    pub(super) fn open(store: &Store, is_single_pass: bool) -> Result<Self, StoreError> {
        let mut stale = Vec::new();
        for day in store.clock_days()? {
            let (samples, uses) = store.clocks_on(day)?;
            stale.extend(Clocks::stale_on(day, samples, uses));
        }
        let every_micros = if is_single_pass { 0 } else { Micros::MINUTE };
        Ok(Self { stale, every_micros, at: None })
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
        let Rejoining { stale, every_micros, at } = &mut self.rejoining;
        let all = all && at.is_none_or(|at| now.since(at).abs() >= *every_micros);
        if stale.is_empty() {
            *stale = self.correlator.stale_clocks(all);
        }
        let Some(stale) = stale.pop() else {
            return Ok(None);
        };
        if all {
            *at = Some(now);
        }
        self.know_days(&self.correlator.plan_clock(&stale))?;
        let (from, to) = stale.span();
        let tools = self.store.tools_between(from, to)?;
        let mut rejoin = self.correlator.begin_rejoin(stale);
        for tool in &tools {
            for (need, from, to) in Correlator::plan_rejoin(&rejoin, tool) {
                let loaded = self.load_tool(&[], need)?;
                self.correlator.rejoin_loaded(&mut rejoin, loaded, from, to);
            }
        }
        let outcome = self.correlator.end_rejoin(rejoin);
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
        Ok(Some(Step {
            alerts: (batch.alerts.len() + batch.retracted.len()) as u64,
            seq: self.store.seq(),
            ..Step::default()
        }))
    }
}
