//! What an error of the database calls for: room, memory, patience, or a look at what was to be written.

use super::StoreError;

/// Why a batch could not be stored, as far as that decides what is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The disk, or its user's share of it, is full.
    Full,
    /// Memory ran out: less at a time may do.
    Memory,
    /// The machine's: it may be well again at another time, whatever is written.
    Passing,
    /// The statement or its values: the same batch will fail in the same way.
    Content,
}

/// What the system and DuckDB say of a full disk.
const FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];
/// What DuckDB says when it must not take more memory. The class of the error is lost where a commit meets it.
const MEMORY: [&str; 5] = [
    "Out of Memory",
    "failed to allocate",
    "failed to pin block",
    "could not allocate block",
    "Cannot allocate memory",
];
/// The classes of errors that are about a value.
const CONTENT: [&str; 5] = [
    "Conversion Error",
    "Constraint Error",
    "Invalid Input Error",
    "Out of Range Error",
    "Invalid type Error",
];
/// What comes from outside of the statement.
const PASSING: [&str; 8] = [
    "IO Error",
    "Input/output error",
    "fsync failed",
    "Too many open files",
    "Could not ",
    "Cannot open file",
    "INTERRUPT",
    "Interrupted",
];

/// What the system and DuckDB say of a place on the disk that cannot be read, or that holds something else.
const DAMAGE: [&str; 3] = ["Corrupt database file", "Input/output error", "Could not read"];

/// What DuckDB says where a log cannot be replayed and is nevertheless sound, as far as anybody can tell.
const NO_DAMAGE: [&str; 8] = [
    "Input/output error",
    "Too many open files",
    "ermission denied",
    "Could not ",
    "Cannot open",
    "onflicting lock",
    "fsync",
    "Corrupt database file",
];
/// What precedes the number of a log's version that this DuckDB cannot read, and the highest that another may write.
const VERSION: &str = "Failed to read WAL of version ";
const VERSION_MAX: u64 = 20;

impl StoreError {
    /// What this error calls for. A database that was invalidated tells its first error again, and counts as that.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Self::Database(error) => cause_of(&error.to_string()),
            Self::Open { reason, .. } | Self::Upgrade { reason, .. } => {
                match cause_of(&reason.to_string()) {
                    Cause::Content => Cause::Passing,
                    other => other,
                }
            }
            Self::Journal { reason } => match cause_of(reason) {
                Cause::Content => Cause::Passing,
                other => other,
            },
            Self::Memory { .. } => Cause::Memory,
            Self::Full { .. } | Self::Room { .. } => Cause::Full,
            _ => Cause::Passing,
        }
    }
}

pub(super) fn cause_of(message: &str) -> Cause {
    // What is said of a value may quote it, and values are chosen by whoever writes the logs.
    if CONTENT.iter().any(|class| message.starts_with(class)) {
        return Cause::Content;
    }
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&FULL) {
        Cause::Full
    } else if says(&MEMORY) {
        Cause::Memory
    } else if says(&PASSING) {
        Cause::Passing
    } else {
        Cause::Content
    }
}

/// What to do about an error, behind what DuckDB says of it: its own advice names settings that nobody can reach.
pub(super) fn to_do(error: &duckdb::Error) -> &'static str {
    match cause_of(&error.to_string()) {
        Cause::Memory => "; what it may take is `memory_max` in the section `[store]`",
        Cause::Full | Cause::Passing | Cause::Content => "",
    }
}

/// Whether what is stored is at fault, as far as anybody can tell, and neither memory nor room nor the moment.
pub(super) fn is_damage(message: &str) -> bool {
    match cause_of(message) {
        Cause::Full | Cause::Memory => false,
        Cause::Content => true,
        Cause::Passing => DAMAGE.iter().any(|word| message.contains(word)),
    }
}

/// Whether opening failed at the write-ahead log itself. What else can go wrong while it is replayed (no room, no
/// memory, a file that cannot be read, a damaged database) is no fault of the log's.
pub(super) fn is_damaged_log(message: &str) -> bool {
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    message.contains("WAL")
        && !says(&FULL)
        && !says(&MEMORY)
        && !says(&NO_DAMAGE)
        && !is_of_another_version(message)
}

/// Whether another DuckDB may have written the log: that one can read it.
fn is_of_another_version(message: &str) -> bool {
    let version = message.split_once(VERSION).and_then(|(_, rest)| rest.split(' ').next());
    version
        .and_then(|version| version.parse().ok())
        .is_some_and(|version| (1..=VERSION_MAX).contains(&version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wrong_with_the_log_itself_counts_as_a_damaged_log() {
        let damaged = "Serialization Error: Failure while replaying WAL file \"/a.wal\": Corrupt WAL file: entry at \
                       byte position 8 computed checksum 1 does not match stored checksum 2";
        assert!(is_damaged_log(damaged));
        assert!(is_damaged_log(
            "WAL file \"/a.wal\": Failed to read WAL of version 130 - can only read version 1"
        ));
        for other in [
            "WAL file \"/a.wal\": Failed to read WAL of version 4 - can only read version 1, 2 and 3 (encrypted)",
            "IO Error: Could not set lock on file \"/a\": Conflicting lock is held",
            "IO Error: Failure while replaying WAL file \"/a.wal\": Could not write file: No space left on device",
            "Failure while replaying WAL file \"/a.wal\": Out of Memory Error: failed to allocate data",
            "TransactionContext Error: Failure while replaying WAL file \"/a.wal\": Failed to commit: failed to pin \
             block of size 256.0 KiB (3.6 MiB/3.8 MiB used)",
            "IO Error: Cannot open file \"/a.wal\": Permission denied",
            "Failure while replaying WAL file: Corrupt database file: computed checksum 1 does not match",
            "IO Error: The file \"/a\" exists, but it is not a valid DuckDB database file!",
        ] {
            assert!(!is_damaged_log(other), "{other}");
        }
    }

    #[test]
    fn what_is_stored_is_at_fault_neither_for_want_of_memory_or_room_nor_at_a_bad_moment() {
        for (message, is) in [
            (
                "IO Error: Corrupt database file: computed checksum 1 does not match stored checksum 2",
                true,
            ),
            ("IO Error: Could not read from file \"/a\": Input/output error", true),
            ("INTERNAL Error: Attempted to access index 1", true),
            (
                "Out of Memory Error: failed to pin block of size 256.0 KiB (127 MiB/128 MiB used)",
                false,
            ),
            ("IO Error: Could not write file \"/a\": No space left on device", false),
            ("IO Error: Cannot open file \"/a\": Too many open files", false),
            ("INTERRUPT Error: Interrupted!", false),
        ] {
            assert_eq!(is_damage(message), is, "{message}");
        }
    }

    #[test]
    fn where_memory_runs_out_the_setting_is_named() {
        let told = |message: &str| {
            let failure = duckdb::ffi::Error::new(duckdb::ffi::DuckDBError);
            let error = duckdb::Error::DuckDBFailure(failure, Some(message.to_owned()));
            StoreError::Database(error).to_string()
        };
        assert!(told("Out of Memory Error: could not allocate block").contains("`memory_max`"));
        assert!(!told("Constraint Error: NOT NULL constraint failed").contains("memory_max"));
    }

    #[test]
    fn an_invalidated_database_is_judged_by_its_first_error() {
        let fatal = "FATAL Error: Failed: database has been invalidated because of a previous fatal error. Original \
                     error: \"Failed to create checkpoint because of error: Could not write file: No space left on \
                     device\"";
        assert_eq!(cause_of(fatal), Cause::Full);
        assert_eq!(cause_of("Constraint Error: NOT NULL constraint failed"), Cause::Content);
        assert_eq!(cause_of("INTERNAL Error: Attempted to access index 1"), Cause::Content);
    }
}
