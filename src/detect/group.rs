//! The state of one group of a chain rule: a bounded window of its calls, and what was said about
//! them.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{AlertId, CallId, Micros, Text};

use super::chain::{Chains, Event};
use super::episode::{Episode, Reported};
use super::history::History;
use super::outcome::{Gone, Outcome, Set};
use super::rule::Rule;
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
    /// The episode open at the floor, as far as its matches close before it. Few groups have one,
    /// and every group would pay for its size.
    open: Option<Box<Episode>>,
    /// The episodes that a fold from the floor shows, as last reported, in order.
    reported: Vec<Reported>,
}

/// A rule with its chain and the values of one of its groups.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) rule: &'a Rule,
    pub(super) chain: &'a Chain,
    pub(super) key: &'a [Text],
}

/// Calls later than this are taken without a look into the store even by rules with a short reach.
const LATE_MIN_MICROS: i64 = Micros::MINUTE;

/// Calls later than this need a look into the store even by rules with a long reach: what is kept
/// for them is every call of the group.
const LATE_MAX_MICROS: i64 = 6 * Micros::MINUTE;

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
        Self { events: Vec::new(), floor, open: None, reported: Vec::new() }
    }

    /// The group as it stood before the batch. `events` are the calls of the history that take
    /// part, in any order.
    pub(super) fn restore(scope: Scope<'_>, mut events: Vec<Event>, history: &History) -> Self {
        events.sort_by(Event::order);
        // A call can be in two answers, where a rule has aliases.
        events.dedup_by(|a, b| a.order(b).is_eq());
        let starts = history.alerts.iter().filter_map(|alert| alert.closing_at);
        let floor = starts.fold(history.need.touched, Micros::min);
        let before = fold(scope.chain, &events, floor, None, floor);
        let shown: FxHashMap<AlertId, Reported> = before
            .episodes
            .iter()
            .map(|episode| episode.reported(scope.rule, scope.key))
            .map(|shown| (shown.id, shown))
            .collect();
        // An alert that the history does not bear out stays without a fingerprint: it is reported
        // anew or retracted.
        let mut reported: Vec<Reported> = history
            .alerts
            .iter()
            .filter_map(|known| {
                let known = known.reported()?;
                let shown = shown.get(&known.id).filter(|shown| shown.agrees(&known));
                Some(shown.cloned().unwrap_or(known))
            })
            .collect();
        reported.sort_by_key(|reported| reported.last_seen);
        Self { events, floor, open: None, reported }
    }

    /// Takes a batch's changes and tells what they did to the group's alerts.
    pub(super) fn update(&mut self, scope: Scope<'_>, ops: Vec<Op>) -> Outcome {
        let revised = apply(&mut self.events, ops);
        let cut = self.next_floor(scope.chain);
        let open = self.open.take().map(|open| *open);
        let folded = fold(scope.chain, &self.events, self.floor, open, cut);
        let now: Vec<Reported> =
            folded.episodes.iter().map(|episode| episode.reported(scope.rule, scope.key)).collect();
        let mut outcome = compare(scope, &self.reported, &now, &folded.episodes, &revised);
        if scope.chain.is_single() {
            outcome.standing.extend(now.iter().map(|now| now.id));
        }
        self.reported = now;
        self.trim(scope.chain, cut, folded);
        outcome
    }

    /// The newest call, if it is older than `before`. A group with a call dated in the future is
    /// never idle: were it let go, every new group would have to ask the store for its past.
    pub(super) fn idle_since(&self, before: Micros) -> Option<Micros> {
        let newest = self.events.last().map_or(self.floor, |event| event.at.max(self.floor));
        (newest < before).then_some(newest)
    }

    fn next_floor(&self, chain: &Chain) -> Micros {
        let newest = self.events.iter().rev().find(|event| !event.is_future());
        newest.map_or(self.floor, |event| self.floor.max(event.at.minus(lag_micros(chain))))
    }

    /// Moves the floor to `cut`: what is before it is settled.
    fn trim(&mut self, chain: &Chain, cut: Micros, folded: Folded) {
        self.open = folded.open.map(Box::new);
        if cut <= self.floor {
            return;
        }
        self.floor = cut;
        let context = cut.minus(chain.lookback_micros());
        let open_from = self.open.as_ref().map(|open| open.span.first_at);
        if let Some(open) = &mut self.open {
            open.settle(context);
        }
        let gone = self.events.partition_point(|event| event.at < context);
        self.events.drain(..gone);
        if let Some(gap) = chain.gap_micros() {
            self.thin(gap);
        }
        let mut episodes = folded.episodes.iter();
        self.reported.retain(|reported| {
            let from = episodes.next().map(|episode| episode.span.first_at);
            reported.last_seen >= cut || (from.is_some() && from == open_from)
        });
    }
}

impl Group {
    /// Of the calls before the floor, keeps what a later match can still rest on: nothing of a
    /// session that has ended or has no call yet that a chain starts with, and of the calls that
    /// only keep it going as many as show that it did.
    fn thin(&mut self, gap_micros: i64) {
        let settled = self.events.partition_point(|event| event.at < self.floor);
        let mut later = self.events.split_off(settled);
        let mut kept: Vec<Event> = Vec::new();
        for (index, event) in self.events.iter().enumerate() {
            let next = self.events.get(index + 1);
            let next_at = next.map_or(self.floor, |next| next.at);
            // Nobody knows yet what the last one leads to.
            let is_bridge = next.is_none()
                || kept.last().is_some_and(|last| next_at.since(last.at) > gap_micros);
            let is_start = event.stages & 1 != 0;
            if is_start || !kept.is_empty() && (event.stages != MEMBER || is_bridge) {
                kept.push(event.clone());
            }
            if kept.last().is_some_and(|last| next_at.since(last.at) > gap_micros) {
                kept.clear();
            }
        }
        kept.append(&mut later);
        self.events = kept;
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
            if former.is_some_and(|former| former.call != op.event.call) {
                revised.insert(op.event.call.id);
            }
            events.push(op.event);
        }
    }
    events.extend(rest);
    revised
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
        let is_new = overlapping(former, shown).is_none();
        let alert = Box::new(episode.alert(scope.rule, scope.key));
        outcome.set.push(Set { alert, is_new, replaces });
    }
    outcome
}

/// The first of some reported episodes, in order of their ends, that shares time with another.
fn overlapping<'a>(reported: &'a [Reported], other: &Reported) -> Option<&'a Reported> {
    let from = reported.partition_point(|reported| reported.last_seen < other.first_seen);
    reported.get(from).filter(|reported| reported.overlaps(other))
}
