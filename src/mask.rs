//! Secrets are masked here before anything is stored or shown.
//!
//! Three layers: values under a secret name, at any depth and inside JSON that sits in a string, the
//! name being the key or standing beside the value (`{"name":"token","value":"x"}`); tokens that
//! show themselves by their form; `name=value` and `--name value` in prose. It is a net and no proof: a
//! secret in a field with an innocent name and without a known form passes. Nothing here decides
//! who may see what.

mod json_text;
mod names;
mod patterns;

use std::borrow::Cow;

pub use names::is_secret_name;
pub(crate) use names::{is_secret_option, is_value_key, names_secret};

/// What stands where a secret stood.
pub const MASKED: &str = "[masked]";

/// How many layers of JSON inside strings are looked into; deeper ones are still searched for
/// patterns.
const NESTING_MAX: u32 = 3;

/// The text with its secrets masked; borrowed when it holds none, which is found out cheaply.
pub fn mask_text(text: &str) -> Cow<'_, str> {
    mask_nested(text, NESTING_MAX)
}

/// A raw line with its secrets masked, still readable; bytes that are not UTF-8 are replaced. Works
/// on text that is cut off or no JSON at all.
pub fn mask_line(line: &[u8]) -> String {
    mask_text(&String::from_utf8_lossy(line)).into_owned()
}

/// Most bytes that are dropped from the end of a cut text.
const CUT_BYTES_MAX: usize = 256;

/// Like [`mask_line`], for the head of a longer line: the last word is dropped, up to 256 bytes of
/// it, because a secret that was cut in two is not known by its form any more.
pub fn mask_cut(head: &[u8]) -> String {
    let mut masked = mask_line(head);
    let word =
        masked.bytes().rev().take(CUT_BYTES_MAX).take_while(|byte| !ends_word(*byte)).count();
    masked.truncate(masked.ceil_char_boundary(masked.len() - word));
    masked
}

const fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || matches!(
            byte,
            b'"' | b'\'' | b',' | b';' | b'<' | b'>' | b'(' | b')' | b'{' | b'}' | b'[' | b']'
        )
}

fn mask_nested(text: &str, nesting: u32) -> Cow<'_, str> {
    if !patterns::may_match(text) {
        return Cow::Borrowed(text);
    }
    if nesting == 0 || !json_text::may_hold_pairs(text) {
        return patterns::mask(text);
    }
    // Keys first: a pattern could otherwise eat a quote and hide the structure.
    match json_text::mask_pairs(text, |inner| mask_nested(inner, nesting - 1)) {
        Some(masked) => Cow::Owned(patterns::mask(&masked).into_owned()),
        None => patterns::mask(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, masked: &str) {
        assert_eq!(mask_text(text), masked, "input: {text}");
    }

    #[test]
    fn innocent_text_is_borrowed() {
        for text in [
            "",
            "open",
            "T-4121: printer on fire = yes",
            "https://example.test/a?b=c",
            "max_tokens: 512",
            "task-list-of-the-quick-brown-fox-9",
            r#"{"status":"open","max_tokens":100}"#,
            "the Bearer authentication scheme",
            "ssh://git@example.test/repo",
        ] {
            assert!(matches!(mask_text(text), Cow::Borrowed(_)), "{text} -> {}", mask_text(text));
        }
    }

    #[test]
    fn tokens_are_known_by_their_form() {
        check("key AKIAABCDEFGHIJKLMNOP end", "key [masked] end");
        check("ghp_abcdefghijklmnopqrst0123456789", "[masked]");
        check("use github_pat_11ABCDEFG0123456789_abc now", "use [masked] now");
        check("xoxb-1234567890-abcdef", "[masked]");
        check("sk-ant-api03-AbCdEfGhIjKlMnOp", "[masked]");
        check("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "[masked]");
        check("got Bearer abc.DEF-123 back", "got Bearer [masked] back");
        check("https://bob:hunter2@example.test/x", "https://[masked]@example.test/x");
        check(
            "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b",
            "a [masked] b",
        );
        check("cut -----BEGIN PRIVATE KEY-----\nMIIE", "cut [masked]");
    }

    #[test]
    fn named_values_in_prose() {
        check("login with password=hunter2 failed", "login with password=[masked] failed");
        check("api-key: 'a b c', x", "api-key: '[masked]', x");
        check("?access_token=abc&page=2", "?access_token=[masked]&page=2");
        check("Cookie: sid=1; theme=dark", "Cookie: [masked]");
        check("Authorization: Basic dXNlcjpwYXNz", "Authorization: [masked]");
        check("{'token': 'x y'}", "{'token': '[masked]'}");
    }

    #[test]
    fn values_under_secret_keys_at_any_depth() {
        check(
            r#"{"a":{"Password":"x","b":1},"api_key":[1,{"c":"]"}],"pwd":5,"d":"e"}"#,
            r#"{"a":{"Password":"[masked]","b":1},"api_key":"[masked]","pwd":"[masked]","d":"e"}"#,
        );
    }

    #[test]
    fn the_value_beside_a_secret_name() {
        check(
            r#"{"env":[{"name":"API_KEY","value":"hunter2"},{"name":"HOME","value":"/root"}]}"#,
            r#"{"env":[{"name":"API_KEY","value":"[masked]"},{"name":"HOME","value":"/root"}]}"#,
        );
        check(
            r#"{"key":"password","value":{"a":["x"]},"b":1}"#,
            r#"{"key":"password","value":"[masked]","b":1}"#,
        );
        check(
            r#"{"value":"hunter2","n":{"x":1},"name":"db_password"}"#,
            r#"{"value":"[masked]","n":{"x":1},"name":"db_password"}"#,
        );
        check(
            r#"{"value":{"value":"a","name":"b"},"name":"token"} {"value":"c"}"#,
            r#"{"value":"[masked]","name":"token"} {"value":"c"}"#,
        );
        check(
            r#"{"raw":"{\"header\":\"Cookie\",\"value\":\"a b\"}"}"#,
            r#"{"raw":"{\"header\":\"Cookie\",\"value\":\"[masked]\"}"}"#,
        );
        check(r#"{"name":"token","value":"hunt"#, r#"{"name":"token","value":"[masked]""#);
        for text in [
            r#"{"name":"path","value":"x"}"#,
            r#"{"name":"token","size":"x"}"#,
            r#"[{"name":"token"},{"value":"x"}]"#,
            r#"{"a":{"name":"token"},"value":"x"}"#,
            r#"}}{"value":"x"}"#,
        ] {
            check(text, text);
        }
    }

    #[test]
    fn secret_options_of_commands() {
        check("mysql --password hunter2 -e x", "mysql --password [masked] -e x");
        check("tool --token=abc --x", "tool --token=[masked] --x");
        check("tool --api-key 'a b' --x", "tool --api-key '[masked]' --x");
        check(r#"{"cmd":"x --pass \"a b\" y"}"#, r#"{"cmd":"x --pass \"[masked]\" y"}"#);
        check(r#"["x","--client-secret","hunter2"]"#, r#"["x","--client-secret","[masked]"]"#);
        for text in [
            "tool --max-tokens 512 --path x",
            "mkdir -p no",
            "tool --password --user bob",
            "see --password",
            r#"["--password","--user","bob"]"#,
            r#"["--password"]"#,
            "tool --password [masked] -e x",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn a_secret_that_was_cut_in_two_does_not_stay() {
        for (head, shown) in [
            ("a ghp_canary", "a "),
            ("a https://bob:canary", "a "),
            (r#"{"a":"sk-canary"#, r#"{"a":""#),
            ("use Bearer abc", "use Bearer "),
            ("password=canary", "password=[masked]"),
            ("\u{e9} \u{e9}\u{e9}", "\u{e9} "),
            ("", ""),
        ] {
            assert_eq!(mask_cut(head.as_bytes()), shown, "{head}");
        }
        let long = "é".repeat(1000);
        assert_eq!(mask_cut(long.as_bytes()).len(), 2000 - CUT_BYTES_MAX);
        assert_eq!(mask_cut(b"a \xf0\x9f"), "a ");
    }

    #[test]
    fn deep_pairs_take_no_time() {
        let open = r#"{"value":"#.repeat(50_000);
        let text = format!("{open}1{}", r#","name":"token"}"#.repeat(50_000));
        assert_eq!(mask_text(&text), r#"{"value":"[masked]","name":"token"}"#);
    }

    #[test]
    fn json_inside_strings_and_cut_off() {
        check(
            r#"{"raw":"{\"params\":{\"password\":\"hunter2\"}}"}"#,
            r#"{"raw":"{\"params\":{\"password\":\"[masked]\"}}"}"#,
        );
        check(r#"{"token":"abcd"#, r#"{"token":"[masked]""#);
        check(r#"{"raw":"{\"token\":\"abcd"#, r#"{"raw":"{\"token\":\"[masked]\""#);
        check(r#"{"token":{"a":["b"#, r#"{"token":"[masked]""#);
    }

    #[test]
    fn escaped_key_names_do_not_hide() {
        check(r#"{"pass\u0077ord":"hunter2"}"#, r#"{"pass\u0077ord":"[masked]"}"#);
    }

    #[test]
    fn a_line_of_any_bytes() {
        assert_eq!(mask_line(b"\xff password=x"), "\u{fffd} password=[masked]");
    }

    #[test]
    fn what_is_masked_stays_as_it_is() {
        for text in [
            r#"{"password":"[masked]","raw":"{\"token\":\"[masked]\""}"#,
            "password=[masked]&x=1",
            "Cookie: [masked]",
            "https://[masked]@example.test",
            r#"{"password":"#,
        ] {
            check(text, text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_can_be_masked(bytes: Vec<u8>) {
            mask_line(&bytes);
        }
    }
}
