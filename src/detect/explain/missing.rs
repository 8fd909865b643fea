//! Why a call is no part of a match: what was missing of the stages around it, or inside of one of them.

use std::collections::VecDeque;
use std::ops::Range;

use crate::detect::chain::{Chains, Event};
use crate::detect::stages::{Chain, Order, Slot};
use crate::detect::tally::{Counted, Tally};
use crate::model::Text;

/// A rule or one of its inner correlations, for people.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    /// The kinds of calls of the rule.
    pub(super) slots: &'a [Slot],
    pub(super) stage_names: &'a [Text],
    pub(super) chain: &'a Chain,
}

impl Of<'_> {
    /// What kept it from resting on an event.
    pub(super) fn missing(self, events: &[Event], index: usize) -> Vec<String> {
        let chain = self.chain;
        let chains = Chains::find_inside(chain, events);
        if chains.evidence(&chains.matches).iter().any(|(event, _)| *event == index) {
            return Vec::new();
        }
        let closing = chains.events();
        let Some(event) = closing.get(index) else { return Vec::new() };
        let filled: Vec<usize> =
            (0..chain.stages.len()).filter(|stage| can_fill(chain, event, *stage)).collect();
        if filled.is_empty() {
            return self.missing_inside(&chains, events, index);
        }
        if chain.stages.len() == 1 {
            let counted = counted_with(chain, 0, closing, index);
            return vec![short_count(chain, 0, closing, &counted).unwrap_or_default()];
        }
        let stages =
            || (0..chain.stages.len()).map(|stage| filling(chain, stage, closing)).collect();
        let around = |stage| Around { of: self, events: closing, filled: stages(), index, stage };
        filled.into_iter().map(|stage| around(stage).missing()).collect()
    }

    /// Of an event that fills no stage by itself: what was missing of the inner match that it is a part of, or where
    /// there is one, of what this one fills.
    fn missing_inside(self, chains: &Chains<'_>, events: &[Event], index: usize) -> Vec<String> {
        let rests = |inner: &Chains<'_>, closing: usize| {
            inner.evidence(&[closing]).iter().any(|(event, _)| *event == index)
        };
        let mut told = Vec::new();
        for (inner, found) in chains.inner() {
            // None that closes before the event rests on it.
            let from = found.matches.partition_point(|closing| *closing < index);
            let mut closings = found.matches.iter().copied().skip(from);
            if let Some(closing) = closings.find(|closing| rests(found, *closing)) {
                let fills = chains.events().get(closing).is_some_and(|event| {
                    (0..self.chain.stages.len()).any(|stage| can_fill(self.chain, event, stage))
                });
                // What closes it can be a part of others in turn, and those of further ones: that is not followed.
                if closing != index && fills {
                    told.extend(self.missing(events, closing));
                } else if closing != index {
                    told.push(format!(
                        "what closes `{}`, which it is a part of, is not counted",
                        inner.name
                    ));
                }
                continue;
            }
            let is_part = events.get(index).is_some_and(|event| {
                let mut stages = inner.chain.stages.iter();
                stages.any(|stage| event.stages() & inner.chain.kinds(stage.slots()) != 0)
            });
            if is_part {
                let of =
                    Of { slots: self.slots, stage_names: &inner.stage_names, chain: &inner.chain };
                let inside = of.missing(events, index).into_iter();
                told.extend(inside.map(|missing| format!("in `{}`: {missing}", inner.name)));
            }
        }
        if told.is_empty() {
            told.push("it is no part of what the rule rests on in its group".to_owned());
        }
        told.dedup();
        told
    }
}

/// True if the event fills the stage, or is counted for it.
fn can_fill(chain: &Chain, event: &Event, stage: usize) -> bool {
    chain.stages.get(stage).is_some_and(|stage| match &stage.count {
        Some(count) => count.shown_in(event) != 0,
        None => event.stages() & (1 << stage.slot) != 0,
    })
}

/// What a count came to at most at the events of a range; none where the stage is no count.
fn short_count(
    chain: &Chain,
    stage: usize,
    events: &[Event],
    range: &Range<usize>,
) -> Option<String> {
    let stage = chain.stages.get(stage)?;
    let count = stage.count.as_ref()?;
    let (mut tally, mut window) = (Tally::new(count), VecDeque::new());
    let (mut most, mut calls_most) = (0, 0);
    for (number, event) in events.iter().enumerate().take(range.end) {
        tally.take(event);
        if count.shown_in(event) == 0 {
            continue;
        }
        window.push_back(event.at());
        while window.front().is_some_and(|at| event.at().since(*at) > count.timespan_micros) {
            window.pop_front();
        }
        let calls = window.len() as u64;
        // The share of fewer calls than are enough to tell says nothing.
        let tells = !matches!(count.what, Counted::Share { minimum, .. } if calls < minimum);
        if range.contains(&number) {
            calls_most = calls_most.max(calls);
            most = most.max(if tells { tally.figure() } else { 0 });
        }
    }
    let (span, asked) = (seconds(count.timespan_micros), count.threshold());
    let what = match &count.what {
        Counted::Events(..) => "calls".to_owned(),
        Counted::Values { .. } => "different values".to_owned(),
        Counted::Share { minimum, .. } if calls_most < *minimum => {
            return Some(format!("{calls_most} of at least {minimum} calls within {span}"));
        }
        Counted::Share { minimum, .. } => {
            return Some(format!(
                "{most} % within {span}; {asked} % of at least {minimum} calls are asked for"
            ));
        }
    };
    if most >= asked {
        return Some(format!("{most} {what} within {span}, which is not what is asked for"));
    }
    Some(format!("{most} of {asked} {what} within {span}"))
}

/// The events with which a count that one of them is counted for can be enough; the event alone where it is for none.
fn counted_with(chain: &Chain, stage: usize, events: &[Event], index: usize) -> Range<usize> {
    let count = chain.stages.get(stage).and_then(|stage| stage.count.as_ref());
    let (Some(count), Some(event)) = (count, events.get(index)) else { return index..index + 1 };
    let is_within = |other: &Event| other.at().since(event.at()) <= count.timespan_micros;
    index..events.partition_point(is_within).max(index + 1)
}

/// The events that fill a stage: of a count, those with which there is enough.
fn filling(chain: &Chain, stage: usize, events: &[Event]) -> Vec<bool> {
    let own = chain.stages.get(stage);
    match own.and_then(|stage| stage.count.as_ref()) {
        Some(count) => {
            let mut tally = Tally::new(count);
            events.iter().map(|event| tally.take(event)).collect()
        }
        None => events.iter().map(|event| can_fill(chain, event, stage)).collect(),
    }
}

/// An event that fills one stage of several, or is counted for it, and those around it.
struct Around<'a> {
    of: Of<'a>,
    events: &'a [Event],
    /// By stage and event.
    filled: Vec<Vec<bool>>,
    index: usize,
    stage: usize,
}

impl Around<'_> {
    /// What the other stages lacked.
    fn missing(&self) -> String {
        match self.of.chain.order {
            Order::Any => self.in_any_order(),
            Order::Sequence | Order::Session { .. } => self.in_order(),
        }
    }

    fn name(&self, stage: usize) -> &str {
        let slot = self.of.chain.stages.get(stage).map_or(0, |stage| stage.slot);
        let of_slot = || self.of.slots.get(slot).map(|slot| &slot.name);
        self.of.stage_names.get(stage).or_else(of_slot).map_or("", |name| &**name)
    }

    fn is_filled(&self, stage: usize, event: usize) -> bool {
        self.filled.get(stage).and_then(|events| events.get(event)).is_some_and(|fills| *fills)
    }

    /// From one event to another, in microseconds.
    fn micros(&self, one: usize, other: usize) -> i64 {
        let both = self.events.get(one).zip(self.events.get(other));
        both.map_or(0, |(one, other)| other.at().since(one.at()))
    }

    fn span(&self) -> String {
        match self.of.chain.order {
            Order::Session { .. } => "the session".to_owned(),
            Order::Sequence | Order::Any => seconds(self.of.chain.timespan_micros),
        }
    }

    fn in_any_order(&self) -> String {
        let (chain, span) = (self.of.chain, self.span());
        let is_near = |event: &usize| {
            (*event != self.index || chain.is_same_event_allowed)
                && self.micros(*event, self.index).abs() <= chain.timespan_micros
        };
        let others = (0..chain.stages.len()).filter(|other| *other != self.stage);
        let mut missing = others.filter(|other| {
            !(0..self.events.len()).any(|event| is_near(&event) && self.is_filled(*other, event))
        });
        match missing.next() {
            Some(other) => format!(
                "as stage `{}`: stage `{}` did not come within {span} of it",
                self.name(self.stage),
                self.name(other)
            ),
            None => format!("its stages did not all come within {span}, each by a call of its own"),
        }
    }

    /// Looks for the latest of each stage before, and the earliest of each after: the shortest chain through the call.
    fn in_order(&self) -> String {
        let own = usize::from(self.of.chain.is_same_event_allowed);
        // A count stands in the order where there is enough.
        let counted = counted_with(self.of.chain, self.stage, self.events, self.index);
        let Some(standing) = counted.clone().find(|event| self.is_filled(self.stage, *event))
        else {
            let short = short_count(self.of.chain, self.stage, self.events, &counted);
            return format!("as stage `{}`: {}", self.name(self.stage), short.unwrap_or_default());
        };
        let (mut first, mut next) = (standing, None);
        for before in (0..self.stage).rev() {
            let range = 0..first + own;
            let Some(found) = range.clone().rev().find(|event| self.is_filled(before, *event))
            else {
                return self.lacking(before, "before", next, &range, 0..standing);
            };
            (first, next) = (found, Some(before));
        }
        let (mut last, mut next) = (standing, None);
        for after in self.stage + 1..self.of.chain.stages.len() {
            let range = last + 1 - own..self.events.len();
            let Some(found) = range.clone().find(|event| self.is_filled(after, *event)) else {
                return self.lacking(after, "after", next, &range, standing + 1..self.events.len());
            };
            (last, next) = (found, Some(after));
        }
        let (took, span) = (self.micros(first, last), self.span());
        if took > self.of.chain.timespan_micros {
            return format!("its stages came within {}, and {span} are allowed", seconds(took));
        }
        format!("its stages did not come in one run within {span}")
    }

    /// That a stage came nowhere in `range`. If it came on that `side` of the call all the same, it was the stage
    /// `next` that it did not come before or after.
    fn lacking(
        &self,
        stage: usize,
        side: &str,
        next: Option<usize>,
        range: &Range<usize>,
        mut of_call: Range<usize>,
    ) -> String {
        let next = next.filter(|_| of_call.any(|event| self.is_filled(stage, event)));
        let of =
            next.map_or_else(|| "it".to_owned(), |next| format!("stage `{}`", self.name(next)));
        let short = short_count(self.of.chain, stage, self.events, range);
        format!(
            "as stage `{}`: stage `{}` did not come {side} {of} within {}{}",
            self.name(self.stage),
            self.name(stage),
            self.span(),
            short.map_or_else(String::new, |short| format!(": {short}"))
        )
    }
}

/// A length of time in seconds, with as many digits as it takes.
pub(super) fn seconds(micros: i64) -> String {
    let (whole, rest) = (micros / 1_000_000, micros.unsigned_abs() % 1_000_000);
    if rest == 0 {
        return format!("{whole} s");
    }
    format!("{whole}.{} s", format!("{rest:06}").trim_end_matches('0'))
}
