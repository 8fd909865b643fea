//! Opening a database: its folder, its settings, its schema.

use std::path::{Path, PathBuf};

use duckdb::{Config, Connection, params};

use super::cause::{Cause, cause_of, is_damage, is_damaged_log};
use super::migrate::{Care, migrate};
use super::{Reader, StoreError};
use crate::fault::{self, Point};
use crate::model::{JournalMark, Micros};

/// The one writer of a database.
pub struct Store {
    pub(super) connection: Connection,
    /// The number of the last committed batch; rows carry it.
    pub(super) seq: u64,
    reader: Reader,
    pub(super) hash_key: [u8; 32],
    /// Where the journal stands, not yet stored.
    pub(super) mark: Option<JournalMark>,
}

/// How to open a database.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    pub path: PathBuf,
    /// False: a database that is not there is an error.
    pub create: bool,
    /// What DuckDB may use, such as `1GB`.
    pub memory_max: String,
    /// The time to note as the database's birth.
    pub now: Micros,
}

impl Store {
    /// Opens the database and brings its schema up to date.
    pub fn open(options: &OpenOptions) -> Result<Self, StoreError> {
        Self::open_with(options, Care::Whole).map(|(store, _)| store)
    }

    /// As [`Store::open`], for a database that is to be made again: what bringing it up to date cannot read is left
    /// out. That is told too, as a sentence.
    pub fn salvage(options: &OpenOptions) -> Result<(Self, Option<String>), StoreError> {
        let mut opened = Self::open_with(options, Care::Whole);
        // Each on a connection of its own: after some faults DuckDB answers nothing any more.
        for care in [Care::Readable, Care::Without] {
            match &opened {
                Err(StoreError::Open { reason, .. }) if is_damage(&reason.to_string()) => {
                    opened = Self::open_with(options, care);
                }
                _ => break,
            }
        }
        opened
    }

    fn open_with(options: &OpenOptions, care: Care) -> Result<(Self, Option<String>), StoreError> {
        let path = &options.path;
        if !options.create && !path.exists() {
            return Err(StoreError::Missing { path: path.clone() });
        }
        if !path.exists()
            && let Some(folder) = path.parent()
        {
            make_private_folder(folder)?;
        }
        let connection = Connection::open_with_flags(path, settings(options)?)
            .map_err(|error| explain_open(path, error))?;
        make_private_file(path);
        Self::over(connection, options, care).map_err(|error| match error {
            // What cannot be read at the first look is as good as not opened.
            StoreError::Database(reason) => unopened(path, reason),
            error => error,
        })
    }

    fn over(
        mut connection: Connection,
        options: &OpenOptions,
        care: Care,
    ) -> Result<(Self, Option<String>), StoreError> {
        let lost = migrate(&mut connection, care).map_err(|error| match error {
            StoreError::Database(reason) if !is_damage(&reason.to_string()) => {
                StoreError::Upgrade { path: options.path.clone(), reason }
            }
            error => error,
        })?;
        connection.execute_batch("set enable_external_access = false")?;
        connection.execute_batch("set lock_configuration = true")?;
        let hash_key = hash_key(&connection, options.now)?;
        let seq = last_seq(&connection)?;
        let reader = Reader::new(connection.try_clone()?, options.path.clone());
        Ok((Self { connection, seq, reader, hash_key, mark: None }, lost))
    }

    /// A handle for reading.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// True until everything that was there when the database was made is stored: what the logs hold is history.
    pub fn is_history_pending(&self) -> Result<bool, StoreError> {
        let sql = "select count(*) = 0 from meta where name = 'history_read_at'";
        Ok(self.connection.query_row(sql, [], |row| row.get(0))?)
    }

    /// Notes that history is read: what comes from now on is news.
    pub fn end_history(&mut self, now: Micros) -> Result<(), StoreError> {
        let sql = "insert into meta values ('history_read_at', ?)";
        self.connection.execute(sql, [now.to_rfc3339()])?;
        // Whatever befalls the write-ahead log, news does not become history again.
        self.checkpoint()
    }

    /// The key of this database's argument hashes.
    pub const fn hash_key(&self) -> [u8; 32] {
        self.hash_key
    }

    /// The number of the last committed batch.
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// Writes the write-ahead log into the database file: for a clean stop and for idle moments. A read that goes on
    /// for long can be in its way; that is no fault, and the next one does it.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        fault::at(Point::BeforeCheckpoint)?;
        match self.connection.execute_batch("checkpoint") {
            Err(error) if error.to_string().contains("Cannot CHECKPOINT") => {
                tracing::debug!(%error, "the checkpoint has to wait");
                Ok(())
            }
            done => {
                done?;
                Ok(fault::at(Point::AfterCheckpoint)?)
            }
        }
    }

    /// Where the database lies.
    pub fn path(&self) -> &Path {
        self.reader.path()
    }
}

/// Settings of every connection. Nothing may be fetched or loaded from outside.
fn settings(options: &OpenOptions) -> Result<Config, StoreError> {
    Ok(Config::default()
        .with("autoinstall_known_extensions", "false")?
        .with("autoload_known_extensions", "false")?
        .with("preserve_insertion_order", "false")?
        // Each checkpoint compresses the last row group anew: a larger log made a backfill a fifth faster.
        .with("checkpoint_threshold", "256MB")?
        .with("max_memory", &options.memory_max)?
        .with("threads", "2")?)
}

/// DuckDB names the process that holds the lock in its message; we name it in ours.
fn explain_open(path: &Path, reason: duckdb::Error) -> StoreError {
    let message = reason.to_string();
    if is_damaged_log(&message) {
        // An assertion of DuckDB's has its stack behind it.
        let reason = message.lines().next().unwrap_or_default().to_owned();
        return StoreError::DamagedLog { path: beside(path, ".wal"), reason };
    }
    if message.contains("Could not set lock") || message.contains("Conflicting lock") {
        let pid = message
            .split_once("PID ")
            .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next())
            .and_then(|digits| digits.parse().ok());
        return StoreError::InUse { path: path.to_path_buf(), pid };
    }
    unopened(path, reason)
}

/// Only what is neither for want of memory nor of room may be damage.
fn unopened(path: &Path, reason: duckdb::Error) -> StoreError {
    let path = path.to_path_buf();
    match cause_of(&reason.to_string()) {
        Cause::Memory => StoreError::Memory { path, reason },
        Cause::Full => StoreError::Room { path, reason },
        Cause::Passing | Cause::Content => StoreError::Open { path, reason },
    }
}

/// A file that belongs to a database: the database's whole name with a suffix, so that no two databases share one.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes a folder, and those above it, that only its owner can look into; one that is there stays as it is.
pub(crate) fn make_private_folder(folder: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::DirBuilderExt;
    if folder.as_os_str().is_empty() || folder.exists() {
        return Ok(());
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|reason| StoreError::Folder { path: folder.to_path_buf(), reason })
}

/// The database holds what agents did with customer data: nobody else on the machine may read it.
fn make_private_file(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    for file in [path.to_path_buf(), beside(path, ".wal")] {
        if file.exists()
            && let Err(error) =
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))
        {
            tracing::warn!(%error, file = %file.display(), "could not make the file private");
        }
    }
}

/// Reads the key, or makes one from the system's randomness for a new database.
fn hash_key(connection: &Connection, now: Micros) -> Result<[u8; 32], StoreError> {
    let known: Option<String> =
        connection.query_row("select max(value) from meta where name = 'hash_key'", [], |row| {
            row.get(0)
        })?;
    if let Some(key) = known.and_then(|text| blake3::Hash::from_hex(text).ok()) {
        return Ok(*key.as_bytes());
    }
    let key: [u8; 32] = rand::random();
    connection.execute(
        "insert into meta values ('hash_key', ?), ('made_at', ?)",
        params![blake3::Hash::from_bytes(key).to_hex().to_string(), now.to_rfc3339()],
    )?;
    // Hashes stay comparable even if the write-ahead log is lost.
    connection.execute_batch("checkpoint")?;
    Ok(key)
}

fn last_seq(connection: &Connection) -> Result<u64, StoreError> {
    Ok(connection.query_row(
        "select greatest(
            (select coalesce(max(seq), 0) from position_log),
            (select coalesce(max(seq), 0) from call_log),
            (select coalesce(max(before_seq), 0) from call_superseded),
            (select coalesce(max(seq), 0) from alert_log),
            (select coalesce(max(seq), 0) from journal_mark),
            (select coalesce(max(seq), 0) from absence_log),
            (select coalesce(max(seq), 0) from pair_log),
            (select coalesce(max(seq), 0) from decision_log))",
        [],
        |row| row.get(0),
    )?)
}
