//! What judging absence has to know: when clients' logs had records, calls of a stretch of time.

use duckdb::Connection;
use rustc_hash::FxHashSet;

use super::value::{NULL, bytes, get_json, get_text, get_time, number, text, time};
use super::{Store, StoreError, call_row};
use crate::model::{Call, CallChange, CallId, Discrepancy, IngestCode, Micros, Text};

/// Up to where absence was judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Everything that batches up to this one stored.
    pub seq: u64,
    /// Silence by the logs' own time.
    pub closed_at: Option<Micros>,
}

/// A place in the order of calls: time, then id.
pub type CallPlace = (Micros, CallId);

/// Logs that clients write.
const UPPER: &str = "witness in ('client', 'transcript') and time_quality = 'own'";

impl Store {
    pub fn judged(&self) -> Result<Judged, StoreError> {
        let sql = "select judged_seq, closed_at from absence_log order by seq desc, judged_seq desc limit 1";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement
            .query_map([], |row| Ok(Judged { seq: row.get(0)?, closed_at: get_time(row, 1)? }))?;
        Ok(rows.next().transpose()?.unwrap_or_default())
    }

    /// Calls that ran and that no client leads, of these logs (a JSON list) or of several, with a time in one of these
    /// stretches, ends included, in order from this place on.
    pub fn lone_calls(
        &self,
        stretches: &[(Micros, Micros)],
        streams: &str,
        after: Option<CallPlace>,
        calls_max: usize,
    ) -> Result<Vec<Call>, StoreError> {
        let (Some(first), Some(last)) = (
            stretches.iter().map(|(from, _)| *from).min(),
            stretches.iter().map(|(_, to)| *to).max(),
        ) else {
            return Ok(Vec::new());
        };
        self.connection.execute_batch(
            "create or replace temp table wanted_stretch (first timestamp, last timestamp)",
        )?;
        {
            let mut appender =
                self.connection.appender_to_catalog_and_db("wanted_stretch", "temp", "main")?;
            for (from, to) in stretches {
                appender.append_row([time(Some(*from)), time(Some(*to))])?;
            }
            appender.flush()?;
        }
        let (from, id) = place(after);
        let mut statement = self.connection.prepare(&format!(
            "select {} from call_now
             where time between ? and ? and kind = 'call' and ran = 'yes'
               and witness not in ('client', 'transcript') and (time, call_id) > (?, ?)
               and (sightings is not null or stream in (select unnest(from_json(?, '[\"VARCHAR\"]'))))
               and exists (from wanted_stretch w where time between w.first and w.last)
             order by time, call_id limit ?",
            call_row::COLUMNS
        ))?;
        let values = [
            time(Some(first.max(from))),
            time(Some(last)),
            time(Some(from)),
            bytes(&id),
            text(streams),
            number(calls_max as u64),
        ];
        let rows = statement.query_map(values, call_row::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Of these calls, with their times, those that are stored as unwitnessed.
    pub fn unwitnessed(&self, calls: &[(CallId, Micros)]) -> Result<Vec<Call>, StoreError> {
        let (Some(first), Some(last)) =
            (calls.iter().map(|(_, at)| *at).min(), calls.iter().map(|(_, at)| *at).max())
        else {
            return Ok(Vec::new());
        };
        self.connection
            .execute_batch("create or replace temp table wanted_call (wanted_id blob)")?;
        {
            let mut appender =
                self.connection.appender_to_catalog_and_db("wanted_call", "temp", "main")?;
            for (id, _) in calls {
                appender.append_row([bytes(&id.0)])?;
            }
            appender.flush()?;
        }
        let mut statement = self.connection.prepare(&format!(
            "select {} from call_now
             where time between ? and ? and discrepancies is not null
               and call_id in (select wanted_id from wanted_call)",
            call_row::COLUMNS
        ))?;
        let rows =
            statement.query_map([time(Some(first)), time(Some(last))], call_row::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// From the first to the last call that is stored as unwitnessed.
    pub fn unwitnessed_span(&self) -> Result<Option<(Micros, Micros)>, StoreError> {
        let sql = "select time, discrepancies from call_now where discrepancies is not null and time is not null";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut span: Option<(Micros, Micros)> = None;
        while let Some(row) = rows.next()? {
            let found: Vec<Discrepancy> = get_json(row, 1)?;
            let is_one = found.iter().any(|found| matches!(found, Discrepancy::Unwitnessed { .. }));
            if let Some(at) = get_time(row, 0)?.filter(|_| is_one) {
                let (first, last) = span.unwrap_or((at, at));
                span = Some((first.min(at), last.max(at)));
            }
        }
        Ok(span)
    }

    /// In which minutes clients' logs have records of a time in this range, ends included: of these logs, or of all.
    pub fn heard(
        &self,
        streams: Option<&FxHashSet<Text>>,
        from: Micros,
        to: Micros,
    ) -> Result<Vec<(Text, i64)>, StoreError> {
        let among = match streams {
            Some(_) => {
                "and stream in (select * from (select unnest(from_json(?, '[\"VARCHAR\"]'))))"
            }
            None => "and ?::varchar is null",
        };
        let mut statement = self.connection.prepare(&format!(
            "select distinct stream, epoch_us(time) // 60000000 from record_log
             where time between ? and ? and {UPPER} {among}"
        ))?;
        let names = streams.map(|streams| {
            let names: Vec<&str> = streams.iter().map(|stream| &**stream).collect();
            serde_json::to_string(&names).unwrap_or_default()
        });
        let among = names.as_deref().map_or(NULL, text);
        let rows = statement.query_map([time(Some(from)), time(Some(to)), among], heard_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The same of the records that batches after this one stored.
    pub fn heard_since(&self, seq: u64) -> Result<Vec<(Text, i64)>, StoreError> {
        let mut statement = self.connection.prepare(&format!(
            "with known as (
                 select generation, max(\"offset\") as until from position_log where seq <= ? group by generation
             )
             select distinct stream, epoch_us(time) // 60000000 from record_log left join known using (generation)
             where record_log.\"offset\" >= coalesce(until, 0) and time is not null and {UPPER}"
        ))?;
        let rows = statement.query_map([number(seq)], heard_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Notes how far absence is judged, apart from a batch.
    pub fn note_judged(&mut self, judged: Judged) -> Result<(), StoreError> {
        write_judged(&self.connection, self.seq, judged)
    }

    /// The newest time of a record that has one of its own.
    pub fn newest_own_time(&self) -> Result<Option<Micros>, StoreError> {
        let sql = "select max(time) from record_log where time_quality = 'own'";
        Ok(self.connection.query_row(sql, [], |row| get_time(row, 0))?)
    }

    /// The events, as they stand, that tell of clients' logs which fell silent.
    pub fn silences(&self) -> Result<Vec<Call>, StoreError> {
        let mut statement = self.connection.prepare(&format!(
            "select {} from call_now where kind = 'ingest' and code = ?",
            call_row::COLUMNS
        ))?;
        let code = text(IngestCode::WitnessSilent.as_str());
        let rows = statement.query_map([code], call_row::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// What one batch did to calls: what it made void and what it wrote, each for itself.
    pub fn changes_of(&self, seq: u64) -> Result<Vec<CallChange>, StoreError> {
        let columns = call_row::COLUMNS;
        let new = format!("select {columns} from call_log where seq = ?");
        let old = format!(
            "select {columns} from call_log c
             where exists (from call_superseded s
                           where s.call_id = c.call_id and s.before_seq = ? and s.before_seq > c.seq)"
        );
        let mut changes = Vec::new();
        for (sql, is_new) in [(new, true), (old, false)] {
            let mut statement = self.connection.prepare(&sql)?;
            for call in statement.query_map([number(seq)], call_row::from_row)? {
                let call = Some(std::sync::Arc::new(call?));
                let (old, new) = if is_new { (None, call) } else { (call, None) };
                changes.push(CallChange { old, new });
            }
        }
        Ok(changes)
    }
}

fn heard_row(row: &duckdb::Row<'_>) -> duckdb::Result<(Text, i64)> {
    Ok((get_text(row, 0)?.unwrap_or_default(), row.get(1)?))
}

/// Where to go on behind a place; from the beginning without one.
fn place(after: Option<CallPlace>) -> (Micros, [u8; 16]) {
    let (at, id) = after.unwrap_or((Micros(i64::MIN / 2), CallId([0; 16])));
    (at, id.0)
}

/// Notes how far absence is judged.
pub(super) fn write_judged(
    connection: &Connection,
    seq: u64,
    judged: Judged,
) -> Result<(), StoreError> {
    connection.execute(
        "insert into absence_log values (?, ?, ?)",
        [number(seq), number(judged.seq), time(judged.closed_at)],
    )?;
    Ok(())
}
