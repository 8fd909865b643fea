//! What the pure stages need to see again of what was stored: late records' neighbours, cold groups' calls.

use duckdb::params_from_iter;

use super::value::{Sql, bytes, get_id, get_time, text, time, truth};
use super::{Store, StoreError, call_row, record_row};
use crate::model::{AlertId, Call, CallId, Micros, Record, Text};

/// Records of one tool or one proxy in a range of time, ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordNeed {
    pub of: Whose,
    pub from: Micros,
    /// None: to the end of time, and those without a time.
    pub to: Option<Micros>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Whose {
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
            Whose::Tool(name) => ("bare_tool = ? and kind = 'call'", name),
            Whose::Proxy(name) => ("stream = ? and dialect = 'stdio-proxy'", name),
        };
        let mut statement = self.connection.prepare(&format!(
            "select {} from record_log where (time between ? and ? or (time is null and ?)) and {condition}
             order by time, stream, generation, \"offset\", idx",
            record_row::COLUMNS
        ))?;
        let rows = statement.query_map(span(need, name), record_row::from_row)?;
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
            sql.push_str(" and time >= ?");
            values.push(time(need.from));
        }
        sql.push_str(" order by time, stream, generation, \"offset\", idx");
        let mut statement = self.connection.prepare(&sql)?;
        let rows = statement.query_map(params_from_iter(values), call_row::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The calls of one tool or proxy as they stand: what correlation said of these records.
    pub fn calls_near(&self, need: &RecordNeed) -> Result<Vec<Call>, StoreError> {
        let (condition, name) = match &need.of {
            Whose::Tool(name) => ("bare_tool = ?", name),
            Whose::Proxy(name) => ("stream = ?", name),
        };
        let mut statement = self.connection.prepare(&format!(
            "select {} from call_now where (time between ? and ? or (time is null and ?)) and {condition}",
            call_row::COLUMNS
        ))?;
        let rows = statement.query_map(span(need, name), call_row::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The alerts of one rule that are not retracted, whose group holds these fields and values, and that last fired
    /// at `since` or later.
    pub fn alerts_of(
        &self,
        rule: &str,
        group: &[(Text, Text)],
        since: Option<Micros>,
    ) -> Result<Vec<StoredAlert>, StoreError> {
        let mut sql = String::from(
            "select alert_id, closing, closing_at, first_seen, last_seen, count from alert_now
             where rule = ? and retracted is null
               and alert_id not in (select old_id from alert_alias)",
        );
        let mut values = vec![text(rule)];
        // The column holds JSON pairs; each pair's own JSON is a part of it.
        let pairs: Vec<String> =
            group.iter().filter_map(|pair| serde_json::to_string(pair).ok()).collect();
        for pair in &pairs {
            sql.push_str(" and contains(group_by, ?)");
            values.push(text(pair));
        }
        if since.is_some() {
            sql.push_str(" and last_seen >= ?");
            values.push(time(since));
        }
        sql.push_str(" order by closing_at");
        let mut statement = self.connection.prepare(&sql)?;
        let rows = statement.query_map(params_from_iter(values), |row| {
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

/// The parameters of a query over a range of time and a name.
fn span<'a>(need: &RecordNeed, name: &'a str) -> [Sql<'a>; 4] {
    let to = need.to.unwrap_or(TIME_MAX);
    [time(Some(need.from)), time(Some(to)), truth(need.to.is_none()), text(name)]
}

/// The latest time DuckDB holds that is not its infinity.
const TIME_MAX: Micros = Micros(i64::MAX - 1);

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
