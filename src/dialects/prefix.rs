//! The beginning of a JSON-RPC message, usually cut off in the middle. What it shows is read; what
//! it does not show is unknown, never an error.

use std::borrow::Cow;

use memchr::memchr2;

/// What the prefix of a message shows.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Prefix<'a> {
    /// The id as text; a number and a text with the same digits are one id, as they are in logs.
    pub(super) id: Option<Cow<'a, str>>,
    pub(super) method: Option<Cow<'a, str>>,
    pub(super) has_result: bool,
    pub(super) has_error: bool,
    /// `isError` of the result.
    pub(super) is_error: Option<bool>,
    pub(super) error_code: Option<&'a str>,
    /// True when the message ends within the prefix.
    pub(super) is_whole: bool,
}

/// Reads a prefix; none when it is no JSON object at all (a batch, plain text).
pub(super) fn read(raw: &str) -> Option<Prefix<'_>> {
    let mut scanner = Scanner { raw, at: 0 };
    let mut prefix = Prefix::default();
    let mut is_error = None;
    scanner.eat(b'{')?;
    let whole = scanner.object(|scanner, key| match key {
        "id" => scanner.scalar(&mut prefix.id),
        "method" => scanner.scalar(&mut prefix.method),
        "result" => {
            prefix.has_result = true;
            scanner.members(|scanner, key| match key {
                "isError" => scanner.scalar(&mut is_error),
                _ => scanner.skip(),
            })
        }
        "error" => {
            prefix.has_error = true;
            scanner.members(|scanner, key| match key {
                "code" => scanner.bare().map(|code| prefix.error_code = Some(code)),
                _ => scanner.skip(),
            })
        }
        _ => scanner.skip(),
    });
    prefix.is_whole = whole.is_some();
    prefix.is_error = is_error.map(|value| value == "true");
    Some(prefix)
}

/// Reads forward; every step gives none when the text ends first or is no JSON.
struct Scanner<'a> {
    raw: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// The next byte that is no space, left unread.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.raw.as_bytes().get(self.at..)?;
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.raw.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Reads the members of an object whose brace was read.
    fn object(&mut self, mut member: impl FnMut(&mut Self, &str) -> Option<()>) -> Option<()> {
        if self.eat(b'}').is_some() {
            return Some(());
        }
        loop {
            let key = self.string()?;
            self.eat(b':')?;
            member(self, &key)?;
            if self.eat(b'}').is_some() {
                return Some(());
            }
            self.eat(b',')?;
        }
    }

    /// Reads the members of a value that should be an object, and skips any other value.
    fn members(&mut self, member: impl FnMut(&mut Self, &str) -> Option<()>) -> Option<()> {
        if self.eat(b'{').is_some() { self.object(member) } else { self.skip() }
    }

    /// Reads a text, a number or a word into `slot`; null, a list or an object empties it.
    fn scalar(&mut self, slot: &mut Option<Cow<'a, str>>) -> Option<()> {
        *slot = match self.peek()? {
            b'"' => Some(self.string()?),
            b'{' | b'[' => {
                self.skip()?;
                None
            }
            _ => Some(self.bare()?).filter(|word| *word != "null").map(Cow::Borrowed),
        };
        Some(())
    }

    /// A number or a word, known to be whole by what follows it.
    fn bare(&mut self) -> Option<&'a str> {
        self.peek()?;
        let start = self.at;
        let rest = self.raw.as_bytes().get(start..)?;
        let length = rest.iter().position(|byte| {
            byte.is_ascii_whitespace() || matches!(byte, b',' | b'}' | b']' | b'"' | b'{' | b'[')
        })?;
        self.at = start + length;
        self.raw.get(start..self.at).filter(|word| !word.is_empty())
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        let open = self.peek().map(|_| self.at)?;
        self.skip_string()?;
        let quoted = self.raw.get(open..self.at)?;
        let plain = quoted.strip_prefix('"')?.strip_suffix('"')?;
        if plain.contains('\\') {
            serde_json::from_str(quoted).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(plain))
        }
    }

    fn skip_string(&mut self) -> Option<()> {
        self.eat(b'"')?;
        loop {
            self.at += memchr2(b'"', b'\\', self.raw.as_bytes().get(self.at..)?)?;
            let is_end = self.raw.as_bytes().get(self.at) == Some(&b'"');
            self.at += if is_end { 1 } else { 2 };
            if is_end {
                return Some(());
            }
        }
    }

    /// Skips one value of any kind, however deep.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => self.skip_string()?,
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => self.at += 1,
                _ => {
                    self.bare()?;
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cut_result() {
        let prefix =
            read(r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","te"#).unwrap();
        assert_eq!(prefix.id.as_deref(), Some("7"));
        assert!(prefix.has_result && !prefix.has_error && !prefix.is_whole);
        assert_eq!(prefix.is_error, None);
    }

    #[test]
    fn a_failed_tool_whatever_the_order_of_keys() {
        let raw = r#"{"result":{"content":[{"isError":false}],"isError" : true},"id":"a\"b"}"#;
        let prefix = read(raw).unwrap();
        assert_eq!((prefix.is_error, prefix.id.as_deref()), (Some(true), Some("a\"b")));
        assert!(prefix.is_whole);
    }

    #[test]
    fn an_error_with_its_code() {
        let raw = r#"{"id":null,"error":{"code":-32001,"message":"policy_denied: x","data":{}}}"#;
        let prefix = read(raw).unwrap();
        assert_eq!(prefix.error_code, Some("-32001"));
        assert_eq!(prefix.id, None);
    }

    #[test]
    fn keys_inside_values_are_not_the_messages_own() {
        let prefix = read(r#"{"params":{"id":9,"error":{"code":1}},"method":"x"}"#).unwrap();
        assert!(prefix.id.is_none() && !prefix.has_error);
        assert_eq!(prefix.method.as_deref(), Some("x"));
    }

    #[test]
    fn a_cut_number_is_not_taken_for_an_id() {
        assert_eq!(read(r#"{"id":12"#).unwrap().id, None);
        assert_eq!(read(r#"{"error":{"code":-320"#).unwrap().error_code, None);
    }

    #[test]
    fn what_is_no_object() {
        for raw in ["", "[{\"id\":1}]", "audit", "\"x\""] {
            assert_eq!(read(raw), None, "{raw}");
        }
    }

    proptest! {
        #[test]
        fn any_cut_of_a_message_can_be_read(cut in 0_usize..80) {
            let raw = r#"{"id":7,"result":{"content":[{"text":"\"é\\"}],"isError":true}}"#;
            let cut = raw.floor_char_boundary(cut);
            if let Some(prefix) = read(raw.get(..cut).unwrap()) {
                prop_assert!(prefix.id.is_none() || prefix.id.as_deref() == Some("7"));
                prop_assert!(prefix.is_error != Some(false));
                prop_assert_eq!(prefix.is_whole, cut == raw.len());
            }
        }

        #[test]
        fn any_text_can_be_read(raw in r#"[{}\[\]",:\\a0 ]{0,60}"#) {
            read(&raw);
        }
    }
}
