//! One pass over what is there, without a daemon.

use super::clock::now;
use super::pipeline::{Pipeline, Step};
use crate::store::StoreError;
use crate::tail::ProblemKind;

/// What a pass came to.
#[derive(Clone, Debug, Default)]
pub struct ScanOutcome {
    pub files: u64,
    pub records: u64,
    pub rejects: u64,
    pub bytes: u64,
    /// Bytes of unfinished last lines: they wait for their newline.
    pub unfinished_bytes: u64,
    /// What could not be read: (path, what is wrong and what to do).
    pub problems: Vec<(String, String)>,
    /// Problems that make the result partial: something should have been read and was not.
    pub is_partial: bool,
}

/// How far a pass has come, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub done: u64,
    pub total: u64,
    pub records: u64,
    pub rejects: u64,
}

/// Rounds of looking and reading, so that a pass ends even where files never stop growing.
const LOOKS_MAX: usize = 8;

/// Reads everything that is there to its end.
pub(crate) fn scan(
    pipeline: &mut Pipeline,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<ScanOutcome, StoreError> {
    let report = pipeline.look(now());
    let mut outcome = ScanOutcome {
        is_partial: report.problems.iter().any(|problem| is_loss(problem.kind)),
        problems: report
            .problems
            .iter()
            .map(|problem| (problem.path.display().to_string(), problem.message.clone()))
            .collect(),
        ..ScanOutcome::default()
    };
    let total = pipeline.unread_bytes();
    // What went wrong while reading, and files that moved meanwhile, show in another look.
    let mut is_stuck = false;
    let mut looks = 0;
    while looks < LOOKS_MAX {
        let mut is_done = true;
        while let Some(step) = take_step(pipeline)? {
            is_done = false;
            outcome.records += step.records;
            outcome.rejects += step.rejects;
            outcome.bytes += step.bytes;
            on_progress(Progress {
                done: outcome.bytes,
                total,
                records: outcome.records,
                rejects: outcome.rejects,
            });
        }
        for problem in pipeline.look(now()).problems {
            outcome.is_partial |= is_loss(problem.kind);
            outcome.problems.push((problem.path.display().to_string(), problem.message));
        }
        // A file that moved is read after the look; one that only grew is read as far as this pass went.
        is_stuck = is_done && pipeline.is_pending();
        if pipeline.is_deciding() {
            continue;
        }
        if is_done && !is_stuck {
            break;
        }
        looks += 1;
    }
    outcome.is_partial |= is_stuck;
    outcome.files = pipeline.status().len() as u64;
    outcome.unfinished_bytes = pipeline.unread_bytes();
    Ok(outcome)
}

/// The next batch, as long as there is room for it: what is stored stays, and the next pass goes on from there.
fn take_step(pipeline: &mut Pipeline) -> Result<Option<Step>, StoreError> {
    if let Some(space) = pipeline.lacks_room(true)? {
        let (free_bytes, needed_bytes) = (space.free_bytes, space.needed_bytes);
        return Err(StoreError::Full { path: pipeline.path(), free_bytes, needed_bytes });
    }
    pipeline.step(now())
}

/// Whether a problem means that something that should be read is not.
fn is_loss(kind: ProblemKind) -> bool {
    match kind {
        ProblemKind::MissingRoot
        | ProblemKind::Unreadable
        | ProblemKind::OutsideRoot
        | ProblemKind::Compressed
        | ProblemKind::Damaged
        | ProblemKind::Encoding
        | ProblemKind::EndlessLine
        | ProblemKind::TooMany => true,
        ProblemKind::BrokenLink | ProblemKind::NotAFile => false,
    }
}
