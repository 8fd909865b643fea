//! Joins a day's calls of two streams anew, once the clocks are known better than when they were joined.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::clock::{Estimate, StaleDay};
use super::memory::Memory;
use super::{
    BEFORE_MICROS, CallId, Correlator, Diff, Loaded, Micros, Need, Outcome, REACH_MICROS, Record,
    Scope, Text,
};
use crate::model::{Call, ClockSample, ClockUse};

/// What is loaded at a time, without what is loaded around it, of a tool that has more than so many records.
const PIECE_MICROS: i64 = 3 * Micros::HOUR;
const PIECE_RECORDS: u64 = 4_000;
/// How far before the day's beginning the first record of one of its calls may lie: a question waits for its answer.
const MARGIN_MICROS: i64 = Micros::HOUR;

/// Calls that are being joined anew. All of them are to be stored at once, together with what they were joined with.
pub struct Rejoin {
    stale: StaleDay,
    used: Vec<Option<Estimate>>,
    measured: Vec<Option<Estimate>>,
    diff: Diff,
}

impl Correlator {
    /// Days of which the clocks have to be known before these records can be applied, among what was loaded for them;
    /// by their first moments.
    pub fn plan_clocks(&self, records: &[Arc<Record>], loaded: &[Loaded]) -> Vec<Micros> {
        let all = records.iter().chain(loaded.iter().flat_map(|loaded| &loaded.records));
        let times = all.filter_map(|record| record.at);
        self.clocks.plan_days(times.flat_map(with_neighbours))
    }

    /// Takes in what is stored of these days.
    pub fn know_clocks(&mut self, days: &[Micros], samples: Vec<ClockSample>, uses: Vec<ClockUse>) {
        self.clocks.know_days(days, samples, uses);
    }

    /// What has to be joined anew, now that the clocks are known better. Without `all`, only days that are over.
    pub fn stale_clocks(&mut self, all: bool) -> Vec<StaleDay> {
        self.clocks.stale(self.newest, all)
    }

    /// Days whose clocks have to be known before this one is joined anew, by their first moments.
    pub fn plan_clock(&self, stale: &StaleDay) -> Vec<Micros> {
        let (from, to) = stale.span();
        self.clocks.plan_days([from, stale.from, to].into_iter().flat_map(with_neighbours))
    }

    /// Begins to join a day's calls anew. For each tool of its streams, [`Correlator::plan_rejoin`] says what is to
    /// be loaded; nothing else may be applied until [`Correlator::end_rejoin`]. The day's clocks must be known.
    pub fn begin_rejoin(&mut self, stale: StaleDay) -> Rejoin {
        let [used, measured] = self.clocks.used_and_measured(&stale);
        Rejoin { stale, used, measured, diff: Diff::default() }
    }

    /// What to load for a tool that has so many records around the day, piece by piece; each is to be widened, and
    /// handed to [`Correlator::rejoin_loaded`].
    pub fn plan_rejoin(rejoin: &Rejoin, tool: &Text, records: u64) -> Vec<(Need, Micros, Micros)> {
        let of = Scope::Tool(Text::clone(tool));
        let (first, last) = rejoin.stale.span();
        let mut pieces = Vec::new();
        let mut from = first;
        while from < last {
            let to = if records > PIECE_RECORDS { from.plus(PIECE_MICROS).min(last) } else { last };
            let (load_from, load_to) = (from.minus(BEFORE_MICROS), to.plus(BEFORE_MICROS));
            let need = Need {
                of: of.clone(),
                from: load_from,
                to: Some(load_to),
                floor: from,
                last: Some(to),
            };
            pieces.push((need, from, to));
            from = to;
        }
        pieces
    }

    /// Joins the calls anew that begin in `from..to`.
    pub fn rejoin_loaded(&mut self, rejoin: &mut Rejoin, loaded: Loaded, from: Micros, to: Micros) {
        let Scope::Tool(tool) = loaded.need.of.clone() else { return };
        let mut past = Memory::default();
        self.clocks.assume(&rejoin.stale, &rejoin.used);
        past.restore(loaded, &self.limits, &mut self.clocks);
        self.clocks.assume(&rejoin.stale, &rejoin.measured);
        let mut diff = Diff::default();
        let streams = rejoin.stale.streams();
        past.rejoin(&tool, &streams, (from, to), &self.limits, &mut self.clocks, &mut diff);
        let clocks = &self.clocks;
        let is_here = |call: &Arc<Call>| {
            let Some(first) = call.sightings.first().and_then(|lead| lead.steps.first()) else {
                return false;
            };
            let begins = first.at.map(|at| at.plus(clocks.offset(&call.stream)));
            begins.is_some_and(|at| at >= from && at < to)
        };
        // Most calls come out as they were, and there may be millions in a day.
        let mut old: FxHashMap<CallId, Arc<Call>> =
            diff.old.into_iter().filter(is_here).map(|call| (call.id, call)).collect();
        for new in diff.new.into_iter().filter(is_here) {
            match old.remove(&new.id) {
                Some(old) if old == new => {}
                old => {
                    rejoin.diff.old.extend(old);
                    rejoin.diff.new.push(new);
                }
            }
        }
        rejoin.diff.old.extend(old.into_values());
        self.clocks.assume(&rejoin.stale, &rejoin.used);
    }

    /// Says what became of the calls. Where memory holds any of that time it begins anew: a call there may have been
    /// joined beside one that memory does not hold, and so be another now.
    pub fn end_rejoin(&mut self, rejoin: Rejoin) -> Outcome {
        self.clocks.renew(&rejoin.stale, &rejoin.measured);
        let (_, last) = rejoin.stale.span();
        if self.memory.oldest().is_some_and(|oldest| oldest < last.plus(BEFORE_MICROS)) {
            self.memory = Memory::default();
            self.complete = false;
        }
        self.close(rejoin.diff)
    }
}

/// What is joined together with a record may lie across midnight.
fn with_neighbours(at: Micros) -> [Micros; 3] {
    [at.minus(REACH_MICROS), at, at.plus(REACH_MICROS)]
}

impl Rejoin {
    /// Whose calls are joined anew: what tells of none of these streams stays as it is.
    pub fn streams(&self) -> FxHashSet<Text> {
        self.stale.streams()
    }

    /// From where to where its tools are loaded, where nothing asks for more.
    pub fn loaded_span(&self) -> (Micros, Micros) {
        let (first, last) = self.stale.span();
        (first.minus(BEFORE_MICROS), last.plus(BEFORE_MICROS))
    }
}

impl StaleDay {
    /// Whose calls are joined anew.
    fn streams(&self) -> FxHashSet<Text> {
        self.pairs
            .iter()
            .flat_map(|(upper, lower)| [Text::clone(upper), Text::clone(lower)])
            .collect()
    }

    /// Where the first records of the day's calls may lie.
    pub fn span(&self) -> (Micros, Micros) {
        (self.from.minus(MARGIN_MICROS), self.to.plus(MARGIN_MICROS))
    }
}
