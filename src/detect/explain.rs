//! What a rule makes of one call: which of its questions the call answers, which stage it fills, and what was missing
//! where the rule did not fire. Pure, like the engine: the calls around it are an argument.

use std::sync::Arc;

use serde::Serialize;

use super::chain::Event;
use super::field::{LabelsOf, Subject};
use super::matcher::Expr;
use super::rule::{FirstSeen, Grouping, Kind, Rule, RuleSet, Verdicts};
use super::stages::{MEMBER, Slot, Stage};
use crate::model::{Call, EventKind, Micros, Text};

mod missing;

use missing::{Of, seconds};

/// Values of one field that are told.
const VALUES_MAX: usize = 8;
/// Characters of one value that are told.
const VALUE_CHARS_MAX: usize = 200;

/// What one rule makes of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    pub rule: Text,
    pub stages: Vec<StageTold>,
    /// The rule's group-by fields with the call's values; none where the call has none.
    pub group: Vec<(Text, Option<Text>)>,
    /// The call is part of a match, as far as the calls around it show.
    pub is_matched: bool,
    /// Why it is not, a sentence each. Holds nothing from a log.
    pub missing: Vec<String>,
}

/// One stage of a rule, and whether the call fills it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageTold {
    /// That of the detection, as alerts show their evidence.
    pub name: Text,
    /// That of the count whose calls it says, or of the correlation that rests on them, where this is one of several
    /// stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<Text>,
    pub fits: bool,
    pub asked: Asked,
    /// What overrides except of it, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub except: Option<Asked>,
}

/// What a detection asks, and how the call answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// A field and what it must be. The values are the call's, as the logs have them.
    Item {
        asks: String,
        values: Vec<String>,
        holds: bool,
    },
    All {
        holds: bool,
        of: Vec<Self>,
    },
    Any {
        holds: bool,
        of: Vec<Self>,
    },
    Not {
        holds: bool,
        of: Box<Self>,
    },
}

/// The calls that decide what a rule makes of a call: those within these times, ends included, of any of these groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// One, unless the rule groups calls by different fields.
    pub groups: Vec<Vec<(Text, Text)>>,
    /// None: from the beginning.
    pub from: Option<Micros>,
    pub to: Micros,
}

impl RuleSet {
    /// Which calls around it an explanation needs; none where the call alone tells.
    pub fn neighbours(&self, rule: &Rule, labels: &LabelsOf, call: &Call) -> Option<Neighbours> {
        let at = call.at?;
        let slots = slots_of(self, rule, labels, call);
        if slots & !MEMBER == 0 {
            return None;
        }
        let mut key = group_of(rule, call, slots)?;
        let (from, to) = match &rule.kind {
            Kind::Chain(chain) if chain.is_single() => return None,
            Kind::Chain(chain) => {
                let reach = chain.lookback_micros();
                (Some(at.minus(reach)), at.plus(reach))
            }
            Kind::FirstSeen(_) => {
                key.pop();
                (None, at)
            }
        };
        let group = |grouping: &Grouping| {
            let names = grouping.fields.iter().map(|field| Text::from(field.as_str()));
            names.zip(key.iter().cloned()).collect()
        };
        Some(Neighbours { groups: rule.groupings.iter().map(group).collect(), from, to })
    }

    /// What the rule makes of the call. `around` are the calls that [`Self::neighbours`] names, in any order.
    pub fn explain(
        &self,
        rule: &Rule,
        labels: &LabelsOf,
        call: &Arc<Call>,
        around: &[Arc<Call>],
    ) -> Explanation {
        let subject = Subject::new(call, labels);
        let bits = slots_of(self, rule, labels, call);
        let told = |(number, slot): (usize, &Slot)| {
            let expr = self.detections.get(slot.detection)?;
            let (asked, except) = match excepted(slot, expr) {
                Some((own, except)) => (ask(own, &subject), Some(ask(except, &subject))),
                None => (ask(expr, &subject), None),
            };
            let (name, count) = (Text::clone(&slot.name), count_of(rule, number).cloned());
            Some(StageTold { name, count, fits: bits & (1 << number) != 0, asked, except })
        };
        let stages: Vec<StageTold> =
            rule.kind.slots().iter().enumerate().filter_map(told).collect();
        let group = group_told(rule, call, bits);
        let is_excepted = bits & !MEMBER == 0 && stages.iter().any(StageTold::is_excepted);
        let missing = if is_excepted {
            vec!["the call is one of the exceptions in overrides.toml".to_owned()]
        } else {
            self.missing(rule, labels, call, around, bits, &group)
        };
        Explanation {
            rule: Text::clone(&rule.name),
            is_matched: missing.is_empty(),
            stages,
            group,
            missing,
        }
    }

    /// What kept the rule from firing with this call; nothing where it fires.
    fn missing(
        &self,
        rule: &Rule,
        labels: &LabelsOf,
        call: &Arc<Call>,
        around: &[Arc<Call>],
        bits: u32,
        group: &[(Text, Option<Text>)],
    ) -> Vec<String> {
        if bits & !MEMBER == 0 {
            return vec![self.unfit(rule, call).to_owned()];
        }
        let Some(key) = group_of(rule, call, bits) else {
            let lacking = group.iter().filter(|(_, value)| value.is_none());
            let told = |(field, _): &(Text, _)| {
                format!("the call has no {field}, by which the rule groups calls")
            };
            return lacking.map(told).collect();
        };
        if matches!(&rule.kind, Kind::Chain(chain) if chain.is_single()) {
            return Vec::new();
        }
        if call.at.is_none() {
            let told = "the call has no time, and the rule looks at calls in their order";
            return vec![told.to_owned()];
        }
        let events = self.events_around(rule, labels, call, around, &key);
        let Some(index) = events.iter().position(|event| event.id() == call.id) else {
            return Vec::new();
        };
        match &rule.kind {
            Kind::Chain(chain) => {
                let (slots, stage_names) = (chain.slots.as_slice(), rule.stage_names.as_slice());
                Of { slots, stage_names, chain }.missing(&events, index)
            }
            Kind::FirstSeen(first) => of_first_seen(rule, first, &events, index),
        }
    }

    /// Why a call fits nothing of a rule.
    fn unfit(&self, rule: &Rule, call: &Call) -> &'static str {
        let asks =
            |slot: &Slot| self.detections.get(slot.detection).is_some_and(Expr::asks_for_kind);
        if call.kind == EventKind::Ingest && !rule.kind.slots().iter().any(asks) {
            return "this is no call but something that reading a log showed, and the rule does not ask for \
                    `kind: ingest`";
        }
        "the call does not fit what the rule looks for"
    }

    /// The call and those around it that the rule looks at in this group, in order, each once.
    fn events_around(
        &self,
        rule: &Rule,
        labels: &LabelsOf,
        call: &Arc<Call>,
        around: &[Arc<Call>],
        key: &[Text],
    ) -> Vec<Event> {
        let key = match &rule.kind {
            Kind::FirstSeen(_) => key.split_last().map_or(key, |(_, others)| others),
            Kind::Chain(_) => key,
        };
        let others = around.iter().filter(|other| other.id != call.id);
        let event = |call: &Arc<Call>| {
            let stages = rule
                .slots_in(call, slots_of(self, rule, labels, call), |group| group.starts_with(key));
            let at = call.at.filter(|_| stages != 0)?;
            Some(Event::new(at, stages, call))
        };
        let mut events: Vec<Event> = others.chain([call]).filter_map(event).collect();
        events.sort_by(Event::order);
        events.dedup_by_key(|event| event.id());
        events
    }
}

impl StageTold {
    /// The call would fill the stage but for an exception.
    fn is_excepted(&self) -> bool {
        self.asked.holds() && self.except.as_ref().is_some_and(Asked::holds)
    }
}

impl Asked {
    /// Whether the call answers it with yes.
    pub const fn holds(&self) -> bool {
        match self {
            Self::Item { holds, .. }
            | Self::All { holds, .. }
            | Self::Any { holds, .. }
            | Self::Not { holds, .. } => *holds,
        }
    }
}

/// A detection without the exceptions of overrides, and these, as they were put together.
fn excepted<'e>(slot: &Slot, expr: &'e Expr) -> Option<(&'e Expr, &'e Expr)> {
    match expr {
        Expr::And(parts) if slot.is_excepted => match parts.as_slice() {
            [own, Expr::Not(except)] => Some((own, &**except)),
            _ => None,
        },
        _ => None,
    }
}

/// The name of the count that a slot's calls are for, where it is one of several stages.
fn count_of(rule: &Rule, slot: usize) -> Option<&Text> {
    let Kind::Chain(chain) = &rule.kind else { return None };
    let is_inner = |stage: &Stage| stage.slots() & chain.inner_bits() != 0;
    let is_for = |stage: &Stage| {
        (stage.count.is_some() || is_inner(stage)) && chain.kinds(stage.slots()) & (1 << slot) != 0
    };
    let number = chain.stages.iter().position(is_for)?;
    rule.stage_names.get(number)
}

fn slots_of(rules: &RuleSet, rule: &Rule, labels: &LabelsOf, call: &Call) -> u32 {
    Verdicts::new(rules).slots(rules, rule, &Subject::new(call, labels))
}

/// The first group that the call takes part in with more than its presence.
fn group_of(rule: &Rule, call: &Call, slots: u32) -> Option<Vec<Text>> {
    let mut found = None;
    rule.each_group(call, slots, &mut Vec::new(), |key, slots| {
        if found.is_none() && slots & !MEMBER != 0 {
            found = Some(key.clone());
        }
    });
    found
}

/// The names by which the rule groups calls, with the values of the fields that they stand for in this call.
fn group_told(rule: &Rule, call: &Call, slots: u32) -> Vec<(Text, Option<Text>)> {
    let fits = |grouping: &&Grouping| grouping.slots & slots & !MEMBER != 0;
    let grouping = rule.groupings.iter().find(fits).or_else(|| rule.groupings.first());
    let fields = grouping.map_or(&[][..], |grouping| &grouping.fields);
    let names = rule.group_by().map(Text::from);
    names.zip(fields.iter().map(|field| field.value(call).cloned())).collect()
}

fn ask(expr: &Expr, subject: &Subject<'_>) -> Asked {
    let all = |parts: &[Expr]| parts.iter().map(|part| ask(part, subject)).collect();
    let holds = expr.matches(subject);
    match expr {
        Expr::And(parts) | Expr::Or(parts) if parts.len() == 1 => {
            parts.first().map_or(Asked::All { holds, of: Vec::new() }, |part| ask(part, subject))
        }
        Expr::Item(item) => {
            let mut values = item.values(subject);
            // A tool's name is asked with and without its namespace.
            values.dedup();
            values.truncate(VALUES_MAX);
            for value in &mut values {
                if let Some((end, _)) = value.char_indices().nth(VALUE_CHARS_MAX) {
                    value.truncate(end);
                    value.push('…');
                }
            }
            Asked::Item { asks: item.asks().to_owned(), values, holds }
        }
        Expr::And(parts) => Asked::All { holds, of: all(parts) },
        Expr::Or(parts) => Asked::Any { holds, of: all(parts) },
        Expr::Not(part) => Asked::Not { holds, of: Box::new(ask(part, subject)) },
    }
}

fn of_first_seen(rule: &Rule, first: &FirstSeen, events: &[Event], index: usize) -> Vec<String> {
    let fields = rule.groupings.first().map_or(&[][..], |grouping| &grouping.fields);
    let value = |event: &Event| fields.last()?.value(event.call()?).cloned();
    let field = fields.last().map_or("", |field| field.as_str());
    let Some(own) = events.get(index).and_then(value) else { return Vec::new() };
    let mut seen: Vec<Text> = Vec::new();
    let began = events.iter().find(|event| value(event).is_some()).map(Event::at);
    for event in events.iter().take(index) {
        match value(event) {
            Some(value) if value == own => {
                return vec![format!(
                    "this {field} had been seen before, at {}",
                    event.at().to_rfc3339()
                )];
            }
            Some(value) if !seen.contains(&value) && seen.len() < first.baseline => {
                seen.push(value);
            }
            _ => {}
        }
    }
    let learned_for = events.get(index).zip(began).map(|(event, began)| event.at().since(began));
    if let Some(learning) = first.learning_micros
        && learned_for.is_some_and(|micros| micros <= learning)
    {
        let span = seconds(learning);
        return vec![format!(
            "what is seen in the first {span} of the group raises nothing, and this is"
        )];
    }
    if seen.len() < first.baseline {
        return vec![if first.baseline == 1 {
            format!("the first value of {field} raises nothing, and this is it")
        } else {
            let number = first.baseline;
            format!("the first {number} values of {field} raise nothing, and this is one of them")
        }];
    }
    Vec::new()
}

#[cfg(test)]
mod tests;
