//! One run of the real daemon over a folder to which the steps of a sequence happen.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::check::{self, Found, Shape};
use super::folder::Folder;
use super::step::Step;
use crate::support::sink::MailSink;
use crate::support::{Daemon, calltrail, database, shielded, socket};

/// The longest that anything may take that has to happen.
const WAIT_MAX: Duration = Duration::from_secs(90);
/// A daemon that is told to stop is gone by then.
const STOP_MAX: Duration = Duration::from_secs(10);

const POLL_EVERY: Duration = Duration::from_millis(25);

/// The daemon under test and what is known of it.
#[expect(clippy::struct_excessive_bools, reason = "any of them can be true with any other")]
pub(super) struct Run {
    home: tempfile::TempDir,
    folder: Folder,
    daemon: Option<Daemon>,
    is_paused: bool,
    is_full: bool,
    /// The daemon that runs may die by itself.
    is_armed: bool,
    /// Deaths, planned and not: a mail whose fate was lost with one is sent again.
    deaths: usize,
    sink: Option<MailSink>,
    is_told: bool,
    /// What a shell does before it becomes the daemon.
    prelude: String,
    /// The daemon sees disks that this process does not.
    is_apart: bool,
}

impl Run {
    /// A run whose first daemon makes the database: all that it finds is history.
    pub(super) fn new() -> Self {
        Self::with(None)
    }

    /// A run whose database is older than anything that is written: what comes is news, and mailed.
    pub(super) fn of_news(seen: &Seen) -> Self {
        let run = Self::with(Some(MailSink::start()));
        seen.copy_to(&run.database());
        run
    }

    fn with(sink: Option<MailSink>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::new(&home.path().join("logs"));
        let run = Self {
            home,
            folder,
            daemon: None,
            is_paused: false,
            is_full: false,
            is_armed: false,
            deaths: 0,
            sink,
            is_told: false,
            prelude: String::new(),
            is_apart: false,
        };
        run.write_config();
        run
    }

    /// Prints every step, and keeps what is left of a failure.
    pub(super) fn telling(self, is_told: bool) -> Self {
        Self { is_told, ..self }
    }

    /// Runs the daemon after these words of a shell, such as a limit on it.
    pub(super) fn after(self, prelude: &str) -> Self {
        Self { prelude: prelude.to_owned(), ..self }
    }

    /// The daemon has disks of its own from now on, which end with it.
    pub(super) fn move_into_namespace(&mut self) {
        self.is_apart = true;
    }

    /// Takes every step and compares in the end; how far it came and what is wrong, if anything is.
    pub(super) fn go(mut self, steps: &[Step]) -> Result<(), String> {
        let done = steps.iter().enumerate().try_for_each(|(number, step)| {
            if self.is_told {
                told(&format!("{number}: {step:?}"));
            }
            self.take(*step).map_err(|error| format!("at step {number}, {step:?}: {error}"))
        });
        done.and_then(|()| self.finish()).map_err(|error| {
            if self.is_told {
                told(&format!("kept: {}", self.home.path().display()));
                self.home.disable_cleanup(true);
            }
            format!("{error}\n{}", self.last_words())
        })
    }

    pub(super) fn take(&mut self, step: Step) -> Result<(), String> {
        if is_quiet(step) && self.daemon.is_some() && !self.is_paused && !self.is_full {
            self.settle()?;
        }
        let folder = &mut self.folder;
        match step {
            Step::Write { log, lines } => folder.write(log, lines),
            Step::WritePair { log } => folder.write_pair(log),
            Step::WriteAttack { log } => folder.write_attack(log),
            Step::WriteBad { log } => folder.write_bad(log),
            Step::WriteOverlong { log } => folder.write_overlong(log),
            Step::WriteBlank { log } => folder.write_filler(log, "\n \t\r\n"),
            Step::WriteZeros { log } => folder.write_filler(log, "\0\0\0\0\0"),
            Step::WriteHalf { log } => folder.write_half(log),
            Step::FinishHalf { log, lines } => folder.finish_half(log, lines),
            Step::CutHalf { log } => folder.cut_half(log),
            Step::AbandonHalf { log, lines } => folder.abandon_half(log, lines),
            Step::Rename { log } => folder.rename(log),
            Step::CopyTruncate { log, between, .. } => folder.copy_truncate(log, between),
            Step::Delete { log, .. } => folder.delete(log),
            Step::Recreate { log, lines, .. } => folder.recreate(log, lines),
            Step::RewriteShorter { log, .. } => folder.rewrite(log, false),
            Step::RewriteLonger { log, .. } => folder.rewrite(log, true),
            Step::Hole { log, .. } => folder.punch(log),
            Step::Replace { log, lines } => folder.replace(log, lines),
            Step::Compress { log } => folder.compress(log),
            Step::HardLink { log } => folder.hard_link(log),
            Step::SwapLink { lines } => folder.swap_link(lines),
            Step::LinkOutside => folder.link_outside(),
            Step::Nest { lines } => folder.nest(lines),
            Step::Stop => return self.stop(),
            Step::Start => return self.start(None),
            Step::Kill => self.kill(),
            Step::Fault { point, action, passing } => {
                self.kill();
                return self.start(Some(&format!("{point}:{action}:{passing}")));
            }
            Step::Pause => self.pause(),
            Step::Resume => self.resume(),
            Step::Fill { slack } => self.fill(slack),
            Step::Free => self.free(),
            Step::Settle => return self.settle().map(drop),
            Step::Wait { millis } => std::thread::sleep(Duration::from_millis(millis)),
        }
        self.mourn()
    }

    /// Waits until all that must be stored is, and nothing else is.
    pub(super) fn settle(&mut self) -> Result<Found, String> {
        self.free();
        self.resume();
        let sentinel = self.folder.write_sentinel();
        let there = format!("select count(*) from record_log where extra like '%{sentinel}%'");
        // Cheaper than to look at everything again and again.
        self.await_that("a line that was just written", |run| {
            socket::rows(&run.database(), &there).is_ok_and(|rows| rows[0][0].as_u64() > Some(0))
        })?;
        let mut found = None;
        let waited = self.await_that("the required lines", |run| {
            found = check::find(&run.database(), &run.folder).ok();
            found.as_ref().is_some_and(|found| found.missing.is_empty() || !found.wrong.is_empty())
        });
        let told = found
            .as_ref()
            .map(|found| format!("wrong {:?}, missing {:?}", found.wrong, found.missing));
        match found {
            Some(found) if waited.is_ok() && found.wrong.is_empty() => {
                self.folder.note_stored();
                Ok(found)
            }
            _ => Err(format!("{waited:?} (sentinel {sentinel}): {}", told.unwrap_or_default())),
        }
    }

    fn await_mails(&mut self) -> Result<(), String> {
        if self.sink.is_none() {
            return Ok(());
        }
        self.await_that("the mails", |run| {
            let sent = run.sink.as_ref().map(MailSink::message_ids).unwrap_or_default();
            check::owed(&run.database()).is_ok_and(|owed| owed.iter().all(|id| sent.contains(id)))
        })
    }

    /// Compares everything.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.settle()?;
        if self.is_armed {
            // It may yet die; the next one will not.
            self.stop()?;
        }
        let before = self.settled_shape()?.1;
        self.await_mails()?;
        self.stop()?;
        let (found, after) = self.settled_shape()?;
        // The new start may have noticed what the end of the other one hid, and owe a mail for it.
        self.await_mails()?;
        let mut wrong = before.changed_to(&after);
        for what in &mut wrong {
            what.insert_str(0, "a restart changed: ");
        }
        wrong.extend(check::contradictions(&self.database())?);
        if let Some(sink) = &self.sink {
            wrong.extend(check::mails(&self.database(), &sink.message_ids(), self.deaths)?);
        }
        self.stop()?;
        wrong.extend(check::doctor(self.home.path(), &self.database()));
        let clean = check::one_pass(self.home.path(), &self.folder, &found);
        let differences = after.findings.symmetric_difference(&clean);
        wrong.extend(differences.map(|what| format!("not the same in one clean pass: {what}")));
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    /// After two looks at everything that is there.
    fn settled_shape(&mut self) -> Result<(Found, Shape), String> {
        self.settle()?;
        let found = self.settle()?;
        let shape = check::shape(&self.database(), &found)?;
        Ok((found, shape))
    }

    /// As this process sees it.
    pub(super) fn database(&self) -> PathBuf {
        let path = database(self.home.path());
        match (&self.daemon, self.is_apart) {
            (Some(daemon), true) => {
                let root = PathBuf::from(format!("/proc/{}/root", daemon.pid()));
                root.join(path.strip_prefix("/").unwrap())
            }
            _ => path,
        }
    }

    /// The folder with the logs.
    pub(super) fn root(&self) -> &Path {
        &self.folder.root
    }

    /// Waits until the daemon says that it cannot store what it reads.
    pub(super) fn await_fault(&mut self) -> Result<(), String> {
        self.await_that("a fault", |run| {
            let told = run.stderr();
            ["ingest has stopped", "the disk is full"].iter().any(|fault| told.contains(fault))
        })
    }

    /// What the database says against itself.
    pub(super) fn agree(&self) -> Result<(), String> {
        let wrong = check::contradictions(&self.database())?;
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    /// Starts the daemon if none runs.
    pub(super) fn start(&mut self, fault: Option<&str>) -> Result<(), String> {
        self.mourn()?;
        if self.daemon.is_some() {
            return Ok(());
        }
        let home = self.home.path();
        let mut command: Command = shielded(home, &self.prelude);
        command.args(crate::support::watch(&["--quiet"])).arg(&self.folder.root);
        command.env_remove("RUST_BACKTRACE");
        if let Some(fault) = fault {
            command.env("CALLTRAIL_FAULT", fault);
        }
        let log = fs::OpenOptions::new().create(true).append(true).open(stderr_of(home)).unwrap();
        command.stderr(Stdio::from(log));
        self.is_armed = fault.is_some();
        (self.is_full, self.is_paused) = (false, false);
        match Daemon::launch(home, &mut command) {
            Ok(daemon) => self.daemon = Some(daemon),
            Err(_) if self.is_armed => self.deaths += 1,
            Err(status) => return Err(format!("the daemon does not start: {status}")),
        }
        Ok(())
    }

    pub(super) fn stop(&mut self) -> Result<(), String> {
        self.resume();
        let Some(daemon) = self.daemon.take() else { return Ok(()) };
        let began = Instant::now();
        let status = daemon.stop();
        if began.elapsed() > STOP_MAX {
            return Err(format!("took {:?} to stop", began.elapsed()));
        }
        if self.is_armed && !status.success() {
            self.deaths += 1;
            return Ok(());
        }
        if status.success() { Ok(()) } else { Err(format!("stopped with {status}")) }
    }

    pub(super) fn kill(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.kill();
            self.deaths += 1;
        }
    }

    /// Notices a daemon that died by itself.
    fn mourn(&mut self) -> Result<(), String> {
        let Some(status) = self.daemon.as_mut().and_then(Daemon::ended) else { return Ok(()) };
        self.daemon = None;
        self.deaths += 1;
        if !self.is_armed {
            return Err(format!("the daemon died: {status}"));
        }
        if status.success() {
            return Err("a daemon that broke down says that all is well".to_owned());
        }
        Ok(())
    }

    fn pause(&mut self) {
        if let Some(daemon) = &self.daemon {
            daemon.pause();
            self.is_paused = true;
        }
    }

    fn resume(&mut self) {
        if let Some(daemon) = &self.daemon {
            daemon.resume();
        }
        self.is_paused = false;
    }

    fn fill(&mut self, slack: u64) {
        let log = self.database().with_extension("duckdb.wal");
        let bytes = fs::metadata(log).map_or(0, |log| log.len());
        self.is_full = self.limit(Some(bytes + slack));
    }

    fn free(&mut self) {
        if self.is_full {
            self.limit(None);
            self.is_full = false;
        }
    }

    /// How far the daemon's files may grow; false if there is none.
    fn limit(&self, bytes: Option<u64>) -> bool {
        let Some(daemon) = &self.daemon else { return false };
        let pid = i32::try_from(daemon.pid()).ok().and_then(Pid::from_raw);
        prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).is_ok()
    }

    pub(super) fn await_that(
        &mut self,
        what: &str,
        mut is_true: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), String> {
        let began = Instant::now();
        loop {
            self.start(None)?;
            if is_true(self) {
                return Ok(());
            }
            if began.elapsed() > WAIT_MAX {
                return Err(format!("waited in vain for {what}"));
            }
            std::thread::sleep(POLL_EVERY);
        }
    }

    fn write_config(&self) {
        let folder = self.home.path().join("config/calltrail");
        fs::create_dir_all(&folder).unwrap();
        let tail = "[tail]\nline_bytes_max = \"64KiB\"\nscan_secs = 1\n";
        let mail = self.sink.as_ref().map_or_else(String::new, |sink| {
            format!(
                "[web]\nbase_url = \"http://127.0.0.1:7700\"\n\
                 [mail]\nfrom = \"calltrail@example.com\"\nto = [\"oncall@example.com\"]\n\
                 [mail.smtp]\nhost = \"127.0.0.1\"\nport = {}\nsecurity = \"plain\"\n",
                sink.port
            )
        });
        fs::write(folder.join("config.toml"), format!("{tail}{mail}")).unwrap();
    }

    fn stderr(&self) -> String {
        fs::read_to_string(stderr_of(self.home.path())).unwrap_or_default()
    }

    /// The end of what the daemons said.
    fn last_words(&self) -> String {
        let text = self.stderr();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }
}

/// A database that has seen an empty folder: cheaper to copy than to make.
pub(super) struct Seen(tempfile::TempDir);

impl Seen {
    pub(super) fn make() -> Self {
        let home = tempfile::tempdir().unwrap();
        let logs = home.path().join("logs");
        fs::create_dir(&logs).unwrap();
        // A folder without any log would be a mistake to tell of.
        fs::write(logs.join("blank.jsonl"), "\n").unwrap();
        let mut scan = calltrail(home.path());
        scan.arg("scan").arg(&logs).arg("--db").arg(home.path().join("seen.duckdb"));
        let done = scan.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Self(home)
    }

    fn copy_to(&self, database: &Path) {
        fs::create_dir_all(database.parent().unwrap()).unwrap();
        fs::copy(self.0.path().join("seen.duckdb"), database).unwrap();
    }
}

/// Whether everything has to be read before the step is taken.
fn is_quiet(step: Step) -> bool {
    match step {
        Step::CopyTruncate { quiet, .. }
        | Step::Delete { quiet, .. }
        | Step::Recreate { quiet, .. }
        | Step::RewriteShorter { quiet, .. }
        | Step::RewriteLonger { quiet, .. }
        | Step::Hole { quiet, .. } => quiet,
        _ => false,
    }
}

fn stderr_of(home: &Path) -> PathBuf {
    home.join("stderr")
}

/// Tells whoever repeats one run what happens.
pub(super) fn told(text: &str) {
    use std::io::Write as _;
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}
