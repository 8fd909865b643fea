//! Makes a name from a log harmless in a mail: short, visible, and nothing that a mail reader turns
//! into a link.
//!
//! Mail readers make links of whatever looks like one, and decode what looks like an encoded word,
//! so escaping is not enough: the places that make text look like that are broken with brackets,
//! and a link's address is cut out.

use crate::untrusted::display_untrusted;

/// Longest name shown, in characters.
pub(super) const NAME_CHARS_MAX: usize = 100;

/// Schemes whose links have no `//` after the colon.
const BARE_SCHEMES: [&str; 7] = ["mailto", "tel", "sms", "javascript", "data", "file", "cid"];

/// The text, inert and at most `chars_max` characters long; what was cut is shown by an ellipsis.
pub(super) fn inert(text: &str, chars_max: usize) -> String {
    // What lies beyond the limit cannot be shown, so it is not looked at.
    let head: String = text.chars().take(chars_max).collect();
    let shown = defang(&display_untrusted(&head));
    if head.len() == text.len() && shown.chars().count() <= chars_max {
        return shown;
    }
    let mut cut: String = shown.chars().take(chars_max.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Breaks whatever a mail reader would take for a link, an address or an encoded word.
fn defang(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len() + 16);
    let mut at = 0;
    while let Some((&letter, rest)) = letters.get(at..).and_then(<[char]>::split_first) {
        let before = letters.get(..at).unwrap_or_default();
        at += 1;
        match letter {
            ':' if rest.starts_with(&['/', '/']) => {
                // Logins and tokens hide in addresses, so the address itself goes.
                out.push_str("[:]//[cut]");
                at += rest.iter().take_while(|letter| !letter.is_whitespace()).count();
            }
            ':' if ends_in_scheme(before) => out.push_str("[:]"),
            '@' | '＠' => out.push_str("[@]"),
            '.' | '。' | '．' | '｡' if reads_as_host(before, rest) => out.push_str("[.]"),
            '=' if rest.first() == Some(&'?') => out.push_str("[=]"),
            '\\' if rest.first() == Some(&'\\') => out.push_str("[\\]"),
            _ => out.push(letter),
        }
    }
    out
}

/// True between `mail` and `example`, and between the parts of an IP address; false in
/// `files.read_file`, because no host name has an underscore in its last part.
fn reads_as_host(before: &[char], after: &[char]) -> bool {
    let is_www = before.ends_with(&['w', 'w', 'w']) || before.ends_with(&['W', 'W', 'W']);
    let label: Vec<char> = after
        .iter()
        .copied()
        .take_while(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_'))
        .collect();
    before.last().is_some_and(|letter| letter.is_alphanumeric() || *letter == '-')
        && (is_www
            || (!label.contains(&'_')
                && (label.len() >= 2 || label.first().is_some_and(char::is_ascii_digit))))
}

fn ends_in_scheme(before: &[char]) -> bool {
    let start = before.iter().rposition(|letter| !letter.is_alphabetic()).map_or(0, |at| at + 1);
    let word: String = before.get(start..).unwrap_or_default().iter().collect();
    BARE_SCHEMES.iter().any(|scheme| scheme.eq_ignore_ascii_case(&word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(inert(text, NAME_CHARS_MAX), expected);
    }

    #[test]
    fn links_are_broken_and_their_addresses_cut() {
        check("see http://u:p@evil.example/x?t=1 now", "see http[:]//[cut] now");
        check("www.evil.example", "www[.]evil[.]example");
        check("WWW.x", "WWW[.]x");
        check("10.0.0.12", "10[.]0[.]0[.]12");
        check("ann@example.org", "ann[@]example[.]org");
        check("mailto:ann", "mailto[:]ann");
        check("JavaScript:alert", "JavaScript[:]alert");
        check(r"\\evil\share", r"[\]\evil\share");
        check("例え。テスト", "例え[.]テスト");
    }

    #[test]
    fn an_encoded_word_stays_text() {
        check("=?utf-8?q?=E2=80=AE?=", "[=]?utf-8?q?=E2=80=AE?=");
    }

    #[test]
    fn names_as_they_mostly_are_stay_readable() {
        for name in ["files.read_file", "mcp__files__read_file", "github:create_issue", "u-eng"] {
            check(name, name);
        }
    }

    #[test]
    fn controls_are_visible_and_length_is_bounded() {
        check("a\r\nBcc: b", "a\\u{d}\\u{a}Bcc: b");
        check("safe\u{202e}txt", "safe\\u{202e}txt");
        assert_eq!(inert("abcdef", 4), "abc…");
        assert_eq!(inert("abcd", 4), "abcd");
        assert_eq!(inert("\n\n", 4), "\\u{…");
    }

    proptest! {
        #[test]
        fn nothing_linkable_is_left(
            text in r"([a-z0-9@:/.\\=?\r\n\u{202e}。]|http://|www\.){0,40}",
        ) {
            let shown = inert(&text, NAME_CHARS_MAX);
            prop_assert!(shown.chars().count() <= NAME_CHARS_MAX);
            prop_assert!(!shown.contains("://") && !shown.contains("=?"));
            prop_assert!(!shown.contains("www.") && !shown.contains("\\\\"));
            prop_assert!(!shown.replace("[@]", "").contains('@'));
            prop_assert!(!shown.chars().any(char::is_control));
        }
    }
}
