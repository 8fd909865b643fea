//! One pass over the calls it concerns: each chooses, in order, among what one witness still has to give.

use rustc_hash::FxHashMap;

use super::align::{self, Fine};
use super::arguments::Agreement;
use super::clock::slot_of;
use super::pair::Joined;
use super::pass::Pass;
use super::ruler::Ruler;
use super::waiting::{Seen, Waiting};
use crate::model::{CANDIDATES_MAX, Certainty, Micros, RecordId, Text};

/// By how much more a rival may miss the expected time and still be one.
const RIVAL_MICROS: i64 = Micros::SECOND / 2;
/// Rivals looked at on each side.
const RIVALS_LOOKED_AT: usize = 8;

pub(super) struct Matching<'m, 'a> {
    pub(super) calls: &'m mut [Joined<'a>],
    /// Calls that the witness has not told of, in the order in which they choose.
    pub(super) order: &'m [usize],
    /// The calls that the witness leads, which are to become part of those.
    pub(super) waiting: Waiting<'a>,
    pub(super) pass: Pass,
    pub(super) ruler: &'m Ruler<'m>,
    /// By how much later than a lead's a record may be expected, by the number of the lead's stream and the day.
    offsets: FxHashMap<(usize, i64), Vec<i64>>,
}

impl<'m, 'a> Matching<'m, 'a> {
    pub(super) fn new(
        calls: &'m mut [Joined<'a>],
        order: &'m [usize],
        waiting: Waiting<'a>,
        pass: Pass,
        ruler: &'m Ruler<'m>,
    ) -> Self {
        let mut offsets: FxHashMap<(usize, i64), Vec<i64>> = FxHashMap::default();
        for index in order {
            let lead = calls[*index].lead;
            if let Some((at, _)) = lead.span {
                let of_stream = offsets.entry((lead.number, slot_of(at)));
                of_stream.or_insert_with(|| ruler.offsets(lead, &waiting));
            }
        }
        Self { calls, order, waiting, pass, ruler, offsets }
    }

    /// When the call's record of the witness is expected, by the clocks of its streams.
    pub(super) fn expected(&self, lead: &Seen<'_>) -> impl Iterator<Item = Micros> {
        let offsets = lead.span.and_then(|(at, _)| self.offsets.get(&(lead.number, slot_of(at))));
        let ends = lead.span.map(|(from, to)| [from, lead.end.unwrap_or(to)]);
        offsets
            .into_iter()
            .flatten()
            .zip(std::iter::repeat(ends))
            .flat_map(|(offset, ends)| ends.into_iter().flatten().map(|at| at.plus(*offset)))
    }

    pub(super) fn run(mut self) {
        if self.pass == Pass::Changed {
            let found = self.changed();
            self.tie(found.into_iter().map(|(call, place)| (call, place, Vec::new())).collect());
            return;
        }
        let (mut found, fine) =
            if self.ruler.measured { align::nearest(&mut self) } else { Default::default() };
        let mut is_served: Vec<bool> = vec![false; self.calls.len()];
        for (call, _) in &found {
            is_served[*call] = true;
        }
        for strangers in [false, true] {
            if strangers && (!self.ruler.measured || self.pass.is_by_time()) {
                break;
            }
            for index in self.order.iter().copied() {
                if !is_served[index]
                    && let Some(place) = self.take_first(index, strangers)
                {
                    is_served[index] = true;
                    found.push((index, place));
                }
            }
        }
        let rivals = Rivals::new(&self, &fine);
        let mut around = Vec::new();
        let found = found.iter().map(|(call, place)| {
            let candidates = rivals.of(*call, *place, &mut around);
            (*call, *place, candidates)
        });
        let found = found.collect();
        self.tie(found);
    }

    /// Whether the pass may make one call of the two.
    pub(super) fn fits(&self, call: usize, seen: &Seen<'a>) -> bool {
        fits(&self.calls[call], &self.calls[seen.place], self.pass, self.ruler)
    }

    /// Takes the first that fits the call; of a stream that tells of other streams' calls only as a last resort.
    fn take_first(&mut self, index: usize, strangers: bool) -> Option<usize> {
        let Self { calls, waiting, pass, ruler, .. } = self;
        let call = &calls[index];
        let place = waiting.first(call.lane(*pass), ruler.search(call.lead)?, |seen| {
            let other = &calls[seen.place];
            fits(call, other, *pass, ruler) && strangers == ruler.is_stranger(call, other)
        })?;
        waiting.take(place);
        Some(place)
    }

    /// Makes one call of each two that were found, and says how sure that is.
    fn tie(&mut self, found: Vec<(usize, usize, Vec<RecordId>)>) {
        for (call, place, candidates) in found {
            let other = &self.calls[self.waiting.units[place].place];
            let doubts = |by| self.ruler.doubts(&self.calls[call], other, by);
            let certainty = match self.pass {
                _ if !candidates.is_empty() => Certainty::Ambiguous,
                Pass::ToolUse | Pass::Trace | Pass::Changed => Certainty::Exact,
                Pass::Near if doubts(Agreement::Nothing) => Certainty::Ambiguous,
                Pass::Agrees(by) if doubts(by) => Certainty::Ambiguous,
                Pass::Near | Pass::Agrees(_) => Certainty::Unambiguous,
            };
            let mut units = std::mem::take(&mut self.calls[self.waiting.units[place].place].units);
            if let Some(lead) = units.first_mut() {
                (lead.joined_by, lead.certainty) = (self.pass.joined_by(), certainty);
                lead.candidates = candidates;
            }
            let all = &mut self.calls[call].units;
            all.append(&mut units);
            // Towards the work, whoever was tied first.
            all.sort_by_key(|tied| tied.seen.witness);
        }
    }

    /// A trace covers a whole turn. Where it has one call and one record of this tool left, they are the same, whatever
    /// the arguments say: they were changed on the way.
    fn changed(&mut self) -> Vec<(usize, usize)> {
        let trace_of = |joined: &Joined<'a>| -> Option<&'a Text> {
            let of = |unit: &'a super::unit::Unit| unit.told.trace_id.as_ref();
            joined.units.iter().find_map(|tied| of(tied.seen.unit)).filter(|_| !joined.is_refused())
        };
        let mut calls: FxHashMap<&Text, Vec<usize>> = FxHashMap::default();
        for index in self.order {
            if let Some(trace) = trace_of(&self.calls[*index]) {
                calls.entry(trace).or_default().push(*index);
            }
        }
        let mut units: FxHashMap<&Text, Vec<usize>> = FxHashMap::default();
        for (place, seen) in self.waiting.units.iter().enumerate() {
            if let Some(trace) = trace_of(&self.calls[seen.place]) {
                units.entry(trace).or_default().push(place);
            }
        }
        let only = |calls: &[usize], places: &[usize]| match (calls, places) {
            ([call], [place]) => Some((*call, *place)),
            _ => None,
        };
        let mut found: Vec<(usize, usize)> = calls
            .iter()
            .filter_map(|(trace, calls)| only(calls, units.get(trace)?))
            .filter(|(call, place)| {
                let seen = &self.waiting.units[*place];
                let (call, other) = (&self.calls[*call], &self.calls[seen.place]);
                call.agrees_with(other) && self.ruler.meets(call.lead, seen)
            })
            .collect();
        found.sort_unstable();
        found
    }
}

fn fits(call: &Joined<'_>, other: &Joined<'_>, pass: Pass, ruler: &Ruler<'_>) -> bool {
    ruler.meets(call.lead, other.lead)
        && (pass != Pass::Near || ruler.knows(call, other))
        && call.agrees_with(other)
        && pass.accepts(call, other)
}

/// What else fits a join, told from what stood before the pass.
struct Rivals<'m, 'a> {
    matching: &'m Matching<'m, 'a>,
    fine: &'m Fine,
    /// The calls that chose in this pass.
    leads: Waiting<'a>,
}

impl<'m, 'a> Rivals<'m, 'a> {
    fn new(matching: &'m Matching<'_, 'a>, fine: &'m Fine) -> Self {
        let lead = |index: &usize| matching.calls[*index].as_seen(*index, matching.pass);
        let leads = Waiting::of(matching.order.iter().map(lead).collect());
        Self { matching, fine, leads }
    }

    /// `around` is room for what lies there.
    fn of(&self, call: usize, place: usize, around: &mut Vec<usize>) -> Vec<RecordId> {
        let Matching { calls, waiting, pass, ruler, .. } = self.matching;
        let (joined, seen) = (&calls[call], &waiting.units[place]);
        let (Some(window), Some(span)) = (ruler.search(joined.lead), seen.span) else {
            return Vec::new();
        };
        let miss = self.miss(joined, seen);
        let is_strange = ruler.is_stranger(joined, &calls[seen.place]);
        let is_rival = |joined: &Joined<'a>, seen: &Seen<'a>| {
            let other = &calls[seen.place];
            fits(joined, other, *pass, ruler)
                && ruler.is_stranger(joined, other) == is_strange
                && self
                    .miss(joined, seen)
                    .zip(miss)
                    .is_none_or(|(other, own)| other <= own + RIVAL_MICROS)
        };
        let key = joined.lane(*pass);
        if !waiting.has_several(key) && !self.leads.has_several(key) {
            return Vec::new();
        }
        let mut found: Vec<&Seen<'a>> = Vec::new();
        waiting.around(key, window, self.matching.expected(joined.lead), RIVALS_LOOKED_AT, around);
        let others = around.iter().filter(|other| **other != place);
        found.extend(
            others.map(|other| &waiting.units[*other]).filter(|other| is_rival(joined, other)),
        );
        let window = (span.0.minus(ruler.reach()), span.1.plus(ruler.reach()));
        let times = [span.0, span.1].into_iter();
        self.leads.around(key, window, times, RIVALS_LOOKED_AT, around);
        let others = around.iter().map(|lead| &self.leads.units[*lead]);
        found
            .extend(others.filter(|lead| lead.place != call && is_rival(&calls[lead.place], seen)));
        found.sort_by_key(|seen| (seen.from(), seen.number, seen.unit.base.id));
        found.iter().take(CANDIDATES_MAX).map(|seen| seen.unit.base.id).collect()
    }

    /// How far the unit's record is from where the clocks say, where they were measured.
    fn miss(&self, call: &Joined<'a>, unit: &Seen<'a>) -> Option<i64> {
        let estimate = self.matching.ruler.estimate(call.lead, unit)?;
        Some((call.lead.gap_to(unit) - self.fine.offset(call.lead, unit, estimate)).abs())
    }
}
