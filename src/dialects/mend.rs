//! Lines that are nearly JSON. What a caller passes as an argument must not decide whether its call
//! is seen, and some of it comes out of loggers as what a strict reader refuses: halves of surrogate
//! pairs, bytes that are no text, bare control characters, numbers beyond a double, values nested
//! without end.

use std::borrow::Cow;

use super::json::text_end;

/// Values deeper than this are left out of a mended line. A strict reader goes to 127.
const DEPTH_MAX: usize = 96;

/// What stands where a value was nested too deep.
const TOO_DEEP: &str = "\"…\"";

/// The line with what a strict reader refuses replaced: bytes and half surrogates that are no text
/// by U+FFFD, control characters in texts by escapes, values nested too deep by a text, numbers
/// beyond a double, `NaN` and `Infinity` by their text. None if it has nothing of the kind; whether
/// it is JSON then is another question.
pub(super) fn mend(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let mut mender = Mender {
        out: String::with_capacity(text.len()),
        depth: 0,
        is_mended: matches!(text, Cow::Owned(_)),
    };
    let mut rest = text.as_ref();
    while let Some(first) = rest.bytes().next() {
        let (part, after) = rest.split_at_checked(part_length(rest, first))?;
        mender.add(first, part);
        rest = after;
    }
    mender.is_mended.then_some(mender.out)
}

struct Mender {
    out: String,
    depth: usize,
    is_mended: bool,
}

impl Mender {
    fn add(&mut self, first: u8, part: &str) {
        match first {
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth == DEPTH_MAX + 1 {
                    self.out.push_str(TOO_DEEP);
                    self.is_mended = true;
                }
                self.push(part);
            }
            b'}' | b']' => {
                self.push(part);
                self.depth = self.depth.saturating_sub(1);
            }
            b'"' => self.push_text(part),
            _ if is_odd_number(part) => {
                self.is_mended = true;
                self.push("\"");
                self.push(part);
                self.push("\"");
            }
            _ => self.push(part),
        }
    }

    fn push(&mut self, part: &str) {
        if self.depth <= DEPTH_MAX {
            self.out.push_str(part);
        }
    }

    /// A quoted text: control characters become escapes, and of surrogates only whole pairs stay.
    fn push_text(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.bytes().position(|byte| byte == b'\\' || byte < b' ') {
            let (before, odd) = rest.split_at(at);
            self.push(before);
            let length = match (surrogate(odd), odd.get(6..).and_then(surrogate)) {
                _ if !odd.starts_with('\\') => {
                    self.replace(&format!("\\u{:04x}", odd.bytes().next().unwrap_or_default()));
                    rest = odd.get(1..).unwrap_or_default();
                    continue;
                }
                (Some(Half::High), Some(Half::Low)) => 12,
                (Some(_), _) => {
                    self.replace("\\ufffd");
                    rest = odd.get(6..).unwrap_or_default();
                    continue;
                }
                (None, _) => 2,
            };
            // Behind a backslash may stand a character of several bytes.
            let (escape, after) = odd.split_at(odd.ceil_char_boundary(length.min(odd.len())));
            self.push(escape);
            rest = after;
        }
        self.push(rest);
    }

    fn replace(&mut self, escape: &str) {
        self.push(escape);
        self.is_mended = true;
    }
}

/// How many bytes belong together: a bracket, a quoted text, a bare word or number, or whatever is
/// none of these.
fn part_length(rest: &str, first: u8) -> usize {
    let bytes = rest.as_bytes();
    let run = |is_in: fn(u8) -> bool| bytes.iter().take_while(|byte| is_in(**byte)).count();
    match first {
        b'"' => text_end(bytes, 1).map_or(bytes.len(), |end| end + 1),
        b'{' | b'[' | b'}' | b']' => 1,
        _ if is_bare(first) => run(is_bare),
        _ => run(|byte| !is_bare(byte) && !matches!(byte, b'"' | b'{' | b'[' | b'}' | b']')),
    }
}

const fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

fn is_odd_number(word: &str) -> bool {
    let digits = word.strip_prefix('-').unwrap_or(word);
    matches!(word, "NaN" | "Infinity" | "-Infinity")
        || (digits.starts_with(|first: char| first.is_ascii_digit())
            && word.parse::<f64>().is_ok_and(f64::is_infinite))
}

enum Half {
    High,
    Low,
}

/// What half of a pair an escape is.
fn surrogate(escape: &str) -> Option<Half> {
    let digits = escape.strip_prefix("\\u")?.get(..4)?;
    match u32::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Half::High),
        0xdc00..=0xdfff => Some(Half::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_strict_reader_refuses_is_replaced_and_all_else_stays() {
        for (line, mended) in [
            (&br#"{"a":"\ud800"}"#[..], Some(r#"{"a":"\ufffd"}"#)),
            (
                br#"{"a":"x\udc00\ud83d\ude00\ud83dy\\ud800"}"#,
                Some(r#"{"a":"x\ufffd\ud83d\ude00\ufffdy\\ud800"}"#),
            ),
            (br#"["\ud800\ud800\udc00"]"#, Some(r#"["\ufffd\ud800\udc00"]"#)),
            (b"[\"a\xff\"]", Some("[\"a\u{fffd}\"]")),
            (
                b"[1e400,-1e400,1e4,NaN,-Infinity]",
                Some(r#"["1e400","-1e400",1e4,"NaN","-Infinity"]"#),
            ),
            (br#"{"a":"1e400 NaN","b":[true,null,1.5]}"#, None),
            ("[\"\\é\\u12\"".as_bytes(), None),
            (b"[\"a\0\tb\"]", Some(r#"["a\u0000\u0009b"]"#)),
            (b"[1,\t2]", None),
            (b"inf", None),
            (b"\"half \\", None),
        ] {
            assert_eq!(mend(line).as_deref(), mended, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn what_is_nested_too_deep_is_left_out() {
        let deep = format!("{{\"a\":{}\"]\"{},\"b\":1}}", "[".repeat(500), "]".repeat(500));
        let expected = format!("{{\"a\":{}\"…\"{},\"b\":1}}", "[".repeat(95), "]".repeat(95));
        assert_eq!(mend(deep.as_bytes()), Some(expected));
    }
}
