//! Room on the disk: reading pauses before DuckDB has none left. The logs wait, and no position moves.

use std::io;
use std::path::Path;

use super::beside;

/// On a small one, this part of it is kept free instead.
const SHARE_KEPT: u64 = 20;

/// What is free on a database's file system, and what has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub free_bytes: u64,
    /// Below this, nothing should be written: a checkpoint copies the write-ahead log into the database, where the same
    /// rows take a fifth or so, and writes some of those before them anew.
    pub needed_bytes: u64,
    log_bytes: u64,
}

impl Space {
    /// Looks at the file system that a database lies on. `free_bytes_min` is what has to stay free, or a twentieth of
    /// the file system where that is less, and besides as much as the write-ahead log.
    pub fn of(database: &Path, free_bytes_min: u64) -> io::Result<Self> {
        let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty());
        let found = rustix::fs::statvfs(folder.unwrap_or(Path::new(".")))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        let log_bytes = std::fs::metadata(beside(database, ".wal")).map_or(0, |log| log.len());
        Ok(Self::judge(bytes(found.f_bavail), bytes(found.f_blocks), log_bytes, free_bytes_min))
    }

    fn judge(free_bytes: u64, total_bytes: u64, log_bytes: u64, free_bytes_min: u64) -> Self {
        let kept = free_bytes_min.min(total_bytes / SHARE_KEPT);
        let needed_bytes = match total_bytes {
            // A file system that does not tell its size.
            0 => 0,
            _ => kept.saturating_add(log_bytes),
        };
        Self { free_bytes, needed_bytes, log_bytes }
    }

    /// True where nothing more should be written.
    pub const fn is_short(&self) -> bool {
        self.free_bytes < self.needed_bytes
    }

    /// True where a checkpoint would give room back and probably finds the room that it needs itself. One that does not
    /// costs an opening of the database, and no row.
    pub const fn can_checkpoint(&self) -> bool {
        self.log_bytes > 0 && self.free_bytes > self.log_bytes / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_a_share_of_a_small_disk_and_follows_the_write_ahead_log() {
        const MB: u64 = 1 << 20;
        let small = |free, log| Space::judge(free, 20 * MB, log, 64 * MB);
        assert!(!small(2 * MB, 0).is_short());
        assert!(small(MB - 1, 0).is_short());
        assert!(!small(5 * MB, 3 * MB).is_short());
        assert!(small(3 * MB, 3 * MB).is_short());
        assert!(small(3 * MB, 3 * MB).can_checkpoint());
        assert!(!small(MB, 3 * MB).can_checkpoint());
        let large = Space::judge(63 * MB, 1 << 40, 0, 64 * MB);
        assert!(large.is_short() && large.needed_bytes == 64 * MB);
        assert!(!Space::judge(0, 0, MB, 64 * MB).is_short());
    }

    #[test]
    fn the_file_system_of_a_database_is_that_of_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::of(&folder.path().join("not-there.duckdb"), 0).unwrap();
        assert!(space.free_bytes > 0 && !space.is_short());
        Space::of(Path::new("relative.duckdb"), 0).unwrap();
    }
}
