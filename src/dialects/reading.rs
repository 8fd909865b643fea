//! One line being read: what every dialect does alike. Dialects take their fields through it, so
//! that duplicated keys, odd types, over-long texts and secrets are handled once and for all.

use std::borrow::Cow;

use super::fields::Fields;
use super::json::Json;
use super::shown;
use super::texts::{Name, Texts, head};
use super::time::{read_duration_ms, read_time};
use super::words::Words;
use crate::mask::mask_text;
use crate::model::{Args, Micros, Record, Text, TimeQuality};

/// Longest detail kept, in bytes.
const DETAIL_BYTES_MAX: usize = 4096;

/// Most further values of duplicated keys that a record keeps.
const ALSO_MAX: usize = 64;

/// Most flags taken from one line.
const LOGGED_FLAGS_MAX: usize = 64;

/// Times further ahead of the reader's clock than this are marked.
const FUTURE_AFTER: i64 = Micros::MINUTE;

/// The keys a line's time may stand under, in the order they are believed.
const TIME_KEYS: [&str; 5] = ["ts", "time", "timestamp", "@timestamp", "at"];

/// A line on its way to becoming a record.
pub(super) struct Reading<'a, 'p> {
    pub(super) fields: Fields<'a>,
    pub(super) texts: &'p mut Texts,
    pub(super) words: &'p Words,
    flags: Vec<Text>,
    also: Vec<(&'static str, Text)>,
    added: Vec<(&'static str, String)>,
}

impl<'a, 'p> Reading<'a, 'p> {
    pub(super) fn new(fields: Fields<'a>, texts: &'p mut Texts, words: &'p Words) -> Self {
        let mut reading =
            Self { fields, texts, words, flags: Vec::new(), also: Vec::new(), added: Vec::new() };
        if reading.fields.has_duplicates() {
            reading.flag("duplicate-key");
        }
        reading
    }

    /// Marks the record.
    pub(super) fn flag(&mut self, flag: &str) {
        let flag = self.texts.shared(flag).text;
        self.flags.push(flag);
    }

    /// Marks the record with the log's own flags.
    pub(super) fn flag_all<'t>(&mut self, flags: impl IntoIterator<Item = &'t str>) {
        let mut flags = flags.into_iter().map(str::trim).filter(|flag| !flag.is_empty());
        for flag in flags.by_ref().take(LOGGED_FLAGS_MAX) {
            self.flag(flag);
        }
        if flags.next().is_some() {
            self.flag("flags-cut");
        }
    }

    /// Puts something into the record's extra that is no pair of the line; `json` is JSON text.
    pub(super) fn add_extra(&mut self, key: &'static str, json: String) {
        self.added.push((key, json));
    }

    /// Takes a text that comes again and again, from the first of `keys` that has one. `field` is
    /// the rule language's name, under which every further value is kept.
    pub(super) fn name(&mut self, keys: &[&str], field: &'static str) -> Option<Text> {
        self.take_text(keys, field, Texts::shared)
    }

    /// Takes a text that names one thing only, such as a request id.
    pub(super) fn id(&mut self, keys: &[&str], field: &'static str) -> Option<Text> {
        self.take_text(keys, field, |texts, text| texts.once(text))
    }

    /// Takes free text.
    pub(super) fn detail(&mut self) -> Option<Text> {
        let mut earlier = Vec::new();
        let last = self.fields.take("detail", &mut earlier);
        for value in earlier {
            self.add_also("detail", &value, |texts, text| texts.once(text));
        }
        let value = last?;
        let text = self.text_of(&value)?;
        let whole = head(&text, 2 * DETAIL_BYTES_MAX);
        let masked = mask_text(whole);
        if shown::is_masked(&masked, whole) {
            self.flag(shown::SECRET_MASKED);
        }
        let detail = Text::from(head(&masked, DETAIL_BYTES_MAX));
        if detail.len() < masked.len() {
            self.flag("long-field");
        }
        Some(detail)
    }

    /// Takes a value as it is. Earlier values of the same key are returned first.
    pub(super) fn values(&mut self, key: &str) -> Vec<Json<'a>> {
        let mut values = Vec::new();
        let last = self.fields.take(key, &mut values);
        values.reverse();
        values.extend(last);
        values
    }

    /// Takes the line's own time.
    pub(super) fn time(&mut self, now: Micros) -> (Option<Micros>, TimeQuality) {
        let mut quality = TimeQuality::Missing;
        for key in TIME_KEYS {
            let Some(value) = self.fields.get(key).filter(|value| !is_placeholder(value)) else {
                continue;
            };
            let Some(time) = read_time(value) else {
                // What cannot be read stays in extra, where people can see it.
                quality = TimeQuality::Invalid;
                continue;
            };
            for earlier in self.values(key).iter().rev().skip(1) {
                self.add_also("at", earlier, |texts, text| texts.once(text));
            }
            if time.naive {
                self.flag("naive-time");
            }
            if time.at.since(now) > FUTURE_AFTER {
                // Calls carry flags and no time quality, and detection has to know.
                self.flag("future");
                return (Some(time.at), TimeQuality::Future);
            }
            return (Some(time.at), TimeQuality::Own);
        }
        (None, quality)
    }

    /// Takes the duration from the first of `keys` that has one.
    pub(super) fn duration_ms(&mut self, keys: &[&str]) -> Option<f64> {
        let (key, duration_ms) = keys
            .iter()
            .find_map(|key| Some((*key, self.fields.get(key).and_then(read_duration_ms)?)))?;
        for earlier in self.values(key).iter().rev().skip(1) {
            self.add_also("duration_ms", earlier, |texts, text| texts.once(text));
        }
        Some(duration_ms)
    }

    /// Takes the W3C trace id from `trace_id` or `traceparent`.
    pub(super) fn trace_id(&mut self) -> Option<Text> {
        let found = ["trace_id", "traceparent"].into_iter().find_map(|key| {
            let text = self.fields.text(key)?;
            let hex = if key == "traceparent" { text.split('-').nth(1)? } else { text };
            is_trace_id(hex).then(|| (key, Text::from(hex.to_ascii_lowercase())))
        });
        let (key, trace_id) = found?;
        for earlier in self.values(key).iter().rev().skip(1) {
            self.add_also("trace_id", earlier, |texts, text| texts.once(text));
        }
        Some(trace_id)
    }

    /// Writes what has gathered on the way into the record.
    pub(super) fn finish(mut self, record: &mut Record) {
        let (extra, has_secret) = shown::extra(&self.fields, &self.added);
        record.extra = extra;
        if has_secret {
            self.flag(shown::SECRET_MASKED);
        }
        if self.also.len() > ALSO_MAX {
            self.also.truncate(ALSO_MAX);
            self.flag("duplicates-cut");
        }
        for (field, value) in self.also {
            let field = self.texts.shared(field).text;
            record.also.push((field, value));
        }
        self.flags.sort_unstable();
        self.flags.dedup();
        record.flags = self.flags;
    }

    /// Takes the outcome's word and what it means; the detail of a denial can say that a person
    /// refused.
    pub(super) fn outcome(&mut self, record: &mut Record, detail: Option<&str>) {
        let code = self.name(&["outcome"], "code");
        record.code = code.unwrap_or_else(|| self.texts.shared("").text);
        record.class = self.words.class_with_detail(&record.code, detail);
    }

    /// Takes the arguments from `key`: an object of values or a list of names; `dropped` are names
    /// of further ones. The values of a duplicated key are all kept: an argument must not be hidden
    /// behind a second one.
    pub(super) fn args(&mut self, key: &'static str, dropped: &[Json<'a>]) -> Args {
        let mut shown = Json::Null;
        for value in self.values(key) {
            match (value, &mut shown) {
                (Json::Object(pairs), Json::Object(all)) => all.extend(pairs),
                (Json::List(names), Json::List(all)) => all.extend(names),
                (Json::Null, _) => {}
                (value @ Json::Object(_), _) => shown = value,
                (value, Json::Null) if is_list_of_names(&value) => shown = value,
                (odd, _) => {
                    self.flag("odd-type");
                    let mut has_secret = false;
                    let bytes_max = DETAIL_BYTES_MAX / 4;
                    let masked = shown::masked_and_told(&odd, bytes_max, &mut has_secret);
                    if has_secret {
                        self.flag(shown::SECRET_MASKED);
                    }
                    self.add_extra(key, masked);
                }
            }
        }
        let shown = shown::args(self.texts, shown, dropped);
        for flag in shown.flags {
            self.flag(flag);
        }
        shown.args
    }

    fn take_text(
        &mut self,
        keys: &[&str],
        field: &'static str,
        make: impl Fn(&mut Texts, &str) -> Name,
    ) -> Option<Text> {
        let mut primary: Option<Text> = None;
        let also_from = self.also.len();
        let (mut values, mut earlier) = (Vec::new(), Vec::new());
        for key in keys {
            // Last value first: it is what a reader of JSON sees, unless it says nothing.
            values.extend(self.fields.take(key, &mut earlier));
            values.append(&mut earlier);
            for value in values.drain(..) {
                if primary.is_some() {
                    self.add_also(field, &value, &make);
                } else if let Some(text) = self.text_of(&value) {
                    primary = Some(self.keep(&text, &make));
                }
            }
        }
        // The values stand in the order of the line again, and the primary is none of the others.
        let mut others = self.also.split_off(also_from);
        others.reverse();
        others.retain(|(_, value)| primary.as_ref() != Some(value));
        self.also.append(&mut others);
        primary
    }

    fn keep(&mut self, text: &str, make: impl Fn(&mut Texts, &str) -> Name) -> Text {
        let name = make(self.texts, text);
        if name.cut {
            self.flag("long-field");
        }
        name.text
    }

    fn add_also(
        &mut self,
        field: &'static str,
        value: &Json<'_>,
        make: impl Fn(&mut Texts, &str) -> Name,
    ) {
        // One more than fits is enough to know that some were left out.
        if self.also.len() <= ALSO_MAX
            && let Some(text) = self.text_of(value)
        {
            let text = self.keep(&text, make);
            if !self.also.iter().any(|(other, value)| *other == field && *value == text) {
                self.also.push((field, text));
            }
        }
    }

    /// The text of a value; none for null and placeholders. What should be a text and is a list or
    /// an object is kept as its JSON text.
    fn text_of<'v>(&mut self, value: &'v Json<'_>) -> Option<Cow<'v, str>> {
        match value {
            _ if is_placeholder(value) => None,
            Json::Text(text) => Some(Cow::Borrowed(text)),
            Json::List(_) | Json::Object(_) => {
                self.flag("odd-type");
                Some(Cow::Owned(shown::masked_json(value, DETAIL_BYTES_MAX)))
            }
            scalar => {
                let mut out = String::new();
                scalar.push_canonical(&mut out);
                Some(Cow::Owned(out))
            }
        }
    }
}

/// True for what logs write when there is nothing to say.
fn is_placeholder(value: &Json<'_>) -> bool {
    match value {
        Json::Null => true,
        Json::Text(text) => says_nothing(text),
        _ => false,
    }
}

pub(super) fn says_nothing(text: &str) -> bool {
    matches!(text.trim(), "" | "-")
}

fn is_list_of_names(value: &Json<'_>) -> bool {
    matches!(value, Json::List(items) if items.iter().all(|item| item.as_str().is_some()))
}

fn is_trace_id(text: &str) -> bool {
    text.len() == 32
        && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        && text.bytes().any(|byte| byte != b'0')
}
