//! What the log is told of rules that were taken over.

use std::collections::{BTreeMap, BTreeSet};

use super::super::rulebook::{RuleEntry, Rulebook};
use crate::untrusted::display_untrusted;

/// Rules that the log names of each kind of change, and doubts that it tells.
const NAMES_TOLD_MAX: usize = 20;

/// What is different of the rules, in a sentence; none where nothing is that they find anything by.
pub(super) fn difference(before: &Rulebook, after: &Rulebook) -> Option<String> {
    let of = |book| -> BTreeMap<&str, &RuleEntry> { by_name(book).collect() };
    let (old, now) = (of(before), of(after));
    let mut kinds: [(&str, Vec<&str>); 5] =
        ["added", "removed", "changed", "switched off", "switched on"]
            .map(|kind| (kind, Vec::new()));
    let mut tell = |kind: &str, name| {
        if let Some((_, names)) = kinds.iter_mut().find(|(known, _)| *known == kind) {
            names.push(name);
        }
    };
    for (name, entry) in &now {
        match old.get(name) {
            None => tell("added", *name),
            Some(old) if old.is_disabled != entry.is_disabled => {
                tell(if entry.is_disabled { "switched off" } else { "switched on" }, name);
            }
            Some(old) if old.text != entry.text || !before.is_changed_like(after, name) => {
                tell("changed", name);
            }
            Some(_) => {}
        }
    }
    old.keys().filter(|name| !now.contains_key(*name)).for_each(|name| tell("removed", name));
    let told = kinds.iter().filter(|(_, names)| !names.is_empty());
    let told: Vec<String> =
        told.map(|(kind, names)| format!("{kind}: {}", listed(names))).collect();
    (!told.is_empty()).then(|| {
        format!(
            "Changed rules were taken over, and {} are in force from the next batch on ({}).",
            after.rules.rules().len(),
            told.join("; ")
        )
    })
}

/// What is doubted of rules since the overrides changed them and was not before, a line each. They are in force all the
/// same.
pub(super) fn doubts(before: &Rulebook, after: &Rulebook) -> Vec<String> {
    let of = |book| {
        by_name(book).flat_map(|(name, entry)| entry.doubts.iter().map(move |doubt| (name, doubt)))
    };
    // Lines that are moved in the file are no news.
    let known: BTreeSet<(&str, &str)> =
        of(before).map(|(name, doubt)| (name, &*doubt.message)).collect();
    let new = || of(after).filter(|(name, doubt)| !known.contains(&(*name, &*doubt.message)));
    let first = new().take(NAMES_TOLD_MAX);
    let mut lines: Vec<String> =
        first.map(|(_, doubt)| display_untrusted(&doubt.to_string())).collect();
    let more = new().count().saturating_sub(NAMES_TOLD_MAX);
    if more > 0 {
        lines.push(format!(
            "and {more} more doubts; the rules page and `calltrail rules check` tell them all"
        ));
    }
    lines
}

fn by_name(book: &Rulebook) -> impl Iterator<Item = (&str, &RuleEntry)> {
    book.entries.iter().map(|entry| (&*entry.name, entry))
}

fn listed(names: &[&str]) -> String {
    let first = names.iter().take(NAMES_TOLD_MAX).map(|name| display_untrusted(name));
    let first: Vec<String> = first.collect();
    let more = names.len().saturating_sub(NAMES_TOLD_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}
