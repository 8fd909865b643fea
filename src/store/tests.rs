//! The store's promises: all of a batch or nothing, revisions that links survive, one writer.

/// Alerts under changing ids, and what people decided about them.
mod alerts;
/// What else would fit where a join is ambiguous.
mod candidates;
/// How far apart the clocks of two streams are.
mod clocks;
/// Write-ahead logs that a crash or a disk has damaged.
mod damage;
/// What alerts rest on, over all batches that added to it.
mod evidence;
/// What the stages see again of the past.
mod history;
/// Databases of older versions.
mod older;
/// All calls once more, a page at a time.
mod pages;
/// The calls that show a pair of logs.
mod pairs;
/// What alerts rest on, in a database that is damaged.
mod remains;

use std::sync::Arc;

use super::*;
use crate::model::{
    Args, Call, CallChange, CallId, Certainty, Dialect, IdHasher, JoinedBy, Micros, OutcomeClass,
    Ran, RecordId, Sighting, Step, Witness,
};

fn open(folder: &std::path::Path) -> Store {
    Store::open(&options(folder)).unwrap()
}

fn options(folder: &std::path::Path) -> OpenOptions {
    OpenOptions {
        path: folder.join("state").join("calltrail.duckdb"),
        create: true,
        memory_max: "256MB".to_owned(),
        now: Micros(0),
    }
}

fn call(name: &str, offset: u64, class: OutcomeClass) -> Arc<Call> {
    let mut hasher = IdHasher::new("call");
    hasher.text(name);
    let record = RecordId { generation: 1, offset, index: 0 };
    let at = Some(Micros(1_000_000 * i64::try_from(offset).unwrap()));
    let step = Step { record, length: 10, at, class, code: class.as_str().into() };
    let sighting = Sighting {
        witness: Witness::Server,
        dialect: Dialect::Tenant,
        stream: "log".into(),
        class,
        code: class.as_str().into(),
        joined_by: JoinedBy::Alone,
        certainty: Certainty::Exact,
        attempt: 0,
        candidates: Vec::new(),
        steps: vec![step],
    };
    Arc::new(Call {
        kind: crate::model::EventKind::Call,
        id: CallId::from_hasher(&hasher),
        at,
        stream: "log".into(),
        position: record,
        ended: at,
        duration_ms: Some(1.5),
        tool: "get_ticket".into(),
        server: None,
        principal: Some("u-a".into()),
        client: None,
        actor: "u-a".into(),
        tenant: Some("acme".into()),
        session: "u-a".into(),
        class,
        code: class.as_str().into(),
        decision: None,
        ran: Ran::Yes,
        args: Args::default(),
        flags: vec!["late".into()],
        also: vec![("tenant".into(), "globex".into())],
        request_id: None,
        group_id: None,
        trace_id: None,
        ask_to_answer_ms: None,
        sightings: vec![sighting],
        discrepancies: vec![],
    })
}

fn batch(old: Option<&Arc<Call>>, new: Option<&Arc<Call>>) -> Batch {
    let calls = vec![CallChange { old: old.cloned(), new: new.cloned() }];
    Batch { calls, ..Batch::default() }
}

#[test]
fn a_call_comes_back_as_it_was_stored() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let plain = call("plain", 1, OutcomeClass::Ok);
    let mut other = Call::clone(&call("other", 2, OutcomeClass::Denied));
    other.sightings.push(other.sightings[0].clone());
    other.discrepancies = vec![crate::model::Discrepancy::RanThoughDenied {
        denied_by: Witness::Client,
        ran_by: Witness::Server,
    }];
    let other = Arc::new(other);
    for call in [&plain, &other] {
        store.commit(&batch(None, Some(call))).unwrap();
        assert_eq!(store.reader().call(call.id).unwrap().as_ref(), Some(&**call));
    }
}

#[test]
fn a_former_id_leads_to_the_call_even_when_void_rows_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let first = call("first", 1, OutcomeClass::Approved);
    let second = call("second", 1, OutcomeClass::Ok);
    let third = call("third", 1, OutcomeClass::Error);
    store.commit(&batch(None, Some(&first))).unwrap();
    store.commit(&batch(Some(&first), Some(&second))).unwrap();
    store.commit(&batch(Some(&second), Some(&third))).unwrap();
    for _ in 0..2 {
        let reader = store.reader();
        assert_eq!(reader.call(first.id).unwrap().map(|call| call.id), Some(third.id));
        assert_eq!(reader.totals().unwrap().calls, 1);
        store.tidy_from(0).unwrap();
    }
    let left: u64 =
        store.connection.query_row("select count(*) from call_log", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 1);
}

#[test]
fn a_former_id_leads_to_its_latest_successor_even_after_tidying() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let [a, b, c] = ["a", "b", "c"].map(|name| call(name, 1, OutcomeClass::Ok));
    store.commit(&batch(None, Some(&a))).unwrap();
    for (old, new) in [(&a, &b), (&b, &a), (&a, &c)] {
        store.commit(&batch(Some(old), Some(new))).unwrap();
    }
    for _ in 0..2 {
        for id in [a.id, b.id] {
            assert_eq!(store.reader().call(id).unwrap().map(|call| call.id), Some(c.id));
        }
        store.tidy_from(0).unwrap();
    }
}

#[test]
fn an_id_that_stands_again_is_not_void() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let call = call("call", 1, OutcomeClass::Ok);
    store.commit(&batch(None, Some(&call))).unwrap();
    store.commit(&batch(Some(&call), None)).unwrap();
    assert_eq!(store.reader().call(call.id).unwrap(), None);
    store.commit(&batch(None, Some(&call))).unwrap();
    assert!(store.reader().call(call.id).unwrap().is_some());
}

#[test]
fn a_changed_migration_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.connection.execute_batch("update migration_log set hash = 'x' where number = 1").unwrap();
    drop(store);
    let again = Store::open(&options(folder.path()));
    assert!(matches!(again, Err(StoreError::ForeignSchema { .. })));
}

#[test]
fn files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    drop(store);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&folder.path().join("state")) & 0o777, 0o700);
    assert_eq!(mode(&folder.path().join("state/calltrail.duckdb")) & 0o777, 0o600);
}
