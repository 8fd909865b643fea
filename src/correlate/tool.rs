//! All recent units of one tool (bare name), and the calls they make.

mod equals;
mod forget;
mod settle;

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use equals::{Equal, Equals};
use rustc_hash::{FxHashMap, FxHashSet};

use super::clock::{Clocks, Sample};
use super::cuts::Cuts;
use super::lost::Lost;
use super::unit::{Unit, groups_by_id, record_order, split};
use super::{Diff, JOIN_SLACK_MICROS, Limits, retry};
use crate::model::{Call, Dialect, Micros, Record, RecordId, Text, Witness};

/// Where a unit stands: by its first record's time on the common clock, then by the record's id. The number of a
/// generation is no order that joining may rest on: files are found in another order in a scan than in a watch.
type UnitKey = (Micros, RecordId);
/// Records that share a request id: (stream, tool as logged, request id).
type GroupKey = (Text, Text, Text);

/// Intervals that lie this far apart can meet when each is widened by the slack.
const MEETS_MICROS: i64 = 2 * JOIN_SLACK_MICROS;
/// What is held whatever the number: the two sides of a call that come in order are joined without a look into the
/// store.
const HELD_MICROS_MIN: i64 = 2 * JOIN_SLACK_MICROS;

/// Where units without a time stand.
const TIMELESS: Micros = Micros(i64::MAX);

/// Of all places in time the first and the last, of records that begin at it.
const FIRST: RecordId = RecordId { generation: 0, offset: 0, index: 0 };
const LAST: RecordId = RecordId { generation: u64::MAX, offset: u64::MAX, index: u32::MAX };

#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, true once and for ever"
)]
pub(super) struct ToolState {
    units: BTreeMap<UnitKey, Entry>,
    groups: FxHashMap<GroupKey, Group>,
    /// To count occurrences.
    equals: Equals,
    /// Witnesses seen so far, as bits: with one alone there is nothing to join.
    witnesses: u8,
    /// True once there were two witnesses, and every unit knows its piece.
    is_joined: bool,
    /// Units that have to be joined anew: those from one key to another.
    dirty: Vec<(UnitKey, UnitKey)>,
    /// True once a unit failed in a way that another may repeat: then it matters what stands beside it.
    has_failed: bool,
    /// Calls of units that were taken out in this batch.
    orphans: Vec<Arc<Call>>,
    /// What units that were taken out had said of the clocks.
    unsaid: Vec<Sample>,
    cuts: Cuts,
    /// Everything from here on is held, but for what is lost.
    floor: Option<Micros>,
    /// Calls that are still open, but not held.
    lost: Lost,
    /// True where one of them is a proxy's, whose replies do not say whose they are.
    lost_proxied: bool,
    /// Moments of which not all units are held.
    thinned: FxHashSet<Micros>,
    /// True once a proxy told of this tool.
    is_proxied: bool,
    /// The batch that last touched it.
    touched: u64,
    /// Units when they were last counted for all tools together.
    counted: usize,
}

struct Entry {
    unit: Unit,
    /// What it shares with its equals: to find it is to hash.
    equal: Equal,
    /// The end of its interval on the common clock.
    to: Micros,
    /// Where the piece begins that it was joined in, and how far the units of that piece up to here reach.
    piece: UnitKey,
    reach: Micros,
    call: Option<Arc<Call>>,
    /// The call's lead's place among its equals, when the call was made.
    occurrence: usize,
    /// What its join says of the clocks.
    sample: Option<Sample>,
}

#[derive(Default)]
struct Group {
    /// In order.
    records: Vec<Arc<Record>>,
    units: Vec<UnitKey>,
    /// The last unit that is forgotten, of those with and of those without a time: what comes after it does not go on
    /// with one before it.
    forgotten: [Option<UnitKey>; 2],
}

/// Records that are forgotten. Where they lie in memory is far apart for one tool and close together for all, so they
/// are let go together.
pub(super) type Gone = Vec<Arc<Record>>;
impl ToolState {
    /// Takes records of this tool in; [`ToolState::settle`] then says what changed.
    pub(super) fn add(&mut self, records: &[Arc<Record>], clocks: &Clocks) {
        let mut touched: FxHashMap<GroupKey, Vec<Arc<Record>>> = FxHashMap::default();
        for record in records {
            match group_key(record) {
                Some(key) => touched.entry(key).or_default().push(Arc::clone(record)),
                None => {
                    self.insert(Unit::single(Arc::clone(record)), clocks);
                }
            }
        }
        for (key, added) in touched {
            self.regroup(key, added, clocks);
        }
    }

    /// Takes in a unit that another stage put together.
    pub(super) fn add_unit(&mut self, unit: Unit, clocks: &Clocks) {
        self.is_proxied = true;
        self.insert(unit, clocks);
    }

    /// Takes a unit out again.
    pub(super) fn remove_unit(&mut self, unit: &Unit, clocks: &Clocks) {
        self.remove(key_of(unit, clocks), clocks);
    }

    /// Cuts a group's records into units anew, from the last unit on that the added records could go on.
    fn regroup(&mut self, key: GroupKey, added: Vec<Arc<Record>>, clocks: &Clocks) {
        let mut group = self.groups.remove(&key).unwrap_or_default();
        let first = added
            .iter()
            .map(|record| (common_time(record.at, &record.stream, clocks), record.id))
            .min();
        let before = group.units.partition_point(|unit| Some(*unit) <= first);
        let last = before.checked_sub(1).and_then(|last| group.units.get(last));
        let forgotten = group.forgotten.into_iter().filter(|gone| *gone < first).max().flatten();
        let kept = if last.copied() < forgotten { before } else { before.saturating_sub(1) };
        let start = group
            .units
            .get(kept)
            .and_then(|unit| group.records.iter().rposition(|record| record.id == unit.1));
        for unit in group.units.split_off(kept) {
            self.remove(unit, clocks);
        }
        // What lies before is as it was, and may be long.
        let mut tail = group.records.split_off(start.unwrap_or(group.records.len()));
        tail.extend(added);
        tail.sort_by_key(|record| record_order(record));
        tail.dedup_by_key(|record| record.id);
        for unit in split(&tail) {
            group.units.push(self.insert(unit, clocks));
        }
        group.records.append(&mut tail);
        self.groups.insert(key, group);
    }

    fn insert(&mut self, unit: Unit, clocks: &Clocks) -> UnitKey {
        let key = key_of(&unit, clocks);
        let offset = clocks.offset(&unit.base.stream);
        let to = unit.interval().map_or(key.0, |(_, to)| to.plus(offset));
        self.witnesses |= 1 << (unit.witness() as u8);
        self.has_failed |= retry::is_failed(&unit);
        let equal = equal_key(&unit, key);
        // Those behind it among their equals count one more now.
        let moved = self.equals.insert(equal, unit.base.id);
        self.dirty.push((key, key));
        self.dirty.extend(moved.into_iter().map(|id| ((key.0, id), (key.0, id))));
        self.cuts.count(key.0, 1);
        let entry = Entry {
            unit,
            equal,
            to,
            piece: key,
            reach: to,
            call: None,
            occurrence: 0,
            sample: None,
        };
        if let Some(old) = self.units.insert(key, entry) {
            self.cuts.count(key.0, -1);
            self.orphans.extend(old.call);
            self.unsaid.extend(old.sample);
        }
        key
    }

    fn remove(&mut self, key: UnitKey, clocks: &Clocks) {
        let Some(entry) = self.units.remove(&key) else { return };
        self.unsaid.extend(entry.sample);
        self.cuts.count(key.0, -1);
        let equals = self.equals.remove(entry.equal, entry.unit.base.id);
        self.dirty.extend(equals.iter().map(|id| ((key.0, *id), (key.0, *id))));
        // What it was joined with, or could have been, stands alone or joins another now: those on its right up to the
        // end of its interval, and the run on its left.
        let end = entry.to.plus(MEETS_MICROS);
        let left = self.units.range(..key).next_back();
        let left = left.filter(|(_, entry)| entry.reach >= key.0.minus(MEETS_MICROS));
        self.dirty.push((left.map_or(key, |(left, _)| *left), (end, LAST)));
        if let Some(call) = entry.call {
            for sighting in &call.sightings {
                if let Some(first) = sighting.steps.first() {
                    let key = (common_time(first.at, &sighting.stream, clocks), first.record);
                    self.dirty.push((key, key));
                }
            }
            self.orphans.push(call);
        }
    }

    /// Has all that is joined with units that begin in this span joined anew, where it is of these streams.
    pub(super) fn rejoin(&mut self, streams: &FxHashSet<Text>, (from, to): (Micros, Micros)) {
        if !self.is_joined {
            return;
        }
        let mut within = self.units.range((from, FIRST)..(to, FIRST));
        let Some((_, first)) = within.next() else { return };
        let last = within.next_back().map_or(first.piece, |(_, entry)| entry.piece);
        let pieces = self.units.range(first.piece..).take_while(|(_, entry)| entry.piece <= last);
        let of_streams = pieces.filter(|(_, entry)| streams.contains(&entry.unit.base.stream));
        self.dirty.extend(of_streams.map(|(key, _)| (*key, *key)));
    }

    /// Joins what the added records touch and says which calls are new, changed or gone.
    pub(super) fn settle(&mut self, limits: &Limits, clocks: &mut Clocks, diff: &mut Diff) {
        diff.old.append(&mut self.orphans);
        diff.samples.extend(self.unsaid.drain(..).map(|sample| (sample, -1)));
        let turned = self.cuts.settle(limits.piece_units);
        let mut dirty = std::mem::take(&mut self.dirty);
        if dirty.is_empty() {
            return;
        }
        if self.witnesses.is_power_of_two() && !self.has_failed {
            // With one witness alone there is nothing to join.
            let mut keys: Vec<UnitKey> =
                dirty.into_iter().filter(|(from, to)| from == to).map(|(key, _)| key).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                self.settle_alone(key, clocks, diff);
            }
            return;
        }
        if !std::mem::replace(&mut self.is_joined, true) {
            dirty = vec![((Micros(i64::MIN), FIRST), (TIMELESS, LAST))];
        }
        for mark in turned.marks {
            dirty.extend(self.beside(mark));
        }
        let packed = turned.packed.into_iter().map(|(from, to)| ((from, FIRST), (to, FIRST)));
        dirty.extend(packed);
        dirty.sort_unstable();
        let mut done: Option<UnitKey> = None;
        for (from, to) in dirty {
            loop {
                let from = match done {
                    Some(done) if done >= from => Excluded(done),
                    _ => Included(from),
                };
                let next = self.units.range((from, Unbounded)).next().map(|(key, _)| *key);
                let Some(next) = next.filter(|next| *next <= to) else { break };
                if self.stands_alone(next, limits) {
                    self.settle_alone(next, clocks, diff);
                    done = Some(next);
                } else {
                    let piece = self.piece(next, limits);
                    self.settle_piece(&piece, clocks, diff);
                    done = piece.last().copied().max(Some(next));
                }
            }
        }
    }

    /// What is joined otherwise once this mark cuts or does no longer: the piece on its left, and on its right all that
    /// was one piece with it, which may fall apart without it.
    fn beside(&self, mark: Micros) -> impl Iterator<Item = (UnitKey, UnitKey)> {
        let around = (mark, FIRST);
        let left = self.units.range(..around).next_back().map(|(key, _)| (*key, *key));
        let end = (self.cuts.next_after(mark).unwrap_or(TIMELESS), FIRST);
        let right = self.units.range(around..end).next().map(|(key, _)| *key);
        let was_one = self.units.range(around..end).rfind(|(_, entry)| entry.piece < around);
        let right = right.map(|right| (right, was_one.map_or(right, |(last, _)| *last)));
        left.into_iter().chain(right)
    }

    /// A unit without a time, or among so many that nobody can tell them apart.
    fn stands_alone(&self, key: UnitKey, limits: &Limits) -> bool {
        key.0 == TIMELESS || self.cuts.is_packed(key.0, limits.piece_units)
    }

    /// The piece of this unit: those on both sides whose intervals can meet, as far as no mark cuts. All before it
    /// know their piece.
    fn piece(&mut self, key: UnitKey, limits: &Limits) -> Vec<UnitKey> {
        let start = match self.units.range(..key).next_back() {
            Some((left, entry)) if self.is_one_piece(*left, entry, key, limits) => entry.piece,
            _ => key,
        };
        let end = self.cuts.next_after(start.0).unwrap_or(TIMELESS);
        let mut reach = start.0;
        let mut keys = Vec::new();
        for (key, entry) in self.units.range_mut(start..(end, FIRST)) {
            if key.0.minus(MEETS_MICROS) > reach {
                break;
            }
            reach = reach.max(entry.to);
            (entry.piece, entry.reach) = (start, reach);
            keys.push(*key);
        }
        keys
    }

    fn is_one_piece(&self, left: UnitKey, entry: &Entry, key: UnitKey, limits: &Limits) -> bool {
        key.0.minus(MEETS_MICROS) <= entry.reach
            && self.cuts.next_after(left.0).is_none_or(|mark| mark > key.0)
            && !self.stands_alone(left, limits)
    }

    /// Everything from here on is held; none: everything.
    pub(super) const fn floor(&self) -> Option<Micros> {
        self.floor
    }

    /// What was put in is whole from here on.
    pub(super) fn hold_from(&mut self, floor: Micros) {
        self.floor = Some(floor);
    }

    pub(super) const fn is_proxied(&self) -> bool {
        self.is_proxied
    }

    /// Notes the number of the batch that touches it.
    pub(super) const fn touch(&mut self, batch: u64) {
        self.touched = batch;
    }

    pub(super) const fn touched(&self) -> u64 {
        self.touched
    }

    /// Whether a proxied call that is still open was lost since this was last asked.
    pub(super) const fn take_lost_proxied(&mut self) -> bool {
        std::mem::replace(&mut self.lost_proxied, false)
    }

    /// Units more than when this was last asked.
    pub(super) fn grown(&mut self) -> isize {
        let before = std::mem::replace(&mut self.counted, self.units.len());
        self.units.len().cast_signed() - before.cast_signed()
    }

    /// True where the record may go on with a call that is open, but not held, or comes before one that is not held and
    /// is numbered among its equals.
    pub(super) fn continues_lost(&self, record: &Arc<Record>, clocks: &Clocks) -> bool {
        if self.lost.is_empty() && self.thinned.is_empty() {
            return false;
        }
        let key = (common_time(record.at, &record.stream, clocks), record.id);
        let Some(name) = group_key(record) else {
            let last = || self.equals.last(equal_key(&Unit::single(Arc::clone(record)), key));
            return self.thinned.contains(&key.0) && last().is_some_and(|last| last > record.id);
        };
        self.lost.holds(&name)
    }

    /// Forgets what ended before `floor`; what an open call belongs to stays for an hour longer.
    pub(super) fn forget(&mut self, floor: Micros, gone: &mut Gone) {
        self.forget_before(floor, true, gone);
    }

    /// Forgets the older part, and of open calls all but that they are open, until half as many units are left. What
    /// is so dense that nothing of it has ended stays.
    pub(super) fn shrink(&mut self, units_max: usize, limits: &Limits, gone: &mut Gone) {
        let skipped = self.units.len().saturating_sub(units_max / 2);
        let timed = || self.units.keys().take_while(|key| key.0 != TIMELESS);
        let newest = self.units.range(..(TIMELESS, FIRST)).next_back().map(|(key, _)| key.0);
        let floor = timed().nth(skipped).map(|key| key.0).or(newest);
        if let (Some(floor), Some(newest)) = (floor, newest) {
            self.forget_before(floor.min(newest.minus(HELD_MICROS_MIN)), false, gone);
        }
        if self.units.len() > 2 * units_max {
            self.thin(limits, gone);
        }
    }

    /// Drops units that stand alone among too many: they need nobody, and their list of equals still numbers them.
    fn thin(&mut self, limits: &Limits, gone: &mut Gone) {
        let alone: Vec<UnitKey> = self
            .units
            .range(..(TIMELESS, FIRST))
            .filter(|(key, entry)| {
                let is_single = group_key(&entry.unit.base).is_none() && !is_awaited(&entry.unit);
                is_single && self.stands_alone(**key, limits)
            })
            .map(|(key, _)| *key)
            .collect();
        for moment in alone.chunk_by(|left, right| left.0 == right.0) {
            // What stays is counted as before, so that it goes on to stand alone whatever comes.
            if moment.len() > limits.piece_units as usize {
                self.thinned.extend(moment.first().map(|key| key.0));
                self.drop_units(moment, TIMELESS, gone);
            }
        }
    }

    fn forget_before(&mut self, floor: Micros, keeps_open: bool, gone: &mut Gone) {
        let floor = self.floor.map_or(floor, |known| known.max(floor));
        self.floor = Some(floor);
        self.lost.forget(floor.minus(Micros::HOUR));
        self.thinned.retain(|at| *at >= floor);
        let timeless = self.units.range((TIMELESS, FIRST)..);
        // Those without a time are beyond every floor. Where they ended, what comes with their id is another call.
        let timeless = timeless.filter(|(_, entry)| !keeps_open || !is_awaited(&entry.unit));
        let timeless: Vec<UnitKey> = timeless.map(|(key, _)| *key).collect();
        let mut ended = self.ended(floor, keeps_open);
        ended.extend(timeless);
        self.drop_units(&ended, floor, gone);
        // A list of equals stays while one of its units does: its number counts those before it.
        let units = &self.units;
        self.equals.forget(floor, self.oldest(), |key| units.contains_key(key));
        self.cuts.forget(self.oldest().map_or(floor, |oldest| oldest.min(floor)));
    }

    /// From where to where units have to be known, so that those between the two times are joined as they should be.
    pub(super) fn span(&mut self, from: Micros, to: Micros, limits: &Limits) -> (Micros, Micros) {
        self.cuts.settle(limits.piece_units);
        let (mut first, mut last) = (from, to);
        let mut next = self.units.keys().next().copied();
        while let Some(key) = next.filter(|key| key.0 <= to.plus(MEETS_MICROS)) {
            let piece =
                if self.stands_alone(key, limits) { vec![] } else { self.piece(key, limits) };
            let end = piece.last().copied().unwrap_or(key);
            let reach = self.units.get(&end).map_or(end.0, |entry| entry.reach);
            if key.0 != TIMELESS && reach >= from.minus(MEETS_MICROS) {
                let around = Cuts::depends_on(key.0, reach.plus(MEETS_MICROS));
                first = first.min(around.0);
                last = last.max(around.1);
            }
            let after = self.units.range((Excluded(end), Unbounded)).next();
            next = after.map(|(key, _)| *key);
        }
        (first, last)
    }

    pub(super) fn oldest(&self) -> Option<Micros> {
        self.units.first_key_value().map(|(key, _)| key.0)
    }

    pub(super) fn len(&self) -> usize {
        self.units.len()
    }
}

/// True where more records may come for the unit: its call is open, and they would say so.
fn is_awaited(unit: &Unit) -> bool {
    let is_named = groups_by_id(&unit.base) || unit.base.dialect == Dialect::StdioProxy;
    is_named && unit.is_open()
}

fn group_key(record: &Record) -> Option<GroupKey> {
    let (tool, id) = (record.tool.as_ref()?, record.request_id.as_ref()?);
    let is_grouped = record.dialect != Dialect::StdioProxy;
    is_grouped.then(|| (Text::clone(&record.stream), Text::clone(tool), Text::clone(id)))
}

pub(super) fn key_of(unit: &Unit, clocks: &Clocks) -> UnitKey {
    (common_time(unit.base.at, &unit.base.stream, clocks), unit.base.id)
}

/// A time on the common clock; none is the end of time.
fn common_time(at: Option<Micros>, stream: &str, clocks: &Clocks) -> Micros {
    at.map_or(TIMELESS, |at| at.plus(clocks.offset(stream)))
}

fn equal_key(unit: &Unit, key: UnitKey) -> Equal {
    (key.0, unit.equal_key())
}

/// Tells the witness bits apart in one place.
const _: () = assert!(Witness::ALL.len() <= 8, "a set of witnesses fits a byte");
