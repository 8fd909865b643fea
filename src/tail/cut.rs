//! Bytes to items: cutting a buffer at its newlines. Pure; reading more is [`super::skim`]'s
//! business.

use std::ops::Range;

use super::identity::hash;
use crate::model::Text;

/// Bytes of an overlong line that are kept.
pub(super) const OVERLONG_HEAD_BYTES: usize = 64 << 10;

/// The next items of one generation. They cover `[start, end)` exactly, in order; no items: nothing
/// to hand out now.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub generation: u64,
    pub stream: Text,
    /// Where in the generation the first item begins.
    pub start: u64,
    /// Where the last item ends: what to commit once all of it is stored.
    pub end: u64,
    pub buffer: Vec<u8>,
    pub items: Vec<Item>,
}

impl Chunk {
    /// The bytes of a line of this chunk, without its newline.
    pub fn bytes(&self, range: &Range<usize>) -> &[u8] {
        self.buffer.get(range.clone()).unwrap_or_default()
    }
}

/// A part of a generation. Offsets are bytes from its beginning; lengths include the newline where
/// there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// `range` is the line in the chunk's buffer, without the newline. `is_unterminated`: the file
    /// ended without one.
    Line { offset: u64, length: u64, range: Range<usize>, is_unterminated: bool },
    /// Lines of nothing but whitespace.
    Blank { offset: u64, length: u64 },
    /// A line beyond the limit, read past without keeping it.
    Overlong(Box<Overlong>),
    /// Bytes that are no line.
    Gap { offset: u64, length: u64, why: GapWhy },
}

/// A line beyond the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlong {
    pub offset: u64,
    pub length: u64,
    /// Its first bytes, at most 64 KiB.
    pub head: Vec<u8>,
    /// The first half of the BLAKE3 hash of the line without its newline.
    pub hash: [u8; 16],
    pub is_unterminated: bool,
}

/// Why there is no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapWhy {
    /// Zero bytes before a line: a truncated file whose writer kept its old position, or a power
    /// cut.
    Zeros,
    /// The same bytes were, or are, read as this generation.
    CopyOf { generation: u64 },
}

impl Item {
    pub fn offset(&self) -> u64 {
        match self {
            Self::Line { offset, .. } | Self::Blank { offset, .. } | Self::Gap { offset, .. } => {
                *offset
            }
            Self::Overlong(overlong) => overlong.offset,
        }
    }

    pub fn length(&self) -> u64 {
        match self {
            Self::Line { length, .. } | Self::Blank { length, .. } | Self::Gap { length, .. } => {
                *length
            }
            Self::Overlong(overlong) => overlong.length,
        }
    }
}

/// Cuts the complete lines off the front of a buffer that begins at `base`; returns them and how
/// many bytes they take. `is_end`: nothing follows, so that the rest is a line, too.
pub(super) fn cut(
    buffer: &[u8],
    base: u64,
    line_bytes_max: usize,
    is_end: bool,
) -> (Vec<Item>, usize) {
    let mut items = Vec::new();
    let mut at = 0;
    while let Some(rest) = buffer.get(at..).filter(|rest| !rest.is_empty()) {
        let offset = base + at as u64;
        let zeros = rest.iter().take_while(|&&byte| byte == 0).count();
        if zeros > 0 {
            // What follows is not known yet: the zeros may still be written over.
            if zeros == rest.len() && !is_end {
                break;
            }
            items.push(Item::Gap { offset, length: zeros as u64, why: GapWhy::Zeros });
            at += zeros;
            continue;
        }
        let (content, length) = match memchr::memchr(b'\n', rest) {
            Some(newline) => (newline, newline + 1),
            None if is_end => (rest.len(), rest.len()),
            None => break,
        };
        let is_unterminated = content == length;
        let line = rest.get(..content).unwrap_or_default();
        if content > line_bytes_max {
            items.push(Item::Overlong(Box::new(Overlong {
                offset,
                length: length as u64,
                head: line.iter().copied().take(OVERLONG_HEAD_BYTES).collect(),
                hash: hash(line),
                is_unterminated,
            })));
        } else if line.iter().all(u8::is_ascii_whitespace) {
            push_blank(&mut items, offset, length as u64);
        } else {
            let range = at..at + content;
            items.push(Item::Line { offset, length: length as u64, range, is_unterminated });
        }
        at += length;
    }
    (items, at)
}

/// Adds a blank line, to the run of blank lines before it where there is one.
fn push_blank(items: &mut Vec<Item>, offset: u64, length: u64) {
    if let Some(Item::Blank { length: run, .. }) = items.last_mut() {
        *run += length;
    } else {
        items.push(Item::Blank { offset, length });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(buffer: &[u8], is_end: bool) -> (Vec<String>, usize) {
        let (items, taken) = cut(buffer, 100, 10, is_end);
        let mut at = 100;
        let shown = items
            .iter()
            .map(|item| {
                assert_eq!(item.offset(), at, "the items cover the buffer without a hole");
                at += item.length();
                match item {
                    Item::Line { range, is_unterminated, .. } => {
                        let text = String::from_utf8_lossy(&buffer[range.clone()]).into_owned();
                        if *is_unterminated { format!("{text}…") } else { text }
                    }
                    Item::Blank { length, .. } => format!("blank {length}"),
                    Item::Overlong(overlong) => format!("overlong {}", overlong.length),
                    Item::Gap { length, .. } => format!("gap {length}"),
                }
            })
            .collect();
        assert_eq!(at, 100 + taken as u64);
        (shown, taken)
    }

    #[test]
    fn complete_lines_are_cut_off_and_the_rest_waits() {
        assert_eq!(lines(b"a\nbc\nhalf", false), (vec!["a".into(), "bc".into()], 5));
        assert_eq!(lines(b"half", false), (vec![], 0));
        assert_eq!(lines(b"a\nhalf", true), (vec!["a".into(), "half…".into()], 6));
    }

    #[test]
    fn blank_lines_merge() {
        assert_eq!(
            lines(b"\n \t\n\r\na\r\n\n", false),
            (vec!["blank 6".into(), "a\r".into(), "blank 1".into()], 10)
        );
    }

    #[test]
    fn only_a_newline_ends_a_line() {
        let text = "a\rb\u{2028}c\n".as_bytes();
        assert_eq!(lines(text, false).0, vec!["a\rb\u{2028}c".to_owned()]);
    }

    #[test]
    fn the_limit_counts_the_line_without_its_newline() {
        assert_eq!(lines(b"123456789\n", false).0, ["123456789"]);
        assert_eq!(lines(b"1234567890\n", false).0, ["1234567890"]);
        assert_eq!(lines(b"12345678901\n", false).0, ["overlong 12"]);
        assert_eq!(lines(b"12345678901", true).0, ["overlong 11"]);
    }

    #[test]
    fn zeros_before_a_line_are_a_gap_once_something_follows() {
        assert_eq!(
            lines(b"a\n\0\0\0b\n", false),
            (vec!["a".into(), "gap 3".into(), "b".into()], 7)
        );
        assert_eq!(lines(b"a\n\0\0\0", false), (vec!["a".into()], 2));
        assert_eq!(lines(b"a\n\0\0\0", true), (vec!["a".into(), "gap 3".into()], 5));
        assert_eq!(lines(b"\0\0x", false), (vec!["gap 2".into()], 2));
    }
}
