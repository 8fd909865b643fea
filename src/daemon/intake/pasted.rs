//! Lines that stand in a rule file, read as those of a log are: by the same parser, with the times that lines without
//! one take from their neighbours, and with what they show about their log.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::queue::{Entry, Queue, What, is_valid, read_line};
use crate::daemon::notice::{self, Notices};
use crate::detect::CaseLog;
use crate::dialects::Parser;
use crate::model::{Call, Dialect, Line, Micros, Record, RecordId, Text};

/// When the lines are read: so late that none is dated ahead of it, whatever day it is.
const NOW: Micros = Micros(i64::MAX);
/// The most records that the lines of a case hold: a line can hold many.
const RECORDS_MAX: usize = 10_000;
/// The most lines that cannot be read and are told one by one.
const UNREAD_TOLD_MAX: usize = 5;

/// What the logs of a case hold.
#[derive(Default)]
pub(in crate::daemon) struct Pasted {
    /// In the order of their times.
    pub(in crate::daemon) records: Vec<Arc<Record>>,
    /// What the lines show about their logs.
    pub(in crate::daemon) notices: Notices,
    /// The number of the line that begins at a place.
    lines: BTreeMap<(u64, u64), usize>,
    generations: FxHashMap<Text, u64>,
}

/// A log as far as it was read.
struct Open {
    stream: Text,
    generation: u64,
    offset: u64,
    queue: Queue,
}

impl Pasted {
    /// Reads the logs; the error tells each line that is no record, and why.
    pub(in crate::daemon) fn read(logs: &[CaseLog], parser: &mut Parser) -> Result<Self, String> {
        let mut pasted = Self::default();
        let mut open: Vec<Open> = Vec::new();
        let (mut number, mut unread) = (0, Unread::default());
        for log in logs {
            let known = open.len();
            let generation =
                *pasted.generations.entry(Text::clone(&log.name)).or_insert(known as u64);
            if generation == known as u64 {
                let stream = Text::clone(&log.name);
                open.push(Open { stream, generation, offset: 0, queue: Queue::default() });
            }
            let place = usize::try_from(generation).ok().and_then(|place| open.get_mut(place));
            let Some(open) = place else { continue };
            for text in &log.lines {
                pasted.lines.insert((generation, open.offset), number);
                let what = open.read(text, parser);
                if let Some(why) = why_unread(&what, log.dialect) {
                    unread.add(number, &why);
                }
                open.put(what, text);
                number += 1;
            }
        }
        unread.told()?;
        for open in open {
            pasted.take(open)?;
        }
        pasted.records.sort_by_key(|record| (record.at, record.id));
        Ok(pasted)
    }

    /// The lines that tell of a call, by their numbers; what is told of a log as a whole, all of its lines tell.
    pub(in crate::daemon) fn lines_of(&self, call: &Call) -> Vec<usize> {
        let steps = call.sightings.iter().flat_map(|sighting| &sighting.steps);
        let mut lines: Vec<usize> = steps.filter_map(|step| self.line_at(step.record)).collect();
        if call.sightings.is_empty()
            && let Some(generation) = self.generations.get(&call.stream)
        {
            let of_log = self.lines.range((*generation, 0)..=(*generation, u64::MAX));
            lines.extend(of_log.map(|(_, number)| *number));
        }
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    /// The line that holds a record, which may stand behind another on it.
    fn line_at(&self, record: RecordId) -> Option<usize> {
        let before = self.lines.range(..=(record.generation, record.offset)).next_back();
        before
            .filter(|((generation, _), _)| *generation == record.generation)
            .map(|(_, line)| *line)
    }

    fn take(&mut self, open: Open) -> Result<(), String> {
        let mut last_at = None;
        for mut entry in open.queue.entries {
            let (records, notices) = (&mut self.records, &mut self.notices);
            entry.what.for_each_record(&mut |record| {
                if let Some(event) = notice::of_record(record, last_at, NOW) {
                    notices.add(event);
                }
                if is_valid(record) {
                    last_at = record.at;
                }
                records.push(Arc::new(record.clone()));
            });
            if self.records.len() > RECORDS_MAX {
                return Err(format!("the lines hold more than {RECORDS_MAX} records"));
            }
        }
        Ok(())
    }
}

impl Open {
    fn read(&self, text: &str, parser: &mut Parser) -> What {
        let (generation, offset, length) = (self.generation, self.offset, length(text));
        let line = Line { generation, offset, length, bytes: text.as_bytes() };
        read_line(parser, &line, &self.stream, NOW)
    }

    fn put(&mut self, what: What, text: &str) {
        let bytes = length(text);
        self.offset += bytes;
        self.queue.push(Entry { end: self.offset, bytes, what });
    }
}

/// What a line takes in a log, its newline included.
const fn length(text: &str) -> u64 {
    text.len() as u64 + 1
}

/// Why a line is not what it should be; a blank one is as good as none.
fn why_unread(what: &What, dialect: Dialect) -> Option<String> {
    match what {
        What::Record(record) if record.dialect == dialect => None,
        What::Record(record) => {
            let (found, wanted) = (record.dialect.as_str(), dialect.as_str());
            Some(format!("this is a line of the dialect `{found}`, and not of `{wanted}`"))
        }
        What::Reject(reject) | What::Overlong(reject) => Some(reject.reason.clone()),
        What::Gap(_) => None,
        What::Parts(parts) => parts.iter().find_map(|part| why_unread(part, dialect)),
    }
}

/// The lines that cannot be read.
#[derive(Default)]
struct Unread {
    told: Vec<String>,
    more: usize,
}

impl Unread {
    fn add(&mut self, number: usize, why: &str) {
        if self.told.len() < UNREAD_TOLD_MAX {
            self.told.push(format!("line {number} cannot be read: {why}"));
        } else {
            self.more += 1;
        }
    }

    fn told(mut self) -> Result<(), String> {
        if self.more > 0 {
            self.told.push(format!("and {} more", self.more));
        }
        if self.told.is_empty() { Ok(()) } else { Err(self.told.join("; ")) }
    }
}
