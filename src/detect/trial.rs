//! Runs the cases of rules, and what follows from each: other orders, deliveries twice, spans just
//! too long.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{Alert, Call, CallChange, CallId, EventKind, Labels, Micros, Text};

use super::cases::{Case, Given};
use super::chain::{Chains, Event};
use super::engine::{Engine, evaluate};
use super::field::{GroupField, LabelsOf, Subject};
use super::firing::Firing;
use super::ledger::Ledger;
use super::logs::ReadLogs;
use super::pairing::is_one_to_one;
use super::rule::{Kind, Rule, RuleSet, Verdicts};
use super::stages::{Chain, Order, Stage};
use super::tally::{Count, Counted};

/// One case of a rule file, in one variant.
#[derive(Clone, Debug)]
pub struct TestResult {
    pub rule: Text,
    pub case: String,
    /// `as written`, or what was done to the case.
    pub variant: &'static str,
    /// What went wrong; none for a case that passed.
    pub failure: Option<String>,
}

/// Runs every case of every rule; `read` makes calls of those that are raw lines. A case that fires is also tried in
/// other orders and deliveries, which must change nothing, and with what it takes to fire just missing, which must
/// silence it.
pub fn run_tests(rules: &Arc<RuleSet>, read: &ReadLogs<'_>) -> Vec<TestResult> {
    let mut results = Vec::new();
    for rule in &rules.rules {
        for case in &rule.cases {
            let mut add = |variant, failure| {
                let (rule, case) = (Text::clone(&rule.name), case.name.clone());
                results.push(TestResult { rule, case, variant, failure });
            };
            match Played::of(rule, case, read).and_then(|played| played.tried(rules, rule, case)) {
                Ok(played) => {
                    let labels = played.labels();
                    Trial { rules, rule, case, played, labels }.run(add);
                }
                Err(unread) => add(AS_WRITTEN, Some(unread)),
            }
        }
    }
    results
}

const AS_WRITTEN: &str = "as written";

/// How many calls that were made of lines are told where a case fails.
const CALLS_TOLD_MAX: usize = 20;
/// How many lines of one call, and of those that are part of none.
const LINES_TOLD_MAX: usize = 8;

/// The calls of a case.
pub(super) struct Played {
    calls: Vec<(Arc<Call>, Labels)>,
    /// Of each call, the indices by which the case may name it; for lines several, and a line may name several calls.
    names: Vec<Vec<usize>>,
    /// Where each call is among them.
    places: FxHashMap<CallId, usize>,
}

impl Played {
    /// The error says what of the case's lines cannot be read.
    pub(super) fn of(rule: &Rule, case: &Case, read: &ReadLogs<'_>) -> Result<Self, String> {
        let (calls, names): (Vec<_>, Vec<_>) = match &case.given {
            Given::Events(events) => {
                let name =
                    |(index, event): (usize, &(Arc<Call>, Labels))| (event.clone(), vec![index]);
                events.iter().enumerate().map(name).unzip()
            }
            Given::Logs(logs) => {
                let read = read(rule, logs)?;
                read.into_iter().map(|made| ((made.call, made.labels), made.lines)).unzip()
            }
        };
        let places = calls.iter().enumerate().map(|(place, (call, _))| (call.id, place)).collect();
        Ok(Self { calls, names, places })
    }

    /// The same, unless it is of lines and the rule sees none of it: that it stays silent then says nothing.
    fn tried(self, rules: &RuleSet, rule: &Rule, case: &Case) -> Result<Self, String> {
        let is_described = matches!(case.given, Given::Events(_));
        let sees_all = is_described || rules.asks_for_kind(rule);
        if self.calls.iter().any(|(call, _)| sees_all || call.kind == EventKind::Call) {
            return Ok(self);
        }
        Err("no call comes of these lines, and so nothing is tried: empty lines, notifications, and answers without \
             their questions tell of none"
            .to_owned())
    }

    pub(super) fn calls(&self) -> Vec<Arc<Call>> {
        self.calls.iter().map(|(call, _)| Arc::clone(call)).collect()
    }

    pub(super) fn labels(&self) -> Arc<LabelsOf> {
        let labels: FxHashMap<CallId, Labels> =
            self.calls.iter().map(|(call, labels)| (call.id, *labels)).collect();
        Arc::new(move |call: &Call| labels.get(&call.id).copied().unwrap_or_default())
    }

    /// What a call is named by, such as `3`, or `0+3` where two lines tell of it.
    fn name(&self, call: usize) -> String {
        let names = self.names.get(call).map(Vec::as_slice).unwrap_or_default();
        let told = names.iter().take(LINES_TOLD_MAX).map(ToString::to_string);
        let more = (names.len() > LINES_TOLD_MAX).then(|| "..".to_owned());
        told.chain(more).collect::<Vec<_>>().join("+")
    }
}

struct Trial<'a> {
    rules: &'a Arc<RuleSet>,
    rule: &'a Rule,
    case: &'a Case,
    played: Played,
    labels: Arc<LabelsOf>,
}

impl Trial<'_> {
    fn run(&self, mut add: impl FnMut(&'static str, Option<String>)) {
        let calls = self.calls();
        let alerts = self.evaluate(calls.clone());
        add(AS_WRITTEN, self.compare(&alerts));
        let reversed: Vec<_> = calls.iter().rev().cloned().collect();
        add("reversed", self.same(&alerts, &reversed, 1, 1));
        add("shuffled", self.same(&alerts, &shuffled(&calls), 3, 1));
        add("delivered twice", self.same(&alerts, &calls, 2, 2));
        if alerts.is_empty() || self.case.fires.is_empty() {
            return;
        }
        if let Some(calls) = self.stretched(0) {
            let silent = self.evaluate(calls).is_empty();
            add("at the timespan", silent.then(|| "no longer fires".to_owned()));
        }
        if let Some(calls) = self.stretched(1) {
            add("beyond the timespan", self.silent(calls));
        }
        if let Some(calls) = self.scattered() {
            add("each call in a group of its own", self.silent(calls));
        }
        if let Some(calls) = self.apart() {
            add("each call in a session of its own", self.silent(calls));
        }
        for calls in self.thinned(&alerts) {
            add("one call too few", self.silent(calls));
        }
    }

    fn calls(&self) -> Vec<Arc<Call>> {
        self.played.calls()
    }

    /// The rule's alerts; all rules run, so that none disturbs another.
    fn evaluate(&self, calls: Vec<Arc<Call>>) -> Vec<Alert> {
        let mut alerts = evaluate(Arc::clone(self.rules), Arc::clone(&self.labels), calls);
        alerts.retain(|alert| alert.rule == self.rule.name);
        alerts
    }

    fn silent(&self, calls: Vec<Arc<Call>>) -> Option<String> {
        let alerts = self.evaluate(calls);
        (!alerts.is_empty()).then(|| format!("still fires: {}", self.describe(&alerts)))
    }

    /// Delivers the calls in batches, each the given number of times, and compares what is left in
    /// the end.
    fn same(
        &self,
        expected: &[Alert],
        calls: &[Arc<Call>],
        batch: usize,
        times: usize,
    ) -> Option<String> {
        let mut engine = Engine::new(Arc::clone(self.rules), Arc::clone(&self.labels));
        let mut ledger = Ledger::new(Arc::clone(self.rules));
        for batch in calls.chunks(batch) {
            let changes: Vec<CallChange> = batch
                .iter()
                .map(|call| CallChange { old: None, new: Some(Arc::clone(call)) })
                .collect();
            for _ in 0..times {
                ledger.run(&mut engine, &changes);
            }
        }
        let mut found: Vec<Alert> =
            ledger.alerts.into_values().filter(|alert| alert.rule == self.rule.name).collect();
        found.sort_by_key(|alert| alert.id);
        let mut expected = expected.to_vec();
        expected.sort_by_key(|alert| alert.id);
        let (found, expected) = (self.describe(&found), self.describe(&expected));
        (found != expected).then(|| format!("gave {found} instead of {expected}"))
    }

    fn compare(&self, alerts: &[Alert]) -> Option<String> {
        let fires = &self.case.fires;
        let gave = || format!("gave {}", self.describe(alerts));
        if fires.len() != alerts.len() {
            return Some(gave() + &self.made_of_lines());
        }
        let named: Vec<Vec<&[usize]>> = alerts.iter().map(|alert| self.names(alert)).collect();
        let fitting = |firing: &Firing| {
            let is_meant = |(alert, calls): (&Alert, &Vec<&[usize]>)| {
                firing.is_of_group(alert) && firing.names(calls)
            };
            let alerts = alerts.iter().zip(&named).enumerate();
            alerts.filter(|(_, shown)| is_meant(*shown)).map(|(place, _)| place).collect()
        };
        let fits: Vec<Vec<usize>> = fires.iter().map(fitting).collect();
        if is_one_to_one(&fits, alerts.len()) {
            return None;
        }
        let is_short = fits.iter().all(|fitting| !fitting.is_empty());
        let why = if is_short {
            "; of `fires` several mean one alert, and so another is meant by none"
        } else {
            ""
        };
        Some(gave() + why + &self.made_of_lines())
    }

    /// What each call of the evidence may be named by: of several lines that tell of it, by any.
    fn names(&self, alert: &Alert) -> Vec<&[usize]> {
        let names = |call| self.played.names.get(call).map(Vec::as_slice);
        self.indices(alert).into_iter().filter_map(names).collect()
    }

    /// The evidence, as places among the case's calls.
    fn indices(&self, alert: &Alert) -> Vec<usize> {
        let place = |id: CallId| self.played.places.get(&id).copied();
        let mut indices: Vec<usize> =
            alert.evidence.iter().filter_map(|evidence| place(evidence.call.id)).collect();
        indices.sort_unstable();
        indices
    }

    fn describe(&self, alerts: &[Alert]) -> String {
        let word = self.case.given.word();
        let one = |alert: &Alert| {
            let group: Vec<String> =
                alert.group.iter().map(|(field, value)| format!("{field}: {value}")).collect();
            let calls: Vec<String> =
                self.indices(alert).into_iter().map(|call| self.played.name(call)).collect();
            let (group, calls, count) = (group.join(", "), calls.join(", "), alert.count);
            format!("{{group: {{{group}}}, {word}: [{calls}], matches: {count}}}")
        };
        if alerts.is_empty() {
            return "nothing".into();
        }
        alerts.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// What was made of a case's lines: whoever wrote it sees how they were read and joined.
    fn made_of_lines(&self) -> String {
        if matches!(self.case.given, Given::Events(_)) {
            return String::new();
        }
        let one = |(number, (call, _)): (usize, &(Arc<Call>, Labels))| {
            let (name, ran) = (self.played.name(number), call.ran.as_str());
            format!("{name} is {} {}, ran {ran}", call.tool, call.class.as_str())
        };
        let all = &self.played.calls;
        let mut told: Vec<String> = all.iter().enumerate().take(CALLS_TOLD_MAX).map(one).collect();
        let more = all.len().saturating_sub(CALLS_TOLD_MAX);
        if more > 0 {
            told.push(format!("and {more} more calls"));
        }
        told.extend(self.lines_of_no_call());
        format!("; of the lines {}", told.join("; "))
    }

    /// The lines that tell of no call, though they may show something of their log.
    fn lines_of_no_call(&self) -> Option<String> {
        let calls = self.played.calls.iter().zip(&self.played.names);
        let calls = calls.filter(|((call, _), _)| call.kind == EventKind::Call);
        let told: FxHashSet<usize> = calls.flat_map(|(_, names)| names).copied().collect();
        let lone: Vec<String> = (0..self.case.given.count())
            .filter(|line| !told.contains(line))
            .map(|line| line.to_string())
            .collect();
        let shown = lone.get(..LINES_TOLD_MAX).unwrap_or(&lone);
        let more = lone.len() - shown.len();
        let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
        match shown {
            [] => None,
            [only] => Some(format!("{only} is part of no call")),
            several => Some(format!("{}{and_more} are part of no call", several.join(", "))),
        }
    }

    /// The calls with all gaps made longer by one factor, so that the shortest match takes the
    /// timespan and `excess` microseconds. None where there is no span or the match takes no time.
    fn stretched(&self, excess: i64) -> Option<Vec<Arc<Call>>> {
        let Kind::Chain(chain) = &self.rule.kind else {
            return None;
        };
        // Longer gaps can make an upper bound or a share fit where it did not.
        if !chain.only_grows() || chain.gap_micros().is_some() {
            return None;
        }
        let is_composed = chain.stages.len() > 1;
        // What closes an inner match can be near to others when its first call is far from them.
        if !chain.inner.is_empty() && (excess == 0 || chain.order == Order::Any || !is_composed) {
            return None;
        }
        let span = chain.counts().map(|count| count.timespan_micros).next();
        // A count among other stages has two spans, and stretching to the one breaks the other.
        if is_composed && span.is_some() && excess == 0 {
            return None;
        }
        let limit = span.filter(|_| !is_composed).unwrap_or(chain.timespan_micros);
        let shortest = self.shortest_micros().filter(|shortest| *shortest > 0 && limit > 0)?;
        let first = self.played.calls.iter().filter_map(|(call, _)| call.at).min()?;
        let target = i128::from(limit.checked_add(excess)?);
        let stretch = |at: Micros| {
            // Rounding may cost a microsecond between two calls: round away from the limit that is
            // tried.
            let scaled = i128::from(at.since(first)) * target;
            let shortest = i128::from(shortest);
            let moved = if excess > 0 {
                scaled + shortest * 2 * i128::from(at.since(first) > 0)
            } else {
                scaled
            };
            first.plus(i64::try_from(moved / shortest).unwrap_or(i64::MAX))
        };
        let moved = |call: &Arc<Call>| {
            let mut call = Call::clone(call);
            call.at = call.at.map(stretch);
            Arc::new(call)
        };
        Some(self.played.calls.iter().map(|(call, _)| moved(call)).collect())
    }

    /// The shortest match of any group.
    fn shortest_micros(&self) -> Option<i64> {
        let Kind::Chain(chain) = &self.rule.kind else {
            return None;
        };
        let mut verdicts = Verdicts::new(self.rules);
        let mut groups: FxHashMap<Vec<Text>, Vec<Event>> = FxHashMap::default();
        for (call, _) in &self.played.calls {
            verdicts.reset();
            let subject = Subject::new(call, &*self.labels);
            let slots = verdicts.slots(self.rules, self.rule, &subject);
            let Some(at) = call.at.filter(|_| slots != 0) else {
                continue;
            };
            self.rule.each_group(call, slots, &mut Vec::new(), |key, stages| {
                let event = Event::new(at, stages, call);
                groups.entry(key.clone()).or_default().push(event);
            });
        }
        let shortest = |mut events: Vec<Event>| {
            events.sort_by(Event::order);
            Chains::find(chain, &events, Micros(i64::MIN)).shortest_micros()
        };
        groups.into_values().filter_map(shortest).min()
    }

    /// The calls, each with a value of its own in the rule's first group-by field. None where one
    /// call is enough.
    fn scattered(&self) -> Option<Vec<Arc<Call>>> {
        let is_single = match &self.rule.kind {
            Kind::Chain(chain) => chain.may_be_one_call(),
            Kind::FirstSeen(first) => first.baseline == 0 || self.rule.group_by.len() < 2,
        };
        let [grouping] = self.rule.groupings.as_slice() else {
            return None;
        };
        let field = grouping.fields.first().filter(|_| !is_single)?;
        let scatter = |(index, (call, _)): (usize, &(Arc<Call>, Labels))| {
            let mut call = Call::clone(call);
            let value = Some(Text::from(format!("alone-{index}")));
            match field {
                GroupField::Principal => call.principal = value,
                GroupField::Client => call.client = value,
                GroupField::Tenant => call.tenant = value,
                GroupField::ToolServer => call.server = value,
                GroupField::Actor => call.actor = value?,
                GroupField::Session => call.session = value?,
                GroupField::ToolName => call.tool = value?,
                GroupField::Code => call.code = value?,
            }
            Some(Arc::new(call))
        };
        self.played.calls.iter().enumerate().map(scatter).collect()
    }

    /// Every call in a session of its own, for a rule that asks for one session.
    fn apart(&self) -> Option<Vec<Arc<Call>>> {
        let Kind::Chain(Chain {
            order: Order::Session { gap_micros },
            is_same_event_allowed: false,
            ..
        }) = &self.rule.kind
        else {
            return None;
        };
        let mut calls = self.calls();
        calls.sort_by_key(|call| call.order());
        let first = calls.first()?.at?;
        let mut at = first;
        for call in &mut calls {
            let mut moved = Call::clone(call);
            moved.at = moved.at.map(|_| at);
            *call = Arc::new(moved);
            at = at.plus(gap_micros + 1);
        }
        Some(calls)
    }

    /// The calls without the evidence of one stage, for each stage in turn; of a counted stage, as
    /// much stays as is just too little.
    fn thinned(&self, alerts: &[Alert]) -> Vec<Vec<Arc<Call>>> {
        let Kind::Chain(chain) = &self.rule.kind else {
            return Vec::new();
        };
        if chain.is_same_event_allowed {
            return Vec::new();
        }
        let is_shown = |call: &Arc<Call>, slots: u32| {
            let slots = chain.slots.iter().enumerate().filter(|(slot, _)| slots & (1 << slot) != 0);
            let is_named = |name: &Text| slots.clone().any(|(_, slot)| slot.name == *name);
            let mut evidence = alerts.iter().flat_map(|alert| &alert.evidence);
            evidence.any(|shown| shown.call.id == call.id && is_named(&shown.stage))
        };
        // Where more calls can be too many, those that were may fire in the place of the evidence.
        let could_be_shown = |call: &Arc<Call>, slots: u32| {
            let subject = Subject::new(call, &*self.labels);
            Verdicts::new(self.rules).slots(self.rules, self.rule, &subject) & slots != 0
        };
        let without = |stage: &Stage| {
            // Of what an inner match can rest on nothing stays.
            let is_inner = stage.slots() & chain.inner_bits() != 0;
            let count = stage.count.as_ref().filter(|_| !is_inner);
            let is_limited = is_inner || count.is_some_and(|count| !count.only_grows());
            let base = chain.kinds(count.map_or(stage.slots(), Count::base));
            let room = count.map_or(0, |count| count.least() - 1);
            let mut kept = Kept { room, values: FxHashSet::default() };
            let mut calls = self.calls();
            calls.retain(|call| {
                let is_evidence = is_shown(call, chain.kinds(stage.slots()))
                    || is_limited && could_be_shown(call, base);
                !is_evidence || kept.takes(count.map(|count| &count.what), call)
            });
            calls
        };
        chain.stages.iter().map(without).collect()
    }
}

/// What is left of a counted stage.
struct Kept {
    room: u64,
    values: FxHashSet<String>,
}

impl Kept {
    /// True while with the call there is still too little.
    fn takes(&mut self, what: Option<&Counted>, call: &Call) -> bool {
        if let Some(Counted::Values { field, .. }) = what {
            let mut values = self.values.clone();
            field.each(call, &mut |value| {
                values.insert(value.into_owned());
            });
            let fits = values.len() as u64 <= self.room;
            if fits {
                self.values = values;
            }
            return fits;
        }
        let fits = self.room > 0;
        self.room = self.room.saturating_sub(1);
        fits
    }
}

/// One fixed disorder.
fn shuffled(calls: &[Arc<Call>]) -> Vec<Arc<Call>> {
    disorder(calls.len()).filter_map(|index| calls.get(index)).cloned().collect()
}

/// The numbers below `length` in another order: by a stride that shares no divisor with the length, so that each comes
/// once, and that is far from 1 and from the length where it can be, or neighbours would stay neighbours.
fn disorder(length: usize) -> impl Iterator<Item = usize> {
    let is_fit = |stride: &usize| gcd(*stride, length) == 1;
    // Among any few numbers one fits; of the lengths up to four and of six, one or the last are all that do.
    let about = length / 8 * 5 + length % 8 * 5 / 8;
    let stride = (about.max(2)..length.saturating_sub(1)).find(is_fit);
    let stride =
        stride.or_else(|| (2..about).rev().find(is_fit)).unwrap_or(length.saturating_sub(1));
    (0..length).map(move |index| (index * stride + 1) % length)
}

const fn gcd(mut left: usize, mut right: usize) -> usize {
    while right > 0 {
        (left, right) = (right, left % right);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_of_any_length_holds_each_once_and_in_no_order() {
        let few = 2..2_100;
        for length in few.chain([3_003, 4_004, 5_005, 6_006, 7_007, 8_008, 9_009, 10_000]) {
            let order: Vec<usize> = disorder(length).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.iter().copied().eq(0..length), "{length}");
            assert_ne!(order, sorted, "{length}");
            // Turned round is another variant, and turned on by one nearly the order as it was.
            let steps = |step: usize| {
                order.windows(2).filter(|pair| (pair[0] + step) % length == pair[1]).count()
            };
            let is_tried = length > 4 && length != 6;
            assert!(!is_tried || steps(1) + steps(length - 1) == 0, "{length}");
        }
        assert_eq!(disorder(1).collect::<Vec<_>>(), [0]);
        assert_eq!(disorder(0).count(), 0);
    }
}
