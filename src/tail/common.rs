//! What two files have in common, byte by byte, while either of them may be written to.

use std::io;

use super::content::Content;

/// What two files have in common from their beginnings on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Common {
    pub(super) bytes: u64,
    /// Up to the last newline of it.
    pub(super) line_bytes: u64,
    /// Whether the one file had no more bytes when it was compared. Its size would not tell: a copy
    /// in the making grows between being read and being asked for it.
    pub(super) is_all_of_left: bool,
    /// As much of the other one.
    pub(super) is_all_of_right: bool,
}

impl Common {
    /// Goes on comparing where it was left.
    pub(super) fn extend(&mut self, left: &Content, right: &Content) -> io::Result<()> {
        const BLOCK_BYTES: u64 = 64 << 10;
        loop {
            let left = left.read_up_to(self.bytes, BLOCK_BYTES)?;
            let right = right.read_aside(self.bytes, BLOCK_BYTES)?;
            let same = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
            let block = left.get(..same).unwrap_or_default();
            if let Some(newline) = memchr::memrchr(b'\n', block) {
                self.line_bytes = self.bytes + newline as u64 + 1;
            }
            self.bytes += same as u64;
            if (same as u64) < BLOCK_BYTES {
                self.is_all_of_left = same == left.len();
                self.is_all_of_right = same == right.len();
                return Ok(());
            }
        }
    }
}
