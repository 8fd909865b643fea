//! `GET /calls/{id}`: one call, its life, its witnesses side by side, down to the bytes of the logs.

use askama::Template;
use askama_web::WebTemplate;
use axum::extract::{Path, State};

use super::backend::Rows;
use super::calls_filter::CallsFilter;
use super::error::WebError;
use super::filter::Filter;
use super::frame::{Frame, Section};
use super::incident_page::{label_source_words, label_words, ran_words};
use super::json_text;
use super::life::LifeBlock;
use super::shown::{Severity, Shown, WhenExact, bytes, count, duration};
use super::state::Shared;
use super::story::Voice;
use super::timeline::class_word;
use super::witnesses::{WitnessTable, class_words};
use crate::model::{
    AlertId, AlertView, ArgValue, ArgView, Call, CallId, CandidateView, ClockView, EventKind,
    Labels, RecordView, TimeQuality, event_words,
};
use crate::store::{AlertFilter, StoreError};

/// Alerts looked through for the call.
const ALERTS_MAX: usize = 50;

#[derive(Template, WebTemplate)]
#[template(path = "call.html")]
pub(crate) struct CallPage {
    frame: Frame,
    id: CallId,
    tool: Shown,
    class: &'static str,
    code: Shown,
    ran: &'static str,
    facts: Vec<(&'static str, Shown)>,
    at: WhenExact,
    ended: WhenExact,
    actor: Shown,
    actor_address: Option<String>,
    /// The actor's other calls around this one.
    actor_calls: Option<String>,
    /// Only a call with a time is in a session.
    is_in_session: bool,
    labels: Vec<&'static str>,
    label_source: &'static str,
    /// For an ingest event: what the log did.
    event: Option<Shown>,
    life: LifeBlock,
    witnesses: WitnessTable,
    args: Vec<ArgRow>,
    args_view: &'static str,
    records: Vec<RecordBlock>,
    alerts: Vec<AlertLink>,
}

/// An alert that rests on the call.
struct AlertLink {
    id: AlertId,
    severity: Severity,
    title: Shown,
}

struct ArgRow {
    name: Shown,
    /// None where the logs show the name alone.
    value: Option<Vec<Shown>>,
    chars: Option<Shown>,
}

struct RecordBlock {
    witness: &'static str,
    dialect: Shown,
    stream: Shown,
    path: Shown,
    generation: u64,
    offset: Shown,
    length: Shown,
    at: WhenExact,
    time_note: &'static str,
    class: &'static str,
    code: Shown,
    detail: Option<Shown>,
    flags: Vec<Shown>,
    line: Option<Vec<Shown>>,
}

pub(crate) async fn show(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Result<CallPage, WebError> {
    let id: CallId = id.parse().map_err(|_| WebError::NoSuchCall)?;
    let frame = Frame::new(&state, "Call", Section::Other);
    let material =
        state.reading.read(move |rows| material(rows, id)).await?.ok_or(WebError::NoSuchCall)?;
    let labels = (state.labels)(material.call.server.as_deref(), &material.call.tool);
    Ok(page(frame, &material, labels))
}

/// What was read for the page.
struct Material {
    call: Call,
    records: Vec<RecordView>,
    /// What else fits where a join is ambiguous.
    candidates: Vec<CandidateView>,
    /// Between the call's logs, on its day.
    clocks: Vec<ClockView>,
    /// The alerts that rest on the call.
    alerts: Vec<AlertView>,
}

fn material(rows: &Rows, id: CallId) -> Result<Option<Material>, StoreError> {
    let Some(call) = rows.call(id)? else { return Ok(None) };
    let mut records = rows.records_of(&call)?;
    let mut alerts = rows.alerts(&AlertFilter {
        actor: Some(call.actor.to_string()),
        from: call.at,
        to: call.at,
        limit: Some(ALERTS_MAX),
        with_evidence: true,
        ..AlertFilter::default()
    })?;
    let rests_on = |alert: &AlertView| {
        alert.evidence.iter().any(|evidence| [call.id, id].contains(&evidence.call_id))
    };
    alerts.retain(rests_on);
    // Alerts keep the lines they rest on, whatever became of the files.
    let kept = || alerts.iter().flat_map(|alert| &alert.evidence).flat_map(|call| &call.lines);
    for record in records.iter_mut().filter(|record| record.line.is_none()) {
        record.line =
            kept().find(|line| line.record == record.id).and_then(|line| line.text.clone());
    }
    let (candidates, clocks) = (rows.candidates_of(&call)?, rows.clocks_of(&call)?);
    Ok(Some(Material { call, records, candidates, clocks, alerts }))
}

fn page(frame: Frame, material: &Material, labels: Labels) -> CallPage {
    let Material { call, records, candidates, clocks, alerts } = material;
    CallPage {
        frame,
        id: call.id,
        tool: Shown::short(&call.tool, 200),
        class: class_word(call.class),
        code: Shown::short(&call.code, 80),
        ran: ran_words(call.ran),
        facts: facts(call),
        at: WhenExact(call.at),
        ended: WhenExact(call.ended),
        actor: Shown::short(&call.actor, 160),
        actor_address: Filter::default().address_of_actor(&call.actor),
        actor_calls: CallsFilter::address_of_actor(&call.actor, call.at.zip(call.at)),
        is_in_session: call.at.is_some() && call.kind == EventKind::Call,
        labels: label_words(labels),
        label_source: label_source_words(labels.source),
        event: event_words(call).map(|words| Shown::new(&format!("The log {words}."))),
        life: LifeBlock::new(call, clocks),
        witnesses: WitnessTable::new(call, records, candidates),
        args: args(call),
        args_view: match call.args.view {
            ArgView::Nothing => "No log says anything about the arguments.",
            ArgView::Partial if call.args.values.is_empty() => {
                "The logs name the arguments but show no values."
            }
            ArgView::Names => "The logs name the arguments but show no values.",
            ArgView::Partial => "The logs show some of the values.",
            ArgView::Full => "All arguments are shown; secrets are masked.",
        },
        records: records.iter().map(record).collect(),
        alerts: alerts
            .iter()
            .map(|alert| AlertLink {
                id: alert.id,
                severity: Severity(alert.level),
                title: Shown::short(&alert.title, 160),
            })
            .collect(),
    }
}

fn facts(call: &Call) -> Vec<(&'static str, Shown)> {
    let millis = |millis: Option<f64>| {
        let millis = millis.filter(|millis| millis.is_finite())?;
        #[expect(clippy::cast_possible_truncation, reason = "a span of time for people")]
        let micros = (millis * 1000.0) as i64;
        Some(duration(micros))
    };
    let text = |text: &Option<crate::model::Text>| text.as_deref().map(str::to_owned);
    let list = |all: &[crate::model::Text]| {
        let all: Vec<&str> = all.iter().map(|item| &**item).collect();
        (!all.is_empty()).then(|| all.join(", "))
    };
    let is_event = call.kind == EventKind::Ingest;
    let also: Vec<String> =
        call.also.iter().map(|(field, value)| format!("{field} = {value}")).collect();
    [
        ("Server", text(&call.server)),
        ("Principal", text(&call.principal)),
        ("Client", text(&call.client)),
        ("Tenant", text(&call.tenant)),
        ("Session", (!is_event).then(|| call.session.to_string())),
        // Calltrail's own files have no number, and no place in them is meant.
        (
            "Byte offset",
            (is_event && call.position.generation > 0).then(|| count(call.position.offset)),
        ),
        ("Duration", millis(call.duration_ms)),
        ("Question to answer", millis(call.ask_to_answer_ms)),
        ("Decision", call.decision.map(|decision| class_words(decision).to_owned())),
        ("Request id", text(&call.request_id)),
        ("Group id", text(&call.group_id)),
        ("Trace id", text(&call.trace_id)),
        ("Flags", list(&call.flags)),
        ("Also claimed", (!also.is_empty()).then(|| also.join("; "))),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, Shown::new(&value?))))
    .collect()
}

fn args(call: &Call) -> Vec<ArgRow> {
    let value = |arg: &ArgValue| ArgRow {
        name: Shown::short(&arg.name, 120),
        value: Some(json_text::lines(&arg.text)),
        chars: arg.chars.map(|chars| Shown::new(&count(chars))),
    };
    let name = |name: &crate::model::Text| ArgRow {
        name: Shown::short(name, 120),
        value: None,
        chars: None,
    };
    call.args.values.iter().map(value).chain(call.args.dropped.iter().map(name)).collect()
}

fn record(record: &RecordView) -> RecordBlock {
    RecordBlock {
        witness: record.witness.as_str(),
        dialect: Shown::short(&record.dialect, 40),
        stream: Shown::short(&record.stream, 200),
        path: Shown::short(&record.path, 400),
        generation: record.id.generation,
        offset: Shown::new(&count(record.id.offset)),
        length: Shown::new(&bytes(record.length)),
        at: WhenExact(record.at),
        time_note: match record.time_quality {
            TimeQuality::Own => "",
            TimeQuality::Missing => "the record has no time of its own; this is its neighbour's",
            TimeQuality::Invalid => "the record's time cannot be; this is its neighbour's",
            TimeQuality::Future => "the record's time was ahead of the clock when it was read",
        },
        class: class_word(record.class),
        code: Shown::short(&record.code, 80),
        detail: record.detail.as_deref().map(Shown::new),
        flags: record.flags.iter().map(|flag| Shown::short(flag, 80)).collect(),
        line: record.line.as_deref().map(json_text::lines),
    }
}
