//! The loop's core on a clock that the test moves, against a mail server that misbehaves.

use std::sync::atomic::{AtomicI64, Ordering};

use super::*;
use crate::model::Level;
use crate::notify::fixture;
use crate::notify::sink::{Behaviour, Sink};

/// Sends what is owed as the loop does, jumping from one due time to the next instead of waiting.
struct Bench {
    outbox: Outbox,
    mailer: Mailer,
    clock: fn() -> Micros,
    now: &'static AtomicI64,
}

/// Every bench needs a clock of its own, because tests run at once and the loop takes a plain
/// function.
macro_rules! bench {
    ($port:expr) => {{
        static NOW: AtomicI64 = AtomicI64::new(0);
        let mailer = Mailer::new(fixture::plain($port)).unwrap();
        let outbox = Outbox::new(mailer.config().limits());
        Bench { outbox, mailer, clock: || Micros(NOW.load(Ordering::SeqCst)), now: &NOW }
    }};
}

impl Bench {
    async fn attempt(&mut self, item: &mut OutboxItem) -> DeliveryOutcome {
        let alert = fixture::trifecta();
        self.attempt_for(item, &alert).await
    }

    async fn attempt_for(&mut self, item: &mut OutboxItem, alert: &AlertView) -> DeliveryOutcome {
        let outcome = self.outbox.handle(&self.mailer, item, Some(alert), self.clock, 0.9).await;
        if let DeliveryOutcome::Retry { next_at, .. } = &outcome {
            item.attempts += 1;
            let next = next_at.0.max(self.outbox.resume_at.0);
            self.now.fetch_max(next, Ordering::SeqCst);
        }
        outcome
    }

    /// Until the mail is sent or given up; its outcomes in order.
    async fn settle(&mut self, item: &mut OutboxItem) -> Vec<DeliveryOutcome> {
        let mut outcomes = Vec::new();
        while outcomes.len() < 50 {
            let outcome = self.attempt(item).await;
            let is_retry = matches!(outcome, DeliveryOutcome::Retry { .. });
            outcomes.push(outcome);
            if !is_retry {
                break;
            }
        }
        outcomes
    }
}

fn message_ids(sink: &Sink) -> Vec<String> {
    let lines = sink
        .mails()
        .into_iter()
        .flat_map(|mail| mail.lines().map(str::to_owned).collect::<Vec<_>>());
    lines.filter(|line| line.starts_with("Message-ID: ")).collect()
}

#[tokio::test]
async fn after_an_outage_the_mail_comes_once() {
    let sink = Sink::start(vec![
        Behaviour::Greet("421 going down"),
        Behaviour::Greet("554 not now"),
        Behaviour::Greet("not a mail server"),
        Behaviour::Answer("RCPT", "451 try again"),
        Behaviour::Accept,
    ])
    .await;
    let mut bench = bench!(sink.port);
    let outcomes = bench.settle(&mut fixture::owed("ann@example.org")).await;
    assert_eq!(outcomes.len(), 5, "{outcomes:?}");
    assert_eq!(outcomes.last(), Some(&DeliveryOutcome::Sent));
    assert_eq!(message_ids(&sink).len(), 1);
    let waited = bench.now.load(Ordering::SeqCst);
    assert!((60 * Micros::SECOND..75 * Micros::SECOND).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_lost_answer_repeats_the_same_mail_under_the_same_id() {
    let sink = Sink::start(vec![Behaviour::DropAfterData, Behaviour::Accept]).await;
    let outcomes = bench!(sink.port).settle(&mut fixture::owed("ann@example.org")).await;
    assert_eq!(outcomes.last(), Some(&DeliveryOutcome::Sent));
    let ids = message_ids(&sink);
    assert_eq!(ids.len(), 2);
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn one_bad_address_does_not_hold_up_the_others() {
    let sink = Sink::start(vec![
        Behaviour::Answer("RCPT", "550 unknown"),
        Behaviour::Answer("RCPT", "450 grey"),
        Behaviour::Accept,
    ])
    .await;
    let mut bench = bench!(sink.port);
    let dead = bench.attempt(&mut fixture::owed("gone@example.org")).await;
    assert!(matches!(dead, DeliveryOutcome::Dead { .. }), "{dead:?}");
    let grey = bench.attempt(&mut fixture::owed("grey@example.org")).await;
    assert!(matches!(grey, DeliveryOutcome::Retry { .. }), "{grey:?}");
    // Neither says anything about the server, so the loop goes on at once.
    assert!(bench.outbox.resume_at < Micros(0));
    let sent = bench.attempt(&mut fixture::owed("ann@example.org")).await;
    assert_eq!(sent, DeliveryOutcome::Sent);
}

#[tokio::test]
async fn a_server_that_is_down_is_asked_ever_more_rarely() {
    let sink = Sink::start(vec![Behaviour::Greet("421 down")]).await;
    let mut bench = bench!(sink.port);
    let mut pauses = Vec::new();
    for id in 0..4 {
        let mut item = OutboxItem { id, ..fixture::owed("ann@example.org") };
        let before = (bench.clock)();
        bench.attempt(&mut item).await;
        pauses.push(bench.outbox.resume_at.since(before) / Micros::SECOND);
    }
    // Each mail is at its first attempt: it is the server that is spared.
    assert_eq!(pauses, [4, 9, 18, 36]);
}

#[tokio::test]
async fn a_mail_is_given_up_after_a_day() {
    let sink = Sink::start(vec![Behaviour::Greet("421 down")]).await;
    let mut bench = bench!(sink.port);
    bench.now.store(Micros::DAY, Ordering::SeqCst);
    let mut item = OutboxItem { attempts: 100, ..fixture::owed("ann@example.org") };
    let outcome = bench.attempt(&mut item).await;
    assert!(
        matches!(&outcome, DeliveryOutcome::Dead { error } if error.contains("after a day")),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_flood_waits_and_a_critical_mail_does_not_wait_behind_it() {
    let sink = Sink::start(vec![Behaviour::Accept]).await;
    let mut bench = bench!(sink.port);
    let mut alert = fixture::trifecta();
    alert.level = Level::High;
    let mut held = 0;
    for id in 0..35 {
        let item = OutboxItem { id, ..fixture::owed("ann@example.org") };
        let outcome =
            bench.outbox.handle(&bench.mailer, &item, Some(&alert), bench.clock, 0.5).await;
        match outcome {
            DeliveryOutcome::Retry { next_at, .. } => {
                assert_eq!(next_at, Micros(Micros::HOUR));
                held += 1;
            }
            other => assert_eq!(other, DeliveryOutcome::Sent),
        }
    }
    assert_eq!(held, 5);
    let mut critical = OutboxItem { id: 99, ..fixture::owed("ann@example.org") };
    assert_eq!(bench.attempt(&mut critical).await, DeliveryOutcome::Sent);
    assert_eq!(sink.mails().len(), 31);
}

#[tokio::test]
async fn a_mail_without_an_alert_or_with_a_bad_recipient_is_given_up() {
    let sink = Sink::start(vec![]).await;
    let mut bench = bench!(sink.port);
    let item = fixture::owed("ann@example.org");
    let outcome = bench.outbox.handle(&bench.mailer, &item, None, bench.clock, 0.5).await;
    assert!(matches!(outcome, DeliveryOutcome::Dead { .. }), "{outcome:?}");
    let outcome = bench.attempt(&mut fixture::owed("a b\r\n")).await;
    assert!(matches!(outcome, DeliveryOutcome::Dead { .. }), "{outcome:?}");
    assert!(sink.commands().is_empty());
}
