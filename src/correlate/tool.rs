//! All recent units of one tool (bare name), and the calls they make.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::clock::{Clocks, Sample};
use super::unit::{Unit, groups_by_id, record_order, split};
use super::{Diff, JOIN_SLACK_MICROS, build, pair, retry};
use crate::model::{Call, Micros, Record, RecordId, Text, Witness};

/// Where a unit stands: by its first record's time on the common clock, then by the record's id. The number of a
/// generation is no order that joining may rest on: files are found in another order in a scan than in a watch.
type UnitKey = (Micros, RecordId);
/// Records that share a request id: (stream, tool as logged, request id).
type GroupKey = (Text, Text, Text);

/// A component of overlapping units larger than this is cut at fixed marks.
const COMPONENT_UNITS_MAX: usize = 4096;
/// The marks, from coarse to fine: a piece still too large is cut at the next finer ones.
const MARKS_MICROS: [i64; 4] =
    [10 * Micros::MINUTE, Micros::MINUTE, 10 * Micros::SECOND, Micros::SECOND];

/// Where units without a time stand.
const TIMELESS: Micros = Micros(i64::MAX);

#[derive(Default)]
pub(super) struct ToolState {
    units: BTreeMap<UnitKey, Entry>,
    groups: FxHashMap<GroupKey, Group>,
    /// Units by (time of first record, what equals share), to count occurrences.
    equals: BTreeMap<(Micros, u64), Vec<RecordId>>,
    /// Witnesses seen so far, as bits: with one alone there is nothing to join.
    witnesses: u8,
    dirty: FxHashSet<UnitKey>,
    /// True once a unit failed in a way that another may repeat: then it matters what stands beside it.
    has_failed: bool,
    /// Calls of units that were taken out in this batch.
    orphans: Vec<Arc<Call>>,
    /// What units that were taken out had said of the clocks.
    unsaid: Vec<Sample>,
    /// Spans of components that are known to be too large, though parts of them may be forgotten.
    large: Vec<(Micros, Micros)>,
    /// Pieces that are known to be too large: (level of the mark, number of the piece).
    large_slots: FxHashSet<(usize, i64)>,
}

struct Entry {
    unit: Unit,
    /// The end of its interval on the common clock.
    to: Micros,
    call: Option<Arc<Call>>,
    /// What its join says of the clocks.
    sample: Option<Sample>,
}

#[derive(Default)]
struct Group {
    /// In order.
    records: Vec<Arc<Record>>,
    units: Vec<UnitKey>,
}

impl ToolState {
    /// Takes records of this tool in; [`ToolState::settle`] then says what changed.
    pub(super) fn add(&mut self, records: &[Arc<Record>], clocks: &Clocks) {
        let mut touched: FxHashMap<GroupKey, Vec<Arc<Record>>> = FxHashMap::default();
        for record in records {
            match (&record.tool, &record.request_id) {
                (Some(tool), Some(id)) if groups_by_id(record) => {
                    let key = (Text::clone(&record.stream), Text::clone(tool), Text::clone(id));
                    touched.entry(key).or_default().push(Arc::clone(record));
                }
                _ => {
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
        let kept = group.units.partition_point(|unit| Some(*unit) <= first).saturating_sub(1);
        let start = group
            .units
            .get(kept)
            .and_then(|unit| group.records.iter().rposition(|record| record.id == unit.1));
        for unit in group.units.split_off(kept) {
            self.remove(unit, clocks);
        }
        group.records.extend(added);
        group.records.sort_by_key(|record| record_order(record));
        group.records.dedup_by_key(|record| record.id);
        for unit in split(group.records.get(start.unwrap_or(0)..).unwrap_or_default()) {
            group.units.push(self.insert(unit, clocks));
        }
        self.groups.insert(key, group);
    }

    fn insert(&mut self, unit: Unit, clocks: &Clocks) -> UnitKey {
        let key = key_of(&unit, clocks);
        let offset = clocks.offset(&unit.base.stream);
        let to = unit.interval().map_or(key.0, |(_, to)| to.plus(offset));
        self.witnesses |= 1 << (unit.witness() as u8);
        self.has_failed |= retry::is_failed(&unit);
        let equals = self.equals.entry(equal_key(&unit, key)).or_default();
        let place = equals.partition_point(|id| *id < unit.base.id);
        let new = equals.get(place) != Some(&unit.base.id);
        if new {
            equals.insert(place, unit.base.id);
        }
        // Those behind it among their equals count one more now.
        let moved: Vec<RecordId> =
            if new { equals.iter().skip(place + 1).copied().collect() } else { Vec::new() };
        self.dirty.insert(key);
        self.dirty.extend(moved.into_iter().map(|id| (key.0, id)));
        if let Some(old) = self.units.insert(key, Entry { unit, to, call: None, sample: None }) {
            self.orphans.extend(old.call);
            self.unsaid.extend(old.sample);
        }
        key
    }

    fn remove(&mut self, key: UnitKey, clocks: &Clocks) {
        let Some(entry) = self.units.remove(&key) else { return };
        self.unsaid.extend(entry.sample);
        self.dirty.remove(&key);
        let equal = equal_key(&entry.unit, key);
        if let Some(equals) = self.equals.get_mut(&equal) {
            equals.retain(|id| *id != entry.unit.base.id);
            self.dirty.extend(equals.iter().map(|id| (key.0, *id)));
            if equals.is_empty() {
                self.equals.remove(&equal);
            }
        }
        // What it was joined with, or could have been, stands alone or joins another now: those on its right up to the
        // end of its interval, and the run on its left.
        let end = entry.to.plus(2 * JOIN_SLACK_MICROS);
        let left = self.units.range(..key).next_back().map(|(key, _)| *key);
        let right = self.units.range(key..).map(|(key, _)| *key).take_while(|key| key.0 <= end);
        self.dirty.extend(left.into_iter().chain(right));
        if let Some(call) = entry.call {
            for sighting in &call.sightings {
                if let Some(first) = sighting.steps.first() {
                    let at = common_time(first.at, &sighting.stream, clocks);
                    self.dirty.insert((at, first.record));
                }
            }
            self.orphans.push(call);
        }
    }

    /// Has the units of these streams that begin in this span joined anew.
    pub(super) fn rejoin(&mut self, streams: &FxHashSet<Text>, (from, to): (Micros, Micros)) {
        let first = RecordId { generation: 0, offset: 0, index: 0 };
        let of_streams = self
            .units
            .range((from, first)..(to, first))
            .filter(|(_, entry)| streams.contains(&entry.unit.base.stream));
        self.dirty.extend(of_streams.map(|(key, _)| *key));
    }

    pub(super) fn holds(&self, at: Option<Micros>, record: RecordId) -> bool {
        self.units.contains_key(&(at.unwrap_or(TIMELESS), record))
    }

    /// Joins what the added records touch and says which calls are new, changed or gone.
    pub(super) fn settle(&mut self, clocks: &mut Clocks, diff: &mut Diff) {
        diff.old.append(&mut self.orphans);
        diff.samples.extend(self.unsaid.drain(..).map(|sample| (sample, -1)));
        if self.dirty.is_empty() {
            return;
        }
        let dirty = std::mem::take(&mut self.dirty);
        if self.witnesses.is_power_of_two() && !self.has_failed {
            let mut keys: Vec<UnitKey> = dirty.into_iter().collect();
            keys.sort_unstable();
            for key in keys {
                self.settle_alone(key, clocks, diff);
            }
            return;
        }
        for piece in self.pieces(&dirty) {
            self.settle_piece(&piece, clocks, diff);
        }
    }

    fn settle_alone(&mut self, key: UnitKey, clocks: &Clocks, diff: &mut Diff) {
        let Some(entry) = self.units.get(&key) else { return };
        let joined = pair::alone(&entry.unit, clocks);
        let call = Arc::new(build::build(&joined, self.occurrence(key, entry)));
        if let Some(entry) = self.units.get_mut(&key) {
            diff.old.extend(entry.call.replace(Arc::clone(&call)));
            diff.new.push(call);
        }
    }

    fn settle_piece(&mut self, keys: &[UnitKey], clocks: &mut Clocks, diff: &mut Diff) {
        let mut owners: FxHashMap<RecordId, Arc<Call>> = FxHashMap::default();
        let mut seen: FxHashSet<*const Call> = FxHashSet::default();
        let entries: Vec<(UnitKey, &Entry)> =
            keys.iter().filter_map(|key| Some((*key, self.units.get(key)?))).collect();
        let by_record: FxHashMap<RecordId, (UnitKey, &Entry)> =
            entries.iter().map(|(key, entry)| (key.1, (*key, *entry))).collect();
        let units: Vec<&Unit> = entries.iter().map(|(_, entry)| &entry.unit).collect();
        for unit in &units {
            if let Some((from, _)) = unit.interval() {
                let stream = &unit.base.stream;
                clocks.enter(stream, from.plus(clocks.offset(stream)));
            }
        }
        let verdict = pair::join(&units, clocks);
        for joined in verdict.calls {
            let lead = by_record.get(&joined.lead.unit.base.id);
            let occurrence = lead.map_or(0, |(key, entry)| self.occurrence(*key, entry));
            let call = Arc::new(build::build(&joined, occurrence));
            for tied in &joined.units {
                owners.insert(tied.seen.unit.base.id, Arc::clone(&call));
            }
            diff.new.push(call);
        }
        let mut samples: FxHashMap<RecordId, Sample> = verdict.samples.into_iter().collect();
        for key in keys {
            let Some(entry) = self.units.get_mut(key) else { continue };
            let sample = samples.remove(&key.1);
            if sample != entry.sample {
                diff.samples.extend(sample.clone().map(|sample| (sample, 1)));
                let old = std::mem::replace(&mut entry.sample, sample);
                diff.samples.extend(old.map(|sample| (sample, -1)));
            }
            let owner = owners.get(&key.1).cloned();
            let old = std::mem::replace(&mut entry.call, owner);
            diff.old.extend(old.filter(|old| seen.insert(Arc::as_ptr(old))));
        }
    }

    /// The maximal runs of overlapping units that hold a dirty one, cut where they are too large.
    fn pieces(&mut self, dirty: &FxHashSet<UnitKey>) -> Vec<Vec<UnitKey>> {
        let mut runs: Vec<Vec<UnitKey>> = Vec::new();
        let mut run: Vec<UnitKey> = Vec::new();
        let mut reach = Micros(i64::MIN);
        for (key, entry) in &self.units {
            // Two intervals can meet when each is widened by the slack.
            if key.0.minus(2 * JOIN_SLACK_MICROS) > reach {
                runs.push(std::mem::take(&mut run));
            }
            run.push(*key);
            reach = reach.max(entry.to);
        }
        runs.push(run);
        let mut cutter = Cutter { dirty, large_slots: &mut self.large_slots, pieces: Vec::new() };
        for run in runs {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            if !run.iter().any(|key| dirty.contains(key)) {
                continue;
            }
            let (from, to) = (first.0, last.0);
            let known = self.large.iter().position(|span| from <= span.1 && to >= span.0);
            let large = known.is_some() || run.len() > COMPONENT_UNITS_MAX;
            if large {
                let span = known.map_or((to, from), |known| self.large.swap_remove(known));
                self.large.push((from.min(span.0), to.max(span.1)));
            }
            let all = large && known.is_none();
            cutter.cut(&run, large, all, 0);
        }
        cutter.pieces
    }

    fn occurrence(&self, key: UnitKey, entry: &Entry) -> usize {
        self.equals
            .get(&equal_key(&entry.unit, key))
            .and_then(|equals| equals.binary_search(&entry.unit.base.id).ok())
            .unwrap_or(0)
    }

    /// Forgets what ended before `floor`; what an open unit belongs to stays for an hour longer.
    pub(super) fn forget(&mut self, floor: Micros) {
        let open_floor = floor.minus(Micros::HOUR);
        for run in self.ended_runs(floor) {
            let awaited = run.iter().filter_map(|key| self.units.get_key_value(key));
            let mut awaited =
                awaited.filter(|(key, entry)| entry.unit.is_open() && key.0 >= open_floor);
            if awaited.next().is_none() {
                for key in run {
                    self.units.remove(&key);
                }
            }
        }
        self.forget_timeless();
        let units = &self.units;
        self.groups.retain(|_, group| {
            let before = group.units.len();
            group.units.retain(|key| units.contains_key(key));
            if group.units.len() < before {
                let kept: FxHashSet<RecordId> = group
                    .units
                    .iter()
                    .filter_map(|key| units.get(key))
                    .flat_map(|entry| entry.unit.steps.iter().map(|step| step.record))
                    .collect();
                group.records.retain(|record| kept.contains(&record.id));
            }
            !group.units.is_empty()
        });
        // The whole list stays while one of its units does: its number counts those before it.
        self.equals.retain(|(at, _), ids| {
            *at >= floor || ids.iter().any(|id| units.contains_key(&(*at, *id)))
        });
        self.large.retain(|(_, to)| *to >= open_floor);
        self.large_slots.retain(|(level, slot)| {
            MARKS_MICROS.get(*level).is_some_and(|mark| (slot + 1) * mark >= open_floor.0)
        });
    }

    /// Units without a time are beyond every floor. Those that ended can go: what comes with their id is another call.
    fn forget_timeless(&mut self) {
        let timeless =
            self.units.range((TIMELESS, RecordId { generation: 0, offset: 0, index: 0 })..);
        let ended: Vec<UnitKey> =
            timeless.filter(|(_, entry)| !entry.unit.is_open()).map(|(key, _)| *key).collect();
        for key in ended {
            self.units.remove(&key);
        }
    }

    /// The components, or pieces of those too large, that nothing from `floor` on can join.
    fn ended_runs(&self, floor: Micros) -> Vec<Vec<UnitKey>> {
        let is_past = |reach: Micros| reach.plus(2 * JOIN_SLACK_MICROS) < floor;
        let mut ended = Vec::new();
        let mut run: Vec<UnitKey> = Vec::new();
        let mut reach = Micros(i64::MIN);
        for (key, entry) in &self.units {
            if key.0.minus(2 * JOIN_SLACK_MICROS) > reach {
                let before = std::mem::take(&mut run);
                // What comes next may be far off, or have no time: the run itself may still reach beyond the floor.
                if is_past(reach) {
                    ended.push(before);
                }
            }
            if key.0 >= floor {
                break;
            }
            reach = reach.max(entry.to);
            run.push(*key);
        }
        if run.len() > COMPONENT_UNITS_MAX {
            let slot = |at: Micros| at.0.div_euclid(MARKS_MICROS[0]);
            run.retain(|key| slot(key.0) < slot(floor));
            ended.extend(
                run.chunk_by(|left, right| slot(left.0) == slot(right.0)).map(<[_]>::to_vec),
            );
        } else if is_past(reach) {
            ended.push(run);
        }
        ended
    }

    pub(super) fn oldest(&self) -> Option<Micros> {
        self.units.first_key_value().map(|(key, _)| key.0)
    }

    pub(super) fn len(&self) -> usize {
        self.units.len()
    }
}

pub(super) fn key_of(unit: &Unit, clocks: &Clocks) -> UnitKey {
    (common_time(unit.base.at, &unit.base.stream, clocks), unit.base.id)
}

/// A time on the common clock; none is the end of time.
fn common_time(at: Option<Micros>, stream: &str, clocks: &Clocks) -> Micros {
    at.map_or(TIMELESS, |at| at.plus(clocks.offset(stream)))
}

fn equal_key(unit: &Unit, key: UnitKey) -> (Micros, u64) {
    (key.0, unit.equal_key())
}

/// Cuts runs that are too large at fixed marks, and pieces still too large at finer ones.
struct Cutter<'a> {
    dirty: &'a FxHashSet<UnitKey>,
    large_slots: &'a mut FxHashSet<(usize, i64)>,
    pieces: Vec<Vec<UnitKey>>,
}

impl Cutter<'_> {
    /// `all`: every piece has to be joined anew, because it was not cut like this before; else the dirty ones.
    fn cut(&mut self, run: &[UnitKey], large: bool, all: bool, level: usize) {
        let Some(mark) = MARKS_MICROS.get(level).filter(|_| large) else {
            if all || run.iter().any(|key| self.dirty.contains(key)) {
                self.pieces.push(run.to_vec());
            }
            return;
        };
        let slot = |key: &UnitKey| key.0.0.div_euclid(*mark);
        for piece in run.chunk_by(|left, right| slot(left) == slot(right)) {
            let large = piece.len() > COMPONENT_UNITS_MAX;
            let newly = large && self.large_slots.insert((level, piece.first().map_or(0, slot)));
            self.cut(piece, large, all || newly, level + 1);
        }
    }
}

/// Tells the witness bits apart in one place.
const _: () = assert!(Witness::ALL.len() <= 8, "a set of witnesses fits a byte");
