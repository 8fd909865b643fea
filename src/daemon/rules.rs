//! Rule files that change while the daemon runs: checked beside its work and taken over between two batches, or refused
//! with those read before kept in force.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::clock::now;
use super::drive::Driver;
use super::pipeline::Pipeline;
use super::rule_folder::{Fingerprint, marked};
use super::rulebook::{RuleSource, Rulebook, RulesError};
use crate::detect::RuleCost;
use crate::store::StoreError;
use crate::untrusted::display_untrusted;
use crate::web::{RuleLoad, RulesShown};

mod reading;
mod shown;
mod told;

use reading::{Loaded, Outcome, Reading};
use shown::shown;

/// How often the folder is looked at. A change is taken up when two looks in a row have seen the same, so that files
/// that belong together, or are being written, are read together and whole.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The most looks between two attempts to read what cannot be read.
const RETRY_LOOKS_MAX: u32 = 60;
/// Problems that a banner names; `rules check` tells them all.
const PROBLEMS_TOLD_MAX: usize = 3;
/// What a file looks like of which it is not known what it held when it was read.
const UNKNOWN: [i64; 6] = [-1; 6];

/// Keeps an eye on the files that the rules come from.
pub(crate) struct Keeper {
    source: RuleSource,
    book: Rulebook,
    /// The folder as it was read last, and as it was last looked at.
    read: Fingerprint,
    seen: Fingerprint,
    looked_at: Instant,
    /// What was seen to change is being read.
    reading: Option<Reading>,
    /// Who waits for the end of that.
    awake: Option<Arc<Notify>>,
    /// Something could not be read, which may pass without a change.
    retry: Option<Retry>,
    shown: watch::Sender<RulesShown>,
    settings: Option<Settings>,
}

/// When to read again what could not be read though nothing is seen to change: everything is compiled again each time,
/// so less and less often.
#[derive(Clone, Copy)]
struct Retry {
    /// Looks between the last time and the next.
    every: u32,
    /// Those that are left.
    left: u32,
}

/// The configuration's word on where rules come from.
struct Settings {
    file: PathBuf,
    reread: Reread,
}

/// Reads the configuration again; the error says what is wrong with it.
pub(crate) type Reread = Arc<dyn Fn() -> Result<RuleSource, String> + Send + Sync>;

/// What became of a change.
enum Change {
    /// Nothing that matters.
    None,
    /// The files are good. The text says what is different, if anything is.
    Taken(Option<String>),
    Refused(String),
}

impl Keeper {
    /// Reads the rules, and tells pages about them from now on.
    pub(crate) fn start(source: RuleSource) -> Result<Self, RulesError> {
        // Looked at first, so that what changes while it is read is seen as a change.
        let read = source.fingerprint();
        let book = source.load()?;
        for doubt in told::doubts(&Rulebook::default(), &book) {
            tracing::warn!("{doubt}");
        }
        let shown = watch::Sender::new(shown(&book));
        let (seen, looked_at) = (read.clone(), Instant::now());
        let (reading, awake, retry, settings) = (None, None, None, None);
        Ok(Self { source, book, read, seen, looked_at, reading, awake, retry, shown, settings })
    }

    /// Tells `awake` when changed rules are read and can be taken over.
    pub(super) fn wake(&mut self, awake: Arc<Notify>) {
        self.awake = Some(awake);
    }

    /// Keeps an eye on the configuration file as well: it may name another folder, or other rules that
    /// are switched off.
    ///
    /// What the file looked like when it was read is not known here: it is read again with the first look, so that a
    /// change that was made while the daemon started is not missed.
    pub(crate) fn follow(&mut self, file: PathBuf, reread: Reread) {
        self.read.push((file.clone(), UNKNOWN));
        self.seen = self.read.clone();
        self.settings = Some(Settings { file, reread });
    }

    fn fingerprint(&self) -> Fingerprint {
        let settings = self.settings.iter().map(|settings| marked(settings.file.clone()));
        self.source.fingerprint().into_iter().chain(settings).collect()
    }

    /// The rules as they were read last.
    pub(crate) const fn book(&self) -> &Rulebook {
        &self.book
    }

    /// What pages show of the rules.
    pub(super) fn shown(&self) -> watch::Receiver<RulesShown> {
        self.shown.subscribe()
    }

    /// Looks, if it is time to, and tells what became of a change that was seen before.
    fn look(&mut self) -> Change {
        let change = self.ended();
        let is_fixed = self.source.folder.is_none() && self.settings.is_none();
        if !is_fixed && self.looked_at.elapsed() >= LOOK_EVERY {
            self.looked_at = Instant::now();
            self.look_now();
        }
        change
    }

    /// Begins to read what was changed, one reading at a time.
    fn look_now(&mut self) {
        let now = self.fingerprint();
        let is_quiet = now == self.seen;
        self.seen.clone_from(&now);
        if !is_quiet || self.reading.is_some() {
            return;
        }
        let is_changed = now != self.read;
        if !is_changed && !self.retry.as_mut().is_some_and(Retry::is_due) {
            return;
        }
        let (source, awake) = (self.source.clone(), self.awake.clone());
        self.reading = Reading::begin(source, now, self.settings.as_ref(), is_changed, awake);
    }

    /// What became of what was read, if that is at its end.
    fn ended(&mut self) -> Change {
        let Some(reading) = &mut self.reading else { return Change::None };
        let Some(outcome) = reading.ended() else { return Change::None };
        let is_of_change = reading.is_of_change;
        self.reading = None;
        self.conclude(outcome, is_of_change)
    }

    fn conclude(&mut self, outcome: Outcome, is_of_change: bool) -> Change {
        (self.source, self.read) = (outcome.source, outcome.looked);
        if self.fingerprint() != self.read {
            // Some of it may be of before, and some of after: once it is quiet, all is read again, also where it looks
            // as before by then.
            self.read.push((PathBuf::new(), UNKNOWN));
            return Change::None;
        }
        let loaded = outcome.loaded;
        let may_pass = loaded.as_ref().is_err_and(RulesError::may_pass);
        let before = self.retry.filter(|_| !is_of_change);
        self.retry = may_pass.then(|| Retry::after(before));
        match loaded {
            Ok(loaded) => Change::Taken(self.take(loaded)),
            Err(error) => {
                self.shown.send_modify(|shown| shown.refused = Some(error.to_string()));
                Change::Refused(self.refused(&error))
            }
        }
    }

    /// Takes over what was read, and says what is different, if anything is. Where no rule is, those that were compiled
    /// before stay: with others the engine would start anew.
    fn take(&mut self, loaded: Loaded) -> Option<String> {
        let Loaded { mut book, shown: rules } = loaded;
        let was_refused = self.shown.send_if_modified(|shown| shown.refused.take().is_some());
        let difference = told::difference(&self.book, &book);
        let doubts = told::doubts(&self.book, &book);
        if difference.is_some() {
            self.shown.send_replace(RulesShown { rules, ..RulesShown::default() });
        } else {
            book.rules = Arc::clone(&self.book.rules);
            if book.entries != self.book.entries {
                self.shown.send_modify(|shown| shown.rules = rules);
            }
        }
        self.book = book;
        let number = self.book.rules.rules().len();
        let is_in_order = || {
            format!(
                "The rule files are in order again, and the {number} rules in force are theirs."
            )
        };
        let first = difference.or_else(|| was_refused.then(is_in_order));
        let lines: Vec<String> = first.into_iter().chain(doubts).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// For a banner and the log: a sentence, and a line for each of the first problems.
    fn refused(&self, error: &RulesError) -> String {
        let (problems, told) = match error {
            RulesError::Configuration(_) => {
                return format!(
                    "The configuration was changed and cannot be used, so the rules read before stay in force:\n{error}"
                );
            }
            RulesError::Folder { .. } | RulesError::BrokeOff => (&[][..], error.to_string()),
            RulesError::Unknown { names, problems } => (
                &**problems,
                format!("rules.disabled names {}, and there is no such rule", names.join(", ")),
            ),
            RulesError::Problems { problems, .. } => (&**problems, String::new()),
        };
        let own = std::iter::once(told).filter(|told| !told.is_empty());
        let first = problems.iter().take(PROBLEMS_TOLD_MAX).map(ToString::to_string);
        let mut lines: Vec<String> = own.chain(first).collect();
        let more = problems.len().saturating_sub(PROBLEMS_TOLD_MAX);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        let folder = self.source.folder.as_deref().unwrap_or_else(|| std::path::Path::new(""));
        format!(
            "The changed rules in {} are refused, and those read before stay in force \
             (`calltrail rules check` tells everything that is wrong):\n{}",
            display_untrusted(&folder.to_string_lossy()),
            lines.join("\n")
        )
    }

    /// Tells pages what the rules cost by now.
    fn tell_costs(&self, costs: Vec<RuleCost>) {
        let load = |cost: RuleCost| RuleLoad {
            looked_at: cost.looked_at,
            fitting: cost.fitting,
            nanos: cost.nanos,
            groups: cost.groups,
            held: cost.held,
            let_go: cost.let_go,
        };
        let names = self.book.rules.rules().iter().map(|rule| rule.name.to_string());
        let loads = Arc::new(names.zip(costs.into_iter().map(load)).collect());
        self.shown.send_modify(|shown| shown.loads = loads);
    }
}

impl Retry {
    /// The first, or one that waits twice as long as that before.
    fn after(before: Option<Self>) -> Self {
        let every = before.map_or(1, |before| RETRY_LOOKS_MAX.min(before.every * 2));
        Self { every, left: every }
    }

    /// To be asked at every look.
    const fn is_due(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }
}

impl Driver {
    /// Takes changed rules over, or says why not. To be asked between two batches.
    pub(super) fn heed_rules(&mut self, pipeline: &mut Pipeline) -> Result<(), StoreError> {
        let (refused, taken) = match self.rules.look() {
            Change::None => return Ok(()),
            Change::Refused(told) => (Some(told), None),
            Change::Taken(told) => (None, told),
        };
        self.health.send_if_modified(|health| {
            let is_new = health.rules_refused != refused;
            if let Some(told) = refused.as_ref().filter(|_| is_new) {
                // A line each, as on the pages: a log has no other line breaks.
                for line in told.lines() {
                    tracing::error!("{}", display_untrusted(line));
                }
            }
            health.rules_refused = refused;
            is_new
        });
        for line in taken.iter().flat_map(|told| told.lines()) {
            tracing::warn!("{line}");
        }
        let rules = &self.rules.book().rules;
        if Arc::ptr_eq(rules, &self.setup.rules) {
            return Ok(());
        }
        // First, so that a database that fails meanwhile is opened again with them.
        self.setup.rules = Arc::clone(rules);
        pipeline.take_rules(&self.setup.rules, now())
    }

    pub(super) fn tell_rule_costs(&self, pipeline: &Pipeline) {
        self.rules.tell_costs(pipeline.rule_costs());
    }
}

#[cfg(test)]
impl Keeper {
    /// Nothing to keep an eye on.
    pub(super) fn idle() -> Self {
        Self {
            source: RuleSource::default(),
            book: Rulebook::default(),
            read: Fingerprint::new(),
            seen: Fingerprint::new(),
            looked_at: Instant::now(),
            reading: None,
            awake: None,
            retry: None,
            shown: watch::Sender::new(RulesShown::default()),
            settings: None,
        }
    }
}

#[cfg(test)]
mod tests;
