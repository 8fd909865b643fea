//! Rule files to a rule set: every reference resolved, every problem reported.

use std::collections::BTreeMap;

use crate::model::{Micros, Text};

use super::cases;
use super::correlation::{Correlates, Correlation};
use super::document::{Body, Document};
use super::field::{GroupField, did_you_mean};
use super::matcher::Expr;
use super::problem::{Problems, RuleProblem};
use super::rule::{Chain, Count, FirstSeen, Kind, Rule, RuleSet, Stage};
use super::yaml::{self, Mark};

/// The most stages of a sequence.
const STAGES_MAX: usize = 16;

/// Single events at most this far apart are one episode.
const SINGLE_QUIET_MICROS: i64 = 10 * Micros::MINUTE;

/// Compiles files given as (name, text), in the order of their names.
pub(super) fn rule_set(files: &[(&str, &str)]) -> Result<RuleSet, Vec<RuleProblem>> {
    let mut files = files.to_vec();
    files.sort_unstable_by_key(|(name, _)| *name);
    let mut found = Vec::new();
    let mut rules = Vec::new();
    let mut detections = Detections::default();
    for (name, text) in files {
        let mut problems = Problems::new(name);
        let rule = file(name, text, &mut detections, &mut problems);
        if let Some(rule) = &rule
            && rules.iter().any(|other: &Rule| other.name == rule.name)
        {
            problems.push(Mark::START, format!("there is another rule `{}`", rule.name));
        }
        rules.extend(rule);
        found.extend(problems.into_found());
    }
    if found.is_empty() { Ok(RuleSet { rules, detections: detections.exprs }) } else { Err(found) }
}

/// Equal detections are one, so that rules which ask the same thing ask it once.
#[derive(Default)]
struct Detections {
    exprs: Vec<Expr>,
    /// By their debug text, which shows all of an expression.
    known: BTreeMap<String, usize>,
}

impl Detections {
    fn add(&mut self, expr: &Expr) -> usize {
        let next = self.exprs.len();
        let index = *self.known.entry(format!("{expr:?}")).or_insert(next);
        if index == next {
            self.exprs.push(expr.clone());
        }
        index
    }
}

fn file(
    file: &str,
    text: &str,
    detections: &mut Detections,
    problems: &mut Problems<'_>,
) -> Option<Rule> {
    let nodes = match yaml::documents(text) {
        Ok(nodes) => nodes,
        Err(error) => {
            problems.push(error.mark, error.message);
            return None;
        }
    };
    let read: Vec<Option<Document>> =
        nodes.iter().map(|node| Document::read(node, problems)).collect();
    let documents: Vec<Document> = read.into_iter().collect::<Option<_>>()?;
    let main = main_document(&documents, problems)?;
    helpers_are_plain(&documents, main, problems);
    let name = stem(file);
    let (kind, group_by) = kind(name, main, &documents, detections, problems)?;
    let mut rule = Rule {
        name: name.into(),
        title: main.title.clone(),
        id: main.id.clone(),
        status: main.status.clone(),
        description: main.description.clone(),
        level: main.level,
        tags: main.tags.clone(),
        falsepositives: main.falsepositives.clone(),
        references: main.references.clone(),
        why: main.why.clone().unwrap_or_else(|| main.title.clone()),
        file: file.to_owned(),
        mark: main.mark,
        group_by,
        kind,
        cases: Vec::new(),
    };
    if let Some(tests) = &main.tests {
        rule.cases = cases::read(tests, &rule.group_by, problems);
    }
    Some(rule)
}

/// A file's name without folders and without `.yml` or `.yaml`: the name of its rule.
fn stem(file: &str) -> &str {
    let base = file.rsplit_once(['/', '\\']).map_or(file, |(_, base)| base);
    base.strip_suffix(".yml").or_else(|| base.strip_suffix(".yaml")).unwrap_or(base)
}

/// The one document that no correlation of the file names.
fn main_document<'a>(
    documents: &'a [Document],
    problems: &mut Problems<'_>,
) -> Option<&'a Document> {
    let is_named = |document: &&Document| {
        documents.iter().any(|other| match &other.body {
            Body::Correlation(correlation) => {
                correlation.rules.iter().any(|(_, reference)| document.is_called(reference))
            }
            Body::Detection { .. } => false,
        })
    };
    let mut firing = documents.iter().filter(|document| !is_named(document));
    let first = firing.next();
    if first.is_none() {
        problems
            .push(Mark::START, "the file holds no rule that fires: each is named by a correlation");
    }
    for extra in firing {
        let message = "a second rule that fires; a file has one, and helpers that it names";
        problems.push(extra.mark, message);
    }
    first
}

/// What only a rule that fires can use would be read and never used on a helper.
fn helpers_are_plain(documents: &[Document], main: &Document, problems: &mut Problems<'_>) {
    let mut names = Vec::new();
    for document in documents {
        if let Some(name) = &document.name {
            if names.contains(&name) {
                problems.push(document.mark, format!("the name `{name}` is used twice"));
            }
            names.push(name);
        }
        if std::ptr::eq(document, main) {
            continue;
        }
        let grouped = matches!(document.body, Body::Detection { group_by: Some(_), .. });
        if grouped || document.why.is_some() || document.tests.is_some() {
            let message = "`why`, `tests` and `group-by` belong to the rule that fires";
            problems.push(document.mark, message);
        }
    }
}

fn kind(
    name: &str,
    main: &Document,
    documents: &[Document],
    detections: &mut Detections,
    problems: &mut Problems<'_>,
) -> Option<(Kind, Vec<GroupField>)> {
    let correlation = match &main.body {
        Body::Detection { expr, group_by } => {
            let chain = Chain {
                stages: vec![Stage { name: name.into(), detection: detections.add(expr) }],
                count: None,
                timespan_micros: 0,
                quiet_micros: SINGLE_QUIET_MICROS,
            };
            let group_by = group_by.clone().unwrap_or_else(|| vec![GroupField::Actor]);
            return Some((Kind::Chain(chain), group_by));
        }
        Body::Correlation(correlation) => correlation,
    };
    let mut linker = Linker { documents, detections, problems };
    let kind = match correlation.what {
        Correlates::EventCount { min, timespan } => {
            let (stage, count) = linker.counted(correlation, min, timespan)?;
            Kind::Chain(Chain {
                stages: vec![stage],
                count: Some(count),
                timespan_micros: 0,
                quiet_micros: timespan,
            })
        }
        Correlates::TemporalOrdered { timespan } => linker.sequence(main, correlation, timespan)?,
        Correlates::FirstSeen { baseline } => {
            let stage = linker.only_stage(correlation)?;
            Kind::FirstSeen(FirstSeen { stage, baseline })
        }
    };
    Some((kind, correlation.group_by.clone()))
}

/// Resolves the references of one file.
struct Linker<'a, 'p, 'f> {
    documents: &'a [Document],
    detections: &'a mut Detections,
    problems: &'p mut Problems<'f>,
}

impl<'a> Linker<'a, '_, '_> {
    fn find(&mut self, mark: Mark, reference: &str) -> Option<&'a Document> {
        let documents = self.documents;
        let found = documents.iter().find(|document| document.is_called(reference));
        if found.is_none() {
            let names = documents.iter().filter_map(|document| document.name.as_deref());
            let hint = did_you_mean(reference, names);
            self.problems.push(mark, format!("no rule in this file is called `{reference}`{hint}"));
        }
        found
    }

    /// The stage of a correlation that looks at one detection.
    fn only_stage(&mut self, correlation: &Correlation) -> Option<Stage> {
        let [(mark, reference)] = correlation.rules.as_slice() else {
            let mark = correlation.rules.get(1).map_or(Mark::START, |(mark, _)| *mark);
            let message = "this type takes one rule; join several in one condition with `or`";
            self.problems.push(mark, message);
            return None;
        };
        let document = self.find(*mark, reference)?;
        match &document.body {
            Body::Detection { expr, .. } => Some(self.stage(document, reference, expr)),
            Body::Correlation(_) => {
                self.problems.push(*mark, "a correlation of a correlation is not supported here");
                None
            }
        }
    }

    fn counted(
        &mut self,
        correlation: &Correlation,
        min: u64,
        timespan_micros: i64,
    ) -> Option<(Stage, Count)> {
        Some((self.only_stage(correlation)?, Count { min, timespan_micros }))
    }

    fn stage(&mut self, document: &Document, reference: &str, expr: &Expr) -> Stage {
        let name = document.name.as_deref().unwrap_or(reference);
        Stage { name: Text::from(name), detection: self.detections.add(expr) }
    }

    fn sequence(
        &mut self,
        main: &Document,
        correlation: &Correlation,
        timespan_micros: i64,
    ) -> Option<Kind> {
        if !(2..=STAGES_MAX).contains(&correlation.rules.len()) {
            let message = format!("temporal_ordered takes 2 to {STAGES_MAX} rules");
            self.problems.push(main.mark, message);
            return None;
        }
        let mut count = None;
        let mut stages = Vec::new();
        for (index, (mark, reference)) in correlation.rules.iter().enumerate() {
            let document = self.find(*mark, reference)?;
            match &document.body {
                Body::Detection { expr, .. } => {
                    stages.push(self.stage(document, reference, expr));
                }
                Body::Correlation(inner) => {
                    let Correlates::EventCount { min, timespan } = inner.what else {
                        self.problems.push(*mark, "a stage is a detection or an event_count");
                        return None;
                    };
                    if index > 0 {
                        let message = "an event_count is supported as the first stage only";
                        self.problems.push(*mark, message);
                        return None;
                    }
                    if inner.group_by != correlation.group_by {
                        let message = "this stage has another `group-by` than its sequence";
                        self.problems.push(*mark, message);
                    }
                    let (stage, counted) = self.counted(inner, min, timespan)?;
                    stages.push(stage);
                    count = Some(counted);
                }
            }
        }
        let quiet_micros = timespan_micros;
        Some(Kind::Chain(Chain { stages, count, timespan_micros, quiet_micros }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problems of a file, as `line: message` texts.
    fn problems(text: &str) -> Vec<String> {
        match rule_set(&[("x.yml", text)]) {
            Ok(_) => Vec::new(),
            Err(found) => found.into_iter().map(|p| format!("{}: {}", p.line, p.message)).collect(),
        }
    }

    fn detection(body: &str) -> String {
        format!("title: t\nlogsource: {{product: mcp}}\ndetection:\n{body}")
    }

    fn correlation(body: &str) -> String {
        let helper = "{title: t, name: a, logsource: {product: mcp}, detection: {s: {ran: no}, \
                      condition: s}}";
        format!("title: t\ncorrelation:\n{body}---\n{helper}\n")
    }

    #[test]
    fn what_is_not_supported_is_refused_with_line_and_reason() {
        let plain = "  s: {ran: no}\n  condition: s\n";
        let count = "  type: event_count\n  rules: [a]\n  timespan: 1m\n  group-by: [actor]\n";
        for (text, expected) in [
            (detection("  s: {ran: no}\n  condition: s or t\n"), "5: the condition names `t`"),
            (
                detection("  s: {toool.name: x}\n  condition: s\n"),
                "4: there is no field `toool.name`",
            ),
            (
                detection("  s:\n    tool.name|base64: x\n  condition: s\n"),
                "5: the modifier `base64`",
            ),
            (
                detection("  s: {outcome: sucess}\n  condition: s\n"),
                "4: `outcome` is never `sucess`",
            ),
            (detection("  s: {code|re: '('}\n  condition: s\n"), "4: `code|re`: "),
            (
                detection("  s: {args.h|cidr: '10.0.0.1/8'}\n  condition: s\n"),
                "4: `args.h|cidr` takes",
            ),
            (detection("  s: {code|i: x}\n  condition: s\n"), "4: the modifier `i`"),
            (detection("  s: {code|exists|all: true}\n  condition: s\n"), "4: `all` means nothing"),
            (detection("  s: {code: 1.10}\n  condition: s\n"), "4: `code` cannot be compared"),
            (detection("  s: {code: []}\n  condition: s\n"), "4: `code` has an empty list"),
            (detection("  s: {code|lt: 5}\n  condition: s\n"), "4: `code` is no number"),
            (detection("  s: {at: '2026'}\n  condition: s\n"), "4: `at` is a time"),
            (
                detection("  s: {duration_ms|gt: long}\n  condition: s\n"),
                "4: `duration_ms` is compared",
            ),
            (detection("  s: [word]\n  condition: s\n"), "4: keywords are not supported"),
            (detection("  s: {ran: no}\n"), "3: `detection` has no `condition`"),
            (
                detection(plain) + "levle: high\n",
                "6: the key `levle` is not known; did you mean `level`",
            ),
            (detection(plain) + "level: severe\n", "6: `level: severe` is none of"),
            (detection(plain) + "group-by: [flags]\n", "6: calls cannot be grouped by `flags`"),
            (detection(plain) + "---\n" + &detection(plain), "7: a second rule that fires"),
            (detection(plain).replace("mcp", "windows"), "2: logsource `product`"),
            (detection(plain).replace("title: t", "name: t"), "1: `title` is missing"),
            (correlation("  type: value_count\n"), "3: the type `value_count` is not supported"),
            (correlation(count), "2: `condition` is missing"),
            (correlation(&format!("{count}  condition: {{lte: 3}}\n")), "7: `condition` is one of"),
            (
                correlation(&format!("{count}  condition: {{gte: 3}}\n  aliases: {{}}\n")),
                "8: this type",
            ),
            (
                correlation(&format!("{count}  condition: {{gte: 3}}\n  generate: true\n")),
                "8: only `gen",
            ),
            (correlation(&count.replace("1m", "1y")), "5: `timespan` is a whole number"),
            (
                correlation(&(count.replace("[a]", "[b]") + "  condition: {gte: 3}\n")),
                "4: no rule in this file is called `b`",
            ),
            (
                correlation(&count.replace("event_count", "temporal_ordered")),
                "1: temporal_ordered takes",
            ),
            (correlation("  type: first_seen\n  rules: [a]\n"), "2: `fields` is missing"),
            ("a: [".to_owned(), ": this is not YAML"),
            ("- a\n".to_owned(), "1: a rule is a map of keys, not a list"),
            (String::new(), "1: the file holds no rule that fires"),
        ] {
            let found = problems(&text);
            assert!(
                found.iter().any(|problem| problem.contains(expected)),
                "expected `{expected}`, found {found:?} in\n{text}"
            );
        }
    }

    #[test]
    fn a_problem_is_told_with_its_column() {
        let text = detection("  s: {ran: no, outcome: sucess}\n  condition: s\n");
        let found = rule_set(&[("x.yml", &text)]).unwrap_err();
        assert!(found[0].to_string().starts_with("x.yml:4:16: `outcome` is never"), "{}", found[0]);
        let text = detection("  s: {ran: no}\n  condition: s or t\n");
        let found = rule_set(&[("x.yml", &text)]).unwrap_err();
        assert!(
            found[0].to_string().starts_with("x.yml:5:14: the condition names `t`"),
            "{}",
            found[0]
        );
    }

    #[test]
    fn all_problems_of_all_files_are_reported_at_once() {
        let bad = detection("  s: {a: x, b: y}\n  condition: s\n") + "levle: high\n";
        let found = rule_set(&[("b.yml", &bad), ("a.yml", &bad)]).unwrap_err();
        let files: Vec<&str> = found.iter().map(|problem| problem.file.as_str()).collect();
        assert_eq!(files, ["a.yml", "a.yml", "a.yml", "b.yml", "b.yml", "b.yml"]);
    }

    #[test]
    fn equal_detections_are_evaluated_once() {
        let plain = detection("  s: {ran: no}\n  condition: s\n");
        let set = rule_set(&[("a.yml", &plain), ("b.yml", &plain)]).unwrap();
        assert_eq!((set.rules.len(), set.detections.len()), (2, 1));
    }
}
