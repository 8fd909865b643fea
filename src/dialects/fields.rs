//! The top-level pairs of one line, taken one by one; what nobody takes becomes the record's extra.

use std::borrow::Cow;
use std::collections::HashSet;

use super::json::Json;

/// With fewer keys, comparing each with each is the fastest way to find a double.
const FEW_KEYS: usize = 16;

/// The pairs of a line's object.
pub(super) struct Fields<'a> {
    /// A value that was taken leaves none.
    pairs: Vec<(Cow<'a, str>, Option<Json<'a>>)>,
    has_duplicates: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn new(pairs: Vec<(Cow<'a, str>, Json<'a>)>) -> Self {
        let has_duplicates = has_duplicates(&pairs);
        let pairs = pairs.into_iter().map(|(key, value)| (key, Some(value))).collect();
        Self { pairs, has_duplicates }
    }

    pub(super) const fn has_duplicates(&self) -> bool {
        self.has_duplicates
    }

    /// The value that a reader of JSON would see: the last one of the key.
    pub(super) fn get(&self, key: &str) -> Option<&Json<'a>> {
        self.pairs.iter().rev().find(|(name, _)| name == key)?.1.as_ref()
    }

    /// True when the key is there with a value other than null.
    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| *value != Json::Null)
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// Takes the key's last value; the earlier ones of a duplicated key go to `earlier`.
    pub(super) fn take(&mut self, key: &str, earlier: &mut Vec<Json<'a>>) -> Option<Json<'a>> {
        let mut found = self.pairs.iter_mut().rev().filter(|(name, _)| name == key);
        let last = found.next()?.1.take();
        if self.has_duplicates {
            earlier.extend(found.filter_map(|(_, value)| value.take()));
        }
        last
    }

    /// The keys as they stand in the line.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(key, _)| key.as_ref())
    }

    /// What was not taken, in the line's order.
    pub(super) fn untaken(&self) -> impl Iterator<Item = (&str, &Json<'a>)> {
        self.pairs.iter().filter_map(|(key, value)| Some((key.as_ref(), value.as_ref()?)))
    }
}

/// True when a key comes more than once.
pub(super) fn has_duplicates<T>(pairs: &[(Cow<'_, str>, T)]) -> bool {
    if pairs.len() > FEW_KEYS {
        let mut seen = HashSet::with_capacity(pairs.len());
        return !pairs.iter().all(|(key, _)| seen.insert(key.as_ref()));
    }
    pairs.iter().enumerate().any(|(index, (key, _))| {
        pairs.get(..index).unwrap_or_default().iter().any(|(other, _)| other == key)
    })
}
