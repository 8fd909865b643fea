use super::alerts::alert;
use super::*;
use crate::model::{AlertView, Evidence, EvidenceView};

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

/// Rows that are void by the thousand, while no alert has more than one row of its own.
fn with_gone(folder: &std::path::Path, rows: u32) -> Store {
    let mut store = open(folder);
    let call = call("1", 1, OutcomeClass::Ok);
    commit(
        &mut store,
        vec![("one", EvidenceRows::Begun(vec![row(0, "a", &call, (1, 0))]))],
        &[&call],
    );
    store
        .connection
        .execute_batch(&format!(
            "insert into evidence_row_log select r.* replace
                 (i as number, 2 + i // 1000 as text_seq, i % 1000 as text_number)
                 from evidence_row_log r, range(1, {rows}) t(i);
             insert into evidence_gone_log select alert_id, evidence_seq, number from evidence_row_log where number > 1;
             insert into evidence_text_log select 2 + i // 1000, i % 1000, '' from range(1, {rows}) t(i);"
        ))
        .unwrap();
    store
}

fn counts(store: &Store) -> [u64; 3] {
    ["evidence_row_log", "evidence_gone_log", "evidence_text_log"].map(|table| count(store, table))
}

#[test]
fn rows_that_are_gone_are_worth_a_clean_up_and_all_of_it_is_done_however_small_its_steps() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = with_gone(folder.path(), 60_000);
    store.tidy().unwrap();
    assert_eq!(counts(&store), [2, 0, 2]);
    for (rows, step_rows) in [(30, 1), (30, 7), (300_000, 50_000)] {
        let folder = tempfile::tempdir().unwrap();
        let mut store = with_gone(folder.path(), rows);
        store.tidy_by(0, step_rows).unwrap();
        assert_eq!(counts(&store), [2, 0, 2], "{rows} rows, {step_rows} in a step");
    }
}

#[test]
fn millions_of_rows_that_are_gone_go_with_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let store = with_gone(folder.path(), 2_000_000);
    store.checkpoint().unwrap();
    drop(store);
    let options = OpenOptions { memory_max: "40MB".to_owned(), ..options(folder.path()) };
    let mut store = Store::open(&options).unwrap();
    store.tidy().unwrap();
    assert_eq!(counts(&store), [2, 0, 2]);
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
