//! A batch of changes, evaluated and sorted by the groups that it touches.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::model::{Call, CallChange, Micros, Text};

use super::episode::EPISODE_MAX_MICROS;
use super::group::Op;
use super::history::History;
use super::rule::{Kind, Rule, RuleSet};
use super::shelf::{Key, Shelf};
use super::stages::Chain;

/// A batch, evaluated and sorted by group.
pub(super) struct Prepared {
    changes: Vec<CallChange>,
    pub(super) touches: Vec<Touch>,
    pub(super) untimed: Vec<Untimed>,
}

/// Changes to one group of one rule.
pub(super) struct Touch {
    pub(super) rule: usize,
    pub(super) key: Key,
    pub(super) ops: Vec<Op>,
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
pub(super) type Answers = FxHashMap<(usize, Key, Micros), History>;

impl Prepared {
    pub(super) fn new(changes: &[CallChange]) -> Self {
        Self { changes: changes.to_vec(), touches: Vec::new(), untimed: Vec::new() }
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

    pub(super) fn add(
        &mut self,
        rule: usize,
        index: &mut FxHashMap<Key, usize>,
        key: &[Text],
        op: Op,
    ) {
        let at = op.event.at;
        if let Some(touch) = index.get(key).and_then(|index| self.touches.get_mut(*index)) {
            touch.earliest = touch.earliest.min(at);
            touch.ops.push(op);
            return;
        }
        let key = Key::from(key);
        index.insert(Key::clone(&key), self.touches.len());
        self.touches.push(Touch { rule, key, ops: vec![op], earliest: at });
    }

    pub(super) fn add_untimed(
        &mut self,
        number: usize,
        rule: &Rule,
        key: &[Text],
        call: &Arc<Call>,
        present: bool,
    ) {
        if matches!(&rule.kind, Kind::Chain(chain) if chain.is_single()) {
            let call = Arc::clone(call);
            self.untimed.push(Untimed { rule: number, key: key.into(), call, present });
        }
    }

    /// Takes apart what a batch does to one group at times that have nothing to do with each other,
    /// so that what lies between them need not be read. Of a group in memory nothing is read that is
    /// not before it.
    pub(super) fn split(&mut self, rules: &RuleSet, shelves: &[Shelf]) {
        let mut parted = Vec::with_capacity(self.touches.len());
        for touch in self.touches.drain(..) {
            match rules.rules.get(touch.rule).map(|rule| &rule.kind) {
                Some(Kind::Chain(chain))
                    if touch.is_long(chain)
                        && shelves
                            .get(touch.rule)
                            .is_some_and(|shelf| !shelf.holds(&touch.key)) =>
                {
                    touch.split(chain, &mut parted);
                }
                _ => parted.push(touch),
            }
        }
        self.touches = parted;
    }
}

impl Touch {
    /// True if its changes may be at times that have nothing to do with each other.
    fn is_long(&self, chain: &Chain) -> bool {
        self.ops.iter().any(|op| op.event.at.since(self.earliest) > apart_micros(chain))
    }

    /// The parts are put in the order of time.
    fn split(mut self, chain: &Chain, parted: &mut Vec<Self>) {
        let apart = apart_micros(chain);
        // Stable: of several changes to one call, the last one holds.
        self.ops.sort_by_key(|op| op.event.at);
        let mut part: Option<Self> = None;
        for op in self.ops {
            let at = op.event.at;
            match &mut part {
                Some(part)
                    if part.ops.last().is_some_and(|last| at.since(last.event.at) <= apart) =>
                {
                    part.ops.push(op);
                }
                part => {
                    let key = self.key.clone();
                    let next = Self { rule: self.rule, key, ops: vec![op], earliest: at };
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
    touches: Vec<Touch>,
    answers: &mut Answers,
) -> Vec<(Touch, Option<History>)> {
    if answers.is_empty() {
        return touches.into_iter().map(|touch| (touch, None)).collect();
    }
    let mut out: Vec<(Touch, Option<History>)> = Vec::with_capacity(touches.len());
    for touch in touches {
        let history = answers.remove(&(touch.rule, touch.key.clone(), touch.earliest));
        if let Some((before, Some(known))) = out.last_mut()
            && before.rule == touch.rule
            && before.key == touch.key
            && known.meets(history.as_ref())
        {
            before.ops.extend(touch.ops);
            if let Some(history) = history {
                known.join(history);
            }
            continue;
        }
        out.push((touch, history));
    }
    out
}
