//! Lines being written: JSON text, and the time that is put in last.

use super::truth::Shows;
use crate::model::{Micros, Text, Witness};

/// How much of a message a proxy keeps: most of them are cut off in the middle.
const QUOTED_CHARS: usize = 200;

/// One line of a log, at the moment it appears in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimLine {
    /// When the line is written, by the true clock.
    pub at_write: Micros,
    /// Path relative to the folder of the logs, such as `desk-1/client/audit.jsonl`.
    pub file: Text,
    /// The line without its newline.
    pub text: String,
}

/// How a dialect writes its time.
#[derive(Clone, Copy, Debug)]
pub(super) enum TimeStyle {
    /// RFC 3339 with microseconds and the offset `+00:00`.
    Rfc3339,
    /// Seconds since 1970 as a number with milliseconds.
    EpochSeconds,
}

/// A line whose time is not put in yet, so that a story can be told at another speed.
#[derive(Debug)]
pub(super) struct Draft {
    /// The call it tells of; none for context.
    pub(super) call: Option<u64>,
    /// Index in the list of files.
    pub(super) file: usize,
    /// Time as the line's own clock shows it.
    pub(super) at: Micros,
    /// When it is written, by the true clock.
    pub(super) written: Micros,
    /// When what it tells of happened, by the true clock.
    pub(super) happened: Micros,
    /// When the request it tells of was sent, by the true clock; none before it was.
    pub(super) sent: Option<Micros>,
    pub(super) witness: Witness,
    /// Which try of its call it tells of, counted from 1.
    pub(super) attempt: u32,
    pub(super) shows: Shows,
    /// True where it never reaches its log.
    pub(super) is_lost: bool,
    pub(super) message: Message,
    object: Object,
}

/// What a line means to the numbers of a connection. A client numbers its requests as it sends them,
/// so the number is known only when the line's turn comes. `key` is the same for a request and what
/// answers it, and no other request that waits has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// It tells of nothing that is numbered.
    None,
    /// A request; with the first of a connection the numbers begin anew.
    Asks { key: u64, is_first: bool },
    /// What comes back, before and after the request's number.
    Answers { key: u64, text: [String; 2] },
}

impl Draft {
    pub(super) fn new(call: Option<u64>, file: usize, at: Micros, object: Object) -> Self {
        Self {
            call,
            file,
            at,
            written: at,
            happened: at,
            sent: None,
            witness: Witness::Server,
            attempt: 1,
            shows: Shows::default(),
            is_lost: false,
            message: Message::None,
            object,
        }
    }

    /// The same line, written by that witness.
    pub(super) fn by(mut self, witness: Witness) -> Self {
        self.witness = witness;
        self
    }

    /// The same line, with how much it gives away.
    pub(super) fn showing(mut self, shows: Shows) -> Self {
        self.shows = shows;
        self
    }

    /// The same line, written `delay` microseconds after the time it shows.
    pub(super) fn delayed(mut self, delay: i64) -> Self {
        self.written = self.written.plus(delay);
        self
    }

    /// The same line by a clock that is `offset` microseconds ahead.
    pub(super) fn by_clock(mut self, offset: i64) -> Self {
        self.at = self.at.plus(offset);
        self
    }

    /// The same line, which tells of that message.
    pub(super) fn of(mut self, message: Message) -> Self {
        self.message = message;
        self
    }

    /// The line's text, showing `at`, and what it quotes under the request's `number`.
    pub(super) fn text(&self, at: Micros, number: u64) -> String {
        let mut text = String::with_capacity(self.object.text.len() + 40);
        let (before, after) = self
            .object
            .text
            .split_at_checked(self.object.time_at)
            .unwrap_or((&self.object.text, ""));
        if let (Message::Answers { text: [head, tail], .. }, Some(quote_at)) =
            (&self.message, self.object.quote_at)
        {
            let (before, between) = before.split_at_checked(quote_at).unwrap_or((before, ""));
            text.push_str(before);
            push_json(&mut text, beginning(&format!("{head}{number}{tail}")));
            text.push_str(between);
        } else {
            text.push_str(before);
        }
        match self.object.style {
            TimeStyle::Rfc3339 => {
                text.push('"');
                push_rfc3339(&mut text, at);
                text.push('"');
            }
            TimeStyle::EpochSeconds => {
                let millis = at.0.div_euclid(1000);
                push_number(&mut text, millis.div_euclid(1000).unsigned_abs(), 1);
                text.push('.');
                push_number(&mut text, millis.rem_euclid(1000).unsigned_abs(), 3);
            }
        }
        text.push_str(after);
        text.push('}');
        text
    }
}

/// The first characters of a message, as far as a proxy keeps them.
fn beginning(message: &str) -> &str {
    let end = message.char_indices().nth(QUOTED_CHARS).map_or(message.len(), |(end, _)| end);
    message.split_at_checked(end).map_or(message, |(head, _)| head)
}

/// A JSON object under construction, keys in the order they are given.
#[derive(Debug)]
pub(super) struct Object {
    text: String,
    /// Byte index at which the time belongs.
    time_at: usize,
    style: TimeStyle,
    /// Byte index at which the message belongs that the line quotes; before the time.
    quote_at: Option<usize>,
}

impl Object {
    pub(super) fn new() -> Self {
        let mut text = String::with_capacity(224);
        text.push('{');
        Self { text, time_at: 0, style: TimeStyle::Rfc3339, quote_at: None }
    }

    /// Leaves room for the time under `key`.
    pub(super) fn time(mut self, key: &str, style: TimeStyle) -> Self {
        self.key(key);
        self.time_at = self.text.len();
        self.style = style;
        self
    }

    /// Leaves room for a quoted message under `key`.
    pub(super) fn quote(mut self, key: &str) -> Self {
        self.key(key);
        self.quote_at = Some(self.text.len());
        self
    }

    pub(super) fn text(mut self, key: &str, value: &str) -> Self {
        self.key(key);
        push_json(&mut self.text, value);
        self
    }

    pub(super) fn optional(self, key: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(key, value),
            None => self,
        }
    }

    pub(super) fn number(mut self, key: &str, value: i64) -> Self {
        self.key(key);
        if value < 0 {
            self.text.push('-');
        }
        push_number(&mut self.text, value.unsigned_abs(), 1);
        self
    }

    /// `json` is put in as it is.
    pub(super) fn json(mut self, key: &str, json: &str) -> Self {
        self.key(key);
        self.text.push_str(json);
        self
    }

    pub(super) fn list(mut self, key: &str, items: &[&str]) -> Self {
        self.key(key);
        self.text.push('[');
        for (place, item) in items.iter().enumerate() {
            if place > 0 {
                self.text.push(',');
            }
            push_json(&mut self.text, item);
        }
        self.text.push(']');
        self
    }

    /// The object's text; only for objects without a time.
    pub(super) fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }

    fn key(&mut self, key: &str) {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        self.text.push('"');
        self.text.push_str(key);
        self.text.push_str("\":");
    }
}

/// Appends `value` as a JSON string.
pub(super) fn push_json(out: &mut String, value: &str) {
    out.push('"');
    let is_plain = value.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
    if is_plain {
        out.push_str(value);
    } else {
        for character in value.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                control if control < ' ' => {
                    out.push_str("\\u");
                    let code = u32::from(control);
                    for shift in [12, 8, 4, 0] {
                        out.push(char::from_digit((code >> shift) & 15, 16).unwrap_or('0'));
                    }
                }
                other => out.push(other),
            }
        }
    }
    out.push('"');
}

/// Appends the instant as `2026-11-20T08:00:00.000000+00:00`. Formatting takes a good part of the
/// time it takes to make a line, which is why this does not go through the calendar library.
pub(super) fn push_rfc3339(out: &mut String, at: Micros) {
    let (days, micros) = (at.0.div_euclid(Micros::DAY), at.0.rem_euclid(Micros::DAY));
    let (year, month, day) = date(days);
    let seconds = micros / Micros::SECOND;
    for (number, width, after) in [
        (year, 4, '-'),
        (month, 2, '-'),
        (day, 2, 'T'),
        (seconds / 3600, 2, ':'),
        (seconds / 60 % 60, 2, ':'),
        (seconds % 60, 2, '.'),
    ] {
        push_number(out, number.unsigned_abs(), width);
        out.push(after);
    }
    push_number(out, (micros % Micros::SECOND).unsigned_abs(), 6);
    out.push_str("+00:00");
}

/// Year, month and day of a number of days since 1970, by counting in eras of 400 years that begin
/// in March.
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Appends the number with at least `width` digits.
fn push_number(out: &mut String, number: u64, width: u32) {
    let mut digits = 20;
    while digits > width && number < 10_u64.pow(digits - 1) {
        digits -= 1;
    }
    for place in (0..digits).rev() {
        let digit = number / 10_u64.pow(place) % 10;
        out.push(u8::try_from(digit).map_or('0', |digit| char::from(b'0' + digit)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_time_goes_where_there_is_room_for_it() {
        let object = Object::new().text("a", "b").time("ts", TimeStyle::Rfc3339).number("c", -7);
        let draft = Draft::new(None, 0, Micros(0), object);
        assert_eq!(
            draft.text(Micros(1_795_161_600_118_000), 0),
            r#"{"a":"b","ts":"2026-11-20T08:00:00.118000+00:00","c":-7}"#
        );
        let object = Object::new().time("time", TimeStyle::EpochSeconds);
        let draft = Draft::new(None, 0, Micros(0), object);
        assert_eq!(draft.text(Micros(1_795_161_600_050_999), 0), r#"{"time":1795161600.050}"#);
    }

    proptest! {
        #[test]
        fn times_are_written_as_the_calendar_has_them(at in 0_i64..4_000_000_000_000_000) {
            let mut text = String::new();
            push_rfc3339(&mut text, Micros(at));
            prop_assert_eq!(Micros::parse_rfc3339(&text), Some(Micros(at)));
        }

        #[test]
        fn any_text_becomes_a_json_string(value in ".{0,40}|[\\x00-\\x7f]{0,40}") {
            let mut text = String::new();
            push_json(&mut text, &value);
            prop_assert_eq!(serde_json::from_str::<String>(&text).unwrap(), value);
        }

        #[test]
        fn numbers_are_written_in_full(number in any::<u64>()) {
            let mut text = String::new();
            push_number(&mut text, number, 1);
            prop_assert_eq!(text, number.to_string());
        }
    }
}
