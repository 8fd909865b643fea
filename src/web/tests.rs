//! The dashboard as browsers and attackers meet it: whole requests against the router, over fixed
//! rows.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::request::Builder;
use axum::http::{HeaderMap, Request, StatusCode, header};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::backend::{Reading, Rows, Writing};
use super::fixtures::{Fixture, START, hostile_world, world};
use super::guard::HostList;
use super::session::Session;
use super::state::{Shared, WebState};
use super::{Health, RulesShown, routes};
use crate::model::{AlertState, Label, LabelSource, Labels, Tri};

mod calls;
mod database;
mod hostile;
mod pages;
mod rules;
mod security;

const HOST: &str = "127.0.0.1:7700";
const TOKEN: &str = "0123456789abcdef-the-token";
const INCIDENT: &str = "/incidents/01010101010101010101010101010101";
const CALL: &str = "/calls/0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e";
/// The call of the fixtures with all that can be wrong.
const DISPUTED: &str = "/calls/28282828282828282828282828282828";
const SESSION: &str =
    "/sessions/07070707070707070707070707070707?call=0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e";

/// The dashboard over fixed rows, with the ends that a daemon would hold.
struct Site {
    state: Shared,
    router: Router,
    health: watch::Sender<Health>,
    news: watch::Sender<u64>,
    rules: watch::Sender<RulesShown>,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Site {
    fn new(fixture: Fixture) -> Self {
        let rules = fixture.rules.clone();
        let site = Self::over(Rows::Fixed(Arc::new(fixture)));
        site.rules.send_replace(rules);
        site
    }

    fn over(rows: Rows) -> Self {
        let bound = HOST.parse().unwrap();
        let healthy = Health { last_batch_at: Some(START), ..Health::default() };
        let (health, health_seen) = watch::channel(healthy);
        let (news, news_seen) = watch::channel(6);
        let (rules, rules_seen) = watch::channel(RulesShown::default());
        let state = Arc::new(WebState {
            reading: Reading::new(rows),
            writing: Writing::Fixed(std::sync::Mutex::default()),
            session: Session::new(TOKEN, bound),
            hosts: HostList::new(bound, &[]),
            labels: Arc::new(|_, tool| labels(tool)),
            health: health_seen,
            news: news_seen,
            rules: rules_seen,
            clock: || START.plus(1_500_000),
            listeners: Arc::new(Semaphore::new(1)),
            shutdown: CancellationToken::new(),
        });
        Self { router: routes(Arc::clone(&state)), state, health, news, rules }
    }

    /// A request as the browser of somebody who is signed in sends it.
    fn request(&self, method: &str, path: &str) -> Builder {
        stranger(method, path).header(header::COOKIE, self.state.session.cookie())
    }

    async fn send(&self, request: Builder, body: &str) -> Answer {
        let request = request
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Body::from(body.to_owned()))
            .unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 16 << 20).await.unwrap();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(self.request("GET", path), "").await
    }
}

impl Answer {
    fn location(&self) -> &str {
        self.headers.get(header::LOCATION).map_or("", |value| value.to_str().unwrap())
    }

    fn count(&self, text: &str) -> usize {
        self.body.matches(text).count()
    }
}

/// A request without the cookie.
fn stranger(method: &str, path: &str) -> Builder {
    Request::builder().method(method).uri(path).header(header::HOST, HOST)
}

fn labels(tool: &str) -> Labels {
    let mut labels = Labels { source: LabelSource::Shipped, ..Labels::default() };
    match tool {
        "fetch_url" => labels.set(Label::OpenWorld, Tri::Yes),
        "search_tickets" | "read_file" => labels.set(Label::Sensitive, Tri::Yes),
        "post_comment" => labels.set(Label::Outbound, Tri::Yes),
        _ => labels.source = LabelSource::Unknown,
    }
    labels
}
