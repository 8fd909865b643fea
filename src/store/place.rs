//! From a line of a log to the calls it tells of.

use serde::{Deserialize, Serialize};

use super::value::{get_id, number, text};
use super::{Reader, StoreError};
use crate::model::CallId;

/// Calls of one line that are told; a line holds a handful of records.
const CALLS_MAX: usize = 64;

/// What became of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "found", rename_all = "kebab-case")]
pub enum Found {
    /// The calls that its records belong to, as they now stand.
    Calls { ids: Vec<CallId> },
    /// Its record belongs to no call.
    NoCall,
    /// It could not be read, for this reason.
    Reject { reason: String },
    /// It was not read (yet), or something else stood there.
    Nothing,
    /// No log is read from there.
    NoLog,
}

impl Reader {
    /// What became of the line that begins at this byte of a file. `paths` are the names that the file may have.
    pub fn found_at(&self, paths: &[String], offset: u64) -> Result<Found, StoreError> {
        self.with(|connection| {
            let mut generations: Vec<u64> = Vec::new();
            let mut statement = connection.prepare(
                "select generation from sources where path = ? order by generation desc",
            )?;
            for path in paths {
                for generation in statement.query_map([text(path)], |row| row.get(0))? {
                    generations.push(generation?);
                }
            }
            if generations.is_empty() {
                return Ok(Found::NoLog);
            }
            // Steps after the first are in the sightings alone, which hold each place as serde writes it.
            let mut calls = connection.prepare(
                "select distinct call_id from call_now
                 where (generation = ? and \"offset\" = ?) or contains(sightings, ?)
                 order by all limit ?",
            )?;
            let mut records = connection.prepare(
                "select exists (from record_log where generation = ? and \"offset\" = ?)",
            )?;
            let mut rejects = connection
                .prepare("select reason from reject_log where generation = ? and \"offset\" = ?")?;
            for generation in generations {
                let line = [number(generation), number(offset)];
                let place = format!("{{\"generation\":{generation},\"offset\":{offset},");
                let [first, second] = line.clone();
                let found = calls
                    .query_map([first, second, text(&place), number(CALLS_MAX as u64)], |row| {
                        get_id(row, 0).map(CallId)
                    })?;
                let ids: Vec<CallId> = found.collect::<Result<_, _>>()?;
                if !ids.is_empty() {
                    return Ok(Found::Calls { ids });
                }
                if records.query_row(line.clone(), |row| row.get(0))? {
                    return Ok(Found::NoCall);
                }
                if let Some(reason) = rejects.query_map(line, |row| row.get(0))?.next() {
                    return Ok(Found::Reject { reason: reason? });
                }
            }
            Ok(Found::Nothing)
        })
    }
}
