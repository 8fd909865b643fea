//! The short texts of records: masked, cut to size, and shared where they come again and again.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::mask::{is_secret_name, mask_text};
use crate::model::Text;

/// Longest name, id or code kept, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 1024;

/// Longest text worth sharing, in bytes: with the number of entries it bounds the memory.
const SHARED_BYTES_MAX: usize = 256;

/// Texts kept for sharing; then they are forgotten and learnt again.
const SHARED_TEXTS_MAX: usize = 100_000;

/// A text as a record keeps it.
#[derive(Clone)]
pub(super) struct Name {
    pub(super) text: Text,
    /// True when the log's text was longer than [`NAME_BYTES_MAX`].
    pub(super) cut: bool,
    /// True when a value under this name is a secret.
    pub(super) secret: bool,
}

/// Makes names of texts. A text that had to be masked or cut gets a keyed hash of the whole at its
/// end, so that two different ones never become the same principal or tool.
pub(super) struct Texts {
    hash_key: [u8; 32],
    shared: HashMap<Text, Name>,
}

impl Texts {
    pub(super) fn new(hash_key: [u8; 32]) -> Self {
        Self { hash_key, shared: HashMap::new() }
    }

    /// The first eight bytes of the keyed hash of a text.
    pub(super) fn hash(&self, text: &str) -> u64 {
        let hash = blake3::keyed_hash(&self.hash_key, text.as_bytes());
        let (first, _) = hash.as_bytes().split_first_chunk().unwrap_or((&[0; 8], &[]));
        u64::from_le_bytes(*first)
    }

    /// A text that likely comes again: a tool, a principal, an outcome word, an argument's name.
    pub(super) fn shared(&mut self, text: &str) -> Name {
        if text.len() > SHARED_BYTES_MAX {
            return self.once(text);
        }
        if let Some(name) = self.shared.get(text) {
            return name.clone();
        }
        if self.shared.len() >= SHARED_TEXTS_MAX {
            self.shared.clear();
        }
        let name = self.once(text);
        let key = if *name.text == *text { name.text.clone() } else { Text::from(text) };
        self.shared.insert(key, name.clone());
        name
    }

    /// A text that likely never comes again: a request id, a trace id.
    pub(super) fn once(&self, text: &str) -> Name {
        let masked = mask_text(head(text, 2 * NAME_BYTES_MAX));
        let cut = text.len() > NAME_BYTES_MAX;
        let kept: Cow<'_, str> = match masked {
            Cow::Borrowed(_) if !cut => text.into(),
            masked => {
                let shown = head(&masked, NAME_BYTES_MAX - 16);
                let mark = if shown.len() < masked.len() { "…" } else { "" };
                format!("{shown}{mark}#{:08x}", self.hash(text) >> 32).into()
            }
        };
        Name { text: kept.as_ref().into(), cut, secret: is_secret_name(head(text, NAME_BYTES_MAX)) }
    }
}

/// The text's beginning, at most `bytes_max` long and never through a character.
pub(super) fn head(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_shared() {
        let mut texts = Texts::new([7; 32]);
        let first = texts.shared("read_file");
        let second = texts.shared("read_file");
        assert!(Text::ptr_eq(&first.text, &second.text));
    }

    #[test]
    fn what_is_masked_or_cut_stays_apart() {
        let texts = Texts::new([7; 32]);
        let bob = texts.once("ghp_bobbobbobbobbobbob01");
        let ann = texts.once("ghp_annannannannannann01");
        assert!(bob.text.starts_with("[masked]#"));
        assert_ne!(bob.text, ann.text);

        let long = "é".repeat(NAME_BYTES_MAX);
        let (one, other) = (texts.once(&format!("{long}1")), texts.once(&format!("{long}2")));
        assert!(one.cut && one.text.len() <= NAME_BYTES_MAX);
        assert_ne!(one.text, other.text);
        assert!(!texts.once(&"x".repeat(NAME_BYTES_MAX)).cut);
    }

    #[test]
    fn the_store_of_shared_texts_is_bounded() {
        let mut texts = Texts::new([7; 32]);
        for number in 0..=SHARED_TEXTS_MAX {
            texts.shared(&number.to_string());
        }
        assert!(texts.shared.len() <= SHARED_TEXTS_MAX);
    }
}
