//! Calls as lists show them, a page at a time.

use duckdb::{Connection, Row, params_from_iter};

use super::value::{Sql, bytes, get_id, get_time, get_word, number, optional, text, time};
use super::{Reader, StoreError};
use crate::model::{CallId, CallView, Micros, OutcomeClass, Ran};

/// Which calls to list; empty fields do not restrict.
#[derive(Clone, Debug, Default)]
pub struct CallQuery {
    /// The actor is one of these; empty: any.
    pub actors: Vec<String>,
    /// The session key.
    pub session: Option<String>,
    /// The tool is one of these names; empty: any.
    pub tools: Vec<String>,
    pub class: Option<OutcomeClass>,
    pub from: Option<Micros>,
    pub to: Option<Micros>,
    /// The newest first, else the oldest.
    pub is_newest_first: bool,
    /// The last call of the page before: go on behind it.
    pub after: Option<(Micros, CallId)>,
    pub limit: usize,
}

/// The columns in the order of [`from_row`].
const COLUMNS: &str =
    "call_id, time, ended, tool, server, tenant, actor, class, code, ran, witnesses";
/// The order of everything, which a page's end is told by.
const ORDER: &str = "time, stream, generation, \"offset\", idx";

impl Reader {
    /// Calls in order of time, at most `limit`.
    pub fn call_list(&self, query: &CallQuery) -> Result<Vec<CallView>, StoreError> {
        self.with(|connection| {
            let (mut conditions, mut values) = conditions(query);
            let (direction, beyond, inside) =
                if query.is_newest_first { ("desc", "<", ">=") } else { ("asc", ">", "<=") };
            if let Some((at, id)) = query.after {
                // The time by itself too: it tells which parts of the table need no look.
                conditions.extend([" and time ", beyond, "= ?"]);
                values.push(time(Some(at)));
                // A call that has become another one since leaves its instant: better twice than never.
                if let Some((stream, [generation, offset, index])) = place(connection, at, id)? {
                    conditions.extend([" and (", ORDER, ") ", beyond, " (?, ?, ?, ?, ?)"]);
                    values.extend([
                        time(Some(at)),
                        owned(stream),
                        number(generation),
                        number(offset),
                        number(index),
                    ]);
                }
            }
            let Some(edge) = edge(connection, &conditions, &values, query)? else {
                return Ok(Vec::new());
            };
            let order = ORDER.replace(',', &format!(" {direction},"));
            let sql = format!(
                "select {COLUMNS} from call_now where {conditions} and time {inside} ?
                 order by {order} {direction} limit ?"
            );
            values.extend([time(Some(edge)), number(query.limit as u64)]);
            let mut statement = connection.prepare(&sql)?;
            let rows = statement.query_map(params_from_iter(values), from_row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

fn owned(text: String) -> Sql<'static> {
    Sql::Owned(text.into())
}

/// Where a call stands among those of its instant, if it still is a call.
fn place(
    connection: &Connection,
    at: Micros,
    id: CallId,
) -> Result<Option<(String, [u64; 3])>, StoreError> {
    let mut statement = connection.prepare(
        "select stream, generation, \"offset\", idx from call_now where time = ? and call_id = ?",
    )?;
    let mut rows = statement.query([time(Some(at)), bytes(&id.0)])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some((row.get(0)?, [row.get(1)?, row.get(2)?, row.get::<_, u32>(3)?.into()])))
}

fn conditions(query: &CallQuery) -> (String, Vec<Sql<'_>>) {
    let mut sql = "kind = 'call' and time is not null".to_owned();
    let mut values = Vec::new();
    for (column, names) in [("actor", &query.actors), ("tool", &query.tools)] {
        if !names.is_empty() {
            let places = vec!["?"; names.len()].join(", ");
            sql.extend([" and ", column, " in (", &places, ")"]);
            values.extend(names.iter().map(|name| text(name)));
        }
    }
    let mut restrict = |condition: &str, value: Option<Sql<'static>>| {
        if let Some(value) = value {
            sql.push_str(condition);
            values.push(value);
        }
    };
    restrict(" and time >= ?", query.from.map(|from| time(Some(from))));
    restrict(" and time <= ?", query.to.map(|to| time(Some(to))));
    restrict(" and class = ?", query.class.map(|class| optional(Some(class.as_str()))));
    if let Some(session) = &query.session {
        sql.push_str(" and session = ?");
        values.push(text(session));
    }
    (sql, values)
}

/// The time up to which rows have to be looked at to fill the page. Found in few narrow columns, void rows among them,
/// it spares reading, joining and sorting all the others. None: there is no such call.
fn edge(
    connection: &Connection,
    conditions: &str,
    values: &[Sql<'_>],
    query: &CallQuery,
) -> Result<Option<Micros>, StoreError> {
    let void: u64 =
        connection.query_row("select count(*) from call_superseded", [], |row| row.get(0))?;
    let rows = (query.limit as u64).saturating_add(void);
    let (last, direction) = if query.is_newest_first { ("min", "desc") } else { ("max", "asc") };
    let sql = format!(
        "select {last}(time) from (select time from call_log where {conditions} order by time {direction} limit {rows})"
    );
    let mut statement = connection.prepare(&sql)?;
    Ok(statement.query_row(params_from_iter(values.to_vec()), |row| get_time(row, 0))?)
}

fn from_row(row: &Row<'_>) -> duckdb::Result<CallView> {
    Ok(CallView {
        id: CallId(get_id(row, 0)?),
        at: get_time(row, 1)?.unwrap_or_default(),
        ended: get_time(row, 2)?,
        tool: row.get(3)?,
        server: row.get(4)?,
        tenant: row.get(5)?,
        actor: row.get(6)?,
        class: get_word(row, 7, OutcomeClass::from_word)?,
        code: row.get(8)?,
        ran: get_word(row, 9, Ran::from_word)?,
        witnesses: row.get(10)?,
    })
}
