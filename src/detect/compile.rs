//! Rule files to a rule set: every reference resolved, every problem reported.

use std::collections::BTreeMap;

use crate::model::{Micros, Text};

use super::cases;
use super::correlation::{Correlates, Correlation, Counts, GroupBy};
use super::document::{Body, Document};
use super::field::{GroupField, did_you_mean};
use super::matcher::Expr;
use super::problem::{Problems, RuleProblem};
use super::rule::{FirstSeen, Grouping, Kind, Rule, RuleSet};
use super::stages::{Chain, Order, SLOTS_MAX, Slot, Stage};
use super::tally::{Count, Counted};
use super::yaml::{self, Mark};

/// The most stages of a sequence.
const STAGES_MAX: usize = 16;

/// A session is a run of calls with no longer gap between neighbours.
const SESSION_GAP_MICROS: i64 = 30 * Micros::MINUTE;

/// The longest that a taint lasts: what a group remembers is bounded.
const TAINT_MICROS: i64 = 24 * Micros::HOUR;

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
    let (kind, groupings) = kind(name, main, &documents, detections, problems)?;
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
        group_by: names(main),
        groupings,
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

/// The names of what the calls are grouped by.
fn names(main: &Document) -> Vec<Text> {
    let group_by = match &main.body {
        Body::Detection { group_by: Some(group_by), .. } => group_by.as_slice(),
        Body::Detection { group_by: None, .. } => &[GroupBy::Field(GroupField::Actor)],
        Body::Correlation(correlation) => &correlation.group_by,
    };
    group_by.iter().map(|group_by| group_by.name().into()).collect()
}

/// The fields to group the calls of one rule by.
fn fields(group_by: &[GroupBy], rule: &str) -> Vec<GroupField> {
    group_by.iter().filter_map(|group_by| group_by.field(rule)).collect()
}

fn kind(
    name: &str,
    main: &Document,
    documents: &[Document],
    detections: &mut Detections,
    problems: &mut Problems<'_>,
) -> Option<(Kind, Vec<Grouping>)> {
    let every = |fields| vec![Grouping { slots: u32::MAX, fields }];
    let correlation = match &main.body {
        Body::Detection { expr, group_by } => {
            let chain = Chain {
                slots: vec![Slot { name: name.into(), detection: detections.add(expr) }],
                stages: vec![Stage { slot: 0, count: None }],
                order: Order::Sequence,
                timespan_micros: 0,
                quiet_micros: SINGLE_QUIET_MICROS,
            };
            let group_by = group_by.as_ref().map(|group_by| fields(group_by, name));
            let group_by = group_by.unwrap_or_else(|| vec![GroupField::Actor]);
            return Some((Kind::Chain(chain), every(group_by)));
        }
        Body::Correlation(correlation) => correlation,
    };
    let mut linker =
        Linker { documents, detections, problems, slots: Vec::new(), groupings: Vec::new() };
    let (stages, order, timespan_micros, quiet_micros) = match &correlation.what {
        Correlates::FirstSeen { baseline } => {
            linker.counted(correlation)?;
            let slot = linker.slots.pop()?;
            let first = FirstSeen { slot, baseline: *baseline };
            return Some((Kind::FirstSeen(first), every(fields(&correlation.group_by, ""))));
        }
        Correlates::Count { timespan, .. } => {
            (vec![linker.counted(correlation)?], Order::Sequence, 0, *timespan)
        }
        Correlates::TemporalOrdered { timespan } => {
            (linker.stages(main, correlation)?, Order::Sequence, *timespan, *timespan)
        }
        Correlates::Temporal { timespan } => {
            (linker.stages(main, correlation)?, Order::Any, *timespan, *timespan)
        }
        Correlates::Taint => {
            let order = Order::Session { gap_micros: SESSION_GAP_MICROS };
            (linker.stages(main, correlation)?, order, TAINT_MICROS, SESSION_GAP_MICROS)
        }
    };
    let Linker { slots, groupings, .. } = linker;
    let chain = Chain { slots, stages, order, timespan_micros, quiet_micros };
    let groupings = match <[Grouping; 1]>::try_from(groupings) {
        // Without aliases every call is grouped alike, also one that fills nothing.
        Ok([only]) => every(only.fields),
        Err(several) => several,
    };
    Some((Kind::Chain(chain), groupings))
}

/// Resolves the references of one file.
struct Linker<'a, 'p, 'f> {
    documents: &'a [Document],
    detections: &'a mut Detections,
    problems: &'p mut Problems<'f>,
    slots: Vec<Slot>,
    groupings: Vec<Grouping>,
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

    /// Adds the slot of a detection.
    fn slot(&mut self, mark: Mark, reference: &str, group_by: Vec<GroupField>) -> Option<usize> {
        let document = self.find(mark, reference)?;
        let Body::Detection { expr, .. } = &document.body else {
            let message = "a correlation of a correlation is not supported here";
            self.problems.push(mark, message);
            return None;
        };
        let index = self.slots.len();
        if index >= SLOTS_MAX {
            let message = format!("the rule looks for more than {SLOTS_MAX} kinds of calls");
            self.problems.push(mark, message);
            return None;
        }
        let name = document.name.as_deref().unwrap_or(reference);
        self.slots.push(Slot { name: Text::from(name), detection: self.detections.add(expr) });
        match self.groupings.iter_mut().find(|grouping| grouping.fields == group_by) {
            Some(grouping) => grouping.slots |= 1 << index,
            None => self.groupings.push(Grouping { slots: 1 << index, fields: group_by }),
        }
        Some(index)
    }

    /// The stage of a correlation that looks at one detection, or at two for a ratio.
    fn counted(&mut self, correlation: &Correlation) -> Option<Stage> {
        let (what, timespan) = match &correlation.what {
            Correlates::Count { what, timespan } => (Some(what), *timespan),
            _ => (None, 0),
        };
        let wanted = if matches!(what, Some(Counts::Share { .. })) { 2 } else { 1 };
        if let Some((mark, _)) = correlation.rules.get(wanted) {
            let message = "this type takes one rule; join several in one condition with `or`";
            self.problems.push(*mark, message);
            return None;
        }
        let mut slots = Vec::new();
        for (mark, reference) in &correlation.rules {
            let fields = fields(&correlation.group_by, reference);
            slots.push(self.slot(*mark, reference, fields)?);
        }
        let (slot, per) = (*slots.first()?, slots.last().copied());
        let counted = match what {
            None => return Some(Stage { slot, count: None }),
            Some(Counts::Events(bounds, min)) => Counted::Events(bounds.clone(), *min),
            Some(Counts::Values { field, bounds, min }) => {
                Counted::Values { field: field.clone(), bounds: bounds.clone(), min: *min }
            }
            Some(Counts::Share { bounds, minimum }) => {
                Counted::Share { per: per?, bounds: bounds.clone(), minimum: *minimum }
            }
        };
        Some(Stage { slot, count: Some(Count { timespan_micros: timespan, what: counted }) })
    }

    /// The stages of a correlation of several rules.
    fn stages(&mut self, main: &Document, correlation: &Correlation) -> Option<Vec<Stage>> {
        if !(2..=STAGES_MAX).contains(&correlation.rules.len()) {
            let message = format!("this type takes 2 to {STAGES_MAX} rules");
            self.problems.push(main.mark, message);
            return None;
        }
        let is_taint = matches!(correlation.what, Correlates::Taint);
        let mut stages = Vec::new();
        for (mark, reference) in &correlation.rules {
            let own = fields(&correlation.group_by, reference);
            let document = self.find(*mark, reference)?;
            let stage = match &document.body {
                Body::Correlation(inner) if !is_taint => {
                    if !matches!(inner.what, Correlates::Count { .. }) {
                        let message = "a stage is a detection or a count: event_count, value_count \
                                       or ratio";
                        self.problems.push(*mark, message);
                        return None;
                    }
                    let agree = |rule: &String| fields(&inner.group_by, rule) == own;
                    if !inner.rules.iter().all(|(_, rule)| agree(rule)) {
                        let message = "this stage has another `group-by` than the rule it is in";
                        self.problems.push(*mark, message);
                    }
                    self.counted(inner)?
                }
                _ => Stage { slot: self.slot(*mark, reference, own)?, count: None },
            };
            stages.push(stage);
        }
        Some(stages)
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
            (correlation("  type: absence\n"), "3: the type `absence` is not supported"),
            (correlation(count), "2: `condition` is missing"),
            (
                correlation(&format!("{count}  condition: {{lte: 3}}\n")),
                "7: `condition` needs a lower bound",
            ),
            (
                correlation(&format!("{count}  condition: {{gte: 3}}\n  aliases: {{}}\n")),
                "8: `aliases` is a map",
            ),
            (
                correlation(&format!("{count}  condition: {{eq: 0}}\n")),
                "7: `condition` fits no whole",
            ),
            (correlation(&format!("{count}  condition: {{gte: 2.5}}\n")), "7: `condition` fits no"),
            (
                correlation(&format!("{count}  condition: {{gte: 5, lt: 5}}\n")),
                "7: `condition` fits no",
            ),
            (
                correlation(&format!("{count}  condition: {{gtee: 5}}\n")),
                "7: `condition` knows eq, neq",
            ),
            (
                correlation(&format!("{count}  condition: {{gte: 3}}\n  fields: [actor]\n")),
                "8: this type",
            ),
            (
                correlation(
                    &(count.replace("event_count", "value_count") + "  condition: {gte: 3}\n"),
                ),
                "7: `condition` has no `field`",
            ),
            (
                correlation(
                    &(count.replace("event_count", "value_count")
                        + "  condition: {gte: 3, field: flags}\n"),
                ),
                "7: values of `flags` cannot be counted",
            ),
            (
                correlation(
                    &(count.replace("[actor]", "[who]").replace("event_count", "temporal")
                        + "  aliases: {who: {b: actor}}\n"),
                ),
                "7: the alias `who` names no field for the rule `a`",
            ),
            (
                correlation(
                    "  type: ratio\n  of: a\n  per: a\n  group-by: [actor]\n  timespan: 1m\n  condition: {gte: 2}\n  minimum: 1\n",
                ),
                "8: `condition` compares a share",
            ),
            (
                correlation("  type: taint\n  source: a\n  group-by: [actor]\n"),
                "2: `sink` is missing",
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
            (correlation(&count.replace("event_count", "temporal_ordered")), "1: this type takes"),
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
