//! What alerts rest on, as rows and back as views.
//!
//! An alert can grow with every batch for a day, and several alerts rest on one call. So an alert's rows are a set that
//! batches add to, and what is shown of a call is a text that rows of several alerts share.

use duckdb::Connection;
use rustc_hash::FxHashMap;

use super::batch::append_each;
use super::value::{NULL, bytes, get_id, get_text, number, optional, small, text, time};
use super::{AlertRow, Batch, Reader, StoreError};
use crate::model::{AlertId, AlertView, CallId, EvidenceView, Micros, OrderKey, Text, WitnessLine};

/// What becomes of the stored evidence of an alert.
pub enum EvidenceRows {
    /// A new set takes its place.
    Whole(Vec<EvidenceView>),
    /// As [`EvidenceRows::Whole`], of texts that alerts share.
    Begun(Vec<EvidenceRow>),
    /// The set with that number, which belongs to the alert already, gets more rows and loses others, by their numbers.
    Grown { set: u64, added: Vec<EvidenceRow>, gone: Vec<u32> },
}

/// One call that an alert rests on.
pub struct EvidenceRow {
    /// Its number within the set: no other row of the set has or had it.
    pub number: u32,
    pub stage: Text,
    pub call_id: CallId,
    pub order: OrderKey,
    /// The text that shows it: one of the batch's, or of an earlier one.
    pub text: TextPlace,
}

impl EvidenceRows {
    /// The number of the set that the alert has from the batch `seq` on.
    pub(super) const fn set(&self, seq: u64) -> u64 {
        match self {
            Self::Grown { set, .. } => *set,
            Self::Whole(_) | Self::Begun(_) => seq,
        }
    }

    fn views(&self) -> &[EvidenceView] {
        if let Self::Whole(views) = self { views } else { &[] }
    }

    fn added(&self) -> &[EvidenceRow] {
        match self {
            Self::Whole(_) => &[],
            Self::Begun(added) | Self::Grown { added, .. } => added,
        }
    }
}

pub(super) fn write(connection: &Connection, seq: u64, batch: &Batch) -> Result<(), StoreError> {
    let shared = (0..).zip(&batch.evidence_texts);
    let shared: Vec<(u32, &str)> = shared.map(|(index, text)| (index, &**text)).collect();
    append_each(connection, "evidence_text_log", &shared, |appender, (index, shown)| {
        Ok(appender.append_row([number(seq), small(*index), text(shown)])?)
    })?;
    // Whole sets have texts of their own, behind those.
    let first = u32::try_from(shared.len()).unwrap_or(u32::MAX);
    let wholes = batch.alerts.iter().flat_map(|row| row.evidence.views());
    let wholes: Vec<(u32, &EvidenceView)> = (first..).zip(wholes).collect();
    append_each(connection, "evidence_text_log", &wholes, |appender, (index, view)| {
        let shown = serde_json::to_string(view).unwrap_or_default();
        Ok(appender.append_row([number(seq), small(*index), text(&shown)])?)
    })?;
    let mut next = first;
    append_each(connection, "evidence_row_log", &batch.alerts, |appender, row| {
        for (ordinal, view) in (0..).zip(row.evidence.views()) {
            appender.append_row(whole_row(row, seq, ordinal, view, next))?;
            next += 1;
        }
        for added in row.evidence.added() {
            appender.append_row(added_row(row, seq, added))?;
        }
        Ok(())
    })?;
    let gone = |row: &&AlertRow| matches!(&row.evidence, EvidenceRows::Grown { gone, .. } if !gone.is_empty());
    let shrunk: Vec<&AlertRow> = batch.alerts.iter().filter(gone).collect();
    append_each(connection, "evidence_gone_log", &shrunk, |appender, row| {
        let EvidenceRows::Grown { set, gone, .. } = &row.evidence else { return Ok(()) };
        for gone in gone {
            appender.append_row([bytes(&row.alert.id.0), number(*set), small(*gone)])?;
        }
        Ok(())
    })
}

fn whole_row<'a>(
    row: &'a AlertRow,
    seq: u64,
    ordinal: u32,
    view: &'a EvidenceView,
    text_number: u32,
) -> [super::value::Sql<'a>; 12] {
    [
        bytes(&row.alert.id.0),
        number(seq),
        small(ordinal),
        bytes(&view.call_id.0),
        text(&view.stage),
        NULL,
        NULL,
        NULL,
        NULL,
        NULL,
        number(seq),
        small(text_number),
    ]
}

fn added_row<'a>(
    row: &'a AlertRow,
    seq: u64,
    added: &'a EvidenceRow,
) -> [super::value::Sql<'a>; 12] {
    let OrderKey { at, stream, position } = &added.order;
    [
        bytes(&row.alert.id.0),
        number(row.evidence.set(seq)),
        small(added.number),
        bytes(&added.call_id.0),
        text(&added.stage),
        time(Some(*at).filter(|at| *at != Micros(i64::MAX))),
        optional(Some(stream)),
        number(position.generation),
        number(position.offset),
        small(position.index),
        number(added.text.seq),
        small(added.text.number),
    ]
}

/// Adds their evidence to alerts, each with the number of its set.
pub(super) fn add(
    connection: &Connection,
    alerts: &mut [(AlertView, u64)],
) -> Result<(), StoreError> {
    let sets: Vec<(AlertId, u64)> = alerts.iter().map(|(alert, set)| (alert.id, *set)).collect();
    let views = views(connection, &sets)?;
    for ((alert, _), views) in alerts.iter_mut().zip(views) {
        alert.evidence = views;
    }
    Ok(())
}

/// The evidence of each of these alerts, whose sets have these numbers: two statements, however many they are.
pub(super) fn views(
    connection: &Connection,
    sets: &[(AlertId, u64)],
) -> Result<Vec<Vec<EvidenceView>>, StoreError> {
    let mut views: Vec<Vec<EvidenceView>> = vec![Vec::new(); sets.len()];
    let numbers = || sets.iter().map(|(_, set)| *set);
    let (Some(first), Some(last)) = (numbers().min(), numbers().max()) else { return Ok(views) };
    let places: FxHashMap<(AlertId, u64), usize> =
        sets.iter().enumerate().map(|(place, set)| (*set, place)).collect();
    let ids = ids(sets.iter().map(|(id, _)| *id));
    let mut statement = connection.prepare(
        "select alert_id, evidence_seq, stage, text_seq, text_number from evidence_row_log r
         where evidence_seq between ? and ?
           and alert_id in (select unhex(unnest(from_json(?, '[\"VARCHAR\"]'))))
           and not exists (
               from evidence_gone_log g
               where g.alert_id = r.alert_id and g.evidence_seq = r.evidence_seq and g.number = r.number
           )
         order by alert_id, time nulls last, stream, generation, \"offset\", idx, number",
    )?;
    let mut rows = statement.query([number(first), number(last), text(&ids)])?;
    let mut found: Vec<(usize, Text, TextPlace)> = Vec::new();
    while let Some(row) = rows.next()? {
        if let Some(place) = places.get(&(AlertId(get_id(row, 0)?), row.get(1)?)) {
            let stage = get_text(row, 2)?.unwrap_or_default();
            found.push((*place, stage, TextPlace { seq: row.get(3)?, number: row.get(4)? }));
        }
    }
    let texts = texts(connection, found.iter().map(|(_, _, text)| *text))?;
    for (place, stage, text) in found {
        if let Some((views, view)) = views.get_mut(place).zip(texts.get(&text)) {
            views.push(EvidenceView { stage: stage.to_string(), ..view.clone() });
        }
    }
    Ok(views)
}

/// Where a text is: the batch that wrote it, and its number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct TextPlace {
    pub seq: u64,
    pub number: u32,
}

/// What these texts show.
fn texts(
    connection: &Connection,
    places: impl Iterator<Item = TextPlace>,
) -> Result<FxHashMap<TextPlace, EvidenceView>, StoreError> {
    let mut places: Vec<TextPlace> = places.collect();
    places.sort_unstable();
    places.dedup();
    let mut texts = FxHashMap::default();
    if places.is_empty() {
        return Ok(texts);
    }
    let places = serde_json::to_string(&places).unwrap_or_default();
    let mut statement = connection.prepare(
        "select t.seq, t.number, t.evidence from evidence_text_log t semi join (
             select unnest(from_json(?, '[{\"seq\": \"UBIGINT\", \"number\": \"UINTEGER\"}]'), recursive := true)
         ) w on w.seq = t.seq and w.number = t.number",
    )?;
    let mut rows = statement.query([text(&places)])?;
    while let Some(row) = rows.next()? {
        let place = TextPlace { seq: row.get(0)?, number: row.get(1)? };
        let shown = get_text(row, 2)?.unwrap_or_default();
        texts.extend(serde_json::from_str(&shown).ok().map(|view| (place, view)));
    }
    Ok(texts)
}

impl Reader {
    /// The lines that are stored with these alerts.
    pub fn lines_of(&self, alerts: &[AlertId]) -> Result<Vec<WitnessLine>, StoreError> {
        self.with(|connection| {
            let ids = ids(alerts.iter().copied());
            let mut statement = connection.prepare(
                "select distinct text_seq, text_number from evidence_row_log
                 where alert_id in (select unhex(unnest(from_json(?, '[\"VARCHAR\"]'))))",
            )?;
            let rows = statement.query_map([text(&ids)], |row| {
                Ok(TextPlace { seq: row.get(0)?, number: row.get(1)? })
            })?;
            let places: Vec<TextPlace> = rows.collect::<Result<_, _>>()?;
            let texts = texts(connection, places.into_iter())?;
            Ok(texts.into_values().flat_map(|view| view.lines).collect())
        })
    }
}

/// A JSON list of ids.
pub(super) fn ids(ids: impl Iterator<Item = AlertId>) -> String {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    serde_json::to_string(&ids).unwrap_or_default()
}
