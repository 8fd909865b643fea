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

use rustc_hash::{FxHashMap, FxHashSet};

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
/// How long records are remembered behind the newest one; an older record's neighbours are loaded again.
const HORIZON_MICROS: i64 = 10 * Micros::MINUTE;
/// What is loaded around an old record: a request id may be silent for an hour.
const REACH_MICROS: i64 = Micros::HOUR + 2 * JOIN_SLACK_MICROS;
/// How far apart the past and the present have to be to be joined separately: what is loaded for both, and for the
/// proxied requests in both, must not meet.
const APART_MICROS: i64 = 5 * REACH_MICROS;
/// Units remembered in all, about 2 KB each; with more, the oldest are forgotten sooner.
const UNITS_MAX: usize = 50_000;
/// What is remembered even so: the two sides of a call that come in order are joined without a look into the store.
const HORIZON_MICROS_MIN: i64 = 2 * JOIN_SLACK_MICROS;
/// Tools and proxies remembered; beyond it those without recent records are dropped.
const SCOPES_MAX: usize = 100_000;

/// Whose records have to be loaded before a batch can be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub of: Scope,
    pub from: Micros,
    /// None: to the end of time.
    pub to: Option<Micros>,
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
    memory: Memory,
    /// The newest time so far; times far ahead of reading do not count.
    newest: Option<Micros>,
    /// Memory holds everything from here on of the scopes it holds.
    floor: Micros,
    /// True while what memory does not hold is nowhere: the store was empty at the start.
    complete: bool,
    /// Records ahead of the clock that came since such were last forgotten.
    ahead: usize,
}

impl Correlator {
    /// For a store that holds nothing.
    pub fn new(clocks: Clocks) -> Self {
        Self { clocks: clocks.clone(), complete: true, ..Self::resume(clocks, None) }
    }

    /// For a store that holds records, the newest of this time; none where none of them has a time.
    pub fn resume(mut clocks: Clocks, newest: Option<Micros>) -> Self {
        clocks.resume(newest);
        Self {
            clocks,
            memory: Memory::default(),
            newest,
            floor: newest.map_or(Micros(i64::MIN), |newest| newest.minus(HORIZON_MICROS)),
            complete: false,
            ahead: 0,
        }
    }

    /// The stdio proxies' streams that have to be loaded before [`Correlator::plan_tools`] can be asked.
    pub fn plan_proxies(&self, records: &[Arc<Record>]) -> Vec<Need> {
        let cutoff = self.cutoff(records);
        let times = records.iter().filter_map(|record| match scope_of(record)? {
            ScopeRef::Proxy => {
                let at = record.at.unwrap_or(self.floor);
                Some((Scope::Proxy(Text::clone(&record.stream)), at, at < cutoff))
            }
            ScopeRef::Tool(_) => None,
        });
        self.needs(times)
    }

    /// The tools that have to be loaded before these records can be applied; `proxies` answers
    /// [`Correlator::plan_proxies`].
    pub fn plan_tools(&self, records: &[Arc<Record>], proxies: &[Loaded]) -> Vec<Need> {
        let cutoff = self.cutoff(records);
        // What is loaded for a proxy's past or present needs its tools' past or present.
        let behind_proxies = proxies.iter().flat_map(|loaded| {
            loaded.records.iter().map(|record| (record, loaded.need.to.is_some()))
        });
        let own = records.iter().map(|record| (record, record.at.is_some_and(|at| at < cutoff)));
        let times = own.chain(behind_proxies).filter_map(|(record, past)| {
            let tool = record.bare_tool().filter(|_| record.kind == RecordKind::Call)?;
            Some((tool, record.at.unwrap_or(self.floor), past))
        });
        // The first and the last time of a tool and minute are enough, and spare a name for every record.
        let mut minutes: FxHashMap<(&str, i64, bool), (Micros, Micros)> = FxHashMap::default();
        for (tool, at, past) in times {
            let minute = (tool, at.0.div_euclid(Micros::MINUTE), past);
            let ends = minutes.entry(minute).or_insert((at, at));
            *ends = (ends.0.min(at), ends.1.max(at));
        }
        let ends = minutes.into_iter().flat_map(|((tool, _, past), (first, last))| {
            [first, last].map(|at| (Scope::Tool(Text::from(tool)), at, past))
        });
        self.needs(ends)
    }

    /// A wider need, where what was loaded may begin or end inside a call of the batch: the records of one request id
    /// can go on for longer than one silence. To be asked again of what is then loaded, a few times at most.
    pub fn widen(&self, records: &[Arc<Record>], loaded: &Loaded) -> Option<Need> {
        let Scope::Tool(tool) = &loaded.need.of else { return None };
        let id_of = |record: &Record| {
            let id = record.request_id.clone()?;
            (record.bare_tool() == Some(tool)).then(|| (Text::clone(&record.stream), id))
        };
        let touched: FxHashSet<(Text, Text)> =
            records.iter().filter_map(|record| id_of(record)).collect();
        let times = loaded.records.iter().filter_map(|record| {
            let at = record.at?;
            id_of(record).filter(|id| touched.contains(id)).map(|_| at)
        });
        let (first, last) = times.fold(None, |span: Option<(Micros, Micros)>, at| {
            span.map_or(Some((at, at)), |(first, last)| Some((first.min(at), last.max(at))))
        })?;
        let need = &loaded.need;
        let from = (first < need.from.plus(REACH_MICROS)).then(|| first.minus(REACH_MICROS));
        let to =
            need.to.filter(|to| last > to.minus(REACH_MICROS)).map(|_| last.plus(REACH_MICROS));
        let wider = Need {
            of: need.of.clone(),
            from: from.map_or(need.from, |from| from.min(need.from)),
            to: need.to.map(|known| to.map_or(known, |to| to.max(known))),
        };
        (wider != *need).then_some(wider)
    }

    /// One need for every run of times that memory does not hold. Times come with whether they are joined apart.
    fn needs(&self, times: impl Iterator<Item = (Scope, Micros, bool)>) -> Vec<Need> {
        let mut by_scope: FxHashMap<Scope, Vec<(Micros, bool)>> = FxHashMap::default();
        for (scope, at, past) in times {
            let held = self.memory.holds(&scope);
            if (held && at >= self.floor) || (!held && self.complete) {
                continue;
            }
            by_scope.entry(scope).or_default().push((at, past));
        }
        let mut needs = Vec::new();
        for (scope, mut times) in by_scope {
            times.sort_unstable();
            let of_kind = |wanted: bool| {
                times.iter().filter(move |(_, past)| *past == wanted).map(|(at, _)| *at)
            };
            let past: Vec<Micros> = of_kind(true).collect();
            for run in past.chunk_by(|left, right| right.since(*left) <= 2 * REACH_MICROS) {
                let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
                let (from, to) = (first.minus(REACH_MICROS), last.plus(REACH_MICROS));
                needs.push(Need { of: scope.clone(), from, to: Some(to) });
            }
            if let Some(first) = of_kind(false).next() {
                let from = first.min(self.floor).minus(REACH_MICROS);
                needs.push(Need { of: scope, from, to: None });
            }
        }
        needs.sort_by(|left, right| (&left.of, left.from).cmp(&(&right.of, right.from)));
        needs
    }

    /// Records before this time are joined apart from memory, among neighbours that are loaded for them: so far
    /// before everything that memory holds, or that is loaded into it, that the two have nothing to do with each other.
    fn cutoff(&self, records: &[Arc<Record>]) -> Micros {
        let mut late: Vec<Micros> =
            records.iter().filter_map(|record| record.at).filter(|at| *at < self.floor).collect();
        if late.is_empty() {
            return Micros(i64::MIN);
        }
        late.sort_unstable();
        let mut cutoff = self.memory.oldest().map_or(self.floor, |oldest| oldest.min(self.floor));
        while let Some(at) = late.pop() {
            if at < cutoff.minus(APART_MICROS) {
                break;
            }
            cutoff = cutoff.min(at);
        }
        cutoff
    }

    /// Joins the records with what is known. `loaded` answers the needs of both plans.
    pub fn apply(&mut self, records: &[Arc<Record>], loaded: Vec<Loaded>) -> Outcome {
        let mut diff = Diff::default();
        let cutoff = self.cutoff(records);
        let mut past = Memory::default();
        for loaded in loaded {
            if loaded.need.to.is_some() {
                past.restore(loaded, &mut self.clocks);
            } else {
                self.memory.drop_scope(&loaded.need.of);
                self.memory.restore(loaded, &mut self.clocks);
            }
        }
        let (old, recent): (Vec<_>, Vec<_>) =
            records.iter().cloned().partition(|record| record.at.is_some_and(|at| at < cutoff));
        self.memory.add(&recent, &mut self.clocks, &mut diff);
        past.add(&old, &mut self.clocks, &mut diff);
        // What only the past knows of is stored, but not held.
        self.complete &= old.is_empty();
        self.advance(records);
        self.close(diff)
    }

    /// Counts what the batch says of the clocks, and tells what became of the calls.
    fn close(&mut self, mut diff: Diff) -> Outcome {
        self.clocks.count(std::mem::take(&mut diff.samples));
        let (clock_samples, clock_uses) = self.clocks.take_changes();
        self.clocks.forget();
        Outcome { clock_samples, clock_uses, ..outcome(diff) }
    }

    /// Moves the floor behind the newest record and forgets what lies before it.
    fn advance(&mut self, records: &[Arc<Record>]) {
        let newest_of = |with_future: bool| {
            let counts = |record: &&Arc<Record>| with_future || !is_ahead(record);
            records.iter().filter(counts).filter_map(|record| record.at).max()
        };
        self.newest = self.newest.max(newest_of(false));
        // A flood of times far ahead would otherwise be held until they come; a few are, so that they move nothing.
        self.ahead += records.iter().filter(|record| is_ahead(record)).count();
        let is_flooded = self.memory.units() > UNITS_MAX && self.ahead > UNITS_MAX / 2;
        let newest = self.newest.max(newest_of(true).filter(|_| is_flooded));
        let Some(newest) = newest else { return };
        let horizon = horizon_micros(self.memory.units());
        let floor = newest.minus(horizon);
        let late = records.iter().any(|record| record.at.is_some_and(|at| at < self.floor));
        // Forgetting walks over everything, so it waits until it is worth it.
        if floor.since(self.floor) < horizon / 10 && !late {
            return;
        }
        if is_flooded {
            self.ahead = 0;
        }
        self.floor = self.floor.max(floor);
        self.memory.forget(self.floor);
        if self.memory.scopes() > SCOPES_MAX {
            self.memory.drop_empty();
            self.complete = false;
        }
    }
}

/// Whether the record was ahead of the clock when it was read.
fn is_ahead(record: &Record) -> bool {
    record.time_quality == TimeQuality::Future
}

/// How much of the past so many units may be.
fn horizon_micros(units: usize) -> i64 {
    let share = UNITS_MAX as f64 / units.max(UNITS_MAX) as f64;
    #[expect(clippy::cast_possible_truncation, reason = "a part of ten minutes")]
    let horizon = (HORIZON_MICROS as f64 * share) as i64;
    horizon.max(HORIZON_MICROS_MIN)
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
