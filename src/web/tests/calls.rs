//! The list of calls and the pages of sessions.

use super::super::fixtures::call;
use super::*;
use crate::model::{CallChange, CallId, Micros, OutcomeClass, Ran};
use crate::store::{Batch, OpenOptions, Store};

/// The page's calls, in order.
fn calls(page: &str) -> Vec<String> {
    let rows = page.split("<tr class=\"call-row").skip(1);
    let id = |row: &str| row.split("href=\"/calls/").nth(1)?.get(..32).map(str::to_owned);
    rows.map(|row| id(row).unwrap()).collect()
}

fn link(page: &str, rel: &str) -> Option<String> {
    let rest = page.split(&format!("rel=\"{rel}\" href=\"")).nth(1)?;
    Some(rest.split('"').next()?.replace("&#38;", "&"))
}

#[tokio::test]
async fn calls_are_listed_newest_first_and_filtered() {
    let site = Site::new(world());
    let list = site.get("/calls").await;
    assert_eq!((list.status, calls(&list.body).len()), (StatusCode::OK, 8));
    for text in
        ["8 calls, the newest first", "post_comment", "on</span> <bdi>tickets", "acme", "u-eng"]
    {
        assert!(list.body.contains(text), "{text}");
    }
    assert!(list.body.contains("2026-11-29 10:00:12.050 UTC"));
    assert_eq!(calls(&list.body).first().unwrap(), &"17".repeat(16));
    for (query, rows) in [
        ("actor=u-eng", 8),
        ("actor=nobody", 0),
        ("tool=search_tickets", 2),
        ("outcome=ok", 8),
        ("outcome=denied", 0),
        ("from=2026-11-29T10:00:05&to=2026-11-29T10:00:20", 2),
        ("range=15m", 8),
        ("tool=list_dir&actor=u-eng", 2),
    ] {
        let list = site.get(&format!("/calls?{query}")).await;
        assert_eq!(calls(&list.body).len(), rows, "{query}");
        assert!(list.body.contains("Active filters"), "{query}");
        assert_eq!(list.body.contains("No calls"), rows == 0, "{query}");
    }
    let list = site.get("/calls?outcome=fine&from=soon").await;
    assert!(list.body.contains("left out of the filter: outcome, from"));
}

#[tokio::test]
async fn calls_and_incidents_lead_to_the_session_and_the_actors_calls() {
    let site = Site::new(world());
    let call = site.get(CALL).await.body;
    let to_session = "/sessions/of/0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e";
    assert!(call.contains(&format!("href=\"{to_session}\"")));
    let to_calls = "href=\"/calls?actor=u-eng&#38;from=2026-11-28T10%3A00%3A12.050000Z\
                    &#38;to=2026-11-30T10%3A00%3A12.050000Z\"";
    assert!(call.contains(to_calls));
    let incident = site.get(INCIDENT).await.body;
    assert!(incident.contains("href=\"/sessions/of/0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b\""));
    assert!(incident.contains("href=\"/calls?actor=u-eng&#38;from=2026-11-28T10"));
    let answer = site.get(to_session).await;
    assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, SESSION));
    // What a log did is in no session.
    let event = world().ingest_events[0].id;
    let page = site.get(&format!("/calls/{event}")).await.body;
    assert!(!page.contains("/sessions/of/") && !page.contains("/calls?actor"));
}

#[tokio::test]
async fn a_session_says_what_it_was_and_lists_its_calls_in_order() {
    let site = Site::new(world());
    let page = site.get(SESSION).await.body;
    assert_eq!(calls(&page).len(), 8);
    assert_eq!(calls(&page).first().unwrap(), &"14".repeat(16));
    for text in [
        "Session <bdi>s-1</bdi>",
        "<dt>Denied</dt><dd>2</dd>",
        "tickets",
        "and 3 more",
        "Calls of 4 actors claim this session",
        "It touches 4 tenants",
        "Lethal trifecta",
        ">first<",
        "+39.82 s",
        "client, server",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert_eq!(page.matches("aria-current=\"true\"").count(), 1);
    // The rows of the evidence name the worst alert that rests on them.
    assert_eq!(page.matches("class=\"sev critical\" href=\"/incidents/").count(), 4);
    // An address with an id that is no longer its leads to the right one.
    let old = site.get(&SESSION.replace("0707", "0606")).await;
    assert_eq!((old.status, old.location()), (StatusCode::SEE_OTHER, SESSION));
    let bare = site.get(SESSION.split('?').next().unwrap()).await;
    assert_eq!(bare.status, StatusCode::OK);
}

/// A store with 450 calls of one session, seven to an instant, and one an hour later.
fn long_session(folder: &tempfile::TempDir) -> Store {
    let path = folder.path().join("db").join("calltrail.duckdb");
    let memory_max = "256MB".to_owned();
    let mut store =
        Store::open(&OpenOptions { path, create: true, memory_max, now: START }).unwrap();
    let one = |number: u32| {
        let second = i64::from(number / 7);
        let mut call = call(1, "read_file", second * Micros::SECOND);
        let hash = blake3::hash(&number.to_le_bytes());
        call.id = CallId(hash.as_bytes()[..16].try_into().unwrap());
        call.position.offset = u64::from(number);
        call.stream = format!("{}.jsonl", number % 3).into();
        if number >= 450 {
            call.at = Some(START.plus(Micros::HOUR + second * Micros::SECOND));
            call.ended = call.at;
        }
        call.server = Some(format!("server-{}", number % 2).into());
        if number == 449 {
            (call.class, call.ran) = (OutcomeClass::Denied, Ran::No);
        }
        CallChange { old: None, new: Some(Arc::new(call)) }
    };
    store.commit(&Batch { calls: (0..451).map(one).collect(), ..Batch::default() }).unwrap();
    store
}

#[tokio::test]
async fn pages_of_a_long_session_follow_one_another_without_gap_or_double() {
    let folder = tempfile::tempdir().unwrap();
    let store = long_session(&folder);
    let site = Site::over(Rows::Store(store.reader()));
    let first = CallId(blake3::hash(&0_u32.to_le_bytes()).as_bytes()[..16].try_into().unwrap());
    let mut path = site.get(&format!("/sessions/of/{first}")).await.location().to_owned();
    let bare = site.get(path.split('?').next().unwrap()).await;
    assert_eq!((bare.status, calls(&bare.body).len()), (StatusCode::OK, 200));
    let mut seen = Vec::new();
    for rows in [200, 200, 50] {
        let page = site.get(&path).await.body;
        assert_eq!(calls(&page).len(), rows);
        assert_eq!(page.matches(">first<").count(), usize::from(seen.is_empty()));
        for text in ["<dd>450</dd>", "<dd>449</dd>", "server-0</bdi>, <bdi>server-1", "u-eng"] {
            assert!(page.contains(text), "{text}");
        }
        seen.extend(calls(&page));
        path = link(&page, "next").unwrap_or_default();
    }
    assert_eq!(path, "");
    let (in_order, mut sorted) = (seen.clone(), seen);
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), 450);

    let mut path = "/calls?tool=read_file".to_owned();
    let mut newest = Vec::new();
    for rows in [200, 200, 51] {
        let page = site.get(&path).await.body;
        assert_eq!(calls(&page).len(), rows);
        newest.extend(calls(&page));
        path = link(&page, "next").unwrap_or_default();
    }
    newest.reverse();
    assert_eq!(newest[..450], in_order, "both lists tell one order");
    assert_eq!(calls(&site.get("/calls?outcome=denied").await.body).len(), 1);
}

#[tokio::test]
async fn a_page_goes_on_where_a_call_has_become_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = long_session(&folder);
    let site = Site::over(Rows::Store(store.reader()));
    let page = site.get("/calls").await.body;
    let (last, next) = (calls(&page).pop().unwrap(), link(&page, "next").unwrap());
    let old: CallId = last.parse().unwrap();
    let mut changed = store.reader().call(old).unwrap().unwrap();
    let was = Arc::new(changed.clone());
    changed.id = CallId([1; 16]);
    let change = CallChange { old: Some(was), new: Some(Arc::new(changed)) };
    store.commit(&Batch { calls: vec![change], ..Batch::default() }).unwrap();
    let rest = calls(&site.get(&next).await.body);
    // The instant that the page ended in is shown again, so that nothing of it is missing.
    assert!(rest.contains(&"01".repeat(16)));
    assert!(!rest.contains(&last));
    // Its session is found under the id it had.
    assert_eq!(site.get(&format!("/sessions/of/{last}")).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn the_id_that_a_session_had_leads_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = long_session(&folder);
    let site = Site::over(Rows::Store(store.reader()));
    let first = CallId(blake3::hash(&0_u32.to_le_bytes()).as_bytes()[..16].try_into().unwrap());
    let address = site.get(&format!("/sessions/of/{first}")).await.location().to_owned();
    let late = Arc::new(call(99, "read_file", -Micros::SECOND));
    let change = CallChange { old: None, new: Some(Arc::clone(&late)) };
    store.commit(&Batch { calls: vec![change], ..Batch::default() }).unwrap();
    let now = site.get(&format!("/sessions/of/{}", late.id)).await.location().to_owned();
    let id = |address: &str| address.split('?').next().unwrap().to_owned();
    assert_ne!(id(&now), id(&address));
    for old in [address.clone(), id(&address)] {
        let answer = site.get(&old).await;
        assert_eq!((answer.status, id(answer.location())), (StatusCode::SEE_OTHER, id(&now)));
    }
    assert!(site.get(&id(&now)).await.body.contains("<dd>451</dd>"));
}
