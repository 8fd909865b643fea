//! Rule files that change while the daemon runs: checked and taken over between two batches, or refused with those read
//! before kept in force.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::clock::now;
use super::drive::Driver;
use super::pipeline::Pipeline;
use super::rulebook::{Fingerprint, Origin, RuleEntry, RuleSource, Rulebook, RulesError, marked};
use crate::detect::{Rule, RuleCost};
use crate::store::StoreError;
use crate::web::{RuleLoad, RuleShown, RulesShown};

/// How often the folder is looked at. A change is taken up when two looks in a row have seen the same, so that files
/// that belong together, or are being written, are read together and whole.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Problems that a banner names; `rules check` tells them all.
const PROBLEMS_TOLD_MAX: usize = 3;

/// Keeps an eye on the files that the rules come from.
pub(crate) struct Keeper {
    source: RuleSource,
    book: Rulebook,
    /// The folder as it was read last, and as it was last looked at.
    read: Fingerprint,
    seen: Fingerprint,
    looked_at: Instant,
    /// The folder could not be read, which may pass without a change.
    is_unreadable: bool,
    shown: watch::Sender<RulesShown>,
    settings: Option<Settings>,
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
    Taken,
    Refused(String),
}

impl Keeper {
    /// Reads the rules, and tells pages about them from now on.
    pub(crate) fn start(source: RuleSource) -> Result<Self, RulesError> {
        // Looked at first, so that what changes while it is read is seen as a change.
        let read = source.fingerprint();
        let book = source.load()?;
        let shown = watch::Sender::new(shown(&book));
        let (seen, looked_at) = (read.clone(), Instant::now());
        let is_unreadable = false;
        Ok(Self { source, book, read, seen, looked_at, is_unreadable, shown, settings: None })
    }

    /// Keeps an eye on the configuration file as well: it may name another folder, or other rules that
    /// are switched off.
    pub(crate) fn follow(&mut self, file: PathBuf, reread: Reread) {
        self.settings = Some(Settings { file, reread });
        self.read = self.fingerprint();
        self.seen = self.read.clone();
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

    fn look(&mut self) -> Change {
        let is_fixed = self.source.folder.is_none() && self.settings.is_none();
        if is_fixed || self.looked_at.elapsed() < LOOK_EVERY {
            return Change::None;
        }
        self.looked_at = Instant::now();
        let now = self.fingerprint();
        let is_quiet = now == self.seen;
        self.seen.clone_from(&now);
        if !is_quiet || (now == self.read && !self.is_unreadable) {
            return Change::None;
        }
        self.read = now;
        let loaded = self.reload();
        self.is_unreadable = matches!(loaded, Err(RulesError::Folder { .. }));
        match loaded {
            Ok(book) => {
                let is_same = book.entries == self.book.entries;
                self.shown.send_if_modified(|shown| shown.refused.take().is_some());
                if is_same {
                    return Change::Taken;
                }
                self.shown.send_replace(shown(&book));
                self.book = book;
                Change::Taken
            }
            Err(error) => {
                self.shown.send_modify(|shown| shown.refused = Some(error.to_string()));
                Change::Refused(self.refused(&error))
            }
        }
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

    /// One paragraph for a banner and the log.
    fn refused(&self, error: &RulesError) -> String {
        let folder = self.source.folder.as_deref().unwrap_or_else(|| std::path::Path::new(""));
        let told = match error {
            RulesError::Problems(problems) => {
                let first: Vec<String> =
                    problems.iter().take(PROBLEMS_TOLD_MAX).map(ToString::to_string).collect();
                let more = problems.len().saturating_sub(PROBLEMS_TOLD_MAX);
                let more = if more > 0 { format!("; and {more} more") } else { String::new() };
                format!("{}{more}", first.join("; "))
            }
            error => error.to_string(),
        };
        if matches!(error, RulesError::Configuration(_)) {
            return format!(
                "The configuration was changed and cannot be used, so the rules read before stay in force: {told}"
            );
        }
        format!(
            "The changed rules in {} are refused, and those read before stay in force: {told} \
             (`calltrail rules check` tells everything that is wrong).",
            folder.display()
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

impl Driver {
    /// Takes changed rules over, or says why not. To be asked between two batches.
    pub(super) fn heed_rules(&mut self, pipeline: &mut Pipeline) -> Result<(), StoreError> {
        let refused = match self.rules.look() {
            Change::None => return Ok(()),
            Change::Refused(told) => Some(told),
            Change::Taken => None,
        };
        self.health.send_if_modified(|health| {
            let is_new = health.rules_refused != refused;
            if let Some(told) = refused.as_ref().filter(|_| is_new) {
                tracing::error!("{told}");
            }
            health.rules_refused = refused;
            is_new
        });
        let rules = &self.rules.book().rules;
        if Arc::ptr_eq(rules, &self.setup.rules) {
            return Ok(());
        }
        // First, so that a database that fails meanwhile is opened again with them.
        self.setup.rules = Arc::clone(rules);
        pipeline.take_rules(&self.setup.rules, now())?;
        tracing::warn!(rules = self.setup.rules.rules().len(), "changed rules were taken over");
        Ok(())
    }

    pub(super) fn tell_rule_costs(&self, pipeline: &Pipeline) {
        self.rules.tell_costs(pipeline.rule_costs());
    }
}

fn shown(book: &Rulebook) -> RulesShown {
    let rules = book.entries.iter().map(|entry| of_entry(entry, book.rule(&entry.name))).collect();
    RulesShown { rules: Arc::new(rules), ..RulesShown::default() }
}

fn of_entry(entry: &RuleEntry, rule: Option<&Rule>) -> RuleShown {
    let mut shown = RuleShown {
        name: entry.name.clone(),
        text: entry.text.clone(),
        origin: match &entry.origin {
            Origin::BuiltIn => "built in".to_owned(),
            Origin::Own(path) => path.display().to_string(),
            Origin::Replaced(path) => format!("{}, in the built-in one's place", path.display()),
        },
        is_disabled: entry.is_disabled,
        changes: entry.changes.clone(),
        ..RuleShown::default()
    };
    if let Some(rule) = rule {
        shown.title.clone_from(&rule.title);
        shown.level = Some(rule.level);
        shown.kind = rule.type_word();
        shown.group_by = rule.group_by().map(str::to_owned).collect();
        shown.count = rule.count_min();
        shown.timespan_micros = rule.timespan_micros();
        shown.description.clone_from(&rule.description);
        shown.why.clone_from(&rule.why);
        shown.falsepositives.clone_from(&rule.falsepositives);
        shown.tags = rule.tags.iter().map(ToString::to_string).collect();
        shown.references.clone_from(&rule.references);
        shown.status.clone_from(&rule.status);
        shown.cases = rule.cases().map(|(name, fires)| (name.to_owned(), fires)).collect();
    }
    shown
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
            is_unreadable: false,
            shown: watch::Sender::new(RulesShown::default()),
            settings: None,
        }
    }
}
