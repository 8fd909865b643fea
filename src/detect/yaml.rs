//! YAML as a tree whose every node knows its place: rule problems are reported by file, line and
//! column.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, Location, Spanned};

/// How deep values can be nested.
const DEPTH_MAX: usize = 32;
/// The most documents of a file.
const DOCUMENTS_MAX: usize = 64;
/// The most values of a file, keys and what anchors repeat included.
const NODES_MAX: usize = 150_000;
/// The most text of a file, what anchors repeat included.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// Up to here every whole number is exact.
const COUNT_MAX: f64 = 9_007_199_254_740_992.0;

/// A place in a rule file: line and column, from 1. Columns count characters.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) line: u64,
    pub(super) column: u64,
}

/// One YAML value and the place it starts at.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) mark: Mark,
    pub(super) value: Value,
}

/// What a node holds.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a map with its value. The place is the key's.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) mark: Mark,
    pub(super) key: String,
    pub(super) node: Node,
}

/// A text that is not YAML, or a YAML feature that rule files do not use.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct YamlError {
    pub(super) mark: Mark,
    pub(super) message: String,
}

/// Reads all documents of a text; empty ones are left out.
pub(super) fn documents(text: &str) -> Result<Vec<Node>, YamlError> {
    // A plain `yes` is the word, not a boolean, and 0755 is the text somebody wrote.
    let options = serde_saphyr::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        reject_unsupported_tags: true,
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_documents: DOCUMENTS_MAX,
            max_nodes: NODES_MAX,
            max_total_scalar_bytes: TEXT_BYTES_MAX,
        },
    };
    let documents: Vec<Spanned<Value>> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| YamlError {
            mark: error.location().map_or(Mark::START, |location| Mark::of(&location)),
            message: reason(&error),
        })?;
    Ok(documents.into_iter().map(Node::from).collect())
}

impl Mark {
    /// The start of a file.
    pub(super) const START: Self = Self { line: 1, column: 1 };

    fn of(location: &Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }
}

impl Node {
    /// The text of a string node.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn map(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub(super) fn list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(nodes) => Some(nodes),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<f64> {
        match &self.value {
            Value::Int(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// A count: a whole number that is not negative, such as 20, 20.0 or 2e1.
    pub(super) fn count(&self) -> Option<u64> {
        match &self.value {
            Value::Int(number) => u64::try_from(*number).ok(),
            Value::Float(number) => {
                let is_whole = number.fract().total_cmp(&0.0).is_eq();
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is whole and in the range"
                )]
                (is_whole && (0.0..=COUNT_MAX).contains(number)).then_some(*number as u64)
            }
            _ => None,
        }
    }

    /// What the node is, in words for messages.
    pub(super) const fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Int(_) | Value::Float(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

/// The entry of a map with that key.
pub(super) fn entry<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.key == key)
}

fn too_much() -> String {
    format!(
        "this is too much for one rule file: {NODES_MAX} values or {TEXT_BYTES_MAX} bytes of text at most, what \
         anchors repeat included"
    )
}

/// What is wrong, in words that somebody who wrote the file can use.
fn reason(error: &Error) -> String {
    match error.without_snippet() {
        Error::DuplicateMappingKey { key, .. } => {
            format!("the key `{}` is there twice", key.as_deref().unwrap_or_default())
        }
        Error::NonFiniteFloat { value, .. } => {
            format!(
                "`{value}` is no number that anything can be compared with; quote it if it is a text"
            )
        }
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            format!("this is nested more than {DEPTH_MAX} deep")
        }
        Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            format!(
                "a file has {DOCUMENTS_MAX} documents at most: one rule that fires and its helpers"
            )
        }
        Error::Budget { .. } => too_much(),
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "this repeats itself: an anchor stands inside of what it names".to_owned()
        }
        _ => {
            // Errors name the place and quote the source over several lines; the first says what is wrong.
            let told = error.to_string();
            let first = told.lines().next().unwrap_or_default();
            // What an anchor repeats is told by its alias.
            if first.contains("budget breached") {
                return too_much();
            }
            let place = error.location().map_or_else(String::new, |location| {
                format!("error: line {} column {}: ", location.line(), location.column())
            });
            format!(
                "this is not YAML that can be read: {}",
                first.strip_prefix(&*place).unwrap_or(first)
            )
        }
    }
}

impl From<Spanned<Value>> for Node {
    fn from(spanned: Spanned<Value>) -> Self {
        Self { mark: Mark::of(&spanned.referenced), value: spanned.value }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Float(value as f64), Value::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = seq.next_element::<Spanned<Value>>()? {
            nodes.push(node.into());
        }
        Ok(Value::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let node = map.next_value::<Spanned<Value>>()?.into();
            entries.push(Entry { mark: Mark::of(&key.referenced), key: key.value, node });
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_know_their_places_across_documents() {
        let nodes = documents("a: 1\nb:\n  - x\n  - y: true\n---\nc: 'no'\n").unwrap();
        let first = nodes[0].map().unwrap();
        let list = first[1].node.list().unwrap();
        let second = nodes[1].map().unwrap();
        let place = |mark: Mark| (mark.line, mark.column);
        assert_eq!((place(first[0].mark), place(first[1].mark)), ((1, 1), (2, 1)));
        let inner = &list[1].map().unwrap()[0];
        assert_eq!((place(list[0].mark), place(inner.mark)), ((3, 5), (4, 5)));
        assert_eq!((place(inner.node.mark), place(second[0].mark)), ((4, 8), (6, 1)));
        assert_eq!(second[0].node.text(), Some("no"));
    }

    #[test]
    fn a_broken_document_is_reported_with_its_line() {
        let error = documents("a: 1\nb: [1, 2\nc: 3\n").unwrap_err();
        assert!(error.mark.line >= 2, "line {}", error.mark.line);
    }

    #[test]
    fn plain_yes_and_no_and_versions_keep_their_meaning() {
        let nodes = documents("a: yes\nb: no\nc: true\nd: 1.5\ne: ~\nf: 0755\n").unwrap();
        let entries = nodes[0].map().unwrap();
        assert!(matches!(&entries[0].node.value, Value::Text(text) if text == "yes"));
        assert!(matches!(&entries[1].node.value, Value::Text(text) if text == "no"));
        assert!(matches!(entries[2].node.value, Value::Bool(true)));
        assert!(matches!(entries[3].node.value, Value::Float(_)));
        assert!(matches!(entries[4].node.value, Value::Null));
        assert!(matches!(&entries[5].node.value, Value::Text(text) if text == "0755"));
    }
}
