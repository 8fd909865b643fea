//! The examples of `rules/README.md` are read, and their cases run: the reference is true or this fails.

use std::sync::Arc;

use super::read_logs;
use crate::detect::{Overrides, RuleSet, evaluate, fixture, run_tests, shipped};
use crate::model::{Call, Labels};

const REFERENCE: &str = include_str!("../../../rules/README.md");

/// What stands between fences, with the language of the fence and the line behind it.
fn fenced() -> Vec<(usize, &'static str, String)> {
    let mut found: Vec<(usize, &str, String)> = Vec::new();
    let mut is_open = false;
    for (number, line) in REFERENCE.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(language) => {
                is_open = true;
                found.push((number + 2, language, String::new()));
            }
            None if is_open => {
                let (.., text) = found.last_mut().unwrap();
                *text += line;
                text.push('\n');
            }
            None => {}
        }
    }
    assert!(!is_open, "a fence is not closed");
    found
}

/// A whole rule, made of what may be a part of one.
fn whole(text: &str) -> String {
    if text.starts_with("title:") {
        return text.to_owned();
    }
    if text.starts_with("detection:") {
        return format!("title: t\nlogsource: {{product: mcp}}\n{text}");
    }
    assert!(text.starts_with("correlation:"), "neither a rule nor a part of one:\n{text}");
    let names = |line: &str| -> Vec<String> {
        let Some((key, value)) = line.trim().split_once(": ") else { return Vec::new() };
        let is_reference = ["rules", "of", "per", "source", "touches", "sink"].contains(&key);
        let value = value.split('#').next().unwrap_or_default().trim().trim_matches(['[', ']']);
        let names = value.split(", ").filter(|_| is_reference);
        names.map(str::to_owned).collect()
    };
    let helpers = text.lines().flat_map(names).map(|name| {
        format!(
            "---\ntitle: t\nname: {name}\nlogsource: {{product: mcp}}\n\
             detection: {{s: {{tool.name: {name}}}, condition: s}}\n"
        )
    });
    format!("title: t\n{text}{}", helpers.collect::<String>())
}

#[test]
fn every_example_of_a_rule_can_be_read_and_its_cases_pass() {
    let (mut rules, mut cases) = (0, 0);
    for (line, _, text) in fenced().iter().filter(|(_, language, _)| *language == "yaml") {
        let text = whole(text);
        let set = RuleSet::compile(&[("x.yml", &text)])
            .unwrap_or_else(|problems| panic!("rules/README.md:{line}: {problems:#?}"));
        rules += 1;
        if text.contains("\ntests:") {
            assert_eq!(RuleSet::inspect(&[("x.yml", &text)]), [], "rules/README.md:{line}");
        }
        for result in run_tests(&Arc::new(set), &read_logs) {
            let (case, variant) = (&result.case, result.variant);
            assert_eq!(result.failure, None, "rules/README.md:{line}: {case}, {variant}");
            cases += 1;
        }
    }
    assert!(rules >= 8 && cases >= 30, "{rules} rules with {cases} cases were found");
}

#[test]
fn cases_with_more_calls_than_a_condition_takes_pass_with_all_their_variants() {
    let count = |condition: &str, fires: &str| {
        let kind = if condition.contains("field") { "value_count" } else { "event_count" };
        format!(
            "title: t\ncorrelation: {{type: {kind}, rules: [a], group-by: [actor], timespan: 60s, \
             condition: {condition}}}\ntests:\n  - name: y\n    events: [{{at: 0, tool: x1, principal: ann}}, \
             {{at: 5, tool: x2, principal: ann}}, {{at: 6, tool: x3, principal: ann}}, \
             {{at: 7, tool: x4, principal: ann}}, {{at: 8, tool: x5, principal: ann}}]\n    \
             fires: [{{calls: [{fires}]}}]\n---\ntitle: a\nname: a\nlogsource: {{product: mcp}}\n\
             detection: {{s: {{tool.name: x*}}, condition: s}}\n"
        )
    };
    for (condition, fires) in [
        ("{eq: 1}", "0"),
        ("{eq: 2}", "0-1"),
        ("{gte: 3, lt: 4}", "0-2"),
        ("{gte: 2, neq: 3}", "0-4"),
        ("{field: tool.name, eq: 2}", "0-1"),
    ] {
        let set = RuleSet::compile(&[("x.yml", &count(condition, fires))]).unwrap();
        for result in run_tests(&Arc::new(set), &read_logs) {
            assert_eq!(result.failure, None, "{condition}: {}", result.variant);
        }
    }
}

#[test]
fn every_example_of_overrides_fits_the_shipped_rules() {
    let blocks = fenced();
    let of_toml = blocks.iter().filter(|(_, language, _)| *language == "toml");
    assert!(of_toml.clone().count() >= 2);
    for (line, _, text) in of_toml {
        let (overrides, problems) = Overrides::parse("overrides.toml", text);
        assert_eq!(problems, [], "rules/README.md:{line}");
        let mut rules = RuleSet::compile(&shipped()).unwrap();
        assert_eq!(rules.tune(&overrides, &[]), [], "rules/README.md:{line}");
    }
}

#[test]
fn no_example_is_left_out() {
    for (line, language, _) in fenced() {
        assert!(["yaml", "toml"].contains(&language), "rules/README.md:{line}: `{language}`");
    }
}

#[test]
fn a_call_that_fills_several_stages_is_shown_under_one_of_them() {
    let shown = |tools: &[&str]| -> Vec<String> {
        let helper = |name: &str| {
            format!(
                "---\ntitle: t\nname: {name}\nlogsource: {{product: mcp}}\n\
                 detection: {{s: {{tool.name|contains: {name}}}, condition: s}}\n"
            )
        };
        let events: Vec<String> =
            (0..).zip(tools).map(|(at, tool)| format!("{{at: {at}, tool: {tool}}}")).collect();
        let text = format!(
            "title: t\ncorrelation: {{type: temporal_ordered, rules: [a, b, c], group-by: [actor], timespan: 1m}}\n\
             tests: [{{name: x, events: [{}], fires: false}}]\n{}{}{}",
            events.join(", "),
            helper("a"),
            helper("b"),
            helper("c")
        );
        let rules = Arc::new(RuleSet::compile(&[("x.yml", &text)]).unwrap());
        let (calls, _) = fixture::calls(&rules.rules()[0], 0, &read_logs);
        let labels = |_: &Call| Labels::default();
        let alerts = evaluate(Arc::clone(&rules), Arc::new(labels), calls);
        assert_eq!(alerts.len(), 1, "{tools:?}");
        alerts[0]
            .evidence
            .iter()
            .map(|shown| format!("{}:{}", shown.call.tool, shown.stage))
            .collect()
    };
    // What begins another chain that does not end fills nothing by that.
    assert_eq!(shown(&["a", "b", "ac"]), ["a:a", "b:b", "ac:c"]);
    assert_eq!(shown(&["a", "ab", "bc"]), ["a:a", "ab:b", "bc:c"]);
    // A call of the first match stays as it is there; any other takes the first of its stages.
    assert_eq!(shown(&["a", "b", "ac", "b", "c"]), ["a:a", "b:b", "ac:c", "b:b", "c:c"]);
    let later = ["a:a", "b:b", "c:c", "ac:a", "b:b", "c:c"];
    assert_eq!(shown(&["a", "b", "c", "ac", "b", "c"]), later);
}
