//! Writes realistic audit logs in every dialect, with the truth beside them. The generator is pure
//! and streams: the same scenario gives the same bytes on every machine, and a million calls take
//! no more memory than a thousand. Only `write` touches files; nothing here knows how logs are
//! read.

mod act;
mod actor;
mod attack;
mod connection;
mod desk;
mod dice;
mod gate;
mod generate;
mod journey;
mod line;
mod noise;
mod paper;
mod proxy;
mod scenario;
mod score;

mod stack;
mod story;
mod tickets;
mod truth;
mod work;
mod write;

pub use generate::{SimEvent, Simulation};
pub use line::SimLine;
pub use scenario::{AttackKind, Noise, Scenario};

pub use score::{
    Example, Fault, Found, FoundSighting, LinkKind, Place, Rates, Score, Tally, score,
};
pub use story::Story;
pub use truth::{AlertTruth, ArgKeys, ArgsShown, CallTruth, RecordPlace, Says, Shows, Span};
pub use write::{WriteError, WriteSummary, write_logs};

#[cfg(test)]
mod hard_cases;
#[cfg(test)]
mod score_cases;
#[cfg(test)]
mod tests;
