//! A log that is changed under the daemon's eyes raises an alert; one that is rotated does not.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde_json::Value;

use crate::support::{Daemon, await_that, scan};

/// The line of second `second` of an ordinary morning; logs of several people are no copies of each other.
fn line(who: &str, second: u32) -> String {
    format!(
        "{{\"subject\":\"{who}\",\"ts\":\"2026-11-20T08:{:02}:{:02}Z\",\"actor\":\"server\",\"tool\":\"get_ticket\",\
         \"outcome\":\"OK\",\
         \"args\":{{\"id\":{second}}}}}\n",
        second / 60,
        second % 60
    )
}

fn lines(who: &str, seconds: std::ops::Range<u32>) -> String {
    seconds.map(|second| line(who, second)).collect()
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// What the daemon noticed about logs: (log, event).
fn noticed(daemon: &Daemon) -> Vec<(String, String)> {
    let sql = "select stream, event from ingest_events order by stream, event";
    let text = |row: &Value, column: &str| row[column].as_str().unwrap().to_owned();
    daemon.query(sql).iter().map(|row| (text(row, "stream"), text(row, "event"))).collect()
}

fn tampering(alerts: &[Value]) -> Vec<String> {
    let of_rule = alerts.iter().filter(|alert| alert["rule"] == "log-tampering");
    let mut logs: Vec<String> =
        of_rule.map(|alert| alert["group"]["actor"].as_str().unwrap().to_owned()).collect();
    logs.sort();
    logs
}

#[test]
fn a_log_that_is_cut_rewritten_or_hides_something_raises_an_alert_and_a_rotated_one_does_not() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let log = |name: &str| logs.join(name);
    let all = ["cut.jsonl", "rewritten.jsonl", "hole.jsonl", "back.jsonl", "rotated.jsonl"];
    let daemon = Daemon::start(home.path(), &logs);
    for name in all {
        append(&log(name), &lines(name, 0..5));
    }
    daemon.await_count("select count(*) from records", 25);
    assert_eq!(noticed(&daemon), []);

    fs::write(log("cut.jsonl"), lines("cut.jsonl", 0..1)).unwrap();
    fs::write(log("rewritten.jsonl"), lines("rewritten.jsonl", 1000..1020)).unwrap();
    append(&log("hole.jsonl"), &format!("\0\0\0\0\0\0\0\0{}", line("hole.jsonl", 6)));
    append(&log("back.jsonl"), &line("back.jsonl", 1500));
    append(&log("back.jsonl"), &line("back.jsonl", 6));
    fs::rename(log("rotated.jsonl"), log("rotated.jsonl.1")).unwrap();
    append(&log("rotated.jsonl"), &lines("rotated.jsonl", 5..9));
    let expected = [
        ("back.jsonl", "time-back"),
        ("cut.jsonl", "truncated"),
        ("hole.jsonl", "gap"),
        ("rewritten.jsonl", "rewritten"),
    ];
    let expected = expected.map(|(log, event)| (log.to_owned(), event.to_owned()));
    await_that("the events", || noticed(&daemon) == expected);
    let whole = ["back.jsonl", "cut.jsonl", "hole.jsonl", "rewritten.jsonl"];
    await_that("the alerts", || tampering(&daemon.alerts()) == whole);
    // The line that was cut off the file and stands in it again is read again: the file is another now.
    daemon.await_count("select count(*) from records", 25 + 1 + 20 + 1 + 2 + 4);
    daemon.await_count("select count(*) from calls", 25 + 1 + 20 + 1 + 2 + 4);

    daemon.stop();
    let again = Daemon::start(home.path(), &logs);
    append(&log("rotated.jsonl"), &line("rotated.jsonl", 9));
    again.await_count("select count(*) from records", 54);
    assert_eq!(noticed(&again), expected, "a restart notices nothing twice");
}

#[test]
fn a_line_dated_ahead_of_the_clock_is_kept_and_raises_an_alert_and_one_pass_says_the_same() {
    let logs = tempfile::tempdir().unwrap();
    let ahead = line("u-ann", 7).replace("2026-11-20", "2099-01-01");
    fs::write(
        logs.path().join("audit.jsonl"),
        format!("{}{ahead}{}", lines("u-ann", 0..5), line("u-ann", 8)),
    )
    .unwrap();
    let (_, alerts) = scan(logs.path());
    assert_eq!(tampering(&alerts), ["audit.jsonl"]);
    let calls = alerts[0]["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["tool"], "log.clock-ahead");
    assert_eq!(calls[0]["at"], "2026-11-20T08:00:04.000000Z");
    assert!(calls[0]["witnesses"][0]["offset"].as_u64() > Some(0), "the line is shown");
}

#[test]
fn a_journal_that_was_changed_is_an_alert_once() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let daemon = Daemon::start(home.path(), &logs);
    append(&logs.join("audit.jsonl"), &lines("u-ann", 0..5));
    append(&logs.join("audit.jsonl"), &line("u-ann", 1500));
    append(&logs.join("audit.jsonl"), &line("u-ann", 6));
    await_that("an alert in the journal", || tampering(&daemon.alerts()) == ["audit.jsonl"]);
    daemon.stop();

    let journal = home.path().join("state/calltrail/calltrail.duckdb.journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    assert!(text.contains("log-tampering"));
    fs::write(&journal, text.replace("log-tampering", "log-tempering")).unwrap();
    let of_journal = || ("calltrail.duckdb.journal.jsonl".to_owned(), "journal-broken".to_owned());
    for _ in 0..2 {
        let daemon = Daemon::start(home.path(), &logs);
        await_that("the event", || noticed(&daemon).contains(&of_journal()));
        let all = noticed(&daemon);
        assert_eq!(all.iter().filter(|event| **event == of_journal()).count(), 1);
        await_that("the alert", || tampering(&daemon.alerts()).len() == 2);
        daemon.stop();
    }
}
