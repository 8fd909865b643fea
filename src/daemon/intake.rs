//! From files to batches: reads every file that has something new, parses, and merges the records by time.
//!
//! Each generation has a queue of what was read ahead. The queue whose next record is the oldest gives it next, so a
//! backfill over many files comes in order of time, and each file's part of a batch is a prefix of what was unread.

mod again;
mod pasted;
mod queue;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use self::again::CARRIED;
use self::queue::{Entry, Queue, What, ZEROS, is_valid, read};
use super::notice::{self, Notices};
use super::silence::Silences;
use crate::dialects::Parser;
use crate::mask::mask_cut;
use crate::model::{IngestCode, IngestEvent, Micros, Record, RecordId, Reject, Text};
use crate::store::{Gap, Position};
use crate::tail::{Chunk, Cursor, ScanReport, SourceStatus, Tail};
pub(super) use again::Again;
pub(super) use pasted::Pasted;

/// Bytes read ahead over all files; their records take several times as much.
const READ_AHEAD_BYTES: usize = 8 << 20;
/// Bytes read ahead of one file, at least and at most.
const CHUNK_BYTES_MIN: usize = 1 << 10;
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Bytes that wait over all files before no further file is read from: lines far longer than a chunk make that many.
const WAITING_BYTES_MAX: u64 = 2 * READ_AHEAD_BYTES as u64;
/// Files read from at a time, and those that a batch adds even so: files that never end must not keep others out.
const FILES_MAX: usize = 16_384;
const FILES_ADDED_MIN: usize = 64;
/// Bytes of lines in a batch, at most, but for its last line.
const BATCH_BYTES_MAX: u64 = 32 << 20;
/// Reads of a batch that may give nothing, each because one line or hole takes it all, over all files: the next round
/// goes on. Without the bound a few files of nothing would hold up the others.
const EMPTY_READS_MAX: usize = 16;
/// How far a time is looked for when the first lines of a file have none.
const TIMELESS_BYTES_MAX: u64 = 4 << 20;
/// Of a line that the database refuses, how much is kept.
const HEAD_BYTES: usize = 64 << 10;

pub(super) struct Intake {
    tail: Tail,
    parser: Parser,
    queues: BTreeMap<u64, Queue>,
    known: FxHashMap<u64, Known>,
    /// Generations whose path or state changed since their position was stored.
    moved: Vec<u64>,
    /// True once history is read: then files that wait get their share of each batch. Before, only the time counts,
    /// which keeps lateness rare.
    is_fair: bool,
    /// Bytes of the lines that wait in the queues.
    waiting_bytes: u64,
    /// The last generation that was begun to be read from.
    added: u64,
    files_max: usize,
    waits: Waits,
    /// What files told since the last batch.
    noticed: Notices,
    silences: Silences,
    /// Something was read that could not be described: once the batch is stored, reading goes back to what is.
    must_rewind: bool,
    empty_reads_left: usize,
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
    /// When a record was last read of it, by the clock.
    heard_at: Option<Micros>,
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
    /// Bytes of the files that it covers, and lines, holes among them.
    pub(super) bytes: u64,
    pub(super) lines: usize,
}

/// A batch in the making.
struct Round {
    cut: Cut,
    /// Where each generation's part of it ends, and what was known of the generation before.
    ends: BTreeMap<u64, (u64, Known)>,
    /// Entries that it still has room for.
    left: usize,
    chunk_bytes: usize,
    now: Micros,
}

impl Round {
    const fn is_full(&self) -> bool {
        self.left == 0 || self.cut.bytes >= BATCH_BYTES_MAX
    }
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
            is_fair: false,
            waiting_bytes: 0,
            added: 0,
            files_max: FILES_MAX,
            waits,
            noticed: Notices::default(),
            silences: Silences::default(),
            empty_reads_left: EMPTY_READS_MAX,
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

    /// Adds an event that others noticed.
    pub(super) fn tell(&mut self, event: IngestEvent) {
        self.noticed.add(event);
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
        let known = &self.known;
        let heard_at = |status: &SourceStatus| {
            let known = known.get(&status.generation)?;
            known.heard_at.filter(|_| status.committed > known.history_until)
        };
        for event in self.silences.notice(&self.tail.status(), heard_at, silence_micros, now) {
            self.noticed.add(event);
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

    /// With `is_fair`, no file waits for long behind others that have older lines, or more; for a single pass it does
    /// not matter.
    pub(super) fn be_fair(&mut self, is_fair: bool) {
        self.is_fair = is_fair;
        self.tail.let_wait(!is_fair);
    }

    /// The next batch of at most `entries_max` lines, oldest first; empty when there is nothing to read.
    pub(super) fn cut(&mut self, entries_max: usize, now: Micros) -> Cut {
        self.empty_reads_left = EMPTY_READS_MAX;
        let mut round = Round {
            cut: Cut::default(),
            ends: BTreeMap::new(),
            left: entries_max,
            chunk_bytes: self.read_ahead(now),
            now,
        };
        if self.is_fair && self.waits.may_hold {
            self.serve_waiting(&mut round);
        }
        let mut heap: BinaryHeap<Reverse<(Micros, u64)>> = BinaryHeap::new();
        let generations: Vec<u64> = self.queues.keys().copied().chain([CARRIED]).collect();
        heap.extend(generations.into_iter().filter_map(|generation| {
            self.next_key(generation, now).map(|key| Reverse((key, generation)))
        }));
        while !round.is_full() {
            let Some(Reverse((_, generation))) = heap.pop() else { break };
            let next = self.take(generation, &mut round);
            heap.extend(next.map(|key| Reverse((key, generation))));
        }
        let Round { mut cut, ends, .. } = round;
        self.conclude(&mut cut, &ends);
        cut
    }

    /// Reads ahead of the files that have something new, of a part of them where they are very many. Returns how many
    /// bytes to read of one at a time.
    fn read_ahead(&mut self, now: Micros) -> usize {
        let mut pending = self.tail.pending();
        if let Some(again) = &self.again {
            pending.retain(|generation| again.limits.contains_key(generation));
        }
        let chunk_bytes =
            (READ_AHEAD_BYTES / pending.len().max(1)).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        // All that an empty queue knows is known of its generation.
        self.queues.retain(|_, queue| !queue.entries.is_empty());
        let mut reading = self.queues.len();
        let files_max = self.files_max.max(reading + FILES_ADDED_MIN);
        // Round and round, so that each file has its turn.
        let after = pending.partition_point(|generation| *generation <= self.added);
        let (before, after) = pending.split_at(after);
        for generation in after.iter().chain(before) {
            if reading >= files_max || self.waiting_bytes >= WAITING_BYTES_MAX {
                break;
            }
            if !self.queues.contains_key(generation) {
                reading += 1;
                self.added = *generation;
            }
            self.fill(*generation, chunk_bytes, now);
        }
        chunk_bytes
    }

    /// Gives half of the batch to the files whose first line has waited for too long, in equal shares.
    fn serve_waiting(&mut self, round: &mut Round) {
        let (may_hold, now) = (self.waits.may_hold, round.now);
        let waiting: Vec<u64> = self
            .queues
            .iter_mut()
            .filter_map(|(generation, queue)| queue.waits(may_hold, now).then_some(*generation))
            .collect();
        let share = (round.left / 2 / waiting.len().max(1)).max(1);
        for generation in waiting {
            for _ in 0..share {
                if round.is_full() || self.take(generation, round).is_none() {
                    break;
                }
            }
        }
    }

    /// Moves a file's first entry into the batch; returns the key of its next one, if it has one for this batch.
    fn take(&mut self, generation: u64, round: &mut Round) -> Option<Micros> {
        if generation == CARRIED {
            let lines = usize::from(self.put_carried(&mut round.cut));
            round.left = round.left.saturating_sub(lines);
            round.cut.lines += lines;
            return self.next_key(CARRIED, round.now);
        }
        let entry = self.queues.get_mut(&generation)?.entries.pop_front()?;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(entry.bytes);
        let before = self.known.get(&generation).copied().unwrap_or_default();
        round.ends.entry(generation).or_insert((0, before)).0 = entry.end;
        round.left = round.left.saturating_sub(entry.what.count());
        round.cut.lines += 1;
        self.put(entry.what, generation, round.now, &mut round.cut);
        self.fill(generation, round.chunk_bytes, round.now);
        self.next_key(generation, round.now)
    }

    /// Makes rejects of a batch's lines, which the database refuses as they are, and keeps what they look like.
    pub(super) fn refuse(&mut self, cut: &mut Cut, reason: &str) {
        if cut.records.is_empty() {
            for reject in &mut cut.rejects {
                reason.clone_into(&mut reject.reason);
                reject.head.clear();
            }
        }
        let mut places = FxHashSet::default();
        for record in std::mem::take(&mut cut.records) {
            let (generation, offset) = (record.id.generation, record.id.offset);
            let known = self.known.entry(generation).or_default();
            known.records = known.records.saturating_sub(1);
            // Records of one place are one reject.
            if !places.insert((generation, offset)) {
                continue;
            }
            known.rejects += 1;
            let head = self.tail.read_line(generation, offset, record.length);
            let head = head.map(|bytes| mask_cut(bytes.get(..HEAD_BYTES).unwrap_or(&bytes)));
            let (length, head) = (record.length, head.unwrap_or_default());
            let reason = reason.to_owned();
            cut.rejects.push(Reject { generation, offset, length, reason, head });
        }
        cut.positions = cut.cursors.iter().map(|cursor| self.position(cursor)).collect();
    }

    fn put(&mut self, what: What, generation: u64, now: Micros, cut: &mut Cut) {
        let known = self.known.entry(generation).or_default();
        // What is read once more was heard when it was read first; a blank line says nothing.
        if self.again.is_none() && matches!(what, What::Record(_)) {
            known.heard_at = Some(now);
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
            self.waiting_bytes = 0;
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
                if self.tail.is_pending(generation) && self.empty_reads_left > 0 {
                    self.empty_reads_left -= 1;
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
            self.waiting_bytes += item.length();
            queue.push(Entry { end, bytes: item.length(), what });
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
        }
    }
}

impl Cut {
    /// Whether there is nothing to store.
    pub(super) fn is_empty(&self) -> bool {
        self.cursors.is_empty() && self.records.is_empty() && self.notices.is_empty()
    }
}
