//! The only texts the templates get: made inert here, so that forgetting it does not compile.
//!
//! Page models hold [`Shown`], [`When`], numbers, ids and the project's own words, never a `String`
//! from a log.

use std::fmt;

use crate::model::{AlertState, CloseReason, Level, Micros};
use crate::untrusted::display_untrusted;

const NO_TIME: &str = "<span class=\"quiet\">no time</span>";

/// Text that has been through [`display_untrusted`]; the templates escape it for HTML.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shown(String);

impl Shown {
    pub(crate) fn new(text: &str) -> Self {
        Self(display_untrusted(text))
    }

    /// The head of the text, for labels in pictures and titles.
    pub(crate) fn short(text: &str, chars_max: usize) -> Self {
        let mut shown = display_untrusted(text);
        if let Some((end, _)) = shown.char_indices().nth(chars_max) {
            shown.truncate(end);
            shown.push('…');
        }
        Self(shown)
    }

    /// One text a line: the only way in which a line break of a log reaches a page.
    pub(crate) fn lines(text: &str) -> Vec<Self> {
        text.lines().map(Self::new).collect()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An instant to the millisecond, written as a `<time>` element in UTC whose title has the
/// microseconds; "no time" where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct When(pub(crate) Option<Micros>);

/// The same with its microseconds in view, for where records are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WhenExact(pub(crate) Option<Micros>);

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(at) => {
                let (iso, exact) = (at.to_rfc3339(), exact_clock_text(at));
                write!(f, "<time datetime=\"{iso}\" title=\"{exact}\">{}</time>", clock_text(at))
            }
            None => f.write_str(NO_TIME),
        }
    }
}

impl fmt::Display for WhenExact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(at) => {
                let iso = at.to_rfc3339();
                write!(f, "<time datetime=\"{iso}\">{}</time>", exact_clock_text(at))
            }
            None => f.write_str(NO_TIME),
        }
    }
}

/// A day of UTC, written as a `<time>` element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Day(pub(crate) Micros);

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day = self.0.to_datetime().format("%F").to_string();
        write!(f, "<time datetime=\"{day}\">{day}</time>")
    }
}

/// They write their own element, of digits alone: nothing in it can come from a log.
impl askama::filters::HtmlSafe for When {}
impl askama::filters::HtmlSafe for WhenExact {}
impl askama::filters::HtmlSafe for Day {}

/// A coordinate in a picture, with one decimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub(crate) struct Px(pub(crate) f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", self.0)
    }
}

/// `2026-11-29 10:00:01.250 UTC`.
pub(crate) fn clock_text(at: Micros) -> String {
    at.to_datetime().format("%F %T%.3f UTC").to_string()
}

/// The same, and microseconds where there are some.
fn exact_clock_text(at: Micros) -> String {
    let form = if at.0.rem_euclid(1000) == 0 { "%F %T%.3f UTC" } else { "%F %T%.6f UTC" };
    at.to_datetime().format(form).to_string()
}

/// The time of day alone, for the axis of a picture.
pub(crate) fn day_time_text(at: Micros) -> String {
    at.to_datetime().format("%T%.3f").to_string()
}

/// A length of time at a glance: to the millisecond below a second, to the hundredth of a second
/// below a minute.
pub(crate) fn brief_duration(micros: i64) -> String {
    let unit = match micros.unsigned_abs() {
        0 => return duration(0),
        1..1_000 => return if micros < 0 { "−<1 ms" } else { "<1 ms" }.to_owned(),
        1_000..1_000_000 => 1_000,
        _ => 10_000,
    };
    duration(micros.saturating_add(micros.signum() * unit / 2) / unit * unit)
}

/// A length of time for people: exact to the millisecond below a minute.
pub(crate) fn duration(micros: i64) -> String {
    let sign = if micros < 0 { "−" } else { "" };
    let micros = micros.unsigned_abs();
    let seconds = micros / 1_000_000;
    let text = match micros {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", decimals(micros)),
        1_000_000..60_000_000 => format!("{} s", decimals(micros / 1000)),
        60_000_000..3_600_000_000 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3_600_000_000..86_400_000_000 => {
            format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60)
        }
        _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3600 % 24),
    };
    format!("{sign}{text}")
}

/// Thousandths as a decimal number without trailing zeros.
fn decimals(thousandths: u64) -> String {
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An amount of bytes for people.
pub(crate) fn bytes(amount: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = amount as f64;
    let mut unit = "B";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" { format!("{amount} B") } else { format!("{value:.1} {unit}") }
}

/// A number with commas between the thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "1 call", "2 calls".
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A level as the pages show it: a word and a shape, so that colour is never alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Severity(pub(crate) Level);

impl Severity {
    pub(crate) const fn word(self) -> &'static str {
        self.0.as_str()
    }

    pub(crate) const fn shape(self) -> &'static str {
        match self.0 {
            Level::Critical => "▲",
            Level::High => "◆",
            Level::Medium => "■",
            Level::Low => "●",
            Level::Informational => "○",
        }
    }
}

/// State and close reason in one phrase.
pub(crate) const fn state_words(state: AlertState, reason: Option<CloseReason>) -> &'static str {
    match (state, reason) {
        (AlertState::Open, _) => "open",
        (AlertState::Acknowledged, _) => "acknowledged",
        (AlertState::Closed, None) => "closed",
        (AlertState::Closed, Some(CloseReason::TruePositive)) => "closed: true positive",
        (AlertState::Closed, Some(CloseReason::FalsePositive)) => "closed: false positive",
        (AlertState::Closed, Some(CloseReason::Benign)) => "closed: benign",
        (AlertState::Closed, Some(CloseReason::Duplicate)) => "closed: duplicate",
        (AlertState::Closed, Some(CloseReason::Other)) => "closed: other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact_where_it_matters() {
        for (micros, text) in [
            (0, "0 s"),
            (412, "412 µs"),
            (1_000, "1 ms"),
            (12_340, "12.34 ms"),
            (4_100_000, "4.1 s"),
            (59_999_999, "59.999 s"),
            (125_000_000, "2 min 05 s"),
            (7_260_000_000, "2 h 01 min"),
            (-1_500_000, "−1.5 s"),
        ] {
            assert_eq!(duration(micros), text);
        }
    }

    #[test]
    fn durations_at_a_glance_are_rounded() {
        for (micros, text) in [
            (0, "0 s"),
            (412, "<1 ms"),
            (-412, "−<1 ms"),
            (582_613, "583 ms"),
            (999_600, "1 s"),
            (1_473_211, "1.47 s"),
            (-5_246_000, "−5.25 s"),
            (59_999_999, "1 min 00 s"),
            (i64::MAX, "106751991 d 04 h"),
        ] {
            assert_eq!(brief_duration(micros), text);
        }
    }

    #[test]
    fn numbers_are_for_people() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(counted(1, "call"), "1 call");
        assert_eq!(counted(1200, "call"), "1,200 calls");
    }

    #[test]
    fn what_is_shown_is_inert_and_short() {
        assert_eq!(Shown::new("a\u{202e}b").as_str(), "a\\u{202e}b");
        assert_eq!(Shown::short("abcdef", 3).as_str(), "abc…");
        assert_eq!(Shown::lines("a\nb\r\n").len(), 2);
    }

    #[test]
    fn times_name_their_zone() {
        let at = Micros::parse_rfc3339("2026-11-29T10:00:01.250017Z").unwrap();
        assert_eq!(
            When(Some(at)).to_string(),
            "<time datetime=\"2026-11-29T10:00:01.250017Z\" \
             title=\"2026-11-29 10:00:01.250017 UTC\">2026-11-29 10:00:01.250 UTC</time>"
        );
        assert_eq!(
            WhenExact(Some(at)).to_string(),
            "<time datetime=\"2026-11-29T10:00:01.250017Z\">2026-11-29 10:00:01.250017 UTC</time>"
        );
    }
}
