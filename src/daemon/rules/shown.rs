//! What pages show of the rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::rulebook::{Origin, RuleEntry, Rulebook};
use crate::detect::{CaseTold, Rule};
use crate::model::Dialect;
use crate::web::{CaseShown, RuleShown, RulesShown};

pub(super) fn shown(book: &Rulebook) -> RulesShown {
    let known: BTreeMap<&str, &Rule> = book.all().map(|rule| (&*rule.name, rule)).collect();
    let of_entry = |entry: &RuleEntry| of_entry(entry, known.get(&*entry.name).copied());
    let rules = book.entries.iter().map(of_entry).collect();
    RulesShown { rules: Arc::new(rules), ..RulesShown::default() }
}

fn of_entry(entry: &RuleEntry, rule: Option<&Rule>) -> RuleShown {
    let mut shown = RuleShown {
        name: entry.name.clone(),
        text: entry.text.clone(),
        origin: match &entry.origin {
            Origin::BuiltIn => "built in".to_owned(),
            Origin::Own(path) => path.display().to_string(),
            Origin::Replaced(path) => format!("{}, in the built-in one's place", path.display()),
        },
        is_disabled: entry.is_disabled,
        changes: entry.changes.clone(),
        doubts: entry.doubts.iter().map(ToString::to_string).collect(),
        ..RuleShown::default()
    };
    if let Some(rule) = rule {
        shown.title.clone_from(&rule.title);
        shown.level = Some(rule.level);
        shown.kind = rule.type_word();
        shown.group_by = rule.group_by().map(str::to_owned).collect();
        shown.count = rule.count_min();
        shown.timespan_micros = rule.timespan_micros();
        shown.description.clone_from(&rule.description);
        shown.why.clone_from(&rule.why);
        shown.falsepositives.clone_from(&rule.falsepositives);
        shown.tags = rule.tags.iter().map(ToString::to_string).collect();
        shown.references.clone_from(&rule.references);
        shown.status.clone_from(&rule.status);
        shown.cases = rule.cases().map(case).collect();
    }
    shown
}

fn case(told: CaseTold<'_>) -> CaseShown {
    let dialects: Vec<&str> = told.dialects.into_iter().map(Dialect::as_str).collect();
    CaseShown { name: told.name.to_owned(), fires: told.fires, dialects: dialects.join(", ") }
}
