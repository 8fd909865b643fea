//! By which clocks, and how far, records of one call may lie apart.

use super::JOIN_SLACK_MICROS;
use super::arguments::Agreement;
use super::clock::{Clocks, Estimate};
use super::pair::Joined;
use super::waiting::{Seen, Waiting};
use crate::model::{Micros, OutcomeClass};

pub(super) struct Ruler<'c> {
    pub(super) clocks: &'c Clocks,
    /// True where the clocks count as measured, and not only as configured.
    pub(super) measured: bool,
}

impl Ruler<'_> {
    pub(super) fn estimate(&self, lead: &Seen<'_>, unit: &Seen<'_>) -> Option<Estimate> {
        if !self.measured {
            return None;
        }
        self.clocks.estimate(lead.stream(), unit.stream(), lead.span?.0)
    }

    /// Whether the other's stream is known to tell of other streams' calls and not of this one's. Who is named by both
    /// is no stranger.
    pub(super) fn is_stranger(&self, call: &Joined<'_>, other: &Joined<'_>) -> bool {
        let (lead, unit) = (&call.lead, &other.lead);
        self.measured
            && lead.span.is_some_and(|(at, _)| self.clocks.is_claimed(unit.stream(), at))
            && self.estimate(lead, unit).is_none()
            && !call.shares_principal(other)
    }

    /// Whether the two streams are known to belong together, or the two name the same principal.
    pub(super) fn knows(&self, call: &Joined<'_>, other: &Joined<'_>) -> bool {
        self.estimate(&call.lead, &other.lead).is_some() || call.shares_principal(other)
    }

    /// Whether a join of the two by so much agreement is in doubt though nothing else fits.
    ///
    /// By less than all arguments it is where the record is not about where the clocks say, and where the clocks of the
    /// two, although often joined, say nothing. Where the two streams are not known to belong together, and at least
    /// one of them is known to belong to another, it is as likely chance as not, and the values that agents use all the
    /// time agree by chance too. Where nothing is known of either, nothing speaks against it.
    pub(super) fn doubts(&self, call: &Joined<'_>, other: &Joined<'_>, by: Agreement) -> bool {
        let (lead, unit) = (&call.lead, &other.lead);
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
        let has_measured = |seen: &Seen<'_>| {
            seen.span.is_some_and(|(at, _)| self.clocks.has_measured(seen.stream(), at))
        };
        let is_claimed = |seen: &Seen<'_>| {
            lead.span.is_some_and(|(at, _)| self.clocks.is_claimed(seen.stream(), at))
        };
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

    /// When the call's record of the witness is expected, by the clocks of its streams.
    pub(super) fn expected(&self, lead: &Seen<'_>, waiting: &Waiting<'_>) -> Vec<Micros> {
        let Some((from, to)) = lead.span else { return Vec::new() };
        let mut offsets = vec![0];
        if self.measured {
            let streams = waiting.streams.iter();
            let known =
                streams.filter_map(|lower| self.clocks.estimate(lead.stream(), lower, from));
            offsets.extend(known.map(|estimate| estimate.offset));
            offsets.sort_unstable();
            offsets.dedup();
        }
        let ends = [from, lead.end.unwrap_or(to)];
        offsets.iter().flat_map(|offset| ends.map(|at| at.plus(*offset))).collect()
    }
}

/// Whether it ended without anybody having shown a result.
fn gave_up(lead: &Seen<'_>) -> bool {
    lead.unit.outcome().class == OutcomeClass::Error && !lead.unit.shows_run()
}
