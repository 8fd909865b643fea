//! What can go wrong with a request, and the page that says what to do. Causes are logged, never
//! shown.

use askama::Template;
use askama_web::WebTemplate;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::frame::Frame;
use crate::store::{DeskError, StoreError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum WebError {
    #[error("there is no such page")]
    NotFound,
    #[error("there is no incident with this id")]
    NoSuchIncident,
    #[error("there is no call with this id")]
    NoSuchCall,
    #[error("there is no session with this id")]
    NoSuchSession,
    #[error("there is no rule with this name")]
    NoSuchRule,
    #[error("{0}")]
    Bad(&'static str),
    #[error("the page cannot be used in this way")]
    WrongMethod,
    #[error("the request came from another site")]
    OtherSite,
    #[error("the request named a host that is not ours")]
    OtherHost,
    #[error("too many wrong tokens")]
    TooManyLogins,
    #[error("too many pages are open")]
    TooManyListeners,
    #[error("the database did not answer in time")]
    Slow,
    #[error("reading failed")]
    Store(#[from] StoreError),
    #[error("reading ended early")]
    Task(#[from] tokio::task::JoinError),
    #[error("the decision was not written")]
    Desk(#[from] DeskError),
}

/// An error page: what happened and what to do now.
#[derive(Template, WebTemplate)]
#[template(path = "error.html")]
struct ErrorPage {
    frame: Frame,
    status: u16,
    heading: &'static str,
    advice: &'static str,
}

impl WebError {
    const fn status(&self) -> StatusCode {
        match self {
            Self::NotFound
            | Self::NoSuchIncident
            | Self::NoSuchCall
            | Self::NoSuchSession
            | Self::NoSuchRule
            | Self::Desk(DeskError::UnknownAlert(_)) => StatusCode::NOT_FOUND,
            Self::Bad(_) => StatusCode::BAD_REQUEST,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::OtherSite => StatusCode::FORBIDDEN,
            Self::OtherHost => StatusCode::MISDIRECTED_REQUEST,
            Self::TooManyLogins => StatusCode::TOO_MANY_REQUESTS,
            Self::TooManyListeners
            | Self::Slow
            | Self::Desk(DeskError::Stopped)
            | Self::Store(StoreError::Reopening | StoreError::Broken) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Store(_) | Self::Task(_) | Self::Desk(DeskError::Failed(_)) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }

    const fn words(&self) -> (&'static str, &'static str) {
        match self {
            Self::NotFound => {
                ("No such page", "Check the address, or start from the incident list.")
            }
            Self::NoSuchCall => (
                "No such call",
                "It may have been joined with another one since this link was made. Find it \
                 from its incident.",
            ),
            Self::NoSuchSession => (
                "No such session",
                "Its first call may have been joined with another one since this link was made. Find \
                 it from one of its calls; a call without a time is in no session.",
            ),
            Self::NoSuchRule => (
                "No such rule",
                "Its file may be gone from the rules folder. Find it in the list of rules.",
            ),
            Self::NoSuchIncident | Self::Desk(DeskError::UnknownAlert(_)) => (
                "No such incident",
                "The link may be from another database, or mistyped. Find it in the incident \
                 list.",
            ),
            Self::Bad(advice) => ("This request cannot be read", advice),
            Self::WrongMethod => ("Not this way", "Open this page from the incident list instead."),
            Self::OtherSite => (
                "Refused",
                "This request came from another site. Open the dashboard itself and try again.",
            ),
            Self::OtherHost => (
                "Not this host",
                "Calltrail answers only to the names it knows. Use the address printed at \
                 start, or add this name to allowed_hosts in the configuration.",
            ),
            Self::TooManyLogins => (
                "Too many wrong tokens",
                "Wait a minute, then sign in with the link that the daemon prints when it starts.",
            ),
            Self::TooManyListeners => ("Too many open pages", "Close some of them."),
            Self::Slow => (
                "The database is busy",
                "Try again in a moment, or choose a shorter time range. While history is \
                 being read this can last.",
            ),
            Self::Desk(DeskError::Stopped) => (
                "Calltrail is shutting down",
                "Your decision was not recorded. Decide again once it is running.",
            ),
            Self::Desk(DeskError::Failed(_)) => (
                "The decision was not recorded",
                "Look at the daemon's log: the disk may be full. Then decide again.",
            ),
            Self::Store(StoreError::Reopening | StoreError::Broken) => (
                "The database is being opened again",
                "It had a fault. Try again in a few seconds; nothing is lost.",
            ),
            Self::Store(_) | Self::Task(_) => (
                "This page could not be made",
                "The cause is in the daemon's log. Detection and mail go on without the \
                 dashboard.",
            ),
        }
    }
}

impl IntoResponse for WebError {
    fn into_response(self) -> Response {
        let status = self.status();
        if status.is_server_error() {
            let cause = std::error::Error::source(&self).map(ToString::to_string);
            tracing::error!(%status, error = %self, cause, "a page failed");
        }
        let (heading, advice) = self.words();
        error_page(status, heading, advice)
    }
}

/// The page for one status.
fn error_page(status: StatusCode, heading: &'static str, advice: &'static str) -> Response {
    let page = ErrorPage { frame: Frame::bare(heading), status: status.as_u16(), heading, advice };
    (status, page).into_response()
}

/// What a panic in a handler becomes: the page, and a line in the log without what it said to the
/// browser.
#[expect(clippy::needless_pass_by_value, reason = "the panic layer hands the payload over")]
pub(crate) fn panic_page(payload: Box<dyn std::any::Any + Send>) -> Response {
    let cause = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words");
    tracing::error!(cause, "a page panicked");
    error_page(
        StatusCode::INTERNAL_SERVER_ERROR,
        "This page could not be made",
        "This is a fault in Calltrail; the cause is in the daemon's log. Please report it.",
    )
}
