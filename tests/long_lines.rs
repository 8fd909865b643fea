//! A long line must not hide what comes after it: the cheapest way to evade a log reader.

use std::fs;

use crate::support::scan;

const ATTACK: &str = include_str!("samples/trifecta/logs/tickets/audit.jsonl");

fn long_line(bytes: usize) -> String {
    let padding = "y".repeat(bytes);
    format!(
        "{{\"actor\":\"client\",\"tool\":\"x\",\"args\":{{\"t\":\"{padding}\"}},\"outcome\":\"COMPLETED\",\
         \"ts\":\"2026-11-20T07:59:00Z\"}}\n"
    )
}

fn rules(alerts: &[serde_json::Value]) -> Vec<&str> {
    let mut rules: Vec<_> = alerts.iter().filter_map(|alert| alert["rule"].as_str()).collect();
    rules.sort_unstable();
    rules
}

#[test]
fn a_line_longer_than_a_read_hides_nothing() {
    let logs = tempfile::tempdir().unwrap();
    fs::write(logs.path().join("a.jsonl"), long_line(3_000_000) + ATTACK).unwrap();
    let (code, alerts) = scan(logs.path());
    assert_eq!((code, rules(&alerts)), (0, vec!["trifecta-session", "trifecta-signature"]));
}

#[test]
fn a_line_beyond_the_limit_is_a_reject_and_hides_nothing() {
    let logs = tempfile::tempdir().unwrap();
    fs::write(logs.path().join("a.jsonl"), long_line(17 << 20) + ATTACK).unwrap();
    let (code, alerts) = scan(logs.path());
    assert_eq!(
        (code, rules(&alerts)),
        (2, vec!["log-tampering", "trifecta-session", "trifecta-signature"])
    );
}

#[test]
fn many_files_that_begin_with_long_lines_are_all_read() {
    let logs = tempfile::tempdir().unwrap();
    for file in 0..300 {
        // Different lengths, so that none is taken for a copy of another.
        let text = long_line(120_000 + file)
            + "{\"actor\":\"client\",\"tool\":\"y\",\"args\":{},\"outcome\":\"COMPLETED\"}\n";
        fs::write(logs.path().join(format!("{file}.jsonl")), text).unwrap();
    }
    let home = tempfile::tempdir().unwrap();
    let database = home.path().join("kept.duckdb");
    let done = crate::support::calltrail(home.path())
        .args(["scan", "--db"])
        .args([&database, logs.path()])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let count = crate::support::calltrail(home.path())
        .args(["query", "--output", "json", "select count(*) as n from records", "--db"])
        .arg(&database)
        .output()
        .unwrap();
    assert_eq!(crate::support::json_lines(&count)[0]["n"], 600);
}

#[test]
fn zeros_before_the_first_line_hide_nothing() {
    let logs = tempfile::tempdir().unwrap();
    let mut bytes = vec![0; 3 << 20];
    bytes.extend_from_slice(ATTACK.as_bytes());
    fs::write(logs.path().join("a.jsonl"), bytes).unwrap();
    let (code, alerts) = scan(logs.path());
    assert_eq!(
        (code, rules(&alerts)),
        (0, vec!["log-tampering", "trifecta-session", "trifecta-signature"])
    );
}
