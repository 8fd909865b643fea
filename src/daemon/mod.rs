//! Clock, threads and signals: the only place that knows them. It wires the parts and drives the pipeline.

mod care;
mod clock;
pub mod control;
mod drive;
mod evidence;
#[cfg(test)]
mod faults;
mod history;
mod intake;
mod notice;
mod pipeline;
mod scan;
mod watch;

pub use clock::now;
pub(crate) use pipeline::{Pipeline, Setup};
pub(crate) use scan::scan;
pub use scan::{Progress, ScanOutcome};
pub(crate) use watch::{OnBackfill, WatchSetup, watch};
