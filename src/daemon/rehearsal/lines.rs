//! Cases of lines: what is tried with the calls that are made of them, and what is told where one fails.

use std::sync::Arc;

use super::read_logs;
use crate::detect::{RuleSet, TestResult, run_tests};

const RULE: &str =
    "title: t\nlogsource: {product: mcp}\ndetection: {s: {outcome: ok}, condition: s}\ntests:\n";
const LINE: &str =
    r#"{"caller":"u","tool":"list_dir","outcome":"ok","duration_ms":1,"time":1795161600}"#;

fn tested(cases: &str) -> Vec<TestResult> {
    let text = format!("{RULE}{cases}");
    let rules = RuleSet::compile(&[("x.yml", &text)]).unwrap();
    run_tests(&Arc::new(rules), &read_logs)
}

#[test]
fn a_text_of_lines_and_a_list_of_them_are_the_same() {
    let fires = "  fires: [{group: {actor: u}, lines: [0]}]";
    for lines in [
        format!("|\n    {LINE}"),
        format!("['{LINE}']"),
        format!("\n  - '{LINE}'"),
        format!("\n  - |\n    {LINE}"),
        format!("\n  - >-\n    {}", LINE.replace(',', ",\n    ")),
        format!("\n  - log: a\n    lines: |\n      {LINE}"),
        format!("\n  - log: a\n    dialect: gate\n    lines: ['{LINE}']"),
    ] {
        let results = tested(&format!("- name: a\n  dialect: gate\n{fires}\n  lines: {lines}\n"));
        assert_eq!(results[0].failure, None, "{lines}");
        assert!(results.len() >= 4, "{results:?}");
    }
}

#[test]
fn a_case_fails_with_what_its_lines_are_or_why_they_are_none() {
    let of = |lines: &str, fires: &str| {
        let results =
            tested(&format!("- {{name: a, dialect: gate, lines: [{lines}], fires: {fires}}}\n"));
        (results.len(), results[0].failure.clone().unwrap())
    };
    let (count, told) = of("'{}', 'x'", "false");
    assert_eq!(count, 1, "there is nothing to vary");
    assert!(
        told.starts_with("line 0 cannot be read: ") && told.contains("; line 1 cannot"),
        "{told}"
    );
    let told = of(&format!("'{LINE}'"), "false").1;
    assert_eq!(
        told,
        "gave {group: {actor: u}, lines: [0], matches: 1}; of the lines 0 is list_dir ok, ran yes"
    );
    let failed = LINE.replace("\"ok\"", "\"error\"");
    let told = of(&format!("'{failed}', ' '"), "[{lines: [0]}]").1;
    let expected =
        "gave nothing; of the lines 0 is list_dir error, ran maybe; 1 is part of no call";
    assert_eq!(told, expected);
    let blank = "' ',".repeat(11);
    let told = of(&format!("{blank} '{failed}'"), "[{lines: [0]}]").1;
    let expected = "0, 1, 2, 3, 4, 5, 6, 7 and 3 more are part of no call";
    assert!(told.ends_with(expected), "{told}");
    // A line that tells of none of the calls names none.
    let told = of(&format!("'{LINE}', '{failed}'"), "[{lines: [0, 1]}]").1;
    assert!(
        told.starts_with("gave {group: {actor: u}, lines: [0], matches: 1}; of the lines "),
        "{told}"
    );
}

#[test]
fn a_case_of_lines_without_a_call_fails_whatever_it_expects() {
    let proxied = |direction: &str, said: &str| {
        format!(
            r#"{{"ts":1795161600,"direction":"{direction}","message":{{"jsonrpc":"2.0",{said}}}}}"#
        )
    };
    let answer = proxied("server->client", r#""id":1,"result":{}"#);
    let notice = proxied("client->server", r#""method":"notifications/x""#);
    let context =
        r#"{"actor":"server","outcome":"success","subject":"u","ts":"2026-11-20T08:00:00Z"}"#;
    // A time that goes back is an event of the log, which a rule about calls does not see.
    let back = format!("{context}','{}", context.replace("08:00", "07:00"));
    for (dialect, lines) in [
        ("gate", " "),
        ("stdio-proxy", &answer),
        ("stdio-proxy", &notice),
        ("two-sided", context),
        ("two-sided", &back),
    ] {
        for fires in ["false", "[{lines: [0]}]"] {
            let results = tested(&format!(
                "- {{name: a, dialect: {dialect}, lines: ['{lines}'], fires: {fires}}}\n"
            ));
            let told = results[0].failure.clone().unwrap_or_default();
            assert!(told.starts_with("no call comes of these lines"), "{lines}: {told}");
            assert_eq!(results.len(), 1);
        }
    }
    let ingest = RULE.replace("outcome: ok", "kind: ingest, code: time-back");
    let text = format!(
        "{ingest}- {{name: a, dialect: two-sided, lines: ['{back}'], fires: [{{lines: [1]}}]}}\n"
    );
    let rules = RuleSet::compile(&[("x.yml", &text)]).unwrap();
    assert_eq!(run_tests(&Arc::new(rules), &read_logs)[0].failure, None);
}

#[test]
fn each_alert_has_to_be_meant_by_a_firing_of_its_own() {
    let line = |actor: &str, who: &str, word: &str, at: u32| {
        format!(
            "'{{\"actor\":\"{actor}\",\"tool\":\"list_dir\",\"args\":{{\"n\":{at}}},\"outcome\":\"{word}\",\
             \"subject\":\"{who}\",\"ts\":\"2026-11-20T08:00:{at:02}Z\"}}'"
        )
    };
    let (client, server) =
        (line("client", "ann", "COMPLETED", 0), line("server", "ann", "success", 0));
    let other = line("server", "bob", "success", 30);
    let told = |fires: &str| {
        let results = tested(&format!(
            "- name: a\n  dialect: two-sided\n  fires: [{fires}]\n  lines:\n  - {{log: c, lines: [{client}]}}\n\
             \x20 - {{log: s, lines: [{server}, {other}]}}\n"
        ));
        results[0].failure.clone()
    };
    assert_eq!(told("{lines: [0]}, {lines: [2]}"), None);
    assert_eq!(told("{lines: [2]}, {lines: [0, 1]}"), None);
    let twice = told("{lines: [0]}, {lines: [1]}").unwrap();
    assert!(twice.contains("several mean one alert"), "{twice}");
    let one = told("{lines: [0]}").unwrap();
    assert!(!one.contains("several mean"), "{one}");
}

#[test]
fn any_line_of_a_call_names_it_and_all_calls_have_to_be_named() {
    let two = |at: u32| {
        let said = |actor: &str, word: &str| {
            format!(
                "'{{\"actor\":\"{actor}\",\"tool\":\"list_dir\",\"args\":{{\"n\":{at}}},\"outcome\":\"{word}\",\
                 \"subject\":\"u\",\"ts\":\"2026-11-20T08:00:{at:02}Z\"}}'"
            )
        };
        (said("client", "COMPLETED"), said("server", "success"))
    };
    let ((c0, s0), (c1, s1)) = (two(0), two(30));
    for (named, is_right) in [
        ("0, 1", true),
        ("0, 3", true),
        ("2, 1", true),
        ("0-3", true),
        ("0, 2", false),
        ("1", false),
    ] {
        let results = tested(&format!(
            "- name: a\n  dialect: two-sided\n  fires: [{{lines: [{named}]}}]\n  lines:\n\
             \x20 - {{log: c, lines: [{c0}, {c1}]}}\n  - {{log: s, lines: [{s0}, {s1}]}}\n"
        ));
        let failure = &results[0].failure;
        assert_eq!(failure.is_none(), is_right, "{named}: {failure:?}");
        if let Some(told) = failure {
            assert!(told.contains("lines: [0+2, 1+3]"), "{told}");
        }
    }
}
