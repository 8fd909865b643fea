//! Who a file is: found by device and inode, decided by its content.
//!
//! Inode numbers are given out again as soon as a file is deleted, names move with every rotation,
//! and times can be set; only the bytes tell whether a file is the one that was read before. A
//! generation is known by the hash of its first bytes (its head) and the hash of the bytes just
//! before the place it was read to (its anchor).

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;

use super::content::Content;
use crate::model::Micros;

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

/// Changes whenever the file's content does. The time of change cannot be set back by the file's
/// owner, and the kernel gives it a new value for each change after it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// When it was last written to, or its owner or name changed, by its file system.
    pub(super) const fn changed_at(&self) -> Micros {
        Micros(self.changed.0.saturating_mul(Micros::SECOND).saturating_add(self.changed.1 / 1000))
    }
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

/// The hash of a file's first `len` bytes, at most [`HEAD_BYTES`] of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) len: u32,
    pub(super) hash: [u8; 16],
}

impl Head {
    /// Of any file.
    pub(super) const EMPTY: Self = Self { len: 0, hash: [0; 16] };

    fn of(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::EMPTY;
        }
        Self { len: u32::try_from(bytes.len()).unwrap_or(u32::MAX), hash: hash(bytes) }
    }

    /// Of a file that so far begins with `bytes`. Zeros at the end are left out: after a power cut
    /// they stand for what was not written yet.
    pub(super) fn seen(bytes: &[u8]) -> Self {
        let len = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        Self::of(bytes.get(..len.min(HEAD_BYTES)).unwrap_or_default())
    }

    /// Whether a file that begins with `bytes` begins with this head.
    pub(super) fn begins(&self, bytes: &[u8]) -> bool {
        bytes.get(..self.len as usize).is_some_and(|bytes| Self::of(bytes) == *self)
    }

    pub(super) fn is_full(&self) -> bool {
        self.len as usize == HEAD_BYTES
    }
}

/// A position in a content: the hashes of its first bytes and of those just before the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    pub(super) offset: u64,
    /// Of the bytes before the position alone: what follows may still change.
    pub(super) head: Head,
    pub(super) tail_len: u32,
    pub(super) tail_hash: [u8; 16],
}

impl Anchor {
    /// The beginning of any file.
    pub(super) const START: Self =
        Self { offset: 0, head: Head::EMPTY, tail_len: 0, tail_hash: [0; 16] };

    /// The position `offset` as the content now stands; none if it is shorter.
    pub(super) fn at(content: &Content, offset: u64) -> io::Result<Option<Self>> {
        if offset == 0 {
            return Ok(Some(Self::START));
        }
        let tail_len = offset.min(TAIL_BYTES);
        let head = content.read_up_to(0, offset.min(HEAD_BYTES as u64))?;
        let tail = content.read_up_to(offset - tail_len, tail_len)?;
        let is_whole = tail.len() as u64 == tail_len;
        Ok(is_whole.then(|| Self {
            offset,
            head: Head::of(&head),
            tail_len: u32::try_from(tail_len).unwrap_or(u32::MAX),
            tail_hash: hash(&tail),
        }))
    }

    /// A position in content that can no longer be read: it holds in no file.
    pub(super) const fn nowhere(offset: u64) -> Self {
        Self { offset, head: Head::EMPTY, tail_len: u32::MAX, tail_hash: [0; 16] }
    }

    pub(super) const fn is_nowhere(&self) -> bool {
        self.tail_len == u32::MAX
    }

    /// Whether the same bytes stand before the position in this content.
    pub(super) fn holds_in(&self, content: &Content) -> io::Result<bool> {
        Ok(Self::at(content, self.offset)?.as_ref() == Some(self))
    }
}

/// Whether a file still holds the content that was read up to `read`, or, where nothing was read,
/// that was seen to begin with `seen`. What was seen beyond the position may change: a writer that
/// comes back cuts off its half line.
pub(super) fn is_same_content(file: &Content, seen: &Head, read: &Anchor) -> io::Result<bool> {
    if read.offset > 0 {
        return read.holds_in(file);
    }
    Ok(seen.begins(&file.read_up_to(0, HEAD_BYTES as u64)?))
}

/// A hash of the first few bytes, none if there are fewer: which files could have a beginning in
/// common.
pub(super) fn opening(bytes: &[u8]) -> Option<[u8; 16]> {
    bytes.get(..DISTINCTIVE_BYTES).map(hash)
}

/// Whether two files that begin with these bytes must be copies of each other: they are long
/// enough, or hold a time.
pub(super) fn is_distinctive(head: &[u8]) -> bool {
    head.len() >= DISTINCTIVE_BYTES || holds_time(head)
}

/// Whether something that looks like a time stands in the bytes.
pub(super) fn holds_time(head: &[u8]) -> bool {
    let are_digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    let is_clock = |part: &[u8]| match part {
        [hours @ .., b':', tens, ones] => are_digits(hours) && are_digits(&[*tens, *ones]),
        _ => false,
    };
    head.windows(5).any(is_clock) || head.windows(10).any(are_digits)
}

/// UTF-16 in a head: by its byte order mark, or since every other byte is zero. No line of JSON can
/// be found in that.
pub(super) fn is_utf16(head: &[u8]) -> bool {
    const PAIRS_MIN: usize = 8;
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return true;
    }
    let is_zero_at = |place: usize| {
        head.chunks_exact(2).all(|pair| {
            pair.iter().enumerate().all(|(index, &byte)| (byte == 0) == (index == place))
        })
    };
    head.len() >= 2 * PAIRS_MIN && (is_zero_at(0) || is_zero_at(1))
}

/// The first byte of a mark whose second one is not there yet.
pub(super) fn may_become_utf16(head: &[u8]) -> bool {
    matches!(head, [0xff | 0xfe])
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
    use std::fs::File;

    use super::*;

    #[test]
    fn utf16_is_known_by_its_mark_or_its_zeros() {
        let little: Vec<u8> = "{\"ts\":1}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = "{\"ts\":1}\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert!(is_utf16(&little) && is_utf16(&big));
        assert!(is_utf16(b"\xff\xfe") && is_utf16(b"\xfe\xff\0{"));
        for other in [&b""[..], b"\xff", b"{\"ts\":1767225600,\"a\":1}", b"a\0b\0", &[0; 64]] {
            assert!(!is_utf16(other), "{other:?}");
        }
    }

    #[test]
    fn a_head_grows_and_leaves_out_zeros_at_the_end() {
        let short = Head::seen(b"{\"a\":1}\n\0\0\0");
        assert_eq!(short.len, 8);
        assert!(short.begins(b"{\"a\":1}\n{\"a\":2}\n"));
        assert!(!short.begins(b"{\"a\":2}\n{\"a\":2}\n"));
        assert!(!short.begins(b"{\"a\":1}"));
        assert!(Head::seen(&[b'x'; 2 * HEAD_BYTES]).is_full());
        assert_eq!(Head::seen(&[0; 10]), Head::EMPTY);
        assert!(Head::EMPTY.begins(b"anything"));
    }

    #[test]
    fn an_anchor_holds_where_both_ends_of_what_was_read_are_the_same() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let holds_in = |anchor: &Anchor, bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            anchor.holds_in(&Content::Plain(File::open(&path).unwrap())).unwrap()
        };
        let mut bytes = vec![b'x'; 10_000];
        std::fs::write(&path, &bytes).unwrap();
        let file = Content::Plain(File::open(&path).unwrap());
        assert_eq!(Anchor::at(&file, 10_001).unwrap(), None);
        let anchor = Anchor::at(&file, 9_000).unwrap().unwrap();
        bytes.truncate(9_000);
        assert!(holds_in(&anchor, &bytes));
        assert!(!holds_in(&anchor, &bytes[1..]));
        for (place, is_noticed) in [(0, true), (4095, true), (4096, false), (8_744, true)] {
            let mut other = bytes.clone();
            other[place] = b'y';
            assert_eq!(!holds_in(&anchor, &other), is_noticed, "{place}");
        }
        assert!(!holds_in(&Anchor::nowhere(9_000), &bytes));
    }

    #[test]
    fn short_heads_without_a_time_are_not_distinctive() {
        assert!(!is_distinctive(b"{\"event\":\"start\"}\n"));
        assert!(is_distinctive(b"{\"ts\":\"2026-01-01T10:00:00Z\"}"));
        assert!(is_distinctive(b"{\"ts\":1767225600}"));
        assert!(is_distinctive(&[b'x'; 64]));
    }
}
