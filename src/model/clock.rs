//! What is kept of the clocks of two streams that tell of the same calls.

use super::{Micros, Text};

/// A change in the number of joins whose measured difference falls into a bin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockSample {
    /// The day's first moment.
    pub day: Micros,
    /// The stream farther from the work.
    pub upper: Text,
    /// The stream nearer to it.
    pub lower: Text,
    /// The middle of the bin, in milliseconds: lower minus upper.
    pub bin_ms: i32,
    /// Joins that came, or, where negative, were taken back.
    pub samples: i64,
}

/// What a day's calls of two streams are joined with from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockUse {
    /// The day's first moment.
    pub day: Micros,
    pub upper: Text,
    pub lower: Text,
    /// Lower minus upper; none where too little was measured.
    pub offset_micros: Option<i64>,
    /// How far from there records of the same call may be.
    pub tolerance_micros: Option<i64>,
}
