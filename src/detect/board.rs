//! What a batch does to the groups of one rule.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::model::Micros;

use super::chain::Event;
use super::cold::Cold;
use super::group::{Group, Op};
use super::history::History;
use super::key::Key;
use super::outcome::Outcome;
use super::pace::Pace;
use super::seen::{Prefix, Seen};
use super::told::Scope;
use super::touch::{Ops, Touch};

/// The groups of a rule, what they hold, and up to when one that is not among them may have calls.
pub(super) struct Board<'a, G> {
    pub(super) groups: &'a mut FxHashMap<Key, G>,
    pub(super) weight: &'a mut usize,
    pub(super) cold: &'a Cold,
    pub(super) pace: &'a Pace,
    /// No floor of a group is later.
    pub(super) floors_until: &'a mut Micros,
}

impl Board<'_, Group> {
    /// Does something to a group, which is made where it is not in memory.
    pub(super) fn with<T>(&mut self, key: Key, work: impl FnOnce(&mut Group) -> T) -> T {
        let (group, before) = match self.groups.entry(key) {
            Entry::Occupied(known) => {
                let group = known.into_mut();
                let weight = group.weight();
                (group, weight)
            }
            Entry::Vacant(free) => {
                // Whatever the group did before is further back than a reach from here.
                let reach = self.pace.reach_micros;
                let floor = self.cold.before(key);
                let floor = floor.map_or(Micros(i64::MIN), |cold| cold.plus(reach + 1));
                (free.insert(Group::new(floor)), 0)
            }
        };
        let done = work(group);
        *self.weight = (*self.weight + group.weight()).saturating_sub(before);
        *self.floors_until = group.floor.max(*self.floors_until);
        done
    }
}

impl<G> Board<'_, G> {
    fn put(&mut self, key: Key, group: G, weight: impl Fn(&G) -> usize) {
        *self.weight += weight(&group);
        if let Some(former) = self.groups.insert(key, group) {
            *self.weight = self.weight.saturating_sub(weight(&former));
        }
    }
}

pub(super) fn settle_chain(
    scope: Scope<'_>,
    board: &mut Board<'_, Group>,
    touch: Touch,
    past: Option<(Vec<Event>, Box<History>)>,
) -> Outcome {
    let Some((events, mut history)) = past else { return update(board, scope, touch) };
    let key = touch.key;
    let Some(until) = history.need.until(&history.alerts) else {
        board.put(key, Group::restore(scope, events, &history), Group::weight);
        return update(board, scope, touch);
    };
    let before = history.need.settled_before;
    let is_past = |op: &Op| !board.groups.contains_key(&key) || op.event.at() < before;
    let (past, ops): (Ops, Ops) = touch.ops.into_iter().partition(is_past);
    history.alerts.retain(|alert| alert.closing_at.is_none_or(|at| at <= until));
    let mut outcome = Group::restore(scope, events, &history).update(scope, board.pace, past);
    if !ops.is_empty() {
        outcome.extend(update(board, scope, Touch { ops, ..touch }));
    }
    outcome
}

fn update(board: &mut Board<'_, Group>, scope: Scope<'_>, touch: Touch) -> Outcome {
    let pace = board.pace;
    board.with(touch.key, |group| group.update(scope, pace, touch.ops))
}

pub(super) fn settle_first_seen(
    prefix: Prefix<'_>,
    board: &mut Board<'_, Seen>,
    batch: u64,
    touch: Touch,
    past: Option<(Vec<Event>, Box<History>)>,
) -> Outcome {
    if let Some((events, history)) = past {
        let (mut seen, outcome) = Seen::restore(prefix, events, &history, touch.ops);
        seen.used_in = batch;
        board.put(touch.key, seen, Seen::weight);
        return outcome;
    }
    let (seen, before) = match board.groups.entry(touch.key) {
        Entry::Occupied(known) => {
            let seen = known.into_mut();
            let weight = seen.weight();
            (seen, weight)
        }
        Entry::Vacant(free) => (free.insert(Seen::default()), 0),
    };
    seen.used_in = batch;
    let outcome = seen.update(prefix, &touch.ops);
    *board.weight = (*board.weight + seen.weight()).saturating_sub(before);
    outcome
}
