//! By which clocks, and how far, records of one call may lie apart.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::JOIN_SLACK_MICROS;
use super::arguments::Agreement;
use super::clock::{Clocks, Estimate, slot_of};
use super::pair::Joined;
use super::waiting::{Seen, Waiting};
use crate::model::{Micros, OutcomeClass, Text};

pub(super) struct Ruler<'c> {
    clocks: &'c Clocks,
    /// True where the clocks count as measured, and not only as configured.
    pub(super) measured: bool,
    /// What was asked of the clocks already, by the numbers of streams and the day: names are dear to look up.
    estimates: RefCell<FxHashMap<(usize, usize, i64), Option<Estimate>>>,
    standings: RefCell<FxHashMap<(usize, i64), Standing>>,
}

/// What is known of a stream on a day.
#[derive(Clone, Copy)]
struct Standing {
    /// To which streams it belongs.
    is_claimed: bool,
    /// The clocks of others against it.
    has_measured: bool,
}

impl<'c> Ruler<'c> {
    /// For one piece: the same number is the same stream.
    pub(super) fn new(clocks: &'c Clocks, measured: bool) -> Self {
        let (estimates, standings) = Default::default();
        Self { clocks, measured, estimates, standings }
    }

    /// Whether the unit's clock was measured against another's, or another's against it.
    pub(super) fn is_known(&self, unit: &Seen<'_>) -> bool {
        unit.span.is_some_and(|(at, _)| {
            let standing = self.standing(unit, at);
            standing.has_measured || standing.is_claimed
        })
    }

    fn standing(&self, unit: &Seen<'_>, at: Micros) -> Standing {
        let mut standings = self.standings.borrow_mut();
        *standings.entry((unit.number, slot_of(at))).or_insert_with(|| Standing {
            is_claimed: self.clocks.is_claimed(unit.stream(), at),
            has_measured: self.clocks.has_measured(unit.stream(), at),
        })
    }

    pub(super) fn estimate(&self, lead: &Seen<'_>, unit: &Seen<'_>) -> Option<Estimate> {
        self.estimate_of(lead, (unit.number, unit.stream()))
    }

    fn estimate_of(&self, lead: &Seen<'_>, (number, lower): (usize, &Text)) -> Option<Estimate> {
        let (at, _) = lead.span.filter(|_| self.measured)?;
        let mut estimates = self.estimates.borrow_mut();
        *estimates
            .entry((lead.number, number, slot_of(at)))
            .or_insert_with(|| self.clocks.estimate(lead.stream(), lower, at))
    }

    /// Whether the other's stream is known to tell of other streams' calls and not of this one's. Who is named by both
    /// is no stranger.
    pub(super) fn is_stranger(&self, call: &Joined<'_>, other: &Joined<'_>) -> bool {
        let (lead, unit) = (call.lead, other.lead);
        self.measured
            && self.estimate(lead, unit).is_none()
            && lead.span.is_some_and(|(at, _)| self.standing(unit, at).is_claimed)
            && !call.shares_principal(other)
    }

    /// Whether the two streams are known to belong together, or the two name the same principal.
    pub(super) fn knows(&self, call: &Joined<'_>, other: &Joined<'_>) -> bool {
        self.estimate(call.lead, other.lead).is_some() || call.shares_principal(other)
    }

    /// Whether a join of the two by so much agreement is in doubt though nothing else fits.
    ///
    /// By less than all arguments it is where the record is not about where the clocks say, and where the clocks of the
    /// two, although often joined, say nothing. Where the two streams are not known to belong together, and at least
    /// one of them is known to belong to another, it is as likely chance as not, and the values that agents use all the
    /// time agree by chance too. Where nothing is known of either, nothing speaks against it.
    pub(super) fn doubts(&self, call: &Joined<'_>, other: &Joined<'_>, by: Agreement) -> bool {
        let (lead, unit) = (call.lead, other.lead);
        if !self.measured {
            return false;
        }
        if let Some(known) = self.estimate(lead, unit) {
            let off = lead.gap_to(unit) - known.offset;
            return by < Agreement::All && off.abs() > known.tolerance / 2;
        }
        let at = lead.span.map(|(at, _)| at);
        if at.is_some_and(|at| self.clocks.is_apart(lead.stream(), unit.stream(), at)) {
            return by < Agreement::All;
        }
        let has_measured =
            |seen: &Seen<'_>| seen.span.is_some_and(|(at, _)| self.standing(seen, at).has_measured);
        let is_claimed =
            |seen: &Seen<'_>| lead.span.is_some_and(|(at, _)| self.standing(seen, at).is_claimed);
        // Of a log that tells of much the clock would be known, if it were one that can be joined by.
        let is_busy = has_measured(lead) || is_claimed(lead);
        match (by <= Agreement::Nothing, call.shares_principal(other)) {
            (true, true) => is_busy,
            (true, false) => is_busy || has_measured(unit) || is_claimed(unit),
            (false, true) => false,
            (false, false) => has_measured(lead) && self.is_stranger(call, other),
        }
    }

    /// Whether the two can be of one call by their times.
    pub(super) fn meets(&self, lead: &Seen<'_>, unit: &Seen<'_>) -> bool {
        let (Some((from, to)), Some((begin, end))) = (lead.span, unit.span) else { return false };
        let (offset, slack) = self
            .estimate(lead, unit)
            .map_or((0, JOIN_SLACK_MICROS), |known| (known.offset, known.tolerance));
        // Who gave up waiting does not see when the work is done.
        let late = if gave_up(lead) { slack.max(JOIN_SLACK_MICROS) } else { slack };
        begin <= to.plus(offset + late) && end >= from.plus(offset - slack)
    }

    /// Where anything that meets the call is to be found.
    pub(super) fn search(&self, lead: &Seen<'_>) -> Option<(Micros, Micros)> {
        let (from, to) = lead.span?;
        Some((from.minus(self.reach()), to.plus(self.reach())))
    }

    pub(super) const fn reach(&self) -> i64 {
        // A measured offset is at most the slack, and so is the tolerance.
        if self.measured { 2 * JOIN_SLACK_MICROS } else { JOIN_SLACK_MICROS }
    }

    /// By how much later than the lead's, by the clocks of their streams, a record of those that wait may be expected.
    pub(super) fn offsets(&self, lead: &Seen<'_>, waiting: &Waiting<'_>) -> Vec<i64> {
        let mut offsets = vec![0];
        let known = waiting.streams.iter().filter_map(|lower| self.estimate_of(lead, *lower));
        offsets.extend(known.map(|estimate| estimate.offset));
        offsets.sort_unstable();
        offsets.dedup();
        offsets
    }
}

/// Whether it ended without anybody having shown a result.
fn gave_up(lead: &Seen<'_>) -> bool {
    lead.class == OutcomeClass::Error && !lead.unit.shows_run()
}
