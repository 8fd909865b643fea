//! What is remembered of first-seen groups that were let go to make room: when each value was first seen, and no call.

use rustc_hash::FxHashMap;

use crate::model::{Micros, Text};

use super::group::Op;
use super::key::{Key, Namer};
use super::outcome::Outcome;
use super::seen::{Prefix, Seen};

/// Values by a name that nobody who writes into a log can make two of: an actor's known tenant must hide no new one.
pub(super) struct Passed {
    namer: Namer,
    /// By group and value, when the value was first seen; by group alone, after when a new value is news, whatever else
    /// the group has.
    firsts: FxHashMap<Key, Micros>,
}

impl Passed {
    pub(super) fn new(namer: &Namer) -> Self {
        Self { namer: namer.clone(), firsts: FxHashMap::default() }
    }

    /// Remembers all of a group, or nothing where that would be more than so many values.
    pub(super) fn let_go(&mut self, key: Key, seen: &Seen, values_max: usize) {
        if self.firsts.len().saturating_add(seen.weight()) > values_max {
            return;
        }
        self.note(key, seen);
        if let Some(settled_at) = seen.settled_at() {
            self.firsts.insert(self.namer.of_value(key, None), settled_at);
        }
    }

    /// Forgets a group that is read again, given all values that it has or had.
    pub(super) fn recall<'v>(&mut self, key: Key, values: impl Iterator<Item = &'v Text>) {
        if self.firsts.is_empty() {
            return;
        }
        self.firsts.remove(&self.namer.of_value(key, None));
        for value in values {
            self.firsts.remove(&self.namer.of_value(key, Some(value)));
        }
    }

    /// True if only the store can tell what these changes are to a group that is not in memory. Asked before a batch:
    /// what the batch then adds may be more than so many values, since what was not asked for has to be known.
    pub(super) fn needs_history(&self, prefix: Prefix<'_>, ops: &[Op], values_max: usize) -> bool {
        let is_full = self.firsts.len() >= values_max;
        self.fresh(prefix, ops).is_none_or(|fresh| is_full && !fresh.is_empty())
    }

    /// Of the changes to a group that was let go, those to values that it does not have; the others concern nothing.
    /// None where the group is not remembered, or only its calls tell what becomes of it.
    pub(super) fn fresh(&self, prefix: Prefix<'_>, ops: &[Op]) -> Option<Vec<Op>> {
        if self.firsts.is_empty() {
            return None;
        }
        let mut fresh = Vec::new();
        for op in ops {
            let value = prefix.value(&op.event)?;
            if let Some(first) = self.firsts.get(&self.namer.of_value(prefix.key, Some(value))) {
                if op.event.at() <= *first {
                    return None;
                }
                continue;
            }
            let settled_at = self.firsts.get(&self.namer.of_value(prefix.key, None))?;
            if !op.present || op.event.at() <= *settled_at {
                return None;
            }
            fresh.push(op.clone());
        }
        Some(fresh)
    }

    /// Tells of values that the group does not have.
    pub(super) fn tell(&mut self, prefix: Prefix<'_>, fresh: &[Op]) -> Outcome {
        if fresh.is_empty() {
            return Outcome::default();
        }
        let (seen, outcome) = Seen::news(prefix, fresh);
        self.note(prefix.key, &seen);
        outcome
    }

    fn note(&mut self, key: Key, seen: &Seen) {
        for (value, at) in seen.firsts() {
            self.firsts.insert(self.namer.of_value(key, Some(value)), at);
        }
    }
}
