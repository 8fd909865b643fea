//! `overrides.toml`: what a user's folder changes of rules without copying them.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::bounds::Bounds;
use super::correlation::{COUNT_MAX, span_micros};
use super::field::did_you_mean;
use super::matcher::{Expr, Item};
use super::problem::{Problems, RuleProblem};
use super::rule::{Kind, Rule, RuleSet};
use super::stages::Order;
use super::tally::Counted;
use super::yaml::{Mark, Node, Value};
use crate::model::Level;

/// What a file of overrides says, by the rule it says it of.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    file: String,
    rules: BTreeMap<String, Override>,
}

/// What is changed of one rule.
#[derive(Clone, Debug, Default)]
struct Override {
    /// Of the rule's name.
    mark: Mark,
    is_disabled: bool,
    level: Option<Level>,
    count: Option<Given<u64>>,
    timespan: Option<Given<String>>,
    except: Vec<Exception>,
}

#[derive(Clone, Debug)]
struct Given<T> {
    mark: Mark,
    value: T,
}

/// Calls that a rule does not look at.
#[derive(Clone, Debug)]
struct Exception {
    expr: Expr,
    /// As people are told of it.
    words: String,
}

/// What a rule's table may hold.
const KEYS: [&str; 5] = ["disabled", "level", "count", "timespan", "except"];
/// What an exception may name, and the field of the rule language that each stands for.
const EXCEPTION_KEYS: [(&str, &str); 3] =
    [("principal", "principal"), ("tool", "tool.name"), ("tenant", "tenant")];

impl Overrides {
    /// Reads a file: what can be read of it, and everything that is wrong with it. Where anything is wrong with it,
    /// nothing of it is to be used; what can be read is for [`RuleSet::tune`] to find more.
    pub fn parse(file: &str, text: &str) -> (Self, Vec<RuleProblem>) {
        let mut reader = Reader { text, problems: Problems::new(file), torn: Vec::new() };
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
        words.extend(change.count.as_ref().map(|count| format!("count {}", count.value)));
        words.extend(change.timespan.as_ref().map(|span| format!("timespan {}", span.value)));
        words.extend(change.except.iter().map(|except| format!("except {}", except.words)));
        words
    }

    /// Whether a rule is switched off.
    pub fn disables(&self, rule: &str) -> bool {
        self.rules.get(rule).is_some_and(|change| change.is_disabled)
    }
}

impl RuleSet {
    /// Applies overrides to the rules; what does not fit is reported, all of it at once, and the set is then not to be
    /// used. `others` are rules that there are though not in this set. Rules that are switched off leave it.
    pub fn tune(&mut self, overrides: &Overrides, others: &[&str]) -> Vec<RuleProblem> {
        let mut problems = Problems::new(&overrides.file);
        for (name, change) in &overrides.rules {
            let found = self.rules.iter_mut().find(|rule| *rule.name == **name);
            match found {
                Some(rule) => {
                    change.apply(rule, &mut problems);
                    except(rule, &mut self.detections, &change.except);
                }
                None if others.contains(&name.as_str()) => {}
                None => {
                    let names = self.rules.iter().map(|rule| &*rule.name);
                    let hint = did_you_mean(name, names.chain(others.iter().copied()));
                    problems.push(change.mark, format!("there is no rule `{name}`{hint}"));
                }
            }
        }
        self.rules.retain(|rule| !overrides.disables(&rule.name));
        problems.into_found()
    }
}

impl Override {
    fn apply(&self, rule: &mut Rule, problems: &mut Problems<'_>) {
        if let Some(level) = self.level {
            rule.level = level;
        }
        if let Some(count) = &self.count
            && !set_count(&mut rule.kind, count.value)
        {
            let message = format!("`{}` counts nothing, so it has no `count`", rule.name);
            problems.push(count.mark, message);
        }
        if let Some(span) = &self.timespan {
            let set =
                span_micros(&span.value).is_some_and(|micros| set_timespan(&mut rule.kind, micros));
            if !set {
                let message = format!("`{}` has no `timespan` to change", rule.name);
                problems.push(span.mark, message);
            }
        }
    }
}

/// False where the rule counts nothing. Of several counts it is the first.
fn set_count(kind: &mut Kind, number: u64) -> bool {
    let Kind::Chain(chain) = kind else { return false };
    let mut counts = chain.stages.iter_mut().filter_map(|stage| stage.count.as_mut());
    match counts.next().map(|count| &mut count.what) {
        Some(Counted::Events(bounds, min) | Counted::Values { bounds, min, .. }) => {
            (*bounds, *min) = (Bounds::at_least(number), number);
            true
        }
        _ => false,
    }
}

/// False where the rule has no span. Of counts with other stages, the span is that of the stages.
fn set_timespan(kind: &mut Kind, micros: i64) -> bool {
    let Kind::Chain(chain) = kind else { return false };
    if matches!(chain.order, Order::Session { .. }) {
        return false;
    }
    match chain.stages.as_mut_slice() {
        [only] => match &mut only.count {
            Some(count) => count.timespan_micros = micros,
            None => return false,
        },
        _ => chain.timespan_micros = micros,
    }
    chain.quiet_micros = micros;
    true
}

/// Takes the excepted calls out of everything that the rule looks for.
fn except(rule: &mut Rule, detections: &mut Vec<Expr>, exceptions: &[Exception]) {
    if exceptions.is_empty() {
        return;
    }
    let any = Expr::Or(exceptions.iter().map(|except| except.expr.clone()).collect());
    for slot in rule.kind.slots_mut() {
        let Some(expr) = detections.get(slot.detection) else { continue };
        // Whether a detection looks at ingest events is told by its own part alone.
        let left = Expr::And(vec![expr.clone(), Expr::Not(Box::new(any.clone()))]);
        slot.detection = detections.len();
        detections.push(left);
    }
}

struct Reader<'a> {
    text: &'a str,
    problems: Problems<'a>,
    /// The lines that are no TOML.
    torn: Vec<u64>,
}

impl Reader<'_> {
    fn rule(&mut self, mark: Mark, table: &DeTable<'_>) -> Override {
        let mut change = Override { mark, ..Override::default() };
        for (key, value) in table {
            let span = value.span();
            let mark = self.mark(span.clone());
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
                "count" => match whole(value.get_ref()) {
                    Some(value) => change.count = Some(Given { mark, value }),
                    None => {
                        self.problem(span, format!("`count` is a whole number, 1 to {COUNT_MAX}"));
                    }
                },
                "timespan" => match value.get_ref().as_str() {
                    Some(text) if span_micros(text).is_some() => {
                        change.timespan = Some(Given { mark, value: text.to_owned() });
                    }
                    _ => self.problem(
                        span,
                        "`timespan` is a whole number with s, m, h or d, such as \"90s\", and 7d at most",
                    ),
                },
                "except" => change.except = self.exceptions(value),
                other => {
                    let hint = did_you_mean(other, KEYS.into_iter());
                    let keys = KEYS.join(", ");
                    let message = format!("`{other}` is not known here; there are {keys}{hint}");
                    self.problem(key.span(), message);
                }
            }
        }
        change
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
            match item(field, &texts, self.mark(value.span())) {
                Ok(item) => items.push(Expr::Item(item)),
                Err(message) => self.problem(value.span(), message),
            }
        }
        Some(Exception { expr: Expr::And(items), words: words.join(" with ") })
    }

    fn problem(&mut self, span: Range<usize>, message: impl AsRef<str>) {
        let mark = self.mark(span);
        if !self.torn.contains(&mark.line) {
            self.problems.push(mark, message);
        }
    }

    fn mark(&self, span: Range<usize>) -> Mark {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
        Mark {
            line: 1 + memchr::memchr_iter(b'\n', before.as_bytes()).count() as u64,
            column: 1 + line.chars().count() as u64,
        }
    }
}

/// What the rule language would make of `field: [texts]`: wildcards and letters' case mean the same.
fn item(field: &str, texts: &[String], mark: Mark) -> Result<Item, String> {
    let node = |text: &String| Node { mark, value: Value::Text(text.clone()) };
    let list = Node { mark, value: Value::List(texts.iter().map(node).collect()) };
    Item::parse(field, &list)
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
    (1..=COUNT_MAX).contains(&number).then_some(number)
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
    use crate::detect::{evaluate, shipped};
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
            ("[policy-bypass]\ntimespan = \"2m\"\n", "2:12: `policy-bypass` has no `timespan`"),
            ("call-burst = 3\n", "1:1: `call-burst` is no table"),
            ("[call-burst\n", "1:"),
        ] {
            let found = problems(text).join("\n");
            assert!(found.contains(expected), "{text}: {found}");
        }
        assert_eq!(problems("[my-own]\ncount = 2\n"), Vec::<String>::new());
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

    #[test]
    fn what_is_changed_can_be_told() {
        let text = "[a]\ncount = 3\ntimespan = \"2m\"\nlevel = \"low\"\n\
                    except = [{tool = \"x\", principal = [\"p\", \"q\"]}]\n";
        let words = Overrides::parse("o", text).0.words("a");
        assert_eq!(words.len(), 4);
        assert_eq!(words[..3], ["level low", "count 3", "timespan 2m"]);
        assert!(
            words[3] == "except principal p or q with tool x"
                || words[3] == "except tool x with principal p or q"
        );
    }
}
