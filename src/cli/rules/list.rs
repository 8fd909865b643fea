//! `calltrail rules list`: every rule, where it comes from, and what is changed of it.

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::super::failure::Failure;
use super::super::output::Format;
use super::super::{Common, setup};
use crate::daemon::{Origin, RuleEntry};
use crate::detect::Rule;
use crate::untrusted::display_untrusted;

pub(super) fn run(common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let book = setup::rulebook(&common.config()?)?;
    for entry in &book.entries {
        let rule = book.rule(&entry.name);
        match common.output {
            Format::Human => print(out, entry, rule)?,
            Format::Json => writeln!(out, "{}", as_json(entry, rule))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut impl Write, entry: &RuleEntry, rule: Option<&Rule>) -> std::io::Result<()> {
    let level = match rule {
        _ if entry.is_disabled => "off",
        Some(rule) => rule.level.as_str(),
        None => "",
    };
    let kind = rule.map_or("", Rule::type_word);
    let group = rule.map_or_else(String::new, |rule| match rule.group_by().collect::<Vec<_>>() {
        fields if fields.is_empty() => "(one group)".to_owned(),
        fields => fields.join(", "),
    });
    let title = rule.map_or_else(String::new, |rule| display_untrusted(&rule.title));
    let name = display_untrusted(&entry.name);
    writeln!(
        out,
        "{level:<13} {name:<24} {kind:<16} {group:<18} {title} ({})",
        origin(&entry.origin)
    )?;
    for change in &entry.changes {
        writeln!(out, "{:<13} overrides.toml: {}", "", display_untrusted(change))?;
    }
    for doubt in &entry.doubts {
        writeln!(out, "{:<13} in doubt: {}", "", display_untrusted(&doubt.to_string()))?;
    }
    Ok(())
}

fn origin(origin: &Origin) -> String {
    let shown = |path: &std::path::Path| display_untrusted(&path.to_string_lossy());
    match origin {
        Origin::BuiltIn => "built in".to_owned(),
        Origin::Own(path) => shown(path),
        Origin::Replaced(path) => format!("{}, in the built-in one's place", shown(path)),
    }
}

fn as_json(entry: &RuleEntry, rule: Option<&Rule>) -> Value {
    let file = match &entry.origin {
        Origin::BuiltIn => None,
        Origin::Own(path) | Origin::Replaced(path) => Some(path.to_string_lossy()),
    };
    json!({
        "rule": entry.name,
        "title": rule.map(|rule| &rule.title),
        "level": rule.map(|rule| rule.level),
        "type": rule.map(Rule::type_word),
        "group_by": rule.map(|rule| rule.group_by().collect::<Vec<_>>()),
        "count": rule.and_then(Rule::count_min),
        "timespan": rule.and_then(Rule::timespan_micros).map(|micros| micros / 1_000_000),
        "id": rule.and_then(|rule| rule.id.as_ref()),
        "tags": rule.map(|rule| &rule.tags),
        "why": rule.map(|rule| &rule.why),
        "origin": match entry.origin {
            Origin::BuiltIn => "built-in",
            Origin::Own(_) => "own",
            Origin::Replaced(_) => "replaced",
        },
        "file": file,
        "disabled": entry.is_disabled,
        "overrides": entry.changes,
        "doubts": entry.doubts.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
