//! Comparisons with numbers: of fields, counts and shares.

use std::fmt;

use super::field::did_you_mean;
use super::yaml::{Entry, Mark};

/// How a value is compared with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Compare {
    pub(super) fn holds(self, value: f64, number: f64) -> bool {
        match self {
            // The figure stands in the rule as it stands in the log: nothing was computed.
            Self::Equal => value.total_cmp(&number).is_eq(),
            Self::NotEqual => value.total_cmp(&number).is_ne(),
            Self::Less => value < number,
            Self::LessOrEqual => value <= number,
            Self::Greater => value > number,
            Self::GreaterOrEqual => value >= number,
        }
    }
}

/// Comparisons that must all hold, such as `{gte: 3, lt: 10}`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bounds {
    all: Vec<(Compare, f64)>,
}

const WORDS: [(&str, Compare); 6] = [
    ("eq", Compare::Equal),
    ("neq", Compare::NotEqual),
    ("lt", Compare::Less),
    ("lte", Compare::LessOrEqual),
    ("gt", Compare::Greater),
    ("gte", Compare::GreaterOrEqual),
];

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (compare, value)) in self.all.iter().enumerate() {
            let word =
                WORDS.iter().find(|(_, known)| known == compare).map_or("", |(word, _)| word);
            write!(f, "{}{word} {value}", if number == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl Bounds {
    /// Reads the entries of a `condition:`, but for those with another meaning; the error is the
    /// place and the reason to refuse it.
    pub(super) fn read(entries: &[Entry], other_keys: &[&str]) -> Result<Self, (Mark, String)> {
        let mut all = Vec::new();
        for found in entries.iter().filter(|found| !other_keys.contains(&found.key.as_str())) {
            let known = WORDS.iter().find(|(word, _)| *word == found.key);
            let Some((_, compare)) = known else {
                let words =
                    || WORDS.iter().map(|(word, _)| *word).chain(other_keys.iter().copied());
                let (key, hint) = (&found.key, did_you_mean(&found.key, words()));
                let words = words().collect::<Vec<_>>().join(", ");
                return Err((found.mark, format!("`condition` knows {words}, not `{key}`{hint}")));
            };
            let number = found.node.number().ok_or_else(|| {
                (found.mark, format!("`{}` takes a number, not {}", found.key, found.node.kind()))
            })?;
            if number < 0.0 {
                let message =
                    format!("`{}: {number}` is below 0, and no count or share is", found.key);
                return Err((found.mark, message));
            }
            all.push((*compare, number));
        }
        Ok(Self { all })
    }

    /// Whether a condition can have this key.
    pub(super) fn knows(key: &str) -> bool {
        WORDS.iter().any(|(word, _)| *word == key)
    }

    /// So many or more.
    pub(super) fn at_least(number: u64) -> Self {
        Self { all: vec![(Compare::GreaterOrEqual, number as f64)] }
    }

    pub(super) fn hold(&self, value: f64) -> bool {
        self.all.iter().all(|(compare, number)| compare.holds(value, *number))
    }

    /// True if a share from 0 to 1 fits.
    pub(super) fn can_be_share(&self) -> bool {
        let mut tried: Vec<f64> =
            self.all.iter().map(|(_, number)| *number).chain([0.0, 1.0]).collect();
        tried.sort_by(f64::total_cmp);
        let between: Vec<f64> =
            tried.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])).collect();
        tried.extend(between);
        tried.iter().any(|share| (0.0..=1.0).contains(share) && self.hold(*share))
    }

    /// True where some comparison keeps the value from being small: `gte`, `gt` or `eq`.
    pub(super) fn has_floor(&self) -> bool {
        let is_floor = |compare| {
            matches!(compare, Compare::Equal | Compare::Greater | Compare::GreaterOrEqual)
        };
        self.all.iter().any(|(compare, _)| is_floor(*compare))
    }

    /// True where a value that grows can stop to fit.
    pub(super) fn has_ceiling(&self) -> bool {
        let is_floor = |compare| matches!(compare, Compare::Greater | Compare::GreaterOrEqual);
        self.all.iter().any(|(compare, _)| !is_floor(*compare))
    }

    /// A number that is no whole one.
    pub(super) fn broken(&self) -> Option<f64> {
        let mut numbers = self.all.iter().map(|(_, number)| *number);
        numbers.find(|number| !number.fract().total_cmp(&0.0).is_eq())
    }

    /// True where shares are compared with shares: numbers from 0 to 1.
    pub(super) fn are_shares(&self) -> bool {
        !self.all.is_empty() && self.all.iter().all(|(_, number)| (0.0..=1.0).contains(number))
    }

    /// The number of the first comparison.
    pub(super) fn first(&self) -> Option<f64> {
        self.all.first().map(|(_, number)| *number)
    }

    /// The smallest count that fits, where one does up to `max`.
    pub(super) fn smallest(&self, max: u64) -> Option<u64> {
        (1..=max).find(|count| self.hold(*count as f64))
    }
}
