//! Calls that one witness leads, waiting to become part of the calls of the witnesses above it.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHasher};

use super::Clocks;
use super::unit::Unit;
use crate::model::{ArgView, Args, Micros, OutcomeClass, Text, Witness};

/// Units looked at for one call and pass, so that a flood of look-alikes costs a bounded amount.
const LOOKS_MAX: usize = 4096;

/// A unit with what joining asks of it again and again, on the common clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) unit: &'a Unit,
    pub(super) witness: Witness,
    /// What its outcome is.
    pub(super) class: OutcomeClass,
    /// The number of its stream among those of the piece, in order of their names: to compare or to look up a number
    /// is cheaper than a name.
    pub(super) number: usize,
    /// From the approval, else the first record, to the last; none without a time.
    pub(super) span: Option<(Micros, Micros)>,
    /// When it ended, where it did.
    pub(super) end: Option<Micros>,
    /// The same for units that show the same arguments, all of them and whole.
    pub(super) key: Option<u64>,
    /// Which call of a list it leads; of a unit that is tied, its place among all units.
    pub(super) place: usize,
}

/// Units in order of time.
pub(super) struct Waiting<'a> {
    pub(super) units: Vec<Seen<'a>>,
    taken: Vec<bool>,
    lanes: Lanes,
    /// Whose they are, with the numbers of their streams.
    pub(super) streams: Vec<(usize, &'a Text)>,
}

/// The places of units, in order of what they show where the pass goes by that, then of time. Those that show the same
/// are one lane, without gaps.
struct Lanes {
    /// From where to where those stand that show this.
    by_key: FxHashMap<Option<u64>, (usize, usize)>,
    units: Vec<usize>,
    /// For each, the latest end of it and those before it in its lane.
    reach: Vec<Micros>,
    /// For each that is taken, a later one before which all are.
    next: Vec<usize>,
}

impl<'a> Seen<'a> {
    pub(super) fn new(unit: &'a Unit, place: usize, clocks: &Clocks) -> Self {
        let offset = clocks.offset(&unit.base.stream);
        let outcome = unit.outcome();
        Self {
            unit,
            witness: unit.witness(),
            class: outcome.class,
            number: 0,
            span: unit.interval().map(|(from, to)| (from.plus(offset), to.plus(offset))),
            end: outcome.at.filter(|_| outcome.class.is_terminal()).map(|at| at.plus(offset)),
            key: unit.key,
            place,
        }
    }

    /// The units of one piece, at their places, with their streams numbered.
    pub(super) fn all(units: impl Iterator<Item = &'a Unit>, clocks: &Clocks) -> Vec<Self> {
        let mut all: Vec<Self> =
            units.enumerate().map(|(place, unit)| Self::new(unit, place, clocks)).collect();
        let mut names: Vec<&Text> = all.iter().map(Seen::stream).collect();
        names.sort_unstable();
        names.dedup();
        for seen in &mut all {
            seen.number = names.binary_search(&seen.stream()).unwrap_or_default();
        }
        all
    }

    pub(super) fn from(&self) -> Micros {
        self.span.map_or(Micros(i64::MAX), |(from, _)| from)
    }

    pub(super) fn stream(&self) -> &'a Text {
        &self.unit.base.stream
    }

    /// How much later the other's record of the same moment is: of the end where both know it, else of the beginning.
    pub(super) fn gap_to(&self, other: &Seen<'_>) -> i64 {
        match (self.end, other.end) {
            (Some(end), Some(other)) => other.since(end),
            _ => other.from().since(self.from()),
        }
    }
}

impl<'a> Waiting<'a> {
    /// Those without a time join nothing by time.
    pub(super) fn of(mut units: Vec<Seen<'a>>) -> Self {
        units.sort_by_key(|seen| (seen.from(), seen.number, seen.unit.base.id));
        let mut streams: Vec<(usize, &Text)> = Vec::new();
        for seen in &units {
            if let Err(place) = streams.binary_search_by_key(&seen.number, |(number, _)| *number) {
                streams.insert(place, (seen.number, seen.stream()));
            }
        }
        Self { taken: vec![false; units.len()], lanes: Lanes::of(&units), units, streams }
    }

    pub(super) fn take(&mut self, index: usize) {
        if let Some(taken) = self.taken.get_mut(index) {
            *taken = true;
        }
    }

    pub(super) fn is_taken(&self, index: usize) -> bool {
        self.taken.get(index).copied().unwrap_or(true)
    }

    /// Whether more than one shows this.
    pub(super) fn has_several(&self, key: Option<u64>) -> bool {
        self.lanes.lane(key).len() > 1
    }

    /// The first unit not taken whose span meets `from..=to` and that `fits`: of those that begin inside it the
    /// earliest, else of those that began before and last into it the latest. Who is nearer to the work sees a call
    /// after who is farther from it, so to have begun before is the exception.
    pub(super) fn first(
        &mut self,
        key: Option<u64>,
        (from, to): (Micros, Micros),
        mut fits: impl FnMut(&Seen<'a>) -> bool,
    ) -> Option<usize> {
        let Self { units, taken, lanes, .. } = self;
        let lane = lanes.lane(key);
        let begin = lanes.lower_bound(units, &lane, from);
        let mut place = lanes.free(begin, lane.end, taken);
        let mut looks = 0;
        while place < lane.end {
            let index = lanes.units[place];
            let seen = &units[index];
            if seen.from() > to || looks >= LOOKS_MAX {
                break;
            }
            if fits(seen) {
                return Some(index);
            }
            looks += 1;
            place = lanes.free(place + 1, lane.end, taken);
        }
        let oldest = lanes.first_to_reach(&lane, from);
        let before = oldest.max(begin.saturating_sub(LOOKS_MAX))..begin;
        before.rev().map(|place| lanes.units[place]).find(|index| {
            let seen = &units[*index];
            !taken[*index] && seen.span.is_some_and(|(_, end)| end >= from) && fits(seen)
        })
    }

    /// Units, taken or not, that begin around these times, the nearest `each_max` on both sides of each, and whose span
    /// meets `from..=to`: puts them into `found`, in order, in place of what is there.
    pub(super) fn around(
        &self,
        key: Option<u64>,
        (from, to): (Micros, Micros),
        times: impl Iterator<Item = Micros>,
        each_max: usize,
        found: &mut Vec<usize>,
    ) {
        found.clear();
        let Self { units, lanes, .. } = self;
        let lane = lanes.lane(key);
        let oldest = lanes.first_to_reach(&lane, from);
        for at in times {
            let middle = lanes.lower_bound(units, &lane, at);
            let meets = |place: &usize| {
                units[lanes.units[*place]].span.is_some_and(|span| span.0 <= to && span.1 >= from)
            };
            let later = (middle..lane.end)
                .take_while(|place| units[lanes.units[*place]].from() <= to)
                .take(each_max);
            let earlier = (oldest..middle.max(oldest)).rev().take(each_max);
            found.extend(later.chain(earlier).filter(meets).map(|place| lanes.units[place]));
        }
        found.sort_unstable();
        found.dedup();
    }
}

impl Lanes {
    fn of(units: &[Seen<'_>]) -> Self {
        let mut places: Vec<usize> = (0..units.len()).collect();
        places.sort_unstable_by_key(|place| (units[*place].key, *place));
        let lanes = || places.chunk_by(|left, right| units[*left].key == units[*right].key);
        let mut by_key = FxHashMap::with_capacity_and_hasher(lanes().count(), FxBuildHasher);
        let mut reach = Vec::with_capacity(places.len());
        for lane in lanes() {
            let key = lane.first().and_then(|place| units[*place].key);
            by_key.insert(key, (reach.len(), reach.len() + lane.len()));
            let mut latest = Micros(i64::MIN);
            for place in lane {
                latest = latest.max(units[*place].span.map_or(Micros(i64::MAX), |(_, to)| to));
                reach.push(latest);
            }
        }
        Self { by_key, next: vec![0; places.len()], units: places, reach }
    }

    fn lane(&self, key: Option<u64>) -> Range<usize> {
        let (start, end) = self.by_key.get(&key).copied().unwrap_or_default();
        start..end
    }

    /// The first place of the lane that begins at `from` or later.
    fn lower_bound(&self, units: &[Seen<'_>], lane: &Range<usize>, from: Micros) -> usize {
        let before = |index: &usize| units[*index].from() < from;
        lane.start + self.units[lane.clone()].partition_point(before)
    }

    /// The first place of the lane up to which one lasts until `from` or longer.
    fn first_to_reach(&self, lane: &Range<usize>, from: Micros) -> usize {
        lane.start + self.reach[lane.clone()].partition_point(|reach| *reach < from)
    }

    /// The first place from `begin` on that is not taken. What is skipped is skipped faster the next time.
    fn free(&mut self, begin: usize, end: usize, taken: &[bool]) -> usize {
        let mut place = begin;
        while place < end && taken[self.units[place]] {
            place = self.next[place].max(place + 1);
        }
        let mut skipped = begin;
        while skipped < place {
            let next = self.next[skipped].max(skipped + 1);
            self.next[skipped] = place;
            skipped = next;
        }
        place
    }
}

/// Of arguments that are shown whole.
pub(super) fn key_of(args: &Args) -> Option<u64> {
    if args.view != ArgView::Full || args.values.iter().any(|value| value.summarised) {
        return None;
    }
    let mut hasher = FxHasher::default();
    for value in &args.values {
        (&value.name, value.hash).hash(&mut hasher);
    }
    Some(hasher.finish())
}
