//! The thresholds that overrides can give: counts, shares, spans, what is home.

use toml::Spanned;
use toml::de::DeValue;

use super::bounds::Bounds;
use super::correlation::{COUNT_MAX, learning_micros, span_micros};
use super::overrides::Reader;
use super::yaml::{Entry, Mark, Node, Value};

/// Thresholds, each where it is given. Spans are microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) condition: Option<Given<Bounds>>,
    /// The condition is written as a `count`.
    pub(super) is_count: bool,
    pub(super) minimum: Option<Given<u64>>,
    pub(super) timespan: Option<Given<i64>>,
    pub(super) baseline: Option<Given<u64>>,
    pub(super) learning: Option<Given<i64>>,
    /// As people are told of them.
    words: Vec<String>,
}

/// A value and its place in the file.
#[derive(Clone, Debug)]
pub(super) struct Given<T> {
    pub(super) mark: Mark,
    pub(super) value: T,
}

/// Where it is given is nothing to what it says.
impl<T: PartialEq> PartialEq for Given<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// The thresholds of a rule.
pub(super) const FIGURES: [&str; 6] =
    ["count", "condition", "minimum", "timespan", "baseline", "learning"];
/// The thresholds of a count among other stages.
pub(super) const STAGE_FIGURES: [&str; 4] = ["count", "condition", "minimum", "timespan"];
impl Figures {
    /// What is given, a phrase each.
    pub(super) fn words(&self) -> &[String] {
        &self.words
    }
}

impl Reader<'_> {
    /// Reads one threshold.
    pub(super) fn figure(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        figures: &mut Figures,
    ) {
        let (span, mark) = (value.span(), self.mark(value.span()));
        let given = value.get_ref();
        let text = given.as_str().unwrap_or_default();
        let mut words = format!("{key} {text}");
        match key {
            "count" | "condition" => {
                let bounds = if key == "count" { self.count(value) } else { self.condition(value) };
                if figures.condition.is_some() {
                    self.problem(
                        span,
                        "`count = 20` is short for `condition = {gte = 20}`: write one of them",
                    );
                }
                let Some(bounds) = bounds else { return };
                words = if key == "count" {
                    format!("count {bounds}")
                } else {
                    format!("condition {bounds}")
                };
                words = words.replace("count gte ", "count ");
                figures.condition = Some(Given { mark, value: bounds });
                figures.is_count = key == "count";
            }
            "minimum" | "baseline" => {
                let least = u64::from(key == "minimum");
                let Some(number) = whole(given).filter(|number| *number >= least) else {
                    self.problem(
                        span,
                        format!("`{key}` is a whole number, {least} to {COUNT_MAX}"),
                    );
                    return;
                };
                words = format!("{key} {number}");
                let given = Some(Given { mark, value: number });
                *(if key == "minimum" { &mut figures.minimum } else { &mut figures.baseline }) =
                    given;
            }
            "timespan" => {
                let Some(value) = span_micros(text) else {
                    let message = "`timespan` is a whole number with s, m, h or d, such as \"90s\", and 7d at most";
                    return self.problem(span, message);
                };
                figures.timespan = Some(Given { mark, value });
            }
            _ => {
                let Some(value) = learning_micros(text) else {
                    let message = "`learning` is a whole number with s, m, h or d, such as \"7d\", and 366d at most";
                    return self.problem(span, message);
                };
                figures.learning = Some(Given { mark, value });
            }
        }
        figures.words.push(words);
    }

    fn count(&mut self, value: &Spanned<DeValue<'_>>) -> Option<Bounds> {
        let number = whole(value.get_ref()).filter(|number| *number > 0);
        if number.is_none() {
            self.problem(value.span(), format!("`count` is a whole number, 1 to {COUNT_MAX}"));
        }
        number.map(Bounds::at_least)
    }

    /// Reads `{gte = 3, lt = 10}` as the rule language reads it.
    fn condition(&mut self, value: &Spanned<DeValue<'_>>) -> Option<Bounds> {
        let Some(table) = value.get_ref().as_table().filter(|table| !table.is_empty()) else {
            self.problem(value.span(), "`condition` is a table such as {gte = 20}");
            return None;
        };
        let mut entries = Vec::new();
        for (key, value) in table {
            if key.get_ref() == "field" {
                let message = "the `field` whose values are counted stays that of the rule: leave it out here";
                self.problem(key.span(), message);
                return None;
            }
            // A key that is not known is told as such, whatever its value is.
            let number = number(value.get_ref());
            if Bounds::knows(key.get_ref()) && number.is_none() {
                self.problem(value.span(), format!("`{}` takes a number", key.get_ref()));
                return None;
            }
            let number = number.unwrap_or_default();
            let node = Node { mark: self.mark(value.span()), value: Value::Float(number) };
            entries.push(Entry {
                mark: self.mark(key.span()),
                key: key.get_ref().to_string(),
                node,
            });
        }
        match Bounds::read(&entries, &[]) {
            Ok(bounds) => Some(bounds),
            Err((mark, message)) => {
                self.problems.push(mark, message);
                None
            }
        }
    }
}

/// A whole number in the range of counts.
fn whole(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
    (number <= COUNT_MAX).then_some(number)
}

/// A number that is neither infinite nor none.
pub(super) fn number(value: &DeValue<'_>) -> Option<f64> {
    let number = match (value.as_integer(), value.as_float()) {
        (Some(number), _) => i64::from_str_radix(number.as_str(), number.radix()).ok()? as f64,
        (_, Some(number)) => number.as_str().parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}
