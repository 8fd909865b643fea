//! The writer's loop: looks at the files, takes batches through the pipeline, answers the desk, and rests when idle.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::care::{Care, Fault, Tried};
use super::clock::now;
use super::pipeline::{Pipeline, Setup, Step};
use super::rules::Keeper;
use crate::model::Micros;
use crate::store::{Cause, Decision, DeskError, OpenOptions, Reader, Request, Store, StoreError};
use crate::tail::Wake;
use crate::web::Health;

/// After a hint, how long further ones are waited for.
const COALESCE: Duration = Duration::from_millis(50);
/// After a fault of the database, how long until it is opened again: pages read on while ingest waits for longer.
const REOPEN_AFTER: Duration = Duration::from_secs(2);
/// Idle time after which the write-ahead log is written into the database.
const REST_AFTER_MICROS: i64 = 30 * Micros::SECOND;
/// After the order to stop, how long those who still have something to put down are heard: longer than a mail that is
/// being sent, or a page that is being answered, may go on.
const LAST_REQUESTS_MAX: Duration = Duration::from_secs(7);
/// Room without which a decision is not begun: what it takes in journal and database, many times over.
const DECISION_BYTES: u64 = 256 << 10;
/// More unread bytes than this are a backfill, and shown as one.
const BACKFILL_BYTES_MIN: u64 = 4 << 20;

/// What the loop is driven by and reports to.
pub(super) struct Driver {
    pub(super) setup: Setup,
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
    pub(super) trouble: Trouble,
    /// The files that the rules come from.
    pub(super) rules: Keeper,
}

/// What is remembered of the database's faults.
pub(super) struct Trouble {
    care: Care,
    /// When the database may be opened again.
    open_at: Instant,
    /// When batches may be tried again.
    read_at: Instant,
    /// A database that can be read and not written to: pages read it until the next try.
    lookout: Option<Store>,
    /// Fates of mails that wait for the database: the mailer waits for each, so they are few.
    put_off: Vec<Request>,
}

impl Default for Trouble {
    fn default() -> Self {
        let (open_at, read_at) = (Instant::now(), Instant::now());
        Self { care: Care::default(), open_at, read_at, lookout: None, put_off: Vec::new() }
    }
}

impl Trouble {
    fn met(&mut self, fault: &Fault, tried: Option<&Tried>) {
        let wait = self.care.failed(fault.cause(), tried);
        self.read_at = Instant::now() + wait;
        self.open_at = Instant::now() + wait.min(REOPEN_AFTER);
    }

    fn is_waiting(&self) -> bool {
        Instant::now() < self.read_at
    }
}

impl Driver {
    /// Runs until shutdown. Faults of the database are survived: everything is opened again from what is stored.
    pub(super) async fn run(mut self, pipeline: Pipeline) {
        let awake = Arc::new(Notify::new());
        let waker = Arc::clone(&awake);
        let mut wake = Wake::start(move || waker.notify_one());
        self.rules.wake(Arc::clone(&awake));
        self.note_set_aside(&pipeline);
        let mut pipeline = Some(pipeline);
        while !self.shutdown.is_cancelled() {
            let Some(mut current) = pipeline.take() else {
                tokio::select! {
                    () = self.shutdown.cancelled() => break,
                    Some(request) = self.desk.recv() => self.put_off(request),
                    () = tokio::time::sleep_until(self.trouble.open_at) => pipeline = self.reopen(),
                }
                continue;
            };
            match self.serve(&mut current, &mut wake, &awake).await {
                Ok(()) => {
                    answer_the_last(&mut self.desk, LAST_REQUESTS_MAX, |request| {
                        // What comes after the last batch cannot be tried again: who asked is told.
                        drop(answer(&self.news, &mut current, request));
                    })
                    .await;
                    if let Err(error) = current.rest() {
                        tracing::warn!(%error, "the last checkpoint failed; the log will be replayed");
                    }
                    return;
                }
                Err(fault) => {
                    self.tell_fault(&fault);
                    self.trouble.met(&fault, current.tried());
                    drop(current);
                    self.reader.let_go();
                }
            }
        }
        // Stopped while the database was closed: a last try for what waits for it.
        if !self.trouble.put_off.is_empty()
            && let Ok(Some(mut pipeline)) = self.try_open()
            && let Err(error) = self.catch_up(&mut pipeline)
        {
            tracing::warn!(%error, "the fate of a mail could not be put down");
        }
    }

    /// While there is no database to ask: people are told, and the fate of a mail waits, or it would be sent again.
    fn put_off(&mut self, request: Request) {
        match request {
            Request::Decide(_, answer) => {
                drop(answer.send(Err(DeskError::Failed(StoreError::Reopening.to_string()))));
            }
            Request::Deliver(..) => self.trouble.put_off.push(request),
        }
    }

    /// Puts down what had to wait for the database.
    fn catch_up(&mut self, pipeline: &mut Pipeline) -> Result<(), StoreError> {
        for request in std::mem::take(&mut self.trouble.put_off) {
            self.answer(pipeline, request)?;
        }
        Ok(())
    }

    /// Puts the fault on the page, and into the log where it is not the same as the last one.
    fn tell_fault(&mut self, fault: &Fault) {
        let told = match fault.cause() {
            // Smaller batches do for it; if they do not, it is told again.
            Cause::Full => format!("the disk is full ({fault})"),
            // What the database says of a value may quote it.
            Cause::Content => "the database refused a line".to_owned(),
            _ => fault.to_string(),
        };
        let told = format!("{told}. Nothing is lost: the logs are read on once it is well");
        self.health.send_if_modified(|health| {
            let is_new = health.ingest_error.as_ref() != Some(&told);
            if is_new {
                tracing::error!(told, "ingest has stopped; the database is opened again");
                health.ingest_error = Some(told);
            }
            is_new
        });
    }

    /// Opens everything again; none where that has to be tried again later.
    fn reopen(&mut self) -> Option<Pipeline> {
        let open = self.try_open();
        match open {
            Ok(pipeline) => {
                if pipeline.is_none() {
                    // Interrupted reads end soon.
                    self.trouble.open_at = Instant::now() + REOPEN_AFTER;
                }
                pipeline
            }
            Err(error) => {
                if error.cause() == Cause::Full {
                    self.look_out();
                }
                self.tell_fault(&error.into());
                self.trouble.open_at = Instant::now() + self.trouble.care.waited();
                None
            }
        }
    }

    /// Lets pages read a database that has no room for what opening it would put down.
    fn look_out(&mut self) {
        let options = OpenOptions { create: false, ..self.setup.store.clone() };
        if self.reader.let_go()
            && let Ok(store) = Store::open(&options)
        {
            self.reader.adopt(&store.reader());
            self.trouble.lookout = Some(store);
        }
    }

    pub(super) fn try_open(&mut self) -> Result<Option<Pipeline>, StoreError> {
        self.trouble.lookout = None;
        // A reader that is still at it keeps the old engine alive, and two on one file would corrupt it.
        if !self.reader.let_go() {
            tracing::debug!("a read still holds the database; trying again");
            return Ok(None);
        }
        let mut setup = self.setup.clone();
        // It was there: should it have vanished, an empty one in its place would hide that.
        setup.store.create = false;
        let mut pipeline = Pipeline::open(&setup, now())?;
        self.reader.adopt(&pipeline.reader());
        pipeline.read_with(self.reader.clone());
        self.note_set_aside(&pipeline);
        Ok(Some(pipeline))
    }

    /// A damaged log stays on the page until somebody has seen to it and starts the daemon again.
    fn note_set_aside(&mut self, pipeline: &Pipeline) {
        if let Some(path) = pipeline.set_aside() {
            self.standing_problems.push(format!(
                "The database's write-ahead log was damaged and lies at {} now. What it held is read from the logs \
                 again; of decisions and mails, what it held is in the journal. Look after the disk, then start \
                 Calltrail again.",
                path.display()
            ));
        }
    }

    /// Looks, reads and rests until shutdown.
    async fn serve(
        &mut self,
        pipeline: &mut Pipeline,
        wake: &mut Wake,
        awake: &Notify,
    ) -> Result<(), Fault> {
        let mut rested_at = now();
        let mut is_dirty = false;
        self.catch_up(pipeline)?;
        loop {
            if self.reader.is_broken() {
                return Err(StoreError::Broken.into());
            }
            wake.rearm();
            self.look(pipeline, wake);
            let may_write = self.has_room(pipeline)? && !self.trouble.is_waiting();
            if may_write {
                is_dirty |= self.read(pipeline)?;
            }
            if self.shutdown.is_cancelled() {
                return Ok(());
            }
            if may_write && is_dirty && now().since(rested_at) > REST_AFTER_MICROS {
                pipeline.rest()?;
                (is_dirty, rested_at) = (false, now());
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(self.scan_every) => {}
                () = awake.notified() => tokio::time::sleep(COALESCE).await,
                Some(request) = self.desk.recv() => self.answer(pipeline, request)?,
            }
        }
    }

    /// Whether there is room for what would be written; the page says so where there is not. Once there is again,
    /// nothing more is waited for.
    fn has_room(&mut self, pipeline: &Pipeline) -> Result<bool, StoreError> {
        let lack = pipeline.lacks_room(!self.trouble.is_waiting())?;
        let lack = lack.map(|space| (space.free_bytes, space.needed_bytes));
        let trouble = &mut self.trouble;
        self.health.send_if_modified(|health| {
            let is_new = health.disk_full.is_some() != lack.is_some();
            match lack {
                Some((free_bytes, needed_bytes)) if is_new => {
                    tracing::error!(
                        free_bytes,
                        needed_bytes,
                        "the disk is full; reading waits for room"
                    );
                }
                None if is_new => trouble.read_at = Instant::now(),
                _ => {}
            }
            health.disk_full = lack;
            is_new
        });
        Ok(lack.is_none())
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
        problems.extend(pipeline.journal_breaks().iter().map(ToString::to_string));
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

    /// Takes batches until there is nothing to read, or no room; says whether there was anything.
    fn read(&mut self, pipeline: &mut Pipeline) -> Result<bool, Fault> {
        let total = pipeline.unread_bytes();
        let mut done = 0;
        while self.has_room(pipeline)? {
            self.heed_rules(pipeline)?;
            let care = &self.trouble.care;
            // The pipeline is dropped after a panic, and the half of a batch with it.
            let step = catch_unwind(AssertUnwindSafe(|| pipeline.careful_step(now(), care)));
            let Some(step) = step.map_err(|_| Fault::Panic)?? else { break };
            if step.is_refused {
                tracing::error!(
                    "a line that the database refuses was set aside; it is among the rejects"
                );
            }
            self.trouble.care.stored(step.is_refused);
            self.is_well();
            done += step.bytes;
            self.publish(step, done, total);
            self.tell_rule_costs(pipeline);
            while let Ok(request) = self.desk.try_recv() {
                self.answer(pipeline, request)?;
            }
            if self.shutdown.is_cancelled() {
                break;
            }
        }
        self.is_well();
        if total >= BACKFILL_BYTES_MIN {
            self.health.send_modify(|health| health.backfill = None);
            (self.on_backfill)(None);
        }
        Ok(done > 0)
    }

    fn is_well(&self) {
        self.health.send_if_modified(|health| health.ingest_error.take().is_some());
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

    fn answer(&mut self, pipeline: &mut Pipeline, request: Request) -> Result<(), StoreError> {
        answer(&self.news, pipeline, request)
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

/// Answers whoever asked, whatever comes of it. An error says that the database has to be opened again.
fn answer(
    news: &watch::Sender<u64>,
    pipeline: &mut Pipeline,
    request: Request,
) -> Result<(), StoreError> {
    // Whoever asked may be gone; what was asked is done all the same.
    match request {
        Request::Decide(decision, answer) => {
            let (told, done) = decide(pipeline, &decision);
            if told.is_ok() {
                news.send_replace(pipeline.seq());
            }
            drop(answer.send(told));
            done
        }
        Request::Deliver(delivery, answer) => {
            let done = pipeline.deliver(&delivery);
            let told = done.as_ref().map_err(|error| DeskError::Failed(error.to_string()));
            drop(answer.send(told.copied()));
            done
        }
    }
}

/// Puts a decision down about an alert that there is. Returns what to say to whoever decided, and whether the database
/// is well. What the journal has and the database could not take is put into it when it is opened again.
fn decide(
    pipeline: &mut Pipeline,
    decision: &Decision,
) -> (Result<(), DeskError>, Result<(), StoreError>) {
    let failed = |error: &dyn std::fmt::Display| Err(DeskError::Failed(error.to_string()));
    match pipeline.knows_alert(decision.alert_id) {
        Err(error) => return (failed(&error), Err(error)),
        Ok(false) => return (Err(DeskError::UnknownAlert(decision.alert_id)), Ok(())),
        Ok(true) => {}
    }
    if let Some(free_bytes) = pipeline.free_bytes().filter(|free| *free < DECISION_BYTES) {
        let told = format!(
            "the disk is full ({free_bytes} bytes are free): nothing was recorded; make room, then decide again"
        );
        return (failed(&told), Ok(()));
    }
    match pipeline.decide(decision) {
        Ok(()) => (Ok(()), Ok(())),
        Err(error @ StoreError::Journal { .. }) => (failed(&error), Ok(())),
        Err(error) => {
            let told = format!(
                "{error}; the decision is in the journal, and shows once the database is well again"
            );
            (failed(&told), Err(error))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
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
    pub(in crate::daemon) fn driver(
        folder: &std::path::Path,
    ) -> (Driver, Pipeline, watch::Receiver<Health>) {
        let path = folder.join("calltrail.duckdb");
        let store =
            OpenOptions { path, create: true, memory_max: "256MB".to_owned(), now: Micros(0) };
        let setup = Setup {
            store,
            tail: crate::tail::TailConfig::new(vec![folder.to_path_buf()]),
            rules: Arc::new(crate::detect::RuleSet::default()),
            catalogue: Arc::new(crate::catalogue::Catalogue::shipped()),
            clocks: vec![],
            outcome_words: vec![],
            path_patterns: vec![],
            is_single_pass: false,
            journal: Some(folder.join("journal.jsonl")),
            silence_micros: None,
            mail: None,
            free_bytes_min: 0,
        };
        let pipeline = Pipeline::open(&setup, Micros(0)).unwrap();
        let (health, shown) = watch::channel(Health::default());
        let driver = Driver {
            setup,
            desk: mpsc::channel(1).1,
            health,
            news: watch::channel(0).0,
            standing_problems: vec![],
            looked: None,
            on_backfill: Box::new(|_| {}),
            scan_every: Duration::ZERO,
            shutdown: CancellationToken::new(),
            reader: pipeline.reader(),
            trouble: Trouble::default(),
            rules: Keeper::idle(),
        };
        (driver, pipeline, shown)
    }

    #[test]
    fn while_the_database_is_closed_people_are_told_and_the_fate_of_a_mail_waits() {
        let folder = tempfile::tempdir().unwrap();
        let (mut driver, mut pipeline, _) = driver(folder.path());
        let decision = Decision {
            alert_id: crate::model::AlertId([1; 16]),
            at: Micros(0),
            who: "ann".to_owned(),
            state: crate::model::AlertState::Acknowledged,
            close_reason: None,
            note: String::new(),
        };
        let (answer, mut decided) = oneshot::channel();
        driver.put_off(Request::Decide(decision, answer));
        assert!(matches!(decided.try_recv(), Ok(Err(DeskError::Failed(_)))));
        let delivery = Delivery { outbox_id: 1, at: Micros(0), outcome: DeliveryOutcome::Sent };
        let (answer, mut delivered) = oneshot::channel();
        driver.put_off(Request::Deliver(delivery, answer));
        assert!(delivered.try_recv().is_err());
        driver.catch_up(&mut pipeline).unwrap();
        assert!(matches!(delivered.try_recv(), Ok(Ok(()))));
    }

    #[test]
    fn a_database_that_vanished_is_an_error_on_the_page_and_not_an_empty_database() {
        let folder = tempfile::tempdir().unwrap();
        let (mut driver, pipeline, shown) = driver(folder.path());
        drop(pipeline);
        driver.reader.let_go();
        let path = &driver.setup.store.path.clone();
        let kept = path.with_extension("kept");
        std::fs::rename(path, &kept).unwrap();
        assert!(driver.reopen().is_none());
        assert!(!path.exists());
        let told = shown.borrow().ingest_error.clone();
        assert!(told.is_some_and(|told| told.contains("does not exist")));

        std::fs::rename(&kept, path).unwrap();
        assert!(driver.reopen().is_some());
        assert_eq!(driver.reader.totals().unwrap().records, 0);
    }
}
