//! A write-ahead log that DuckDB refuses is set aside, never deleted. What it held is read from the logs again: the
//! reading positions lie in the same database, so they are as old as the rest of it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, fcntl_lock, renameat_with};
use rustix::io::Errno;

use super::{OpenOptions as Opening, Store, StoreError, beside};
use crate::model::Micros;

/// DuckDB's log, and what it writes beside it while a checkpoint runs.
const SUFFIXES: [&str; 3] = [".wal", ".wal.checkpoint", ".wal.recovery"];
/// Names tried before giving up: several damages in one second are more than anyone has seen.
const NAMES_MAX: u32 = 100;

impl Store {
    /// Opens a database; where its write-ahead log is damaged, sets that aside and opens what the last checkpoint left.
    /// Returns where the damaged log lies now, if it was.
    ///
    /// For those who read the logs again. Nobody else may: what the log held would be gone from view.
    pub fn open_or_mend(options: &Opening) -> Result<(Self, Option<PathBuf>), StoreError> {
        let logs = Logs::look(&options.path);
        let damage = match Self::open(options) {
            Ok(store) => return Ok((store, None)),
            Err(error) => error,
        };
        if !matches!(damage, StoreError::DamagedLog { .. }) {
            return Err(damage);
        }
        let Some(moved) = logs.set_aside(&options.path, options.now) else { return Err(damage) };
        match Self::open(options) {
            Ok(store) => {
                let aside = moved.first().map(|(_, to)| to.clone());
                Ok((store, aside))
            }
            Err(StoreError::InUse { path, pid }) => Err(StoreError::InUse { path, pid }),
            Err(error) => {
                // The log was not all that is wrong; without it nothing is better, and nothing may look as if it were.
                put_back(&options.path, &moved);
                Err(error)
            }
        }
    }
}

/// The log's files as they were before the database was opened.
struct Logs(Vec<(PathBuf, Stamp)>);

/// What tells whether a file is still the one that was looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    dev: u64,
    inode: u64,
    size: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found = std::fs::symlink_metadata(path).ok()?;
        Some(Self { dev: found.dev(), inode: found.ino(), size: found.len() })
    }
}

impl Logs {
    fn look(database: &Path) -> Self {
        let paths = SUFFIXES.iter().map(|suffix| beside(database, suffix));
        Self(paths.filter_map(|path| Stamp::of(&path).map(|stamp| (path, stamp))).collect())
    }

    /// Renames the files; none where they are not those that were looked at, or another process has the database: then
    /// it is that one's to say what they are.
    fn set_aside(&self, database: &Path, now: Micros) -> Option<Vec<(PathBuf, PathBuf)>> {
        let _lock = lock(database)?;
        if self.0.is_empty() || self.0.iter().any(|(path, seen)| Stamp::of(path) != Some(*seen)) {
            return None;
        }
        let mut moved = Vec::new();
        for (path, _) in &self.0 {
            match rename_free(path, now) {
                Ok(to) => moved.push((path.clone(), to)),
                Err(error) => {
                    tracing::error!(%error, file = %path.display(), "the damaged log could not be set aside");
                    return None;
                }
            }
        }
        for (from, to) in &moved {
            tracing::error!(
                damaged = %from.display(), kept = %to.display(),
                "the database's write-ahead log is damaged and was set aside; what it held is read from the logs again"
            );
        }
        Some(moved)
    }
}

/// Takes the lock that DuckDB takes, so that whoever has the database open keeps its log. It goes with the file.
fn lock(database: &Path) -> Option<File> {
    let file = OpenOptions::new().read(true).write(true).open(database).ok()?;
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Renames a file to the first free name of its kind.
fn rename_free(path: &Path, now: Micros) -> io::Result<PathBuf> {
    let time = now.to_datetime().format("%Y%m%dT%H%M%SZ");
    for number in 1..=NAMES_MAX {
        let suffix = match number {
            1 => format!(".damaged-{time}"),
            _ => format!(".damaged-{time}-{number}"),
        };
        let to = beside(path, &suffix);
        match rename_new(path, &to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(to),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Renames a file to a name that is not taken.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system can promise it; the lock keeps other Calltrails away from the name.
        Err(Errno::INVAL | Errno::NOSYS) if !to.exists() => std::fs::rename(from, to),
        done => Ok(done?),
    }
}

fn put_back(database: &Path, moved: &[(PathBuf, PathBuf)]) {
    let Some(_lock) = lock(database) else { return };
    for (from, to) in moved {
        if let Err(error) = rename_new(to, from) {
            tracing::error!(%error, kept = %to.display(), "the log could not be put back");
        }
    }
}

/// What happens once opening has failed, whatever happened in between.
#[cfg(test)]
pub(super) fn set_aside_now(options: &Opening) -> bool {
    Logs::look(&options.path).set_aside(&options.path, options.now).is_some()
}
