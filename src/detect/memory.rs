//! What is held in memory, what is let go, and what is asked of the store again.

use std::sync::Arc;

use crate::model::{Alert, AlertChange, Call, CallChange, Labels, Micros, Text, Tri};

use super::engine::{Engine, evaluate};
use super::field::LabelsOf;
use super::fixture::{Shape, call};
use super::ledger::Ledger;
use super::limits::{Limits, STATE_SATURATED};
use super::rule::RuleSet;

const SECOND: i64 = Micros::SECOND;
const DAY: i64 = 24 * Micros::HOUR;

/// Three successes of an actor within a minute.
pub(super) const COUNT: &str = "
title: t
correlation:
  {type: event_count, rules: [a], group-by: [actor], timespan: 60s, condition: {gte: 3}}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
";

const TAINT: &str = "
title: t
correlation: {type: taint, source: a, touches: b, sink: c, group-by: [actor]}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {tool.open_world: yes}, condition: s}}
---
{title: t, name: b, logsource: {product: mcp}, detection: {s: {tool.sensitive: yes}, condition: s}}
---
{title: t, name: c, logsource: {product: mcp}, detection: {s: {tool.outbound: yes}, condition: s}}
";

/// The tenants of a principal after the first one.
pub(super) const TENANTS: &str = "
title: t
correlation: {type: first_seen, rules: [a], fields: [principal, tenant], baseline: 1}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
";

pub(super) fn labels() -> Arc<LabelsOf> {
    let tri = |yes| if yes { Tri::Yes } else { Tri::No };
    Arc::new(move |call: &Call| Labels {
        open_world: tri(&*call.tool == "fetch"),
        sensitive: tri(&*call.tool == "read"),
        outbound: tri(&*call.tool == "send"),
        ..Labels::default()
    })
}

pub(super) fn rules(text: &str) -> Arc<RuleSet> {
    Arc::new(RuleSet::compile(&[("r.yml", text)]).unwrap())
}

/// A call of the actor with that number.
fn of(actor: usize, at: i64, tool: &'static str, number: u64) -> Arc<Call> {
    let mut one = Call::clone(&call(&Shape::at(at, tool), number, number));
    let name = Text::from(format!("actor-{actor}"));
    one.principal = Some(Text::clone(&name));
    (one.actor, one.session) = (Text::clone(&name), name);
    Arc::new(one)
}

/// A call of the actor with that number, in a tenant; its number is the second.
fn in_tenant(actor: usize, second: i64, tenant: &str) -> Arc<Call> {
    let mut one = Call::clone(&of(actor, second * SECOND, "t", second.unsigned_abs()));
    one.tenant = Some(tenant.into());
    Arc::new(one)
}

/// All that an alert says.
fn said(alert: &Alert) -> String {
    format!("{alert:?}")
}

pub(super) fn new(call: &Arc<Call>) -> CallChange {
    CallChange { old: None, new: Some(Arc::clone(call)) }
}

fn run(ledger: &mut Ledger, engine: &mut Engine, calls: &[Arc<Call>], batch: usize) {
    for calls in calls.chunks(batch) {
        ledger.run(engine, &calls.iter().map(new).collect::<Vec<_>>());
    }
}

#[test]
fn many_actors_at_once_are_held_up_to_a_bound_and_none_is_taken_for_new() {
    let rules = rules(COUNT);
    let limits = Limits { groups_max: 100, calls_max: 150, ..Limits::default() };
    // A thousand actors make a call each, then another, then a third: all within a minute.
    let number = |round: usize, actor: usize| (round * 1_000 + actor) as u64;
    let calls: Vec<Arc<Call>> = (0..3)
        .flat_map(|round| (0..1_000).map(move |actor| (round, actor)))
        .map(|(round, actor)| {
            let at = i64::try_from(round * 1_000 + actor).unwrap() * 10_000;
            of(actor, at, "t", number(round, actor))
        })
        .collect();
    let mut engine = Engine::with_limits(Arc::clone(&rules), labels(), limits);
    let mut ledger = Ledger::new(Arc::clone(&rules));
    for batch in calls.chunks(100) {
        run(&mut ledger, &mut engine, batch, 100);
        assert!(engine.groups_held() <= 100);
    }
    assert_eq!(ledger.alerts.len(), 1_000);
    let at_once = evaluate(rules, labels(), calls);
    for alert in &at_once {
        assert_eq!(said(&ledger.alerts[&alert.id]), said(alert));
    }
}

#[test]
fn who_was_never_seen_is_not_asked_for_though_others_were_let_go() {
    let rules = rules(COUNT);
    let limits = Limits { groups_max: 2, ..Limits::default() };
    let mut engine = Engine::with_limits(Arc::clone(&rules), labels(), limits);
    let mut ledger = Ledger::new(rules);
    let calls: Vec<Arc<Call>> =
        (0..10_u32).map(|n| of(n as usize, i64::from(n) * SECOND, "t", n.into())).collect();
    run(&mut ledger, &mut engine, &calls, 1);
    assert!(engine.plan(&[new(&of(90, 10 * SECOND, "t", 90))]).is_empty());
    assert_eq!(engine.plan(&[new(&of(0, 10 * SECOND, "t", 91))]).len(), 1);
    let cost = engine.costs()[0];
    assert!(cost.let_go > 0 && cost.groups <= 2, "{cost:?}");
}

#[test]
fn an_idle_group_is_let_go_once_what_could_concern_it_would_be_read_anyway() {
    // It reaches twenty minutes back, and what is later than six is asked for.
    let rules = rules(&COUNT.replace("60s", "10m"));
    let mut engine = Engine::new(Arc::clone(&rules), labels());
    let mut ledger = Ledger::new(rules);
    let minute =
        |actor, minute: u32| of(actor, i64::from(minute) * Micros::MINUTE, "t", u64::from(minute));
    run(&mut ledger, &mut engine, &[minute(0, 0), minute(1, 25)], 1);
    assert_eq!(engine.groups_held(), 2);
    run(&mut ledger, &mut engine, &[minute(1, 33)], 1);
    assert_eq!(engine.groups_held(), 1);
    assert!(engine.plan(&[new(&minute(2, 28))]).is_empty(), "five minutes late");
    assert_eq!(engine.plan(&[new(&minute(1, 26))]).len(), 1, "seven minutes late");
}

#[test]
fn a_group_that_takes_all_the_room_is_not_read_again_for_every_batch() {
    let rules = rules(COUNT);
    let limits = Limits { groups_max: 100, calls_max: 150, ..Limits::default() };
    let mut engine = Engine::with_limits(Arc::clone(&rules), labels(), limits);
    let mut ledger = Ledger::new(rules);
    // Within a minute one actor makes more calls than are held of all; others make one now and then.
    let calls: Vec<Arc<Call>> = (0..600_u64)
        .map(|number| {
            let actor = if number % 10 == 9 { usize::try_from(number).unwrap() } else { 0 };
            of(actor, i64::try_from(number).unwrap() * SECOND / 20, "other", number)
        })
        .collect();
    run(&mut ledger, &mut engine, &calls, 5);
    assert_eq!(ledger.read, 0, "calls read again");
    assert!(engine.groups_held() < 60, "the others make room");
}

/// An episode that goes on for hours keeps its evidence, which lies far behind what is counted.
#[test]
fn evidence_of_what_was_told_is_held_within_the_bound_too() {
    let rules =
        rules("{title: t, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}");
    let limits = Limits { calls_max: 400, ..Limits::default() };
    let mut engine = Engine::with_limits(Arc::clone(&rules), labels(), limits);
    let mut ledger = Ledger::new(Arc::clone(&rules));
    let calls: Vec<Arc<Call>> = (0..3_000_u64)
        .map(|number| {
            let round = i64::try_from(number / 50).unwrap();
            of(usize::try_from(number % 50).unwrap(), round * 9 * Micros::MINUTE, "t", number)
        })
        .collect();
    run(&mut ledger, &mut engine, &calls, 50);
    let cost = engine.costs()[0];
    assert!(cost.held <= 400 && cost.let_go > 0, "{cost:?}");
    let at_once = evaluate(rules, labels(), calls);
    assert_eq!(at_once.len(), 50, "each of nine hours");
    for alert in &at_once {
        assert_eq!(said(&ledger.alerts[&alert.id]), said(alert));
    }
}

#[test]
fn many_busy_actors_are_held_by_the_places_of_their_calls_and_only_who_fires_is_read_again() {
    let rules = rules(&COUNT.replace("gte: 3", "gte: 30"));
    let limits = Limits { groups_max: 1_000, calls_max: 400, ..Limits::default() };
    let mut engine = Engine::with_limits(Arc::clone(&rules), labels(), limits);
    let mut ledger = Ledger::new(Arc::clone(&rules));
    // A hundred actors make twenty calls each, within a minute, and then one of them ten more.
    let many = (0..2_000).map(|number| (number % 100, number));
    let calls: Vec<Arc<Call>> = many
        .chain((2_000..2_010).map(|number| (7, number)))
        .map(|(actor, number)| {
            of(actor, i64::try_from(number).unwrap() * 20_000, "t", number as u64)
        })
        .collect();
    run(&mut ledger, &mut engine, &calls[..2_000], 50);
    assert_eq!((ledger.read, engine.groups_held()), (0, 100));
    let cost = engine.costs()[0];
    assert!(cost.held <= 400 && cost.let_go == 0, "{cost:?}");
    run(&mut ledger, &mut engine, &calls[2_000..], 5);
    assert_eq!(ledger.read, 25, "the calls of the one, but for those of the batch");
    let at_once = evaluate(rules, labels(), calls);
    assert_eq!((at_once.len(), ledger.alerts.len()), (1, 1));
    assert_eq!(said(&ledger.alerts[&at_once[0].id]), said(&at_once[0]));
}

#[test]
fn what_was_let_go_of_first_calls_is_known_without_the_calls() {
    let rules = rules(TENANTS);
    let limits = Limits { groups_max: 10, ..Limits::default() };
    let mut engine = Engine::with_limits(Arc::clone(&rules), labels(), limits);
    let mut ledger = Ledger::new(Arc::clone(&rules));
    let round = |from: i64| (0..100).map(move |n| (usize::try_from(n).unwrap(), from + n, "home"));
    let mut calls: Vec<Arc<Call>> = round(0)
        .chain(round(100))
        .chain([(3, 300, "away"), (4, 301, "away"), (3, 302, "away")])
        .map(|(actor, second, tenant)| in_tenant(actor, second, tenant))
        .collect();
    run(&mut ledger, &mut engine, &calls, 20);
    assert_eq!((ledger.read, ledger.alerts.len()), (0, 2));
    // One that comes late and is earlier than all: another value is at home.
    let late = in_tenant(5, -1, "before");
    calls.push(Arc::clone(&late));
    run(&mut ledger, &mut engine, &[late], 1);
    assert!(ledger.read > 0);
    let at_once = evaluate(rules, labels(), calls);
    assert_eq!((at_once.len(), ledger.alerts.len()), (3, 3));
    assert!(at_once.iter().all(|alert| said(&ledger.alerts[&alert.id]) == said(alert)));
}

#[test]
fn what_is_remembered_of_first_calls_may_fill_up_in_the_middle_of_a_batch() {
    let rules = rules(TENANTS);
    // Two are remembered, with a value each; there is room for one value more.
    let limits = Limits { groups_max: 1, values_max: 5, ..Limits::default() };
    let mut engine = Engine::with_limits(Arc::clone(&rules), labels(), limits);
    let mut ledger = Ledger::new(Arc::clone(&rules));
    let mut calls: Vec<Arc<Call>> =
        (0..3_usize).zip(0..).map(|(actor, second)| in_tenant(actor, second, "home")).collect();
    run(&mut ledger, &mut engine, &calls, 1);
    let away = [in_tenant(0, 10, "away"), in_tenant(1, 11, "away")];
    run(&mut ledger, &mut engine, &away, 2);
    assert_eq!((ledger.read, ledger.alerts.len()), (0, 2), "each is news to its principal");
    // Now it is full, so that the calls tell.
    let farther = [in_tenant(0, 20, "farther"), in_tenant(1, 21, "farther")];
    run(&mut ledger, &mut engine, &farther, 2);
    assert_eq!((ledger.read, ledger.alerts.len()), (4, 4));
    calls.extend(away.into_iter().chain(farther));
    let at_once = evaluate(rules, labels(), calls);
    assert_eq!(at_once.len(), 4);
    assert!(at_once.iter().all(|alert| said(&ledger.alerts[&alert.id]) == said(alert)));
}

#[test]
fn a_session_that_is_over_is_let_go_and_the_next_one_does_not_ask_for_it() {
    let rules = rules(TAINT);
    let mut engine = Engine::new(Arc::clone(&rules), labels());
    let mut ledger = Ledger::new(rules);
    let calls: Vec<Arc<Call>> = (0..500_u32)
        .map(|n| of(n as usize % 250, i64::from(n) * Micros::MINUTE, "fetch", n.into()))
        .collect();
    run(&mut ledger, &mut engine, &calls, 10);
    assert!(engine.groups_held() < 60, "{} are held", engine.groups_held());
    assert_eq!(ledger.read, 0);
}

#[test]
fn two_alerts_on_one_fetch_are_news_each() {
    let rules = rules(TAINT);
    let mut engine = Engine::new(Arc::clone(&rules), labels());
    let mut ledger = Ledger::new(rules);
    let minutes = [(0, "fetch"), (20, "read"), (30, "send"), (50, "read"), (75, "send")];
    let calls = minutes.map(|(minute, tool)| {
        new(&of(1, minute * Micros::MINUTE, tool, 1 + minute.unsigned_abs()))
    });
    let is_news = |changes: Vec<AlertChange>| {
        changes.iter().any(|change| matches!(change, AlertChange::Set { is_new: true, .. }))
    };
    assert!(is_news(ledger.run(&mut engine, &calls[..3])));
    assert!(is_news(ledger.run(&mut engine, &calls[3..])), "45 minutes later it sends again");
    assert_eq!(ledger.alerts.len(), 2);
}

#[test]
fn a_busy_group_is_told_with_its_rule_and_key_whatever_the_order() {
    let rules = rules(COUNT);
    let limits = Limits { group_calls_max: 20, ..Limits::default() };
    let calls: Vec<Arc<Call>> =
        (0..30_u32).map(|n| of(7, i64::from(n) * SECOND, "t", n.into())).collect();
    let mut orders = vec![calls.clone(), calls.iter().rev().cloned().collect()];
    orders.push(calls.iter().step_by(2).chain(calls.iter().skip(1).step_by(2)).cloned().collect());
    let mut told = Vec::new();
    for order in orders {
        let mut engine = Engine::with_limits(Arc::clone(&rules), labels(), limits);
        let mut ledger = Ledger::new(Arc::clone(&rules));
        run(&mut ledger, &mut engine, &order, 4);
        let mut alerts = ledger.alerts.into_values();
        told.push(alerts.find(|alert| *alert.rule == *STATE_SATURATED).unwrap());
    }
    let alert = &told[0];
    let group: Vec<(&str, &str)> =
        alert.group.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(group, [("rule", "r"), ("actor", "actor-7")]);
    assert_eq!((alert.closing, alert.count, alert.why.value), (calls[20].id, 10, 21));
    assert!(told.iter().all(|other| said(other) == said(alert)));
}

/// One call an hour of each of ten actors, for 100 days.
fn long_past() -> Vec<Arc<Call>> {
    (0..2_400_u32)
        .flat_map(|hour| (0..10_u32).map(move |actor| (hour, actor)))
        .map(|(hour, actor)| {
            let at = i64::from(hour) * Micros::HOUR + i64::from(actor);
            of(actor as usize, at, "t", (hour * 10 + actor).into())
        })
        .collect()
}

/// An archive of the third day, ten calls of each actor, and as many live calls of each behind it all.
fn archive_and_live(live: u32) -> Vec<Arc<Call>> {
    let old = (0..100_u32).map(|n| {
        let at = 3 * DAY + Micros::MINUTE + i64::from(n) * SECOND / 10;
        of(n as usize % 10, at, "t", (100_000 + n).into())
    });
    let live = (0..10 * live)
        .map(|n| of(n as usize % 10, 100 * DAY + i64::from(n), "t", (200_000 + n).into()));
    old.chain(live).collect()
}

#[test]
fn an_old_archive_costs_only_its_neighbourhood_also_beside_live_calls_and_after_a_restart() {
    // Of groups in a little room only the places of their calls are held; the third live call fires.
    let (ample, little) = (Limits::default(), Limits { calls_max: 15, ..Limits::default() });
    for text in [COUNT, TAINT] {
        check_archive(&rules(text), ample, false, 1);
        check_archive(&rules(text), ample, true, 1);
        check_archive(&rules(text), little, false, 0);
        check_archive(&rules(text), little, false, 3);
    }
}

fn check_archive(rules: &Arc<RuleSet>, limits: Limits, is_restarted: bool, live: u32) {
    let mut ledger = Ledger::new(Arc::clone(rules));
    let mut engine = Engine::with_limits(Arc::clone(rules), labels(), limits);
    run(&mut ledger, &mut engine, &long_past(), 5_000);
    assert_eq!(engine.groups_held(), 10);
    if is_restarted {
        engine = Engine::with_limits(Arc::clone(rules), labels(), limits);
        let (newest, settled) = ledger.newest();
        engine.cold(newest, settled);
    }
    let before = ledger.read;
    run(&mut ledger, &mut engine, &archive_and_live(live), 1_000);
    let read = ledger.read - before;
    // A day before and after for a taint, a few minutes for a count; never the hundred days.
    assert!(
        read <= 10 * 100,
        "{read} calls were read of 24,000 ({limits:?}, {is_restarted}, {live})"
    );
    let all = long_past().into_iter().chain(archive_and_live(live)).collect();
    let at_once = evaluate(Arc::clone(rules), labels(), all);
    assert_eq!(at_once.len(), ledger.alerts.len());
    assert!(at_once.iter().all(|alert| said(&ledger.alerts[&alert.id]) == said(alert)));
}

#[test]
fn a_session_of_many_calls_that_begin_nothing_is_not_busy_and_not_read_again() {
    let rules = rules(TAINT);
    let limits = Limits { calls_max: 100, group_calls_max: 20, ..Limits::default() };
    let mut engine = Engine::with_limits(Arc::clone(&rules), labels(), limits);
    let mut ledger = Ledger::new(rules);
    // Ten actors fetch once each, and then read on and on, all within six minutes.
    let calls: Vec<Arc<Call>> = (0..400_u32)
        .map(|n| {
            let tool = if n < 10 { "fetch" } else { "read" };
            of(n as usize % 10, i64::from(n) * SECOND / 2, tool, n.into())
        })
        .collect();
    run(&mut ledger, &mut engine, &calls, 10);
    assert_eq!((ledger.read, ledger.alerts.len()), (0, 0));
}

#[test]
fn who_is_read_again_for_calls_of_the_future_is_not_asked_for_later() {
    let rules = rules(COUNT);
    let limits = Limits { calls_max: 24, ..Limits::default() };
    let mut engine = Engine::with_limits(Arc::clone(&rules), labels(), limits);
    let mut ledger = Ledger::new(rules);
    let live =
        |number: u32| of(number as usize % 10, i64::from(number) * 4 * SECOND, "t", number.into());
    let ahead = |number: u32| {
        let mut one = Call::clone(&of(1, 900 * DAY + i64::from(number), "t", number.into()));
        one.flags = vec!["future".into()];
        Arc::new(one)
    };
    let calls: Vec<Arc<Call>> = (0..40).map(live).collect();
    run(&mut ledger, &mut engine, &calls, 5);
    assert_eq!((ledger.read, ledger.alerts.len()), (0, 0));
    run(&mut ledger, &mut engine, &(900..903).map(ahead).collect::<Vec<_>>(), 3);
    let read = ledger.read;
    assert!((1..=10).contains(&read) && ledger.alerts.len() == 1, "the one is read: {read}");
    let calls: Vec<Arc<Call>> = (40..90).map(live).collect();
    run(&mut ledger, &mut engine, &calls, 5);
    assert_eq!((ledger.read, ledger.alerts.len()), (read, 1), "and not again");
}

/// A session that lasts for nearly a day: it begins with a fetch, and reads go on and on.
fn long_session(calls: u32) -> Vec<Arc<Call>> {
    let every = 23 * Micros::HOUR / i64::from(calls);
    (0..calls)
        .map(|n| of(1, i64::from(n) * every, if n == 0 { "fetch" } else { "read" }, n.into()))
        .collect()
}

#[test]
fn a_session_of_a_day_costs_each_call_its_last_minutes() {
    let rules = rules(TAINT);
    let mut engine = Engine::new(Arc::clone(&rules), labels());
    let calls = long_session(20_000);
    for call in &calls {
        engine.apply(&[new(call)], Vec::new());
    }
    // Six minutes hold some 90 calls.
    let each = engine.walked() / calls.len() as u64;
    assert!(each < 200, "{each} calls were gone through for each");
    let sink = of(1, 23 * Micros::HOUR, "send", 900_000);
    let told = engine.apply(&[new(&sink)], Vec::new());
    assert_eq!(told.len(), 1, "the first call of the day is still known");
}
