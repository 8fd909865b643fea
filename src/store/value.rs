//! Values on their way into and out of DuckDB, without a copy on the way in.

use duckdb::Row;
use duckdb::types::{TimeUnit, ToSqlOutput, ValueRef};
use rustc_hash::FxHashSet;

use crate::model::{Micros, Text};

pub(super) type Sql<'a> = ToSqlOutput<'a>;

pub(super) const NULL: Sql<'static> = Sql::Borrowed(ValueRef::Null);

pub(super) fn text(value: &str) -> Sql<'_> {
    Sql::Borrowed(ValueRef::Text(value.as_bytes()))
}

pub(super) fn optional(value: Option<&str>) -> Sql<'_> {
    value.map_or(NULL, text)
}

pub(super) fn shared(value: Option<&Text>) -> Sql<'_> {
    optional(value.map(|value| &**value))
}

pub(super) const fn number(value: u64) -> Sql<'static> {
    Sql::Borrowed(ValueRef::UBigInt(value))
}

pub(super) const fn small(value: u32) -> Sql<'static> {
    Sql::Borrowed(ValueRef::UInt(value))
}

pub(super) fn integer(value: Option<i64>) -> Sql<'static> {
    Sql::Borrowed(value.map_or(ValueRef::Null, ValueRef::BigInt))
}

pub(super) const fn truth(value: bool) -> Sql<'static> {
    Sql::Borrowed(ValueRef::Boolean(value))
}

pub(super) fn real(value: Option<f64>) -> Sql<'static> {
    Sql::Borrowed(value.map_or(ValueRef::Null, ValueRef::Double))
}

pub(super) fn time(value: Option<Micros>) -> Sql<'static> {
    Sql::Borrowed(
        value.map_or(ValueRef::Null, |at| ValueRef::Timestamp(TimeUnit::Microsecond, at.0)),
    )
}

pub(super) fn bytes(value: &[u8]) -> Sql<'_> {
    Sql::Borrowed(ValueRef::Blob(value))
}

/// Reads a timestamp column.
pub(super) fn get_time(row: &Row<'_>, index: usize) -> duckdb::Result<Option<Micros>> {
    Ok(match row.get_ref(index)? {
        ValueRef::Timestamp(unit, value) => Some(Micros(unit.to_micros(value))),
        _ => None,
    })
}

/// Reads an id column of sixteen bytes.
pub(super) fn get_id(row: &Row<'_>, index: usize) -> duckdb::Result<[u8; 16]> {
    let value = row.get_ref(index)?;
    let bytes = value.as_blob().map_err(|_| wrong(index, "not a blob"))?;
    bytes.try_into().map_err(|_| wrong(index, "not sixteen bytes"))
}

/// Reads a text column into a shared text.
pub(super) fn get_text(row: &Row<'_>, index: usize) -> duckdb::Result<Option<Text>> {
    match row.get_ref(index)? {
        ValueRef::Text(bytes) => {
            Ok(Some(Text::from(std::str::from_utf8(bytes).map_err(|_| wrong(index, "not text"))?)))
        }
        _ => Ok(None),
    }
}

/// Texts that rows share: of many rows read at once most say the same as another one.
#[derive(Default)]
pub(super) struct Words(FxHashSet<Text>);

impl Words {
    /// As [`get_text`].
    pub(super) fn get(&mut self, row: &Row<'_>, index: usize) -> duckdb::Result<Option<Text>> {
        let ValueRef::Text(bytes) = row.get_ref(index)? else { return Ok(None) };
        let word = std::str::from_utf8(bytes).map_err(|_| wrong(index, "not text"))?;
        if let Some(known) = self.0.get(word) {
            return Ok(Some(Text::clone(known)));
        }
        let word = Text::from(word);
        self.0.insert(Text::clone(&word));
        Ok(Some(word))
    }
}

/// Reads a word column through one of the model's `from_word` functions.
pub(super) fn get_word<T>(
    row: &Row<'_>,
    index: usize,
    from_word: fn(&str) -> Option<T>,
) -> duckdb::Result<T> {
    let word = get_text(row, index)?;
    word.as_deref().and_then(from_word).ok_or_else(|| wrong(index, "an unknown word"))
}

/// Reads a column of JSON text; a null gives the default.
pub(super) fn get_json<T: serde::de::DeserializeOwned + Default>(
    row: &Row<'_>,
    index: usize,
) -> duckdb::Result<T> {
    match row.get_ref(index)? {
        ValueRef::Text(bytes) => {
            serde_json::from_slice(bytes).map_err(|error| wrong(index, &error.to_string()))
        }
        _ => Ok(T::default()),
    }
}

/// JSON text of a list, or nothing for an empty one: most records have no flags, and a null costs nothing.
pub(super) fn json_list<T: serde::Serialize>(list: &[T]) -> Option<String> {
    if list.is_empty() { None } else { serde_json::to_string(list).ok() }
}

fn wrong(index: usize, what: &str) -> duckdb::Error {
    duckdb::Error::FromSqlConversionFailure(
        index,
        duckdb::types::Type::Any,
        format!("the database holds {what} where Calltrail wrote something else").into(),
    )
}
