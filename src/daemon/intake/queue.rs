//! What was read ahead of one file: its lines as what they are, first in, first out.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::dialects::{Parsed, Parser, Part};
use crate::mask::mask_cut;
use crate::model::{Line, Micros, Record, Reject, Text, TimeQuality};
use crate::store::Gap;
use crate::tail::{Chunk, GapWhy, Item};

/// How long the first lines of a file wait for the first one that has a time, where more may come.
pub(super) const HOLD_MICROS: i64 = 5 * Micros::SECOND;
/// While live, a line that has waited for so long is stored with the next batch, whatever else is written.
pub(super) const FAIR_MICROS: i64 = 3 * Micros::SECOND;

/// What was read ahead of one generation.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) entries: VecDeque<Entry>,
    /// The last valid time read.
    pub(super) last_at: Option<Micros>,
    /// Since when its first line waits for a time.
    held_since: Option<Micros>,
    /// Where its first line ends, and since when that has been the first.
    first_since: Option<(u64, Micros)>,
}

pub(super) struct Entry {
    /// Where it ends in the generation, and how much of it it is.
    pub(super) end: u64,
    pub(super) bytes: u64,
    pub(super) what: What,
}

pub(super) enum What {
    Record(Box<Record>),
    Reject(Reject),
    /// A line beyond the limit.
    Overlong(Reject),
    Gap(Gap),
    /// The parts of one line: reading never goes on in the middle of a line.
    Parts(Vec<What>),
}

impl Queue {
    /// The first entry, unless it waits for a time.
    pub(super) fn next(&mut self, may_hold: bool, now: Micros) -> Option<&Entry> {
        if !may_hold || self.last_at.is_some() || !self.is_timeless() {
            self.held_since = None;
        } else if now.since(*self.held_since.get_or_insert(now)) < HOLD_MICROS {
            return None;
        }
        self.entries.front()
    }

    /// Whether its first entry could be stored and has been the first for too long.
    pub(super) fn waits(&mut self, may_hold: bool, now: Micros) -> bool {
        let Some(end) = self.next(may_hold, now).map(|entry| entry.end) else {
            self.first_since = None;
            return false;
        };
        let (_, since) = *self.first_since.insert(match self.first_since {
            Some((known, since)) if known == end => (end, since),
            _ => (end, now),
        });
        now.since(since) >= FAIR_MICROS
    }

    /// Bytes of the lines in it.
    pub(super) fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }

    /// Whether its first entry is a record without a time.
    pub(super) fn is_timeless(&self) -> bool {
        let first = self.entries.front().and_then(|entry| entry.what.first_record());
        first.is_some_and(|record| record.at.is_none())
    }

    /// Adds an entry; a record without a time takes the last one before it, else the next one.
    pub(super) fn push(&mut self, mut entry: Entry) {
        let mut lent = None;
        entry.what.for_each_record(&mut |record| {
            if record.at.is_none() {
                record.at = self.last_at;
            } else if is_valid(record) {
                if self.last_at.is_none() {
                    lent = record.at;
                }
                self.last_at = record.at;
            }
        });
        self.entries.push_back(entry);
        if lent.is_some() {
            self.give_time(lent);
        }
    }

    /// Gives the waiting first lines the first time that came.
    pub(super) fn give_time(&mut self, at: Option<Micros>) {
        for entry in &mut self.entries {
            entry.what.for_each_record(&mut |record| record.at = record.at.or(at));
        }
    }
}

impl What {
    /// Lines of the database that it becomes.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Parts(parts) => parts.len(),
            Self::Record(_) | Self::Reject(_) | Self::Overlong(_) | Self::Gap(_) => 1,
        }
    }

    pub(super) fn first_record(&self) -> Option<&Record> {
        match self {
            Self::Record(record) => Some(record),
            Self::Parts(parts) => parts.iter().find_map(Self::first_record),
            Self::Reject(_) | Self::Overlong(_) | Self::Gap(_) => None,
        }
    }

    pub(super) fn for_each_record(&mut self, work: &mut impl FnMut(&mut Record)) {
        match self {
            Self::Record(record) => work(record),
            Self::Parts(parts) => parts.iter_mut().for_each(|part| part.for_each_record(work)),
            Self::Reject(_) | Self::Overlong(_) | Self::Gap(_) => {}
        }
    }
}

impl Entry {
    /// What has no time comes at once, so that it holds up nothing.
    pub(super) fn key(&self) -> Micros {
        self.what.first_record().and_then(|record| record.at).unwrap_or(Micros(i64::MIN))
    }
}

/// Why a line of nothing is a gap.
const BLANK: &str = "blank";
/// Why a hole of zeros is a gap.
pub(super) const ZEROS: &str = "zeros";

/// A time of the record's own that can be lent to its neighbours.
pub(super) fn is_valid(record: &Record) -> bool {
    record.time_quality == TimeQuality::Own && record.at.is_some()
}

pub(super) fn read(parser: &mut Parser, chunk: &Chunk, item: &Item, now: Micros) -> What {
    let generation = chunk.generation;
    let (offset, length) = (item.offset(), item.length());
    let gap = |why| What::Gap(Gap { generation, offset, length, why });
    match item {
        Item::Line { range, is_unterminated, .. } => {
            let line = Line { generation, offset, length, bytes: chunk.bytes(range) };
            let mut what = read_line(parser, &line, &chunk.stream, now);
            if *is_unterminated {
                what.for_each_record(&mut |record| {
                    record.flags.push(Text::from("unterminated"));
                    record.flags.sort();
                });
            }
            what
        }
        Item::Blank { .. } => gap(BLANK),
        Item::Gap { why: GapWhy::Zeros, .. } => gap(ZEROS),
        Item::Gap { why: GapWhy::CopyOf { .. }, .. } => gap("copy"),
        Item::Overlong(overlong) => What::Overlong(Reject {
            generation,
            offset,
            length,
            reason: format!(
                "a line of {length} bytes (BLAKE3 {:016x}) is longer than the limit; raise \
                 line_bytes_max in the section [tail] if such lines are meant",
                hash_head(&overlong.hash)
            ),
            head: mask_cut(&overlong.head),
        }),
    }
}

/// What one line is.
pub(super) fn read_line(parser: &mut Parser, line: &Line<'_>, stream: &Text, now: Micros) -> What {
    let &Line { generation, offset, length, .. } = line;
    match parse_line(parser, line, stream, now) {
        Parsed::Record(record) => What::Record(Box::new(record)),
        Parsed::Blank => What::Gap(Gap { generation, offset, length, why: BLANK }),
        Parsed::Reject(reject) => What::Reject(reject),
        Parsed::Parts(parts) => What::Parts(parts.into_iter().map(What::from).collect()),
    }
}

/// Parses a line; one that makes the parser panic is a reject like any other it cannot read.
fn parse_line(parser: &mut Parser, line: &Line<'_>, stream: &Text, now: Micros) -> Parsed {
    let parsed = catch_unwind(AssertUnwindSafe(|| parser.parse(line, stream, now)));
    parsed.unwrap_or_else(|_| {
        Parsed::Reject(Reject {
            generation: line.generation,
            offset: line.offset,
            length: line.length,
            reason: "Calltrail itself failed on this line: please report it with what the log says"
                .to_owned(),
            head: String::new(),
        })
    })
}

/// Enough of a hash to know the line again.
fn hash_head(hash: &[u8; 16]) -> u64 {
    hash.iter().take(8).fold(0, |head, byte| (head << 8) | u64::from(*byte))
}

impl From<Part> for What {
    fn from(part: Part) -> Self {
        match part {
            Part::Record(record) => Self::Record(Box::new(record)),
            Part::Reject(reject) => Self::Reject(reject),
        }
    }
}
