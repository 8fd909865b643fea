//! JSON as the dialects need it: borrowed from the line, with every pair of an object kept in its
//! order. An ordinary map would silently drop the earlier values of a duplicated key, and with them
//! what an attacker wants unseen.

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr_iter, memchr2};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// One JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// Reads a text that is one JSON value and nothing else. The error says what is wrong and holds
/// nothing of the text.
pub(super) fn parse(text: &str) -> Result<Json<'_>, String> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Json::deserialize(&mut deserializer).map_err(|error| describe(&error))?;
    match deserializer.end() {
        Ok(()) => Ok(value),
        Err(error) => Err(describe_trailing(text, error.column())),
    }
}

/// Why no value could be read.
#[derive(Debug)]
pub(super) struct Broken {
    /// The byte that is wrong, or the last one before it.
    pub(super) at: usize,
    /// The bytes ended first.
    pub(super) is_cut: bool,
    /// Nothing is wrong but the depth.
    pub(super) is_deep: bool,
    /// What is wrong; holds nothing of the bytes.
    pub(super) reason: String,
}

/// Reads the JSON value that the bytes begin with, whatever follows it, and how many bytes it
/// takes.
pub(super) fn read_first(bytes: &[u8]) -> Result<(Json<'_>, usize), Broken> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter();
    match values.next() {
        Some(Ok(value)) => Ok((value, values.byte_offset())),
        Some(Err(error)) => {
            let newlines = error.line().saturating_sub(1);
            let newline = newlines.checked_sub(1).and_then(|n| memchr_iter(b'\n', bytes).nth(n));
            Err(Broken {
                at: newline.map_or(0, |at| at + 1) + error.column().saturating_sub(1),
                is_cut: error.is_eof(),
                is_deep: error.to_string().starts_with("recursion limit"),
                reason: describe(&error),
            })
        }
        None => {
            Err(Broken { at: 0, is_cut: true, is_deep: false, reason: "no JSON value".to_owned() })
        }
    }
}

impl Json<'_> {
    /// The text of a text; none for every other kind of value.
    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Appends the value as JSON with sorted keys, so that equal values give equal text.
    pub(super) fn push_canonical(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => push_number(out, number),
            Self::Text(text) => push_quoted(out, text),
            Self::List(items) => {
                push_items(out, ('[', ']'), items, |out, item| item.push_canonical(out));
            }
            Self::Object(pairs) => {
                let mut sorted: Vec<_> = pairs.iter().collect();
                sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
                push_items(out, ('{', '}'), sorted, |out, (key, value)| {
                    push_quoted(out, key);
                    out.push(':');
                    value.push_canonical(out);
                });
            }
        }
    }
}

/// Appends a text as a JSON string.
pub(super) fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push_str(text);
    } else {
        text.chars().for_each(|character| push_escaped(out, character));
    }
    out.push('"');
}

/// Appends a number in the shortest form that reads back as the same number.
pub(super) fn push_number(out: &mut String, number: &Number) {
    out.push_str(&number.to_string());
}

/// Appends items between brackets, with commas.
pub(super) fn push_items<T>(
    out: &mut String,
    (open, close): (char, char),
    items: impl IntoIterator<Item = T>,
    mut push: impl FnMut(&mut String, T),
) {
    out.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        push(out, item);
    }
    out.push(close);
}

/// Where the quote stands that ends a quoted text; `from` is behind the one that began it.
pub(super) fn text_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(at) == Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

fn push_escaped(out: &mut String, character: char) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        control if control < ' ' => {
            let code = u32::from(control);
            out.push_str("\\u00");
            out.extend(
                [code / 16, code % 16].map(|digit| char::from_digit(digit, 16).unwrap_or('0')),
            );
        }
        other => out.push(other),
    }
}

fn describe(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let what = message.split(" at line ").next().unwrap_or_default();
    if error.is_eof() {
        format!("the JSON is cut off at byte {}: {what}", error.column())
    } else {
        format!("not JSON: {what} at byte {}", error.column())
    }
}

fn describe_trailing(text: &str, column: usize) -> String {
    match text.as_bytes().get(column.saturating_sub(1)) {
        Some(b'{') => format!(
            "several JSON objects on one line (the second begins at byte {column}); \
             write one object per line"
        ),
        _ => format!("text after the JSON value, at byte {column}"),
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            pairs.push((key, map.next_value()?));
        }
        Ok(Json::Object(pairs))
    }
}

/// A key, borrowed where it has no escapes (a plain `Cow` would always copy).
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Key(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Key(Cow::Owned(text.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        let mut out = String::new();
        parse(text).unwrap().push_canonical(&mut out);
        out
    }

    #[test]
    fn canonical_text_sorts_keys_and_keeps_numbers() {
        assert_eq!(
            canonical(
                "{ \"b\": [1, 1.0, -2e3, null], \"a\": {\"d\": \"x\\u0001\\\"\", \"c\": true} }"
            ),
            "{\"a\":{\"c\":true,\"d\":\"x\\u0001\\\"\"},\"b\":[1,1.0,-2000.0,null]}"
        );
    }

    #[test]
    fn quoting_agrees_with_serde_json() {
        let text: String = ('\0'..='\u{ff}').collect();
        let mut out = String::new();
        push_quoted(&mut out, &text);
        assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
    }

    #[test]
    fn errors_name_the_place_and_no_content() {
        for (text, reason) in [
            ("", "the JSON is cut off at byte 0: EOF while parsing a value"),
            ("secret", "not JSON: expected value at byte 1"),
            ("{\"a\":1", "the JSON is cut off at byte 6: EOF while parsing an object"),
            ("{\"a\":1e999}", "not JSON: number out of range at byte 10"),
            ("\"\\ud800\"", "not JSON: unexpected end of hex escape at byte 8"),
            ("{} x", "text after the JSON value, at byte 4"),
            (
                "{} {}",
                "several JSON objects on one line (the second begins at byte 4); \
                 write one object per line",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err(), reason);
        }
        let deep = "[".repeat(100_000);
        assert_eq!(parse(&deep).unwrap_err(), "not JSON: recursion limit exceeded at byte 128");
    }
}
