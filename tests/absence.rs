//! A call that the client's log lacks, by the real binary: told once that log went on, taken back by a late record, and
//! said of the log where it fell silent.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde_json::Value;

use crate::support::{Daemon, alert_ids, await_that, scan};

const CLIENT: &str = "client/audit.jsonl";
const SERVER: &str = "server/audit.jsonl";

/// A line of one of the two, `minute` minutes after eight on the first day.
fn line(file: &str, minute: u32, tool: &str, id: &str) -> String {
    let (actor, outcome) = if file == CLIENT { ("client", "APPROVED") } else { ("server", "OK") };
    let (day, hour, minute) = (20 + (minute + 480) / 1440, (minute + 480) / 60 % 24, minute % 60);
    format!(
        "{{\"actor\":\"{actor}\",\"tool\":\"{tool}\",\"args\":{{\"filepath\":\"{id}\"}},\
         \"outcome\":\"{outcome}\",\"ts\":\"2026-11-{day:02}T{hour:02}:{minute:02}:00Z\"}}\n"
    )
}

fn append(logs: &Path, file: &str, text: &str) {
    let path = logs.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Both logs tell of a call.
fn both(minute: u32, tool: &str) -> [(&'static str, String); 2] {
    let id = format!("{minute}.txt");
    [CLIENT, SERVER].map(|file| (file, line(file, minute, tool, &id)))
}

fn server(minute: u32, tool: &str) -> (&'static str, String) {
    (SERVER, line(SERVER, minute, tool, &format!("{minute}.txt")))
}

/// A call past the client in the morning, and another day on which the client's log had stopped by then.
fn story() -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    lines.extend(both(0, "list_dir"));
    lines.push(server(10, "delete_file"));
    lines.extend(both(20, "list_dir"));
    // From here on the client says nothing.
    lines.extend((0..50).map(|number| server(60 + number, "delete_file")));
    lines.push(server(60 + 3 * 1440, "list_dir"));
    lines
}

fn rules(alerts: &[Value]) -> Vec<(String, u64, bool)> {
    let told = |alert: &Value| {
        let rule = alert["rule"].as_str().unwrap().to_owned();
        (rule, alert["count"].as_u64().unwrap(), alert["retracted"].is_string())
    };
    let mut rules: Vec<_> = alerts.iter().map(told).collect();
    rules.sort();
    rules
}

fn told(rules: &[(&str, u64, bool)]) -> Vec<(String, u64, bool)> {
    rules.iter().map(|(rule, count, gone)| ((*rule).to_owned(), *count, *gone)).collect()
}

#[test]
fn a_call_past_the_client_is_an_alert_and_a_client_that_fell_silent_is_one_event() {
    let logs = tempfile::tempdir().unwrap();
    for (file, text) in story() {
        append(logs.path(), file, &text);
    }
    let (_, alerts) = scan(logs.path());
    let expected = told(&[("log-tampering", 1, false), ("unapproved-execution", 1, false)]);
    assert_eq!(rules(&alerts), expected);
    let alert = alerts.iter().find(|alert| alert["rule"] == "unapproved-execution").unwrap();
    assert_eq!(alert["calls"][0]["at"], "2026-11-20T08:10:00.000000Z");
    let silent = alerts.iter().find(|alert| alert["rule"] == "log-tampering").unwrap();
    assert_eq!(silent["group"]["actor"], CLIENT);
    assert_eq!(silent["calls"][0]["tool"], "log.witness-silent");
    assert_eq!(silent["calls"][0]["at"], "2026-11-21T08:20:00.000000Z");

    // The client's record of the morning comes late, and so does what it did on the second day.
    append(logs.path(), CLIENT, &line(CLIENT, 10, "delete_file", "10.txt"));
    append(logs.path(), CLIENT, &line(CLIENT, 1000, "list_dir", "1000.txt"));
    let (_, alerts) = scan(logs.path());
    let expected = told(&[("log-tampering", 1, false), ("unapproved-execution", 50, false)]);
    assert_eq!(rules(&alerts), expected);
    let late = alerts.iter().find(|alert| alert["rule"] == "log-tampering").unwrap();
    assert_eq!(late["calls"][0]["tool"], "log.time-back", "the log did not fall silent");
}

#[test]
fn lines_in_any_order_with_kills_give_what_one_pass_gives_and_late_ones_take_it_back() {
    let whole = tempfile::tempdir().unwrap();
    let story = story();
    for (file, text) in &story {
        append(whole.path(), file, text);
    }
    let (_, expected) = scan(whole.path());
    // One by one; the server's log first, then the client's; and the other way round.
    for order in 0..3 {
        let mut lines = story.clone();
        match order {
            1 => lines.sort_by_key(|(file, _)| *file == CLIENT),
            2 => lines.sort_by_key(|(file, _)| *file == SERVER),
            _ => {}
        }
        let home = tempfile::tempdir().unwrap();
        let logs = home.path().join("logs");
        fs::create_dir(&logs).unwrap();
        let mut daemon = Daemon::start(home.path(), &logs);
        for (number, (file, text)) in lines.iter().enumerate() {
            append(&logs, file, text);
            if number % 20 == 7 {
                daemon.await_count("select least(count(*), 1) from records", 1);
                daemon.kill();
                daemon = Daemon::start(home.path(), &logs);
            }
        }
        daemon.await_count("select count(*) from records", lines.len() as u64);
        let standing = |daemon: &Daemon| {
            let alerts = daemon.alerts().into_iter();
            alerts.filter(|alert| alert["retracted"].is_null()).collect::<Vec<_>>()
        };
        await_that("the alerts of one pass", || {
            alert_ids(&standing(&daemon)) == alert_ids(&expected)
        });
        let events = "select count(*) from ingest_events where event = 'witness-silent'";
        daemon.await_count(events, 1);

        append(&logs, CLIENT, &line(CLIENT, 10, "delete_file", "10.txt"));
        append(&logs, CLIENT, &line(CLIENT, 15, "list_dir", "15.txt"));
        await_that("that it is taken back", || {
            rules(&daemon.alerts()).contains(&("unapproved-execution".to_owned(), 1, true))
        });
        daemon.await_count(events, 1);
        assert!(daemon.stop().success());
    }
}
