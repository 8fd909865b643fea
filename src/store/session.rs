//! Sessions, each found by its id or by a call of it. What a session is, the view `sessions` says alone.

use duckdb::{Connection, Row};

use super::value::{get_json, get_text, get_time, text, time};
use super::{Reader, StoreError};
use crate::model::{Micros, Names, SessionId, SessionView};

/// Names told of a session's actors, clients, tenants and servers each.
const NAMES_MAX: u32 = 12;

impl Reader {
    /// The session of the key that was going on at that time. Looks at the key's calls alone.
    pub fn session_at(&self, key: &str, at: Micros) -> Result<Option<SessionView>, StoreError> {
        self.with(|connection| find(connection, key, at))
    }

    /// The session with this id, or that had it before a late call came before its first. Looks at every call there is
    /// for that one: where a call of the session is known, [`Reader::session_at`] is faster.
    pub fn session(&self, id: SessionId) -> Result<Option<SessionView>, StoreError> {
        self.with(|connection| {
            let mut statement = connection.prepare(
                "select session, time from call_now
                 where kind = 'call' and time is not null and session_id_of(session, call_id) = ?",
            )?;
            let mut rows = statement.query([text(&id.to_string())])?;
            let Some(row) = rows.next()? else { return Ok(None) };
            match get_text(row, 0)?.zip(get_time(row, 1)?) {
                Some((key, at)) => find(connection, &key, at),
                None => Ok(None),
            }
        })
    }

    /// When the last of the key's calls that began from `from` to `to` was over; none if there is none.
    pub fn busy_until(
        &self,
        key: &str,
        from: Micros,
        to: Micros,
    ) -> Result<Option<Micros>, StoreError> {
        self.with(|connection| {
            Ok(connection.query_row(
                "select max(greatest(time, ended)) from call_now
                 where kind = 'call' and session = ? and time >= ? and time <= ?",
                [text(key), time(Some(from)), time(Some(to))],
                |row| get_time(row, 0),
            )?)
        })
    }
}

fn find(connection: &Connection, key: &str, at: Micros) -> Result<Option<SessionView>, StoreError> {
    let mut statement = connection.prepare(
        "select session_id, session, first_at, last_at, calls, ran, denied, failed
         from sessions where session = ? and first_at <= ? and last_at >= ?",
    )?;
    let at = time(Some(at));
    let found = statement.query_map([text(key), at.clone(), at], from_row)?.next().transpose()?;
    let Some(mut session) = found.flatten() else { return Ok(None) };
    // Between two sessions of one key nothing begins: its bounds hold its calls and no others.
    let bounds = [text(&session.key), time(Some(session.first_at)), time(Some(session.last_at))];
    let columns = ["actor", "client", "tenant", "server"].map(|column| {
        format!(
            "count(distinct {column}), to_json(list_sort(list(distinct {column})
                 filter ({column} is not null))[:{NAMES_MAX}])::varchar"
        )
    });
    let sql = format!(
        "select {} from call_now where kind = 'call' and session = ? and time >= ? and time <= ?",
        columns.join(", ")
    );
    (session.actors, session.clients, session.tenants, session.servers) =
        connection.query_row(&sql, bounds, |row| {
            Ok((names(row, 0)?, names(row, 2)?, names(row, 4)?, names(row, 6)?))
        })?;
    Ok(Some(session))
}

/// The session, but for the names in it.
fn from_row(row: &Row<'_>) -> duckdb::Result<Option<SessionView>> {
    let id = get_text(row, 0)?.and_then(|id| id.parse().ok());
    let (key, first, last) = (get_text(row, 1)?, get_time(row, 2)?, get_time(row, 3)?);
    let (Some(id), Some(key), Some(first_at), Some(last_at)) = (id, key, first, last) else {
        return Ok(None);
    };
    Ok(Some(SessionView {
        id,
        key: key.to_string(),
        first_at,
        last_at,
        calls: row.get(4)?,
        ran: row.get(5)?,
        denied: row.get(6)?,
        failed: row.get(7)?,
        actors: Names::default(),
        clients: Names::default(),
        tenants: Names::default(),
        servers: Names::default(),
    }))
}

/// How many there are, and the first of them.
fn names(row: &Row<'_>, index: usize) -> duckdb::Result<Names> {
    Ok(Names { total: row.get(index)?, first: get_json(row, index + 1)? })
}
