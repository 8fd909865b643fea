//! Times and durations in every form that logs write them.

use chrono::{Datelike, NaiveDate};

use super::json::Json;
use crate::model::Micros;

/// 1980-01-01T00:00:00Z: an earlier time is a clock that was never set, or no time at all.
const EARLIEST: i128 = 315_532_800_000_000;
/// 2201-01-01T00:00:00Z.
const LATEST: i128 = 7_289_654_400_000_000;

/// Days from the first day of year 1 to 1970-01-01.
const EPOCH_DAYS_FROM_CE: i32 = 719_163;

/// A time that could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogTime {
    pub(super) at: Micros,
    /// True when it named no offset and was taken for UTC.
    pub(super) naive: bool,
}

/// Reads RFC 3339 (any precision, any offset or none, a space for the `T`), or a count of seconds,
/// milliseconds, microseconds or nanoseconds since 1970 as a number or text: which of them is told
/// by its size, since their ranges from 1980 to 2200 do not meet. None for everything else.
pub(super) fn read_time(value: &Json<'_>) -> Option<LogTime> {
    match value {
        Json::Number(number) => {
            let micros = match number.as_i64() {
                Some(whole) => epoch(whole.into()),
                None => number.as_f64().and_then(epoch_with_fraction),
            };
            micros.map(|at| LogTime { at, naive: false })
        }
        Json::Text(text) => read_text(text.trim()),
        _ => None,
    }
}

/// Reads a duration as milliseconds: a number of them, or text such as `41`, `41ms`, `1.5s`,
/// `300us`.
pub(super) fn read_duration_ms(value: &Json<'_>) -> Option<f64> {
    let duration_ms = match value {
        Json::Number(number) => number.as_f64()?,
        Json::Text(text) => {
            let text = text.trim();
            let unit_at = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ');
            let (count, unit) = text.split_at(unit_at.unwrap_or(text.len()));
            let ms_per_unit = match unit {
                "" | "ms" => 1.0,
                "s" => 1e3,
                "us" | "µs" => 1e-3,
                "ns" => 1e-6,
                _ => return None,
            };
            count.trim().parse::<f64>().ok()? * ms_per_unit
        }
        _ => return None,
    };
    (duration_ms.is_finite() && duration_ms >= 0.0).then_some(duration_ms)
}

fn read_text(text: &str) -> Option<LogTime> {
    if let Some(time) = read_rfc3339(text) {
        return Some(time);
    }
    let micros = match text.parse::<i64>() {
        Ok(whole) => epoch(whole.into()),
        Err(_) => text.parse::<f64>().ok().and_then(epoch_with_fraction),
    };
    micros.map(|at| LogTime { at, naive: false })
}

fn epoch(count: i128) -> Option<Micros> {
    // Seconds, milliseconds, microseconds; nanoseconds are divided below.
    [1_000_000, 1_000, 1]
        .into_iter()
        .find_map(|micros_per_unit| in_range(count * micros_per_unit))
        .or_else(|| in_range(count.div_euclid(1_000)))
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates and the range is checked")]
fn epoch_with_fraction(count: f64) -> Option<Micros> {
    // Until the year 2106 a double of seconds holds microseconds exactly, so rounding gives what
    // was written.
    [1e6, 1e3, 1.0, 1e-3]
        .into_iter()
        .find_map(|micros_per_unit| in_range((count * micros_per_unit).round() as i128))
}

fn in_range(micros: i128) -> Option<Micros> {
    (EARLIEST..LATEST).contains(&micros).then(|| i64::try_from(micros).ok().map(Micros))?
}

fn read_rfc3339(text: &str) -> Option<LogTime> {
    let mut rest = Scanner(text.as_bytes());
    let year = rest.number(4)?;
    rest.one_of(b"-")?;
    let month = u32::try_from(rest.number(2)?).ok()?;
    rest.one_of(b"-")?;
    let day = u32::try_from(rest.number(2)?).ok()?;
    rest.one_of(b"Tt ")?;
    let hour = rest.number(2).filter(|hour| *hour < 24)?;
    rest.one_of(b":")?;
    let minute = rest.number(2).filter(|minute| *minute < 60)?;
    rest.one_of(b":")?;
    // A leap second is the first instant of the next minute.
    let second = rest.number(2).filter(|second| *second <= 60)?;
    let micros = if rest.one_of(b".,").is_some() { rest.fraction_micros()? } else { 0 };
    rest.0 = rest.0.trim_ascii();
    let naive = rest.0.is_empty();
    let offset_minutes = if naive { 0 } else { rest.offset_minutes()? };
    let date = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?;
    let days = i64::from(date.num_days_from_ce() - EPOCH_DAYS_FROM_CE);
    let minutes = (days * 24 + hour) * 60 + minute - offset_minutes;
    let at = in_range(i128::from((minutes * 60 + second) * Micros::SECOND + micros))?;
    Some(LogTime { at, naive })
}

/// What of the text is still to be read.
struct Scanner<'a>(&'a [u8]);

impl Scanner<'_> {
    fn one_of(&mut self, set: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        set.contains(first).then(|| {
            self.0 = rest;
            *first
        })
    }

    fn digit(&mut self) -> Option<i64> {
        self.one_of(b"0123456789").map(|byte| i64::from(byte - b'0'))
    }

    fn number(&mut self, digits: usize) -> Option<i64> {
        (0..digits).try_fold(0, |number, _| Some(number * 10 + self.digit()?))
    }

    /// Any number of digits; what is finer than a microsecond is cut.
    fn fraction_micros(&mut self) -> Option<i64> {
        let mut micros = self.digit()? * 100_000;
        let mut scale = 10_000;
        while let Some(digit) = self.digit() {
            micros += digit * scale;
            scale /= 10;
        }
        Some(micros)
    }

    /// `Z`, `+02:00`, `+0200`, `+02`, `UTC`, up to the end of the text.
    fn offset_minutes(&mut self) -> Option<i64> {
        if self.0.eq_ignore_ascii_case(b"z") || self.0.eq_ignore_ascii_case(b"utc") {
            return Some(0);
        }
        let sign = if self.one_of(b"+-")? == b'-' { -1 } else { 1 };
        let hours = self.number(2).filter(|hours| *hours < 24)?;
        let minutes = if self.0.is_empty() {
            0
        } else {
            self.one_of(b":");
            self.number(2).filter(|minutes| *minutes < 60)?
        };
        self.0.is_empty().then_some(sign * (hours * 60 + minutes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::json;
    use super::*;

    fn read(value: &str) -> Option<LogTime> {
        read_time(&json::parse(value).unwrap())
    }

    #[test]
    fn every_form_of_one_instant() {
        let at = Micros::parse_rfc3339("2025-11-29T16:00:00.25Z").unwrap();
        for text in [
            "1764432000.25",
            "1764432000250",
            "1764432000250000",
            "1764432000250000000",
            "\"1764432000.25\"",
            "\"1764432000250\"",
            "1764432000250.0",
            "\"1764432000250000000\"",
            "\"2025-11-29T16:00:00.25Z\"",
            "\"2025-11-29t16:00:00.250000999z\"",
            "\"2025-11-29 16:00:00.25 UTC\"",
            "\"2025-11-29T18:30:00.25+02:30\"",
            "\"2025-11-29T18:30:00.25+0230\"",
            "\"2025-11-29T11:00:00,25-05\"",
        ] {
            assert_eq!(read(text), Some(LogTime { at, naive: false }), "{text}");
        }
        assert_eq!(read("\"2025-11-29T16:00:00.25\""), Some(LogTime { at, naive: true }));
    }

    #[test]
    fn what_cannot_be_a_time() {
        for text in [
            "null",
            "true",
            "{}",
            "0",
            "-1764432000",
            "1e300",
            "99999999999",
            "\"yesterday\"",
            "\"NaN\"",
            "\"inf\"",
            "\"1979-12-31T23:59:59Z\"",
            "\"2201-01-01T00:00:00Z\"",
            "\"2025-02-29T00:00:00Z\"",
            "\"2025-11-29T24:00:00Z\"",
            "\"2025-11-29T16:00:00.Z\"",
            "\"2025-11-29T16:00:00+25:00\"",
            "\"2025-11-29\"",
            "\"2025-11-29T16:00:00Zjunk\"",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_leap_second_is_the_next_minute() {
        let next = Micros::parse_rfc3339("2017-01-01T00:00:00Z").unwrap();
        assert_eq!(read("\"2016-12-31T23:59:60Z\"").map(|time| time.at), Some(next));
    }

    #[test]
    fn durations() {
        let cases = [
            ("12", Some(12.0)),
            ("41.2", Some(41.2)),
            ("\"41ms\"", Some(41.0)),
            ("\"1.5 s\"", Some(1500.0)),
            ("\"300µs\"", Some(0.3)),
            ("\"2h\"", None),
            ("-1", None),
            ("\"NaN\"", None),
            ("[]", None),
        ];
        for (text, duration_ms) in cases {
            assert_eq!(read_duration_ms(&json::parse(text).unwrap()), duration_ms, "{text}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_common_reader(micros in 315_532_800_000_000_i64..7_289_654_400_000_000) {
            let at = Micros(micros);
            let text = format!("\"{}\"", at.to_rfc3339());
            prop_assert_eq!(read(&text), Some(LogTime { at, naive: false }));
        }

        #[test]
        fn seconds_with_a_fraction_keep_their_microseconds(
            micros in 315_532_800_000_000_i64..4_294_967_296_000_000
        ) {
            let seconds = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            prop_assert_eq!(read(&seconds).map(|time| time.at), Some(Micros(micros)));
        }
    }
}
