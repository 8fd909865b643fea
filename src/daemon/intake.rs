//! From files to batches: reads every file that has something new, parses, and merges the records by time.
//!
//! Each generation has a queue of what was read ahead. The queue whose next record is the oldest gives it next, so a
//! backfill over many files comes in order of time, and each file's part of a batch is a prefix of what was unread.

mod again;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;

pub(super) use again::Again;
use again::CARRIED;

use super::notice::{self, Notices};
use crate::dialects::{Parsed, Parser, Part};
use crate::mask::mask_cut;
use crate::model::{IngestCode, Line, Micros, Record, RecordId, Reject, Text, TimeQuality};
use crate::store::{Gap, Position};
use crate::tail::{Chunk, Cursor, GapWhy, Item, ScanReport, SourceState, SourceStatus, Tail};

/// Bytes read ahead over all files.
const READ_AHEAD_BYTES: usize = 32 << 20;
/// Bytes read ahead of one file, at least and at most.
const CHUNK_BYTES_MIN: usize = 16 << 10;
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Reads in a row that give nothing because one line takes them all; the next round goes on.
const READS_MAX: usize = 64;
/// How long the first lines of a file wait for the first one that has a time, where more may come.
const HOLD_MICROS: i64 = 5 * Micros::SECOND;
/// How far a time is looked for when the first lines of a file have none.
const TIMELESS_BYTES_MAX: u64 = 4 << 20;

pub(super) struct Intake {
    tail: Tail,
    parser: Parser,
    queues: BTreeMap<u64, Queue>,
    known: FxHashMap<u64, Known>,
    /// Generations whose path or state changed since their position was stored.
    moved: Vec<u64>,
    waits: Waits,
    /// What files told since the last batch.
    noticed: Notices,
    /// Something was read that could not be described: once the batch is stored, reading goes back to what is.
    must_rewind: bool,
    /// While a database is made again: what is read once more.
    again: Option<Again>,
}

/// What the intake waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// Whether first lines without a time wait a little for one that has it; false where nothing more will come.
    pub(super) may_hold: bool,
    /// After how long a log that was written to counts as silent; none: never.
    pub(super) silence_micros: Option<i64>,
}

/// What is kept for each generation.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The last valid time handed out.
    last_at: Option<Micros>,
    history_until: u64,
    records: u64,
    rejects: u64,
    /// When something was last read of it, by the clock.
    heard_at: Option<Micros>,
    /// Its silence since then was told.
    is_silent: bool,
}

/// What was read ahead of one generation.
#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// The last valid time read.
    last_at: Option<Micros>,
    /// Since when its first line waits for a time.
    held_since: Option<Micros>,
}

struct Entry {
    /// Where it ends in the generation.
    end: u64,
    what: What,
}

enum What {
    Record(Box<Record>),
    Reject(Reject),
    /// A line beyond the limit.
    Overlong(Reject),
    Gap(Gap),
    /// The parts of one line: reading never goes on in the middle of a line.
    Parts(Vec<What>),
}

/// One batch, ready to be joined and stored.
#[derive(Default)]
pub(super) struct Cut {
    pub(super) records: Vec<Arc<Record>>,
    pub(super) rejects: Vec<Reject>,
    pub(super) gaps: Vec<Gap>,
    pub(super) positions: Vec<Position>,
    pub(super) cursors: Vec<Cursor>,
    /// What reading showed about the logs.
    pub(super) notices: Notices,
    /// Bytes of the files that it covers.
    pub(super) bytes: u64,
}

impl Intake {
    pub(super) fn new(tail: Tail, parser: Parser, positions: &[Position], waits: Waits) -> Self {
        let known =
            positions.iter().map(|position| (position.generation, Known::of(position))).collect();
        Self {
            tail,
            parser,
            queues: BTreeMap::new(),
            known,
            moved: Vec::new(),
            waits,
            noticed: Notices::default(),
            must_rewind: false,
            again: None,
        }
    }

    /// Looks at the files. With `is_history`, what they hold now and was not read before is marked as history.
    pub(super) fn scan(&mut self, now: Micros, is_history: bool) -> ScanReport {
        let report = self.tail.scan(now);
        for event in &report.events {
            use crate::tail::Event;
            match event {
                Event::Renamed { generation, .. }
                | Event::Truncated { generation, .. }
                | Event::Rewritten { generation, .. }
                | Event::Gone { generation, .. } => self.moved.push(*generation),
                Event::Discovered { .. } | Event::Copied { .. } => {}
            }
            self.notice(event, now);
        }
        self.notice_silence(now);
        if is_history {
            for status in self.tail.status() {
                // Of what was stored before an interruption, the boundary is known.
                // A compressed file that is there now was written before.
                let until = if status.is_size_known { status.size } else { u64::MAX };
                let new = Known { history_until: until, ..Known::default() };
                self.known.entry(status.generation).or_insert(new);
            }
        }
        report
    }

    /// Notes what a change of a file tells of its log.
    fn notice(&mut self, event: &crate::tail::Event, now: Micros) {
        use crate::tail::Event;
        let (Event::Truncated { generation, .. }
        | Event::Rewritten { generation, .. }
        | Event::Gone { generation, .. }) = event
        else {
            return;
        };
        let Some(cursor) = self.tail.cursor(*generation) else { return };
        let stream = Text::from(cursor.stream.as_str());
        if let Some(event) = notice::of_file(event, &stream, cursor.offset, now) {
            self.noticed.add(event);
        }
    }

    /// Notes the logs that were written to while this database was kept, and no longer are.
    fn notice_silence(&mut self, now: Micros) {
        let Some(silence_micros) = self.waits.silence_micros else { return };
        for status in self.tail.status() {
            let Some(known) = self.known.get_mut(&status.generation) else { continue };
            let Some(heard_at) = known.heard_at else { continue };
            if status.state == SourceState::Live
                && status.committed > known.history_until
                && !known.is_silent
                && now.since(heard_at) >= silence_micros
            {
                known.is_silent = true;
                let position =
                    RecordId { generation: status.generation, offset: status.committed, index: 0 };
                let event = notice::of_silence(&status.stream, position, heard_at, silence_micros);
                self.noticed.add(event);
            }
        }
    }

    /// Hands out the unterminated ends of rotated and deleted files that have been quiet for long enough.
    pub(super) fn finish(&mut self, now: Micros) {
        for generation in self.tail.finishable(now) {
            let chunk = self.tail.finish(generation);
            self.parse(&chunk, now);
        }
    }

    /// True while files hold complete lines that were not handed out.
    pub(super) fn is_pending(&self) -> bool {
        match &self.again {
            Some(again) => self.is_pending_again(again),
            None => !self.tail.pending().is_empty(),
        }
    }

    pub(super) fn is_deciding(&self) -> bool {
        self.tail.is_deciding()
    }

    pub(super) fn status(&self) -> Vec<SourceStatus> {
        self.tail.status()
    }

    /// Every problem that stands in the way now.
    pub(super) fn problems(&self) -> Vec<(String, String)> {
        self.tail
            .problems()
            .map(|problem| (problem.path.display().to_string(), problem.message.clone()))
            .collect()
    }

    pub(super) fn read_line(&mut self, record: RecordId, length: u64) -> Option<Vec<u8>> {
        self.tail.read_line(record.generation, record.offset, length)
    }

    /// True for lines that were there when the database was made.
    pub(super) fn is_history(&self, record: RecordId) -> bool {
        self.known.get(&record.generation).is_some_and(|known| record.offset < known.history_until)
    }

    /// The next batch of at most `entries_max` lines, oldest first; empty when there is nothing to read.
    pub(super) fn cut(&mut self, entries_max: usize, now: Micros) -> Cut {
        let mut cut = Cut::default();
        let mut ends: BTreeMap<u64, (u64, Known)> = BTreeMap::new();
        let mut heap: BinaryHeap<Reverse<(Micros, u64)>> = BinaryHeap::new();
        let mut pending = self.tail.pending();
        if let Some(again) = &self.again {
            pending.retain(|generation| again.limits.contains_key(generation));
        }
        let chunk_bytes =
            (READ_AHEAD_BYTES / pending.len().max(1)).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        for generation in pending {
            self.fill(generation, chunk_bytes, now);
        }
        let generations: Vec<u64> = self.queues.keys().copied().chain([CARRIED]).collect();
        heap.extend(generations.into_iter().filter_map(|generation| {
            self.next_key(generation, now).map(|key| Reverse((key, generation)))
        }));
        let mut taken = 0;
        while taken < entries_max {
            let Some(Reverse((_, generation))) = heap.pop() else { break };
            if generation == CARRIED {
                taken += usize::from(self.put_carried(&mut cut));
                heap.extend(self.next_key(CARRIED, now).map(|key| Reverse((key, CARRIED))));
                continue;
            }
            let Some(entry) = self.pop(generation) else { continue };
            let before = self.known.get(&generation).copied().unwrap_or_default();
            ends.entry(generation).or_insert((0, before)).0 = entry.end;
            taken += entry.what.count();
            self.put(entry.what, generation, now, &mut cut);
            self.fill(generation, chunk_bytes, now);
            heap.extend(self.next_key(generation, now).map(|key| Reverse((key, generation))));
        }
        self.conclude(&mut cut, &ends);
        cut
    }

    fn pop(&mut self, generation: u64) -> Option<Entry> {
        self.queues.get_mut(&generation)?.entries.pop_front()
    }

    fn put(&mut self, what: What, generation: u64, now: Micros, cut: &mut Cut) {
        let known = self.known.entry(generation).or_default();
        // What is read once more was heard when it was read first.
        if self.again.is_none() {
            (known.heard_at, known.is_silent) = (Some(now), false);
        }
        let odd = match &what {
            What::Record(record) => {
                if let Some(event) = notice::of_record(record, known.last_at, now) {
                    cut.notices.add(event);
                }
                None
            }
            What::Overlong(reject) => {
                Some((IngestCode::OverlongLine, reject.offset, reject.length))
            }
            What::Gap(gap) if gap.why == ZEROS => Some((IngestCode::Gap, gap.offset, gap.length)),
            What::Reject(_) | What::Gap(_) | What::Parts(_) => None,
        };
        if let Some((code, offset, bytes)) = odd
            && let Some(cursor) = self.tail.cursor(generation)
        {
            let at = known.last_at.unwrap_or(now);
            let position = RecordId { generation, offset, index: 0 };
            let stream = Text::from(cursor.stream);
            cut.notices.add(notice::of_bytes(code, &stream, position, bytes, at));
        }
        match what {
            What::Record(record) => {
                known.records += 1;
                if is_valid(&record) {
                    known.last_at = record.at;
                }
                cut.bytes += record.length;
                cut.records.push(Arc::new(*record));
            }
            What::Reject(reject) | What::Overlong(reject) => {
                known.rejects += 1;
                cut.bytes += reject.length;
                cut.rejects.push(reject);
            }
            What::Gap(gap) => {
                cut.bytes += gap.length;
                cut.gaps.push(gap);
            }
            What::Parts(parts) => {
                for part in parts {
                    self.put(part, generation, now, cut);
                }
            }
        }
    }

    /// Adds the positions that the batch leads to. What cannot be described at the moment is left out of the batch.
    fn conclude(&mut self, cut: &mut Cut, ends: &BTreeMap<u64, (u64, Known)>) {
        let mut lost = Vec::new();
        for (generation, (end, before)) in ends {
            if let Some(cursor) = self.tail.cursor_at(*generation, *end) {
                cut.cursors.push(cursor);
            } else {
                lost.push(*generation);
                self.known.insert(*generation, *before);
            }
        }
        if !lost.is_empty() {
            cut.records.retain(|record| !lost.contains(&record.id.generation));
            cut.rejects.retain(|reject| !lost.contains(&reject.generation));
            cut.gaps.retain(|gap| !lost.contains(&gap.generation));
            for generation in lost {
                cut.notices.forget(generation);
            }
            self.must_rewind = true;
        }
        cut.notices.extend(std::mem::take(&mut self.noticed));
        if self.again.is_some() {
            // What was noticed when it was read first is taken over.
            cut.notices = Notices::default();
        }
        for generation in std::mem::take(&mut self.moved) {
            if !ends.contains_key(&generation) {
                cut.cursors.extend(self.tail.cursor(generation));
            }
        }
        cut.positions = cut.cursors.iter().map(|cursor| self.position(cursor)).collect();
    }

    /// Says that the batch is stored. True if reading went back to what is, since something could not be described.
    pub(super) fn commit(&mut self, cut: &Cut) -> bool {
        for cursor in &cut.cursors {
            self.tail.commit(cursor);
        }
        let must_rewind = std::mem::take(&mut self.must_rewind);
        if must_rewind {
            self.tail.rewind();
            self.queues.clear();
        }
        must_rewind
    }

    fn position(&self, cursor: &Cursor) -> Position {
        let known = self.known.get(&cursor.generation).copied().unwrap_or_default();
        Position {
            generation: cursor.generation,
            stream: cursor.stream.clone(),
            path: cursor.path.to_string_lossy().into_owned(),
            dev: cursor.dev,
            inode: cursor.inode,
            state: cursor.state.as_str().to_owned(),
            size: cursor.size,
            offset: cursor.offset,
            head_len: cursor.head_len,
            head_hash: cursor.head_hash.to_vec(),
            tail_len: cursor.tail_len,
            tail_hash: cursor.tail_hash.to_vec(),
            last_at: known.last_at,
            heard_at: known.heard_at,
            history_until: known.history_until,
            records: known.records,
            rejects: known.rejects,
        }
    }

    /// Reads ahead where the queue is empty. Lines without a time wait for the first one that has it.
    fn fill(&mut self, generation: u64, chunk_bytes: usize, now: Micros) {
        let mut timeless_bytes = 0;
        let mut reads = 0;
        loop {
            let queue = self.queues.get(&generation);
            let first = queue.and_then(|queue| queue.entries.front());
            let is_timeless =
                queue.is_some_and(|queue| queue.last_at.is_none() && queue.is_timeless());
            if first.is_some() && (!is_timeless || timeless_bytes >= TIMELESS_BYTES_MAX) {
                return;
            }
            let chunk = self.tail.read(generation, chunk_bytes);
            if chunk.items.is_empty() {
                // A line longer than a chunk takes several reads, and gives nothing before the last.
                if self.tail.is_pending(generation) && reads < READS_MAX {
                    reads += 1;
                    continue;
                }
                return;
            }
            timeless_bytes += chunk.end - chunk.start;
            self.parse(&chunk, now);
        }
    }

    fn parse(&mut self, chunk: &Chunk, now: Micros) {
        let generation = chunk.generation;
        let last_at = self.known.get(&generation).and_then(|known| known.last_at);
        let queue = self.queues.entry(generation).or_default();
        queue.last_at = queue.last_at.or(last_at);
        for item in &chunk.items {
            let (end, what) =
                (item.offset() + item.length(), read(&mut self.parser, chunk, item, now));
            queue.push(Entry { end, what });
        }
    }
}

impl Known {
    fn of(position: &Position) -> Self {
        Self {
            last_at: position.last_at,
            history_until: position.history_until,
            records: position.records,
            rejects: position.rejects,
            heard_at: position.heard_at,
            is_silent: false,
        }
    }
}

impl Cut {
    /// Whether there is nothing to store.
    pub(super) fn is_empty(&self) -> bool {
        self.cursors.is_empty() && self.records.is_empty() && self.notices.is_empty()
    }
}

impl Queue {
    /// The first entry, unless it waits for a time.
    fn next(&mut self, may_hold: bool, now: Micros) -> Option<&Entry> {
        if !may_hold || self.last_at.is_some() || !self.is_timeless() {
            self.held_since = None;
        } else if now.since(*self.held_since.get_or_insert(now)) < HOLD_MICROS {
            return None;
        }
        self.entries.front()
    }

    /// Whether its first entry is a record without a time.
    fn is_timeless(&self) -> bool {
        let first = self.entries.front().and_then(|entry| entry.what.first_record());
        first.is_some_and(|record| record.at.is_none())
    }

    /// Adds an entry; a record without a time takes the last one before it, else the next one.
    fn push(&mut self, mut entry: Entry) {
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
    fn give_time(&mut self, at: Option<Micros>) {
        for entry in &mut self.entries {
            entry.what.for_each_record(&mut |record| record.at = record.at.or(at));
        }
    }
}

impl What {
    /// Lines of the database that it becomes.
    fn count(&self) -> usize {
        match self {
            Self::Parts(parts) => parts.len(),
            Self::Record(_) | Self::Reject(_) | Self::Overlong(_) | Self::Gap(_) => 1,
        }
    }

    fn first_record(&self) -> Option<&Record> {
        match self {
            Self::Record(record) => Some(record),
            Self::Parts(parts) => parts.iter().find_map(Self::first_record),
            Self::Reject(_) | Self::Overlong(_) | Self::Gap(_) => None,
        }
    }

    fn for_each_record(&mut self, work: &mut impl FnMut(&mut Record)) {
        match self {
            Self::Record(record) => work(record),
            Self::Parts(parts) => parts.iter_mut().for_each(|part| part.for_each_record(work)),
            Self::Reject(_) | Self::Overlong(_) | Self::Gap(_) => {}
        }
    }
}

impl Entry {
    /// What has no time comes at once, so that it holds up nothing.
    fn key(&self) -> Micros {
        self.what.first_record().and_then(|record| record.at).unwrap_or(Micros(i64::MIN))
    }
}

/// Why a hole of zeros is a gap.
const ZEROS: &str = "zeros";

/// A time of the record's own that can be lent to its neighbours.
fn is_valid(record: &Record) -> bool {
    record.time_quality == TimeQuality::Own && record.at.is_some()
}

fn read(parser: &mut Parser, chunk: &Chunk, item: &Item, now: Micros) -> What {
    let generation = chunk.generation;
    let (offset, length) = (item.offset(), item.length());
    let gap = |why| What::Gap(Gap { generation, offset, length, why });
    match item {
        Item::Line { range, is_unterminated, .. } => {
            let line = Line { generation, offset, length, bytes: chunk.bytes(range) };
            let mut what = match parser.parse(&line, &chunk.stream, now) {
                Parsed::Record(record) => What::Record(Box::new(record)),
                Parsed::Blank => gap("blank"),
                Parsed::Reject(reject) => What::Reject(reject),
                Parsed::Parts(parts) => What::Parts(parts.into_iter().map(What::from).collect()),
            };
            if *is_unterminated {
                what.for_each_record(&mut |record| {
                    record.flags.push(Text::from("unterminated"));
                    record.flags.sort();
                });
            }
            what
        }
        Item::Blank { .. } => gap("blank"),
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
