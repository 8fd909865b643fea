//! Writes realistic audit logs in every dialect, with the truth beside them. The generator is pure
//! and streams: the same scenario gives the same bytes on every machine, and a million calls take
//! no more memory than a thousand. Only `write` touches files; nothing here knows how logs are
//! read.

mod act;
mod actor;
mod attack;
mod desk;
mod dice;
mod gate;
mod generate;
mod line;
mod proxy;
mod scenario;
mod story;
mod tickets;
mod truth;
mod work;
mod write;

pub use generate::{SimEvent, Simulation};
pub use line::SimLine;
pub use scenario::{AttackKind, Scenario};
pub use story::Story;
pub use truth::{AlertTruth, CallTruth, RecordPlace};
pub use write::{WriteError, WriteSummary, write_logs};

#[cfg(test)]
mod tests;
