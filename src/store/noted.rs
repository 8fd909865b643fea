//! What the database holds of the facts that the journal must hold too.

use rustc_hash::FxHashSet;

use super::value::{get_id, get_time, get_word};
use super::{Reader, StoreError};
use crate::model::{AlertId, AlertState, JournalMark, Micros};

/// One state of the database.
#[derive(Debug, Default)]
pub struct Noted {
    /// Where the journal stood then.
    pub mark: JournalMark,
    /// Decisions as (alert, time, who, state).
    pub decisions: FxHashSet<(AlertId, Micros, String, AlertState)>,
    /// Every alert that was ever stored.
    pub alerts: FxHashSet<AlertId>,
    /// Message ids of mails that were sent or given up.
    pub settled_mails: FxHashSet<String>,
}

impl Reader {
    pub fn noted(&self) -> Result<Noted, StoreError> {
        self.with(|connection| {
            connection.execute_batch("begin transaction read only")?;
            let noted = noted(connection);
            connection.execute_batch("rollback")?;
            noted
        })
    }
}

fn noted(connection: &duckdb::Connection) -> Result<Noted, StoreError> {
    let mut noted = Noted::default();
    let mut statement = connection.prepare(
        "select entries, hash from journal_mark order by seq desc, entries desc limit 1",
    )?;
    let mut rows = statement.query([])?;
    if let Some(row) = rows.next()? {
        noted.mark = JournalMark { entries: row.get(0)?, hash: row.get(1)? };
    }
    let mut statement =
        connection.prepare("select alert_id, time, who, state from decision_log")?;
    let rows = statement.query_map([], |row| {
        let at = get_time(row, 1)?.unwrap_or_default();
        Ok((AlertId(get_id(row, 0)?), at, row.get(2)?, get_word(row, 3, AlertState::from_word)?))
    })?;
    noted.decisions = rows.collect::<Result<_, _>>()?;
    let mut statement = connection.prepare("select distinct alert_id from alert_log")?;
    let rows = statement.query_map([], |row| get_id(row, 0).map(AlertId))?;
    noted.alerts = rows.collect::<Result<_, _>>()?;
    let mut statement = connection.prepare(
        "select message_id from outbox o semi join delivery_log d
         on d.outbox_id = o.id and d.outcome in ('sent', 'dead')",
    )?;
    let rows = statement.query_map([], |row| row.get(0))?;
    noted.settled_mails = rows.collect::<Result<_, _>>()?;
    Ok(noted)
}
