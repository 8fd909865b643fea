//! Sizes and durations as people write them.

use crate::model::Micros;

/// Words and their bytes, the larger first, so that [`show_size`] takes the shortest form.
const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

/// Words and their microseconds, the larger first.
const DURATIONS: [(&str, i64); 5] =
    [("h", Micros::HOUR), ("m", Micros::MINUTE), ("s", Micros::SECOND), ("ms", 1_000), ("us", 1)];

/// Reads a size such as `16MiB`, `1GB` or a plain number of bytes.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = split_unit(text.trim());
    let factor = match unit {
        "" => Some(1),
        _ => SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|&(_, f)| f),
    };
    let number = digits.parse::<u64>().ok();
    let size = number.zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    size.ok_or_else(|| "is no size; write it like 16MiB or 1GB".to_owned())
}

/// Writes a size in the largest unit that divides it; [`parse_size`] reads it back.
pub(super) fn show_size(bytes: u64) -> String {
    let fits = |&&(_, factor): &&(&str, u64)| bytes >= factor && bytes.is_multiple_of(factor);
    let (unit, factor) = SIZES.iter().find(fits).copied().unwrap_or(("B", 1));
    format!("{}{unit}", bytes / factor)
}

/// Reads a duration with or without a sign, such as `-850ms`, `90s`, `5m` or `2h`, as microseconds.
pub(super) fn parse_duration(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, unit) = split_unit(unsigned);
    let factor = DURATIONS.iter().find(|(name, _)| *name == unit).map(|&(_, factor)| factor);
    let number = digits.parse::<i64>().ok();
    let micros = number.zip(factor).and_then(|(number, factor)| number.checked_mul(sign * factor));
    micros.ok_or_else(|| "is no duration; write it like -850ms, 90s, 5m or 2h".to_owned())
}

/// Writes a duration in the largest unit that divides it; [`parse_duration`] reads it back.
pub(super) fn show_duration(micros: i64) -> String {
    let fits = |&&(_, factor): &&(&str, i64)| micros != 0 && micros % factor == 0;
    let (unit, factor) = DURATIONS.iter().find(fits).copied().unwrap_or(("s", 1));
    format!("{}{unit}", micros / factor)
}

/// The digits at the beginning, and the rest without the space between.
fn split_unit(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at(end);
    (digits, unit.trim_start())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_with_either_kind_of_unit() {
        for (text, bytes) in
            [("16MiB", 16 << 20), ("1GB", 1_000_000_000), ("2 kb", 2_000), ("4096", 4096)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MB", "-1MB", "1.5GB", "1XB", "99999999999TB", "1é"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(show_size(16 << 20), "16MiB");
        assert_eq!(show_size(1_000_000_000), "1GB");
    }

    #[test]
    fn durations_carry_a_sign() {
        for (text, micros) in
            [("-850ms", -850_000), ("90s", 90_000_000), ("+5m", 300_000_000), ("0s", 0)]
        {
            assert_eq!(parse_duration(text), Ok(micros), "{text}");
        }
        for text in ["", "5", "--5s", "s", "5 days", "9999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(bytes: u64, micros in -i64::MAX..i64::MAX) {
            prop_assert_eq!(parse_size(&show_size(bytes)), Ok(bytes));
            prop_assert_eq!(parse_duration(&show_duration(micros)), Ok(micros));
        }
    }
}
