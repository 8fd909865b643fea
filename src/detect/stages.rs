//! What a rule over several calls asks for: stages, the order they are filled in, and the spans.

use std::cmp::Reverse;

use rustc_hash::FxHashSet;

use crate::model::{Micros, Text};

use super::chain::Event;
use super::pace::Want;
use super::tally::{Count, Counted};
use super::yaml::Mark;

/// The bit of a call that fills nothing and yet belongs to its group's session.
pub(super) const MEMBER: u32 = 1 << 31;

/// The most kinds of calls that one rule looks for: a bit each, beside [`MEMBER`].
pub(super) const SLOTS_MAX: usize = 31;

/// Calls that fill stages. A single-event rule is one stage, a count one counted stage.
#[derive(Debug)]
pub(super) struct Chain {
    /// The kinds of calls that the rule looks for, in the order of the stages; bit `n` of an event
    /// says that it fits the slot `n`.
    pub(super) slots: Vec<Slot>,
    pub(super) stages: Vec<Stage>,
    pub(super) order: Order,
    /// One call may fill several stages.
    pub(super) is_same_event_allowed: bool,
    /// Microseconds from the first of the calls that fill the stages to the last, at most.
    pub(super) timespan_micros: i64,
    /// Matches at most this far apart are one episode.
    pub(super) quiet_micros: i64,
    /// What calls close that fill slots of their own.
    pub(super) inner: Vec<Inner>,
}

/// A correlation that is a part of another one: a call that closes a match of it fills a slot, as if it were a kind of
/// call.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) name: Text,
    /// Counted down from the last that there can be, so that none is that of a kind of call.
    pub(super) slot: usize,
    /// The names of its stages, where there are several.
    pub(super) stage_names: Vec<Text>,
    /// Its slots are those of the rule, which lists them once.
    pub(super) chain: Chain,
}

/// A kind of call.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) name: Text,
    /// Index into the rule set's detections.
    pub(super) detection: usize,
    /// The detection is that of the rule *and not* one of the exceptions of overrides.
    pub(super) is_excepted: bool,
    /// Where the rule's file asks for it.
    pub(super) mark: Mark,
}

/// What has to be there once.
#[derive(Debug)]
pub(super) struct Stage {
    /// The calls that fill it; of a count, the first that are counted for it.
    pub(super) slot: usize,
    /// Where it is filled by the call with which a count fits.
    pub(super) count: Option<Count>,
}

/// How the calls that fill the stages stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// One after another.
    Sequence,
    /// In any order, each by a call of its own.
    Any,
    /// One after another, with none of the group's calls further than that from the next.
    Session { gap_micros: i64 },
}

impl Stage {
    /// The kinds of calls that fill it or are counted for it, as bits.
    pub(super) fn slots(&self) -> u32 {
        self.count.as_ref().map_or(1 << self.slot, |count| count.slots | count.base())
    }
}

impl Chain {
    /// How far before its closing call a match can reach, in microseconds.
    pub(super) fn lookback_micros(&self) -> i64 {
        // What fills a stage rests on earlier calls where it is a count or closes something.
        let of_stage = |stage: &Stage| {
            let own = stage.count.as_ref().map_or(0, |count| count.timespan_micros);
            let inner = self.inner_of(stage.slots()).map(|inner| inner.chain.lookback_micros());
            own.saturating_add(inner.max().unwrap_or(0))
        };
        let earlier = self.stages.iter().map(of_stage).max();
        self.timespan_micros.saturating_add(earlier.unwrap_or(0))
    }

    /// The correlations that fill one of these slots.
    fn inner_of(&self, slots: u32) -> impl Iterator<Item = &Inner> {
        self.inner.iter().filter(move |inner| slots & (1 << inner.slot) != 0)
    }

    /// The slots that no kind of call has, as bits.
    pub(super) fn inner_bits(&self) -> u32 {
        self.inner.iter().fold(0, |bits, inner| bits | 1 << inner.slot)
    }

    /// The kinds of calls that fill these slots, or that what fills them rests on, as bits.
    pub(super) fn kinds(&self, slots: u32) -> u32 {
        self.inner_of(slots).fold(slots & !self.inner_bits(), |bits, inner| {
            let chain = &inner.chain;
            chain.stages.iter().fold(bits, |bits, stage| bits | chain.kinds(stage.slots()))
        })
    }

    /// How far a change can make itself felt: the lookback and the quiet period, in microseconds.
    pub(super) fn reach_micros(&self) -> i64 {
        self.lookback_micros().saturating_add(self.quiet_micros)
    }

    /// One call alone is a match, whatever others there are.
    pub(super) fn is_single(&self) -> bool {
        self.stages.len() == 1 && self.counts().next().is_none()
    }

    /// The span that people are told of, in microseconds.
    pub(super) fn timespan(&self) -> Option<i64> {
        match self.order {
            Order::Session { .. } => None,
            _ if self.stages.len() > 1 => Some(self.timespan_micros),
            _ => self.counts().next().map(|count| count.timespan_micros),
        }
    }

    pub(super) const fn gap_micros(&self) -> Option<i64> {
        match self.order {
            Order::Session { gap_micros } => Some(gap_micros),
            Order::Sequence | Order::Any => None,
        }
    }

    /// True if no session lasts from the one time to the other without a call between.
    pub(super) fn is_apart(&self, before: Micros, after: Micros) -> bool {
        self.gap_micros().is_some_and(|gap| after.since(before) > gap)
    }

    /// True if more of a call than when it was and what it fits says whether something fires.
    pub(super) fn looks_at_calls(&self) -> bool {
        self.counts().any(|count| matches!(count.what, Counted::Values { .. }))
            || self.inner.iter().any(|inner| inner.chain.looks_at_calls())
    }

    /// True where calls further apart never fit when nearer ones do not: no count, here or inside, has an upper bound
    /// or is a share.
    pub(super) fn only_grows(&self) -> bool {
        self.counts().all(Count::only_grows)
            && self.inner.iter().all(|inner| inner.chain.only_grows())
    }

    /// True where one call may be all that it takes.
    pub(super) fn may_be_one_call(&self) -> bool {
        let may_count_one =
            self.stages.len() == 1 && self.counts().all(|count| count.least_calls() == 1);
        let takes_call = || {
            let slots = self.stages.iter().fold(0, |slots, stage| slots | stage.slots());
            slots & !self.inner_bits() != 0
                || self.inner.iter().any(|inner| inner.chain.may_be_one_call())
        };
        self.is_same_event_allowed || may_count_one && takes_call()
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = &Count> {
        self.stages.iter().filter_map(|stage| stage.count.as_ref())
    }

    /// False where these calls of a group lack some that every match needs: most groups never have them all.
    pub(super) fn can_match<'e>(&self, events: &(impl Iterator<Item = &'e Event> + Clone)) -> bool {
        self.all_wants(&mut |want| want.is_met(events.clone()))
    }

    /// What every match needs, the scarcest first.
    pub(super) fn wants(&self) -> Vec<Want> {
        let mut wants = Vec::new();
        self.all_wants(&mut |want| {
            wants.push(want);
            true
        });
        wants.sort_by_key(|want| Reverse(want.least));
        wants
    }

    /// True if all that every match needs is there: a call for each stage, or as many as it counts, here and inside.
    fn all_wants(&self, is_met: &mut dyn FnMut(Want) -> bool) -> bool {
        let inner = self.inner_bits();
        self.stages.iter().all(|stage| {
            let (bits, least) = match &stage.count {
                Some(count) => (count.base(), count.least_calls().max(1)),
                None => (1 << stage.slot, 1),
            };
            bits & inner != 0 || is_met(Want { bits, least })
        }) && self.inner_of(self.needed_bits()).all(|inner| inner.chain.all_wants(is_met))
    }

    /// The bits of slots without a call in which nothing can match. Of several slots that are counted together any will
    /// do, and none is needed.
    pub(super) fn needed_bits(&self) -> u32 {
        let of_stage = |stage: &Stage| match &stage.count {
            Some(count) => Some(count.base()).filter(|bits| bits.is_power_of_two()).unwrap_or(0),
            None => 1 << stage.slot,
        };
        self.stages.iter().fold(0, |bits, stage| bits | of_stage(stage))
    }

    /// What the rule asks for: the first count's least, else the number of stages.
    pub(super) fn threshold(&self) -> u64 {
        self.counts().next().map_or(self.stages.len() as u64, Count::threshold)
    }

    /// What a match has of [`Self::threshold`], by its events and the slots that they are in, as bits.
    pub(super) fn value(&self, evidence: &[(&Event, u32)]) -> u64 {
        let Some(count) = self.counts().next() else {
            return self.stages.len() as u64;
        };
        let of = |slots: u32| {
            let shown = evidence.iter().filter(move |(_, shown)| slots & shown != 0);
            shown.map(|(event, _)| *event)
        };
        let own = count.slots;
        match &count.what {
            Counted::Events(..) => of(own).count() as u64,
            Counted::Values { field, .. } => {
                let mut values = FxHashSet::default();
                for call in of(own).filter_map(Event::call) {
                    field.each(call, &mut |value| {
                        values.insert(value);
                    });
                }
                values.len() as u64
            }
            Counted::Share { per, .. } => {
                let (some, rest) = (of(own).count() as u64, of(1 << per).count() as u64);
                (some * 100).checked_div(some + rest).unwrap_or(0)
            }
        }
    }
}
