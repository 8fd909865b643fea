//! The real daemon against everything that can happen to files, process, disk and database.
//!
//! [`random`] runs sequences of such things from seeds, against a model of the folder that knows which lines must be in
//! the database exactly once and which nobody can promise. The other files here are cases with names. What needs no
//! process is tested nearer to the code. Where each case is:
//!
//! | case | where |
//! |---|---|
//! | renamed under load, while down, three times; kept by its writer | `tail::tests::cases`, `load`; `random` |
//! | moved out of sight | `tail::tests::cases` |
//! | copied and truncated, quietly, in a race, where nobody looks | `tail::tests::copies`, `load`; `random` |
//! | truncated, rewritten shorter, longer, with the same beginning, of the same size | `tail::tests::cases`; `random` |
//! | deleted, made again, an inode given out again, deleted while it is read | `tail::tests::cases`; `random` |
//! | random lives of one log, read and committed in parts | `tail::tests::story` |
//! | packed after rotation, torn archives, both forms at once | `tail::tests`; `random` |
//! | links: moving, hard, dangling, in a circle, leading out | `tail::tests::copies`, `folders`; `random` |
//! | half lines: finished later, at the end of a file, cut off | `tail::tests::lines`; `deaths`, `random` |
//! | a writer killed in the middle of a line, and another behind it | `dialects`; `deaths`, `random` |
//! | two writers in one line, invalid UTF-8, nesting, doubled keys, odd times | `dialects::cases`, `bad_input` |
//! | long lines, holes, zeros, blank lines, byte order marks | `tail::tests::lines`, `long_lines`; `random` |
//! | equal lines, copied files, files with the same beginning | `tail::tests::copies` |
//! | more files than descriptors | `tail::tests::folders`; `limits` |
//! | folders that come later, are made anew, replaced, nested | `tail::tests::folders`; `limits`, `random` |
//! | files and folders without rights | `tail::tests::folders` |
//! | no watches, no events, a queue of events that overflows | `tail::wake`; `limits` |
//! | times of files that go back or stay | `tail::tests::cases` |
//! | a clock that jumps | times are arguments in all that decides: `detect::properties`, `correlate::tests` |
//! | killed at random, killed at each point of the write path | `deaths`, `random` |
//! | a full disk: in the write-ahead log, in the checkpoint | `disk`, `random` |
//! | a sync that fails | `disk` |
//! | a write-ahead log that is torn or gone; a database that is damaged or gone | `database` |
//! | a second daemon | `watch` |
//! | slow readers, readers while the database is opened again | `store::pool` |
//! | a statement that fails, rows left in an appender, a commit that fails or only says so | `deaths` |
//! | a writer that panics | `deaths` |
//! | a decision without its answer | `decisions`, `journal` |
//! | a mail server that is down, slow, or breaks off | `notify::outbox`, `alarm`; `random` |
//! | told to stop in the midst of a backlog | `deaths` |
//! | older and newer schemas | `store` |
//! | hostile names of files, pipes and devices named like logs | `tail::tests::folders`, `browser::hostile` |

mod check;
/// Damage to the database.
mod database;
/// Deaths of the process and of the writer.
mod deaths;
/// Decisions of people.
mod decisions;
/// Full and failing disks.
mod disk;
mod folder;
/// What the system does not give.
mod limits;
mod line;
mod random;
mod run;
mod step;

/// Whether there is time: `make soak` runs the same tests for longer.
pub(crate) fn is_soak() -> bool {
    asked("CALLTRAIL_SEEDS").is_some()
}

/// What whoever runs the tests asks of them.
#[expect(clippy::disallowed_methods, reason = "no part of the program's configuration")]
fn asked(variable: &str) -> Option<String> {
    std::env::var(variable).ok()
}
