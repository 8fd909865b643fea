//! `overrides.toml`: what a user's folder changes of rules without copying them. It is read here, and applied in
//! [`super::tuning`].

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::allowance::Allowance;
use super::field::did_you_mean;
use super::figures::{FIGURES, Figures, Given, STAGE_FIGURES, number};
use super::matcher::{Expr, Item};
use super::problem::{Problems, RuleProblem};
use super::yaml::{Mark, Node, Value};
use crate::model::Level;

/// What a file of overrides says, by the rule it says it of.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub(super) file: String,
    pub(super) rules: BTreeMap<String, Override>,
}

/// What is changed of one rule.
#[derive(Clone, Debug, Default)]
pub(super) struct Override {
    /// Of the rule's name.
    pub(super) mark: Mark,
    pub(super) is_disabled: bool,
    pub(super) level: Option<Level>,
    pub(super) figures: Figures,
    /// Of counts among other stages, by their names.
    pub(super) stages: Vec<Given<(String, Figures)>>,
    /// Numbers that detections compare with, by `field|modifier` as the rule writes it.
    pub(super) numbers: Vec<Given<(String, f64)>>,
    pub(super) except: Vec<Exception>,
}

/// Calls that a rule does not look at.
#[derive(Clone, Debug)]
pub(super) struct Exception {
    pub(super) expr: Expr,
    /// As people are told of it.
    words: String,
}

/// What a rule's table may hold beside its thresholds.
const KEYS: [&str; 5] = ["disabled", "level", "stages", "numbers", "except"];
/// What an exception may name, and the field of the rule language that each stands for.
const EXCEPTION_KEYS: [(&str, &str); 3] =
    [("principal", "principal"), ("tool", "tool.name"), ("tenant", "tenant")];

impl Overrides {
    /// Reads a file: what can be read of it, and everything that is wrong with it. Where anything is wrong with it,
    /// nothing of it is to be used; what can be read is for [`RuleSet::tune`] to find more.
    pub fn parse(file: &str, text: &str) -> (Self, Vec<RuleProblem>) {
        let lines = memchr::memchr_iter(b'\n', text.as_bytes()).map(|end| end + 1);
        let mut reader = Reader {
            text,
            lines: std::iter::once(0).chain(lines).collect(),
            problems: Problems::new(file),
            torn: Vec::new(),
            allowance: Allowance::default(),
        };
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let mark = reader.mark(error.span().unwrap_or_default());
            reader.torn.push(mark.line);
            reader.problems.push(mark, error.message());
        }
        let mut rules = BTreeMap::new();
        for (name, value) in root.get_ref() {
            if let DeValue::Table(table) = value.get_ref() {
                let mark = reader.mark(name.span());
                rules.insert(name.get_ref().to_string(), reader.rule(mark, table));
            } else {
                let name_of = name.get_ref();
                let message =
                    format!("`{name_of}` is no table: overrides of a rule stand under [its-name]");
                reader.problem(name.span(), message);
            }
        }
        // What is made up of a line that is no TOML means nothing.
        rules.retain(|_, change: &mut Override| !reader.torn.contains(&change.mark.line));
        let mut found = reader.problems.into_found();
        found.sort();
        (Self { file: file.to_owned(), rules }, found)
    }

    /// What is changed of a rule, a phrase each, such as `count 40`; empty where nothing is.
    pub fn words(&self, rule: &str) -> Vec<String> {
        let Some(change) = self.rules.get(rule) else { return Vec::new() };
        let mut words = Vec::new();
        if change.is_disabled {
            words.push("disabled".to_owned());
        }
        words.extend(change.level.map(|level| format!("level {}", level.as_str())));
        words.extend(change.figures.words().iter().cloned());
        for Given { value: (stage, figures), .. } in &change.stages {
            words.extend(figures.words().iter().map(|word| format!("stage {stage}: {word}")));
        }
        words.extend(
            change
                .numbers
                .iter()
                .map(|Given { value: (key, number), .. }| format!("{key} {number}")),
        );
        words.extend(change.except.iter().map(|except| format!("except {}", except.words)));
        words
    }

    /// How many rules are changed.
    pub fn changed(&self) -> usize {
        self.rules.len()
    }

    /// Whether a rule is switched off.
    pub fn disables(&self, rule: &str) -> bool {
        self.rules.get(rule).is_some_and(|change| change.is_disabled)
    }
}

/// Reads one file.
pub(super) struct Reader<'a> {
    text: &'a str,
    /// Where each line starts.
    lines: Vec<usize>,
    pub(super) problems: Problems<'a>,
    /// The lines that are no TOML.
    torn: Vec<u64>,
    /// For the texts of exceptions.
    allowance: Allowance,
}

impl Reader<'_> {
    fn rule(&mut self, mark: Mark, table: &DeTable<'_>) -> Override {
        let mut change = Override { mark, ..Override::default() };
        for (key, value) in table {
            let span = value.span();
            match key.get_ref().as_ref() {
                "disabled" => match value.get_ref().as_bool() {
                    Some(is_disabled) => change.is_disabled = is_disabled,
                    None => self.problem(span, "`disabled` is true or false"),
                },
                "level" => {
                    change.level = value.get_ref().as_str().and_then(Level::from_word);
                    if change.level.is_none() {
                        let words = Level::ALL.map(Level::as_str).join(", ");
                        self.problem(span, format!("`level` is one of {words}"));
                    }
                }
                "stages" => change.stages = self.stages(value),
                "numbers" => change.numbers = self.numbers(value),
                "except" => change.except = self.exceptions(value),
                figure if FIGURES.contains(&figure) => {
                    self.figure(figure, value, &mut change.figures);
                }
                "yml" | "yaml" => {
                    let message =
                        "rules are named without the ending of their files, such as [call-burst]";
                    self.problem(key.span(), message);
                }
                _ => self.unknown(key, &[&KEYS[..], &FIGURES[..]].concat()),
            }
        }
        change
    }

    fn unknown(&mut self, key: &Spanned<std::borrow::Cow<'_, str>>, known: &[&str]) {
        let name = key.get_ref();
        let (keys, hint) = (known.join(", "), did_you_mean(name, known.iter().copied()));
        self.problem(key.span(), format!("`{name}` is not known here; there are {keys}{hint}"));
    }

    fn stages(&mut self, value: &Spanned<DeValue<'_>>) -> Vec<Given<(String, Figures)>> {
        let mut stages = Vec::new();
        let Some(table) = value.get_ref().as_table() else {
            let message = "`stages` is a table of the counts in a sequence, by their names: write \
                           [rule-name.stages.the-name-of-the-count]";
            self.problem(value.span(), message);
            return stages;
        };
        for (name, value) in table {
            let mark = self.mark(name.span());
            let Some(table) = value.get_ref().as_table() else {
                self.problem(
                    value.span(),
                    format!("`{}` is a table, such as {{count = 8}}", name.get_ref()),
                );
                continue;
            };
            let mut figures = Figures::default();
            for (key, value) in table {
                if STAGE_FIGURES.contains(&&**key.get_ref()) {
                    self.figure(key.get_ref(), value, &mut figures);
                } else {
                    self.unknown(key, &STAGE_FIGURES);
                }
            }
            stages.push(Given { mark, value: (name.get_ref().to_string(), figures) });
        }
        stages
    }

    fn numbers(&mut self, value: &Spanned<DeValue<'_>>) -> Vec<Given<(String, f64)>> {
        let mut numbers = Vec::new();
        let Some(table) = value.get_ref().as_table() else {
            let message = "`numbers` is a table of numbers that the rule compares fields with, such as \
                           {\"duration_ms|gt\" = 500}";
            self.problem(value.span(), message);
            return numbers;
        };
        for (key, value) in table {
            match number(value.get_ref()) {
                Some(number) => {
                    let mark = self.mark(key.span());
                    numbers.push(Given { mark, value: (key.get_ref().to_string(), number) });
                }
                None => self.problem(
                    value.span(),
                    format!("`{}` is compared with a number", key.get_ref()),
                ),
            }
        }
        numbers
    }

    fn exceptions(&mut self, value: &Spanned<DeValue<'_>>) -> Vec<Exception> {
        let Some(list) = value.get_ref().as_array() else {
            self.problem(value.span(), "`except` is a list of tables: write [[rule-name.except]]");
            return Vec::new();
        };
        list.iter().filter_map(|entry| self.exception(entry)).collect()
    }

    fn exception(&mut self, entry: &Spanned<DeValue<'_>>) -> Option<Exception> {
        let DeValue::Table(table) = entry.get_ref() else {
            self.problem(entry.span(), "an exception is a table, such as {principal = \"backup\"}");
            return None;
        };
        // That too much is made of the file was told.
        if self.allowance.is_spent() {
            return None;
        }
        if table.is_empty() {
            self.problem(
                entry.span(),
                "an exception without a principal, tool or tenant excepts every call",
            );
            return None;
        }
        let mut items = Vec::new();
        let mut words = Vec::new();
        for (key, value) in table {
            let known = EXCEPTION_KEYS.iter().find(|(known, _)| *known == key.get_ref());
            let Some((key, field)) = known else {
                let hint =
                    did_you_mean(key.get_ref(), EXCEPTION_KEYS.iter().map(|(known, _)| *known));
                let message = format!(
                    "exceptions are by principal, tool and tenant, not by `{}`{hint}",
                    key.get_ref()
                );
                self.problem(key.span(), message);
                continue;
            };
            let Some(texts) = texts(value.get_ref()) else {
                let message =
                    format!("`{key}` is a text, or a list of texts, with something in it");
                self.problem(value.span(), message);
                continue;
            };
            words.push(format!("{key} {}", texts.join(" or ")));
            let mark = self.mark(value.span());
            match item(field, &texts, mark, &mut self.allowance) {
                Ok(item) => items.push(Expr::Item(item)),
                Err(message) => self.problem(value.span(), message),
            }
        }
        Some(Exception { expr: Expr::And(items), words: words.join(" with ") })
    }

    pub(super) fn problem(&mut self, span: Range<usize>, message: impl AsRef<str>) {
        let mark = self.mark(span);
        if !self.torn.contains(&mark.line) {
            self.problems.push(mark, message);
        }
    }

    pub(super) fn mark(&self, span: Range<usize>) -> Mark {
        let line = self.lines.partition_point(|start| *start <= span.start);
        let start = line.checked_sub(1).and_then(|line| self.lines.get(line)).copied().unwrap_or(0);
        let before = self.text.get(start..span.start).unwrap_or_default();
        Mark { line: line.max(1) as u64, column: 1 + before.chars().count() as u64 }
    }
}

/// What the rule language would make of `field: [texts]`: wildcards and letters' case mean the same.
fn item(
    field: &str,
    texts: &[String],
    mark: Mark,
    allowance: &mut Allowance,
) -> Result<Item, String> {
    let node = |text: &String| Node { mark, value: Value::Text(text.clone()) };
    let list = Node { mark, value: Value::List(texts.iter().map(node).collect()) };
    Item::parse(field, &list, allowance)
}

fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    let single =
        |value: &DeValue<'_>| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    match value.as_array() {
        Some(list) if list.is_empty() => None,
        Some(list) => list.iter().map(|value| single(value.get_ref())).collect(),
        None => Some(vec![single(value)?]),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::detect::fixture::{Shape, call};
    use crate::detect::rule::Kind;
    use crate::detect::{RuleSet, evaluate, run_tests, shipped};
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
        for (text, expected) in [
            ("[call-brust]\n", "did you mean `call-burst`?"),
            ("[policy-bypass]\ncount = 2\n", "2:9: `policy-bypass` counts nothing"),
            ("[error-rate]\ncondition = {gte = 2}\n", "2:13: `condition` compares a share"),
            (
                "[error-rate]\ncondition = {gte = 0.5, lte = 50}\n",
                "2:13: `condition` compares a share",
            ),
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
            (
                "[call-burst]\ncondition = {gte = 2.5}\n",
                "2:13: counts are whole numbers, and 2.5 is none",
            ),
            (
                "[denials-then-success]\ncount = 8\nstages = {burst-of-denials = {count = 9}}\n",
                "2:9: `count` is that of `burst-of-denials`, which is given under `stages` too",
            ),
            (
                "[denials-then-success]\ncondition = {gte = 8}\nstages = {burst-of-denials = {count = 9}}\n",
                "2:13: `condition` is that of `burst-of-denials`, which is given under `stages` too",
            ),
            (
                "[error-rate]\ncondition = {gte = 0.5, lt = 0.2}\n",
                "2:13: no share from 0 to 1 fits",
            ),
            ("[error-rate]\ncondition = {gtee = 0.5}\n", "did you mean `gte`?"),
            ("[call-burst]\ncondition = {lt = 5}\n", "2:13: `condition` needs a lower bound"),
            ("[call-burst]\nminimum = 5\n", "2:11: `call-burst` is no ratio"),
            ("[call-burst]\nbaseline = 5\n", "2:12: `call-burst` is no first_seen rule"),
            ("[call-burst]\nlearning = \"2d\"\n", "2:12: `call-burst` is no first_seen rule"),
            ("[call-burst]\ncount = 3\ncondition = {gte = 3}\n", ": `count = 20` is short for"),
            ("[first-cross-tenant]\nlearning = \"2y\"\n", "2:12: `learning` is a whole number"),
            (
                "[call-burst.stages.x]\ncount = 3\n",
                "1:20: `call-burst` has no counts among other stages",
            ),
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
        ] {
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
        let text = format!(
            "title: two\ncorrelation: {{type: temporal_ordered, rules: [burst, fine, burst], group-by: [actor], \
             timespan: 1h}}\n---\ntitle: b\nname: burst\ncorrelation: {{type: event_count, rules: [bad], \
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
            assert!(
                burst(&format!("[[call-burst.except]]\n{excepted}\n")).is_empty(),
                "{excepted}"
            );
        }
        for other in
            ["principal = \"bob\"", "principal = \"ann\"\ntenant = \"acme\"", "tenant = \"*\""]
        {
            let alerts = burst(&format!("[[call-burst.except]]\n{other}\n"));
            assert_eq!(alerts.len(), 1, "{other}");
            assert_eq!(alerts[0].id, plain[0].id, "{other}");
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
        let (overrides, problems) =
            Overrides::parse("overrides.toml", &format!("[{rule}]\n{text}\n"));
        assert_eq!((problems, rules.tune(&overrides, &[])), (Vec::new(), Vec::new()), "{text}");
        let results = run_tests(&Arc::new(rules));
        let found = results.iter().find(|result| &*result.rule == rule && result.case == case);
        let found = found.unwrap_or_else(|| panic!("`{rule}` has no case `{case}`"));
        assert_eq!(found.variant, "as written");
        found.failure.is_none()
    }

    #[test]
    fn every_threshold_of_every_shipped_rule_can_be_changed() {
        for rule in RuleSet::compile(&shipped()).unwrap().rules() {
            let (case, _) = rule.cases().find(|(_, fires)| *fires).unwrap();
            let of_rule = TRIED.iter().filter(|(name, ..)| **name == *rule.name);
            let has_figures = rule.timespan_micros().is_some() || rule.type_word() == "first_seen";
            assert_eq!(of_rule.clone().count() > 0, has_figures, "{}", rule.name);
            for (name, enough, too_much) in of_rule {
                assert!(fires(name, case, enough), "{name}: {enough}");
                assert!(!fires(name, case, too_much), "{name}: {too_much}");
            }
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
            [
                "condition gte 0.7",
                "minimum 50",
                "stage b: condition gte 3, lt 9",
                "duration_ms|gt 500"
            ]
        );
        assert_eq!(overrides.words("b"), ["baseline 3", "learning 14d"]);
        assert!(
            words[3] == "except principal p or q with tool x"
                || words[3] == "except tool x with principal p or q"
        );
    }
}
