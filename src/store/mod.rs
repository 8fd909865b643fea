//! DuckDB: migrations, the one write transaction a batch, typed reads. Only this module knows SQL.
//!
//! One [`Store`] owns the one writing connection. [`Reader`]s have connections of their own and see the last committed
//! batch. Others ask the writer for something through the [`Desk`].

mod absence;
mod alert_row;
mod audit;
mod batch;
mod call_list;
mod call_row;
mod candidates;
mod cause;
mod clock_log;
mod clocks;
mod decisions;
mod desk;
mod evidence;
mod first_seen;
mod history;
mod mend;
mod migrate;
mod noted;
mod open;
mod pairs;
mod place;
mod pool;
mod position;
mod query;
mod reader;
mod record_row;
mod remains;
mod replay;
mod restore;
mod result;
mod rule_alerts;
mod salvage;
mod session;
mod space;
mod stretch;
#[cfg(test)]
mod tests;
mod tidy;
mod tool_row;
mod value;

use std::path::PathBuf;

pub use absence::{CallPlace, Judged};
pub use audit::{Audit, Fault, FaultKind};
pub use batch::{AlertRow, Batch, Gap};
pub use call_list::CallQuery;
pub(crate) use cause::Cause;
pub(crate) use desk::Request;
pub use desk::{Decision, Delivery, DeliveryOutcome, Desk, DeskError};
pub use evidence::{EvidenceRow, EvidenceRows, TextPlace};
pub use history::{RecordNeed, StoredAlert, WantedGroup, Whose};
pub use noted::Noted;
pub use open::{OpenOptions, Store};
pub(crate) use open::{beside, make_private_folder};
pub use pairs::WantedPair;
pub use place::Found;
pub use position::Position;
pub use query::Answer;
pub use reader::{AlertFilter, CallFilter, Listed, Reader};
pub use replay::{After, CallPage};
pub use restore::{Alias, Restored, RestoredMail};
pub use salvage::{Parts, Place};
pub use space::Space;
pub use tool_row::{ToolName, ToolRow};

/// What can go wrong with the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The message tells all that DuckDB says, so there is no source to print once more.
    #[error("the database refused: {0}{to_do}", to_do = cause::to_do(.0))]
    Database(duckdb::Error),
    #[error(
        "{} is in use by another process{}; stop that one, or name another database with --db",
        path.display(),
        pid.map(|pid| format!(" (PID {pid})")).unwrap_or_default()
    )]
    InUse { path: PathBuf, pid: Option<u32> },
    #[error(
        "{} could not be opened as a Calltrail database and is left as it is: {reason}; if it is one, it is damaged, \
         and `calltrail rebuild` makes it again from the logs and the journal",
        path.display()
    )]
    Open { path: PathBuf, reason: duckdb::Error },
    #[error(
        "{} could not be opened for want of memory, and is left as it is: {reason}; give Calltrail more of it \
         (`memory_max` in the section `[store]`), and start it again",
        path.display()
    )]
    Memory { path: PathBuf, reason: duckdb::Error },
    #[error(
        "{} could not be opened for want of room on its disk, and is left as it is: {reason}; make room, and start \
         Calltrail again",
        path.display()
    )]
    Room { path: PathBuf, reason: duckdb::Error },
    #[error(
        "the tables of {} could not be brought up to date, and it is left as it is: {reason}; give Calltrail \
         more memory (`memory_max`), or the disk more room, and start it again",
        path.display()
    )]
    Upgrade { path: PathBuf, reason: duckdb::Error },
    #[error("the folder {} for the database could not be made: {reason}", path.display())]
    Folder { path: PathBuf, reason: std::io::Error },
    #[error("{} does not exist; start `calltrail watch` or `calltrail scan --db` first", path.display())]
    Missing { path: PathBuf },
    #[error(
        "the write-ahead log {} of the database is damaged ({reason}); `calltrail watch`, or `calltrail scan --db`, \
         sets it aside and reads from the logs again what it held",
        path.display()
    )]
    DamagedLog { path: PathBuf, reason: String },
    #[error(
        "the disk is nearly full: {free_bytes} bytes are free where the database {} lies and {needed_bytes} are \
         needed; make room, or name another place with --db",
        path.display()
    )]
    Full { path: PathBuf, free_bytes: u64, needed_bytes: u64 },
    /// A commit that was reported as done is not to be found.
    #[error("the database did not keep batch {seq}; the logs are read again from what it holds")]
    NotKept { seq: u64 },
    /// A read met a fault after which DuckDB answers nothing any more.
    #[error("the database has given up after a fault")]
    Broken,
    #[error("the database is being opened again after a fault; ask again in a few seconds")]
    Reopening,
    #[error(
        "the database was made by a newer Calltrail (migration {migration}); use that version or another --db"
    )]
    NewerSchema { migration: String },
    #[error(
        "the database was made by another build (migration {migration} differs); use that build or another --db"
    )]
    ForeignSchema { migration: String },
    /// Nothing may be stored that the journal does not have yet.
    #[error("{reason}")]
    Journal { reason: String },
    #[error("only a query can be run here: {reason}")]
    NotAQuery { reason: String },
    #[error("the statement took longer than {seconds} s and was stopped")]
    TimedOut { seconds: u64 },
}

impl From<crate::fault::Fault> for StoreError {
    fn from(fault: crate::fault::Fault) -> Self {
        Self::Database(duckdb::Error::ToSqlConversionFailure(Box::new(fault)))
    }
}

impl From<duckdb::Error> for StoreError {
    fn from(error: duckdb::Error) -> Self {
        Self::Database(error)
    }
}
