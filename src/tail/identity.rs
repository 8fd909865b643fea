//! Who a file is: found by device and inode, decided by its content.
//!
//! Inode numbers are given out again as soon as a file is deleted, names move with every rotation, and times can be
//! set; only the bytes tell whether a file is the one that was read before. A generation is known by the hash of its
//! first bytes (its head) and the hash of the bytes just before the place it was read to (its anchor).

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Bytes of a file's beginning that the head covers at most.
pub(super) const HEAD_BYTES: usize = 4096;

/// Bytes before a position that an anchor covers at most.
pub(super) const TAIL_BYTES: u64 = 256;

/// A head shorter than this and without a time in it could be the head of many files.
const DISTINCTIVE_BYTES: usize = 64;

/// A file on this machine, for as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileKey {
    pub(super) dev: u64,
    pub(super) inode: u64,
}

/// Changes whenever the file's content does. The time of change cannot be set back by the file's owner, and the
/// kernel gives it a new value for each change after it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

pub(super) fn key_and_stamp(metadata: &Metadata) -> (FileKey, Stamp) {
    let key = FileKey { dev: metadata.dev(), inode: metadata.ino() };
    let stamp = Stamp {
        size: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    };
    (key, stamp)
}

/// The hash of a file's first `len` bytes. It grows with the file up to [`HEAD_BYTES`] and then stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) len: u32,
    pub(super) hash: [u8; 16],
}

impl Head {
    /// Of a file that begins with `bytes`. Zeros at the end are left out: after a power cut they stand for what was not
    /// written yet.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let len = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let bytes = bytes.get(..len.min(HEAD_BYTES)).unwrap_or_default();
        Self { len: u32::try_from(bytes.len()).unwrap_or(u32::MAX), hash: hash(bytes) }
    }

    /// Whether a file that begins with `bytes` begins with this head.
    pub(super) fn begins(&self, bytes: &[u8]) -> bool {
        bytes.get(..self.len as usize).is_some_and(|bytes| hash(bytes) == self.hash)
    }

    pub(super) fn is_full(&self) -> bool {
        self.len as usize == HEAD_BYTES
    }
}

/// A position in a file, and the hash of the bytes just before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    pub(super) offset: u64,
    pub(super) tail_len: u32,
    pub(super) tail_hash: [u8; 16],
}

impl Anchor {
    /// The beginning of any file.
    pub(super) const START: Self = Self { offset: 0, tail_len: 0, tail_hash: [0; 16] };

    /// The position `offset` as the file now stands; none if the file is shorter.
    pub(super) fn at(file: &File, offset: u64) -> io::Result<Option<Self>> {
        let tail_len = offset.min(TAIL_BYTES);
        if tail_len == 0 {
            return Ok(Some(Self::START));
        }
        let tail = read_up_to(file, offset - tail_len, tail_len)?;
        let whole = tail.len() as u64 == tail_len;
        Ok(whole.then(|| Self {
            offset,
            tail_len: u32::try_from(tail_len).unwrap_or(u32::MAX),
            tail_hash: hash(&tail),
        }))
    }

    /// A position in content that can no longer be read: it holds in no file.
    pub(super) const fn nowhere(offset: u64) -> Self {
        Self { offset, tail_len: u32::MAX, tail_hash: [0; 16] }
    }

    /// Whether the same bytes stand before the position in this file.
    pub(super) fn holds_in(&self, file: &File) -> io::Result<bool> {
        Ok(Self::at(file, self.offset)?.as_ref() == Some(self))
    }
}

/// What a look at a file's content says about a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the same content, perhaps grown; this is its head now.
    Same(Head),
    /// It is other content, or content that was cut off.
    Other,
}

/// Decides whether `file` still holds the content with this head, read to this anchor.
pub(super) fn decide(file: &File, size: u64, head: &Head, read: &Anchor) -> io::Result<Verdict> {
    if size < read.offset || size < u64::from(head.len) {
        return Ok(Verdict::Other);
    }
    let bytes = read_up_to(file, 0, HEAD_BYTES as u64)?;
    if !head.begins(&bytes) || !read.holds_in(file)? {
        return Ok(Verdict::Other);
    }
    // Bytes that were there before and are zeros now would shorten the head: keep the longer one.
    let now = Head::of(&bytes);
    Ok(Verdict::Same(if now.len > head.len { now } else { *head }))
}

/// Whether two files that begin with these bytes must be copies of each other: they are long enough, or hold a time.
pub(super) fn is_distinctive(head: &[u8]) -> bool {
    let clock = |part: &[u8]| matches!(part, [a, b, b':', c, d] if [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()));
    let count = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    head.len() >= DISTINCTIVE_BYTES || head.windows(5).any(clock) || head.windows(10).any(count)
}

/// Reads `length` bytes from `offset` on, fewer only where the file ends.
pub(super) fn read_up_to(file: &File, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

pub(super) fn hash(bytes: &[u8]) -> [u8; 16] {
    first_half(&blake3::hash(bytes))
}

pub(super) fn first_half(hash: &blake3::Hash) -> [u8; 16] {
    let mut half = [0; 16];
    half.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_grows_and_leaves_out_zeros_at_the_end() {
        let short = Head::of(b"{\"a\":1}\n\0\0\0");
        assert_eq!(short.len, 8);
        assert!(short.begins(b"{\"a\":1}\n{\"a\":2}\n"));
        assert!(!short.begins(b"{\"a\":2}\n{\"a\":2}\n"));
        assert!(!short.begins(b"{\"a\":1}"));
        assert!(Head::of(&[b'x'; 2 * HEAD_BYTES]).is_full());
    }

    #[test]
    fn short_heads_without_a_time_are_not_distinctive() {
        assert!(!is_distinctive(b"{\"event\":\"start\"}\n"));
        assert!(is_distinctive(b"{\"ts\":\"2026-01-01T10:00:00Z\"}"));
        assert!(is_distinctive(b"{\"ts\":1767225600}"));
        assert!(is_distinctive(&[b'x'; 64]));
    }
}
