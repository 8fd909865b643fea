//! Makes hostile text inert: what comes from logs may hold control characters, bidi overrides and invisible marks.
//!
//! HTML escaping is the templates' business; this runs before it, and before terminals, mails and CSV.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Longest text shown whole, in characters; pages link to the rest.
pub const SHOWN_CHARS_MAX: usize = 4096;

/// The text with every control, format and other invisible character written as `\u{202e}`, cut at
/// [`SHOWN_CHARS_MAX`] characters with a note of what was left out. Line breaks and tabs are made visible too.
pub fn display_untrusted(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut left = text.chars();
    for character in left.by_ref().take(SHOWN_CHARS_MAX) {
        push_visible(&mut shown, character);
    }
    let rest = left.count();
    if rest > 0 {
        shown.extend(["… (", &rest.to_string(), " more characters)"]);
    }
    shown
}

fn push_visible(shown: &mut String, character: char) {
    if is_inert(character) {
        shown.push(character);
    } else {
        shown.extend(character.escape_unicode());
    }
}

/// False for what could change how the text around it reads: controls, formats, separators, private use, unassigned.
fn is_inert(character: char) -> bool {
    character == ' '
        || (character.is_ascii_graphic())
        || !matches!(
            character.general_category(),
            GeneralCategory::Control
                | GeneralCategory::Format
                | GeneralCategory::LineSeparator
                | GeneralCategory::ParagraphSeparator
                | GeneralCategory::PrivateUse
                | GeneralCategory::Unassigned
                | GeneralCategory::Surrogate
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_and_bidi_marks_become_visible() {
        assert_eq!(display_untrusted("a\u{202e}b\x1b[31m\n"), "a\\u{202e}b\\u{1b}[31m\\u{a}");
        assert_eq!(display_untrusted("naïve 日本"), "naïve 日本");
    }

    #[test]
    fn long_text_says_what_was_left_out() {
        let shown = display_untrusted(&"x".repeat(SHOWN_CHARS_MAX + 7));
        assert!(shown.ends_with("… (7 more characters)"));
    }
}
