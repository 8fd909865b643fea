//! `GET /events`: tells open pages that there is something new. Only numbers travel here, never
//! text from a log.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use tokio_stream::wrappers::WatchStream;

use super::error::WebError;
use super::state::Shared;
use crate::store::AlertFilter;

const KEEP_ALIVE_SECS: u64 = 15;
const RETRY_SECS: u64 = 3;
/// More than this is not counted.
const COUNT_MAX: usize = 1000;

/// What the open page knows.
#[derive(Deserialize)]
pub(crate) struct Known {
    /// The newest alert when the page was made.
    #[serde(default)]
    after: u64,
}

/// The stream of news: it ends when the daemon stops, else the daemon would wait for it.
pub(crate) async fn listen(
    State(state): State<Shared>,
    Query(known): Query<Known>,
) -> Result<Response, WebError> {
    let place =
        Arc::clone(&state.listeners).try_acquire_owned().map_err(|_| WebError::TooManyListeners)?;
    let counting = Shared::clone(&state);
    let alerts = WatchStream::new(state.news.clone()).filter_map(move |seq| {
        let state = Shared::clone(&counting);
        async move { news(&state, known.after, seq).await }
    });
    let clock = state.clock;
    let health = WatchStream::new(state.health.clone()).map(move |health| {
        Event::default().event("alarms").data(health.alarms(clock()).len().to_string())
    });
    let events = stream::select(alerts, health)
        .map(move |event| {
            // The listener's place is free again when its stream is dropped.
            let _held = &place;
            Ok::<_, Infallible>(event)
        })
        .take_until(state.shutdown.clone().cancelled_owned());
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(KEEP_ALIVE_SECS));
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

/// How many alerts are newer than `after`; none where that cannot be read just now. What comes in
/// while it is being read is counted together afterwards.
async fn news(state: &Shared, after: u64, seq: u64) -> Option<Event> {
    let mut count = 0;
    if seq > after {
        let filter = AlertFilter {
            after_seq: Some(after),
            limit: Some(COUNT_MAX),
            ..AlertFilter::default()
        };
        count = state.reading.read(move |rows| rows.alerts(&filter)).await.ok()?.len();
    }
    let event = Event::default().event("news").id(seq.to_string()).data(count.to_string());
    Some(event.retry(Duration::from_secs(RETRY_SECS)))
}
