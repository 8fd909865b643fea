//! Calltrail: audit-log analytics and anomaly detection for MCP tool calls.
//!
//! Data flows once, straight through: `tail` reads lines, `dialects` makes records of them, `correlate` joins the
//! records into calls, `detect` finds what the rules look for, `store` keeps it all in DuckDB in one transaction a
//! batch, `notify` mails and `web` shows. `daemon` wires them and owns clock, threads and signals. The README's
//! architecture section is the long form of this map.

// Calls that no client's log tells of though it should.
pub mod absence;
// What a tool can do: the shipped labels, the operator's, and guesses by name.
pub mod catalogue;
// The command line, one file per subcommand.
pub mod cli;
// The file, the environment and the flags as one checked configuration.
pub mod config;
// Records to calls.
pub mod correlate;
// Clock, threads and signals; wires the parts.
pub mod daemon;
// Rule text to compiled rules to findings.
pub mod detect;
// Bytes to records, one file per log format.
pub mod dialects;
// Fail-points for tests; release builds have none.
mod fault;
// What people decided, hash-chained and synced, outside the database.
pub mod journal;
// Secrets are masked here before anything is stored.
pub mod mask;
// The words of the project as types.
pub mod model;
// Mail: rendering, the outbox loop, SMTP.
pub mod notify;
// Writes realistic logs in every dialect, with the truth beside them.
pub mod simulate;
// DuckDB.
pub mod store;
// Files: identity, rotation, reading positions.
pub mod tail;
// Makes hostile text inert.
pub mod untrusted;
// The dashboard.
pub mod web;
