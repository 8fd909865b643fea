//! The rules of a pipeline: taken over between batches, and what each costs.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::Pipeline;
use crate::catalogue::Catalogue;
use crate::detect::{Engine, RuleCost, RuleSet};
use crate::model::{Call, Labels, Micros};
use crate::store::{Store, StoreError};

/// An engine over what is stored: it starts with nothing in memory and reads the past of groups as they are touched.
pub(super) fn engine(
    store: &Store,
    rules: &Arc<RuleSet>,
    catalogue: &Arc<Catalogue>,
    now: Micros,
) -> Result<Engine, StoreError> {
    let catalogue = Arc::clone(catalogue);
    let labels =
        move |call: &Call| -> Labels { catalogue.labels(call.server.as_deref(), &call.tool) };
    let mut engine = Engine::new(Arc::clone(rules), Arc::new(labels));
    engine.meter(nanos);
    engine.cold(store.newest_call_at()?, store.newest_record_at(now)?);
    if store.remembers_first_seen()? {
        engine.remember();
    }
    Ok(engine)
}

impl Pipeline {
    /// Goes on with other rules from the next batch on, as after a restart with them. Alerts that are stored stand;
    /// those that a later batch touches are judged anew.
    pub(in crate::daemon) fn take_rules(
        &mut self,
        rules: &Arc<RuleSet>,
        now: Micros,
    ) -> Result<(), StoreError> {
        self.engine = engine(&self.store, rules, &self.catalogue, now)?;
        self.rules = Arc::clone(rules);
        Ok(())
    }

    /// What each rule has cost since it was taken over, in the order of the rule set.
    pub(in crate::daemon) fn rule_costs(&self) -> Vec<RuleCost> {
        self.engine.costs()
    }
}

/// Nanoseconds of a clock that only runs forward.
fn nanos() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed().as_nanos();
    u64::try_from(elapsed).unwrap_or(u64::MAX)
}
