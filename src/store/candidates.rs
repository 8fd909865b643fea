//! What else would fit where a join is ambiguous: records, and the calls that they belong to.

use std::fmt::Write as _;

use duckdb::{Connection, params_from_iter};

use super::value::{Sql, number, small, text, time};
use super::{Reader, StoreError, call_row};
use crate::model::{Call, CandidateCall, CandidateView, Micros, RecordId};

/// Candidates looked up for one call; a call made again and again could name more.
const LOOKUPS_MAX: usize = 32;
/// How far around the call the calls of its candidates are looked for: joins by time span less.
const AROUND_MICROS: i64 = 10 * Micros::MINUTE;

impl Reader {
    /// The candidates that the call's sightings name, each once, with the call that each leads to.
    pub fn candidates_of(&self, call: &Call) -> Result<Vec<CandidateView>, StoreError> {
        let mut wanted: Vec<RecordId> = Vec::new();
        for record in call.sightings.iter().flat_map(|sighting| &sighting.candidates) {
            if wanted.len() < LOOKUPS_MAX && !wanted.contains(record) {
                wanted.push(*record);
            }
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        self.with(|connection| {
            let calls = calls_with(connection, call, &wanted)?;
            let mut paths =
                connection.prepare("select path from sources where generation = ? limit 1")?;
            let mut views = Vec::with_capacity(wanted.len());
            for record in &wanted {
                let path = paths
                    .query_map([number(record.generation)], |row| row.get(0))?
                    .next()
                    .transpose()?;
                let call = calls.iter().find(|call| holds(call, *record)).map(|call| {
                    CandidateCall { id: call.id, at: call.at, actor: call.actor.to_string() }
                });
                views.push(CandidateView { record: *record, path, call });
            }
            Ok(views)
        })
    }
}

fn holds(call: &Call, record: RecordId) -> bool {
    let mut steps = call.sightings.iter().flat_map(|sighting| &sighting.steps);
    steps.any(|step| step.record == record)
}

/// The calls around this one that hold one of the records.
fn calls_with(
    connection: &Connection,
    call: &Call,
    records: &[RecordId],
) -> Result<Vec<Call>, StoreError> {
    let steps = || call.sightings.iter().flat_map(|sighting| &sighting.steps);
    let times = || steps().filter_map(|step| step.at).chain(call.at);
    let Some((first, last)) = times().min().zip(times().max()) else { return Ok(Vec::new()) };
    // Steps after the first are in the sightings alone, which hold each place as serde writes it.
    let places: Vec<String> =
        records.iter().filter_map(|record| serde_json::to_string(record).ok()).collect();
    let mut sql = format!(
        "select {} from call_now where time between ? and ? and kind = 'call' and (false",
        call_row::COLUMNS
    );
    let mut values: Vec<Sql<'_>> =
        vec![time(Some(first.minus(AROUND_MICROS))), time(Some(last.plus(AROUND_MICROS)))];
    for (record, place) in records.iter().zip(&places) {
        let lead = "(generation = ? and \"offset\" = ? and idx = ?)";
        // Writing to a text cannot fail.
        _ = write!(sql, " or {lead} or contains(sightings, ?)");
        values.extend([
            number(record.generation),
            number(record.offset),
            small(record.index),
            text(place),
        ]);
    }
    // Candidates name each other, so more calls mention a record than hold it.
    sql.push_str(") order by time, call_id limit 1000");
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map(params_from_iter(values), call_row::from_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}
