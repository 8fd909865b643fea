//! The facts that must outlive the database: what people decided, which alerts were found and mailed, what was seen
//! first. One JSON object a line, each with the hash of the one before it, synced to disk before the database says so.
//!
//! The database can be made again from the logs; these facts cannot. Whoever changes or removes an entry breaks the
//! chain: reading goes on after the break, and [`Journal::breaks`] tells of it for good.

mod chain;
mod fact;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub use chain::Break;
use chain::{Chain, Entry, hash, walk};
pub use fact::{Decided, Delivered, Fact, Fate, Owed, Raised};

use crate::model::{JournalMark, Micros};

/// An open journal, ready to be added to.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    chain: Chain,
    /// The file may end with entries that nobody was told of: others after them would break the chain.
    is_poisoned: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("the journal {} cannot be used: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "an entry of the journal {} could neither be written nor taken back, so nothing more is added to it: see to \
         its disk, then start again",
        path.display()
    )]
    Poisoned { path: PathBuf },
}

impl Journal {
    /// Opens a journal, made new if it is not there, and reads its chain. `mark` is where it stood when the database
    /// last committed: where that entry is nowhere, entries were removed. Every fact is told to `tell` with the number
    /// of its entry, from 1, and its time.
    pub fn open(
        path: &Path,
        mark: Option<&JournalMark>,
        mut tell: impl FnMut(u64, Micros, Fact),
    ) -> Result<Self, JournalError> {
        let fail = |source| JournalError::Io { path: path.to_path_buf(), source };
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .mode(0o600)
            .open(path)
            .map_err(fail)?;
        let chain = walk(BufReader::new(&file), mark, &mut tell).map_err(fail)?;
        if chain.is_cut {
            // A power cut can leave a half line; nobody was told that it was done. It ends here, so that the next
            // entry has a line of its own.
            file.write_all(b"\n").map_err(fail)?;
        }
        Ok(Self { path: path.to_path_buf(), file, chain, is_poisoned: false })
    }

    /// Adds entries in one write and syncs them to disk. After an error they are not there. After a break, a segment
    /// that tells of it comes first.
    pub fn append(&mut self, at: Micros, facts: &[Fact]) -> Result<(), JournalError> {
        self.seal(at)?;
        self.append_by(facts.iter().map(|fact| (at, fact)), sync)
    }

    /// As [`Journal::append`], with a time for each fact.
    pub fn append_timed(&mut self, facts: &[(Micros, Fact)]) -> Result<(), JournalError> {
        self.seal(facts.first().map_or(Micros(0), |(at, _)| *at))?;
        self.append_by(facts.iter().map(|(at, fact)| (*at, fact)), sync)
    }

    /// Starts a new segment, if there is a break that none tells of.
    pub fn seal(&mut self, now: Micros) -> Result<(), JournalError> {
        if !self.chain.is_open {
            return Ok(());
        }
        let segment = Fact::Segment { breaks: self.chain.breaks.clone() };
        self.append_by([(now, &segment)].into_iter(), sync)?;
        self.chain.is_open = false;
        Ok(())
    }

    /// Whether there is a break that no segment tells of yet.
    pub fn is_open(&self) -> bool {
        self.chain.is_open
    }

    /// Where the journal stands now.
    pub fn mark(&self) -> JournalMark {
        JournalMark { entries: self.chain.entries, hash: self.chain.last_hash.clone() }
    }

    /// Where it is not what was written: changed entries, removed ones. Also those of long ago.
    pub fn breaks(&self) -> &[Break] {
        &self.chain.breaks
    }

    /// Adds entries by way of `write`, and takes back whatever a failed write left in the file.
    fn append_by<'a>(
        &mut self,
        facts: impl Iterator<Item = (Micros, &'a Fact)>,
        write: impl FnOnce(&File, &[u8]) -> io::Result<()>,
    ) -> Result<(), JournalError> {
        if self.is_poisoned {
            return Err(JournalError::Poisoned { path: self.path.clone() });
        }
        let fail = |source| JournalError::Io { path: self.path.clone(), source };
        let mut last_hash = self.chain.last_hash.clone();
        let (mut lines, mut entries) = (Vec::new(), 0);
        for (at, fact) in facts {
            let at = at.to_rfc3339();
            let (kind, data) = fact.parts().map_err(|error| fail(error.into()))?;
            let hash = hash(&last_hash, &at, &kind, &data);
            let previous = std::mem::replace(&mut last_hash, hash.clone());
            let entry = Entry { at, kind: kind.into(), data, previous, hash };
            serde_json::to_writer(&mut lines, &entry).map_err(|error| fail(error.into()))?;
            lines.push(b'\n');
            entries += 1;
        }
        if lines.is_empty() {
            return Ok(());
        }
        let length = self.file.metadata().map_err(fail)?.len();
        if let Err(source) = write(&self.file, &lines) {
            let taken_back = self.file.set_len(length).and_then(|()| self.file.sync_data());
            self.is_poisoned = taken_back.is_err();
            return Err(fail(source));
        }
        self.chain.last_hash = last_hash;
        self.chain.entries += entries;
        Ok(())
    }
}

fn sync(mut file: &File, lines: &[u8]) -> io::Result<()> {
    file.write_all(lines)?;
    file.sync_data()
}

/// Reads a journal and changes nothing: what [`Journal::open`] would find and tell. One that is not there is empty.
pub fn read(
    path: &Path,
    mark: Option<&JournalMark>,
    mut tell: impl FnMut(u64, Micros, Fact),
) -> Result<Vec<Break>, JournalError> {
    let fail = |source| JournalError::Io { path: path.to_path_buf(), source };
    let chain = match File::open(path) {
        Ok(file) => walk(BufReader::new(file), mark, &mut tell).map_err(fail)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            walk(io::empty(), mark, &mut tell).map_err(fail)?
        }
        Err(error) => return Err(fail(error)),
    };
    Ok(chain.breaks)
}
