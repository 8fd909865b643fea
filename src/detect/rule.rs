//! Compiled rules: what the engine works from.

use std::sync::Arc;

use crate::model::{Call, EventKind, Level, Text};

use super::cases::Case;
use super::compile;
use super::field::{GroupField, Subject};
use super::key::{Key, Namer};
use super::matcher::Expr;
use super::problem::RuleProblem;
use super::stages::{Chain, MEMBER, Slot};
use super::yaml::Mark;

/// All rules of a run, compiled, with the detections they share.
#[derive(Debug, Default)]
pub struct RuleSet {
    pub(super) rules: Vec<Rule>,
    pub(super) detections: Vec<Expr>,
}

/// One rule that fires: the main rule of one file.
#[derive(Debug)]
pub struct Rule {
    /// The file's stem, such as `trifecta-signature`.
    pub name: Text,
    pub title: String,
    /// The rule's own UUID, where it has one.
    pub id: Option<String>,
    /// Sigma's word for its maturity.
    pub status: Option<String>,
    pub description: String,
    pub level: Level,
    pub tags: Vec<Text>,
    /// When it fires though nothing is wrong.
    pub falsepositives: Vec<String>,
    pub references: Vec<String>,
    /// One sentence for people. Holds nothing from a log.
    pub why: String,
    pub(super) file: String,
    pub(super) mark: Mark,
    /// The word of the rule language for what it looks for: `detection`, or its correlation's type.
    pub(super) type_word: &'static str,
    /// The names of the rules that are its stages, where there are several.
    pub(super) stage_names: Vec<Text>,
    /// The names of what groups the calls, in order; of none, all calls are one group.
    pub(super) group_by: Vec<Text>,
    /// The file says what groups the calls, if only that it is nothing.
    pub(super) is_grouped: bool,
    /// How calls are grouped: in one way, unless the rule has aliases.
    pub(super) groupings: Vec<Grouping>,
    pub(super) kind: Kind,
    pub(super) cases: Vec<Case>,
}

/// The fields whose values name the group of the calls of some slots.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Grouping {
    /// As bits.
    pub(super) slots: u32,
    pub(super) fields: Vec<GroupField>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Chain(Chain),
    FirstSeen(FirstSeen),
}

/// The first calls that show a new value of the last group-by field for the values of the others.
#[derive(Debug)]
pub(super) struct FirstSeen {
    pub(super) slot: Slot,
    /// That many first values are home and raise nothing.
    pub(super) baseline: usize,
    /// So are those first seen at most this many microseconds after the group's first call.
    pub(super) learning_micros: Option<i64>,
}

impl Kind {
    /// What the rule asks for: calls, values, stages or percent.
    pub(super) fn threshold(&self) -> u64 {
        match self {
            Self::Chain(chain) => chain.threshold(),
            Self::FirstSeen(first) => first.baseline as u64,
        }
    }
}

impl RuleSet {
    /// Compiles files given as (name, text); all problems of all files are reported at once.
    pub fn compile(files: &[(&str, &str)]) -> Result<Self, Vec<RuleProblem>> {
        let compiled = compile::compiled(files);
        if compiled.problems.is_empty() { Ok(compiled.set) } else { Err(compiled.problems) }
    }

    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Files that lack a test case that fires or one that does not. Such rules work; `rules check`
    /// refuses them.
    pub fn lacking_cases(&self) -> Vec<RuleProblem> {
        let lacks = |rule: &&Rule| {
            let fires = rule.cases.iter().any(|case| !case.fires.is_empty());
            let silent = rule.cases.iter().any(|case| case.fires.is_empty());
            !(fires && silent)
        };
        let message = "`tests:` needs at least one case that fires and one with `fires: false`";
        let problem = |rule: &Rule| RuleProblem::at(&rule.file, rule.mark, message.to_owned());
        self.rules.iter().filter(lacks).map(problem).collect()
    }
}

impl Rule {
    /// The names of the fields whose values name a group, in the rule's order; where the rule has
    /// an alias for them, that.
    pub fn group_by(&self) -> impl Iterator<Item = &str> {
        self.group_by.iter().map(|name| &**name)
    }

    /// The span the rule looks over, in microseconds; none for single-event, first-seen and taint
    /// rules.
    pub fn timespan_micros(&self) -> Option<i64> {
        match &self.kind {
            Kind::Chain(chain) => chain.timespan(),
            Kind::FirstSeen(_) => None,
        }
    }

    /// The name that evidence in this slot is shown by.
    pub(super) fn slot_name(&self, slot: u8) -> &Text {
        match &self.kind {
            Kind::Chain(chain) => {
                chain.slots.get(usize::from(slot)).map_or(&self.name, |slot| &slot.name)
            }
            Kind::FirstSeen(first) => &first.slot.name,
        }
    }

    /// True unless the call lacks the value that a first-seen rule looks at.
    pub(super) fn names_value(&self, call: &Call) -> bool {
        let field = self.groupings.first().and_then(|only| only.fields.last());
        match self.kind {
            Kind::Chain(_) => true,
            Kind::FirstSeen(_) => field.is_some_and(|field| field.value(call).is_some()),
        }
    }

    /// Calls `each` with every group that the call belongs to, and the slots it fits there. A call
    /// that lacks a value of a group takes no part in it.
    pub(super) fn each_group(
        &self,
        call: &Call,
        slots: u32,
        key: &mut Vec<Text>,
        mut each: impl FnMut(&mut Vec<Text>, u32),
    ) {
        if let [only] = self.groupings.as_slice() {
            if only.key(call, key) {
                each(key, slots);
            }
            return;
        }
        let mut found: Vec<(Vec<Text>, u32)> = Vec::new();
        for grouping in &self.groupings {
            let slots = slots & grouping.slots;
            if slots == 0 || !grouping.key(call, key) {
                continue;
            }
            match found.iter_mut().find(|(known, _)| known == key) {
                Some((_, known)) => *known |= slots,
                None => found.push((key.clone(), slots)),
            }
        }
        for (mut key, slots) in found {
            each(&mut key, slots);
        }
    }

    /// The slots that the call fits in the group whose values are those, of the slots given.
    pub(super) fn slots_in(&self, call: &Call, slots: u32, is_it: impl Fn(&[Text]) -> bool) -> u32 {
        let mut own = 0;
        self.each_group(call, slots, &mut Vec::new(), |values, slots| {
            if is_it(values) {
                own |= slots;
            }
        });
        own
    }

    /// Of the values that a call is grouped by, those that name a group in memory: a first-seen
    /// rule's without the last.
    pub(super) fn named<'v, T>(&self, values: &'v [T]) -> &'v [T] {
        match (&self.kind, values) {
            (Kind::FirstSeen(_), [others @ .., _]) => others,
            _ => values,
        }
    }

    /// The values that name the group with that key, in which the call is.
    pub(super) fn values(&self, namer: &Namer, key: Key, call: &Call) -> Vec<Text> {
        let of = |grouping: &Grouping| {
            let fields = self.named(&grouping.fields).iter();
            fields.map(|field| field.value(call).cloned()).collect::<Option<Vec<Text>>>()
        };
        let mut all = self.groupings.iter().filter_map(of);
        all.find(|values| namer.key(values.iter()) == key).unwrap_or_default()
    }
}

impl Grouping {
    /// Puts the call's values into `key`; false where it lacks one.
    fn key(&self, call: &Call, key: &mut Vec<Text>) -> bool {
        key.clear();
        for field in &self.fields {
            let Some(value) = field.value(call) else {
                return false;
            };
            key.push(Arc::clone(value));
        }
        true
    }
}

/// Tells which detections a call fits; each is evaluated at most once a call, whatever number of
/// rules share it.
pub(super) struct Verdicts {
    known: Vec<Option<bool>>,
}

impl Verdicts {
    pub(super) fn new(rules: &RuleSet) -> Self {
        Self { known: vec![None; rules.detections.len()] }
    }

    /// Forgets the last call.
    pub(super) fn reset(&mut self) {
        self.known.fill(None);
    }

    /// The slots of the rule that the call fits, as bits.
    pub(super) fn slots(&mut self, rules: &RuleSet, rule: &Rule, subject: &Subject<'_>) -> u32 {
        match &rule.kind {
            Kind::Chain(chain) => {
                // Every call, whatever it does, keeps its group's session going.
                let is_member =
                    chain.gap_micros().is_some() && subject.call.kind == EventKind::Call;
                chain.slots.iter().enumerate().fold(
                    if is_member { MEMBER } else { 0 },
                    |bits, (index, slot)| {
                        bits | u32::from(self.fits(rules, slot, subject)) << index
                    },
                )
            }
            Kind::FirstSeen(first) => u32::from(self.fits(rules, &first.slot, subject)),
        }
    }

    fn fits(&mut self, rules: &RuleSet, slot: &Slot, subject: &Subject<'_>) -> bool {
        let Some(known) = self.known.get_mut(slot.detection) else {
            return false;
        };
        let expr = rules.detections.get(slot.detection);
        let is_call = subject.call.kind == EventKind::Call;
        *known.get_or_insert_with(|| {
            expr.is_some_and(|expr| (is_call || expr.asks_for_kind()) && expr.matches(subject))
        })
    }
}
