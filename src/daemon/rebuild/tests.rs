use std::sync::Arc;

use super::*;
use crate::catalogue::Catalogue;
use crate::detect::RuleSet;
use crate::tail::TailConfig;

const LINE: &str =
    "{\"actor\":\"client\",\"tool\":\"a\",\"outcome\":\"ASK\",\"ts\":\"2026-11-20T08:00:00Z\"}";

fn setup(home: &Path) -> Setup {
    let logs = home.join("logs");
    fs::create_dir(&logs).unwrap();
    let mut tail = TailConfig::new(vec![logs]);
    tail.grace_micros = 0;
    let database = home.join("calltrail.duckdb");
    Setup {
        store: OpenOptions {
            path: database.clone(),
            create: true,
            memory_max: "256MB".to_owned(),
            now: Micros(0),
        },
        tail,
        rules: Arc::new(RuleSet::default()),
        catalogue: Arc::new(Catalogue::shipped()),
        clocks: vec![],
        outcome_words: vec![],
        path_patterns: vec![],
        is_single_pass: false,
        silence_micros: None,
        journal: Some(super::super::journal_path(&database)),
        mail: None,
        free_bytes_min: 0,
    }
}

/// Reads all there is, as the daemon does, and tells how many records the database then has.
fn watch(setup: &Setup) -> u64 {
    let mut pipeline = Pipeline::open(setup, now()).unwrap();
    for _ in 0..2 {
        pipeline.look(now());
        pipeline.finish(now());
        while pipeline.step(now()).unwrap().is_some() {}
    }
    let examined = super::super::examine(&pipeline.reader()).unwrap();
    assert!(examined.is_sound(), "{examined:?}");
    pipeline.reader().totals().unwrap().records
}

#[test]
fn an_unfinished_last_line_that_counted_is_neither_lost_nor_read_twice() {
    let home = tempfile::tempdir().unwrap();
    let setup = setup(home.path());
    let logs = home.path().join("logs");
    let rotated = logs.join("a.jsonl.1");
    fs::write(&rotated, format!("{LINE}\n{LINE}")).unwrap();
    fs::write(logs.join("a.jsonl"), format!("{LINE}\n\n{LINE}\n")).unwrap();
    assert_eq!(watch(&setup), 4);
    let rebuilt = rebuild(&setup, &mut |_| {}).unwrap();
    assert!(!rebuilt.is_partial(), "{rebuilt:?}");
    assert_eq!((rebuilt.records_read, rebuilt.records_carried), (3, 1));
    assert_eq!(watch(&setup), 4);
    // Its writer comes back and goes on with the next line.
    fs::OpenOptions::new()
        .append(true)
        .open(&rotated)
        .and_then(|mut file| io::Write::write_all(&mut file, format!("\n{LINE}\n").as_bytes()))
        .unwrap();
    assert_eq!(watch(&setup), 5);
}

#[test]
fn what_was_a_copy_is_a_gap_again() {
    let home = tempfile::tempdir().unwrap();
    let setup = setup(home.path());
    let file = home.path().join("logs/a.jsonl");
    let lines = |count: usize| format!("{LINE}\n").repeat(count);
    fs::write(&file, lines(100)).unwrap();
    assert_eq!(watch(&setup), 100);
    // Copied, and both go on in their own way.
    let copy = home.path().join("logs/a.jsonl.1");
    fs::write(&copy, lines(100) + &LINE.replace("\"a\"", "\"b\"") + "\n").unwrap();
    assert_eq!(watch(&setup), 101);
    let rebuilt = rebuild(&setup, &mut |_| {}).unwrap();
    assert_eq!((rebuilt.records_read, rebuilt.records_carried), (101, 0), "{rebuilt:?}");
    assert_eq!(watch(&setup), 101);
    // The original goes: what the copy shares with it is in the old database alone.
    fs::remove_file(&file).unwrap();
    let rebuilt = rebuild(&setup, &mut |_| {}).unwrap();
    assert_eq!(rebuilt.records_read + rebuilt.records_carried, 101, "{rebuilt:?}");
    assert_eq!(watch(&setup), 101);
}

#[test]
fn what_neither_the_logs_nor_the_old_database_have_is_a_gap_and_told() {
    let home = tempfile::tempdir().unwrap();
    let setup = setup(home.path());
    let file = home.path().join("logs/a.jsonl");
    fs::write(&file, format!("{LINE}\n{LINE}\n{LINE}\n")).unwrap();
    assert_eq!(watch(&setup), 3);
    fs::remove_file(&file).unwrap();
    let connection = duckdb_of(&setup);
    connection.execute_batch("delete from record_log where \"offset\" > 0").unwrap();
    drop(connection);
    let rebuilt = rebuild(&setup, &mut |_| {}).unwrap();
    let line_bytes = LINE.len() as u64 + 1;
    assert_eq!((rebuilt.records_carried, rebuilt.bytes_lost), (1, 2 * line_bytes));
    assert!(rebuilt.is_partial());
    assert_eq!(watch(&setup), 1);
}

/// A database with one record and its alert, whose log is gone.
fn read_and_gone(home: &Path) -> Setup {
    let setup = setup(home);
    fs::write(home.join("logs/a.jsonl"), format!("{LINE}\n")).unwrap();
    assert_eq!(watch(&setup), 1);
    fs::remove_file(home.join("logs/a.jsonl")).unwrap();
    setup
}

fn duckdb_of(setup: &Setup) -> duckdb::Connection {
    duckdb::Connection::open(&setup.store.path).unwrap()
}

#[test]
fn a_damaged_place_in_the_old_database_costs_what_is_in_it_and_no_more() {
    let home = tempfile::tempdir().unwrap();
    let setup = read_and_gone(home.path());
    // As many records as several blocks hold, of one file that is gone.
    let connection = duckdb_of(&setup);
    connection
        .execute_batch(
            "insert into record_log select r.* replace ((i + 1) * 100 as \"offset\", 100 as length,
                 md5(i::varchar) as detail)
             from record_log r, range(260000) t(i);
             update record_log set length = 100 where \"offset\" = 0;
             insert into position_log select * replace (seq + 1 as seq, 26000100 as \"offset\",
                 260001 as records, 26000100 as size) from position_log order by seq desc limit 1;
             checkpoint",
        )
        .unwrap();
    drop(connection);
    damage(&setup, "record_log", "detail", 1);
    let rebuilt = rebuild(&setup, &mut |_| {}).unwrap();
    assert!(rebuilt.is_partial() && rebuilt.unreadable.is_none(), "{rebuilt:?}");
    assert!((130_000..260_000).contains(&rebuilt.records_carried), "{rebuilt:?}");
    assert_eq!(rebuilt.bytes_lost, 100 * (260_001 - rebuilt.records_carried));
    assert_eq!(watch(&setup), rebuilt.records_carried);
}

/// Turns bits of the last block of a column of a row group.
fn damage(setup: &Setup, table: &str, column: &str, group: u32) {
    let connection = duckdb_of(setup);
    let sql = format!(
        "select max(block_id) from pragma_storage_info('{table}')
         where column_name = '{column}' and row_group_id = {group} and persistent"
    );
    let block: usize = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
    drop(connection);
    let mut bytes = fs::read(&setup.store.path).unwrap();
    // Three headers, then blocks of 256 KiB.
    let place = 3 * 4096 + block * (256 << 10) + 1000;
    for byte in &mut bytes[place..place + 100] {
        *byte ^= 0x5a;
    }
    fs::write(&setup.store.path, bytes).unwrap();
}

#[test]
fn an_alert_whose_evidence_cannot_be_read_is_kept_without_it_and_that_is_told() {
    let home = tempfile::tempdir().unwrap();
    let setup = setup(home.path());
    fs::write(home.path().join("logs/a.jsonl"), format!("{LINE}\n")).unwrap();
    assert_eq!(watch(&setup), 1);
    let connection = duckdb_of(&setup);
    connection
        .execute_batch(
            "insert into alert_log select 1, unhex(md5('a')), 'a-rule', '', 'high', '[]', '[]', '', null, null,
                 unhex(md5('c')), null, 1, '{\"text\":\"\",\"threshold\":0,\"value\":0,\"timespan\":null}', 0, null, 1;
             insert into evidence_row_log select unhex(md5('a')), 1, i, unhex(md5('c')), '',
                 null, null, null, null, null,
                 1, i from range(20000) t(i);
             insert into evidence_text_log select 1, i,
                 md5((3 * i)::varchar) || md5((3 * i + 1)::varchar)
                 || md5((3 * i + 2)::varchar) from range(20000) t(i);
             checkpoint",
        )
        .unwrap();
    drop(connection);
    damage(&setup, "evidence_text_log", "evidence", 0);
    let rebuilt = rebuild(&setup, &mut |_| {}).unwrap();
    assert_eq!((rebuilt.records_read, rebuilt.alerts_kept), (1, 1), "{rebuilt:?}");
    let told = |lost: &String| lost.starts_with("20000 of the calls that these alerts rest on, ");
    assert!(rebuilt.losses.iter().any(told), "{rebuilt:?}");
    assert_eq!(watch(&setup), 1);
}

#[test]
fn an_alert_that_the_journal_lacks_is_in_it_once_the_database_is_made_again() {
    let home = tempfile::tempdir().unwrap();
    let setup = read_and_gone(home.path());
    let connection = duckdb_of(&setup);
    connection
        .execute_batch(
            "insert into alert_log select 1, unhex(md5('a')), 'a-rule', '', 'high', '[]', '[]', '', null, null,
                 unhex(md5('c')), null, 1, '{\"text\":\"\",\"threshold\":0,\"value\":0,\"timespan\":null}', 0, null, 1",
        )
        .unwrap();
    drop(connection);
    let store = Store::open(&setup.store).unwrap();
    let examined = super::super::examine(&store.reader()).unwrap();
    let told = "alerts that the database has and the journal does not: 1; ";
    let [lacking] = examined.journal.as_slice() else { panic!("{examined:?}") };
    assert!(lacking.starts_with(told) && lacking.contains("`calltrail rebuild`"), "{lacking}");
    drop(store);
    let rebuilt = rebuild(&setup, &mut |_| {}).unwrap();
    assert_eq!(rebuilt.alerts_kept, 1, "{rebuilt:?}");
    assert_eq!(watch(&setup), 1);
}

#[test]
fn an_older_database_with_damaged_evidence_gives_all_else() {
    let home = tempfile::tempdir().unwrap();
    let setup = read_and_gone(home.path());
    // As it was before evidence was kept in sets.
    let connection = duckdb_of(&setup);
    connection
        .execute_batch(
            "delete from migration_log where number > 2;
             drop view alert_calls; drop view evidence_now;
             drop table evidence_row_log; drop table evidence_text_log; drop table evidence_gone_log;
             insert into alert_log select 1, unhex(md5('a')), 'a-rule', '', 'high', '[]', '[]', '', null, null,
                 unhex(md5('c')), null, 1, '{\"text\":\"\",\"threshold\":0,\"value\":0,\"timespan\":null}', 0, null, 1;
             create table evidence_log as select unhex(md5('a')) as alert_id, 1::ubigint as evidence_seq,
                 i::uinteger as ordinal, unhex(md5('c')) as call_id,
                 '{\"noise\":\"' || md5((3 * i)::varchar) || md5((3 * i + 1)::varchar)
                 || md5((3 * i + 2)::varchar) || '\"}'
                     as evidence
             from range(20000) t(i);
             checkpoint",
        )
        .unwrap();
    drop(connection);
    damage(&setup, "evidence_log", "evidence", 0);
    assert!(matches!(Store::open(&setup.store), Err(StoreError::Open { .. })));
    let rebuilt = rebuild(&setup, &mut |_| {}).unwrap();
    assert!(rebuilt.unreadable.is_none(), "{rebuilt:?}");
    assert_eq!((rebuilt.records_carried, rebuilt.alerts_kept), (1, 1), "{rebuilt:?}");
    let told =
        |lost: &String| lost.contains("of the 20000 calls shown with alerts of the old database");
    assert!(rebuilt.losses.iter().any(told), "{rebuilt:?}");
    assert_eq!(watch(&setup), 1);
}
