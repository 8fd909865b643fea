//! What the pure stages need to see again of what was stored: late records' neighbours, cold groups' calls.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::value::{
    Sql, Words, bytes, get_id, get_json, get_time, number, optional, small, text, time, truth,
};
use super::{Store, StoreError, alert_row, call_row, evidence, record_row};
use crate::model::{
    AlertId, Call, CallId, IngestCode, IngestEvent, Micros, Record, RecordId, Text,
};

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

/// A group whose calls are wanted.
#[derive(Clone, Copy, Debug)]
pub struct WantedGroup<'a> {
    /// Fields of the rule language and their values; the same fields for all groups of one question.
    pub group: &'a [(Text, Text)],
    /// None: all of its calls.
    pub from: Option<Micros>,
    /// None: to the end of time.
    pub until: Option<Micros>,
}

/// Fields of the rule language and their values, in the rule's order.
type Pairs = Vec<(Text, Text)>;

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

    /// The records of kind call of these tools, by bare names, between two times, ends included, in order; no end:
    /// those without a time too.
    pub fn records_of_tools(
        &self,
        tools: &[&Text],
        from: Micros,
        to: Option<Micros>,
    ) -> Result<Vec<Record>, StoreError> {
        let mut statement = self.connection.prepare(&format!(
            "select {} from record_log where {OF_TOOLS}
             order by time, stream, generation, \"offset\", idx",
            record_row::COLUMNS
        ))?;
        let names = names_of(tools);
        let values = of_tools(from, to, &names);
        let rows = statement.query_map(values, record_row::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// These records, as far as they lie between two times, ends included; no end: those without a time too.
    pub fn records_with(
        &self,
        ids: &[RecordId],
        from: Micros,
        to: Option<Micros>,
    ) -> Result<Vec<Record>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.connection.execute_batch(
            "create or replace temp table wanted_record (in_generation ubigint, at_offset ubigint, at_idx uinteger)",
        )?;
        {
            let mut appender =
                self.connection.appender_to_catalog_and_db("wanted_record", "temp", "main")?;
            for id in ids {
                appender.append_row([number(id.generation), number(id.offset), small(id.index)])?;
            }
            appender.flush()?;
        }
        let mut statement = self.connection.prepare(&format!(
            "select {} from record_log semi join wanted_record
                 on generation = in_generation and \"offset\" = at_offset and idx = at_idx
             where time between ? and ? or (time is null and ?)",
            record_row::COLUMNS
        ))?;
        let values = [time(Some(from)), time(Some(to.unwrap_or(TIME_MAX))), truth(to.is_none())];
        let rows = statement.query_map(values, record_row::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The calls, as they stand, of these tools, by bare names, that proxies tell of, between two times, ends included,
    /// in any order; no end: those without a time too. Those of one record may lack.
    pub fn proxied_calls_of(
        &self,
        tools: &[&Text],
        from: Micros,
        to: Option<Micros>,
    ) -> Result<Vec<Call>, StoreError> {
        let mut statement = self.connection.prepare(&format!(
            "select {} from call_now where {OF_TOOLS} and contains(sightings, '\"stdio-proxy\"')",
            call_row::COLUMNS
        ))?;
        let names = names_of(tools);
        let values = of_tools(from, to, &names);
        let rows = statement.query_map(values, call_row::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The calls, as they stand, of all these groups, in any order. Those that are in `known` are not read again, and
    /// the others are added to it.
    pub fn calls_of(
        &self,
        wanted: &[WantedGroup<'_>],
        known: &mut FxHashMap<CallId, Arc<Call>>,
    ) -> Result<Vec<Arc<Call>>, StoreError> {
        let mut calls = Vec::new();
        for part in parts(wanted) {
            calls.append(&mut self.calls_of_part(&part, known)?);
        }
        Ok(calls)
    }

    fn calls_of_part(
        &self,
        wanted: &[WantedGroup<'_>],
        known: &mut FxHashMap<CallId, Arc<Call>>,
    ) -> Result<Vec<Arc<Call>>, StoreError> {
        let Some(first) = wanted.first() else { return Ok(Vec::new()) };
        let columns: Vec<&str> =
            first.group.iter().filter_map(|(field, _)| column_of(field)).collect();
        self.want(&columns, wanted)?;
        let equal = columns.iter().enumerate();
        let equal = equal.map(|(number, column)| format!(" and c.{column} = w.value_{number}"));
        let equal: String = equal.collect();
        // The earliest start restricts the scan before the join looks at each group's own.
        let from = wanted.iter().map(|group| group.from).min().flatten();
        let since = if from.is_some() { "and c.time >= ?" } else { "" };
        // And the latest end, unless a group is wanted to the end of time.
        let ends: Option<Vec<Micros>> = wanted.iter().map(|group| group.until).collect();
        let until = ends.and_then(|ends| ends.into_iter().max());
        let till = if until.is_some() { "and c.time <= ?" } else { "" };
        // Comparisons alone make it a join by hash, and void rows are left out of what it finds: not of all there is.
        let mut statement = self.connection.prepare(&format!(
            "select {} from (
                 select * from call_log c semi join wanted w
                     on coalesce(c.time, ?) >= w.since and coalesce(c.time, ?) <= w.till {equal}
                 where true {since} {till}
             ) found where not exists (
                 from call_superseded s where s.call_id = found.call_id and s.before_seq > found.seq
             )",
            call_row::COLUMNS
        ))?;
        let first = time(Some(TIME_MIN));
        let ends = [from, until].into_iter().flatten().map(|at| time(Some(at)));
        let values: Vec<Sql<'_>> = [first, time(Some(TIME_MIN))].into_iter().chain(ends).collect();
        let mut rows = statement.query(duckdb::params_from_iter(values))?;
        let mut calls = Vec::new();
        let mut words = Words::default();
        while let Some(row) = rows.next()? {
            let call = match known.entry(CallId(get_id(row, 0)?)) {
                Entry::Occupied(entry) => Arc::clone(entry.get()),
                Entry::Vacant(entry) => {
                    Arc::clone(entry.insert(Arc::new(call_row::from_row_with(row, &mut words)?)))
                }
            };
            calls.push(call);
        }
        Ok(calls)
    }

    /// Puts the wanted groups into a temporary table, which no other connection sees and no file holds.
    fn want(&self, columns: &[&str], wanted: &[WantedGroup<'_>]) -> Result<(), StoreError> {
        let values: Vec<String> =
            (0..columns.len()).map(|number| format!("value_{number} varchar, ")).collect();
        let values = values.concat();
        self.connection.execute_batch(&format!(
            "create or replace temp table wanted ({values} since timestamp, till timestamp)"
        ))?;
        let mut appender = self.connection.appender_to_catalog_and_db("wanted", "temp", "main")?;
        for WantedGroup { group, from, until } in wanted {
            let named = group.iter().filter(|(field, _)| column_of(field).is_some());
            let ends = [from.unwrap_or(TIME_MIN), until.unwrap_or(TIME_MAX)];
            let ends = ends.into_iter().map(|at| time(Some(at)));
            let row = named.map(|(_, value)| text(value)).chain(ends);
            appender.append_row(duckdb::appender_params_from_iter(row))?;
        }
        appender.flush()?;
        Ok(())
    }

    /// The calls of one tool or proxy as they stand: what correlation said of these records.
    pub fn calls_near(&self, need: &RecordNeed) -> Result<Vec<Call>, StoreError> {
        let (condition, name) = match &need.of {
            Whose::Tool(name) => ("bare_tool = ?", name),
            Whose::Proxy(name) => ("stream = ?", name),
        };
        let mut statement = self.connection.prepare(&format!(
            "select {} from call_now
             where (time between ? and ? or (time is null and ?)) and kind = 'call' and {condition}",
            call_row::COLUMNS
        ))?;
        let rows = statement.query_map(span(need, name), call_row::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The alerts of one rule that are not retracted and last fired at `since` or later, each with its group: of these
    /// groups, which all have as many fields, or of all. One whose group has more fields is from before the rule was
    /// changed; it is among them.
    pub fn alerts_of(
        &self,
        rule: &str,
        since: Option<Micros>,
        groups: Option<&[&[(Text, Text)]]>,
    ) -> Result<Vec<(Pairs, StoredAlert)>, StoreError> {
        let width = groups.and_then(|groups| groups.first()).map_or(0, |group| group.len());
        // Each as the column spells it.
        let groups = groups.map(|groups| {
            let texts: Vec<String> = groups.iter().copied().map(alert_row::json).collect();
            alert_row::json(&texts)
        });
        let mut statement = self.connection.prepare(
            "select alert_id, closing, closing_at, first_seen, last_seen, count, group_by
             from alert_now
             where rule = ? and retracted is null and (?::timestamp is null or last_seen >= ?::timestamp)
               and (?::varchar is null or group_by in (select unnest(from_json(?, '[\"VARCHAR\"]')))
                    or json_array_length(group_by) > ?)
               and alert_id not in (select old_id from alert_alias)
             order by closing_at",
        )?;
        let groups = || optional(groups.as_deref());
        let width = number(width as u64);
        let values = [text(rule), time(since), time(since), groups(), groups(), width];
        let rows = statement.query_map(values, |row| {
            let alert = StoredAlert {
                id: AlertId(get_id(row, 0)?),
                closing: CallId(get_id(row, 1)?),
                closing_at: get_time(row, 2)?,
                first_seen: get_time(row, 3)?,
                last_seen: get_time(row, 4)?,
                count: row.get(5)?,
            };
            Ok((get_json(row, 6)?, alert))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Whether the event is stored already.
    pub fn knows_event(&self, event: &IngestEvent) -> Result<bool, StoreError> {
        // The time spares the look at all other calls.
        let sql = "select exists (from call_log where call_id = ? and time = ?)";
        let id = event.id();
        let place = [bytes(&id.0), time(Some(event.at))];
        Ok(self.connection.query_row(sql, place, |row| row.get(0))?)
    }

    /// Whether an event of this kind at this place is stored, whenever it was noticed.
    pub fn knows_event_at(&self, code: IngestCode, offset: u64) -> Result<bool, StoreError> {
        let sql =
            "select exists (from call_log where kind = 'ingest' and code = ? and \"offset\" = ?)";
        let place = [text(code.as_str()), number(offset)];
        Ok(self.connection.query_row(sql, place, |row| row.get(0))?)
    }

    /// Those of these ids for which a mail was ever owed.
    pub fn mailed_alerts(&self, ids: &[AlertId]) -> Result<FxHashSet<AlertId>, StoreError> {
        self.ids_among(
            ids,
            "select distinct alert_id from outbox
             where alert_id in (select unhex(unnest(from_json(?, '[\"VARCHAR\"]'))))",
        )
    }

    /// Those of these ids that an alert, or an alias of one, has.
    pub fn known_alerts(&self, ids: &[AlertId]) -> Result<FxHashSet<AlertId>, StoreError> {
        self.ids_among(
            ids,
            "select distinct alert_id from alert_log
             where alert_id in (select unhex(unnest(from_json(?, '[\"VARCHAR\"]'))))",
        )
    }

    /// Those of these ids that lead to another alert.
    pub fn alias_ids(&self, ids: &[AlertId]) -> Result<FxHashSet<AlertId>, StoreError> {
        self.ids_among(
            ids,
            "select distinct old_id from alert_alias
             where old_id in (select unhex(unnest(from_json(?, '[\"VARCHAR\"]'))))",
        )
    }

    fn ids_among(&self, ids: &[AlertId], sql: &str) -> Result<FxHashSet<AlertId>, StoreError> {
        if ids.is_empty() {
            return Ok(FxHashSet::default());
        }
        let ids = evidence::ids(ids.iter().copied());
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map([text(&ids)], |row| Ok(AlertId(get_id(row, 0)?)))?;
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

/// What records or calls of some tools between two times are; [`of_tools`] gives the values.
const OF_TOOLS: &str = "(time between ? and ? or (time is null and ?)) and kind = 'call'
    and bare_tool in (select unnest(from_json(?, '[\"VARCHAR\"]')))";

fn of_tools(from: Micros, to: Option<Micros>, names: &str) -> [Sql<'_>; 4] {
    let last = to.unwrap_or(TIME_MAX);
    [time(Some(from)), time(Some(last)), truth(to.is_none()), text(names)]
}

/// A JSON list of names.
fn names_of(tools: &[&Text]) -> String {
    let names: Vec<&str> = tools.iter().map(|tool| &***tool).collect();
    serde_json::to_string(&names).unwrap_or_default()
}

/// What is wanted at times that are further apart than a day is asked for one after the other, so that
/// what lies between is not gone through.
fn parts<'a>(wanted: &[WantedGroup<'a>]) -> Vec<Vec<WantedGroup<'a>>> {
    let mut wanted = wanted.to_vec();
    wanted.sort_by_key(|group| group.from);
    let mut parts: Vec<Vec<WantedGroup<'a>>> = Vec::new();
    // Up to when the last part goes; none: to the end of time.
    let mut until = Some(Micros(i64::MIN));
    for group in wanted {
        let is_apart = until
            .zip(group.from)
            .is_some_and(|(until, from)| from.since(until) > 24 * Micros::HOUR);
        if let Some(part) = parts.last_mut().filter(|_| !is_apart) {
            until = until.zip(group.until).map(|(until, own)| until.max(own));
            part.push(group);
        } else {
            until = group.until;
            parts.push(vec![group]);
        }
    }
    parts
}

/// The parameters of a query over a range of time and a name.
fn span<'a>(need: &RecordNeed, name: &'a str) -> [Sql<'a>; 4] {
    of_tools(need.from, need.to, name)
}

/// The latest time DuckDB holds that is not its infinity.
pub(super) const TIME_MAX: Micros = Micros(i64::MAX - 1);

/// And the earliest one. A call without a time counts as that old.
const TIME_MIN: Micros = Micros(-TIME_MAX.0);

/// The column of a field that rules may group by.
pub(super) fn column_of(field: &str) -> Option<&'static str> {
    Some(match field {
        "principal" => "principal",
        "client" => "client",
        "actor" => "actor",
        "tenant" => "tenant",
        "session" => "session",
        "tool.name" => "tool",
        "tool.server" => "server",
        "code" => "code",
        _ => return None,
    })
}
