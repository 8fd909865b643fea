//! What alerts rest on, as far as a damaged database still tells it: a place that cannot be read costs the calls that
//! it shows, and no others of their alerts.

use duckdb::{Connection, Row};
use rustc_hash::{FxHashMap, FxHashSet};

use super::salvage::NO_TEXT;
use super::stretch::{READ_ROWS, Unreadable, each_stretch};
use super::value::{bytes, get_id, get_text, get_time, number, small};
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
    /// The evidence of these alerts, whose sets have these numbers. What is damaged is told to `lose`, a sentence each.
    pub(super) fn remains(
        &self,
        sets: &[(AlertId, u64)],
        lose: &mut dyn FnMut(String),
    ) -> Result<Vec<Vec<EvidenceView>>, StoreError> {
        match remains(&self.connection, sets, lose) {
            Err(error) if error.is_damage() => {
                lose(format!("the calls that {} alerts rest on: {error}", sets.len()));
                Ok(vec![Vec::new(); sets.len()])
            }
            views => views,
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
    let sets_wanted = want_sets(connection, sets)?;
    let (mut rows, unreadable) = rows(connection, &sets_wanted)?;
    tell(unreadable, "rows that tell which calls alerts rest on", lose);
    let (gone, unreadable) = gone(connection, &sets_wanted)?;
    tell(unreadable, "rows that tell which calls alerts no longer rest on", lose);
    rows.retain(|row| !gone.contains(&(row.place, row.number)));
    rows.sort_by(|a, b| (a.place, &a.order, a.number).cmp(&(b.place, &b.order, b.number)));
    let texts_wanted = want_texts(connection, &rows)?;
    let (texts, unreadable) = texts(connection, &texts_wanted)?;
    let mut lacking: Vec<usize> = Vec::new();
    for row in rows {
        let view = texts.get(&row.text).cloned();
        match view.zip(all.get_mut(row.place)) {
            Some((view, views)) => views.push(EvidenceView { stage: row.stage, ..view }),
            None => lacking.push(row.place),
        }
    }
    if !lacking.is_empty() {
        let why =
            unreadable.map_or_else(|| NO_TEXT.to_owned(), |unreadable| unreadable.why.to_string());
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

/// The places of alerts, by id and the number of their set.
type Sets = FxHashMap<(AlertId, u64), usize>;

/// Puts the sets into a temporary table, which no other connection sees and no file holds.
fn want_sets(connection: &Connection, sets: &[(AlertId, u64)]) -> Result<Sets, StoreError> {
    connection.execute_batch(
        "create or replace temp table wanted_set (alert_id blob, evidence_seq ubigint)",
    )?;
    let mut appender = connection.appender_to_catalog_and_db("wanted_set", "temp", "main")?;
    for (id, set) in sets {
        appender.append_row([bytes(&id.0), number(*set)])?;
    }
    appender.flush()?;
    Ok(sets.iter().enumerate().map(|(place, set)| (*set, place)).collect())
}

fn want_texts(
    connection: &Connection,
    rows: &[Remain],
) -> Result<FxHashSet<TextPlace>, StoreError> {
    connection
        .execute_batch("create or replace temp table wanted_text (seq ubigint, number uinteger)")?;
    let places: FxHashSet<TextPlace> = rows.iter().map(|row| row.text).collect();
    let mut appender = connection.appender_to_catalog_and_db("wanted_text", "temp", "main")?;
    for place in &places {
        appender.append_row([number(place.seq), small(place.number)])?;
    }
    appender.flush()?;
    Ok(places)
}

/// The place of the alert whose set a row is of, by the row's first two columns.
fn place(row: &Row<'_>, sets: &Sets) -> duckdb::Result<Option<usize>> {
    Ok(sets.get(&(AlertId(get_id(row, 0)?), row.get(1)?)).copied())
}

/// The rows of the wanted sets, those that are gone too.
fn rows(connection: &Connection, sets: &Sets) -> Given<Vec<Remain>> {
    let source = Source {
        table: "evidence_row_log",
        columns: "alert_id, evidence_seq, number, stage, text_seq, text_number,
                  time, stream, generation, \"offset\", idx",
        wanted: "wanted_set using (alert_id, evidence_seq)",
    };
    source.read(connection, |row| {
        let Some(place) = place(row, sets)? else { return Ok(None) };
        let number =
            |column| row.get::<_, Option<u64>>(column).map(|number| number.map(Key::Number));
        let order = [
            get_time(row, 6)?.map(Key::Time),
            get_text(row, 7)?.map(Key::Stream),
            number(8)?,
            number(9)?,
            number(10)?,
        ];
        Ok(Some(Remain {
            place,
            number: row.get(2)?,
            stage: row.get(3)?,
            text: TextPlace { seq: row.get(4)?, number: row.get(5)? },
            order: order.map(|key| (key.is_none(), key.unwrap_or(Key::None))),
        }))
    })
}

/// Rows of the wanted sets that are gone, by alert and number.
fn gone(connection: &Connection, sets: &Sets) -> Given<FxHashSet<(usize, u32)>> {
    let source = Source {
        table: "evidence_gone_log",
        columns: "alert_id, evidence_seq, number",
        wanted: "wanted_set using (alert_id, evidence_seq)",
    };
    let (gone, unreadable) = source.read(connection, |row| {
        Ok(match place(row, sets)? {
            Some(place) => Some((place, row.get(2)?)),
            None => None,
        })
    })?;
    Ok((gone.into_iter().collect(), unreadable))
}

/// What the wanted texts show, as far as it can be read.
fn texts(
    connection: &Connection,
    places: &FxHashSet<TextPlace>,
) -> Given<FxHashMap<TextPlace, EvidenceView>> {
    let source = Source {
        table: "evidence_text_log",
        columns: "seq, number, evidence",
        wanted: "wanted_text using (seq, number)",
    };
    let (texts, unreadable) = source.read(connection, |row| {
        let place = TextPlace { seq: row.get(0)?, number: row.get(1)? };
        if !places.contains(&place) {
            return Ok(None);
        }
        // One that says nothing is missed by those who name it, and costs no other.
        let shown = get_text(row, 2).ok().flatten();
        let view = shown.and_then(|shown| serde_json::from_str::<EvidenceView>(&shown).ok());
        Ok(view.map(|view| (place, view)))
    })?;
    Ok((texts.into_iter().collect(), unreadable))
}

/// A table, and which of its rows are wanted.
struct Source {
    table: &'static str,
    columns: &'static str,
    /// A temporary table and the columns that it shares with this one.
    wanted: &'static str,
}

impl Source {
    /// What the table has, a stretch at a time: of one that cannot be read to its end, nothing is taken. `take` is
    /// given some rows that are not wanted too: the join, which builds its own table of all that is wanted each time,
    /// is worth it for large stretches alone, and needs the memory that a small one may be read for want of.
    fn read<T>(
        &self,
        connection: &Connection,
        mut take: impl FnMut(&Row<'_>) -> duckdb::Result<Option<T>>,
    ) -> Given<Vec<T>> {
        let Self { table, columns, wanted } = self;
        let prepare = |join: &str| {
            connection.prepare(&format!(
                "select {columns} from {table} t {join} where t.rowid >= ? and t.rowid < ?"
            ))
        };
        let (mut joined, mut plain) = (prepare(&format!("semi join {wanted}"))?, prepare("")?);
        let mut all = Vec::new();
        let unreadable = each_stretch(connection, table, |part| {
            let before = all.len();
            let is_small = part.end - part.start <= READ_ROWS;
            let statement = if is_small { &mut plain } else { &mut joined };
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
}
