//! What plainly leads to nothing is taken without a look at what was told, and is taken all the same.

use std::sync::Arc;

use crate::model::{Call, CallChange, Micros, Text};

use super::engine::{Engine, evaluate};
use super::fixture::{Shape, call};
use super::ledger::Ledger;
use super::memory::{COUNT, TENANTS, labels, new, rules};
use super::rule::RuleSet;

const SECOND: i64 = Micros::SECOND;

const SEQUENCE: &str = "
title: t
correlation: {type: temporal_ordered, rules: [a, b], group-by: [actor], timespan: 60s}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.outbound: yes}, condition: s}}
";

fn engine(rules: &Arc<RuleSet>) -> Engine {
    Engine::new(Arc::clone(rules), labels())
}

fn of(actor: &'static str, second: i64, tool: &'static str) -> Arc<Call> {
    let shape = Shape { principal: Some(actor), ..Shape::at(second * SECOND, tool) };
    let number = u64::try_from(second).unwrap();
    call(&shape, number, number)
}

#[test]
fn a_flood_of_calls_dated_ahead_does_not_keep_idle_groups_from_going() {
    let rules = rules(COUNT);
    let mut engine = engine(&rules);
    let ahead = Shape { future: true, ..Shape::at(3_000 * Micros::DAY, "read") };
    let ahead = call(&Shape { principal: Some("bob"), ..ahead }, 1, 1);
    engine.apply(&[new(&of("ann", 0, "read"))], Vec::new());
    // The same call over and over: one group, and no more in it.
    engine.apply(&vec![new(&ahead); 50_001], Vec::new());
    for (second, actor) in [(10_000, "carol"), (20_000, "dave")] {
        engine.apply(&[new(&of(actor, second, "read"))], Vec::new());
    }
    assert_eq!(engine.groups_held(), 2, "the one that is ahead, and the latest");
}

#[test]
fn a_group_that_always_lacks_a_stage_holds_no_more_than_it_looks_back() {
    let rules = rules(SEQUENCE);
    let mut engine = engine(&rules);
    for minute in 0..2 * 24 * 60 {
        engine.apply(&[new(&of("ann", minute * 60, "fetch"))], Vec::new());
    }
    let held = engine.costs()[0].held;
    assert!(held < 12, "{held} calls are held");
    let told = engine.apply(&[new(&of("ann", 2 * 24 * 3_600 - 59, "send"))], Vec::new());
    assert_eq!(told.len(), 1, "and those that matter");
}

#[test]
fn of_two_calls_at_one_time_the_first_one_is_told_whichever_is_read_first() {
    let rules = rules(TENANTS);
    let in_tenant = |second: i64, tenant: &str, stream: &str| {
        let mut one = Call::clone(&of("ann", second, "read"));
        one.id = of("ann", second * 100 + i64::from(stream.as_bytes()[0]), "read").id;
        (one.tenant, one.stream) = (Some(tenant.into()), Text::from(stream));
        Arc::new(one)
    };
    let home = in_tenant(0, "acme", "b.jsonl");
    let pair = [in_tenant(10, "initech", "b.jsonl"), in_tenant(10, "initech", "a.jsonl")];
    let all = [&home, &pair[0], &pair[1]];
    let told: Vec<_> = evaluate(Arc::clone(&rules), labels(), all.map(Arc::clone).to_vec());
    assert_eq!(told.iter().map(|alert| alert.closing).collect::<Vec<_>>(), [pair[1].id]);
    for order in [[0, 1], [1, 0]] {
        let (mut engine, mut ledger) = (engine(&rules), Ledger::new(Arc::clone(&rules)));
        for call in [&home, &pair[order[0]], &pair[order[1]]] {
            ledger.run(&mut engine, &[new(call)]);
        }
        let closing: Vec<_> = ledger.alerts.values().map(|alert| alert.closing).collect();
        assert_eq!(closing, [pair[1].id], "{order:?}");
    }
}

/// A plan that comes to nothing leaves no trace, and a small batch none of a large one before it.
#[test]
fn a_batch_that_was_planned_and_not_applied_is_not_there() {
    let rules = rules(COUNT);
    let mut engine = engine(&rules);
    let at = |seconds: &[i64]| -> Vec<CallChange> {
        seconds.iter().map(|second| new(&of("ann", *second, "read"))).collect()
    };
    assert!(engine.plan(&at(&[1, 2, 3])).is_empty());
    assert!(engine.plan(&at(&[4])).is_empty());
    assert!(engine.apply(&at(&[5]), Vec::new()).is_empty());
    let many: Vec<CallChange> =
        ["bob", "carol", "dave"].iter().map(|actor| new(&of(actor, 6, "read"))).collect();
    assert!(engine.apply(&many, Vec::new()).is_empty());
    assert!(engine.apply(&at(&[6]), Vec::new()).is_empty());
    assert_eq!(engine.apply(&at(&[7]), Vec::new()).len(), 1, "the third of its actor");
}
