//! Rule files that change while the daemon runs: checked and taken over between two batches, or refused with those read
//! before kept in force.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::clock::now;
use super::drive::Driver;
use super::pipeline::Pipeline;
use super::rule_folder::{Fingerprint, marked};
use super::rulebook::{Origin, RuleEntry, RuleSource, Rulebook, RulesError};
use crate::detect::{CaseTold, Rule, RuleCost};
use crate::model::Dialect;
use crate::store::StoreError;
use crate::untrusted::display_untrusted;
use crate::web::{CaseShown, RuleLoad, RuleShown, RulesShown};

/// How often the folder is looked at. A change is taken up when two looks in a row have seen the same, so that files
/// that belong together, or are being written, are read together and whole.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The most looks between two attempts to read what cannot be read.
const RETRY_LOOKS_MAX: u32 = 60;
/// Problems that a banner names; `rules check` tells them all.
const PROBLEMS_TOLD_MAX: usize = 3;
/// Rules that the log names of each kind of change, and doubts that it tells.
const NAMES_TOLD_MAX: usize = 20;
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
        for doubt in doubts(&book) {
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

    /// Takes over what was read, and says what is different, if anything is.
    fn take(&mut self, book: Rulebook) -> Option<String> {
        let was_refused = self.shown.send_if_modified(|shown| shown.refused.take().is_some());
        if book.entries == self.book.entries {
            let number = book.rules.rules().len();
            return was_refused.then(|| {
                format!(
                    "The rule files are in order again, and the {number} rules in force are theirs."
                )
            });
        }
        let told = std::iter::once(difference(&self.book, &book)).chain(doubts(&book));
        let told = told.collect::<Vec<_>>().join("\n");
        self.shown.send_replace(shown(&book));
        self.book = book;
        Some(told)
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

/// What is different of the rules in force, in a sentence for the log.
fn difference(before: &Rulebook, after: &Rulebook) -> String {
    let of = |book: &Rulebook| -> BTreeMap<String, RuleEntry> {
        book.entries.iter().map(|entry| (entry.name.clone(), entry.clone())).collect()
    };
    let (before, now) = (of(before), of(after));
    let mut kinds: [(&str, Vec<&str>); 5] =
        ["added", "removed", "changed", "switched off", "switched on"]
            .map(|kind| (kind, Vec::new()));
    let mut tell = |kind: &str, name| {
        if let Some((_, names)) = kinds.iter_mut().find(|(known, _)| *known == kind) {
            names.push(name);
        }
    };
    for (name, entry) in &now {
        match before.get(name) {
            None => tell("added", &**name),
            Some(old) if old.is_disabled != entry.is_disabled => {
                tell(if entry.is_disabled { "switched off" } else { "switched on" }, name);
            }
            Some(old) if old != entry => tell("changed", name),
            Some(_) => {}
        }
    }
    before.keys().filter(|name| !now.contains_key(*name)).for_each(|name| tell("removed", name));
    let told = kinds.iter().filter(|(_, names)| !names.is_empty());
    let told: Vec<String> =
        told.map(|(kind, names)| format!("{kind}: {}", listed(names))).collect();
    format!(
        "Changed rules were taken over, and {} are in force from the next batch on ({}).",
        after.rules.rules().len(),
        told.join("; ")
    )
}

/// What is doubted of rules since the overrides changed them, a line each for the log. They are in force all the same.
fn doubts(book: &Rulebook) -> Vec<String> {
    let all = || book.entries.iter().flat_map(|entry| &entry.doubts);
    let mut lines: Vec<String> =
        all().take(NAMES_TOLD_MAX).map(|doubt| display_untrusted(doubt)).collect();
    let more = all().count().saturating_sub(NAMES_TOLD_MAX);
    if more > 0 {
        lines.push(format!(
            "and {more} more doubts; the rules page and `calltrail rules check` tell them all"
        ));
    }
    lines
}

fn listed(names: &[&str]) -> String {
    let first = names.iter().take(NAMES_TOLD_MAX).map(|name| display_untrusted(name));
    let first: Vec<String> = first.collect();
    let more = names.len().saturating_sub(NAMES_TOLD_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
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
        doubts: entry.doubts.clone(),
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
        shown.cases = rule.cases().map(case).collect();
    }
    shown
}

fn case(told: CaseTold<'_>) -> CaseShown {
    let dialects: Vec<&str> = told.dialects.into_iter().map(Dialect::as_str).collect();
    CaseShown { name: told.name.to_owned(), fires: told.fires, dialects: dialects.join(", ") }
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
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Mutex;

    use super::*;

    const RULE: &str =
        "title: Mine\nlogsource: {product: mcp}\ndetection:\n  s: {ran: no}\n  condition: s\n";

    fn source(folder: &Path) -> RuleSource {
        RuleSource { folder: Some(folder.to_path_buf()), disabled: Vec::new() }
    }

    /// Two looks: a change is taken up when both have seen the same.
    fn looked(keeper: &mut Keeper) -> Change {
        assert!(matches!(keeper.look_now(), Change::None));
        keeper.look_now()
    }

    fn taken(keeper: &mut Keeper) -> String {
        match looked(keeper) {
            Change::Taken(told) => told.unwrap_or_default(),
            Change::Refused(told) => panic!("refused: {told}"),
            Change::None => panic!("nothing was seen to change"),
        }
    }

    fn refused(keeper: &mut Keeper) -> String {
        match looked(keeper) {
            Change::Refused(told) => told,
            Change::Taken(_) | Change::None => panic!("nothing was refused"),
        }
    }

    #[test]
    fn changes_that_are_made_while_the_daemon_starts_are_taken_up() {
        let home = tempfile::tempdir().unwrap();
        let (rules, others) = (home.path().join("rules"), home.path().join("others"));
        fs::create_dir(&rules).unwrap();
        fs::create_dir(&others).unwrap();
        let config = home.path().join("config.toml");
        fs::write(&config, "").unwrap();
        let mut keeper = Keeper::start(source(&rules)).unwrap();
        // A rule that comes between the reading and the first look, and another folder that is named then.
        fs::write(rules.join("mine.yml"), RULE).unwrap();
        fs::write(others.join("other.yml"), RULE).unwrap();
        let named = Arc::new(Mutex::new(rules));
        let says = Arc::clone(&named);
        keeper.follow(config.clone(), Box::new(move || Ok(source(&says.lock().unwrap()))));
        assert!(taken(&mut keeper).contains("(added: mine)"));
        assert!(matches!(keeper.look_now(), Change::None));

        let mut keeper = Keeper::start(source(&named.lock().unwrap())).unwrap();
        *named.lock().unwrap() = others;
        let says = Arc::clone(&named);
        keeper.follow(config, Box::new(move || Ok(source(&says.lock().unwrap()))));
        assert!(taken(&mut keeper).contains("(added: other; removed: mine)"));
        assert!(matches!(keeper.look_now(), Change::None));
    }

    #[test]
    fn what_is_taken_over_is_told_by_name() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str| home.path().join(name);
        fs::write(file("a.yml"), RULE).unwrap();
        let mut keeper = Keeper::start(source(home.path())).unwrap();
        fs::write(file("a.yml"), RULE.replace("ran: no", "ran: yes")).unwrap();
        fs::write(file("b.yml"), RULE).unwrap();
        fs::write(file("overrides.toml"), "[call-burst]\ndisabled = true\n").unwrap();
        assert_eq!(
            taken(&mut keeper),
            "Changed rules were taken over, and 19 are in force from the next batch on (added: b; changed: a; \
             switched off: call-burst)."
        );
        fs::remove_file(file("overrides.toml")).unwrap();
        fs::remove_file(file("a.yml")).unwrap();
        let told = taken(&mut keeper);
        assert!(
            told.contains("19 are in force")
                && told.ends_with("(removed: a; switched on: call-burst)."),
            "{told}"
        );
    }

    #[test]
    fn what_overrides_make_doubtful_is_told_and_in_force() {
        let home = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::start(source(home.path())).unwrap();
        let overrides = "[rubber-stamp.numbers]\n\"ask_to_answer_ms|lt\" = 0\n";
        fs::write(home.path().join("overrides.toml"), overrides).unwrap();
        let told = taken(&mut keeper);
        let doubt = "overrides.toml:2:1: with this, `rubber-stamp` is in doubt: no call can fit";
        let mut lines = told.lines();
        assert!(
            lines.next().is_some_and(|line| line.ends_with("(changed: rubber-stamp).")),
            "{told}"
        );
        assert!(lines.next().is_some_and(|line| line.starts_with(doubt)), "{told}");
        assert_eq!(lines.next(), None);
        let doubts = |keeper: &Keeper| -> Vec<(String, String)> {
            let shown = keeper.shown().borrow().clone();
            let of = |rule: &RuleShown| (rule.name.clone(), rule.doubts.concat());
            let all = shown.rules.iter().map(of);
            all.filter(|(_, doubts)| !doubts.is_empty()).collect()
        };
        let shown = doubts(&keeper);
        assert!(
            matches!(&*shown, [(rule, told)] if rule == "rubber-stamp" && told.starts_with(doubt)),
            "{shown:?}"
        );
        assert!(keeper.shown().borrow().refused.is_none());
        fs::write(home.path().join("overrides.toml"), overrides.replace("= 0", "= 1")).unwrap();
        assert_eq!(taken(&mut keeper).lines().count(), 1);
        assert_eq!(doubts(&keeper), []);
    }

    /// Looks until something comes of it.
    fn looks(keeper: &mut Keeper) -> u32 {
        (1..=1000).find(|_| !matches!(keeper.look_now(), Change::None)).unwrap_or_default()
    }

    #[test]
    fn what_cannot_be_read_is_tried_less_and_less_often_until_something_changes() {
        let home = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::start(source(home.path())).unwrap();
        std::os::unix::fs::symlink(home.path().join("none"), home.path().join("a.yml")).unwrap();
        assert!(refused(&mut keeper).contains("cannot be read"));
        let waits: Vec<u32> = (0..8).map(|_| looks(&mut keeper)).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        fs::write(home.path().join("b.yml"), RULE).unwrap();
        assert!(refused(&mut keeper).contains("cannot be read"));
        assert_eq!([looks(&mut keeper), looks(&mut keeper)], [1, 2]);
        fs::remove_file(home.path().join("a.yml")).unwrap();
        assert!(taken(&mut keeper).contains("(added: b)"));
        assert_eq!(looks(&mut keeper), 0);
    }

    #[test]
    fn a_configuration_that_cannot_be_read_for_a_while_is_read_again() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config.toml");
        fs::write(&config, "").unwrap();
        let folder = home.path().join("rules");
        fs::create_dir(&folder).unwrap();
        let mut keeper = Keeper::start(source(&folder)).unwrap();
        let left = Mutex::new(2_u32);
        let reread = move || {
            let mut left = left.lock().unwrap();
            *left = left.saturating_sub(1);
            if *left > 0 { Err("too many open files".to_owned()) } else { Ok(source(&folder)) }
        };
        keeper.follow(config, Box::new(reread));
        assert!(refused(&mut keeper).contains("too many open files"));
        assert!(matches!(keeper.look_now(), Change::Taken(_)));
        assert!(keeper.shown().borrow().refused.is_none());
        assert_eq!(looks(&mut keeper), 0);
    }

    #[test]
    fn files_that_are_repaired_are_told_though_the_rules_are_the_same() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a.yml");
        fs::write(&file, RULE).unwrap();
        let mut keeper = Keeper::start(source(home.path())).unwrap();
        fs::write(&file, "title: [\n").unwrap();
        let told = refused(&mut keeper);
        let mut lines = told.lines();
        assert!(lines.next().is_some_and(|line| line.contains("are refused")), "{told}");
        assert!(lines.next().is_some_and(|line| line.starts_with("a.yml:")), "{told}");
        assert!(keeper.shown().borrow().refused.is_some());
        fs::write(&file, RULE).unwrap();
        assert!(
            taken(&mut keeper).starts_with("The rule files are in order again, and the 19 rules")
        );
        assert!(keeper.shown().borrow().refused.is_none());
    }

    #[test]
    fn one_broken_file_hides_nothing_that_is_wrong_with_the_others() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str| home.path().join(name);
        fs::write(file("broken.yml"), "title: [\n").unwrap();
        fs::write(file("latin.yml"), b"title: \xe9\n").unwrap();
        fs::write(file("wrong.yml"), RULE.replace("ran", "rann")).unwrap();
        let overrides =
            "[broken]\ncount = 1\n[latin]\n[call-brust]\n[call-burst]\ncuont = 2\nlevel = \n";
        fs::write(file("overrides.toml"), overrides).unwrap();
        let wanted = RuleSource { disabled: vec!["no-such".to_owned()], ..source(home.path()) };
        let told = wanted.load().unwrap_err().to_string();
        let starts: Vec<&str> =
            told.lines().skip(1).filter_map(|line| line.split(": ").next()).collect();
        assert!(told.contains("no-such"), "{told}");
        let expected = [
            "broken.yml:1:8",
            "latin.yml:1:8",
            "overrides.toml:4:2",
            "overrides.toml:6:1",
            "overrides.toml:7:9",
            "wrong.yml:4:7",
        ];
        assert_eq!(starts, expected, "{told}");
    }
}
