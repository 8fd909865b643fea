//! Logging in: one token, exchanged for a cookie that holds a keyed hash of it.
//!
//! The cookie outlives restarts and dies with the token; there are no accounts. Loopback alone is
//! no authentication.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use askama::Template;
use askama_web::WebTemplate;
use axum::Form;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use subtle::ConstantTimeEq as _;

use super::error::WebError;
use super::frame::Frame;
use super::link;
use super::state::Shared;
use crate::model::Micros;

/// Wrong tokens taken in a minute before any login has to wait.
const WRONG_MAX: u32 = 10;
/// How long a browser keeps the cookie.
const COOKIE_SECS: u32 = 30 * 86_400;

/// The token, and the cookie that stands for it.
pub(crate) struct Session {
    token_hash: blake3::Hash,
    cookie_name: String,
    cookie_value: String,
    /// Start of the running minute and the wrong tokens in it.
    wrong: Mutex<(Micros, u32)>,
}

impl Session {
    /// Cookies of one host are shared by all its ports, so the name holds the port.
    pub(crate) fn new(token: &str, bound: SocketAddr) -> Self {
        let key = blake3::derive_key("calltrail dashboard session cookie v1", token.as_bytes());
        Self {
            token_hash: blake3::hash(token.as_bytes()),
            cookie_name: format!("calltrail_{}", bound.port()),
            cookie_value: blake3::keyed_hash(&key, b"session").to_hex().to_string(),
            wrong: Mutex::new((Micros(0), 0)),
        }
    }

    /// Whether the token is the right one; none for a wrong one after too many others. The right one always opens: a
    /// page elsewhere can make a browser send wrong ones, and must not lock the operator out.
    fn check(&self, token: &str, now: Micros) -> Option<bool> {
        // Hashes have one length, so the comparison does not tell the token's.
        let given = blake3::hash(token.as_bytes());
        if bool::from(given.as_bytes().ct_eq(self.token_hash.as_bytes())) {
            return Some(true);
        }
        // Nothing in here can panic while the lock is held, so a poisoned lock holds a sound value.
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if !(0..Micros::MINUTE).contains(&now.since(wrong.0)) {
            *wrong = (now, 0);
        }
        if wrong.1 >= WRONG_MAX {
            return None;
        }
        wrong.1 += 1;
        Some(false)
    }

    /// True when the request carries the cookie.
    pub(crate) fn is_open(&self, headers: &HeaderMap) -> bool {
        headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == self.cookie_name)
            .any(|(_, value)| bool::from(value.as_bytes().ct_eq(self.cookie_value.as_bytes())))
    }

    /// The header value that sets the cookie, or takes it away.
    fn set_cookie(&self, open: bool) -> HeaderValue {
        let (value, age) = if open { (self.cookie_value.as_str(), COOKIE_SECS) } else { ("", 0) };
        let text = format!(
            "{}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict",
            self.cookie_name
        );
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
    }

    #[cfg(test)]
    pub(crate) fn cookie(&self) -> String {
        format!("{}={}", self.cookie_name, self.cookie_value)
    }
}

/// Sends people without the cookie to the login; machines get a plain refusal.
pub(crate) async fn require(State(state): State<Shared>, request: Request, next: Next) -> Response {
    if state.session.is_open(request.headers()) {
        return next.run(request).await;
    }
    if request.uri().path() == "/events" {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let wanted = request.uri().path_and_query().map_or("/", |wanted| wanted.as_str());
    if request.method() != Method::GET || wanted == "/" {
        return Redirect::to("/login").into_response();
    }
    Redirect::to(&format!("/login{}", link::query([("next", wanted)]))).into_response()
}

/// What the login page and its form carry.
#[derive(Default, Deserialize)]
pub(crate) struct Login {
    token: Option<String>,
    next: Option<String>,
}

impl Login {
    fn next(&self) -> &str {
        self.next.as_deref().and_then(link::local_path).unwrap_or("/")
    }
}

#[derive(Template, WebTemplate)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    next: super::shown::Shown,
    problem: Option<&'static str>,
}

/// `GET /login`: the form, or, with a token in the link, straight in.
pub(crate) async fn show(
    State(state): State<Shared>,
    login: Result<Query<Login>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let login = login.map(|Query(login)| login).unwrap_or_default();
    if login.token.is_some() {
        return enter(&state, &login);
    }
    page(&login, StatusCode::OK, None)
}

/// `POST /login`
pub(crate) async fn submit(State(state): State<Shared>, Form(login): Form<Login>) -> Response {
    enter(&state, &login)
}

/// `POST /logout`
pub(crate) async fn leave(State(state): State<Shared>) -> Response {
    let cookie = [(header::SET_COOKIE, state.session.set_cookie(false))];
    (cookie, Redirect::to("/login")).into_response()
}

fn enter(state: &Shared, login: &Login) -> Response {
    let token = login.token.as_deref().unwrap_or_default().trim();
    match state.session.check(token, (state.clock)()) {
        Some(true) => {
            let cookie = [(header::SET_COOKIE, state.session.set_cookie(true))];
            (cookie, Redirect::to(login.next())).into_response()
        }
        Some(false) => {
            tracing::warn!("a wrong login token was refused");
            let problem = "This is not the token. The daemon prints the login link when it starts.";
            page(login, StatusCode::FORBIDDEN, Some(problem))
        }
        None => WebError::TooManyLogins.into_response(),
    }
}

fn page(login: &Login, status: StatusCode, problem: Option<&'static str>) -> Response {
    let next = super::shown::Shown::new(login.next());
    (status, LoginPage { frame: Frame::bare("Sign in"), next, problem }).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_tokens_wait_a_minute_and_never_lock_the_right_one_out() {
        let session = Session::new("right", "127.0.0.1:1".parse().unwrap());
        let now = Micros(5_000_000_000);
        for _ in 0..WRONG_MAX {
            assert_eq!(session.check("wrong", now), Some(false));
        }
        assert_eq!(session.check("wrong", now), None);
        assert_eq!(session.check("right", now), Some(true));
        assert_eq!(session.check("wrong", now.plus(Micros::MINUTE)), Some(false));
    }

    #[test]
    fn the_cookie_tells_nothing_of_the_token_and_is_bound_to_it() {
        let bound = "127.0.0.1:7700".parse().unwrap();
        let (one, two) = (Session::new("token-one", bound), Session::new("token-two", bound));
        assert!(one.cookie().starts_with("calltrail_7700="));
        assert!(!one.cookie().contains("token"));
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, format!("x=1; {}", one.cookie()).parse().unwrap());
        assert!(one.is_open(&headers));
        assert!(!two.is_open(&headers));
    }
}
