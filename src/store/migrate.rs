//! Brings a database to the newest schema, one transaction a migration.

use std::ops::Range;

use duckdb::{Connection, params};

use super::StoreError;
use super::stretch::each_stretch;

/// Every migration in order: (file name, text).
pub(super) const MIGRATIONS: [(&str, &str); 3] = [
    ("0001_ground.sql", include_str!("../../migrations/0001_ground.sql")),
    ("0002_views.sql", include_str!("../../migrations/0002_views.sql")),
    ("0003_evidence.sql", include_str!("../../migrations/0003_evidence.sql")),
];

/// The migration that moves what alerts rest on, and where in its text that begins.
const EVIDENCE: &str = "0003_evidence.sql";
const MOVES: &str = "-- What an older database holds moves over.";

/// Rows of evidence that take a while to move.
const MANY_ROWS: u64 = 10_000;

/// How much has to be readable of what a migration moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Care {
    /// All: else the database stays as it is.
    Whole,
    /// What cannot be read is left out.
    Readable,
    /// Nothing is moved.
    Without,
}

/// Applies what is missing; refuses a database that a newer or another Calltrail made. Returns what was lost, a
/// sentence.
pub(super) fn migrate(
    connection: &mut Connection,
    care: Care,
) -> Result<Option<String>, StoreError> {
    connection.execute_batch(
        "create table if not exists migration_log (
            number uinteger not null, name varchar not null, hash varchar not null)",
    )?;
    let applied = applied(connection)?;
    for (number, (name, hash)) in applied.iter().enumerate() {
        match MIGRATIONS.get(number) {
            None => return Err(StoreError::NewerSchema { migration: name.clone() }),
            Some((_, text)) if hash_of(text) != *hash => {
                return Err(StoreError::ForeignSchema { migration: name.clone() });
            }
            Some(_) => {}
        }
    }
    let mut lost = None;
    for (number, (name, text)) in MIGRATIONS.iter().enumerate().skip(applied.len()) {
        let is_of_evidence = *name == EVIDENCE && !applied.is_empty();
        let moving = is_of_evidence.then(|| Moving::new(connection, care)).transpose()?;
        let transaction = connection.transaction()?;
        transaction
            .execute_batch(&moving.as_ref().map_or((*text).to_owned(), |m| m.apply(text)))?;
        transaction.execute(
            "insert into migration_log values (?, ?, ?)",
            params![u32::try_from(number + 1).unwrap_or(u32::MAX), name, hash_of(text)],
        )?;
        transaction.commit()?;
        connection.execute_batch("checkpoint")?;
        lost = lost.or(moving.and_then(|moving| moving.lost));
    }
    Ok(lost)
}

/// How the evidence of an older database moves.
struct Moving {
    care: Care,
    /// Takes away what cannot be read; rows can be deleted unread.
    before: String,
    lost: Option<String>,
}

impl Moving {
    fn new(connection: &Connection, care: Care) -> Result<Self, StoreError> {
        let sql = "select count(*) from evidence_log";
        let rows: u64 = connection.query_row(sql, [], |row| row.get(0))?;
        if rows >= MANY_ROWS {
            tracing::info!(
                rows,
                "the database is brought up to date: what its alerts rest on moves, which takes a while and for that \
                 time as much room again"
            );
        }
        let mut moving = Self { care, before: String::new(), lost: None };
        match care {
            Care::Whole => {}
            Care::Readable => {
                let unreadable = each_stretch(connection, "evidence_log", |part| {
                    let sql = "select bit_xor(hash(alert_id, evidence_seq, ordinal, call_id, evidence)) is null
                               from evidence_log where rowid >= ? and rowid < ?";
                    let is_empty =
                        connection.query_row(sql, [part.start, part.end], |row| row.get(0));
                    is_empty.map(|_: bool| ()).map_err(StoreError::from)
                })?;
                if let Some(unreadable) = unreadable {
                    let delete = |part: &Range<u64>| {
                        let Range { start, end } = part;
                        format!(
                            "delete from evidence_log where rowid >= {start} and rowid < {end};\n"
                        )
                    };
                    moving.before = unreadable.stretches.iter().map(delete).collect();
                    moving.lost = Some(format!(
                        "{} of the {rows} calls shown with alerts of the old database: {}",
                        unreadable.rows(),
                        unreadable.why
                    ));
                }
            }
            Care::Without => {
                moving.lost =
                    Some(format!("all {rows} calls shown with alerts of the old database"));
            }
        }
        Ok(moving)
    }

    fn apply(&self, text: &str) -> String {
        match (self.care, text.split_once(MOVES)) {
            (Care::Without, Some((tables, _))) => format!("{tables}drop table evidence_log;"),
            _ => format!("{}{text}", self.before),
        }
    }
}

fn applied(connection: &Connection) -> Result<Vec<(String, String)>, StoreError> {
    let mut statement =
        connection.prepare("select name, hash from migration_log order by number")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn hash_of(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}
