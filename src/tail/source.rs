//! One generation: whose content it is, where its file is, and how far it was read.

use std::io;
use std::path::PathBuf;

use super::SourceStatus;
use super::codec::Fault;
use super::content::{Content, Extent};
use super::identity::{Anchor, FileKey, HEAD_BYTES, Head, Stamp, is_same_content, opening};
use super::report::SourceState;
use super::skim::Skim;
use crate::model::{Micros, Text};

/// What the store remembers of one generation, and gives back at the next start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub generation: u64,
    pub stream: String,
    pub path: PathBuf,
    pub dev: u64,
    pub inode: u64,
    /// Bytes read and stored: `[0, offset)`.
    pub offset: u64,
    /// The first `head_len` bytes hash to `head_hash`; `head_len` grows with `offset` up to 4096.
    pub head_len: u32,
    pub head_hash: [u8; 16],
    /// The `tail_len` bytes before `offset` hash to `tail_hash`. A length that cannot be (over 256)
    /// says that the content was gone when the cursor was made, so that no file will be taken for
    /// it.
    pub tail_len: u32,
    pub tail_hash: [u8; 16],
    pub state: SourceState,
    /// Bytes in the file when it was last looked at.
    pub size: u64,
}

impl Cursor {
    pub(super) fn anchor(&self) -> Anchor {
        Anchor {
            offset: self.offset,
            head: Head { len: self.head_len, hash: self.head_hash },
            tail_len: self.tail_len,
            tail_hash: self.tail_hash,
        }
    }
}

/// One generation in memory.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) generation: u64,
    pub(super) stream: Text,
    pub(super) path: PathBuf,
    pub(super) key: FileKey,
    pub(super) state: SourceState,
    pub(super) size: u64,
    /// Of a compressed file that was looked into.
    pub(super) unpacking: Option<Unpacking>,
    /// What the file was seen to begin with, read or not.
    pub(super) seen: Head,
    /// Of its first few bytes, once they were looked at.
    pub(super) opening: Option<[u8; 16]>,
    /// How far bytes were handed out.
    pub(super) read: Anchor,
    /// How far the store has them.
    pub(super) committed: Anchor,
    /// Nothing in `[read, scanned)` can be handed out yet: no line ends there.
    pub(super) scanned: u64,
    /// A long line or a hole that is being streamed over.
    pub(super) skim: Option<Skim>,
    /// What a copy shares with its original, handed out as a gap before anything else.
    pub(super) inherited: Option<Inherited>,
    /// The content was verified while the file had this stamp.
    pub(super) verified: Option<Stamp>,
    /// The stamp was still the same at a later look, so that no change can hide behind a coarse
    /// clock.
    pub(super) is_settled: bool,
    /// Not found at any path; read through the file held open, as long as it is.
    pub(super) is_adrift: bool,
    /// Reading failed or found other content: wait for the next scan.
    pub(super) is_stalled: bool,
    /// Scans in a row that found neither path nor open file.
    pub(super) missed: u32,
    /// Bytes seen and then cut off, not yet reported.
    pub(super) lost_bytes: u64,
    /// When the size last changed, by the clock of the scans.
    pub(super) quiet_since: Micros,
    pub(super) quiet_size: u64,
}

/// How far a compressed file is unpacked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unpacking {
    /// There may be more than is known: the source's size is what was unpacked so far.
    has_more: bool,
    /// What keeps it from being unpacked to its end.
    fault: Option<Fault>,
    /// What it says about the size of its content.
    stated_size: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inherited {
    pub(super) of: u64,
    pub(super) until: u64,
}

impl Source {
    /// A generation that begins with its file.
    pub(super) fn new(generation: u64, stream: &str, path: PathBuf, key: FileKey) -> Self {
        Self {
            generation,
            stream: stream.into(),
            path,
            key,
            state: SourceState::Live,
            size: 0,
            unpacking: None,
            seen: Head::EMPTY,
            opening: None,
            read: Anchor::START,
            committed: Anchor::START,
            scanned: 0,
            skim: None,
            inherited: None,
            verified: None,
            is_settled: false,
            is_adrift: false,
            is_stalled: false,
            missed: 0,
            lost_bytes: 0,
            quiet_since: Micros::default(),
            quiet_size: 0,
        }
    }

    pub(super) fn restored(cursor: Cursor) -> Self {
        let key = FileKey { dev: cursor.dev, inode: cursor.inode };
        let anchor = cursor.anchor();
        Self {
            state: cursor.state,
            size: cursor.size,
            read: anchor,
            committed: anchor,
            scanned: cursor.offset,
            // Nothing of it can be read before a scan has found its file again.
            is_stalled: true,
            ..Self::new(cursor.generation, &cursor.stream, cursor.path, key)
        }
    }

    /// Describes it as committed to `anchor`.
    pub(super) fn cursor(&self, anchor: Anchor) -> Cursor {
        Cursor {
            generation: self.generation,
            stream: self.stream.to_string(),
            path: self.path.clone(),
            dev: self.key.dev,
            inode: self.key.inode,
            offset: anchor.offset,
            head_len: anchor.head.len,
            head_hash: anchor.head.hash,
            tail_len: anchor.tail_len,
            tail_hash: anchor.tail_hash,
            state: self.state,
            size: self.size,
        }
    }

    pub(super) fn status(&self) -> SourceStatus {
        SourceStatus {
            generation: self.generation,
            stream: Text::clone(&self.stream),
            path: self.path.clone(),
            state: self.state,
            size: self.likely_size(),
            is_size_known: !self.has_more(),
            read: self.read.offset,
            committed: self.committed.offset,
        }
    }

    /// Bytes seen but not read.
    pub(super) fn unread_bytes(&self) -> u64 {
        self.size.saturating_sub(self.read.offset)
    }

    /// Whether reading could hand out more than at the last try.
    pub(super) fn is_pending(&self) -> bool {
        self.state != SourceState::Gone
            && !self.is_stalled
            && (self.size > self.scanned || self.has_more())
    }

    /// Looks at the file and, if it changed since it was last verified, at its content. False: it
    /// holds other content, and whatever was just read from it is not this generation's.
    pub(super) fn verify(&mut self, file: &Content) -> io::Result<bool> {
        let (_, stamp) = file.look()?;
        if self.verified == Some(stamp) && self.is_settled {
            return Ok(true);
        }
        self.verify_content(file, stamp)
    }

    /// As [`Source::verify`], for the many reads between two scans: where the stamp was verified
    /// before, only the content read is compared, and that only as long as a coarse clock could
    /// have hidden a change.
    pub(super) fn verify_change(&mut self, file: &Content) -> io::Result<bool> {
        let (_, stamp) = file.look()?;
        if self.verified != Some(stamp) {
            return self.verify_content(file, stamp);
        }
        // An archive is not written over within a tick of the clock.
        if self.is_settled || file.is_packed() {
            return Ok(true);
        }
        is_same_content(file, &self.seen, &self.read)
    }

    fn verify_content(&mut self, file: &Content, stamp: Stamp) -> io::Result<bool> {
        if let Some(inherited) = self.inherited
            && !file.reaches(inherited.until)?
        {
            return Ok(false);
        }
        // Before its content is compared: where that is still the same then, this was, too.
        let before = file.extent()?;
        let bytes = file.read_up_to(0, HEAD_BYTES as u64)?;
        if !self.is_drained_archive(file)? && !is_same_content(file, &self.seen, &self.read)? {
            return Ok(false);
        }
        self.seen = Head::seen(&bytes);
        self.opening = opening(&bytes);
        self.is_settled = self.verified == Some(stamp);
        // How much is in an archive is known better now.
        let extent = if file.is_packed() { file.extent()? } else { before };
        if !self.is_settled && !self.is_mere_growth(extent.size) {
            self.forget_progress();
        }
        if self.verified != Some(stamp) {
            self.unpacking = None;
        }
        self.verified = Some(stamp);
        if !extent.has_more {
            self.lost_bytes += self.size.saturating_sub(extent.size);
        }
        self.note(file, extent)?;
        Ok(true)
    }

    /// Whether a compressed file, of which everything was read before the last start, is still the
    /// same by how its content begins and by the size that it states: to unpack a year of archives
    /// at every start would take minutes.
    fn is_drained_archive(&self, file: &Content) -> io::Result<bool> {
        let is_drained = self.verified.is_none() && self.read.offset == self.size;
        if !is_drained || self.size == 0 || !file.is_packed() {
            return Ok(false);
        }
        let head = file.read_up_to(0, HEAD_BYTES as u64)?;
        Ok(self.read.head.begins(&head) && file.ends_as_stated(self.size)?)
    }

    /// Notes how much there is, as far as it is known by now.
    pub(super) fn note_extent(&mut self, file: &Content) -> io::Result<()> {
        self.note(file, file.extent()?)
    }

    fn note(&mut self, file: &Content, extent: Extent) -> io::Result<()> {
        self.size = extent.size;
        if file.is_packed() {
            let stated_size = match &self.unpacking {
                Some(before) => before.stated_size,
                None => file.stated_size()?,
            };
            let (has_more, fault) = (extent.has_more, file.fault());
            self.unpacking = Some(Unpacking { has_more, fault, stated_size });
        } else {
            self.unpacking = None;
        }
        Ok(())
    }

    /// Whether there may be more content than its size says.
    pub(super) fn has_more(&self) -> bool {
        self.unpacking.is_some_and(|unpacking| unpacking.has_more)
    }

    /// What keeps a compressed file from being unpacked to its end.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.unpacking.and_then(|unpacking| unpacking.fault)
    }

    fn likely_size(&self) -> u64 {
        let unfinished = self.unpacking.filter(|unpacking| unpacking.has_more);
        let stated = unfinished.and_then(|unpacking| unpacking.stated_size);
        stated.unwrap_or(0).max(self.size)
    }

    /// Whether what was streamed over can have stayed as it was. Zeros at the end of a file are
    /// written over where the system was slow to write them; in front of other bytes they stay.
    fn is_mere_growth(&self, size: u64) -> bool {
        let is_at_end = self.skim.as_ref().is_some_and(|s| s.is_zeros() && s.at >= self.size);
        size > self.size && !is_at_end
    }

    /// Forgets what was found beyond the read position.
    pub(super) fn forget_progress(&mut self) {
        self.scanned = self.read.offset;
        self.skim = None;
    }

    /// Goes back to what the store has.
    pub(super) fn rewind(&mut self) {
        if self.state == SourceState::Gone {
            // What was handed out and not stored cannot be read again.
            self.lost_bytes += self.read.offset - self.committed.offset;
        }
        self.read = self.committed;
        self.forget_progress();
    }

    /// Notes the size for the grace period.
    pub(super) fn note_quiet(&mut self, now: Micros) {
        if self.size != self.quiet_size {
            self.quiet_size = self.size;
            self.quiet_since = now;
        }
    }
}
