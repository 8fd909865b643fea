//! What a record shows of the values on its line: arguments and extra keys, masked, bounded, and
//! the arguments with a keyed hash of the whole value, so that a masked or cut one can still be
//! compared.

use std::borrow::Cow;

use super::fields::{Fields, has_duplicates};
use super::json::{Json, push_quoted};
use super::texts::{NAME_BYTES_MAX, Texts, head};
use crate::mask::{
    MASKED, is_secret_name, is_secret_option, is_value_key, mask_text, names_secret,
};
use crate::model::{ArgValue, ArgView, Args, Text};

/// Longest argument value kept, in bytes of JSON text.
const VALUE_BYTES_MAX: usize = 4096;

/// Longest extra kept, in bytes of JSON text.
const EXTRA_BYTES_MAX: usize = 4096;

/// Longest text inside extra, in bytes.
const EXTRA_TEXT_BYTES_MAX: usize = 1024;

/// Most arguments of one record whose values are kept, and most names of others.
const ARGS_MAX: usize = 256;

/// Arguments with the flags their record gets.
pub(super) struct ShownArgs {
    pub(super) args: Args,
    pub(super) flags: Vec<&'static str>,
}

/// The flag of a record whose arguments or result held a secret that was masked here.
pub(super) const SECRET_MASKED: &str = "secret-masked";

/// Makes arguments of an object of values, or of a list of names, with the names of further ones.
pub(super) fn args(texts: &mut Texts, shown: Json<'_>, dropped: &[Json<'_>]) -> ShownArgs {
    let mut flags = Vec::new();
    let mut names = names(texts, dropped);
    let (view, values) = match shown {
        Json::Object(pairs) => {
            if has_duplicates(&pairs) {
                flags.push("duplicate-key");
            }
            if pairs.len() > ARGS_MAX {
                flags.push("args-cut");
            }
            let mut found = false;
            let values = values(texts, pairs, &mut names, &mut found);
            if found {
                flags.push(SECRET_MASKED);
            }
            (if names.is_empty() { ArgView::Full } else { ArgView::Partial }, values)
        }
        Json::List(items) => {
            names.extend(self::names(texts, &items));
            (ArgView::Names, Vec::new())
        }
        _ if names.is_empty() => (ArgView::Nothing, Vec::new()),
        _ => (ArgView::Partial, Vec::new()),
    };
    names.sort_unstable();
    names.dedup();
    if names.len() > ARGS_MAX {
        names.truncate(ARGS_MAX);
        flags.push("args-cut");
    }
    ShownArgs { args: Args { view, values, dropped: names }, flags }
}

/// The pairs nobody took and those the dialect adds, as a JSON object; none when there are none. A
/// pair that does not fit is left out and counted under `…`. Also whether a result among them held a
/// secret.
pub(super) fn extra(fields: &Fields<'_>, added: &[(&'static str, String)]) -> (Option<Text>, bool) {
    let mut has_secret = false;
    let mut out = String::from("{");
    let mut left_out = 0_usize;
    let mut pair = String::new();
    let mut push = |pair: &str, left_out: &mut usize| {
        // Room is kept for the count.
        if out.len() + pair.len() + 32 > EXTRA_BYTES_MAX {
            *left_out += 1;
            return;
        }
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(pair);
    };
    for (key, json) in added {
        push(&format!("\"{key}\":{json}"), &mut left_out);
    }
    let beside = names_a_secret(fields.untaken());
    for (key, value) in fields.untaken().filter(|(_, value)| **value != Json::Null) {
        pair.clear();
        let mut masked = Masked {
            out: &mut pair,
            bytes_max: EXTRA_BYTES_MAX,
            text_bytes_max: EXTRA_TEXT_BYTES_MAX,
            has_secret: false,
        };
        masked.push_pair(key, value, beside);
        has_secret |= masked.has_secret && is_result(key);
        push(&pair, &mut left_out);
    }
    if left_out > 0 {
        out.push_str(if out.len() > 1 { ",\"…\":" } else { "\"…\":" });
        out.push_str(&left_out.to_string());
    } else if out.len() == 1 {
        return (None, has_secret);
    }
    out.push('}');
    (Some(out.into()), has_secret)
}

/// True for the keys under which logs write what a tool gave back.
fn is_result(key: &str) -> bool {
    const KEYS: [&str; 6] = ["result", "results", "output", "content", "response", "body"];
    KEYS.iter().any(|known| known.eq_ignore_ascii_case(key))
}

/// A value as JSON text with secrets masked, cut to `bytes_max`.
pub(super) fn masked_json(value: &Json<'_>, bytes_max: usize) -> String {
    masked_and_told(value, bytes_max, &mut false)
}

/// As [`masked_json`]; says whether a secret was masked.
pub(super) fn masked_and_told(value: &Json<'_>, bytes_max: usize, has_secret: &mut bool) -> String {
    let mut out = String::new();
    let text_bytes_max = 2 * bytes_max;
    let mut masked = Masked { out: &mut out, bytes_max, text_bytes_max, has_secret: false };
    masked.push(value);
    *has_secret |= masked.has_secret;
    cut(&mut out, bytes_max);
    out
}

/// True if the value under a secret's name may be one: logs put stars, brackets and the like in a
/// secret's place.
fn may_be_secret(value: &Json<'_>) -> bool {
    match value {
        Json::Text(text) => {
            let text = text.trim();
            let is_bracketed = text.starts_with(['[', '<', '$', '{']);
            let mut chars = text.chars();
            let first = chars.next();
            !is_bracketed
                && text.chars().any(char::is_alphanumeric)
                && chars.any(|other| Some(other) != first)
        }
        Json::List(items) => items.iter().any(may_be_secret),
        Json::Object(pairs) => pairs.iter().any(|(_, value)| may_be_secret(value)),
        _ => false,
    }
}

fn cut(out: &mut String, bytes_max: usize) {
    if out.len() > bytes_max {
        let kept = head(out, bytes_max - '…'.len_utf8()).len();
        out.truncate(kept);
        out.push('…');
    }
}

fn names(texts: &mut Texts, items: &[Json<'_>]) -> Vec<Text> {
    items.iter().filter_map(Json::as_str).map(|name| texts.shared(name).text).collect()
}

/// The values sorted by name. Those beyond the limit are treated as dropped: their names go to
/// `names`.
fn values(
    texts: &mut Texts,
    mut pairs: Vec<(Cow<'_, str>, Json<'_>)>,
    names: &mut Vec<Text>,
    has_secret: &mut bool,
) -> Vec<ArgValue> {
    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
    names.extend(pairs.iter().skip(ARGS_MAX).map(|(name, _)| texts.shared(name).text));
    let beside = names_a_secret(pairs.iter().map(|(name, value)| (&**name, value)));
    let shown = pairs.iter().take(ARGS_MAX).map(|(name, value)| {
        let secret = beside && is_value_key(name);
        arg_value(texts, name, value, secret, has_secret)
    });
    let mut values: Vec<ArgValue> = shown.collect();
    // A masked name may have changed its place.
    values.sort_by(|a, b| a.name.cmp(&b.name));
    values
}

/// True when one of an object's pairs says that the value beside it is a secret:
/// `"name":"API_KEY"`.
fn names_a_secret<'v>(mut pairs: impl Iterator<Item = (&'v str, &'v Json<'v>)>) -> bool {
    pairs.any(|(key, value)| value.as_str().is_some_and(|text| names_secret(key, text)))
}

fn arg_value(
    texts: &mut Texts,
    name: &str,
    value: &Json<'_>,
    secret: bool,
    has_secret: &mut bool,
) -> ArgValue {
    let name = texts.shared(name);
    let secret = secret || name.secret;
    *has_secret |= secret && may_be_secret(value);
    let mut whole = String::new();
    value.push_canonical(&mut whole);
    let hash = texts.hash(&whole);
    let stated_chars = value.as_str().and_then(summary_chars);
    // The length of a secret is a part of it.
    let chars =
        stated_chars.or_else(|| Some(value.as_str()?.chars().count() as u64)).filter(|_| !secret);
    let text = match value {
        _ if secret => Text::from("\"[masked]\""),
        Json::List(_) | Json::Object(_) => {
            masked_and_told(value, VALUE_BYTES_MAX, has_secret).into()
        }
        Json::Text(text) if may_differ(text) => {
            masked_and_told(value, VALUE_BYTES_MAX, has_secret).into()
        }
        _ => whole.into(),
    };
    ArgValue { name: name.text, text, hash, chars, summarised: stated_chars.is_some() }
}

/// True when the text is shown otherwise than it is: masked or cut.
fn may_differ(text: &str) -> bool {
    text.len() > VALUE_BYTES_MAX / 6 || matches!(mask_text(text), Cow::Owned(_))
}

/// The length that a summary such as `<2048 chars>` or `[string, 2048 characters]` states. A
/// bracket is needed unless it is a bare `2048 chars`.
fn summary_chars(text: &str) -> Option<u64> {
    const SUMMARY_BYTES_MAX: usize = 48;
    if text.len() > SUMMARY_BYTES_MAX || !text.contains("har") && !text.contains("len") {
        return None;
    }
    let brackets = [('<', '>'), ('[', ']'), ('(', ')')];
    let inside =
        brackets.iter().find_map(|(open, close)| text.strip_prefix(*open)?.strip_suffix(*close));
    let mut chars = None;
    let mut words = 0;
    for word in inside.unwrap_or(text).split([' ', ':', ',', '=', '_']) {
        match word {
            "" => {}
            "chars" | "characters" | "char" | "len" | "length" => words += 1,
            "string" | "str" | "text" | "of" | "omitted" | "long" if inside.is_some() => {}
            number if chars.is_none() => chars = Some(number.parse::<u64>().ok()?),
            _ => return None,
        }
    }
    chars.filter(|_| words == 1)
}

/// True if a text was masked, and not by the log itself before.
pub(super) fn is_masked(masked: &str, whole: &str) -> bool {
    // Text without a secret is the same text still, and not only an equal one.
    !std::ptr::eq(masked, whole) && masked != whole
}

/// Writes masked JSON.
struct Masked<'o> {
    out: &'o mut String,
    /// Writing stops soon after this many bytes; what was written is then longer than this.
    bytes_max: usize,
    /// Longer texts are cut to this many bytes.
    text_bytes_max: usize,
    /// Something was masked that the log itself had not.
    has_secret: bool,
}

impl Masked<'_> {
    fn push(&mut self, value: &Json<'_>) {
        match value {
            Json::Text(text) => self.push_text(text),
            Json::List(items) => {
                self.out.push('[');
                let mut after_option = false;
                for item in items {
                    if !self.push_comma('[') {
                        break;
                    }
                    let text = item.as_str();
                    if after_option && text.is_some_and(|text| !text.starts_with('-')) {
                        self.has_secret |= may_be_secret(item);
                        push_quoted(self.out, MASKED);
                    } else {
                        self.push(item);
                    }
                    after_option = text.is_some_and(is_secret_option);
                }
                self.out.push(']');
            }
            Json::Object(pairs) => {
                self.out.push('{');
                let beside = names_a_secret(pairs.iter().map(|(key, value)| (&**key, value)));
                for (key, value) in pairs {
                    if !self.push_comma('{') {
                        break;
                    }
                    self.push_pair(key, value, beside);
                }
                self.out.push('}');
            }
            scalar => scalar.push_canonical(self.out),
        }
    }

    /// `beside`: another pair of the object says that its value is a secret.
    fn push_pair(&mut self, key: &str, value: &Json<'_>, beside: bool) {
        self.push_text(key);
        self.out.push(':');
        if is_secret_name(head(key, NAME_BYTES_MAX)) || beside && is_value_key(key) {
            self.has_secret |= may_be_secret(value);
            push_quoted(self.out, MASKED);
        } else {
            self.push(value);
        }
    }

    fn push_text(&mut self, text: &str) {
        // A secret that the cut goes through must still be seen whole, or its first half would
        // stay.
        let whole = head(text, 2 * self.text_bytes_max);
        let masked = mask_text(whole);
        self.has_secret |= is_masked(&masked, whole);
        if masked.len() <= self.text_bytes_max {
            push_quoted(self.out, &masked);
        } else {
            push_quoted(self.out, &format!("{}…", head(&masked, self.text_bytes_max)));
        }
    }

    /// Separates from the item before, if there is one; false when enough was written.
    fn push_comma(&mut self, open: char) -> bool {
        if !self.out.ends_with(open) {
            self.out.push(',');
        }
        self.out.len() <= self.bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::parse;
    use super::*;

    fn shown(object: &str, dropped: &str) -> ShownArgs {
        let Json::List(dropped) = parse(dropped).unwrap() else { panic!("a list") };
        args(&mut Texts::new([7; 32]), parse(object).unwrap(), &dropped)
    }

    #[test]
    fn views() {
        for (object, dropped, view) in [
            ("null", "[]", ArgView::Nothing),
            ("null", "[\"a\"]", ArgView::Partial),
            ("{}", "[]", ArgView::Full),
            ("{\"a\":1}", "[\"b\"]", ArgView::Partial),
            ("[\"b\",\"a\",\"a\"]", "[]", ArgView::Names),
        ] {
            assert_eq!(shown(object, dropped).args.view, view, "{object} {dropped}");
        }
        let names = shown("[\"b\",\"a\",\"a\"]", "[]").args.dropped;
        assert_eq!(names, ["a".into(), "b".into()] as [Text; 2]);
    }

    #[test]
    fn equal_values_hash_alike_whatever_their_layout() {
        let hash = |object| shown(object, "[]").args.values[0].hash;
        let plain = hash(r#"{"a":{"x":1,"y":["z"]}}"#);
        assert_eq!(plain, hash(r#"{"a": {"y": ["\u007a"], "x": 1}}"#));
        assert_ne!(plain, hash(r#"{"a":{"x":1,"y":["Z"]}}"#));
        assert_ne!(hash(r#"{"a":1}"#), hash(r#"{"a":"1"}"#));
        assert_ne!(hash(r#"{"password":"a"}"#), hash(r#"{"password":"b"}"#));
    }

    #[test]
    fn secrets_are_masked_and_long_values_cut() {
        let args = shown(
            r#"{"password":"abc","b":{"token":["x"],"n":1},
                "c":"see password=x","d":"{\"pwd\":\"x\"}"}"#,
            "[]",
        )
        .args;
        let texts: Vec<&str> = args.values.iter().map(|value| value.text.as_ref()).collect();
        assert_eq!(
            texts,
            [
                r#"{"token":"[masked]","n":1}"#,
                r#""see password=[masked]""#,
                r#""{\"pwd\":\"[masked]\"}""#,
                r#""[masked]""#
            ]
        );
        assert_eq!(args.values[3].chars, None, "a secret's length is not kept");

        let long = format!("{{\"a\":\"{}\"}}", "é".repeat(100_000));
        let args = shown(&long, "[]").args;
        assert!(args.values[0].text.len() <= VALUE_BYTES_MAX);
        assert_eq!(args.values[0].chars, Some(100_000));
    }

    #[test]
    fn a_value_beside_a_secret_name_is_masked() {
        for object in [
            r#"{"name":"API_KEY","value":"canary"}"#,
            r#"{"Value":["canary"],"key":"password"}"#,
            r#"{"env":[{"name":"API_KEY","value":"canary"}]}"#,
            r#"{"env":"[{\"value\":\"canary\",\"name\":\"API_KEY\"}]"}"#,
            r#"{"cmd":"mysql --password canary"}"#,
            r#"{"args":["--password","canary"]}"#,
            r#"{"args":"[\"--password\",\"canary\"]"}"#,
        ] {
            let values = shown(object, "[]").args.values;
            assert!(!format!("{values:?}").contains("canary"), "{values:?}");
            let Json::Object(pairs) = parse(object).unwrap() else { panic!("an object") };
            let extra = extra(&Fields::new(pairs), &[]).0.unwrap();
            assert!(!extra.contains("canary"), "{extra}");
        }
        let open = shown(r#"{"name":"path","value":"canary"}"#, "[]").args.values;
        assert_eq!(&*open[1].text, "\"canary\"");
        let secret = shown(r#"{"name":"token","value":"canary"}"#, "[]").args.values;
        assert_eq!((&*secret[1].text, secret[1].chars), ("\"[masked]\"", None));
    }

    #[test]
    fn a_secret_that_was_masked_here_is_told() {
        for (object, is_told) in [
            (r#"{"password":"hunter2"}"#, true),
            (r#"{"b":{"token":["x1"]}}"#, true),
            (r#"{"c":"see password=x"}"#, true),
            (r#"{"args":["--password","canary"]}"#, true),
            (r#"{"password":"[masked]","token":"***","pwd":"<7 chars>","api_key":null}"#, false),
            (r#"{"c":"see password=[masked]","path":"notes.txt","max_tokens":512}"#, false),
        ] {
            assert_eq!(shown(object, "[]").flags.contains(&SECRET_MASKED), is_told, "{object}");
            let result = format!("{{\"result\":{object}}}");
            let Json::Object(pairs) = parse(&result).unwrap() else { panic!("an object") };
            assert_eq!(extra(&Fields::new(pairs), &[]).1, is_told, "{object}");
        }
        let Json::Object(pairs) = parse(r#"{"session_token":"x1"}"#).unwrap() else {
            panic!("an object")
        };
        assert!(!extra(&Fields::new(pairs), &[]).1, "it is of the log, not of a call");
    }

    #[test]
    fn summaries_state_a_length() {
        for (text, chars) in [
            ("<2048 chars>", Some(2048)),
            ("2048 chars", Some(2048)),
            ("[string, 2048 characters]", Some(2048)),
            ("<str len=2048>", Some(2048)),
            ("<chars>", None),
            ("<2048>", None),
            ("<2048 chars> and more", None),
            ("about 2048 chars", None),
            ("<-5 chars>", None),
        ] {
            assert_eq!(summary_chars(text), chars, "{text}");
        }
    }

    #[test]
    fn many_arguments_are_bounded_and_say_so() {
        let many: Vec<String> = (0..600).map(|n| format!("\"a{n:03}\":{n}")).collect();
        let shown = shown(&format!("{{{}}}", many.join(",")), "[]");
        assert_eq!(shown.args.values.len(), ARGS_MAX);
        assert_eq!(shown.args.dropped.len(), ARGS_MAX);
        assert_eq!(shown.args.view, ArgView::Partial);
        assert!(shown.flags.contains(&"args-cut"));
    }

    #[test]
    fn extra_stays_an_object_when_pairs_do_not_fit() {
        let pairs: Vec<String> =
            (0..50).map(|n| format!("\"k{n}\":\"{}\"", "x".repeat(3000))).collect();
        let line = format!("{{{},\"secret\":\"canary\"}}", pairs.join(","));
        let Json::Object(pairs) = parse(&line).unwrap() else { panic!("an object") };
        let extra = extra(&Fields::new(pairs), &[]).0.unwrap();
        assert!(extra.len() <= EXTRA_BYTES_MAX);
        assert!(!extra.contains("canary"));
        let read: serde_json::Value = serde_json::from_str(&extra).unwrap();
        assert_eq!(read["…"], 47);
    }
}
