//! Joins the units of one component: which records of different witnesses tell of the same call.

use super::arguments::Agreement;
use super::clock::{Clocks, Sample};
use super::matching::Matching;
use super::pass::{PASSES, Pass};
use super::retry;
use super::ruler::Ruler;
use super::unit::Unit;
use super::waiting::{Seen, Waiting};
use crate::model::{Certainty, JoinedBy, Micros, RecordId, Text, Witness};

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
    /// First records of what else fits, a few at most.
    pub(super) candidates: Vec<RecordId>,
    pub(super) attempt: u32,
}

/// What joining a component came to.
pub(super) struct Verdict<'a> {
    pub(super) calls: Vec<Joined<'a>>,
    /// What it says of the clocks, with the place of the unit that was tied.
    pub(super) samples: Vec<(usize, Sample)>,
}

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

/// A unit, at its place among all, that stands alone.
pub(super) fn alone<'a>(unit: &'a Unit, place: usize, clocks: &Clocks) -> Joined<'a> {
    let lead = Seen::new(unit, place, clocks);
    let tied = Tied {
        seen: lead.clone(),
        joined_by: JoinedBy::Alone,
        certainty: Certainty::Exact,
        candidates: Vec::new(),
        attempt: 0,
    };
    Joined { lead, units: vec![tied] }
}

/// All passes over all units. In each pass, from the witness farthest from the work to the nearest, what a witness has
/// still to tell is given to the calls of those above it; so the surest joins come first, whoever makes them.
fn round<'a>(units: &[&'a Unit], ruler: &Ruler<'_>) -> Vec<Joined<'a>> {
    let alone = |(place, unit): (usize, &&'a Unit)| alone(unit, place, ruler.clocks);
    let mut calls: Vec<Joined<'a>> = units.iter().enumerate().map(alone).collect();
    if units.iter().all(|unit| unit.witness() == units[0].witness()) {
        return calls;
    }
    // Calls that may have run come before those that were refused, then the earliest first.
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_cached_key(|index| {
        let lead = &calls[*index].lead;
        let at = lead.unit.at().map(|at| at.plus(ruler.clocks.offset(lead.stream())));
        (lead.unit.is_refused(), at, Text::clone(lead.stream()), lead.unit.base.id)
    });
    let (has_tool_use, has_trace) = (
        units.iter().any(|unit| unit.told.tool_use_id.is_some()),
        units.iter().any(|unit| unit.told.trace_id.is_some()),
    );
    for pass in PASSES {
        let has_any = match pass {
            Pass::ToolUse => has_tool_use,
            Pass::Trace | Pass::Changed => has_trace,
            Pass::Near | Pass::Agrees(_) => true,
        };
        if !has_any {
            continue;
        }
        for witness in Witness::ALL.into_iter().skip(1) {
            order.retain(|index| !calls[*index].units.is_empty());
            let choosing: Vec<usize> = order
                .iter()
                .copied()
                .filter(|index| {
                    let call = &calls[*index];
                    call.lead.unit.witness() < witness
                        && pass.concerns(call)
                        && !call.any(|unit| unit.witness() == witness)
                })
                .collect();
            if choosing.is_empty() {
                continue;
            }
            let waits = |index: &&usize| {
                let call = &calls[**index];
                call.lead.unit.witness() == witness && pass.concerns(call)
            };
            let waiting: Vec<Seen<'a>> = order
                .iter()
                .filter(waits)
                .map(|index| calls[*index].as_seen(*index, pass))
                .collect();
            if !waiting.is_empty() {
                let (calls, order, waiting) = (&mut calls[..], &choosing[..], Waiting::of(waiting));
                Matching { calls, order, waiting, pass, ruler }.run();
            }
        }
    }
    calls.retain(|call| !call.units.is_empty());
    calls
}

impl<'a> Joined<'a> {
    /// Whether any of its units is like this.
    pub(super) fn any(&self, mut is_like: impl FnMut(&'a Unit) -> bool) -> bool {
        self.units.iter().any(|tied| is_like(tied.seen.unit))
    }

    pub(super) fn is_refused(&self) -> bool {
        self.any(Unit::is_refused)
    }

    /// Which of those that wait the pass has to look at: all, or those that show the same arguments.
    pub(super) fn lane(&self, pass: Pass) -> Option<u64> {
        if pass != Pass::Agrees(Agreement::All) {
            return None;
        }
        self.units.iter().find_map(|tied| tied.seen.key)
    }

    /// Its lead as it stands in a list of such, where `place` leads back to the call.
    pub(super) fn as_seen(&self, place: usize, pass: Pass) -> Seen<'a> {
        Seen { place, key: self.lane(pass), ..self.lead.clone() }
    }

    /// Whether the two can be one call: no witness tells of it twice, and nobody names another principal.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        !self.units.iter().any(|known| {
            other.any(|unit| {
                let names = (&known.seen.unit.told.principal, &unit.told.principal);
                unit.witness() == known.seen.unit.witness()
                    || matches!(names, (Some(left), Some(right)) if left != right)
            })
        })
    }

    pub(super) fn shares_principal(&self, other: &Self) -> bool {
        other.any(|unit| {
            let principal = unit.told.principal.as_ref();
            principal.is_some() && self.any(|known| known.told.principal.as_ref() == principal)
        })
    }
}

/// The joins without doubt, as a measure of the clocks.
fn samples(calls: &[Joined<'_>]) -> Vec<(usize, Sample)> {
    let mut samples = Vec::new();
    for call in calls {
        let lead = &call.lead;
        let Some((at, _)) = lead.span else { continue };
        for tied in call.units.iter().skip(1) {
            let (upper, lower) = (lead.stream(), tied.seen.stream());
            if tied.certainty != Certainty::Ambiguous && upper != lower {
                let sample = Sample::new(upper, lower, at, lead.gap_to(&tied.seen));
                samples.push((tied.seen.place, sample));
            }
        }
    }
    samples
}

/// Whether the clock of any stream here was measured against that of a lead's. Where one was, everything is joined
/// again: to look first at what is in doubt would make a join depend on what lies far from it.
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
        clocks.has_measured(stream, at) || clocks.is_claimed(stream, at)
    })
}
