//! Rule files that change while the daemon runs: checked and taken over between two batches, or refused with those read
//! before kept in force.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::clock::now;
use super::drive::Driver;
use super::pipeline::Pipeline;
use super::rule_folder::{Fingerprint, marked};
use super::rulebook::{RuleSource, Rulebook, RulesError};
use crate::detect::RuleCost;
use crate::store::StoreError;
use crate::untrusted::display_untrusted;
use crate::web::{RuleLoad, RulesShown};

mod shown;
mod told;

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
pub(crate) type Reread = Box<dyn Fn() -> Result<RuleSource, String> + Send>;

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
        Ok(Self { source, book, read, seen, looked_at, retry: None, shown, settings: None })
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

    /// Looks, if it is time to.
    fn look(&mut self) -> Change {
        let is_fixed = self.source.folder.is_none() && self.settings.is_none();
        if is_fixed || self.looked_at.elapsed() < LOOK_EVERY {
            return Change::None;
        }
        self.looked_at = Instant::now();
        self.look_now()
    }

    fn look_now(&mut self) -> Change {
        let now = self.fingerprint();
        let is_quiet = now == self.seen;
        self.seen.clone_from(&now);
        if !is_quiet {
            return Change::None;
        }
        let is_changed = now != self.read;
        if !is_changed && !self.retry.as_mut().is_some_and(Retry::is_due) {
            return Change::None;
        }
        self.read = now;
        let loaded = self.reload();
        let may_pass = loaded.as_ref().is_err_and(RulesError::may_pass);
        let before = self.retry.filter(|_| !is_changed);
        self.retry = may_pass.then(|| Retry::after(before));
        match loaded {
            Ok(book) => Change::Taken(self.take(book)),
            Err(error) => {
                self.shown.send_modify(|shown| shown.refused = Some(error.to_string()));
                Change::Refused(self.refused(&error))
            }
        }
    }

    /// Takes over what was read, and says what is different, if anything is. Where no rule is, those that were compiled
    /// before stay: with others the engine would start anew.
    fn take(&mut self, mut book: Rulebook) -> Option<String> {
        let was_refused = self.shown.send_if_modified(|shown| shown.refused.take().is_some());
        let difference = told::difference(&self.book, &book);
        let doubts = told::doubts(&self.book, &book);
        if difference.is_some() {
            self.shown.send_replace(shown(&book));
        } else {
            book.rules = Arc::clone(&self.book.rules);
            if book.entries != self.book.entries {
                let rules = shown(&book).rules;
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

    /// Reads the rules again, from where the configuration now says that they are.
    fn reload(&mut self) -> Result<Rulebook, RulesError> {
        if let Some(settings) = &self.settings {
            let source = (settings.reread)().map_err(RulesError::Configuration)?;
            if source != self.source {
                self.source = source;
                // Looked at before it is read, so that what changes meanwhile is seen as a change.
                self.read = self.fingerprint();
                self.seen = self.read.clone();
            }
        }
        self.source.load()
    }

    /// For a banner and the log: a sentence, and a line for each of the first problems.
    fn refused(&self, error: &RulesError) -> String {
        let (problems, told) = match error {
            RulesError::Configuration(_) => {
                return format!(
                    "The configuration was changed and cannot be used, so the rules read before stay in force:\n{error}"
                );
            }
            RulesError::Folder { .. } => (&[][..], error.to_string()),
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
            retry: None,
            shown: watch::Sender::new(RulesShown::default()),
            settings: None,
        }
    }
}

#[cfg(test)]
mod tests;
