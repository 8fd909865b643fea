//! What people see when logs come late, in pieces, from the future or in floods.

use std::sync::Arc;

use crate::model::{
    Alert, AlertChange, AlertId, Call, CallChange, Labels, Micros, OutcomeClass, Text, Tri,
};

use super::engine::{Engine, evaluate};
use super::field::LabelsOf;
use super::fixture::{Shape, call};
use super::history::KnownAlert;
use super::ledger::Ledger;
use super::rule::RuleSet;
use super::shipped::shipped;

const SECOND: i64 = Micros::SECOND;

/// The catalogue's labels for the tools of these scenarios.
fn labels() -> Arc<LabelsOf> {
    let tri = |yes| if yes { Tri::Yes } else { Tri::No };
    Arc::new(move |call: &Call| Labels {
        open_world: tri(&*call.tool == "fetch_url"),
        sensitive: tri(matches!(&*call.tool, "get_ticket" | "search_tickets")),
        outbound: tri(&*call.tool == "post_comment"),
        ..Labels::default()
    })
}

fn shipped_rules() -> Arc<RuleSet> {
    Arc::new(RuleSet::compile(&shipped()).unwrap())
}

fn counting(min: u32) -> Arc<RuleSet> {
    let text = format!(
        "
title: t
correlation:
  {{type: event_count, rules: [a], group-by: [actor], timespan: 60s, condition: {{gte: {min}}}}}
---
{{title: t, name: a, logsource: {{product: mcp}}, detection: {{s: {{outcome: ok}}, condition: s}}}}
"
    );
    Arc::new(RuleSet::compile(&[("flood.yml", &text)]).unwrap())
}

fn numbered(shapes: impl IntoIterator<Item = Shape>) -> Vec<Arc<Call>> {
    (0..).zip(shapes).map(|(number, shape)| call(&shape, number, number)).collect()
}

fn new(call: &Arc<Call>) -> CallChange {
    CallChange { old: None, new: Some(Arc::clone(call)) }
}

/// An engine with the store it works from.
struct Desk {
    engine: Engine,
    ledger: Ledger,
}

impl Desk {
    fn new(rules: &Arc<RuleSet>) -> Self {
        let engine = Engine::new(Arc::clone(rules), labels());
        Self { engine, ledger: Ledger::new(Arc::clone(rules)) }
    }

    fn run(&mut self, changes: &[CallChange]) -> Vec<AlertChange> {
        self.ledger.run(&mut self.engine, changes)
    }

    fn alert(&self, rule: &str) -> &Alert {
        let mut alerts = self.ledger.alerts.values().filter(|alert| *alert.rule == *rule);
        let alert = alerts.next().unwrap();
        assert!(alerts.next().is_none(), "more than one alert of {rule}");
        alert
    }
}

/// One call may show an argument many times: fewer calls than values are enough, however they come.
#[test]
fn values_are_counted_and_not_the_calls_that_show_them() {
    let text = "
title: t
correlation:
  {type: value_count, rules: [a], group-by: [actor], timespan: 60s, condition: {field: args.path, gte: 3}}
---
{title: t, name: a, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
";
    let rules = Arc::new(RuleSet::compile(&[("paths.yml", text)]).unwrap());
    let shown = |at: i64, paths| Shape { paths, ..Shape::at(at * SECOND, "read") };
    let calls = numbered([shown(0, &["z"]), shown(3_600, &["a", "b"]), shown(3_601, &["c"])]);
    for batch in [1, 2, 3] {
        let mut desk = Desk::new(&rules);
        for calls in calls.chunks(batch) {
            desk.run(&calls.iter().map(new).collect::<Vec<_>>());
        }
        assert_eq!(desk.alert("paths").count, 1, "{batch} at a time");
    }
}

fn set(change: &AlertChange) -> (&Alert, bool, &[AlertId]) {
    match change {
        AlertChange::Set { alert, is_new, replaces } => (alert, *is_new, replaces),
        AlertChange::Retracted { .. } => panic!("retracted: {change:?}"),
    }
}

fn trifecta(from: i64, principal: &'static str, tools: &[(i64, &'static str)]) -> Vec<Shape> {
    let shape = |(at, tool): &(i64, &'static str)| Shape {
        principal: Some(principal),
        session: principal,
        ..Shape::at(from + at * SECOND / 10, tool)
    };
    tools.iter().map(shape).collect()
}

#[test]
fn of_three_users_only_the_one_with_the_whole_trifecta_is_found() {
    let eng = [
        (0, "get_ticket"),
        (32, "fetch_url"),
        (61, "search_tickets"),
        (74, "search_tickets"),
        (99, "post_comment"),
    ];
    let ann = [(30, "fetch_url"), (50, "post_comment")];
    let bob = [(20, "post_comment"), (40, "get_ticket"), (80, "fetch_url")];
    let shapes = [("u-eng", &eng[..]), ("u-ann", &ann), ("u-bob", &bob)]
        .into_iter()
        .flat_map(|(principal, tools)| trifecta(0, principal, tools));
    let alerts = evaluate(shipped_rules(), labels(), numbered(shapes));
    let (mut rules, mut actors) = (Vec::new(), Vec::new());
    for alert in &alerts {
        rules.push(&*alert.rule);
        actors.push(&*alert.actor);
    }
    assert_eq!(rules, ["trifecta-session", "trifecta-signature"]);
    assert_eq!(actors, ["u-eng", "u-eng"]);
    let alert = &alerts[1];
    let tools: Vec<&str> = alert.evidence.iter().map(|evidence| &*evidence.call.tool).collect();
    let stages: Vec<&str> = alert.evidence.iter().map(|evidence| &*evidence.stage).collect();
    assert_eq!((&*alert.rule, &*alert.actor), ("trifecta-signature", "u-eng"));
    assert_eq!(tools, ["fetch_url", "search_tickets", "search_tickets", "post_comment"]);
    assert_eq!(stages, ["open-world-call", "sensitive-read", "sensitive-read", "outbound-write"]);
    assert_eq!((alert.why.threshold, alert.why.value, alert.why.timespan), (3, 3, Some(60.0)));
}

#[test]
fn a_late_call_that_moves_the_start_carries_the_old_id_along() {
    let rules = counting(3);
    let times = [10, 11, 12, 9].map(|at| Shape::at(at * SECOND, "t"));
    let calls = numbered(times);
    let mut desk = Desk::new(&rules);
    let first = desk.run(&[new(&calls[0]), new(&calls[1]), new(&calls[2])]);
    let (first, is_new, _) = set(&first[0]);
    assert!(is_new);
    let late = desk.run(&[new(&calls[3])]);
    let (moved, is_new, replaces) = set(&late[0]);
    assert_eq!((is_new, replaces, moved.count), (false, &[first.id][..], 2));
    assert_eq!(moved.closing, calls[1].id);
}

#[test]
fn a_late_call_joins_two_episodes_into_one() {
    let rules = counting(1);
    let calls = numbered([0, 100, 50].map(|at| Shape::at(at * SECOND, "t")));
    let mut desk = Desk::new(&rules);
    desk.run(&[new(&calls[0]), new(&calls[1])]);
    let ids: Vec<AlertId> = desk.ledger.alerts.keys().copied().collect();
    assert_eq!(ids.len(), 2);
    let joined = desk.run(&[new(&calls[2])]);
    let (alert, is_new, replaces) = set(&joined[0]);
    assert_eq!((joined.len(), is_new, alert.count, replaces.len()), (1, false, 3, 1));
    assert_eq!(desk.ledger.alerts.len(), 1);
}

#[test]
fn a_finding_that_no_longer_holds_is_retracted_with_a_reason() {
    let rules = counting(2);
    let calls = numbered([0, 1].map(|at| Shape::at(at * SECOND, "t")));
    let mut desk = Desk::new(&rules);
    let id = set(&desk.run(&[new(&calls[0]), new(&calls[1])])[0]).0.id;
    let denied = Shape { class: OutcomeClass::Denied, ..Shape::at(SECOND, "t") };
    let revision = CallChange { old: Some(Arc::clone(&calls[1])), new: Some(call(&denied, 1, 1)) };
    let told = desk.run(&[revision]);
    let [AlertChange::Retracted { id: retracted, reason }] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert_eq!(*retracted, id);
    assert!(!reason.is_empty());
}

#[test]
fn an_alert_follows_its_call_to_another_actor() {
    let rules = shipped_rules();
    let code = |shape: Shape, name| {
        let mut call = Call::clone(&call(&shape, 0, name));
        call.code = Text::from("definition_changed");
        Arc::new(call)
    };
    let alone = code(Shape { principal: None, ..Shape::at(0, "t") }, 0);
    let joined = code(Shape::at(0, "t"), 1);
    let mut desk = Desk::new(&rules);
    let id = set(&desk.run(&[new(&alone)])[0]).0.id;
    let told = desk.run(&[CallChange { old: Some(alone), new: Some(joined) }]);
    let (alert, is_new, replaces) = set(&told[0]);
    assert_eq!((told.len(), &*alert.actor), (1, "ann"));
    assert_eq!((is_new, replaces), (false, &[id][..]));
}

#[test]
fn a_call_from_the_future_neither_hides_nor_stops_anything() {
    let rules = shipped_rules();
    let mut desk = Desk::new(&rules);
    let future = Shape { future: true, session: "u-eng", ..Shape::at(i64::MAX / 4, "fetch_url") };
    desk.run(&[new(&call(&future, 900, 900))]);
    let tools = [(0, "fetch_url"), (10, "get_ticket"), (20, "post_comment")];
    for call in numbered(trifecta(0, "u-eng", &tools)) {
        assert!(desk.engine.plan(&[new(&call)]).is_empty());
        desk.run(&[new(&call)]);
    }
    assert_eq!(desk.alert("trifecta-signature").evidence.len(), 3);
}

#[test]
fn a_flood_keeps_the_first_match_and_the_latest_calls_whatever_the_batches() {
    let rules = counting(20);
    let calls = numbered((0..3_000).map(|at| Shape::at(at * SECOND / 4, "t")));
    let at_once = evaluate(Arc::clone(&rules), labels(), calls.clone());
    let [alert] = at_once.as_slice() else { panic!("{} alerts", at_once.len()) };
    assert_eq!((alert.evidence.len(), alert.elided, alert.count), (200, 2_800, 2_981));
    let kept: Vec<u64> =
        alert.evidence.iter().map(|evidence| evidence.call.position.offset).collect();
    let expected: Vec<u64> = (0..20).chain(2_820..3_000).collect();
    assert_eq!(kept, expected);
    for (batch, late) in [(1, 0), (7, 3), (500, 499)] {
        let mut desk = Desk::new(&rules);
        let mut order = calls.clone();
        for chunk in order.chunks_mut(late + 1) {
            chunk.reverse();
        }
        for batch in order.chunks(batch) {
            desk.run(&batch.iter().map(new).collect::<Vec<_>>());
        }
        let live = desk.alert("flood");
        let live_kept: Vec<u64> =
            live.evidence.iter().map(|evidence| evidence.call.position.offset).collect();
        assert_eq!((live.id, live.count, live.elided), (alert.id, alert.count, alert.elided));
        assert_eq!(live_kept, kept);
        assert_eq!(live.first_seen, alert.first_seen);
    }
}

#[test]
fn of_a_first_match_over_the_cap_the_middle_is_left_out_and_counted() {
    let rules = counting(500);
    let calls = numbered((0..500).map(|at| Shape::at(at * SECOND / 10, "t")));
    let alerts = evaluate(rules, labels(), calls);
    let [alert] = alerts.as_slice() else { panic!("{} alerts", alerts.len()) };
    let kept: Vec<u64> =
        alert.evidence.iter().map(|evidence| evidence.call.position.offset).collect();
    let expected: Vec<u64> = (0..100).chain(400..500).collect();
    assert_eq!((kept, alert.elided, alert.why.value), (expected, 300, 500));
}

#[test]
fn a_stream_in_order_never_asks_for_history_and_holds_only_what_is_live() {
    let rules = counting(3);
    let names: Vec<&'static str> =
        vec!["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];
    let mut desk = Desk::new(&rules);
    for hour in 0..200_i64 {
        let name = names[usize::try_from(hour).unwrap() % names.len()];
        let shapes = (0..4).map(|second| Shape {
            principal: Some(name),
            ..Shape::at(hour * Micros::HOUR + second * SECOND, "t")
        });
        let from = u64::try_from(hour).unwrap() * 4;
        let calls = (from..).zip(shapes).map(|(number, shape)| call(&shape, number, number));
        for call in calls.collect::<Vec<_>>() {
            let needs = desk.engine.plan(&[new(&call)]);
            assert!(needs.is_empty(), "{needs:?}");
            desk.run(&[new(&call)]);
        }
    }
    assert_eq!((desk.ledger.alerts.len(), desk.engine.groups_held()), (200, 1));
}

#[test]
fn a_late_call_reads_only_what_it_can_change() {
    let rules = counting(3);
    let mut desk = Desk::new(&rules);
    let calls = numbered((0..100).map(|number| Shape::at(number * 10 * Micros::MINUTE, "t")));
    desk.run(&calls.iter().map(new).collect::<Vec<_>>());
    let needs = desk.engine.plan(&[new(&call(&Shape::at(5 * SECOND, "t"), 900, 900))]);
    let [need] = needs.as_slice() else { panic!("{needs:?}") };
    assert_eq!(need.until(&[]), Some(Micros(65 * SECOND)));
    // An alert that goes on where the change ends is looked at to its end, and no further.
    let alert = |first: i64, last: i64| KnownAlert {
        id: AlertId([0; 16]),
        closing: calls[0].id,
        closing_at: Some(Micros(first * SECOND)),
        first_seen: Some(Micros(first * SECOND)),
        last_seen: Some(Micros(last * SECOND)),
        count: 1,
        is_of_load: false,
    };
    let alerts = [alert(400, 500), alert(125, 300)];
    assert_eq!(need.until(&alerts), Some(Micros(300 * SECOND)));
    assert_eq!(need.until(&[alert(60, 60_000)]), None, "what is in memory goes along");
}

#[test]
fn what_a_group_shows_while_a_rule_learns_is_home_by_the_time_of_the_calls() {
    let text = "
title: t
correlation: {type: first_seen, rules: [in], fields: [principal, tenant], learning: 7d}
---
{title: t, name: in, logsource: {product: mcp}, detection: {s: {outcome: ok}, condition: s}}
";
    let rules = Arc::new(RuleSet::compile(&[("new.yml", text)]).unwrap());
    let (day, start) = (24 * Micros::HOUR, 30 * 24 * Micros::HOUR);
    let seen = [
        (start, "acme"),
        (start + 7 * day, "globex"),
        (start + 7 * day + 1, "initech"),
        (start - 11 * day, "acme"),
    ];
    let calls =
        numbered(seen.map(|(at, tenant)| Shape { tenant: Some(tenant), ..Shape::at(at, "t") }));
    let tenants = |desk: &Desk| {
        let mut tenants: Vec<String> =
            desk.ledger.alerts.values().map(|alert| alert.group[1].1.to_string()).collect();
        tenants.sort();
        tenants
    };
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut desk = Desk::new(&rules);
        for index in order {
            desk.run(&[new(&calls[index])]);
        }
        assert_eq!(tenants(&desk), ["initech"], "{order:?}");
        // An earlier first call moves the time of learning back.
        desk.run(&[new(&calls[3])]);
        assert_eq!(tenants(&desk), ["globex", "initech"], "{order:?}");
    }
}

#[test]
fn one_call_fills_several_stages_only_where_the_rule_says_so() {
    let labels: Arc<LabelsOf> = Arc::new(|call: &Call| {
        let can = |word: &str| if call.tool.contains(word) { Tri::Yes } else { Tri::No };
        Labels {
            open_world: can("a"),
            sensitive: can("b"),
            outbound: can("c"),
            ..Labels::default()
        }
    });
    let stage = |name: &str, label: &str| {
        format!(
            "---\n{{title: t, name: {name}, logsource: {{product: mcp}}, \
             detection: {{s: {{tool.{label}: yes}}, condition: s}}}}\n"
        )
    };
    let stages =
        [stage("a", "open_world"), stage("b", "sensitive"), stage("c", "outbound")].concat();
    let found = |kind: &str, tools: &[&'static str]| {
        let text = format!("title: t\ncorrelation: {{{kind}, group-by: [actor]}}\n{stages}");
        let rules = Arc::new(RuleSet::compile(&[("r.yml", &text)]).unwrap());
        let shapes = (0..).zip(tools).map(|(at, tool)| Shape::at(at * SECOND, tool));
        evaluate(rules, Arc::clone(&labels), numbered(shapes)).len()
    };
    for kind in [
        "type: temporal_ordered, rules: [a, b, c], timespan: 10s",
        "type: temporal, rules: [a, b, c], timespan: 10s",
        "type: taint, source: a, touches: b, sink: c",
    ] {
        let allowed = format!("{kind}, allow-same-event: true");
        for tools in [&["ab", "c"][..], &["a", "bc"], &["abc"]] {
            assert_eq!((found(kind, tools), found(&allowed, tools)), (0, 1), "{kind} {tools:?}");
        }
        assert_eq!(found(&allowed, &["bc", "b"]), 0, "{kind}");
    }
}
