//! What others ask the single writer to put down: decisions of people and the fate of mails.

use crate::model::{AlertId, AlertState, CloseReason, Micros};

/// Something a person decides about an alert.
#[derive(Clone, Debug)]
pub struct Decision {
    pub alert_id: AlertId,
    pub at: Micros,
    /// Who decided: a name for the history, not an authority.
    pub who: String,
    pub state: AlertState,
    pub close_reason: Option<CloseReason>,
    pub note: String,
}

/// What became of one attempt to send one mail.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub outbox_id: u64,
    pub at: Micros,
    pub outcome: DeliveryOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    Sent,
    /// To be tried again at `next_at`; the error's text holds no secret.
    Retry {
        next_at: Micros,
        error: String,
    },
    /// Given up: refused for good or older than a day.
    Dead {
        error: String,
    },
}

/// A handle on the writer's queue. Every call returns once the fact is committed.
#[derive(Clone)]
pub struct Desk {
    queue: tokio::sync::mpsc::Sender<Request>,
}

/// One request to the writer and where its answer goes.
pub(crate) enum Request {
    Decide(Decision, tokio::sync::oneshot::Sender<Result<(), DeskError>>),
    Deliver(Delivery, tokio::sync::oneshot::Sender<Result<(), DeskError>>),
}

#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    #[error("no alert has the id {0}")]
    UnknownAlert(AlertId),
    #[error("the writer has stopped")]
    Stopped,
    #[error("could not be written: {0}")]
    Failed(String),
}

impl Desk {
    pub(crate) fn new(queue: tokio::sync::mpsc::Sender<Request>) -> Self {
        Self { queue }
    }

    /// Puts a decision down: first in the journal, then in the database.
    pub async fn decide(&self, decision: Decision) -> Result<(), DeskError> {
        let (answer, wait) = tokio::sync::oneshot::channel();
        self.queue.send(Request::Decide(decision, answer)).await.map_err(|_| DeskError::Stopped)?;
        wait.await.map_err(|_| DeskError::Stopped)?
    }

    /// Puts down what became of one attempt to send a mail.
    pub async fn deliver(&self, delivery: Delivery) -> Result<(), DeskError> {
        let (answer, wait) = tokio::sync::oneshot::channel();
        self.queue
            .send(Request::Deliver(delivery, answer))
            .await
            .map_err(|_| DeskError::Stopped)?;
        wait.await.map_err(|_| DeskError::Stopped)?
    }
}
