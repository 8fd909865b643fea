//! A session is one session, whatever its calls' logs, their rotations and the daemon's restarts.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Daemon, calltrail, json_lines};

const SESSIONS: &str =
    "select session_id, session, actor, calls, ran, denied, failed, first_at::varchar as first_at,
    last_at::varchar as last_at from sessions order by session, first_at";

/// One line of a server's log, a call of the session `s-1`.
fn line(at: &str, tool: &str, outcome: &str) -> String {
    let call = json!({"ts": format!("2026-11-20T{at}Z"), "subject": "u-eng", "client_id": "desk", "session": "s-1",
        "tool": tool, "params": {}, "outcome": outcome});
    format!("{call}\n")
}

/// One line of a client's log, of a call that takes its time.
fn step(at: &str, outcome: &str) -> String {
    let step = json!({"ts": format!("2026-11-20T{at}Z"), "actor": "client", "subject": "u-eng", "session": "s-1",
        "tool": "long_job", "args": {}, "request_id": "r-1", "outcome": outcome});
    format!("{step}\n")
}

fn append(logs: &Path, file: &str, lines: &[String]) {
    let path = logs.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(lines.concat().as_bytes()).unwrap();
}

/// What is there when the daemon starts, what comes after a rotation, and what comes while it is down.
fn write(logs: &Path, part: usize) {
    match part {
        0 => {
            // The first instant is in both logs, and twice in one.
            let first = [line("08:00:00", "read_file", "ok"), line("08:00:00", "list_dir", "ok")];
            append(logs, "files/audit.jsonl", &first);
            append(logs, "tickets/audit.jsonl", &[line("08:00:00", "get_ticket", "denied")]);
            append(logs, "tickets/audit.jsonl", &[line("08:20:00", "get_ticket", "ok")]);
        }
        1 => {
            fs::rename(logs.join("files/audit.jsonl"), logs.join("files/audit.jsonl.1")).unwrap();
            append(logs, "files/audit.jsonl", &[line("08:50:00", "read_file", "error")]);
        }
        _ => {
            // A moment longer than half an hour: another session. Its call lasts as long, and the next follows it.
            append(
                logs,
                "client/audit.jsonl",
                &[step("09:20:01", "APPROVED"), step("10:00:00", "COMPLETED")],
            );
            append(logs, "tickets/audit.jsonl", &[line("10:29:00", "get_ticket", "ok")]);
            append(logs, "files/audit.jsonl", &[line("11:30:00", "read_file", "ok")]);
        }
    }
}

fn told(rows: &[Value]) -> Vec<[Value; 6]> {
    let columns = ["calls", "ran", "denied", "failed", "first_at", "last_at"];
    rows.iter().map(|row| columns.map(|column| row[column].clone())).collect()
}

#[test]
fn servers_rotations_and_restarts_do_not_divide_a_session() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    write(&logs, 0);
    let daemon = Daemon::start(home.path(), &logs);
    daemon.await_count("select count(*) from records", 4);
    write(&logs, 1);
    daemon.await_count("select count(*) from records", 5);
    daemon.kill();
    write(&logs, 2);
    let daemon = Daemon::start(home.path(), &logs);
    daemon.await_count("select count(*) from records", 9);
    let watched = daemon.query(SESSIONS);
    let day = |time: &str| json!(format!("2026-11-20 {time}"));
    assert_eq!(
        told(&watched),
        [
            [json!(5), json!(4), json!(1), json!(1), day("08:00:00"), day("08:50:00")],
            [json!(2), json!(2), json!(0), json!(0), day("09:20:01"), day("10:29:00")],
            [json!(1), json!(1), json!(0), json!(0), day("11:30:00"), day("11:30:00")],
        ]
    );
    assert!(watched.iter().all(|row| row["session"] == "s-1" && row["actor"] == "u-eng"));

    let database = home.path().join("scan.duckdb");
    let done =
        calltrail(home.path()).args(["scan", "--db"]).arg(&database).arg(&logs).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    let asked = ["query", "--output", "json", SESSIONS, "--db"];
    let scanned = calltrail(home.path()).args(asked).arg(&database).output().unwrap();
    assert_eq!(json_lines(&scanned), watched, "one pass tells the same, ids among it");
}

#[test]
fn its_page_is_found_from_any_of_its_calls() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    for part in 0..3 {
        write(&logs, part);
    }
    let daemon = Daemon::start(home.path(), &logs);
    daemon.await_count("select count(*) from records", 9);
    let sessions = daemon.query(SESSIONS);
    for row in daemon.query("select call_id, time::varchar as time from calls order by time") {
        let time = row["time"].as_str().unwrap();
        let is_in = |session: &&Value| {
            session["first_at"].as_str() <= Some(time) && Some(time) <= session["last_at"].as_str()
        };
        let session = sessions.iter().find(is_in).unwrap()["session_id"].as_str().unwrap();
        let call = row["call_id"].as_str().unwrap();
        let answer = crate::support::page(&daemon.link, &format!("/sessions/of/{call}"));
        let address = format!("location: /sessions/{session}?call={call}\r\n");
        assert!(answer.contains(&address), "{time}: {answer}");
        let page = crate::support::page(&daemon.link, &format!("/sessions/{session}?call={call}"));
        assert!(page.contains(&format!("href=\"/calls/{call}\"")), "{time}");
    }
}
