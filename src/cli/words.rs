//! The words of the command line: what flags take, and counts as people say them.

use crate::daemon::now;
use crate::model::{AlertState, CloseReason, Level, Micros};

/// A count with its noun, such as `1 call` or `2 calls`.
pub(super) fn count(number: impl Into<u64>, noun: &str) -> String {
    let number = number.into();
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

pub(super) fn count_of<T>(list: &[T], noun: &str) -> String {
    count(list.len() as u64, noun)
}

pub(super) fn parse_level(word: &str) -> Result<Level, String> {
    Level::from_word(word).ok_or_else(|| one_of(&Level::ALL.map(Level::as_str)))
}

pub(super) fn parse_state(word: &str) -> Result<AlertState, String> {
    AlertState::from_word(word).ok_or_else(|| one_of(&AlertState::ALL.map(AlertState::as_str)))
}

/// Reads a reason with hyphens, as flags are written; the underscores of the JSON output do as well.
pub(super) fn parse_reason(word: &str) -> Result<CloseReason, String> {
    CloseReason::from_word(&word.replace('-', "_"))
        .ok_or_else(|| one_of(&CloseReason::ALL.map(reason_word)))
}

/// A reason as `--reason` takes it.
pub(super) fn reason_word(reason: CloseReason) -> String {
    reason.as_str().replace('_', "-")
}

/// Reads a time, or how long before now it was.
pub(super) fn parse_moment(text: &str) -> Result<Micros, String> {
    moment(text, now()).ok_or_else(|| {
        "a time such as 2026-01-05T07:00:00Z, or how long ago: 90s, 30m, 24h, 7d or 2w".to_owned()
    })
}

fn moment(text: &str, now: Micros) -> Option<Micros> {
    let text = text.trim();
    if let Some(at) = Micros::parse_rfc3339(text) {
        return Some(at);
    }
    let unit = text.chars().next_back()?;
    let number: i64 = text.strip_suffix(unit)?.parse().ok().filter(|number| *number >= 0)?;
    let factor = match unit {
        's' => Micros::SECOND,
        'm' => Micros::MINUTE,
        'h' => Micros::HOUR,
        'd' => Micros::DAY,
        'w' => 7 * Micros::DAY,
        _ => return None,
    };
    Some(now.minus(number.checked_mul(factor)?))
}

fn one_of(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    format!("one of: {}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_times_or_how_long_ago() {
        let now = Micros::parse_rfc3339("2026-01-08T07:00:00Z").unwrap();
        assert_eq!(moment("2026-01-05T07:00:00Z", now), Some(now.minus(3 * Micros::DAY)));
        assert_eq!(moment("24h", now), Some(now.minus(Micros::DAY)));
        assert_eq!(moment("2w", now), Some(now.minus(14 * Micros::DAY)));
        for wrong in ["", "24", "h", "-1h", "yesterday", "9999999999999999d", "7é"] {
            assert_eq!(moment(wrong, now), None, "{wrong}");
        }
    }

    #[test]
    fn one_is_singular() {
        let counts = [0_u64, 1, 2].map(|number| count(number, "call"));
        assert_eq!(counts, ["0 calls", "1 call", "2 calls"]);
    }
}
