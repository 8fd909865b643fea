//! Compiled rules: what the engine works from.

use std::sync::Arc;

use crate::model::{Call, EventKind, Level, Text};

use super::cases::Case;
use super::compile;
use super::field::{GroupField, Subject};
use super::matcher::Expr;
use super::problem::RuleProblem;
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
    pub(super) group_by: Vec<GroupField>,
    pub(super) kind: Kind,
    pub(super) cases: Vec<Case>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Chain(Chain),
    FirstSeen(FirstSeen),
}

/// Calls that fill the stages one after another. A single-event rule is a chain of one stage, an
/// event count a chain of one counted stage.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) stages: Vec<Stage>,
    /// Where the first stage is filled by the call that makes a number of them.
    pub(super) count: Option<Count>,
    /// Microseconds from the call that fills the first stage to the one that fills the last, at
    /// most.
    pub(super) timespan_micros: i64,
    /// Matches at most this far apart are one episode.
    pub(super) quiet_micros: i64,
}

#[derive(Debug)]
pub(super) struct Stage {
    pub(super) name: Text,
    /// Index into the rule set's detections.
    pub(super) detection: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub(super) min: u64,
    pub(super) timespan_micros: i64,
}

/// The first calls that show a new value of the last group-by field for the values of the others.
#[derive(Debug)]
pub(super) struct FirstSeen {
    pub(super) stage: Stage,
    /// That many first values are home and raise nothing.
    pub(super) baseline: usize,
}

impl RuleSet {
    /// Compiles files given as (name, text); all problems of all files are reported at once.
    pub fn compile(files: &[(&str, &str)]) -> Result<Self, Vec<RuleProblem>> {
        compile::rule_set(files)
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
    /// The fields whose values name a group, in the rule's order.
    pub fn group_by(&self) -> impl Iterator<Item = &'static str> {
        self.group_by.iter().map(|field| field.as_str())
    }

    /// The span the rule looks over, in microseconds; none for single-event and first-seen rules.
    pub const fn timespan_micros(&self) -> Option<i64> {
        match &self.kind {
            Kind::Chain(chain) => chain.timespan(),
            Kind::FirstSeen(_) => None,
        }
    }

    pub(super) fn stage_name(&self, stage: u8) -> &Text {
        match &self.kind {
            Kind::Chain(chain) => {
                chain.stages.get(usize::from(stage)).map_or(&self.name, |stage| &stage.name)
            }
            Kind::FirstSeen(first) => &first.stage.name,
        }
    }

    /// Puts the call's group-by values into `key`; false where it lacks one and takes no part.
    pub(super) fn group_of(&self, call: &Call, key: &mut Vec<Text>) -> bool {
        key.clear();
        for field in &self.group_by {
            let Some(value) = field.value(call) else {
                return false;
            };
            key.push(Arc::clone(value));
        }
        true
    }
}

impl Chain {
    /// How far before its closing call a match can reach, in microseconds.
    pub(super) const fn lookback_micros(&self) -> i64 {
        match self.count {
            Some(count) => self.timespan_micros.saturating_add(count.timespan_micros),
            None => self.timespan_micros,
        }
    }

    /// How far a change can make itself felt: the lookback and the quiet period, in microseconds.
    pub(super) const fn reach_micros(&self) -> i64 {
        self.lookback_micros().saturating_add(self.quiet_micros)
    }

    /// One call alone is a match.
    pub(super) const fn is_single(&self) -> bool {
        self.stages.len() == 1 && self.count.is_none()
    }

    const fn timespan(&self) -> Option<i64> {
        match self.count {
            _ if self.stages.len() > 1 => Some(self.timespan_micros),
            Some(count) => Some(count.timespan_micros),
            None => None,
        }
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

    /// The stages of the rule that the call can fill, as bits.
    pub(super) fn stages(&mut self, rules: &RuleSet, rule: &Rule, subject: &Subject<'_>) -> u32 {
        match &rule.kind {
            Kind::Chain(chain) => {
                chain.stages.iter().enumerate().fold(0, |bits, (index, stage)| {
                    bits | u32::from(self.fits(rules, stage, subject)) << index
                })
            }
            Kind::FirstSeen(first) => u32::from(self.fits(rules, &first.stage, subject)),
        }
    }

    fn fits(&mut self, rules: &RuleSet, stage: &Stage, subject: &Subject<'_>) -> bool {
        let Some(known) = self.known.get_mut(stage.detection) else {
            return false;
        };
        let expr = rules.detections.get(stage.detection);
        let is_call = subject.call.kind == EventKind::Call;
        *known.get_or_insert_with(|| {
            expr.is_some_and(|expr| (is_call || expr.asks_for_kind()) && expr.matches(subject))
        })
    }
}
