//! Texts that values are compared with as they stand: what `contains`, `startswith` and `endswith` ask, and texts with
//! wildcards at their ends alone. They need no regular expression, and so cost little more than their length.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;

/// Where in a value a text is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The value is the text.
    Whole,
    Start,
    End,
    Anywhere,
}

impl Place {
    /// Of a text that may have anything before it, and anything behind it.
    pub(super) const fn of(is_open_before: bool, is_open_behind: bool) -> Self {
        match (is_open_before, is_open_behind) {
            (false, false) => Self::Whole,
            (false, true) => Self::Start,
            (true, false) => Self::End,
            (true, true) => Self::Anywhere,
        }
    }
}

/// A text that is looked for, ready for it.
#[derive(Clone, Debug)]
pub(super) struct Literal {
    /// Shared by all that ask the same: conditions repeat what they name.
    finder: Arc<Finder<'static>>,
    place: Place,
    cased: bool,
}

impl Literal {
    pub(super) fn new(text: &str, place: Place, cased: bool) -> Self {
        let needle = if cased { Cow::Borrowed(text) } else { folded(text) };
        Self { finder: Arc::new(Finder::new(&*needle).into_owned()), place, cased }
    }

    /// What it takes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of::<Finder<'static>>() + self.finder.needle().len()
    }

    /// Takes time in proportion to the value's length, whatever the texts are.
    pub(super) fn holds(&self, value: &Compared<'_>) -> bool {
        let value = if self.cased { value.text } else { value.folded() }.as_bytes();
        let needle = self.finder.needle();
        match self.place {
            Place::Whole => value == needle,
            Place::Start => value.starts_with(needle),
            Place::End => value.ends_with(needle),
            Place::Anywhere => self.finder.find(value).is_some(),
        }
    }
}

/// A value of a call. Its letters' case is folded once for all texts that it is compared with, and only for these.
pub(super) struct Compared<'v> {
    pub(super) text: &'v str,
    folded: OnceCell<Cow<'v, str>>,
}

impl<'v> Compared<'v> {
    pub(super) const fn new(text: &'v str) -> Self {
        Self { text, folded: OnceCell::new() }
    }

    fn folded(&self) -> &str {
        self.folded.get_or_init(|| folded(self.text))
    }
}

/// The folded characters of the alphabets that most texts are in, Latin to Armenian: the long way takes twenty times as
/// long.
static COMMON: LazyLock<Vec<char>> = LazyLock::new(|| ('\0'..'\u{590}').map(fold).collect());

/// Two texts that differ in their letters' case alone have the same folded text.
fn folded(text: &str) -> Cow<'_, str> {
    if !text.is_ascii() {
        let mut out = String::with_capacity(text.len());
        out.extend(text.chars().map(|char| match char {
            '\0'..='\x7f' => char.to_ascii_lowercase(),
            _ => COMMON.get(char as usize).copied().unwrap_or_else(|| fold(char)),
        }));
        return Cow::Owned(out);
    }
    // Most values are in small letters already. Counting all of them is quicker than stopping at the first.
    if text.bytes().filter(u8::is_ascii_uppercase).count() == 0 {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.to_ascii_lowercase())
}

/// Unicode's simple case folding, as regular expressions have it: each character for itself, whatever the language.
/// `ſ` is an `s` and the Kelvin sign a `k`, but `ß` is no `ss`.
fn fold(char: char) -> char {
    match char {
        '\0'..='\x7f' => char.to_ascii_lowercase(),
        // Pairs that are capitalised with several characters, and so are not seen below.
        '\u{1fd3}' => '\u{390}',
        '\u{1fe3}' => '\u{3b0}',
        '\u{fb05}' => '\u{fb06}',
        // The small letter of `I` in Turkish alone, and scripts without case, which make up long texts.
        'ı' | '\u{2e80}'..='\u{a63f}' | '\u{ac00}'..='\u{d7ff}' | '\u{1f000}'.. => char,
        // Small letters with one capital, such as the Greek sigmas, meet in its small letter.
        _ => {
            let large = single(char.to_uppercase(), char);
            single(large.to_lowercase(), large)
        }
    }
}

/// The one character that it becomes; itself where it becomes several.
fn single(mut becomes: impl ExactSizeIterator<Item = char>, itself: char) -> char {
    if becomes.len() == 1 { becomes.next().unwrap_or(itself) } else { itself }
}

/// A text of a rule without its wildcards' signs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// A text with anything before or behind it, or neither; without backslashes that only keep a wildcard from being
    /// one.
    Literal { text: String, is_open_before: bool, is_open_behind: bool },
    /// The regular expression of a text with wildcards inside.
    Pattern(String),
}

enum Piece {
    One(char),
    /// `?`
    AnyOne,
    /// `*`
    Any,
}

impl Written {
    pub(super) fn read(text: &str) -> Self {
        let pieces = pieces(text);
        let is_any = |piece: Option<&Piece>| matches!(piece, Some(Piece::Any));
        let (is_open_before, is_open_behind) = (is_any(pieces.first()), is_any(pieces.last()));
        let inner = match pieces.as_slice() {
            [Piece::Any, inner @ .., Piece::Any]
            | [Piece::Any, inner @ ..]
            | [inner @ .., Piece::Any]
            | inner => inner,
        };
        let one = |piece: &Piece| match piece {
            Piece::One(char) => Some(*char),
            Piece::AnyOne | Piece::Any => None,
        };
        match inner.iter().map(one).collect::<Option<String>>() {
            Some(text) => Self::Literal { text, is_open_before, is_open_behind },
            None => Self::Pattern(pattern(&pieces)),
        }
    }
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        pieces.push(match char {
            '*' => {
                // Several in a row are as good as one.
                while chars.next_if_eq(&'*').is_some() {}
                Piece::Any
            }
            '?' => Piece::AnyOne,
            '\\' => {
                let escaped = chars.next_if(|next| matches!(next, '*' | '?' | '\\'));
                Piece::One(escaped.unwrap_or(char))
            }
            other => Piece::One(other),
        });
    }
    pieces
}

fn pattern(pieces: &[Piece]) -> String {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Any => out.push_str(".*"),
            Piece::AnyOne => out.push('.'),
            Piece::One(char) => out.push_str(&regex::escape(char.encode_utf8(&mut [0; 4]))),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[test]
    fn letters_differ_in_case_alone_exactly_where_regular_expressions_say_so() {
        let has_case = |char: &char| {
            let (small, large) = (char.to_lowercase(), char.to_uppercase());
            small.ne([*char]) || large.ne([*char]) || fold(*char) != *char
        };
        // Of all characters that change in any way, those which are one by our folding.
        let mut meet: BTreeMap<char, Vec<char>> = BTreeMap::new();
        let cased: Vec<char> = ('\0'..=char::MAX).filter(has_case).collect();
        assert!(cased.len() > 2000);
        for char in &cased {
            meet.entry(fold(*char)).or_default().push(*char);
        }
        let all: String = cased.iter().collect();
        for char in &cased {
            let alike = Regex::new(&format!("(?i){char}")).unwrap();
            let alike: Vec<char> =
                alike.find_iter(&all).filter_map(|found| found.as_str().chars().next()).collect();
            // A newer Unicode may know of pairs that the expressions do not know yet.
            let is_new =
                alike == [*char] && char.len_utf8() > 2 && !char.to_lowercase().eq([*char])
                    || alike == [*char] && char.len_utf8() > 2 && !char.to_uppercase().eq([*char]);
            let ours = &meet[&fold(*char)];
            assert!(*ours == alike || is_new, "{char:?}: {ours:?}, not {alike:?}");
        }
        // What has no case at all is one with itself alone.
        for char in ['\u{2e80}', '中', '가', '\u{1f600}', '!', '\u{a63f}', '\u{d7ff}'] {
            assert_eq!(fold(char), char);
        }
    }

    #[test]
    fn a_folded_text_that_is_small_already_is_no_copy() {
        assert!(matches!(folded("read_file 7"), Cow::Borrowed(_)));
        assert_eq!(folded("Read_FILE"), "read_file");
        assert_eq!(folded("ÜNÏ ſK中"), "ünï sk中");
    }

    #[test]
    fn only_wildcards_inside_a_text_make_a_regular_expression() {
        let literal = |text: &str, is_open_before, is_open_behind| Written::Literal {
            text: text.to_owned(),
            is_open_before,
            is_open_behind,
        };
        for (text, expected) in [
            ("a.b", literal("a.b", false, false)),
            ("**a.b***", literal("a.b", true, true)),
            ("*a", literal("a", true, false)),
            ("a*", literal("a", false, true)),
            ("*", literal("", true, true)),
            ("", literal("", false, false)),
            (r"\*a\\*", literal(r"*a\", false, true)),
            (r"c:\x\?", literal(r"c:\x?", false, false)),
            ("a*b.", Written::Pattern(r"a.*b\.".to_owned())),
            ("*a?", Written::Pattern(".*a.".to_owned())),
            ("?", Written::Pattern(".".to_owned())),
        ] {
            assert_eq!(Written::read(text), expected, "{text}");
        }
    }

    /// Letters that meet others in odd ways, and signs that mean something in rules or regular expressions.
    fn text(signs: &'static str, most: usize) -> impl Strategy<Value = String> {
        let letters = "kK\u{212a}sSſaAßẞüÜİiIıσςΣȺⱥᾀᾈ\u{390}\u{1fd3}ᎠꭰǅǆǄµμ中.\n ";
        let chars: Vec<char> = letters.chars().chain(signs.chars()).collect();
        prop::collection::vec(prop::sample::select(chars), 0..most).prop_map(String::from_iter)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_literal_holds_where_its_regular_expression_would(
            needle in text("", 4), value in text("*?\\", 12), cut in 0_usize..12, len in 0_usize..5, of_value: bool,
            is_open_before: bool, is_open_behind: bool, cased: bool,
        ) {
            // Half of them are from the value itself, in small letters, so that many are found.
            let part: String = value.chars().skip(cut).take(len).collect();
            let needle = match (of_value, cased) {
                (false, _) => needle,
                (true, true) => part,
                (true, false) => part.to_lowercase(),
            };
            let flags = if cased { "(?s)" } else { "(?is)" };
            let (before, behind) = (if is_open_before { "" } else { "^" }, if is_open_behind { "" } else { "$" });
            let regex = Regex::new(&format!("{flags}{before}(?:{}){behind}", regex::escape(&needle))).unwrap();
            let literal = Literal::new(&needle, Place::of(is_open_before, is_open_behind), cased);
            let holds = literal.holds(&Compared::new(&value));
            prop_assert_eq!(holds, regex.is_match(&value), "{:?} in {:?}", needle, value);
        }
    }

    #[test]
    fn a_hostile_value_costs_no_more_than_its_length() {
        let needle = format!("{}b", "a".repeat(4095));
        let literal = Literal::new(&needle, Place::Anywhere, false);
        let value = "A".repeat(8 << 20);
        assert!(!literal.holds(&Compared::new(&value)));
        assert!(literal.holds(&Compared::new(&format!("{value}B"))));
    }
}
