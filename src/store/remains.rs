//! What alerts rest on, as far as a damaged database still tells it: a place that cannot be read costs the calls that
//! it shows, and no others of their alerts.

use duckdb::{Connection, Row};
use rustc_hash::{FxHashMap, FxHashSet};

use super::stretch::{Unreadable, each_stretch};
use super::value::{bytes, get_text, get_time, number, small};
use super::{Store, StoreError, TextPlace};
use crate::model::{AlertId, EvidenceView, Micros, Text};

/// Alerts that a loss names; of the others it tells how many.
const NAMED_MAX: usize = 5;

/// What a table gives, and what of it cannot be read.
type Given<T> = Result<(T, Option<Unreadable>), StoreError>;

/// One call that an alert rests on.
struct Remain {
    /// Which of the alerts.
    place: usize,
    number: u32,
    stage: String,
    text: TextPlace,
    order: Order,
}

/// The order of calls in an alert, what is not there last.
type Order = [(bool, Key); 5];

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    None,
    Time(Micros),
    Stream(Text),
    Number(u64),
}

impl Store {
    /// The evidence of these alerts, whose sets have these numbers. What cannot be read is told to `lose`, a sentence
    /// each.
    pub(super) fn remains(
        &self,
        sets: &[(AlertId, u64)],
        lose: &mut dyn FnMut(String),
    ) -> Vec<Vec<EvidenceView>> {
        match remains(&self.connection, sets, lose) {
            Ok(views) => views,
            Err(error) => {
                lose(format!("the calls that {} alerts rest on: {error}", sets.len()));
                vec![Vec::new(); sets.len()]
            }
        }
    }
}

fn remains(
    connection: &Connection,
    sets: &[(AlertId, u64)],
    lose: &mut dyn FnMut(String),
) -> Result<Vec<Vec<EvidenceView>>, StoreError> {
    let mut all: Vec<Vec<EvidenceView>> = vec![Vec::new(); sets.len()];
    if sets.is_empty() {
        return Ok(all);
    }
    want_sets(connection, sets)?;
    let (mut rows, unreadable) = rows(connection)?;
    tell(unreadable, "rows that tell which calls alerts rest on", lose);
    let (gone, unreadable) = gone(connection)?;
    tell(unreadable, "rows that tell which calls alerts no longer rest on", lose);
    rows.retain(|row| !gone.contains(&(row.place, row.number)));
    rows.sort_by(|a, b| (a.place, &a.order, a.number).cmp(&(b.place, &b.order, b.number)));
    want_texts(connection, &rows)?;
    let (texts, unreadable) = texts(connection)?;
    let mut lacking: Vec<usize> = Vec::new();
    for row in rows {
        let view = texts.get(&row.text).cloned();
        match view.zip(all.get_mut(row.place)) {
            Some((view, views)) => views.push(EvidenceView { stage: row.stage, ..view }),
            None => lacking.push(row.place),
        }
    }
    if !lacking.is_empty() {
        let why = unreadable.map_or_else(
            || "what the database has of them is no text of a call".to_owned(),
            |unreadable| unreadable.why.to_string(),
        );
        lose(format!("{}: {why}", lost_calls(&lacking, sets)));
    }
    Ok(all)
}

/// How many calls are lost, and of which alerts. `lacking` has the place of an alert for each, in order.
fn lost_calls(lacking: &[usize], sets: &[(AlertId, u64)]) -> String {
    let mut alerts = lacking.to_vec();
    alerts.dedup();
    let ids = alerts.iter().filter_map(|place| sets.get(*place));
    let named: Vec<String> = ids.take(NAMED_MAX).map(|(id, _)| id.to_string()).collect();
    let more = alerts.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (calls, named) = (lacking.len(), named.join(", "));
    format!("{calls} of the calls that these alerts rest on, {named}{more}")
}

fn tell(unreadable: Option<Unreadable>, what: &str, lose: &mut dyn FnMut(String)) {
    if let Some(unreadable) = unreadable {
        lose(format!("{} {what}: {}", unreadable.rows(), unreadable.why));
    }
}

/// Puts the sets into a temporary table, which no other connection sees and no file holds.
fn want_sets(connection: &Connection, sets: &[(AlertId, u64)]) -> Result<(), StoreError> {
    connection.execute_batch(
        "create or replace temp table wanted_set (alert_id blob, evidence_seq ubigint, place ubigint)",
    )?;
    let mut appender = connection.appender_to_catalog_and_db("wanted_set", "temp", "main")?;
    for (place, (id, set)) in (0..).zip(sets) {
        appender.append_row([bytes(&id.0), number(*set), number(place)])?;
    }
    Ok(appender.flush()?)
}

fn want_texts(connection: &Connection, rows: &[Remain]) -> Result<(), StoreError> {
    connection
        .execute_batch("create or replace temp table wanted_text (seq ubigint, number uinteger)")?;
    let places: FxHashSet<TextPlace> = rows.iter().map(|row| row.text).collect();
    let mut appender = connection.appender_to_catalog_and_db("wanted_text", "temp", "main")?;
    for place in places {
        appender.append_row([number(place.seq), small(place.number)])?;
    }
    Ok(appender.flush()?)
}

/// The rows of the wanted sets, those that are gone too.
fn rows(connection: &Connection) -> Given<Vec<Remain>> {
    let sql = "select w.place, r.number, stage, text_seq, text_number, time, stream, generation, \"offset\", idx
               from evidence_row_log r join wanted_set w using (alert_id, evidence_seq)
               where r.rowid >= ? and r.rowid < ?";
    read(connection, "evidence_row_log", sql, |row| {
        let number =
            |column| row.get::<_, Option<u64>>(column).map(|number| number.map(Key::Number));
        let order = [
            get_time(row, 5)?.map(Key::Time),
            get_text(row, 6)?.map(Key::Stream),
            number(7)?,
            number(8)?,
            number(9)?,
        ];
        Ok(Some(Remain {
            place: row.get(0)?,
            number: row.get(1)?,
            stage: row.get(2)?,
            text: TextPlace { seq: row.get(3)?, number: row.get(4)? },
            order: order.map(|key| (key.is_none(), key.unwrap_or(Key::None))),
        }))
    })
}

/// Rows of the wanted sets that are gone, by alert and number.
fn gone(connection: &Connection) -> Given<FxHashSet<(usize, u32)>> {
    let sql = "select w.place, g.number from evidence_gone_log g join wanted_set w using (alert_id, evidence_seq)
               where g.rowid >= ? and g.rowid < ?";
    let (gone, unreadable) =
        read(connection, "evidence_gone_log", sql, |row| Ok(Some((row.get(0)?, row.get(1)?))))?;
    Ok((gone.into_iter().collect(), unreadable))
}

/// What the wanted texts show, as far as it can be read.
fn texts(connection: &Connection) -> Given<FxHashMap<TextPlace, EvidenceView>> {
    let sql = "select t.seq, t.number, t.evidence from evidence_text_log t semi join wanted_text w
                   on w.seq = t.seq and w.number = t.number
               where t.rowid >= ? and t.rowid < ?";
    let (texts, unreadable) = read(connection, "evidence_text_log", sql, |row| {
        let place = TextPlace { seq: row.get(0)?, number: row.get(1)? };
        // One that says nothing is missed by those who name it, and costs no other.
        let shown = get_text(row, 2).ok().flatten();
        let view = shown.and_then(|shown| serde_json::from_str::<EvidenceView>(&shown).ok());
        Ok(view.map(|view| (place, view)))
    })?;
    Ok((texts.into_iter().collect(), unreadable))
}

/// What a table has, a stretch at a time: of one that cannot be read to its end, nothing is taken.
fn read<T>(
    connection: &Connection,
    table: &str,
    sql: &str,
    mut take: impl FnMut(&Row<'_>) -> duckdb::Result<Option<T>>,
) -> Given<Vec<T>> {
    let mut statement = connection.prepare(sql)?;
    let mut all = Vec::new();
    let unreadable = each_stretch(connection, table, |part| {
        let before = all.len();
        let rows = statement.query([part.start, part.end]).map_err(StoreError::from);
        let done = rows.and_then(|mut rows| {
            while let Some(row) = rows.next()? {
                all.extend(take(row)?);
            }
            Ok(())
        });
        if done.is_err() {
            all.truncate(before);
        }
        done
    })?;
    Ok((all, unreadable))
}
