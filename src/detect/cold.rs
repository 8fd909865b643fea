//! What is known of the groups of a rule that memory does not hold.

use rustc_hash::FxHashMap;

use crate::model::Micros;

use super::key::Key;

/// Groups that were let go to make room and are remembered one by one; over it, the older half of them
/// is taken for known to the store like all that is as old.
const EVICTED_MAX: usize = 262_144;

/// Up to when groups that are not in memory may have calls in the store.
#[derive(Default)]
pub(super) struct Cold {
    /// None of them has a call later than this; none if they have no call at all.
    before: Option<Micros>,
    /// Groups that were let go to make room, with their newest call. Two that share a hash cost a read, and
    /// nothing else: what is noted is not taken back when one of them is here again.
    evicted: FxHashMap<u64, Micros>,
}

impl Cold {
    /// Up to when a group that is not in memory may have calls; none if it has no call at all.
    pub(super) fn before(&self, key: Key) -> Option<Micros> {
        if self.evicted.is_empty() {
            return self.before;
        }
        self.before.max(self.evicted.get(&key.short()).copied())
    }

    /// Says that any group may have calls up to then.
    pub(super) fn cool(&mut self, before: Option<Micros>) {
        if before <= self.before {
            return;
        }
        self.before = before;
        self.evicted.retain(|_, newest| Some(*newest) > before);
    }

    /// Notes a group that was let go, and its newest call.
    pub(super) fn evict(&mut self, key: Key, newest: Micros) {
        let known = self.evicted.entry(key.short()).or_insert(newest);
        *known = newest.max(*known);
    }

    /// Forgets single groups where they are too many.
    pub(super) fn bound(&mut self) {
        if self.evicted.len() <= EVICTED_MAX {
            return;
        }
        // One call that is dated far ahead must not make every group one that is asked for.
        let mut all: Vec<Micros> = self.evicted.values().copied().collect();
        let half = all.len() / 2;
        let (_, middle, _) = all.select_nth_unstable(half);
        let middle = *middle;
        self.cool(Some(middle));
    }
}
