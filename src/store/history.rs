//! What the pure stages need to see again of what was stored: late records' neighbours, cold groups' calls.

use duckdb::params_from_iter;

use super::value::{bytes, get_id, get_time, text, time};
use super::{Store, StoreError, call_row, record_row};
use crate::model::{AlertId, Call, CallId, Micros, Record, Text};

/// Records of one tool (bare name), or of one stream's replies and requests, in a range of time, ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordNeed {
    pub of: Known,
    pub from: Micros,
    pub to: Micros,
}

/// Whose records.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Known {
    /// Every record of kind call with this bare tool name.
    Tool(Text),
    /// Every record of this stdio proxy's stream.
    Proxy(Text),
}

/// Calls of one group from a time on.
#[derive(Clone, Debug)]
pub struct CallNeed {
    /// Fields of the rule language and their values.
    pub group: Vec<(Text, Text)>,
    pub from: Option<Micros>,
}

/// An alert as the detection needs to know it again.
#[derive(Clone, Debug)]
pub struct StoredAlert {
    pub id: AlertId,
    pub closing: CallId,
    pub closing_at: Option<Micros>,
    pub first_seen: Option<Micros>,
    pub last_seen: Option<Micros>,
    pub count: u64,
}

impl Store {
    pub fn records_near(&self, need: &RecordNeed) -> Result<Vec<Record>, StoreError> {
        let (condition, name) = match &need.of {
            Known::Tool(name) => {
                ("bare_tool = ? and kind = 'call' and dialect <> 'stdio-proxy'", name)
            }
            Known::Proxy(name) => ("stream = ? and dialect = 'stdio-proxy'", name),
        };
        let mut statement = self.connection.prepare(&format!(
            "select {} from record_log where at between ? and ? and {condition}
             order by at, stream, generation, \"offset\", idx",
            record_row::COLUMNS
        ))?;
        let rows = statement.query_map(
            [time(Some(need.from)), time(Some(need.to)), text(name)],
            record_row::from_row,
        )?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Every record from a time on, in order: what memory held before a restart.
    pub fn records_since(&self, from: Micros, count_max: u64) -> Result<Vec<Record>, StoreError> {
        let mut statement = self.connection.prepare(&format!(
            "select {} from record_log where at >= ? and kind <> 'context'
             order by at desc, stream, generation, \"offset\", idx limit {count_max}",
            record_row::COLUMNS
        ))?;
        let rows = statement.query_map([time(Some(from))], record_row::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The calls as they stand, in order.
    pub fn calls_of(&self, need: &CallNeed) -> Result<Vec<Call>, StoreError> {
        let mut sql = format!("select {} from call_now where true", call_row::COLUMNS);
        let mut values = Vec::new();
        for (field, value) in &need.group {
            if let Some(column) = column_of(field) {
                sql.push_str(" and ");
                sql.push_str(column);
                values.extend((0..column.matches('?').count()).map(|_| text(value)));
            }
        }
        if need.from.is_some() {
            sql.push_str(" and at >= ?");
            values.push(time(need.from));
        }
        sql.push_str(" order by at, stream, generation, \"offset\", idx");
        let mut statement = self.connection.prepare(&sql)?;
        let rows = statement.query_map(params_from_iter(values), call_row::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The calls that hold any of these records' times and tools, as they stand: what correlation said before.
    pub fn calls_near(&self, need: &RecordNeed) -> Result<Vec<Call>, StoreError> {
        let (condition, name) = match &need.of {
            Known::Tool(name) => ("bare_tool = ?", name),
            Known::Proxy(name) => ("stream = ?", name),
        };
        let mut statement = self.connection.prepare(&format!(
            "select {} from call_now where at between ? and ? and {condition}
             order by at, stream, generation, \"offset\", idx",
            call_row::COLUMNS
        ))?;
        let rows = statement.query_map(
            [time(Some(need.from)), time(Some(need.to)), text(name)],
            call_row::from_row,
        )?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The alerts of one rule and group that last fired at `since` or later, and are not retracted.
    pub fn alerts_of(
        &self,
        rule: &str,
        group: &[(Text, Text)],
        since: Option<Micros>,
    ) -> Result<Vec<StoredAlert>, StoreError> {
        let group = serde_json::to_string(group).unwrap_or_default();
        let since = time(Some(since.unwrap_or(Micros(0))));
        let mut statement = self.connection.prepare(
            "select alert_id, closing, closing_at, first_seen, last_seen, count from alert_now
             where rule = ? and group_by = ? and retracted is null
               and (last_seen >= ? or last_seen is null)
               and alert_id not in (select old_id from alert_alias)
             order by closing_at",
        )?;
        let rows = statement.query_map([text(rule), text(&group), since], |row| {
            Ok(StoredAlert {
                id: AlertId(get_id(row, 0)?),
                closing: CallId(get_id(row, 1)?),
                closing_at: get_time(row, 2)?,
                first_seen: get_time(row, 3)?,
                last_seen: get_time(row, 4)?,
                count: row.get(5)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Whether an alert, or an alias of one, has this id.
    pub fn knows_alert(&self, id: AlertId) -> Result<bool, StoreError> {
        Ok(self.connection.query_row(
            "select count(*) > 0 from alert_log where alert_id = ?",
            [bytes(&id.0)],
            |row| row.get(0),
        )?)
    }
}

/// The restriction for a field of the rule language; none for fields that are not columns, which the engine
/// filters itself.
fn column_of(field: &str) -> Option<&'static str> {
    Some(match field {
        "principal" => "principal = ?",
        "client" => "client = ?",
        "actor" => "actor = ?",
        "tenant" => "tenant = ?",
        "session" => "session = ?",
        "tool.name" => "(tool = ? or bare_tool = ?)",
        "tool.server" => "server = ?",
        "source.file" => "stream = ?",
        "ran" => "ran = ?",
        _ => return None,
    })
}
