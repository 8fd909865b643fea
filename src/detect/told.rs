//! What was told of a group's episodes, and what is told anew.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{AlertId, CallId, Micros};

use super::chain::{Chains, Event};
use super::episode::{Episode, Reported};
use super::history::History;
use super::key::Values;
use super::outcome::{Gone, Outcome, Set};
use super::rule::{Kind, Rule};
use super::stages::Chain;

/// What was told of a group's episodes.
#[derive(Debug)]
pub(super) struct Told {
    /// Matches that close before it were told, and nothing that happens can change them.
    from: Micros,
    /// The episode open at the floor, as far as its matches close before it.
    open: Option<Episode>,
    /// The episodes that a fold from the floor shows, as last reported, in order.
    pub(super) reported: Vec<Reported>,
}

/// A rule with its chain and the values of one of its groups.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) rule: &'a Rule,
    pub(super) chain: &'a Chain,
    pub(super) values: Values<'a>,
    /// What tells how busy the group is.
    pub(super) load: Option<&'a Rule>,
}

impl Told {
    pub(super) const fn new(from: Micros) -> Self {
        Self { from, open: None, reported: Vec::new() }
    }

    /// How many calls are held for what is open.
    pub(super) fn held(&self) -> usize {
        self.open.as_ref().map_or(0, Episode::held)
    }

    /// True if nothing that happens from the floor on can concern what was told.
    pub(super) const fn is_over(&self, floor: Micros) -> bool {
        self.open.is_none() && self.reported.is_empty() && self.from.0 <= floor.0
    }

    /// What was told before, where the calls up to then bear it out. From `from` on all of it is listed.
    pub(super) fn restore(
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
        let shown = reported(scope, &before.episodes).into_iter();
        let shown: FxHashMap<AlertId, Reported> = shown.map(|shown| (shown.id, shown)).collect();
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
    pub(super) fn renew(
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
    pub(super) fn stay(
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
        let now = reported(scope, episodes);
        let outcome = compare(scope, &self.reported, &now, episodes, revised);
        self.reported = now;
        outcome
    }

    /// Forgets what no change from `cut` on can concern, where the floor moves there.
    pub(super) fn settle(&mut self, chain: &Chain, floor: Micros, cut: Micros, settled: Settled) {
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
    pub(super) fn of_load(&self, values: Values<'a>) -> Option<Self> {
        let rule = self.load?;
        let Kind::Chain(chain) = &rule.kind else { return None };
        Some(Self { rule, chain, values, load: None })
    }
}

/// What goes on behind the new floor.
pub(super) struct Settled {
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
        let at = events[first].at();
        if at >= cut && !is_cut {
            is_cut = true;
            folded.open = still_open(current.as_ref(), chain, cut);
        }
        let mut episode = match current.take() {
            Some(episode) if episode.span.takes(at, chain.quiet_micros) => episode,
            other => {
                folded.episodes.extend(other);
                Episode::open(&chains, events, first)
            }
        };
        let mut span = episode.span;
        let more = rest.iter().take_while(|index| {
            let at = events[**index].at();
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

fn reported(scope: Scope<'_>, episodes: &[Episode]) -> Vec<Reported> {
    if episodes.is_empty() {
        return Vec::new();
    }
    let values = scope.values.list();
    episodes.iter().map(|episode| episode.reported(scope.rule, &values)).collect()
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
        let alert = episode.alert(scope.rule, &scope.values.list()).map(Box::new);
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
