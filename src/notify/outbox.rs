//! The loop that sends what is owed: due mails one after the other, each outcome told to the store
//! before the next.
//!
//! A mail is sent at least once. It can be sent twice only when its fate is unknown (an answer was
//! lost, or the process died between the server's word and the store's), and then under the same
//! message id.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::model::{AlertView, Micros, OutboxItem};
use crate::notify::backoff::{next_attempt, wait};
use crate::notify::caps::{Admission, Caps};
use crate::notify::config::Limits;
use crate::notify::mailer::{Mailer, SendResult};
use crate::notify::render::{compose, render};
use crate::store::{Delivery, DeliveryOutcome, Desk, DeskError, Reader};

/// Mails read in one go.
const ROUND_MAX: usize = 100;
/// How often the outbox is looked at when nobody says that something is new.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How soon the store is asked again to put down what became of a mail.
const RECORD_EVERY: Duration = Duration::from_millis(500);
/// How long a mail that is being sent may go on after the order to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Sends what is owed until `shutdown`. `wake` changes whenever a mail may have become due; `clock`
/// tells the time.
pub async fn run(
    reader: Reader,
    desk: Desk,
    mailer: Mailer,
    clock: fn() -> Micros,
    mut wake: watch::Receiver<u64>,
    shutdown: CancellationToken,
) {
    let mut outbox = Outbox::new(mailer.config().limits());
    loop {
        tokio::select! {
            () = outbox.round(&reader, &desk, &mailer, clock, &shutdown) => {}
            () = stopped(&shutdown) => return,
        }
        let look_in = if outbox.unrecorded.is_empty() { LOOK_EVERY } else { RECORD_EVERY };
        tokio::select! {
            () = shutdown.cancelled() => break,
            () = changed(&mut wake) => {}
            () = tokio::time::sleep(look_in) => {}
        }
    }
    // A fate that is not put down now is a mail that is sent again.
    let last = async {
        while outbox.record_left(&desk).await == Recorded::Later {
            tokio::time::sleep(RECORD_EVERY).await;
        }
    };
    if tokio::time::timeout(STOP_GRACE, last).await.is_err() {
        tracing::warn!("mails may be sent again: what became of them could not be put down");
    }
}

/// The end of the grace after the order to stop.
async fn stopped(shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    tokio::time::sleep(STOP_GRACE).await;
}

/// Never ready once nobody is left who could say something: the regular look goes on.
async fn changed(wake: &mut watch::Receiver<u64>) {
    if wake.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// What the loop remembers between mails.
struct Outbox {
    caps: Caps,
    /// Conversations in a row that did not get as far as a mail.
    unreachable: u32,
    /// Nothing is sent before: a server that is down is not asked once for every mail.
    resume_at: Micros,
    /// Outcomes the store could not put down yet: the mail must not be sent again for that.
    unrecorded: HashMap<u64, Delivery>,
}

/// Whether an outcome is put down.
#[derive(PartialEq, Eq)]
enum Recorded {
    Yes,
    Later,
    /// The writer has stopped: nothing more can be put down.
    NeverAgain,
}

/// How one attempt went.
#[derive(Debug)]
struct Attempt {
    outcome: DeliveryOutcome,
    reached_server: bool,
}

impl Outbox {
    fn new(limits: Limits) -> Self {
        Self {
            caps: Caps::new(limits),
            unreachable: 0,
            resume_at: Micros(i64::MIN),
            unrecorded: HashMap::new(),
        }
    }

    /// Goes through what is due, once.
    async fn round(
        &mut self,
        reader: &Reader,
        desk: &Desk,
        mailer: &Mailer,
        clock: fn() -> Micros,
        shutdown: &CancellationToken,
    ) {
        if self.record_left(desk).await == Recorded::NeverAgain {
            return;
        }
        let now = clock();
        if now < self.resume_at {
            return;
        }
        let source = reader.clone();
        let due = spawn_blocking(move || source.outbox_due(now, ROUND_MAX)).await;
        let Some(due) = told("the outbox", due) else { return };
        for item in due {
            if shutdown.is_cancelled() || clock() < self.resume_at {
                return;
            }
            let delivery = if let Some(known) = self.unrecorded.remove(&item.id) {
                known
            } else {
                let (source, alert_id) = (reader.clone(), item.alert_id);
                let alert = spawn_blocking(move || source.alert(alert_id)).await;
                let Some(alert) = told("an alert", alert) else { return };
                let outcome =
                    self.handle(mailer, &item, alert.as_ref(), clock, rand::random()).await;
                Delivery { outbox_id: item.id, at: clock(), outcome }
            };
            if self.record(desk, delivery).await == Recorded::NeverAgain {
                return;
            }
        }
    }

    /// Puts down what the store could not take before.
    async fn record_left(&mut self, desk: &Desk) -> Recorded {
        let mut all = Recorded::Yes;
        for delivery in std::mem::take(&mut self.unrecorded).into_values() {
            match self.record(desk, delivery).await {
                Recorded::Yes => {}
                Recorded::Later => all = Recorded::Later,
                Recorded::NeverAgain => return Recorded::NeverAgain,
            }
        }
        all
    }

    /// Puts the outcome down, and keeps it when the store cannot: the next round tries again, and
    /// meanwhile a full disk does not keep other mails from going out.
    async fn record(&mut self, desk: &Desk, delivery: Delivery) -> Recorded {
        let outbox_id = delivery.outbox_id;
        match desk.deliver(delivery.clone()).await {
            Ok(()) => Recorded::Yes,
            Err(error) => {
                tracing::warn!(outbox_id, %error, "a mail's fate is not recorded");
                self.unrecorded.insert(outbox_id, delivery);
                match error {
                    DeskError::Stopped => Recorded::NeverAgain,
                    _ => Recorded::Later,
                }
            }
        }
    }

    /// Sends one mail that is due, unless the cap puts it off. `random` is even in [0, 1).
    async fn handle(
        &mut self,
        mailer: &Mailer,
        item: &OutboxItem,
        alert: Option<&AlertView>,
        clock: fn() -> Micros,
        random: f64,
    ) -> DeliveryOutcome {
        let Some(alert) = alert else {
            return DeliveryOutcome::Dead { error: "its alert is no longer there".to_owned() };
        };
        if let Admission::At(next_at) = self.caps.admit(alert.level, item.id, clock()) {
            let error = "held back: too many mails within the hour".to_owned();
            return DeliveryOutcome::Retry { next_at, error };
        }
        let attempt = deliver_one(mailer, item, alert, clock, random).await;
        if attempt.reached_server {
            self.unreachable = 0;
        } else {
            self.resume_at = clock().plus(wait(self.unreachable, random));
            self.unreachable = self.unreachable.saturating_add(1);
        }
        if !matches!(attempt.outcome, DeliveryOutcome::Retry { .. }) {
            self.caps.settle(alert.level, item.id);
        }
        match &attempt.outcome {
            DeliveryOutcome::Sent => tracing::info!(outbox_id = item.id, "mail sent"),
            DeliveryOutcome::Retry { next_at, error } => {
                tracing::warn!(outbox_id = item.id, %next_at, error, "mail not sent yet");
            }
            DeliveryOutcome::Dead { error } => {
                tracing::error!(outbox_id = item.id, error, "mail given up");
            }
        }
        attempt.outcome
    }
}

/// Renders and sends one mail once, and decides whether and when it is tried again.
async fn deliver_one(
    mailer: &Mailer,
    item: &OutboxItem,
    alert: &AlertView,
    clock: fn() -> Micros,
    random: f64,
) -> Attempt {
    let config = mailer.config();
    // The date is that of the alert's mail and not of the attempt, so that every attempt is the
    // same mail.
    let composed = render(alert, config).and_then(|rendered| {
        compose(&rendered, config, &item.recipient, &item.message_id, item.created_at)
    });
    let mail = match composed {
        Ok(mail) => mail,
        Err(error) => {
            let outcome = DeliveryOutcome::Dead { error: error.to_string() };
            return Attempt { outcome, reached_server: true };
        }
    };
    let again = |error: String| match next_attempt(clock(), item.created_at, item.attempts, random)
    {
        Some(next_at) => DeliveryOutcome::Retry { next_at, error },
        None => DeliveryOutcome::Dead { error: format!("given up after a day: {error}") },
    };
    let (outcome, reached_server) = match mailer.send_once(&mail).await {
        SendResult::Sent => (DeliveryOutcome::Sent, true),
        SendResult::Unreachable(error) => (again(error), false),
        SendResult::Transient(error) => (again(error), true),
        SendResult::Permanent(error) => (DeliveryOutcome::Dead { error }, true),
    };
    Attempt { outcome, reached_server }
}

/// What was read, or none after a note in the log: the next look tries again.
fn told<T, E: std::fmt::Display>(
    what: &str,
    read: Result<Result<T, E>, tokio::task::JoinError>,
) -> Option<T> {
    match read {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(error)) => tracing::warn!(%error, "{what} cannot be read"),
        Err(error) => tracing::warn!(%error, "{what} cannot be read"),
    }
    None
}

#[cfg(test)]
mod tests;
