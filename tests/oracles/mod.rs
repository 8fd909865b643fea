//! What the engine finds beside what others find in the same calls: another Sigma engine, and SQL that says what a rule
//! means by its definition. A difference is a named exception with a reason, or a bug.

/// Calls made up for rules, and their labels.
mod calls;
/// Selections at random.
mod selections;
/// Detections and correlations as another engine for Sigma finds them.
mod sigma;
/// The exceptions of that comparison.
mod sigma_exceptions;
/// Rules as one SQL statement each.
mod sql;
/// A store in memory, for calls that come late and in any order.
mod store;
