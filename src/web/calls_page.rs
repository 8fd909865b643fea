//! `GET /calls`: calls of everybody or of one actor, the newest first.

use askama::Template;
use askama_web::WebTemplate;
use axum::extract::{Query, State};

use super::call_table::{CallRow, CallTable, PAGE_ROWS};
use super::calls_filter::CallsFilter;
use super::error::WebError;
use super::filter::{Chip, Filter, RANGES};
use super::frame::{Frame, Section};
use super::shown::{Shown, counted};
use super::state::Shared;
use crate::model::{CallView, Micros, OutcomeClass};

#[derive(Template, WebTemplate)]
#[template(path = "calls.html")]
pub(crate) struct CallsPage {
    frame: Frame,
    table: CallTable,
    summary: Shown,
    notes: Vec<Shown>,
    form: Form,
    chips: Vec<Chip>,
    /// The incidents of the actor, where the list is of one.
    incidents: Option<String>,
    /// The page after this one.
    next: Option<String>,
    /// The first page, where this is a later one.
    newest: Option<String>,
}

/// The values the filter form starts with.
struct Form {
    actor: Shown,
    tool: Shown,
    outcomes: Vec<(&'static str, bool)>,
    ranges: Vec<(&'static str, &'static str, bool)>,
    from: Shown,
    to: Shown,
}

impl Form {
    /// True when a field of the folded part is in use.
    fn is_detailed(&self) -> bool {
        [&self.from, &self.to].iter().any(|text| !text.as_str().is_empty())
    }
}

pub(crate) async fn show(
    State(state): State<Shared>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<CallsPage, WebError> {
    let frame = Frame::new(&state, "Calls", Section::Calls);
    let filter = CallsFilter::read(&pairs);
    // One more than fits tells whether there is a next page.
    let query = filter.query((state.clock)(), PAGE_ROWS + 1);
    let calls = state.reading.read(move |rows| rows.call_list(&query)).await?;
    Ok(page(frame, &filter, &calls))
}

fn page(frame: Frame, filter: &CallsFilter, found: &[CallView]) -> CallsPage {
    let calls = found.get(..PAGE_ROWS).unwrap_or(found);
    let next = calls
        .last()
        .filter(|_| found.len() > calls.len())
        .map(|last| filter.address_after((last.at, last.id)));
    let mut notes = Vec::new();
    if !filter.ignored.is_empty() {
        let names = filter.ignored.join(", ");
        notes.push(Shown::new(&format!("Not understood and left out of the filter: {names}.")));
    }
    let and_more = if next.is_some() { " and more" } else { "" };
    CallsPage {
        frame,
        table: CallTable {
            rows: calls.iter().map(CallRow::new).collect(),
            has_actors: true,
            has_gaps: false,
        },
        summary: Shown::new(&format!(
            "{}{and_more}, the newest first",
            counted(calls.len() as u64, "call")
        )),
        notes,
        form: form(filter),
        chips: filter.chips(),
        incidents: filter
            .actor
            .as_deref()
            .and_then(|actor| Filter::default().address_of_actor(actor)),
        next,
        newest: filter.before.map(|_| filter.address()),
    }
}

fn form(filter: &CallsFilter) -> Form {
    let time = |at: Option<Micros>| {
        let text = at.map(Micros::to_rfc3339).unwrap_or_default();
        Shown::new(text.get(..19).unwrap_or_default())
    };
    let text = |text: &Option<String>| Shown::new(text.as_deref().unwrap_or_default());
    Form {
        actor: text(&filter.actor),
        tool: text(&filter.tool),
        outcomes: OutcomeClass::ALL
            .into_iter()
            .map(|outcome| (outcome.as_str(), filter.outcome == Some(outcome)))
            .collect(),
        ranges: RANGES
            .iter()
            .map(|(word, words, _)| (*word, *words, filter.range == Some(*word)))
            .collect(),
        from: time(filter.from),
        to: time(filter.to),
    }
}
