//! A batch of changes, evaluated and sorted by the groups that it touches.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::model::{Call, CallChange, Micros};

use super::episode::EPISODE_MAX_MICROS;
use super::group::Op;
use super::history::History;
use super::key::{Key, Numbered};
use super::rule::{Kind, Rule, RuleSet};
use super::shelf::Shelf;
use super::stages::Chain;

/// A batch, evaluated and sorted by group.
pub(super) struct Prepared {
    changes: Vec<CallChange>,
    /// By rule: one after the other finds its own groups near each other.
    pub(super) touches: Vec<Vec<Touch>>,
    pub(super) untimed: Vec<Untimed>,
    /// The earliest and the latest of its calls.
    span: Option<(Micros, Micros)>,
}

/// Most groups have one change in a batch, or two.
pub(super) type Ops = SmallVec<[Op; 2]>;

/// Changes to one group of one rule.
pub(super) struct Touch {
    pub(super) rule: usize,
    pub(super) key: Key,
    pub(super) ops: Ops,
    pub(super) earliest: Micros,
}

/// A change to a call without a time.
pub(super) struct Untimed {
    pub(super) rule: usize,
    pub(super) key: Key,
    pub(super) call: Arc<Call>,
    pub(super) present: bool,
}

/// The answers to a batch's needs, by rule, group and the earliest time that is touched.
pub(super) type Answers = FxHashMap<(usize, Key, Micros), Box<History>>;

impl Prepared {
    /// `room` is what an earlier batch of as many rules has left.
    pub(super) fn new(changes: &[CallChange], room: Vec<Vec<Touch>>, rules: usize) -> Self {
        let mut touches = room;
        touches.resize_with(rules, Vec::new);
        Self { changes: changes.to_vec(), touches, untimed: Vec::new(), span: None }
    }

    pub(super) fn is_of(&self, changes: &[CallChange]) -> bool {
        let same = |a: &Option<Arc<Call>>, b: &Option<Arc<Call>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        self.changes.len() == changes.len()
            && self
                .changes
                .iter()
                .zip(changes)
                .all(|(mine, theirs)| same(&mine.old, &theirs.old) && same(&mine.new, &theirs.new))
    }

    /// `index` holds for every number of a key one more than the place of the touch with that key.
    pub(super) fn add(
        &mut self,
        rule: usize,
        index: &mut Vec<u32>,
        (key, number): Numbered,
        op: Op,
    ) {
        let Some(touches) = self.touches.get_mut(rule) else { return };
        let at = op.event.at();
        let (first, last) = self.span.get_or_insert((at, at));
        (*first, *last) = (at.min(*first), at.max(*last));
        let number = number as usize;
        let place = index.get(number).map_or(0, |place| *place as usize);
        if let Some(touch) = place.checked_sub(1).and_then(|place| touches.get_mut(place)) {
            touch.earliest = touch.earliest.min(at);
            touch.ops.push(op);
            return;
        }
        touches.push(Touch { rule, key, ops: smallvec![op], earliest: at });
        if index.len() <= number {
            index.resize(number + 1, 0);
        }
        if let Some(place) = index.get_mut(number) {
            *place = u32::try_from(touches.len()).unwrap_or(0);
        }
    }

    pub(super) fn add_untimed(
        &mut self,
        number: usize,
        rule: &Rule,
        key: Key,
        call: &Arc<Call>,
        present: bool,
    ) {
        if matches!(&rule.kind, Kind::Chain(chain) if chain.is_single()) {
            let call = Arc::clone(call);
            self.untimed.push(Untimed { rule: number, key, call, present });
        }
    }

    /// Takes apart what a batch does to one group at times that have nothing to do with each other,
    /// so that what lies between them need not be read. What memory holds of a group takes all that is
    /// done to it from its floor on.
    pub(super) fn split(&mut self, rules: &RuleSet, shelves: &[Shelf]) {
        let Some((first, last)) = self.span else { return };
        for ((rule, shelf), touches) in rules.rules.iter().zip(shelves).zip(&mut self.touches) {
            let Kind::Chain(chain) = &rule.kind else { continue };
            let is_short = last.since(first) <= apart_micros(chain);
            if is_short || !touches.iter().any(|touch| touch.is_long(chain)) {
                continue;
            }
            let mut parted = Vec::with_capacity(touches.len());
            for touch in touches.drain(..) {
                let held_from = shelf.held_from(touch.key).unwrap_or(Micros(i64::MAX));
                if touch.is_long(chain) && touch.earliest < held_from {
                    touch.split(chain, held_from, &mut parted);
                } else {
                    parted.push(touch);
                }
            }
            *touches = parted;
        }
    }
}

impl Touch {
    /// A call of the group, by which its values are known.
    pub(super) fn call(&self) -> Option<&Arc<Call>> {
        self.ops.first()?.event.call()
    }

    /// True if its changes may be at times that have nothing to do with each other.
    fn is_long(&self, chain: &Chain) -> bool {
        self.ops.iter().any(|op| op.event.at().since(self.earliest) > apart_micros(chain))
    }

    /// The parts are put in the order of time, as one all that is later than `held_from`.
    fn split(mut self, chain: &Chain, held_from: Micros, parted: &mut Vec<Self>) {
        let apart = apart_micros(chain);
        // Stable: of several changes to one call, the last one holds.
        self.ops.sort_by_key(|op| op.event.at());
        let goes_on = |last: Micros, at: Micros| last >= held_from || at.since(last) <= apart;
        let mut part: Option<Self> = None;
        for op in self.ops {
            let at = op.event.at();
            match &mut part {
                Some(part) if part.ops.last().is_some_and(|last| goes_on(last.event.at(), at)) => {
                    part.ops.push(op);
                }
                part => {
                    let next =
                        Self { rule: self.rule, key: self.key, ops: smallvec![op], earliest: at };
                    parted.extend(part.replace(next));
                }
            }
        }
        parted.extend(part);
    }
}

/// How far changes are apart that have nothing to do with each other, unless a run of alerts leads
/// from the one to the other.
fn apart_micros(chain: &Chain) -> i64 {
    chain.reach_micros().saturating_mul(3).saturating_add(EPISODE_MAX_MICROS)
}

/// Gives every touch its answer. Parts of one group whose answers meet after all are one again: a run
/// of alerts leads from the one to the other.
pub(super) fn answered(
    touches: impl Iterator<Item = Touch>,
    answers: &mut Answers,
) -> Vec<(Touch, Option<Box<History>>)> {
    let mut out: Vec<(Touch, Option<Box<History>>)> = Vec::new();
    for touch in touches {
        let history = answers.remove(&(touch.rule, touch.key, touch.earliest));
        if let Some((before, Some(known))) = out.last_mut()
            && before.rule == touch.rule
            && before.key == touch.key
            && known.meets(history.as_deref())
        {
            before.ops.extend(touch.ops);
            if let Some(history) = history {
                known.join(*history);
            }
            continue;
        }
        out.push((touch, history));
    }
    out
}
