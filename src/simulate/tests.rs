//! The generator as a whole: the same bytes for the same seed, lines that fit their dialects, and a
//! truth that is exact: honest work sets off no rule, and every attack sets off its own.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::*;
use crate::catalogue::Catalogue;
use crate::model::{Labels, Micros, OutcomeClass, Tri};

fn scenario(seed: u64, calls: u64) -> Scenario {
    Scenario::new(seed, Micros::parse_rfc3339("2026-03-02T08:00:00Z").unwrap(), calls)
}

#[derive(Default)]
struct Output {
    lines: Vec<SimLine>,
    calls: Vec<CallTruth>,
    alerts: Vec<AlertTruth>,
}

fn run(scenario: &Scenario) -> Output {
    let mut output = Output::default();
    for event in Simulation::new(scenario) {
        match event {
            SimEvent::Line(line) => output.lines.push(line),
            SimEvent::Call(call) => output.calls.push(call),
            SimEvent::Alert(alert) => output.alerts.push(alert),
        }
    }
    output
}

fn fingerprint(scenario: &Scenario) -> String {
    let mut hasher = blake3::Hasher::new();
    for event in Simulation::new(scenario) {
        if let SimEvent::Line(line) = event {
            hasher.update(&line.at_write.0.to_le_bytes());
            hasher.update(line.file.as_bytes());
            hasher.update(line.text.as_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

#[test]
fn the_same_seed_gives_the_same_bytes_for_good() {
    // Changes only with a change of what is generated; then the new value is right.
    assert_eq!(
        fingerprint(&scenario(7, 3_000)),
        "0727e1307ca9c22b686e2b682874bac113b12a575bfc7b9036debfe7b0152627"
    );
    assert_ne!(fingerprint(&scenario(7, 500)), fingerprint(&scenario(8, 500)));
}

#[test]
fn every_line_fits_its_dialect() {
    let output = run(&scenario(3, 6_000));
    let mut seen = BTreeSet::new();
    for line in &output.lines {
        let value: Value = serde_json::from_str(&line.text).unwrap();
        let keys: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let (needed, allowed): (&[&str], &[&str]) = match line.file.split('/').next().unwrap() {
            "tickets" => (
                &["ts", "subject", "client_id", "tenant", "tool", "params", "dropped", "outcome"],
                &["session"],
            ),
            "gate" => {
                (&["time", "request_id", "caller", "tool", "outcome", "duration_ms", "flags"], &[])
            }
            desk if desk.starts_with("desk") => (
                &["ts", "actor", "tool", "args", "outcome"],
                &["detail", "request_id", "user", "session"],
            ),
            _ => (
                &["ts", "direction"],
                &["decision", "method", "tool", "args", "raw", "parse_error"],
            ),
        };
        assert!(needed.iter().all(|key| keys.contains(key)), "{}", line.text);
        let is_known = |key: &&str| needed.contains(key) || allowed.contains(key);
        assert!(keys.iter().all(is_known), "{}", line.text);
        for key in ["outcome", "decision", "direction"] {
            seen.extend(value.get(key).and_then(Value::as_str).map(str::to_string));
        }
    }
    for word in [
        "ASK",
        "ALLOWED",
        "DENIED",
        "INPUT ACCEPTED",
        "INPUT DECLINED",
        "COMPLETED",
        "FAILED",
        "success",
        "cancelled",
        "error",
        "ok",
        "timeout",
        "rate_limited",
        "forbidden_task",
        "deny",
        "definition_changed",
        "allow",
        "server->client",
    ] {
        assert!(seen.contains(word), "no line says {word}");
    }
}

#[test]
fn the_truth_accounts_for_every_line() {
    let output = run(&scenario(4, 6_000));
    assert!(output.lines.is_sorted_by_key(|line| line.at_write));
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut texts = BTreeMap::new();
    for line in &output.lines {
        let count = counts.entry(&line.file).or_default();
        *count += 1;
        texts.insert((&*line.file, *count), &line.text);
    }
    let numbers: BTreeSet<u64> = output.calls.iter().map(|call| call.call).collect();
    assert_eq!(numbers, (1..=6_000).collect());
    for call in &output.calls {
        assert!(!call.records.is_empty(), "{call:?}");
        for record in &call.records {
            let text = texts.remove(&(&*record.file, record.line)).expect("each line once");
            let is_reply = text.contains("server->client");
            assert!(is_reply || text.contains(&format!("\"tool\":\"{}\"", call.tool)), "{text}");
        }
    }
    // What is left belongs to no call: the proxies' handshakes and notifications.
    assert!(texts.keys().all(|(file, _)| file.starts_with("proxy-")));
    assert!(texts.values().all(|text| !text.contains("\"tools/call\"") && !text.contains("deny")));
}

#[test]
fn no_call_of_one_log_can_be_taken_for_one_of_another() {
    let mut logs: FxHashMap<&str, BTreeSet<String>> = FxHashMap::default();
    let output = run(&scenario(5, 4_000));
    for call in &output.calls {
        let log = call.records[0].file.split(['/', '-']).next().unwrap();
        logs.entry(call.tool).or_default().insert(log.to_string());
    }
    assert!(logs.values().all(|logs| logs.len() == 1), "{logs:?}");
    let mut paths = FxHashMap::default();
    for line in output.lines.iter().filter(|line| line.file.ends_with("server/audit.jsonl")) {
        let value: Value = serde_json::from_str(&line.text).unwrap();
        let path = value["args"].to_string();
        assert_eq!(*paths.entry(path).or_insert(&line.file), &line.file, "a path at two desks");
    }
}

#[test]
fn what_is_held_in_memory_does_not_grow() {
    let mut simulation = Simulation::new(&scenario(6, 20_000));
    let mut most = 0;
    while simulation.next().is_some() {
        most = most.max(simulation.waiting());
    }
    assert!(most < 400, "{most} lines and calls at once");
}

#[test]
fn a_scenario_may_be_small() {
    let empty =
        Scenario { ticket_users: 0, desks: 0, proxies: 0, gate_users: 0, ..scenario(1, 10) };
    assert!(run(&empty).lines.is_empty());
    let lonely = Scenario { ticket_users: 1, tenants: Vec::new(), ..empty.clone() };
    assert_eq!(run(&lonely).calls.len(), 10);
    let quiet = Scenario { attack_every: 0, ..scenario(1, 2_000) };
    assert!(run(&quiet).alerts.is_empty());
    let desks = Scenario { desks: 2, attack_every: 40, ..Scenario { calls: 2_000, ..empty } };
    let output = run(&desks);
    assert!(output.alerts.len() > 10);
    assert!(output.alerts.iter().all(|alert| alert.rule == "policy-bypass"));
}

/// The naive rules: every combination of calls is looked at, without any of the engine's
/// cleverness.
struct Naive<'a> {
    labels: FxHashMap<&'a str, Labels>,
    /// Rule and attack of each match; the attack is none if a call of honest work took part.
    found: BTreeSet<(&'static str, Option<String>)>,
}

impl<'a> Naive<'a> {
    fn check(output: &'a Output) -> BTreeSet<(&'static str, Option<String>)> {
        let catalogue = Catalogue::shipped();
        let labels = output.calls.iter().map(|call| (call.tool, catalogue.labels(None, call.tool)));
        let mut naive = Self { labels: labels.collect(), found: BTreeSet::new() };
        let mut actors: BTreeMap<&str, Vec<&CallTruth>> = BTreeMap::new();
        for call in &output.calls {
            actors.entry(&call.actor).or_default().push(call);
        }
        for calls in actors.values_mut() {
            calls.sort_by_key(|call| call.at);
            naive.trifecta(calls);
            naive.burst(calls);
            naive.denials(calls);
            naive.tenants(calls);
        }
        naive.found
    }

    fn found(&mut self, rule: &'static str, calls: &[&CallTruth]) {
        let attack = calls[0].attack.as_ref().map(ToString::to_string);
        let is_one = calls.iter().all(|call| call.attack == calls[0].attack);
        self.found.insert((rule, attack.filter(|_| is_one)));
    }

    /// As long as the session lasts, which is more than the sixty seconds of the sharper rule.
    fn trifecta(&mut self, calls: &[&CallTruth]) {
        let is =
            |pick: fn(&Labels) -> Tri, call: &CallTruth| pick(&self.labels[call.tool]) == Tri::Yes;
        let mut matches = Vec::new();
        for session in calls.chunk_by(|a, b| b.at.since(a.at) <= 30 * Micros::MINUTE) {
            for (place, first) in session.iter().enumerate() {
                if !is(|labels| labels.open_world, first) {
                    continue;
                }
                let after = &session[place + 1..];
                let Some(read) = after.iter().position(|call| is(|labels| labels.sensitive, call))
                else {
                    continue;
                };
                let sink = after[read..].iter().find(|call| is(|labels| labels.outbound, call));
                if let Some(sink) = sink {
                    assert!(sink.at.since(first.at) <= 60 * Micros::SECOND);
                    matches.push([*first, after[read], *sink]);
                }
            }
        }
        for calls in &matches {
            self.found("trifecta-signature", calls);
        }
    }

    fn burst(&mut self, calls: &[&CallTruth]) {
        for window in calls.windows(20) {
            if window[19].at.since(window[0].at) <= 60 * Micros::SECOND {
                self.found("call-burst", window);
            }
        }
    }

    fn denials(&mut self, calls: &[&CallTruth]) {
        let five = 5 * Micros::MINUTE;
        let denied: Vec<usize> = (0..calls.len())
            .filter(|place| {
                matches!(calls[*place].class, OutcomeClass::Denied | OutcomeClass::Declined)
            })
            .collect();
        for chain in denied.windows(5) {
            let (first, last) = (calls[chain[0]], calls[chain[4]]);
            // A declined call counts from the question; the answer is later.
            if last.at.since(first.at) > five + Micros::MINUTE {
                continue;
            }
            let success = calls[chain[4]..].iter().find(|call| call.class == OutcomeClass::Ok);
            if let Some(success) = success.filter(|call| call.at.since(last.at) <= five) {
                self.found("denials-then-success", &[first, last, success]);
            }
        }
    }

    fn tenants(&mut self, calls: &[&CallTruth]) {
        let mut known: BTreeSet<&str> = BTreeSet::new();
        for call in calls {
            let Some(tenant) = call.tenant.as_deref() else { continue };
            if known.insert(tenant) && known.len() > 1 {
                self.found("first-cross-tenant", &[call]);
            }
        }
    }
}

/// Attacks that show in the lines themselves.
fn telling_lines(output: &Output) -> BTreeSet<(&'static str, Option<String>)> {
    let mut texts = FxHashMap::default();
    let mut counts: FxHashMap<&str, u64> = FxHashMap::default();
    for line in &output.lines {
        let count = counts.entry(&line.file).or_default();
        *count += 1;
        texts.insert((&*line.file, *count), &line.text);
    }
    let mut found = BTreeSet::new();
    for call in &output.calls {
        let says = |word: &str| {
            let word = format!("\"outcome\":\"{word}\"");
            call.records.iter().any(|at| texts[&(&*at.file, at.line)].contains(&word))
        };
        let attack = call.attack.as_ref().map(ToString::to_string);
        if says("DENIED") && says("success") {
            found.insert(("policy-bypass", attack.clone()));
        }
        if says("definition_changed") {
            found.insert(("definition-changed", attack));
        }
    }
    found
}

#[test]
fn honest_work_sets_off_no_rule_and_every_attack_its_own() {
    let output = run(&scenario(11, 200_000));
    let mut found = Naive::check(&output);
    found.extend(telling_lines(&output));
    let expected: BTreeSet<(&str, Option<String>)> =
        output.alerts.iter().map(|alert| (alert.rule, Some(alert.attack.to_string()))).collect();
    assert_eq!(found, expected);
    for kind in AttackKind::ALL {
        let count = output.alerts.iter().filter(|alert| alert.rule == kind.rule()).count();
        assert!(count >= 30, "{} attacks of kind {}", count, kind.rule());
    }
    let attacks = output.alerts.len() as u64;
    assert!(attacks >= 200_000 / 500 * 8 / 10, "{attacks} attacks");
}

#[test]
fn alerts_name_the_calls_they_rest_on() {
    let output = run(&scenario(12, 20_000));
    let calls: FxHashMap<u64, &CallTruth> =
        output.calls.iter().map(|call| (call.call, call)).collect();
    assert!(output.alerts.len() > 20);
    for alert in &output.alerts {
        assert_eq!(alert.calls.len(), alert.tools.len());
        for (number, tool) in alert.calls.iter().zip(&alert.tools) {
            let call = calls[number];
            assert_eq!((call.tool, &call.actor), (*tool, &alert.actor));
            assert_eq!(call.attack.as_ref(), Some(&alert.attack));
            assert_eq!((&call.session, &call.principal), (&alert.session, &alert.principal));
        }
        let closing = calls[alert.calls.last().unwrap()];
        assert_eq!(closing.tenant, alert.tenant);
    }
}
