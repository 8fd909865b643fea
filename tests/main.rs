//! One integration binary, since linking DuckDB once is enough.

/// The real binary, driven and watched.
mod support;

/// Small logs with the alerts they must raise, in every order.
mod samples;
/// The daemon against files that change.
mod watch;
