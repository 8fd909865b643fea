//! Clock, threads and signals: the only place that knows them. It wires the parts and drives the pipeline.

mod clock;
mod evidence;
mod intake;
mod pipeline;

pub use clock::now;
pub(crate) use pipeline::{Pipeline, Setup, Step};
