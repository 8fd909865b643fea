//! The daemon against a folder that changes: rotation, kill -9, and the same alerts as one pass.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use calltrail::model::Micros;
use calltrail::simulate::{Scenario, SimEvent, Simulation};

use crate::support::{Daemon, alert_ids, await_that, scan};

/// A few hundred lines of every dialect with an attack of each kind.
fn lines() -> Vec<(String, String)> {
    let start = Micros::parse_rfc3339("2026-01-05T07:00:00Z").unwrap();
    let mut scenario = Scenario::new(7, start, 1500);
    scenario.attack_every = 100;
    Simulation::new(&scenario)
        .filter_map(|event| match event {
            SimEvent::Line(line) => Some((line.file.to_string(), line.text.clone())),
            _ => None,
        })
        .collect()
}

fn append(logs: &Path, file: &str, text: &str) {
    let path = logs.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Renames a log away, as logrotate does; the next line makes a new one.
fn rotate(logs: &Path, file: &str) {
    let path = logs.join(file);
    if path.exists() {
        fs::rename(&path, path.with_extension("jsonl.1")).unwrap();
    }
}

#[test]
fn lines_one_by_one_with_a_rotation_and_a_kill_give_the_alerts_of_one_pass() {
    let whole = tempfile::tempdir().unwrap();
    let lines = lines();
    for (file, text) in &lines {
        append(whole.path(), file, &format!("{text}\n"));
    }
    let (_, expected) = scan(whole.path());
    assert!(expected.len() >= 6, "the simulated attacks are found");

    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let mut daemon = Daemon::start(home.path(), &logs);
    for (number, (file, text)) in lines.iter().enumerate() {
        if number == lines.len() / 3 {
            rotate(&logs, file);
        }
        if number == lines.len() / 2 {
            // Half a line is on disk when the daemon dies, and the rest comes while it is down.
            let (half, rest) = text.split_at(text.len() / 2);
            append(&logs, file, half);
            daemon.await_count("select least(count(*), 1) from records", 1);
            daemon.kill();
            append(&logs, file, &format!("{rest}\n"));
            daemon = Daemon::start(home.path(), &logs);
            continue;
        }
        append(&logs, file, &format!("{text}\n"));
    }
    let all = "select (select count(*) from records) + (select count(*) from rejects)";
    daemon.await_count(all, lines.len() as u64);
    // Who is missed as a witness is judged behind the last line.
    await_that("the alerts of one pass", || alert_ids(&daemon.alerts()) == alert_ids(&expected));
    let twice = "select count(*) from (select generation, \"offset\" from records group by all having count(*) > 1)";
    daemon.await_count(twice, 0);
    assert!(daemon.stop().success());
}

#[test]
fn a_second_daemon_on_the_same_database_names_the_first() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let daemon = Daemon::start(home.path(), &logs);
    let second = daemon.ask(&["watch", "--listen", "127.0.0.1:0", logs.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(75));
    let message = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(message.contains(&format!("PID {}", daemon.pid())), "{message}");
}

#[test]
fn a_taken_port_is_told_with_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let done = crate::support::calltrail(home.path())
        .args(["watch", "--listen", &address])
        .arg(&logs)
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(75));
    assert!(String::from_utf8_lossy(&done.stderr).contains("--listen"));
}

#[test]
fn a_decision_outlives_a_kill() {
    let home = tempfile::tempdir().unwrap();
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/trifecta/logs");
    let daemon = Daemon::start(home.path(), &logs);
    await_that("the alert", || !daemon.alerts().is_empty());
    let id = daemon.alerts()[0]["alert_id"].as_str().unwrap().to_owned();
    let done = daemon.ask(&["alerts", "ack", &id, "--note", "looking", "--who", "nadia"]);
    assert!(done.status.success());
    daemon.kill();
    let daemon = Daemon::start(home.path(), &logs);
    let alerts = daemon.alerts();
    let alert = alerts.iter().find(|alert| alert["alert_id"] == *id).unwrap();
    assert_eq!(alert["status"], "acknowledged");
}
