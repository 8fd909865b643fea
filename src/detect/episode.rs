//! Episodes: runs of matches that people see as one alert.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::{FxHashSet, FxHasher};

use crate::model::{Alert, AlertId, Call, CallId, Evidence, IdHasher, Micros, Text, Why};

use super::chain::{Chains, Event};
use super::rule::Rule;

/// The longest an episode can last, from its first match's close to its last's.
pub(super) const EPISODE_MAX_MICROS: i64 = 24 * Micros::HOUR;

/// The most evidence calls an alert keeps.
const EVIDENCE_MAX: usize = 200;

/// Of a first match with more evidence than both together, the earliest and the latest calls that
/// are kept whatever follows.
const FIRST_HEAD: usize = 100;
const FIRST_TAIL: usize = 20;

/// One call that an episode rests on, and the slot it is shown in.
#[derive(Clone, Debug)]
struct Filled {
    event: Event,
    slot: u8,
}

/// When the first and the last match of an episode close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first_at: Micros,
    pub(super) last_at: Micros,
}

impl Span {
    /// True if a match that closes then still belongs to the episode.
    pub(super) const fn takes(self, at: Micros, quiet_micros: i64) -> bool {
        at.since(self.last_at) <= quiet_micros && at.since(self.first_at) <= EPISODE_MAX_MICROS
    }
}

/// A run of matches of one rule and group.
///
/// Its evidence is the union over its matches, but what it keeps of it is bounded: the first
/// match's (so that the cause is never lost), the latest, and the number of all others. Calls near
/// the floor are kept whole, because a later match may yet name them again.
#[derive(Clone, Debug)]
pub(super) struct Episode {
    closing: Event,
    pub(super) span: Span,
    count: u64,
    /// What the rule counts or the number of its stages, at the first match.
    value: u64,
    first_at: Micros,
    /// The first match's evidence, in order.
    pinned: Vec<Filled>,
    /// The latest of the evidence that no further match can name, in order, and how much of it
    /// there was.
    settled: Vec<Filled>,
    settled_count: u64,
    /// All other evidence, in order.
    recent: Vec<Filled>,
}

impl Episode {
    /// Opens an episode at its first match; its evidence still has to be added.
    pub(super) fn open(chains: &Chains<'_>, events: &[Event], first: usize) -> Self {
        let closing = &events[first];
        let (evidence, value) = chains.first_evidence(first);
        let filled = evidence
            .iter()
            .map(|(index, slot)| Filled { event: events[*index].clone(), slot: *slot });
        Self {
            closing: closing.clone(),
            span: Span { first_at: closing.at(), last_at: closing.at() },
            count: 0,
            value,
            first_at: evidence.first().map_or(closing.at(), |(index, _)| events[*index].at()),
            pinned: pin(filled.collect()),
            settled: Vec::new(),
            settled_count: 0,
            recent: Vec::new(),
        }
    }

    /// Adds matches, which come after those it has, in order.
    pub(super) fn add(&mut self, chains: &Chains<'_>, events: &[Event], matches: &[usize]) {
        let Some(last) = matches.last() else {
            return;
        };
        self.count += matches.len() as u64;
        self.span.last_at = events[*last].at();
        let mut pinned = self.pinned.iter().peekable();
        let mut added = Vec::new();
        for (index, slot) in chains.evidence(matches) {
            let event = &events[index];
            while pinned.next_if(|pinned| pinned.event.order(event).is_lt()).is_some() {}
            if pinned.peek().is_none_or(|pinned| pinned.event.order(event).is_ne()) {
                added.push(Filled { event: event.clone(), slot });
            }
        }
        if let Some(first) = added.first() {
            self.first_at = self.first_at.min(first.event.at());
        }
        self.recent = merge(std::mem::take(&mut self.recent), added);
    }

    /// Lets go of evidence before `cut`, which no further match can name, but for the latest of it.
    pub(super) fn settle(&mut self, cut: Micros) {
        let gone = self.recent.partition_point(|filled| filled.event.at() < cut);
        self.settled_count += gone as u64;
        self.settled.extend(self.recent.drain(..gone));
        let excess = self.settled.len().saturating_sub(EVIDENCE_MAX);
        self.settled.drain(..excess);
    }

    /// How many calls it holds.
    pub(super) const fn held(&self) -> usize {
        self.pinned.len() + self.settled.len() + self.recent.len()
    }

    /// What is shown of the evidence, in order, and how many calls are left out.
    fn shown(&self) -> (Vec<&Filled>, u64) {
        let room = EVIDENCE_MAX.saturating_sub(self.pinned.len());
        let from_recent = self.recent.len().min(room);
        let from_settled = self.settled.len().min(room - from_recent);
        let settled = self.settled.iter().skip(self.settled.len() - from_settled);
        let recent = self.recent.iter().skip(self.recent.len() - from_recent);
        let mut shown: Vec<&Filled> = self.pinned.iter().chain(settled).chain(recent).collect();
        shown.sort_by(|a, b| a.event.order(&b.event));
        let rest = self.settled_count + self.recent.len() as u64;
        (shown, rest - (from_settled + from_recent) as u64)
    }

    /// The alert, of calls that are held as a whole: a group of which only places are held is read again before it
    /// fires.
    pub(super) fn alert(&self, rule: &Rule, group: &[Text]) -> Option<Alert> {
        let (shown, elided) = self.shown();
        let evidence = shown.into_iter().filter_map(|filled| {
            let stage = Text::clone(rule.slot_name(filled.slot));
            Some(Evidence { stage, call: Arc::clone(filled.event.call()?) })
        });
        Some(Alert {
            first_seen: Some(self.first_at),
            last_seen: Some(self.span.last_at),
            count: self.count,
            evidence: evidence.collect(),
            elided,
            ..alert(rule, group, self.closing.call()?, self.value)
        })
    }

    /// What is remembered of the episode once it is reported.
    pub(super) fn reported(&self, rule: &Rule, group: &[Text]) -> Reported {
        let (shown, elided) = self.shown();
        let mut hasher = FxHasher::default();
        (self.count, self.value, self.first_at, self.span.last_at, elided).hash(&mut hasher);
        for filled in shown {
            (filled.event.place(), filled.slot).hash(&mut hasher);
        }
        Reported {
            id: alert_id(rule, group, self.closing.id()),
            closing: self.closing.id(),
            closing_at: self.span.first_at,
            first_seen: self.first_at,
            last_seen: self.span.last_at,
            count: self.count,
            fingerprint: Some(hasher.finish()),
        }
    }

    /// True if any call shown as evidence is one of these.
    pub(super) fn rests_on(&self, any_of: &FxHashSet<CallId>) -> bool {
        self.shown().0.iter().any(|filled| any_of.contains(&filled.event.id()))
    }
}

/// An episode as it was last reported.
#[derive(Clone, Debug)]
pub(super) struct Reported {
    pub(super) id: AlertId,
    pub(super) closing: CallId,
    /// When its first match closes; calls of it may lie long before.
    pub(super) closing_at: Micros,
    pub(super) first_seen: Micros,
    pub(super) last_seen: Micros,
    pub(super) count: u64,
    /// Over all that the alert says; none where it is not known how it was reported.
    pub(super) fingerprint: Option<u64>,
}

impl Reported {
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.first_seen <= other.last_seen && other.first_seen <= self.last_seen
    }

    /// True if both say the same in figures.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        self.id == other.id
            && self.count == other.count
            && self.first_seen == other.first_seen
            && self.last_seen == other.last_seen
    }
}

pub(super) fn alert_id(rule: &Rule, group: &[Text], closing: CallId) -> AlertId {
    let mut hasher = IdHasher::new("alert");
    hasher.text(&rule.name);
    for (field, value) in rule.group_by().zip(group) {
        hasher.text(field).text(value);
    }
    hasher.text(&closing.to_string());
    AlertId::from_hasher(&hasher)
}

/// An alert that rests on its closing call alone; episodes of more fill in the rest.
pub(super) fn alert(rule: &Rule, group: &[Text], closing: &Arc<Call>, value: u64) -> Alert {
    Alert {
        id: alert_id(rule, group, closing.id),
        rule: Text::clone(&rule.name),
        title: rule.title.clone(),
        level: rule.level,
        tags: rule.tags.clone(),
        group: rule.group_by().map(Text::from).zip(group.iter().cloned()).collect(),
        actor: Text::clone(&closing.actor),
        first_seen: closing.at,
        last_seen: closing.at,
        closing: closing.id,
        closing_at: closing.at,
        count: 1,
        why: Why {
            text: rule.why.clone(),
            threshold: rule.kind.threshold(),
            value,
            timespan: rule.timespan_micros().map(|micros| micros as f64 / 1e6),
        },
        evidence: vec![Evidence {
            stage: Text::clone(rule.slot_name(0)),
            call: Arc::clone(closing),
        }],
        elided: 0,
    }
}

/// Of a first match with very much evidence: the earliest calls, the latest, and the first of each
/// stage.
fn pin(filled: Vec<Filled>) -> Vec<Filled> {
    if filled.len() <= FIRST_HEAD + FIRST_TAIL {
        return filled;
    }
    let tail = filled.len() - FIRST_TAIL;
    let mut stages = 0_u32;
    let mut index = 0;
    let mut pinned = filled;
    pinned.retain(|filled| {
        let is_first = stages & (1 << filled.slot) == 0;
        stages |= 1 << filled.slot;
        let keep = is_first || index < FIRST_HEAD || index >= tail;
        index += 1;
        keep
    });
    pinned
}

/// Joins two ordered lists; a call in both keeps the earlier slot.
fn merge(old: Vec<Filled>, added: Vec<Filled>) -> Vec<Filled> {
    if old.is_empty() {
        return added;
    }
    let mut out: Vec<Filled> = Vec::with_capacity(old.len() + added.len());
    out.extend(old);
    out.extend(added);
    // Both halves are runs in order, which this sort takes in one pass.
    out.sort_by(|a, b| a.event.order(&b.event));
    out.dedup_by(|later, kept| {
        let same = later.event.order(&kept.event).is_eq();
        if same {
            kept.slot = kept.slot.min(later.slot);
        }
        same
    });
    out
}
