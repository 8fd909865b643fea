//! The same pages over a real database.

use super::super::fixtures::trifecta;
use super::*;
use crate::model::{Alert, AlertView, CallChange, Evidence, Text};
use crate::store::{AlertRow, Batch, Decision, EvidenceRows, OpenOptions, Store};

fn open(folder: &tempfile::TempDir) -> Store {
    let path = folder.path().join("db").join("calltrail.duckdb");
    let memory_max = "256MB".to_owned();
    Store::open(&OpenOptions { path, create: true, memory_max, now: START }).unwrap()
}

/// The view as detection made it, for the store to write.
fn row(view: &AlertView, calls: &[crate::model::Call]) -> AlertRow {
    let text = |text: &str| Text::from(text);
    let evidence = view.evidence.iter().zip(calls).map(|(evidence, call)| Evidence {
        stage: text(&evidence.stage),
        call: Arc::new(call.clone()),
    });
    let alert = Alert {
        id: view.id,
        rule: text(&view.rule),
        title: view.title.clone(),
        level: view.level,
        tags: view.tags.iter().map(|tag| text(tag)).collect(),
        group: view.group.iter().map(|(field, value)| (text(field), text(value))).collect(),
        actor: text(&view.actor),
        first_seen: view.first_seen,
        last_seen: view.last_seen,
        closing: calls[calls.len() - 1].id,
        closing_at: view.last_seen,
        count: view.count,
        why: view.why.clone(),
        evidence: evidence.collect(),
        elided: view.elided,
    };
    AlertRow { alert, evidence: EvidenceRows::Whole(view.evidence.clone()), replaces: Vec::new() }
}

#[tokio::test]
async fn an_incident_is_found_listed_and_opened() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(&folder);
    let (incident, calls) = trifecta();
    let changes =
        calls.iter().map(|call| CallChange { old: None, new: Some(Arc::new(call.clone())) });
    let batch = Batch {
        calls: changes.collect(),
        alerts: vec![row(incident.lead(), &calls)],
        ..Batch::default()
    };
    store.commit(&batch).unwrap();
    let site = Site::over(Rows::Store(store.reader()));
    let list = site.get("/?range=15m&q=fetch").await;
    assert_eq!((list.status, list.count("class=\"title\"")), (StatusCode::OK, 1));
    assert!(site.get("/").await.body.contains("post_comment"));
    let page = site.get(INCIDENT).await;
    assert_eq!((page.status, page.count("<tr class=\"call-row")), (StatusCode::OK, 4));
    assert!(page.body.contains("+4.1 s") && page.body.contains("+5.25 s"));
    assert_eq!(site.get(CALL).await.status, StatusCode::OK);
    assert_eq!(site.get("/sources").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_decision_is_seen_by_connections_that_read_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(&folder);
    let (incident, calls) = trifecta();
    let alerts = vec![row(incident.lead(), &calls)];
    store.commit(&Batch { alerts, ..Batch::default() }).unwrap();
    let site = Site::over(Rows::Store(store.reader()));
    assert!(site.get(INCIDENT).await.body.contains("Nobody has decided anything yet."));
    store
        .decide(&Decision {
            alert_id: incident.id(),
            at: START,
            who: "Mara".to_owned(),
            state: AlertState::Acknowledged,
            close_reason: None,
            note: "Seen.".to_owned(),
        })
        .unwrap();
    let page = site.get(INCIDENT).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.body.contains("Mara") && page.body.contains("Seen."));
}
