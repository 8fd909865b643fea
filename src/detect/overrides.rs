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
    /// What it is made of: the key and the texts.
    given: Vec<(&'static str, Vec<String>)>,
}

/// What a rule's table may hold beside its thresholds.
const KEYS: [&str; 5] = ["disabled", "level", "stages", "numbers", "except"];
/// What an exception may name, and the field of the rule language that each stands for.
const EXCEPTION_KEYS: [(&str, &str); 3] =
    [("principal", "principal"), ("tool", "tool.name"), ("tenant", "tenant")];

impl Overrides {
    /// Reads a file: what can be read of it, and everything that is wrong with it. Where anything is wrong with it,
    /// nothing of it is to be used; what can be read is for `RuleSet::tune` to find more.
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
        words.extend(change.except.iter().map(|except| format!("except {}", except.words())));
        words
    }

    /// How many rules are changed.
    pub fn changed(&self) -> usize {
        self.rules.len()
    }

    /// Whether both change a rule in the same way, wherever they say so.
    pub fn is_alike(&self, other: &Self, rule: &str) -> bool {
        match (self.rules.get(rule), other.rules.get(rule)) {
            (Some(one), Some(other)) => one.is_alike(other),
            (None, None) => true,
            (Some(only), None) | (None, Some(only)) => only.is_alike(&Override::default()),
        }
    }

    /// Whether a rule is switched off.
    pub fn disables(&self, rule: &str) -> bool {
        self.rules.get(rule).is_some_and(|change| change.is_disabled)
    }
}

impl Override {
    /// Whether a rule that could find something can no more: its level, and whether it is on, are nothing to that.
    pub(super) fn can_be_doubted(&self) -> bool {
        let has_figures = !self.figures.words().is_empty();
        let has_more = [self.stages.is_empty(), self.numbers.is_empty(), self.except.is_empty()];
        !self.is_disabled && (has_figures || has_more.contains(&false))
    }

    fn is_alike(&self, other: &Self) -> bool {
        let given =
            |of: &Self| of.except.iter().map(|except| except.given.clone()).collect::<Vec<_>>();
        (self.is_disabled, self.level) == (other.is_disabled, other.level)
            && (&self.figures, &self.stages, &self.numbers)
                == (&other.figures, &other.stages, &other.numbers)
            && given(self) == given(other)
    }
}

impl Exception {
    /// As people are told of it.
    fn words(&self) -> String {
        let words = self.given.iter().map(|(key, texts)| format!("{key} {}", texts.join(" or ")));
        words.collect::<Vec<_>>().join(" with ")
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
        let mut given = Vec::new();
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
            let mark = self.mark(value.span());
            match item(field, &texts, mark, &mut self.allowance) {
                Ok(item) => items.push(Expr::Item(item)),
                Err(message) => self.problem(value.span(), message),
            }
            given.push((*key, texts));
        }
        Some(Exception { expr: Expr::And(items), given })
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
mod tests;
