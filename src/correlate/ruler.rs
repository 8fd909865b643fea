//! By which clocks, and how far, records of one call may lie apart.

use super::JOIN_SLACK_MICROS;
use super::clock::{Clocks, Estimate};
use super::pair::Joined;
use super::waiting::{Seen, Waiting};
use crate::model::Micros;

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

    /// Whether the two can be of one call by their times.
    pub(super) fn meets(&self, lead: &Seen<'_>, unit: &Seen<'_>) -> bool {
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
