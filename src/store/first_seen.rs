//! First calls of first-seen rules: noted with the batch that shows them, remembered from earlier databases.

use duckdb::{Appender, Row};

use super::value::{Sql, bytes, get_id, get_json, get_text, get_time, number, text, time, truth};
use super::{Store, StoreError};
use crate::model::{CallId, FirstSeen, Text};

/// Fields of the rule language and their values, in the rule's order.
type Pairs = Vec<(Text, Text)>;

/// The columns in the order of [`from_row`].
const COLUMNS: &str =
    "rule, others, field, value, time, stream, call_id, tool, server, code, is_gone";

impl Store {
    /// Whether anything is remembered from an earlier database.
    pub fn remembers_first_seen(&self) -> Result<bool, StoreError> {
        let sql = "select exists (from first_seen_log where is_remembered)";
        Ok(self.connection.query_row(sql, [], |row| row.get(0))?)
    }

    /// What is remembered of a rule's groups, which are named without their last field. What the database itself has
    /// seen since is not among it.
    pub fn remembered_first_seen(
        &self,
        rule: &str,
        groups: &[&[(Text, Text)]],
    ) -> Result<Vec<FirstSeen>, StoreError> {
        self.connection
            .execute_batch("create or replace temp table wanted_others (others varchar)")?;
        {
            let mut appender =
                self.connection.appender_to_catalog_and_db("wanted_others", "temp", "main")?;
            for group in groups {
                appender.append_row([text(&json(group))])?;
            }
            appender.flush()?;
        }
        self.first_seen_where(
            "rule = ? and others in (select others from wanted_others)",
            "is_remembered and not is_gone",
            &[text(rule)],
        )
    }

    /// Every value that was seen, by its first call.
    pub(crate) fn all_first_seen(&self) -> Result<Vec<FirstSeen>, StoreError> {
        self.first_seen_where("true", "not is_gone", &[])
    }

    fn first_seen_where(
        &self,
        condition: &str,
        standing: &str,
        values: &[Sql<'_>],
    ) -> Result<Vec<FirstSeen>, StoreError> {
        let mut statement = self.connection.prepare(&format!(
            "with newest as (
                 from first_seen_log where {condition}
                 qualify row_number() over (partition by rule, others, field, value order by seq desc) = 1
             )
             select {COLUMNS} from newest where {standing} order by rule, others, value"
        ))?;
        let rows = statement.query_map(duckdb::params_from_iter(values), from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

pub(super) fn append(
    appender: &mut Appender<'_>,
    seq: u64,
    fact: &FirstSeen,
    is_remembered: bool,
) -> Result<(), StoreError> {
    let Some(((field, value), others)) = fact.group.split_last() else { return Ok(()) };
    appender.append_row([
        number(seq),
        text(&fact.rule),
        text(&json(others)),
        text(field),
        text(value),
        time(Some(fact.at)),
        text(&fact.stream),
        bytes(&fact.call_id.0),
        text(&fact.tool),
        super::value::shared(fact.server.as_ref()),
        text(&fact.code),
        truth(fact.is_gone),
        truth(is_remembered),
    ])?;
    Ok(())
}

fn from_row(row: &Row<'_>) -> duckdb::Result<FirstSeen> {
    let mut group: Pairs = get_json(row, 1)?;
    let last = (get_text(row, 2)?.unwrap_or_default(), get_text(row, 3)?.unwrap_or_default());
    group.push(last);
    Ok(FirstSeen {
        rule: get_text(row, 0)?.unwrap_or_default(),
        group,
        at: get_time(row, 4)?.unwrap_or_default(),
        stream: get_text(row, 5)?.unwrap_or_default(),
        call_id: CallId(get_id(row, 6)?),
        tool: get_text(row, 7)?.unwrap_or_default(),
        server: get_text(row, 8)?,
        code: get_text(row, 9)?.unwrap_or_default(),
        is_gone: row.get(10)?,
    })
}

/// Pairs of texts always become JSON.
fn json(pairs: &[(Text, Text)]) -> String {
    serde_json::to_string(pairs).unwrap_or_default()
}
