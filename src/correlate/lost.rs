//! Open calls that memory does not hold: what goes on with one of them needs the store.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::model::Micros;

/// Calls noted together, and forgotten together.
const PART: usize = 100_000;
/// Parts at most; with more open calls than they hold, each record may go on with one.
const PARTS_MAX: usize = 8;

/// By a hash of their names: to take a new call for an open one costs a look into the store, and nothing else.
#[derive(Default)]
pub(super) struct Lost {
    parts: VecDeque<(Micros, FxHashSet<u32>)>,
    /// The newest time of those that were too many to note.
    beyond: Option<Micros>,
}

impl Lost {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.beyond.is_none()
    }

    /// Notes a call whose last record has this time.
    pub(super) fn add(&mut self, name: &impl std::hash::Hash, at: Micros) {
        if self.parts.back().is_none_or(|(_, names)| names.len() >= PART) {
            self.parts.push_back((at, FxHashSet::default()));
        }
        if let Some((newest, names)) = self.parts.back_mut() {
            *newest = at.max(*newest);
            names.insert(hash(name));
        }
        if self.parts.len() > PARTS_MAX {
            let newest = self.parts.pop_front().map(|(newest, _)| newest);
            self.beyond = self.beyond.max(newest);
        }
    }

    pub(super) fn holds(&self, name: &impl std::hash::Hash) -> bool {
        let hash = hash(name);
        self.beyond.is_some() || self.parts.iter().any(|(_, names)| names.contains(&hash))
    }

    /// Forgets calls without a record since.
    pub(super) fn forget(&mut self, since: Micros) {
        self.parts.retain(|(newest, _)| *newest >= since);
        self.beyond = self.beyond.filter(|newest| *newest >= since);
    }
}

fn hash(name: &impl std::hash::Hash) -> u32 {
    let hash = FxBuildHasher.hash_one(name);
    // The upper half is mixed best.
    u32::try_from(hash >> 32).unwrap_or_default()
}
