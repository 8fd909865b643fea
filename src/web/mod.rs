//! The dashboard: server-rendered pages that work without JavaScript, behind a token, on names it
//! knows.
//!
//! One file per page. Only this module knows HTTP; rows come from `store`, decisions go to its
//! desk, and whatever a log holds is made inert before a template sees it. The order of the layers,
//! from the outside in: security headers, tracing, catch-panic, host allow-list, body limit,
//! cross-site check, time limit, login, page.

mod arguments;
mod assets;
mod backend;
mod call_page;
mod call_table;
mod calls_filter;
mod calls_page;
mod decide;
mod error;
mod events;
mod filter;
#[cfg(test)]
mod fixtures;
mod frame;
mod guard;
mod health;
mod histogram;
pub mod incident;
mod incident_page;
mod json_text;
mod life;
mod link;
mod list_page;
mod rule_page;
mod rules;
mod rules_page;
mod scene;
mod session;
mod session_page;
mod shown;
mod sources_page;
mod state;
mod story;
#[cfg(test)]
mod tests;
mod timeline;
mod witnesses;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::csrf::CsrfLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

pub use health::Health;
pub use rules::{CaseShown, RuleLoad, RuleShown, RulesShown};

use crate::model::{Labels, Micros};
use crate::store::{Desk, Reader};
use error::{WebError, panic_page};
use state::{Shared, WebState};

/// Largest request body: a decision with its note, and room to spare.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Longest a page may take, all in all.
const PAGE_SECS_MAX: u64 = 10;
/// Longest that open requests may hold up the end of the daemon.
const DRAIN_SECS_MAX: u64 = 5;

/// The labels of a tool, by server and logged name.
pub type LabelsOf = Arc<dyn Fn(Option<&str>, &str) -> Labels + Send + Sync>;

/// What the dashboard needs from the daemon.
pub struct WebConfig {
    pub reader: Reader,
    pub desk: Desk,
    /// What people sign in with. Long and random: it is all that protects the pages.
    pub token: String,
    /// Host names to answer to besides the loopback ones.
    pub allowed_hosts: Vec<String>,
    pub labels: LabelsOf,
    pub health: watch::Receiver<Health>,
    /// The sequence number of the newest alert.
    pub news: watch::Receiver<u64>,
    /// The rules and what they cost.
    pub rules: watch::Receiver<RulesShown>,
    pub clock: fn() -> Micros,
}

/// Serves the dashboard until `shutdown`, then gives open requests five seconds to end.
pub async fn serve(
    listener: TcpListener,
    config: WebConfig,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let router = router(config, listener.local_addr()?, shutdown.clone());
    serve_router(listener, router, shutdown).await
}

async fn serve_router(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let serving =
        axum::serve(listener, router).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let deadline = async {
        shutdown.cancelled().await;
        tokio::time::sleep(Duration::from_secs(DRAIN_SECS_MAX)).await;
    };
    tokio::select! {
        served = serving => served,
        () = deadline => Ok(()),
    }
}

/// The dashboard as a service, for a socket bound to `bound`.
pub fn router(config: WebConfig, bound: SocketAddr, shutdown: CancellationToken) -> Router {
    routes(Arc::new(WebState::new(config, bound, shutdown)))
}

fn routes(state: Shared) -> Router {
    let login = from_fn_with_state(Shared::clone(&state), session::require);
    let timed = Router::new()
        .route("/", get(list_page::show))
        .route("/incidents/{id}", get(incident_page::show))
        .route("/incidents/{id}/decide", post(decide::submit))
        .route("/calls", get(calls_page::show))
        .route("/calls/{id}", get(call_page::show))
        .route("/sessions/of/{call}", get(session_page::find))
        .route("/sessions/{id}", get(session_page::show))
        .route("/rules", get(rules_page::show))
        .route("/rules/{name}", get(rule_page::show))
        .route("/sources", get(sources_page::show))
        .route("/logout", post(session::leave))
        .route_layer(login.clone())
        .route("/login", get(session::show).post(session::submit))
        .route("/healthz", get(|| async { "ok" }))
        .route("/assets/{name}", get(assets::show))
        .layer(TimeoutLayer::with_status_code(
            StatusCode::SERVICE_UNAVAILABLE,
            Duration::from_secs(PAGE_SECS_MAX),
        ));
    // The stream of news lasts as long as its page is open: no time limit.
    let news = Router::new().route("/events", get(events::listen)).route_layer(login);
    let host = from_fn_with_state(Shared::clone(&state), guard::check_host);
    timed
        .merge(news)
        .fallback(async || WebError::NotFound)
        .method_not_allowed_fallback(async || WebError::WrongMethod)
        .layer(CsrfLayer::new().with_rejection_response(|_| WebError::OtherSite.into_response()))
        .layer(RequestBodyLimitLayer::new(BODY_BYTES_MAX))
        .layer(host)
        .layer(CatchPanicLayer::custom(panic_page))
        .layer(TraceLayer::new_for_http().make_span_with(|request: &Request| {
            // The path alone: a login link's token is in the query.
            let path = request.uri().path();
            tracing::debug_span!("request", method = %request.method(), path)
        }))
        .layer(from_fn(guard::add_headers))
        .with_state(state)
}
