//! The engine: batches of call changes in, alert changes out. What it says depends on the set of
//! calls alone.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{
    Alert, AlertChange, AlertId, Call, CallChange, CallId, EventKind, FirstSeen as FirstSeenFact,
    Micros, Text,
};

use super::chain::{Event, is_future};
use super::episode::{alert, alert_id};
use super::field::{LabelsOf, Subject};
use super::group::{Group, Op, Scope, idle_micros};
use super::history::{History, HistoryNeed};
use super::known::remembered;
use super::meter::{Meter, RuleCost};
use super::outcome::{Gone, Outcome, Set};
use super::rule::{FirstSeen, Grouping, Kind, Rule, RuleSet, Verdicts};
use super::seen::{Prefix, Seen};
use super::stages::Chain;

/// First-seen groups of one rule held in memory; over it, all are let go and read from the store as
/// they come again.
const FIRST_SEEN_MAX: usize = 65_536;
/// Changes after which groups are swept even if no window has moved: those far ahead of the clock move none.
const UNSWEPT_MAX: usize = 50_000;

/// Evaluates rules over changes to calls, holding a bounded window of every group in memory.
///
/// For each batch: [`Self::plan`] says which histories it needs, [`Self::apply`] takes them and
/// tells what became of the alerts. The store must hold all batches applied before, and not yet
/// this one, when the histories are read.
pub struct Engine {
    rules: Arc<RuleSet>,
    labels: Arc<LabelsOf>,
    shelves: Vec<Shelf>,
    /// The newest call that moves windows.
    watermark: Option<Micros>,
    swept_at: Option<Micros>,
    /// Changes since the last sweep.
    unswept: usize,
    /// Those of them that are ahead of the clock.
    unswept_future: usize,
    /// Alerts on single calls without a time, which are in no window.
    untimed: FxHashSet<AlertId>,
    /// The store remembers first calls that an earlier database had.
    remembers: bool,
    /// Values seen for the first time, not yet taken.
    first_seen: Vec<FirstSeenFact>,
    /// The last plan's work, so that apply need not evaluate the calls again.
    prepared: Option<Prepared>,
    meter: Meter,
}

/// The groups of one rule.
struct Shelf {
    groups: Groups,
    /// A group that is not in memory has no call later than this; none if it has no call at all.
    cold_before: Option<Micros>,
}

enum Groups {
    Chain(FxHashMap<Key, Group>),
    FirstSeen(FxHashMap<Key, Seen>),
}

/// Shared by all that a batch does to a group.
type Key = Arc<[Text]>;

/// A batch, evaluated and sorted by group.
struct Prepared {
    changes: Vec<CallChange>,
    touches: Vec<Touch>,
    untimed: Vec<Untimed>,
}

struct Touch {
    rule: usize,
    key: Key,
    ops: Vec<Op>,
    earliest: Micros,
}

struct Untimed {
    rule: usize,
    key: Key,
    call: Arc<Call>,
    present: bool,
}

impl Engine {
    pub fn new(rules: Arc<RuleSet>, labels: Arc<LabelsOf>) -> Self {
        let held = |rule: &Rule| Shelf {
            groups: match rule.kind {
                Kind::Chain(_) => Groups::Chain(FxHashMap::default()),
                Kind::FirstSeen(_) => Groups::FirstSeen(FxHashMap::default()),
            },
            cold_before: None,
        };
        Self {
            meter: Meter::new(&rules),
            shelves: rules.rules.iter().map(held).collect(),
            rules,
            labels,
            watermark: None,
            swept_at: None,
            unswept: 0,
            unswept_future: 0,
            untimed: FxHashSet::default(),
            remembers: false,
            first_seen: Vec::new(),
            prepared: None,
        }
    }

    /// Says what the store already holds at the start: the newest time of any call, future ones
    /// included. Groups are then read from the store when a batch first touches them within reach
    /// of that time.
    pub fn cold(&mut self, before: Option<Micros>) {
        for held in &mut self.shelves {
            held.cold_before = held.cold_before.max(before);
        }
    }

    /// Says that the store remembers first calls of an earlier database: groups of first-seen rules
    /// are asked for even where no call of theirs is stored.
    pub fn remember(&mut self) {
        self.remembers = true;
    }

    /// Has the time that rules take told by this clock, in nanoseconds.
    pub fn meter(&mut self, clock: fn() -> u64) {
        self.meter.set_clock(clock);
    }

    /// What each rule has cost so far, in the order of the rule set.
    pub fn costs(&self) -> Vec<RuleCost> {
        let with_groups = |(cost, shelf): (&RuleCost, &Shelf)| RuleCost {
            groups: match &shelf.groups {
                Groups::Chain(groups) => groups.len() as u64,
                Groups::FirstSeen(groups) => groups.len() as u64,
            },
            ..*cost
        };
        self.meter.costs().iter().zip(&self.shelves).map(with_groups).collect()
    }

    /// The values that the batches since the last time showed for the first time, and those that
    /// they took back.
    pub fn take_first_seen(&mut self) -> Vec<FirstSeenFact> {
        std::mem::take(&mut self.first_seen)
    }

    /// What must be read from the store before these changes can be applied.
    pub fn plan(&mut self, changes: &[CallChange]) -> Vec<HistoryNeed> {
        let prepared = self.prepare(changes);
        let needs = prepared.touches.iter().flat_map(|touch| self.needs(touch)).collect();
        self.prepared = Some(prepared);
        needs
    }

    /// Applies a batch. `history` answers the needs that [`Self::plan`] stated for the same
    /// changes.
    pub fn apply(&mut self, changes: &[CallChange], history: Vec<History>) -> Vec<AlertChange> {
        let prepared = match self.prepared.take() {
            Some(prepared) if prepared.is_of(changes) => prepared,
            _ => self.prepare(changes),
        };
        let mut histories: FxHashMap<(usize, Key), History> = FxHashMap::default();
        for history in history {
            let values = history.need.group.iter().map(|(_, value)| Text::clone(value));
            match histories.entry((history.need.rule, values.collect())) {
                // A rule with aliases asks once for each of the fields.
                Entry::Occupied(mut known) => known.get_mut().calls.extend(history.calls),
                Entry::Vacant(free) => {
                    free.insert(history);
                }
            }
        }
        let mut outcomes: Vec<Outcome> = Vec::new();
        outcomes.resize_with(self.rules.rules.len(), Outcome::default);
        for touch in prepared.touches {
            let rule = touch.rule;
            let history = (!histories.is_empty())
                .then(|| histories.remove(&(rule, touch.key.clone())))
                .flatten();
            self.meter.begin_group();
            let outcome = self.settle(touch, history);
            self.meter.settled(rule);
            if let Some(all) = outcomes.get_mut(rule) {
                all.extend(outcome);
            }
        }
        self.settle_untimed(prepared.untimed, &mut outcomes);
        self.advance(changes);
        for outcome in &mut outcomes {
            self.first_seen.append(&mut outcome.first_seen);
        }
        let became: FxHashMap<CallId, CallId> = changes
            .iter()
            .filter_map(|change| Some((change.old.as_ref()?.id, change.new.as_ref()?.id)))
            .collect();
        outcomes.into_iter().flat_map(|outcome| outcome.into_changes(&became)).collect()
    }

    /// Groups in memory, over all rules.
    #[cfg(test)]
    pub(super) fn groups_held(&self) -> usize {
        let held = |shelf: &Shelf| match &shelf.groups {
            Groups::Chain(groups) => groups.len(),
            Groups::FirstSeen(groups) => groups.len(),
        };
        self.shelves.iter().map(held).sum()
    }

    /// Evaluates every call once and sorts what the rules want by group.
    fn prepare(&mut self, changes: &[CallChange]) -> Prepared {
        let rules = &*self.rules;
        let meter = &mut self.meter;
        let mut verdicts = Verdicts::new(rules);
        let mut index: Vec<FxHashMap<Key, usize>> = vec![FxHashMap::default(); rules.rules.len()];
        let mut prepared =
            Prepared { changes: changes.to_vec(), touches: Vec::new(), untimed: Vec::new() };
        let mut key = Vec::new();
        for change in changes {
            let both = [(&change.old, false), (&change.new, true)];
            for (call, present) in both
                .into_iter()
                .filter_map(|(call, present)| call.as_ref().map(|call| (call, present)))
            {
                verdicts.reset();
                meter.begin_call();
                let subject = Subject::new(call, &*self.labels);
                for (number, (rule, index)) in rules.rules.iter().zip(&mut index).enumerate() {
                    let slots = verdicts.slots(rules, rule, &subject);
                    meter.looked(number);
                    if slots == 0 {
                        continue;
                    }
                    rule.each_group(call, slots, &mut key, |key, stages| {
                        meter.fitted(number);
                        let Some(at) = call.at else {
                            prepared.add_untimed(number, rule, key, call, present);
                            return;
                        };
                        if matches!(rule.kind, Kind::FirstSeen(_)) {
                            key.pop();
                        }
                        let event = Event { at, stages, call: Arc::clone(call) };
                        prepared.add(number, index, key, Op { event, present });
                    });
                }
            }
        }
        prepared
    }

    /// One need, or one for each way in which the rule groups its calls.
    fn needs(&self, touch: &Touch) -> Vec<HistoryNeed> {
        let rule = self.rules.rules.get(touch.rule);
        let Some((rule, need)) = rule.zip(self.need(touch)) else {
            return Vec::new();
        };
        let group = |grouping: &Grouping| {
            let names = grouping.fields.iter().map(|field| Text::from(field.as_str()));
            names.zip(touch.key.iter().cloned()).collect()
        };
        let groupings = rule.groupings.iter();
        groupings.map(|of| HistoryNeed { group: group(of), ..need.clone() }).collect()
    }

    fn need(&self, touch: &Touch) -> Option<HistoryNeed> {
        let rule = self.rules.rules.get(touch.rule)?;
        let held = self.shelves.get(touch.rule)?;
        let mut need = HistoryNeed {
            rule: touch.rule,
            group: Vec::new(),
            alert_group: Vec::new(),
            touched: touch.earliest,
            reach_micros: 0,
            felt_until: Micros(i64::MAX),
            quiet_micros: 0,
            settled_before: Micros(i64::MIN),
            whole: false,
            only_remembered: false,
        };
        let is_needed = match (&rule.kind, &held.groups) {
            (Kind::Chain(chain), Groups::Chain(groups)) => {
                (need.reach_micros, need.quiet_micros) = (chain.reach_micros(), chain.quiet_micros);
                let group = groups.get(&touch.key);
                need.settled_before = self.settled_before(chain, group, held.cold_before);
                let past = touch.ops.iter().map(|op| op.event.at);
                // What memory holds takes the rest of the batch.
                let past = past.filter(|at| group.is_none() || *at < need.settled_before);
                let newest = past.max().unwrap_or(touch.earliest);
                need.felt_until = newest.plus(chain.lookback_micros());
                match group {
                    Some(group) => touch.earliest < group.floor,
                    None => held
                        .cold_before
                        .is_some_and(|cold| touch.earliest <= cold.plus(need.reach_micros)),
                }
            }
            (Kind::FirstSeen(first), Groups::FirstSeen(groups)) => {
                (need.touched, need.whole) = (Micros(i64::MIN), true);
                let prefix = Prefix { rule, first, key: &touch.key };
                if let Some(seen) = groups.get(&touch.key) {
                    seen.needs_history(prefix, &touch.ops)
                } else {
                    need.only_remembered = held.cold_before.is_none();
                    self.remembers || !need.only_remembered
                }
            }
            _ => false,
        };
        // Most touches need nothing, and names cost more than the rest of it.
        is_needed.then(|| {
            let values = touch.key.iter().cloned();
            need.alert_group = rule.group_by().map(Text::from).zip(values).collect();
            need
        })
    }

    /// What ends before this is put right on its own, and is not kept: the group in memory goes on
    /// from its floor, and a group that is not in memory has been idle since.
    fn settled_before(
        &self,
        chain: &Chain,
        group: Option<&Group>,
        cold_before: Option<Micros>,
    ) -> Micros {
        if let Some(group) = group {
            return group.floor;
        }
        let idle = self.watermark.map(|watermark| watermark.minus(idle_micros(chain)));
        idle.zip(cold_before).map_or(Micros(i64::MIN), |(idle, cold)| idle.min(cold.plus(1)))
    }

    fn settle(&mut self, touch: Touch, history: Option<History>) -> Outcome {
        let rules = Arc::clone(&self.rules);
        let Some(rule) = rules.rules.get(touch.rule) else {
            return Outcome::default();
        };
        let past = history.map(|history| {
            let mut events = self.events_of(rule, &touch.key, &history.calls);
            events.extend(history.first_seen.iter().map(remembered));
            (events, history)
        });
        let Some(held) = self.shelves.get_mut(touch.rule) else {
            return Outcome::default();
        };
        match (&rule.kind, &mut held.groups) {
            (Kind::Chain(chain), Groups::Chain(groups)) => {
                settle_chain(rule, chain, groups, held.cold_before, touch, past)
            }
            (Kind::FirstSeen(first), Groups::FirstSeen(groups)) => {
                settle_first_seen(rule, first, groups, touch, past)
            }
            _ => Outcome::default(),
        }
    }

    /// The calls of a history that take part in the group.
    fn events_of(&self, rule: &Rule, key: &[Text], calls: &[Arc<Call>]) -> Vec<Event> {
        let mut verdicts = Verdicts::new(&self.rules);
        let event = |call: &Arc<Call>| {
            let at = call.at?;
            verdicts.reset();
            let subject = Subject::new(call, &*self.labels);
            let slots = verdicts.slots(&self.rules, rule, &subject);
            let stages = rule.slots_in(key, call, slots);
            (stages != 0).then(|| Event { at, stages, call: Arc::clone(call) })
        };
        calls.iter().filter_map(event).collect()
    }

    /// A call without a time joins no window: for a single-event rule it is an episode of its own.
    fn settle_untimed(&mut self, untimed: Vec<Untimed>, outcomes: &mut [Outcome]) {
        let rules = Arc::clone(&self.rules);
        let mut last: FxHashMap<AlertId, (Untimed, bool)> = FxHashMap::default();
        let mut order = Vec::new();
        for item in untimed {
            let Some(rule) = rules.rules.get(item.rule) else {
                continue;
            };
            let id = alert_id(rule, &item.key, item.call.id);
            let was_removed = last.get(&id).is_some_and(|(_, removed)| *removed);
            let removed = was_removed || !item.present;
            if last.insert(id, (item, removed)).is_none() {
                order.push(id);
            }
        }
        for id in order {
            let Some((item, removed)) = last.remove(&id) else {
                continue;
            };
            let Some((rule, outcome)) = rules.rules.get(item.rule).zip(outcomes.get_mut(item.rule))
            else {
                continue;
            };
            if !item.present {
                self.untimed.remove(&id);
                outcome.gone.push(Gone { id, closing: item.call.id });
            } else if self.untimed.insert(id) || removed {
                let alert = Box::new(alert(rule, &item.key, &item.call, 1));
                outcome.set.push(Set { alert, is_new: !removed, replaces: Vec::new() });
            }
        }
    }

    /// Moves the watermark and lets go of groups that have been idle for long.
    fn advance(&mut self, changes: &[CallChange]) {
        let newest_of = |with_future: bool| {
            let calls = changes.iter().filter_map(|change| change.new.as_ref());
            // What the tail noticed is dated by the clock, which a backfill's calls are far behind.
            let moves = |call: &&Arc<Call>| {
                call.kind == EventKind::Call && (with_future || !is_future(call))
            };
            calls.filter(moves).filter_map(|call| call.at).max()
        };
        self.watermark = self.watermark.max(newest_of(false));
        self.unswept += changes.len();
        let of_future = changes.iter().filter_map(|change| change.new.as_ref());
        self.unswept_future += of_future.filter(|call| is_future(call)).count();
        // A flood of times far ahead would otherwise be held until they come.
        let is_flooded = self.unswept > UNSWEPT_MAX && self.unswept_future > UNSWEPT_MAX / 2;
        let watermark = self.watermark.max(newest_of(true).filter(|_| is_flooded));
        let Some(watermark) = watermark else {
            return;
        };
        // A sweep looks at every group, so it waits until some can have become idle.
        let is_early = self.swept_at.is_some_and(|swept| watermark.since(swept) < Micros::MINUTE);
        if is_early && !is_flooded {
            return;
        }
        self.swept_at = self.watermark;
        (self.unswept, self.unswept_future) = (0, 0);
        for (rule, held) in self.rules.rules.iter().zip(&mut self.shelves) {
            let Shelf { groups, cold_before } = held;
            match (&rule.kind, groups) {
                (Kind::Chain(chain), Groups::Chain(groups)) => {
                    let before = watermark.minus(idle_micros(chain));
                    groups.retain(|_, group| {
                        let idle = group.idle_since(before);
                        *cold_before = (*cold_before).max(idle);
                        idle.is_none()
                    });
                }
                (_, Groups::FirstSeen(groups)) if groups.len() > FIRST_SEEN_MAX => {
                    groups.clear();
                    *cold_before = (*cold_before).max(Some(watermark));
                }
                _ => {}
            }
        }
    }
}

fn settle_chain(
    rule: &Rule,
    chain: &Chain,
    groups: &mut FxHashMap<Key, Group>,
    cold_before: Option<Micros>,
    touch: Touch,
    past: Option<(Vec<Event>, History)>,
) -> Outcome {
    let key = touch.key.clone();
    let scope = Scope { rule, chain, key: &key };
    if let Some((events, mut history)) = past {
        let Some(until) = history.need.until(&history.alerts) else {
            groups.insert(key.clone(), Group::restore(scope, events, &history));
            return update(groups, scope, cold_before, touch);
        };
        let before = history.need.settled_before;
        let is_past = |op: &Op| !groups.contains_key(&key) || op.event.at < before;
        let (past, ops): (Vec<Op>, Vec<Op>) = touch.ops.into_iter().partition(is_past);
        history.alerts.retain(|alert| alert.closing_at.is_none_or(|at| at <= until));
        let mut outcome = Group::restore(scope, events, &history).update(scope, past);
        if !ops.is_empty() {
            outcome.extend(update(groups, scope, cold_before, Touch { ops, ..touch }));
        }
        return outcome;
    }
    update(groups, scope, cold_before, touch)
}

fn update(
    groups: &mut FxHashMap<Key, Group>,
    scope: Scope<'_>,
    cold_before: Option<Micros>,
    touch: Touch,
) -> Outcome {
    let chain = scope.chain;
    let group = groups.entry(touch.key).or_insert_with(|| {
        // Whatever the group did before is further back than a reach from here.
        let floor =
            cold_before.map_or(Micros(i64::MIN), |cold| cold.plus(chain.reach_micros() + 1));
        Group::new(floor)
    });
    group.update(scope, touch.ops)
}

fn settle_first_seen(
    rule: &Rule,
    first: &FirstSeen,
    groups: &mut FxHashMap<Key, Seen>,
    touch: Touch,
    past: Option<(Vec<Event>, History)>,
) -> Outcome {
    let key = touch.key.clone();
    let prefix = Prefix { rule, first, key: &key };
    if let Some((events, history)) = past {
        let (seen, outcome) = Seen::restore(prefix, events, &history, touch.ops);
        groups.insert(touch.key, seen);
        return outcome;
    }
    groups.entry(touch.key).or_default().update(prefix, &touch.ops)
}

impl Prepared {
    fn is_of(&self, changes: &[CallChange]) -> bool {
        let same = |a: &Option<Arc<Call>>, b: &Option<Arc<Call>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        self.changes.len() == changes.len()
            && self
                .changes
                .iter()
                .zip(changes)
                .all(|(mine, theirs)| same(&mine.old, &theirs.old) && same(&mine.new, &theirs.new))
    }

    fn add(&mut self, rule: usize, index: &mut FxHashMap<Key, usize>, key: &[Text], op: Op) {
        let at = op.event.at;
        if let Some(touch) = index.get(key).and_then(|index| self.touches.get_mut(*index)) {
            touch.earliest = touch.earliest.min(at);
            touch.ops.push(op);
            return;
        }
        let key = Key::from(key);
        index.insert(Key::clone(&key), self.touches.len());
        self.touches.push(Touch { rule, key, ops: vec![op], earliest: at });
    }

    fn add_untimed(
        &mut self,
        number: usize,
        rule: &Rule,
        key: &[Text],
        call: &Arc<Call>,
        present: bool,
    ) {
        if matches!(&rule.kind, Kind::Chain(chain) if chain.is_single()) {
            let call = Arc::clone(call);
            self.untimed.push(Untimed { rule: number, key: key.into(), call, present });
        }
    }
}

/// One pass over a set of calls, in any order: all alerts, by rule and then by group and time as
/// they were found.
pub fn evaluate(rules: Arc<RuleSet>, labels: Arc<LabelsOf>, calls: Vec<Arc<Call>>) -> Vec<Alert> {
    let changes: Vec<CallChange> =
        calls.into_iter().map(|call| CallChange { old: None, new: Some(call) }).collect();
    let told = Engine::new(rules, labels).apply(&changes, Vec::new());
    told.into_iter()
        .filter_map(|change| match change {
            AlertChange::Set { alert, .. } => Some(*alert),
            AlertChange::Retracted { .. } => None,
        })
        .collect()
}
