//! The state of one group of a first-seen rule: the earliest call of every value.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{AlertId, Call, CallId, FirstSeen as Fact, Micros, Text};

use super::chain::Event;
use super::episode::{alert, alert_id};
use super::field::GroupField;
use super::group::{Op, apply};
use super::history::History;
use super::key::{Key, Values};
use super::known::is_remembered;
use super::outcome::{Gone, Outcome, Set};
use super::rule::{FirstSeen, Rule};
use super::touch::Ops;

/// The values of a rule's last group-by field, for one group of the others.
#[derive(Debug, Default)]
pub(super) struct Seen {
    values: FxHashMap<Text, Value>,
    /// The first values, which raise nothing.
    home: FxHashSet<Text>,
    /// The latest of the earliest calls of those that are home by their number.
    edge: Option<Event>,
    /// Values first seen up to then are home as well.
    learned_until: Option<Micros>,
    /// There are as many home values as the rule has of them by number.
    is_settled: bool,
    /// The number of the batch that touched it last.
    pub(super) used_in: u64,
}

#[derive(Debug)]
struct Value {
    earliest: Event,
    /// The closing call of the alert as it was last reported; none where there is no alert.
    told: Option<Arc<Call>>,
}

/// A rule with its first-seen part and the values of one of its groups, without the last field's.
#[derive(Clone, Copy)]
pub(super) struct Prefix<'a> {
    pub(super) rule: &'a Rule,
    pub(super) first: &'a FirstSeen,
    pub(super) key: Key,
    pub(super) values: Values<'a>,
}

impl Prefix<'_> {
    fn field(&self) -> Option<&GroupField> {
        self.rule.groupings.first()?.fields.last()
    }

    pub(super) fn value<'e>(&self, event: &'e Event) -> Option<&'e Text> {
        self.field()?.value(event.call()?)
    }

    fn group(&self, value: &Text) -> Vec<Text> {
        let mut values = self.values.list();
        values.push(Text::clone(value));
        values
    }

    fn alert_id(&self, value: &Text, closing: CallId) -> AlertId {
        alert_id(self.rule, &self.group(value), closing)
    }

    fn gone(&self, value: &Text, told: &Call) -> Gone {
        Gone { id: self.alert_id(value, told.id), closing: told.id }
    }

    /// What outlives the database of a value's earliest call.
    fn fact(&self, value: &Text, earliest: &Event, is_gone: bool) -> Option<Fact> {
        let call = earliest.call()?;
        let fields = self.rule.group_by().map(Text::from);
        Some(Fact {
            rule: Text::clone(&self.rule.name),
            group: fields.zip(self.group(value)).collect(),
            at: earliest.at(),
            stream: Text::clone(&call.stream),
            call_id: call.id,
            tool: Text::clone(&call.tool),
            server: call.server.clone(),
            code: Text::clone(&call.code),
            is_gone,
        })
    }
}

/// The values whose earliest call a batch changed, and that call as it was before.
type Touched = FxHashMap<Text, Option<Event>>;

/// What became of the earliest call of a value.
enum Change {
    None,
    /// There was none before.
    First,
    /// This was it before.
    From(Event),
}

impl Seen {
    /// How much of memory it takes, in values.
    pub(super) fn weight(&self) -> usize {
        self.values.len() + 1
    }

    /// Looks at what a change to the group will be held against.
    pub(super) fn glance(&self) -> i64 {
        self.firsts().map(|(value, at)| at.0 | i64::from(value.is_empty())).next().unwrap_or(0)
    }

    /// Every value, and when it was first seen.
    pub(super) fn firsts(&self) -> impl Iterator<Item = (&Text, Micros)> {
        self.values.iter().map(|(value, held)| (value, held.earliest.at()))
    }

    /// True if the changes plainly change nothing: they are of calls later than the earliest of their values.
    pub(super) fn knows(&self, prefix: Prefix<'_>, ops: &[Op]) -> bool {
        ops.iter().all(|op| {
            let held = prefix.value(&op.event).and_then(|value| self.values.get(value));
            held.is_some_and(|held| held.earliest.at() < op.event.at())
        })
    }

    /// True if the changes take away a call that is the earliest of its value: only the store knows
    /// the next.
    pub(super) fn needs_history(&self, prefix: Prefix<'_>, ops: &[Op]) -> bool {
        ops.iter().any(|op| !op.present)
            && net(prefix, ops).iter().any(|op| {
                let value = prefix.value(&op.event).and_then(|value| self.values.get(value));
                !op.present && value.is_some_and(|value| is_same(&value.earliest, &op.event))
            })
    }

    /// After when a new value is news, whatever other values there are; none while values can be home.
    pub(super) fn settled_at(&self) -> Option<Micros> {
        let edge = self.edge.as_ref().map_or(Micros(i64::MIN), Event::at);
        self.is_settled.then(|| edge.max(self.learned_until.unwrap_or(edge)))
    }

    /// What changes to values say that their group does not have, later than its [`Self::settled_at`].
    pub(super) fn news(prefix: Prefix<'_>, ops: &[Op]) -> (Self, Outcome) {
        let mut seen = Self { is_settled: true, ..Self::default() };
        let outcome = seen.update(prefix, ops);
        (seen, outcome)
    }

    /// Takes a batch's changes and tells what they did to the alerts.
    pub(super) fn update(&mut self, prefix: Prefix<'_>, ops: &[Op]) -> Outcome {
        let mut touched = Touched::default();
        let mut outcome = Outcome::default();
        for op in net(prefix, ops) {
            let Some(value) = prefix.value(&op.event) else {
                continue;
            };
            let change = if op.present {
                self.insert(value, &op.event)
            } else {
                self.remove(prefix, value, &op.event, &mut outcome)
            };
            let before = match change {
                Change::None => continue,
                Change::First => None,
                Change::From(event) => Some(event),
            };
            touched.entry(Text::clone(value)).or_insert(before);
        }
        self.tell(prefix, &touched, &mut outcome);
        self.report(prefix, &touched, &mut outcome);
        outcome
    }

    /// Starts over from the store's view, then takes the batch's changes.
    pub(super) fn restore(
        prefix: Prefix<'_>,
        mut events: Vec<Event>,
        history: &History,
        ops: Ops,
    ) -> (Self, Outcome) {
        events.sort_by(Event::order);
        let before = Self::of(prefix, &events);
        let mut known: FxHashMap<AlertId, CallId> =
            history.alerts.iter().map(|known| (known.id, known.closing)).collect();
        // A call that is withdrawn takes what is remembered of it along.
        let withdrawn: FxHashSet<CallId> =
            ops.iter().filter(|op| !op.present).map(|op| op.event.id()).collect();
        events.retain(|event| !is_fact(event) || !withdrawn.contains(&event.id()));
        let mut events = events.into();
        apply(&mut events, ops);
        let mut seen = Self::of(prefix, &events);
        // Every value of either may have changed.
        let mut all: Touched = seen.values.keys().map(|value| (value.clone(), None)).collect();
        for (value, held) in before.values {
            if let Some(now) = seen.values.get_mut(&value)
                && known.remove(&prefix.alert_id(&value, held.earliest.id())).is_some()
            {
                now.told = held.earliest.call().cloned();
            }
            all.insert(value, Some(held.earliest));
        }
        // What is left is borne out by nothing.
        let mut outcome = Outcome::default();
        outcome.gone.extend(known.into_iter().map(|(id, closing)| Gone { id, closing }));
        outcome.gone.sort_by_key(|gone| gone.id);
        seen.tell(prefix, &all, &mut outcome);
        seen.report(prefix, &all, &mut outcome);
        (seen, outcome)
    }

    /// The earliest call per value of ordered events.
    fn of(prefix: Prefix<'_>, events: &[Event]) -> Self {
        let mut seen = Self::default();
        for event in events {
            if let Some(value) = prefix.value(event) {
                seen.insert(value, event);
            }
        }
        seen.find_home(prefix.first);
        seen
    }

    /// Takes the event in, if it now is the earliest of its value, or is it with another content.
    fn insert(&mut self, value: &Text, event: &Event) -> Change {
        let Some(held) = self.values.get_mut(value) else {
            let fresh = Value { earliest: event.clone(), told: None };
            self.values.insert(Text::clone(value), fresh);
            return Change::First;
        };
        let is_same = is_same(event, &held.earliest);
        let is_later = !is_same && event.order(&held.earliest).is_gt();
        if is_later || (is_same && event.call() == held.earliest.call()) {
            return Change::None;
        }
        Change::From(std::mem::replace(&mut held.earliest, event.clone()))
    }

    /// Forgets a value whose earliest call the event was.
    fn remove(
        &mut self,
        prefix: Prefix<'_>,
        value: &Text,
        event: &Event,
        outcome: &mut Outcome,
    ) -> Change {
        let is_held = self.values.get(value).is_some_and(|held| is_same(&held.earliest, event));
        if !is_held {
            return Change::None;
        }
        let Some(held) = self.values.remove(value) else { return Change::None };
        outcome.gone.extend(held.told.map(|told| prefix.gone(value, &told)));
        Change::From(held.earliest)
    }

    /// Tells which values were seen for the first time, home values too.
    fn tell(&self, prefix: Prefix<'_>, touched: &Touched, outcome: &mut Outcome) {
        for (value, before) in touched {
            let now = self.values.get(value).map(|held| &held.earliest);
            match (before, now) {
                (Some(before), Some(now)) if is_same(before, now) => {}
                (_, Some(now)) => outcome.first_seen.extend(prefix.fact(value, now, false)),
                (Some(before), None) => outcome.first_seen.extend(prefix.fact(value, before, true)),
                (None, None) => {}
            }
        }
    }

    /// Compares the touched values with what was told; all values, if the home values may have
    /// changed.
    fn report(&mut self, prefix: Prefix<'_>, touched: &Touched, outcome: &mut Outcome) {
        let at_home = |value: &Text| {
            let held = self.values.get(value);
            self.home.contains(value)
                || held
                    .zip(self.learned_until)
                    .is_some_and(|(held, until)| held.earliest.at() <= until)
                || held
                    .zip(self.edge.as_ref())
                    .is_some_and(|(held, edge)| held.earliest.order(edge).is_lt())
        };
        let is_stable = self.is_settled && !touched.keys().any(at_home);
        let mut values: Vec<Text> = if is_stable {
            touched.keys().cloned().collect()
        } else {
            self.find_home(prefix.first);
            self.values.keys().cloned().collect()
        };
        values.sort_unstable();
        for value in values {
            self.report_value(prefix, &value, outcome);
        }
    }

    fn report_value(&mut self, prefix: Prefix<'_>, value: &Text, outcome: &mut Outcome) {
        let Some(held) = self.values.get_mut(value) else {
            return;
        };
        if self.home.contains(value) {
            outcome.gone.extend(held.told.take().map(|told| prefix.gone(value, &told)));
            return;
        }
        let Some(closing) = held.earliest.call().cloned() else { return };
        let former = held.told.replace(Arc::clone(&closing));
        if former.as_ref() == Some(&closing) {
            return;
        }
        let more_than_home = prefix.first.baseline as u64 + 1;
        let replaced = former.as_ref().filter(|former| former.id != closing.id);
        outcome.set.push(Set {
            alert: Box::new(alert(prefix.rule, &prefix.group(value), &closing, more_than_home)),
            is_new: former.is_none(),
            replaces: replaced.map(|told| prefix.gone(value, told).id).into_iter().collect(),
        });
    }

    /// Finds the values whose earliest calls come first: as many as are home by their number, and
    /// those of the time in which the rule learns.
    fn find_home(&mut self, first: &FirstSeen) {
        let baseline = first.baseline;
        let mut order: Vec<(&Text, &Event)> =
            self.values.iter().map(|(value, held)| (value, &held.earliest)).collect();
        if baseline < order.len() {
            order.select_nth_unstable_by(baseline, |a, b| a.1.order(b.1));
            order.truncate(baseline);
        }
        let edge = order.iter().map(|(_, event)| *event).max_by(|a, b| a.order(b));
        let mut home: FxHashSet<Text> = order.iter().map(|(value, _)| Text::clone(value)).collect();
        let earliest = self.values.values().map(|held| held.earliest.at()).min();
        let learned_until =
            first.learning_micros.zip(earliest).map(|(learning, from)| from.plus(learning));
        if let Some(until) = learned_until {
            let learned = self.values.iter().filter(|(_, held)| held.earliest.at() <= until);
            home.extend(learned.map(|(value, _)| Text::clone(value)));
        }
        self.is_settled = order.len() == baseline;
        self.edge = edge.cloned();
        (self.home, self.learned_until) = (home, learned_until);
    }
}

/// Whether two events are one call at one time. What is remembered of a call has no place in a file.
fn is_same(left: &Event, right: &Event) -> bool {
    let is_either_remembered = is_fact(left) || is_fact(right);
    left.order(right).is_eq()
        || (is_either_remembered && left.at() == right.at() && left.id() == right.id())
}

fn is_fact(event: &Event) -> bool {
    event.call().is_some_and(|call| is_remembered(call))
}

/// The changes in order, of several to one call with one value only the last.
fn net(prefix: Prefix<'_>, ops: &[Op]) -> Ops {
    let order = |a: &Op, b: &Op| {
        let values = || prefix.value(&a.event).cmp(&prefix.value(&b.event));
        a.event.order(&b.event).then_with(values)
    };
    let mut ops: Ops = ops.iter().cloned().collect();
    ops.sort_by(order);
    let mut out = Ops::with_capacity(ops.len());
    for op in ops {
        match out.last_mut() {
            Some(last) if order(last, &op).is_eq() => *last = op,
            _ => out.push(op),
        }
    }
    out
}
