//! The values that name a group, hashed once however often the group is looked up.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use rustc_hash::FxHasher;

use crate::model::{Call, Text};

use super::field::GroupField;
use super::rule::{Kind, RuleSet};

/// Shared by all that a batch does to the group, and by rules that group alike.
#[derive(Clone, Debug)]
pub(super) struct Key {
    hash: u64,
    values: Arc<[Text]>,
}

impl Key {
    fn new(values: Arc<[Text]>) -> Self {
        let mut hasher = FxHasher::default();
        values.hash(&mut hasher);
        Self { hash: hasher.finish(), values }
    }

    /// Two that share it are mostly one.
    pub(super) const fn hash(&self) -> u64 {
        self.hash
    }
}

impl Deref for Key {
    type Target = [Text];

    fn deref(&self) -> &[Text] {
        &self.values
    }
}

impl From<&[Text]> for Key {
    fn from(values: &[Text]) -> Self {
        Self::new(values.into())
    }
}

impl FromIterator<Text> for Key {
    fn from_iter<I: IntoIterator<Item = Text>>(values: I) -> Self {
        Self::new(values.into_iter().collect())
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let is_same = || Arc::ptr_eq(&self.values, &other.values) || self.values == other.values;
        self.hash == other.hash && is_same()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// The keys of one call after the other, each made once for all rules that group by the same fields.
pub(super) struct Keys {
    lists: Vec<Vec<GroupField>>,
    /// By rule; none for one that groups calls in several ways.
    of_rule: Vec<Option<usize>>,
    /// By list, of the call in hand.
    known: Vec<Known>,
}

/// A key of the call in hand.
#[derive(Clone)]
enum Known {
    NotYet,
    /// The call lacks a value.
    Lacking,
    Is(Key),
}

impl Keys {
    pub(super) fn new(rules: &RuleSet) -> Self {
        let mut lists: Vec<Vec<GroupField>> = Vec::new();
        let of_rule = rules.rules.iter().map(|rule| {
            let [only] = rule.groupings.as_slice() else { return None };
            let fields = match rule.kind {
                Kind::Chain(_) => only.fields.as_slice(),
                Kind::FirstSeen(_) => only.fields.split_last()?.1,
            };
            let known = lists.iter().position(|list| list == fields);
            Some(known.unwrap_or_else(|| {
                lists.push(fields.to_vec());
                lists.len() - 1
            }))
        });
        let of_rule = of_rule.collect();
        let known = vec![Known::NotYet; lists.len()];
        Self { lists, of_rule, known }
    }

    /// Forgets the last call.
    pub(super) fn reset(&mut self) {
        self.known.fill(Known::NotYet);
    }

    /// True if the rule groups calls in one way.
    pub(super) fn has(&self, rule: usize) -> bool {
        self.of_rule.get(rule).is_some_and(Option::is_some)
    }

    /// The call's group of the rule, of a first-seen rule without the last field; none where it lacks a value.
    pub(super) fn of(&mut self, rule: usize, call: &Call) -> Option<&Key> {
        let list = (*self.of_rule.get(rule)?)?;
        let (fields, known) = (self.lists.get(list)?, self.known.get_mut(list)?);
        let value = |field: &GroupField| field.value(call).cloned();
        if matches!(known, Known::NotYet) {
            let values: Option<Arc<[Text]>> = match fields.as_slice() {
                // Of one or two the number is known, which spares a list in between.
                [only] => value(only).map(|only| Arc::from([only])),
                [one, two] => value(one).zip(value(two)).map(|(one, two)| Arc::from([one, two])),
                more => more.iter().map(value).collect::<Option<Vec<Text>>>().map(Arc::from),
            };
            *known = values.map_or(Known::Lacking, |values| Known::Is(Key::new(values)));
        }
        match known {
            Known::Is(key) => Some(key),
            Known::NotYet | Known::Lacking => None,
        }
    }
}
