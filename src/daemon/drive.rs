//! The writer's loop: looks at the files, takes batches through the pipeline, answers the desk, and rests when idle.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::clock::now;
use super::pipeline::{Pipeline, Setup, Step};
use crate::fault::{self, Point};
use crate::journal::Journal;
use crate::model::Micros;
use crate::store::{DeskError, Reader, Request, StoreError};
use crate::tail::Wake;
use crate::web::Health;

/// After a hint, how long further ones are waited for.
const COALESCE: Duration = Duration::from_millis(50);
/// After a fault of the database, how long until it is opened again.
const REOPEN_AFTER: Duration = Duration::from_secs(2);
/// Idle time after which the write-ahead log is written into the database.
const REST_AFTER_MICROS: i64 = 30 * Micros::SECOND;
/// After the order to stop, how long those who still have something to put down are heard: longer than a mail that is
/// being sent, or a page that is being answered, may go on.
const LAST_REQUESTS_MAX: Duration = Duration::from_secs(7);
/// More unread bytes than this are a backfill, and shown as one.
const BACKFILL_BYTES_MIN: u64 = 4 << 20;

/// What the loop is driven by and reports to.
pub(super) struct Driver {
    pub(super) setup: Setup,
    pub(super) journal: Journal,
    pub(super) desk: mpsc::Receiver<Request>,
    pub(super) health: watch::Sender<Health>,
    pub(super) news: watch::Sender<u64>,
    /// What was wrong at the start and stays so.
    pub(super) standing_problems: Vec<String>,
    pub(super) on_backfill: super::watch::OnBackfill,
    /// Told once, when the files were looked at for the first time: what is written afterwards is news.
    pub(super) looked: Option<oneshot::Sender<()>>,
    pub(super) scan_every: Duration,
    pub(super) shutdown: CancellationToken,
    /// The readers handed out: after a fault they are given new connections.
    pub(super) reader: Reader,
}

impl Driver {
    /// Runs until shutdown. Faults of the database are survived: everything is opened again from what is stored.
    pub(super) async fn run(mut self, pipeline: Pipeline) {
        let awake = Arc::new(Notify::new());
        let waker = Arc::clone(&awake);
        let mut wake = Wake::start(move || waker.notify_one());
        let mut pipeline = Some(pipeline);
        while !self.shutdown.is_cancelled() {
            let Some(mut current) = pipeline.take() else {
                tokio::select! {
                    () = self.shutdown.cancelled() => return,
                    () = tokio::time::sleep(REOPEN_AFTER) => pipeline = self.reopen(),
                }
                continue;
            };
            match self.serve(&mut current, &mut wake, &awake).await {
                Ok(()) => {
                    answer_the_last(&mut self.desk, LAST_REQUESTS_MAX, |request| {
                        answer(&mut self.journal, &self.news, &mut current, request);
                    })
                    .await;
                    if let Err(error) = current.rest() {
                        tracing::warn!(%error, "the last checkpoint failed; the log will be replayed");
                    }
                    return;
                }
                Err(error) => {
                    tracing::error!(%error, "ingest has stopped; the database is opened again");
                    self.tell_fault(&error);
                    drop(current);
                    self.reader.let_go();
                }
            }
        }
    }

    /// Puts the fault on the page.
    fn tell_fault(&self, error: &StoreError) {
        self.health.send_modify(|health| {
            health.ingest_error =
                Some(format!("{error}. Nothing is lost: the logs are read on once it is well"));
        });
    }

    /// Opens everything again; none where that has to be tried again later.
    fn reopen(&self) -> Option<Pipeline> {
        // A reader that is still at it keeps the old engine alive, and two on one file would corrupt it.
        if !self.reader.let_go() {
            tracing::warn!("a read still holds the database; trying again");
            return None;
        }
        let mut setup = self.setup.clone();
        // It was there: should it have vanished, an empty one in its place would hide that.
        setup.store.create = false;
        match Pipeline::open(&setup, now()) {
            Ok(mut pipeline) => {
                self.reader.adopt(&pipeline.reader());
                pipeline.read_with(self.reader.clone());
                self.health.send_modify(|health| health.ingest_error = None);
                Some(pipeline)
            }
            Err(error) => {
                tracing::error!(%error, "the database cannot be opened; trying again");
                self.tell_fault(&error);
                None
            }
        }
    }

    /// Looks, reads and rests until shutdown.
    async fn serve(
        &mut self,
        pipeline: &mut Pipeline,
        wake: &mut Wake,
        awake: &Notify,
    ) -> Result<(), StoreError> {
        let mut rested_at = now();
        let mut is_dirty = false;
        loop {
            wake.rearm();
            self.look(pipeline, wake);
            is_dirty |= self.read(pipeline)?;
            if self.shutdown.is_cancelled() {
                return Ok(());
            }
            if is_dirty && now().since(rested_at) > REST_AFTER_MICROS {
                pipeline.rest()?;
                (is_dirty, rested_at) = (false, now());
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(self.scan_every) => {}
                () = awake.notified() => tokio::time::sleep(COALESCE).await,
                Some(request) = self.desk.recv() => self.answer(pipeline, request),
            }
        }
    }

    fn look(&mut self, pipeline: &mut Pipeline, wake: &mut Wake) {
        let at = now();
        let report = pipeline.look(at);
        pipeline.finish(at);
        if let Some(looked) = self.looked.take() {
            // Whoever waited for it may have been told to stop.
            if looked.send(()).is_err() {
                tracing::debug!("nobody waits for the first look any more");
            }
        }
        wake.follow(&report.folders);
        for problem in &report.problems {
            tracing::warn!(path = ?problem.path, "{}", problem.message);
        }
        for event in &report.events {
            tracing::info!(?event, "a file changed");
        }
        let mut problems = self.standing_problems.clone();
        problems.extend(
            pipeline.problems().into_iter().map(|(path, message)| format!("{path}: {message}")),
        );
        let degraded = wake.degraded().map(str::to_owned);
        self.health.send_if_modified(|health| {
            let is_new = health.problems != problems || health.watcher_degraded != degraded;
            health.problems = problems;
            health.watcher_degraded = degraded;
            health.last_batch_at = Some(at);
            is_new
        });
    }

    /// Takes batches until there is nothing to read; says whether there was anything.
    fn read(&mut self, pipeline: &mut Pipeline) -> Result<bool, StoreError> {
        let total = pipeline.unread_bytes();
        let mut done = 0;
        while let Some(step) = pipeline.step(now())? {
            done += step.bytes;
            self.publish(step, done, total);
            while let Ok(request) = self.desk.try_recv() {
                self.answer(pipeline, request);
            }
            if self.shutdown.is_cancelled() {
                break;
            }
        }
        if total >= BACKFILL_BYTES_MIN {
            self.health.send_modify(|health| health.backfill = None);
            (self.on_backfill)(None);
        }
        Ok(done > 0)
    }

    fn publish(&self, step: Step, done: u64, total: u64) {
        if step.alerts > 0 {
            self.news.send_replace(step.seq);
        }
        let backfill = (total >= BACKFILL_BYTES_MIN).then_some((done, total));
        if backfill.is_some() {
            (self.on_backfill)(backfill);
        }
        self.health.send_if_modified(|health| {
            health.last_batch_at = Some(now());
            health.backfill = backfill;
            backfill.is_some()
        });
    }

    fn answer(&mut self, pipeline: &mut Pipeline, request: Request) {
        answer(&mut self.journal, &self.news, pipeline, request);
    }
}

/// Answers until everybody who could ask is gone, or for as long as is bearable.
async fn answer_the_last(
    desk: &mut mpsc::Receiver<Request>,
    wait_max: Duration,
    mut answer: impl FnMut(Request),
) {
    let hear = async {
        while let Some(request) = desk.recv().await {
            answer(request);
        }
    };
    if tokio::time::timeout(wait_max, hear).await.is_err() {
        tracing::warn!("somebody still holds the desk; the writer stops all the same");
    }
}

fn answer(
    journal: &mut Journal,
    news: &watch::Sender<u64>,
    pipeline: &mut Pipeline,
    request: Request,
) {
    match request {
        Request::Decide(decision, answer) => {
            let done = decide(journal, pipeline, &decision);
            if done.is_ok() {
                news.send_replace(pipeline.seq());
            }
            // Whoever asked may be gone; what was asked is done all the same.
            drop(answer.send(done));
        }
        Request::Deliver(delivery, answer) => {
            let done = pipeline.deliver(&delivery);
            drop(answer.send(done.map_err(|error| DeskError::Failed(error.to_string()))));
        }
    }
}

/// First in the journal, then in the database: a decision outlives the database.
fn decide(
    journal: &mut Journal,
    pipeline: &mut Pipeline,
    decision: &crate::store::Decision,
) -> Result<(), DeskError> {
    let failed = |error: String| DeskError::Failed(error);
    if !pipeline.knows_alert(decision.alert_id).map_err(|error| failed(error.to_string()))? {
        return Err(DeskError::UnknownAlert(decision.alert_id));
    }
    journal
        .append(decision.at, "decision", decision.to_json())
        .map_err(|error| failed(error.to_string()))?;
    fault::at(Point::AfterJournal).map_err(|error| failed(error.to_string()))?;
    pipeline.decide(decision).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Delivery, DeliveryOutcome, Desk};

    #[tokio::test]
    async fn the_fate_of_a_mail_that_ends_after_the_order_to_stop_is_put_down() {
        let (queue, mut requests) = mpsc::channel(1);
        let desk = Desk::new(queue);
        // It runs as soon as the writer waits.
        let mailer = tokio::spawn(async move {
            let outcome = DeliveryOutcome::Sent;
            desk.deliver(Delivery { outbox_id: 1, at: Micros(0), outcome }).await
        });
        let mut heard = 0;
        answer_the_last(&mut requests, Duration::MAX, |request| {
            let Request::Deliver(delivery, answer) = request else { return };
            heard += delivery.outbox_id;
            answer.send(Ok(())).unwrap();
        })
        .await;
        assert_eq!(heard, 1);
        mailer.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn somebody_who_never_lets_go_of_the_desk_does_not_hold_up_the_end() {
        let (queue, mut requests) = mpsc::channel(1);
        let _held = Desk::new(queue);
        answer_the_last(&mut requests, Duration::ZERO, |_| {}).await;
    }

    /// A driver over an empty folder, with its pipeline and what the page shows.
    fn driver(folder: &std::path::Path) -> (Driver, Pipeline, watch::Receiver<Health>) {
        let path = folder.join("calltrail.duckdb");
        let journal = Journal::open(&folder.join("journal.jsonl")).unwrap();
        let store = crate::store::OpenOptions {
            path,
            create: true,
            memory_max: "256MB".to_owned(),
            now: Micros(0),
        };
        let setup = Setup {
            store,
            tail: crate::tail::TailConfig::new(vec![folder.to_path_buf()]),
            rules: Arc::new(crate::detect::RuleSet::default()),
            catalogue: Arc::new(crate::catalogue::Catalogue::shipped()),
            clocks: vec![],
            outcome_words: vec![],
            is_single_pass: false,
            silence_micros: None,
            mail: None,
        };
        let pipeline = Pipeline::open(&setup, Micros(0)).unwrap();
        let (health, shown) = watch::channel(Health::default());
        let driver = Driver {
            setup,
            journal,
            desk: mpsc::channel(1).1,
            health,
            news: watch::channel(0).0,
            standing_problems: vec![],
            looked: None,
            on_backfill: Box::new(|_| {}),
            scan_every: Duration::ZERO,
            shutdown: CancellationToken::new(),
            reader: pipeline.reader(),
        };
        (driver, pipeline, shown)
    }

    #[test]
    fn a_database_that_vanished_is_an_error_on_the_page_and_not_an_empty_database() {
        let folder = tempfile::tempdir().unwrap();
        let (driver, pipeline, shown) = driver(folder.path());
        drop(pipeline);
        driver.reader.let_go();
        let path = &driver.setup.store.path;
        let kept = path.with_extension("kept");
        std::fs::rename(path, &kept).unwrap();
        assert!(driver.reopen().is_none());
        assert!(!path.exists());
        let told = shown.borrow().ingest_error.clone();
        assert!(told.is_some_and(|told| told.contains("does not exist")));

        std::fs::rename(&kept, path).unwrap();
        assert!(driver.reopen().is_some());
        assert_eq!(shown.borrow().ingest_error, None);
        assert_eq!(driver.reader.totals().unwrap().records, 0);
    }
}
