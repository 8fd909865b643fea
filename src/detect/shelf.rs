//! The groups of one rule that are held in memory, and what is known of those that are not.

use rustc_hash::FxHashMap;

use crate::model::Micros;

use super::chain::{Event, Stubs};
use super::cold::Cold;
use super::group::{Group, PLACES_OF_A_CALL};
use super::key::{Key, Namer};
use super::limits::Limits;
use super::pace::Pace;
use super::passed::Passed;
use super::rule::{Kind, Rule};
use super::seen::Seen;

/// The groups of one rule.
pub(super) struct Shelf {
    pub(super) groups: Groups,
    /// What the groups hold: places of calls, or values, and one for each group.
    pub(super) held: usize,
    pub(super) cold: Cold,
    /// Of a chain rule.
    pub(super) pace: Pace,
    /// No floor of a group is later.
    pub(super) floors_until: Micros,
    /// No group holds less than the calls themselves.
    pub(super) is_whole: bool,
    evictions: u64,
    /// The newest call when idle groups were last looked for.
    swept_at: Option<Micros>,
    /// Groups of a first-seen rule that were let go.
    pub(super) passed: Passed,
}

pub(super) enum Groups {
    Chain(FxHashMap<Key, Group>),
    FirstSeen(FxHashMap<Key, Seen>),
}

impl Shelf {
    pub(super) fn new(rule: &Rule, namer: &Namer) -> Self {
        Self {
            groups: match rule.kind {
                Kind::Chain(_) => Groups::Chain(FxHashMap::default()),
                Kind::FirstSeen(_) => Groups::FirstSeen(FxHashMap::default()),
            },
            held: 0,
            cold: Cold::default(),
            pace: match &rule.kind {
                Kind::Chain(chain) => Pace::new(chain),
                Kind::FirstSeen(_) => Pace::default(),
            },
            floors_until: Micros(i64::MIN),
            is_whole: true,
            evictions: 0,
            swept_at: None,
            passed: Passed::new(namer),
        }
    }

    /// True if it is plain, without a look at the group, that what happens to one from then on needs nothing from the
    /// store: memory holds all of its calls from there on, or it has none within reach.
    pub(super) fn needs_nothing(&self, earliest: Micros) -> bool {
        let is_reached = |cold: Micros| earliest <= cold.plus(self.pace.reach_micros);
        matches!(self.groups, Groups::Chain(_))
            && self.is_whole
            && earliest >= self.floors_until
            && !self.cold.until().is_some_and(is_reached)
    }

    /// From when on memory holds a group of a chain rule, if it does.
    pub(super) fn held_from(&self, key: Key) -> Option<Micros> {
        match &self.groups {
            Groups::Chain(groups) => groups.get(&key).map(|group| group.floor),
            Groups::FirstSeen(_) => None,
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.groups {
            Groups::Chain(groups) => groups.len(),
            Groups::FirstSeen(groups) => groups.len(),
        }
    }

    /// What the groups hold, in calls or values, and how many were let go to make room.
    pub(super) const fn load(&self) -> (usize, u64) {
        (self.held.div_ceil(self.weight_of_one()), self.evictions)
    }

    /// What a call weighs, or a value.
    const fn weight_of_one(&self) -> usize {
        match &self.groups {
            Groups::Chain(_) => PLACES_OF_A_CALL,
            Groups::FirstSeen(_) => 1,
        }
    }

    /// Lets go of groups that nothing can concern any more. That is a look at every group, so it waits, unless it must
    /// not, until some of them can have become idle: those that it then finds late are few beside those that it keeps.
    pub(super) fn sweep(&mut self, watermark: Micros, is_pressing: bool, let_go: &mut Vec<Event>) {
        let Groups::Chain(groups) = &mut self.groups else { return };
        let pace = &self.pace;
        let waits_micros = Micros::MINUTE.max(pace.spent_idle_micros / 4);
        let is_early = self.swept_at.is_some_and(|swept| watermark.since(swept) < waits_micros);
        if is_early && !is_pressing {
            return;
        }
        // One that must not wait may go by a time far ahead, which the others would then wait for.
        if !is_pressing {
            self.swept_at = Some(watermark);
        }
        let held = &mut self.held;
        let (mut gone, mut is_whole) = (None, true);
        groups.retain(|_, group| {
            let idle = group.idle_since(pace, watermark);
            if idle.is_some() {
                gone = gone.max(idle);
                *held = held.saturating_sub(group.weight());
                group.empty(let_go);
                Event::let_go_if_many(let_go);
            }
            is_whole &= group.is_whole();
            idle.is_none()
        });
        self.is_whole = is_whole;
        self.cold.cool(gone);
    }

    /// Makes room where there is more than there may be: the groups go that were not touched for
    /// longest. Those of a first-seen rule stay if this batch touched them, since all of their past
    /// would have to be read again.
    pub(super) fn make_room(
        &mut self,
        rule: &Rule,
        limits: &Limits,
        batch: u64,
        stubs: &mut Stubs,
        gone: &mut Vec<Event>,
    ) {
        let held_max = limits.calls_max.saturating_mul(self.weight_of_one());
        if self.held <= held_max && self.len() <= limits.groups_max {
            return;
        }
        // To let the heaviest group go would be to read it again for the next batch that touches it.
        let heaviest = self.heaviest();
        let is_little_more = self.held <= heaviest.saturating_add(held_max / 4);
        if is_little_more && self.len() <= limits.groups_max {
            return;
        }
        if let (Kind::Chain(chain), Groups::Chain(groups)) = (&rule.kind, &mut self.groups)
            && self.held > held_max
            && !chain.looks_at_calls()
        {
            shrink(groups, stubs, &mut self.held, held_max / 4 * 3);
            self.is_whole = false;
            if self.held <= held_max && self.len() <= limits.groups_max {
                return;
            }
        }
        let room = Room {
            held: &mut self.held,
            cold: &mut self.cold,
            calls: (held_max / 4 * 3).max(heaviest),
            spared_weight: if heaviest > held_max / 2 { heaviest } else { usize::MAX },
            groups: limits.groups_max / 4 * 3,
        };
        let batch = i64::try_from(batch).unwrap_or(i64::MAX);
        let passed = &mut self.passed;
        self.evictions += match (&rule.kind, &mut self.groups) {
            (Kind::Chain(_), Groups::Chain(groups)) => {
                let pace = &self.pace;
                let age = |group: &Group| (group.settled_at().0, group.felt_at(pace));
                room.make(groups, i64::MAX, age, Group::weight, |_, group| {
                    group.empty(gone);
                    Event::let_go_if_many(gone);
                })
            }
            (_, Groups::FirstSeen(groups)) => {
                let age = |seen: &Seen| {
                    (i64::try_from(seen.used_in).unwrap_or(i64::MAX), Micros(i64::MIN))
                };
                room.make(groups, batch, age, Seen::weight, |key, seen| {
                    passed.let_go(key, seen, limits.values_max);
                })
            }
            _ => 0,
        };
        self.cold.bound(limits.evicted_max);
    }

    /// What the heaviest group takes.
    fn heaviest(&self) -> usize {
        let heaviest = match &self.groups {
            Groups::Chain(groups) => groups.values().map(Group::weight).max(),
            Groups::FirstSeen(groups) => groups.values().map(Seen::weight).max(),
        };
        heaviest.unwrap_or(0)
    }
}

/// Where there is too much, and how much there may be.
struct Room<'a> {
    held: &'a mut usize,
    cold: &'a mut Cold,
    calls: usize,
    groups: usize,
    /// A group as heavy as this stays.
    spared_weight: usize,
}

impl Room<'_> {
    /// Lets the oldest groups go, younger ones than `spared`; tells how many. `age` says when a group
    /// was last touched, in whatever measure, and its newest call.
    fn make<G>(
        self,
        groups: &mut FxHashMap<Key, G>,
        spared: i64,
        age: impl Fn(&G) -> (i64, Micros),
        weight: impl Fn(&G) -> usize,
        mut let_go: impl FnMut(Key, &mut G),
    ) -> u64 {
        let mut ages: Vec<(i64, usize)> = groups
            .values()
            .map(|group| (age(group).0, weight(group)))
            .filter(|(_, weight)| *weight < self.spared_weight)
            .collect();
        ages.sort_unstable();
        let (mut held, mut left) = (*self.held, groups.len());
        let mut gone_until = None;
        for (age, weight) in ages {
            if age >= spared || held <= self.calls && left <= self.groups {
                break;
            }
            (held, left) = (held.saturating_sub(weight), left - 1);
            gone_until = Some(age);
        }
        let Some(gone_until) = gone_until else { return 0 };
        let before = groups.len();
        groups.retain(|key, group| {
            let (age, newest) = age(group);
            if age > gone_until || weight(group) >= self.spared_weight {
                return true;
            }
            *self.held = self.held.saturating_sub(weight(group));
            self.cold.evict(*key, newest);
            let_go(*key, group);
            false
        });
        (before - groups.len()) as u64
    }
}

/// Has groups of which nothing was told hold no more than the places of their calls, those first that were not touched
/// for longest, until no more is held than that.
fn shrink(
    groups: &mut FxHashMap<Key, Group>,
    stubs: &mut Stubs,
    held: &mut usize,
    held_max: usize,
) {
    let saved = |group: &Group| group.weight().saturating_sub(group.weight_shrunk());
    let mut ages: Vec<(Micros, usize)> = groups
        .values()
        .map(|group| (group.settled_at(), saved(group)))
        .filter(|(_, saved)| *saved > 0)
        .collect();
    ages.sort_unstable();
    let mut left = *held;
    let mut shrunk_until = None;
    for (age, saved) in ages {
        if left <= held_max {
            break;
        }
        left = left.saturating_sub(saved);
        shrunk_until = Some(age);
    }
    let Some(shrunk_until) = shrunk_until else { return };
    for group in groups.values_mut().filter(|group| group.settled_at() <= shrunk_until) {
        *held = held.saturating_sub(saved(group));
        group.shrink(stubs);
    }
}
