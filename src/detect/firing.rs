//! An alert that a case expects: a part of its group, and exactly its evidence.

use std::ops::Range;

use crate::model::{Alert, Text};

use super::allowance::Allowance;
use super::cases::check_keys;
use super::problem::Problems;
use super::yaml::{Mark, Node, entry};

/// One alert that a case expects.
#[derive(Clone, Debug)]
pub(super) struct Firing {
    /// Fields and values that the alert's group must hold.
    group: Vec<(String, String)>,
    /// Exactly the evidence, as indices of the case's events or lines: sorted, and none twice.
    evidence: Vec<Range<usize>>,
}

/// What evidence is named by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    /// The key: `calls` or `lines`.
    pub(super) word: &'static str,
    /// How many there are; none where nothing of the case can be read, which was told.
    pub(super) count: usize,
}

/// The most alerts that a case expects.
pub(super) const FIRINGS_MAX: usize = 1_000;

/// What a firing takes in memory besides its texts and its evidence, in bytes, about.
const FIRING_BYTES: usize = 128;
/// What is spent for each index of the evidence: ranges take less, but all that they stand for is compared.
const INDEX_BYTES: usize = size_of::<Range<usize>>();

impl Firing {
    /// Reads one of the list; everything wrong goes to `problems`.
    pub(super) fn read(
        node: &Node,
        group_by: &[Text],
        named: Named,
        allowance: &mut Allowance,
        problems: &mut Problems<'_>,
    ) -> Option<Self> {
        // That too much is made of the file was told.
        if allowance.is_spent() {
            return None;
        }
        let entries = node.map().unwrap_or_default();
        check_keys(entries, &["group", named.word], problems);
        let mut group = Vec::new();
        for part in entry(entries, "group").and_then(|found| found.node.map()).unwrap_or_default() {
            if !group_by.iter().any(|name| **name == part.key) {
                problems.push(part.mark, format!("the rule does not group by `{}`", part.key));
            }
            match part.node.text() {
                Some(value) => group.push((part.key.clone(), value.to_owned())),
                None => problems.push(part.mark, "a group's value is a text"),
            }
        }
        let nodes = entry(entries, named.word).and_then(|found| found.node.list());
        let evidence = evidence(nodes.unwrap_or_default(), named, problems);
        // Where nothing of the case can be read, that is what is told.
        if evidence.is_empty() && named.count > 0 {
            problems.push(node.mark, format!("an alert that fires names its `{}`", named.word));
            return None;
        }
        let firing = Self { group, evidence };
        problems.take(node.mark, allowance.spend(firing.bytes()))?;
        Some(firing)
    }

    fn bytes(&self) -> usize {
        let texts: usize = self.group.iter().map(|(name, value)| name.len() + value.len()).sum();
        let indices = self.count().saturating_mul(INDEX_BYTES);
        texts.saturating_add(indices).saturating_add(FIRING_BYTES)
    }

    /// Whether the alert's group holds all that is said of it.
    pub(super) fn is_of_group(&self, alert: &Alert) -> bool {
        self.group.iter().all(|(field, value)| {
            alert.group.iter().any(|(name, shown)| **name == **field && **shown == **value)
        })
    }

    /// Whether the firing names all of these calls, each by one of its names at least, and nothing else.
    pub(super) fn names(&self, calls: &[&[usize]]) -> bool {
        if !calls.iter().all(|names| names.iter().any(|name| self.holds(*name))) {
            return false;
        }
        let mut named: Vec<usize> = calls.iter().copied().flatten().copied().collect();
        named.retain(|name| self.holds(*name));
        named.sort_unstable();
        named.dedup();
        named.len() == self.count()
    }

    fn holds(&self, index: usize) -> bool {
        let next = self.evidence.partition_point(|range| range.end <= index);
        self.evidence.get(next).is_some_and(|range| range.start <= index)
    }

    fn count(&self) -> usize {
        self.evidence.iter().map(ExactSizeIterator::len).sum()
    }
}

/// The evidence in order, each once. What is no index of anything is told and left out.
fn evidence(nodes: &[Node], named: Named, problems: &mut Problems<'_>) -> Vec<Range<usize>> {
    let Named { word, count } = named;
    let things = if word == "lines" { "lines" } else { "events" };
    let mut found: Vec<(Range<usize>, Mark)> = Vec::new();
    for node in nodes {
        if let Some(range) = range(node).filter(|range| range.end <= count) {
            found.push((range, node.mark));
        } else if count > 0 {
            let message =
                format!("`{word}` holds indices of {things} from 0, or ranges such as 0-19");
            problems.push(node.mark, message);
        }
    }
    found.sort_by_key(|(range, _)| range.start);
    let is_again = |pair: &&[(Range<usize>, Mark)]| matches!(pair, [(before, _), (next, _)] if next.start < before.end);
    // The first is told, and the list is right or wrong as a whole.
    if let Some([_, (again, mark)]) = found.windows(2).find(is_again) {
        let index = again.start;
        problems.push(*mark, format!("`{word}` names {index} twice; once is enough"));
        found.truncate(1);
    }
    found.into_iter().map(|(range, _)| range).collect()
}

fn range(node: &Node) -> Option<Range<usize>> {
    if let Some(index) = node.count() {
        let index = usize::try_from(index).ok()?;
        return Some(index..index.checked_add(1)?);
    }
    let (first, last) = node.text()?.split_once('-')?;
    let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..last.checked_add(1)?)
}
