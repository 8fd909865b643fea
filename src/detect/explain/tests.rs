//! What rules say of a call, in words that can be checked.

use super::*;
use crate::detect::fixture::{self, Shape, call};
use crate::detect::shipped;
use crate::model::{Labels, OutcomeClass};

const SECOND: i64 = 1_000_000;

/// A rule over `fetch`, `read` and `post`, one over counts, one over first tenants, one over single calls.
const RULES: [(&str, &str); 4] = [
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
fn a_first_value_says_since_when_it_is_known() {
    let at = |seconds: i64, tenant: &'static str, name: u64| {
        let shape = Shape { tenant: Some(tenant), ..Shape::at(seconds * SECOND, "x") };
        call(&shape, name, name)
    };
    let calls = [at(0, "acme", 0), at(1, "globex", 1), at(2, "globex", 2)];
    let home = of_rule("first", &calls[0], &calls);
    assert_eq!(home.missing, ["the first value of tenant raise nothing, and this is one of them"]);
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
    let missing = told.missing.join("; ");
    assert!(missing.starts_with("as stage `burst-of-denials`: "), "{missing}");
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
fn the_engine_and_the_explanation_agree_on_the_shipped_rules_cases() {
    let rules = Arc::new(RuleSet::compile(&shipped()).unwrap());
    for rule in rules.rules() {
        for (number, case) in rule.cases.iter().enumerate() {
            let (calls, labels) = fixture::calls(rule, number);
            let alerts =
                crate::detect::evaluate(Arc::clone(&rules), Arc::clone(&labels), calls.clone());
            for call in &calls {
                let in_group = |other: &&Arc<Call>| {
                    rules.neighbours(rule, &*labels, call).is_some_and(|asked| {
                        asked.groups.iter().any(|group| {
                            group.iter().all(|(field, value)| {
                                let field = crate::detect::field::GroupField::parse(field).unwrap();
                                field.value(other) == Some(value)
                            })
                        }) && asked.from.is_none_or(|from| other.at >= Some(from))
                            && other.at <= Some(asked.to)
                    })
                };
                let around: Vec<Arc<Call>> = calls.iter().filter(in_group).cloned().collect();
                let told = rules.explain(rule, &*labels, call, &around);
                let is_evidence = alerts.iter().any(|alert| {
                    alert.rule == rule.name
                        && alert.evidence.iter().any(|found| found.call.id == call.id)
                });
                // What is elided from an alert is part of its match all the same.
                let elided = alerts.iter().any(|alert| alert.rule == rule.name && alert.elided > 0);
                assert!(
                    told.is_matched == is_evidence || elided,
                    "{} / {}: {told:#?}",
                    rule.name,
                    case.name
                );
            }
        }
    }
}
