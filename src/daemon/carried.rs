//! Records whose files are gone, on their way from an older database into the one that is made in its place.

use std::collections::VecDeque;

use crate::model::{Micros, Record, RecordId};
use crate::store::{Parts, Store, StoreError};

/// Records read from the old database at a time.
const PAGE_ROWS: usize = 50_000;

/// Hands records out in order of time. Where the old database cannot be read on, it ends early and says so.
pub(super) struct Carried {
    old: Store,
    parts: Parts,
    page: VecDeque<Record>,
    after: Option<(Option<Micros>, RecordId)>,
    is_read: bool,
    /// Why it ended early.
    failed: Option<StoreError>,
    records: u64,
}

impl Carried {
    pub(super) fn new(old: Store, parts: Parts) -> Self {
        let is_read = parts.is_empty();
        Self { old, parts, page: VecDeque::new(), after: None, is_read, failed: None, records: 0 }
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
        if self.is_read || !self.page.is_empty() {
            return;
        }
        match self.old.records_of(&self.parts, self.after, PAGE_ROWS) {
            Ok(records) => {
                self.is_read = records.len() < PAGE_ROWS;
                self.after = records.last().map(|record| (record.at, record.id)).or(self.after);
                self.page = records.into();
            }
            Err(error) => {
                self.is_read = true;
                self.failed = Some(error);
            }
        }
    }

    /// The old database, how many records it gave, and why not all, where it did not.
    pub(super) fn end(self) -> (Store, u64, Option<StoreError>) {
        (self.old, self.records, self.failed)
    }
}
