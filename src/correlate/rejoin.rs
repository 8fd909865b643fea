//! Joins a day's calls of two streams anew, once the clocks are known better than when they were joined.

use rustc_hash::FxHashSet;

use super::clock::{Estimate, StaleDay};
use super::memory::Memory;
use super::{Correlator, Diff, Loaded, Micros, Need, Outcome, REACH_MICROS, Record, Scope, Text};
use crate::model::{ClockSample, ClockUse};

/// What is loaded at a time, without what is loaded around it.
const PIECE_MICROS: i64 = 3 * Micros::HOUR;
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
    /// Days of which the clocks have to be known before these records can be applied, by their first moments.
    pub fn plan_clocks(&self, records: &[std::sync::Arc<Record>]) -> Vec<Micros> {
        let times = records.iter().filter_map(|record| record.at);
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

    /// What to load for a tool, piece by piece; each is to be handed to [`Correlator::rejoin_loaded`].
    pub fn plan_rejoin(&self, rejoin: &Rejoin, tool: &Text) -> Vec<(Need, Micros, Micros)> {
        let of = Scope::Tool(Text::clone(tool));
        let (first, last) = rejoin.stale.span();
        let held_from = self.held_from(&of);
        let mut pieces = Vec::new();
        let mut from = first;
        while from < last.min(held_from) {
            let to = from.plus(PIECE_MICROS).min(last);
            let (load_from, load_to) = (from.minus(REACH_MICROS), to.plus(REACH_MICROS));
            pieces.push((Need { of: of.clone(), from: load_from, to: Some(load_to) }, from, to));
            from = to;
        }
        pieces
    }

    /// Joins the calls anew that begin in `from..to` and are not in memory.
    pub fn rejoin_loaded(&mut self, rejoin: &mut Rejoin, loaded: Loaded, from: Micros, to: Micros) {
        let Scope::Tool(tool) = loaded.need.of.clone() else { return };
        let mut past = Memory::default();
        self.clocks.assume(&rejoin.stale, &rejoin.used);
        past.restore(loaded, &mut self.clocks);
        self.clocks.assume(&rejoin.stale, &rejoin.measured);
        let mut diff = Diff::default();
        let streams = rejoin.stale.streams();
        past.rejoin(
            &tool,
            &streams,
            (from.minus(MARGIN_MICROS), to.plus(MARGIN_MICROS)),
            &mut self.clocks,
            &mut diff,
        );
        let (clocks, memory) = (&self.clocks, &self.memory);
        let is_here = |call: &std::sync::Arc<crate::model::Call>| {
            let Some(first) = call.sightings.first().and_then(|lead| lead.steps.first()) else {
                return false;
            };
            let begins = first.at.map(|at| at.plus(clocks.offset(&call.stream)));
            begins.is_some_and(|at| at >= from && at < to)
                && !memory.holds_unit(&tool, begins, first.record)
        };
        rejoin.diff.old.extend(diff.old.into_iter().filter(is_here));
        rejoin.diff.new.extend(diff.new.into_iter().filter(is_here));
        self.clocks.assume(&rejoin.stale, &rejoin.used);
    }

    /// Joins what memory holds of the tool anew.
    pub fn rejoin_held(&mut self, rejoin: &mut Rejoin, tool: &Text) {
        let streams = rejoin.stale.streams();
        self.clocks.assume(&rejoin.stale, &rejoin.measured);
        self.memory.rejoin(tool, &streams, rejoin.stale.span(), &mut self.clocks, &mut rejoin.diff);
        self.clocks.assume(&rejoin.stale, &rejoin.used);
    }

    /// Says what became of the calls.
    pub fn end_rejoin(&mut self, rejoin: Rejoin) -> Outcome {
        self.clocks.renew(&rejoin.stale, &rejoin.measured);
        self.close(rejoin.diff)
    }

    /// From when on memory holds everything of the scope.
    fn held_from(&self, scope: &Scope) -> Micros {
        match (self.memory.holds(scope), self.complete) {
            (true, _) => self.floor,
            (false, true) => Micros(i64::MIN),
            (false, false) => Micros(i64::MAX),
        }
    }
}

/// What is joined together with a record may lie across midnight.
fn with_neighbours(at: Micros) -> [Micros; 3] {
    [at.minus(REACH_MICROS), at, at.plus(REACH_MICROS)]
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
