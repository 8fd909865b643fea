//! `GET /sessions/{id}`: what one session was, and its calls in order.
//!
//! The id alone leads to a session by a look at every call there is. Our own links name one of its
//! calls as well, which is quick. Both lead there even when a late line gave the session another id.

use std::collections::HashMap;

use askama::Template;
use askama_web::WebTemplate;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};

use super::backend::Rows;
use super::call_table::{CallRow, CallTable, PAGE_ROWS};
use super::calls_filter::CallsFilter;
use super::error::WebError;
use super::filter::read_cursor;
use super::frame::{Frame, Section};
use super::incident::{Incident, group};
use super::link;
use super::shown::{Severity, Shown, When, brief_duration, count, counted, state_words};
use super::state::Shared;
use crate::model::{
    AlertId, AlertView, CallId, CallView, EventKind, Level, Micros, Names, SessionId, SessionView,
};
use crate::store::{AlertFilter, CallQuery, StoreError};

/// Alerts of its time looked through for those that rest on its calls.
const ALERTS_MAX: usize = 200;

#[derive(Template, WebTemplate)]
#[template(path = "session.html")]
pub(crate) struct SessionPage {
    frame: Frame,
    id: SessionId,
    key: Shown,
    facts: Vec<(&'static str, Vec<Shown>)>,
    counts: Vec<(&'static str, Shown, bool)>,
    first: When,
    last: When,
    lasted: Shown,
    actor_calls: Option<String>,
    notes: Vec<Shown>,
    incidents: Vec<IncidentLink>,
    table: CallTable,
    /// The page after this one.
    next: Option<String>,
    /// The first page, where this is a later one.
    start: Option<String>,
}

struct IncidentLink {
    id: AlertId,
    severity: Severity,
    title: Shown,
    state: &'static str,
}

/// What the address asks for beside the session.
#[derive(Clone, Copy, Default)]
struct Asked {
    /// A call of the session.
    call: Option<CallId>,
    /// Where the page before ended.
    after: Option<(Micros, CallId)>,
}

impl Asked {
    fn read(pairs: &[(String, String)]) -> Self {
        let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        Self {
            call: value("call").and_then(|call| call.parse().ok()),
            after: value("after").and_then(|after| read_cursor(after)),
        }
    }

    fn address(self, id: SessionId) -> String {
        let pairs = [
            ("call", self.call.map(|call| call.to_string())),
            ("after", self.after.map(|(at, call)| format!("{}.{call}", at.0))),
        ];
        let query = pairs.iter().filter_map(|(key, value)| Some((*key, value.as_deref()?)));
        format!("/sessions/{id}{}", link::query(query))
    }
}

/// What was read for the page.
struct Material {
    session: SessionView,
    alerts: Vec<AlertView>,
    is_cut: bool,
    calls: Vec<CallView>,
    /// Until when calls before the first of these went on.
    busy_until: Option<Micros>,
}

/// Leads from a call to its session.
pub(crate) async fn find(
    State(state): State<Shared>,
    Path(call): Path<String>,
) -> Result<Redirect, WebError> {
    let call: CallId = call.parse().map_err(|_| WebError::NoSuchCall)?;
    let session = state.reading.read(move |rows| session_of(rows, call)).await?;
    let session = session.ok_or(WebError::NoSuchSession)?;
    let asked = Asked { call: Some(call), after: None };
    Ok(Redirect::to(&asked.address(session.id)))
}

pub(crate) async fn show(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, WebError> {
    let id: SessionId = id.parse().map_err(|_| WebError::NoSuchSession)?;
    let frame = Frame::new(&state, "Session", Section::Calls);
    let asked = Asked::read(&pairs);
    let material = state.reading.read(move |rows| material(rows, id, asked)).await?;
    let material = material.ok_or(WebError::NoSuchSession)?;
    if material.session.id != id {
        return Ok(Redirect::to(&asked.address(material.session.id)).into_response());
    }
    Ok(page(frame, &material, asked).into_response())
}

fn session_of(rows: &Rows, call: CallId) -> Result<Option<SessionView>, StoreError> {
    let Some(call) = rows.call(call)?.filter(|call| call.kind == EventKind::Call) else {
        return Ok(None);
    };
    let Some(at) = call.at else { return Ok(None) };
    rows.session_at(&call.session, at)
}

fn material(rows: &Rows, id: SessionId, asked: Asked) -> Result<Option<Material>, StoreError> {
    let by_call = match asked.call {
        Some(call) => session_of(rows, call)?,
        None => None,
    };
    let session = match by_call {
        Some(session) => Some(session),
        None => rows.session(id)?,
    };
    let Some(session) = session else { return Ok(None) };
    let calls = rows.call_list(&CallQuery {
        session: Some(session.key.clone()),
        from: Some(session.first_at),
        to: Some(session.last_at),
        after: asked.after,
        // One more than fits tells whether there is a next page.
        limit: PAGE_ROWS + 1,
        ..CallQuery::default()
    })?;
    let busy_until = match asked.after {
        Some((at, _)) => rows.busy_until(&session.key, session.first_at, at)?,
        None => None,
    };
    let mut alerts = rows.alerts(&AlertFilter {
        actor: session.actors.first.first().filter(|_| session.actors.total == 1).cloned(),
        from: Some(session.first_at),
        to: Some(session.last_at),
        limit: Some(ALERTS_MAX),
        with_evidence: true,
        ..AlertFilter::default()
    })?;
    let is_cut = alerts.len() >= ALERTS_MAX;
    let is_within = |at: Micros| (session.first_at..=session.last_at).contains(&at);
    alerts.retain(|alert| {
        alert
            .evidence
            .iter()
            .any(|call| call.session == session.key && call.at.is_some_and(is_within))
    });
    Ok(Some(Material { session, alerts, is_cut, calls, busy_until }))
}

fn page(frame: Frame, material: &Material, asked: Asked) -> SessionPage {
    let Material { session, alerts, is_cut, calls, busy_until } = material;
    let shown = calls.get(..PAGE_ROWS).unwrap_or(calls);
    let call = asked.call.or_else(|| shown.first().map(|call| call.id));
    let next = shown
        .last()
        .filter(|_| calls.len() > shown.len())
        .map(|last| Asked { call, after: Some((last.at, last.id)) }.address(session.id));
    let only_actor = session.actors.first.first().filter(|_| session.actors.total == 1);
    SessionPage {
        frame,
        id: session.id,
        key: Shown::short(&session.key, 200),
        facts: facts(session),
        counts: vec![
            ("Calls", Shown::new(&count(session.calls)), false),
            ("Ran", Shown::new(&count(session.ran)), false),
            ("Denied", Shown::new(&count(session.denied)), session.denied > 0),
            ("Failed", Shown::new(&count(session.failed)), session.failed > 0),
        ],
        first: When(Some(session.first_at)),
        last: When(Some(session.last_at)),
        lasted: Shown::new(&brief_duration(session.last_at.since(session.first_at))),
        actor_calls: only_actor.and_then(|actor| {
            CallsFilter::address_of_actor(actor, Some((session.first_at, session.last_at)))
        }),
        notes: notes(session, *is_cut),
        incidents: group(alerts.clone()).iter().map(incident).collect(),
        table: CallTable {
            rows: rows(shown, *busy_until, alerts, asked.call),
            has_actors: session.actors.total > 1,
            has_gaps: true,
        },
        next,
        start: asked.after.map(|_| Asked { call, after: None }.address(session.id)),
    }
}

fn facts(session: &SessionView) -> Vec<(&'static str, Vec<Shown>)> {
    let names = |names: &Names| {
        let mut shown: Vec<Shown> =
            names.first.iter().map(|name| Shown::short(name, 120)).collect();
        let more = names.total.saturating_sub(shown.len() as u64);
        if more > 0 {
            shown.push(Shown::new(&format!("and {} more", count(more))));
        }
        shown
    };
    let plural = |names: &Names, one, several| if names.total == 1 { one } else { several };
    [
        (plural(&session.actors, "Actor", "Actors"), &session.actors),
        (plural(&session.clients, "Client", "Clients"), &session.clients),
        (plural(&session.tenants, "Tenant", "Tenants"), &session.tenants),
        (plural(&session.servers, "Server", "Servers"), &session.servers),
    ]
    .into_iter()
    .filter(|(_, all)| all.total > 0)
    .map(|(word, all)| (word, names(all)))
    .collect()
}

fn notes(session: &SessionView, is_cut: bool) -> Vec<Shown> {
    let mut notes = Vec::new();
    if session.actors.total > 1 {
        let actors = counted(session.actors.total, "actor");
        notes.push(format!(
            "Calls of {actors} claim this session: clients choose their session ids themselves."
        ));
    }
    if session.tenants.total > 1 {
        let tenants = counted(session.tenants.total, "tenant");
        notes.push(format!("It touches {tenants}."));
    }
    if is_cut {
        let looked = count(ALERTS_MAX as u64);
        notes.push(format!("Only the newest {looked} alerts of this time were looked through."));
    }
    notes.iter().map(|note| Shown::new(note)).collect()
}

fn incident(incident: &Incident) -> IncidentLink {
    IncidentLink {
        id: incident.id(),
        severity: Severity(incident.level()),
        title: Shown::short(&incident.lead().title, 160),
        state: state_words(incident.state(), incident.close_reason()),
    }
}

fn rows(
    calls: &[CallView],
    mut busy_until: Option<Micros>,
    alerts: &[AlertView],
    origin: Option<CallId>,
) -> Vec<CallRow> {
    let mut worst: HashMap<CallId, (Level, AlertId)> = HashMap::new();
    for alert in alerts {
        for call in &alert.evidence {
            let known = worst.entry(call.call_id).or_insert((alert.level, alert.id));
            *known = (*known).max((alert.level, alert.id));
        }
    }
    let row = |call: &CallView| {
        let mut row = CallRow::new(call);
        row.set_gap(busy_until, call);
        row.alert = worst.get(&call.id).map(|(level, alert)| (Severity(*level), *alert));
        row.is_origin = origin == Some(call.id);
        busy_until = busy_until.max(Some(call.at)).max(call.ended);
        row
    };
    calls.iter().map(row).collect()
}
