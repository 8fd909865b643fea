//! Databases of older versions: what they hold moves, whole or as far as it can be read.

use super::alerts::alert;
use super::*;
use crate::model::{AlertId, Evidence, EvidenceView};

/// A database as it was before evidence was kept in sets; `fill` puts rows into it.
fn older(folder: &std::path::Path, fill: impl FnOnce(&duckdb::Connection)) -> OpenOptions {
    let options = options(folder);
    make_private_folder(options.path.parent().unwrap()).unwrap();
    let connection = duckdb::Connection::open(&options.path).unwrap();
    connection
        .execute_batch("create table migration_log (number uinteger, name varchar, hash varchar)")
        .unwrap();
    for (number, (name, text)) in (1_u32..).zip(&migrate::MIGRATIONS[..2]) {
        connection.execute_batch(text).unwrap();
        let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
        let sql = "insert into migration_log values (?, ?, ?)";
        connection.execute(sql, duckdb::params![number, name, hash]).unwrap();
    }
    fill(&connection);
    connection.execute_batch("checkpoint").unwrap();
    options
}

/// `rows` calls, a hundred to an alert, each shown by half a kilobyte that cannot be compressed much.
fn fill(connection: &duckdb::Connection, rows: u64) {
    let alert_row = "'a-rule', '', 'high', '[]', '[]', '', null, null, unhex(md5('c')), null, 1, '{}', 0, null, 1";
    let noise: Vec<String> =
        (0..16).map(|part| format!("md5((i * 16 + {part})::varchar)")).collect();
    connection
        .execute_batch(&format!(
            "insert into evidence_log select unhex(md5((i // 100)::varchar)), 1, i % 100, unhex(md5(i::varchar)),
                 json_object('stage', 'old', 'call', md5(i::varchar), 'noise', {}) from range({rows}) t(i);
             insert into alert_log select 1, unhex(md5(i::varchar)), {alert_row} from range({rows} // 100) t(i);",
            noise.join(" || ")
        ))
        .unwrap();
}

/// How many rows moved with the text that is theirs.
fn moved(store: &Store) -> u64 {
    let sql = "select count(*) from evidence_row_log r
               join evidence_text_log t on t.seq = r.text_seq and t.number = r.text_number
               where lower(hex(r.call_id)) = (t.evidence->>'call') and r.stage = 'old'";
    store.connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Turns bits of one of the blocks in which a column of a row group lies.
pub(super) fn damage(options: &OpenOptions, table: &str, column: &str, group: u32) {
    let connection = duckdb::Connection::open(&options.path).unwrap();
    let sql = format!(
        "select quantile_disc(block_id, 0.5) from pragma_storage_info('{table}')
         where column_name = '{column}' and row_group_id = {group} and persistent"
    );
    let block: u64 = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
    drop(connection);
    let mut bytes = std::fs::read(&options.path).unwrap();
    // Three headers, then blocks of 256 KiB.
    let place = usize::try_from(3 * 4096 + block * (256 << 10) + 1000).unwrap();
    for byte in &mut bytes[place..place + 100] {
        *byte ^= 0x5a;
    }
    std::fs::write(&options.path, bytes).unwrap();
}

#[test]
fn evidence_of_a_database_of_before_is_read_on_in_the_order_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let [void, first, second] =
        [1, 3, 2].map(|offset| call(&offset.to_string(), offset, OutcomeClass::Ok));
    let id = alert("one", &[]).id;
    let options = older(folder.path(), |connection| {
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
    });
    let store = Store::open(&options).unwrap();
    let views = crate::store::evidence::views(&store.connection, &[(id, 2)]).unwrap();
    let found: Vec<(&str, CallId)> =
        views[0].iter().map(|view| (&*view.stage, view.call_id)).collect();
    assert_eq!(found, [("old", first.id), ("old", second.id)]);
}

#[test]
fn much_evidence_moves_with_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let options = older(folder.path(), |connection| fill(connection, 200_000));
    let store = Store::open(&OpenOptions { memory_max: "128MB".to_owned(), ..options }).unwrap();
    assert_eq!(moved(&store), 200_000);
}

#[test]
fn too_little_memory_to_move_is_told_as_that_and_leaves_the_database_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let options = older(folder.path(), |connection| fill(connection, 20_000));
    let small = OpenOptions { memory_max: "4MB".to_owned(), ..options.clone() };
    for opened in [Store::open(&small).map(drop), Store::salvage(&small).map(drop)] {
        let error = opened.unwrap_err();
        assert!(matches!(error, StoreError::Upgrade { .. }), "{error}");
        let told = error.to_string();
        assert!(told.contains("memory_max") && !told.contains("damaged"), "{told}");
        assert_eq!(error.cause(), Cause::Memory);
    }
    assert_eq!(moved(&Store::open(&options).unwrap()), 20_000);
}

#[test]
fn of_damaged_evidence_the_rest_moves_when_the_database_is_made_again_and_what_is_lost_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let options = older(folder.path(), |connection| fill(connection, 60_000));
    damage(&options, "evidence_log", "evidence", 0);
    let refused = Store::open(&options).map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::Open { .. }), "{refused}");
    let (store, lost) = Store::salvage(&options).unwrap();
    let lost = lost.unwrap();
    let left = moved(&store);
    assert!((50_000..60_000).contains(&left), "{left} are left, {lost}");
    let (rows, _) = lost.split_once(" of the 60000 calls").unwrap();
    assert_eq!(rows.parse::<u64>().unwrap(), 60_000 - left);
    drop(store);
    assert_eq!(moved(&Store::open(&options).unwrap()), left);
}

#[test]
fn where_nothing_tells_whose_the_evidence_is_all_else_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let options = older(folder.path(), |connection| {
        fill(connection, 1_000);
        // So many that the ids of alerts fill blocks of their own.
        connection
            .execute_batch(
                "insert into alert_log select a.* replace (unhex(md5(i::varchar)) as alert_id)
                 from alert_log a, range(30000) t(i);
                 insert into meta values ('still', 'there')",
            )
            .unwrap();
    });
    damage(&options, "alert_log", "alert_id", 0);
    let (store, lost) = Store::salvage(&options).unwrap();
    assert_eq!(lost.as_deref(), Some("all 1000 calls shown with alerts of the old database"));
    let sql = "select value from meta where name = 'still'";
    let still: String = store.connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(still, "there");
}
