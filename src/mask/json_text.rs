//! Walks text that looks like JSON, whole or cut off, and masks the values of secret-named keys.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::{MASKED, is_secret_name, is_secret_option, is_value_key, names_secret};

/// A masked value.
const MASKED_QUOTED: &str = "\"[masked]\"";

/// False when the text can hold neither a JSON key with its value nor a list of several strings.
pub(super) fn may_hold_pairs(text: &str) -> bool {
    memchr(b'"', text.as_bytes()).is_some() && memchr2(b':', b',', text.as_bytes()).is_some()
}

/// The text with the values of secret-named keys, and those beside a secret name, replaced, and
/// `mask_inner` applied to strings that may themselves hold JSON. None when nothing changed.
pub(super) fn mask_pairs(text: &str, mask_inner: impl Fn(&str) -> Cow<'_, str>) -> Option<String> {
    let mut walk = Walk { text, objects: Vec::new(), parts: Vec::new() };
    let mut at = 0;
    while let Some(string) = JsonString::find(text, at) {
        walk.brackets(at, string.start);
        at = string.end;
        if let Some(value) = string.value_start(text) {
            let key = string.decoded().unwrap_or(Cow::Borrowed(string.content));
            if walk.key(&key, value) {
                at = value_end(text.as_bytes(), value);
            }
        } else if let Some(value) = string.argument_start(text) {
            walk.parts.push(Part::Value(value));
        } else if let Some(inner) = string.decoded().filter(|inner| may_hold_pairs(inner))
            && let Cow::Owned(masked) = mask_inner(&inner)
        {
            let masked = quote(&masked, string.closed);
            walk.parts.push(Part::Inner { start: string.start, end: string.end, masked });
        }
    }
    walk.finish()
}

/// A part of the text to replace.
enum Part {
    /// The secret value that begins here.
    Value(usize),
    Inner {
        start: usize,
        end: usize,
        masked: String,
    },
}

impl Part {
    const fn start(&self) -> usize {
        match self {
            Self::Value(start) | Self::Inner { start, .. } => *start,
        }
    }
}

/// An object whose end has not come yet.
#[derive(Default)]
struct Object {
    /// A name in it says that the values beside it are secrets.
    names_secret: bool,
    /// Where values begin that are secrets if such a name comes.
    values: Vec<usize>,
}

struct Walk<'a> {
    text: &'a str,
    objects: Vec<Object>,
    parts: Vec<Part>,
}

impl Walk<'_> {
    /// Follows the objects that open and close between two strings.
    fn brackets(&mut self, from: usize, to: usize) {
        for byte in self.text.as_bytes().get(from..to).unwrap_or_default() {
            match byte {
                b'{' => self.objects.push(Object::default()),
                b'}' => drop(self.objects.pop()),
                _ => {}
            }
        }
    }

    /// Takes in a key whose value begins at `value`; true when the value is a secret.
    fn key(&mut self, key: &str, value: usize) -> bool {
        let object = self.objects.last_mut();
        let mut is_secret = is_secret_name(key);
        if let Some(object) = object.filter(|_| !is_secret) {
            if is_value_key(key) {
                is_secret = object.names_secret;
                if !is_secret {
                    object.values.push(value);
                }
            } else if string_at(self.text, value).is_some_and(|name| names_secret(key, &name)) {
                object.names_secret = true;
                self.parts.extend(object.values.drain(..).map(Part::Value));
            }
        }
        if is_secret {
            self.parts.push(Part::Value(value));
        }
        is_secret
    }

    fn finish(mut self) -> Option<String> {
        self.parts.sort_by_key(Part::start);
        let mut out = String::new();
        let mut copied = 0;
        for part in self.parts {
            // What lies inside a masked value is gone with it.
            if part.start() < copied {
                continue;
            }
            let (end, masked) = match part {
                Part::Inner { end, ref masked, .. } => (end, masked.as_str()),
                Part::Value(start) => {
                    let end = value_end(self.text.as_bytes(), start);
                    if matches!(self.text.get(start..end)?.trim_matches('"'), "" | MASKED) {
                        continue;
                    }
                    (end, MASKED_QUOTED)
                }
            };
            out.push_str(self.text.get(copied..part.start())?);
            out.push_str(masked);
            copied = end;
        }
        if copied == 0 {
            return None;
        }
        out.push_str(self.text.get(copied..)?);
        Some(out)
    }
}

/// The content of the string that begins at `start`, if one does.
fn string_at(text: &str, start: usize) -> Option<Cow<'_, str>> {
    JsonString::find(text, start).filter(|string| string.start == start)?.decoded()
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

    /// Where the next item of a list begins, when this one is a secret option of a command and that
    /// its value.
    fn argument_start(&self, text: &str) -> Option<usize> {
        if !self.closed || !is_secret_option(self.content) {
            return None;
        }
        let bytes = text.as_bytes();
        let comma = skip_space(bytes, self.end);
        let next = skip_space(bytes, comma + 1);
        let is_item = bytes.get(comma) == Some(&b',') && bytes.get(next) == Some(&b'"');
        (is_item && bytes.get(next + 1) != Some(&b'-')).then_some(next)
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
