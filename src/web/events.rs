//! `GET /events`: tells open pages that there is something new. Only numbers travel here, never
//! text from a log.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use tokio_stream::wrappers::WatchStream;

use super::state::Shared;

const KEEP_ALIVE_SECS: u64 = 15;
const RETRY_SECS: u64 = 3;

/// The stream of news: it ends when the daemon stops, else the daemon would wait for it.
pub(crate) async fn listen(State(state): State<Shared>) -> Response {
    let Ok(place) = Arc::clone(&state.listeners).try_acquire_owned() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let alerts = WatchStream::new(state.news.clone()).map(|seq| {
        let event = Event::default().event("news").id(seq.to_string()).data(seq.to_string());
        event.retry(Duration::from_secs(RETRY_SECS))
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
    Sse::new(events).keep_alive(keep_alive).into_response()
}
