//! After a batch that failed: how long to wait, how little to try next, and which line to set aside.
//!
//! A batch that fails for what is in it would fail for ever. So the next ones are smaller, down to the one line that
//! the database refuses; that line is kept as a reject, and reading goes on behind it.

use std::time::Duration;

use super::intake::Cut;
use crate::store::{Cause, StoreError};

/// Lines of one batch, at most. Large batches are what makes DuckDB fast; beyond this they cost memory alone.
pub(super) const BATCH_LINES_MAX: usize = 20_000;
/// After a failure, a batch is so many times smaller.
const SMALLER: usize = 8;
/// How often in a row a line has to fail alone before it is set aside: an error that passes must cost none.
const FAILURES_MIN: u32 = 3;
/// Lines set aside in a row, with nothing stored between them: more are no lines' fault.
const REFUSED_MAX: u32 = 16;
/// The first wait after a fault, and the longest.
const WAIT_MIN: Duration = Duration::from_secs(2);
const WAIT_MAX: Duration = Duration::from_mins(1);

/// Why ingest had to stop.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the panic said is on stderr, and not here: it may quote a log.
    #[error("a part of Calltrail failed; please report what its log says")]
    Panic,
}

impl Fault {
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Store(error) => error.cause(),
            Self::Panic => Cause::Content,
        }
    }
}

/// A batch that was tried, as far as it matters if it fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tried {
    lines: usize,
    /// Of a single line: where its file lies, and where in it the line ends.
    place: Option<(std::path::PathBuf, u64)>,
}

impl Tried {
    pub(super) fn of(cut: &Cut) -> Self {
        let lines = cut.lines;
        let generation = cut.records.first().map(|record| record.id.generation);
        let generation = generation.or(cut.rejects.first().map(|reject| reject.generation));
        let cursor = cut.cursors.iter().find(|cursor| Some(cursor.generation) == generation);
        let place =
            cursor.filter(|_| lines == 1).map(|cursor| (cursor.path.clone(), cursor.offset));
        Self { lines, place }
    }
}

/// What is remembered from fault to fault.
#[derive(Debug)]
pub(super) struct Care {
    lines_max: usize,
    /// The line that failed alone, and how often in a row.
    suspect: Option<(Tried, u32)>,
    /// Lines refused since a batch last went well.
    refused: u32,
    wait: Duration,
}

impl Default for Care {
    fn default() -> Self {
        Self { lines_max: BATCH_LINES_MAX, suspect: None, refused: 0, wait: WAIT_MIN }
    }
}

impl Care {
    /// Lines that the next batch may have.
    pub(super) const fn lines_max(&self) -> usize {
        self.lines_max
    }

    /// Whether this batch is the one line that could not be stored.
    pub(super) fn refuses(&self, tried: &Tried) -> bool {
        self.failures_of(tried) >= FAILURES_MIN
    }

    /// Notes a fault, met with this batch in hand, if with any. Returns how long to wait before the next try.
    pub(super) fn failed(&mut self, cause: Cause, tried: Option<&Tried>) -> Duration {
        let tried = tried.filter(|tried| tried.lines > 0 && cause != Cause::Passing);
        if let Some(tried) = tried {
            // Less room or memory may do for less; what fails for its content is found by halving it.
            self.lines_max = (tried.lines.min(self.lines_max) / SMALLER).max(1);
            if cause == Cause::Content && tried.lines > 1 {
                return Duration::ZERO;
            }
            let failures = self.failures_of(tried) + 1;
            if cause == Cause::Content && failures <= FAILURES_MIN && self.refused < REFUSED_MAX {
                self.suspect = Some((tried.clone(), failures));
                // What was no fault of the line's may be over at once, or in a while.
                return if failures == 1 { Duration::ZERO } else { WAIT_MIN };
            }
        }
        self.suspect = None;
        self.waited()
    }

    fn failures_of(&self, tried: &Tried) -> u32 {
        let suspect = self.suspect.as_ref().filter(|(suspect, _)| suspect == tried);
        suspect.map_or(0, |(_, failures)| *failures)
    }

    /// The next wait where nothing can be done but wait.
    pub(super) fn waited(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = (wait * 2).min(WAIT_MAX);
        wait
    }

    /// Notes that a batch was stored, as it came or, with `refused`, as a line set aside.
    pub(super) fn stored(&mut self, refused: bool) {
        if refused {
            self.refused += 1;
            self.suspect = None;
            return;
        }
        (self.refused, self.suspect) = (0, None);
        self.wait = WAIT_MIN;
        self.lines_max = (self.lines_max * 2).min(BATCH_LINES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(lines: usize, end: u64) -> Tried {
        let place = (lines == 1).then(|| (std::path::PathBuf::from("/logs/a.jsonl"), end));
        Tried { lines, place }
    }

    /// Reads a log of so many lines, some of which cannot be stored; returns what was refused, and how often it failed.
    fn read(lines: u64, bad: impl Fn(u64) -> bool) -> (Vec<u64>, u32, Duration) {
        let mut care = Care::default();
        let (mut at, mut refused, mut failures) = (0, Vec::new(), 0);
        let mut waited = Duration::ZERO;
        while at < lines && waited < Duration::from_mins(10) {
            let end = lines.min(at + care.lines_max() as u64);
            let batch = tried(usize::try_from(end - at).unwrap(), end);
            let is_suspect = care.refuses(&batch);
            if !is_suspect && (at..end).any(&bad) {
                failures += 1;
                waited += care.failed(Cause::Content, Some(&batch));
                continue;
            }
            refused.extend(is_suspect.then_some(at));
            care.stored(is_suspect);
            at = end;
        }
        (refused, failures, waited)
    }

    #[test]
    fn the_one_line_that_cannot_be_stored_is_set_aside_and_all_others_are_stored() {
        for bad in [0, 1, 4_999, 19_999, 99_999] {
            let (refused, failures, waited) = read(100_000, |line| line == bad);
            assert_eq!((refused, waited), (vec![bad], 2 * WAIT_MIN));
            assert!(failures < 40, "{failures}");
        }
        let (refused, _, waited) = read(60_000, |line| line % 20_000 == 7);
        assert_eq!((refused, waited), (vec![7, 20_007, 40_007], 6 * WAIT_MIN));
    }

    #[test]
    fn an_error_that_passes_costs_no_line() {
        let mut care = Care::default();
        care.failed(Cause::Content, Some(&tried(1, 9)));
        care.failed(Cause::Content, Some(&tried(1, 9)));
        assert!(!care.refuses(&tried(1, 9)));
        care.stored(false);
        // Another line's failures are its own, and those of long ago are forgotten.
        care.failed(Cause::Content, Some(&tried(1, 10)));
        assert!(!care.refuses(&tried(1, 10)) && !care.refuses(&tried(1, 9)));
    }

    #[test]
    fn a_database_that_refuses_everything_makes_rejects_of_a_few_lines_and_then_waits() {
        let (refused, _, waited) = read(100_000, |_| true);
        assert_eq!(refused.len(), REFUSED_MAX as usize);
        assert!(waited >= Duration::from_mins(10));
    }

    #[test]
    fn a_full_disk_is_waited_for_ever_longer_with_smaller_batches_and_costs_no_line() {
        let mut care = Care::default();
        let waits: Vec<u64> = (0..8)
            .map(|_| {
                let lines = care.lines_max();
                care.failed(Cause::Full, Some(&tried(lines, 9))).as_secs()
            })
            .collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(care.lines_max(), 1);
        assert!(!care.refuses(&tried(1, 9)));
        care.stored(false);
        assert_eq!((care.lines_max(), care.failed(Cause::Passing, None)), (2, WAIT_MIN));
    }

    #[test]
    fn a_line_that_fails_even_as_a_reject_is_waited_for() {
        let mut care = Care::default();
        for wait in [Duration::ZERO, WAIT_MIN, WAIT_MIN] {
            assert!(!care.refuses(&tried(1, 9)));
            assert_eq!(care.failed(Cause::Content, Some(&tried(1, 9))), wait);
        }
        assert!(care.refuses(&tried(1, 9)) && !care.refuses(&tried(1, 10)));
        assert_eq!(care.failed(Cause::Content, Some(&tried(1, 9))), WAIT_MIN);
        assert!(!care.refuses(&tried(1, 9)));
    }
}
