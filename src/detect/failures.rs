//! What other engines are known to get wrong, each under its name.

use std::sync::Arc;

use crate::model::{Alert, Call, CallChange, Labels, Micros, OutcomeClass, Text, Tri};

use super::engine::{Engine, evaluate};
use super::field::LabelsOf;
use super::fixture::{Shape, call};
use super::ledger::Ledger;
use super::limits::Limits;
use super::rule::RuleSet;
use super::shipped::shipped;

/// A tenth of a second.
const TENTH: i64 = Micros::SECOND / 10;

fn labels() -> Arc<LabelsOf> {
    let tri = |yes| if yes { Tri::Yes } else { Tri::No };
    Arc::new(move |call: &Call| Labels {
        open_world: tri(&*call.tool == "fetch_url"),
        sensitive: tri(&*call.tool == "get_ticket"),
        outbound: tri(&*call.tool == "post_comment"),
        ..Labels::default()
    })
}

/// One shipped rule.
fn rule(name: &str) -> Arc<RuleSet> {
    let file = format!("{name}.yml");
    let files: Vec<_> = shipped().into_iter().filter(|(name, _)| **name == file).collect();
    Arc::new(RuleSet::compile(&files).unwrap())
}

/// Calls of ann at times in tenths of a second.
fn calls(described: impl IntoIterator<Item = (i64, &'static str, OutcomeClass)>) -> Vec<Arc<Call>> {
    let call = |(number, (at, tool, class)): (u64, (i64, &'static str, OutcomeClass))| {
        call(&Shape { class, ..Shape::at(at * TENTH, tool) }, number, number)
    };
    (0..).zip(described).map(call).collect()
}

fn found(rules: &Arc<RuleSet>, calls: &[Arc<Call>]) -> Vec<Alert> {
    evaluate(Arc::clone(rules), labels(), calls.to_vec())
}

fn new(call: &Arc<Call>) -> CallChange {
    CallChange { old: None, new: Some(Arc::clone(call)) }
}

/// What stands after the calls came one by one, in this order.
fn one_by_one(rules: &Arc<RuleSet>, order: &[&Arc<Call>]) -> Vec<Alert> {
    let mut engine = Engine::new(Arc::clone(rules), labels());
    let mut ledger = Ledger::new(Arc::clone(rules));
    for call in order {
        ledger.run(&mut engine, &[new(call)]);
    }
    ledger.alerts.into_values().collect()
}

use OutcomeClass::{Denied, Ok as Done};

#[test]
fn order_inside_a_second() {
    let rules = rule("trifecta-signature");
    let tools =
        |order: [&'static str; 3]| calls((1..).zip(order).map(|(at, tool)| (at, tool, Done)));
    assert_eq!(found(&rules, &tools(["fetch_url", "get_ticket", "post_comment"])).len(), 1);
    for order in [
        ["post_comment", "get_ticket", "fetch_url"],
        ["get_ticket", "fetch_url", "post_comment"],
        ["fetch_url", "post_comment", "get_ticket"],
    ] {
        assert!(found(&rules, &tools(order)).is_empty(), "{order:?}");
    }
}

#[test]
fn allow_before_denials() {
    let rules = rule("denials-then-success");
    let denials = (1..=5).map(|at| (at, "get_ticket", Denied));
    let before = calls([(0, "get_ticket", Done)].into_iter().chain(denials.clone()));
    assert!(found(&rules, &before).is_empty());
    let after = calls(denials.chain([(6, "get_ticket", Done)]));
    assert_eq!(found(&rules, &after).len(), 1);
}

#[test]
fn late_event_stretching_a_span() {
    let text = "
title: t
correlation:
  {type: event_count, rules: [a], group-by: [actor], timespan: 30s, condition: {gte: 3}}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
";
    let rules = Arc::new(RuleSet::compile(&[("r.yml", text)]).unwrap());
    // 32 seconds from the first to the last.
    let calls = calls([(0, "t", Done), (160, "t", Done), (320, "t", Done)]);
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let order = order.map(|index: usize| &calls[index]);
        assert!(one_by_one(&rules, &order).is_empty());
    }
}

#[test]
fn event_dated_2099() {
    let rules = rule("trifecta-signature");
    let calls =
        calls([(0, "fetch_url", Done), (10, "get_ticket", Done), (20, "post_comment", Done)]);
    let at = Micros::parse_rfc3339("2099-01-01T00:00:00Z").unwrap();
    let ahead = call(&Shape { future: true, ..Shape::at(at.0, "post_comment") }, 9, 9);
    for place in 0..=calls.len() {
        let mut order: Vec<&Arc<Call>> = calls.iter().collect();
        order.insert(place, &ahead);
        let alerts = one_by_one(&rules, &order);
        assert_eq!(alerts.len(), 1, "the call from the future came at {place}");
        assert_eq!(alerts[0].evidence.len(), 3);
    }
}

#[test]
fn suppressed_child() {
    let rules = rule("denials-then-success");
    // The second attack begins while the first burst of denials would still be held back elsewhere.
    let attack = |from: i64| {
        let denials = (0..5).map(move |at| (from + at, "get_ticket", Denied));
        denials.chain([(from + 5, "get_ticket", Done)])
    };
    let calls = calls(attack(0).chain(attack(100)));
    let [alert] = found(&rules, &calls).try_into().unwrap();
    assert_eq!((alert.count, alert.evidence.len()), (2, 12));
    assert_eq!(alert.evidence[11].call.id, calls[11].id);
}

#[test]
fn evidence_beyond_ten() {
    let rules = rule("denials-then-success");
    let denials = (0..15).map(|at| (at, "get_ticket", Denied));
    let calls = calls(denials.chain([(15, "get_ticket", Done)]));
    let [alert] = found(&rules, &calls).try_into().unwrap();
    let shown: Vec<_> = alert.evidence.iter().map(|evidence| evidence.call.id).collect();
    assert_eq!(shown, calls.iter().map(|call| call.id).collect::<Vec<_>>());
}

#[test]
fn junk_groups_against_a_half_complete_sequence() {
    let rules = rule("trifecta-signature");
    let limits = Limits { groups_max: 100, ..Limits::default() };
    let mut engine = Engine::with_limits(Arc::clone(&rules), labels(), limits);
    let mut ledger = Ledger::new(Arc::clone(&rules));
    let attack =
        calls([(0, "fetch_url", Done), (10, "get_ticket", Done), (500, "post_comment", Done)]);
    let junk = (0..5_000_u32).map(|number| {
        let at = 20 * TENTH + i64::from(number);
        let mut one = Call::clone(&call(&Shape::at(at, "fetch_url"), 0, 1_000 + u64::from(number)));
        one.session = Text::from(format!("junk-{number}"));
        one.position.offset = u64::from(number);
        Arc::new(one)
    });
    ledger.run(&mut engine, &[new(&attack[0]), new(&attack[1])]);
    for batch in junk.collect::<Vec<_>>().chunks(250) {
        ledger.run(&mut engine, &batch.iter().map(new).collect::<Vec<_>>());
        assert!(engine.groups_held() <= 100);
    }
    ledger.run(&mut engine, &[new(&attack[2])]);
    let [alert] = ledger.alerts.into_values().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!((&*alert.rule, alert.evidence.len()), ("trifecta-signature", 3));
}

#[test]
fn ten_thousand_events_of_a_valid_order_that_never_completes() {
    let rules = rule("trifecta-signature");
    let mut engine = Engine::new(Arc::clone(&rules), labels());
    // Half a minute of fetches and reads, any of which could begin or go on with a chain.
    let calls: Vec<Arc<Call>> = (0..10_000_u32)
        .map(|number| {
            let tool = if number % 2 == 0 { "fetch_url" } else { "get_ticket" };
            let at = i64::from(number) * 3_000;
            call(&Shape::at(at, tool), number.into(), number.into())
        })
        .collect();
    for batch in calls.chunks(100) {
        assert!(engine.apply(&batch.iter().map(new).collect::<Vec<_>>(), Vec::new()).is_empty());
    }
    // Once through the window for each of the hundred batches, and no chain twice.
    assert!(engine.walked() <= 100 * 10_000, "{} calls were gone through", engine.walked());
    let last = call(&Shape::at(30 * Micros::SECOND, "post_comment"), 10_001, 10_001);
    let told = engine.apply(&[new(&last)], Vec::new());
    assert_eq!(told.len(), 1);
}

#[test]
fn rules_without_id() {
    let text = |tool: &str| {
        format!(
            "{{title: t, logsource: {{product: mcp}}, detection: {{s: {{tool.name: {tool}}}, condition: s}}}}"
        )
    };
    let (one, other) = (text("'*'"), text("get_*"));
    let rules = Arc::new(RuleSet::compile(&[("one.yml", &one), ("other.yml", &other)]).unwrap());
    let calls = calls([(0, "get_ticket", Done)]);
    let alerts = found(&rules, &calls);
    let names: Vec<&str> = alerts.iter().map(|alert| &*alert.rule).collect();
    assert_eq!(names, ["one", "other"]);
    assert_ne!(alerts[0].id, alerts[1].id);
    let again: Vec<_> = found(&rules, &calls).iter().map(|alert| alert.id).collect();
    assert_eq!(again, [alerts[0].id, alerts[1].id]);
}
