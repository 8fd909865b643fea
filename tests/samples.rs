//! Small logs with the alerts they must raise: read as they are, and with their files fed in any order.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{alert_ids, scan};

#[test]
fn each_sample_raises_what_it_must_and_nothing_else() {
    for case in cases() {
        let (code, alerts) = scan(&case.join("logs"));
        let expected: Value =
            serde_json::from_str(&std::fs::read_to_string(case.join("expect.json")).unwrap())
                .unwrap();
        let expected: BTreeSet<String> = expected["alerts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|alert| describe_expected(alert, &alerts))
            .collect();
        let found: BTreeSet<String> = alerts.iter().map(describe).collect();
        assert_eq!(found, expected, "{}", case.display());
        let is_damaged = case.ends_with("damaged");
        assert_eq!(code, if is_damaged { 2 } else { 0 }, "{}", case.display());
    }
}

#[test]
fn files_that_come_one_by_one_in_any_order_raise_the_same() {
    for case in cases() {
        let logs = case.join("logs");
        let files = files_below(&logs);
        if files.len() < 2 {
            continue;
        }
        let (_, whole) = scan(&logs);
        for reversed in [false, true] {
            let mut files = files.clone();
            if reversed {
                files.reverse();
            }
            let home = tempfile::tempdir().unwrap();
            let partial = home.path().join("logs");
            for file in files {
                let target = partial.join(file.strip_prefix(&logs).unwrap());
                std::fs::create_dir_all(target.parent().unwrap()).unwrap();
                std::fs::copy(&file, target).unwrap();
                let done = crate::support::calltrail(home.path())
                    .args(["scan", "--db"])
                    .arg(home.path().join("kept.duckdb"))
                    .arg(&partial)
                    .output()
                    .unwrap();
                assert!(done.status.success());
            }
            let kept = crate::support::calltrail(home.path())
                .args(["alerts", "list", "--output", "json", "--db"])
                .arg(home.path().join("kept.duckdb"))
                .output()
                .unwrap();
            let kept = crate::support::json_lines(&kept);
            assert_eq!(alert_ids(&kept), alert_ids(&whole), "{}", case.display());
        }
    }
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 8);
    cases
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// An alert as the samples name them: its rule, principal and tenant, and the tools of its calls in order.
fn describe(alert: &Value) -> String {
    let calls = alert["calls"].as_array().unwrap();
    let tools: Vec<&str> = calls.iter().filter_map(|call| call["tool"].as_str()).collect();
    let last = calls.last().unwrap();
    format!("{} {} {} {tools:?}", alert["rule"], last["principal"], last["tenant"])
}

/// The same of an expectation; what it does not name is taken from the alert of its rule.
fn describe_expected(expected: &Value, found: &[Value]) -> String {
    let alert = found.iter().find(|alert| alert["rule"] == expected["rule"]);
    let Some(mut alert) = alert.cloned() else { return format!("missing: {expected}") };
    let calls = alert["calls"].as_array_mut().unwrap();
    let last = calls.last_mut().unwrap();
    for field in ["principal", "tenant"] {
        if !expected[field].is_null() {
            last[field] = expected[field].clone();
        }
    }
    let mut text = describe(&alert);
    if let Some(tools) = expected["tools"].as_array() {
        let tools: Vec<&str> = tools.iter().filter_map(Value::as_str).collect();
        let calls = alert["calls"].as_array().unwrap();
        let last = calls.last().unwrap();
        text = format!("{} {} {} {tools:?}", alert["rule"], last["principal"], last["tenant"]);
    }
    text
}
