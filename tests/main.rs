//! One integration binary, since linking DuckDB once is enough.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

/// The real binary, driven and watched.
mod support;
mod tampering;

/// Calls that their client never logged.
mod absence;
/// From a line in a log to a mail in a mailbox.
mod alarm;
/// What goes wrong outside.
mod bad_input;
/// The dashboard in a real browser.
mod browser;
/// Databases whose write-ahead log was damaged.
mod damage;
/// One command that shows it all.
mod demo;
/// What a check of the whole database finds.
mod doctor;
/// Everything that can happen to files, process, disk and database.
mod faults;
/// Lines longer than a read.
mod long_lines;
/// Mails as a real mail server gets them.
mod mail;
/// What others find in the same calls.
mod oracles;
/// Logs that are hard to join, in any order.
mod order;
/// What the paths of logs name.
mod paths;
/// Every byte is accounted for.
mod ranges;
/// The database made again.
mod rebuild;
/// Rules listed, explained, tried on the past, changed while the daemon runs.
mod rules;
/// Small logs with the alerts they must raise, in every order.
mod samples;
/// One session over logs, rotations and restarts.
mod sessions;
/// A real mail server.
mod smtp_server;
/// The rules of the tree itself.
mod tidy;
/// The daemon against files that change.
mod watch;
