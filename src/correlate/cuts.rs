//! Where one tool's time is cut, so that what is joined together stays small.
//!
//! A mark cuts where the stretches on its two sides, each as long as marks of its kind lie apart, hold too many units.
//! That depends on the units around the mark alone: not on what else is remembered, nor on what came first.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use rustc_hash::FxHashMap;

use crate::model::Micros;

/// How far the marks of each kind lie apart, from coarse to fine; each divides the one before.
const WIDTHS_MICROS: [i64; 6] =
    [Micros::HOUR, 10 * Micros::MINUTE, Micros::MINUTE, 4 * Micros::SECOND, 250_000, 10_000];
/// Marks at midnight cut with so many times fewer units: a chain of long calls may be as thin as it is endless.
const MIDNIGHT_SHARE: u32 = 64;
const DAY_MICROS: i64 = 24 * Micros::HOUR;

/// A stretch of time between two marks of one kind.
type Stretch = (usize, i64);

#[derive(Default)]
pub(super) struct Cuts {
    /// Units that begin in each stretch, those forgotten since with them.
    counts: FxHashMap<Stretch, u32>,
    /// Marks that cut, and how far to both sides they depend on units.
    marks: BTreeMap<Micros, i64>,
    /// What came and went since the last look: (where, how many more).
    changed: Vec<(Micros, i32)>,
}

/// What is cut otherwise than before.
#[derive(Default)]
pub(super) struct Turned {
    pub(super) marks: Vec<Micros>,
    /// The shortest stretches that became packed or no longer are: from, and up to.
    pub(super) packed: Vec<(Micros, Micros)>,
}

impl Cuts {
    /// A unit begins here, or does no longer; [`Cuts::settle`] looks at what that changes.
    pub(super) fn count(&mut self, at: Micros, more: i32) {
        self.changed.push((at, more));
    }

    pub(super) fn settle(&mut self, units_max: u32) -> Turned {
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        // Most of what goes comes again at once with another record in it.
        let changed: Vec<(Micros, i32)> = changed
            .chunk_by(|left, right| left.0 == right.0)
            .filter_map(|equal| {
                let more: i32 = equal.iter().map(|(_, more)| more).sum();
                equal.first().filter(|_| more != 0).map(|(at, _)| (*at, more))
            })
            .collect();
        let mut turned = Turned::default();
        let mut stretches = Vec::new();
        self.add(&changed, 0, units_max, &mut stretches, &mut turned);
        for (level, number) in stretches {
            self.look(level, number, units_max, &mut turned);
            self.look(level, number + 1, units_max, &mut turned);
        }
        turned
    }

    /// Counts, and collects the stretches whose marks may cut or not cut any more.
    fn add(
        &mut self,
        changed: &[(Micros, i32)],
        level: usize,
        units_max: u32,
        stretches: &mut Vec<Stretch>,
        turned: &mut Turned,
    ) {
        let Some(width) = WIDTHS_MICROS.get(level) else { return };
        let number = |at: Micros| at.0.div_euclid(*width);
        for part in changed.chunk_by(|left, right| number(left.0) == number(right.0)) {
            let Some((first, _)) = part.first() else { continue };
            let stretch = (level, number(*first));
            let more = part.iter().map(|(_, more)| more).sum();
            let count = self.counts.entry(stretch).or_default();
            let before = *count;
            *count = before.saturating_add_signed(more);
            let after = *count;
            stretches.push(stretch);
            if level + 1 == WIDTHS_MICROS.len() && (before > units_max) != (after > units_max) {
                let from = stretch.1.saturating_mul(*width);
                turned.packed.push((Micros(from), Micros(from.saturating_add(*width))));
            }
            let kept = stretches.len();
            self.add(part, level + 1, units_max, stretches, turned);
            // Inside a stretch that is not crowded no mark cuts.
            if before.max(after) <= units_max {
                stretches.truncate(kept);
            }
        }
    }

    /// Looks whether the mark where this stretch begins cuts.
    fn look(&mut self, level: usize, number: i64, units_max: u32, turned: &mut Turned) {
        let Some(width) = WIDTHS_MICROS.get(level).copied() else { return };
        let mark = Micros(number.saturating_mul(width));
        let coarser = level.checked_sub(1).and_then(|level| WIDTHS_MICROS.get(level));
        if coarser.is_some_and(|coarser| mark.0 % coarser == 0) {
            // The coarser of two marks at one place counts.
            return;
        }
        let count = |number| self.counts.get(&(level, number)).copied().unwrap_or(0);
        let is_midnight = mark.0 % DAY_MICROS == 0;
        let units_max = if is_midnight { units_max / MIDNIGHT_SHARE } else { units_max };
        let cuts = count(number - 1).saturating_add(count(number)) > units_max;
        if cuts == self.marks.contains_key(&mark) {
            return;
        }
        if cuts {
            self.marks.insert(mark, width);
        } else {
            self.marks.remove(&mark);
        }
        turned.marks.push(mark);
    }

    /// The first mark after `at` that cuts: what begins there or later is joined apart.
    pub(super) fn next_after(&self, at: Micros) -> Option<Micros> {
        self.marks.range((Excluded(at), Unbounded)).next().map(|(mark, _)| *mark)
    }

    /// True where the first mark after `at` cuts for good, if nothing changes from `floor` on.
    pub(super) fn is_cut_for_good(&self, at: Micros, floor: Micros) -> bool {
        let next = self.marks.range((Excluded(at), Unbounded)).next();
        next.is_some_and(|(mark, width)| mark.plus(*width) <= floor)
    }

    /// True where units from `floor` on may yet cut between what begins at `first` and at `last`.
    pub(super) fn may_turn_between(first: Micros, last: Micros, floor: Micros) -> bool {
        WIDTHS_MICROS.into_iter().any(|width| {
            let mark = Micros(last.0.div_euclid(width).saturating_mul(width));
            first < mark && mark.plus(width) > floor
        })
    }

    /// The units from where to where decide how what lies between these two is cut.
    pub(super) fn depends_on(from: Micros, to: Micros) -> (Micros, Micros) {
        let [coarse, fine, ..] = WIDTHS_MICROS;
        let holds_coarse =
            from.0.div_euclid(coarse) != to.0.div_euclid(coarse) || from.0 % coarse == 0;
        let width = if holds_coarse { coarse } else { fine };
        (from.minus(width), to.plus(width))
    }

    /// True where so many units begin in one of the shortest stretches that each stands alone.
    pub(super) fn is_packed(&self, at: Micros, units_max: u32) -> bool {
        let level = WIDTHS_MICROS.len() - 1;
        let number = at.0.div_euclid(WIDTHS_MICROS[level]);
        self.counts.get(&(level, number)).is_some_and(|count| *count > units_max)
    }

    /// Forgets what is of no use for units from `floor` on.
    pub(super) fn forget(&mut self, floor: Micros) {
        self.counts.retain(|(level, number), _| {
            WIDTHS_MICROS
                .get(*level)
                .is_some_and(|width| number.saturating_add(2).saturating_mul(*width) >= floor.0)
        });
        self.marks = self.marks.split_off(&floor);
    }
}
