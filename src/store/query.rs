//! SQL of a person's own, read-only and with a time limit.

use std::sync::mpsc;
use std::time::Duration;

use super::{Reader, StoreError};

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
        let reason = tree["error_message"].as_str().unwrap_or("it cannot be understood");
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
            .map(|index| Ok(to_json(row.get_ref(index)?.to_owned())))
            .collect::<Result<_, duckdb::Error>>()?;
        answer.rows.push(values);
    }
    Ok(answer)
}

/// Numbers that JSON holds exactly stay numbers; times become RFC 3339; everything odd becomes its text.
fn to_json(value: duckdb::types::Value) -> serde_json::Value {
    use duckdb::types::Value as Sql;
    use serde_json::Value as Json;
    match value {
        Sql::Null => Json::Null,
        Sql::Boolean(value) => value.into(),
        Sql::TinyInt(value) => value.into(),
        Sql::SmallInt(value) => value.into(),
        Sql::Int(value) => value.into(),
        Sql::BigInt(value) => value.into(),
        Sql::UTinyInt(value) => value.into(),
        Sql::USmallInt(value) => value.into(),
        Sql::UInt(value) => value.into(),
        Sql::UBigInt(value) => value.into(),
        Sql::HugeInt(value) => {
            i64::try_from(value).map_or_else(|_| value.to_string().into(), Json::from)
        }
        Sql::Float(value) => value.into(),
        Sql::Double(value) => value.into(),
        Sql::Text(value) | Sql::Enum(value) => value.into(),
        Sql::Timestamp(unit, value) => {
            crate::model::Micros(unit.to_micros(value)).to_rfc3339().into()
        }
        Sql::Blob(bytes) => hex(&bytes).into(),
        Sql::List(values) | Sql::Array(values) => values.into_iter().map(to_json).collect(),
        other => format!("{other:?}").into(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |text, byte| text + &format!("{byte:02x}"))
}
