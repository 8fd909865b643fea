//! `GET /sources`: what is being read, how far, what could not be read, and how the daemon is
//! doing.

use askama::Template;
use askama_web::WebTemplate;
use axum::extract::State;

use super::error::WebError;
use super::frame::{Frame, Section};
use super::shown::{Day, Shown, When, bytes, count, duration};
use super::state::Shared;
use crate::model::{Call, CallId, ClockView, Micros, RejectView, SourceView, Totals, event_words};

/// Newest ingest events shown.
const EVENTS_MAX: usize = 50;
/// Newest rejects shown.
const REJECTS_MAX: usize = 50;
/// Sources shown; a folder with more is one to tidy up.
const SOURCES_MAX: usize = 1000;
/// Rows on clocks shown.
const CLOCKS_MAX: usize = 100;
/// Characters of a reject's line shown.
const HEAD_CHARS_MAX: usize = 600;

#[derive(Template, WebTemplate)]
#[template(path = "sources.html")]
pub(crate) struct SourcesPage {
    frame: Frame,
    facts: Vec<(&'static str, Shown, bool)>,
    first: When,
    last: When,
    last_round: When,
    mail_error: Option<Shown>,
    rows: Vec<Row>,
    left_out: usize,
    events: Vec<EventRow>,
    clocks: Vec<ClockRow>,
    clocks_cut: bool,
    rejects: Vec<RejectBlock>,
    rejects_total: Shown,
}

struct Row {
    stream: Shown,
    path: Shown,
    generation: u64,
    state: Shown,
    size: Shown,
    read: Shown,
    lag: Shown,
    lags: bool,
    records: Shown,
    rejects: Shown,
    has_rejects: bool,
    last: When,
}

/// Something that reading showed about a log.
struct EventRow {
    id: CallId,
    at: When,
    stream: Shown,
    words: Shown,
}

/// How far apart two streams' clocks were on one day.
struct ClockRow {
    day: Day,
    upper: Shown,
    lower: Shown,
    offset: Shown,
    spread: Shown,
    samples: Shown,
}

struct RejectBlock {
    stream: Shown,
    path: Shown,
    offset: Shown,
    length: Shown,
    reason: Shown,
    head: Shown,
}

pub(crate) async fn show(State(state): State<Shared>) -> Result<SourcesPage, WebError> {
    let frame = Frame::new(&state, "Sources", Section::Sources);
    let last_round = state.health.borrow().last_batch_at;
    let material = state
        .reading
        .read(|rows| {
            Ok(Material {
                sources: rows.sources()?,
                events: rows.ingest_events(EVENTS_MAX)?,
                // One more than is shown tells whether there are more.
                clocks: rows.clocks(CLOCKS_MAX + 1)?,
                rejects: rows.rejects(REJECTS_MAX)?,
                totals: rows.totals()?,
            })
        })
        .await?;
    Ok(page(frame, &material, last_round))
}

/// What was read for the page.
struct Material {
    sources: Vec<SourceView>,
    events: Vec<Call>,
    clocks: Vec<ClockView>,
    rejects: Vec<RejectView>,
    totals: Totals,
}

fn page(frame: Frame, material: &Material, last_round: Option<Micros>) -> SourcesPage {
    let Material { sources, events, clocks, rejects, totals } = material;
    let lag: u64 =
        sources.iter().filter(|source| source.state != "gone").map(SourceView::lag).sum();
    let number = |number| Shown::new(&count(number));
    SourcesPage {
        frame,
        facts: vec![
            ("Records", number(totals.records), false),
            ("Calls", number(totals.calls), false),
            ("Rejects", number(totals.rejects), totals.rejects > 0),
            ("Alerts", number(totals.alerts), false),
            ("Open alerts", number(totals.open_alerts), false),
            ("Not read yet", Shown::new(&bytes(lag)), false),
            ("Mails waiting", number(totals.outbox_pending), false),
            ("Mails given up", number(totals.outbox_dead), totals.outbox_dead > 0),
            ("Database", Shown::new(&bytes(totals.database_bytes)), false),
        ],
        first: When(totals.first_at),
        last: When(totals.last_at),
        last_round: When(last_round),
        mail_error: totals.last_mail_error.as_deref().map(Shown::new),
        rows: sources.iter().take(SOURCES_MAX).map(row).collect(),
        left_out: sources.len().saturating_sub(SOURCES_MAX),
        events: events.iter().map(event).collect(),
        clocks: clocks.iter().take(CLOCKS_MAX).map(clock_row).collect(),
        clocks_cut: clocks.len() > CLOCKS_MAX,
        rejects: rejects.iter().map(reject).collect(),
        rejects_total: number(totals.rejects),
    }
}

fn row(source: &SourceView) -> Row {
    Row {
        stream: Shown::short(&source.stream, 200),
        path: Shown::short(&source.path, 400),
        generation: source.generation,
        state: Shown::short(&source.state, 20),
        size: Shown::new(&bytes(source.size)),
        read: Shown::new(&bytes(source.offset)),
        lag: Shown::new(&bytes(source.lag())),
        lags: source.lag() > 0 && source.state != "gone",
        records: Shown::new(&count(source.records)),
        rejects: Shown::new(&count(source.rejects)),
        has_rejects: source.rejects > 0,
        last: When(source.last_at),
    }
}

fn event(event: &Call) -> EventRow {
    EventRow {
        id: event.id,
        at: When(event.at),
        stream: Shown::short(&event.stream, 200),
        words: Shown::new(&event_words(event).unwrap_or_default()),
    }
}

fn clock_row(clocks: &ClockView) -> ClockRow {
    let offset = match clocks.offset_ms {
        0 => "together".to_owned(),
        ahead @ 1.. => format!("{} ahead", span(ahead.unsigned_abs())),
        behind => format!("{} behind", span(behind.unsigned_abs())),
    };
    ClockRow {
        day: Day(clocks.day),
        upper: Shown::short(&clocks.upper_stream, 200),
        lower: Shown::short(&clocks.lower_stream, 200),
        offset: Shown::new(&offset),
        spread: Shown::new(&format!("±{}", span(clocks.spread_ms))),
        samples: Shown::new(&count(clocks.samples)),
    }
}

/// Milliseconds as a length of time.
fn span(millis: u64) -> String {
    duration(i64::try_from(millis.saturating_mul(1000)).unwrap_or(i64::MAX))
}

fn reject(reject: &RejectView) -> RejectBlock {
    RejectBlock {
        stream: Shown::short(&reject.stream, 200),
        path: Shown::short(&reject.path, 400),
        offset: Shown::new(&count(reject.offset)),
        length: Shown::new(&bytes(reject.length)),
        reason: Shown::new(&reject.reason),
        head: Shown::short(&reject.head, HEAD_CHARS_MAX),
    }
}
