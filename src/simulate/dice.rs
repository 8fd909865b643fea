//! Chance that is the same on every machine: whole numbers only, and no distribution of a library
//! that might draw differently in its next version.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A seeded source of chance. Each `stream` of one seed is independent of the others.
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut chacha = ChaCha8Rng::seed_from_u64(seed);
        chacha.set_stream(stream);
        Self(chacha)
    }

    /// A number from 0 to `bound - 1`; 0 for a bound of 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.0.next_u64()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included, each as likely.
    pub(super) fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = high.saturating_sub(low).max(0).unsigned_abs();
        low.saturating_add_unsigned(self.below(span.saturating_add(1)))
    }

    /// A number from `low` to `high`, both included, mostly near `low`: waiting times are like
    /// that.
    pub(super) fn skewed(&mut self, low: i64, high: i64) -> i64 {
        let high = self.between(low, high);
        self.between(low, high)
    }

    /// True in so many of a thousand cases.
    pub(super) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    pub(super) fn pick<T: Copy, const N: usize>(&mut self, items: &[T; N]) -> T {
        const { assert!(N > 0, "there is nothing to pick from") };
        items[self.index(N)]
    }

    /// A place in a list of that length; 0 for an empty one.
    pub(super) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// One of the items, each as likely as its weight says.
    pub(super) fn weighted<T: Copy, const N: usize>(&mut self, items: &[(T, u64); N]) -> T {
        const { assert!(N > 0, "there is nothing to pick from") };
        let total = items.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.below(total);
        for (item, weight) in items {
            if drawn < *weight {
                return *item;
            }
            drawn -= weight;
        }
        items[0].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_in_range_and_streams_differ() {
        let mut dice = Dice::new(7, 1);
        for _ in 0..10_000 {
            assert!((-3..=3).contains(&dice.between(-3, 3)));
            assert!((5..=50).contains(&dice.skewed(5, 50)));
            assert_ne!(dice.weighted(&[(1, 0), (2, 5), (3, 1)]), 1);
        }
        assert_eq!((dice.below(0), dice.below(1), dice.between(4, 4)), (0, 0, 4));
        let draws = |stream| {
            let mut dice = Dice::new(7, stream);
            [dice.below(u64::MAX), dice.below(u64::MAX)]
        };
        assert_ne!(draws(1), draws(2));
        assert_eq!(draws(1), draws(1));
    }
}
