//! Typed reads for pages, command line and mails. Every method blocks: call it off the async threads.

use super::StoreError;
use crate::model::{
    AlertId, AlertState, AlertView, Call, CallId, DecisionView, Level, Micros, OutboxItem,
    RecordView, RejectView, SourceView, Totals,
};

/// A handle for reading; clones share a small pool of connections. Reads see the last committed batch.
#[derive(Clone)]
pub struct Reader {}

/// Which alerts to list; empty fields do not restrict.
#[derive(Clone, Debug, Default)]
pub struct AlertFilter {
    pub rule: Option<String>,
    pub level_min: Option<Level>,
    pub state: Option<AlertState>,
    pub actor: Option<String>,
    /// Alerts whose [first_seen, last_seen] touches [from, to].
    pub from: Option<Micros>,
    pub to: Option<Micros>,
    /// Only alerts that are newer than this sequence number.
    pub after_seq: Option<u64>,
    pub limit: Option<usize>,
    /// False: `evidence` stays empty.
    pub with_evidence: bool,
}

/// Which calls to list, in order of time.
#[derive(Clone, Debug, Default)]
pub struct CallFilter {
    pub actor: Option<String>,
    pub session: Option<String>,
    pub from: Option<Micros>,
    pub to: Option<Micros>,
    pub limit: usize,
}

impl Reader {
    /// Newest (highest `seq`) first.
    pub fn alerts(&self, filter: &AlertFilter) -> Result<Vec<AlertView>, StoreError> {
        unimplemented!("{filter:?}")
    }

    /// One alert with its evidence; follows aliases.
    pub fn alert(&self, id: AlertId) -> Result<Option<AlertView>, StoreError> {
        unimplemented!("{id}")
    }

    /// What people did to it, oldest first.
    pub fn decisions(&self, id: AlertId) -> Result<Vec<DecisionView>, StoreError> {
        unimplemented!("{id}")
    }

    /// One call as it now stands; follows superseded ids.
    pub fn call(&self, id: CallId) -> Result<Option<Call>, StoreError> {
        unimplemented!("{id}")
    }

    pub fn calls(&self, filter: &CallFilter) -> Result<Vec<Call>, StoreError> {
        unimplemented!("{filter:?}")
    }

    /// Every record of every witness of the call, in order.
    pub fn records_of(&self, call: &Call) -> Result<Vec<RecordView>, StoreError> {
        unimplemented!("{call:?}")
    }

    /// Newest generation first within a stream; streams by name.
    pub fn sources(&self) -> Result<Vec<SourceView>, StoreError> {
        unimplemented!()
    }

    /// The newest rejects, of one generation or of all.
    pub fn rejects(
        &self,
        generation: Option<u64>,
        limit: usize,
    ) -> Result<Vec<RejectView>, StoreError> {
        unimplemented!("{generation:?} {limit}")
    }

    pub fn totals(&self) -> Result<Totals, StoreError> {
        unimplemented!()
    }

    /// Mails owed and due at `now`, oldest first, at most `limit`.
    pub fn outbox_due(&self, now: Micros, limit: usize) -> Result<Vec<OutboxItem>, StoreError> {
        unimplemented!("{now} {limit}")
    }
}
