//! A file that begins like a generation whose own file is gone, and that holds less than was read of
//! it: a copy in the making, one that was made earlier, or a log that was cut and goes on.

use std::io;

use crate::model::Micros;

use super::content::Content;
use super::identity::Stamp;

/// A file that was not written to for this long is not being copied, in microseconds.
const STILL_MICROS: i64 = 5 * Micros::SECOND;

/// As much by the file's own time, which another machine may have written.
const OLD_MICROS: i64 = Micros::MINUTE;

/// Programs that copy write a multiple of it at a time, so that where a file ends there nothing is
/// told by what it ends with.
const PAGE_BYTES: u64 = 4096;

/// What was seen of such a file.
#[derive(Clone, Debug)]
pub(super) struct Short {
    /// The generation that it begins like.
    pub(super) of: u64,
    stamp: Stamp,
    /// Since when it has stood as it is.
    still_since: Micros,
    first_at: Micros,
    /// How long it was when it first was of a length that tells something.
    first_size: Option<u64>,
    /// Lengths at which it ended with a line, and with a part of one. Who writes lines stops at
    /// their ends; who copies does so by chance.
    whole: u32,
    torn: u32,
}

impl Short {
    fn new(of: u64, stamp: Stamp, now: Micros) -> Self {
        let (still_since, first_at) = (now, now);
        Self { of, stamp, still_since, first_at, first_size: None, whole: 0, torn: 0 }
    }

    /// Goes on from what was seen before, of a file that is this long now.
    pub(super) fn look(
        before: Option<Self>,
        of: u64,
        file: &Content,
        stamp: Stamp,
        now: Micros,
    ) -> io::Result<Self> {
        // Who made it shorter begins anew.
        let before = before.filter(|before| before.stamp.size <= stamp.size);
        let is_new = before.is_none();
        let mut short = before.unwrap_or_else(|| Self::new(of, stamp, now));
        short.of = of;
        if is_new || short.stamp.size < stamp.size {
            short.take(file, stamp.size)?;
        }
        if short.stamp != stamp {
            (short.stamp, short.still_since) = (stamp, now);
        }
        Ok(short)
    }

    fn take(&mut self, file: &Content, size: u64) -> io::Result<()> {
        if size.is_multiple_of(PAGE_BYTES) {
            return Ok(());
        }
        let end = file.read_up_to(size.saturating_sub(1), 1)?;
        *if end == b"\n" { &mut self.whole } else { &mut self.torn } += 1;
        self.first_size.get_or_insert(size);
        Ok(())
    }

    /// Up to where its content was read in the generation, once that can be told.
    pub(super) fn decided(&self, now: Micros) -> Option<u64> {
        let is_still = now.since(self.still_since) >= STILL_MICROS
            || now.since(self.stamp.changed_at()) >= OLD_MICROS;
        let is_log = self.is_log() && now.since(self.first_at) >= STILL_MICROS;
        (is_still || is_log).then(|| self.until())
    }

    /// As far as can be told by now.
    pub(super) fn until(&self) -> u64 {
        self.first_size.filter(|_| self.is_log()).unwrap_or(self.stamp.size)
    }

    /// Whether somebody writes lines to it.
    fn is_log(&self) -> bool {
        self.whole >= 2 && self.whole > self.torn
    }
}
