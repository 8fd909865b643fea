//! Stretches of minutes that do not touch.

use std::collections::BTreeMap;

/// Stretches held; with more, what lies between the first and the last counts as one.
const SPANS_MAX: usize = 4096;

/// A set of minutes, as stretches with both ends included.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans(BTreeMap<i64, i64>);

impl Spans {
    /// Adds `from..=to`; nothing where that is empty.
    pub(super) fn add(&mut self, from: i64, to: i64) {
        if from > to {
            return;
        }
        let (mut from, mut to) = (from, to);
        while let Some((known_from, known_to)) = self
            .0
            .range(..=to.saturating_add(1))
            .next_back()
            .map(|(known_from, known_to)| (*known_from, *known_to))
            .filter(|(_, known_to)| *known_to >= from.saturating_sub(1))
        {
            self.0.remove(&known_from);
            (from, to) = (from.min(known_from), to.max(known_to));
        }
        self.0.insert(from, to);
        if self.0.len() > SPANS_MAX
            && let (Some((first, _)), Some((_, last))) =
                (self.0.first_key_value(), self.0.last_key_value())
        {
            self.0 = BTreeMap::from([(*first, *last)]);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The stretches in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.0.iter().map(|(from, to)| (*from, *to))
    }

    /// Adds what this set and `from..=to` have in common to another.
    pub(super) fn common(&self, from: i64, to: i64, into: &mut Self) {
        let before = self.0.range(..from).next_back();
        for (known_from, known_to) in before.into_iter().chain(self.0.range(from..)) {
            if *known_from > to {
                return;
            }
            into.add(from.max(*known_from), to.min(*known_to));
        }
    }

    /// Whether any minute of `from..=to` is in the set.
    pub(super) fn meets(&self, from: i64, to: i64) -> bool {
        self.0.range(..=to).next_back().is_some_and(|(_, known_to)| *known_to >= from)
    }

    /// Whether all of `from..=to` is in the set.
    pub(super) fn covers(&self, from: i64, to: i64) -> bool {
        self.0.range(..=from).next_back().is_some_and(|(_, known_to)| *known_to >= to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_touch_are_one() {
        let mut spans = Spans::default();
        for (from, to) in [(10, 12), (20, 22), (13, 13), (0, -1), (5, 5), (12, 21)] {
            spans.add(from, to);
        }
        assert_eq!(spans.iter().collect::<Vec<_>>(), [(5, 5), (10, 22)]);
        assert!(spans.meets(0, 5) && spans.meets(22, 30) && !spans.meets(6, 9));
        assert!(spans.covers(11, 22) && !spans.covers(5, 10));
        let mut common = Spans::default();
        spans.common(5, 15, &mut common);
        spans.common(30, 40, &mut common);
        spans.common(22, 20, &mut common);
        assert_eq!(common.iter().collect::<Vec<_>>(), [(5, 5), (10, 15)]);
    }

    #[test]
    fn too_many_stretches_are_one_from_the_first_to_the_last() {
        let mut spans = Spans::default();
        for number in 0..=4096 {
            spans.add(number * 10, number * 10);
        }
        assert_eq!(spans.iter().collect::<Vec<_>>(), [(0, 40_960)]);
    }
}
