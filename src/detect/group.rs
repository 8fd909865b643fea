//! The state of one group of a chain rule: a bounded window of its calls, and what was said about
//! them.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::model::{CallId, Micros, Text};

use super::chain::{Chains, Course, Event, Stubs};
use super::history::History;
use super::key::Values;
use super::outcome::Outcome;
use super::pace::Pace;
use super::stages::{Chain, MEMBER};
use super::told::{Scope, Told};
use super::touch::Ops;

/// What happened to one call in one group.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) event: Event,
    /// False where the call left the group.
    pub(super) present: bool,
}

/// The calls of a group, in order. Most groups have one.
pub(super) type Events = SmallVec<[Event; 1]>;

/// One group of a chain rule.
///
/// Matches that close before `floor` are settled: their calls are gone but for one lookback, and of
/// their episodes only the one that a later match may still join is kept. A change before the floor
/// needs the history from the store.
#[derive(Debug)]
pub(super) struct Group {
    events: Events,
    pub(super) floor: Micros,
    /// When the last of them was: to look for it among them would be to wait for memory once more.
    last_at: Micros,
    /// Few groups have any of it, and every group would pay for its size.
    rare: Option<Box<Rare>>,
    /// Calls of which only the place is held. Nothing was told of such a group.
    shrunk: u32,
    /// No fewer than the calls that the want takes which is watched; or [`UNCOUNTED`]. With a want of more than that
    /// every batch counts anew: a wider number would make every group larger for few rules.
    had: u8,
    /// The place of one of the rule's wants: while it is not met, nothing matches, whatever else there is.
    watched: u8,
    /// The last call is dated ahead of the clock.
    is_ahead: bool,
    /// Something was told of the group that still matters: kept beside what it is, which is further away.
    is_told: bool,
    /// Calls gone through, over all batches.
    #[cfg(test)]
    pub(super) walked: u64,
}

/// What is known of a group beside its calls.
#[derive(Debug, Default)]
struct Rare {
    told: Option<Box<Told>>,
    /// Of alerts on how busy the group is, where it is or was, or something of them was asked for.
    load: Option<Box<Load>>,
    /// Of a rule on sessions, which are long: how far chains had come at the floor.
    course: Option<Course>,
}

/// What was told of how busy a group is.
#[derive(Debug)]
struct Load {
    /// From when on it was asked for.
    from: Micros,
    told: Option<Told>,
}

impl Default for Load {
    fn default() -> Self {
        Self { from: Micros(i64::MIN), told: None }
    }
}

/// It is not known how many calls the watched want takes.
const UNCOUNTED: u8 = u8::MAX;

/// A call takes as much of memory as that many places of calls.
pub(super) const PLACES_OF_A_CALL: usize = 8;
/// What was told takes some three hundred bytes without its calls.
const PLACES_OF_TOLD: usize = 2;

impl Group {
    /// A group of which nothing happened within a reach before the floor.
    pub(super) const fn new(floor: Micros) -> Self {
        Self {
            events: Events::new_const(),
            floor,
            last_at: floor,
            rare: None,
            shrunk: 0,
            had: 0,
            watched: 0,
            is_ahead: false,
            is_told: false,
            #[cfg(test)]
            walked: 0,
        }
    }

    /// The group as it stood before the batch. `events` are the calls of the history that take
    /// part, in any order.
    pub(super) fn restore(scope: Scope<'_>, mut events: Vec<Event>, history: &History) -> Self {
        events.sort_by(Event::order);
        // A call can be in two answers, where a rule has aliases.
        events.dedup_by(|a, b| a.order(b).is_eq());
        let starts = history.alerts.iter().filter_map(|alert| alert.closing_at);
        let floor = starts.fold(history.need.touched, Micros::min);
        // Alerts are listed back to a reach before what is touched, and calls to a reach before the floor.
        let from = floor.max(history.need.touched.minus(history.need.reach_micros));
        let told = Some(Box::new(Told::restore(scope, &events, history, from, false)));
        let mut load = Load { from, told: None };
        if scope.load.is_some() && history.alerts.iter().any(|alert| alert.is_of_load) {
            let values = load_values(scope);
            if let Some(of_load) = scope.of_load(Values::Listed(&values)) {
                let counted = counted(scope.chain, &events);
                load.told = Some(Told::restore(of_load, &counted, history, from, true));
            }
        }
        let mut group = Self::new(floor);
        group.events = events.into();
        group.rare = Some(Box::new(Rare { told, load: Some(Box::new(load)), course: None }));
        group.had = UNCOUNTED;
        group.note_last();
        group.note_told();
        group
    }

    /// Takes a batch's changes and tells what they did to the group's alerts.
    pub(super) fn update(&mut self, scope: Scope<'_>, pace: &Pace, ops: Ops) -> Outcome {
        let revised = apply(&mut self.events, ops);
        self.had = UNCOUNTED;
        self.note_last();
        let cut = self.next_floor(pace);
        let is_quiet = self.is_quiet(scope.chain);
        #[cfg(test)]
        {
            let settled = self.events.partition_point(|event| event.at() < self.floor);
            let passed = if is_quiet { settled } else { 0 };
            self.walked += (self.events.len() - passed) as u64;
        }
        let told = self.rare.as_mut().and_then(|rare| rare.told.take());
        let mut told = told.map_or_else(|| Told::new(Micros(i64::MIN)), |told| *told);
        let (folded, mut outcome) = if is_quiet {
            told.stay(scope, cut, &revised)
        } else {
            told.renew(scope, &self.events, self.floor, cut, &revised)
        };
        if scope.chain.is_single() {
            outcome.standing.extend(told.reported.iter().map(|now| now.id));
        }
        self.renew_load(scope, cut, &revised, &mut outcome);
        told.settle(scope.chain, self.floor, cut, folded);
        self.trim(scope.chain, pace, cut, &mut Vec::new());
        self.count_shrunk();
        if !told.is_over(self.floor) {
            self.rare().told = Some(Box::new(told));
        }
        self.forget_idle_rest();
        self.note_told();
        outcome
    }

    /// Takes a batch's changes if they plainly lead to nothing, as most do: nothing was told of the group, and with
    /// them it still lacks calls that every match needs. Else gives them back. What the group has no more use for is
    /// put to `gone`.
    pub(super) fn absorb(
        &mut self,
        chain: &Chain,
        pace: &Pace,
        busy_from: u64,
        ops: Ops,
        gone: &mut Vec<Event>,
    ) -> Option<Ops> {
        let may_be_busy = (self.events.len() + ops.len()) as u64 >= busy_from;
        if self.is_told || may_be_busy || self.can_match_with(chain, pace, &ops) {
            return Some(ops);
        }
        apply(&mut self.events, ops);
        self.note_last();
        self.trim(chain, pace, self.next_floor(pace), gone);
        self.count_shrunk();
        None
    }

    /// False if with these changes, which are then taken, the group lacks calls that every match needs.
    fn can_match_with(&mut self, chain: &Chain, pace: &Pace, ops: &[Op]) -> bool {
        if pace.gap_micros.is_some() {
            return self.can_match_within(chain, ops);
        }
        let more = || ops.iter().filter(|op| op.present).map(|op| &op.event);
        let count = |of: usize| u8::try_from(of).unwrap_or(UNCOUNTED);
        if let Some(want) = pace.wants.get(usize::from(self.watched)) {
            self.had = self.had.saturating_add(count(more().filter(|one| want.takes(one)).count()));
            if self.had != UNCOUNTED && u64::from(self.had) < want.least {
                return false;
            }
        }
        for (index, want) in pace.wants.iter().enumerate().take(usize::from(u8::MAX)) {
            #[cfg(test)]
            {
                self.walked += self.events.len() as u64;
            }
            let fitting = self.events.iter().chain(more()).filter(|event| want.takes(event));
            // More than the least is as good as the least.
            let had = fitting.take(usize::try_from(want.least).unwrap_or(usize::MAX)).count();
            if (had as u64) < want.least {
                (self.had, self.watched) = (count(had), u8::try_from(index).unwrap_or(0));
                return false;
            }
        }
        true
    }

    /// The same of a rule on sessions. Of a long one only what came since the floor is gone through.
    fn can_match_within(&mut self, chain: &Chain, ops: &[Op]) -> bool {
        let more = ops.iter().filter(|op| op.present).map(|op| &op.event);
        let course = self.rare.as_ref().and_then(|rare| rare.course.as_ref());
        let known =
            course.map_or(0, |_| self.events.partition_point(|event| event.at() < self.floor));
        let since = self.events.get(known..).unwrap_or_default();
        #[cfg(test)]
        {
            self.walked += since.len() as u64;
        }
        match course {
            Some(course) => {
                let fits =
                    since.iter().chain(more).fold(course.fits, |fits, event| fits | event.stages());
                fits & chain.needed_bits() == chain.needed_bits()
            }
            None => chain.can_match(&since.iter().chain(more)),
        }
    }

    fn note_told(&mut self) {
        let has_told = self.rare.as_ref().is_some_and(|rare| rare.told.is_some());
        self.is_told = has_told || self.has_load();
    }

    /// True if it is known without a look at what came before the floor that nothing closes since.
    fn is_quiet(&self, chain: &Chain) -> bool {
        let course = self.rare.as_ref().and_then(|rare| rare.course.as_ref());
        let Some(course) = course else { return false };
        let settled = self.events.partition_point(|event| event.at() < self.floor);
        let since = self.events.get(settled..).unwrap_or_default();
        !course.clone().follow(chain, since)
    }

    /// Tells how busy the group is, where it is or was told to be.
    fn renew_load(
        &mut self,
        scope: Scope<'_>,
        cut: Micros,
        revised: &FxHashSet<CallId>,
        outcome: &mut Outcome,
    ) {
        let busy_from = scope.load.map_or(u64::MAX, |load| load.kind.threshold());
        if !self.has_load() && !self.is_busy(scope.chain, busy_from) {
            return;
        }
        let values = load_values(scope);
        let Some(of_load) = scope.of_load(Values::Listed(&values)) else { return };
        let counted = counted(scope.chain, &self.events);
        let load = self.rare.as_mut().and_then(|rare| rare.load.take());
        let mut load = load.unwrap_or_default();
        let mut told = load.told.take().unwrap_or_else(|| Told::new(load.from));
        let (folded, changed) = told.renew(of_load, &counted, self.floor, cut, revised);
        outcome.add_load(changed);
        told.settle(of_load.chain, self.floor, cut, folded);
        if !told.is_over(Micros(i64::MAX)) {
            load.told = Some(told);
        }
        let is_asked_for = load.from > Micros(i64::MIN);
        if load.told.is_some() || is_asked_for {
            self.rare().load = Some(load);
        }
    }

    /// Lets go of what says nothing any more.
    fn forget_idle_rest(&mut self) {
        let floor = self.floor;
        self.rare = self.rare.take().and_then(|mut rare| {
            rare.load.take_if(|load| load.told.is_none() && load.from <= floor);
            (!rare.is_empty()).then_some(rare)
        });
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    fn has_load(&self) -> bool {
        let load = self.rare.as_ref().and_then(|rare| rare.load.as_ref());
        load.is_some_and(|load| load.told.is_some())
    }

    /// True if there are as many calls as make the group busy. Of a long session that is not, only
    /// what came since the floor is gone through.
    fn is_busy(&mut self, chain: &Chain, busy_from: u64) -> bool {
        if (self.events.len() as u64) < busy_from {
            return false;
        }
        let settled = self.events.partition_point(|event| event.at() < self.floor);
        let (settled, since) = self.events.split_at(settled);
        if let Some(course) = self.rare.as_mut().and_then(|rare| rare.course.as_mut()) {
            if course.begun + (since.len() as u64) < busy_from {
                return false;
            }
            course.begun = counting(chain, settled);
        }
        counting(chain, settled) + counting(chain, since) >= busy_from
    }

    /// How much of memory it takes, in places of calls. It takes about as much as one itself.
    pub(super) fn weight(&self) -> usize {
        let shrunk = self.shrunk as usize;
        let own = self.events.len().saturating_sub(shrunk) * PLACES_OF_A_CALL + shrunk + 1;
        if self.is_told { own + self.weight_of_told() } else { own }
    }

    /// What was told, with the calls that it rests on, some of which the group has itself.
    fn weight_of_told(&self) -> usize {
        let Some(rare) = &self.rare else { return 0 };
        let of_load = rare.load.as_ref().and_then(|load| load.told.as_ref());
        let told = rare.told.as_deref().into_iter().chain(of_load);
        told.map(|told| told.held() * PLACES_OF_A_CALL + PLACES_OF_TOLD).sum()
    }

    /// How much it would take if it held no more than places, as far as it may.
    pub(super) fn weight_shrunk(&self) -> usize {
        if self.is_told {
            return self.weight();
        }
        self.events.len() + 1
    }

    fn count_shrunk(&mut self) {
        if self.shrunk > 0 {
            let shrunk = self.events.iter().filter(|event| event.call().is_none()).count();
            self.shrunk = u32::try_from(shrunk).unwrap_or(u32::MAX);
        }
    }

    /// Holds no more than the places of its calls, if nothing was told of it.
    pub(super) fn shrink(&mut self, stubs: &mut Stubs) {
        if !self.is_told {
            self.events.iter_mut().for_each(|event| event.shrink(stubs));
            self.shrunk = u32::try_from(self.events.len()).unwrap_or(u32::MAX);
        }
    }

    /// True if these changes lead to something for which the group lacks calls: it has to be read again.
    pub(super) fn lacks(&self, chain: &Chain, busy_from: u64, ops: &[Op]) -> bool {
        if self.shrunk == 0 {
            return false;
        }
        // What is before the floor is put right without the group, or makes it one that is read anyway.
        let since: Ops = ops.iter().filter(|op| op.event.at() >= self.floor).cloned().collect();
        if since.is_empty() {
            return false;
        }
        let may_be_busy = (self.events.len() + since.len()) as u64 >= busy_from;
        let more = since.iter().filter(|op| op.present).map(|op| &op.event);
        if !may_be_busy && !chain.can_match(&self.events.iter().chain(more)) {
            return false;
        }
        let mut events = self.events.clone();
        apply(&mut events, since);
        events.len() as u64 >= busy_from && counting(chain, &events) >= busy_from
            || !Chains::find(chain, &events, self.floor).matches.is_empty()
    }

    /// Looks at what a change to the group will be held against.
    pub(super) fn glance(&self) -> i64 {
        let at = |event: Option<&Event>| event.map_or(0, |event| event.at().0);
        let rare = self.rare.as_ref().map_or(0, |rare| i64::from(rare.course.is_some()));
        at(self.events.first()).wrapping_add(at(self.events.last())).wrapping_add(rare)
    }

    /// Puts its calls to `gone`.
    pub(super) fn empty(&mut self, gone: &mut Vec<Event>) {
        gone.extend(self.events.drain(..));
    }

    /// True if it holds the calls themselves.
    pub(super) const fn is_whole(&self) -> bool {
        self.shrunk == 0
    }

    fn note_last(&mut self) {
        let last = self.events.last();
        self.last_at = last.map_or(self.floor, Event::at);
        self.is_ahead = last.is_some_and(Event::is_future);
    }

    /// The newest call, or a time before it all.
    pub(super) fn newest(&self) -> Micros {
        if self.events.is_empty() { self.floor } else { self.last_at }
    }

    /// The newest call that is not ahead of the clock.
    pub(super) fn settled_at(&self) -> Micros {
        if !self.is_ahead {
            return self.newest();
        }
        let newest = self.events.iter().rev().find(|event| !event.is_future());
        newest.map_or(self.floor, Event::at)
    }

    /// The newest call, for whom it is a reach away. What comes a gap after a session of which nothing was told begins
    /// another one: such a group is let go as if its calls were that much older.
    pub(super) fn felt_at(&self, pace: &Pace) -> Micros {
        let newest = self.newest().max(self.floor);
        // How long after its newest call the group concerns nothing, where that is sooner than a reach.
        match pace.gap_micros.filter(|_| !self.is_told) {
            Some(gap) => newest.min(newest.plus(gap).minus(pace.reach_micros)),
            None => newest,
        }
    }

    /// As [`Self::felt_at`], if nothing that is to be expected by then can concern the group any more. One with a call
    /// dated in the future is never idle: were it let go, every new group would have to ask the store for its past.
    pub(super) fn idle_since(&self, pace: &Pace, watermark: Micros) -> Option<Micros> {
        let idle = if self.is_told { pace.idle_micros } else { pace.spent_idle_micros };
        let newest = self.newest().max(self.floor);
        (newest < watermark.minus(idle)).then(|| self.felt_at(pace))
    }

    fn next_floor(&self, pace: &Pace) -> Micros {
        self.floor.max(self.settled_at().minus(pace.lag_micros))
    }

    /// Moves the floor to `cut`: what is before it is settled.
    fn trim(&mut self, chain: &Chain, pace: &Pace, cut: Micros, gone: &mut Vec<Event>) {
        if cut <= self.floor {
            return;
        }
        let context = cut.minus(pace.lookback_micros);
        if let Some(gap) = pace.gap_micros {
            let settled = self.events.partition_point(|event| event.at() < self.floor);
            let to_settle = self.events.partition_point(|event| event.at() < cut);
            let past = self.events.partition_point(|event| event.at() < context);
            // What a course has passed is thinned.
            let course = self.rare.as_mut().and_then(|rare| rare.course.take());
            let known = if course.is_some() { settled } else { 0 };
            let mut course = course.unwrap_or_else(|| Course::new(chain));
            course.follow(chain, self.events.get(known..to_settle).unwrap_or_default());
            self.rare().course = Some(course);
            self.floor = cut;
            gone.extend(self.events.drain(..past));
            self.thin(gap, known.saturating_sub(past), gone);
            self.note_last();
            return;
        }
        self.floor = cut;
        let past = self.events.iter().take_while(|event| event.at() < context).count();
        if past > 0 {
            let want = pace.wants.get(usize::from(self.watched));
            let past = self.events.drain(..past);
            gone.extend(past.inspect(|event| {
                if self.had != UNCOUNTED && want.is_some_and(|want| want.takes(event)) {
                    self.had = self.had.saturating_sub(1);
                }
            }));
        }
    }
}

impl Rare {
    const fn is_empty(&self) -> bool {
        self.told.is_none() && self.load.is_none() && self.course.is_none()
    }
}

/// The values that name a group among those of all rules.
fn load_values(scope: Scope<'_>) -> Vec<Text> {
    std::iter::once(Text::clone(&scope.rule.name)).chain(scope.values.list()).collect()
}

/// The calls that make a group busy: those that fill something, and of a session, which is thinned,
/// those that a chain starts with. The others stay as what keeps the session going.
fn counted(chain: &Chain, events: &[Event]) -> Vec<Event> {
    let counted = |event: &Event| event.with_stages(u32::from(counts(chain, event)));
    events.iter().map(counted).collect()
}

/// How many of the calls make the group busy.
fn counting(chain: &Chain, events: &[Event]) -> u64 {
    events.iter().filter(|event| counts(chain, event)).count() as u64
}

fn counts(chain: &Chain, event: &Event) -> bool {
    let wanted = if chain.gap_micros().is_some() { 1 } else { !MEMBER };
    event.stages() & wanted != 0
}

impl Group {
    /// Of the calls before the floor, keeps what a later match can still rest on: nothing of a
    /// session that has ended or has no call yet that a chain starts with, and of the calls that
    /// only keep it going as many as show that it did. The first `known` were thinned before.
    fn thin(&mut self, gap_micros: i64, known: usize, gone: &mut Vec<Event>) {
        let floor = self.floor;
        let is_start = |event: &Event| event.stages() & 1 != 0;
        let before_floor = self.events.partition_point(|event| event.at() < floor);
        let first = self.events.iter().take(before_floor).position(is_start);
        let first = first.unwrap_or(before_floor);
        gone.extend(self.events.drain(..first));
        let settled = before_floor - first;
        // The last one is looked at again: only now it is known what it leads to.
        let known = known.saturating_sub(first).saturating_sub(1);
        let mut kept = known;
        for index in known..settled {
            let next = self.events.get(index + 1).filter(|_| index + 1 < settled);
            let is_last = next.is_none();
            let next_at = next.map_or(floor, Event::at);
            let leads_on = |kept: usize, events: &[Event]| {
                let last = kept.checked_sub(1).and_then(|last| events.get(last));
                last.is_some_and(|last| next_at.since(last.at()) > gap_micros)
            };
            let Some(event) = self.events.get(index) else { break };
            let is_bridge = is_last || leads_on(kept, &self.events);
            if is_start(event) || kept > 0 && (event.stages() != MEMBER || is_bridge) {
                self.events.swap(kept, index);
                kept += 1;
            }
            if leads_on(kept, &self.events) {
                kept = 0;
            }
        }
        gone.extend(self.events.drain(kept..settled.max(kept)));
    }
}

/// Puts changes in scope among ordered events; returns the calls that stayed and whose content
/// changed.
pub(super) fn apply(events: &mut Events, mut ops: Ops) -> FxHashSet<CallId> {
    let mut revised = FxHashSet::default();
    if ops.len() > 1 {
        // Stable: of several changes to one call, the last one holds.
        ops.sort_by(|a, b| a.event.order(&b.event));
    }
    let Some(first) = ops.first() else {
        return revised;
    };
    let is_last = events.last().is_none_or(|last| last.order(&first.event).is_lt());
    let is_new =
        |pair: &[Op]| matches!(pair, [one, other] if one.event.order(&other.event).is_lt());
    if is_last && ops.iter().all(|op| op.present) && ops.windows(2).all(is_new) {
        grow(events, ops.len());
        events.extend(ops.into_iter().map(|op| op.event));
        return revised;
    }
    let keep = events.partition_point(|event| event.order(&first.event).is_lt());
    let mut rest = events.drain(keep..).collect::<Events>().into_iter().peekable();
    grow(events, ops.len() + rest.len());
    let mut ops = ops.into_iter().peekable();
    while let Some(op) = ops.next() {
        if ops.peek().is_some_and(|next| next.event.order(&op.event).is_eq()) {
            continue;
        }
        while let Some(event) = rest.next_if(|event| event.order(&op.event).is_lt()) {
            events.push(event);
        }
        let former = rest.next_if(|event| event.order(&op.event).is_eq());
        if op.present {
            if former.is_some_and(|former| former.call() != op.event.call()) {
                revised.insert(op.event.id());
            }
            events.push(op.event);
        }
    }
    events.extend(rest);
    revised
}

/// Makes room. Most groups have one call: room for four would be most of what they take.
fn grow(events: &mut Events, more: usize) {
    if events.capacity() - events.len() < more {
        events.reserve_exact(more.max(events.len() / 2));
    }
}
