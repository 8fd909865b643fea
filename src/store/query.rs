//! SQL of a person's own, read-only and with a time limit.

use std::sync::mpsc;
use std::time::Duration;

use super::{Reader, StoreError, result};

/// A table of results, every value as JSON.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Answer {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<serde_json::Value>>,
    /// True when there were more rows than asked for.
    pub cut: bool,
}

impl Reader {
    /// Runs one statement that may not write, for at most `seconds_max`, and returns at most `rows_max` rows.
    pub fn query(
        &self,
        sql: &str,
        rows_max: usize,
        seconds_max: u64,
    ) -> Result<Answer, StoreError> {
        self.with(|connection| {
            check_reads_only(connection, sql)?;
            let handle = connection.interrupt_handle();
            let (done, wait) = mpsc::channel::<()>();
            let guard = std::thread::spawn(move || {
                let expired = wait.recv_timeout(Duration::from_secs(seconds_max))
                    == Err(mpsc::RecvTimeoutError::Timeout);
                if expired {
                    handle.interrupt();
                }
                expired
            });
            connection.execute_batch("begin transaction read only")?;
            let answer = run(connection, sql, rows_max);
            let ended = connection.execute_batch("rollback");
            drop(done);
            if guard.join().unwrap_or(false) {
                return Err(StoreError::TimedOut { seconds: seconds_max });
            }
            let answer = answer?;
            ended?;
            Ok(answer)
        })
    }
}

/// Lets one query pass and nothing else. A transaction that may only read is no protection by itself: a text of several
/// statements could end it first, and preparing such a text already runs all but the last.
fn check_reads_only(connection: &duckdb::Connection, sql: &str) -> Result<(), StoreError> {
    let tree: String =
        connection.query_row("select json_serialize_sql(?::varchar)", [sql], |row| row.get(0))?;
    let tree: serde_json::Value = serde_json::from_str(&tree).unwrap_or_default();
    if tree["error"] != serde_json::Value::Bool(false) {
        let told = tree["error_message"].as_str().unwrap_or("it cannot be understood");
        // DuckDB's own words name the function that looked, which means nothing to whoever asked.
        let reason = if told.contains("serialized") { "it is no SELECT" } else { told };
        return Err(StoreError::NotAQuery { reason: reason.to_owned() });
    }
    match tree["statements"].as_array().map(Vec::len) {
        Some(1) => Ok(()),
        _ => Err(StoreError::NotAQuery { reason: "one statement at a time".to_owned() }),
    }
}

fn run(connection: &duckdb::Connection, sql: &str, rows_max: usize) -> Result<Answer, StoreError> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let columns: Vec<String> =
        rows.as_ref().map(duckdb::Statement::column_names).unwrap_or_default();
    let mut answer = Answer { columns, rows: Vec::new(), cut: false };
    while let Some(row) = rows.next()? {
        if answer.rows.len() == rows_max {
            answer.cut = true;
            break;
        }
        let values = (0..answer.columns.len())
            .map(|index| Ok(result::to_json(row.get_ref(index)?.to_owned())))
            .collect::<Result<_, duckdb::Error>>()?;
        answer.rows.push(values);
    }
    Ok(answer)
}
