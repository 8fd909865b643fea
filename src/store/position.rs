//! Where reading stands in every source.

use super::value::{bytes, get_time, number, small, text, time};
use super::{Store, StoreError};
use crate::model::Micros;

/// One generation's reading position, as it commits with what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub generation: u64,
    pub stream: String,
    pub path: String,
    pub dev: u64,
    pub inode: u64,
    /// `live`, `rotated` or `gone`.
    pub state: String,
    pub size: u64,
    /// Bytes read.
    pub offset: u64,
    pub head_len: u32,
    pub head_hash: Vec<u8>,
    pub tail_len: u32,
    pub tail_hash: Vec<u8>,
    /// The last valid time in the generation so far.
    pub last_at: Option<Micros>,
    /// When something was last read of it, by the clock.
    pub heard_at: Option<Micros>,
    /// Lines before this offset were there when the database was made.
    pub history_until: u64,
    pub records: u64,
    pub rejects: u64,
}

impl Store {
    /// The newest position of every generation, by generation.
    pub fn positions(&self) -> Result<Vec<Position>, StoreError> {
        let mut statement = self.connection.prepare(
            "select generation, stream, path, dev, inode, state, size, \"offset\", head_len, head_hash,
                    tail_len, tail_hash, last_at, heard_at, history_until, records, rejects
             from position_log
             qualify row_number() over (partition by generation order by seq desc) = 1
             order by generation",
        )?;
        let rows = statement.query_map([], |row| {
            Ok(Position {
                generation: row.get(0)?,
                stream: row.get(1)?,
                path: row.get(2)?,
                dev: row.get(3)?,
                inode: row.get(4)?,
                state: row.get(5)?,
                size: row.get(6)?,
                offset: row.get(7)?,
                head_len: row.get(8)?,
                head_hash: row.get(9)?,
                tail_len: row.get(10)?,
                tail_hash: row.get(11)?,
                last_at: get_time(row, 12)?,
                heard_at: get_time(row, 13)?,
                history_until: row.get(14)?,
                records: row.get(15)?,
                rejects: row.get(16)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// True as long as no record was ever stored.
    pub fn is_empty(&self) -> Result<bool, StoreError> {
        let sql = "select not exists (from record_log)";
        Ok(self.connection.query_row(sql, [], |row| row.get(0))?)
    }

    /// The newest time of any record that is not ahead of `now`, if any has one.
    pub fn newest_record_at(&self, now: Micros) -> Result<Option<Micros>, StoreError> {
        self.newest("select max(time) from record_log where time <= ?", now.plus(Micros::MINUTE))
    }

    /// The newest time of any call, those ahead of the clock included.
    pub fn newest_call_at(&self) -> Result<Option<Micros>, StoreError> {
        self.newest("select max(time) from call_log where time <= ?", Micros(i64::MAX - 1))
    }

    fn newest(&self, sql: &str, until: Micros) -> Result<Option<Micros>, StoreError> {
        Ok(self.connection.query_row(sql, [time(Some(until))], |row| get_time(row, 0))?)
    }
}

pub(super) fn append(
    appender: &mut duckdb::Appender<'_>,
    seq: u64,
    position: &Position,
) -> Result<(), StoreError> {
    appender.append_row([
        number(seq),
        number(position.generation),
        text(&position.stream),
        text(&position.path),
        number(position.dev),
        number(position.inode),
        text(&position.state),
        number(position.size),
        number(position.offset),
        small(position.head_len),
        bytes(&position.head_hash),
        small(position.tail_len),
        bytes(&position.tail_hash),
        time(position.last_at),
        time(position.heard_at),
        number(position.history_until),
        number(position.records),
        number(position.rejects),
    ])?;
    Ok(())
}
