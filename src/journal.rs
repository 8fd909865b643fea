//! What people decided, outside the database: one JSON object a line, each with the hash of the one before it, synced
//! to disk before anybody is told that it is done. The database can be made again; decisions cannot.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::model::Micros;

/// An open journal, ready to be added to.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// The hash of the last entry, in hex; that of an empty journal is of nothing.
    last_hash: String,
    /// The file may end with an entry that nobody was told of: another after it would break the chain.
    is_poisoned: bool,
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
struct Entry<'a> {
    at: String,
    /// What it tells of, such as `decision`.
    kind: std::borrow::Cow<'a, str>,
    data: serde_json::Value,
    /// The hash of the entry before.
    previous: String,
    /// BLAKE3 over previous, kind, at and data.
    hash: String,
}

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("the journal {} cannot be used: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "line {line} of the journal {} does not follow from the one before: it was changed or cut. Keep the file, \
         find out who wrote to it, and start with another --db or move the journal away",
        path.display()
    )]
    Broken { path: PathBuf, line: usize },
    #[error(
        "an entry of the journal {} could neither be written nor taken back, so nothing more is added to it: see to \
         its disk, then start again",
        path.display()
    )]
    Poisoned { path: PathBuf },
}

impl Journal {
    /// Opens a journal, made new if it is not there, and checks that its chain is whole.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let fail = |source| JournalError::Io { path: path.to_path_buf(), source };
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .mode(0o600)
            .open(path)
            .map_err(fail)?;
        let (last_hash, is_cut) = check(&file, path)?;
        if is_cut {
            // A power cut can leave a half line; nobody was told that it was done. It ends here, so that the next
            // entry has a line of its own.
            file.write_all(b"\n").map_err(fail)?;
        }
        Ok(Self { path: path.to_path_buf(), file, last_hash, is_poisoned: false })
    }

    /// Adds an entry and syncs it to disk. After an error the entry is not there.
    pub fn append(
        &mut self,
        at: Micros,
        kind: &str,
        data: serde_json::Value,
    ) -> Result<(), JournalError> {
        self.append_by(at, kind, data, |mut file, line| {
            file.write_all(line)?;
            file.sync_data()
        })
    }

    /// Adds an entry by way of `write`, and takes back whatever a failed write left in the file.
    fn append_by(
        &mut self,
        at: Micros,
        kind: &str,
        data: serde_json::Value,
        write: impl FnOnce(&File, &[u8]) -> io::Result<()>,
    ) -> Result<(), JournalError> {
        if self.is_poisoned {
            return Err(JournalError::Poisoned { path: self.path.clone() });
        }
        let fail = |source| JournalError::Io { path: self.path.clone(), source };
        let at = at.to_rfc3339();
        let hash = hash(&self.last_hash, &at, kind, &data);
        let previous = self.last_hash.clone();
        let entry = Entry { at, kind: kind.into(), data, previous, hash };
        let mut line = serde_json::to_vec(&entry).map_err(|error| fail(error.into()))?;
        line.push(b'\n');
        let length = self.file.metadata().map_err(fail)?.len();
        if let Err(source) = write(&self.file, &line) {
            let taken_back = self.file.set_len(length).and_then(|()| self.file.sync_data());
            self.is_poisoned = taken_back.is_err();
            return Err(fail(source));
        }
        self.last_hash = entry.hash;
        Ok(())
    }
}

/// Reads the whole chain. Returns the last hash, and whether the file ends inside a line.
fn check(file: &File, path: &Path) -> Result<(String, bool), JournalError> {
    let fail = |source| JournalError::Io { path: path.to_path_buf(), source };
    let mut last = String::new();
    let mut is_cut = false;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(fail)? == 0 {
            break;
        }
        let Ok(entry) = serde_json::from_slice::<Entry<'_>>(&line) else {
            // The half line of a power cut: the last one, or one that was ended and left.
            is_cut = line.last() != Some(&b'\n');
            continue;
        };
        let expected = hash(&last, &entry.at, &entry.kind, &entry.data);
        if entry.previous != last || entry.hash != expected {
            return Err(JournalError::Broken { path: path.to_path_buf(), line: number });
        }
        last = entry.hash;
        // Cut just before its end, an entry is whole.
        is_cut = line.last() != Some(&b'\n');
    }
    Ok((last, is_cut))
}

fn hash(previous: &str, at: &str, kind: &str, data: &serde_json::Value) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [previous, at, kind, &data.to_string()] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal_of(entries: usize) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        for entry in 0..entries {
            journal.append(Micros(0), "decision", serde_json::json!({ "entry": entry })).unwrap();
        }
        (folder, path)
    }

    #[test]
    fn a_chain_goes_on_after_a_restart() {
        let (_folder, path) = journal_of(2);
        Journal::open(&path).unwrap().append(Micros(1), "decision", serde_json::json!(1)).unwrap();
        Journal::open(&path).unwrap();
    }

    #[test]
    fn a_changed_entry_is_found() {
        let (_folder, path) = journal_of(3);
        let text = std::fs::read_to_string(&path).unwrap().replace("\"entry\":1", "\"entry\":7");
        std::fs::write(&path, text).unwrap();
        assert!(matches!(Journal::open(&path), Err(JournalError::Broken { line: 2, .. })));
    }

    #[test]
    fn a_half_line_of_a_power_cut_is_no_break() {
        let (_folder, path) = journal_of(1);
        let mut text = std::fs::read(&path).unwrap();
        text.extend_from_slice(b"{\"at\":\"20");
        std::fs::write(&path, text).unwrap();
        Journal::open(&path).unwrap().append(Micros(1), "decision", serde_json::json!(1)).unwrap();
        Journal::open(&path).unwrap();
    }

    #[test]
    fn an_entry_cut_just_before_its_end_counts_and_the_next_has_a_line_of_its_own() {
        let (_folder, path) = journal_of(2);
        let text = std::fs::read(&path).unwrap();
        std::fs::write(&path, text.strip_suffix(b"\n").unwrap()).unwrap();
        Journal::open(&path).unwrap().append(Micros(1), "decision", serde_json::json!(1)).unwrap();
        Journal::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
    }

    #[test]
    fn a_failed_write_or_sync_leaves_nothing_and_the_chain_goes_on() {
        let (_folder, path) = journal_of(1);
        let before = std::fs::read(&path).unwrap();
        for share in [2, 1] {
            let mut journal = Journal::open(&path).unwrap();
            let failed =
                journal.append_by(Micros(1), "decision", serde_json::json!(1), |mut file, line| {
                    file.write_all(&line[..line.len() / share])?;
                    Err(io::ErrorKind::StorageFull.into())
                });
            assert!(matches!(failed, Err(JournalError::Io { .. })));
            assert_eq!(std::fs::read(&path).unwrap(), before);
        }
        let mut journal = Journal::open(&path).unwrap();
        journal
            .append_by(Micros(1), "decision", serde_json::json!(1), |_, _| {
                Err(io::ErrorKind::StorageFull.into())
            })
            .unwrap_err();
        journal.append(Micros(2), "decision", serde_json::json!(2)).unwrap();
        Journal::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    #[test]
    fn a_write_that_cannot_be_taken_back_is_the_last_one() {
        // A device that is always full, and that cannot be cut shorter either.
        let path = PathBuf::from("/dev/full");
        let file = OpenOptions::new().append(true).open(&path).unwrap();
        let mut journal = Journal { path, file, last_hash: String::new(), is_poisoned: false };
        let mut append = || journal.append(Micros(1), "decision", serde_json::json!(1));
        let first = append().unwrap_err();
        assert!(
            matches!(&first, JournalError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull),
            "{first}"
        );
        assert!(matches!(append(), Err(JournalError::Poisoned { .. })));
    }
}
