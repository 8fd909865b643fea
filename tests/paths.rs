//! What the paths of logs name, from the configuration to the calls that people ask for.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::Daemon;

const CALLS: &str =
    "select stream, tenant, client, principal, actor, session from calls order by time";

fn configure(home: &Path, patterns: &str) {
    let folder = home.join("config/calltrail");
    fs::create_dir_all(&folder).unwrap();
    let text = format!("[tail]\npath_patterns = {patterns}\n");
    fs::write(folder.join("config.toml"), text).unwrap();
}

fn line(second: u32, more: &str) -> String {
    format!(
        "{{\"actor\":\"server\",\"tool\":\"read_file\",\"args\":{{\"n\":{second}}},\"outcome\":\"COMPLETED\",\
         \"request_id\":\"r{second}\",\"ts\":\"2026-11-20T08:00:{second:02}Z\"{more}}}\n"
    )
}

fn write(logs: &Path, file: &str, text: &str) {
    let path = logs.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Tenant, client, principal, actor and session of each call.
fn named(daemon: &Daemon) -> Vec<[Value; 5]> {
    let columns = ["tenant", "client", "principal", "actor", "session"];
    daemon.query(CALLS).iter().map(|row| columns.map(|column| row[column].clone())).collect()
}

#[test]
fn a_log_s_path_names_what_its_lines_do_not() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    configure(home.path(), r#"["{tenant}/{client}/*.jsonl", "people/{principal}.log"]"#);
    write(&logs, "acme/desk/audit.jsonl.1", &line(0, ""));
    write(&logs, "acme/desk/audit.jsonl", &line(1, r#","tenant":"globex","subject":"u-own""#));
    write(&logs, "people/u-ann.log", &line(2, ""));
    write(&logs, "-/<b>\u{202e}/audit.jsonl", &line(3, ""));
    write(&logs, "other.jsonl", &line(4, ""));
    let daemon = Daemon::start(home.path(), &logs);
    daemon.await_count("select count(*) from calls", 5);
    let stream = "acme/desk/audit.jsonl";
    let hostile = "-/<b>\u{202e}/audit.jsonl";
    let stored = [
        json!(["acme", "desk", null, "desk", stream]),
        json!(["globex", "desk", "u-own", "u-own", "u-own via desk"]),
        json!([null, null, "u-ann", "u-ann", "u-ann"]),
        json!([null, "<b>\u{202e}", null, "<b>\u{202e}", hostile]),
        json!([null, null, null, "other.jsonl", "other.jsonl"]),
    ];
    assert_eq!(json!(named(&daemon)), json!(stored));
    assert!(daemon.stop().success());

    // What is stored keeps what it has; what comes is named by the patterns in force.
    configure(home.path(), r#"["{client}/{principal}/*.jsonl"]"#);
    let more = [line(1, r#","tenant":"globex","subject":"u-own""#), line(5, "")];
    write(&logs, "acme/desk/audit.jsonl", &more.concat());
    let daemon = Daemon::start(home.path(), &logs);
    daemon.await_count("select count(*) from calls", 6);
    let mut all = stored.to_vec();
    all.push(json!([null, "acme", "desk", "desk", "desk via acme"]));
    assert_eq!(json!(named(&daemon)), json!(all));
}

#[test]
fn bad_patterns_are_told_with_every_other_problem() {
    let home = tempfile::tempdir().unwrap();
    configure(home.path(), "[\"{tenant}/{tenant}\", \"{ten}/x\"]\nscan_secs = 0");
    let done = crate::support::calltrail(home.path()).arg("check-config").output().unwrap();
    assert_eq!(done.status.code(), Some(78));
    let told = String::from_utf8(done.stderr).unwrap();
    for problem in ["{tenant} stands there twice", "{ten} is no placeholder", "0 is not between"] {
        assert!(told.contains(problem), "{told}");
    }
}
