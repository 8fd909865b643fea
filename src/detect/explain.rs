//! What a rule makes of one call: which of its questions the call answers, which stage it fills, and what was missing
//! where the rule did not fire. Pure, like the engine: the calls around it are an argument.

use std::sync::Arc;

use serde::Serialize;

use super::chain::{Chains, Event};
use super::field::{LabelsOf, Subject};
use super::matcher::Expr;
use super::rule::{Chain, FirstSeen, Kind, Rule, RuleSet, Verdicts};
use crate::model::{Call, EventKind, Micros, Text};

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
    pub name: Text,
    pub fits: bool,
    pub asked: Asked,
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

/// The calls that decide what a rule makes of a call: those of its group within these times, ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    pub group: Vec<(Text, Text)>,
    /// None: from the beginning.
    pub from: Option<Micros>,
    pub to: Micros,
}

impl RuleSet {
    /// Which calls around it an explanation needs; none where the call alone tells.
    pub fn neighbours(&self, rule: &Rule, labels: &LabelsOf, call: &Call) -> Option<Neighbours> {
        let at = call.at?;
        let mut key = Vec::new();
        if stages_of(self, rule, labels, call) == 0 || !rule.group_of(call, &mut key) {
            return None;
        }
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
        let group = rule.group_by().map(Text::from).zip(key).collect();
        Some(Neighbours { group, from, to })
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
        let bits = stages_of(self, rule, labels, call);
        let told = |(number, stage): (usize, &super::rule::Stage)| {
            let asked = self.detections.get(stage.detection).map(|expr| ask(expr, &subject));
            let fits = bits & (1 << number) != 0;
            Some(StageTold { name: Text::clone(&stage.name), fits, asked: asked? })
        };
        let value = |field: &super::field::GroupField| field.value(call).cloned();
        let fields = rule.group_by.iter();
        let group: Vec<(Text, Option<Text>)> =
            fields.map(|field| (Text::from(field.as_str()), value(field))).collect();
        let stages: Vec<StageTold> =
            rule.kind.stages().iter().enumerate().filter_map(told).collect();
        let missing = self.missing(rule, labels, call, around, bits, &group);
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
        if bits == 0 {
            let is_ingest = call.kind == EventKind::Ingest;
            let asks = |stage: &super::rule::Stage| {
                self.detections.get(stage.detection).is_some_and(Expr::asks_for_kind)
            };
            let told = if is_ingest && !rule.kind.stages().iter().any(asks) {
                "this is no call but something that reading a log showed, and the rule does not ask for `kind: ingest`"
            } else {
                "the call does not fit what the rule looks for"
            };
            return vec![told.to_owned()];
        }
        let lacking: Vec<String> = group
            .iter()
            .filter(|(_, value)| value.is_none())
            .map(|(field, _)| format!("the call has no {field}, by which the rule groups calls"))
            .collect();
        if !lacking.is_empty() {
            return lacking;
        }
        let is_single = matches!(&rule.kind, Kind::Chain(chain) if chain.is_single());
        if is_single {
            return Vec::new();
        }
        if call.at.is_none() {
            return vec![
                "the call has no time, and the rule looks at calls in their order".to_owned(),
            ];
        }
        let events = self.events_around(rule, labels, call, around);
        let Some(index) = events.iter().position(|event| event.call.id == call.id) else {
            return Vec::new();
        };
        match &rule.kind {
            Kind::Chain(chain) => of_chain(chain, &events, index),
            Kind::FirstSeen(first) => of_first_seen(rule, first, &events, index),
        }
    }

    /// The call and those around it that the rule looks at, in order, each once.
    fn events_around(
        &self,
        rule: &Rule,
        labels: &LabelsOf,
        call: &Arc<Call>,
        around: &[Arc<Call>],
    ) -> Vec<Event> {
        let others = around.iter().filter(|other| other.id != call.id);
        let event = |call: &Arc<Call>| {
            let stages = stages_of(self, rule, labels, call);
            let at = call.at.filter(|_| stages != 0)?;
            Some(Event { at, stages, call: Arc::clone(call) })
        };
        let mut events: Vec<Event> = others.chain([call]).filter_map(event).collect();
        events.sort_by(Event::order);
        events.dedup_by_key(|event| event.call.id);
        events
    }
}

fn stages_of(rules: &RuleSet, rule: &Rule, labels: &LabelsOf, call: &Call) -> u32 {
    Verdicts::new(rules).stages(rules, rule, &Subject::new(call, labels))
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

fn of_chain(chain: &Chain, events: &[Event], index: usize) -> Vec<String> {
    let chains = Chains::find(chain, events, Micros(i64::MIN));
    if chains.evidence(&chains.matches).iter().any(|(event, _)| *event == index) {
        return Vec::new();
    }
    if chain.stages.len() == 1 {
        return vec![short_count(chain, events, index).unwrap_or_default()];
    }
    let Some(event) = events.get(index) else { return Vec::new() };
    let filled = (0..chain.stages.len()).filter(|stage| event.stages & (1 << stage) != 0);
    filled.map(|stage| of_stage(chain, events, index, stage)).collect()
}

/// How many of the counted calls there were at most in a window with this one.
fn short_count(chain: &Chain, events: &[Event], index: usize) -> Option<String> {
    let count = chain.count?;
    let at = events.get(index)?.at;
    let counted: Vec<Micros> =
        events.iter().filter(|event| event.stages & 1 != 0).map(|event| event.at).collect();
    let starts = counted
        .iter()
        .enumerate()
        .filter(|(_, start)| **start <= at && at.since(**start) <= count.timespan_micros);
    let most = starts
        .map(|(from, start)| {
            let end = start.plus(count.timespan_micros);
            counted.partition_point(|at| *at <= end).saturating_sub(from)
        })
        .max()?;
    let span = seconds(count.timespan_micros);
    Some(format!("{most} of {} calls within {span}", count.min))
}

/// What a sequence lacked around the event that fills one of its stages.
fn of_stage(chain: &Chain, events: &[Event], index: usize, stage: usize) -> String {
    let name = |stage: usize| chain.stages.get(stage).map_or("", |stage| &*stage.name);
    let fills = |event: &usize, stage: usize| {
        events.get(*event).is_some_and(|event| event.stages & (1 << stage) != 0)
    };
    let span = seconds(chain.timespan_micros);
    // The latest of each stage before, and the earliest of each after: the shortest chain through this call.
    let mut first = index;
    for before in (0..stage).rev() {
        let Some(found) = (0..first).rev().find(|event| fills(event, before)) else {
            return format!(
                "as stage `{}`: stage `{}` did not come before it within {span}",
                name(stage),
                name(before)
            );
        };
        first = found;
    }
    let mut last = index;
    for after in stage + 1..chain.stages.len() {
        let Some(found) = (last + 1..events.len()).find(|event| fills(event, after)) else {
            return format!(
                "as stage `{}`: stage `{}` did not come after it within {span}",
                name(stage),
                name(after)
            );
        };
        last = found;
    }
    let took = match (events.get(first), events.get(last)) {
        (Some(first), Some(last)) => last.at.since(first.at),
        _ => 0,
    };
    if took > chain.timespan_micros {
        return format!("its stages came within {}, and {span} are allowed", seconds(took));
    }
    let short = short_count(chain, events, first).unwrap_or_default();
    format!("stage `{}` counts, and there were {short}", name(0))
}

fn of_first_seen(rule: &Rule, first: &FirstSeen, events: &[Event], index: usize) -> Vec<String> {
    let value =
        |event: &Event| rule.group_by.last().and_then(|field| field.value(&event.call)).cloned();
    let field = rule.group_by.last().map_or("", |field| field.as_str());
    let Some(own) = events.get(index).and_then(value) else { return Vec::new() };
    let mut seen: Vec<Text> = Vec::new();
    for event in events.iter().take(index) {
        match value(event) {
            Some(value) if value == own => {
                return vec![format!(
                    "this {field} had been seen before, at {}",
                    event.at.to_rfc3339()
                )];
            }
            Some(value) if !seen.contains(&value) && seen.len() < first.baseline => {
                seen.push(value);
            }
            _ => {}
        }
    }
    if seen.len() < first.baseline {
        return vec![format!(
            "the first {} of {field} raise nothing, and this is one of them",
            values(first.baseline)
        )];
    }
    Vec::new()
}

fn values(count: usize) -> String {
    if count == 1 { "value".to_owned() } else { format!("{count} values") }
}

/// A length of time in seconds, with as many digits as it takes.
fn seconds(micros: i64) -> String {
    let (whole, rest) = (micros / 1_000_000, micros.unsigned_abs() % 1_000_000);
    if rest == 0 {
        return format!("{whole} s");
    }
    format!("{whole}.{} s", format!("{rest:06}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests;
