//! A table that may be damaged, read in stretches: a damaged place costs the rows of its stretch.

use std::ops::Range;

use duckdb::Connection;

use super::{Cause, StoreError};

/// Rows that DuckDB stores together, and those of them that it reads at once.
const GROUP_ROWS: u64 = 122_880;
pub(super) const READ_ROWS: u64 = 2_048;

/// Rows that could not be read.
pub(super) struct Unreadable {
    pub(super) stretches: Vec<Range<u64>>,
    /// The first error.
    pub(super) why: StoreError,
}

impl Unreadable {
    /// How many row numbers they have.
    pub(super) fn rows(&self) -> u64 {
        self.stretches.iter().map(|rows| rows.end - rows.start).sum()
    }
}

/// Calls `read` with ranges of row numbers until it has had all rows of a table; with smaller ones where it meets
/// damage, or has too little memory for the larger. Returns what cannot be read. Other errors end it.
pub(super) fn each_stretch(
    connection: &Connection,
    table: &str,
    mut read: impl FnMut(&Range<u64>) -> Result<(), StoreError>,
) -> Result<Option<Unreadable>, StoreError> {
    let sql = format!("select coalesce(max(rowid) + 1, 0)::ubigint from {table}");
    let end: u64 = connection.query_row(&sql, [], |row| row.get(0))?;
    let mut lost: Option<Unreadable> = None;
    for group in cut(0..end, GROUP_ROWS) {
        match read(&group) {
            Ok(()) => continue,
            Err(error) if error.is_damage() || error.cause() == Cause::Memory => {}
            Err(error) => return Err(error),
        }
        for part in cut(group, READ_ROWS) {
            let Err(why) = read(&part) else { continue };
            if !why.is_damage() {
                return Err(why);
            }
            let lost = lost.get_or_insert(Unreadable { stretches: Vec::new(), why });
            match lost.stretches.last_mut() {
                Some(before) if before.end == part.start => before.end = part.end,
                _ => lost.stretches.push(part),
            }
        }
    }
    Ok(lost)
}

fn cut(rows: Range<u64>, size: u64) -> impl Iterator<Item = Range<u64>> {
    let end = rows.end;
    let starts = std::iter::successors(Some(rows.start), move |start| start.checked_add(size));
    starts.take_while(move |start| *start < end).map(move |start| start..(start + size).min(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAMAGE: &str = "IO Error: Corrupt database file: computed checksum 1 does not match";
    const MEMORY: &str = "Out of Memory Error: failed to pin block of size 256.0 KiB";
    const ROOM: &str = "IO Error: Could not write file \"/a\": No space left on device";

    /// Reads a table of three groups; `fails` tells what is in the way of a stretch. Returns how many rows were read
    /// and how many could not be.
    fn read(fails: impl Fn(&Range<u64>) -> Option<&'static str>) -> Result<(u64, u64), StoreError> {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("create table t as from range(300000)").unwrap();
        let mut rows = 0;
        let unreadable = each_stretch(&connection, "t", |part| {
            if let Some(message) = fails(part) {
                let failure = duckdb::ffi::Error::new(duckdb::ffi::DuckDBError);
                return Err(duckdb::Error::DuckDBFailure(failure, Some(message.to_owned())).into());
            }
            rows += part.end - part.start;
            Ok(())
        })?;
        Ok((rows, unreadable.map_or(0, |unreadable| unreadable.rows())))
    }

    #[test]
    fn what_is_too_much_for_the_memory_is_read_in_smaller_stretches() {
        let is_large = |part: &Range<u64>| part.end - part.start > READ_ROWS;
        assert_eq!(read(|part| is_large(part).then_some(MEMORY)).unwrap(), (300_000, 0));
        // Damage between costs its stretch alone.
        let both = |part: &Range<u64>| match part {
            part if is_large(part) => Some(MEMORY),
            part => part.contains(&200_000).then_some(DAMAGE),
        };
        assert_eq!(read(both).unwrap(), (300_000 - READ_ROWS, READ_ROWS));
    }

    #[test]
    fn only_damage_is_a_loss() {
        let at =
            |place: u64, message| move |part: &Range<u64>| part.contains(&place).then_some(message);
        assert_eq!(read(at(7, DAMAGE)).unwrap(), (300_000 - READ_ROWS, READ_ROWS));
        assert_eq!(read(at(7, MEMORY)).unwrap_err().cause(), Cause::Memory);
        assert_eq!(read(at(7, ROOM)).unwrap_err().cause(), Cause::Full);
        assert!(!read(at(7, "INTERRUPT Error: Interrupted!")).unwrap_err().is_damage());
    }
}
