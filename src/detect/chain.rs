//! Where chains of calls close, and which calls lie on them. Pure functions of a group's calls in
//! order.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::model::{Call, CallId, Micros, RecordId};

use super::rule::Chain;

/// A call that can fill a stage of a rule, in one of the rule's groups.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) at: Micros,
    /// The stages it can fill, as bits.
    pub(super) stages: u32,
    pub(super) call: Arc<Call>,
}

/// An event's place in the total order; the id only tells apart what no log would show twice.
pub(super) type Place<'a> = (Micros, &'a str, RecordId, CallId);

impl Event {
    pub(super) fn place(&self) -> Place<'_> {
        (self.at, &self.call.stream, self.call.position, self.call.id)
    }

    /// Total order: time, then stream, then position. Most pairs differ in time alone.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at).then_with(|| self.place().cmp(&other.place()))
    }

    /// A clock in the future moves no window.
    pub(super) fn is_future(&self) -> bool {
        is_future(&self.call)
    }
}

/// True for a call dated ahead of the clock when it was read.
pub(super) fn is_future(call: &Call) -> bool {
    call.flags.iter().any(|flag| **flag == *"future")
}

/// No chain that far.
const NEVER: Micros = Micros(i64::MIN);
/// No chain from here on.
const NO_END: Micros = Micros(i64::MAX);

/// One pass over a group's events, earliest first: how late a chain that ends at each event can
/// start.
pub(super) struct Chains<'a> {
    chain: &'a Chain,
    events: &'a [Event],
    /// For event `e` and stage `s`, at `e * stages + s`: the latest start of a chain whose stage
    /// `s` is `e`.
    starts: Vec<Micros>,
    /// Indices of the events that close a match, in order.
    pub(super) matches: Vec<usize>,
}

impl<'a> Chains<'a> {
    /// Finds all matches that close at `floor` or later. `events` are in order and reach back a
    /// lookback before the floor.
    pub(super) fn find(chain: &'a Chain, events: &'a [Event], floor: Micros) -> Self {
        let mut found = Self { chain, events, starts: Vec::new(), matches: Vec::new() };
        if found.can_match() {
            found.run(floor);
        }
        found
    }

    /// Most groups never have a call for every stage.
    fn can_match(&self) -> bool {
        let wanted = stage_bits(self.chain);
        let mut seen = 0;
        self.events.iter().any(|event| {
            seen |= event.stages;
            seen & wanted == wanted
        })
    }

    fn run(&mut self, floor: Micros) {
        let width = self.chain.stages.len();
        let last = width.saturating_sub(1);
        let mut latest = vec![NEVER; width];
        let mut row = vec![NEVER; width];
        let mut counted = VecDeque::new();
        self.starts.reserve_exact(self.events.len() * width);
        for (index, event) in self.events.iter().enumerate() {
            row.fill(NEVER);
            for (stage, start) in row.iter_mut().enumerate() {
                if event.stages & (1 << stage) != 0 {
                    *start = match stage.checked_sub(1) {
                        None => self.first_stage(event.at, &mut counted),
                        Some(before) => latest[before],
                    };
                }
            }
            // Only now, so that one call never follows itself.
            for (latest, start) in latest.iter_mut().zip(&row) {
                *latest = (*latest).max(*start);
            }
            let start = row[last];
            let closes = start != NEVER && event.at.since(start) <= self.chain.timespan_micros;
            if closes && event.at >= floor {
                self.matches.push(index);
            }
            self.starts.extend_from_slice(&row);
        }
    }

    /// The start of a chain whose first stage is filled now: always now, unless a count is still
    /// short.
    fn first_stage(&self, at: Micros, counted: &mut VecDeque<Micros>) -> Micros {
        let Some(count) = self.chain.count else {
            return at;
        };
        counted.push_back(at);
        while counted.front().is_some_and(|first| at.since(*first) > count.timespan_micros) {
            counted.pop_front();
        }
        if counted.len() as u64 >= count.min { at } else { NEVER }
    }

    fn start(&self, event: usize, stage: usize) -> Micros {
        let width = self.chain.stages.len();
        self.starts.get(event * width + stage).copied().unwrap_or(NEVER)
    }

    /// The events on any valid chain that closes at one of these matches, in order, each with the
    /// first stage it fills on such a chain. One pass, latest first.
    pub(super) fn evidence(&self, matches: &[usize]) -> Vec<(usize, u8)> {
        let (Some(&first), Some(&last)) = (matches.first(), matches.last()) else {
            return Vec::new();
        };
        let oldest = self.events[first].at.minus(self.chain.lookback_micros());
        let mut ends = vec![NO_END; self.chain.stages.len()];
        let mut closing = matches.iter().rev().peekable();
        let mut counted_from = None;
        let mut out = Vec::new();
        for index in (0..=last).rev() {
            let event = &self.events[index];
            if event.at < oldest {
                break;
            }
            let is_closing = closing.next_if(|closing| **closing == index).is_some();
            let mut filled = self.on_chain(index, is_closing, &mut ends);
            if let Some(count) = self.chain.count {
                if filled == Some(0) {
                    counted_from = Some(event.at);
                }
                // Every call in the window of a count that a chain rests on belongs to the chain.
                let is_counted = event.stages & 1 != 0
                    && counted_from
                        .is_some_and(|from: Micros| from.since(event.at) <= count.timespan_micros);
                if is_counted {
                    filled = Some(0);
                }
            }
            if let Some(stage) = filled {
                out.push((index, stage));
            }
        }
        out.reverse();
        out
    }

    /// The first stage the event fills on a valid chain. `ends` holds, per stage, the earliest
    /// close of a chain that goes on from a later event at that stage; the event's own ends are
    /// added.
    fn on_chain(&self, index: usize, is_closing: bool, ends: &mut [Micros]) -> Option<u8> {
        let event = &self.events[index];
        let mut filled = None;
        for stage in 0..ends.len() {
            if event.stages & (1 << stage) == 0 {
                continue;
            }
            let end = match ends.get(stage + 1) {
                Some(end) => *end,
                None if is_closing => event.at,
                None => NO_END,
            };
            let start = self.start(index, stage);
            if start == NEVER || end == NO_END {
                continue;
            }
            if filled.is_none() && end.since(start) <= self.chain.timespan_micros {
                filled = u8::try_from(stage).ok();
            }
            ends[stage] = ends[stage].min(end);
        }
        filled
    }

    /// The shortest span of a match in microseconds, over all matches: of the chain, or of its
    /// count if it has but one stage.
    pub(super) fn shortest_micros(&self) -> Option<i64> {
        let last = self.chain.stages.len().checked_sub(1)?;
        let span = |index: &usize| {
            let at = self.events.get(*index)?.at;
            match self.chain.count {
                Some(count) if last == 0 => {
                    let back = usize::try_from(count.min.checked_sub(1)?).ok()?;
                    let earliest = self.events.get(index.checked_sub(back)?)?.at;
                    Some(at.since(earliest))
                }
                _ => Some(at.since(self.start(*index, last))),
            }
        };
        self.matches.iter().filter_map(span).min()
    }
}

/// The bits of all stages.
fn stage_bits(chain: &Chain) -> u32 {
    (0..chain.stages.len()).fold(0, |bits, stage| bits | 1 << stage)
}
