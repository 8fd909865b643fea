//! The state of one group of a chain rule: a bounded window of its calls, and what was said about
//! them.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{AlertId, CallId, Micros, Text};

use super::chain::{Chains, Course, Event};
use super::episode::{Episode, Reported};
use super::history::History;
use super::outcome::{Gone, Outcome, Set};
use super::rule::{Kind, Rule};
use super::stages::{Chain, MEMBER};

/// What happened to one call in one group.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) event: Event,
    /// False where the call left the group.
    pub(super) present: bool,
}

/// One group of a chain rule.
///
/// Matches that close before `floor` are settled: their calls are gone but for one lookback, and of
/// their episodes only the one that a later match may still join is kept. A change before the floor
/// needs the history from the store.
#[derive(Debug)]
pub(super) struct Group {
    events: Vec<Event>,
    pub(super) floor: Micros,
    /// Of few groups anything was told, and every group would pay for its size.
    told: Option<Box<Told>>,
    /// Of alerts on how busy the group is, where it is or was, or something of them was asked for.
    load: Option<Box<Load>>,
    /// Of a rule on sessions, which are long: how far chains had come at the floor.
    course: Option<Box<Course>>,
    /// Calls of which only the place is held. Nothing was told of such a group.
    shrunk: u32,
    /// Calls gone through, over all batches.
    #[cfg(test)]
    pub(super) walked: u64,
}

/// What was told of a group's episodes.
#[derive(Debug)]
struct Told {
    /// Matches that close before it were told, and nothing that happens can change them.
    from: Micros,
    /// The episode open at the floor, as far as its matches close before it.
    open: Option<Episode>,
    /// The episodes that a fold from the floor shows, as last reported, in order.
    reported: Vec<Reported>,
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

/// A rule with its chain and the values of one of its groups.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) rule: &'a Rule,
    pub(super) chain: &'a Chain,
    pub(super) key: &'a [Text],
    /// What tells how busy the group is.
    pub(super) load: Option<&'a Rule>,
}

/// Calls later than this are taken without a look into the store even by rules with a short reach.
const LATE_MIN_MICROS: i64 = Micros::MINUTE;

/// Calls later than this need a look into the store even by rules with a long reach: what is kept
/// for them is every call of the group.
const LATE_MAX_MICROS: i64 = 6 * Micros::MINUTE;

/// A call takes as much of memory as that many places of calls.
const PLACES_OF_A_CALL: usize = 8;

/// How far the floor of a group follows its newest call, in microseconds.
fn lag_micros(chain: &Chain) -> i64 {
    let lag = chain.reach_micros().saturating_add(LATE_MIN_MICROS);
    if lag < LATE_MAX_MICROS { lag } else { LATE_MAX_MICROS }
}

/// A group idle for this long is let go, in microseconds. Twice the reach, so that a group that is
/// new to memory is mostly known to be new to the store as well.
pub(super) fn idle_micros(chain: &Chain) -> i64 {
    chain.reach_micros().saturating_mul(2).saturating_add(LATE_MIN_MICROS)
}

impl Group {
    /// A group of which nothing happened within a reach before the floor.
    pub(super) const fn new(floor: Micros) -> Self {
        Self {
            events: Vec::new(),
            floor,
            told: None,
            load: None,
            course: None,
            shrunk: 0,
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
        let mut load = None;
        if scope.load.is_some() && history.alerts.iter().any(|alert| alert.is_of_load) {
            let key = load_key(scope);
            if let Some(of_load) = scope.of_load(&key) {
                let counted = counted(scope.chain, &events);
                load = Some(Told::restore(of_load, &counted, history, from, true));
            }
        }
        Self {
            events,
            floor,
            told,
            load: Some(Box::new(Load { from, told: load })),
            course: None,
            shrunk: 0,
            #[cfg(test)]
            walked: 0,
        }
    }

    /// Takes a batch's changes and tells what they did to the group's alerts.
    pub(super) fn update(&mut self, scope: Scope<'_>, ops: Vec<Op>) -> Outcome {
        let revised = apply(&mut self.events, ops);
        let cut = self.next_floor(scope.chain);
        let is_quiet = self.is_quiet(scope.chain);
        #[cfg(test)]
        {
            let settled = self.events.partition_point(|event| event.at < self.floor);
            let passed = if is_quiet { settled } else { 0 };
            self.walked += (self.events.len() - passed) as u64;
        }
        let told = self.told.take();
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
        self.trim(scope.chain, cut);
        if self.shrunk > 0 {
            let shrunk = self.events.iter().filter(|event| event.call().is_none()).count();
            self.shrunk = u32::try_from(shrunk).unwrap_or(u32::MAX);
        }
        if !told.is_over(self.floor) {
            self.told = Some(Box::new(told));
        }
        outcome
    }

    /// True if it is known without a look at what came before the floor that nothing closes since.
    fn is_quiet(&self, chain: &Chain) -> bool {
        let Some(course) = &self.course else { return false };
        let settled = self.events.partition_point(|event| event.at < self.floor);
        let since = self.events.get(settled..).unwrap_or_default();
        !Course::clone(course).follow(chain, since)
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
        let key = load_key(scope);
        let Some(of_load) = scope.of_load(&key) else { return };
        let counted = counted(scope.chain, &self.events);
        let mut load = self.load.take().unwrap_or_default();
        let mut told = load.told.take().unwrap_or_else(|| Told::new(load.from));
        let (folded, changed) = told.renew(of_load, &counted, self.floor, cut, revised);
        outcome.add_load(changed);
        told.settle(of_load.chain, self.floor, cut, folded);
        if !told.is_over(Micros(i64::MAX)) {
            load.told = Some(told);
        }
        let is_asked_for = load.from > Micros(i64::MIN);
        self.load = Some(load).filter(|load| load.told.is_some() || is_asked_for);
    }

    fn has_load(&self) -> bool {
        self.load.as_ref().is_some_and(|load| load.told.is_some())
    }

    /// True if there are as many calls as make the group busy. Of a long session that is not, only
    /// what came since the floor is gone through.
    fn is_busy(&mut self, chain: &Chain, busy_from: u64) -> bool {
        if (self.events.len() as u64) < busy_from {
            return false;
        }
        let count =
            |events: &[Event]| events.iter().filter(|event| counts(chain, event)).count() as u64;
        let settled = self.events.partition_point(|event| event.at < self.floor);
        let (settled, since) = self.events.split_at(settled);
        if let Some(course) = &mut self.course {
            if course.begun + (since.len() as u64) < busy_from {
                return false;
            }
            course.begun = count(settled);
        }
        count(settled) + count(since) >= busy_from
    }

    /// How much of memory it takes, in calls.
    pub(super) fn weight(&self) -> usize {
        let shrunk = self.shrunk as usize;
        self.events.len().saturating_sub(shrunk) + shrunk / PLACES_OF_A_CALL + 1
    }

    /// How much it would take if it held no more than places, as far as it may.
    pub(super) fn weight_shrunk(&self) -> usize {
        if self.told.is_some() || self.has_load() {
            return self.weight();
        }
        self.events.len() / PLACES_OF_A_CALL + 1
    }

    /// Holds no more than the places of its calls, if nothing was told of it.
    pub(super) fn shrink(&mut self) {
        if self.told.is_none() && !self.has_load() {
            self.events.iter_mut().for_each(|event| _ = event.shrink());
            self.shrunk = u32::try_from(self.events.len()).unwrap_or(u32::MAX);
        }
    }

    /// True if these changes lead to something for which the group lacks calls: it has to be read again.
    pub(super) fn lacks(
        &self,
        chain: &Chain,
        busy_from: u64,
        earliest: Micros,
        ops: &[Op],
    ) -> bool {
        if self.shrunk == 0 {
            return false;
        }
        if earliest < self.floor {
            return true;
        }
        let mut events = self.events.clone();
        apply(&mut events, ops.to_vec());
        events.len() as u64 >= busy_from
            || !Chains::find(chain, &events, self.floor).matches.is_empty()
    }

    /// True if calls of it are lacking.
    pub(super) const fn is_shrunk(&self) -> bool {
        self.shrunk > 0
    }

    /// The newest call, or a time before it all.
    pub(super) fn newest(&self) -> Micros {
        self.events.last().map_or(self.floor, |event| event.at)
    }

    /// The newest call that is not ahead of the clock.
    pub(super) fn settled_at(&self) -> Micros {
        let newest = self.events.iter().rev().find(|event| !event.is_future());
        newest.map_or(self.floor, |event| event.at)
    }

    /// The newest call, for whom it is a reach away. What comes a gap after a session of which nothing was told begins
    /// another one: such a group is let go as if its calls were that much older.
    pub(super) fn felt_at(&self, chain: &Chain) -> Micros {
        let newest = self.newest().max(self.floor);
        match self.spent_micros(chain) {
            Some(gap) => newest.min(newest.plus(gap).minus(chain.reach_micros())),
            None => newest,
        }
    }

    /// As [`Self::felt_at`], if nothing that is to be expected by then can concern the group any more. One with a call
    /// dated in the future is never idle: were it let go, every new group would have to ask the store for its past.
    pub(super) fn idle_since(&self, chain: &Chain, watermark: Micros) -> Option<Micros> {
        let idle = self.spent_micros(chain).map(|gap| gap.saturating_add(LATE_MAX_MICROS));
        let idle = idle_micros(chain).min(idle.unwrap_or(i64::MAX));
        let newest = self.newest().max(self.floor);
        (newest < watermark.minus(idle)).then(|| self.felt_at(chain))
    }

    /// How long after its newest call the group concerns nothing, where that is sooner than a reach.
    fn spent_micros(&self, chain: &Chain) -> Option<i64> {
        chain.gap_micros().filter(|_| self.told.is_none() && !self.has_load())
    }

    fn next_floor(&self, chain: &Chain) -> Micros {
        let newest = self.events.iter().rev().find(|event| !event.is_future());
        newest.map_or(self.floor, |event| self.floor.max(event.at.minus(lag_micros(chain))))
    }

    /// Moves the floor to `cut`: what is before it is settled.
    fn trim(&mut self, chain: &Chain, cut: Micros) {
        if cut <= self.floor {
            return;
        }
        let settled = self.events.partition_point(|event| event.at < self.floor);
        let to_settle = self.events.partition_point(|event| event.at < cut);
        let context = cut.minus(chain.lookback_micros());
        let gone = self.events.partition_point(|event| event.at < context);
        if let Some(gap) = chain.gap_micros() {
            // What a course has passed is thinned.
            let known = if self.course.is_some() { settled } else { 0 };
            let mut course = self.course.take().unwrap_or_else(|| Box::new(Course::new(chain)));
            course.follow(chain, self.events.get(known..to_settle).unwrap_or_default());
            self.course = Some(course);
            self.floor = cut;
            self.events.drain(..gone);
            self.thin(gap, known.saturating_sub(gone));
        } else {
            self.floor = cut;
            self.events.drain(..gone);
        }
    }
}

impl Told {
    const fn new(from: Micros) -> Self {
        Self { from, open: None, reported: Vec::new() }
    }

    /// True if nothing that happens from the floor on can concern what was told.
    const fn is_over(&self, floor: Micros) -> bool {
        self.open.is_none() && self.reported.is_empty() && self.from.0 <= floor.0
    }

    /// What was told before, where the calls up to then bear it out. From `from` on all of it is listed.
    fn restore(
        scope: Scope<'_>,
        events: &[Event],
        history: &History,
        from: Micros,
        is_of_load: bool,
    ) -> Self {
        let listed = || history.alerts.iter().filter(|alert| alert.is_of_load == is_of_load);
        // Alerts of the other kind can reach further back than what is listed of this one.
        let starts = listed().filter_map(|alert| alert.closing_at);
        let from = starts.fold(from, Micros::min);
        let before = fold(scope.chain, events, from, None, from);
        let shown: FxHashMap<AlertId, Reported> = before
            .episodes
            .iter()
            .map(|episode| episode.reported(scope.rule, scope.key))
            .map(|shown| (shown.id, shown))
            .collect();
        // An alert that the history does not bear out stays without a fingerprint: it is reported
        // anew or retracted.
        let mut reported: Vec<Reported> = listed()
            .filter_map(|known| {
                let known = known.reported()?;
                let shown = shown.get(&known.id).filter(|shown| shown.agrees(&known));
                Some(shown.cloned().unwrap_or(known))
            })
            .collect();
        reported.sort_by_key(|reported| reported.last_seen);
        Self { from, open: None, reported }
    }

    /// Tells what is otherwise than it was told.
    fn renew(
        &mut self,
        scope: Scope<'_>,
        events: &[Event],
        floor: Micros,
        cut: Micros,
        revised: &FxHashSet<CallId>,
    ) -> (Settled, Outcome) {
        let floor = floor.max(self.from);
        let folded = fold(scope.chain, events, floor, self.open.take(), cut);
        let outcome = self.tell(scope, &folded.episodes, revised);
        let starts = folded.episodes.iter().map(|episode| episode.span.first_at).collect();
        (Settled { open: folded.open, starts }, outcome)
    }

    /// As [`Self::renew`], where it is known that nothing closes from the floor on.
    fn stay(
        &mut self,
        scope: Scope<'_>,
        cut: Micros,
        revised: &FxHashSet<CallId>,
    ) -> (Settled, Outcome) {
        let open = self.open.take();
        let outcome = self.tell(scope, open.as_slice(), revised);
        let starts = open.iter().map(|open| open.span.first_at).collect();
        let open = open.filter(|open| open.span.takes(cut, scope.chain.quiet_micros));
        (Settled { open, starts }, outcome)
    }

    fn tell(
        &mut self,
        scope: Scope<'_>,
        episodes: &[Episode],
        revised: &FxHashSet<CallId>,
    ) -> Outcome {
        let now: Vec<Reported> =
            episodes.iter().map(|episode| episode.reported(scope.rule, scope.key)).collect();
        let outcome = compare(scope, &self.reported, &now, episodes, revised);
        self.reported = now;
        outcome
    }

    /// Forgets what no change from `cut` on can concern, where the floor moves there.
    fn settle(&mut self, chain: &Chain, floor: Micros, cut: Micros, settled: Settled) {
        self.open = settled.open;
        if cut <= floor {
            return;
        }
        let open_from = self.open.as_ref().map(|open| open.span.first_at);
        if let Some(open) = &mut self.open {
            open.settle(cut.minus(chain.lookback_micros()));
        }
        let mut starts = settled.starts.into_iter();
        self.reported.retain(|reported| {
            let from = starts.next();
            reported.last_seen >= cut || (from.is_some() && from == open_from)
        });
    }
}

impl<'a> Scope<'a> {
    /// That of the rule which tells how busy the group is.
    fn of_load(&self, key: &'a [Text]) -> Option<Self> {
        let rule = self.load?;
        let Kind::Chain(chain) = &rule.kind else { return None };
        Some(Self { rule, chain, key, load: None })
    }
}

/// Names a group among those of all rules.
fn load_key(scope: Scope<'_>) -> Vec<Text> {
    std::iter::once(&scope.rule.name).chain(scope.key).cloned().collect()
}

/// The calls that make a group busy: those that fill something, and of a session, which is thinned,
/// those that a chain starts with. The others stay as what keeps the session going.
fn counted(chain: &Chain, events: &[Event]) -> Vec<Event> {
    let counted = |event: &Event| {
        let mut event = event.clone();
        event.stages = u32::from(counts(chain, &event));
        event
    };
    events.iter().map(counted).collect()
}

fn counts(chain: &Chain, event: &Event) -> bool {
    let wanted = if chain.gap_micros().is_some() { 1 } else { !MEMBER };
    event.stages & wanted != 0
}

impl Group {
    /// Of the calls before the floor, keeps what a later match can still rest on: nothing of a
    /// session that has ended or has no call yet that a chain starts with, and of the calls that
    /// only keep it going as many as show that it did. The first `known` were thinned before.
    fn thin(&mut self, gap_micros: i64, known: usize) {
        let floor = self.floor;
        let is_start = |event: &Event| event.stages & 1 != 0;
        let before_floor = self.events.partition_point(|event| event.at < floor);
        let first = self.events.iter().take(before_floor).position(is_start);
        let first = first.unwrap_or(before_floor);
        self.events.drain(..first);
        let settled = before_floor - first;
        // The last one is looked at again: only now it is known what it leads to.
        let known = known.saturating_sub(first).saturating_sub(1);
        let mut kept = known;
        for index in known..settled {
            let next = self.events.get(index + 1).filter(|_| index + 1 < settled);
            let is_last = next.is_none();
            let next_at = next.map_or(floor, |next| next.at);
            let leads_on = |kept: usize, events: &[Event]| {
                let last = kept.checked_sub(1).and_then(|last| events.get(last));
                last.is_some_and(|last| next_at.since(last.at) > gap_micros)
            };
            let Some(event) = self.events.get(index) else { break };
            let is_bridge = is_last || leads_on(kept, &self.events);
            if is_start(event) || kept > 0 && (event.stages != MEMBER || is_bridge) {
                self.events.swap(kept, index);
                kept += 1;
            }
            if leads_on(kept, &self.events) {
                kept = 0;
            }
        }
        self.events.drain(kept..settled.max(kept));
    }
}

/// Puts changes in scope among ordered events; returns the calls that stayed and whose content
/// changed.
pub(super) fn apply(events: &mut Vec<Event>, mut ops: Vec<Op>) -> FxHashSet<CallId> {
    // Stable: of several changes to one call, the last one holds.
    ops.sort_by(|a, b| a.event.order(&b.event));
    let mut revised = FxHashSet::default();
    let Some(first) = ops.first() else {
        return revised;
    };
    let keep = events.partition_point(|event| event.order(&first.event).is_lt());
    let mut rest = events.split_off(keep).into_iter().peekable();
    // Most groups have one call: room for four would be most of what they take.
    events.reserve_exact((ops.len() + rest.len()).max(events.len() / 4));
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

/// What goes on behind the new floor.
struct Settled {
    /// The episode open at the cut, as far as its matches close before the cut.
    open: Option<Episode>,
    /// When the first match of each episode that was told closes.
    starts: Vec<Micros>,
}

/// The episodes from a floor on.
struct Folded {
    episodes: Vec<Episode>,
    /// The episode open at the cut, as far as its matches close before the cut.
    open: Option<Episode>,
}

/// Folds the matches from `floor` on into episodes, from left to right.
fn fold(
    chain: &Chain,
    events: &[Event],
    floor: Micros,
    open: Option<Episode>,
    cut: Micros,
) -> Folded {
    let chains = Chains::find(chain, events, floor);
    let mut rest = chains.matches.as_slice();
    let mut folded = Folded { episodes: Vec::new(), open: None };
    let mut current = open;
    let mut is_cut = false;
    while let Some(&first) = rest.first() {
        let at = events[first].at;
        if at >= cut && !is_cut {
            is_cut = true;
            folded.open = still_open(current.as_ref(), chain, cut);
        }
        let mut episode = match current.take() {
            Some(episode) if episode.span.takes(at, chain.quiet_micros) => episode,
            other => {
                folded.episodes.extend(other);
                Episode::open(chain, &chains, events, first)
            }
        };
        let mut span = episode.span;
        let more = rest.iter().take_while(|index| {
            let at = events[**index].at;
            let belongs = span.takes(at, chain.quiet_micros) && (is_cut || at < cut);
            span.last_at = at;
            belongs
        });
        let (run, after) = rest.split_at(more.count());
        episode.add(&chains, events, run);
        current = Some(episode);
        rest = after;
    }
    if !is_cut {
        folded.open = still_open(current.as_ref(), chain, cut);
    }
    folded.episodes.extend(current);
    folded
}

fn still_open(episode: Option<&Episode>, chain: &Chain, cut: Micros) -> Option<Episode> {
    episode.filter(|episode| episode.span.takes(cut, chain.quiet_micros)).cloned()
}

/// What became of the former alerts, and what is new. `now` describes `episodes`, in order.
fn compare(
    scope: Scope<'_>,
    former: &[Reported],
    now: &[Reported],
    episodes: &[Episode],
    revised: &FxHashSet<CallId>,
) -> Outcome {
    let current: FxHashSet<AlertId> = now.iter().map(|now| now.id).collect();
    let known: FxHashMap<AlertId, &Reported> =
        former.iter().map(|former| (former.id, former)).collect();
    let mut outcome = Outcome::default();
    let mut replaces: FxHashMap<AlertId, Vec<AlertId>> = FxHashMap::default();
    for gone in former.iter().filter(|former| !current.contains(&former.id)) {
        match overlapping(now, gone) {
            Some(successor) => replaces.entry(successor.id).or_default().push(gone.id),
            None => outcome.gone.push(Gone { id: gone.id, closing: gone.closing }),
        }
    }
    for (shown, episode) in now.iter().zip(episodes) {
        let replaces = replaces.remove(&shown.id).unwrap_or_default();
        let is_told = known.get(&shown.id).is_some_and(|known| {
            known.fingerprint.is_some() && known.fingerprint == shown.fingerprint
        });
        let is_revised = !revised.is_empty() && episode.rests_on(revised);
        if is_told && replaces.is_empty() && !is_revised {
            continue;
        }
        let is_new = replaces.is_empty() && !goes_on(former, shown);
        let alert = episode.alert(scope.rule, scope.key).map(Box::new);
        outcome.set.extend(alert.map(|alert| Set { alert, is_new, replaces }));
    }
    outcome
}

/// Whether the matches of some reported episode, in order of their ends, share time with those of another. Two may rest
/// on one call long before, and are two all the same.
fn goes_on(reported: &[Reported], other: &Reported) -> bool {
    let from = reported.partition_point(|reported| reported.last_seen < other.closing_at);
    reported.get(from).is_some_and(|reported| reported.closing_at <= other.last_seen)
}

/// The first of some reported episodes, in order of their ends, that shares time with another.
fn overlapping<'a>(reported: &'a [Reported], other: &Reported) -> Option<&'a Reported> {
    let from = reported.partition_point(|reported| reported.last_seen < other.first_seen);
    reported.get(from).filter(|reported| reported.overlaps(other))
}
