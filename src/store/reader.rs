//! Typed reads for pages, command line and mails. Every method blocks: call it off the async threads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use duckdb::{Connection, params_from_iter};

use super::decisions::{self, States};
use super::pool::Pool;
use super::value::{Sql, bytes, get_id, get_time, number, text, time};
use super::{StoreError, alert_row, call_row, evidence, record_row};
use crate::model::{
    AlertId, AlertState, AlertView, Call, CallId, DecisionView, Level, Micros, OutboxItem,
    RecordView, RejectView, SourceView, Totals,
};

/// A handle for reading; clones share a small pool of connections. Reads see the last committed batch.
#[derive(Clone)]
pub struct Reader {
    pool: Arc<Pool>,
}

/// Which alerts to list; empty fields do not restrict.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct AlertFilter {
    pub rule: Option<String>,
    pub level_min: Option<Level>,
    pub state: Option<AlertState>,
    pub actor: Option<String>,
    /// Alerts whose [`first_seen`, `last_seen`] touches [from, to].
    pub from: Option<Micros>,
    pub to: Option<Micros>,
    /// Only alerts that are newer than this sequence number.
    pub after_seq: Option<u64>,
    pub limit: Option<usize>,
    /// False: `evidence` stays empty.
    pub with_evidence: bool,
}

/// An alert of a list, without its evidence.
#[derive(Clone, Debug)]
pub struct Listed {
    pub alert: AlertView,
    /// The set of rows that its evidence is.
    set: u64,
}

/// Which calls to list, in order of time.
#[derive(Clone, Debug, Default)]
pub struct CallFilter {
    pub actor: Option<String>,
    pub session: Option<String>,
    pub from: Option<Micros>,
    pub to: Option<Micros>,
    pub limit: usize,
}

impl Reader {
    pub(super) fn new(template: Connection, path: PathBuf) -> Self {
        Self { pool: Arc::new(Pool::new(template, path)) }
    }

    /// Closes every connection, so that a broken database can be opened again: the idle ones at once, those in use as
    /// soon as their interrupted reads end. False while some are still in use; calling again interrupts them again.
    pub(crate) fn let_go(&self) -> bool {
        self.pool.let_go()
    }

    /// True once a read met a fault after which the database has to be opened again.
    pub(crate) fn is_broken(&self) -> bool {
        self.pool.is_broken()
    }

    /// Reads through another handle's connections from now on.
    pub(crate) fn adopt(&self, other: &Self) {
        self.pool.adopt(&other.pool);
    }

    /// Where the database lies.
    pub fn path(&self) -> &Path {
        self.pool.path()
    }

    /// Newest (highest `seq`) first.
    pub fn alerts(&self, filter: &AlertFilter) -> Result<Vec<AlertView>, StoreError> {
        Ok(self.list(filter)?.into_iter().map(|(alert, _)| alert).collect())
    }

    /// As [`Reader::alerts`], for those whose evidence is more than is to be in memory at a time.
    pub fn listed(&self, filter: &AlertFilter) -> Result<Vec<Listed>, StoreError> {
        let found = self.list(filter)?.into_iter();
        Ok(found.map(|(alert, set)| Listed { alert, set }).collect())
    }

    /// These alerts with their evidence, in this order.
    pub fn opened(&self, listed: &[Listed]) -> Result<Vec<AlertView>, StoreError> {
        let mut found: Vec<(AlertView, u64)> =
            listed.iter().map(|listed| (listed.alert.clone(), listed.set)).collect();
        self.with(|connection| evidence::add(connection, &mut found))?;
        Ok(found.into_iter().map(|(alert, _)| alert).collect())
    }

    fn list(&self, filter: &AlertFilter) -> Result<Vec<(AlertView, u64)>, StoreError> {
        self.with(|connection| {
            let (sql, values) = alerts_sql(filter);
            let mut statement = connection.prepare(&sql)?;
            let rows = statement.query_map(params_from_iter(values), alert_row::from_row)?;
            let mut found: Vec<(AlertView, u64)> = rows.collect::<Result<_, _>>()?;
            let states = States::of_all(connection)?;
            for (alert, _) in &mut found {
                states.apply(alert);
            }
            found.retain(|(alert, _)| filter.state.is_none_or(|state| state == alert.state));
            found.truncate(filter.limit.unwrap_or(usize::MAX));
            if filter.with_evidence {
                evidence::add(connection, &mut found)?;
            }
            Ok(found)
        })
    }

    /// One alert with its evidence; follows aliases.
    pub fn alert(&self, id: AlertId) -> Result<Option<AlertView>, StoreError> {
        self.with(|connection| {
            let id = decisions::resolve(connection, id)?;
            let sql = format!("select {} from alert_now where alert_id = ?", alert_row::COLUMNS);
            let mut statement = connection.prepare(&sql)?;
            let row =
                statement.query_map([bytes(&id.0)], alert_row::from_row)?.next().transpose()?;
            let Some(mut found) = row else { return Ok(None) };
            States::of(connection, id)?.apply(&mut found.0);
            evidence::add(connection, std::slice::from_mut(&mut found))?;
            Ok(Some(found.0))
        })
    }

    /// What people did to it under any of its ids, oldest first.
    pub fn decisions(&self, id: AlertId) -> Result<Vec<DecisionView>, StoreError> {
        self.with(|connection| decisions::made(connection, decisions::resolve(connection, id)?))
    }

    /// One call as it now stands; follows superseded ids.
    pub fn call(&self, id: CallId) -> Result<Option<Call>, StoreError> {
        self.with(|connection| {
            let sql = format!("select {} from call_now where call_id = ?", call_row::COLUMNS);
            let mut statement = connection.prepare(&sql)?;
            let mut wanted = id;
            // A chain of revisions is short; the bound keeps a broken one from looping.
            for _ in 0..64 {
                let found = statement
                    .query_map([bytes(&wanted.0)], call_row::from_row)?
                    .next()
                    .transpose()?;
                if found.is_some() {
                    return Ok(found);
                }
                match successor(connection, wanted)? {
                    Some(next) if next != wanted => wanted = next,
                    _ => return Ok(None),
                }
            }
            Ok(None)
        })
    }

    pub fn calls(&self, filter: &CallFilter) -> Result<Vec<Call>, StoreError> {
        self.with(|connection| {
            let mut sql =
                format!("select {} from call_now where time is not null", call_row::COLUMNS);
            let mut values = Vec::new();
            if let Some(actor) = &filter.actor {
                sql.push_str(" and actor = ?");
                values.push(text(actor));
            }
            if let Some(session) = &filter.session {
                sql.push_str(" and session = ?");
                values.push(text(session));
            }
            if filter.from.is_some() {
                sql.push_str(" and time >= ?");
                values.push(time(filter.from));
            }
            if filter.to.is_some() {
                sql.push_str(" and time <= ?");
                values.push(time(filter.to));
            }
            sql.push_str(" order by time, stream, generation, \"offset\", idx limit ?");
            values.push(number(filter.limit as u64));
            let mut statement = connection.prepare(&sql)?;
            let rows = statement.query_map(params_from_iter(values), call_row::from_row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// The newest ingest events.
    pub fn ingest_events(&self, limit: usize) -> Result<Vec<Call>, StoreError> {
        self.with(|connection| {
            let mut statement = connection.prepare(&format!(
                "select {} from call_now where kind = 'ingest' order by time desc, call_id limit ?",
                call_row::COLUMNS
            ))?;
            let rows = statement.query_map([number(limit as u64)], call_row::from_row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Every record of every witness of the call, in order.
    pub fn records_of(&self, call: &Call) -> Result<Vec<RecordView>, StoreError> {
        let sql = format!(
            "select {}, (select path from sources s where s.generation = r.generation) as path
             from record_log r
             where generation = ? and \"offset\" = ? and idx = ? and (time = ? or time is null)",
            record_row::COLUMNS
        );
        self.with(|connection| {
            let mut statement = connection.prepare(&sql)?;
            let mut views = Vec::new();
            for step in call.sightings.iter().flat_map(|sighting| &sighting.steps) {
                let place = [
                    number(step.record.generation),
                    number(step.record.offset),
                    Sql::Owned(step.record.index.into()),
                    time(step.at),
                ];
                for view in statement.query_map(place, record_view)? {
                    views.push(view?);
                }
            }
            Ok(views)
        })
    }

    /// Newest generation first within a stream; streams by name.
    pub fn sources(&self) -> Result<Vec<SourceView>, StoreError> {
        self.with(|connection| {
            let mut statement = connection.prepare(
                "select generation, stream, path, state, size, \"offset\", records, rejects, last_at
                 from sources order by stream, generation desc",
            )?;
            let rows = statement.query_map([], |row| {
                Ok(SourceView {
                    generation: row.get(0)?,
                    stream: row.get(1)?,
                    path: row.get(2)?,
                    state: row.get(3)?,
                    size: row.get(4)?,
                    offset: row.get(5)?,
                    records: row.get(6)?,
                    rejects: row.get(7)?,
                    last_at: get_time(row, 8)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// The newest rejects, of one generation or of all.
    pub fn rejects(
        &self,
        generation: Option<u64>,
        limit: usize,
    ) -> Result<Vec<RejectView>, StoreError> {
        self.with(|connection| {
            let mut statement = connection.prepare(
                "select generation, coalesce(stream, ''), coalesce(path, ''), \"offset\", length, reason, head
                 from rejects where generation = coalesce(?, generation)
                 order by generation desc, \"offset\" desc limit ?",
            )?;
            let generation = generation.map_or(super::value::NULL, number);
            let rows = statement.query_map([generation, number(limit as u64)], |row| {
                Ok(RejectView {
                    generation: row.get(0)?,
                    stream: row.get(1)?,
                    path: row.get(2)?,
                    offset: row.get(3)?,
                    length: row.get(4)?,
                    reason: row.get(5)?,
                    head: row.get(6)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    pub fn totals(&self) -> Result<Totals, StoreError> {
        let database_bytes =
            std::fs::metadata(self.pool.path()).map_or(0, |metadata| metadata.len());
        let open = self
            .alerts(&AlertFilter { state: Some(AlertState::Open), ..AlertFilter::default() })?
            .len() as u64;
        self.with(|connection| {
            let mut totals = connection.query_row(TOTALS, [], |row| {
                Ok(Totals {
                    records: row.get(0)?,
                    calls: row.get(1)?,
                    rejects: row.get(2)?,
                    alerts: row.get(3)?,
                    first_at: get_time(row, 4)?,
                    last_at: get_time(row, 5)?,
                    alert_seq: row.get(6)?,
                    outbox_pending: row.get(7)?,
                    outbox_dead: row.get(8)?,
                    last_mail_error: row.get(9)?,
                    open_alerts: 0,
                    database_bytes: 0,
                })
            })?;
            totals.open_alerts = open;
            totals.database_bytes = database_bytes;
            Ok(totals)
        })
    }

    /// Mails owed and due at `now`, oldest first, at most `limit`.
    pub fn outbox_due(&self, now: Micros, limit: usize) -> Result<Vec<OutboxItem>, StoreError> {
        self.with(|connection| {
            let mut statement = connection.prepare(OUTBOX_DUE)?;
            let rows = statement.query_map([time(Some(now)), number(limit as u64)], |row| {
                Ok(OutboxItem {
                    id: row.get(0)?,
                    alert_id: AlertId(get_id(row, 1)?),
                    recipient: row.get(2)?,
                    message_id: row.get(3)?,
                    created_at: get_time(row, 4)?.unwrap_or_default(),
                    attempts: row.get(5)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Runs `read` on a connection of the pool.
    pub(super) fn with<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.pool.lend()?.read(read)
    }
}

const TOTALS: &str = "select
    (select count(*) from record_log), (select count(*) from call_now where kind = 'call'),
    (select count(*) from reject_log),
    (select count(*) from alert_now where alert_id not in (select old_id from alert_alias)),
    (select min(time) from call_log where kind = 'call'), (select max(time) from call_log where kind = 'call'),
    (select coalesce(max(seq), 0) from alert_log),
    (select count(*) from outbox o where not exists
        (from delivery_log d where d.outbox_id = o.id and d.outcome in ('sent', 'dead'))),
    (select count(distinct outbox_id) from delivery_log where outcome = 'dead'),
    (select arg_max(error, time) from delivery_log where error is not null)";

const OUTBOX_DUE: &str = "select o.id, o.alert_id, o.recipient, o.message_id, o.created_at,
        count(d.outbox_id)::uinteger
    from outbox o left join delivery_log d on d.outbox_id = o.id
    group by all
    having coalesce(bool_and(d.outcome = 'retry'), true) and coalesce(max(d.next_at), o.created_at) <= ?
    order by o.id limit ?";

fn alerts_sql(filter: &AlertFilter) -> (String, Vec<Sql<'_>>) {
    let mut sql = format!(
        "select {} from alert_now where alert_id not in (select old_id from alert_alias)",
        alert_row::COLUMNS
    );
    let mut values = Vec::new();
    let mut restrict = |condition: &str, value| {
        sql.push_str(condition);
        values.push(value);
    };
    if let Some(rule) = &filter.rule {
        restrict(" and rule = ?", text(rule));
    }
    if let Some(actor) = &filter.actor {
        restrict(" and actor = ?", text(actor));
    }
    if filter.from.is_some() {
        restrict(" and (last_seen >= ? or last_seen is null)", time(filter.from));
    }
    if filter.to.is_some() {
        restrict(" and (first_seen <= ? or first_seen is null)", time(filter.to));
    }
    if let Some(seq) = filter.after_seq {
        restrict(" and seq > ?", number(seq));
    }
    if let Some(min) = filter.level_min {
        let levels: Vec<_> =
            Level::ALL.iter().filter(|level| **level >= min).map(|level| level.as_str()).collect();
        sql.push_str(" and level in ('");
        sql.push_str(&levels.join("', '"));
        sql.push_str("')");
    }
    sql.push_str(" order by seq desc, last_seen desc, alert_id");
    (sql, values)
}

fn successor(connection: &Connection, id: CallId) -> Result<Option<CallId>, StoreError> {
    let mut statement = connection.prepare(
        "select new_id from (
             select new_id, before_seq from call_superseded where call_id = ? and new_id is not null
             union all select new_id, before_seq from call_alias where old_id = ?
         ) order by before_seq desc limit 1",
    )?;
    let found = statement
        .query_map([bytes(&id.0), bytes(&id.0)], |row| get_id(row, 0).map(CallId))?
        .next()
        .transpose()?;
    Ok(found)
}

fn record_view(row: &duckdb::Row<'_>) -> duckdb::Result<RecordView> {
    let record = record_row::from_row(row)?;
    let owned = |text: Option<crate::model::Text>| text.map(|text| text.to_string());
    Ok(RecordView {
        id: record.id,
        length: record.length,
        witness: record.witness,
        dialect: record.dialect.as_str().to_owned(),
        stream: record.stream.to_string(),
        path: row.get::<_, Option<String>>("path")?.unwrap_or_default(),
        at: record.at,
        time_quality: record.time_quality,
        class: record.class,
        code: record.code.to_string(),
        detail: owned(record.detail),
        flags: record.flags.iter().map(ToString::to_string).collect(),
        tool: owned(record.tool),
        server: owned(record.server),
        args: record.args,
        principal: owned(record.principal),
        client: owned(record.client),
        tenant: owned(record.tenant),
        session: owned(record.session),
        line: None,
    })
}
