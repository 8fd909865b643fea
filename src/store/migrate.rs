//! Brings a database to the newest schema, one transaction a migration.

use duckdb::{Connection, params};

use super::StoreError;

/// Every migration in order: (file name, text).
pub(super) const MIGRATIONS: [(&str, &str); 3] = [
    ("0001_ground.sql", include_str!("../../migrations/0001_ground.sql")),
    ("0002_views.sql", include_str!("../../migrations/0002_views.sql")),
    ("0003_evidence.sql", include_str!("../../migrations/0003_evidence.sql")),
];

/// Applies what is missing; refuses a database that a newer or another Calltrail made.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
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
    for (number, (name, text)) in MIGRATIONS.iter().enumerate().skip(applied.len()) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(text)?;
        transaction.execute(
            "insert into migration_log values (?, ?, ?)",
            params![u32::try_from(number + 1).unwrap_or(u32::MAX), name, hash_of(text)],
        )?;
        transaction.commit()?;
        connection.execute_batch("checkpoint")?;
    }
    Ok(())
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
