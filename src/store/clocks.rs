//! How far apart the clocks of two streams are, as joins show.

use duckdb::{Row, params_from_iter};

use super::value::{Sql, get_time, number, text, time};
use super::{Reader, StoreError};
use crate::model::{Call, ClockView};

const COLUMNS: &str = "day::timestamp, upper_stream, lower_stream, samples, offset_ms, spread_ms";
/// Streams of one call looked up; a call has few witnesses.
const STREAMS_MAX: usize = 8;

impl Reader {
    /// The newest day first, at most `limit` rows.
    pub fn clocks(&self, limit: usize) -> Result<Vec<ClockView>, StoreError> {
        self.with(|connection| {
            let mut statement = connection.prepare(&format!(
                "select {COLUMNS} from clocks order by day desc, upper_stream, lower_stream limit ?"
            ))?;
            let rows = statement.query_map([number(limit as u64)], from_row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Those between streams of the call, of its day.
    pub fn clocks_of(&self, call: &Call) -> Result<Vec<ClockView>, StoreError> {
        let mut streams: Vec<&str> = Vec::new();
        for sighting in &call.sightings {
            if streams.len() < STREAMS_MAX && !streams.contains(&&*sighting.stream) {
                streams.push(&sighting.stream);
            }
        }
        if streams.len() < 2 || call.at.is_none() {
            return Ok(Vec::new());
        }
        let marks = vec!["?"; streams.len()].join(", ");
        let sql = format!(
            "select {COLUMNS} from clocks where day = date_trunc('day', ?::timestamp)::date
             and upper_stream in ({marks}) and lower_stream in ({marks})
             order by upper_stream, lower_stream"
        );
        let names = || streams.iter().map(|stream| text(stream));
        let values: Vec<Sql<'_>> =
            std::iter::once(time(call.at)).chain(names()).chain(names()).collect();
        self.with(|connection| {
            let mut statement = connection.prepare(&sql)?;
            let rows = statement.query_map(params_from_iter(values), from_row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

fn from_row(row: &Row<'_>) -> duckdb::Result<ClockView> {
    Ok(ClockView {
        day: get_time(row, 0)?.unwrap_or_default(),
        upper_stream: row.get(1)?,
        lower_stream: row.get(2)?,
        samples: row.get(3)?,
        offset_ms: row.get(4)?,
        spread_ms: row.get(5)?,
    })
}
