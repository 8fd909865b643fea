//! What is known of the groups of a rule that memory does not hold.

use rustc_hash::FxHashMap;

use crate::model::Micros;

use super::key::Key;

/// Up to when groups that are not in memory may have calls in the store.
#[derive(Default)]
pub(super) struct Cold {
    /// None of them has a call later than this; none if they have no call at all.
    before: Option<Micros>,
    /// Groups that were let go to make room, with their newest call. Two that share a hash cost a read, and
    /// nothing else: what is noted is not taken back when one of them is here again.
    evicted: FxHashMap<u64, Micros>,
    /// None of any of them is later.
    until: Option<Micros>,
}

impl Cold {
    /// Up to when a group that is not in memory may have calls; none if it has no call at all.
    pub(super) fn before(&self, key: Key) -> Option<Micros> {
        if self.evicted.is_empty() {
            return self.before;
        }
        self.before.max(self.evicted.get(&key.short()).copied())
    }

    /// Up to when any group that is not in memory may have calls.
    pub(super) const fn until(&self) -> Option<Micros> {
        self.until
    }

    /// Says that any group may have calls up to then.
    pub(super) fn cool(&mut self, before: Option<Micros>) {
        if before <= self.before {
            return;
        }
        self.before = before;
        self.until = self.until.max(before);
        self.forget();
    }

    /// Notes a group that was let go, and its newest call.
    pub(super) fn evict(&mut self, key: Key, newest: Micros) {
        if Some(newest) <= self.before {
            return;
        }
        let known = self.evicted.entry(key.short()).or_insert(newest);
        *known = newest.max(*known);
        self.until = self.until.max(Some(newest));
    }

    /// Forgets single groups where they are more than so many: the older half of them is taken for known to the store
    /// like all that is as old.
    pub(super) fn bound(&mut self, evicted_max: usize) {
        if self.evicted.len() <= evicted_max {
            return;
        }
        // One call that is dated far ahead must not make every group one that is asked for.
        let mut all: Vec<Micros> = self.evicted.values().copied().collect();
        let half = all.len() / 2;
        let (_, middle, _) = all.select_nth_unstable(half);
        self.before = self.before.max(Some(*middle));
        self.forget();
    }

    fn forget(&mut self) {
        let before = self.before;
        self.evicted.retain(|_, newest| Some(*newest) > before);
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::Namer;
    use super::*;
    use crate::model::Text;

    /// Groups named 0 and up, let go with these newest calls, of which five are remembered at most.
    fn evicted(cold: &mut Cold, namer: &Namer, newest: impl Iterator<Item = i64>) -> Vec<Key> {
        let evict = |(number, newest): (usize, i64)| {
            let key = namer.key([Text::from(number.to_string())].iter());
            cold.evict(key, Micros(newest));
            cold.bound(5);
            key
        };
        newest.enumerate().map(evict).collect()
    }

    #[test]
    fn single_groups_are_remembered_up_to_a_bound_and_none_is_taken_for_new() {
        for (before, newest) in
            [(None, i64::MIN), (None, 7), (Some(Micros(9)), 7), (Some(Micros(5)), 7)]
        {
            let (mut cold, namer) = (Cold { before, ..Cold::default() }, Namer::default());
            let keys = evicted(&mut cold, &namer, std::iter::repeat_n(newest, 100));
            assert!(cold.evicted.len() <= 5, "{before:?}: {}", cold.evicted.len());
            assert!(keys.iter().all(|key| cold.before(*key) >= Some(Micros(newest))));
        }
        let (mut cold, namer) = (Cold::default(), Namer::default());
        let keys = evicted(&mut cold, &namer, 0..100);
        assert!(cold.evicted.len() <= 5 && cold.before < Some(Micros(99)));
        let is_known = |(key, at): (&Key, i64)| cold.before(*key) >= Some(Micros(at));
        assert!(keys.iter().zip(0..).all(is_known));
    }
}
