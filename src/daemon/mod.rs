//! Clock, threads and signals: the only place that knows them. It wires the parts and drives the pipeline.

mod care;
mod carried;
mod clock;
pub mod control;
mod doctor;
mod drive;
mod evidence;
mod facts;
#[cfg(test)]
mod faults;
mod history;
mod intake;
mod notice;
mod pipeline;
mod rebuild;
mod rehearsal;
mod rule_folder;
mod rulebook;
mod rules;
mod scan;
mod silence;
mod watch;

pub use clock::now;
pub use doctor::{Examination, examine};
pub(crate) use facts::{decide, journal_path, open_journal};
pub(crate) use pipeline::{Pipeline, Setup};
pub use rebuild::Rebuilt;
pub(crate) use rebuild::rebuild;
pub use rehearsal::Rehearsal;
pub use rule_folder::{OVERRIDES, RuleFolder, Unread};
pub use rulebook::{Origin, RuleEntry, RuleSource, Rulebook, RulesError};
pub(crate) use rules::{Keeper, Reread};
pub(crate) use scan::scan;
pub use scan::{Progress, ScanOutcome};
pub(crate) use watch::{OnBackfill, WatchSetup, watch};
