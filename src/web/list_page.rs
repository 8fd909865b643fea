//! `GET /`: the incidents, the one last seen first.

use std::collections::{BTreeSet, HashMap, HashSet};

use askama::Template;
use askama_web::WebTemplate;
use axum::extract::{Query, State};

use super::backend::Rows;
use super::error::WebError;
use super::filter::{Chip, Filter, RANGES};
use super::frame::{Frame, Section};
use super::histogram::{self, Histogram};
use super::incident::{Incident, group, sort_key};
use super::shown::{Severity, Shown, When, brief_duration, count, counted, state_words};
use super::state::Shared;
use crate::model::{AlertId, AlertState, AlertView, Level, Micros, Totals};
use crate::store::{AlertFilter, StoreError};

/// Incidents on one page.
const PAGE_ROWS: usize = 50;
/// Alerts that one list is made from; older ones need a time range.
const ALERTS_MAX: usize = 2000;
/// Alerts read at once to name the tools of one page.
const OPENED_MAX: usize = 300;
/// Names shown in one cell.
const NAMES_MAX: usize = 4;

#[derive(Template, WebTemplate)]
#[template(path = "list.html")]
pub(crate) struct ListPage {
    frame: Frame,
    rows: Vec<Row>,
    summary: Shown,
    notes: Vec<Shown>,
    form: Form,
    chips: Vec<Chip>,
    histogram: Option<Histogram>,
    histogram_width: f64,
    histogram_height: f64,
    /// The page after this one.
    next: Option<String>,
    /// The first page, where this is a later one.
    newest: Option<String>,
    /// True when the database holds no alert at all.
    is_untouched: bool,
    calls: Shown,
}

struct Row {
    address: String,
    severity: Severity,
    title: Shown,
    state: &'static str,
    is_open: bool,
    is_retracted: bool,
    actor: Shown,
    actor_address: Option<String>,
    first: When,
    last: When,
    lasted: Option<Shown>,
    alerts: Shown,
    calls: Shown,
    tools: Names,
}

/// The first few tools and how many more there are.
struct Names {
    shown: Vec<Name>,
    more: usize,
    /// The server that all of them are on, where it is one.
    server: Option<Shown>,
}

/// A tool and, where the tools of the incident are on several servers, its own.
struct Name {
    tool: Shown,
    server: Option<Shown>,
}

/// The values the filter form starts with.
struct Form {
    levels: Vec<(Severity, bool)>,
    states: Vec<(&'static str, bool)>,
    ranges: Vec<(&'static str, &'static str, bool)>,
    rules: Vec<(Shown, bool)>,
    actor: Shown,
    from: Shown,
    to: Shown,
    text: Shown,
}

impl Form {
    /// True when a field of the folded part is in use.
    fn is_detailed(&self) -> bool {
        self.rules.iter().any(|(_, chosen)| *chosen)
            || [&self.actor, &self.from, &self.to].iter().any(|text| !text.as_str().is_empty())
    }
}

/// What the store gave.
struct Found {
    alerts: Vec<AlertView>,
    page: Vec<Incident>,
    matching: usize,
    is_cut: bool,
    more: bool,
    totals: Option<Totals>,
}

pub(crate) async fn show(
    State(state): State<Shared>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<ListPage, WebError> {
    let frame = Frame::new(&state, "Incidents", Section::Incidents);
    let filter = Filter::read(&pairs);
    let now = (state.clock)();
    let asked = filter.clone();
    let found = state.reading.read(move |rows| find(rows, &asked, now)).await?;
    Ok(page(frame, &filter, &found))
}

/// All incidents that fit the filter, whatever page is looked at; true when there are more alerts
/// than one list is made from.
pub(crate) fn matching(
    rows: &Rows,
    filter: &Filter,
    now: Micros,
) -> Result<(Vec<Incident>, bool), StoreError> {
    let (from, to) = filter.bounds(now);
    // Whole incidents are wanted, and an incident may reach over the bounds: a day is the longest
    // one alert can be.
    let alerts = rows.alerts(&AlertFilter {
        actor: filter.actor_for_store().map(str::to_owned),
        from: from.map(|from| from.minus(Micros::DAY)),
        to: to.map(|to| to.plus(Micros::DAY)),
        limit: Some(ALERTS_MAX),
        with_evidence: filter.text.is_some(),
        ..AlertFilter::default()
    })?;
    let is_cut = alerts.len() >= ALERTS_MAX;
    let within = |incident: &Incident| {
        from.is_none_or(|from| incident.last_seen().is_some_and(|last| last >= from))
            && to.is_none_or(|to| incident.first_seen().is_some_and(|first| first <= to))
    };
    let fits = |incident: &Incident| within(incident) && filter.passes(incident);
    Ok((group(alerts).into_iter().filter(fits).collect(), is_cut))
}

fn find(rows: &Rows, filter: &Filter, now: Micros) -> Result<Found, StoreError> {
    let (all, is_cut) = matching(rows, filter, now)?;
    let matching = all.len();
    let drawn = all.iter().flat_map(|incident| incident.alerts().iter().cloned()).collect();
    let mut page: Vec<Incident> = all
        .into_iter()
        .filter(|incident| filter.before.is_none_or(|end| sort_key(incident) < end))
        .take(PAGE_ROWS + 1)
        .collect();
    let more = page.len() > PAGE_ROWS;
    page.truncate(PAGE_ROWS);
    if filter.text.is_none() {
        page = open(rows, page)?;
    }
    // Counting everything takes time and is only told where there is nothing to list.
    let totals = if page.is_empty() { Some(rows.totals()?) } else { None };
    Ok(Found { alerts: drawn, page, matching, is_cut, more, totals })
}

/// The incidents with the evidence of their alerts, for the names of servers and tools. One read
/// of the page's stretch of time finds most of them; leading alerts that it misses are read alone.
fn open(rows: &Rows, page: Vec<Incident>) -> Result<Vec<Incident>, StoreError> {
    let around = AlertFilter {
        from: page.iter().filter_map(Incident::first_seen).min(),
        to: page.iter().filter_map(Incident::last_seen).max(),
        limit: Some(OPENED_MAX),
        with_evidence: true,
        ..AlertFilter::default()
    };
    let found = if page.is_empty() { Vec::new() } else { rows.alerts(&around)? };
    let mut found: HashMap<AlertId, AlertView> =
        found.into_iter().map(|alert| (alert.id, alert)).collect();
    let mut opened = Vec::with_capacity(page.len());
    for incident in page {
        let lead = incident.lead().id;
        let mut alerts = incident.into_alerts();
        for alert in &mut alerts {
            let full = match found.remove(&alert.id) {
                Some(full) => Some(full),
                None if alert.id == lead => rows.alert(lead)?,
                None => None,
            };
            if let Some(full) = full.filter(|full| full.id == alert.id) {
                *alert = full;
            }
        }
        opened.push(Incident::of(alerts));
    }
    Ok(opened)
}

fn page(frame: Frame, filter: &Filter, found: &Found) -> ListPage {
    let rows: Vec<Row> = found.page.iter().map(|incident| row(filter, incident)).collect();
    let mut notes = Vec::new();
    if found.is_cut {
        notes.push(Shown::new(&format!(
            "Only the newest {} alerts were searched. Choose a time range to see older ones.",
            count(ALERTS_MAX as u64)
        )));
    }
    if !filter.ignored.is_empty() {
        let names = filter.ignored.join(", ");
        notes.push(Shown::new(&format!("Not understood and left out of the filter: {names}.")));
    }
    let calls_read = found.totals.as_ref().map_or(0, |totals| totals.calls);
    ListPage {
        summary: Shown::new(&format!(
            "{} shown of {}",
            count(rows.len() as u64),
            counted(found.matching as u64, "matching incident")
        )),
        notes,
        form: form(filter, &found.alerts),
        chips: filter.chips(),
        histogram: Histogram::new(&found.alerts, filter),
        histogram_width: histogram::WIDTH,
        histogram_height: histogram::HEIGHT,
        next: found
            .page
            .last()
            .filter(|_| found.more)
            .map(|last| filter.address_after(sort_key(last))),
        newest: filter.before.map(|_| filter.address()),
        is_untouched: found.totals.as_ref().is_some_and(|totals| totals.alerts == 0),
        calls: Shown::new(&counted(calls_read, "call")),
        frame,
        rows,
    }
}

fn row(filter: &Filter, incident: &Incident) -> Row {
    let calls = || incident.alerts().iter().flat_map(|alert| &alert.evidence);
    let distinct: HashSet<_> = calls().map(|call| call.call_id).collect();
    let unseen: u64 = incident.alerts().iter().map(|alert| alert.elided).sum();
    let opened = incident.alerts().iter().all(|alert| !alert.evidence.is_empty());
    let more = if unseen > 0 || !opened { "+" } else { "" };
    let (first, last) = (incident.first_seen(), incident.last_seen());
    let lasted =
        first.zip(last).map(|(first, last)| last.since(first)).filter(|lasted| *lasted > 0);
    Row {
        address: filter.address_of_incident(incident.id(), None),
        severity: Severity(incident.level()),
        title: Shown::short(&incident.lead().title, 160),
        state: state_words(incident.state(), incident.close_reason()),
        is_open: incident.state() == AlertState::Open,
        is_retracted: incident.is_retracted(),
        actor: Shown::short(incident.actor(), 80),
        actor_address: filter.address_of_actor(incident.actor()),
        first: When(first),
        last: When(last),
        lasted: lasted.map(|lasted| Shown::new(&brief_duration(lasted))),
        alerts: Shown::new(&count(incident.alerts().len() as u64)),
        calls: Shown::new(&format!("{}{more}", count(distinct.len() as u64))),
        tools: names(calls().map(|call| (call.tool.as_str(), call.server.as_deref()))),
    }
}

/// Tools with their servers, in the order in which they first appear.
fn names<'a>(all: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Names {
    let mut seen = BTreeSet::new();
    let distinct: Vec<(&str, Option<&str>)> = all.filter(|name| seen.insert(*name)).collect();
    let shown = |name: Option<&str>| name.map(|name| Shown::short(name, 48));
    let first = distinct.first().and_then(|(_, server)| *server);
    let common = first.filter(|_| distinct.iter().all(|(_, server)| *server == first));
    Names {
        shown: distinct
            .iter()
            .take(NAMES_MAX)
            .map(|(tool, server)| Name {
                tool: Shown::short(tool, 48),
                server: shown(server.filter(|_| common.is_none())),
            })
            .collect(),
        more: distinct.len().saturating_sub(NAMES_MAX),
        server: shown(common),
    }
}

fn form(filter: &Filter, alerts: &[AlertView]) -> Form {
    let time = |at: Option<Micros>| {
        let text = at.map(Micros::to_rfc3339).unwrap_or_default();
        Shown::new(text.get(..19).unwrap_or_default())
    };
    let text = |text: &Option<String>| Shown::new(text.as_deref().unwrap_or_default());
    let mut rules: BTreeSet<&str> = alerts.iter().map(|alert| alert.rule.as_str()).collect();
    rules.extend(filter.rule.as_deref());
    Form {
        levels: Level::ALL
            .into_iter()
            .rev()
            .map(|level| (Severity(level), filter.level_min == Some(level)))
            .collect(),
        states: AlertState::ALL
            .into_iter()
            .map(|state| (state.as_str(), filter.state == Some(state)))
            .collect(),
        ranges: RANGES
            .iter()
            .map(|(word, words, _)| (*word, *words, filter.range == Some(*word)))
            .collect(),
        rules: rules
            .into_iter()
            .map(|rule| (Shown::short(rule, 80), filter.rule.as_deref() == Some(rule)))
            .collect(),
        actor: text(&filter.actor),
        from: time(filter.from),
        to: time(filter.to),
        text: text(&filter.text),
    }
}
