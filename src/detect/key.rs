//! What tells the groups of a rule apart.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use rustc_hash::FxHashMap;

use crate::model::{Call, Text};

use super::field::GroupField;
use super::rule::{Kind, Rule, RuleSet};
use super::sip::Sip;

/// Names a group among those of its rule: what [`Namer`] makes of the group's values. It takes their place, since
/// texts that lie about in memory would be what a lookup mostly waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key([u64; 2]);

impl Key {
    /// Two that share it are mostly one.
    pub(super) const fn short(self) -> u64 {
        self.0[0]
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0]);
    }
}

/// Makes keys of values: a hash of 128 bits under a secret that nobody who writes into a log knows, so that nobody can
/// make two groups that are taken for one. What is found never depends on the secret.
#[derive(Clone, Debug)]
pub(super) struct Namer(Sip);

impl Default for Namer {
    fn default() -> Self {
        let state = RandomState::new();
        Self(Sip::new([state.hash_one(0), state.hash_one(1)]))
    }
}

impl Namer {
    pub(super) fn key<'v>(&self, values: impl Iterator<Item = &'v Text>) -> Key {
        let mut sip = self.0;
        for value in values {
            sip.text(value);
        }
        Key(sip.finish())
    }

    /// Names a value of a group, or the group as a whole among the names of its values.
    pub(super) fn of_value(&self, group: Key, value: Option<&Text>) -> Key {
        let mut sip = self.0;
        group.0.into_iter().for_each(|word| sip.word(word));
        if let Some(value) = value {
            sip.text(value);
        }
        Key(sip.finish())
    }
}

/// The values that name a group: of most groups that a batch touches nobody asks for them.
#[derive(Clone, Copy)]
pub(super) enum Values<'a> {
    Listed(&'a [Text]),
    /// To be read from a call of the group.
    Of {
        rule: &'a Rule,
        namer: &'a Namer,
        key: Key,
        call: &'a Call,
    },
}

impl Values<'_> {
    pub(super) fn list(self) -> Vec<Text> {
        match self {
            Self::Listed(values) => values.to_vec(),
            Self::Of { rule, namer, key, call } => rule.values(namer, key, call),
        }
    }
}

/// The keys of one call after the other, each made once for all rules that group by the same fields.
pub(super) struct Keys {
    namer: Namer,
    lists: Vec<Vec<GroupField>>,
    /// By rule; none for one that groups calls in several ways.
    of_rule: Vec<Option<usize>>,
    /// By list, of the call in hand.
    known: Vec<Known>,
    /// The keys of a batch are counted through, so that each rule finds what it has of them by their number.
    numbers: FxHashMap<Key, u32>,
}

/// A key and its number in the batch.
pub(super) type Numbered = (Key, u32);

/// A key of the call in hand.
#[derive(Clone, Copy)]
enum Known {
    NotYet,
    /// The call lacks a value.
    Lacking,
    Is(Numbered),
}

impl Keys {
    pub(super) fn new(rules: &RuleSet, namer: &Namer) -> Self {
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
        let (known, numbers) = (vec![Known::NotYet; lists.len()], FxHashMap::default());
        Self { namer: namer.clone(), lists, of_rule, known, numbers }
    }

    /// Forgets the last batch.
    pub(super) fn begin_batch(&mut self) {
        self.numbers.clear();
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
    pub(super) fn of(&mut self, rule: usize, call: &Call) -> Option<Numbered> {
        let list = (*self.of_rule.get(rule)?)?;
        if let Known::NotYet = self.known.get(list)? {
            let fields = self.lists.get(list)?;
            let key = fields
                .iter()
                .all(|field| field.value(call).is_some())
                .then(|| self.namer.key(fields.iter().filter_map(|field| field.value(call))));
            let numbered = key.map(|key| self.numbered(key));
            *self.known.get_mut(list)? = numbered.map_or(Known::Lacking, Known::Is);
        }
        match self.known.get(list)? {
            Known::Is(numbered) => Some(*numbered),
            Known::NotYet | Known::Lacking => None,
        }
    }

    /// The group of these values.
    pub(super) fn of_values(&mut self, values: &[Text]) -> Numbered {
        let key = self.namer.key(values.iter());
        self.numbered(key)
    }

    fn numbered(&mut self, key: Key) -> Numbered {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        (key, *self.numbers.entry(key).or_insert(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_apart_wherever_one_ends_and_the_next_begins() {
        let namer = Namer::default();
        let key = |values: &[&str]| {
            let values: Vec<Text> = values.iter().map(|value| Text::from(*value)).collect();
            namer.key(values.iter())
        };
        let all: [&[&str]; 6] = [&[], &[""], &["", ""], &["abc"], &["ab", "c"], &["a", "bc"]];
        for (number, one) in all.iter().enumerate() {
            for (other_number, other) in all.iter().enumerate() {
                assert_eq!(key(one) == key(other), number == other_number, "{one:?} {other:?}");
            }
        }
        let (group, empty) = (key(&["ann"]), Text::from(""));
        assert_ne!(namer.of_value(group, None), namer.of_value(group, Some(&empty)));
    }
}
