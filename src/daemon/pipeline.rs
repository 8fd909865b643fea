//! One batch through all stages: read, join, detect, store. Everything here runs on the writer's thread.

mod absent;
mod again;
mod alerts;
mod clocks;
mod near;
mod own;
mod rules;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;

use super::care::{BATCH_LINES_MAX, Care, Tried};
use super::evidence::{Kept, Lines};
use super::facts::{self, Remembered};
use super::history::histories;
use super::intake::{Cut, Intake, Waits};
use crate::absence::Absence;
use crate::catalogue::Catalogue;
use crate::correlate::{Clocks, Correlator, Loaded, Need};
use crate::detect::{Engine, RuleSet};
use crate::dialects::Parser;
use crate::fault::{self, Point};
use crate::journal::{Break, Fact, Journal};
use crate::model::{
    AlertChange, AlertId, CallChange, EventKind, Micros, OutcomeClass, PathPattern, Record, Text,
};
use crate::notify::MailConfig;
use crate::store::{
    Batch, Decision, Delivery, Judged, OpenOptions, Position, Reader, Restored, Space, Store,
    StoreError, ToolName, ToolRow,
};
use crate::tail::{Cursor, ScanReport, SourceState, SourceStatus, Tail, TailConfig};

/// Lines of the first batch at most, and of any where the machine is slow: how long a batch takes shows only then.
const BATCH_LINES_FIRST: usize = 8_000;
const BATCH_LINES_MIN: usize = 1_000;
/// Batches that take longer become smaller: nothing else is answered meanwhile, and the order to stop waits.
const BATCH_TIME_MAX: Duration = Duration::from_secs(2);

/// How often what is loaded for a batch is loaded again with more around it.
pub(super) const WIDER_MAX: usize = 8;
/// Tools whose labels are stored for SQL; names made up beyond that have none there.
const TOOLS_MAX: usize = 100_000;
/// Batches after which absence is judged though more is to be read: it costs a look at the calls in their time.
const UNJUDGED_MAX: usize = 8;
/// Rounds without anything to store before the next look at the files: enough for an endless line of 4 TiB.
const EMPTY_ROUNDS_MAX: usize = 4096;

/// Everything a pipeline is built from, and built again from after a fault of the database.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) store: OpenOptions,
    pub(crate) tail: TailConfig,
    pub(crate) rules: Arc<RuleSet>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) clocks: Vec<(Text, i64)>,
    pub(crate) outcome_words: Vec<(String, OutcomeClass)>,
    /// What the paths of logs name.
    pub(crate) path_patterns: Vec<PathPattern>,
    /// True where nothing comes after what the files hold now.
    pub(crate) is_single_pass: bool,
    /// The journal beside the database; none for a database that is not kept.
    pub(crate) journal: Option<PathBuf>,
    /// After how long a log that was written to counts as silent; none: never.
    pub(crate) silence_micros: Option<i64>,
    /// None: nothing is mailed.
    pub(crate) mail: Option<Arc<MailConfig>>,
    /// What has to stay free on the database's disk, but no more than a share of a small one.
    pub(crate) free_bytes_min: u64,
}

pub(super) use again::Old;
use clocks::Rejoining;

pub(crate) struct Pipeline {
    store: Store,
    /// Where a damaged write-ahead log was put, if opening found one.
    set_aside: Option<PathBuf>,
    /// The batch in hand, while it is not stored.
    tried: Option<Tried>,
    reader: Reader,
    intake: Intake,
    correlator: Correlator,
    absence: Absence,
    /// How far absence is judged, as stored, and batches since it was last looked at.
    judged: Judged,
    unjudged: usize,
    engine: Engine,
    rules: Arc<RuleSet>,
    lines: Lines,
    kept: Kept,
    catalogue: Arc<Catalogue>,
    /// Tools whose labels are stored.
    tools: FxHashSet<ToolName>,
    mail: Option<Arc<MailConfig>>,
    journal: Option<Journal>,
    /// What the journal tells of alerts, until history is read.
    remembered: Remembered,
    /// Alerts put back of which only the journal tells.
    alerts_kept: u64,
    /// True until all that the logs held when the database was made is stored; an interruption does not end it.
    is_history_pending: bool,
    free_bytes_min: u64,
    /// True until the first look at the files since the start.
    is_first_look: bool,
    /// What an older database had read is read again: none of it is news, and nothing is mailed.
    is_again: bool,
    /// Lines of the next batch, at most.
    batch_lines_max: usize,
    /// A batch that takes longer is followed by smaller ones.
    batch_time_max: Duration,
    /// Rounds in a row that gave nothing to store though files hold more.
    empty_rounds: usize,
    rejoining: Rejoining,
}

/// What one batch did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    pub(crate) records: u64,
    pub(crate) rejects: u64,
    pub(crate) bytes: u64,
    /// Alerts that are new or changed.
    pub(crate) alerts: u64,
    /// The newest alert's number.
    pub(crate) seq: u64,
    /// Its line was set aside, since the database refused it.
    pub(crate) is_refused: bool,
}

/// Why a line that could not be stored is a reject.
const REFUSED: &str = "the database refused this line's record, so it is kept as a reject; please report it with what \
                       the daemon's log says";

impl Pipeline {
    pub(crate) fn open(setup: &Setup, now: Micros) -> Result<Self, StoreError> {
        let (store, set_aside) = Store::open_or_mend(&OpenOptions { now, ..setup.store.clone() })?;
        let positions = store.positions()?;
        let tail = tail(setup, &positions);
        let mut pipeline = Self::with(setup, store, tail, &positions, Restored::default(), now)?;
        pipeline.set_aside = set_aside;
        pipeline.notice_own(setup, now)?;
        Ok(pipeline)
    }

    /// Over a store that is open. `positions` are those that the tail goes on from, `old` what is known of an older
    /// database.
    fn with(
        setup: &Setup,
        mut store: Store,
        tail: Tail,
        positions: &[Position],
        old: Restored,
        now: Micros,
    ) -> Result<Self, StoreError> {
        let (journal, remembered) = match &setup.journal {
            Some(path) => {
                let (journal, remembered) = facts::open_journal(path, &mut store, old, now)?;
                (Some(journal), remembered)
            }
            None => (None, Remembered::default()),
        };
        let is_history_pending = store.is_history_pending()?;
        let tools = relabel(&mut store, &setup.catalogue)?;
        let parser = Parser::new(store.hash_key(), setup.outcome_words.clone())
            .with_paths(setup.path_patterns.clone());
        let clocks = Clocks::new(setup.clocks.iter().cloned());
        let engine = rules::engine(&store, &setup.rules, &setup.catalogue, now)?;
        Ok(Self {
            reader: store.reader(),
            intake: Intake::new(
                tail,
                parser,
                positions,
                Waits {
                    may_hold: !setup.is_single_pass,
                    silence_micros: setup.silence_micros.filter(|_| !setup.is_single_pass),
                },
            ),
            correlator: if store.is_empty()? {
                Correlator::new(clocks)
            } else {
                Correlator::resume(clocks, store.newest_record_at(now)?)
            },
            absence: absent::resume(&store)?,
            judged: store.judged()?,
            unjudged: 0,
            engine,
            rules: Arc::clone(&setup.rules),
            lines: Lines::default(),
            kept: Kept::default(),
            catalogue: Arc::clone(&setup.catalogue),
            tools: tools.into_iter().collect(),
            mail: setup.mail.clone(),
            journal,
            remembered: if is_history_pending { remembered } else { Remembered::default() },
            is_history_pending,
            alerts_kept: 0,
            free_bytes_min: setup.free_bytes_min,
            is_first_look: true,
            is_again: false,
            batch_lines_max: BATCH_LINES_FIRST,
            batch_time_max: if setup.is_single_pass { Duration::MAX } else { BATCH_TIME_MAX },
            empty_rounds: 0,
            rejoining: Rejoining::open(&store, setup.is_single_pass)?,
            store,
            set_aside: None,
            tried: None,
        })
    }

    /// Where opening put a damaged write-ahead log, if it found one.
    pub(crate) fn set_aside(&self) -> Option<&std::path::Path> {
        self.set_aside.as_deref()
    }

    /// The batch that was in hand when a step failed.
    pub(super) const fn tried(&self) -> Option<&Tried> {
        self.tried.as_ref()
    }

    pub(crate) fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Reads through this handle from now on: the one that others hold too.
    pub(crate) fn read_with(&mut self, reader: Reader) {
        self.reader = reader;
    }

    /// Where the database lies.
    pub(crate) fn path(&self) -> PathBuf {
        self.store.path().to_path_buf()
    }

    /// The number of the last stored batch.
    pub(crate) const fn seq(&self) -> u64 {
        self.store.seq()
    }

    /// Bytes that the files hold beyond what is stored.
    pub(crate) fn unread_bytes(&self) -> u64 {
        let unread = |status: &SourceStatus| status.size.saturating_sub(status.committed);
        let status = self.intake.status();
        status.iter().filter(|status| status.state != SourceState::Gone).map(unread).sum()
    }

    /// True while files hold complete lines that were not handed out.
    pub(crate) fn is_pending(&self) -> bool {
        self.intake.is_pending()
    }

    pub(crate) fn status(&self) -> Vec<SourceStatus> {
        self.intake.status()
    }

    /// What keeps files from being read, as (path, message).
    pub(crate) fn problems(&self) -> Vec<(String, String)> {
        self.intake.problems()
    }

    /// Looks at the files.
    pub(crate) fn look(&mut self, now: Micros) -> ScanReport {
        let is_history = self.is_history_pending && self.is_first_look;
        let report = self.intake.scan(now, is_history);
        self.is_first_look &= self.intake.is_deciding();
        report
    }

    /// Whether it takes more looks to know whose content some files hold.
    pub(crate) fn is_deciding(&self) -> bool {
        self.intake.is_deciding()
    }

    /// Reads the unterminated ends of files that nobody writes to any more.
    pub(crate) fn finish(&mut self, now: Micros) {
        self.intake.finish(now);
    }

    /// Takes the next batch through all stages; none when there is nothing to read.
    pub(crate) fn step(&mut self, now: Micros) -> Result<Option<Step>, StoreError> {
        self.careful_step(now, &Care::default())
    }

    /// As [`Pipeline::step`], as carefully as earlier faults make it. After an error, memory is ahead of the store: the
    /// pipeline is to be opened again.
    pub(super) fn careful_step(
        &mut self,
        now: Micros,
        care: &Care,
    ) -> Result<Option<Step>, StoreError> {
        let began = Instant::now();
        self.intake.be_fair(!self.is_history_pending && !self.is_again);
        let mut cut = self.intake.cut(self.batch_lines_max.min(care.lines_max()), now);
        if cut.is_empty() {
            if self.intake.commit(&cut) {
                // A file moved while it was read: the next look tells what became of it.
                return Ok(None);
            }
            // In the middle of a very long line there is nothing to store yet, and more to read.
            if self.intake.is_pending() && self.empty_rounds < EMPTY_ROUNDS_MAX {
                self.empty_rounds += 1;
                return Ok(Some(Step { seq: self.store.seq(), ..Step::default() }));
            }
            self.empty_rounds = 0;
            if let Some(step) = self.rejoin(true, now)? {
                return Ok(Some(step));
            }
            if let Some(alerts) = self.judge(now)? {
                return Ok(Some(Step { alerts, seq: self.store.seq(), ..Step::default() }));
            }
            let is_read = !self.is_again && !self.intake.is_deciding();
            if is_read && std::mem::take(&mut self.is_history_pending) {
                self.end_history(now)?;
            }
            return Ok(None);
        }
        self.empty_rounds = 0;
        self.rejoin(false, now)?;
        let tried = Tried::of(&cut);
        let is_refused = care.refuses(&tried);
        self.tried = Some(tried);
        if is_refused {
            self.intake.refuse(&mut cut, REFUSED);
        }
        let step = self.store_cut(&mut cut, now)?;
        self.tried = None;
        if self.unjudged >= UNJUDGED_MAX {
            self.judge(now)?;
        }
        self.pace(step.records + step.rejects, began.elapsed());
        Ok(Some(Step { is_refused, ..step }))
    }

    fn store_cut(&mut self, cut: &mut Cut, now: Micros) -> Result<Step, StoreError> {
        let outcome = {
            let loaded = self.load(&cut.records)?;
            self.know_clocks(&cut.records, &loaded)?;
            self.correlator.apply(&cut.records, loaded)
        };
        let mut calls = outcome.changes;
        self.recall_unwitnessed(&mut calls)?;
        self.put_notices(cut, &mut calls)?;
        let changes = self.detect(&calls)?;
        fault::at(Point::InStep)?;
        let mut batch = Batch {
            calls,
            merged: outcome.merged,
            clock_samples: outcome.clock_samples,
            clock_uses: outcome.clock_uses,
            ..Batch::default()
        };
        self.put_tools(&mut batch);
        let mut step = Step {
            records: cut.records.len() as u64,
            rejects: cut.rejects.len() as u64,
            bytes: cut.bytes,
            ..Step::default()
        };
        fill(&mut batch, cut);
        batch.judged = self.settled();
        self.store_batch(changes, now, &mut batch)?;
        self.note_absence(&batch);
        self.intake.commit(cut);
        step.alerts = (batch.alerts.len() + batch.retracted.len()) as u64;
        step.seq = self.store.seq();
        Ok(step)
    }

    /// Adds what became of the alerts, and stores the batch; the facts that outlive the database go into the journal
    /// first.
    fn store_batch(
        &mut self,
        changes: Vec<AlertChange>,
        now: Micros,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        batch.first_seen = self.engine.take_first_seen();
        let alerts = self.put_alerts(changes, now, batch)?;
        let first_seen = batch.first_seen.iter().cloned().map(Fact::FirstSeen);
        let facts: Vec<Fact> = first_seen.chain(alerts).collect();
        facts::write(self.journal.as_mut(), &mut self.store, now, &facts)?;
        self.store.commit(batch)
    }

    /// From now on all is news. What the journal tells of alerts is put back, now that those in the logs are stored.
    fn end_history(&mut self, now: Micros) -> Result<(), StoreError> {
        let remembered = std::mem::take(&mut self.remembered);
        self.alerts_kept += remembered.settle(&mut self.store, &self.rules, None, drop)?;
        self.store.end_history(now)
    }

    /// Alerts put back of which only the journal tells.
    pub(crate) const fn alerts_kept(&self) -> u64 {
        self.alerts_kept
    }

    /// Where the journal was changed or cut.
    pub(crate) fn journal_breaks(&self) -> &[Break] {
        self.journal.as_ref().map_or(&[], Journal::breaks)
    }

    /// Makes the next batch as large as the machine takes in a bearable time. What a batch reads again of the past
    /// costs less a line the larger it is, so that one for whose end nobody waits is as large as memory takes.
    fn pace(&mut self, lines: u64, took: Duration) {
        if took > self.batch_time_max {
            self.batch_lines_max = (self.batch_lines_max / 2).max(BATCH_LINES_MIN);
        } else if took < self.batch_time_max / 3 && lines >= self.batch_lines_max as u64 / 2 {
            // Twice the lines take twice the time, mostly: that leaves some room for those that take more.
            self.batch_lines_max = (self.batch_lines_max * 2).min(BATCH_LINES_MAX);
        }
    }

    /// Hands what reading showed about the logs to the rules, once each: after a restart it may be noticed again.
    fn put_notices(&self, cut: &mut Cut, calls: &mut Vec<CallChange>) -> Result<(), StoreError> {
        for event in std::mem::take(&mut cut.notices).into_events() {
            if !self.store.knows_event(&event)? {
                calls.push(CallChange { old: None, new: Some(Arc::new(event.to_call())) });
            }
        }
        Ok(())
    }

    /// What correlation has to see again before it can join these records.
    fn load(&self, records: &[Arc<Record>]) -> Result<Vec<Loaded>, StoreError> {
        let load = |need: Need| near::load(&self.store, need);
        let mut loaded: Vec<Loaded> = self
            .correlator
            .plan_proxies(records)
            .into_iter()
            .map(load)
            .collect::<Result<_, _>>()?;
        let mut open = self.correlator.plan_tools(records, &loaded);
        for round in 0..=WIDER_MAX {
            let mut wider = Vec::new();
            for found in near::load_all(&self.store, std::mem::take(&mut open))? {
                match self.correlator.widen(records, &found).filter(|_| round < WIDER_MAX) {
                    Some(need) => wider.push(need),
                    None => loaded.push(found),
                }
            }
            open = wider;
            if open.is_empty() {
                break;
            }
        }
        Ok(loaded)
    }

    fn detect(&mut self, changes: &[CallChange]) -> Result<Vec<AlertChange>, StoreError> {
        let needs = self.engine.plan(changes);
        let history = histories(&self.store, &self.rules, needs)?;
        Ok(self.engine.apply(changes, history))
    }

    /// Adds the labels of tools that were not called before.
    fn put_tools(&mut self, batch: &mut Batch) {
        let calls = batch.calls.iter().filter_map(|change| change.new.as_ref());
        for call in calls.filter(|call| call.kind == EventKind::Call) {
            let name = (call.server.clone(), Text::clone(&call.tool));
            if self.tools.len() < TOOLS_MAX && !self.tools.contains(&name) {
                self.tools.insert(name.clone());
                batch.tools.push(tool_row(&self.catalogue, name));
            }
        }
    }

    pub(crate) fn knows_alert(&self, id: AlertId) -> Result<bool, StoreError> {
        self.store.knows_alert(id)
    }

    pub(crate) fn decide(&mut self, decision: &Decision) -> Result<(), StoreError> {
        facts::decide(self.journal.as_mut(), &mut self.store, decision)
    }

    pub(crate) fn deliver(&mut self, delivery: &Delivery) -> Result<(), StoreError> {
        facts::deliver(self.journal.as_mut(), &mut self.store, delivery)
    }

    /// Bytes free on the database's disk, if that can be told.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        Space::of(self.store.path(), 0).ok().map(|space| space.free_bytes)
    }

    /// What is lacking on the disk, if something is. Where a checkpoint can give room back, and may, one is made first.
    pub(crate) fn lacks_room(&self, may_write: bool) -> Result<Option<Space>, StoreError> {
        let short = || {
            // A file system that cannot be asked says so when it is written to.
            let space = Space::of(self.store.path(), self.free_bytes_min).ok();
            space.filter(Space::is_short)
        };
        if may_write && short().is_some_and(|space| space.can_checkpoint()) {
            self.store.checkpoint()?;
        }
        Ok(short())
    }

    /// For idle moments and a clean stop.
    pub(crate) fn rest(&mut self) -> Result<(), StoreError> {
        self.rest_absence()?;
        self.store.checkpoint()
    }
}

fn tail(setup: &Setup, positions: &[Position]) -> Tail {
    let next = positions.last().map_or(1, |position| position.generation + 1);
    Tail::new(setup.tail.clone(), positions.iter().map(cursor).collect(), next)
}

/// Writes the labels of every tool that was called anew; returns the tools.
fn relabel(store: &mut Store, catalogue: &Catalogue) -> Result<Vec<ToolName>, StoreError> {
    let tools = store.tools_called()?;
    let rows: Vec<ToolRow> = tools.iter().map(|name| tool_row(catalogue, name.clone())).collect();
    store.relabel(&rows)?;
    Ok(tools)
}

fn tool_row(catalogue: &Catalogue, (server, tool): ToolName) -> ToolRow {
    let labels = catalogue.labels(server.as_deref(), &tool);
    ToolRow { server, tool, labels }
}

/// Moves what was read into the batch; the cursors stay, to be told to the tail once it is stored.
fn fill(batch: &mut Batch, cut: &mut Cut) {
    batch.records = std::mem::take(&mut cut.records);
    batch.rejects = std::mem::take(&mut cut.rejects);
    batch.gaps = std::mem::take(&mut cut.gaps);
    batch.positions = std::mem::take(&mut cut.positions);
}

fn cursor(position: &Position) -> Cursor {
    let hash = |bytes: &[u8]| bytes.try_into().unwrap_or_default();
    Cursor {
        generation: position.generation,
        stream: position.stream.clone(),
        path: PathBuf::from(&position.path),
        dev: position.dev,
        inode: position.inode,
        offset: position.offset,
        head_len: position.head_len,
        head_hash: hash(&position.head_hash),
        tail_len: position.tail_len,
        tail_hash: hash(&position.tail_hash),
        state: SourceState::from_word(&position.state).unwrap_or(SourceState::Live),
        size: position.size,
    }
}
