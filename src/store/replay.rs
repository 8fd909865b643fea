//! All that rules look at, a page at a time and in their order: to be gone through once more.

use duckdb::params_from_iter;
use serde::{Deserialize, Serialize};

use super::history::column_of;
use super::value::{Sql, number, small, text, time};
use super::{Reader, StoreError, call_row};
use crate::model::{Call, Micros, RecordId, Text};

/// Which calls and ingest events to read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CallPage {
    /// Fields of the rule language that calls can be grouped by, and their values; empty: all calls.
    pub group: Vec<(Text, Text)>,
    /// Ends included.
    pub from: Option<Micros>,
    pub to: Option<Micros>,
    /// Those without a time, and no others.
    pub is_untimed: bool,
    /// The last call of the page before: go on behind it.
    pub after: Option<After>,
    pub limit: usize,
}

/// A call's place in the total order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct After {
    pub at: Option<Micros>,
    pub stream: Text,
    pub position: RecordId,
}

impl After {
    pub fn of(call: &Call) -> Self {
        Self { at: call.at, stream: Text::clone(&call.stream), position: call.position }
    }
}

/// The most calls of one page, whoever asks.
const CALLS_MAX: usize = 50_000;

/// The total order of calls that have a time.
const ORDER: &str = "time, stream, generation, \"offset\", idx";
/// And of those that have none.
const UNTIMED: &str = "stream, generation, \"offset\", idx";

impl Reader {
    /// Calls and ingest events in the total order, at most `limit`.
    pub fn call_page(&self, page: &CallPage) -> Result<Vec<Call>, StoreError> {
        let limit = page.limit.min(CALLS_MAX) as u64;
        self.with(|connection| {
            let (conditions, mut values) = conditions(page);
            let order = if page.is_untimed { UNTIMED } else { ORDER };
            let mut sql = format!("select {} from call_now where {conditions}", call_row::COLUMNS);
            if !page.is_untimed {
                // Where the page ends is found in few narrow columns, void rows among them: it spares looking at all
                // columns of what comes behind.
                let void: u64 =
                    connection
                        .query_row("select count(*) from call_superseded", [], |row| row.get(0))?;
                let rows = limit.saturating_add(void);
                sql = format!(
                    "{sql} and time <= (select max(time) from
                         (select time from call_log where {conditions} order by time limit {rows}))"
                );
                values.extend(values.clone());
            }
            let sql = format!("{sql} order by {order} limit ?");
            values.push(number(limit));
            let mut statement = connection.prepare(&sql)?;
            let rows = statement.query_map(params_from_iter(values), call_row::from_row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

fn conditions(page: &CallPage) -> (String, Vec<Sql<'_>>) {
    let known = if page.is_untimed { "time is null" } else { "time is not null" };
    let mut sql = known.to_owned();
    let mut values = Vec::new();
    for (field, value) in &page.group {
        if let Some(column) = column_of(field) {
            sql.extend([" and ", column, " = ?"]);
            values.push(text(value));
        }
    }
    for (compare, at) in [(" and time >= ?", page.from), (" and time <= ?", page.to)] {
        if at.is_some() {
            sql.push_str(compare);
            values.push(time(at));
        }
    }
    if let Some(After { at, stream, position }) = &page.after {
        let place = [
            text(stream),
            number(position.generation),
            number(position.offset),
            small(position.index),
        ];
        if page.is_untimed {
            sql.extend([" and (", UNTIMED, ") > (?, ?, ?, ?)"]);
        } else {
            // The time by itself too: it tells which parts of the table need no look.
            sql.extend([" and time >= ? and (", ORDER, ") > (?, ?, ?, ?, ?)"]);
            values.extend([time(*at), time(*at)]);
        }
        values.extend(place);
    }
    (sql, values)
}
