//! A table that may be damaged, read in stretches: a damaged place costs the rows of its stretch.

use std::ops::Range;

use duckdb::Connection;

use super::StoreError;
use super::cause::is_damage;

/// Rows that DuckDB stores together, and those of them that it reads at once.
const GROUP_ROWS: u64 = 122_880;
const READ_ROWS: u64 = 2_048;

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
/// damage. Returns what cannot be read. Other errors end it.
pub(super) fn each_stretch(
    connection: &Connection,
    table: &str,
    mut read: impl FnMut(&Range<u64>) -> Result<(), StoreError>,
) -> Result<Option<Unreadable>, StoreError> {
    let sql = format!("select coalesce(max(rowid) + 1, 0)::ubigint from {table}");
    let end: u64 = connection.query_row(&sql, [], |row| row.get(0))?;
    let mut lost: Option<Unreadable> = None;
    for group in cut(0..end, GROUP_ROWS) {
        let Some(why) = damage(read(&group))? else { continue };
        let lost = lost.get_or_insert(Unreadable { stretches: Vec::new(), why });
        for part in cut(group, READ_ROWS) {
            if damage(read(&part))?.is_none() {
                continue;
            }
            match lost.stretches.last_mut() {
                Some(before) if before.end == part.start => before.end = part.end,
                _ => lost.stretches.push(part),
            }
        }
    }
    Ok(lost.filter(|lost| !lost.stretches.is_empty()))
}

fn cut(rows: Range<u64>, size: u64) -> impl Iterator<Item = Range<u64>> {
    let end = rows.end;
    let starts = std::iter::successors(Some(rows.start), move |start| start.checked_add(size));
    starts.take_while(move |start| *start < end).map(move |start| start..(start + size).min(end))
}

/// The error, where it tells of damage.
fn damage(done: Result<(), StoreError>) -> Result<Option<StoreError>, StoreError> {
    match done {
        Err(StoreError::Database(error)) if is_damage(&error.to_string()) => {
            Ok(Some(StoreError::Database(error)))
        }
        done => done.map(|()| None),
    }
}
