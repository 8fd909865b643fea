//! Records whose files are gone, on their way from an older database into the one that is made in its place.

use std::collections::VecDeque;

use crate::model::{Micros, Record};
use crate::store::{Parts, Place, Store, StoreError};

/// Records read from the old database at a time.
const PAGE_ROWS: usize = 50_000;
/// Damaged blocks after which the rest is given up.
const BLOCKS_LOST_MAX: u64 = 10_000;

/// Hands records out in order of time. Where a damaged place in the old database stops that, it goes on block by
/// block, leaves out what cannot be read, and says so. Where something else stops it, it ends, and that is its error:
/// what can be read with more memory, say, is not lost.
pub(super) struct Carried {
    old: Store,
    parts: Parts,
    page: VecDeque<Record>,
    after: Option<Place>,
    is_read: bool,
    /// Once there is a damaged place: the block to read next.
    block: Option<u64>,
    blocks_lost: u64,
    /// Why the first of them could not be read, or why this ended early.
    failed: Option<StoreError>,
    records: u64,
}

impl Carried {
    pub(super) fn new(old: Store, parts: Parts) -> Self {
        let is_read = parts.is_empty();
        Self {
            old,
            parts,
            page: VecDeque::new(),
            after: None,
            is_read,
            block: None,
            blocks_lost: 0,
            failed: None,
            records: 0,
        }
    }

    /// The time of the next record, before all others for one without a time; none at the end.
    pub(super) fn next_at(&mut self) -> Option<Micros> {
        self.fill();
        self.page.front().map(|record| record.at.unwrap_or(Micros(i64::MIN)))
    }

    pub(super) fn pop(&mut self) -> Option<Record> {
        self.fill();
        let record = self.page.pop_front();
        self.records += u64::from(record.is_some());
        record
    }

    fn fill(&mut self) {
        while !self.is_read && self.page.is_empty() {
            if let Some(block) = self.block {
                self.block = Some(block + 1);
                self.fill_from(block);
                continue;
            }
            match self.old.records_of(&self.parts, self.after, PAGE_ROWS) {
                Ok(records) => {
                    self.is_read = records.len() < PAGE_ROWS;
                    self.after = records.last().map(|record| (record.at, record.id)).or(self.after);
                    self.page = records.into();
                }
                Err(error) if error.is_damage() => {
                    self.failed = Some(error);
                    self.block = Some(0);
                }
                Err(error) => self.end_early(error),
            }
        }
    }

    /// Reads what a block has beyond the pages that could be read in order.
    fn fill_from(&mut self, block: u64) {
        match self.old.records_of_block(&self.parts, self.after, block) {
            Ok(Some(records)) => self.page = records.into(),
            Ok(None) => self.is_read = true,
            Err(error) if error.is_damage() => {
                self.blocks_lost += 1;
                // Of a database that cannot be read at all, the end is never told.
                self.is_read = self.blocks_lost > BLOCKS_LOST_MAX;
            }
            Err(error) => self.end_early(error),
        }
    }

    fn end_early(&mut self, error: StoreError) {
        self.failed = Some(error);
        self.is_read = true;
    }

    /// The old database, how many records it gave, and why not all, where it is damaged. An error where anything else
    /// was in the way.
    pub(super) fn end(self) -> Result<(Store, u64, Option<String>), StoreError> {
        let failed = match self.failed {
            Some(error) if !error.is_damage() => return Err(error),
            failed => failed,
        };
        let failed = failed.map(|error| {
            format!("{} of the old database's blocks of records: {error}", self.blocks_lost)
        });
        Ok((self.old, self.records, failed))
    }
}
