//! Reading on: chunks, positions, and lines found again.

use std::collections::BTreeSet;
use std::io;

use super::content::Content;
use super::identity::{Anchor, FileKey, TAIL_BYTES};
use super::open::{OpenError, Worth};
use super::report::{Problem, SourceState};
use super::skim::{Taken, take, take_rest};
use super::source::{Cursor, Source};
use super::{Chunk, GapWhy, Item, Tail};
use crate::model::{Micros, Text};

/// Compressed files that are read side by side: each takes a decoder's memory.
const PACKED_AT_ONCE_MAX: usize = 6;

/// After so many bytes newer files of the stream no longer wait for an archive.
const WAITED_FOR_BYTES_MAX: u64 = 1 << 30;

/// Bytes unpacked in one go, so that a file that is all air cannot hold up the others.
const UNPACKED_BYTES_MAX: u64 = 64 << 20;

/// Why nothing could be read of a generation now.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// There is no such generation, or a scan found its content gone.
    #[error("the content is gone")]
    Gone,
    /// Its file holds other content than the last scan saw.
    #[error("the content has changed")]
    Changed,
    /// A compressed file must be unpacked further than one step goes: ask again.
    #[error("it takes longer")]
    TakesLonger,
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Tail {
    /// The generations that have unread bytes which may hold complete lines, by number. Touches no
    /// file. Empty once everything that the last scan saw is read. Of compressed files there are
    /// few at a time, of each stream the oldest: the others follow when it is read, and so do newer
    /// files of the stream that were not begun, so that lines come in the order of their times.
    pub fn pending(&self) -> Vec<u64> {
        let mut unpacking: BTreeSet<&str> = BTreeSet::new();
        let mut awaited: BTreeSet<&str> = BTreeSet::new();
        let mut pending = Vec::new();
        for source in self.sources.values().filter(|source| source.is_pending()) {
            let read = source.read.offset;
            let is_due = if source.unpacking.is_none() {
                read > 0 || !self.may_wait || !awaited.contains(&*source.stream)
            } else {
                if read < WAITED_FOR_BYTES_MAX {
                    awaited.insert(&source.stream);
                }
                unpacking.len() < PACKED_AT_ONCE_MAX && unpacking.insert(&source.stream)
            };
            if is_due {
                pending.push(source.generation);
            }
        }
        pending
    }

    /// Whether a file that was not begun may wait for the archives of its stream. Not where lines are
    /// news: an archive that takes hours would hide them.
    pub fn let_wait(&mut self, may_wait: bool) {
        self.may_wait = may_wait;
    }

    /// Whether the generation has unread bytes which may hold complete lines.
    pub fn is_pending(&self, generation: u64) -> bool {
        self.sources.get(&generation).is_some_and(Source::is_pending)
    }

    /// Reads on: about `bytes_max` bytes of complete lines from the read position, more only to
    /// complete one line. A chunk without items says that there is none now; a problem with the
    /// file shows in the next scan.
    pub fn read(&mut self, generation: u64, bytes_max: usize) -> Chunk {
        let line_bytes_max = self.config.line_bytes_max;
        self.advance(generation, |file, start, source| {
            take(file, start, bytes_max.max(1), line_bytes_max, &mut source.skim)
        })
    }

    /// The generations of rotated or deleted files that are read to their end, have been quiet for
    /// the grace period and end without a newline.
    pub fn finishable(&self, now: Micros) -> Vec<u64> {
        let grace = self.config.grace_micros;
        let is_due = |source: &&Source| {
            source.state == SourceState::Rotated
                && !source.is_stalled
                && !source.has_more()
                && source.fault().is_none()
                && source.unread_bytes() > 0
                && source.scanned >= source.size
                && now.since(source.quiet_since) >= grace
        };
        self.sources.values().filter(is_due).map(|source| source.generation).collect()
    }

    /// Hands out what follows the last newline of a rotated or deleted file, as an unterminated
    /// line. Nothing if the file is live, or has complete lines left.
    pub fn finish(&mut self, generation: u64) -> Chunk {
        let line_bytes_max = self.config.line_bytes_max;
        self.advance(generation, |file, start, source| {
            let extent = file.extent()?;
            let size = extent.size;
            let is_whole = !extent.has_more && file.fault().is_none();
            let is_rest =
                source.state == SourceState::Rotated && source.scanned == size && is_whole;
            if !is_rest || size <= start {
                let scanned = source.scanned;
                return Ok(Taken { buffer: Vec::new(), items: Vec::new(), end: start, scanned });
            }
            take_rest(file, start, size, line_bytes_max, &mut source.skim)
        })
    }

    /// Says that the store has the generation up to the cursor's offset, so that [`Tail::rewind`]
    /// goes no further back.
    pub fn commit(&mut self, cursor: &Cursor) {
        let Some(source) = self.sources.get_mut(&cursor.generation) else { return };
        if (source.committed.offset..=source.read.offset).contains(&cursor.offset) {
            source.committed = cursor.anchor();
            if let Some(file) = self.files.peek(cursor.generation) {
                file.forget_before(cursor.offset.saturating_sub(TAIL_BYTES));
            }
            self.rate(cursor.generation);
        }
    }

    /// Goes back to the committed positions: everything handed out since is handed out again.
    pub fn rewind(&mut self) {
        self.sources.values_mut().for_each(Source::rewind);
    }

    /// The generation as committed: what to store when its path or state changed. None if it is
    /// unknown.
    pub fn cursor(&self, generation: u64) -> Option<Cursor> {
        let source = self.sources.get(&generation)?;
        Some(source.cursor(source.committed))
    }

    /// The generation as it will be once the store has it up to `offset`, the end of an item handed
    /// out and not committed. Any such end will do; that of a whole chunk is known without looking
    /// at the file. None if `offset` is no such place, or if the file cannot be read or was changed
    /// since the last scan: scan and ask again, and if it still is none, store nothing of it for
    /// now. Where a scan found the content gone, the cursor says so: no file will be taken for it
    /// after a restart.
    pub fn cursor_at(&mut self, generation: u64, offset: u64) -> Option<Cursor> {
        let source = self.sources.get(&generation)?;
        let (committed, read) = (source.committed, source.read);
        let anchor = if offset == read.offset {
            read
        } else if offset == committed.offset {
            committed
        } else if (committed.offset..read.offset).contains(&offset) {
            match self.patiently(generation, |file, _| Anchor::at(file, offset)) {
                Ok(anchor) => anchor?,
                Err(ReadError::Gone) => Anchor::nowhere(offset),
                Err(_) => return None,
            }
        } else {
            return None;
        };
        self.sources.get(&generation).map(|source| source.cursor(anchor))
    }

    /// Finds a line again: the `length` bytes at `offset`, as they were read. None if the file is
    /// gone, cannot be read, or no longer is that generation.
    pub fn read_line(&mut self, generation: u64, offset: u64, length: u64) -> Option<Vec<u8>> {
        let source = self.sources.get(&generation)?;
        let end = offset.checked_add(length)?;
        let is_inherited = source.inherited.is_some_and(|inherited| offset < inherited.until);
        if end > source.read.offset || is_inherited {
            return None;
        }
        let look = |file: &Content, _: &mut Source| file.read_aside(offset, length);
        let bytes = self.patiently(generation, look).ok()?;
        (bytes.len() as u64 == length).then_some(bytes)
    }

    /// Reads on by `step` and moves the read position past what it took.
    fn advance(
        &mut self,
        generation: u64,
        step: impl FnOnce(&Content, u64, &mut Source) -> io::Result<Taken>,
    ) -> Chunk {
        let verified = self.sources.get(&generation).and_then(|source| source.verified);
        let outcome = self.checked(generation, |file, source| {
            let inherited = source.inherited.filter(|_| source.read.offset == 0);
            let start = inherited.map_or(source.read.offset, |inherited| inherited.until);
            let mut taken = step(file, start, source)?;
            if let Some(inherited) = inherited {
                let why = GapWhy::CopyOf { generation: inherited.of };
                taken.items.insert(0, Item::Gap { offset: 0, length: inherited.until, why });
            }
            Ok(Anchor::at(file, taken.end)?.map(|anchor| (taken, anchor)))
        });
        let mut chunk = self.empty_chunk(generation);
        let Some(source) = self.sources.get_mut(&generation) else { return chunk };
        match outcome {
            Ok(Some((taken, anchor))) => {
                source.read = anchor;
                // Of what changed while it was read, only what was taken is certain.
                let is_certain = source.verified == verified;
                source.scanned = if is_certain { taken.scanned } else { taken.end };
                chunk.end = taken.end;
                chunk.buffer = taken.buffer;
                chunk.items = taken.items;
            }
            Err(ReadError::TakesLonger) => {}
            // Shrinking while it is read: the next scan finds out what became of it.
            Ok(None)
            | Err(ReadError::Changed | ReadError::Gone | ReadError::Open(OpenError::Moved)) => {
                source.is_stalled = true;
            }
            Err(ReadError::Open(OpenError::Io(error)) | ReadError::Io(error)) => {
                source.is_stalled = true;
                self.read_problems.push(Problem::refused(&source.path, "read", &error));
            }
            Err(ReadError::Open(OpenError::Outside | OpenError::Special)) => {
                source.is_stalled = true;
                self.read_problems.push(super::discover::outside(&source.path));
            }
        }
        chunk
    }

    fn empty_chunk(&self, generation: u64) -> Chunk {
        let source = self.sources.get(&generation);
        let start = source.map_or(0, |source| source.read.offset);
        Chunk {
            generation,
            stream: source.map_or_else(|| "".into(), |source| Text::clone(&source.stream)),
            start,
            end: start,
            buffer: Vec::new(),
            items: Vec::new(),
        }
    }

    /// Does some reading in the generation's file, and then makes sure that the file was the
    /// generation's all along: a change before or while it was read shows afterwards.
    fn checked<T>(
        &mut self,
        generation: u64,
        work: impl FnOnce(&Content, &mut Source) -> io::Result<T>,
    ) -> Result<T, ReadError> {
        self.open_again(generation)?;
        let source = self.sources.get_mut(&generation).ok_or(ReadError::Gone)?;
        let file = self.files.get(generation).ok_or(OpenError::Moved)?;
        file.allow(UNPACKED_BYTES_MAX);
        let outcome = match work(file, source) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(ReadError::TakesLonger);
            }
            outcome => outcome?,
        };
        match source.verify_change(file) {
            Ok(true) => {
                if file.is_packed() {
                    source.note_extent(file)?;
                }
                Ok(outcome)
            }
            Ok(false) => Err(ReadError::Changed),
            // Scans have the time to find out.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(ReadError::Changed),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Tail::checked`], however far a compressed file must be unpacked.
    fn patiently<T>(
        &mut self,
        generation: u64,
        work: impl Fn(&Content, &mut Source) -> io::Result<T>,
    ) -> Result<T, ReadError> {
        loop {
            match self.checked(generation, &work) {
                Err(ReadError::TakesLonger) => {}
                outcome => return outcome,
            }
        }
    }

    /// Makes sure that the generation's file is open.
    pub(super) fn open_again(&mut self, generation: u64) -> Result<(), ReadError> {
        let source = self.sources.get(&generation).ok_or(ReadError::Gone)?;
        if source.state == SourceState::Gone {
            return Err(ReadError::Gone);
        }
        if self.files.has(generation) {
            return Ok(());
        }
        let (path, key): (_, FileKey) = (source.path.clone(), source.key);
        let (file, opened, _) = self.files.open(&path, &self.inside)?;
        if opened != key {
            return Err(OpenError::Moved.into());
        }
        self.files.hold(generation, file);
        self.rate(generation);
        Ok(())
    }

    /// Tells the open files what the generation's is worth.
    pub(super) fn rate(&mut self, generation: u64) {
        let Some(source) = self.sources.get(&generation) else { return };
        let worth = if source.is_adrift {
            Worth::Adrift
        } else if source.committed.offset >= source.size {
            Worth::Drained
        } else {
            Worth::Reopenable
        };
        self.files.rate(generation, worth);
    }
}
