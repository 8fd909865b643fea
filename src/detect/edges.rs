//! What lies on an edge to the microsecond, which random logs hardly ever meet.

use std::sync::Arc;

use crate::model::{AlertChange, Call, CallChange, Labels, Micros};

use super::engine::{Engine, evaluate};
use super::fixture::{Shape, call};
use super::ledger::Ledger;
use super::rule::RuleSet;

const SECOND: i64 = Micros::SECOND;

/// So many calls within a minute. Its groups reach back two minutes, and their floor follows the
/// newest call three minutes behind.
fn counting(least: u32) -> Arc<RuleSet> {
    let text = format!(
        "
title: t
correlation:
  {{type: event_count, rules: [a], group-by: [actor], timespan: 60s, condition: {{gte: {least}}}}}
---
{{title: t, name: a, logsource: {{product: mcp}}, detection: {{s: {{outcome: ok}}, condition: s}}}}
"
    );
    Arc::new(RuleSet::compile(&[("many.yml", &text)]).unwrap())
}

fn at(seconds: i64) -> Arc<Call> {
    let number = u64::try_from(seconds).unwrap();
    call(&Shape::at(seconds * SECOND, "read"), number, number)
}

/// What is told of each batch.
fn told(rules: &Arc<RuleSet>, batches: &[&[i64]]) -> Vec<Vec<AlertChange>> {
    let mut ledger = Ledger::new(Arc::clone(rules));
    let mut engine = Engine::new(Arc::clone(rules), Arc::new(|_| Labels::default()));
    let mut run = |batch: &&[i64]| {
        let new = |seconds: &i64| CallChange { old: None, new: Some(at(*seconds)) };
        ledger.run(&mut engine, &batch.iter().map(new).collect::<Vec<_>>())
    };
    batches.iter().map(&mut run).collect()
}

#[test]
fn an_episode_includes_its_last_microsecond() {
    let calls: Vec<Arc<Call>> = (0..=1_441).map(|minute| at(minute * 60)).collect();
    let alerts = evaluate(counting(1), Arc::new(|_| Labels::default()), calls);
    let counts: Vec<u64> = alerts.iter().map(|alert| alert.count).collect();
    assert_eq!(counts, [1_441, 1], "a day, both its ends included, and what comes after it");
}

#[test]
fn a_late_call_on_the_floor_finds_what_lies_a_lookback_before_it() {
    let told = told(&counting(3), &[&[0, 30], &[240], &[60]]);
    assert_eq!(told.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 1]);
}

#[test]
fn an_alert_that_ends_on_the_floor_is_not_told_again() {
    let told = told(&counting(3), &[&[0, 30, 60], &[240], &[241]]);
    assert_eq!(told.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 0]);
}

/// What is let go is read again, so that nothing would be found wrong; it would be slow.
#[test]
fn one_call_of_the_future_lets_no_group_go() {
    let rules = counting(3);
    let mut engine = Engine::new(Arc::clone(&rules), Arc::new(|_| Labels::default()));
    let ahead =
        Shape { principal: Some("bob"), future: true, ..Shape::at(3_000 * Micros::DAY, "read") };
    for call in [at(0), call(&ahead, 1, 1)] {
        let change = CallChange { old: None, new: Some(call) };
        assert!(engine.apply(&[change], Vec::new()).is_empty());
    }
    assert_eq!(engine.groups_held(), 2);
}

/// Looking for idle groups waits until a quarter of that time has passed again.
#[test]
fn a_group_is_held_for_twice_its_reach_and_a_minute() {
    let rules = counting(3);
    let mut engine = Engine::new(Arc::clone(&rules), Arc::new(|_| Labels::default()));
    let mut held = |call: Arc<Call>| {
        engine.apply(&[CallChange { old: None, new: Some(call) }], Vec::new());
        engine.groups_held()
    };
    let bob = |seconds: i64| {
        let shape = Shape { principal: Some("bob"), ..Shape::at(seconds * SECOND, "read") };
        call(&shape, 1, u64::try_from(seconds).unwrap())
    };
    let groups_held = [held(at(0)), held(bob(300)), held(bob(374)), held(bob(375))];
    assert_eq!(groups_held, [1, 2, 2, 1]);
}
