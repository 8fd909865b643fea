//! `GET /rules`: every rule, how often it fired, and what it costs.

use askama::Template;
use askama_web::WebTemplate;
use axum::extract::State;

use super::error::WebError;
use super::frame::{Frame, Section};
use super::link;
use super::rules::{RuleLoad, RuleShown, RulesShown};
use super::shown::{Severity, Shown, When, count, counted, duration};
use super::state::Shared;
use crate::model::{Micros, RuleAlerts};

#[derive(Template, WebTemplate)]
#[template(path = "rules.html")]
pub(crate) struct RulesPage {
    frame: Frame,
    summary: Shown,
    /// Why the files that are there now are not in force, a line each.
    refused: Vec<Shown>,
    rows: Vec<Row>,
}

struct Row {
    name: Shown,
    address: String,
    title: Shown,
    severity: Option<Severity>,
    is_disabled: bool,
    looks_for: Shown,
    origin: Shown,
    changes: Vec<Shown>,
    doubts: Vec<Shown>,
    alerts: Shown,
    /// The incidents that it is in; none where there are none.
    incidents: Option<String>,
    last: When,
    spent: Shown,
    each: Shown,
    share: Shown,
    groups: Shown,
}

pub(crate) async fn show(State(state): State<Shared>) -> Result<RulesPage, WebError> {
    let frame = Frame::new(&state, "Rules", Section::Rules);
    let rules = state.rules.borrow().clone();
    let alerts = state.reading.read(super::backend::Rows::rule_alerts).await?;
    Ok(page(frame, &rules, &alerts))
}

fn page(frame: Frame, rules: &RulesShown, alerts: &[RuleAlerts]) -> RulesPage {
    let in_force = rules.rules.iter().filter(|rule| !rule.is_disabled).count();
    let off = rules.rules.len() - in_force;
    let off = if off > 0 { format!(", {off} switched off") } else { String::new() };
    RulesPage {
        frame,
        summary: Shown::new(&format!("{} in force{off}", counted(in_force as u64, "rule"))),
        refused: rules.refused.as_deref().map(Shown::lines).unwrap_or_default(),
        rows: rules.rules.iter().map(|rule| row(rule, rules, alerts)).collect(),
    }
}

fn row(rule: &RuleShown, rules: &RulesShown, alerts: &[RuleAlerts]) -> Row {
    let found = alerts.iter().find(|alerts| alerts.rule == rule.name);
    let load = rules.load(&rule.name);
    let number = found.map_or(0, |found| found.alerts);
    Row {
        name: Shown::short(&rule.name, 80),
        address: address(&rule.name),
        title: Shown::short(&rule.title, 160),
        severity: rule.level.map(Severity),
        is_disabled: rule.is_disabled,
        looks_for: looks_for(rule),
        origin: Shown::short(&rule.origin, 200),
        changes: rule.changes.iter().map(|change| Shown::short(change, 200)).collect(),
        doubts: rule.doubts.iter().map(|doubt| Shown::short(doubt, 400)).collect(),
        alerts: Shown::new(&count(number)),
        incidents: (number > 0).then(|| incidents(&rule.name)),
        last: When(found.and_then(|found| found.last_seen)),
        spent: spent(load),
        each: each(load),
        share: share(load, rules),
        groups: Shown::new(&count(load.groups)),
    }
}

/// A rule's page.
pub(crate) fn address(name: &str) -> String {
    format!("/rules/{}", link::segment(name))
}

/// The list of the incidents that a rule is in.
pub(crate) fn incidents(name: &str) -> String {
    format!("/{}", link::query([("rule", name)]))
}

/// The type of the rule with its thresholds and groups.
pub(crate) fn looks_for(rule: &RuleShown) -> Shown {
    let count = rule.count.map(|number| format!(", {} or more", count(number)));
    let within = rule.timespan_micros.map(|micros| format!(" within {}", span(micros)));
    let groups = match rule.group_by.as_slice() {
        [] => "all calls as one group".to_owned(),
        fields => format!("by {}", fields.join(", ")),
    };
    let (count, within) = (count.unwrap_or_default(), within.unwrap_or_default());
    Shown::short(&format!("{}{count}{within}, {groups}", rule.kind), 200)
}

/// Time spent in all; tenths of a millisecond say enough.
pub(crate) fn spent(load: RuleLoad) -> Shown {
    let micros = i64::try_from(load.nanos / 1000).unwrap_or(i64::MAX);
    Shown::new(&duration(micros / 100 * 100))
}

/// Time spent on one call.
pub(crate) fn each(load: RuleLoad) -> Shown {
    let each = load.nanos.checked_div(load.looked_at).unwrap_or(0);
    Shown::new(&format!("{}.{:02} µs", each / 1000, each % 1000 / 10))
}

/// A span as a person would say it who wrote the rule: in the largest unit that leaves a whole number.
fn span(micros: i64) -> String {
    let units = [(Micros::DAY, "d"), (Micros::HOUR, "h"), (Micros::MINUTE, "min")];
    match units.iter().find(|(unit, _)| micros > *unit && micros % unit == 0) {
        Some((unit, word)) => format!("{} {word}", micros / unit),
        None => duration_in_seconds(micros),
    }
}

fn duration_in_seconds(micros: i64) -> String {
    if micros % Micros::SECOND == 0 {
        format!("{} s", micros / Micros::SECOND)
    } else {
        duration(micros)
    }
}

/// Its part of the time that all rules take.
pub(crate) fn share(load: RuleLoad, rules: &RulesShown) -> Shown {
    let percent = (u128::from(load.nanos) * 100).checked_div(u128::from(rules.nanos()));
    Shown::new(&percent.map_or_else(String::new, |percent| format!("{percent} %")))
}
