//! What every group of a chain rule is asked for again and again, worked out once for the rule.

use crate::model::Micros;

use super::chain::Event;
use super::stages::Chain;

/// Calls later than this are taken without a look into the store even by rules with a short reach.
const LATE_MIN_MICROS: i64 = Micros::MINUTE;

/// Calls later than this need a look into the store even by rules with a long reach: what is kept
/// for them is every call of the group.
const LATE_MAX_MICROS: i64 = 6 * Micros::MINUTE;

/// The spans that a rule's groups go by, in microseconds, and what each of its matches needs.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    /// As [`Chain::lookback_micros`].
    pub(super) lookback_micros: i64,
    /// As [`Chain::reach_micros`].
    pub(super) reach_micros: i64,
    /// How far the floor of a group follows its newest call.
    pub(super) lag_micros: i64,
    /// A group idle for this long is let go when idle ones are next looked for. A lag more than the reach, so that a
    /// group that is new to memory is mostly known to be new to the store as well: what is later than a lag is asked
    /// for anyway.
    pub(super) idle_micros: i64,
    /// The same of a group of which nothing was told: of a rule on sessions a gap will do, as another session follows
    /// it.
    pub(super) spent_idle_micros: i64,
    /// As [`Chain::gap_micros`].
    pub(super) gap_micros: Option<i64>,
    /// Without all of them nothing matches.
    pub(super) wants: Vec<Want>,
}

/// Calls that every match of a rule needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Want {
    /// They fit any of these slots.
    pub(super) bits: u32,
    /// So many of them, at least.
    pub(super) least: u64,
}

impl Pace {
    pub(super) fn new(chain: &Chain) -> Self {
        let reach_micros = chain.reach_micros();
        let lag_micros = reach_micros.saturating_add(LATE_MIN_MICROS).min(LATE_MAX_MICROS);
        let idle_micros = reach_micros.saturating_add(lag_micros);
        let spent = chain.gap_micros().map(|gap| gap.saturating_add(LATE_MAX_MICROS));
        Self {
            lookback_micros: chain.lookback_micros(),
            reach_micros,
            lag_micros,
            idle_micros,
            spent_idle_micros: idle_micros.min(spent.unwrap_or(i64::MAX)),
            gap_micros: chain.gap_micros(),
            wants: chain.wants(),
        }
    }
}

impl Want {
    pub(super) fn is_met<'e>(self, events: impl Iterator<Item = &'e Event>) -> bool {
        let others = usize::try_from(self.least.saturating_sub(1)).unwrap_or(usize::MAX);
        events.filter(|event| self.takes(event)).nth(others).is_some()
    }

    pub(super) const fn takes(self, event: &Event) -> bool {
        event.stages() & self.bits != 0
    }
}
