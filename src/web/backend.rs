//! Where the pages get their rows and put decisions: the store, or fixed rows in tests.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::error::WebError;
use crate::model::{
    AlertId, AlertView, Call, CallId, CallView, CandidateView, ClockView, DecisionView, Micros,
    RecordView, RejectView, RuleAlerts, SessionId, SessionView, SourceView, Totals,
};
use crate::store::{
    AlertFilter, CallFilter, CallQuery, Decision, Desk, DeskError, Reader, StoreError,
};

/// Longest a page waits for its rows.
const READ_SECS_MAX: u64 = 8;
/// Pages that read at the same time; the others queue.
const READS_MAX: usize = 4;

/// The rows that pages read.
#[derive(Clone)]
pub(crate) enum Rows {
    Store(Reader),
    #[cfg(test)]
    Fixed(Arc<super::fixtures::Fixture>),
}

impl Rows {
    pub(crate) fn alerts(&self, filter: &AlertFilter) -> Result<Vec<AlertView>, StoreError> {
        match self {
            Self::Store(reader) => reader.alerts(filter),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.alerts(filter)),
        }
    }

    pub(crate) fn alert(&self, id: AlertId) -> Result<Option<AlertView>, StoreError> {
        match self {
            Self::Store(reader) => reader.alert(id),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.alert(id)),
        }
    }

    pub(crate) fn decisions(&self, id: AlertId) -> Result<Vec<DecisionView>, StoreError> {
        match self {
            Self::Store(reader) => reader.decisions(id),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.decisions(id)),
        }
    }

    pub(crate) fn call(&self, id: CallId) -> Result<Option<Call>, StoreError> {
        match self {
            Self::Store(reader) => reader.call(id),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.call(id)),
        }
    }

    pub(crate) fn calls(&self, filter: &CallFilter) -> Result<Vec<Call>, StoreError> {
        match self {
            Self::Store(reader) => reader.calls(filter),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.calls(filter)),
        }
    }

    pub(crate) fn call_list(&self, query: &CallQuery) -> Result<Vec<CallView>, StoreError> {
        match self {
            Self::Store(reader) => reader.call_list(query),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.call_list(query)),
        }
    }

    pub(crate) fn session(&self, id: SessionId) -> Result<Option<SessionView>, StoreError> {
        match self {
            Self::Store(reader) => reader.session(id),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.session().filter(|session| session.id == id)),
        }
    }

    pub(crate) fn session_at(
        &self,
        key: &str,
        at: Micros,
    ) -> Result<Option<SessionView>, StoreError> {
        match self {
            Self::Store(reader) => reader.session_at(key, at),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.session().filter(|session| session.key == key)),
        }
    }

    pub(crate) fn busy_until(
        &self,
        key: &str,
        from: Micros,
        to: Micros,
    ) -> Result<Option<Micros>, StoreError> {
        match self {
            Self::Store(reader) => reader.busy_until(key, from, to),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.busy_until(to)),
        }
    }

    pub(crate) fn records_of(&self, call: &Call) -> Result<Vec<RecordView>, StoreError> {
        match self {
            Self::Store(reader) => reader.records_of(call),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.records_of(call)),
        }
    }

    pub(crate) fn candidates_of(&self, call: &Call) -> Result<Vec<CandidateView>, StoreError> {
        match self {
            Self::Store(reader) => reader.candidates_of(call),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.candidates_of(call)),
        }
    }

    /// What is known of the clocks of the call's streams on its day.
    pub(crate) fn clocks_of(&self, call: &Call) -> Result<Vec<ClockView>, StoreError> {
        match self {
            Self::Store(reader) => reader.clocks_of(call),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.clocks_of(call)),
        }
    }

    pub(crate) fn sources(&self) -> Result<Vec<SourceView>, StoreError> {
        match self {
            Self::Store(reader) => reader.sources(),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.sources.clone()),
        }
    }

    pub(crate) fn rejects(&self, limit: usize) -> Result<Vec<RejectView>, StoreError> {
        match self {
            Self::Store(reader) => reader.rejects(None, limit),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.rejects.iter().take(limit).cloned().collect()),
        }
    }

    pub(crate) fn ingest_events(&self, limit: usize) -> Result<Vec<Call>, StoreError> {
        match self {
            Self::Store(reader) => reader.ingest_events(limit),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.ingest_events.iter().take(limit).cloned().collect()),
        }
    }

    pub(crate) fn clocks(&self, limit: usize) -> Result<Vec<ClockView>, StoreError> {
        match self {
            Self::Store(reader) => reader.clocks(limit),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.clocks.iter().take(limit).cloned().collect()),
        }
    }

    pub(crate) fn rule_alerts(&self) -> Result<Vec<RuleAlerts>, StoreError> {
        match self {
            Self::Store(reader) => reader.rule_alerts(),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.rule_alerts()),
        }
    }

    pub(crate) fn totals(&self) -> Result<Totals, StoreError> {
        match self {
            Self::Store(reader) => reader.totals(),
            #[cfg(test)]
            Self::Fixed(fixture) => Ok(fixture.totals.clone()),
        }
    }
}

/// Reads off the async threads, a few at a time, each with a time limit.
pub(crate) struct Reading {
    rows: Rows,
    turns: Arc<Semaphore>,
}

impl Reading {
    pub(crate) fn new(rows: Rows) -> Self {
        Self { rows, turns: Arc::new(Semaphore::new(READS_MAX)) }
    }

    /// All that one page reads, as one blocking task. A read that outlasts the limit keeps its turn
    /// until it ends, so that impatient reloads cannot pile up queries.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Rows) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, WebError> {
        let answer = async {
            let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| WebError::Slow)?;
            let rows = self.rows.clone();
            let task = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                question(&rows)
            });
            Ok(task.await??)
        };
        tokio::time::timeout(Duration::from_secs(READ_SECS_MAX), answer)
            .await
            .map_err(|_| WebError::Slow)?
    }
}

/// Where decisions go.
pub(crate) enum Writing {
    Store(Desk),
    #[cfg(test)]
    Fixed(std::sync::Mutex<Vec<Decision>>),
}

impl Writing {
    pub(crate) async fn decide(&self, decision: Decision) -> Result<(), DeskError> {
        match self {
            Self::Store(desk) => desk.decide(decision).await,
            #[cfg(test)]
            Self::Fixed(decisions) => {
                decisions.lock().unwrap().push(decision);
                Ok(())
            }
        }
    }
}
