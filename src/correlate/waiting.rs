//! Calls that one witness leads, waiting to become part of the calls of the witnesses above it.

use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

use super::Clocks;
use super::unit::Unit;
use crate::model::{ArgView, Args, Micros, Text};

/// Units looked at for one call and pass, so that a flood of look-alikes costs a bounded amount.
const LOOKS_MAX: usize = 4096;

/// A unit with what joining asks of it again and again, on the common clock.
#[derive(Clone, Debug)]
pub(super) struct Seen<'a> {
    pub(super) unit: &'a Unit,
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
    whole: Lane,
    /// Those that show the same arguments.
    by_key: FxHashMap<u64, Lane>,
    /// Whose they are.
    pub(super) streams: Vec<&'a Text>,
}

/// Some of the units, in order of time.
#[derive(Default)]
struct Lane {
    units: Vec<usize>,
    /// For each, the latest end of it and those before it.
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
            span: unit.interval().map(|(from, to)| (from.plus(offset), to.plus(offset))),
            end: outcome.at.filter(|_| outcome.class.is_terminal()).map(|at| at.plus(offset)),
            key: unit.key,
            place,
        }
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
        units.sort_by(|left, right| {
            (left.from(), left.stream(), left.unit.base.id).cmp(&(
                right.from(),
                right.stream(),
                right.unit.base.id,
            ))
        });
        let mut streams: Vec<&Text> = units.iter().map(Seen::stream).collect();
        streams.sort_unstable();
        streams.dedup();
        let mut whole = Lane::default();
        let mut by_key: FxHashMap<u64, Lane> = FxHashMap::default();
        for (index, seen) in units.iter().enumerate() {
            whole.push(index, seen);
            if let Some(key) = seen.key {
                by_key.entry(key).or_default().push(index, seen);
            }
        }
        Self { taken: vec![false; units.len()], units, whole, by_key, streams }
    }

    pub(super) fn take(&mut self, index: usize) {
        if let Some(taken) = self.taken.get_mut(index) {
            *taken = true;
        }
    }

    pub(super) fn is_taken(&self, index: usize) -> bool {
        self.taken.get(index).copied().unwrap_or(true)
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
        let Self { units, taken, whole, by_key, .. } = self;
        let lane = match key {
            Some(key) => by_key.get_mut(&key)?,
            None => whole,
        };
        let begin = lane.lower_bound(units, from);
        let mut place = lane.free(begin, taken);
        let mut looks = 0;
        while let Some(index) = lane.units.get(place).copied() {
            let seen = &units[index];
            if seen.from() > to || looks >= LOOKS_MAX {
                break;
            }
            if fits(seen) {
                return Some(index);
            }
            looks += 1;
            place = lane.free(place + 1, taken);
        }
        let oldest = lane.reach.partition_point(|reach| *reach < from);
        let before = oldest.max(begin.saturating_sub(LOOKS_MAX))..begin;
        before.rev().map(|place| lane.units[place]).find(|index| {
            let seen = &units[*index];
            !taken[*index] && seen.span.is_some_and(|(_, end)| end >= from) && fits(seen)
        })
    }

    /// Units, taken or not, that begin around these times, the nearest `each_max` on both sides of each, and whose span
    /// meets `from..=to`.
    pub(super) fn around(
        &self,
        key: Option<u64>,
        (from, to): (Micros, Micros),
        times: &[Micros],
        each_max: usize,
    ) -> Vec<usize> {
        let lane = match key.map(|key| self.by_key.get(&key)) {
            Some(Some(lane)) => lane,
            Some(None) => return Vec::new(),
            None => &self.whole,
        };
        let mut found = Vec::new();
        for at in times {
            let middle = lane.lower_bound(&self.units, *at);
            let meets = |place: &usize| {
                self.units[lane.units[*place]]
                    .span
                    .is_some_and(|span| span.0 <= to && span.1 >= from)
            };
            let later = (middle..lane.units.len())
                .take_while(|place| self.units[lane.units[*place]].from() <= to)
                .take(each_max);
            let oldest = lane.reach.partition_point(|reach| *reach < from);
            let earlier = (oldest..middle.max(oldest)).rev().take(each_max);
            found.extend(later.chain(earlier).filter(meets).map(|place| lane.units[place]));
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl Lane {
    fn push(&mut self, index: usize, seen: &Seen<'_>) {
        let to = seen.span.map_or(Micros(i64::MAX), |(_, to)| to);
        let before = self.reach.last().copied().unwrap_or(Micros(i64::MIN));
        self.units.push(index);
        self.reach.push(before.max(to));
        self.next.push(0);
    }

    /// The first place that begins at `from` or later.
    fn lower_bound(&self, units: &[Seen<'_>], from: Micros) -> usize {
        self.units.partition_point(|index| units[*index].from() < from)
    }

    /// The first place from `begin` on that is not taken. What is skipped is skipped faster the next time.
    fn free(&mut self, begin: usize, taken: &[bool]) -> usize {
        let mut place = begin;
        while self.units.get(place).is_some_and(|index| taken[*index]) {
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
