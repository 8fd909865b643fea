//! Walks text that looks like JSON, whole or cut off, and masks the values of secret-named keys.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::{MASKED, is_secret_name};

/// False when the text cannot hold a JSON key with its value.
pub(super) fn may_hold_pairs(text: &str) -> bool {
    memchr(b'"', text.as_bytes()).is_some() && memchr(b':', text.as_bytes()).is_some()
}

/// The text with the values of secret-named keys replaced, and `mask_inner` applied to strings that
/// may themselves hold JSON. None when nothing changed.
pub(super) fn mask_pairs(text: &str, mask_inner: impl Fn(&str) -> Cow<'_, str>) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(string) = JsonString::find(text, at) {
        at = string.end;
        if let Some(value) = string.value_start(text) {
            if is_secret_name(&string.decoded().unwrap_or(Cow::Borrowed(string.content))) {
                at = value_end(text.as_bytes(), value);
                if matches!(text.get(value..at)?.trim_matches('"'), "" | MASKED) {
                    continue;
                }
                out.push_str(text.get(copied..value)?);
                out.push('"');
                out.push_str(MASKED);
                out.push('"');
                copied = at;
            }
        } else if let Some(inner) = string.decoded().filter(|inner| may_hold_pairs(inner))
            && let Cow::Owned(masked) = mask_inner(&inner)
        {
            out.push_str(text.get(copied..string.start)?);
            out.push_str(&quote(&masked, string.closed));
            copied = string.end;
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(text.get(copied..)?);
    Some(out)
}

/// A string literal in the text.
struct JsonString<'a> {
    /// Where its opening quote stands.
    start: usize,
    /// Just after its closing quote, or the end of the text.
    end: usize,
    /// Between the quotes, escapes as they are.
    content: &'a str,
    closed: bool,
}

impl<'a> JsonString<'a> {
    /// The first one that opens at or after `from`.
    fn find(text: &'a str, from: usize) -> Option<Self> {
        let bytes = text.as_bytes();
        let start = from + memchr(b'"', bytes.get(from..)?)?;
        let (end, closed) = string_end(bytes, start);
        let content = text.get(start + 1..end - usize::from(closed))?;
        Some(Self { start, end, content, closed })
    }

    /// Where the value begins, when this string is a key.
    fn value_start(&self, text: &str) -> Option<usize> {
        let bytes = text.as_bytes();
        let colon = skip_space(bytes, self.end);
        (self.closed && bytes.get(colon) == Some(&b':')).then(|| skip_space(bytes, colon + 1))
    }

    /// The content without escapes; None when its escapes are broken (other than by the cut at its
    /// end).
    fn decoded(&self) -> Option<Cow<'a, str>> {
        if memchr(b'\\', self.content.as_bytes()).is_none() {
            return Some(Cow::Borrowed(self.content));
        }
        let whole = unescape(self.content);
        if whole.is_some() || self.closed {
            return whole.map(Cow::Owned);
        }
        // The cut may have gone through an escape: what stands before it can still be read.
        let before_cut = self.content.rfind('\\').and_then(|at| self.content.get(..at))?;
        unescape(before_cut).map(Cow::Owned)
    }
}

fn unescape(content: &str) -> Option<String> {
    serde_json::from_str(&format!("\"{content}\"")).ok()
}

/// Writes a string literal again, open at its end where it was.
fn quote(text: &str, closed: bool) -> String {
    let mut quoted = serde_json::Value::from(text).to_string();
    if !closed {
        quoted.pop();
    }
    quoted
}

/// Just after the closing quote of the string that opens at `start`, and whether it closes at all.
fn string_end(bytes: &[u8], start: usize) -> (usize, bool) {
    let mut at = start + 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes.get(at) == Some(&b'"') {
            return (at + 1, true);
        }
        at += 2;
    }
    (bytes.len(), false)
}

fn skip_space(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Just after the value that begins at `start`: a string, a bracketed value, or up to the next
/// separator.
fn value_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at).0;
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => return if depth == 1 { at + 1 } else { at },
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}
