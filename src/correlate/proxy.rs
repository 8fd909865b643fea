//! One stdio proxy's stream: which reply belongs to which request.
//!
//! Time is cut into blocks at fixed marks. What the replies of a block belong to is read forward from the longest
//! wait before it, and depends on nothing before or long after: so a late record changes the answers of a bounded time,
//! whatever was lost before, and what is loaded around it is enough to find them again.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::numbering::{Answer, Event, LAG_MICROS, Numbering, WAIT_MICROS_MAX};
use super::unit::Unit;
use super::{JOIN_SLACK_MICROS, REACH_MICROS};
use crate::model::{Micros, OutcomeClass, Record, RecordId, RecordKind};

/// Replies of so long a time are looked at together.
const BLOCK_MICROS: i64 = 20 * Micros::MINUTE;

/// A record changes the answers from a lag before it to the end of the block that follows the longest wait after it:
/// of requests that asked a wait before those, and that may have an answer in the block a wait after them.
const _: () = assert!(LAG_MICROS + 2 * WAIT_MICROS_MAX + BLOCK_MICROS <= REACH_MICROS);

/// How long after a reply its record is kept: answers that are not settled may change.
const KEPT_MICROS: i64 = 2 * JOIN_SLACK_MICROS;
const _: () = assert!(LAG_MICROS < KEPT_MICROS);

#[derive(Default)]
pub(super) struct ProxyState {
    /// In order: what late records make to be read again.
    events: Vec<Event>,
    /// The records of which units are or may be made.
    records: FxHashMap<RecordId, Arc<Record>>,
    /// By number; none is for the records without a time, which come last and answer only each other.
    blocks: BTreeMap<Option<i64>, Block>,
    /// By request. Two blocks may give it a reply each: the first counts.
    answers: FxHashMap<RecordId, Vec<Answer>>,
    /// Everything from here on is held; none: everything.
    floor: Option<Micros>,
    /// Events up to here are gone though late records may make them to be read again.
    gone: Option<Micros>,
    /// The newest time that was read.
    newest: Option<Micros>,
}

/// The answers of a block, as far as it was read.
#[derive(Default)]
struct Block {
    numbering: Numbering,
    read_to: Option<(Micros, RecordId)>,
    settled: Vec<Answer>,
    open: Vec<Answer>,
}

/// The answers before a change, by request.
type Before = FxHashMap<RecordId, Option<Answer>>;

impl ProxyState {
    /// Takes records in and says which units are gone and which are new.
    pub(super) fn add(&mut self, records: Vec<Arc<Record>>) -> (Vec<Unit>, Vec<Unit>) {
        let mut added: Vec<(Event, Arc<Record>)> = records
            .into_iter()
            .filter_map(|record| Some((Event::of(&record)?, record)))
            .filter(|(_, record)| !self.records.contains_key(&record.id))
            .collect();
        added.sort_by_key(|(event, _)| event.order());
        added.dedup_by_key(|(event, _)| event.id);
        let times: Vec<(Micros, RecordId)> = added.iter().map(|(event, _)| event.order()).collect();
        let Some(first) = times.first().copied() else { return (Vec::new(), Vec::new()) };
        let own = times.iter().map(|(at, _)| *at).filter(|at| *at < TIMELESS);
        self.newest = self.newest.max(own.max());
        let mut changed: Vec<RecordId> = Vec::new();
        let mut is_new: FxHashSet<RecordId> = FxHashSet::default();
        let start = self.events.partition_point(|event| event.order() < first);
        for (event, record) in added {
            if record.kind == RecordKind::Call {
                changed.push(record.id);
                is_new.insert(record.id);
            }
            self.records.insert(record.id, record);
            self.events.push(event);
        }
        if let Some(moved) = self.events.get_mut(start..) {
            moved.sort_by_key(Event::order);
        }
        let mut before = Before::default();
        for number in self.touched(&times) {
            self.read(number, &times, &mut before);
        }
        let mut gone = Vec::new();
        for (request, old) in before {
            if self.answer_of(request) != old && !is_new.contains(&request) {
                gone.extend(self.unit(request, old));
                changed.push(request);
            }
        }
        let new =
            changed.iter().filter_map(|request| self.unit(*request, self.answer_of(*request)));
        (gone, new.collect())
    }

    /// The blocks that the added records are in, and those that read them for what is near: so the next one is read
    /// before anything is in it, and needs nothing of what was forgotten by then.
    fn touched(&mut self, times: &[(Micros, RecordId)]) -> Vec<Option<i64>> {
        for (at, _) in times {
            let number = number_of(*at);
            self.blocks.entry(number).or_default();
            self.blocks.entry(number.map(|number| number + 1)).or_default();
        }
        let is_touched = |number: &Option<i64>| {
            let (from, to) = span(*number);
            let first = times.partition_point(|(at, _)| *at < from);
            times.get(first).is_some_and(|(at, _)| *at <= to)
        };
        self.blocks.keys().copied().filter(is_touched).collect()
    }

    /// Reads what was added into a block: on from where it was read to, else all of it anew.
    fn read(&mut self, number: Option<i64>, times: &[(Micros, RecordId)], before: &mut Before) {
        let (from, to) = span(number);
        let first = times.partition_point(|(at, _)| *at < from);
        let Some(first) = times.get(first).copied() else { return };
        let Some(mut block) = self.blocks.remove(&number) else { return };
        let mut old = std::mem::take(&mut block.open);
        if block.read_to >= Some(first) {
            old.append(&mut block.settled);
            block = Block::default();
        }
        let start = match block.read_to {
            Some(read_to) => self.events.partition_point(|event| event.order() <= read_to),
            None => self.events.partition_point(|event| event.order().0 < from),
        };
        let mut settled = Vec::new();
        for event in self.events.get(start..).unwrap_or_default() {
            if event.order().0 > to {
                break;
            }
            block.read_to = Some(event.order());
            block.numbering.read(event, &mut settled);
        }
        let is_own = |answer: &Answer| number_of(answer.reply.0.unwrap_or(TIMELESS)) == number;
        settled.retain(is_own);
        block.open = block.numbering.open().filter(is_own).collect();
        for answer in old {
            self.note(answer.request, before);
            if let Some(answers) = self.answers.get_mut(&answer.request) {
                answers.retain(|known| known.reply.1 != answer.reply.1);
            }
        }
        for answer in settled.iter().chain(&block.open) {
            self.note(answer.request, before);
            self.answers.entry(answer.request).or_default().push(*answer);
        }
        block.settled.append(&mut settled);
        self.blocks.insert(number, block);
    }

    fn note(&self, request: RecordId, before: &mut Before) {
        before.entry(request).or_insert_with(|| self.answer_of(request));
    }

    fn answer_of(&self, request: RecordId) -> Option<Answer> {
        let order = |answer: &&Answer| (answer.reply.0.unwrap_or(TIMELESS), answer.reply.1);
        self.answers.get(&request)?.iter().min_by_key(order).copied()
    }

    /// The unit that begins with a call's request; none for those of other methods.
    fn unit(&self, request: RecordId, answer: Option<Answer>) -> Option<Unit> {
        let base = self.records.get(&request).filter(|record| record.kind == RecordKind::Call)?;
        let mut unit = Unit::single(Arc::clone(base));
        if let Some(answer) = answer
            && let Some(reply) = self.records.get(&answer.reply.1)
        {
            unit.push(reply);
            if !answer.is_sure
                && let Some(step) = unit.steps.last_mut()
            {
                step.class = OutcomeClass::Unknown;
            }
        }
        Some(unit)
    }

    /// The time of the oldest record of which a unit may be made.
    pub(super) fn oldest(&self) -> Option<Micros> {
        self.records.values().map(|record| record.at.unwrap_or(TIMELESS)).min()
    }

    /// Everything that grows with what is read.
    #[cfg(test)]
    pub(super) fn weight(&self) -> usize {
        let of_block = |block: &Block| block.settled.len() + block.numbering.awaited().count();
        let of_blocks: usize = self.blocks.values().map(of_block).sum();
        self.events.len() + self.records.len() + self.answers.len() + of_blocks
    }

    /// What is held, in records.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// From when on records can be taken in with what is held.
    pub(super) fn floor(&self) -> Option<Micros> {
        // What comes after all that was read is read on; what comes before needs the events around it.
        let again = self.gone.map(|gone| gone.plus(REACH_MICROS));
        let read_on = self.newest.map(|newest| newest.plus(1));
        self.floor.max(again.zip(read_on).map(|(again, read_on)| again.min(read_on)))
    }

    /// What was put in is whole from here on.
    pub(super) fn hold_from(&mut self, floor: Micros) {
        self.floor = Some(floor);
    }

    /// Forgets what no record from `floor` on can change. What it may only depend on is kept without the records.
    pub(super) fn forget(&mut self, floor: Micros) {
        let floor = self.floor.map_or(floor, |known| known.max(floor));
        self.floor = Some(floor);
        let ended = floor.minus(KEPT_MICROS);
        let given_up = ended.minus(WAIT_MICROS_MAX);
        let old = self.events.partition_point(|event| event.order().0 < ended);
        for event in self.events.get(..old).unwrap_or_default() {
            let answer = self.answer_of(event.id);
            let is_open = !event.is_reply()
                && event.order().0 >= given_up
                && answer.is_none_or(|answer| answer.reply.0.is_none_or(|at| at >= ended));
            if !is_open {
                self.records.remove(&event.id);
            }
        }
        let past = self.events.partition_point(|event| event.order().0 < floor.minus(REACH_MICROS));
        for event in self.events.drain(..past) {
            self.answers.remove(&event.id);
        }
        self.blocks.retain(|number, _| span(*number).1 >= ended);
    }

    /// Forgets all that is only there to be read again: what comes in order is read on from where the blocks are, and
    /// what comes late, up to `newest`, is looked up. What has no time, or one that nobody can have yet, counts only in
    /// order from now on.
    pub(super) fn shrink(&mut self, newest: Micros) {
        let known = self.events.partition_point(|event| event.order().0 <= newest);
        let last = self.events.get(..known).and_then(|known| known.last());
        if let Some(last) = last.map(|event| event.order().0) {
            self.forget(last.plus(1));
            self.gone = Some(last);
        }
        let awaited: FxHashSet<RecordId> =
            self.blocks.values().flat_map(|block| block.numbering.awaited()).collect();
        self.events = Vec::new();
        self.answers.retain(|request, _| awaited.contains(request));
        self.records.retain(|id, _| awaited.contains(id));
        for block in self.blocks.values_mut() {
            block.settled.retain(|answer| awaited.contains(&answer.request));
        }
    }
}

/// Where records without a time stand.
const TIMELESS: Micros = Micros(i64::MAX);

fn number_of(at: Micros) -> Option<i64> {
    (at != TIMELESS).then(|| at.0.div_euclid(BLOCK_MICROS))
}

/// The time that is read for a block: the longest wait before it, and a lag after it.
fn span(number: Option<i64>) -> (Micros, Micros) {
    let Some(number) = number else { return (TIMELESS, TIMELESS) };
    let start = Micros(number.saturating_mul(BLOCK_MICROS));
    (start.minus(WAIT_MICROS_MAX), start.plus(BLOCK_MICROS + LAG_MICROS))
}
