//! Joins the units of one component: which records of different witnesses tell of the same call.

use super::arguments::Agreement;
use super::clock::{Clocks, Sample};
use super::matching::Matching;
use super::pass::{PASSES, Pass};
use super::retry;
use super::ruler::Ruler;
use super::unit::Unit;
use super::waiting::{Seen, Waiting};
use crate::model::{Certainty, JoinedBy, RecordId, Witness};

/// A call on its way: the units that tell of it, the first attempt's lead first.
#[derive(Clone, Debug)]
pub(super) struct Joined<'a> {
    pub(super) lead: &'a Seen<'a>,
    pub(super) units: Vec<Tied<'a>>,
}

/// A unit, and how it was tied to its call.
#[derive(Clone, Debug)]
pub(super) struct Tied<'a> {
    pub(super) seen: &'a Seen<'a>,
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

/// The units of a piece, as both passes take them.
struct Piece<'a> {
    units: &'a [Seen<'a>],
    /// In what order their calls choose: calls that may have run before those that were refused, then the earliest
    /// first.
    order: Vec<usize>,
    has_tool_use: bool,
    has_trace: bool,
}

/// Joins `units` (in any order, at their places, of one tool and one piece of time) into calls. The first pass goes by
/// the configured clocks and in order, and its joins without doubt measure the clocks; the second goes by the clocks as
/// measured.
pub(super) fn join<'a>(units: &'a [Seen<'a>], clocks: &Clocks) -> Verdict<'a> {
    let piece = Piece::of(units, clocks);
    let first = round(&piece, &Ruler::new(clocks, false));
    let samples = samples(&first);
    let ruler = Ruler::new(clocks, true);
    // Where any stream's clock was measured everything is joined again: to look first at what is in doubt would make a
    // join depend on what lies far from it.
    let is_measured = units.iter().any(|unit| ruler.is_known(unit));
    let calls = if is_measured { round(&piece, &ruler) } else { first };
    Verdict { calls: retry::fold(calls), samples }
}

/// A unit that stands alone.
pub(super) fn alone<'a>(lead: &'a Seen<'a>) -> Joined<'a> {
    let tied = Tied {
        seen: lead,
        joined_by: JoinedBy::Alone,
        certainty: Certainty::Exact,
        candidates: Vec::new(),
        attempt: 0,
    };
    Joined { lead, units: vec![tied] }
}

/// All passes over all units. In each pass, from the witness farthest from the work to the nearest, what a witness has
/// still to tell is given to the calls of those above it; so the surest joins come first, whoever makes them.
fn round<'a>(piece: &Piece<'a>, ruler: &Ruler<'_>) -> Vec<Joined<'a>> {
    let mut calls: Vec<Joined<'a>> = piece.units.iter().map(alone).collect();
    let mut order: Vec<usize> = piece.order.clone();
    let mut led = led(&calls);
    for pass in PASSES {
        let has_any = match pass {
            Pass::ToolUse => piece.has_tool_use,
            Pass::Trace | Pass::Changed => piece.has_trace,
            Pass::Near | Pass::Agrees(_) => true,
        };
        if !has_any {
            continue;
        }
        for (number, witness) in Witness::ALL.into_iter().enumerate().skip(1) {
            // Mostly all that a witness tells of is tied by the surest pass.
            if led[number] == 0 || led[..number].iter().all(|calls| *calls == 0) {
                continue;
            }
            let choosing: Vec<usize> = order
                .iter()
                .copied()
                .filter(|index| {
                    let call = &calls[*index];
                    call.lead.witness < witness && pass.concerns(call) && !call.has(witness)
                })
                .collect();
            if choosing.is_empty() {
                continue;
            }
            let waits = |index: &&usize| {
                let call = &calls[**index];
                call.lead.witness == witness && pass.concerns(call)
            };
            let waiting: Vec<Seen<'a>> = order
                .iter()
                .filter(waits)
                .map(|index| calls[*index].as_seen(*index, pass))
                .collect();
            if waiting.is_empty() {
                continue;
            }
            Matching::new(&mut calls, &choosing, Waiting::of(waiting), pass, ruler).run();
            order.retain(|index| !calls[*index].units.is_empty());
            led = self::led(&calls);
        }
    }
    calls.retain(|call| !call.units.is_empty());
    calls
}

/// How many calls each witness leads, in the order of [`Witness::ALL`].
fn led(calls: &[Joined<'_>]) -> [usize; Witness::ALL.len()] {
    let mut led = [0; Witness::ALL.len()];
    for call in calls.iter().filter(|call| !call.units.is_empty()) {
        led[call.lead.witness as usize] += 1;
    }
    led
}

impl<'a> Piece<'a> {
    fn of(units: &'a [Seen<'a>], clocks: &Clocks) -> Self {
        let mut order: Vec<usize> = (0..units.len()).collect();
        order.sort_by_cached_key(|index| {
            let seen = &units[*index];
            let at = seen.unit.at().map(|at| at.plus(clocks.offset(seen.stream())));
            (seen.class.is_refusal(), at, seen.number, seen.unit.base.id)
        });
        Self {
            units,
            order,
            has_tool_use: units.iter().any(|seen| seen.unit.told.tool_use_id.is_some()),
            has_trace: units.iter().any(|seen| seen.unit.told.trace_id.is_some()),
        }
    }
}

impl<'a> Joined<'a> {
    pub(super) fn has(&self, witness: Witness) -> bool {
        self.units.iter().any(|tied| tied.seen.witness == witness)
    }

    /// Whether any of its units is like this.
    pub(super) fn any(&self, mut is_like: impl FnMut(&'a Unit) -> bool) -> bool {
        self.units.iter().any(|tied| is_like(tied.seen.unit))
    }

    pub(super) fn is_refused(&self) -> bool {
        self.units.iter().any(|tied| tied.seen.class.is_refusal())
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
        Seen { place, key: self.lane(pass), ..*self.lead }
    }

    /// Whether the two can be one call: no witness tells of it twice, and nobody names another principal.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        !self.units.iter().any(|known| {
            other.units.iter().any(|tied| {
                let (known, tied) = (known.seen, tied.seen);
                let names = (&known.unit.told.principal, &tied.unit.told.principal);
                tied.witness == known.witness
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
        let lead = call.lead;
        let Some((at, _)) = lead.span else { continue };
        for tied in call.units.iter().skip(1) {
            let (upper, lower) = (lead.stream(), tied.seen.stream());
            if tied.certainty != Certainty::Ambiguous && upper != lower {
                let sample = Sample::new(upper, lower, at, lead.gap_to(tied.seen));
                samples.push((tied.seen.place, sample));
            }
        }
    }
    samples
}
