//! The writer against a database that refuses a line and a disk that is full: it goes on by itself, and counts right.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::drive::Driver;
use super::drive::tests::driver;
use super::pipeline::Pipeline;
use crate::detect::{RuleSet, shipped};
use crate::model::{AlertId, AlertState, Micros};
use crate::store::{AlertFilter, Cause, Decision, Desk, Reader};
use crate::web::Health;

const ATTACK: &str = include_str!("../../tests/samples/trifecta/logs/tickets/audit.jsonl");

/// Longest that anything awaited may take, so that a broken test fails instead of hanging.
const WAIT_MAX: Duration = Duration::from_mins(2);

fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < WAIT_MAX, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn line(number: usize, request: &str) -> String {
    format!(
        "{{\"actor\":\"client\",\"tool\":\"read_note\",\"args\":{{\"n\":\"{number} {padding}\"}},\
         \"outcome\":\"COMPLETED\",\"request_id\":\"{request}\",\"ts\":\"2026-11-20T09:{:02}:{:02}Z\"}}\n",
        number / 60 % 60,
        number % 60,
        padding = "p".repeat(100),
    )
}

fn append(folder: &Path, file: &str, text: &str) {
    let mut file =
        fs::OpenOptions::new().create(true).append(true).open(folder.join(file)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn lines(numbers: std::ops::Range<usize>) -> String {
    numbers.map(|number| line(number, &format!("r{number}"))).collect()
}

/// A driver that runs on a thread of its own, as the daemon's does.
struct Running {
    reader: Reader,
    health: watch::Receiver<Health>,
    desk: Desk,
    shutdown: CancellationToken,
    thread: std::thread::JoinHandle<()>,
}

impl Running {
    fn start(mut driver: Driver, pipeline: Pipeline, health: watch::Receiver<Health>) -> Self {
        let (queue, requests) = mpsc::channel(4);
        driver.desk = requests;
        driver.scan_every = Duration::from_millis(20);
        let (reader, shutdown) = (driver.reader.clone(), driver.shutdown.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(driver.run(pipeline));
        });
        Self { reader, health, desk: Desk::new(queue), shutdown, thread }
    }

    fn records(&self) -> Option<u64> {
        self.reader.totals().ok().map(|totals| totals.records)
    }

    fn decide(&self, id: AlertId, note: &str) -> Result<(), String> {
        let decision = Decision {
            alert_id: id,
            at: Micros(1),
            who: "ann".to_owned(),
            state: AlertState::Acknowledged,
            close_reason: None,
            note: note.to_owned(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.desk.decide(decision)).map_err(|error| error.to_string())
    }

    fn stop(self) {
        drop(self.desk);
        self.shutdown.cancel();
        self.thread.join().unwrap();
    }
}

/// Every generation's records, rejects and gaps touch, and end at its position.
fn assert_whole(reader: &Reader) {
    let torn = "with ranges as (
            select distinct generation, \"offset\", length from records
            union all select generation, \"offset\", length from rejects
            union all select generation, \"offset\", length from gap_log),
        sums as (select generation, sum(length) as total, max(\"offset\" + length) as last, count(*) as lines,
            count(distinct \"offset\") as starts from ranges group by all)
        select * from sources full join sums using (generation)
        where \"offset\" is distinct from total or total <> last or lines <> starts";
    assert_eq!(reader.query(torn, 10, 60).unwrap().rows, Vec::<Vec<serde_json::Value>>::new());
}

#[test]
fn a_line_that_the_database_refuses_becomes_a_reject_and_all_others_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let (mut driver, pipeline, health) = driver(folder.path());
    drop(pipeline);
    assert!(driver.reader.let_go());
    // A database that takes no request id twice: no line of the kind should be refused, but some day one may be.
    let database = duckdb::Connection::open(&driver.setup.store.path).unwrap();
    database.execute_batch("create unique index once on record_log (request_id)").unwrap();
    drop(database);
    // In one line with what a killed writer left.
    let half = "{\"actor\":\"client\",\"to";
    let text = lines(0..1_200) + half + &line(1_200, "r5") + &lines(1_201..3_000);
    append(folder.path(), "a.jsonl", &text);
    let refused_at = text.find("\"1200 ").unwrap();
    let pipeline = driver.try_open().unwrap().unwrap();
    let running = Running::start(driver, pipeline, health);
    until("all lines", || running.records() == Some(2_999));
    until("the reject", || running.reader.rejects(None, 9).is_ok_and(|found| found.len() == 2));
    let mut rejects = running.reader.rejects(None, 9).unwrap();
    rejects.retain(|reject| reject.reason.contains("refused"));
    let reject = rejects.remove(0);
    assert!((reject.offset..reject.offset + reject.length).contains(&(refused_at as u64)));
    assert!(reject.head.contains("1200"), "{}", reject.head);
    assert_whole(&running.reader);
    let source = running.reader.sources().unwrap().remove(0);
    assert_eq!((source.records, source.rejects), (2_999, 2));
    until("the all-clear", || running.health.borrow().ingest_error.is_none());
    running.stop();
}

/// Runs the test of this name again in a process whose `SMALL_DISK` is a folder on a file system of 20 MB, and returns
/// that folder there. In the first process, and where no such file system can be made, there is none.
fn small_disk(test: &str) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("SMALL_DISK") {
        return Some(folder.into());
    }
    let folder = tempfile::tempdir().unwrap();
    let within = |command: &str| {
        let mut run = Command::new("unshare");
        let script = format!("mount -t tmpfs -o size=20m none \"$SMALL_DISK\" && {command}");
        run.args(["-Urm", "sh", "-c", &script, "sh"]).env("SMALL_DISK", folder.path());
        run
    };
    if !within("true").output().is_ok_and(|output| output.status.success()) {
        let told =
            format!("SKIPPED {test}: nobody may mount a small file system here (unshare -Urm)");
        writeln!(std::io::stderr(), "{told}").unwrap();
        return None;
    }
    let output = within("exec \"$@\"")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("daemon::faults::{test}"), "--nocapture"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    None
}

/// Fills the disk but for so many bytes.
fn fill(disk: &Path, left: u64) -> PathBuf {
    let ballast = disk.join("ballast");
    let found = rustix::fs::statvfs(disk).unwrap();
    let bytes = (found.f_bavail * found.f_frsize).saturating_sub(left);
    fs::write(&ballast, vec![7; usize::try_from(bytes).unwrap()]).unwrap();
    ballast
}

/// A driver whose database and journal lie on the small disk, and its logs elsewhere.
fn driver_on(disk: &Path, logs: &Path) -> (Driver, Pipeline, watch::Receiver<Health>) {
    let state = disk.join("state");
    fs::create_dir(&state).unwrap();
    let (mut driver, pipeline, health) = driver(&state);
    drop(pipeline);
    assert!(driver.reader.let_go());
    driver.setup.rules = Arc::new(RuleSet::compile(&shipped()).unwrap());
    driver.setup.tail = crate::tail::TailConfig::new(vec![logs.to_path_buf()]);
    let pipeline = driver.try_open().unwrap().unwrap();
    (driver, pipeline, health)
}

#[test]
fn no_room_for_the_write_ahead_log_pauses_ingest_until_there_is_some() {
    const LINES: usize = 6_000;
    let Some(disk) =
        small_disk("no_room_for_the_write_ahead_log_pauses_ingest_until_there_is_some")
    else {
        return;
    };
    let logs = tempfile::tempdir().unwrap();
    let (mut driver, mut pipeline, health) = driver_on(&disk, logs.path());
    append(logs.path(), "a.jsonl", &lines(0..LINES));
    let ballast = fill(&disk, 1 << 20);
    pipeline.look(Micros(0));
    let error = pipeline.step(Micros(0)).unwrap_err();
    assert_eq!(error.cause(), Cause::Full, "{error}");
    drop(pipeline);
    assert!(driver.reader.let_go());

    let pipeline = driver.try_open().unwrap().unwrap();
    let mut running = Running::start(driver, pipeline, health);
    until("the pause", || {
        let health = running.health.borrow_and_update();
        health.disk_full.is_some()
            || health.ingest_error.as_ref().is_some_and(|told| told.contains("disk is full"))
    });
    until("a page on a full disk", || running.records().is_some());
    fs::remove_file(ballast).unwrap();
    until("all lines", || running.records() == Some(LINES as u64));
    assert_whole(&running.reader);
    until("the all-clear", || {
        *running.health.borrow()
            == Health { last_batch_at: running.health.borrow().last_batch_at, ..Health::default() }
    });
    running.stop();
}

#[test]
fn no_room_for_a_checkpoint_costs_nothing_and_needs_no_restart() {
    const FIRST: usize = 3_000;
    const LINES: usize = 6_000;
    let Some(disk) = small_disk("no_room_for_a_checkpoint_costs_nothing_and_needs_no_restart")
    else {
        return;
    };
    let logs = tempfile::tempdir().unwrap();
    let (mut driver, mut pipeline, health) = driver_on(&disk, logs.path());
    driver.setup.free_bytes_min = 64 << 20;
    append(logs.path(), "a.jsonl", &(ATTACK.to_owned() + &lines(0..FIRST)));
    pipeline.look(Micros(0));
    while pipeline.step(Micros(0)).unwrap().is_some_and(|step| step.bytes > 0) {}
    let stored = driver.reader.totals().unwrap();
    let alert = driver.reader.alerts(&AlertFilter::default()).unwrap().remove(0).id;
    // The end of history was a checkpoint: there has to be something to write again.
    append(logs.path(), "a.jsonl", &lines(FIRST..FIRST + 1_000));
    pipeline.look(Micros(0));
    while pipeline.step(Micros(0)).unwrap().is_some() {}
    let ballast = fill(&disk, 100 << 10);
    let error = pipeline.rest().unwrap_err();
    assert_eq!(error.cause(), Cause::Full, "{error}");
    let after = pipeline.knows_alert(alert).unwrap_err();
    assert_eq!(after.cause(), Cause::Full, "the database has given up: {after}");

    let journal = disk.join("state/journal.jsonl");
    let before = fs::read(&journal).unwrap();
    append(logs.path(), "a.jsonl", &lines(FIRST + 1_000..LINES));
    let running = Running::start(driver, pipeline, health);
    until("the pause", || running.health.borrow().disk_full.is_some());
    until("a page on a full disk", || running.records() == Some(stored.records + 1_000));
    assert!(running.reader.alert(alert).unwrap().is_some());
    let told = running.decide(alert, "on a full disk").unwrap_err();
    assert!(told.contains("disk is full") && told.contains("nothing was recorded"), "{told}");
    assert_eq!(fs::read(&journal).unwrap(), before);

    fs::remove_file(ballast).unwrap();
    until("all lines", || running.records() == Some(stored.records + (LINES - FIRST) as u64));
    until("the all-clear", || running.health.borrow().disk_full.is_none());
    assert_eq!(running.decide(alert, "with room"), Ok(()));
    assert_whole(&running.reader);
    let reader = running.reader.clone();
    running.stop();
    assert_eq!(reader.decisions(alert).unwrap().len(), 1);
}

#[test]
fn a_damaged_write_ahead_log_stays_on_the_page_and_what_it_held_is_read_again() {
    const LINES: u64 = 900;
    let folder = tempfile::tempdir().unwrap();
    let (mut driver, mut pipeline, health) = driver(folder.path());
    let step_all = |pipeline: &mut Pipeline, numbers| {
        append(folder.path(), "a.jsonl", &lines(numbers));
        pipeline.look(Micros(0));
        while pipeline.step(Micros(0)).unwrap().is_some() {}
    };
    // The end of history is a checkpoint; what comes afterwards is in the log alone.
    step_all(&mut pipeline, 0..300);
    step_all(&mut pipeline, 300..900);
    let path = driver.setup.store.path.clone();
    let log_path = crate::store::beside(&path, ".wal");
    let database = fs::read(&path).unwrap();
    let mut log = fs::read(&log_path).unwrap();
    drop(pipeline);
    assert!(driver.reader.let_go());
    let middle = log.len() / 2;
    log[middle..].fill(0);
    fs::write(&path, database).unwrap();
    fs::write(&log_path, log).unwrap();

    let pipeline = driver.try_open().unwrap().unwrap();
    let aside = pipeline.set_aside().unwrap().to_path_buf();
    assert!(aside.exists());
    assert_eq!(driver.reader.totals().unwrap().records, 300);
    let running = Running::start(driver, pipeline, health);
    until("all lines", || running.records() == Some(LINES));
    assert_whole(&running.reader);
    let problems = running.health.borrow().problems.clone();
    assert!(problems.iter().any(|told| told.contains(&*aside.to_string_lossy())), "{problems:?}");
    running.stop();
}
