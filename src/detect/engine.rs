//! The engine: batches of call changes in, alert changes out. What it says depends on the set of
//! calls alone.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{
    Alert, AlertChange, AlertId, Call, CallChange, CallId, EventKind, FirstSeen as FirstSeenFact,
    Micros, Text,
};

use super::board::{Board, settle_chain, settle_first_seen};
use super::chain::{Event, Stubs, is_future};
use super::episode::{alert, alert_id};
use super::field::{LabelsOf, Subject};
use super::glance::{AT_A_TIME, await_calls, await_groups};
use super::group::{Group, Op};
use super::history::{History, HistoryNeed};
use super::key::{Key, Keys, Namer, Numbered, Values};
use super::known::remembered;
use super::limits::Limits;
use super::meter::{Meter, RuleCost};
use super::outcome::{Gone, Outcome, Set};
use super::pace::Pace;
use super::rule::{Grouping, Kind, Rule, RuleSet, Verdicts};
use super::seen::Prefix;
use super::shelf::{Groups, Shelf};
use super::told::Scope;
use super::touch::{Answers, Prepared, Touch, Untimed, answered};

/// Changes among which those far ahead of the clock are counted: they move no window, and where most are of that kind
/// groups are swept all the same.
const FLOOD_OF: usize = 50_000;

/// Evaluates rules over changes to calls, holding a bounded window of every group in memory.
///
/// For each batch: [`Self::plan`] says which histories it needs, [`Self::apply`] takes them and
/// tells what became of the alerts. The store must hold all batches applied before, and not yet
/// this one, when the histories are read.
pub struct Engine {
    rules: Arc<RuleSet>,
    labels: Arc<LabelsOf>,
    shelves: Vec<Shelf>,
    limits: Limits,
    /// What tells how busy the groups of each rule are.
    loads: Vec<Option<Rule>>,
    /// Batches applied.
    batches: u64,
    /// The newest call that moves windows.
    watermark: Option<Micros>,
    /// Changes since they were last looked over for a flood.
    looked_over: usize,
    /// Those of them that are ahead of the clock.
    looked_over_future: usize,
    /// Alerts on single calls without a time, which are in no window.
    untimed: FxHashSet<AlertId>,
    /// The store remembers first calls that an earlier database had.
    remembers: bool,
    /// Values seen for the first time, not yet taken.
    first_seen: Vec<FirstSeenFact>,
    namer: Namer,
    keys: Keys,
    /// Room for the places of a batch's touched groups, by rule.
    index: Vec<Vec<u32>>,
    /// Room for a batch's touched groups, by rule.
    room: Vec<Vec<Touch>>,
    /// Room for what a batch lets go of.
    gone: Vec<Event>,
    /// The last plan's work, so that apply need not evaluate the calls again.
    prepared: Option<Prepared>,
    meter: Meter,
}

impl Engine {
    pub fn new(rules: Arc<RuleSet>, labels: Arc<LabelsOf>) -> Self {
        Self::with_limits(rules, labels, Limits::default())
    }

    pub(super) fn with_limits(rules: Arc<RuleSet>, labels: Arc<LabelsOf>, limits: Limits) -> Self {
        let namer = Namer::default();
        Self {
            meter: Meter::new(&rules),
            keys: Keys::new(&rules, &namer),
            shelves: rules.rules.iter().map(|rule| Shelf::new(rule, &namer)).collect(),
            namer,
            loads: rules.rules.iter().map(|rule| limits.load(rule)).collect(),
            limits,
            batches: 0,
            rules,
            labels,
            watermark: None,
            looked_over: 0,
            looked_over_future: 0,
            untimed: FxHashSet::default(),
            remembers: false,
            first_seen: Vec::new(),
            index: Vec::new(),
            room: Vec::new(),
            gone: Vec::new(),
            prepared: None,
        }
    }

    /// Says what the store already holds at the start: the newest time of any call, and of those that
    /// are not ahead of the clock. Groups are then read from the store when a batch first touches
    /// them within reach of the former; what is far before the latter is put right by itself, and not
    /// kept.
    pub fn cold(&mut self, before: Option<Micros>, settled: Option<Micros>) {
        for shelf in &mut self.shelves {
            shelf.cold.cool(before);
        }
        self.watermark = self.watermark.max(settled);
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
            groups: shelf.len() as u64,
            held: shelf.load().0 as u64,
            let_go: shelf.load().1,
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
        let touches = prepared.touches.iter().flatten();
        let needs = touches.flat_map(|touch| self.needs(touch)).collect();
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
        self.batches += 1;
        let mut answers = Answers::default();
        for history in history {
            let key = self.namer.key(history.need.alert_group.iter().map(|(_, value)| value));
            match answers.entry((history.need.rule, key, history.need.since)) {
                // A rule with aliases asks once for each of the fields.
                Entry::Occupied(mut known) => known.get_mut().calls.extend(history.calls),
                Entry::Vacant(free) => {
                    free.insert(Box::new(history));
                }
            }
        }
        let mut outcomes: Vec<Outcome> = Vec::new();
        outcomes.resize_with(self.rules.rules.len(), Outcome::default);
        let mut touches = prepared.touches;
        for (number, (touches, all)) in touches.iter_mut().zip(&mut outcomes).enumerate() {
            self.meter.begin_rule();
            let mut touches = touches.drain(..);
            if answers.is_empty() {
                while !touches.as_slice().is_empty() {
                    if let Some(shelf) = self.shelves.get(number) {
                        await_groups(&shelf.groups, touches.as_slice());
                    }
                    for touch in touches.by_ref().take(AT_A_TIME) {
                        self.settle(touch, None, all);
                    }
                }
            } else {
                for (touch, history) in answered(touches, &mut answers) {
                    self.settle(touch, history, all);
                }
            }
            Event::let_go(&mut self.gone);
            self.meter.settled(number);
        }
        // The next batch is as large, mostly.
        self.room = touches;
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

    /// Calls before the floors and behind them that were gone through, over all rules and batches.
    #[cfg(test)]
    pub(super) fn walked(&self) -> u64 {
        let of_shelf = |shelf: &Shelf| match &shelf.groups {
            Groups::Chain(groups) => groups.values().map(|group| group.walked).sum(),
            Groups::FirstSeen(_) => 0,
        };
        self.shelves.iter().map(of_shelf).sum()
    }

    /// Groups in memory, over all rules.
    #[cfg(test)]
    pub(super) fn groups_held(&self) -> usize {
        self.shelves.iter().map(Shelf::len).sum()
    }

    /// Evaluates every call once and sorts what the rules want by group.
    fn prepare(&mut self, changes: &[CallChange]) -> Prepared {
        let rules = &*self.rules;
        let meter = &mut self.meter;
        let mut verdicts = Verdicts::new(rules);
        let mut index = std::mem::take(&mut self.index);
        index.resize_with(rules.rules.len(), Vec::new);
        let mut prepared =
            Prepared::new(changes, std::mem::take(&mut self.room), rules.rules.len());
        let keys = &mut self.keys;
        keys.begin_batch();
        let mut values = Vec::new();
        for (place, change) in changes.iter().enumerate() {
            if place.is_multiple_of(AT_A_TIME) {
                await_calls(changes.get(place..).unwrap_or_default());
            }
            let both = [(&change.old, false), (&change.new, true)];
            for (call, present) in both
                .into_iter()
                .filter_map(|(call, present)| call.as_ref().map(|call| (call, present)))
            {
                verdicts.reset();
                keys.reset();
                meter.begin_call();
                let subject = Subject::new(call, &*self.labels);
                for (number, (rule, index)) in rules.rules.iter().zip(&mut index).enumerate() {
                    let slots = verdicts.slots(rules, rule, &subject);
                    meter.looked(number);
                    if slots == 0 {
                        continue;
                    }
                    let mut add = |key: Numbered, stages| {
                        meter.fitted(number);
                        let Some(at) = call.at else {
                            prepared.add_untimed(number, rule, key.0, call, present);
                            return;
                        };
                        let event = Event::new(at, stages, call);
                        prepared.add(number, index, key, Op { event, present });
                    };
                    if keys.has(number) {
                        if let Some(key) = keys.of(number, call).filter(|_| rule.names_value(call))
                        {
                            add(key, slots);
                        }
                    } else {
                        rule.each_group(call, slots, &mut values, |values, stages| {
                            add(keys.of_values(rule.named(values)), stages);
                        });
                    }
                }
            }
        }
        index.iter_mut().for_each(Vec::clear);
        self.index = index;
        prepared.split(rules, &self.shelves);
        prepared
    }

    /// One need, or one for each way in which the rule groups its calls.
    fn needs(&self, touch: &Touch) -> Vec<HistoryNeed> {
        let rule = self.rules.rules.get(touch.rule);
        let Some((rule, need)) = rule.zip(self.need(touch)) else {
            return Vec::new();
        };
        let values = need.alert_group.iter().map(|(_, value)| value);
        let group = |grouping: &Grouping| {
            let names = grouping.fields.iter().map(|field| Text::from(field.as_str()));
            names.zip(values.clone().cloned()).collect()
        };
        let groupings = rule.groupings.iter();
        groupings.map(|of| HistoryNeed { group: group(of), ..need.clone() }).collect()
    }

    fn need(&self, touch: &Touch) -> Option<HistoryNeed> {
        let rule = self.rules.rules.get(touch.rule)?;
        let held = self.shelves.get(touch.rule)?;
        if held.needs_nothing(touch.earliest) {
            return None;
        }
        let cold_before = || held.cold.before(touch.key);
        let mut need = HistoryNeed {
            rule: touch.rule,
            group: Vec::new(),
            alert_group: Vec::new(),
            touched: touch.earliest,
            since: touch.earliest,
            reach_micros: 0,
            felt_until: Micros(i64::MAX),
            quiet_micros: 0,
            settled_before: Micros(i64::MIN),
            whole: false,
            only_remembered: false,
        };
        let is_needed = match (&rule.kind, &held.groups) {
            (Kind::Chain(chain), Groups::Chain(groups)) => {
                let pace = &held.pace;
                (need.reach_micros, need.quiet_micros) = (pace.reach_micros, chain.quiet_micros);
                let known = groups.get(&touch.key);
                let load = self.loads.get(touch.rule).and_then(Option::as_ref);
                let busy_from = load.map_or(u64::MAX, |load| load.kind.threshold());
                let is_lacking =
                    known.is_some_and(|group| group.lacks(chain, busy_from, &touch.ops));
                // One that lacks calls is read again from its floor on: it would not go back to what comes between.
                let group = known.filter(|_| !is_lacking);
                if is_lacking {
                    let floor = known.map_or(touch.earliest, |group| group.floor);
                    need.touched = touch.earliest.min(floor);
                } else {
                    need.settled_before = self.settled_before(pace, group, cold_before);
                }
                let past = touch.ops.iter().map(|op| op.event.at());
                // What memory holds takes the rest of the batch.
                let past = past.filter(|at| group.is_none() || *at < need.settled_before);
                let newest = past.max().unwrap_or(touch.earliest);
                need.felt_until = newest.plus(pace.lookback_micros);
                let reached = |cold: Micros| touch.earliest <= cold.plus(need.reach_micros);
                if let Some(group) = group {
                    touch.earliest < group.floor
                } else {
                    is_lacking || cold_before().is_some_and(reached)
                }
            }
            (Kind::FirstSeen(first), Groups::FirstSeen(groups)) => {
                (need.touched, need.whole) = (Micros(i64::MIN), true);
                let prefix =
                    Prefix { rule, first, key: touch.key, values: self.values(rule, touch)? };
                if let Some(seen) = groups.get(&touch.key) {
                    seen.needs_history(prefix, &touch.ops)
                } else {
                    need.only_remembered = cold_before().is_none();
                    (self.remembers || !need.only_remembered)
                        && held.passed.needs_history(prefix, &touch.ops, self.limits.values_max)
                }
            }
            _ => false,
        };
        // Most touches need nothing, and names cost more than the rest of it.
        is_needed.then(|| {
            let values = self.values(rule, touch).map(Values::list).unwrap_or_default();
            need.alert_group = rule.group_by().map(Text::from).zip(values).collect();
            need
        })
    }

    fn values<'a>(&'a self, rule: &'a Rule, touch: &'a Touch) -> Option<Values<'a>> {
        Some(Values::Of { rule, namer: &self.namer, key: touch.key, call: touch.call()? })
    }

    /// What ends before this is put right on its own, and is not kept: the group in memory goes on
    /// from its floor, and a group that is not in memory has been idle since.
    fn settled_before(
        &self,
        pace: &Pace,
        group: Option<&Group>,
        cold_before: impl Fn() -> Option<Micros>,
    ) -> Micros {
        if let Some(group) = group {
            return group.floor;
        }
        let idle = self.watermark.map(|watermark| watermark.minus(pace.idle_micros));
        idle.zip(cold_before()).map_or(Micros(i64::MIN), |(idle, cold)| idle.min(cold.plus(1)))
    }

    fn settle(&mut self, mut touch: Touch, history: Option<Box<History>>, told: &mut Outcome) {
        let rules = Arc::clone(&self.rules);
        let Some(rule) = rules.rules.get(touch.rule) else {
            return;
        };
        if history.is_none() {
            match self.absorb(rule, touch) {
                Some(rest) => touch = rest,
                None => return,
            }
        }
        let past = history.map(|history| {
            let mut events = self.events_of(rule, touch.key, &history.calls);
            events.extend(history.first_seen.iter().map(remembered));
            (events, history)
        });
        let load = self.loads.get(touch.rule).and_then(Option::as_ref);
        let batch = self.batches;
        let Some(own) = self.shelves.get_mut(touch.rule) else { return };
        let Some(call) = touch.call().cloned() else { return };
        let key = touch.key;
        let values = Values::Of { rule, namer: &self.namer, key, call: &call };
        let (weight, cold, pace) = (&mut own.held, &own.cold, &own.pace);
        let floors_until = &mut own.floors_until;
        let outcome = match (&rule.kind, &mut own.groups) {
            (Kind::Chain(chain), Groups::Chain(groups)) => {
                let scope = Scope { rule, chain, values, load };
                let mut board = Board { groups, weight, cold, pace, floors_until };
                settle_chain(scope, &mut board, touch, past)
            }
            (Kind::FirstSeen(first), Groups::FirstSeen(groups)) => {
                let prefix = Prefix { rule, first, key, values };
                if let Some((events, _)) = &past {
                    let events = events.iter().chain(touch.ops.iter().map(|op| &op.event));
                    let values = events.filter_map(|event| prefix.value(event));
                    own.passed.recall(key, values);
                } else if !groups.contains_key(&key)
                    && let Some(fresh) = own.passed.fresh(prefix, &touch.ops)
                {
                    return told.extend(own.passed.tell(prefix, &fresh));
                }
                let mut board = Board { groups, weight, cold, pace, floors_until };
                settle_first_seen(prefix, &mut board, batch, touch, past)
            }
            _ => return,
        };
        told.extend(outcome);
    }

    /// Takes changes that plainly lead to nothing; gives back others.
    fn absorb(&mut self, rule: &Rule, touch: Touch) -> Option<Touch> {
        let load = self.loads.get(touch.rule).and_then(Option::as_ref);
        let busy_from = load.map_or(u64::MAX, |load| load.kind.threshold());
        let own = self.shelves.get_mut(touch.rule)?;
        let (weight, cold, pace) = (&mut own.held, &own.cold, &own.pace);
        let floors_until = &mut own.floors_until;
        let gone = &mut self.gone;
        match (&rule.kind, &mut own.groups) {
            (Kind::Chain(chain), Groups::Chain(groups)) => {
                let mut board = Board { groups, weight, cold, pace, floors_until };
                let ops = board.with(touch.key, |group| {
                    group.absorb(chain, pace, busy_from, touch.ops, gone)
                })?;
                Some(Touch { ops, ..touch })
            }
            (Kind::FirstSeen(first), Groups::FirstSeen(groups)) => {
                let values =
                    Values::Of { rule, namer: &self.namer, key: touch.key, call: touch.call()? };
                let prefix = Prefix { rule, first, key: touch.key, values };
                let known = groups.get_mut(&touch.key);
                match known.filter(|seen| seen.knows(prefix, &touch.ops)) {
                    Some(seen) => seen.used_in = self.batches,
                    None => return Some(touch),
                }
                None
            }
            _ => Some(touch),
        }
    }

    /// The calls of a history that take part in the group.
    fn events_of(&self, rule: &Rule, key: Key, calls: &[Arc<Call>]) -> Vec<Event> {
        let mut verdicts = Verdicts::new(&self.rules);
        let event = |call: &Arc<Call>| {
            let at = call.at?;
            verdicts.reset();
            let subject = Subject::new(call, &*self.labels);
            let slots = verdicts.slots(&self.rules, rule, &subject);
            let is_it = |values: &[Text]| self.namer.key(rule.named(values).iter()) == key;
            let stages = rule.slots_in(call, slots, is_it);
            (stages != 0).then(|| Event::new(at, stages, call))
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
            let values = rule.values(&self.namer, item.key, &item.call);
            let id = alert_id(rule, &values, item.call.id);
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
                let values = rule.values(&self.namer, item.key, &item.call);
                let alert = Box::new(alert(rule, &values, &item.call, 1));
                outcome.set.push(Set { alert, is_new: !removed, replaces: Vec::new() });
            }
        }
    }

    /// Moves the watermark and lets go of groups that have been idle for long, or are too many.
    fn advance(&mut self, changes: &[CallChange]) {
        self.sweep(changes);
        let mut stubs = Stubs::default();
        for (rule, shelf) in self.rules.rules.iter().zip(&mut self.shelves) {
            shelf.make_room(rule, &self.limits, self.batches, &mut stubs, &mut self.gone);
        }
        Event::let_go(&mut self.gone);
    }

    fn sweep(&mut self, changes: &[CallChange]) {
        let newest_of = |with_future: bool| {
            let calls = changes.iter().filter_map(|change| change.new.as_ref());
            // What the tail noticed is dated by the clock, which a backfill's calls are far behind.
            let moves = |call: &&Arc<Call>| {
                call.kind == EventKind::Call && (with_future || !is_future(call))
            };
            calls.filter(moves).filter_map(|call| call.at).max()
        };
        self.watermark = self.watermark.max(newest_of(false));
        self.looked_over += changes.len();
        let of_future = changes.iter().filter_map(|change| change.new.as_ref());
        self.looked_over_future += of_future.filter(|call| is_future(call)).count();
        // A flood of times far ahead would otherwise be held until they come.
        let is_full = self.looked_over > FLOOD_OF;
        let is_flooded = is_full && self.looked_over_future > FLOOD_OF / 2;
        if is_full {
            (self.looked_over, self.looked_over_future) = (0, 0);
        }
        let watermark = self.watermark.max(newest_of(true).filter(|_| is_flooded));
        let Some(watermark) = watermark else {
            return;
        };
        for shelf in &mut self.shelves {
            shelf.sweep(watermark, is_flooded, &mut self.gone);
        }
        Event::let_go(&mut self.gone);
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
