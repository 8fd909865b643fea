//! Taking the next items out of a file in bounded memory: long lines and holes are streamed over, a
//! piece at a time.

use std::io;

use super::content::Content;
use super::cut::{GapWhy, Item, OVERLONG_HEAD_BYTES, Overlong, cut};
use super::identity::first_half;

/// Bytes streamed over in one go, so that an endless line or hole cannot hold up the other files.
const SKIM_BYTES_MAX: u64 = 16 << 20;

const BLOCK_BYTES: u64 = 256 << 10;

/// A line or a hole that began at the read position and did not end in what was read so far.
#[derive(Debug)]
pub(super) struct Skim {
    /// Streamed over up to here.
    pub(super) at: u64,
    over: Over,
}

#[derive(Debug)]
enum Over {
    Zeros,
    Line(Box<Long>),
}

/// What is kept of a line that may turn out to be too long.
#[derive(Debug)]
struct Long {
    hasher: blake3::Hasher,
    head: Vec<u8>,
}

impl Long {
    fn begin(bytes: &[u8]) -> Box<Self> {
        let mut long = Self { hasher: blake3::Hasher::new(), head: Vec::new() };
        long.add(bytes);
        Box::new(long)
    }

    fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        let room = OVERLONG_HEAD_BYTES.saturating_sub(self.head.len());
        self.head.extend(bytes.iter().take(room));
    }
}

impl Skim {
    pub(super) fn is_zeros(&self) -> bool {
        matches!(self.over, Over::Zeros)
    }

    /// Whether it is a line that is already longer than the limit.
    pub(super) fn is_endless_line(&self, start: u64, line_bytes_max: usize) -> bool {
        matches!(self.over, Over::Line(_)) && self.at - start > line_bytes_max as u64
    }
}

/// What one step of reading found.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) buffer: Vec<u8>,
    pub(super) items: Vec<Item>,
    /// Where the last item ends.
    pub(super) end: u64,
    /// Nothing more can be handed out before this place.
    pub(super) scanned: u64,
}

impl Taken {
    fn nothing(start: u64, scanned: u64) -> Self {
        Self { buffer: Vec::new(), items: Vec::new(), end: start, scanned }
    }

    fn one(item: Item, start: u64) -> Self {
        let end = start + item.length();
        Self { buffer: Vec::new(), items: vec![item], end, scanned: end }
    }
}

/// Takes about `bytes_max` bytes of complete lines from `start` on. A line that does not fit is
/// read whole up to `line_bytes_max`, and passed over beyond.
pub(super) fn take(
    file: &Content,
    start: u64,
    bytes_max: usize,
    line_bytes_max: usize,
    skim: &mut Option<Skim>,
) -> io::Result<Taken> {
    if let Some(going) = skim.as_mut() {
        let taken = go_on(file, start, line_bytes_max, going)?;
        if taken.end > start {
            *skim = None;
        }
        return Ok(taken);
    }
    let buffer = file.read_up_to(start, bytes_max as u64)?;
    let (items, length) = cut(&buffer, start, line_bytes_max, false);
    let read_to = start + buffer.len() as u64;
    let is_all = buffer.len() < bytes_max;
    if length > 0 {
        let end = start + length as u64;
        return Ok(Taken { buffer, items, end, scanned: if is_all { read_to } else { end } });
    }
    if !is_all {
        let over =
            if buffer.first() == Some(&0) { Over::Zeros } else { Over::Line(Long::begin(&buffer)) };
        *skim = Some(Skim { at: read_to, over });
    }
    Ok(Taken::nothing(start, read_to))
}

/// Takes all that is left from `start` on, ended by a newline or not.
pub(super) fn take_rest(
    file: &Content,
    start: u64,
    size: u64,
    line_bytes_max: usize,
    skim: &mut Option<Skim>,
) -> io::Result<Taken> {
    match skim.take() {
        Some(Skim { over: Over::Zeros, .. }) => {
            let gap = Item::Gap { offset: start, length: size - start, why: GapWhy::Zeros };
            Ok(Taken::one(gap, start))
        }
        Some(Skim { over: Over::Line(long), .. }) if size - start > line_bytes_max as u64 => {
            Ok(overlong(start, size - start, &long, true))
        }
        _ => {
            let buffer = file.read_up_to(start, size - start)?;
            let (items, length) = cut(&buffer, start, line_bytes_max, true);
            let end = start + length as u64;
            Ok(Taken { buffer, items, end, scanned: end })
        }
    }
}

fn go_on(file: &Content, start: u64, line_bytes_max: usize, skim: &mut Skim) -> io::Result<Taken> {
    if skim.is_zeros() {
        skim.at = file.skip_hole(skim.at)?;
    }
    let stop = skim.at + SKIM_BYTES_MAX;
    while skim.at < stop {
        let block = file.read_up_to(skim.at, BLOCK_BYTES)?;
        if block.is_empty() {
            break;
        }
        let found = match &mut skim.over {
            Over::Zeros => block.iter().position(|&byte| byte != 0),
            Over::Line(long) => {
                let newline = memchr::memchr(b'\n', &block);
                long.add(block.get(..newline.unwrap_or(block.len())).unwrap_or_default());
                newline
            }
        };
        let Some(found) = found else {
            skim.at += block.len() as u64;
            continue;
        };
        let length = skim.at + found as u64 - start;
        return match &skim.over {
            Over::Zeros => {
                let gap = Item::Gap { offset: start, length, why: GapWhy::Zeros };
                Ok(Taken::one(gap, start))
            }
            Over::Line(long) if length > line_bytes_max as u64 => {
                Ok(overlong(start, length, long, false))
            }
            Over::Line(_) => {
                let buffer = file.read_up_to(start, length + 1)?;
                let (items, taken) = cut(&buffer, start, line_bytes_max, false);
                let end = start + taken as u64;
                // Where the newline was written over in between, the line goes on.
                skim.at = start + length + 1;
                Ok(Taken { buffer, items, end, scanned: if taken > 0 { end } else { skim.at } })
            }
        };
    }
    Ok(Taken::nothing(start, skim.at))
}

/// The line of `length` bytes from `start` on.
fn overlong(start: u64, length: u64, long: &Long, is_unterminated: bool) -> Taken {
    let item = Item::Overlong(Box::new(Overlong {
        offset: start,
        length: length + u64::from(!is_unterminated),
        head: long.head.clone(),
        hash: first_half(&long.hasher.finalize()),
        is_unterminated,
    }));
    Taken::one(item, start)
}
