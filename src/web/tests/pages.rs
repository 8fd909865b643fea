//! What the pages say.

use super::*;
use crate::model::{CallId, Level, Micros};

#[tokio::test]
async fn the_list_shows_incidents_with_all_that_tells_them_apart() {
    let site = Site::new(world());
    let list = site.get("/").await;
    assert_eq!(list.status, StatusCode::OK);
    assert_eq!(list.count("class=\"title\""), 5);
    assert!(list.body.contains("5 shown of 5 matching incidents"));
    for text in [
        "Lethal trifecta",
        "critical",
        "u-eng",
        "fetch_url",
        "tickets",
        "retracted",
        "acknowledged",
        "2026-11-29 10:00:12.050 UTC",
        "12.05 s",
    ] {
        assert!(list.body.contains(text), "{text}");
    }
    // A server is claimed for its own tools alone.
    let place = "<code><bdi>fetch_url</bdi></code><span class=\"place\">\
                 <span class=\"quiet\">on</span> <bdi>web</bdi></span>";
    assert!(list.body.contains(place));
    assert!(list.body.contains("</code><span class=\"quiet\">on</span> <bdi>tickets</bdi>"));
    // The newest first.
    assert!(list.body.find("u-eng").unwrap() < list.body.find("u-ann").unwrap());
}

#[tokio::test]
async fn filters_narrow_the_list_and_can_be_taken_away() {
    let site = Site::new(world());
    for (query, rows) in [
        ("level=high", 3),
        ("state=closed", 1),
        ("state=open&level=critical", 1),
        ("rule=call-burst", 1),
        ("actor=u-ann", 1),
        ("range=1h", 1),
        ("range=6h", 2),
        ("q=POST_comment", 2),
        ("q=EVIL.example", 2),
        // A key, not a value.
        ("q=args", 0),
        ("q=nothing", 0),
        ("from=2026-11-28T00:00&to=2026-11-28T09:00", 1),
    ] {
        let list = site.get(&format!("/?{query}")).await;
        assert_eq!(list.count("class=\"title\""), rows, "{query}");
        assert!(list.body.contains("Active filters"), "{query}");
    }
    let list = site.get("/?level=awful").await;
    assert!(list.body.contains("left out of the filter: level"));
}

#[tokio::test]
async fn pages_follow_one_another_without_gap_or_double() {
    let mut fixture = world();
    let base = fixture.alerts.remove(0);
    fixture.alerts = (0..120_u8)
        .map(|id| {
            let mut alert = base.clone();
            (alert.id, alert.actor) = (crate::model::AlertId([id; 16]), format!("actor-{id}"));
            // Several share one instant.
            alert.last_seen = Some(START.plus(i64::from(id / 7) * Micros::SECOND));
            alert
        })
        .collect();
    let site = Site::new(fixture);
    let mut path = "/?level=low".to_owned();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let page = site.get(&path).await.body;
        let ids = page.split("class=\"title\" href=\"").skip(1);
        seen.extend(ids.map(|rest| rest.split('"').next().unwrap().to_owned()));
        let next = page.split("rel=\"next\" href=\"").nth(1);
        path = next
            .map_or(String::new(), |rest| rest.split('"').next().unwrap().replace("&#38;", "&"));
    }
    assert_eq!((seen.len(), path.as_str()), (120, ""));
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 120);
}

#[tokio::test]
async fn an_empty_list_tells_the_next_step() {
    let untouched = Site::new(Fixture::default()).get("/").await.body;
    assert!(untouched.contains("calltrail demo") && untouched.contains("href=\"/sources\""));
    let filtered = Site::new(world()).get("/?q=nothing").await.body;
    assert!(filtered.contains("Nothing matches"));
    let sources = Site::new(Fixture::default()).get("/sources").await.body;
    assert!(sources.contains("calltrail watch"));
}

#[tokio::test]
async fn picture_and_table_of_an_incident_tell_the_same() {
    let site = Site::new(world());
    for (around, calls, context) in [("0", 4, 0), ("1", 7, 3), ("5", 8, 4), ("999", 7, 3)] {
        let page = site.get(&format!("{INCIDENT}?around={around}")).await;
        assert_eq!(page.count("<a class=\"call-mark"), calls, "{around}");
        assert_eq!(page.count("<tr class=\"call-row"), calls, "{around}");
        assert_eq!(page.count("<a class=\"call-mark context"), context, "{around}");
        assert_eq!(page.count("<tr class=\"call-row context"), context, "{around}");
        assert_eq!(page.count("<rect class=\"bar "), page.count("<span class=\"witness\">"));
        assert_eq!(page.count("<polygon class=\"leg "), page.count("<span class=\"part\">"));
        assert_eq!(page.count("href=\"/calls/"), 2 * calls);
        // Once in the story and once in the table.
        assert_eq!(page.count("url: https://evil.example/manual, cursor: not logged"), 2);
    }
}

#[tokio::test]
async fn an_incident_says_what_happened_and_why_it_fired() {
    let page = Site::new(world()).get(INCIDENT).await.body;
    for text in [
        "+4.1 s",
        "+5.25 s",
        "trifecta-signature",
        "call-burst",
        "Content from outside was read",
        "1 min 00 s",
        "17 further calls of the evidence",
        "Mara",
        "Asked the owner of desk-agent.",
        "The witnesses disagree about how ",
        "timeout",
        "open-world",
        "sensitive",
        "outbound",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[tokio::test]
async fn any_member_finds_the_incident() {
    let site = Site::new(world());
    let by_second = site.get("/incidents/02020202020202020202020202020202").await.body;
    assert!(by_second.contains("<span class=\"id\">01010101010101010101010101010101</span>"));
}

#[tokio::test]
async fn next_and_previous_keep_the_filter() {
    let site = Site::new(world());
    let page = site.get(&format!("{INCIDENT}?level=high&around=5")).await.body;
    let next = format!("/incidents/{}?level=high", "03".repeat(16));
    assert!(page.contains(&format!("rel=\"next\" href=\"{next}\"")));
    assert!(!page.contains("rel=\"prev\""));
    assert!(page.contains("<a href=\"/?level=high\">Incidents</a>"));
    assert!(page.contains("?level=high&#38;around=15#timeline"));
    let second = site.get(&next).await.body;
    assert!(second.contains(&format!("rel=\"prev\" href=\"{INCIDENT}?level=high\"")));
    assert!(second.contains(&format!("rel=\"next\" href=\"/incidents/{}", "06".repeat(16))));
    // The form leads back to the same place.
    let decide = format!("{INCIDENT}/decide?level=high");
    assert!(page.contains(&format!("action=\"{decide}\"")));
    let answer = site.send(site.request("POST", &decide), "action=note&note=x").await;
    assert_eq!(answer.location(), format!("{INCIDENT}?level=high#decisions"));
}

#[tokio::test]
async fn the_buttons_fit_the_state() {
    let site = Site::new(world());
    let buttons = async |id: &str| {
        let page = site.get(&format!("/incidents/{}", id.repeat(16))).await;
        ["acknowledge", "close", "reopen", "note"]
            .map(|action| page.count(&format!("value=\"{action}\"")))
    };
    assert_eq!(buttons("01").await, [1, 1, 0, 1]);
    assert_eq!(buttons("04").await, [0, 1, 1, 1]);
    assert_eq!(buttons("05").await, [0, 0, 1, 1]);
}

#[tokio::test]
async fn retracted_alerts_say_so() {
    let page = Site::new(world()).get(&format!("/incidents/{}", "06".repeat(16))).await.body;
    assert!(
        page.contains("no longer show this (<bdi>a backdated record moved the first use</bdi>)")
    );
}

#[tokio::test]
async fn a_call_is_shown_down_to_its_bytes() {
    let page = Site::new(world()).get(CALL).await.body;
    for text in [
        "post_comment",
        "outbound",
        "+180 ms",
        "+90 ms",
        "1.24 s",
        "14,412",
        "/var/log/mcp/client.jsonl",
        "joined by tool, arguments and time; nothing else fits",
        "the server says",
        "from the catalogue that comes with Calltrail",
        "not shown by any log",
        "[masked]",
    ] {
        assert!(page.contains(text), "{text}");
    }
    // The incident it is part of, and no other.
    assert_eq!(page.matches("href=\"/incidents/").count(), 1);
    assert!(page.contains(&format!("href=\"{INCIDENT}\"")));
    // The line is laid out, one member a line.
    assert!(page.contains("<bdi>  &#34;outcome&#34;: &#34;ok&#34;</bdi>"));
}

/// The page's text without tags; what stands apart on the page has a space between.
fn text_of(page: &str) -> String {
    let mut text = String::new();
    for part in page.split('<') {
        let (tag, outside) = part.split_once('>').unwrap_or_default();
        let is_apart = ["p", "li", "td", "th", "div", "span", "/span", "h"];
        if is_apart.iter().any(|apart| tag.starts_with(apart)) {
            text.push(' ');
        }
        text.push_str(outside);
    }
    let text = text.replace("&#34;", "\"").replace("&#39;", "'");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn the_life_of_a_call_is_told_with_its_waits_and_what_never_came() {
    let page = Site::new(world()).get(DISPUTED).await.body;
    let text = text_of(&page);
    for told in [
        "The call was made 2 times: attempt 1: TIMEOUT; attempt 2: error.",
        "Asked The client asked a person for approval. ASK",
        "2.3 s passed between question and answer.",
        "1.6 s passed between question and answer.",
        "Approved A person approved it. ALLOWED",
        "Failed For the client it ended in an error. TIMEOUT",
        "Run not told by any log here No log of a server tells of this attempt.",
        "Passage never came The gateway's log gateway.jsonl went on and has no record of it.",
        "By the clock of the server's log server.jsonl it was 2.24 s later; that day this clock runs 1.84 s ahead \
         of the other, as joins show.",
        "+11.24 s about 400 ms later Ran The server worked on it, and it failed.",
        "550 ms later Completed",
        "By the clock of the client's log client.jsonl this was 1.29 s before the step above; that day this clock \
         runs 1.84 s behind the other, as joins show, which explains it.",
        "The clock of server.jsonl ran 1.84 s ahead of that of client.jsonl that day (±12 ms, from 14,202 joins).",
        "950 ms after its own word before",
    ] {
        assert!(text.contains(told), "{told}\n{text}");
    }
    assert_eq!(page.matches("<li class=\"step missing").count(), 1);
    assert_eq!(page.matches("<li class=\"step untold").count(), 1);
    assert_eq!(page.matches("<li class=\"step told").count(), 7);
}

#[tokio::test]
async fn witnesses_stand_side_by_side_and_where_they_disagree_is_said() {
    let page = Site::new(world()).get(DISPUTED).await.body;
    let text = text_of(&page);
    for told in [
        "The witnesses disagree about how delete_file ended: the client says COMPLETED, the server says error.",
        "The client asked about one thing and did another: after the question, the arguments options and query \
         changed in delete_file. options is {\"limit\":20,\"fields\":[\"id\",\"body\"]} in the question, \
         \"other options\" in the end.",
        "query is \"other query\" for the client, \"yet another query\" for the server.",
        "ran, yet the gateway's log gateway.jsonl, which went on meanwhile, has no record of it: either the call \
         went round it, or that log leaves things out.",
        "The witnesses name different tenants: the client says acme, the server says globex.",
        "ambiguous joined by tool, arguments and time; 2 other calls fit as well",
        "by u-eng",
        "a record at /var/log/mcp/client.jsonl byte 102,708",
        "client, attempt 2",
        "in the question: all values",
    ] {
        assert!(text.contains(told), "{told}\n{text}");
    }
    assert!(page.contains(&format!("<a href=\"/calls/{}\">", "0b".repeat(16))));
    // The tenant of each; outcome and arguments of those that made the second attempt.
    assert_eq!(page.matches("class=\"differs\"").count(), 7);
    let plain = Site::new(world()).get(&format!("/calls/{}", "15".repeat(16))).await.body;
    assert_eq!(plain.matches("class=\"differs\"").count(), 0);
}

#[tokio::test]
async fn a_line_that_only_an_alert_kept_is_shown() {
    let mut fixture = world();
    fixture.records.iter_mut().for_each(|record| record.line = None);
    let page = Site::new(fixture).get(CALL).await.body;
    assert!(page.contains("<bdi>  &#34;event&#34;: &#34;tool_call&#34;,</bdi>"));
}

#[tokio::test]
async fn sources_show_lag_rejects_and_mail_errors() {
    let page = Site::new(world()).get("/sources").await.body;
    for text in [
        "client.jsonl",
        "rotated",
        "8.6 KiB",
        "became shorter; 312 bytes had been seen and never read",
        "it ends inside a string",
        "41,377",
        "connection refused by mail.example:587",
        "1,204,331",
        "2026-11-29</time>",
        "1.84 s ahead",
        "1 min 01 s behind",
        "together",
        "±12 ms",
        "700.0 MiB",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[tokio::test]
async fn every_page_raises_the_alarm_when_ingest_stops() {
    let site = Site::new(world());
    assert_eq!(site.get("/").await.count("role=\"alert\""), 0);
    site.health
        .send(Health { ingest_error: Some("disk <full>".to_owned()), ..Health::default() })
        .unwrap();
    for path in ["/", INCIDENT, CALL, "/sources", "/calls", SESSION] {
        let page = site.get(path).await.body;
        assert!(page.contains("Ingest has stopped: disk &#60;full&#62;"), "{path}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_said_kindly() {
    let site = Site::new(world());
    let nobody = CallId([0xff; 16]);
    for path in [
        format!("/calls/{nobody}"),
        format!("/incidents/{nobody}"),
        format!("/sessions/{nobody}"),
        format!("/sessions/of/{nobody}"),
        "/x".to_owned(),
    ] {
        let answer = site.get(&path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert!(answer.body.contains("Incident list"), "{path}");
    }
}

#[tokio::test]
async fn assets_are_served_for_ever_under_their_hash() {
    let site = Site::new(world());
    let page = site.get("/").await.body;
    for (attribute, kind) in [("href=\"/assets/", "css"), ("src=\"/assets/", "javascript")] {
        let names = page.split(attribute).skip(1).map(|rest| rest.split('"').next().unwrap());
        let mut kinds = Vec::new();
        for name in names {
            let answer = site.send(stranger("GET", &format!("/assets/{name}")), "").await;
            assert_eq!(answer.status, StatusCode::OK);
            let cached = answer.headers.get(header::CACHE_CONTROL).unwrap().to_str().unwrap();
            assert!(cached.contains("immutable"));
            kinds.push(
                answer.headers.get(header::CONTENT_TYPE).unwrap().to_str().unwrap().to_owned(),
            );
        }
        assert!(kinds.iter().any(|found| found.contains(kind)), "{kinds:?}");
    }
}

#[test]
fn severities_differ_by_shape() {
    use super::super::shown::Severity;
    let mut shapes: Vec<_> = Level::ALL.into_iter().map(|level| Severity(level).shape()).collect();
    shapes.sort_unstable();
    shapes.dedup();
    assert_eq!(shapes.len(), Level::ALL.len());
}
