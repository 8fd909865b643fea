//! `GET /incidents/{alert id}`: one incident, what happened, why the rules fired and what people
//! made of it.

use askama::Template;
use askama_web::WebTemplate;
use axum::extract::{Path, Query, State};

use super::LabelsOf;
use super::backend::Rows;
use super::calls_filter::CallsFilter;
use super::error::WebError;
use super::filter::Filter;
use super::frame::{Frame, Section};
use super::incident::{APART_MICROS_MAX, Incident, group};
use super::list_page::matching;
use super::scene::{Scene, SceneCall};
use super::shown::{Severity, Shown, When, brief_duration, count, counted, duration, state_words};
use super::state::Shared;
use super::story::{self, Sentence, Voice};
use super::timeline::{self, Timeline, class_word, stage_class};
use crate::model::{
    AlertId, AlertState, AlertView, Call, CallId, CloseReason, DecisionView, Label, LabelSource,
    Labels, Micros, Ran, Tri,
};
use crate::store::{AlertFilter, CallFilter, StoreError};

/// Minutes of the session's other calls on offer; the first is no surroundings at all.
const AROUND_MINUTES: [u32; 4] = [0, 1, 5, 15];
/// Alerts of one incident.
const ALERTS_MAX: usize = 500;
/// Sessions of one incident whose other calls are read.
const SESSIONS_MAX: usize = 6;
/// Calls read around, a session.
const AROUND_MAX: usize = 200;
/// Rounds of widening the search for an incident's alerts.
const ROUNDS_MAX: usize = 12;

#[derive(Template, WebTemplate)]
#[template(path = "incident.html")]
pub(crate) struct IncidentPage {
    frame: Frame,
    id: AlertId,
    severity: Severity,
    title: Shown,
    state: &'static str,
    is_open: bool,
    is_closed: bool,
    is_retracted: bool,
    actor: Shown,
    actor_address: Option<String>,
    /// The actor's other calls around the incident.
    actor_calls: Option<String>,
    /// The sessions of its calls, each with a call of it.
    sessions: Vec<(CallId, Shown)>,
    first: When,
    last: When,
    lasted: Option<Shown>,
    story: Vec<Sentence>,
    alerts: Vec<AlertBlock>,
    timeline: Timeline,
    timeline_width: f64,
    left: f64,
    rows: Vec<Row>,
    notes: Vec<Shown>,
    around: Vec<Choice>,
    list_address: String,
    /// The incidents before and after this one in the list it was opened from.
    previous: Option<String>,
    next: Option<String>,
    decide_address: String,
    history: Vec<Entry>,
    /// Ids of all alerts on the page: a decision acts on these alone.
    seen: String,
    reasons: [(&'static str, &'static str); 5],
}

struct AlertBlock {
    id: AlertId,
    severity: Severity,
    title: Shown,
    rule: Shown,
    state: &'static str,
    why: Shown,
    facts: Vec<(&'static str, Shown)>,
    group: Vec<(Shown, Shown)>,
    tags: Vec<Shown>,
    retracted: Option<Shown>,
    first: When,
    last: When,
}

/// One call in the table; the picture has one link for each.
struct Row {
    number: usize,
    id: CallId,
    at: When,
    offset: Shown,
    parts: Vec<RowPart>,
    tool: Shown,
    args: Option<Shown>,
    server: Option<Shown>,
    labels: Vec<&'static str>,
    code: Shown,
    class: &'static str,
    ran: &'static str,
    seen: Vec<RowSeen>,
    is_context: bool,
}

struct RowPart {
    number: usize,
    class: &'static str,
    name: Shown,
    rule: Shown,
}

struct RowSeen {
    witness: &'static str,
    class: &'static str,
    code: Shown,
}

struct Choice {
    address: String,
    words: &'static str,
    is_chosen: bool,
}

struct Entry {
    at: When,
    who: Shown,
    state: &'static str,
    note: Vec<Shown>,
}

/// The minutes asked for, of those on offer; one minute unless they were.
fn minutes_around(pairs: &[(String, String)]) -> u32 {
    let asked = pairs.iter().find(|(key, _)| key == "around");
    let minutes = asked.and_then(|(_, value)| value.parse().ok());
    minutes.filter(|minutes| AROUND_MINUTES.contains(minutes)).unwrap_or(1)
}

/// What was read for the page.
struct Material {
    incident: Incident,
    calls: Vec<Call>,
    is_cut: bool,
    decisions: Vec<DecisionView>,
    previous: Option<AlertId>,
    next: Option<AlertId>,
}

pub(crate) async fn show(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<IncidentPage, WebError> {
    let id: AlertId = id.parse().map_err(|_| WebError::NoSuchIncident)?;
    let frame = Frame::new(&state, "Incident", Section::Incidents);
    let minutes = minutes_around(&pairs);
    let filter = Filter::read(&pairs);
    let (asked, now) = (filter.clone(), (state.clock)());
    let material = state
        .reading
        .read(move |rows| material(rows, id, minutes, &asked, now))
        .await?
        .ok_or(WebError::NoSuchIncident)?;
    Ok(page(frame, material, minutes, &filter, &state.labels))
}

/// The incident that holds the alert: the search widens until it finds nothing more that belongs.
pub(crate) fn find_incident(rows: &Rows, id: AlertId) -> Result<Option<Incident>, StoreError> {
    let Some(alert) = rows.alert(id)? else { return Ok(None) };
    let (id, actor) = (alert.id, alert.actor.clone());
    let mut incident = Incident::of(vec![alert]);
    for _ in 0..ROUNDS_MAX {
        let Some((first, last)) = incident.first_seen().zip(incident.last_seen()) else { break };
        let alerts = rows.alerts(&AlertFilter {
            actor: Some(actor.clone()),
            from: Some(first.minus(APART_MICROS_MAX)),
            to: Some(last.plus(APART_MICROS_MAX)),
            limit: Some(ALERTS_MAX),
            with_evidence: true,
            ..AlertFilter::default()
        })?;
        let Some(wider) = group(alerts).into_iter().find(|incident| incident.holds(id)) else {
            break;
        };
        let grew = wider.alerts().len() > incident.alerts().len();
        incident = wider;
        if !grew {
            break;
        }
    }
    Ok(Some(incident))
}

fn material(
    rows: &Rows,
    id: AlertId,
    minutes: u32,
    filter: &Filter,
    now: Micros,
) -> Result<Option<Material>, StoreError> {
    let Some(incident) = find_incident(rows, id)? else { return Ok(None) };
    let (calls, is_cut) = calls_of(rows, &incident, minutes)?;
    let decisions = decisions_of(rows, &incident)?;
    let (list, _) = matching(rows, filter, now)?;
    let place = list.iter().position(|listed| listed.id() == incident.id());
    let id_at = |place: usize| list.get(place).map(Incident::id);
    let previous = place.and_then(|place| id_at(place.checked_sub(1)?));
    let next = place.and_then(|place| id_at(place + 1));
    Ok(Some(Material { incident, calls, is_cut, decisions, previous, next }))
}

/// The history of all alerts, oldest first. One click decides about every alert of the incident: it
/// is one line.
fn decisions_of(rows: &Rows, incident: &Incident) -> Result<Vec<DecisionView>, StoreError> {
    let mut decisions = Vec::new();
    for alert in incident.alerts() {
        for decision in rows.decisions(alert.id)? {
            let same = |known: &DecisionView| {
                (known.at, &known.who, known.state, &known.note)
                    == (decision.at, &decision.who, decision.state, &decision.note)
            };
            if !decisions.iter().any(same) {
                decisions.push(decision);
            }
        }
    }
    decisions.sort_by_key(|decision| decision.at);
    Ok(decisions)
}

/// The evidence's calls in full and, around them, what else went on in the same sessions.
fn calls_of(
    rows: &Rows,
    incident: &Incident,
    minutes: u32,
) -> Result<(Vec<Call>, bool), StoreError> {
    let evidence = || incident.alerts().iter().flat_map(|alert| &alert.evidence);
    let mut calls = Vec::new();
    let mut is_cut = false;
    if let (1.., Some(first), Some(last)) = (minutes, incident.first_seen(), incident.last_seen()) {
        let margin = i64::from(minutes) * Micros::MINUTE;
        let mut sessions: Vec<&str> = evidence().map(|call| call.session.as_str()).collect();
        sessions.sort_unstable();
        sessions.dedup();
        is_cut = sessions.len() > SESSIONS_MAX;
        for session in sessions.into_iter().take(SESSIONS_MAX) {
            let around = rows.calls(&CallFilter {
                session: Some(session.to_owned()),
                from: Some(first.minus(margin)),
                to: Some(last.plus(margin)),
                limit: AROUND_MAX,
                ..CallFilter::default()
            })?;
            is_cut |= around.len() >= AROUND_MAX;
            calls.extend(around);
        }
    }
    let mut known: std::collections::HashSet<CallId> = calls.iter().map(|call| call.id).collect();
    for wanted in evidence().map(|call| call.call_id) {
        if known.len() < super::scene::CALLS_MAX * 2 && known.insert(wanted) {
            calls.extend(rows.call(wanted)?);
        }
    }
    Ok((calls, is_cut))
}

fn page(
    frame: Frame,
    material: Material,
    minutes: u32,
    filter: &Filter,
    labels: &LabelsOf,
) -> IncidentPage {
    let Material { incident, calls, is_cut, decisions, previous, next } = material;
    let address = |id| filter.address_of_incident(id, None);
    let scene = Scene::new(&incident, calls);
    let timeline = Timeline::new(&incident, &scene);
    let (first, last) = (incident.first_seen(), incident.last_seen());
    let lasted =
        first.zip(last).map(|(first, last)| last.since(first)).filter(|lasted| *lasted > 0);
    let sessions = sessions(&incident);
    let ids: Vec<String> = incident.alerts().iter().map(|alert| alert.id.to_string()).collect();
    let start = scene.calls.iter().find(|call| !call.is_context()).and_then(|call| call.at);
    IncidentPage {
        frame,
        id: incident.id(),
        severity: Severity(incident.level()),
        title: Shown::new(&incident.lead().title),
        state: state_words(incident.state(), incident.close_reason()),
        is_open: incident.state() == AlertState::Open,
        is_closed: incident.state() == AlertState::Closed,
        is_retracted: incident.is_retracted(),
        actor: Shown::short(incident.actor(), 160),
        actor_address: Filter::default().address_of_actor(incident.actor()),
        actor_calls: sessions
            .first()
            .and_then(|_| CallsFilter::address_of_actor(incident.actor(), first.zip(last))),
        sessions,
        first: When(first),
        last: When(last),
        lasted: lasted.map(|lasted| Shown::new(&brief_duration(lasted))),
        story: story::tell(&incident, &scene),
        alerts: incident.alerts().iter().map(block).collect(),
        notes: notes(&incident, &scene, &timeline, is_cut),
        rows: (1..)
            .zip(&scene.calls)
            .map(|(number, call)| row(number, call, &incident, start, labels))
            .collect(),
        timeline,
        timeline_width: timeline::WIDTH,
        left: timeline::LEFT,
        around: choices(&incident, minutes, filter),
        list_address: filter.address(),
        previous: previous.map(address),
        next: next.map(address),
        decide_address: filter.address_of_decision(incident.id()),
        history: decisions.iter().map(entry).collect(),
        seen: ids.join(","),
        reasons: CloseReason::ALL.map(|reason| (reason.as_str(), reason_words(reason))),
    }
}

/// The first sessions of the evidence. What a log did is in none, nor is a call without a time.
fn sessions(incident: &Incident) -> Vec<(CallId, Shown)> {
    let mut known = std::collections::HashSet::new();
    let evidence = incident.alerts().iter().flat_map(|alert| &alert.evidence);
    evidence
        .filter(|call| call.event.is_none() && call.at.is_some())
        .filter(|call| known.insert(call.session.as_str()))
        .take(SESSIONS_MAX)
        .map(|call| (call.call_id, Shown::short(&call.session, 80)))
        .collect()
}

fn notes(incident: &Incident, scene: &Scene, timeline: &Timeline, is_cut: bool) -> Vec<Shown> {
    let elided: u64 = incident.alerts().iter().map(|alert| alert.elided).sum();
    let mut notes = Vec::new();
    if elided > 0 {
        let calls = counted(elided, "further call");
        let were = if elided == 1 { "was" } else { "were" };
        notes.push(format!("{calls} of the evidence {were} counted but not kept one by one."));
    }
    if scene.left_out > 0 {
        let calls = counted(scene.left_out as u64, "call");
        let are = if scene.left_out == 1 { "is" } else { "are" };
        notes.push(format!("{calls} in the middle {are} left out of picture and table."));
    }
    if is_cut {
        notes.push("Only part of the surrounding calls is shown.".to_owned());
    }
    if timeline.strips_left_out > 0 {
        let alerts = counted(timeline.strips_left_out as u64, "alert");
        let without = if timeline.strips_left_out == 1 {
            "has no strip of its"
        } else {
            "have no strip of their"
        };
        notes.push(format!("{alerts} {without} own in the picture."));
    }
    notes.iter().map(|note| Shown::new(note)).collect()
}

fn choices(incident: &Incident, minutes: u32, filter: &Filter) -> Vec<Choice> {
    AROUND_MINUTES
        .into_iter()
        .zip(["none", "±1 min", "±5 min", "±15 min"])
        .map(|(choice, words)| Choice {
            address: format!(
                "{}#timeline",
                filter.address_of_incident(incident.id(), Some(choice))
            ),
            words,
            is_chosen: choice == minutes,
        })
        .collect()
}

fn block(alert: &AlertView) -> AlertBlock {
    let mut facts = vec![
        ("Needed to fire", Shown::new(&count(alert.why.threshold))),
        ("Found when it fired", Shown::new(&count(alert.why.value))),
    ];
    if let Some(seconds) = alert.why.timespan.filter(|seconds| seconds.is_finite()) {
        #[expect(clippy::cast_possible_truncation, reason = "a span of time for people")]
        let micros = (seconds * 1e6) as i64;
        facts.push(("Within", Shown::new(&duration(micros))));
    }
    facts.push(("Times fired", Shown::new(&count(alert.count))));
    AlertBlock {
        id: alert.id,
        severity: Severity(alert.level),
        title: Shown::new(&alert.title),
        rule: Shown::new(&alert.rule),
        state: state_words(alert.state, alert.close_reason),
        why: Shown::new(&alert.why.text),
        facts,
        group: alert
            .group
            .iter()
            .map(|(field, value)| (Shown::new(field), Shown::short(value, 200)))
            .collect(),
        tags: alert.tags.iter().map(|tag| Shown::short(tag, 60)).collect(),
        retracted: alert.retracted.as_deref().map(Shown::new),
        first: When(alert.first_seen),
        last: When(alert.last_seen),
    }
}

fn row(
    number: usize,
    call: &SceneCall,
    incident: &Incident,
    start: Option<Micros>,
    labels: &LabelsOf,
) -> Row {
    let offset = start.zip(call.at).map(|(start, at)| {
        let offset = at.since(start);
        format!("{}{}", if offset < 0 { "" } else { "+" }, brief_duration(offset))
    });
    let rule = |alert: usize| incident.alerts().get(alert).map_or("", |alert| &alert.rule);
    Row {
        number,
        id: call.id,
        at: When(call.at),
        offset: Shown::new(&offset.unwrap_or_default()),
        parts: call
            .parts
            .iter()
            .map(|part| RowPart {
                number: part.stage + 1,
                class: stage_class(part.stage),
                name: Shown::short(&part.name, 60),
                rule: Shown::short(rule(part.alert), 60),
            })
            .collect(),
        tool: Shown::short(&call.tool, 120),
        args: call.event.as_deref().map(Shown::new).or_else(|| call.args.clone()),
        server: call.server.as_deref().map(|server| Shown::short(server, 80)),
        labels: label_words(labels(call.server.as_deref(), &call.tool)),
        code: Shown::short(&call.code, 60),
        class: class_word(call.class),
        ran: if call.event.is_some() { "" } else { ran_words(call.ran) },
        seen: call
            .seen
            .iter()
            .map(|seen| RowSeen {
                witness: seen.witness.as_str(),
                class: class_word(seen.class),
                code: Shown::short(&seen.code, 60),
            })
            .collect(),
        is_context: call.is_context(),
    }
}

/// The labels that a tool has for sure.
pub(crate) fn label_words(labels: Labels) -> Vec<&'static str> {
    let has = |label: &Label| labels.get(*label) == Tri::Yes;
    Label::ALL.into_iter().filter(has).map(Label::as_str).collect()
}

/// Where labels come from, in words.
pub(crate) const fn label_source_words(source: LabelSource) -> &'static str {
    match source {
        LabelSource::Operator => "set by the operator",
        LabelSource::Shipped => "from the catalogue that comes with Calltrail",
        LabelSource::Guessed => "guessed from the tool's name",
        LabelSource::Unknown => "nobody has said what this tool can do",
    }
}

pub(crate) const fn ran_words(ran: Ran) -> &'static str {
    match ran {
        Ran::Yes => "ran",
        Ran::No => "did not run",
        Ran::Maybe => "may have run",
    }
}

const fn reason_words(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::TruePositive => "True positive: it was an attack or a breach",
        CloseReason::FalsePositive => "False positive: the rule was wrong",
        CloseReason::Benign => "Benign: it happened and was allowed",
        CloseReason::Duplicate => "Duplicate of another incident",
        CloseReason::Other => "Other: see the note",
    }
}

fn entry(decision: &DecisionView) -> Entry {
    Entry {
        at: When(Some(decision.at)),
        who: Shown::short(&decision.who, 80),
        state: state_words(decision.state, decision.close_reason),
        note: Shown::lines(&decision.note),
    }
}
