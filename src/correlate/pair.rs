//! Joins the units of one component: which records of different witnesses tell of the same call.

use super::arguments::{Agreement, agreement};
use super::unit::Unit;
use super::{Clocks, JOIN_SLACK_MICROS};
use crate::model::{Certainty, JoinedBy, Micros, Text, Witness};

/// A call on its way: the units that tell of it, lead first, and how each was tied to it.
#[derive(Clone, Debug)]
pub(super) struct Joined<'a> {
    pub(super) units: Vec<(&'a Unit, JoinedBy, Certainty)>,
}

/// One witness's units wait to be taken by the calls of the witnesses above it.
struct Waiting<'a> {
    /// In order of time.
    units: Vec<(&'a Unit, Micros, Micros)>,
    /// For each unit, the latest end of it and those before it.
    reach: Vec<Micros>,
    taken: Vec<bool>,
}

/// Candidates looked at for one call and pass, so that a flood of look-alikes costs a bounded amount.
const CANDIDATES_MAX: usize = 4096;

/// Joins `units` (in any order, of one tool and one piece of time) into calls. From the witness farthest from the work
/// to the nearest, each one's units are given to the calls so far; what is left over is a call of its own.
pub(super) fn join<'a>(units: &[&'a Unit], clocks: &Clocks) -> Vec<Joined<'a>> {
    let mut calls: Vec<Joined<'a>> = Vec::new();
    for witness in Witness::ALL {
        let of_witness: Vec<&Unit> =
            units.iter().copied().filter(|unit| unit.witness() == witness).collect();
        if of_witness.is_empty() {
            continue;
        }
        let left = take(&mut calls, of_witness, clocks);
        calls.extend(
            left.into_iter()
                .map(|unit| Joined { units: vec![(unit, JoinedBy::Alone, Certainty::Exact)] }),
        );
    }
    calls
}

/// Gives the waiting units to calls, in passes from the surest knowledge to the least, and returns what is left.
fn take<'a>(calls: &mut [Joined<'a>], units: Vec<&'a Unit>, clocks: &Clocks) -> Vec<&'a Unit> {
    let mut waiting = Waiting::new(units, clocks);
    // Calls that may have run come before those that were refused, then the earliest first.
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_cached_key(|index| {
        let lead = calls[*index].units[0].0;
        let stream = Text::clone(&lead.base.stream);
        let at = lead.at().map(|at| at.plus(clocks.offset(&stream)));
        (lead.is_refused(), at, stream, lead.base.id)
    });
    for pass in [
        Pass::Trace,
        Pass::Agrees(Agreement::All),
        Pass::Agrees(Agreement::Some),
        Pass::Agrees(Agreement::Nothing),
    ] {
        for index in &order {
            let call = &mut calls[*index];
            let witness = waiting.units.first().map(|(unit, ..)| unit.witness());
            if call.units.iter().any(|(unit, ..)| Some(unit.witness()) == witness) {
                continue;
            }
            if let Some((unit, certainty)) = waiting.find(call, pass, clocks) {
                call.units.push((unit, pass.joined_by(), certainty));
            }
        }
    }
    waiting.left()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Trace,
    Agrees(Agreement),
}

impl Pass {
    const fn joined_by(self) -> JoinedBy {
        match self {
            Self::Trace => JoinedBy::Trace,
            Self::Agrees(Agreement::Nothing) => JoinedBy::Time,
            Self::Agrees(_) => JoinedBy::Arguments,
        }
    }

    fn accepts(self, call: &Joined<'_>, unit: &Unit) -> bool {
        let lead = call.units[0].0;
        let same_trace = call.units.iter().any(|(known, ..)| known.shares_trace(unit));
        match self {
            // A trace covers a whole turn, which may call one tool many times.
            Self::Trace => same_trace && best_agreement(call, unit) != Agreement::Contradicts,
            Self::Agrees(wanted) => {
                let both_traced =
                    lead.told.trace_id.is_some() && unit.told.trace_id.is_some() && !same_trace;
                // A refused call has run only where a value ties the record to it; elsewhere another call of the
                // same tool, a moment later, would be taken for a bypass.
                let tied = wanted >= Agreement::Some || !lead.is_refused() || unit.is_refused();
                !both_traced && tied && best_agreement(call, unit) == wanted
            }
        }
    }
}

/// The worst news decides: one witness's contradiction rules the join out, else the best agreement counts.
fn best_agreement(call: &Joined<'_>, unit: &Unit) -> Agreement {
    let mut best = Agreement::Nothing;
    for (known, ..) in &call.units {
        match agreement(&known.shown.args, &unit.shown.args) {
            Agreement::Contradicts => return Agreement::Contradicts,
            agreed => best = best.max(agreed),
        }
    }
    best
}

impl<'a> Waiting<'a> {
    /// Units without a time join nothing by time, but stay to be returned.
    fn new(units: Vec<&'a Unit>, clocks: &Clocks) -> Self {
        let mut units: Vec<_> = units
            .into_iter()
            .map(|unit| {
                let (from, to) = unit.interval().unwrap_or((Micros(i64::MAX), Micros(i64::MAX)));
                let offset = clocks.offset(&unit.base.stream);
                (unit, from.plus(offset), to.plus(offset))
            })
            .collect();
        units.sort_by_key(|(unit, from, _)| (*from, Text::clone(&unit.base.stream), unit.base.id));
        let reach = units
            .iter()
            .scan(Micros(i64::MIN), |reach, (_, _, to)| {
                *reach = (*reach).max(*to);
                Some(*reach)
            })
            .collect();
        let taken = vec![false; units.len()];
        Self { units, reach, taken }
    }

    /// The first candidate that fits, and how sure that is; the unit is taken.
    fn find(
        &mut self,
        call: &Joined<'a>,
        pass: Pass,
        clocks: &Clocks,
    ) -> Option<(&'a Unit, Certainty)> {
        let lead = call.units[0].0;
        let (from, to) = lead.interval()?;
        let offset = clocks.offset(&lead.base.stream);
        let (from, to) =
            (from.plus(offset).minus(JOIN_SLACK_MICROS), to.plus(offset).plus(JOIN_SLACK_MICROS));
        let mut candidates = self
            .candidates(from, to)
            .filter(|index| !self.taken[*index])
            .take(CANDIDATES_MAX)
            .filter(|index| {
                let unit = self.units[*index].0;
                agree_on_principal(call, unit) && pass.accepts(call, unit)
            });
        let (found, several) = (candidates.next()?, candidates.next().is_some());
        drop(candidates);
        let certainty = match (pass, several) {
            (_, true) => Certainty::Ambiguous,
            (Pass::Trace, false) => Certainty::Exact,
            (Pass::Agrees(_), false) => Certainty::Unambiguous,
        };
        self.taken[found] = true;
        Some((self.units[found].0, certainty))
    }

    /// The units whose interval meets [from, to]: those that begin inside it, the earliest first, then those that began
    /// before and last into it, the latest first. Who is nearer to the work sees a call after who is farther from it,
    /// so to have begun before is the exception.
    fn candidates(&self, from: Micros, to: Micros) -> impl Iterator<Item = usize> + '_ {
        let inside = self.units.partition_point(|(_, unit_from, _)| *unit_from < from);
        let oldest = self.reach.partition_point(|reach| *reach < from);
        let before = oldest.max(inside.saturating_sub(CANDIDATES_MAX))..inside;
        (inside..self.units.len())
            .take_while(move |index| self.units[*index].1 <= to)
            .chain(before.rev().filter(move |index| self.units[*index].2 >= from))
    }

    fn left(self) -> Vec<&'a Unit> {
        self.units
            .into_iter()
            .zip(self.taken)
            .filter_map(|((unit, ..), taken)| (!taken).then_some(unit))
            .collect()
    }
}

fn agree_on_principal(call: &Joined<'_>, unit: &Unit) -> bool {
    call.units.iter().all(|(known, ..)| match (&known.told.principal, &unit.told.principal) {
        (Some(left), Some(right)) => left == right,
        _ => true,
    })
}
