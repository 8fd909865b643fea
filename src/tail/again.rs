//! Reading what was read before once more: for a database that is made again.

use super::Tail;
use super::identity::Anchor;
use super::report::SourceState;
use super::source::{Cursor, Inherited};

impl Tail {
    /// Whether the last scan found the generation's content, so that it can be read.
    pub fn is_found(&self, generation: u64) -> bool {
        self.sources
            .get(&generation)
            .is_some_and(|source| source.state != SourceState::Gone && !source.is_stalled)
    }

    /// How far the generation was handed out.
    pub fn read_offset(&self, generation: u64) -> Option<u64> {
        self.sources.get(&generation).map(|source| source.read.offset)
    }

    /// Goes back to the beginning of a generation, or to `copied_until`, where it began as a copy
    /// of another: that part is a gap again.
    pub fn reread(&mut self, generation: u64, copied_until: u64) {
        let Some(source) = self.sources.get_mut(&generation) else { return };
        source.read = Anchor::START;
        source.committed = Anchor::START;
        source.inherited =
            (copied_until > 0).then_some(Inherited { of: generation, until: copied_until });
        source.forget_progress();
    }

    /// Goes on from a position that the store has, whatever was read of the generation.
    pub fn resume(&mut self, cursor: &Cursor) {
        let Some(source) = self.sources.get_mut(&cursor.generation) else { return };
        source.read = cursor.anchor();
        source.committed = cursor.anchor();
        source.forget_progress();
    }
}
