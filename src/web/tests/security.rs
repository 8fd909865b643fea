//! Who gets in, and what every response carries.

use super::*;

#[tokio::test]
async fn every_response_carries_the_security_headers() {
    let site = Site::new(world());
    let paths = [
        "/",
        INCIDENT,
        CALL,
        "/sources",
        "/login",
        "/healthz",
        "/nowhere",
        "/assets/none.css",
        "/incidents/nonsense",
    ];
    let mut answers = Vec::new();
    for path in paths {
        answers.push((path, site.get(path).await));
        answers.push((path, site.send(stranger("GET", path), "").await));
    }
    let foreign = Request::builder().uri("/").header(header::HOST, "evil.example");
    answers.push(("foreign", site.send(foreign, "").await));
    for (path, answer) in answers {
        let get = |name: &str| answer.headers.get(name).map(|value| value.to_str().unwrap());
        let policy = get("content-security-policy").unwrap_or_default();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{path}");
        assert!(policy.contains("require-trusted-types-for 'script'"), "{path}");
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(get("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(get("referrer-policy"), Some("same-origin"), "{path}");
        assert_eq!(get("cross-origin-opener-policy"), Some("same-origin"), "{path}");
        assert_eq!(get("cross-origin-resource-policy"), Some("same-origin"), "{path}");
        assert_eq!(get("cache-control"), Some("no-store"), "{path}");
    }
}

#[tokio::test]
async fn foreign_hosts_are_refused_even_when_the_browser_calls_them_same_origin() {
    let site = Site::new(world());
    for (method, path) in
        [("GET", "/"), ("POST", "/logout"), ("GET", "/events"), ("GET", "/healthz")]
    {
        let rebound = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "evil.example:7700")
            .header("sec-fetch-site", "same-origin")
            .header(header::COOKIE, site.state.session.cookie());
        let answer = site.send(rebound, "").await;
        assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST, "{path}");
    }
}

#[tokio::test]
async fn strangers_are_sent_to_the_login_and_back() {
    let site = Site::new(world());
    let answer = site.send(stranger("GET", "/?q=a%20b&level=high"), "").await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert_eq!(answer.location(), "/login?next=%2F%3Fq%3Da%2520b%26level%3Dhigh");
    assert_eq!(site.send(stranger("GET", "/"), "").await.location(), "/login");
    for (method, path) in
        [("GET", INCIDENT), ("GET", CALL), ("GET", "/sources"), ("POST", "/logout")]
    {
        let answer = site.send(stranger(method, path), "").await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{path}");
        assert!(answer.location().starts_with("/login"), "{path}");
    }
    let events = site.send(stranger("GET", "/events"), "").await;
    assert_eq!(events.status, StatusCode::UNAUTHORIZED);
    let health = site.send(stranger("GET", "/healthz"), "").await;
    assert_eq!((health.status, health.body.as_str()), (StatusCode::OK, "ok"));
}

#[tokio::test]
async fn the_login_link_becomes_a_cookie_at_once() {
    let site = Site::new(world());
    let link = stranger("GET", "/login?token=0123456789abcdef-the-token");
    let answer = site.send(link, "").await;
    assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "/"));
    let cookie = answer.headers.get(header::SET_COOKIE).unwrap().to_str().unwrap();
    assert!(cookie.starts_with("calltrail_7700="), "{cookie}");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(TOKEN));
    let pair = cookie.split(';').next().unwrap();
    let page = site.send(stranger("GET", "/").header(header::COOKIE, pair), "").await;
    assert_eq!(page.status, StatusCode::OK);
}

#[tokio::test]
async fn the_form_leads_to_the_page_that_was_wanted_and_to_no_other_site() {
    let site = Site::new(world());
    for (next, location) in
        [("%2Fsources", "/sources"), ("%2F%2Fevil.example", "/"), ("https%3A%2F%2Fevil", "/")]
    {
        let body = format!("token={TOKEN}&next={next}");
        let answer = site.send(stranger("POST", "/login"), &body).await;
        assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, location));
    }
}

#[tokio::test]
async fn wrong_tokens_get_nothing_and_soon_have_to_wait() {
    let site = Site::new(world());
    for _ in 0..10 {
        let answer = site.send(stranger("POST", "/login"), "token=wrong").await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        assert!(answer.headers.get(header::SET_COOKIE).is_none());
        assert!(!answer.body.contains("wrong\""));
    }
    let answer = site.send(stranger("POST", "/login"), "token=wrong").await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    // Who has the token comes in all the same.
    let answer = site.send(stranger("POST", "/login"), &format!("token={TOKEN}")).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn other_sites_cannot_post() {
    let site = Site::new(world());
    let decide = format!("{INCIDENT}/decide");
    for (name, value) in [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")] {
        for path in [decide.as_str(), "/logout", "/login"] {
            let request = site.request("POST", path).header(name, value);
            let answer = site.send(request, "action=acknowledge").await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{name} {path}");
        }
    }
    assert_eq!(decided(&site).len(), 0);
}

#[tokio::test]
async fn a_decision_is_put_down_and_the_page_shown_again() {
    let site = Site::new(world());
    let page = site.get(INCIDENT).await.body;
    let seen = page.split("name=\"alerts\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let body = format!("action=close&reason=benign&note=+ok+&who=Mara&alerts={seen}");
    let request = site.request("POST", &format!("{INCIDENT}/decide"));
    let answer = site.send(request.header("sec-fetch-site", "same-origin"), &body).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert_eq!(answer.location(), format!("{INCIDENT}#decisions"));
    let decisions = decided(&site);
    assert_eq!(decisions.len(), 2);
    assert!(
        decisions.iter().all(|decision| decision == &(AlertState::Closed, "Mara", "ok").into())
    );
}

#[tokio::test]
async fn unclear_decisions_change_nothing() {
    let site = Site::new(world());
    for body in ["", "action=close", "action=close&reason=x", "action=note", "action=delete"] {
        let request = site.request("POST", &format!("{INCIDENT}/decide"));
        let answer = site.send(request, body).await;
        assert!(answer.status.is_client_error(), "{body}: {}", answer.status);
    }
    let unknown = site.request("POST", "/incidents/ffffffffffffffffffffffffffffffff/decide");
    let answer = site.send(unknown, "action=acknowledge").await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert_eq!(decided(&site).len(), 0);
    // No address that is only looked at decides anything.
    let get = site.get(&format!("{INCIDENT}/decide?action=acknowledge")).await;
    assert_eq!(get.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn bodies_have_a_limit() {
    let site = Site::new(world());
    let body = format!("action=note&note={}", "x".repeat(70_000));
    let request = site.request("POST", &format!("{INCIDENT}/decide"));
    let answer = site.send(request, &body).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn signing_out_takes_the_cookie_away() {
    let site = Site::new(world());
    let answer = site.send(site.request("POST", "/logout"), "").await;
    assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "/login"));
    let cookie = answer.headers.get(header::SET_COOKIE).unwrap().to_str().unwrap();
    assert!(cookie.starts_with("calltrail_7700=; ") && cookie.contains("Max-Age=0"));
}

#[tokio::test]
async fn the_stream_of_news_carries_numbers_and_ends_with_the_daemon() {
    let site = Site::new(world());
    site.news.send(9).unwrap();
    site.health.send(Health { problems: vec!["<b>x".to_owned()], ..Health::default() }).unwrap();
    site.state.shutdown.cancel();
    // The stream ends, else this would wait for ever; what was due is sent first or not at all.
    let answer = site.get("/events").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.headers.get(header::CONTENT_TYPE).unwrap(), "text/event-stream");
    assert!(!answer.body.contains("<b>"));
    // The listener's place is free again.
    assert_eq!(site.get("/events").await.status, StatusCode::OK);
}

#[tokio::test]
async fn listeners_are_told_how_many_alerts_are_new_and_are_limited() {
    use futures_util::StreamExt as _;
    let site = Site::new(world());
    site.news.send(9).unwrap();
    let request = site.request("GET", "/events?after=4").body(Body::empty()).unwrap();
    let response = site.router.clone().oneshot(request).await.unwrap();
    let mut frames = response.into_body().into_data_stream();
    let mut text = String::new();
    while !(text.contains("event: news") && text.contains("event: alarms")) {
        text.push_str(std::str::from_utf8(&frames.next().await.unwrap().unwrap()).unwrap());
    }
    // Two of the six alerts are newer than the page.
    assert!(text.contains("data: 2") && text.contains("id: 9"), "{text}");
    assert_eq!(site.get("/events").await.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn an_open_page_does_not_hold_up_the_end() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let site = Site::new(world());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = site.state.shutdown.clone();
    let serving = super::super::serve_router(listener, site.router.clone(), shutdown.clone());
    let serving = tokio::spawn(serving);
    let mut browser = tokio::net::TcpStream::connect(address).await.unwrap();
    let cookie = site.state.session.cookie();
    let request = format!("GET /events HTTP/1.1\r\nHost: {HOST}\r\nCookie: {cookie}\r\n\r\n");
    browser.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains("event: news") {
        assert_ne!(browser.read_buf(&mut answer).await.unwrap(), 0);
    }
    shutdown.cancel();
    // Well below the time that open requests are given.
    let limit = std::time::Duration::from_secs(super::super::DRAIN_SECS_MAX - 1);
    tokio::time::timeout(limit, serving).await.unwrap().unwrap().unwrap();
}

#[derive(PartialEq, Eq, Debug)]
struct Decided(AlertState, String, String);

impl From<(AlertState, &str, &str)> for Decided {
    fn from((state, who, note): (AlertState, &str, &str)) -> Self {
        Self(state, who.to_owned(), note.to_owned())
    }
}

fn decided(site: &Site) -> Vec<Decided> {
    let Writing::Fixed(decisions) = &site.state.writing else { return Vec::new() };
    let decisions = decisions.lock().unwrap();
    decisions
        .iter()
        .map(|decision| Decided(decision.state, decision.who.clone(), decision.note.clone()))
        .collect()
}
