//! In which minutes each client's log has records.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::DAY_MINUTES;
use crate::model::Text;

/// Minutes held over all logs, some 16 bytes each; with more, those of the recent days stay.
const MINUTES_MAX: usize = 1_000_000;
/// What stays then: enough to judge a day, and the day before and after it.
const KEPT_MINUTES: i64 = 3 * DAY_MINUTES;

/// What is remembered of clients' records.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    minutes: FxHashMap<Text, BTreeSet<i64>>,
    /// Everything from this minute on is held; none: everything.
    from: Option<i64>,
    count: usize,
}

impl Heard {
    pub(super) fn from(from: Option<i64>) -> Self {
        Self { from, ..Self::default() }
    }

    /// Adds a minute; whether it is new.
    pub fn add(&mut self, stream: &Text, minute: i64) -> bool {
        let minutes = match self.minutes.get_mut(stream) {
            Some(minutes) => minutes,
            None => self.minutes.entry(Text::clone(stream)).or_default(),
        };
        let is_new = minutes.insert(minute);
        self.count += usize::from(is_new);
        is_new
    }

    /// The last minute before this one.
    pub(super) fn before(&self, stream: &str, minute: i64) -> Option<i64> {
        self.minutes.get(stream)?.range(..minute).next_back().copied()
    }

    /// The first minute from this one on.
    pub(super) fn after(&self, stream: &str, minute: i64) -> Option<i64> {
        self.minutes.get(stream)?.range(minute..).next().copied()
    }

    pub(super) fn last(&self, stream: &str) -> Option<i64> {
        self.minutes.get(stream)?.last().copied()
    }

    /// Whether minutes from this one on are all held.
    pub(super) fn holds(&self, from: i64) -> bool {
        self.from.is_none_or(|held| from >= held)
    }

    /// Lets the minutes go that lie far behind the newest, where there are too many.
    pub(super) fn forget(&mut self, newest: i64) {
        if self.count <= MINUTES_MAX {
            return;
        }
        let mut from = newest.saturating_sub(KEPT_MINUTES);
        loop {
            for minutes in self.minutes.values_mut() {
                *minutes = minutes.split_off(&from);
            }
            self.minutes.retain(|_, minutes| !minutes.is_empty());
            self.count = self.minutes.values().map(BTreeSet::len).sum();
            self.from = self.from.max(Some(from));
            // Very many logs at a time: what is not held is asked of the store.
            if self.count <= MINUTES_MAX / 2 || from > newest {
                return;
            }
            from += DAY_MINUTES;
        }
    }
}
