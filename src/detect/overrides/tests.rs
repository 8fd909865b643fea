//! Overrides of the shipped rules: what is refused, and what each changes.

use std::sync::Arc;

use super::*;
use crate::detect::fixture::{Shape, call};
use crate::detect::rule::Kind;
use crate::detect::{RuleSet, evaluate, shipped};
use crate::model::{Alert, Call, Labels, Tri};

fn problems(text: &str) -> Vec<String> {
    let mut rules = RuleSet::compile(&shipped()).unwrap();
    let (overrides, mut found) = Overrides::parse("overrides.toml", text);
    found.extend(rules.tune(&overrides, &["my-own"]));
    found.sort();
    found.iter().map(ToString::to_string).collect()
}

/// The alerts of twenty sensitive calls of one session, three seconds apart, under these overrides.
fn burst(text: &str) -> Vec<Alert> {
    let mut rules = RuleSet::compile(&shipped()).unwrap();
    let (overrides, problems) = Overrides::parse("overrides.toml", text);
    assert_eq!((problems, rules.tune(&overrides, &[])), (Vec::new(), Vec::new()));
    let calls: Vec<Arc<Call>> = (0..20_u64)
        .map(|number| {
            let at = i64::try_from(number).unwrap() * 3_000_000;
            call(&Shape::at(at, "get_ticket"), number, number)
        })
        .collect();
    let labels = |_: &Call| Labels { sensitive: Tri::Yes, ..Labels::default() };
    let mut alerts = evaluate(Arc::new(rules), Arc::new(labels), calls);
    alerts.retain(|alert| *alert.rule == *"call-burst");
    alerts
}

/// Texts of overrides, and a part of what is told of each.
const TOLD: &[(&str, &str)] = &[
    ("[call-brust]\n", "did you mean `call-burst`?"),
    ("[policy-bypass]\ncount = 2\n", "2:9: `policy-bypass` counts nothing"),
    ("[error-rate]\ncondition = {gte = 2}\n", "2:13: `condition` compares a share"),
    ("[error-rate]\ncondition = {gte = 0.5, lte = 50}\n", "2:13: `condition` compares a share"),
    (
        "[error-rate]\ncount = 1\n",
        "2:9: `error-rate` is a ratio, which has no `count`; write `condition = {gte = 0.7}`",
    ),
    ("[\"call-burst.yml\"]\n", "rules are named without the ending: `call-burst`"),
    ("[call-burst.yml]\ncount = 2\n", "1:13: rules are named without the ending"),
    (
        "[call-burst]\ncondition = {field = \"tool.server\", gte = 10}\n",
        "2:14: the `field` whose values are counted stays that of the rule",
    ),
    ("[call-burst]\ncondition = {gtee = \"x\"}\n", "2:14: `condition` knows"),
    ("[call-burst]\ncondition = {gte = \"x\"}\n", "2:20: `gte` takes a number"),
    ("[call-burst]\ncondition = {gte = 2.5}\n", "2:13: counts are whole numbers, and 2.5 is none"),
    (
        "[denials-then-success]\ncount = 8\nstages = {burst-of-denials = {count = 9}}\n",
        "2:9: `count` is that of `burst-of-denials`, which is given under `stages` too",
    ),
    (
        "[denials-then-success]\ncondition = {gte = 8}\nstages = {burst-of-denials = {count = 9}}\n",
        "2:13: `condition` is that of `burst-of-denials`, which is given under `stages` too",
    ),
    ("[error-rate]\ncondition = {gte = 0.5, lt = 0.2}\n", "2:13: no share from 0 to 1 fits"),
    ("[error-rate]\ncondition = {gtee = 0.5}\n", "did you mean `gte`?"),
    ("[call-burst]\ncondition = {lt = 5}\n", "2:13: `condition` needs a lower bound"),
    ("[call-burst]\nminimum = 5\n", "2:11: `call-burst` is no ratio"),
    ("[call-burst]\nbaseline = 5\n", "2:12: `call-burst` is no first_seen rule"),
    ("[call-burst]\nlearning = \"2d\"\n", "2:12: `call-burst` is no first_seen rule"),
    ("[call-burst]\ncount = 3\ncondition = {gte = 3}\n", ": `count = 20` is short for"),
    ("[first-cross-tenant]\nlearning = \"2y\"\n", "2:12: `learning` is a whole number"),
    ("[call-burst.stages.x]\ncount = 3\n", "1:20: `call-burst` has no counts among other stages"),
    (
        "[denials-then-success.stages.burst-of-denails]\ncount = 3\n",
        "1:30: `denials-then-success` has no count `burst-of-denails` among its stages; there are \
             burst-of-denials; did you mean `burst-of-denials`?",
    ),
    (
        "[denials-then-success.stages.burst-of-denials]\nlevel = 3\n",
        "2:1: `level` is not known here",
    ),
    (
        "[call-burst.numbers]\n\"duration_ms|gt\" = 3\n",
        "2:1: `call-burst` compares no field with a number",
    ),
    (
        "[rubber-stamp.numbers]\n\"ask_to_answer_ms|gt\" = 3\n",
        "2:1: `rubber-stamp` does not compare `ask_to_answer_ms|gt` with a number; there are \
             ask_to_answer_ms|lt; did you mean",
    ),
    (
        "[rubber-stamp.numbers]\n\"ask_to_answer_ms|lt\" = \"3\"\n",
        "2:25: `ask_to_answer_ms|lt` is compared",
    ),
    ("[policy-bypass]\ntimespan = \"2m\"\n", "2:12: `policy-bypass` has no `timespan`"),
    ("call-burst = 3\n", "1:1: `call-burst` is no table"),
    ("[call-burst\n", "1:"),
];

#[test]
fn every_problem_is_told_with_its_line() {
    let text = "\
[call-burst]
count = 0
timespan = \"1w\"
levle = \"high\"
level = \"severe\"
disabled = 1
except = [{}, {agent = \"x\"}, {principal = []}]
";
    let lines: Vec<String> =
        problems(text).iter().map(|line| line.chars().take(17).collect()).collect();
    let expected = [2, 3, 4, 5, 6, 7, 7, 7].map(|line| format!("overrides.toml:{line}:"));
    assert_eq!(lines, expected, "{:#?}", problems(text));
    for (text, expected) in TOLD {
        let found = problems(text).join("\n");
        assert!(found.contains(expected), "{text}: {found}");
    }
    for good in [
        "[my-own]\ncount = 2\n",
        "[denials-then-success]\ncount = 8\nstages = {burst-of-denials = {timespan = \"9m\"}}\n",
    ] {
        assert_eq!(problems(good), Vec::<String>::new(), "{good}");
    }
}

#[test]
fn a_count_that_a_sequence_names_twice_changes_at_both_places() {
    let helper = |name: &str, asks: &str| {
        format!(
            "---\ntitle: {name}\nname: {name}\nlogsource: {{product: mcp}}\n\
             detection: {{s: {{outcome: {asks}}}, condition: s}}\n"
        )
    };
    // The second time by its id.
    let text = format!(
        "title: two\ncorrelation: {{type: temporal_ordered, rules: [burst, fine, b-1], group-by: [actor], \
         timespan: 1h}}\n---\ntitle: b\nname: burst\nid: b-1\ncorrelation: {{type: event_count, rules: [bad], \
         group-by: [actor], timespan: 1m, condition: {{gte: 2}}}}\n{}{}",
        helper("bad", "error"),
        helper("fine", "ok"),
    );
    for change in [
        "[two.stages.burst]\ncount = 5\ntimespan = \"2m\"\n",
        "[two]\ncount = 5\nstages.burst.timespan = \"2m\"\n",
    ] {
        let mut rules = RuleSet::compile(&[("two.yml", &text)]).unwrap();
        let (overrides, problems) = Overrides::parse("o", change);
        assert_eq!((problems, rules.tune(&overrides, &[])), (Vec::new(), Vec::new()));
        let Kind::Chain(chain) = &rules.rules()[0].kind else { panic!("a sequence") };
        let counts: Vec<_> =
            chain.counts().map(|count| (count.threshold(), count.timespan_micros)).collect();
        assert_eq!(counts, [(5, 120_000_000); 2], "{change}");
    }
    let mut rules = RuleSet::compile(&[("two.yml", &text)]).unwrap();
    let (overrides, _) = Overrides::parse("o", "[two.stages.burst]\nminimum = 5\n");
    assert_eq!(rules.tune(&overrides, &[]).len(), 1);
}

#[test]
fn thresholds_levels_and_exceptions_change_what_fires() {
    let plain = burst("");
    assert_eq!(plain.len(), 1);
    assert!(burst("[call-burst]\ncount = 21\n").is_empty());
    assert!(burst("[call-burst]\ntimespan = \"56s\"\n").is_empty());
    assert_eq!(burst("[call-burst]\ntimespan = \"57s\"\n").len(), 1);
    assert_eq!(burst("[call-burst]\ncount = 4\n")[0].count, 17);
    assert_eq!(burst("[call-burst]\nlevel = \"critical\"\n")[0].level, Level::Critical);
    assert!(burst("[call-burst]\ndisabled = true\n").is_empty());
    for excepted in ["principal = \"AN?\"", "tool = [\"x\", \"get_*\"]"] {
        assert!(burst(&format!("[[call-burst.except]]\n{excepted}\n")).is_empty(), "{excepted}");
    }
    for other in ["principal = \"bob\"", "principal = \"ann\"\ntenant = \"acme\"", "tenant = \"*\""]
    {
        let alerts = burst(&format!("[[call-burst.except]]\n{other}\n"));
        assert_eq!(alerts.len(), 1, "{other}");
        assert_eq!(alerts[0].id, plain[0].id, "{other}");
    }
}

#[test]
fn what_is_changed_can_be_told() {
    let text = "[a]\ncount = 3\ntimespan = \"2m\"\nlevel = \"low\"\n\
                except = [{tool = \"x\", principal = [\"p\", \"q\"]}]\n";
    let words = Overrides::parse("o", text).0.words("a");
    assert_eq!(words.len(), 4);
    assert_eq!(words[..3], ["level low", "count 3", "timespan 2m"]);
    let text = "[a]\ncondition = {gte = 0.7}\nminimum = 50\n[a.stages.b]\ncondition = {gte = 3, lt = 9}\n\
                [a.numbers]\n\"duration_ms|gt\" = 500\n[b]\nbaseline = 3\nlearning = \"14d\"\n";
    let (overrides, problems) = Overrides::parse("o", text);
    assert_eq!(problems, []);
    assert_eq!(
        overrides.words("a"),
        ["condition gte 0.7", "minimum 50", "stage b: condition gte 3, lt 9", "duration_ms|gt 500"]
    );
    assert_eq!(overrides.words("b"), ["baseline 3", "learning 14d"]);
    assert!(
        words[3] == "except principal p or q with tool x"
            || words[3] == "except tool x with principal p or q"
    );
}
