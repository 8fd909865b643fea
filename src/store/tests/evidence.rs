use super::alerts::alert;
use super::*;
use crate::model::{AlertId, AlertView, Evidence, EvidenceView};

fn shown(call: &Call) -> String {
    let evidence = Evidence { stage: "".into(), call: Arc::new(call.clone()) };
    serde_json::to_string(&EvidenceView::new(&evidence, Vec::new())).unwrap()
}

fn row(number: u32, stage: &str, call: &Call, text: (u64, u32)) -> EvidenceRow {
    EvidenceRow {
        number,
        stage: stage.into(),
        call_id: call.id,
        order: call.order(),
        text: TextPlace { seq: text.0, number: text.1 },
    }
}

fn commit(store: &mut Store, rows: Vec<(&str, EvidenceRows)>, texts: &[&Arc<Call>]) {
    let alerts = rows.into_iter().map(|(name, evidence)| AlertRow {
        alert: alert(name, &[]),
        evidence,
        replaces: Vec::new(),
    });
    let evidence_texts = texts.iter().map(|call| shown(call)).collect();
    let batch = Batch { alerts: alerts.collect(), evidence_texts, ..Batch::default() };
    store.commit(&batch).unwrap();
}

fn rests_on(view: &AlertView) -> Vec<(String, CallId)> {
    view.evidence.iter().map(|one| (one.stage.clone(), one.call_id)).collect()
}

fn count(store: &Store, table: &str) -> u64 {
    let sql = format!("select count(*) from {table}");
    store.connection.query_row(&sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn an_alert_rests_on_what_all_batches_added_in_the_order_of_calls_but_for_what_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let [first, second, third] =
        [1, 2, 3].map(|offset| call(&offset.to_string(), offset, OutcomeClass::Ok));
    // Two alerts share a text; the call that comes first is added last.
    let begun =
        || EvidenceRows::Begun(vec![row(0, "a", &second, (1, 0)), row(1, "a", &third, (1, 1))]);
    commit(&mut store, vec![("one", begun()), ("two", begun())], &[&second, &third]);
    let added = vec![row(2, "b", &first, (2, 0)), row(3, "b", &third, (1, 1))];
    let grown = EvidenceRows::Grown { set: 1, added, gone: vec![1] };
    commit(&mut store, vec![("one", grown)], &[&first]);
    for _ in 0..2 {
        let reader = store.reader();
        let listed =
            reader.alerts(&AlertFilter { with_evidence: true, ..AlertFilter::default() }).unwrap();
        let opened = reader.opened(&reader.listed(&AlertFilter::default()).unwrap()).unwrap();
        for (name, expected) in [
            ("one", vec![("b", &first), ("a", &second), ("b", &third)]),
            ("two", vec![("a", &second), ("a", &third)]),
        ] {
            let expected: Vec<(String, CallId)> =
                expected.into_iter().map(|(stage, call)| (stage.to_owned(), call.id)).collect();
            let id = alert(name, &[]).id;
            assert_eq!(rests_on(&reader.alert(id).unwrap().unwrap()), expected);
            for list in [&listed, &opened] {
                let found = list.iter().find(|alert| alert.id == id).unwrap();
                assert_eq!(rests_on(found), expected);
            }
            let sql = format!("select stage from alert_calls where alert_id = '{id}' order by all");
            assert_eq!(reader.query(&sql, 9, 60).unwrap().rows.len(), expected.len());
        }
        store.tidy_from(0).unwrap();
    }
    assert_eq!((count(&store, "evidence_row_log"), count(&store, "evidence_gone_log")), (5, 0));
}

#[test]
fn tidying_drops_sets_that_another_one_took_the_place_of_and_texts_that_nothing_names() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let [first, second] = [1, 2].map(|offset| call(&offset.to_string(), offset, OutcomeClass::Ok));
    let begun = vec![row(0, "a", &first, (1, 0)), row(1, "a", &second, (1, 1))];
    commit(&mut store, vec![("one", EvidenceRows::Begun(begun))], &[&first, &second]);
    // The new set names a text of the old one.
    let begun = vec![row(0, "a", &second, (1, 1))];
    commit(&mut store, vec![("one", EvidenceRows::Begun(begun))], &[]);
    store.tidy_from(0).unwrap();
    assert_eq!((count(&store, "evidence_row_log"), count(&store, "evidence_text_log")), (1, 1));
    let view = store.reader().alert(alert("one", &[]).id).unwrap().unwrap();
    assert_eq!(rests_on(&view), [("a".to_owned(), second.id)]);
}

#[test]
fn evidence_of_a_database_of_before_is_read_on_and_its_lines_are_kept() {
    let connection = &mut duckdb::Connection::open_in_memory().unwrap();
    for (_, text) in &migrate::MIGRATIONS[..2] {
        connection.execute_batch(text).unwrap();
    }
    let [void, first, second] =
        [1, 3, 2].map(|offset| call(&offset.to_string(), offset, OutcomeClass::Ok));
    let id = alert("one", &[]).id;
    let hex = |id: [u8; 16]| AlertId(id).to_string();
    for (set, ordinal, call) in [(1, 0, &void), (2, 0, &first), (2, 1, &second)] {
        let evidence = Evidence { stage: "old".into(), call: Arc::clone(call) };
        let shown = serde_json::to_string(&EvidenceView::new(&evidence, Vec::new())).unwrap();
        let sql = "insert into evidence_log values (unhex(?), ?, ?, unhex(?), ?)";
        let values = duckdb::params![hex(id.0), set, ordinal, hex(call.id.0), shown];
        connection.execute(sql, values).unwrap();
        let sql = "insert into alert_log select ?, unhex(?), 'a-rule', '', 'high', '[]', '[]', '', null, null,
                   unhex(?), null, 1, '{}', 0, null, ?";
        let values = duckdb::params![set, hex(id.0), hex(call.id.0), set];
        connection.execute(sql, values).unwrap();
    }
    connection.execute_batch(migrate::MIGRATIONS[2].1).unwrap();
    let views = crate::store::evidence::views(connection, &[(id, 2)]).unwrap();
    let found: Vec<(&str, CallId)> =
        views[0].iter().map(|view| (&*view.stage, view.call_id)).collect();
    assert_eq!(found, [("old", first.id), ("old", second.id)], "in the order they had");
}

#[test]
fn mails_and_retractions_of_a_batch_are_stored_once_each() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let mail = |name: &str| crate::model::OutboxItem {
        id: 0,
        alert_id: alert(name, &[]).id,
        recipient: "on-call".to_owned(),
        message_id: name.to_owned(),
        created_at: Micros(1),
        attempts: 0,
    };
    let rows = ["one", "two"].map(|name| (name, EvidenceRows::Begun(Vec::new())));
    commit(&mut store, rows.into(), &[]);
    for outbox in [vec![mail("one"), mail("one")], vec![mail("two"), mail("one")]] {
        store.commit(&Batch { outbox, ..Batch::default() }).unwrap();
    }
    let due = store.reader().outbox_due(Micros(2), 9).unwrap();
    let due: Vec<(u64, String)> = due.into_iter().map(|mail| (mail.id, mail.message_id)).collect();
    assert_eq!(due, [(1, "one".to_owned()), (2, "two".to_owned())]);
    let [one, two, other] = ["one", "two", "other"].map(|name| alert(name, &[]).id);
    let mailed = store.mailed_alerts(&[two, other, one]).unwrap();
    assert_eq!(mailed, [one, two].into_iter().collect());
    let retracted = vec![(one, "it's \"gone\"".to_owned()), (two, "gone, too".to_owned())];
    store.commit(&Batch { retracted, ..Batch::default() }).unwrap();
    let reason = |id| store.reader().alert(id).unwrap().unwrap().retracted;
    assert_eq!(reason(one).as_deref(), Some("it's \"gone\""));
    assert_eq!(reason(two).as_deref(), Some("gone, too"));
}
