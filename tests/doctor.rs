//! `calltrail doctor`: what is whole is called whole, and whatever is not is found and placed.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Daemon, calltrail, json_lines};

/// A database of the sample attack, closed, under `home`.
fn scanned(home: &Path) -> std::path::PathBuf {
    let database = home.join("trail.duckdb");
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/trifecta/logs");
    let done = calltrail(home).args(["scan", "--db"]).arg(&database).arg(logs).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    database
}

fn doctor(home: &Path, database: &Path, more: &[&str]) -> (i32, String) {
    let done = calltrail(home).arg("doctor").args(more).arg("--db").arg(database).output().unwrap();
    let told = String::from_utf8(done.stdout).unwrap();
    let code = done.status.code().unwrap();
    assert!(matches!(code, 0 | 65), "{}", String::from_utf8_lossy(&done.stderr));
    (code, told)
}

fn harm(database: &Path, sql: &str) {
    let connection = duckdb::Connection::open(database).unwrap();
    connection.execute_batch(sql).unwrap();
}

#[test]
fn a_whole_database_is_called_whole_in_one_line() {
    let home = tempfile::tempdir().unwrap();
    let (code, told) = doctor(home.path(), &scanned(home.path()), &[]);
    assert_eq!(code, 0, "{told}");
    assert_eq!(told.lines().count(), 1);
    assert!(told.contains("1 source, "), "{told}");
    assert!(told.ends_with(": every byte up to each position is accounted for once\n"), "{told}");
}

#[test]
fn a_running_daemon_is_examined_too() {
    let home = tempfile::tempdir().unwrap();
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/trifecta/logs");
    let daemon = Daemon::start(home.path(), &logs);
    daemon.await_count("select count(*) from alerts where level = 'critical'", 1);
    let told = daemon.ask(&["doctor", "--output", "json"]);
    assert_eq!(told.status.code(), Some(0), "{}", String::from_utf8_lossy(&told.stdout));
    let told = json_lines(&told);
    assert_eq!((told.len(), &told[0]["sound"]), (1, &Value::Bool(true)));
}

#[test]
fn every_fault_is_found_and_placed() {
    // The second line of the file, and where the file ends.
    const SECOND: &str =
        "\"offset\" = (select min(\"offset\") from record_log where \"offset\" > 0)";
    let position = |change: &str| {
        format!(
            "insert into position_log select * replace (seq + 1 as seq, {change})
             from position_log order by seq desc limit 1"
        )
    };
    let inside = format!(
        "insert into gap_log select generation, \"offset\" + 1, 3, 'blank' from record_log where {SECOND}"
    );
    let cases = [
        (format!("delete from record_log where {SECOND}"), "missing"),
        (format!("insert into record_log from record_log where {SECOND}"), "twice"),
        (inside, "twice"),
        (position("\"offset\" + 5 as \"offset\""), "missing"),
        (position("\"offset\" - 5 as \"offset\""), "beyond-position"),
        ("delete from position_log".to_owned(), "no-position"),
        (position("records + 1 as records"), "miscounted"),
        ("update record_log set generation = 7".to_owned(), "lost-record"),
    ];
    for (sql, expected) in cases {
        let home = tempfile::tempdir().unwrap();
        let database = scanned(home.path());
        harm(&database, &sql);
        let (code, told) = doctor(home.path(), &database, &["--output", "json"]);
        assert_eq!(code, 65, "{sql}");
        let told: Value = serde_json::from_str(&told).unwrap();
        let faults = told["faults"].as_array().unwrap();
        assert!(faults.iter().any(|fault| fault["what"] == expected), "{sql}: {told}");
        for fault in faults {
            assert!(fault["to"].as_u64() >= fault["from"].as_u64(), "{fault}");
            assert!(fault["text"].as_str().unwrap().contains("rebuild"), "{fault}");
        }
        let (code, told) = doctor(home.path(), &database, &[]);
        assert_eq!(code, 65);
        assert!(told.contains("tickets/audit.jsonl") || told.contains("(no name)"), "{told}");
    }
}

#[test]
fn a_database_that_is_not_there_is_no_sound_one() {
    let home = tempfile::tempdir().unwrap();
    let done = calltrail(home.path())
        .args(["doctor", "--db"])
        .arg(home.path().join("no"))
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(66));
    assert!(fs::read_dir(home.path()).unwrap().next().is_none(), "looking makes nothing");
}
