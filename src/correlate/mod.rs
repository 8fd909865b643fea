//! Joins records into calls: what one call is per dialect, and which witnesses tell of the same one.
//!
//! Calls are a function of the set of records. Everything is local to a tool's bare name, and inside it to a run of
//! overlapping intervals, so a batch joins anew only the runs that its records touch. Memory holds the recent past;
//! for an older record the caller loads the neighbourhood again ([`Correlator::plan_tools`]), and the same code runs
//! on it.

mod align;
mod arguments;
mod build;
mod clock;
mod cuts;
mod lost;
mod matching;
mod memory;
mod numbering;
mod pair;
mod pass;
mod proxy;
mod rejoin;
mod retry;
mod ruler;
mod tool;
mod unit;
mod waiting;

use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::model::{
    Call, CallChange, CallId, ClockSample, ClockUse, Dialect, Micros, Record, RecordId, RecordKind,
    Text, TimeQuality,
};
use clock::Sample;
pub use clock::{Clocks, StaleDay};
use memory::Memory;
pub use rejoin::Rejoin;

/// How far the intervals of two witnesses of one call may lie apart.
pub const JOIN_SLACK_MICROS: i64 = 5 * Micros::SECOND;
/// What is loaded around an old record: a request id may be silent for an hour.
const REACH_MICROS: i64 = Micros::HOUR + 2 * JOIN_SLACK_MICROS;
/// What is loaded beyond that before the first of records that memory is to hold: how their time is cut depends on it.
const BEFORE_MICROS: i64 = REACH_MICROS + Micros::HOUR;
/// And around those that are joined apart, where mostly so much is enough.
const AROUND_MICROS: i64 = REACH_MICROS + 20 * Micros::MINUTE;
/// How far apart the past and the present have to be to be joined separately: what is loaded for both, and for the
/// proxied requests in both, must not meet.
const APART_MICROS: i64 = 7 * REACH_MICROS;

/// How much is remembered. What is not is loaded again from the store when it matters.
#[derive(Clone, Debug)]
struct Limits {
    /// How long the units of a tool are remembered behind the newest record.
    horizon_micros: i64,
    /// Units of one tool, about 2 KB each, and of all; with more, the oldest are forgotten sooner.
    scope_units: usize,
    units: usize,
    /// Tools and proxies; with more, those that nothing was heard of for longest are dropped.
    scopes: usize,
    /// Units that may lie around a mark before it cuts: so many, or a few times as many, are joined together.
    piece_units: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            horizon_micros: 10 * Micros::MINUTE,
            scope_units: 10_000,
            units: 50_000,
            scopes: 100_000,
            piece_units: 512,
        }
    }
}

/// Whose records have to be loaded before a batch can be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub of: Scope,
    pub from: Micros,
    /// None: to the end of time.
    pub to: Option<Micros>,
    /// From here on what is loaded is held; what is before shows how it is joined.
    floor: Micros,
    /// The last time of records that it is loaded for, where they are joined apart.
    last: Option<Micros>,
}

/// A tool by its bare name, or a stdio proxy by its stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    Tool(Text),
    Proxy(Text),
}

/// What was loaded for a need.
#[derive(Debug)]
pub struct Loaded {
    pub need: Need,
    /// For a tool: its records of kind call, and the replies of the proxies among them. For a proxy: everything of its
    /// stream. Where the need is for the present, those without a time too.
    pub records: Vec<Arc<Record>>,
    /// For a tool: its calls as stored; they tell which reply belongs to which proxied request.
    pub calls: Vec<Call>,
}

/// What a batch did to the calls.
#[derive(Debug, Default)]
pub struct Outcome {
    pub changes: Vec<CallChange>,
    /// Calls that turned out to be part of another: (gone, the one it is part of).
    pub merged: Vec<(CallId, CallId)>,
    /// What the joins say of the clocks.
    pub clock_samples: Vec<ClockSample>,
    pub clock_uses: Vec<ClockUse>,
}

/// Calls before and after, collected over a batch.
#[derive(Default)]
struct Diff {
    old: Vec<Arc<Call>>,
    new: Vec<Arc<Call>>,
    /// Joins that came, and, counted negative, those that are no more.
    samples: Vec<(Sample, i64)>,
}

pub struct Correlator {
    clocks: Clocks,
    limits: Limits,
    memory: Memory,
    /// The newest time so far; times far ahead of reading do not count.
    newest: Option<Micros>,
    /// From where on a scope is held at least when it is loaded.
    floor: Micros,
    /// When all scopes last forgot, and not only those that a batch touched.
    swept: Micros,
    /// True while what memory does not hold is nowhere: the store was empty at the start.
    complete: bool,
}

impl Correlator {
    /// For a store that holds nothing.
    pub fn new(clocks: Clocks) -> Self {
        Self { clocks: clocks.clone(), complete: true, ..Self::resume(clocks, None) }
    }

    /// For a store that holds records, the newest of this time; none where none of them has a time.
    pub fn resume(mut clocks: Clocks, newest: Option<Micros>) -> Self {
        clocks.resume(newest);
        let limits = Limits::default();
        let floor = newest.map_or(Micros(i64::MIN), |newest| newest.minus(limits.horizon_micros));
        let memory = Memory::default();
        Self { clocks, limits, memory, newest, floor, swept: floor, complete: false }
    }

    /// The stdio proxies' streams that have to be loaded before [`Correlator::plan_tools`] can be asked.
    pub fn plan_proxies(&self, records: &[Arc<Record>]) -> Vec<Need> {
        let cutoff = self.cutoff_of_proxies(records);
        let times = proxied(records).filter_map(|record| {
            let held = self.memory.floor_of_proxy(&record.stream);
            let at = record.at.unwrap_or(self.floor);
            let is_missing = self.is_missing(held, record.at);
            let scope = || Scope::Proxy(Text::clone(&record.stream));
            is_missing.then(|| (scope(), self.floor_of(held), at, at < cutoff))
        });
        needs(times)
    }

    /// The tools that have to be loaded before these records can be applied; `proxies` answers
    /// [`Correlator::plan_proxies`].
    pub fn plan_tools(&self, records: &[Arc<Record>], proxies: &[Loaded]) -> Vec<Need> {
        let of_proxies = self.cutoff_of_proxies(records);
        let missing = self.missing(records, proxies, of_proxies);
        let cutoffs = self.cutoffs(records, &missing, of_proxies);
        let times = missing.into_iter().map(|missing| {
            let Missing { tool, at, past } = missing;
            let past = past.unwrap_or_else(|| cutoffs.get(tool).is_some_and(|cutoff| at < *cutoff));
            let floor = self.floor_of(self.memory.floor_of_tool(tool));
            (Scope::Tool(Text::from(tool)), floor, at, past)
        });
        needs(times)
    }

    /// Times of tools that memory does not hold, of the batch and of what is loaded for its proxies: for each minute
    /// the first and the last, which is enough.
    fn missing<'a>(
        &self,
        records: &'a [Arc<Record>],
        proxies: &'a [Loaded],
        proxied_before: Micros,
    ) -> Vec<Missing<'a>> {
        // What is loaded for a proxy's past or present needs its tools' past or present.
        let of_proxies = proxies.iter().filter(|loaded| matches!(loaded.need.of, Scope::Proxy(_)));
        let behind_proxies = of_proxies.flat_map(|loaded| {
            loaded.records.iter().map(|record| (record, Some(loaded.need.to.is_some())))
        });
        let of_proxy = |record: &Record| {
            let at = record.at.filter(|_| record.dialect == Dialect::StdioProxy)?;
            (proxied_before.0 > i64::MIN).then_some(at < proxied_before)
        };
        let all = records.iter().map(|record| (record, of_proxy(record))).chain(behind_proxies);
        let mut minutes: FxHashMap<Minute<'_>, (Micros, Micros)> = FxHashMap::default();
        let mut missing = Vec::new();
        for (record, past) in all {
            let Some(tool) = record.bare_tool().filter(|_| record.kind == RecordKind::Call) else {
                continue;
            };
            let at = record.at.unwrap_or(Micros(i64::MAX));
            let minute = (tool, record.at.map(|at| at.0.div_euclid(Micros::MINUTE)), past);
            let ends = minutes.entry(minute).or_insert((at, at));
            *ends = (ends.0.min(at), ends.1.max(at));
            if past.is_none()
                && self.memory.has_lost()
                && self.memory.continues_lost(record, &self.clocks)
            {
                missing.push(Missing { tool, at: record.at.unwrap_or(self.floor), past });
            }
        }
        for ((tool, minute, past), (first, last)) in minutes {
            let held = self.memory.floor_of_tool(tool);
            for at in [first, last] {
                // A proxy that is loaded may answer a call without a time, which no floor tells to be held.
                let may_be_lost = past == Some(false) && !matches!(held, Held::Whole);
                let is_lost = minute.is_none() && may_be_lost;
                if is_lost || self.is_missing(held, minute.map(|_| at)) {
                    let at = minute.map_or(self.floor, |_| at);
                    missing.push(Missing { tool, at, past });
                }
            }
        }
        missing
    }

    fn is_missing(&self, held: Held, at: Option<Micros>) -> bool {
        match held {
            Held::Not => !self.complete,
            Held::From(floor) => at.is_some_and(|at| at < floor),
            Held::Whole => false,
        }
    }

    fn floor_of(&self, held: Held) -> Micros {
        if let Held::From(floor) = held { floor } else { self.floor }
    }

    /// Records of a tool before this time are joined apart from memory, among neighbours that are loaded for them.
    fn cutoffs(
        &self,
        records: &[Arc<Record>],
        missing: &[Missing<'_>],
        of_proxies: Micros,
    ) -> FxHashMap<Text, Micros> {
        let mut by_tool: FxHashMap<&str, (Vec<Micros>, bool)> = FxHashMap::default();
        for Missing { tool, at, past } in missing.iter().filter(|one| one.past != Some(true)) {
            let (late, is_proxied) = by_tool.entry(tool).or_default();
            match past {
                None => late.push(*at),
                Some(_) => *is_proxied = true,
            }
        }
        let cutoff = |(tool, (late, is_proxied)): (&str, (Vec<Micros>, bool))| {
            let floor = self.floor_of(self.memory.floor_of_tool(tool));
            let oldest = self.memory.oldest_of(tool);
            let own = cutoff(late, oldest.map_or(floor, |oldest| oldest.min(floor)));
            // What a proxy brings into the present is joined there with all that is near it.
            (Text::from(tool), if is_proxied { own.min(of_proxies) } else { own })
        };
        let mut cutoffs: FxHashMap<Text, Micros> = by_tool.into_iter().map(cutoff).collect();
        // And what a proxy brings into the past is joined there with what is near it, known or not.
        let old = proxied(records).filter(|record| record.at.is_some_and(|at| at < of_proxies));
        for tool in old.filter_map(|record| record.bare_tool()) {
            let cutoff = cutoffs.entry(Text::from(tool)).or_insert(of_proxies);
            *cutoff = of_proxies.max(*cutoff);
        }
        cutoffs
    }

    /// Records of proxies before this time are joined apart. A proxy tells of many tools, so its past lies before
    /// everything that memory holds.
    fn cutoff_of_proxies(&self, records: &[Arc<Record>]) -> Micros {
        let is_missing = |record: &&Arc<Record>| {
            let of_proxy = self.memory.floor_of_proxy(&record.stream);
            let tool = record.bare_tool().filter(|_| record.kind == RecordKind::Call);
            let of_tool = tool.map(|tool| self.memory.floor_of_tool(tool));
            self.is_missing(of_proxy, record.at)
                || of_tool.is_some_and(|held| self.is_missing(held, record.at))
        };
        let (late, held): (Vec<&Arc<Record>>, Vec<&Arc<Record>>) =
            proxied(records).filter(|record| record.at.is_some()).partition(is_missing);
        let mut late: Vec<Micros> = late.into_iter().filter_map(|record| record.at).collect();
        if late.is_empty() {
            return Micros(i64::MIN);
        }
        late.extend(self.missing(records, &[], Micros(i64::MIN)).into_iter().map(|one| one.at));
        let held = held.into_iter().filter_map(|record| record.at);
        let oldest = held.chain(self.memory.oldest()).chain([self.floor]).min();
        cutoff(late, oldest.unwrap_or(self.floor))
    }

    /// A wider need, where what was loaded may begin or end inside a call of the batch, or inside what its calls are
    /// joined with. To be asked again of what is then loaded, a few times at most.
    pub fn widen(&self, records: &[Arc<Record>], loaded: &Loaded) -> Option<Need> {
        let Scope::Tool(tool) = &loaded.need.of else { return None };
        let need = &loaded.need;
        let of_tool = |record: &&Arc<Record>| {
            record.bare_tool() == Some(tool)
                && record.at.is_none_or(|at| at >= need.from && need.to.is_none_or(|to| at <= to))
        };
        let added: Vec<Arc<Record>> = records.iter().filter(of_tool).cloned().collect();
        let all: Vec<Arc<Record>> = loaded.records.iter().chain(&added).cloned().collect();
        // What memory is to hold has to be right for whatever comes, else for what has come.
        let between = (need.floor, need.last.unwrap_or(Micros(i64::MAX)));
        let (first, last) = memory::span(&all, &loaded.calls, between, &self.limits, &self.clocks);
        let from = first.minus(REACH_MICROS);
        let to = need.to.map(|to| to.max(last.plus(REACH_MICROS)));
        if from >= need.from && to == need.to {
            return None;
        }
        // Twice as far, so that a few times are enough.
        let from = if from < need.from { from.minus(need.floor.since(from)) } else { need.from };
        let to = to.map(|to| {
            if Some(to) == need.to { to } else { to.plus(to.since(last) + to.since(need.floor)) }
        });
        Some(Need { from, to, ..need.clone() })
    }

    /// Joins the records with what is known. `loaded` answers the needs of both plans.
    pub fn apply(&mut self, records: &[Arc<Record>], loaded: Vec<Loaded>) -> Outcome {
        let mut diff = Diff::default();
        let of_proxies = self.cutoff_of_proxies(records);
        let cutoffs =
            self.cutoffs(records, &self.missing(records, &loaded, of_proxies), of_proxies);
        let has_late = !loaded.is_empty();
        let mut past = Memory::default();
        for loaded in loaded {
            if loaded.need.to.is_some() {
                past.restore(loaded, &self.limits, &mut self.clocks);
            } else {
                self.memory.drop_scope(&loaded.need.of);
                self.memory.restore(loaded, &self.limits, &mut self.clocks);
            }
        }
        let cutoff = |record: &Record| match scope_of(record) {
            Some(ScopeRef::Proxy) => Some(of_proxies),
            Some(ScopeRef::Tool(tool)) => cutoffs.get(tool).copied(),
            None => None,
        };
        let is_old = |record: &Arc<Record>| {
            record.at.zip(cutoff(record)).is_some_and(|(at, cutoff)| at < cutoff)
        };
        let (old, recent): (Vec<_>, Vec<_>) =
            if cutoffs.is_empty() && of_proxies == Micros(i64::MIN) {
                (Vec::new(), records.to_vec())
            } else {
                records.iter().cloned().partition(is_old)
            };
        self.memory.add(&recent, &self.limits, &mut self.clocks, &mut diff);
        if !old.is_empty() {
            past.add(&old, &self.limits, &mut self.clocks, &mut diff);
            // What only the past knows of is stored, but not held.
            self.complete = false;
            let cutoff =
                |tool: &str| cutoffs.get(tool).map_or(of_proxies, |own| *own.max(&of_proxies));
            self.memory.disown(&past, of_proxies, cutoff);
        }
        self.advance(records, has_late);
        self.close(diff)
    }

    /// Counts what the batch says of the clocks, and tells what became of the calls.
    fn close(&mut self, mut diff: Diff) -> Outcome {
        self.clocks.count(std::mem::take(&mut diff.samples));
        let (clock_samples, clock_uses) = self.clocks.take_changes();
        self.clocks.forget();
        Outcome { clock_samples, clock_uses, ..outcome(diff) }
    }

    /// Moves the floor behind the newest record, forgets what lies before it, and what is too much.
    fn advance(&mut self, records: &[Arc<Record>], has_late: bool) {
        let counts = |record: &&Arc<Record>| record.time_quality != TimeQuality::Future;
        let newest = records.iter().filter(counts).filter_map(|record| record.at).max();
        self.newest = self.newest.max(newest);
        if let Some(newest) = self.newest {
            let floor = newest.minus(self.limits.horizon_micros);
            self.floor = self.floor.max(floor);
            // To look at every tool waits until it is worth it.
            let of_all = floor.since(self.swept) > self.limits.horizon_micros / 2;
            if of_all {
                self.swept = floor;
            }
            self.memory.forget(self.floor, of_all, has_late);
        }
        self.complete &= self.memory.shrink(&self.limits);
    }
}

fn proxied(records: &[Arc<Record>]) -> impl Iterator<Item = &Arc<Record>> {
    records.iter().filter(|record| matches!(scope_of(record), Some(ScopeRef::Proxy)))
}

/// The times of a tool in one minute, or those that are none, and whether they are joined apart.
type Minute<'a> = (&'a str, Option<i64>, Option<bool>);

/// What memory holds of a scope: everything from some time on, or all there is.
#[derive(Clone, Copy)]
enum Held {
    Not,
    From(Micros),
    Whole,
}

impl Held {
    fn of<T>(state: Option<&T>, floor: impl Fn(&T) -> Option<Micros>) -> Self {
        state.map_or(Self::Not, |state| floor(state).map_or(Self::Whole, Self::From))
    }
}

/// A time of a tool that memory does not hold.
struct Missing<'a> {
    tool: &'a str,
    at: Micros,
    /// Whether it is joined apart, where the proxy that tells of it decides that.
    past: Option<bool>,
}

/// One need for every run of times, which come with from where on their scope is held and whether they are joined
/// apart.
fn needs(times: impl Iterator<Item = (Scope, Micros, Micros, bool)>) -> Vec<Need> {
    let mut by_scope: FxHashMap<Scope, (Micros, Vec<(Micros, bool)>)> = FxHashMap::default();
    for (scope, floor, at, past) in times {
        by_scope.entry(scope).or_insert((floor, Vec::new())).1.push((at, past));
    }
    let mut needs = Vec::new();
    for (of, (floor, mut times)) in by_scope {
        times.sort_unstable();
        let of_kind =
            |wanted: bool| times.iter().filter(move |(_, past)| *past == wanted).map(|(at, _)| *at);
        let past: Vec<Micros> = of_kind(true).collect();
        for run in past.chunk_by(|left, right| right.since(*left) <= 2 * REACH_MICROS) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let (from, to) = (first.minus(AROUND_MICROS), last.plus(AROUND_MICROS));
            needs.push(Need {
                of: of.clone(),
                from,
                to: Some(to),
                floor: *first,
                last: Some(*last),
            });
        }
        if let Some(first) = of_kind(false).next() {
            let floor = first.min(floor);
            needs.push(Need { of, from: floor.minus(BEFORE_MICROS), to: None, floor, last: None });
        }
    }
    needs.sort_by(|left, right| (&left.of, left.from).cmp(&(&right.of, right.from)));
    needs
}

/// So far before everything that memory holds, or that is loaded into it, that the two have nothing to do with each
/// other.
fn cutoff(mut late: Vec<Micros>, oldest: Micros) -> Micros {
    late.sort_unstable();
    let mut cutoff = oldest;
    while let Some(at) = late.pop() {
        if at < cutoff.minus(APART_MICROS) {
            break;
        }
        cutoff = cutoff.min(at);
    }
    cutoff
}

/// What a record's call is looked for in.
#[derive(Clone, Copy)]
enum ScopeRef<'a> {
    Tool(&'a str),
    Proxy,
}

fn scope_of(record: &Record) -> Option<ScopeRef<'_>> {
    if record.dialect == Dialect::StdioProxy {
        return (record.kind != RecordKind::Context).then_some(ScopeRef::Proxy);
    }
    if record.kind != RecordKind::Call {
        return None;
    }
    record.bare_tool().map(ScopeRef::Tool)
}

/// Pairs the calls before with those after: by id, else by a record they share.
fn outcome(diff: Diff) -> Outcome {
    let mut old_by_id: FxHashMap<CallId, Arc<Call>> = FxHashMap::default();
    for call in diff.old {
        old_by_id.insert(call.id, call);
    }
    let mut outcome = Outcome::default();
    let mut unmatched: Vec<Arc<Call>> = Vec::new();
    for call in diff.new {
        match old_by_id.entry(call.id) {
            Entry::Occupied(entry) => {
                let old = entry.remove();
                if *old != *call {
                    outcome.changes.push(CallChange { old: Some(old), new: Some(call) });
                }
            }
            Entry::Vacant(_) => unmatched.push(call),
        }
    }
    let mut by_record: FxHashMap<RecordId, CallId> = FxHashMap::default();
    for old in old_by_id.values() {
        by_record.extend(records_of(old).map(|record| (record, old.id)));
    }
    for call in unmatched {
        let old = records_of(&call)
            .find_map(|record| by_record.get(&record))
            .and_then(|id| old_by_id.remove(id));
        outcome.changes.push(CallChange { old, new: Some(call) });
    }
    if !old_by_id.is_empty() {
        let mut new_by_record: FxHashMap<RecordId, CallId> = FxHashMap::default();
        for call in outcome.changes.iter().filter_map(|change| change.new.as_ref()) {
            new_by_record.extend(records_of(call).map(|record| (record, call.id)));
        }
        for (id, old) in old_by_id {
            let into = records_of(&old).find_map(|record| new_by_record.get(&record));
            outcome.merged.extend(into.map(|into| (id, *into)));
            outcome.changes.push(CallChange { old: Some(old), new: None });
        }
    }
    outcome.changes.sort_by_cached_key(|change| {
        change.new.as_ref().or(change.old.as_ref()).map(|call| call.order())
    });
    outcome
}

fn records_of(call: &Call) -> impl Iterator<Item = RecordId> {
    call.sightings.iter().flat_map(|sighting| sighting.steps.iter().map(|step| step.record))
}

#[cfg(test)]
mod proxied;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod tests;
