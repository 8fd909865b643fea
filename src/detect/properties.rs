//! The promise of the engine, tried on random logs: whatever the order, the batches, the repeats,
//! the revisions and the restarts, the alerts that stand in the end are those of the set of calls.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use rustc_hash::FxHashMap;

use crate::model::{Alert, AlertChange, Call, CallChange, Labels, Micros, OutcomeClass, Text, Tri};

use super::engine::Engine;
use super::field::LabelsOf;
use super::fixture::{Shape, call};
use super::ledger::Ledger;
use super::limits::Limits;
use super::naive::{
    Fits, GroupOf, NaiveChain, NaiveCount, NaiveKind, NaiveRule, NaiveStage, Said, What, alerts,
};
use super::property_rules::FILES;
use super::rule::RuleSet;

const SECOND: i64 = Micros::SECOND;
const HOUR: i64 = Micros::HOUR;

/// Cases of each property; `PROPTEST_CASES` raises them.
const CASES_MIN: u32 = 600;

fn open(call: &Call) -> bool {
    matches!(&*call.tool, "fetch" | "all")
}

fn sensitive(call: &Call) -> bool {
    matches!(&*call.tool, "read" | "all")
}

fn outbound(call: &Call) -> bool {
    matches!(&*call.tool, "send" | "all")
}

fn denied(call: &Call) -> bool {
    call.class == OutcomeClass::Denied
}

fn ok(call: &Call) -> bool {
    call.class == OutcomeClass::Ok
}

fn naive_rules() -> Vec<NaiveRule> {
    let mut rules = ordered_rules();
    rules.extend(other_rules());
    rules.extend(rules_with_options());
    rules.extend(rules_of_several());
    rules.extend(rules_of_rules());
    rules
}

fn tenant(call: &Call) -> Vec<Text> {
    call.tenant.iter().cloned().collect()
}

fn paths(call: &Call) -> Vec<Text> {
    call.args.values.iter().map(|arg| Text::clone(&arg.text)).collect()
}

fn plain(name: &'static str, fits: Fits) -> NaiveStage {
    NaiveStage { kinds: vec![NaiveKind::Calls(name, fits)], count: None }
}

fn counted(name: &'static str, fits: Fits, span: i64, count: NaiveCount) -> NaiveStage {
    NaiveStage { count: Some((span * SECOND, count)), ..plain(name, fits) }
}

/// A count, or a share, of the calls of several rules.
fn counted_too(mut stage: NaiveStage, name: &'static str, fits: Fits) -> NaiveStage {
    stage.kinds.push(NaiveKind::Calls(name, fits));
    stage
}

/// Spans in seconds.
fn chain(stages: Vec<NaiveStage>, timespan: i64, quiet: i64) -> NaiveChain {
    let (timespan, quiet) = (timespan * SECOND, quiet * SECOND);
    NaiveChain { stages, ordered: true, same: false, timespan, gap: None, quiet }
}

fn rule(name: &'static str, group: GroupOf, chain: NaiveChain) -> NaiveRule {
    NaiveRule { name, groups: vec![group], what: What::Chain(chain) }
}

const BY_SESSION: GroupOf = |call| Some(vec![call.session.clone()]);
const BY_PRINCIPAL: GroupOf = |call| Some(vec![call.principal.clone()?]);
const BY_CLIENT: GroupOf = |call| Some(vec![call.client.clone()?]);
const BY_ACTOR: GroupOf = |call| Some(vec![call.actor.clone()]);
const ALL: GroupOf = |_| Some(Vec::new());

fn ordered_rules() -> Vec<NaiveRule> {
    use NaiveCount::{Events, Values};
    let two: fn(usize) -> bool = |count| count >= 2;
    let abc = vec![plain("a", open), plain("b", sensitive), plain("c", outbound)];
    let burst = counted("b", sensitive, 10, Events(|count| count >= 3));
    let denials = vec![counted("denied", denied, 8, Events(two)), plain("ok", ok)];
    let leak = vec![counted("b", sensitive, 8, Events(two)), plain("c", outbound)];
    let middle = vec![
        plain("a", open),
        counted("b", sensitive, 5, Events(|count| (2..=3).contains(&count))),
        counted("ok", ok, 7, Values(tenant, two)),
    ];
    let any = counted("any", |_| true, 10 * 3600, Events(two));
    let error = |call: &Call| call.class == OutcomeClass::Error;
    let taint =
        NaiveChain { gap: Some(30 * 60 * SECOND), ..chain(abc.clone(), 24 * 3600, 30 * 60) };
    vec![
        rule("sequence", BY_SESSION, chain(abc, 10, 10)),
        rule(
            "count",
            |call| Some(vec![call.principal.clone()?, call.tool.clone()]),
            chain(vec![burst], 0, 10),
        ),
        rule("denials", BY_PRINCIPAL, chain(denials, 6, 6)),
        rule("leak", BY_SESSION, chain(leak, 6, 6)),
        rule("middle", BY_PRINCIPAL, chain(middle, 12, 12)),
        rule("days", BY_CLIENT, chain(vec![any], 0, 10 * 3600)),
        rule("single", BY_ACTOR, chain(vec![plain("single", error)], 0, 600)),
        rule("taint", BY_ACTOR, taint),
    ]
}

fn other_rules() -> Vec<NaiveRule> {
    use NaiveCount::{Events, Share, Values};
    let exactly = counted("b", sensitive, 10, Events(|count| count == 3 || count == 5));
    let values = counted("ok", ok, 10, Values(tenant, |count| count >= 2));
    let paths = counted("ok", ok, 5, Values(paths, |count| count >= 3));
    let share =
        counted("denied", denied, 10, Share(|of, per| per >= 3 && of as f64 / per as f64 >= 0.5));
    let share = counted_too(share, "any", |call| &*call.tool != "fetch");
    let many = counted("denied", denied, 4, Events(|count| count >= 2));
    let any = NaiveChain {
        ordered: false,
        ..chain(vec![plain("a", open), plain("b", sensitive), many], 9, 9)
    };
    let across = chain(vec![plain("a", open), plain("c", outbound)], 10, 10);
    vec![
        rule("range", BY_SESSION, chain(vec![exactly], 0, 10)),
        rule("values", BY_SESSION, chain(vec![values], 0, 10)),
        rule("paths", BY_SESSION, chain(vec![paths], 0, 5)),
        rule("ratio", BY_PRINCIPAL, chain(vec![share], 0, 10)),
        rule("temporal", BY_SESSION, any),
        NaiveRule { name: "alias", groups: vec![BY_SESSION, BY_CLIENT], what: What::Chain(across) },
        NaiveRule {
            name: "pairs",
            groups: vec![|call| Some(vec![call.session.clone(), call.tenant.clone()?])],
            what: What::FirstSeen { stage: "in", fits: ok, baseline: 0, learning: None },
        },
        NaiveRule {
            name: "tenants",
            groups: vec![|call| Some(vec![call.principal.clone()?, call.tenant.clone()?])],
            what: What::FirstSeen { stage: "in", fits: ok, baseline: 1, learning: None },
        },
        NaiveRule {
            name: "tools",
            groups: vec![|call| Some(vec![call.tool.clone()])],
            what: What::FirstSeen { stage: "in", fits: |_| true, baseline: 2, learning: None },
        },
    ]
}

fn rules_with_options() -> Vec<NaiveRule> {
    let many = counted("ok", ok, 5, NaiveCount::Events(|count| count >= 2));
    let four = vec![plain("a", open), plain("b", sensitive), many, plain("c", outbound)];
    let at_once = NaiveChain { same: true, ..chain(four, 10, 10) };
    let two = chain(vec![plain("a", open), plain("b", sensitive)], 9, 9);
    let together = NaiveChain { same: true, ordered: false, ..two };
    let tainted = NaiveChain {
        same: true,
        gap: Some(30 * 60 * SECOND),
        ..chain(vec![plain("a", open), plain("c", outbound)], 24 * 3600, 30 * 60)
    };
    let learning = Some(20 * SECOND);
    vec![
        rule("at-once", BY_SESSION, at_once),
        rule("together", BY_ACTOR, together),
        rule("tainted-at-once", BY_SESSION, tainted),
        NaiveRule {
            name: "learned",
            groups: vec![|call| Some(vec![call.principal.clone()?, call.tool.clone()])],
            what: What::FirstSeen { stage: "in", fits: ok, baseline: 2, learning },
        },
    ]
}

/// Counts over several rules, and rules whose calls are one group.
fn rules_of_several() -> Vec<NaiveRule> {
    use NaiveCount::{Events, Values};
    let either = counted("a", open, 10, Events(|count| count >= 3));
    let either = counted_too(either, "b", sensitive);
    let many = counted("b", sensitive, 8, Events(|count| (2..=4).contains(&count)));
    let everything =
        vec![counted_too(many, "denied", denied), plain("c", outbound), plain("ok", ok)];
    let tenants = Values(tenant, |count| count >= 3);
    let tenants = counted_too(counted("ok", ok, 10, tenants), "denied", denied);
    let two = chain(vec![plain("a", open), plain("b", sensitive)], 4, 4);
    vec![
        rule("either", BY_SESSION, chain(vec![either], 0, 10)),
        rule("everything", ALL, chain(everything, 10, 10)),
        rule("everybody", ALL, chain(vec![tenants], 0, 10)),
        rule("anybody", ALL, NaiveChain { ordered: false, ..two }),
    ]
}

/// Correlations inside one another.
fn rules_of_rules() -> Vec<NaiveRule> {
    use NaiveCount::{Events, Values};
    let two: fn(usize) -> bool = |count| count >= 2;
    let closing = |chain: NaiveChain, count: Option<(i64, NaiveCount)>| NaiveStage {
        kinds: vec![NaiveKind::Closing(chain)],
        count: count.map(|(span, count)| (span * SECOND, count)),
    };
    let ab = || vec![plain("a", open), plain("b", sensitive)];
    let pair = |span| chain(ab(), span, 0);
    let either = |span| NaiveChain { ordered: false, ..pair(span) };
    let pair_then = vec![closing(pair(6), None), plain("denied", denied)];
    let twice = counted_too(closing(either(4), Some((12, Events(two)))), "denied", denied);
    let wide = vec![closing(pair(5), Some((8, Values(tenant, two)))), plain("c", outbound)];
    let bursts = counted("b", sensitive, 4, Events(|count| count == 2 || count > 3));
    let bursts = closing(chain(vec![bursts], 0, 0), Some((10, Events(two))));
    let deep = chain(vec![closing(pair(3), None), plain("ok", ok)], 5, 0);
    let deep = vec![plain("c", outbound), closing(NaiveChain { ordered: false, ..deep }, None)];
    vec![
        rule("pair-then", BY_SESSION, chain(pair_then, 10, 10)),
        rule("twice", BY_PRINCIPAL, chain(vec![twice], 0, 12)),
        rule("wide", ALL, chain(wide, 6, 6)),
        rule("bursts", BY_SESSION, chain(vec![bursts], 0, 10)),
        rule("deep", BY_ACTOR, chain(deep, 8, 8)),
    ]
}

fn labels() -> Arc<LabelsOf> {
    let tri = |yes| if yes { Tri::Yes } else { Tri::No };
    Arc::new(move |call: &Call| Labels {
        open_world: tri(open(call)),
        sensitive: tri(sensitive(call)),
        outbound: tri(outbound(call)),
        ..Labels::default()
    })
}

fn rule_set() -> Arc<RuleSet> {
    Arc::new(RuleSet::compile(&FILES).unwrap())
}

/// Times that tie, that lie just within and just outside the timespans, in clusters minutes, hours
/// and days apart.
fn time() -> impl Strategy<Value = Option<i64>> {
    let base = prop_oneof![
        6 => Just(0),
        2 => (0..30_i64).prop_map(|minutes| minutes * 60 * SECOND),
        2 => (0..6_i64).prop_map(|halves| halves * 30 * 60 * SECOND),
        2 => (0..80_i64).prop_map(|hours| hours * HOUR),
    ];
    let offset = (0..30_i64).prop_map(|seconds| seconds * SECOND);
    let nudge = prop_oneof![4 => Just(0), 1 => Just(1), 1 => Just(-1)];
    let at =
        (base, offset, nudge).prop_map(|(base, offset, nudge)| 1_000_000 + base + offset + nudge);
    prop_oneof![15 => at.prop_map(Some), 1 => Just(None)]
}

fn shape() -> impl Strategy<Value = Shape> {
    let names = (
        prop::option::weighted(0.9, prop::sample::select(vec!["ann", "bob"])),
        prop::option::weighted(0.7, prop::sample::select(vec!["c1", "c2"])),
        prop::option::weighted(0.8, prop::sample::select(vec!["t1", "t2", "t3"])),
        prop::sample::select(vec!["s1", "s2", "c1"]),
        prop::sample::select(vec!["left", "right"]),
    );
    let tool = prop::sample::select(vec!["fetch", "read", "read", "send", "all", "plain"]);
    let class = prop::sample::select(vec![
        OutcomeClass::Ok,
        OutcomeClass::Ok,
        OutcomeClass::Denied,
        OutcomeClass::Denied,
        OutcomeClass::Error,
    ]);
    let paths: [&[&str]; 4] = [&[], &["x"], &["y", "z"], &["x", "y"]];
    let rest = (prop::bool::weighted(0.05), 0..3_u8, prop::sample::select(paths.to_vec()));
    (time(), tool, class, names, rest).prop_map(
        |(at, tool, class, (principal, client, tenant, session, stream), rest)| {
            let (future, duration_ms, paths) = rest;
            let at = at.map(|at| if future { at + 3_000 * HOUR } else { at });
            Shape {
                at,
                tool,
                class,
                principal,
                client,
                tenant,
                session,
                stream,
                future,
                paths,
                duration_ms,
            }
        },
    )
}

/// Something that happens to the calls.
#[derive(Clone, Debug)]
enum Step {
    Arrive(Shape),
    /// One call becomes another; perhaps it keeps its id.
    Revise(usize, Shape, bool),
    /// One call says the same about all but what no rule looks at.
    Touch(usize),
    Leave(usize),
}

#[derive(Clone, Debug)]
struct Delivery {
    steps: Vec<Step>,
    restart: bool,
    again: Again,
}

/// Whether a batch comes a second time.
#[derive(Clone, Copy, Debug)]
enum Again {
    No,
    AtOnce,
    AfterRestart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => shape().prop_map(Step::Arrive),
        2 => (any::<usize>(), shape(), any::<bool>())
            .prop_map(|(which, shape, keeps_id)| Step::Revise(which, shape, keeps_id)),
        1 => any::<usize>().prop_map(Step::Touch),
        1 => any::<usize>().prop_map(Step::Leave),
    ]
}

fn delivery() -> impl Strategy<Value = Delivery> {
    let again = prop_oneof![
        8 => Just(Again::No),
        2 => Just(Again::AtOnce),
        1 => Just(Again::AfterRestart),
    ];
    (prop::collection::vec(step(), 1..6), prop::bool::weighted(0.1), again)
        .prop_map(|(steps, restart, again)| Delivery { steps, restart, again })
}

/// The calls as they stand, and the changes that made them so.
#[derive(Default)]
struct World {
    calls: Vec<(Shape, u64, Arc<Call>)>,
    next: u64,
}

impl World {
    fn take(&mut self, step: &Step) -> Option<CallChange> {
        self.next += 1;
        match step {
            Step::Arrive(shape) => {
                let new = call(shape, self.next, self.next);
                self.calls.push((shape.clone(), self.next, Arc::clone(&new)));
                Some(CallChange { old: None, new: Some(new) })
            }
            Step::Revise(which, shape, keeps_id) => {
                let next = self.next;
                let (held, name, old) = self.pick(*which)?;
                *held = shape.clone();
                *name = if *keeps_id { *name } else { next };
                let new = call(shape, next, *name);
                let old = std::mem::replace(old, Arc::clone(&new));
                Some(CallChange { old: Some(old), new: Some(new) })
            }
            Step::Touch(which) => {
                let (held, _, old) = self.pick(*which)?;
                held.duration_ms = held.duration_ms.wrapping_add(1);
                let mut new = Call::clone(old);
                new.duration_ms = Some(held.duration_ms.into());
                let new = Arc::new(new);
                let old = std::mem::replace(old, Arc::clone(&new));
                Some(CallChange { old: Some(old), new: Some(new) })
            }
            Step::Leave(which) => {
                let index = (!self.calls.is_empty()).then(|| which % self.calls.len())?;
                let (_, _, old) = self.calls.swap_remove(index);
                Some(CallChange { old: Some(old), new: None })
            }
        }
    }

    fn pick(&mut self, which: usize) -> Option<&mut (Shape, u64, Arc<Call>)> {
        let index = (!self.calls.is_empty()).then(|| which % self.calls.len())?;
        self.calls.get_mut(index)
    }

    fn set(&self) -> Vec<Arc<Call>> {
        self.calls.iter().map(|(_, _, call)| Arc::clone(call)).collect()
    }
}

fn said(alert: &Alert) -> Said {
    Said {
        rule: alert.rule.to_string(),
        group: alert.group.iter().map(|(_, value)| value.clone()).collect(),
        id: alert.id,
        closing: alert.closing,
        first_seen: alert.first_seen,
        last_seen: alert.last_seen,
        count: alert.count,
        value: alert.why.value,
        evidence: alert
            .evidence
            .iter()
            .map(|evidence| (evidence.stage.to_string(), evidence.call.id))
            .collect(),
    }
}

fn all_said<'a>(alerts: impl IntoIterator<Item = &'a Alert>) -> Vec<Said> {
    let mut said: Vec<Said> = alerts.into_iter().map(said).collect();
    said.sort();
    said
}

/// The alerts that stand after the deliveries, and the calls that stand behind them.
fn deliver(
    rules: &Arc<RuleSet>,
    deliveries: &[Delivery],
    limits: Limits,
) -> (Ledger, Vec<Arc<Call>>) {
    let mut world = World::default();
    let mut ledger = Ledger::new(Arc::clone(rules));
    let mut engine = Engine::with_limits(Arc::clone(rules), labels(), limits);
    let restarted = |ledger: &Ledger| {
        let mut engine = Engine::with_limits(Arc::clone(rules), labels(), limits);
        let (newest, settled) = ledger.newest();
        engine.cold(newest, settled);
        engine
    };
    for delivery in deliveries {
        if delivery.restart {
            engine = restarted(&ledger);
        }
        let changes: Vec<CallChange> =
            delivery.steps.iter().filter_map(|step| world.take(step)).collect();
        ledger.run(&mut engine, &changes);
        match delivery.again {
            Again::No => continue,
            Again::AtOnce => {}
            Again::AfterRestart => engine = restarted(&ledger),
        }
        for change in ledger.run(&mut engine, &changes) {
            // Only the store remembers alerts without a time through a restart.
            let is_new = matches!(&change, AlertChange::Set { is_new: true, alert, .. }
                if alert.closing_at.is_some());
            assert!(!is_new, "a repeated batch raised {change:?}");
        }
    }
    let calls = world.set();
    (ledger, calls)
}

/// What stands after the deliveries must be what the set of calls shows, to the engine in one pass
/// and to the slow evaluator.
fn check(deliveries: &[Delivery]) -> Result<(), TestCaseError> {
    check_within(deliveries, Limits::default())
}

fn check_within(deliveries: &[Delivery], limits: Limits) -> Result<(), TestCaseError> {
    let rules = rule_set();
    let (ledger, calls) = deliver(&rules, deliveries, limits);
    let standing = all_said(ledger.alerts.values());
    let naive = alerts(&naive_rules(), &rules, &calls, &limits);
    let mut at_once = Ledger::new(Arc::clone(&rules));
    at_once.run(
        &mut Engine::with_limits(Arc::clone(&rules), labels(), limits),
        &calls
            .iter()
            .map(|call| CallChange { old: None, new: Some(Arc::clone(call)) })
            .collect::<Vec<_>>(),
    );
    prop_assert_eq!(&all_said(at_once.alerts.values()), &naive);
    prop_assert_eq!(&standing, &naive);
    for evidence in ledger.alerts.values().flat_map(|alert| &alert.evidence) {
        let current = calls.iter().find(|call| call.id == evidence.call.id);
        prop_assert_eq!(current, Some(&evidence.call), "stale evidence");
    }
    check_first_seen(&rules, &ledger, calls)
}

/// What was told of first calls over all deliveries is what one pass tells, and with it an engine
/// over an empty store that gets the calls once more finds the same alerts, and nothing seen first.
fn check_first_seen(
    rules: &Arc<RuleSet>,
    ledger: &Ledger,
    calls: Vec<Arc<Call>>,
) -> Result<(), TestCaseError> {
    let changes: Vec<CallChange> =
        calls.into_iter().map(|call| CallChange { old: None, new: Some(call) }).collect();
    let mut once = Ledger::new(Arc::clone(rules));
    once.run(&mut Engine::new(Arc::clone(rules), labels()), &changes);
    let first: FxHashMap<_, _> =
        once.first_seen.iter().map(|(key, fact)| (key, fact.call_id)).collect();
    let told = ledger.first_seen.iter().map(|(key, fact)| (key, fact.call_id)).collect();
    prop_assert_eq!(&first, &told);
    let mut again = Ledger::new(Arc::clone(rules));
    again.remembered = ledger.first_seen.values().cloned().collect();
    let mut engine = Engine::new(Arc::clone(rules), labels());
    engine.remember();
    for change in &changes {
        again.run(&mut engine, std::slice::from_ref(change));
    }
    prop_assert_eq!(again.first_seen.len(), 0, "{:?}", again.first_seen);
    prop_assert_eq!(all_said(again.alerts.values()), all_said(once.alerts.values()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(CASES_MIN)))]

    #[test]
    fn alerts_are_a_function_of_the_set_of_calls(
        deliveries in prop::collection::vec(delivery(), 1..25),
    ) {
        check(&deliveries)?;
    }

    /// Nearly nothing fits into memory, so that groups go and come all the time, and the groups are
    /// busy that have more than three calls.
    #[test]
    fn what_memory_has_no_room_for_changes_nothing(
        deliveries in prop::collection::vec(delivery(), 1..25),
        groups_max in 0..4_usize,
        calls_max in 0..12_usize,
        group_calls_max in 3..8_u64,
        evicted_max in 0..8_usize,
        values_max in 0..8_usize,
    ) {
        let limits = Limits { groups_max, calls_max, group_calls_max, evicted_max, values_max };
        check_within(&deliveries, limits)?;
    }
}

/// Those below are rare among random logs.
#[test]
fn a_call_that_gets_its_time_late_and_twice_keeps_its_alert() {
    let failed = Shape { class: OutcomeClass::Error, ..Shape::at(SECOND, "plain") };
    let untimed = Shape { at: None, ..failed.clone() };
    let once = |step, again| Delivery { steps: vec![step], restart: false, again };
    let revise = Step::Revise(0, failed, true);
    check(&[once(Step::Arrive(untimed), Again::No), once(revise, Again::AtOnce)]).unwrap();
}

#[test]
fn a_stage_filled_on_both_sides_of_the_floor_is_the_first_one() {
    let seconds = |seconds| seconds * SECOND;
    let steps = (0..6).map(|at| Step::Arrive(Shape::at(seconds(at), "all")));
    // The floor follows eighty seconds behind, and so falls between the last two.
    let newest = Step::Arrive(Shape::at(seconds(84) + SECOND / 2, "read"));
    let steps = steps.chain([newest]).collect();
    check(&[Delivery { steps, restart: false, again: Again::No }]).unwrap();
}

/// The call that an alert far ahead closes with turns out to be of long ago: the alert goes with it, and
/// what is left ahead is another.
#[test]
fn a_call_that_moves_behind_the_floor_takes_its_alert_along() {
    let ahead = Shape { future: true, ..Shape::at(3 * HOUR, "all") };
    let batch = |steps| Delivery { steps, restart: false, again: Again::No };
    for which in 0..2 {
        let moved = Step::Revise(which, Shape::at(SECOND, "all"), true);
        let newest = Shape::at(2 * 60 * SECOND, "fetch");
        check(&[
            batch(vec![Step::Arrive(ahead.clone()), Step::Arrive(ahead.clone())]),
            batch(vec![Step::Arrive(newest)]),
            batch(vec![moved]),
        ])
        .unwrap();
    }
}
