//! Joins the units of one component: which records of different witnesses tell of the same call.

use rustc_hash::FxHashMap;

use super::align::{self, Fine};
use super::arguments::{Agreement, agreement};
use super::clock::{Clocks, Estimate, Sample};
use super::unit::Unit;
use super::waiting::{Seen, Waiting};
use super::{JOIN_SLACK_MICROS, retry};
use crate::model::{CANDIDATES_MAX, Certainty, JoinedBy, Micros, RecordId, Text, Witness};

/// A call on its way: the units that tell of it, the first attempt's lead first.
#[derive(Clone, Debug)]
pub(super) struct Joined<'a> {
    pub(super) lead: Seen<'a>,
    pub(super) units: Vec<Tied<'a>>,
}

/// A unit, and how it was tied to its call.
#[derive(Clone, Debug)]
pub(super) struct Tied<'a> {
    pub(super) seen: Seen<'a>,
    pub(super) joined_by: JoinedBy,
    pub(super) certainty: Certainty,
    /// First records of what else fits, at most [`CANDIDATES_MAX`].
    pub(super) candidates: Vec<RecordId>,
    pub(super) attempt: u32,
}

/// What joining a component came to.
pub(super) struct Verdict<'a> {
    pub(super) calls: Vec<Joined<'a>>,
    /// What it says of the clocks, with the first record of the unit that was tied.
    pub(super) samples: Vec<(RecordId, Sample)>,
}

/// By how much more a rival may miss the expected time and still be one.
const RIVAL_MICROS: i64 = Micros::SECOND / 2;
/// Rivals looked at on each side.
const RIVALS_LOOKED_AT: usize = 8;

/// Joins `units` (in any order, of one tool and one piece of time) into calls. The first pass goes by the configured
/// clocks and in order, and its joins without doubt measure the clocks; the second goes by the clocks as measured.
pub(super) fn join<'a>(units: &[&'a Unit], clocks: &Clocks) -> Verdict<'a> {
    let first = round(units, &Ruler { clocks, measured: false });
    let samples = samples(&first);
    let calls = if is_measured(units, clocks) {
        round(units, &Ruler { clocks, measured: true })
    } else {
        first
    };
    Verdict { calls: retry::fold(calls), samples }
}

/// A unit that stands alone.
pub(super) fn alone<'a>(unit: &'a Unit, clocks: &Clocks) -> Joined<'a> {
    let lead = Seen::new(unit, clocks);
    let tied = Tied {
        seen: lead.clone(),
        joined_by: JoinedBy::Alone,
        certainty: Certainty::Exact,
        candidates: Vec::new(),
        attempt: 0,
    };
    Joined { lead, units: vec![tied] }
}

/// From the witness farthest from the work to the nearest, each one's units are given to the calls so far; what is
/// left over is a call of its own.
fn round<'a>(units: &[&'a Unit], ruler: &Ruler<'_>) -> Vec<Joined<'a>> {
    let mut calls: Vec<Joined<'a>> = Vec::new();
    for witness in Witness::ALL {
        let of_witness: Vec<&Unit> =
            units.iter().copied().filter(|unit| unit.witness() == witness).collect();
        if of_witness.is_empty() {
            continue;
        }
        let left = take(&mut calls, &of_witness, ruler);
        calls.extend(left.into_iter().map(|unit| alone(unit, ruler.clocks)));
    }
    calls
}

/// Gives the waiting units to calls, in passes from the surest knowledge to the least, and returns what is left.
fn take<'a>(calls: &mut [Joined<'a>], units: &[&'a Unit], ruler: &Ruler<'_>) -> Vec<&'a Unit> {
    if calls.is_empty() {
        return units.to_vec();
    }
    let mut waiting = Waiting::new(units, ruler.clocks);
    // Calls that may have run come before those that were refused, then the earliest first.
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_cached_key(|index| {
        let lead = &calls[*index].lead;
        let offset = ruler.clocks.offset(lead.stream());
        let at = lead.unit.at().map(|at| at.plus(offset));
        (lead.unit.is_refused(), at, Text::clone(lead.stream()), lead.unit.base.id)
    });
    for pass in PASSES {
        order.retain(|index| !calls[*index].is_seen_by(waiting.witness));
        let concerned: Vec<usize> =
            order.iter().copied().filter(|index| pass.concerns(&calls[*index])).collect();
        if !concerned.is_empty() {
            Matching { calls, order: &concerned, waiting: &mut waiting, pass, ruler }.run();
        }
    }
    waiting.left()
}

/// One pass over the calls it concerns.
pub(super) struct Matching<'m, 'a> {
    pub(super) calls: &'m mut [Joined<'a>],
    /// Calls without a unit of the witness, in the order in which they choose.
    pub(super) order: &'m [usize],
    pub(super) waiting: &'m mut Waiting<'a>,
    pub(super) pass: Pass,
    pub(super) ruler: &'m Ruler<'m>,
}

impl<'a> Matching<'_, 'a> {
    fn run(mut self) {
        if self.pass == Pass::Changed {
            self.take_changed();
            return;
        }
        let was_taken: Vec<bool> =
            (0..self.waiting.units.len()).map(|index| self.waiting.is_taken(index)).collect();
        let (mut found, fine) =
            if self.ruler.measured { align::nearest(&mut self) } else { Default::default() };
        let mut is_served: Vec<bool> = vec![false; self.calls.len()];
        for (call, _) in &found {
            is_served[*call] = true;
        }
        for strangers in [false, true] {
            if strangers && !(self.ruler.measured && self.pass.trusts_strangers()) {
                break;
            }
            for index in self.order.iter().copied() {
                if !is_served[index]
                    && let Some(unit) = self.take_first(index, strangers)
                {
                    is_served[index] = true;
                    found.push((index, unit));
                }
            }
        }
        self.tie(&found, &was_taken, &fine);
    }

    /// Takes the first unit that fits the call; one of a stream that tells of other streams' calls only as a last resort.
    fn take_first(&mut self, index: usize, strangers: bool) -> Option<usize> {
        let Self { calls, waiting, pass, ruler, .. } = self;
        let call = &calls[index];
        let unit = waiting.first(call.lane(*pass), ruler.search(&call.lead)?, |unit| {
            strangers == ruler.is_stranger(&call.lead, unit) && fits(call, unit, *pass, ruler)
        })?;
        waiting.take(unit);
        Some(unit)
    }

    /// Ties what was found, and says how sure that is.
    fn tie(&mut self, found: &[(usize, usize)], was_taken: &[bool], fine: &Fine<'a>) {
        let rivals = Rivals::new(self, was_taken, fine);
        let tied: Vec<(usize, Tied<'a>)> = found
            .iter()
            .map(|(call, unit)| {
                let candidates = rivals.of(*call, *unit);
                let certainty = match self.pass {
                    _ if !candidates.is_empty() => Certainty::Ambiguous,
                    Pass::ToolUse | Pass::Trace => Certainty::Exact,
                    _ => Certainty::Unambiguous,
                };
                let seen = self.waiting.units[*unit].clone();
                let joined_by = self.pass.joined_by();
                (*call, Tied { seen, joined_by, certainty, candidates, attempt: 0 })
            })
            .collect();
        for (call, tied) in tied {
            self.calls[call].units.push(tied);
        }
    }

    /// A trace covers a whole turn. Where it has one call and one record of this tool left, they are the same, whatever
    /// the arguments say: they were changed on the way.
    fn take_changed(&mut self) {
        let mut calls: FxHashMap<&Text, Vec<usize>> = FxHashMap::default();
        for index in self.order {
            let lead = self.calls[*index].lead.unit;
            if let Some(trace) = lead.told.trace_id.as_ref().filter(|_| !lead.is_refused()) {
                calls.entry(trace).or_default().push(*index);
            }
        }
        let mut units: FxHashMap<&Text, Vec<usize>> = FxHashMap::default();
        for (index, seen) in self.waiting.units.iter().enumerate() {
            if let Some(trace) =
                seen.unit.told.trace_id.as_ref().filter(|_| !self.waiting.is_taken(index))
            {
                units.entry(trace).or_default().push(index);
            }
        }
        let mut found: Vec<(usize, usize)> = calls
            .iter()
            .filter_map(|(trace, calls)| match (&calls[..], units.get(trace).map(Vec::as_slice)) {
                ([call], Some([unit])) => Some((*call, *unit)),
                _ => None,
            })
            .filter(|(call, unit)| {
                let (call, unit) = (&self.calls[*call], &self.waiting.units[*unit]);
                call.agrees_on_names(unit.unit) && self.ruler.meets(&call.lead, unit)
            })
            .collect();
        found.sort_unstable();
        for (call, unit) in found {
            self.waiting.take(unit);
            let seen = self.waiting.units[unit].clone();
            let (joined_by, certainty) = (JoinedBy::Trace, Certainty::Exact);
            let tied = Tied { seen, joined_by, certainty, candidates: Vec::new(), attempt: 0 };
            self.calls[call].units.push(tied);
        }
    }
}

/// What else fits a join.
struct Rivals<'m, 'a> {
    matching: &'m Matching<'m, 'a>,
    was_taken: &'m [bool],
    fine: &'m Fine<'a>,
    /// The leads of the calls that chose in this pass, and which they are.
    leads: Waiting<'a>,
    places: FxHashMap<RecordId, usize>,
}

impl<'m, 'a> Rivals<'m, 'a> {
    fn new(matching: &'m Matching<'_, 'a>, was_taken: &'m [bool], fine: &'m Fine<'a>) -> Self {
        let leads: Vec<Seen<'a>> = matching
            .order
            .iter()
            .map(|index| {
                let call = &matching.calls[*index];
                Seen { key: call.lane(matching.pass), ..call.lead.clone() }
            })
            .collect();
        let places = matching
            .order
            .iter()
            .map(|index| (matching.calls[*index].lead.unit.base.id, *index))
            .collect();
        Self { matching, was_taken, fine, leads: Waiting::of(leads), places }
    }

    fn of(&self, call: usize, unit: usize) -> Vec<RecordId> {
        let Matching { calls, waiting, pass, ruler, .. } = self.matching;
        let (joined, seen) = (&calls[call], &waiting.units[unit]);
        let miss = self.miss(joined, seen);
        let is_strange = ruler.is_stranger(&joined.lead, seen);
        let is_rival = |joined: &Joined<'a>, seen: &Seen<'a>| {
            fits(joined, seen, *pass, ruler)
                && ruler.is_stranger(&joined.lead, seen) == is_strange
                && self
                    .miss(joined, seen)
                    .zip(miss)
                    .is_none_or(|(other, own)| other <= own + RIVAL_MICROS)
        };
        let key = joined.lane(*pass);
        let (Some(window), Some(span)) = (ruler.search(&joined.lead), seen.span) else {
            return Vec::new();
        };
        let times = ruler.expected(&joined.lead, waiting);
        let units = waiting
            .around(key, window, &times, RIVALS_LOOKED_AT)
            .into_iter()
            .filter(|other| *other != unit && !self.was_taken[*other])
            .filter(|other| is_rival(joined, &waiting.units[*other]))
            .map(|other| &waiting.units[other]);
        let reach = ruler.reach();
        let window = (span.0.minus(reach), span.1.plus(reach));
        let others = self
            .leads
            .around(key, window, &[span.0, span.1], RIVALS_LOOKED_AT)
            .into_iter()
            .filter_map(|lead| {
                let other = *self.places.get(&self.leads.units[lead].unit.base.id)?;
                (other != call && is_rival(&calls[other], seen)).then_some(&self.leads.units[lead])
            });
        let mut found: Vec<&Seen<'a>> = units.chain(others).collect();
        found.sort_by_key(|seen| (seen.from(), seen.stream(), seen.unit.base.id));
        found.iter().take(CANDIDATES_MAX).map(|seen| seen.unit.base.id).collect()
    }

    /// How far the unit's record is from where the clocks say, where they were measured.
    fn miss(&self, call: &Joined<'_>, unit: &Seen<'_>) -> Option<i64> {
        let estimate = self.matching.ruler.estimate(&call.lead, unit)?;
        Some((call.lead.gap_to(unit) - self.fine.offset(&call.lead, unit, estimate)).abs())
    }
}

/// How knowledge ties records to calls, from the surest to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    ToolUse,
    Trace,
    Agrees(Agreement),
    /// By an id, against the arguments.
    Changed,
}

const PASSES: [Pass; 6] = [
    Pass::ToolUse,
    Pass::Trace,
    Pass::Agrees(Agreement::All),
    Pass::Agrees(Agreement::Some),
    Pass::Agrees(Agreement::Nothing),
    Pass::Changed,
];

impl Pass {
    const fn joined_by(self) -> JoinedBy {
        match self {
            Self::ToolUse => JoinedBy::ToolUse,
            Self::Trace | Self::Changed => JoinedBy::Trace,
            Self::Agrees(Agreement::Nothing) => JoinedBy::Time,
            Self::Agrees(_) => JoinedBy::Arguments,
        }
    }

    /// Whether what it goes by is enough to tie a call to a stream that is known to tell of other streams' calls.
    fn trusts_strangers(self) -> bool {
        self != Self::Agrees(Agreement::Nothing)
    }

    fn concerns(self, call: &Joined<'_>) -> bool {
        match self {
            Self::ToolUse => {
                call.units.iter().any(|tied| tied.seen.unit.told.tool_use_id.is_some())
            }
            Self::Trace | Self::Changed => {
                call.units.iter().any(|tied| tied.seen.unit.told.trace_id.is_some())
            }
            Self::Agrees(Agreement::All) => call.lane(self).is_some(),
            Self::Agrees(_) => true,
        }
    }

    fn accepts(self, call: &Joined<'_>, unit: &Unit) -> bool {
        let lead = call.lead.unit;
        let shares = |of: fn(&Unit) -> Option<&Text>| {
            of(unit).is_some_and(|id| call.units.iter().any(|tied| of(tied.seen.unit) == Some(id)))
        };
        let differs = |of: fn(&Unit) -> Option<&Text>| {
            of(lead).is_some() && of(unit).is_some() && !shares(of)
        };
        let (tool_use, trace): (fn(&Unit) -> Option<&Text>, fn(&Unit) -> Option<&Text>) =
            (|unit| unit.told.tool_use_id.as_ref(), |unit| unit.told.trace_id.as_ref());
        match self {
            Self::ToolUse => shares(tool_use),
            // A trace covers a whole turn, which may call one tool many times.
            Self::Trace => {
                shares(trace)
                    && !differs(tool_use)
                    && best_agreement(call, unit) != Agreement::Contradicts
            }
            Self::Agrees(wanted) => {
                // A refused call has run only where a value ties the record to it; elsewhere another call of the
                // same tool, a moment later, would be taken for a bypass.
                let tied = wanted >= Agreement::Some || !lead.is_refused() || unit.is_refused();
                tied && !differs(trace)
                    && !differs(tool_use)
                    && best_agreement(call, unit) >= wanted
            }
            Self::Changed => false,
        }
    }
}

impl Joined<'_> {
    fn is_seen_by(&self, witness: Option<Witness>) -> bool {
        self.units.iter().any(|tied| Some(tied.seen.unit.witness()) == witness)
    }

    /// Which units the pass has to look at: all, or those that show the same arguments.
    pub(super) fn lane(&self, pass: Pass) -> Option<u64> {
        if pass != Pass::Agrees(Agreement::All) {
            return None;
        }
        self.units.iter().find_map(|tied| super::waiting::key_of(&tied.seen.unit.shown.args))
    }

    fn agrees_on_names(&self, unit: &Unit) -> bool {
        self.units.iter().all(|tied| {
            let both = (&tied.seen.unit.told.principal, &unit.told.principal);
            !matches!(both, (Some(left), Some(right)) if left != right)
        })
    }
}

/// Whether the pass may tie the unit to the call.
pub(super) fn fits(call: &Joined<'_>, unit: &Seen<'_>, pass: Pass, ruler: &Ruler<'_>) -> bool {
    ruler.meets(&call.lead, unit)
        && call.agrees_on_names(unit.unit)
        && pass.accepts(call, unit.unit)
}

/// The worst news decides: one witness's contradiction rules the join out, else the best agreement counts.
fn best_agreement(call: &Joined<'_>, unit: &Unit) -> Agreement {
    let mut best = Agreement::Nothing;
    for tied in &call.units {
        match agreement(&tied.seen.unit.shown.args, &unit.shown.args) {
            Agreement::Contradicts => return Agreement::Contradicts,
            agreed => best = best.max(agreed),
        }
    }
    best
}

/// By which clocks, and how far, records of one call may lie apart.
pub(super) struct Ruler<'c> {
    clocks: &'c Clocks,
    measured: bool,
}

impl Ruler<'_> {
    pub(super) fn estimate(&self, lead: &Seen<'_>, unit: &Seen<'_>) -> Option<Estimate> {
        if !self.measured {
            return None;
        }
        self.clocks.estimate(lead.stream(), unit.stream(), lead.span?.0)
    }

    /// Whether the unit's stream is known to tell of other streams' calls and not of this one's.
    fn is_stranger(&self, lead: &Seen<'_>, unit: &Seen<'_>) -> bool {
        self.measured
            && lead.span.is_some_and(|(at, _)| self.clocks.is_claimed(unit.stream(), at))
            && self.estimate(lead, unit).is_none()
    }

    /// Whether the two can be of one call by their times.
    fn meets(&self, lead: &Seen<'_>, unit: &Seen<'_>) -> bool {
        let (Some((from, to)), Some((begin, end))) = (lead.span, unit.span) else { return false };
        let (offset, slack) = self
            .estimate(lead, unit)
            .map_or((0, JOIN_SLACK_MICROS), |known| (known.offset, known.tolerance));
        begin <= to.plus(offset + slack) && end >= from.plus(offset - slack)
    }

    /// Where anything that meets the call is to be found.
    pub(super) fn search(&self, lead: &Seen<'_>) -> Option<(Micros, Micros)> {
        let (from, to) = lead.span?;
        Some((from.minus(self.reach()), to.plus(self.reach())))
    }

    const fn reach(&self) -> i64 {
        // A measured offset is at most the slack, and so is the tolerance.
        if self.measured { 2 * JOIN_SLACK_MICROS } else { JOIN_SLACK_MICROS }
    }

    /// When the call's record of the witness is expected, by the clocks of its streams.
    pub(super) fn expected(&self, lead: &Seen<'_>, waiting: &Waiting<'_>) -> Vec<Micros> {
        let Some((from, to)) = lead.span else { return Vec::new() };
        let mut offsets: Vec<i64> = if self.measured {
            let streams = waiting.streams.iter();
            streams
                .filter_map(|stream| self.clocks.estimate(lead.stream(), stream, from))
                .map(|estimate| estimate.offset)
                .collect()
        } else {
            Vec::new()
        };
        offsets.push(0);
        offsets.sort_unstable();
        offsets.dedup();
        let ends = [from, lead.end.unwrap_or(to)];
        offsets.iter().flat_map(|offset| ends.map(|at| at.plus(*offset))).collect()
    }
}

/// The joins without doubt, as a measure of the clocks.
fn samples(calls: &[Joined<'_>]) -> Vec<(RecordId, Sample)> {
    let mut samples = Vec::new();
    for call in calls {
        let lead = &call.lead;
        let Some((at, _)) = lead.span else { continue };
        for tied in call.units.iter().skip(1) {
            let (upper, lower) = (lead.stream(), tied.seen.stream());
            if tied.certainty != Certainty::Ambiguous && upper != lower {
                let sample = Sample::new(upper, lower, at, lead.gap_to(&tied.seen));
                samples.push((tied.seen.unit.base.id, sample));
            }
        }
    }
    samples
}

/// Whether the clock of any stream here was measured against that of a lead's. Where one was, everything is joined again:
/// to look first at what is in doubt would make a join depend on what lies far from it.
fn is_measured(units: &[&Unit], clocks: &Clocks) -> bool {
    let mut last = None;
    units.iter().any(|unit| {
        let Some((from, _)) = unit.interval() else { return false };
        let stream = &unit.base.stream;
        let at = from.plus(clocks.offset(stream));
        // Most units have the stream and the hour of the one before them.
        let hour = (at.0.div_euclid(Micros::HOUR), stream);
        if last.replace(hour) == Some(hour) {
            return false;
        }
        clocks.has_measured(stream, at)
    })
}
