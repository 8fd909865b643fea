//! Overrides applied to rules: thresholds, levels, exceptions.

use std::collections::{BTreeMap, BTreeSet};

use super::compile::stem as rule_name;
use super::correlation::{share, smallest};
use super::field::did_you_mean;
use super::figures::{Figures, Given};
use super::matcher::Expr;
use super::overrides::{Exception, Override, Overrides};
use super::problem::{Problems, RuleProblem};
use super::rule::{Kind, Rule, RuleSet};
use super::stages::Order;
use super::tally::{Count, Counted};
use super::yaml::Mark;
use crate::model::Text;

impl RuleSet {
    /// Applies overrides to the rules; what does not fit is reported, all of it at once, and the set is then not to be
    /// used. `others` are rules that there are though not in this set. Rules that are switched off leave it.
    pub fn tune(&mut self, overrides: &Overrides, others: &[&str]) -> Vec<RuleProblem> {
        let problems = self.change(overrides, others);
        self.rules.retain(|rule| !overrides.disables(&rule.name));
        problems
    }

    /// The same, but that rules which are switched off stay.
    pub fn change(&mut self, overrides: &Overrides, others: &[&str]) -> Vec<RuleProblem> {
        let mut problems = Problems::new(&overrides.file);
        let names = self.rules.iter().map(|rule| Text::clone(&rule.name));
        let known: BTreeMap<Text, usize> = names.zip(0..).collect();
        let others: BTreeSet<&str> = others.iter().copied().collect();
        for (name, change) in &overrides.rules {
            let found = known.get(name.as_str()).and_then(|number| self.rules.get_mut(*number));
            match found {
                Some(rule) => change.apply(rule, &mut self.detections, &mut problems),
                None if others.contains(name.as_str()) => {}
                None => {
                    let plain = rule_name(name);
                    let hint = if known.contains_key(plain) || others.contains(plain) {
                        format!("; rules are named without the ending: `{plain}`")
                    } else if problems.are_many() {
                        String::new()
                    } else {
                        let names = known.keys().map(|name| &**name);
                        did_you_mean(name, names.chain(others.iter().copied()))
                    };
                    problems.push(change.mark, format!("there is no rule `{name}`{hint}"));
                }
            }
        }
        problems.into_found()
    }
}

impl Override {
    fn apply(&self, rule: &mut Rule, detections: &mut Vec<Expr>, problems: &mut Problems<'_>) {
        if let Some(level) = self.level {
            rule.level = level;
        }
        self.figures.apply(rule, problems);
        for Given { mark, value: (name, figures) } in &self.stages {
            let numbers = rule.counts_named(name);
            if numbers.is_empty() {
                problems.push(*mark, no_stage(rule, name));
            }
            if numbers.first() == rule.first_counts().first() {
                self.figures.given_twice(figures, name, problems);
            }
            figures.apply_to_counts(rule, &numbers, name, problems);
            if let Some(span) = &figures.timespan {
                for number in numbers {
                    if let Some(count) = rule.kind.count_mut(number) {
                        count.timespan_micros = span.value;
                    }
                }
            }
        }
        let found = set_numbers(rule, detections, &self.numbers);
        for Given { mark, value: (key, _) } in &self.numbers {
            if found.contains(key.as_str()) {
                continue;
            }
            let why = if problems.are_many() {
                format!("`{}` does not compare `{key}` with a number", rule.name)
            } else {
                no_number(rule, detections, key)
            };
            problems.push(*mark, why);
        }
        except(rule, detections, &self.except);
    }
}

/// Why a stage cannot be changed.
fn no_stage(rule: &mut Rule, name: &str) -> String {
    let mut counts = Vec::new();
    for (number, stage) in rule.stage_names.iter().enumerate() {
        if rule.kind.count_mut(number).is_some() {
            counts.push(&**stage);
        }
    }
    let hint = did_you_mean(name, counts.iter().copied());
    let rule_name = &rule.name;
    if counts.is_empty() {
        return format!(
            "`{rule_name}` has no counts among other stages, so it has no `stages` to change"
        );
    }
    format!(
        "`{rule_name}` has no count `{name}` among its stages; there are {}{hint}",
        counts.join(", ")
    )
}

impl Figures {
    /// Of the rule: its count is the first, its timespan that of the stages where there are several.
    fn apply(&self, rule: &mut Rule, problems: &mut Problems<'_>) {
        let name = std::sync::Arc::clone(&rule.name);
        if let Kind::FirstSeen(first) = &mut rule.kind {
            if let Some(Given { value, .. }) = self.baseline {
                first.baseline = usize::try_from(value).unwrap_or(usize::MAX);
            }
            first.learning_micros =
                self.learning.as_ref().map(|given| given.value).or(first.learning_micros);
        } else {
            for (key, mark) in [
                ("baseline", self.baseline.as_ref().map(|given| given.mark)),
                ("learning", self.learning.as_ref().map(|given| given.mark)),
            ] {
                if let Some(mark) = mark {
                    problems.push(
                        mark,
                        format!("`{name}` is no first_seen rule, so it has no `{key}`"),
                    );
                }
            }
        }
        let counts = rule.first_counts();
        if counts.is_empty() {
            for (_, mark) in self.of_count() {
                let message = format!(
                    "`{name}` counts nothing, so it has no `count`, `condition` or `minimum`"
                );
                problems.push(mark, message);
            }
        }
        self.apply_to_counts(rule, &counts, &name, problems);
        if let Some(span) = &self.timespan
            && !set_timespan(&mut rule.kind, span.value)
        {
            problems.push(span.mark, format!("`{name}` has no `timespan` to change"));
        }
    }

    /// What is given of a count, by its key, and where.
    fn of_count(&self) -> impl Iterator<Item = (&'static str, Mark)> {
        let word = if self.is_count { "count" } else { "condition" };
        let condition = self.condition.iter().map(move |given| (word, given.mark));
        condition.chain(self.minimum.iter().map(|given| ("minimum", given.mark)))
    }

    /// Refuses what is given of the rule and of the stage that it would be about.
    fn given_twice(&self, of_stage: &Self, stage: &str, problems: &mut Problems<'_>) {
        let is_minimum = |key| key == "minimum";
        for (key, mark) in self.of_count() {
            if of_stage.of_count().any(|(other, _)| is_minimum(other) == is_minimum(key)) {
                let message =
                    format!("`{key}` is that of `{stage}`, which is given under `stages` too");
                problems.push(mark, message);
            }
        }
    }

    /// A stage that a sequence names several times is one count, of which what is wrong is told once.
    fn apply_to_counts(
        &self,
        rule: &mut Rule,
        numbers: &[usize],
        name: &str,
        problems: &mut Problems<'_>,
    ) {
        let mut told = Problems::new("");
        for (index, number) in numbers.iter().enumerate() {
            if let Some(count) = rule.kind.count_mut(*number) {
                let problems = if index == 0 { &mut *problems } else { &mut told };
                self.apply_to_count(count, name, problems);
            }
        }
    }

    fn apply_to_count(&self, count: &mut Count, name: &str, problems: &mut Problems<'_>) {
        if let Some(given) = &self.condition {
            match &mut count.what {
                Counted::Events(bounds, min) | Counted::Values { bounds, min, .. } => {
                    if let Some(least) = smallest(given.mark, &given.value, problems) {
                        (*bounds, *min) = (given.value.clone(), least);
                    }
                }
                Counted::Share { .. } if self.is_count => {
                    let message = format!(
                        "`{name}` is a ratio, which has no `count`; write `condition = {{gte = 0.7}}`"
                    );
                    problems.push(given.mark, message);
                }
                Counted::Share { bounds, .. } => {
                    if !share(given.mark, &given.value, problems) {
                        return;
                    }
                    if !given.value.can_be_share() {
                        problems.push(given.mark, "no share from 0 to 1 fits the `condition`");
                    }
                    *bounds = given.value.clone();
                }
            }
        }
        match (&self.minimum, &mut count.what) {
            (Some(given), Counted::Share { minimum, .. }) => *minimum = given.value,
            (Some(given), _) => {
                problems.push(given.mark, format!("`{name}` is no ratio, so it has no `minimum`"));
            }
            (None, _) => {}
        }
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

/// Compares with other numbers wherever the rule asks for their keys; tells which it asks for. All at once, since it
/// makes each detection anew.
fn set_numbers<'a>(
    rule: &mut Rule,
    detections: &mut Vec<Expr>,
    numbers: &'a [Given<(String, f64)>],
) -> BTreeSet<&'a str> {
    let wanted: BTreeMap<&str, f64> =
        numbers.iter().map(|Given { value: (key, number), .. }| (&**key, *number)).collect();
    let mut found = BTreeSet::new();
    for slot in rule.kind.slots_mut() {
        let Some(expr) = detections.get(slot.detection) else { continue };
        let mut is_found = false;
        expr.each_item(&mut |item| {
            if let Some((key, _)) = item.number_key().and_then(|key| wanted.get_key_value(key)) {
                is_found = true;
                found.insert(*key);
            }
        });
        if is_found {
            let mut changed = expr.clone();
            changed.set_numbers(&wanted);
            slot.detection = detections.len();
            detections.push(changed);
        }
    }
    found
}

/// Why a number cannot be changed.
fn no_number(rule: &mut Rule, detections: &[Expr], key: &str) -> String {
    let mut known: Vec<&str> = Vec::new();
    for slot in rule.kind.slots_mut() {
        if let Some(expr) = detections.get(slot.detection) {
            expr.each_item(&mut |item| known.extend(item.number_key()));
        }
    }
    known.sort_unstable();
    known.dedup();
    let rule = &rule.name;
    if known.is_empty() {
        return format!("`{rule}` compares no field with a number");
    }
    let hint = did_you_mean(key, known.iter().copied());
    format!("`{rule}` does not compare `{key}` with a number; there are {}{hint}", known.join(", "))
}

/// Takes the excepted calls out of everything that the rule looks for.
fn except(rule: &mut Rule, detections: &mut Vec<Expr>, exceptions: &[Exception]) {
    if exceptions.is_empty() {
        return;
    }
    let any = Expr::Or(exceptions.iter().map(|except| except.expr.clone()).collect());
    for slot in rule.kind.slots_mut() {
        let Some(expr) = detections.get(slot.detection) else { continue };
        // Explanations take it apart again, and whether a detection looks at ingest events is told by its own part
        // alone.
        let left = Expr::And(vec![expr.clone(), Expr::Not(Box::new(any.clone()))]);
        (slot.detection, slot.is_excepted) = (detections.len(), true);
        detections.push(left);
    }
}

impl Rule {
    /// The numbers of the stages that are counts of this name: a sequence can name one several times.
    fn counts_named(&mut self, name: &str) -> Vec<usize> {
        let kind = &mut self.kind;
        let of_name = self.stage_names.iter().enumerate().filter(|(_, stage)| ***stage == *name);
        let numbers = of_name.map(|(number, _)| number);
        numbers.filter(|number| kind.count_mut(*number).is_some()).collect()
    }

    /// The number of the first stage that is a count, and those of its name.
    fn first_counts(&mut self) -> Vec<usize> {
        let Some(first) = self.kind.first_count() else { return Vec::new() };
        match self.stage_names.get(first).cloned() {
            Some(name) => self.counts_named(&name),
            None => vec![first],
        }
    }
}

impl Kind {
    /// The count that a stage is, by the number of the stage.
    fn count_mut(&mut self, number: usize) -> Option<&mut Count> {
        match self {
            Self::Chain(chain) => chain.stages.get_mut(number)?.count.as_mut(),
            Self::FirstSeen(_) => None,
        }
    }

    fn first_count(&self) -> Option<usize> {
        match self {
            Self::Chain(chain) => chain.stages.iter().position(|stage| stage.count.is_some()),
            Self::FirstSeen(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_changed_all_at_once_and_each_that_there_is_not_is_told() {
        let items: Vec<String> = (0..40).map(|item| format!("args.a{item}|lt: 1")).collect();
        let text = format!(
            "title: t\nlogsource: {{product: mcp}}\ndetection: {{s: {{{}}}, condition: s}}\n",
            items.join(", ")
        );
        let mut rules = RuleSet::compile(&[("x.yml", &text)]).unwrap();
        let written = rules.detections.len();
        let lines = |letter: char, number: usize| -> String {
            let line = |item| format!("\"args.{letter}{item}|lt\" = 2\n");
            (0..number).map(line).collect()
        };
        let numbers = lines('a', 40);
        let (overrides, found) = Overrides::parse("o.toml", &format!("[x.numbers]\n{numbers}"));
        assert_eq!((found, rules.tune(&overrides, &[])), (Vec::new(), Vec::new()));
        assert_eq!(rules.detections.len(), written + 1);
        let changed = format!("{:?}", rules.detections.last());
        assert_eq!(changed.matches("Number(Less, 2.0)").count(), 40, "{changed}");
        let wrong = lines('b', 200);
        let text = format!("[x.numbers]\n{wrong}\n[y]\n[\"a.yml\"]\n");
        let (overrides, found) = Overrides::parse("o.toml", &text);
        let told = rules.tune(&overrides, &["a"]);
        assert_eq!((found, told.len()), (Vec::new(), 202), "{told:#?}");
        let hints = |what| told.iter().filter(|problem| problem.message.contains(what)).count();
        // What may be meant is looked for of the first 50 problems alone, of which one is that of `a.yml`.
        assert_eq!((hints("there are args.a0|lt"), hints("without the ending: `a`")), (50 - 1, 1));
    }
}
