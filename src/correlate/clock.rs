//! How far the clocks of two streams are apart: as configured, and as measured over the joins of each day.
//!
//! The first pass of joining knows only the configured offsets. What it joins without doubt is measured, and the
//! second pass looks for the rest where the measured clock says. Both the measure and what was last used are kept, so
//! that a day whose measure has moved on can be joined anew: what counts in the end is a function of the records.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::JOIN_SLACK_MICROS;
use crate::model::{ClockSample, ClockUse, Micros, Text};

/// The span that is measured as one.
const SLOT_MICROS: i64 = 24 * Micros::HOUR;
/// Width of the bins in which differences are counted. A bin more or less is mostly no other measure.
pub(super) const BIN_MICROS: i64 = 50_000;
/// Joins from which on a measure is believed.
const SAMPLES_MIN: i64 = 12;
/// Measured offsets are multiples of it, so that one join more seldom changes them; joining finds the rest by itself.
const OFFSET_STEP_MICROS: i64 = 250_000;
/// How far from the measured offset a join may lie; it grows with the spread of what was measured.
const TOLERANCES_MICROS: [i64; 4] =
    [Micros::SECOND, 2 * Micros::SECOND, 3 * Micros::SECOND, 5 * Micros::SECOND];
/// Bins of the span in which the joins of two streams that belong together lie: two seconds, for a clock that drifts.
const PEAK_BINS: i32 = 40;
/// Percent of the joins that have to lie in it. Of joins by chance, which lie anywhere within the slack on both sides,
/// a fifth does; of a clock that was set right at noon, a half.
const PEAK_PERCENT_MIN: i64 = 40;
/// Streams above one that are looked at for another that was measured against them too.
const ABOVE_MAX: usize = 16;
/// Days in memory; older ones are read again when something late touches them.
const SLOTS_HELD_MAX: usize = 4;

/// How far each stream's clock is from the common one, and from each other's.
#[derive(Clone, Debug)]
pub struct Clocks {
    configured: FxHashMap<Text, i64>,
    /// By slot, by the stream farther from the work, by the one nearer to it.
    slots: BTreeMap<i64, Slot>,
    /// The newest slot that calls were joined in.
    newest: Option<i64>,
    /// True while slots that are not here hold nothing.
    complete: bool,
    /// Joins from which on a measure is believed.
    samples_min: i64,
    /// Measures that may differ from what was used.
    moved: FxHashSet<SlotPair>,
    /// What changed since it was last taken.
    samples: FxHashMap<(SlotPair, i32), i64>,
    uses: Vec<ClockUse>,
}

impl Default for Clocks {
    fn default() -> Self {
        Self::new([])
    }
}

/// Stands for the upper stream where a lower one is looked at whomever it belongs to.
const ANYBODY: &str = "";

type SlotPair = (i64, Text, Text);

#[derive(Clone, Debug, Default)]
struct Slot {
    /// True where nothing was joined in it before it came here.
    is_fresh: bool,
    /// Streams whose calls were joined in it since.
    entered: FxHashSet<Text>,
    pairs: FxHashMap<Text, FxHashMap<Text, Measure>>,
    /// The same pairs, the other way round.
    above: FxHashMap<Text, BTreeSet<Text>>,
    /// Lower streams by the joins that measured them, against whomever.
    totals: FxHashMap<Text, i64>,
}

#[derive(Clone, Debug, Default)]
struct Measure {
    /// Joins by the bin of their difference.
    bins: BTreeMap<i32, i64>,
    /// What the calls of the slot were joined with.
    used: Option<Estimate>,
}

/// Where the lower of two streams has its records, on its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    /// To be added to the upper stream's time.
    pub(super) offset: i64,
    /// How far from there a record of the same call may be.
    pub(super) tolerance: i64,
}

/// One join without doubt, for the measure of the two streams' clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    slot: i64,
    upper: Text,
    lower: Text,
    bin: i32,
}

/// Streams whose measured offsets on a day are no longer those that the day's calls were joined with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleDay {
    /// The day, from its first moment to that of the next.
    pub from: Micros,
    pub to: Micros,
    /// The stream farther from the work and the one nearer to it.
    pub pairs: Vec<(Text, Text)>,
}

impl Clocks {
    /// Configured offsets in microseconds, to be added to a stream's times, by stream name.
    pub fn new(configured: impl IntoIterator<Item = (Text, i64)>) -> Self {
        Self {
            configured: configured.into_iter().collect(),
            complete: true,
            samples_min: SAMPLES_MIN,
            slots: BTreeMap::new(),
            newest: None,
            moved: FxHashSet::default(),
            samples: FxHashMap::default(),
            uses: Vec::new(),
        }
    }

    /// Believes so few joins, for tests.
    #[cfg(test)]
    pub(super) const fn believing(mut self, samples_min: i64) -> Self {
        self.samples_min = samples_min;
        self
    }

    /// Says that the store holds joined calls up to this time, which are not in memory.
    pub(super) fn resume(&mut self, newest: Option<Micros>) {
        self.complete = false;
        // Without any time in the store, none of it was joined by time.
        self.newest = newest.map(|newest| slot_of(newest.plus(Micros::MINUTE)));
    }

    pub(super) fn offset(&self, stream: &str) -> i64 {
        self.configured.get(stream).copied().unwrap_or(0)
    }

    /// Days among these times whose measures are not in memory, as their first moments.
    pub fn plan_days(&self, times: impl Iterator<Item = Micros>) -> Vec<Micros> {
        if self.complete {
            return Vec::new();
        }
        let mut slots: Vec<i64> = times.map(slot_of).collect();
        slots.sort_unstable();
        slots.dedup();
        slots.retain(|slot| !self.slots.contains_key(slot));
        slots.into_iter().map(slot_start).collect()
    }

    /// Takes in what is stored of these days.
    pub fn know_days(&mut self, days: &[Micros], samples: Vec<ClockSample>, uses: Vec<ClockUse>) {
        for day in days {
            self.slot(slot_of(*day));
        }
        for sample in samples {
            let slot = slot_of(sample.day);
            let bin = bin_of(i64::from(sample.bin_ms) * 1000);
            self.add(slot, &sample.upper, &sample.lower, bin, sample.samples);
            self.moved.insert((slot, sample.upper, sample.lower));
        }
        for used in uses {
            let slot = slot_of(used.day);
            let offsets = used.offset_micros.zip(used.tolerance_micros);
            let estimate = offsets.map(|(offset, tolerance)| Estimate { offset, tolerance });
            self.measure(slot, &used.upper, &used.lower).used = estimate;
            self.moved.insert((slot, used.upper, used.lower));
        }
    }

    /// What the calls of `upper` at that time are joined with, where the lower stream's clock was measured: against it,
    /// or both against that of a stream above them.
    pub(super) fn estimate(&self, upper: &str, lower: &str, at: Micros) -> Option<Estimate> {
        let slot = self.slots.get(&slot_of(at))?;
        slot.used(upper, lower).or_else(|| slot.used_through_others(upper, lower))
    }

    /// Whether it is known to which streams this one belongs on that day. What a day begins with says nothing of it:
    /// that would change calls of other streams which were joined before.
    pub(super) fn is_claimed(&self, lower: &str, at: Micros) -> bool {
        let slot = self.slots.get(&slot_of(at));
        slot.is_some_and(|slot| slot.used_of(ANYBODY, lower).is_some())
    }

    /// Whether any clock was measured against that stream's on that day.
    pub(super) fn has_measured(&self, upper: &str, at: Micros) -> bool {
        let pairs = self.slots.get(&slot_of(at)).and_then(|slot| slot.pairs.get(upper));
        let is_known = |measure: &Measure| measure.used.is_some_and(|used| !used.is_apart());
        pairs.is_some_and(|pairs| pairs.values().any(is_known))
    }

    /// Whether the two were joined often enough on that day to measure their clocks, and no difference came up more
    /// often than by chance: either they do not belong together, or their clocks are too far apart.
    pub(super) fn is_apart(&self, upper: &str, lower: &str, at: Micros) -> bool {
        let slot = self.slots.get(&slot_of(at));
        slot.and_then(|slot| slot.used_of(upper, lower)).is_some_and(Estimate::is_apart)
    }

    /// To be told before calls that `upper` leads are joined: a day of which nothing was joined yet begins with what
    /// the day before has measured, of it and of those above it.
    pub(super) fn enter(&mut self, upper: &Text, at: Micros) {
        let slot = slot_of(at);
        if self.slot(slot).entered.contains(upper) {
            return;
        }
        let before = self.slots.get(&(slot - 1)).and_then(|before| before.above.get(upper));
        let above: Vec<Text> = before.into_iter().flatten().cloned().collect();
        for upper in above.iter().filter(|above| &***above != ANYBODY).chain([upper]) {
            self.enter_alone(upper, slot);
        }
    }

    fn enter_alone(&mut self, upper: &Text, slot: i64) {
        let here = self.slot(slot);
        if here.entered.contains(upper) {
            return;
        }
        here.entered.insert(Text::clone(upper));
        let is_fresh = here.is_fresh;
        self.newest = self.newest.max(Some(slot));
        let before = self.slots.get(&(slot - 1)).filter(|_| is_fresh);
        let Some(before) = before.and_then(|before| before.pairs.get(upper)) else { return };
        let guesses: Vec<(Text, Estimate)> = before
            .iter()
            .filter_map(|(lower, measure)| {
                Some((Text::clone(lower), measure.estimate(self.samples_min)?))
            })
            .filter(|(_, guess)| !guess.is_apart())
            .collect();
        for (lower, guess) in guesses {
            let known = self.slots.get(&slot).and_then(|slot| slot.pairs.get(upper)?.get(&lower));
            if known.is_none() {
                self.set_used(slot, upper, &lower, Some(guess));
            }
        }
    }

    /// Counts joins, or takes them out again where `count` is negative.
    pub(super) fn count(&mut self, samples: impl IntoIterator<Item = (Sample, i64)>) {
        for (sample, count) in samples {
            let Sample { slot, upper, lower, bin } = sample;
            self.add(slot, &upper, &lower, bin, count);
            *self
                .samples
                .entry(((slot, Text::clone(&upper), Text::clone(&lower)), bin))
                .or_default() += count;
            self.moved.insert((slot, upper, lower));
        }
    }

    /// The days to be joined anew. Not the newest one, unless `all`: its measures still move.
    pub(super) fn stale(&mut self, newest: Option<Micros>, all: bool) -> Vec<StaleDay> {
        let current = newest.map(|newest| slot_of(newest.minus(Micros::HOUR)));
        let is_current = |slot: i64| !all && current.is_none_or(|current| slot >= current);
        let (slots, samples_min) = (&self.slots, self.samples_min);
        let is_stale = |slot: &Slot, upper: &Text, lower: &Text| {
            let used = slot.pairs.get(upper).and_then(|lowers| lowers.get(lower)?.used);
            slot.estimate(upper, lower, samples_min) != used
        };
        let mut stale: BTreeMap<i64, Vec<(Text, Text)>> = BTreeMap::new();
        self.moved.retain(|(slot, upper, lower)| {
            if is_current(*slot) {
                return true;
            }
            if slots.get(slot).is_some_and(|slot| is_stale(slot, upper, lower)) {
                stale.entry(*slot).or_default().push((Text::clone(upper), Text::clone(lower)));
            }
            false
        });
        let days = stale.into_iter().map(|(slot, mut pairs)| {
            pairs.sort_unstable();
            StaleDay { from: slot_start(slot), to: slot_start(slot + 1), pairs }
        });
        days.collect()
    }

    /// What is to be joined anew by what is stored of a day.
    pub fn stale_on(day: Micros, samples: Vec<ClockSample>, uses: Vec<ClockUse>) -> Vec<StaleDay> {
        let mut clocks = Self::default();
        clocks.know_days(&[day], samples, uses);
        clocks.stale(None, true)
    }

    /// What the calls of each of the day's pairs are joined with, and what they should be.
    pub(super) fn used_and_measured(&mut self, stale: &StaleDay) -> [Vec<Option<Estimate>>; 2] {
        let (slot, samples_min) = (slot_of(stale.from), self.samples_min);
        let mut both = [Vec::new(), Vec::new()];
        for (upper, lower) in &stale.pairs {
            both[0].push(self.measure(slot, upper, lower).used);
            let known = self.slots.get(&slot);
            both[1].push(known.and_then(|slot| slot.estimate(upper, lower, samples_min)));
        }
        both
    }

    /// Joins by these for a while.
    pub(super) fn assume(&mut self, stale: &StaleDay, estimates: &[Option<Estimate>]) {
        for ((upper, lower), estimate) in stale.pairs.iter().zip(estimates) {
            self.measure(slot_of(stale.from), upper, lower).used = *estimate;
        }
    }

    /// From now on the day's calls are joined with these.
    pub(super) fn renew(&mut self, stale: &StaleDay, estimates: &[Option<Estimate>]) {
        for ((upper, lower), estimate) in stale.pairs.iter().zip(estimates) {
            self.set_used(slot_of(stale.from), upper, lower, *estimate);
        }
    }

    /// What is to be stored with the batch.
    pub(super) fn take_changes(&mut self) -> (Vec<ClockSample>, Vec<ClockUse>) {
        let samples = std::mem::take(&mut self.samples);
        let mut samples: Vec<ClockSample> = samples
            .into_iter()
            .filter(|(_, count)| *count != 0)
            .map(|(((slot, upper, lower), bin), samples)| ClockSample {
                day: slot_start(slot),
                upper,
                lower,
                bin_ms: bin_ms(bin),
                samples,
            })
            .collect();
        samples.sort_by(|left, right| {
            (left.day, &left.upper, &left.lower, left.bin_ms).cmp(&(
                right.day,
                &right.upper,
                &right.lower,
                right.bin_ms,
            ))
        });
        (samples, std::mem::take(&mut self.uses))
    }

    /// Forgets old days of which nothing is to be done.
    pub(super) fn forget(&mut self) {
        while self.slots.len() > SLOTS_HELD_MAX {
            let busy = |slot: &i64| self.moved.iter().any(|(moved, ..)| moved == slot);
            let Some(oldest) = self.slots.keys().find(|slot| !busy(slot)).copied() else { return };
            self.slots.remove(&oldest);
            self.complete = false;
        }
    }

    fn set_used(&mut self, slot: i64, upper: &Text, lower: &Text, used: Option<Estimate>) {
        self.measure(slot, upper, lower).used = used;
        self.moved.insert((slot, Text::clone(upper), Text::clone(lower)));
        self.uses.push(ClockUse {
            day: slot_start(slot),
            upper: Text::clone(upper),
            lower: Text::clone(lower),
            offset_micros: used.map(|used| used.offset),
            tolerance_micros: used.map(|used| used.tolerance),
        });
    }

    fn add(&mut self, slot: i64, upper: &Text, lower: &Text, bin: i32, count: i64) {
        self.measure(slot, upper, lower).add(bin, count);
        let samples_min = self.samples_min;
        let totals = &mut self.slot(slot).totals;
        let total = totals.entry(Text::clone(lower)).or_default();
        let was_known = *total >= samples_min;
        *total += count;
        if (*total >= samples_min) != was_known {
            self.moved.insert((slot, Text::from(ANYBODY), Text::clone(lower)));
        }
    }

    /// A slot, made if it is not here. What is known of it, if anything was, has been read before.
    fn slot(&mut self, slot: i64) -> &mut Slot {
        let is_fresh = self.complete || self.newest.is_none_or(|newest| slot > newest);
        self.slots.entry(slot).or_insert_with(|| Slot { is_fresh, ..Slot::default() })
    }

    fn measure(&mut self, slot: i64, upper: &Text, lower: &Text) -> &mut Measure {
        let Slot { pairs, above, .. } = self.slot(slot);
        pairs.entry(Text::clone(upper)).or_default().entry(Text::clone(lower)).or_insert_with(
            || {
                above.entry(Text::clone(lower)).or_default().insert(Text::clone(upper));
                Measure::default()
            },
        )
    }
}

impl Slot {
    fn used_of(&self, upper: &str, lower: &str) -> Option<Estimate> {
        self.pairs.get(upper)?.get(lower)?.used
    }

    fn used(&self, upper: &str, lower: &str) -> Option<Estimate> {
        self.used_of(upper, lower).filter(|used| !used.is_apart())
    }

    /// By the first stream above the two that both were measured against. A proxy's own join with the server says
    /// nothing while the client tells of the same calls, but where the client's record is lost it counts.
    fn used_through_others(&self, upper: &str, lower: &str) -> Option<Estimate> {
        let above = self.above.get(upper)?.iter().filter(|above| &***above != ANYBODY);
        // Of those that say something: one that begins to is joined anew, and with it what rests on it.
        let measured = above.filter_map(|above| Some((above, self.used(above, upper)?)));
        measured.take(ABOVE_MAX).find_map(|(above, own)| {
            let other = self.used(above, lower)?;
            let offset = other.offset - own.offset;
            let tolerance = own.tolerance.max(other.tolerance);
            (offset.abs() <= JOIN_SLACK_MICROS).then_some(Estimate { offset, tolerance })
        })
    }

    /// What is measured of the two. Of anybody and a stream it is only whether that stream has joined often enough for
    /// those it belongs to to be known.
    fn estimate(&self, upper: &str, lower: &str, samples_min: i64) -> Option<Estimate> {
        if upper == ANYBODY {
            let total = self.totals.get(lower).copied().unwrap_or(0);
            return (total >= samples_min).then_some(Estimate::APART);
        }
        self.pairs.get(upper)?.get(lower)?.estimate(samples_min)
    }
}

impl Estimate {
    /// No difference of the two that could be looked for.
    const APART: Self = Self { offset: 0, tolerance: 0 };

    fn is_apart(self) -> bool {
        self == Self::APART
    }
}

impl Sample {
    /// Of a join at `at` by the upper stream's clock, whose lower record is `gap` later.
    pub(super) fn new(upper: &Text, lower: &Text, at: Micros, gap: i64) -> Self {
        let (upper, lower) = (Text::clone(upper), Text::clone(lower));
        Self { slot: slot_of(at), upper, lower, bin: bin_of(gap) }
    }
}

impl Measure {
    fn add(&mut self, bin: i32, count: i64) {
        let known = self.bins.entry(bin).or_default();
        *known += count;
        if *known == 0 {
            self.bins.remove(&bin);
        }
    }

    /// Where most of the joins lie, and a tolerance that holds nine tenths of them all with room to spare. Joins of two
    /// streams that have nothing to do with each other lie everywhere, which is all that they show.
    fn estimate(&self, samples_min: i64) -> Option<Estimate> {
        let total: i64 = self.bins.values().sum();
        if total < samples_min {
            return None;
        }
        let middle = |bin: i32| i64::from(bin) * BIN_MICROS + BIN_MICROS / 2;
        let (peak, within) = self.peak()?;
        if within * 100 < total * PEAK_PERCENT_MIN || within < by_chance_max(total) {
            return Some(Estimate::APART);
        }
        let of_peak = self.bins.range(peak..peak + PEAK_BINS);
        let median = quantile(of_peak.map(|(bin, count)| (middle(*bin), *count)), within / 2)?;
        let offset =
            (median + OFFSET_STEP_MICROS / 2).div_euclid(OFFSET_STEP_MICROS) * OFFSET_STEP_MICROS;
        let mut away: Vec<(i64, i64)> =
            self.bins.iter().map(|(bin, count)| ((middle(*bin) - offset).abs(), *count)).collect();
        away.sort_unstable();
        let spread = quantile(away.into_iter(), total * 9 / 10)?;
        let wanted = 2 * spread + Micros::SECOND / 2;
        let tolerance = TOLERANCES_MICROS.into_iter().find(|tolerance| *tolerance >= wanted);
        Some(Estimate { offset, tolerance: tolerance.unwrap_or(TOLERANCES_MICROS[3]) })
    }

    /// The first bin of the span that holds most joins, and how many it holds.
    fn peak(&self) -> Option<(i32, i64)> {
        let within =
            |first: i32| self.bins.range(first..first + PEAK_BINS).map(|(_, count)| count).sum();
        let spans = self.bins.keys().map(|first| (*first, within(*first)));
        spans.max_by_key(|(first, within): &(i32, i64)| (*within, std::cmp::Reverse(*first)))
    }
}

/// So many of joins by chance may lie in the span that holds most of them: a fifth, three deviations, and two more
/// since the span was looked for.
fn by_chance_max(total: i64) -> i64 {
    let deviation = (total as f64 * 0.2 * 0.8).sqrt();
    #[expect(clippy::cast_possible_truncation, reason = "a count of joins")]
    let most = (total as f64).mul_add(0.2, 3.0 * deviation) as i64 + 2;
    most
}

/// The value at which the counts, in order, pass `rank`.
fn quantile(counts: impl Iterator<Item = (i64, i64)>, rank: i64) -> Option<i64> {
    let mut seen = 0;
    for (value, count) in counts {
        seen += count;
        if seen > rank {
            return Some(value);
        }
    }
    None
}

/// The number of the span that is measured as one.
pub(super) fn slot_of(at: Micros) -> i64 {
    at.0.div_euclid(SLOT_MICROS)
}

fn slot_start(slot: i64) -> Micros {
    Micros(slot.saturating_mul(SLOT_MICROS))
}

fn bin_of(gap: i64) -> i32 {
    let most = i64::from(i32::MAX);
    i32::try_from(gap.div_euclid(BIN_MICROS).clamp(-most, most)).unwrap_or(i32::MAX)
}

/// The middle of a bin, in whole milliseconds.
fn bin_ms(bin: i32) -> i32 {
    let middle = (i64::from(bin) * BIN_MICROS + BIN_MICROS / 2) / 1000;
    i32::try_from(middle).unwrap_or(i32::MAX)
}
