//! One document of a rule file: a Sigma detection or a Sigma correlation, checked key by key.

use crate::model::{Level, Text};

use super::allowance::Allowance;
use super::condition;
use super::correlation::Correlation;
use super::field::did_you_mean;
use super::group_by::{GroupBy, group_by};
use super::matcher::{Expr, Item};
use super::problem::Problems;
use super::yaml::{Entry, Mark, Node, Value, entry};

/// One document, with everything but its references to others resolved.
pub(super) struct Document {
    pub(super) mark: Mark,
    pub(super) title: String,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) status: Option<String>,
    pub(super) description: String,
    pub(super) level: Level,
    pub(super) tags: Vec<Text>,
    pub(super) falsepositives: Vec<String>,
    pub(super) references: Vec<String>,
    pub(super) why: Option<String>,
    pub(super) tests: Option<Node>,
    pub(super) body: Body,
}

pub(super) enum Body {
    Detection { expr: Expr, group_by: Option<Vec<GroupBy>> },
    Correlation(Correlation),
}

const KEYS: [&str; 22] = [
    "title",
    "id",
    "name",
    "status",
    "description",
    "level",
    "tags",
    "falsepositives",
    "author",
    "references",
    "date",
    "modified",
    "license",
    "related",
    "fields",
    "taxonomy",
    "scope",
    "logsource",
    "detection",
    "correlation",
    "why",
    "tests",
];

/// The most characters of a title, a name or an id: alerts and mails show them.
const WORD_CHARS_MAX: usize = 256;
/// The most characters of other texts for people.
const TEXT_CHARS_MAX: usize = 10_000;
/// The most tags, references and the like.
const TEXTS_MAX: usize = 100;

const STATUSES: [&str; 5] = ["stable", "test", "experimental", "deprecated", "unsupported"];

impl Document {
    /// Reads a document; everything wrong with it goes to `problems`.
    pub(super) fn read(
        node: &Node,
        allowance: &mut Allowance,
        problems: &mut Problems<'_>,
    ) -> Option<Self> {
        let Some(entries) = node.map() else {
            problems.push(node.mark, format!("a rule is a map of keys, not {}", node.kind()));
            return None;
        };
        let detects = entry(entries, "detection").is_some();
        for found in entries {
            if !(KEYS.contains(&found.key.as_str()) || detects && found.key == "group-by") {
                problems.push(found.mark, unknown_key(&found.key));
            }
        }
        let body = body(node.mark, entries, allowance, problems);
        Some(Self {
            mark: node.mark,
            title: text(entries, "title", problems).unwrap_or_else(|| {
                problems.push(node.mark, "`title` is missing");
                String::new()
            }),
            id: text(entries, "id", problems),
            name: text(entries, "name", problems),
            status: word(entries, "status", &STATUSES, problems),
            description: text(entries, "description", problems).unwrap_or_default(),
            level: word(entries, "level", &Level::ALL.map(Level::as_str), problems)
                .and_then(|word| Level::from_word(&word))
                .unwrap_or(Level::Medium),
            tags: texts(entries, "tags", problems).into_iter().map(Text::from).collect(),
            falsepositives: texts(entries, "falsepositives", problems),
            references: texts(entries, "references", problems),
            why: text(entries, "why", problems),
            tests: entry(entries, "tests").map(|found| found.node.clone()),
            body: body?,
        })
    }

    /// True if a correlation means this document by that name.
    pub(super) fn is_called(&self, reference: &str) -> bool {
        self.name.as_deref() == Some(reference) || self.id.as_deref() == Some(reference)
    }
}

/// Why a key is refused; those that rules for other programs have are told by name.
fn unknown_key(key: &str) -> String {
    match key {
        "action" => "`action` (global, reset, repeat) is not supported: write the keys that documents share \
                     into each of them, and each rule that fires into a file of its own"
            .to_owned(),
        _ => format!("the key `{key}` is not known{}", did_you_mean(key, KEYS.into_iter())),
    }
}

fn body(
    mark: Mark,
    entries: &[Entry],
    allowance: &mut Allowance,
    problems: &mut Problems<'_>,
) -> Option<Body> {
    match (entry(entries, "detection"), entry(entries, "correlation")) {
        (Some(found), None) => {
            log_source(mark, entries, true, problems);
            let group_by =
                entry(entries, "group-by").map(|entry| group_by(entry, Vec::new(), problems));
            let expr = detection(found, allowance, problems)?;
            Some(Body::Detection { expr, group_by })
        }
        (None, Some(found)) => {
            log_source(mark, entries, false, problems);
            Correlation::read(found, problems).map(Body::Correlation)
        }
        _ => {
            problems.push(mark, "a rule has either `detection` or `correlation`");
            None
        }
    }
}

/// A rule for another log source would be silent here for ever: better refused.
fn log_source(mark: Mark, entries: &[Entry], required: bool, problems: &mut Problems<'_>) {
    let Some(found) = entry(entries, "logsource") else {
        if required {
            let message = "`logsource` is missing: {product: mcp, service: tool_calls}";
            problems.push(mark, message);
        }
        return;
    };
    let Some(parts) = found.node.map() else {
        problems.push(found.mark, "`logsource` is a map");
        return;
    };
    for part in parts {
        let fits = match (part.key.as_str(), part.node.text()) {
            ("product", Some(word)) => word == "mcp",
            ("service", Some(word)) => word == "tool_calls",
            ("definition", Some(_)) => true,
            _ => false,
        };
        if !fits {
            let message = "only `product: mcp` and `service: tool_calls` are read here";
            problems.push(part.mark, format!("logsource `{}`: {message}", part.key));
        }
    }
    if entry(parts, "product").is_none() {
        problems.push(found.mark, "`logsource` does not say `product: mcp`");
    }
}

fn detection(
    found: &Entry,
    allowance: &mut Allowance,
    problems: &mut Problems<'_>,
) -> Option<Expr> {
    let Some(parts) = found.node.map() else {
        problems.push(found.mark, "`detection` is a map of selections and a condition");
        return None;
    };
    let mut selections = Vec::new();
    let mut all_read = true;
    for part in parts.iter().filter(|part| part.key != "condition") {
        match selection(part, allowance, problems) {
            Some(expr) => selections.push((part.key.clone(), expr)),
            None => all_read = false,
        }
    }
    let Some(condition) = entry(parts, "condition") else {
        problems.push(found.mark, "`detection` has no `condition`");
        return None;
    };
    let Some(text) = condition.node.text() else {
        let kind = condition.node.kind();
        problems.push(condition.mark, format!("`condition` is one text, not {kind}"));
        return None;
    };
    // A selection that was refused would be reported a second time as an unknown name.
    if !all_read {
        return None;
    }
    let expr = condition::compile(text, &selections, allowance);
    problems.take(condition.node.mark, expr)
}

/// A map is an and of its items; a list of maps is an or of them.
fn selection(part: &Entry, allowance: &mut Allowance, problems: &mut Problems<'_>) -> Option<Expr> {
    if allowance.is_spent() {
        return None;
    }
    match &part.node.value {
        Value::Text(_) | Value::Int(_) if part.key == "timeframe" => {
            let message = "`timeframe` is not supported; write a correlation with a `timespan`";
            problems.push(part.mark, message);
            None
        }
        Value::Map(items) if !items.is_empty() => {
            let read: Vec<Option<Expr>> = items
                .iter()
                .map(|item| {
                    // That too much is made of the file was told.
                    if allowance.is_spent() {
                        return None;
                    }
                    let read = Item::parse(&item.key, &item.node, allowance).map(Expr::Item);
                    problems.take(item.mark, read)
                })
                .collect();
            read.into_iter().collect::<Option<_>>().map(Expr::And)
        }
        Value::List(maps) if !maps.is_empty() => {
            let read: Vec<Option<Expr>> = maps
                .iter()
                .map(|map| {
                    if map.map().is_none() {
                        let message = "keywords are not supported; write `field: value`";
                        problems.push(map.mark, message);
                        return None;
                    }
                    let part = Entry { mark: map.mark, key: part.key.clone(), node: map.clone() };
                    selection(&part, allowance, problems)
                })
                .collect();
            read.into_iter().collect::<Option<_>>().map(Expr::Or)
        }
        _ => {
            let message =
                format!("the selection `{}` is a map of fields or a list of maps", part.key);
            problems.push(part.mark, message);
            None
        }
    }
}

/// The texts of a list.
pub(super) fn texts_of(found: &Entry) -> Vec<&str> {
    found.node.list().unwrap_or_default().iter().filter_map(Node::text).collect()
}

fn text(entries: &[Entry], key: &str, problems: &mut Problems<'_>) -> Option<String> {
    let found = entry(entries, key)?;
    let text = found.node.text().map(|text| text.trim().to_owned());
    let length = text.as_ref().map_or(0, |text| text.chars().count());
    let is_word = ["title", "name", "id"].contains(&key);
    let max = if is_word { WORD_CHARS_MAX } else { TEXT_CHARS_MAX };
    if length == 0 {
        problems.push(found.mark, format!("`{key}` is a text, not {}", found.node.kind()));
    } else if length > max {
        problems.push(found.mark, format!("`{key}` has {length} characters; {max} are the most"));
    }
    text
}

fn texts(entries: &[Entry], key: &str, problems: &mut Problems<'_>) -> Vec<String> {
    let Some(found) = entry(entries, key) else {
        return Vec::new();
    };
    let Some(nodes) = found.node.list() else {
        problems.push(found.mark, format!("`{key}` is a list of texts"));
        return Vec::new();
    };
    if nodes.len() > TEXTS_MAX {
        problems.push(found.mark, format!("`{key}` is a list of {TEXTS_MAX} texts at most"));
        return Vec::new();
    }
    let mut out = Vec::new();
    for node in nodes {
        match node.text() {
            Some(text) => out.push(text.to_owned()),
            None => problems.push(node.mark, format!("`{key}` is a list of texts")),
        }
    }
    out
}

fn word(
    entries: &[Entry],
    key: &str,
    words: &[&str],
    problems: &mut Problems<'_>,
) -> Option<String> {
    let mark = entry(entries, key)?.mark;
    let word = text(entries, key, problems)?;
    if !words.contains(&word.as_str()) {
        problems.push(mark, format!("`{key}: {word}` is none of {}", words.join(", ")));
        return None;
    }
    Some(word)
}
