//! `GET /rules/{name}`: one rule, its text, its tests, what it found and what it costs.

use askama::Template;
use askama_web::WebTemplate;
use axum::extract::{Path, State};

use super::error::WebError;
use super::frame::{Frame, Section};
use super::rules::{CaseShown, RuleShown, RulesShown};
use super::rules_page::{each, incidents, looks_for, share, spent};
use super::shown::{Severity, Shown, When, count};
use super::state::Shared;
use crate::mask::mask_text;
use crate::model::RuleAlerts;

/// Cases that are listed; the text has them all.
const CASES_MAX: usize = 200;
/// Lines of a rule's text that are shown.
const LINES_MAX: usize = 4_000;

#[derive(Template, WebTemplate)]
#[template(path = "rule.html")]
pub(crate) struct RulePage {
    frame: Frame,
    name: Shown,
    title: Shown,
    severity: Option<Severity>,
    is_disabled: bool,
    why: Shown,
    description: Shown,
    looks_for: Shown,
    status: Option<Shown>,
    origin: Shown,
    falsepositives: Vec<Shown>,
    tags: Vec<Shown>,
    references: Vec<Shown>,
    changes: Vec<Shown>,
    doubts: Vec<Shown>,
    incidents: Option<String>,
    facts: Vec<(&'static str, Shown)>,
    last: When,
    cases: Vec<CaseRow>,
    cases_left: usize,
    lines: Vec<Shown>,
    lines_left: usize,
}

struct CaseRow {
    name: Shown,
    fires: bool,
    /// The formats of its raw lines; none for a case that describes calls.
    dialects: Option<Shown>,
}

impl CaseRow {
    fn of(case: &CaseShown) -> Self {
        let CaseShown { name, fires, dialects } = case;
        let dialects = (!dialects.is_empty()).then(|| Shown::short(dialects, 200));
        Self { name: Shown::short(name, 200), fires: *fires, dialects }
    }
}

pub(crate) async fn show(
    State(state): State<Shared>,
    Path(name): Path<String>,
) -> Result<RulePage, WebError> {
    let frame = Frame::new(&state, &name, Section::Rules);
    let rules = state.rules.borrow().clone();
    let rule = rules.rule(&name).ok_or(WebError::NoSuchRule)?;
    let alerts = state.reading.read(super::backend::Rows::rule_alerts).await?;
    Ok(page(frame, rule, &rules, alerts.iter().find(|alerts| alerts.rule == name)))
}

fn page(
    frame: Frame,
    rule: &RuleShown,
    rules: &RulesShown,
    alerts: Option<&RuleAlerts>,
) -> RulePage {
    let load = rules.load(&rule.name);
    let all = |texts: &[String]| texts.iter().map(|text| Shown::short(text, 400)).collect();
    let number = |number| Shown::new(&count(number));
    let fired = alerts.map_or(0, |alerts| alerts.alerts);
    // A file may hold lines of logs as its tests.
    let mut lines = Shown::lines(&mask_text(&rule.text));
    let lines_left = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    RulePage {
        frame,
        name: Shown::short(&rule.name, 120),
        title: Shown::short(&rule.title, 240),
        severity: rule.level.map(Severity),
        is_disabled: rule.is_disabled,
        why: Shown::new(&rule.why),
        description: Shown::new(rule.description.trim()),
        looks_for: looks_for(rule),
        status: rule.status.as_deref().map(|status| Shown::short(status, 40)),
        origin: Shown::short(&rule.origin, 400),
        falsepositives: all(&rule.falsepositives),
        tags: all(&rule.tags),
        references: all(&rule.references),
        changes: all(&rule.changes),
        doubts: all(&rule.doubts),
        incidents: (fired > 0).then(|| incidents(&rule.name)),
        facts: vec![
            ("Alerts", number(fired)),
            ("Retracted", number(alerts.map_or(0, |alerts| alerts.retracted))),
            ("Calls looked at", number(load.looked_at)),
            ("Calls that fit", number(load.fitting)),
            ("Groups held", number(load.groups)),
            ("Held of them", number(load.held)),
            ("Groups let go for room", number(load.let_go)),
            ("Time spent", spent(load)),
            ("For each call", each(load)),
            ("Of all rules' time", share(load, rules)),
        ],
        last: When(alerts.and_then(|alerts| alerts.last_seen)),
        cases: rule.cases.iter().take(CASES_MAX).map(CaseRow::of).collect(),
        cases_left: rule.cases.len().saturating_sub(CASES_MAX),
        lines,
        lines_left,
    }
}
