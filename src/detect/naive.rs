//! What the documents say, done the slow way: every chain of every match is enumerated. The engine
//! must agree.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{AlertId, Call, CallId, Micros, Text};

use super::episode::alert_id;
use super::limits::Limits;
use super::rule::{Rule, RuleSet};

/// One rule, told again in Rust rather than YAML.
pub(super) struct NaiveRule {
    pub(super) name: &'static str,
    /// The group of a call, for each stage; the last one is that of all further stages.
    pub(super) groups: Vec<GroupOf>,
    pub(super) what: What,
}

pub(super) type GroupOf = fn(&Call) -> Option<Vec<Text>>;

pub(super) enum What {
    Chain(NaiveChain),
    FirstSeen { stage: &'static str, fits: Fits, baseline: usize, learning: Option<i64> },
}

pub(super) type Fits = fn(&Call) -> bool;

/// Spans are microseconds.
#[derive(Clone)]
pub(super) struct NaiveChain {
    pub(super) stages: Vec<NaiveStage>,
    /// False where the stages can be filled in any order.
    pub(super) ordered: bool,
    /// One call may fill several stages.
    pub(super) same: bool,
    pub(super) timespan: i64,
    /// The longest gap of a session that the chain must lie in.
    pub(super) gap: Option<i64>,
    pub(super) quiet: i64,
}

#[derive(Clone)]
pub(super) struct NaiveStage {
    /// One, or all that are counted together; of a share what it is of, and then all.
    pub(super) kinds: Vec<NaiveKind>,
    pub(super) count: Option<(i64, NaiveCount)>,
}

#[derive(Clone)]
pub(super) enum NaiveKind {
    Calls(&'static str, Fits),
    /// Calls that close a match of this.
    Closing(NaiveChain),
}

#[derive(Clone)]
pub(super) enum NaiveCount {
    Events(fn(usize) -> bool),
    /// Of a call, one or several.
    Values(fn(&Call) -> Vec<Text>, fn(usize) -> bool),
    Share(fn(usize, usize) -> bool),
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

/// What each call is shown as: a stage, a kind of it, and inside of that the same again.
type Slot = Vec<usize>;

/// What a match rests on.
type Filled = BTreeMap<Rest, Slot>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rest {
    /// A call, by index.
    Call(usize),
    /// That it is counted for a stage, whatever it is shown as.
    Counted(usize, usize),
}

/// What a call fills a stage by, by stage and call.
type Known = RefCell<BTreeMap<(usize, usize), Option<Filled>>>;

/// A group's calls, each with the stages for which it is in the group.
type Members = Vec<(Arc<Call>, u32)>;

/// A group and its first call.
type FirstOf<'a> = (&'a Vec<Text>, &'a Arc<Call>);

impl NaiveChain {
    fn name(&self, slot: &[usize]) -> String {
        match &self.stages[slot[0]].kinds[slot[1]] {
            NaiveKind::Calls(name, _) => (*name).to_owned(),
            NaiveKind::Closing(chain) => chain.name(&slot[2..]),
        }
    }

    fn lookback(&self) -> i64 {
        let of_stage = |stage: &NaiveStage| {
            let inside = stage.kinds.iter().map(|kind| match kind {
                NaiveKind::Calls(..) => 0,
                NaiveKind::Closing(chain) => chain.lookback(),
            });
            stage.count.as_ref().map_or(0, |count| count.0) + inside.max().unwrap()
        };
        self.timespan + self.stages.iter().map(of_stage).max().unwrap()
    }
}

impl NaiveStage {
    /// Whether the call is of a kind that the stage can rest on.
    fn asks_for(&self, call: &Call) -> bool {
        self.kinds.iter().any(|kind| match kind {
            NaiveKind::Calls(_, fits) => fits(call),
            NaiveKind::Closing(chain) => chain.stages.iter().any(|stage| stage.asks_for(call)),
        })
    }
}

/// All alerts over a set of calls.
pub(super) fn alerts(
    rules: &[NaiveRule],
    set: &RuleSet,
    calls: &[Arc<Call>],
    limits: &Limits,
) -> Vec<Said> {
    let mut out = Vec::new();
    for rule in rules {
        let mut groups: BTreeMap<Vec<Text>, Members> = BTreeMap::new();
        for call in calls {
            for (stage, group) in rule.groups.iter().enumerate() {
                let Some(key) = group(call) else { continue };
                let stages = if stage + 1 < rule.groups.len() { 1 } else { u32::MAX } << stage;
                let members = groups.entry(key).or_default();
                match members.iter_mut().find(|(known, _)| known.id == call.id) {
                    Some((_, known)) => *known |= stages,
                    None => members.push((Arc::clone(call), stages)),
                }
            }
        }
        for calls in groups.values_mut() {
            calls.sort_by_key(|(call, _)| call.order());
        }
        match &rule.what {
            What::Chain(chain) => {
                let compiled = set.rules().iter().find(|other| *other.name == *rule.name).unwrap();
                for (group, calls) in &groups {
                    let search = Search::new(chain, calls);
                    out.extend(search.alerts(compiled, group, |call| search.close(call)));
                    if let Some(load) = limits.load(compiled) {
                        let max = usize::try_from(limits.group_calls_max).unwrap();
                        out.extend(loads(&search, &load, &compiled.name, group, max));
                    }
                }
            }
            What::FirstSeen { stage, fits, baseline, learning } => {
                let calls_of =
                    |calls: &Members| calls.iter().map(|(call, _)| call.clone()).collect();
                let groups = groups.iter().map(|(key, calls)| (key.clone(), calls_of(calls)));
                let groups = groups.collect();
                let home = (*baseline, *learning);
                out.extend(first_seen(rule.name, stage, *fits, home, &groups, set));
            }
        }
    }
    out.sort();
    out
}

struct Search<'a> {
    chain: &'a NaiveChain,
    calls: &'a [(Arc<Call>, u32)],
    known: Known,
}

impl<'a> Search<'a> {
    fn new(chain: &'a NaiveChain, calls: &'a [(Arc<Call>, u32)]) -> Self {
        Self { chain, calls, known: Known::default() }
    }

    fn at(&self, call: usize) -> Option<i64> {
        self.calls[call].0.at.map(|at| at.0)
    }

    fn alerts(&self, rule: &Rule, group: &[Text], close: impl Fn(usize) -> Filled) -> Vec<Said> {
        let mut episodes: Vec<Vec<(usize, Filled)>> = Vec::new();
        let mut out = Vec::new();
        for closing in 0..self.calls.len() {
            let filled = close(closing);
            if filled.is_empty() {
                continue;
            }
            let Some(at) = self.at(closing) else {
                out.push(self.say(rule, group, &[(closing, filled)]));
                continue;
            };
            let joins = episodes.last().is_some_and(|episode| {
                let last = self.at(episode[episode.len() - 1].0).unwrap();
                let first = self.at(episode[0].0).unwrap();
                at - last <= self.chain.quiet && at - first <= 86_400_000_000
            });
            if joins {
                episodes.last_mut().unwrap().push((closing, filled));
            } else {
                episodes.push(vec![(closing, filled)]);
            }
        }
        out.extend(episodes.iter().map(|episode| self.say(rule, group, episode)));
        out
    }

    fn say(&self, rule: &Rule, group: &[Text], episode: &[(usize, Filled)]) -> Said {
        let (first, last) = (&episode[0], &episode[episode.len() - 1]);
        let mut evidence = first.1.clone();
        let mut others = Filled::new();
        for (_, filled) in episode {
            show(&mut others, filled.clone());
        }
        for (rest, slot) in others {
            evidence.entry(rest).or_insert(slot);
        }
        let evidence: Vec<(usize, Slot)> = evidence
            .into_iter()
            .filter_map(|(rest, slot)| match rest {
                Rest::Call(call) => Some((call, slot)),
                Rest::Counted(..) => None,
            })
            .collect();
        let closing = self.calls[first.0].0.id;
        Said {
            rule: rule.name.to_string(),
            group: group.to_vec(),
            id: alert_id(rule, group, closing),
            closing,
            first_seen: evidence.iter().filter_map(|(call, _)| self.at(*call)).min().map(Micros),
            last_seen: self.at(last.0).map(Micros),
            count: episode.len() as u64,
            value: self.value(&first.1),
            evidence: evidence
                .iter()
                .map(|(call, slot)| (self.chain.name(slot), self.calls[*call].0.id))
                .collect(),
        }
    }

    /// What the first counted stage shows, or the number of stages.
    fn value(&self, filled: &Filled) -> u64 {
        let counted = self.chain.stages.iter().enumerate().find(|(_, stage)| stage.count.is_some());
        let Some((index, stage)) = counted else { return self.chain.stages.len() as u64 };
        let counted = |(rest, slot): (&Rest, &Slot)| match rest {
            Rest::Counted(call, of) if *of == index => Some((*call, slot[1])),
            _ => None,
        };
        let all: Vec<(usize, usize)> = filled.iter().filter_map(counted).collect();
        match &stage.count.as_ref().unwrap().1 {
            NaiveCount::Events(_) => all.len() as u64,
            NaiveCount::Values(value, _) => {
                let values: BTreeSet<_> =
                    all.iter().flat_map(|(call, _)| value(&self.calls[*call].0)).collect();
                values.len() as u64
            }
            NaiveCount::Share(_) => {
                let of = all.iter().filter(|(_, kind)| *kind == 0).count();
                (100 * of / all.len()) as u64
            }
        }
    }

    /// What a call shows as one kind of a stage; none if it is not of that kind.
    fn as_kind(&self, stage: usize, kind: usize, call: usize) -> Option<Filled> {
        let (own, stages) = &self.calls[call];
        match &self.chain.stages[stage].kinds[kind] {
            NaiveKind::Calls(_, fits) => (stages & (1 << stage) != 0 && fits(own))
                .then(|| Filled::from([(Rest::Call(call), vec![stage, kind])])),
            NaiveKind::Closing(chain) => {
                let inside = Search::new(chain, self.calls).close(call);
                let mut shown = Filled::new();
                for (rest, slot) in &inside {
                    if let Rest::Call(_) = rest {
                        shown.insert(*rest, [&[stage, kind], slot.as_slice()].concat());
                    }
                }
                (!shown.is_empty()).then_some(shown)
            }
        }
    }

    /// The calls that are shown for a stage which this call fills; none if it does not.
    fn filled_by(&self, stage: usize, call: usize) -> Option<Filled> {
        if let Some(known) = self.known.borrow().get(&(stage, call)) {
            return known.clone();
        }
        let filled = self.look(stage, call);
        self.known.borrow_mut().insert((stage, call), filled.clone());
        filled
    }

    fn look(&self, stage: usize, call: usize) -> Option<Filled> {
        let Some((span, count)) = &self.chain.stages[stage].count else {
            return self.as_kind(stage, 0, call);
        };
        let end = self.at(call)?;
        if self.counted(stage, call).is_empty() {
            return None;
        }
        let window: Vec<usize> = (0..=call)
            .filter(|call| self.at(*call).is_some_and(|at| end - at <= *span))
            .filter(|call| !self.counted(stage, *call).is_empty())
            .collect();
        let is_filled = match count {
            NaiveCount::Events(enough) => enough(window.len()),
            NaiveCount::Values(value, enough) => {
                let values: BTreeSet<_> =
                    window.iter().flat_map(|call| value(&self.calls[*call].0)).collect();
                enough(values.len())
            }
            NaiveCount::Share(enough) => {
                let of = |call: &&usize| self.as_kind(stage, 0, **call).is_some();
                enough(window.iter().filter(of).count(), window.len())
            }
        };
        let mut filled = Filled::new();
        for call in window {
            show(&mut filled, self.counted(stage, call));
        }
        is_filled.then_some(filled)
    }

    /// What a call shows that a stage counts; nothing for one that it does not count.
    fn counted(&self, stage: usize, call: usize) -> Filled {
        let kinds = &self.chain.stages[stage].kinds;
        let (_, count) = self.chain.stages[stage].count.as_ref().unwrap();
        let mut shown = Filled::new();
        let is_counted = match count {
            NaiveCount::Events(_) => true,
            NaiveCount::Values(value, _) => !value(&self.calls[call].0).is_empty(),
            NaiveCount::Share(_) => self.as_kind(stage, 1, call).is_some(),
        };
        for kind in (0..kinds.len()).filter(|_| is_counted) {
            let Some(own) = self.as_kind(stage, kind, call) else { continue };
            show(&mut shown, own);
            shown.entry(Rest::Counted(call, stage)).or_insert_with(|| vec![stage, kind]);
        }
        shown
    }

    /// The calls that a match closing at one call rests on, each with the first slot it is shown in.
    fn close(&self, closing: usize) -> Filled {
        let mut filled = Filled::new();
        if self.chain.ordered {
            let mut chain = vec![closing];
            self.extend(&mut chain, &mut filled);
        } else {
            self.gather(closing, &mut filled);
        }
        filled
    }

    /// `chain` holds the later calls, the last one first.
    fn extend(&self, chain: &mut Vec<usize>, filled: &mut Filled) {
        let stage = self.chain.stages.len() - chain.len();
        let call = chain[chain.len() - 1];
        if self.filled_by(stage, call).is_none() {
            return;
        }
        if stage > 0 {
            for earlier in 0..call + usize::from(self.chain.same) {
                chain.push(earlier);
                self.extend(chain, filled);
                chain.pop();
            }
            return;
        }
        if chain.len() > 1 && !self.is_within(call, chain[0]) {
            return;
        }
        for (index, call) in chain.iter().enumerate() {
            show(filled, self.filled_by(self.chain.stages.len() - 1 - index, *call).unwrap());
        }
    }

    /// Within the timespan, and in one session where that is asked for.
    fn is_within(&self, start: usize, end: usize) -> bool {
        let (Some(from), Some(to)) = (self.at(start), self.at(end)) else { return false };
        let is_session = self.chain.gap.is_none_or(|gap| {
            (start..end).all(|call| self.at(call + 1).unwrap() - self.at(call).unwrap() <= gap)
        });
        to - from <= self.chain.timespan && is_session
    }

    fn gather(&self, closing: usize, filled: &mut Filled) {
        let Some(end) = self.at(closing) else { return };
        let stages = 0..self.chain.stages.len();
        let fills = |call: usize| -> Vec<usize> {
            stages.clone().filter(|stage| self.filled_by(*stage, call).is_some()).collect()
        };
        let window: Vec<(usize, Vec<usize>)> = (0..=closing)
            .filter(|call| self.at(*call).is_some_and(|at| end - at <= self.chain.timespan))
            .map(|call| (call, fills(call)))
            .filter(|(_, fills)| !fills.is_empty())
            .collect();
        let closes = window.last().is_some_and(|(call, _)| *call == closing);
        let is_filled = if self.chain.same {
            stages.clone().all(|stage| window.iter().any(|(_, fills)| fills.contains(&stage)))
        } else {
            each_its_own(self.chain.stages.len(), &window, &mut Vec::new())
        };
        if !closes || !is_filled {
            return;
        }
        for (call, stages) in window {
            for stage in stages {
                show(filled, self.filled_by(stage, call).unwrap());
            }
        }
    }
}

/// Where more calls that the rule asks for than `max` lie in what it looks back over: of a rule on
/// sessions, in one session, those that a chain starts with.
fn loads(search: &Search<'_>, load: &Rule, of: &Text, group: &[Text], max: usize) -> Vec<Said> {
    let chain = search.chain;
    let is_single = chain.stages.len() == 1 && chain.stages[0].count.is_none();
    if is_single {
        return Vec::new();
    }
    let lookback = chain.lookback();
    let is_asked = |call: usize| {
        let (own, stages) = &search.calls[call];
        let asking = if chain.gap.is_some() { 0..1 } else { 0..chain.stages.len() };
        asking
            .into_iter()
            .any(|stage| stages & (1 << stage) != 0 && chain.stages[stage].asks_for(own))
    };
    let count = Some((0, NaiveCount::Events(|_| true)));
    let one = NaiveStage { kinds: vec![NaiveKind::Calls("call", |_| true)], count };
    let told = NaiveChain { stages: vec![one], ..chain.clone() };
    let telling = Search::new(&told, search.calls);
    let group: Vec<Text> = std::iter::once(of).chain(group).cloned().collect();
    telling.alerts(load, &group, |closing| {
        let Some(end) = search.at(closing).filter(|_| is_asked(closing)) else {
            return Filled::new();
        };
        let is_near = |call: usize| {
            search.at(call).is_some_and(|at| end - at <= lookback)
                && chain.gap.is_none_or(|gap| {
                    (call..closing)
                        .all(|call| search.at(call + 1).unwrap() - search.at(call).unwrap() <= gap)
                })
        };
        let near: Filled = (0..=closing)
            .filter(|call| is_asked(*call) && is_near(*call))
            .flat_map(|call| [Rest::Call(call), Rest::Counted(call, 0)])
            .map(|rest| (rest, vec![0, 0]))
            .collect();
        // Each call is there twice: as one that is shown, and as one that is counted.
        if near.len() > 2 * max { near } else { Filled::new() }
    })
}

fn show(filled: &mut Filled, more: Filled) {
    for (call, slot) in more {
        let least = filled.entry(call).or_insert_with(|| slot.clone());
        *least = slot.min(least.clone());
    }
}

/// Tries every way to give each stage a call of its own.
fn each_its_own(stages: usize, calls: &[(usize, Vec<usize>)], taken: &mut Vec<usize>) -> bool {
    let stage = taken.len();
    if stage == stages {
        return true;
    }
    calls.iter().filter(|(_, fills)| fills.contains(&stage)).any(|(call, _)| {
        if taken.contains(call) {
            return false;
        }
        taken.push(*call);
        let fits = each_its_own(stages, calls, taken);
        taken.pop();
        fits
    })
}

fn first_seen(
    name: &str,
    stage: &str,
    fits: Fits,
    (baseline, learning): (usize, Option<i64>),
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
        let began = values[0].1.at.unwrap();
        let is_learned = |call: &Call| {
            learning.is_some_and(|learning| call.at.unwrap().since(began) <= learning)
        };
        let news = values.iter().skip(baseline).filter(|(_, call)| !is_learned(call));
        for (group, call) in news {
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
