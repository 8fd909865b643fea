//! Rule files to a rule set: every reference resolved, every problem reported.

use std::collections::BTreeMap;

use crate::model::{Micros, Text};

use super::allowance::Allowance;
use super::cases;
use super::correlation::{Correlates, Correlation, Counts, STAGES_MAX};
use super::document::{Body, Document};
use super::field::{GroupField, did_you_mean};
use super::group_by::{GroupBy, check_aliases, fields};
use super::limits::STATE_SATURATED;
use super::matcher::{Expr, Item};
use super::problem::{Problems, RuleProblem};
use super::rule::{FirstSeen, Grouping, Kind, Rule, RuleSet};
use super::stages::{Chain, Inner, Order, SLOTS_MAX, Slot, Stage};
use super::tally::{Count, Counted};
use super::yaml::{self, Mark};

/// A session is a run of calls with no longer gap between neighbours.
const SESSION_GAP_MICROS: i64 = 30 * Micros::MINUTE;

/// The longest that a taint lasts: what a group remembers is bounded.
const TAINT_MICROS: i64 = 24 * Micros::HOUR;

/// The most correlations that can be inside one another.
const DEPTH_MAX: usize = 3;

/// Single events at most this far apart are one episode.
const SINGLE_QUIET_MICROS: i64 = 10 * Micros::MINUTE;

/// What files of rules come to.
pub(super) struct Compiled<'f> {
    /// The rules of the files that can be read.
    pub(super) set: RuleSet,
    /// Everything that is wrong with the others, in the order of the files' names.
    pub(super) problems: Vec<RuleProblem>,
    /// Their names.
    pub(super) unreadable: Vec<&'f str>,
}

/// Compiles files given as (name, text), in the order of their names. Of two files with one rule the first is good.
pub(super) fn compiled<'f>(files: &[(&'f str, &'f str)]) -> Compiled<'f> {
    let mut files = files.to_vec();
    files.sort_unstable_by_key(|(name, _)| *name);
    let mut detections = Detections::default();
    let mut allowance = Allowance::default();
    let mut known = BTreeMap::new();
    let (mut rules, mut problems, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    for (name, text) in files {
        let mut of_file = Problems::new(name);
        allowance.next_file();
        let rule = file(name, text, &mut detections, &mut allowance, &mut of_file);
        if rule.is_some() {
            let first = *known.entry(stem(name)).or_insert(name);
            if first != name {
                let rule = stem(name);
                of_file.push(Mark::START, format!("there is another rule `{rule}`, in {first}"));
            }
        }
        let found = of_file.into_found();
        match rule {
            Some(rule) if found.is_empty() => rules.push(rule),
            _ => unreadable.push(name),
        }
        problems.extend(found);
    }
    Compiled { set: RuleSet { rules, detections: detections.exprs }, problems, unreadable }
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

    /// Those of a detection's calls that a witness does not tell of.
    fn add_unwitnessed(&mut self, detection: usize) -> Option<usize> {
        let asked = self.exprs.get(detection)?.clone();
        Some(self.add(&Expr::And(vec![asked, Expr::Item(Item::unwitnessed())])))
    }
}

fn file(
    file: &str,
    text: &str,
    detections: &mut Detections,
    allowance: &mut Allowance,
    problems: &mut Problems<'_>,
) -> Option<Rule> {
    let nodes = match yaml::documents(text) {
        Ok(nodes) => nodes,
        Err(error) => {
            problems.push(error.mark, error.message);
            return None;
        }
    };
    if nodes.is_empty() {
        problems.push(Mark::START, "the file is empty; a rule has a `title` at least");
        return None;
    }
    let read: Vec<Option<Document>> =
        nodes.iter().map(|node| Document::read(node, allowance, problems)).collect();
    let documents: Vec<Document> = read.into_iter().collect::<Option<_>>()?;
    let main = main_document(&documents, problems)?;
    if stem(file) == STATE_SATURATED {
        let message =
            "the name `state-saturated` is that of alerts on busy groups; call the file otherwise";
        problems.push(Mark::START, message);
    }
    helpers_are_plain(&documents, main, problems);
    for document in &documents {
        if let Body::Correlation(correlation) = &document.body {
            check_aliases(&correlation.group_by, &correlation.rules, &documents, problems);
        }
    }
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
        is_grouped: match &main.body {
            Body::Detection { .. } => true,
            Body::Correlation(correlation) => correlation.is_grouped,
        },
        type_word: type_word(main),
        stage_names: stage_names(main, &documents),
        groupings,
        kind,
        cases: Vec::new(),
    };
    if let Some(tests) = &main.tests {
        rule.cases = cases::read(tests, &rule.group_by, allowance, problems);
    }
    Some(rule)
}

/// A file's name without folders and without `.yml` or `.yaml`: the name of its rule.
pub fn stem(file: &str) -> &str {
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
    let mut ids = Vec::new();
    for document in documents {
        for (known, word, kind) in
            [(&mut names, &document.name, "name"), (&mut ids, &document.id, "id")]
        {
            let Some(word) = word else { continue };
            if known.contains(&word) {
                problems.push(document.mark, format!("the {kind} `{word}` is used twice"));
            }
            known.push(word);
        }
        // What a correlation names must be one document: another would be read and never used.
        let other =
            |other: &&Document| other.id == document.name && !std::ptr::eq(*other, document);
        if let Some(name) = &document.name
            && documents.iter().any(|document| other(&document))
        {
            problems.push(document.mark, format!("the name `{name}` is another document's id"));
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

/// The word of the rule language for what the rule looks for.
fn type_word(main: &Document) -> &'static str {
    let Body::Correlation(correlation) = &main.body else { return "detection" };
    match &correlation.what {
        Correlates::Count { what: Counts::Events(..), .. } => "event_count",
        Correlates::Count { what: Counts::Values { .. }, .. } => "value_count",
        Correlates::Count { what: Counts::Share { .. }, .. } => "ratio",
        Correlates::Temporal { .. } => "temporal",
        Correlates::TemporalOrdered { .. } => "temporal_ordered",
        Correlates::Taint => "taint",
        Correlates::FirstSeen { .. } => "first_seen",
        Correlates::Absence => "absence",
    }
}

/// The names of the rules that are stages, where there are several. A rule that is referred to by its id goes by its
/// name all the same, if it has one.
fn stage_names(main: &Document, documents: &[Document]) -> Vec<Text> {
    let name = |reference: &str| {
        let named = documents.iter().find(|document| document.is_called(reference));
        Text::from(named.and_then(|document| document.name.as_deref()).unwrap_or(reference))
    };
    match &main.body {
        Body::Correlation(correlation)
            if matches!(
                correlation.what,
                Correlates::Temporal { .. } | Correlates::TemporalOrdered { .. }
            ) =>
        {
            correlation.rules.iter().map(|(_, reference)| name(reference)).collect()
        }
        _ => Vec::new(),
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

/// Every call that fits.
fn single(slot: Slot) -> Kind {
    Kind::Chain(Chain {
        slots: vec![slot],
        stages: vec![Stage { slot: 0, count: None }],
        order: Order::Sequence,
        is_same_event_allowed: false,
        timespan_micros: 0,
        quiet_micros: SINGLE_QUIET_MICROS,
        inner: Vec::new(),
    })
}

/// All calls are grouped alike.
fn every(fields: Vec<GroupField>) -> Vec<Grouping> {
    vec![Grouping { slots: u32::MAX, fields }]
}

fn kind(
    name: &str,
    main: &Document,
    documents: &[Document],
    detections: &mut Detections,
    problems: &mut Problems<'_>,
) -> Option<(Kind, Vec<Grouping>)> {
    let correlation = match &main.body {
        Body::Detection { expr, group_by } => {
            let (detection, mark) = (detections.add(expr), main.mark);
            let slot = Slot { name: name.into(), detection, mark, is_excepted: false };
            let group_by = group_by.as_ref().map(|group_by| fields(group_by, name, documents));
            return Some((
                single(slot),
                every(group_by.unwrap_or_else(|| vec![GroupField::Actor])),
            ));
        }
        Body::Correlation(correlation) => correlation,
    };
    let mut linker = Linker {
        documents,
        detections,
        problems,
        slots: Vec::new(),
        groupings: Vec::new(),
        inner: Vec::new(),
        inner_count: 0,
        depth: 1,
    };
    if let Correlates::FirstSeen { baseline, learning } = &correlation.what {
        linker.counted(correlation)?;
        let slot = linker.slots.pop()?;
        let first = FirstSeen { slot, baseline: *baseline, learning_micros: *learning };
        return Some((Kind::FirstSeen(first), every(fields(&correlation.group_by, "", documents))));
    }
    let mut chain = linker.chain(main, correlation)?;
    let Linker { slots, groupings, .. } = linker;
    chain.slots = slots;
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
    /// Of the correlation in hand.
    inner: Vec<Inner>,
    /// Of the whole rule.
    inner_count: usize,
    /// How many correlations deep it is.
    depth: usize,
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
            let message = format!(
                "`{reference}` is a correlation, and this type looks at detections alone; event_count, value_count, \
                 temporal and temporal_ordered can rest on correlations"
            );
            self.problems.push(mark, message);
            return None;
        };
        let index = self.slots.len();
        self.room(mark)?;
        let name = document.name.as_deref().unwrap_or(reference);
        let detection = self.detections.add(expr);
        let (name, mark) = (Text::from(name), document.mark);
        self.slots.push(Slot { name, detection, mark, is_excepted: false });
        match self.groupings.iter_mut().find(|grouping| grouping.fields == group_by) {
            Some(grouping) => grouping.slots |= 1 << index,
            None => self.groupings.push(Grouping { slots: 1 << index, fields: group_by }),
        }
        Some(index)
    }

    /// Whether there is a slot left.
    fn room(&mut self, mark: Mark) -> Option<()> {
        if self.slots.len() + self.inner_count < SLOTS_MAX {
            return Some(());
        }
        let message = format!("the rule looks for more than {SLOTS_MAX} kinds of calls");
        self.problems.push(mark, message);
        None
    }

    /// Adds the slot of a detection, or that of the calls which close a match of another correlation.
    fn part(&mut self, mark: Mark, reference: &str, own: Vec<GroupField>) -> Option<usize> {
        let document = self.find(mark, reference)?;
        let Body::Correlation(correlation) = &document.body else {
            return self.slot(mark, reference, own);
        };
        self.is_alike(mark, correlation, &own)?;
        let can_be = matches!(
            correlation.what,
            Correlates::Count { .. }
                | Correlates::Temporal { .. }
                | Correlates::TemporalOrdered { .. }
        );
        if !can_be {
            let message = format!(
                "`{reference}` is no event_count, value_count, ratio, temporal or temporal_ordered, which are the \
                 correlations that others can rest on; name its detections as stages instead"
            );
            self.problems.push(mark, message);
            return None;
        }
        let outer = std::mem::take(&mut self.inner);
        self.depth += 1;
        let chain = self.chain(document, correlation);
        self.depth -= 1;
        self.inner = outer;
        let chain = chain?;
        self.room(mark)?;
        self.inner_count += 1;
        let slot = SLOTS_MAX - self.inner_count;
        let name = Text::from(document.name.as_deref().unwrap_or(reference));
        let stage_names = stage_names(document, self.documents);
        self.inner.push(Inner { name, slot, stage_names, chain });
        Some(slot)
    }

    /// Whether a correlation groups calls as the one does that it is a part of, and is not too far inside.
    fn is_alike(&mut self, mark: Mark, inner: &Correlation, own: &[GroupField]) -> Option<()> {
        if self.depth >= DEPTH_MAX {
            let message = format!(
                "correlations are inside one another more than {DEPTH_MAX} deep, or in a circle; join stages into one \
                 sequence"
            );
            self.problems.push(mark, message);
            return None;
        }
        let agree = |rule: &String| fields(&inner.group_by, rule, self.documents) == own;
        if !inner.rules.iter().all(|(_, rule)| agree(rule)) {
            let message = "this stage has another `group-by` than the rule it is in";
            self.problems.push(mark, message);
        }
        Some(())
    }

    /// What a correlation looks for, without the slots.
    fn chain(&mut self, document: &Document, correlation: &Correlation) -> Option<Chain> {
        let (stages, order, timespan_micros, quiet_micros) = match &correlation.what {
            Correlates::FirstSeen { .. } => return None,
            Correlates::Count { timespan, .. } => {
                (vec![self.counted(correlation)?], Order::Sequence, 0, *timespan)
            }
            Correlates::Absence => {
                (vec![self.unwitnessed(correlation)?], Order::Sequence, 0, SINGLE_QUIET_MICROS)
            }
            Correlates::TemporalOrdered { timespan } => {
                (self.stages(document, correlation)?, Order::Sequence, *timespan, *timespan)
            }
            Correlates::Temporal { timespan } => {
                (self.stages(document, correlation)?, Order::Any, *timespan, *timespan)
            }
            Correlates::Taint => {
                let order = Order::Session { gap_micros: SESSION_GAP_MICROS };
                (self.stages(document, correlation)?, order, TAINT_MICROS, SESSION_GAP_MICROS)
            }
        };
        Some(Chain {
            slots: Vec::new(),
            stages,
            order,
            is_same_event_allowed: correlation.is_same_event_allowed,
            timespan_micros,
            quiet_micros,
            inner: std::mem::take(&mut self.inner),
        })
    }

    /// The stage of a correlation that looks at the calls of one detection, counts those of one or several, or compares
    /// those of two.
    fn counted(&mut self, correlation: &Correlation) -> Option<Stage> {
        let (what, timespan) = match &correlation.what {
            Correlates::Count { what, timespan } => (Some(what), *timespan),
            _ => (None, 0),
        };
        if let (None, Some((mark, _))) = (what, correlation.rules.get(1)) {
            let message = "this type takes one rule; join several in one condition with `or`";
            self.problems.push(*mark, message);
            return None;
        }
        let mut own = Vec::new();
        let is_count = matches!(what, Some(Counts::Events(..) | Counts::Values { .. }));
        for (mark, reference) in &correlation.rules {
            let fields = fields(&correlation.group_by, reference, self.documents);
            own.push(if is_count {
                self.part(*mark, reference, fields)?
            } else {
                self.slot(*mark, reference, fields)?
            });
        }
        let (slot, per) = (*own.first()?, own.last().copied());
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
        let slots = match counted {
            Counted::Share { .. } => 1 << slot,
            _ => own.iter().fold(0, |bits, slot| bits | 1 << slot),
        };
        let count = Count { timespan_micros: timespan, slots, what: counted };
        Some(Stage { slot, count: Some(count) })
    }

    /// The stage of the calls of one detection that a witness should tell of and does not.
    fn unwitnessed(&mut self, correlation: &Correlation) -> Option<Stage> {
        let stage = self.counted(correlation)?;
        let slot = self.slots.get_mut(stage.slot)?;
        slot.detection = self.detections.add_unwitnessed(slot.detection)?;
        Some(stage)
    }

    /// The stages of a correlation of several rules.
    fn stages(&mut self, of: &Document, correlation: &Correlation) -> Option<Vec<Stage>> {
        if !(2..=STAGES_MAX).contains(&correlation.rules.len()) {
            let message = format!("this type takes 2 to {STAGES_MAX} rules");
            self.problems.push(of.mark, message);
            return None;
        }
        let is_taint = matches!(correlation.what, Correlates::Taint);
        let mut stages = Vec::new();
        for (mark, reference) in &correlation.rules {
            let own = fields(&correlation.group_by, reference, self.documents);
            let document = self.find(*mark, reference)?;
            let stage = match &document.body {
                _ if is_taint => Stage { slot: self.slot(*mark, reference, own)?, count: None },
                Body::Correlation(inner) if matches!(inner.what, Correlates::Count { .. }) => {
                    self.is_alike(*mark, inner, &own)?;
                    self.depth += 1;
                    let counted = self.counted(inner);
                    self.depth -= 1;
                    counted?
                }
                _ => Stage { slot: self.part(*mark, reference, own)?, count: None },
            };
            stages.push(stage);
        }
        Some(stages)
    }
}
