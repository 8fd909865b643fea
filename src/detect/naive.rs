//! What the documents say, done the slow way: every chain of every match is enumerated. The engine
//! must agree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{AlertId, Call, CallId, Micros, Text};

use super::episode::alert_id;
use super::rule::RuleSet;

/// One rule, told again in Rust rather than YAML.
pub(super) struct NaiveRule {
    pub(super) name: &'static str,
    pub(super) group: fn(&Call) -> Option<Vec<Text>>,
    pub(super) what: What,
}

pub(super) enum What {
    Chain { stages: Vec<NaiveStage>, count: Option<(usize, i64)>, timespan: i64, quiet: i64 },
    FirstSeen { stage: &'static str, fits: fn(&Call) -> bool, baseline: usize },
}

/// All that an alert says, in a form that can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Said {
    pub(super) rule: String,
    pub(super) group: Vec<Text>,
    pub(super) id: AlertId,
    pub(super) closing: CallId,
    pub(super) first_seen: Option<Micros>,
    pub(super) last_seen: Option<Micros>,
    pub(super) count: u64,
    pub(super) value: u64,
    pub(super) evidence: Vec<(String, CallId)>,
}

/// A stage's name and what fills it.
pub(super) type NaiveStage = (&'static str, fn(&Call) -> bool);

/// The stage that each call fills, by index.
type Filled = BTreeMap<usize, usize>;

/// A group and its first call.
type FirstOf<'a> = (&'a Vec<Text>, &'a Arc<Call>);

/// All alerts over a set of calls.
pub(super) fn alerts(rules: &[NaiveRule], set: &RuleSet, calls: &[Arc<Call>]) -> Vec<Said> {
    let mut out = Vec::new();
    for rule in rules {
        let mut groups: BTreeMap<Vec<Text>, Vec<Arc<Call>>> = BTreeMap::new();
        for call in calls {
            if let Some(group) = (rule.group)(call) {
                groups.entry(group).or_default().push(Arc::clone(call));
            }
        }
        for calls in groups.values_mut() {
            calls.sort_by_key(|call| call.order());
        }
        match &rule.what {
            What::Chain { stages, count, timespan, quiet } => {
                for (group, calls) in &groups {
                    let chain = NaiveChain { stages, count: *count, timespan: *timespan, calls };
                    out.extend(chain.alerts(rule.name, group, *quiet, set));
                }
            }
            What::FirstSeen { stage, fits, baseline } => {
                out.extend(first_seen(rule.name, stage, *fits, *baseline, &groups, set));
            }
        }
    }
    out.sort();
    out
}

struct NaiveChain<'a> {
    stages: &'a [NaiveStage],
    count: Option<(usize, i64)>,
    timespan: i64,
    calls: &'a [Arc<Call>],
}

impl NaiveChain<'_> {
    fn alerts(&self, rule: &str, group: &[Text], quiet: i64, set: &RuleSet) -> Vec<Said> {
        let mut episodes: Vec<Vec<(usize, Filled)>> = Vec::new();
        let mut out = Vec::new();
        for closing in 0..self.calls.len() {
            let filled = self.close(closing);
            if filled.is_empty() {
                continue;
            }
            let Some(at) = self.calls[closing].at else {
                out.push(self.say(rule, group, set, &[(closing, filled)]));
                continue;
            };
            let joins = episodes.last().is_some_and(|episode| {
                let last = self.calls[episode[episode.len() - 1].0].at.unwrap();
                let first = self.calls[episode[0].0].at.unwrap();
                at.0 - last.0 <= quiet && at.0 - first.0 <= 86_400_000_000
            });
            if joins {
                episodes.last_mut().unwrap().push((closing, filled));
            } else {
                episodes.push(vec![(closing, filled)]);
            }
        }
        out.extend(episodes.iter().map(|episode| self.say(rule, group, set, episode)));
        out
    }

    fn say(&self, rule: &str, group: &[Text], set: &RuleSet, episode: &[(usize, Filled)]) -> Said {
        let (first, last) = (&episode[0], &episode[episode.len() - 1]);
        let mut evidence = first.1.clone();
        let mut others = Filled::new();
        for (_, filled) in episode {
            for (call, stage) in filled {
                let lowest = others.entry(*call).or_insert(*stage);
                *lowest = (*lowest).min(*stage);
            }
        }
        for (call, stage) in others {
            evidence.entry(call).or_insert(stage);
        }
        let value = match self.count {
            Some(_) => first.1.values().filter(|stage| **stage == 0).count(),
            None => self.stages.len(),
        };
        let closing = self.calls[first.0].id;
        let compiled = set.rules().iter().find(|other| *other.name == *rule).unwrap();
        Said {
            rule: rule.to_owned(),
            group: group.to_vec(),
            id: alert_id(compiled, group, closing),
            closing,
            first_seen: evidence.keys().filter_map(|call| self.calls[*call].at).min(),
            last_seen: self.calls[last.0].at,
            count: episode.len() as u64,
            value: value as u64,
            evidence: evidence
                .iter()
                .map(|(call, stage)| (self.stages[*stage].0.to_owned(), self.calls[*call].id))
                .collect(),
        }
    }

    /// The calls on any chain that closes at one call, each with the first stage it fills on one.
    fn close(&self, closing: usize) -> Filled {
        let mut filled = Filled::new();
        let mut chain = vec![closing];
        self.extend(&mut chain, &mut filled);
        filled
    }

    /// `chain` holds the later calls, the last one first.
    fn extend(&self, chain: &mut Vec<usize>, filled: &mut Filled) {
        let stage = self.stages.len() - chain.len();
        let call = chain[chain.len() - 1];
        if !(self.stages[stage].1)(&self.calls[call]) {
            return;
        }
        if stage > 0 {
            for earlier in 0..call {
                chain.push(earlier);
                self.extend(chain, filled);
                chain.pop();
            }
            return;
        }
        let at = |call: usize| self.calls[call].at;
        if chain.len() > 1
            && at(call)
                .is_none_or(|start| at(chain[0]).is_none_or(|end| end.0 - start.0 > self.timespan))
        {
            return;
        }
        let mut counted = BTreeSet::from([call]);
        if let Some((min, timespan)) = self.count {
            let Some(end) = at(call) else { return };
            counted.extend((0..call).filter(|earlier| {
                (self.stages[0].1)(&self.calls[*earlier])
                    && at(*earlier).is_some_and(|start| end.0 - start.0 <= timespan)
            }));
            if counted.len() < min {
                return;
            }
        } else if at(call).is_none() && self.stages.len() > 1 {
            return;
        }
        for counted in counted {
            filled.insert(counted, 0);
        }
        for (index, call) in chain.iter().enumerate() {
            let stage = self.stages.len() - 1 - index;
            let least = filled.entry(*call).or_insert(stage);
            *least = (*least).min(stage);
        }
    }
}

fn first_seen(
    name: &str,
    stage: &str,
    fits: fn(&Call) -> bool,
    baseline: usize,
    groups: &BTreeMap<Vec<Text>, Vec<Arc<Call>>>,
    set: &RuleSet,
) -> Vec<Said> {
    let compiled = set.rules().iter().find(|other| *other.name == *name).unwrap();
    let mut prefixes: BTreeMap<&[Text], Vec<FirstOf<'_>>> = BTreeMap::new();
    for (group, calls) in groups {
        let first = calls.iter().find(|call| fits(call) && call.at.is_some());
        if let Some(first) = first {
            prefixes.entry(&group[..group.len() - 1]).or_default().push((group, first));
        }
    }
    let mut out = Vec::new();
    for values in prefixes.values_mut() {
        values.sort_by_key(|(_, call)| call.order());
        for (group, call) in values.iter().skip(baseline) {
            out.push(Said {
                rule: name.to_owned(),
                group: (*group).clone(),
                id: alert_id(compiled, group, call.id),
                closing: call.id,
                first_seen: call.at,
                last_seen: call.at,
                count: 1,
                value: baseline as u64 + 1,
                evidence: vec![(stage.to_owned(), call.id)],
            });
        }
    }
    out
}
