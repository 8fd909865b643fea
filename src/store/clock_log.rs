//! How far the clocks of two streams are apart: what joins show, and what calls were joined with.

use duckdb::{Appender, Row};
use rustc_hash::FxHashSet;

use super::value::{get_text, get_time, integer, number, text, time};
use super::{Store, StoreError};
use crate::model::{ClockSample, ClockUse, Micros, Text};

pub(super) fn append_sample(
    appender: &mut Appender<'_>,
    seq: u64,
    sample: &ClockSample,
) -> Result<(), StoreError> {
    appender.append_row([
        number(seq),
        time(Some(sample.day)),
        text(&sample.upper),
        text(&sample.lower),
        integer(Some(i64::from(sample.bin_ms))),
        integer(Some(sample.samples)),
    ])?;
    Ok(())
}

pub(super) fn append_use(
    appender: &mut Appender<'_>,
    seq: u64,
    used: &ClockUse,
) -> Result<(), StoreError> {
    appender.append_row([
        number(seq),
        time(Some(used.day)),
        text(&used.upper),
        text(&used.lower),
        integer(used.offset_micros),
        integer(used.tolerance_micros),
    ])?;
    Ok(())
}

impl Store {
    /// The days of which anything is stored, by their first moments.
    pub fn clock_days(&self) -> Result<Vec<Micros>, StoreError> {
        let sql = "select distinct slot from (from clock_log select slot union all from clock_use_log select slot)
                   order by slot";
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map([], |row| get_time(row, 0))?;
        Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// What is stored of a day: the joins by their differences, and what the calls were joined with.
    pub fn clocks_on(&self, day: Micros) -> Result<(Vec<ClockSample>, Vec<ClockUse>), StoreError> {
        let sql =
            "select slot, upper, lower, bin_ms, sum(samples)::bigint from clock_log where slot = ?
                   group by all having sum(samples) <> 0";
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map([time(Some(day))], sample)?;
        let samples = rows.collect::<Result<_, _>>()?;
        let sql = "select slot, upper, lower, offset_micros, tolerance_micros from clock_use_log where slot = ?
                   qualify row_number() over (partition by upper, lower order by seq desc, rowid desc) = 1";
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map([time(Some(day))], used)?;
        Ok((samples, rows.collect::<Result<_, _>>()?))
    }

    /// The bare names of the tools of which several witnesses, and one of these streams, have records in this span,
    /// and how many records of calls.
    pub fn tools_between(
        &self,
        from: Micros,
        to: Micros,
        streams: &FxHashSet<Text>,
    ) -> Result<Vec<(Text, u64)>, StoreError> {
        let sql = "select bare_tool, count(*)::ubigint from record_log
             where time between ? and ? and bare_tool is not null and kind = 'call'
             group by bare_tool
             having min(witness) <> max(witness)
                and bool_or(stream in (select unnest(from_json(?, '[\"VARCHAR\"]'))))
             order by bare_tool";
        let names: Vec<&str> = streams.iter().map(|stream| &**stream).collect();
        let names = serde_json::to_string(&names).unwrap_or_default();
        let mut statement = self.connection.prepare(sql)?;
        let values = [time(Some(from)), time(Some(to)), text(&names)];
        let rows = statement
            .query_map(values, |row| Ok((get_text(row, 0)?.unwrap_or_default(), row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

fn sample(row: &Row<'_>) -> duckdb::Result<ClockSample> {
    Ok(ClockSample {
        day: get_time(row, 0)?.unwrap_or(Micros(0)),
        upper: get_text(row, 1)?.unwrap_or_default(),
        lower: get_text(row, 2)?.unwrap_or_default(),
        bin_ms: row.get(3)?,
        samples: row.get(4)?,
    })
}

fn used(row: &Row<'_>) -> duckdb::Result<ClockUse> {
    Ok(ClockUse {
        day: get_time(row, 0)?.unwrap_or(Micros(0)),
        upper: get_text(row, 1)?.unwrap_or_default(),
        lower: get_text(row, 2)?.unwrap_or_default(),
        offset_micros: row.get(3)?,
        tolerance_micros: row.get(4)?,
    })
}
