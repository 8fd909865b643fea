//! The clock: the one place that reads it.

use crate::model::Micros;

/// The time now.
#[expect(clippy::disallowed_methods, reason = "this is where the time comes from")]
pub fn now() -> Micros {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock before 1970 is wrong anyway; zero keeps everything else going.
    Micros(since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX)))
}
