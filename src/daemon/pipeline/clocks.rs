//! Calls joined anew, once the clocks of their streams are known better.

use std::sync::Arc;

use super::{Pipeline, Step};
use crate::correlate::{Clocks, StaleDay};
use crate::fault::{self, Point};
use crate::model::{Micros, Record};
use crate::store::{Batch, Store, StoreError};

/// How often the newest day may be joined anew, while its measures still move; a single pass ends with it.
pub(super) const fn newest_every_micros(is_single_pass: bool) -> i64 {
    if is_single_pass { 0 } else { Micros::MINUTE }
}

/// What an earlier run left to be joined anew.
pub(super) fn stale_in(store: &Store) -> Result<Vec<StaleDay>, StoreError> {
    let mut stale = Vec::new();
    for day in store.clock_days()? {
        let (samples, uses) = store.clocks_on(day)?;
        stale.extend(Clocks::stale_on(day, samples, uses));
    }
    Ok(stale)
}

impl Pipeline {
    /// Loads the measured clocks of the days that these records touch.
    pub(super) fn know_clocks(&mut self, records: &[Arc<Record>]) -> Result<(), StoreError> {
        let days = self.correlator.plan_clocks(records);
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
        let is_due = |at: Micros| now.since(at).abs() >= self.rejoin_every_micros;
        let all = all && self.rejoined_at.is_none_or(is_due);
        if self.stale_clocks.is_empty() {
            self.stale_clocks = self.correlator.stale_clocks(all);
        }
        let Some(stale) = self.stale_clocks.pop() else {
            return Ok(None);
        };
        if all {
            self.rejoined_at = Some(now);
        }
        self.know_days(&self.correlator.plan_clock(&stale))?;
        let (from, to) = stale.span();
        let tools = self.store.tools_between(from, to)?;
        let mut rejoin = self.correlator.begin_rejoin(stale);
        for tool in &tools {
            for (need, from, to) in self.correlator.plan_rejoin(&rejoin, tool) {
                let loaded = self.load_one(need)?;
                self.correlator.rejoin_loaded(&mut rejoin, loaded, from, to);
            }
            self.correlator.rejoin_held(&mut rejoin, tool);
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
