//! What goes wrong outside: a clear message that says what to do, the right exit code, nothing lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Daemon, calltrail, json_lines};

const LINE: &str = "{\"ts\":\"2026-11-20T08:00:00Z\",\"subject\":\"u-a\",\"tenant\":\"acme\",\
                    \"tool\":\"get_ticket\",\"params\":{},\"dropped\":[],\"outcome\":\"ok\"}\n";

#[test]
fn a_wrong_command_line_is_64() {
    let home = tempfile::tempdir().unwrap();
    for arguments in
        [&["scan"][..], &["frobnicate"], &["scan", "--fail-on", "bad", "."], &["watch"]]
    {
        let done = calltrail(home.path()).args(arguments).output().unwrap();
        expect(&done, 64, "");
    }
}

#[test]
fn missing_folders_are_all_named() {
    let home = tempfile::tempdir().unwrap();
    let done = calltrail(home.path()).args(["scan", "/no/such", "/nor/this"]).output().unwrap();
    expect(&done, 66, "/no/such");
    expect(&done, 66, "/nor/this");
    let done = calltrail(home.path()).args(["watch", "/no/such"]).output().unwrap();
    expect(&done, 66, "/no/such");
}

#[test]
fn a_folder_without_logs_is_no_input() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let done = calltrail(home.path()).arg("scan").arg(&logs).output().unwrap();
    expect(&done, 66, "no log files");
}

#[test]
fn a_wrong_configuration_tells_every_problem_with_its_line() {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("calltrail.toml");
    fs::write(&config, "[web]\nlisten = \"8.8.8.8:80\"\n[tail]\nscan_sec = 3\n").unwrap();
    for command in [&["check-config"][..], &["watch", "."]] {
        let done =
            calltrail(home.path()).args(command).arg("--config").arg(&config).output().unwrap();
        expect(&done, 78, "calltrail.toml:2:");
        expect(&done, 78, "scan_secs");
    }
}

#[test]
fn wrong_rules_are_refused_with_their_line() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("mine.yml"), "title: Mine\ndetection:\n  selection:\n    tol: x\n")
        .unwrap();
    let check = calltrail(home.path()).args(["rules", "check"]).arg(home.path()).output().unwrap();
    expect(&check, 65, "");
    assert!(String::from_utf8_lossy(&check.stdout).contains("mine.yml:"));
    let scan =
        calltrail(home.path()).args(["scan", ".", "--rules"]).arg(home.path()).output().unwrap();
    expect(&scan, 65, "mine.yml:");
}

#[test]
fn an_unreadable_file_makes_the_result_partial_and_is_read_once_it_can_be() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    fs::write(logs.join("open.jsonl"), LINE).unwrap();
    let closed = logs.join("closed.jsonl");
    fs::write(&closed, LINE.replace("u-a", "u-b")).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let database = home.path().join("kept.duckdb");
    let scan =
        || as_nobody(home.path(), &["scan", "--output", "json", "--db"], &[&database, &logs]);
    let Some(done) = scan() else { return };
    expect(&done, 2, "closed.jsonl");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o644)).unwrap();
    expect(&scan().unwrap(), 0, "");
    let query = ["query", "--output", "json", "select count(*) as n from records", "--db"];
    let rows = json_lines(&as_nobody(home.path(), &query, &[&database]).unwrap());
    assert_eq!(rows[0]["n"], 2);
}

#[test]
fn a_query_can_only_read() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    fs::write(logs.join("audit.jsonl"), LINE).unwrap();
    let daemon = Daemon::start(home.path(), &logs);
    daemon.await_count("select count(*) from records", 1);
    for sql in [
        "delete from record_log",
        "create table mine (a int)",
        "copy record_log to '/tmp/stolen.csv'",
        "select * from read_text('/etc/hostname')",
        "attach '/tmp/other.duckdb'",
        "select 1; delete from record_log",
        "commit; delete from record_log",
    ] {
        let done = daemon.ask(&["query", sql]);
        assert_eq!(done.status.code(), Some(65), "{sql}");
    }
    let slow = "select count(*) from range(100000000) a, range(100000000) b";
    expect(&daemon.ask(&["query", "--seconds", "1", slow]), 65, "longer than 1 s");
    daemon.await_count("select count(*) from records", 1);
}

#[test]
fn alerts_that_are_not_there_are_told_apart_from_wrong_ids() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let daemon = Daemon::start(home.path(), &logs);
    expect(&daemon.ask(&["alerts", "show", &"0".repeat(32)]), 66, "no alert has the id");
    expect(&daemon.ask(&["alerts", "show", "nonsense"]), 64, "32 hexadecimal digits");
    let nothing = "0".repeat(32);
    expect(&daemon.ask(&["alerts", "ack", &nothing]), 66, "no alert has the id");
    expect(&daemon.ask(&["alerts", "reopen", &nothing]), 66, "no alert has the id");
    let close = ["alerts", "close", &nothing, "--reason", "benign"];
    expect(&daemon.ask(&close), 66, "no alert has the id");
    expect(&daemon.ask(&["alerts", "show", "abcd"]), 66, "begins with abcd");
    let listed = daemon.ask(&["alerts", "list"]);
    expect(&listed, 0, "no alerts");
    assert!(listed.stdout.is_empty());
}

#[test]
fn decisions_say_what_they_did_and_undo_no_closing_unasked() {
    let home = tempfile::tempdir().unwrap();
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/trifecta/logs");
    let database = home.path().join("kept.duckdb");
    let run = |arguments: &[&str]| {
        calltrail(home.path())
            .env("USER", "nadia")
            .args(arguments)
            .arg("--db")
            .arg(&database)
            .output()
            .unwrap()
    };
    let scan = ["scan", logs.to_str().unwrap(), "--fail-on", "low"];
    let scanned = run(&scan);
    expect(&scanned, 1, "");
    let summary = String::from_utf8_lossy(&scanned.stdout).into_owned();
    assert!(summary.contains("The database now holds"), "{summary}");
    let alerts = json_lines(&run(&["alerts", "list", "--output", "json"]));
    let id = alerts[0]["alert_id"].as_str().unwrap();
    let said = |done: &Output| String::from_utf8_lossy(&done.stdout).into_owned();

    let address = format!("http://127.0.0.1:7700/incidents/{id}?level=high");
    assert_eq!(said(&run(&["alerts", "ack", &address])), format!("{id} acknowledged by nadia\n"));
    let again = run(&["alerts", "ack", id.get(..12).unwrap(), "--output", "json"]);
    assert_eq!(json_lines(&again)[0]["repeated"], true);
    for alert in &alerts {
        let id = alert["alert_id"].as_str().unwrap();
        let close = ["alerts", "close", id, "--reason", "false-positive", "--note", "a drill"];
        assert!(said(&run(&close)).starts_with(&format!("{id} closed as false-positive by nadia")));
    }
    expect(&run(&["alerts", "ack", id]), 65, "alerts reopen");
    // What is closed makes no pass fail.
    expect(&run(&scan), 0, "");
    let shown = json_lines(&run(&["alerts", "show", id, "--output", "json"]));
    assert_eq!(shown[0]["history"].as_array().unwrap().len(), 3);
    assert_eq!(shown[0]["history"][2]["note"], "a drill");
    assert!(
        said(&run(&["alerts", "show", id])).contains("closed as false-positive by nadia: a drill")
    );
    assert_eq!(said(&run(&["alerts", "reopen", id])), format!("{id} reopened by nadia\n"));
}

#[test]
fn a_later_pass_tells_of_its_own_bad_lines() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let scan = || {
        let database = home.path().join("kept.duckdb");
        calltrail(home.path()).arg("scan").arg(&logs).arg("--db").arg(database).output().unwrap()
    };
    fs::write(logs.join("a.jsonl"), format!("{LINE}broken\n")).unwrap();
    expect(&scan(), 2, "1 line could not be read:\ncalltrail: ");
    fs::write(logs.join("b.jsonl"), format!("{LINE}broken\n").replace("u-a", "u-b")).unwrap();
    let later = scan();
    expect(&later, 2, "b.jsonl at byte");
    assert!(!String::from_utf8_lossy(&later.stderr).contains("a.jsonl"));
    assert!(String::from_utf8_lossy(&later.stdout).contains("1 new record in this pass"));
}

#[test]
fn values_that_are_wrong_are_told_which_are_right() {
    let home = tempfile::tempdir().unwrap();
    let id = "0".repeat(32);
    for (arguments, words) in [
        (&["scan", ".", "--fail-on", "bad"][..], "one of: informational, low"),
        (&["alerts", "list", "--status", "bad"], "one of: open, acknowledged, closed"),
        (&["alerts", "close", &id, "--reason", "bad"], "one of: true-positive, false-positive"),
        (&["alerts", "list", "--since", "bad"], "24h"),
        (&["query", " ; "], "the statement is empty"),
    ] {
        expect(&calltrail(home.path()).args(arguments).output().unwrap(), 64, words);
    }
}

#[test]
fn a_folder_without_rules_is_no_input_and_a_pipe_is_told() {
    let home = tempfile::tempdir().unwrap();
    let check = || calltrail(home.path()).args(["rules", "check"]).arg(home.path()).output();
    expect(&check().unwrap(), 66, "no rule files");
    let pipe = home.path().join("pipe.yml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let checked = check().unwrap();
    expect(&checked, 65, "1 problem");
    let told = String::from_utf8_lossy(&checked.stdout);
    assert!(told.starts_with("pipe.yml:1:1: this is a pipe"), "{told}");
}

#[test]
fn every_byte_of_bad_lines_is_accounted_for() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let line = LINE.trim_end();
    let (half, _) = line.split_at(line.len() / 2);
    let deep = "[".repeat(100_000);
    let parts: [&[&[u8]]; 12] = [
        &[b"\xef\xbb\xbf", line.as_bytes(), b"\r\n"],
        &[line.as_bytes(), b"\n", line.as_bytes(), b"\n"],
        &[half.as_bytes(), line.as_bytes(), b"\n"],
        &[half.as_bytes(), b"\0\0", line.as_bytes(), half.as_bytes(), b"\n"],
        &[line.as_bytes(), b" ", line.as_bytes(), b",\n"],
        &[b"[", line.as_bytes(), b",", line.as_bytes(), b"]\n"],
        &[b"\0\0\0", line.as_bytes(), b"\0\0\n"],
        &[b"\xff\xfe\n \t\n\n"],
        &[&line.as_bytes()[..line.len() - 3], b"\xe9\"}\n"],
        &[line.as_bytes(), b" and \xff\n"],
        &[deep.as_bytes(), b"\n"],
        &[line.as_bytes(), b"\n"],
    ];
    let bytes: Vec<u8> = parts.into_iter().flatten().flat_map(|part| part.to_vec()).collect();
    fs::write(logs.join("a.jsonl"), &bytes).unwrap();
    let database = home.path().join("kept.duckdb");
    let run = |arguments: &[&str]| {
        calltrail(home.path()).args(arguments).arg("--db").arg(&database).output().unwrap()
    };
    // A second pass finds nothing new.
    for code in [2, 0] {
        expect(&run(&["scan", logs.to_str().unwrap()]), code, "");
        let rows = json_lines(&run(&[
            "query",
            "--output",
            "json",
            "select 'record' as what, \"offset\" as start, length from records union all
             select 'reject', \"offset\", length from rejects union all
             select 'gap', \"offset\", length from gap_log order by start",
        ]));
        let mut end = 0;
        for row in &rows {
            let (start, length) = (row["start"].as_u64(), row["length"].as_u64());
            assert_eq!(start, Some(end), "a hole or an overlap: {rows:?}");
            end += length.unwrap();
        }
        assert_eq!(end, bytes.len() as u64);
        let count = |what| rows.iter().filter(|row| row["what"] == what).count();
        assert_eq!((count("record"), count("reject")), (13, 6), "{rows:?}");
    }
}

#[test]
fn what_is_named_like_a_log_and_is_none_holds_up_nothing() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir_all(logs.join("folder.jsonl")).unwrap();
    fs::write(logs.join("folder.jsonl/inside.jsonl"), LINE).unwrap();
    fs::write(logs.join("a.jsonl"), LINE.replace("u-a", "u-b")).unwrap();
    assert!(Command::new("mkfifo").arg(logs.join("pipe.jsonl")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(logs.join("socket.jsonl")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", logs.join("device.jsonl")).unwrap();
    let scan = calltrail(home.path()).arg("scan").arg(&logs).output().unwrap();
    for name in ["pipe.jsonl", "socket.jsonl", "device.jsonl"] {
        expect(&scan, 2, name);
    }
    assert!(String::from_utf8_lossy(&scan.stdout).contains("2 records"), "{scan:?}");
}

#[test]
fn hostile_file_names_are_read_and_shown_escaped() {
    use std::os::unix::ffi::OsStrExt;
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let long = format!("{}.jsonl", "n".repeat(249));
    for name in [&b"caf\xe9\n\x1b[31m<b>.jsonl"[..], long.as_bytes()] {
        let path = logs.join(std::ffi::OsStr::from_bytes(name));
        fs::write(path, format!("{LINE}broken {}\n", name.len())).unwrap();
    }
    let scan = calltrail(home.path()).arg("scan").arg(&logs).output().unwrap();
    expect(&scan, 2, "2 lines could not be read");
    expect(&scan, 2, &long);
    let stderr = String::from_utf8_lossy(&scan.stderr).into_owned();
    assert!(!stderr.contains('\u{1b}') && !stderr.contains("\n\u{1b}"), "{stderr}");
    assert!(stderr.contains("caf\u{fffd}\\n") || stderr.contains("caf\u{fffd}\\u{a}"), "{stderr}");
}

fn expect(done: &Output, code: i32, message: &str) {
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(message), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

/// Runs as a user without rights, for nothing is closed to root. None where that cannot be done.
fn as_nobody(home: &Path, arguments: &[&str], paths: &[&Path]) -> Option<Output> {
    let id = Command::new("id").arg("-u").output().ok()?;
    let is_root = id.stdout.starts_with(b"0\n");
    let mut command = if is_root {
        fs::set_permissions(home, fs::Permissions::from_mode(0o777)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        // The built program may lie where only root can look: a copy lies open.
        let copy = home.join("calltrail");
        if !copy.exists() {
            fs::copy(env!("CARGO_BIN_EXE_calltrail"), &copy).unwrap();
            let library = option_env!("DUCKDB_LIB_DIR").unwrap_or("target/libduckdb");
            let library = Path::new(env!("CARGO_MANIFEST_DIR")).join(library);
            fs::copy(library.join("libduckdb.so"), home.join("libduckdb.so")).unwrap();
        }
        command.arg(copy).env("LD_LIBRARY_PATH", home);
        command
    } else {
        Command::new(env!("CARGO_BIN_EXE_calltrail"))
    };
    command.env("HOME", home).args(arguments).args(paths).output().ok()
}
