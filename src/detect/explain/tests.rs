//! What rules say of a call, in words that can be checked.

use std::fmt::Write as _;

use super::*;
use crate::detect::fixture::{Shape, call};
use crate::detect::shipped;
use crate::model::{Labels, OutcomeClass};

const SECOND: i64 = 1_000_000;

/// A rule over `fetch`, `read` and `post`, one over counts, one over first tenants, one over single calls.
const RULES: [(&str, &str); 6] = [
    (
        "chain.yml",
        "title: t\ncorrelation: {type: temporal_ordered, rules: [f, r, p], group-by: [actor], timespan: 10s}\n---\n\
         {title: f, name: f, logsource: {product: mcp}, detection: {s: {tool.name: fetch}, condition: s}}\n---\n\
         {title: r, name: r, logsource: {product: mcp}, detection: {s: {tool.name: read}, condition: s}}\n---\n\
         {title: p, name: p, logsource: {product: mcp}, detection: {s: {tool.name: post}, condition: s}}\n",
    ),
    (
        "count.yml",
        "title: t\ncorrelation: {type: event_count, rules: [a], group-by: [actor], timespan: 10s, \
         condition: {gte: 4}}\n\
         ---\n{title: a, name: a, logsource: {product: mcp}, detection: {s: {tool.name: get}, condition: s}}\n",
    ),
    (
        "first.yml",
        "title: t\ncorrelation: {type: first_seen, rules: [a], fields: [principal, tenant]}\n\
         ---\n{title: a, name: a, logsource: {product: mcp}, detection: {s: {tenant|exists: true}, condition: s}}\n",
    ),
    (
        "twice.yml",
        "title: t\ncorrelation: {type: event_count, rules: [pair], group-by: [actor], timespan: 60s, \
         condition: {gte: 2}}\n---\ntitle: pair\nname: pair\ncorrelation: {type: temporal_ordered, rules: [f, r], \
         group-by: [actor], timespan: 10s}\n---\n\
         {title: f, name: f, logsource: {product: mcp}, detection: {s: {tool.name: fetch}, condition: s}}\n---\n\
         {title: r, name: r, logsource: {product: mcp}, detection: {s: {tool.name: read}, condition: s}}\n",
    ),
    (
        "after.yml",
        "title: t\ncorrelation: {type: temporal_ordered, rules: [pair, p], group-by: [], timespan: 20s}\n---\n\
         title: pair\nname: pair\ncorrelation: {type: temporal_ordered, rules: [f, r], group-by: [], \
         timespan: 10s}\n---\n\
         {title: f, name: f, logsource: {product: mcp}, detection: {s: {tool.name: fetch}, condition: s}}\n---\n\
         {title: r, name: r, logsource: {product: mcp}, detection: {s: {tool.name: read}, condition: s}}\n---\n\
         {title: p, name: p, logsource: {product: mcp}, detection: {s: {tool.name: post}, condition: s}}\n",
    ),
    (
        "single.yml",
        "title: t\nlogsource: {product: mcp}\ngroup-by: [tenant]\ndetection:\n  s: {outcome: error}\n  \
         condition: s and not 1 of x*\n  x1: {tool.name: [probe, 'ping*']}\n  x2: {args.limit|gte: 5}\n",
    ),
];

fn of_rule(name: &str, call: &Arc<Call>, around: &[Arc<Call>]) -> Explanation {
    let rules = RuleSet::compile(&RULES).unwrap();
    let rule = rules.rules().iter().find(|rule| *rule.name == *name).unwrap();
    let labels = |_: &Call| Labels::default();
    let asked = rules.neighbours(rule, &labels, call);
    // As a store would answer: only what was asked for.
    let within = |other: &&Arc<Call>| {
        asked.as_ref().is_some_and(|asked| {
            asked.from.is_none_or(|from| other.at >= Some(from)) && other.at <= Some(asked.to)
        })
    };
    let around: Vec<Arc<Call>> = around.iter().filter(within).cloned().collect();
    rules.explain(rule, &labels, call, &around)
}

/// Calls of these tools at these tenths of a second.
fn calls(tools: &[(i64, &'static str)]) -> Vec<Arc<Call>> {
    let one = |(number, (tenths, tool)): (usize, &(i64, &'static str))| {
        let number = number as u64;
        call(&Shape::at(tenths * SECOND / 10, tool), number, number)
    };
    tools.iter().enumerate().map(one).collect()
}

#[test]
fn a_sequence_says_which_stage_was_missing() {
    let of = |tools: &[(i64, &'static str)], index: usize| {
        let calls = calls(tools);
        of_rule("chain", &calls[index], &calls).missing.join("; ")
    };
    assert_eq!(of(&[(0, "fetch"), (50, "read"), (100, "post")], 1), "");
    let late = of(&[(0, "fetch"), (50, "read"), (101, "post")], 1);
    assert_eq!(late, "its stages came within 10.1 s, and 10 s are allowed");
    let alone = "as stage `r`: stage `f` did not come before it within 10 s";
    assert_eq!(of(&[(50, "read"), (60, "fetch"), (100, "post")], 0), alone);
    // It came before the post, and still too late.
    let behind = "as stage `p`: stage `f` did not come before stage `r` within 10 s";
    assert_eq!(of(&[(50, "read"), (60, "fetch"), (100, "post")], 2), behind);
    let open = "as stage `f`: stage `p` did not come after it within 10 s";
    assert_eq!(of(&[(0, "fetch"), (50, "read")], 0), open);
    let other = of(&[(0, "other")], 0);
    assert_eq!(other, "the call does not fit what the rule looks for");
}

#[test]
fn a_count_says_how_far_it_came() {
    let calls = calls(&[(0, "get"), (50, "get"), (101, "get"), (150, "get"), (400, "get")]);
    assert_eq!(of_rule("count", &calls[1], &calls).missing, ["3 of 4 calls within 10 s"]);
    assert_eq!(of_rule("count", &calls[4], &calls).missing, ["1 of 4 calls within 10 s"]);
    assert!(of_rule("count", &calls[4], &calls).stages[0].fits);
}

#[test]
fn a_share_is_that_of_enough_calls() {
    let rules = RuleSet::compile(&shipped()).unwrap();
    let rule = rules.rules().iter().find(|rule| *rule.name == *"error-rate").unwrap();
    // The first failed, then all went well.
    let of = |number: u64| {
        let one = |number: u64| {
            let class = if number < 2 { OutcomeClass::Error } else { OutcomeClass::Ok };
            let at = i64::try_from(number).unwrap() * SECOND;
            call(&Shape { class, ..Shape::at(at, "x") }, number, number)
        };
        let calls: Vec<Arc<Call>> = (0..number).map(one).collect();
        rules.explain(rule, &|_: &Call| Labels::default(), &calls[0], &calls).missing.join("; ")
    };
    assert_eq!(of(3), "3 of at least 20 calls within 300 s");
    assert_eq!(of(20), "10 % within 300 s; 50 % of at least 20 calls are asked for");
}

#[test]
fn a_first_value_says_since_when_it_is_known() {
    let at = |seconds: i64, tenant: &'static str, name: u64| {
        let shape = Shape { tenant: Some(tenant), ..Shape::at(seconds * SECOND, "x") };
        call(&shape, name, name)
    };
    let calls = [at(0, "acme", 0), at(1, "globex", 1), at(2, "globex", 2)];
    let home = of_rule("first", &calls[0], &calls);
    assert_eq!(home.missing, ["the first value of tenant raises nothing, and this is it"]);
    assert!(of_rule("first", &calls[1], &calls).is_matched);
    let again = of_rule("first", &calls[2], &calls).missing.join("");
    assert!(
        again.starts_with("this tenant had been seen before, at 1970-01-01T00:00:01"),
        "{again}"
    );
}

#[test]
fn each_question_is_told_with_the_answer_of_the_call() {
    let failed = Shape { class: OutcomeClass::Error, ..Shape::at(0, "ping_all") };
    let told = of_rule("single", &call(&failed, 0, 0), &[]);
    let item = |asks: &str, values: &[&str], holds| Asked::Item {
        asks: asks.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        holds,
    };
    let any = Asked::Any {
        holds: true,
        of: vec![
            item("tool.name: probe, ping*", &["ping_all"], true),
            item("args.limit|gte: 5", &[], false),
        ],
    };
    let not = Asked::Not { holds: false, of: Box::new(any) };
    let all = Asked::All { holds: false, of: vec![item("outcome: error", &["error"], true), not] };
    let stage =
        StageTold { name: "single".into(), count: None, fits: false, asked: all, except: None };
    assert_eq!(told.stages, [stage]);
    let fits = Shape { tool: "get", ..failed };
    let told = of_rule("single", &call(&fits, 0, 0), &[]);
    assert_eq!(told.missing, ["the call has no tenant, by which the rule groups calls"]);
    assert_eq!(told.group, [("tenant".into(), None)]);
    let whole = Shape { tenant: Some("acme"), ..fits };
    assert!(of_rule("single", &call(&whole, 0, 0), &[]).is_matched);
}

#[test]
fn a_count_among_stages_is_told_by_its_own_name() {
    let rules = RuleSet::compile(&shipped()).unwrap();
    let rule = rules.rules().iter().find(|rule| *rule.name == *"denials-then-success").unwrap();
    let denied = Shape { class: OutcomeClass::Denied, ..Shape::at(0, "x") };
    let denied = call(&denied, 0, 0);
    let told = rules.explain(rule, &|_: &Call| Labels::default(), &denied, &[]);
    assert_eq!(told.stages[0].count.as_deref(), Some("burst-of-denials"));
    assert_eq!(told.stages[1].count, None);
    assert_eq!(told.missing, ["as stage `burst-of-denials`: 1 of 5 calls within 300 s"]);
}

#[test]
fn a_count_among_stages_that_is_not_enough_where_it_should_be_is_told_with_its_figure() {
    let rules = RuleSet::compile(&shipped()).unwrap();
    let rule = rules.rules().iter().find(|rule| *rule.name == *"denials-then-success").unwrap();
    // Denials at these seconds, and a success.
    let of = |denied: &[i64], success: i64, explained: Option<usize>| {
        let one = |(number, (seconds, class)): (usize, (i64, OutcomeClass))| {
            let shape = Shape { class, ..Shape::at(seconds * SECOND, "x") };
            call(&shape, number as u64, number as u64)
        };
        let denials = denied.iter().map(|seconds| (*seconds, OutcomeClass::Denied));
        let all = denials.chain([(success, OutcomeClass::Ok)]);
        let calls: Vec<Arc<Call>> = all.enumerate().map(one).collect();
        let call = &calls[explained.unwrap_or(denied.len())];
        rules.explain(rule, &|_: &Call| Labels::default(), call, &calls).missing.join("; ")
    };
    let burst = [200, 201, 202, 203, 204];
    assert_eq!(of(&burst, 205, None), "");
    assert_eq!(of(&burst, 205, Some(0)), "");
    // There were five, but only with the one after the success.
    let early = "as stage `success`: stage `burst-of-denials` did not come before it within 300 s: 4 of 5 calls \
                 within 300 s";
    assert_eq!(of(&burst, 203, None), early);
    let open = "as stage `burst-of-denials`: stage `success` did not come after it within 300 s";
    assert_eq!(of(&burst, 203, Some(1)), open);
    let late = "its stages came within 396 s, and 300 s are allowed";
    assert_eq!(of(&burst, 600, None), late);
    let few = "as stage `success`: stage `burst-of-denials` did not come before it within 300 s: 3 of 5 calls \
               within 300 s";
    assert_eq!(of(&[0, 1, 290, 310], 320, None), few);
}

#[test]
fn an_exception_is_told_as_one_of_the_overrides() {
    let mut rules = RuleSet::compile(&RULES).unwrap();
    let text = "[[single.except]]\nprincipal = \"a*\"\n";
    let (overrides, problems) = crate::detect::Overrides::parse("o", text);
    assert_eq!((problems, rules.tune(&overrides, &[])), (Vec::new(), Vec::new()));
    let rule = rules.rules().iter().find(|rule| *rule.name == *"single").unwrap();
    let explain =
        |shape: &Shape| rules.explain(rule, &|_: &Call| Labels::default(), &call(shape, 0, 0), &[]);
    let failed = Shape { class: OutcomeClass::Error, tenant: Some("acme"), ..Shape::at(0, "get") };
    let told = explain(&failed);
    assert_eq!(told.missing, ["the call is one of the exceptions in overrides.toml"]);
    let [stage] = told.stages.as_slice() else { panic!("one stage") };
    assert!(stage.asked.holds() && !stage.fits);
    let expected = "Some(Item { asks: \"principal: a*\"";
    assert!(format!("{:?}", stage.except).starts_with(expected), "{stage:?}");
    let fine = explain(&Shape { class: OutcomeClass::Ok, ..failed });
    assert_eq!(fine.missing, ["the call does not fit what the rule looks for"]);
}

#[test]
fn what_is_missing_inside_of_a_stage_is_told_and_else_what_its_closing_call_lacked() {
    let of = |rule: &str, tools: &[(i64, &'static str)], index: usize| {
        let calls = calls(tools);
        let told = of_rule(rule, &calls[index], &calls);
        assert_eq!(told.is_matched, told.missing.is_empty());
        told.missing.join("; ")
    };
    let two = [(0, "fetch"), (50, "read"), (300, "fetch"), (350, "read")];
    assert_eq!([0, 1, 2, 3].map(|index| of("twice", &two, index)), [""; 4]);
    // One pair, of which both calls lack the other one.
    let once = "1 of 2 calls within 60 s";
    assert_eq!([0, 1].map(|index| of("twice", &two[..2], index)), [once; 2]);
    let open = "in `pair`: as stage `f`: stage `r` did not come after it within 10 s";
    assert_eq!(of("twice", &two[..3], 2), open);
    let slow = "in `pair`: its stages came within 10.1 s, and 10 s are allowed";
    assert_eq!(of("twice", &[(0, "fetch"), (101, "read")], 0), slow);

    let whole = [(0, "fetch"), (50, "read"), (250, "post")];
    assert_eq!([0, 1, 2].map(|index| of("after", &whole, index)), [""; 3]);
    let alone = "as stage `pair`: stage `p` did not come after it within 20 s";
    assert_eq!([0, 1].map(|index| of("after", &whole[..2], index)), [alone; 2]);
    let post = "as stage `p`: stage `pair` did not come before it within 20 s";
    assert_eq!(of("after", &[(0, "fetch"), (250, "post")], 1), post);
    let calls = calls(&whole);
    let told = of_rule("after", &calls[0], &calls);
    assert_eq!(told.stages[0].count.as_deref(), Some("pair"));
    assert_eq!((told.stages[2].count.as_deref(), told.group), (None, Vec::new()));
}

/// What closes one inner match is a part of others, and so on: to follow all of it would take for ever.
#[test]
fn what_is_not_counted_inside_is_told_and_not_followed() {
    let pairs = [("p", "q"), ("p", "r"), ("q", "p"), ("q", "r"), ("r", "p"), ("r", "q")];
    let names: Vec<String> = pairs.iter().map(|(one, other)| format!("{one}{other}")).collect();
    let mut text = format!(
        "title: t\ncorrelation: {{type: value_count, rules: [{}], group-by: [actor], timespan: 10m, \
         condition: {{field: tenant, gte: 2}}}}\n",
        names.join(", ")
    );
    for (one, other) in pairs {
        write!(
            text,
            "---\n{{title: t, name: {one}{other}, correlation: {{type: temporal_ordered, \
             rules: [{one}, {other}], group-by: [actor], timespan: 10m}}}}\n"
        )
        .unwrap();
    }
    for tool in ["p", "q", "r"] {
        write!(
            text,
            "---\n{{title: t, name: {tool}, logsource: {{product: mcp}}, \
             detection: {{s: {{tool.name: {tool}}}, condition: s}}}}\n"
        )
        .unwrap();
    }
    let rules = RuleSet::compile(&[("r.yml", &text)]).unwrap();
    let calls: Vec<_> = (0..60_u32)
        .map(|number| {
            let tool = ["p", "q", "r"][number as usize % 3];
            let shape = Shape::at(i64::from(number) * SECOND, tool);
            let mut one = Call::clone(&call(&shape, number.into(), number.into()));
            one.tenant = None;
            Arc::new(one)
        })
        .collect();
    let explained =
        rules.explain(&rules.rules()[0], &|_: &Call| Labels::default(), &calls[0], &calls);
    let told = format!("{explained:?}");
    assert!(told.contains("is not counted"), "{told}");
}
