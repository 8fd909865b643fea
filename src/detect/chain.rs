//! Where chains of calls close, and which calls lie on them. Pure functions of a group's calls in
//! order.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::model::{Call, CallId, Micros, RecordId, Text};

use super::distinct::Fillers;
use super::stages::{Chain, Inner, Order};
use super::tally::Tally;

/// A call that can fill a stage of a rule, in one of the rule's groups.
///
/// There are several of them for every call that is held, and groups of very many principals mostly hold one: what is
/// asked of all of them again and again stands in the event itself, and its room counts.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Whole {
        at: Micros,
        stages: u32,
        is_future: bool,
        call: Arc<Call>,
    },
    /// Enough to say whether anything fires, in a tenth of the room. Evidence needs the call itself.
    Place {
        at: Micros,
        stages: u32,
        is_future: bool,
        stub: Arc<Stub>,
    },
}

/// The places of calls that are let go of at one time.
#[derive(Default)]
pub(super) struct Stubs(FxHashMap<CallId, Arc<Stub>>);

/// What tells one call from all others, and its order among them.
#[derive(Clone, Debug)]
pub(super) struct Stub {
    stream: Text,
    position: RecordId,
    id: CallId,
}

/// An event's place in the total order; the id only tells apart what no log would show twice.
pub(super) type Place<'a> = (Micros, &'a str, RecordId, CallId);

impl Event {
    pub(super) fn new(at: Micros, stages: u32, call: &Arc<Call>) -> Self {
        Self::Whole { at, stages, is_future: is_future(call), call: Arc::clone(call) }
    }

    pub(super) const fn at(&self) -> Micros {
        match self {
            Self::Whole { at, .. } | Self::Place { at, .. } => *at,
        }
    }

    /// The slots it fits, as bits.
    pub(super) const fn stages(&self) -> u32 {
        match self {
            Self::Whole { stages, .. } | Self::Place { stages, .. } => *stages,
        }
    }

    /// The same call, as one that fits other slots.
    pub(super) fn with_stages(&self, fits: u32) -> Self {
        let mut event = self.clone();
        match &mut event {
            Self::Whole { stages, .. } | Self::Place { stages, .. } => *stages = fits,
        }
        event
    }

    /// A clock in the future moves no window.
    pub(super) const fn is_future(&self) -> bool {
        match self {
            Self::Whole { is_future, .. } | Self::Place { is_future, .. } => *is_future,
        }
    }

    /// The call; none where only its place is held.
    pub(super) const fn call(&self) -> Option<&Arc<Call>> {
        match self {
            Self::Whole { call, .. } => Some(call),
            Self::Place { .. } => None,
        }
    }

    pub(super) fn id(&self) -> CallId {
        match self {
            Self::Whole { call, .. } => call.id,
            Self::Place { stub, .. } => stub.id,
        }
    }

    /// How many hold the call, or its place.
    fn holders(&self) -> usize {
        match self {
            Self::Whole { call, .. } => Arc::strong_count(call),
            Self::Place { stub, .. } => Arc::strong_count(stub),
        }
    }

    /// Lets go of many calls, which lie about in memory: what is looked at before, all at a time, is waited for once,
    /// where each by itself would be waited for in turn.
    pub(super) fn let_go(events: &mut Vec<Self>) {
        const AT_A_TIME: usize = 64;
        while !events.is_empty() {
            let rest = events.len().saturating_sub(AT_A_TIME);
            let holders = events.iter().skip(rest).map(Self::holders);
            black_box(holders.fold(0, usize::wrapping_add));
            events.truncate(rest);
        }
    }

    /// The same where there are so many that they take room themselves.
    pub(super) fn let_go_if_many(events: &mut Vec<Self>) {
        if events.len() >= 1_024 {
            Self::let_go(events);
        }
    }

    /// Lets go of the call, but for its place, which rules share as far as they let go of it at one time.
    pub(super) fn shrink(&mut self, stubs: &mut Stubs) {
        let Self::Whole { at, stages, is_future, call } = self else { return };
        let stub = stubs.0.entry(call.id).or_insert_with(|| {
            Arc::new(Stub {
                stream: Text::clone(&call.stream),
                position: call.position,
                id: call.id,
            })
        });
        let (at, stages, is_future) = (*at, *stages, *is_future);
        *self = Self::Place { at, stages, is_future, stub: Arc::clone(stub) };
    }

    pub(super) fn place(&self) -> Place<'_> {
        match self {
            Self::Whole { at, call, .. } => (*at, &call.stream, call.position, call.id),
            Self::Place { at, stub, .. } => (*at, &stub.stream, stub.position, stub.id),
        }
    }

    /// Total order: time, then stream, then position. Most pairs differ in time alone.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.at().cmp(&other.at()).then_with(|| self.place().cmp(&other.place()))
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

/// Most rules have two stages, or three.
type PerStage = SmallVec<[Micros; 3]>;

/// How late a chain can start that has come so far, for every stage; moved from call to call.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// Over all calls so far.
    latest: PerStage,
    /// Of chains that end at the last call.
    row: PerStage,
    before: Option<Micros>,
    /// What the calls of the session in hand fit, all of them together.
    pub(super) fits: u32,
    /// Calls that a chain starts with, since they were counted; too many where some are long gone.
    pub(super) begun: u64,
}

impl Course {
    pub(super) fn new(chain: &Chain) -> Self {
        let width = chain.stages.len();
        Self {
            latest: smallvec![NEVER; width],
            row: smallvec![NEVER; width],
            before: None,
            fits: 0,
            begun: 0,
        }
    }

    /// Takes the next call, and the stages that it fills; true if it ends a chain in time.
    fn take(&mut self, chain: &Chain, at: Micros, fills: u32) -> bool {
        if self.before.is_some_and(|before| chain.is_apart(before, at)) {
            self.latest.fill(NEVER);
        }
        self.before = Some(at);
        let mut filled = NEVER;
        let mut before = at;
        for (stage, (start, latest)) in self.row.iter_mut().zip(&self.latest).enumerate() {
            *start = NEVER;
            if fills & (1 << stage) != 0 {
                let own = if chain.is_same_event_allowed { filled } else { NEVER };
                *start = before.max(own);
            }
            (filled, before) = (*start, *latest);
        }
        // Only now, so that one call never follows itself.
        for (latest, start) in self.latest.iter_mut().zip(&self.row) {
            *latest = (*latest).max(*start);
        }
        self.row
            .last()
            .is_some_and(|start| *start != NEVER && at.since(*start) <= chain.timespan_micros)
    }

    /// Takes calls of a rule whose stages count nothing; true if any of them ends a chain.
    pub(super) fn follow(&mut self, chain: &Chain, events: &[Event]) -> bool {
        let mut is_closed = false;
        for event in events {
            let fills = chain.stages.iter().enumerate().fold(0, |fills, (index, stage)| {
                fills | (u32::from(event.stages() & (1 << stage.slot) != 0) << index)
            });
            self.begun += u64::from(fills & 1);
            if self.before.is_some_and(|before| chain.is_apart(before, event.at())) {
                self.fits = 0;
            }
            self.fits |= event.stages();
            is_closed |= self.take(chain, event.at(), fills);
        }
        is_closed
    }
}

/// Matches of a case that are looked at to find the shortest: the first ones.
const SHORTEST_OF_MAX: usize = 200;

/// One pass over a group's events, earliest first: which stages each fills, and how late a chain that
/// ends at each can start.
pub(super) struct Chains<'a> {
    chain: &'a Chain,
    /// With the slots that they fill as what closes an inner correlation.
    events: Cow<'a, [Event]>,
    /// The matches of the inner correlations, in the order of the chain's.
    inner: Vec<Chains<'a>>,
    /// The stages that each event fills, as bits.
    fills: Vec<u32>,
    /// For event `e` and stage `s` of an ordered rule, at `e * stages + s`: the latest start of a
    /// chain whose stage `s` is `e`.
    starts: Vec<Micros>,
    /// Indices of the events that close a match, in order.
    pub(super) matches: Vec<usize>,
}

/// What matches rest on, without what inner matches rest on.
struct Rests {
    /// Events in order, each with the slots that it can be shown in, as bits: also those of the inner matches that it
    /// closes.
    shown: Vec<(usize, u32)>,
    /// By inner correlation, the events that close the matches which are rested on, in order.
    closings: Vec<Vec<usize>>,
}

impl<'a> Chains<'a> {
    /// Finds all matches that close at `floor` or later. `events` are in order and reach back a
    /// lookback before the floor.
    pub(super) fn find(chain: &'a Chain, events: &'a [Event], floor: Micros) -> Self {
        let mut found = Self::new(chain, events);
        if chain.can_match(&events.iter()) {
            found.look(events, floor);
        }
        found
    }

    /// All matches, and those of inner correlations also where the chain itself plainly has none.
    pub(super) fn find_inside(chain: &'a Chain, events: &'a [Event]) -> Self {
        let mut found = Self::new(chain, events);
        found.look(events, NEVER);
        found
    }

    const fn new(chain: &'a Chain, events: &'a [Event]) -> Self {
        Self {
            chain,
            events: Cow::Borrowed(events),
            inner: Vec::new(),
            fills: Vec::new(),
            starts: Vec::new(),
            matches: Vec::new(),
        }
    }

    fn look(&mut self, events: &'a [Event], floor: Micros) {
        if !self.chain.inner.is_empty() {
            self.close_inner(events);
        }
        self.fills = fills_of(self.chain, &self.events);
        match self.chain.order {
            Order::Any => self.gather(floor),
            Order::Sequence | Order::Session { .. } => self.follow(floor),
        }
    }

    /// The events, with the slots that they fill as what closes an inner correlation.
    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    /// The inner correlations with their matches.
    pub(super) fn inner(&self) -> impl Iterator<Item = (&'a Inner, &Self)> {
        self.chain.inner.iter().zip(&self.inner)
    }

    /// Finds what closes inner correlations. What an event near the first one closes may be missing or too much: no
    /// match that closes at the floor or later reaches that far back.
    fn close_inner(&mut self, events: &'a [Event]) {
        let find = |inner: &'a Inner| Chains::find(&inner.chain, events, NEVER);
        self.inner = self.chain.inner.iter().map(find).collect();
        let kinds = !self.chain.inner_bits();
        let mut closing: Vec<Event> =
            events.iter().map(|event| event.with_stages(event.stages() & kinds)).collect();
        for (inner, found) in self.chain.inner.iter().zip(&self.inner) {
            for index in &found.matches {
                let event = &mut closing[*index];
                *event = event.with_stages(event.stages() | 1 << inner.slot);
            }
        }
        self.events = Cow::Owned(closing);
    }

    /// Stages one after another.
    fn follow(&mut self, floor: Micros) {
        let mut course = Course::new(self.chain);
        self.starts.reserve_exact(self.events.len() * self.chain.stages.len());
        let events: &[Event] = &self.events;
        for (index, (event, fills)) in events.iter().zip(&self.fills).enumerate() {
            if course.take(self.chain, event.at(), *fills) && event.at() >= floor {
                self.matches.push(index);
            }
            self.starts.extend_from_slice(&course.row);
        }
    }

    /// Stages in any order, each by a call of its own.
    fn gather(&mut self, floor: Micros) {
        let mut window: VecDeque<usize> = VecDeque::new();
        let mut fillers = Fillers::default();
        let events: &[Event] = &self.events;
        for (index, event) in events.iter().enumerate() {
            if self.fills[index] == 0 {
                continue;
            }
            window.push_back(index);
            fillers.add(self.fills[index]);
            while let Some(first) = window.front().copied()
                && event.at().since(events[first].at()) > self.chain.timespan_micros
            {
                window.pop_front();
                fillers.remove(self.fills[first]);
            }
            let stages = self.chain.stages.len();
            let is_filled = if self.chain.is_same_event_allowed {
                fillers.fill_together(stages)
            } else {
                fillers.fill_all(stages)
            };
            if event.at() >= floor && is_filled {
                self.matches.push(index);
            }
        }
    }

    fn start(&self, event: usize, stage: usize) -> Micros {
        let width = self.chain.stages.len();
        self.starts.get(event * width + stage).copied().unwrap_or(NEVER)
    }

    /// The events that these matches rest on, in order, each with the first slot it is shown in: all
    /// on any valid chain, and all that are counted for one; of what closes an inner match, all that this rests on.
    pub(super) fn evidence(&self, matches: &[usize]) -> Vec<(usize, u8)> {
        self.shown(self.rests(matches))
    }

    /// The same of one match, and what it has of what the rule asks for.
    pub(super) fn first_evidence(&self, closing: usize) -> (Vec<(usize, u8)>, u64) {
        let rests = self.rests(&[closing]);
        let event = |(index, slots): &(usize, u32)| Some((self.events.get(*index)?, *slots));
        let value = self.chain.value(&rests.shown.iter().filter_map(event).collect::<Vec<_>>());
        (self.shown(rests), value)
    }

    fn shown(&self, Rests { shown, closings }: Rests) -> Vec<(usize, u8)> {
        let kinds = !self.chain.inner_bits();
        let first = |(index, slots): (usize, u32)| {
            let slot = (slots & kinds).trailing_zeros();
            let slot = u8::try_from(slot).ok().filter(|_| slots & kinds != 0);
            slot.map(|slot| (index, slot))
        };
        let mut evidence: Vec<(usize, u8)> = shown.into_iter().filter_map(first).collect();
        for (inner, closings) in self.inner.iter().zip(closings) {
            evidence.extend(inner.evidence(&closings));
        }
        if !self.inner.is_empty() {
            evidence.sort_unstable();
            evidence.dedup_by_key(|(index, _)| *index);
        }
        evidence
    }

    /// One pass, latest first.
    fn rests(&self, matches: &[usize]) -> Rests {
        let mut rests = Rests { shown: Vec::new(), closings: vec![Vec::new(); self.inner.len()] };
        let (Some(&first), Some(&last)) = (matches.first(), matches.last()) else {
            return rests;
        };
        let oldest = self.events[first].at().minus(self.chain.lookback_micros());
        let width = self.chain.stages.len();
        let mut ends = vec![NO_END; width];
        let mut closing = matches.iter().rev().peekable();
        let mut closed_at = NO_END;
        let mut counted_from = vec![NO_END; width];
        let mut after = None;
        for index in (0..=last).rev() {
            let event = &self.events[index];
            if event.at() < oldest {
                break;
            }
            let is_closing = closing.next_if(|closing| **closing == index).is_some();
            if after.is_some_and(|after| self.chain.is_apart(event.at(), after)) {
                ends.fill(NO_END);
                counted_from.fill(NO_END);
            }
            after = Some(event.at());
            let filled = match self.chain.order {
                Order::Any => {
                    closed_at = if is_closing { event.at() } else { closed_at };
                    let is_near = closed_at != NO_END
                        && closed_at.since(event.at()) <= self.chain.timespan_micros;
                    if is_near { self.fills[index] } else { 0 }
                }
                Order::Sequence | Order::Session { .. } => {
                    self.on_chain(index, is_closing, &mut ends)
                }
            };
            let slots = self.shown_in(event, filled, &mut counted_from);
            if slots == 0 {
                continue;
            }
            for (inner, closings) in self.chain.inner.iter().zip(&mut rests.closings) {
                if slots & (1 << inner.slot) != 0 {
                    closings.push(index);
                }
            }
            rests.shown.push((index, slots));
        }
        rests.shown.reverse();
        rests.closings.iter_mut().for_each(|closings| closings.reverse());
        rests
    }

    /// The slots that an event is shown in, as bits, given the stages it fills in a match. Every call in
    /// the window of a count that a match rests on belongs to the match; `counted_from` holds the
    /// earliest end of such a window, per stage.
    fn shown_in(&self, event: &Event, filled: u32, counted_from: &mut [Micros]) -> u32 {
        let mut slots = 0;
        for (index, (stage, from)) in self.chain.stages.iter().zip(counted_from).enumerate() {
            let is_filled = filled & (1 << index) != 0;
            slots |= match &stage.count {
                None => u32::from(is_filled) << stage.slot,
                Some(count) => {
                    *from = if is_filled { event.at() } else { *from };
                    let is_near =
                        *from != NO_END && from.since(event.at()) <= count.timespan_micros;
                    if is_near { count.shown_in(event) } else { 0 }
                }
            };
        }
        slots
    }

    /// The stages that the event fills on valid chains, as bits. `ends` holds, per stage, the
    /// earliest close of a chain that goes on from a later event at that stage; the event's own ends
    /// are added.
    fn on_chain(&self, index: usize, is_closing: bool, ends: &mut [Micros]) -> u32 {
        let event = &self.events[index];
        let mut filled = 0;
        let width = ends.len();
        for number in 0..width {
            // From the first stage on, what is known at the next one comes from later calls alone;
            // from the last one back, from this call as well.
            let stage = if self.chain.is_same_event_allowed { width - 1 - number } else { number };
            if self.fills[index] & (1 << stage) == 0 {
                continue;
            }
            let end = match ends.get(stage + 1) {
                Some(end) => *end,
                None if is_closing => event.at(),
                None => NO_END,
            };
            let start = self.start(index, stage);
            if start == NEVER || end == NO_END {
                continue;
            }
            if end.since(start) <= self.chain.timespan_micros {
                filled |= 1 << stage;
            }
            ends[stage] = ends[stage].min(end);
        }
        filled
    }

    /// The shortest span of a match in microseconds, over all matches: of the stages, or of the count
    /// if there is but one stage.
    pub(super) fn shortest_micros(&self) -> Option<i64> {
        let last = self.chain.stages.len().checked_sub(1)?;
        let is_counted = self.chain.counts().next().is_some();
        let is_ordered = self.chain.order != Order::Any && (last > 0 || !is_counted);
        let span = |index: &usize| {
            let at = self.events.get(*index)?.at();
            let from = if is_ordered {
                self.start(*index, last)
            } else {
                // Calls before the match only add to what there is, so that a search by halves will do.
                let back: Vec<usize> = (0..=*index).collect();
                let fits = |from: &usize| {
                    let events = self.events.get(*from..=*index).unwrap_or_default();
                    let found = Chains::find(self.chain, events, Micros(i64::MIN));
                    found.matches.last().is_some_and(|found| found + 1 == events.len())
                };
                self.events.get(back.partition_point(fits).checked_sub(1)?)?.at()
            };
            Some(at.since(from))
        };
        self.matches.iter().take(SHORTEST_OF_MAX).filter_map(span).min()
    }
}

/// Which stages each event fills: those it fits, and those whose count fits with it.
fn fills_of(chain: &Chain, events: &[Event]) -> Vec<u32> {
    let mut tallies: Vec<Option<Tally<'_>>> = chain
        .stages
        .iter()
        .map(|stage| Some(Tally::new(stage.count.as_ref()?).within(chain)))
        .collect();
    let mut all = Vec::with_capacity(events.len());
    for event in events {
        let mut fills = 0;
        for (index, (stage, tally)) in chain.stages.iter().zip(&mut tallies).enumerate() {
            let is_filled = match tally {
                None => event.stages() & (1 << stage.slot) != 0,
                Some(tally) => tally.take(event),
            };
            fills |= u32::from(is_filled) << index;
        }
        all.push(fills);
    }
    all
}
