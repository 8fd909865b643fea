//! Pairs: which client's log has told of a call together with which log near the work.

use rustc_hash::{FxHashMap, FxHashSet};

use super::UPPERS_MAX;
use crate::model::{Call, Micros, PairFact, Text, WitnessPair};

/// Pairs held. Whoever makes up names without end pairs nothing beyond it.
const PAIRS_MAX: usize = 100_000;

/// A client's log with the principal and the client that the calls name.
type Upper = (Text, Option<Text>, Option<Text>);

/// Every pair with the time of the first call that shows it.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    by_lower: FxHashMap<Text, FxHashMap<Upper, Micros>>,
    uppers: FxHashSet<Text>,
    changed: FxHashSet<WitnessPair>,
    count: usize,
}

impl Pairs {
    /// Sets when a pair began, or that it is none; returns what was known.
    pub(super) fn set(&mut self, pair: &WitnessPair, first_at: Option<Micros>) -> Option<Micros> {
        let key = (Text::clone(&pair.upper), pair.principal.clone(), pair.client.clone());
        let known = self.by_lower.get(&pair.lower).and_then(|uppers| uppers.get(&key)).copied();
        if known == first_at || self.is_full() && known.is_none() {
            // What is one too many changes nothing.
            return first_at;
        }
        let uppers = self.by_lower.entry(Text::clone(&pair.lower)).or_default();
        match first_at {
            Some(at) => uppers.insert(key, at),
            None => uppers.remove(&key),
        };
        self.count = self.count + usize::from(first_at.is_some()) - usize::from(known.is_some());
        self.uppers.insert(Text::clone(&pair.upper));
        self.changed.insert(pair.clone());
        known
    }

    pub(super) fn first_at(&self, pair: &WitnessPair) -> Option<Micros> {
        let uppers = self.by_lower.get(&pair.lower)?;
        let key = (Text::clone(&pair.upper), pair.principal.clone(), pair.client.clone());
        uppers.get(&key).copied()
    }

    /// Whether a log was ever a client's in a pair.
    pub(super) fn knows_upper(&self, stream: &str) -> bool {
        self.uppers.contains(stream)
    }

    /// Whether one of the call's logs was ever in a pair.
    pub(super) fn knows_lower(&self, call: &Call) -> bool {
        call.sightings.iter().any(|sighting| self.by_lower.contains_key(&sighting.stream))
    }

    pub(super) fn lowers(&self) -> impl Iterator<Item = &Text> {
        self.by_lower.keys()
    }

    pub(super) fn uppers(&self) -> impl Iterator<Item = &Text> {
        self.uppers.iter()
    }

    /// The clients' logs that should know of a call that its other logs tell of: paired before it with one of them, by
    /// calls of the same principal and client as far as the call names them. The longest paired first.
    pub(super) fn expected(&self, call: &Call) -> Vec<Text> {
        let Some(at) = call.at else { return Vec::new() };
        let mut found: Vec<(Micros, &Text)> = Vec::new();
        for sighting in &call.sightings {
            let uppers = self.by_lower.get(&sighting.stream).into_iter().flatten();
            for ((upper, principal, client), first) in uppers {
                let is_same = (call.principal.is_none() || call.principal == *principal)
                    && (call.client.is_none() || call.client == *client);
                if *first < at && is_same {
                    found.push((*first, upper));
                }
            }
        }
        found.sort_unstable();
        let mut streams: Vec<Text> = Vec::new();
        for (_, stream) in found {
            if streams.len() < UPPERS_MAX && !streams.contains(stream) {
                streams.push(Text::clone(stream));
            }
        }
        streams
    }

    /// Whether no further pair is learned.
    pub(super) fn is_full(&self) -> bool {
        self.count >= PAIRS_MAX
    }

    pub(super) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    pub(super) fn take_changed(&mut self) -> Vec<PairFact> {
        let changed = std::mem::take(&mut self.changed);
        let fact = |pair: WitnessPair| PairFact { first_at: self.first_at(&pair), pair };
        let mut facts: Vec<PairFact> = changed.into_iter().map(fact).collect();
        facts.sort_unstable_by(|left, right| left.pair.cmp(&right.pair));
        facts
    }
}
