//! Pairs of logs that tell of the same calls.

use super::{Micros, Text};

/// A log near the work and a client's log that told of a call together, with whom the call named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WitnessPair {
    /// The stream of the gateway, proxy or server.
    pub lower: Text,
    /// The stream of the client or transcript.
    pub upper: Text,
    pub principal: Option<Text>,
    pub client: Option<Text>,
}

/// When a call first showed a pair; none: no call shows it any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairFact {
    pub pair: WitnessPair,
    pub first_at: Option<Micros>,
}
