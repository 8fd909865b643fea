//! Secrets that show themselves by their form or by the name in front of them.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::{memchr2, memchr3};
use regex::{Captures, Match, Regex};

use super::{MASKED, is_secret_name, is_secret_option};

/// Shorter than the shortest secret any pattern knows.
const BYTES_MIN: usize = 5;

/// Userinfo without a password is a login name (`git@`) unless it is as long as a token.
const LOGIN_BYTES_MAX: usize = 15;

/// Literals of which every token has one: this search is what all text pays for.
static HINTS: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        "AKIA|ASIA|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|glpat-|xox|xapp-|sk-",
        "|k_live_|k_test_|AIza|npm_|eyJ|BEGIN |earer|EARER|--",
    ))
});

static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"(?-u:\b)(?:AKIA|ASIA)[A-Z0-9]{16}",
        r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}",
        r"|(?:xox[a-z]|xapp)-[A-Za-z0-9-]{8,}|[sr]k_(?:live|test)_[A-Za-z0-9]{8,}",
        r"|AIza[A-Za-z0-9_-]{30,}|npm_[A-Za-z0-9]{30,}",
        r"|(?-u:\b)sk-[A-Za-z0-9_-]{16,}",
        r"|eyJ[A-Za-z0-9_-]{12,}(?:\.[A-Za-z0-9_-]*){0,4}",
        r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        r"|(?P<scheme>(?i:bearer)[ \t]+)(?P<bearer>[A-Za-z0-9._~+/=-]{6,})",
        r#"|(?P<url>[A-Za-z][A-Za-z0-9+.-]*://)(?P<user>[^/\s@"'?#]+)@"#,
    ))
});

static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"(?P<name>(?i:password|passwd|passphrase|passcode|secret|token|api[-_ ]?key|credential",
        r"|private[-_ ]?key|access[-_ ]?key|amz-signature|(?-u:\b)pwd|authorization|cookie)",
        r"[A-Za-z0-9_-]*)",
        r#"\\*["']?\s*[:=]\s*\\*"#,
        r#"(?P<value>"[^"]*"?|'[^']*'?|[^\s"',;&<>(){}\[\]\\]+)"#,
    ))
});

static OPTION: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r"(?P<option>--[A-Za-z][A-Za-z0-9_-]*)[ \t]+\\*",
        r#"(?P<value>"[^"]*"?|'[^']*'?|[^\s"',;&<>(){}\[\]\\-][^\s"',;&<>(){}\[\]\\]*)"#,
    ))
});

/// False when no pattern can match: the cheap check in front of everything.
pub(super) fn may_match(text: &str) -> bool {
    text.len() >= BYTES_MIN
        && (memchr2(b':', b'=', text.as_bytes()).is_some() || HINTS.is_match(text))
}

/// The text with every token and every `name=value` and `--name value` of a secret name masked.
pub(super) fn mask(text: &str) -> Cow<'_, str> {
    let mut masked = Cow::Borrowed(text);
    for layer in [mask_tokens, mask_named, mask_options] {
        if let Cow::Owned(changed) = layer(&masked) {
            masked = Cow::Owned(changed);
        }
    }
    masked
}

fn mask_tokens(text: &str) -> Cow<'_, str> {
    let mut masked = Masked::new(text);
    for found in TOKENS.captures_iter(text) {
        if let Some((from, to)) = secret_span(&found) {
            masked.replace(from, to, MASKED);
        }
    }
    masked.finish()
}

/// The part of a match that is the secret; none when the match only looks like one.
fn secret_span(found: &Captures<'_>) -> Option<(usize, usize)> {
    let whole = found.get(0)?;
    let text = whole.as_str();
    let is_secret = if let Some(bearer) = found.name("bearer") {
        // "Bearer authentication" is prose.
        bearer.len() > 20 || !bearer.as_str().bytes().all(|byte| byte.is_ascii_lowercase())
    } else if let Some(user) = found.name("user") {
        user.as_str().contains(':') || user.len() > LOGIN_BYTES_MAX
    } else {
        !text.starts_with("sk-") || text.bytes().any(|byte| byte.is_ascii_digit())
    };
    let part = found.name("bearer").or_else(|| found.name("user")).unwrap_or(whole);
    is_secret.then(|| (part.start(), part.end()))
}

fn mask_named(text: &str) -> Cow<'_, str> {
    let mut masked = Masked::new(text);
    let mut at = 0;
    while let Some(found) = NAMED.captures_at(text, at) {
        let (Some(name), Some(value)) = (found.name("name"), found.name("value")) else { break };
        at = value.end();
        // The name may go on to the left of what the pattern needs: `max_tokens` is no secret.
        let full_name = name_around(text, name.start(), name.end());
        let (from, inside, secret) = within_quotes(value);
        if secret.is_empty() || secret == MASKED || !is_secret_name(full_name) {
            continue;
        }
        let mut to = from + secret.len();
        if inside.len() == value.len() && runs_on(name.as_str(), secret) {
            to += line_end(text.as_bytes().get(to..).unwrap_or_default());
            at = to;
        }
        masked.replace(from, to, MASKED);
    }
    masked.finish()
}

fn mask_options(text: &str) -> Cow<'_, str> {
    let mut masked = Masked::new(text);
    for found in OPTION.captures_iter(text) {
        let (Some(option), Some(value)) = (found.name("option"), found.name("value")) else {
            continue;
        };
        let (from, _, secret) = within_quotes(value);
        // What follows a closing quote is the next value's quote and no secret.
        let is_word = secret.bytes().any(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
        if is_word && secret != MASKED && is_secret_option(option.as_str()) {
            masked.replace(from, from + secret.len(), MASKED);
        }
    }
    masked.finish()
}

/// Where a value begins behind its quote, the value from there on, and without what closes it: its
/// quotes, with their backslashes where they are escaped, stay around the mask.
fn within_quotes(value: Match<'_>) -> (usize, &str, &str) {
    let inside = value.as_str().trim_start_matches(['"', '\'']);
    (value.end() - inside.len(), inside, inside.trim_end_matches(['"', '\'', '\\']))
}

fn name_around(text: &str, start: usize, end: usize) -> &str {
    let before = text.as_bytes().get(..start).unwrap_or_default();
    let more = before.iter().rev().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_');
    text.get(start - more.count()..end).unwrap_or_default()
}

/// True for headers whose secret is not one word: cookies, and credentials behind the name of their
/// scheme.
fn runs_on(name: &str, value: &str) -> bool {
    const SCHEMES: [&str; 7] =
        ["basic", "bearer", "digest", "token", "negotiate", "apikey", "aws4-hmac-sha256"];
    let name = name.to_ascii_lowercase();
    name.starts_with("cookie")
        || (name.starts_with("authorization")
            && SCHEMES.contains(&value.to_ascii_lowercase().as_str()))
}

/// Bytes up to the end of the line or the next quote.
fn line_end(rest: &[u8]) -> usize {
    let quote = memchr2(b'\'', b'\n', rest).unwrap_or(rest.len());
    memchr3(b'"', b'\r', b'\\', rest).unwrap_or(rest.len()).min(quote)
}

/// A text with parts replaced from left to right.
struct Masked<'a> {
    text: &'a str,
    out: String,
    copied: usize,
}

impl<'a> Masked<'a> {
    const fn new(text: &'a str) -> Self {
        Self { text, out: String::new(), copied: 0 }
    }

    fn replace(&mut self, from: usize, to: usize, shown: &str) {
        self.out.push_str(self.text.get(self.copied..from).unwrap_or_default());
        self.out.push_str(shown);
        self.copied = to;
    }

    fn finish(mut self) -> Cow<'a, str> {
        if self.copied == 0 {
            return Cow::Borrowed(self.text);
        }
        self.out.push_str(self.text.get(self.copied..).unwrap_or_default());
        Cow::Owned(self.out)
    }
}

fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern, compiled by every test")
}
