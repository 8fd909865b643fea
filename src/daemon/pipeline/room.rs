//! Room on the database's disk, before a batch needs it.

use super::Pipeline;
use crate::store::{Space, StoreError};

impl Pipeline {
    /// Bytes free on the database's disk, if that can be told.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        Space::of(self.store.path(), 0).ok().map(|space| space.free_bytes)
    }

    /// What is lacking on the disk, if something is. Where a checkpoint can give room back, and may, one is made first.
    pub(crate) fn lacks_room(&self, may_write: bool) -> Result<Option<Space>, StoreError> {
        let short = || {
            // A file system that cannot be asked says so when it is written to.
            let space = Space::of(self.store.path(), self.free_bytes_min).ok();
            space.filter(Space::is_short)
        };
        if may_write && short().is_some_and(|space| space.can_checkpoint()) {
            self.store.checkpoint()?;
        }
        Ok(short())
    }
}
