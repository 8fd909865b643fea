//! The shipped rules over their own cases, those of lines too: what fires, and what is told of it.

use std::sync::Arc;

use super::read_logs;
use crate::detect::{Overrides, RuleSet, fixture, run_tests, shipped};

#[test]
fn every_shipped_rule_compiles_and_passes_its_cases() {
    let rules = RuleSet::compile(&shipped()).unwrap();
    assert!(rules.lacking_cases().is_empty());
    let failures: Vec<String> = run_tests(&Arc::new(rules), &read_logs)
        .into_iter()
        .filter_map(|result| {
            let failure = result.failure?;
            Some(format!("{} / {} / {}: {failure}", result.rule, result.case, result.variant))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_engine_and_the_explanation_agree_on_the_shipped_rules_cases() {
    let rules = Arc::new(RuleSet::compile(&shipped()).unwrap());
    for rule in rules.rules() {
        for case in 0..rule.cases().count() {
            let (calls, labels) = fixture::calls(rule, case, &read_logs);
            fixture::assert_explained(&rules, rule, &calls, &labels);
        }
    }
}

/// Figures with which the first case that fires still does, and with which it does not.
const TRIED: [(&str, &str, &str); 23] = [
    ("call-burst", "count = 20", "count = 21"),
    ("call-burst", "condition = {gte = 20, lt = 22}", "condition = {gt = 20}"),
    ("call-burst", "timespan = \"57s\"", "timespan = \"56s\""),
    ("denials-then-success", "count = 5", "count = 6"),
    ("denials-then-success", "timespan = \"20s\"", "timespan = \"19s\""),
    (
        "denials-then-success",
        "stages = {burst-of-denials = {count = 5, timespan = \"40s\"}}",
        "stages = {burst-of-denials = {count = 6}}",
    ),
    (
        "denials-then-success",
        "[denials-then-success.stages.burst-of-denials]\ncondition = {gte = 5}",
        "[denials-then-success.stages.burst-of-denials]\ntimespan = \"39s\"",
    ),
    ("destructive-burst", "count = 5", "count = 6"),
    ("destructive-burst", "timespan = \"60s\"", "timespan = \"59s\""),
    ("error-rate", "condition = {gte = 0.5}", "condition = {gte = 0.51}"),
    ("error-rate", "minimum = 20", "minimum = 21"),
    ("error-rate", "timespan = \"95s\"", "timespan = \"94s\""),
    ("first-cross-tenant", "baseline = 1", "baseline = 2"),
    ("first-cross-tenant", "learning = \"99s\"", "learning = \"100s\""),
    ("rate-limit-ignored", "count = 5", "count = 6"),
    ("rate-limit-ignored", "timespan = \"60s\"", "timespan = \"59s\""),
    ("rubber-stamp", "count = 5", "count = 6"),
    ("rubber-stamp", "timespan = \"40s\"", "timespan = \"39s\""),
    (
        "rubber-stamp",
        "numbers = {\"ask_to_answer_ms|lt\" = 801}",
        "numbers = {\"ask_to_answer_ms|lt\" = 800}",
    ),
    ("trifecta-attempt", "timespan = \"2s\"", "timespan = \"1s\""),
    ("trifecta-signature", "timespan = \"7s\"", "timespan = \"6s\""),
    ("unlisted-tool", "count = 3", "count = 4"),
    ("unlisted-tool", "timespan = \"10m\"", "timespan = \"599s\""),
];

/// Whether the first case of a shipped rule that fires still does, with the figures of an override. Each override
/// is just enough or just too much for it.
fn fires(rule: &str, case: &str, text: &str) -> bool {
    let mut rules = RuleSet::compile(&shipped()).unwrap();
    let (overrides, problems) = Overrides::parse("overrides.toml", &format!("[{rule}]\n{text}\n"));
    assert_eq!((problems, rules.tune(&overrides, &[])), (Vec::new(), Vec::new()), "{text}");
    let results = run_tests(&Arc::new(rules), &read_logs);
    let found = results.iter().find(|result| &*result.rule == rule && result.case == case);
    let found = found.unwrap_or_else(|| panic!("`{rule}` has no case `{case}`"));
    assert_eq!(found.variant, "as written");
    found.failure.is_none()
}

#[test]
fn every_threshold_of_every_shipped_rule_can_be_changed() {
    for rule in RuleSet::compile(&shipped()).unwrap().rules() {
        let case = rule.cases().find(|case| case.fires).unwrap().name;
        let of_rule = TRIED.iter().filter(|(name, ..)| **name == *rule.name);
        let has_figures = rule.timespan_micros().is_some() || rule.type_word() == "first_seen";
        assert_eq!(of_rule.clone().count() > 0, has_figures, "{}", rule.name);
        for (name, enough, too_much) in of_rule {
            assert!(fires(name, case, enough), "{name}: {enough}");
            assert!(!fires(name, case, too_much), "{name}: {too_much}");
        }
    }
}
