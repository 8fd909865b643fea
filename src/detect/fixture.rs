//! Calls for tests.

use std::sync::Arc;

use super::engine::evaluate;
use super::field::{GroupField, LabelsOf};
use super::logs::ReadLogs;
use super::rule::{Rule, RuleSet};
use super::trial::Played;
use crate::model::{
    ArgValue, Args, Call, CallId, EventKind, IdHasher, Micros, OutcomeClass, Ran, RecordId, Text,
};

/// The calls of one of the rule's cases, and their labels.
pub(crate) fn calls(
    rule: &Rule,
    case: usize,
    read: &ReadLogs<'_>,
) -> (Vec<Arc<Call>>, Arc<LabelsOf>) {
    let played = Played::of(rule, &rule.cases[case], read).unwrap();
    (played.calls(), played.labels())
}

/// That what is told of each of these calls is what the engine makes of them.
pub(crate) fn assert_explained(
    rules: &Arc<RuleSet>,
    rule: &Rule,
    calls: &[Arc<Call>],
    labels: &Arc<LabelsOf>,
) {
    let alerts = evaluate(Arc::clone(rules), Arc::clone(labels), calls.to_vec());
    for call in calls {
        let in_group = |other: &&Arc<Call>| {
            rules.neighbours(rule, &**labels, call).is_some_and(|asked| {
                asked.groups.iter().any(|group| {
                    group.iter().all(|(field, value)| {
                        let field = GroupField::parse(field).unwrap();
                        field.value(other) == Some(value)
                    })
                }) && asked.from.is_none_or(|from| other.at >= Some(from))
                    && other.at <= Some(asked.to)
            })
        };
        let around: Vec<Arc<Call>> = calls.iter().filter(in_group).cloned().collect();
        let told = rules.explain(rule, &**labels, call, &around);
        let is_evidence = alerts.iter().any(|alert| {
            alert.rule == rule.name && alert.evidence.iter().any(|found| found.call.id == call.id)
        });
        // What is elided from an alert is part of its match all the same.
        let elided = alerts.iter().any(|alert| alert.rule == rule.name && alert.elided > 0);
        assert!(told.is_matched == is_evidence || elided, "{}: {told:#?}", rule.name);
    }
}

/// What varies between calls.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) at: Option<i64>,
    pub(super) tool: &'static str,
    pub(super) class: OutcomeClass,
    pub(super) principal: Option<&'static str>,
    pub(super) client: Option<&'static str>,
    pub(super) tenant: Option<&'static str>,
    pub(super) session: &'static str,
    pub(super) stream: &'static str,
    pub(super) future: bool,
    /// The values of the argument `path`: a log can show one many times.
    pub(super) paths: &'static [&'static str],
    /// Part of the content that no rule looks at.
    pub(super) duration_ms: u8,
}

impl Shape {
    /// A successful call of `ann`, that many microseconds after the start.
    pub(super) const fn at(micros: i64, tool: &'static str) -> Self {
        Self {
            at: Some(micros),
            tool,
            class: OutcomeClass::Ok,
            principal: Some("ann"),
            client: None,
            tenant: None,
            session: "s1",
            stream: "log",
            future: false,
            paths: &[],
            duration_ms: 0,
        }
    }
}

/// The call of that shape at that place in its log, with an id made of `name`.
pub(super) fn call(shape: &Shape, number: u64, name: u64) -> Arc<Call> {
    let text = |text: Option<&str>| text.map(Text::from);
    let mut hasher = IdHasher::new("property");
    hasher.number(name);
    Arc::new(Call {
        kind: EventKind::Call,
        id: CallId::from_hasher(&hasher),
        at: shape.at.map(Micros),
        stream: shape.stream.into(),
        position: RecordId { generation: 1, offset: number, index: 0 },
        ended: None,
        duration_ms: Some(shape.duration_ms.into()),
        tool: shape.tool.into(),
        server: None,
        principal: text(shape.principal),
        client: text(shape.client),
        actor: shape.principal.or(shape.client).unwrap_or(shape.stream).into(),
        tenant: text(shape.tenant),
        session: shape.session.into(),
        class: shape.class,
        code: shape.class.as_str().into(),
        decision: None,
        ran: Ran::Yes,
        args: Args { values: shape.paths.iter().map(path).collect(), ..Args::default() },
        flags: if shape.future { vec!["future".into()] } else { Vec::new() },
        also: Vec::new(),
        request_id: None,
        group_id: None,
        trace_id: None,
        ask_to_answer_ms: None,
        sightings: Vec::new(),
        discrepancies: Vec::new(),
    })
}

fn path(value: &&str) -> ArgValue {
    let text = format!("\"{value}\"").into();
    ArgValue { name: "path".into(), text, hash: 0, chars: None, summarised: false }
}
