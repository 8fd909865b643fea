//! `calltrail demo`: one command, and the attack is on the page.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{await_that, calltrail, json_lines};

#[test]
fn the_demo_raises_its_alerts_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let mut demo = calltrail(home.path())
        .args(["demo", "--listen", "127.0.0.1:0", "--speed", "30"])
        .env("TMPDIR", home.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(demo.stdout.take().unwrap()).lines();
    let link = stdout.next().expect("the demo ended before it was ready").unwrap();
    assert!(link.starts_with("Dashboard: http://127.0.0.1:"), "{link}");
    let folder = home.path().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let folder = folder.into_iter().find(|path| path.join("logs").exists()).unwrap();
    let database = folder.join("state/demo.duckdb");
    let rules = || {
        let list = calltrail(home.path())
            .args(["alerts", "list", "--output", "json", "--db"])
            .arg(&database)
            .output()
            .unwrap();
        let mut rules: Vec<String> =
            json_lines(&list).iter().map(|alert| alert["rule"].as_str().unwrap().into()).collect();
        rules.sort();
        rules
    };
    let told = [
        "call-burst",
        "denials-then-success",
        "first-cross-tenant",
        "policy-bypass",
        "trifecta-session",
        "trifecta-signature",
    ];
    await_that("the story's alerts", || rules() == told);
    let pid = demo.id().to_string();
    let stopped = std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(stopped.success());
    assert!(demo.wait().unwrap().success());
    assert!(!folder.exists(), "the demo's folder is gone");
}
