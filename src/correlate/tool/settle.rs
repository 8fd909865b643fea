//! Joins the units of one piece, and notes which call each now belongs to.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::clock::{Clocks, Sample};
use super::super::unit::Unit;
use super::super::{Diff, build, pair};
use super::{Entry, ToolState, UnitKey};
use crate::model::{Call, RecordId};

impl ToolState {
    pub(super) fn settle_alone(&mut self, key: UnitKey, clocks: &Clocks, diff: &mut Diff) {
        let Some(entry) = self.units.get(&key) else { return };
        let joined = pair::alone(&entry.unit, clocks);
        let call = Arc::new(build::build(&joined, self.occurrence(key, entry)));
        if let Some(entry) = self.units.get_mut(&key) {
            // It may have been joined before so many came that nobody can tell them apart.
            diff.samples.extend(entry.sample.take().map(|sample| (sample, -1)));
            diff.old.extend(entry.call.replace(Arc::clone(&call)));
            diff.new.push(call);
        }
    }

    pub(super) fn settle_piece(&mut self, keys: &[UnitKey], clocks: &mut Clocks, diff: &mut Diff) {
        let mut owners: FxHashMap<RecordId, Arc<Call>> = FxHashMap::default();
        let mut seen: FxHashSet<*const Call> = FxHashSet::default();
        let entries: Vec<(UnitKey, &Entry)> =
            keys.iter().filter_map(|key| Some((*key, self.units.get(key)?))).collect();
        let by_record: FxHashMap<RecordId, (UnitKey, &Entry)> =
            entries.iter().map(|(key, entry)| (key.1, (*key, *entry))).collect();
        let units: Vec<&Unit> = entries.iter().map(|(_, entry)| &entry.unit).collect();
        for unit in &units {
            if let Some((from, _)) = unit.interval() {
                let stream = &unit.base.stream;
                clocks.enter(stream, from.plus(clocks.offset(stream)));
            }
        }
        let verdict = pair::join(&units, clocks);
        for joined in verdict.calls {
            let lead = by_record.get(&joined.lead.unit.base.id);
            let occurrence = lead.map_or(0, |(key, entry)| self.occurrence(*key, entry));
            let call = Arc::new(build::build(&joined, occurrence));
            for tied in &joined.units {
                owners.insert(tied.seen.unit.base.id, Arc::clone(&call));
            }
            diff.new.push(call);
        }
        let mut samples: FxHashMap<RecordId, Sample> = verdict.samples.into_iter().collect();
        for key in keys {
            let Some(entry) = self.units.get_mut(key) else { continue };
            let sample = samples.remove(&key.1);
            if sample != entry.sample {
                diff.samples.extend(sample.clone().map(|sample| (sample, 1)));
                let old = std::mem::replace(&mut entry.sample, sample);
                diff.samples.extend(old.map(|sample| (sample, -1)));
            }
            let owner = owners.get(&key.1).cloned();
            let old = std::mem::replace(&mut entry.call, owner);
            diff.old.extend(old.filter(|old| seen.insert(Arc::as_ptr(old))));
        }
    }
}
