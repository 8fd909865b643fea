//! What an older database gives to the one that is made in its place.

use std::collections::BTreeMap;

use duckdb::Connection;
use rustc_hash::{FxHashMap, FxHashSet};

use super::restore::mail_from_row;
use super::stretch::each_stretch;
use super::value::{get_id, get_json, get_text, get_time, get_word, number, small, text, time};
use super::{
    AlertRow, Alias, Decision, DeliveryOutcome, EvidenceRows, Gap, Restored, RestoredMail, Store,
    StoreError, alert_row, call_row, record_row,
};
use crate::model::{
    Alert, AlertId, AlertState, Call, CallId, CloseReason, EvidenceView, Micros, Record, RecordId,
    Reject, Text,
};

/// Parts of generations: each from an offset on.
pub type Parts = Vec<(u64, u64)>;

/// A record's place in the order of time.
pub type Place = (Option<Micros>, RecordId);

/// Rows that DuckDB keeps together: where one of them cannot be read, the others of its block often cannot either.
const BLOCK_ROWS: u64 = 122_880;

impl Store {
    /// Facts that the logs do not tell. What cannot be read of them is told to `lose`, with what it is.
    pub fn facts(&self, mut lose: impl FnMut(&str, StoreError)) -> Restored {
        let mut facts = Restored::default();
        match self.all_decisions() {
            Ok(decisions) => facts.decisions = decisions,
            Err(error) => lose("decisions", error),
        }
        match self.all_mails() {
            Ok(mails) => facts.mails = mails,
            Err(error) => lose("mails", error),
        }
        match self.all_first_seen() {
            Ok(first_seen) => facts.first_seen = first_seen,
            Err(error) => lose("what was seen first", error),
        }
        match self.all_aliases() {
            Ok(aliases) => facts.aliases = aliases,
            Err(error) => lose("former ids of alerts", error),
        }
        match self.all_alerts() {
            Ok(alerts) => facts.alerts = alerts.into_iter().map(|stored| stored.alert).collect(),
            Err(error) => lose("alerts", error),
        }
        match self.journal_mark() {
            Ok(mark) => facts.mark = mark,
            Err(error) => lose("where the journal stood", error),
        }
        facts
    }

    fn all_decisions(&self) -> Result<Vec<Decision>, StoreError> {
        let mut statement = self.connection.prepare(
            "select alert_id, time, who, state, close_reason, note from decision_log order by seq",
        )?;
        let rows = statement.query_map([], |row| {
            Ok(Decision {
                alert_id: AlertId(get_id(row, 0)?),
                at: get_time(row, 1)?.unwrap_or_default(),
                who: row.get(2)?,
                state: get_word(row, 3, AlertState::from_word)?,
                close_reason: get_text(row, 4)?.as_deref().and_then(CloseReason::from_word),
                note: row.get(5)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn all_mails(&self) -> Result<Vec<RestoredMail>, StoreError> {
        let mut statement = self.connection.prepare(
            "select o.alert_id, o.recipient, o.message_id, o.created_at, d.time, d.outcome, d.error
             from outbox o left join delivery_log d
                 on d.outbox_id = o.id and d.outcome in ('sent', 'dead')
             order by o.id",
        )?;
        let rows = statement.query_map([], |row| {
            let outcome = match row.get::<_, Option<String>>(5)?.as_deref() {
                Some("sent") => Some(DeliveryOutcome::Sent),
                Some(_) => Some(DeliveryOutcome::Dead {
                    error: row.get::<_, Option<String>>(6)?.unwrap_or_default(),
                }),
                None => None,
            };
            let at = get_time(row, 4)?.unwrap_or_default();
            Ok(RestoredMail { fate: outcome.map(|outcome| (at, outcome)), ..mail_from_row(row)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn all_aliases(&self) -> Result<Vec<Alias>, StoreError> {
        let mut statement = self.connection.prepare(
            "with leads as (select old_id, arg_max(new_id, seq) as new_id from alert_alias group by old_id)
             select old_id, new_id, new_id in (select member from alert_origin) from leads order by old_id",
        )?;
        let rows = statement.query_map([], |row| {
            Ok(Alias {
                old: AlertId(get_id(row, 0)?),
                new: AlertId(get_id(row, 1)?),
                is_own: row.get(2)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How much of each generation was a copy of another, and is stored with that one.
    pub fn copied(&self) -> Result<BTreeMap<u64, u64>, StoreError> {
        let mut statement = self.connection.prepare(
            "select generation, max(\"offset\" + length) from gap_log where why = 'copy' group by generation",
        )?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// When history was read to its end, if it was.
    pub fn history_read_at(&self) -> Result<Option<Micros>, StoreError> {
        let sql = "select max(value) from meta where name = 'history_read_at'";
        let found: Option<String> = self.connection.query_row(sql, [], |row| row.get(0))?;
        Ok(found.as_deref().and_then(Micros::parse_rfc3339))
    }

    /// Takes over another database's key, so that masked values of both are comparable. For a database that holds
    /// nothing yet.
    pub fn adopt_key(&mut self, key: [u8; 32]) -> Result<(), StoreError> {
        let hex = blake3::Hash::from_bytes(key).to_hex().to_string();
        self.connection
            .execute("update meta set value = ? where name = 'hash_key'", [text(&hex)])?;
        self.hash_key = key;
        Ok(())
    }

    /// The next records of these parts in order of time, those without a time first; `after` is the last one of before.
    pub fn records_of(
        &self,
        parts: &Parts,
        after: Option<Place>,
        rows_max: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.records_where(parts, after, "true", rows_max)
    }

    /// As [`Store::records_of`], of one of the blocks in which the table is stored; for a table of which others are
    /// damaged. None behind the last block.
    pub fn records_of_block(
        &self,
        parts: &Parts,
        after: Option<Place>,
        block: u64,
    ) -> Result<Option<Vec<Record>>, StoreError> {
        let rows: u64 =
            self.connection.query_row("select count(*) from record_log", [], |row| row.get(0))?;
        let first = block.saturating_mul(BLOCK_ROWS);
        if first >= rows {
            return Ok(None);
        }
        let inside = format!("r.rowid >= {first} and r.rowid < {}", first + BLOCK_ROWS);
        self.records_where(parts, after, &inside, usize::MAX).map(Some)
    }

    fn records_where(
        &self,
        parts: &Parts,
        after: Option<Place>,
        condition: &str,
        rows_max: usize,
    ) -> Result<Vec<Record>, StoreError> {
        want_parts(&self.connection, parts)?;
        let (at, id) = after.unwrap_or((None, RecordId { generation: 0, offset: 0, index: 0 }));
        let place = "(r.generation, r.\"offset\", r.idx) > (?, ?, ?)";
        let later = match at {
            None => format!("(time is not null or {place})"),
            // The first condition tells which row groups need not be read.
            Some(_) => format!("time >= ? and (time > ? or {place})"),
        };
        let columns =
            record_row::COLUMNS.replace("generation, \"offset\"", "r.generation, r.\"offset\"");
        let mut statement = self.connection.prepare(&format!(
            "select {columns} from record_log r join wanted_part w
                 on r.generation = w.generation and r.\"offset\" >= w.start
             where {condition} and {later}
             order by time nulls first, r.generation, r.\"offset\", r.idx limit ?"
        ))?;
        let times = at.into_iter().flat_map(|at| [time(Some(at)), time(Some(at))]);
        let rows_max = i64::try_from(rows_max).unwrap_or(i64::MAX).unsigned_abs();
        let values = times.chain([
            number(id.generation),
            number(id.offset),
            small(id.index),
            number(rows_max),
        ]);
        let rows = statement.query_map(duckdb::params_from_iter(values), record_row::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// What reading showed about the logs, in order of time.
    pub fn events(&self) -> Result<Vec<Call>, StoreError> {
        let mut statement = self.connection.prepare(&format!(
            "select {} from call_now where kind = 'ingest' order by time, call_id",
            call_row::COLUMNS
        ))?;
        let rows = statement.query_map([], call_row::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The next rejects of these parts, by place; `after` is the last one of before.
    pub fn rejects_of(
        &self,
        parts: &Parts,
        after: (u64, u64),
        rows_max: usize,
    ) -> Result<Vec<Reject>, StoreError> {
        want_parts(&self.connection, parts)?;
        let mut statement = self.connection.prepare(
            "select r.generation, r.\"offset\", r.length, r.reason, r.head from reject_log r join wanted_part w
                 on r.generation = w.generation and r.\"offset\" >= w.start
             where (r.generation, r.\"offset\") > (?, ?) order by r.generation, r.\"offset\" limit ?",
        )?;
        let values = [number(after.0), number(after.1), number(rows_max as u64)];
        let rows = statement.query_map(values, |row| {
            Ok(Reject {
                generation: row.get(0)?,
                offset: row.get(1)?,
                length: row.get(2)?,
                reason: row.get(3)?,
                head: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The gaps of these parts.
    pub fn gaps_of(&self, parts: &Parts) -> Result<Vec<Gap>, StoreError> {
        want_parts(&self.connection, parts)?;
        let mut statement = self.connection.prepare(
            "select r.generation, r.\"offset\", r.length, r.why from gap_log r join wanted_part w
                 on r.generation = w.generation and r.\"offset\" >= w.start",
        )?;
        let rows = statement.query_map([], |row| {
            let why = row.get::<_, String>(3)?;
            let why = Gap::WHY.into_iter().find(|known| *known == why).unwrap_or(Gap::LOST);
            Ok(Gap { generation: row.get(0)?, offset: row.get(1)?, length: row.get(2)?, why })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The masked lines that alerts keep of records of these generations, as far as they can be read: what not is told
    /// to `lose`, a sentence.
    pub fn kept_lines(
        &self,
        generations: &FxHashSet<u64>,
        lose: impl FnOnce(String),
    ) -> Result<FxHashMap<RecordId, String>, StoreError> {
        let mut statement = self
            .connection
            .prepare("select evidence from evidence_text_log where rowid >= ? and rowid < ?")?;
        let mut lines = FxHashMap::default();
        let unreadable = each_stretch(&self.connection, "evidence_text_log", |part| {
            let mut rows = statement.query([part.start, part.end])?;
            while let Some(row) = rows.next()? {
                // One that says nothing costs no other.
                let view = get_json::<Option<EvidenceView>>(row, 0).ok().flatten();
                for line in view.into_iter().flat_map(|view| view.lines) {
                    if generations.contains(&line.record.generation)
                        && let Some(text) = line.text
                    {
                        lines.insert(line.record, text);
                    }
                }
            }
            Ok(())
        })?;
        if let Some(unreadable) = unreadable {
            let (rows, why) = (unreadable.rows(), unreadable.why);
            lose(format!("the lines that alerts keep of {rows} calls: {why}"));
        }
        Ok(lines)
    }

    /// Alerts as they are stored, but for these; each with the reason why it was retracted, where it was. What cannot
    /// be read is told to `lose`, a sentence each; an alert comes with what can be read of its evidence.
    pub fn alerts_but(
        &self,
        known: &FxHashSet<AlertId>,
        mut lose: impl FnMut(String),
    ) -> Vec<(AlertRow, Option<String>)> {
        let mut stored = match self.all_alerts() {
            Ok(stored) => stored,
            Err(error) => {
                lose(format!("alerts that the logs do not show: {error}"));
                return Vec::new();
            }
        };
        stored.retain(|stored| !known.contains(&stored.alert.id));
        let sets: Vec<(AlertId, u64)> =
            stored.iter().map(|stored| (stored.alert.id, stored.evidence_set)).collect();
        let evidence = self.remains(&sets, &mut lose);
        let with_evidence = |(stored, views): (StoredWhole, Vec<EvidenceView>)| {
            let evidence = EvidenceRows::Whole(views);
            let row = AlertRow { alert: stored.alert, evidence, replaces: Vec::new() };
            (row, stored.retracted)
        };
        stored.into_iter().zip(evidence).map(with_evidence).collect()
    }

    /// All alerts that are not another's former self, in the order in which they last changed.
    fn all_alerts(&self) -> Result<Vec<StoredWhole>, StoreError> {
        let mut statement = self.connection.prepare(&format!(
            "select {}, closing, closing_at from alert_now
             where alert_id not in (select old_id from alert_alias) order by seq",
            alert_row::COLUMNS
        ))?;
        let rows = statement.query_map([], |row| {
            let (view, evidence_set) = alert_row::from_row(row)?;
            let group = view.group.into_iter();
            let alert = Alert {
                id: view.id,
                rule: view.rule.into(),
                title: view.title,
                level: view.level,
                tags: view.tags.into_iter().map(Text::from).collect(),
                group: group.map(|(field, value)| (field.into(), value.into())).collect(),
                actor: view.actor.into(),
                first_seen: view.first_seen,
                last_seen: view.last_seen,
                closing: CallId(get_id(row, 15)?),
                closing_at: get_time(row, 16)?,
                count: view.count,
                why: view.why,
                evidence: Vec::new(),
                elided: view.elided,
            };
            Ok(StoredWhole { alert, evidence_set, retracted: view.retracted })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// An alert without its evidence, and which set of rows that is.
struct StoredWhole {
    alert: Alert,
    evidence_set: u64,
    retracted: Option<String>,
}

/// Puts the parts into a temporary table, which no other connection sees and no file holds.
fn want_parts(connection: &Connection, parts: &Parts) -> Result<(), StoreError> {
    connection.execute_batch(
        "create or replace temp table wanted_part (generation ubigint, start ubigint)",
    )?;
    let mut appender = connection.appender_to_catalog_and_db("wanted_part", "temp", "main")?;
    for (generation, start) in parts {
        appender.append_row([number(*generation), number(*start)])?;
    }
    appender.flush()?;
    Ok(())
}
