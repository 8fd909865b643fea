//! Pairs of logs that tell of the same calls, and the calls that show them.

use duckdb::Appender;

use super::absence::CallPlace;
use super::history::TIME_MAX;
use super::value::{bytes, get_text, get_time, number, shared, text, time};
use super::{Store, StoreError, call_row};
use crate::model::{Call, Micros, PairFact, WitnessPair};

/// A pair whose calls are wanted: those behind a place, and up to a time.
#[derive(Clone, Copy, Debug)]
pub struct WantedPair<'a> {
    pub pair: &'a WitnessPair,
    pub after: CallPlace,
    /// Included; none: to the end of time.
    pub until: Option<Micros>,
}

impl Store {
    /// Every pair that stands.
    pub fn pairs(&self) -> Result<Vec<PairFact>, StoreError> {
        let mut statement = self.connection.prepare(
            "with newest as (
                 from pair_log
                 qualify row_number() over (
                     partition by lower_stream, upper_stream, principal, client order by seq desc
                 ) = 1
             )
             select lower_stream, upper_stream, principal, client, first_at from newest where first_at is not null
             order by first_at, lower_stream, upper_stream, principal, client",
        )?;
        let rows = statement.query_map([], |row| {
            let pair = WitnessPair {
                lower: get_text(row, 0)?.unwrap_or_default(),
                upper: get_text(row, 1)?.unwrap_or_default(),
                principal: get_text(row, 2)?,
                client: get_text(row, 3)?,
            };
            Ok(PairFact { pair, first_at: get_time(row, 4)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// For each of these pairs the first calls, in order of time, that may show it, from its place on: its logs and
    /// names are in them. Each call comes with the number of the pair among those that were asked for.
    pub fn calls_of_pairs(
        &self,
        wanted: &[WantedPair<'_>],
        each_max: usize,
    ) -> Result<Vec<(usize, Call)>, StoreError> {
        let (Some(first), Some(last)) = (
            wanted.iter().map(|wanted| wanted.after.0).min(),
            wanted.iter().map(|wanted| wanted.until.unwrap_or(TIME_MAX)).max(),
        ) else {
            return Ok(Vec::new());
        };
        self.want_pairs(wanted)?;
        // The places are found in few columns; all of them are then read of few calls. The client's log leads a call,
        // but for one that has a transcript as well: of these there are few.
        let candidates = |among: &str| {
            format!(
                "select number, call_id as found_id, time as found_at
                 from call_now c join wanted_pair p
                     on c.principal is not distinct from p.of_principal and c.client is not distinct from p.of_client
                    and {among}
                 where kind = 'call' and sightings is not null and time between ? and ? and time <= till
                   and (time, call_id) > (since, behind) and contains(sightings, lower_stream)"
            )
        };
        let mut statement = self.connection.prepare(&format!(
            "with found as (
                 from ({} union {})
                 qualify row_number() over (partition by number order by found_at, found_id) <= ?
             )
             select {}, number from call_now join found on call_id = found_id and time = found_at
             where time between ? and ? order by number, time, call_id",
            candidates("c.stream = p.led_by"),
            candidates(
                "contains(c.witnesses, 'transcript') and contains(c.sightings, p.upper_stream)"
            ),
            call_row::COLUMNS
        ))?;
        let (from, to) = (|| time(Some(first)), || time(Some(last)));
        let values = [from(), to(), from(), to(), number(each_max as u64), from(), to()];
        let rows = statement
            .query_map(values, |row| Ok((row.get::<_, u64>(32)?, call_row::from_row(row)?)))?;
        let mut found = Vec::new();
        for row in rows {
            let (number, call) = row?;
            found.push((usize::try_from(number).unwrap_or(usize::MAX), call));
        }
        Ok(found)
    }

    /// Puts the wanted pairs into a temporary table, which no other connection sees and no file holds.
    fn want_pairs(&self, wanted: &[WantedPair<'_>]) -> Result<(), StoreError> {
        self.connection.execute_batch(
            "create or replace temp table wanted_pair (
                 number ubigint, lower_stream varchar, upper_stream varchar, led_by varchar, of_principal varchar,
                 of_client varchar,
                 since timestamp, behind blob, till timestamp
             )",
        )?;
        let stream = |name: &str| {
            let name = serde_json::to_string(name).unwrap_or_default();
            format!("\"stream\":{name}")
        };
        let mut appender =
            self.connection.appender_to_catalog_and_db("wanted_pair", "temp", "main")?;
        for (index, WantedPair { pair, after, until }) in wanted.iter().enumerate() {
            let (lower, upper) = (stream(&pair.lower), stream(&pair.upper));
            appender.append_row([
                number(index as u64),
                text(&lower),
                text(&upper),
                text(&pair.upper),
                shared(pair.principal.as_ref()),
                shared(pair.client.as_ref()),
                time(Some(after.0)),
                bytes(&after.1.0),
                time(Some(until.unwrap_or(TIME_MAX))),
            ])?;
        }
        appender.flush()?;
        Ok(())
    }
}

pub(super) fn append_pair(
    appender: &mut Appender<'_>,
    seq: u64,
    fact: &PairFact,
) -> Result<(), StoreError> {
    appender.append_row([
        number(seq),
        text(&fact.pair.lower),
        text(&fact.pair.upper),
        shared(fact.pair.principal.as_ref()),
        shared(fact.pair.client.as_ref()),
        time(fact.first_at),
    ])?;
    Ok(())
}
