//! Which generations a file could be by how it begins.

use std::collections::{BTreeMap, HashMap};

use super::identity::{Head, first_half};
use super::source::Source;

/// Generations by their heads.
pub(super) struct Heads {
    by_len: BTreeMap<u32, HashMap<[u8; 16], Vec<u64>>>,
    by_opening: HashMap<[u8; 16], Vec<u64>>,
}

impl Heads {
    pub(super) fn of<'a>(sources: impl Iterator<Item = &'a Source>) -> Self {
        let mut heads = Self { by_len: BTreeMap::new(), by_opening: HashMap::new() };
        sources.for_each(|source| heads.add(source));
        heads
    }

    pub(super) fn add(&mut self, source: &Source) {
        for Head { len, hash } in [source.read.head, source.seen] {
            if len > 0 {
                let same_len = self.by_len.entry(len).or_default();
                same_len.entry(hash).or_default().push(source.generation);
            }
        }
        if let Some(opening) = source.opening {
            self.by_opening.entry(opening).or_default().push(source.generation);
        }
    }

    /// The generations whose first few bytes have this hash.
    pub(super) fn opening(&self, hash: [u8; 16]) -> Vec<u64> {
        self.by_opening.get(&hash).cloned().unwrap_or_default()
    }

    /// The generations that a file with this beginning could be.
    pub(super) fn beginning(&self, bytes: &[u8]) -> Vec<u64> {
        let mut alike = Vec::new();
        let mut hasher = blake3::Hasher::new();
        let mut done = 0;
        for (len, same_len) in &self.by_len {
            // Ascending: beyond this one all are too long.
            let Some(more) = bytes.get(done..*len as usize) else { break };
            hasher.update(more);
            done = *len as usize;
            alike.extend(same_len.get(&first_half(&hasher.finalize())).into_iter().flatten());
        }
        alike
    }
}
