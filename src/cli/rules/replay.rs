//! `calltrail rules replay`: what rules would have found in what is stored. Nothing is written.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use rustc_hash::FxHashMap;

use super::super::access::Access;
use super::super::alerts::{told, unexpected};
use super::super::failure::Failure;
use super::super::output::{Format, print_alerts};
use super::super::words::{count, parse_moment};
use super::super::{Common, setup};
use crate::daemon::control::{Ask, Tell};
use crate::daemon::{OVERRIDES, RuleFolder, RulesError};
use crate::detect::{Engine, History, HistoryNeed, KnownAlert, Rule, RuleSet};
use crate::model::{
    Alert, AlertChange, AlertId, AlertState, AlertView, Call, CallChange, Evidence, EvidenceView,
    Micros, Text, WitnessLine,
};
use crate::store::{After, CallPage};
use crate::untrusted::display_untrusted;

/// Calls in memory at a time.
const PAGE_CALLS: usize = 10_000;
/// An alert takes no further match a day after its first: it is printed then.
const SETTLED_MICROS: i64 = 25 * Micros::HOUR;
/// Alerts held until they are settled; over it, the earliest half is printed as it stands.
const HELD_MAX: usize = 2_000;

#[derive(clap::Args, Debug)]
pub(in crate::cli) struct Args {
    /// A rule file, or the name of a rule in force; can be given several times; without any, all rules in force
    #[arg(long, value_name = "FILE|NAME")]
    rule: Vec<String>,
    /// Only alerts that were going on then or later: a time, or how long ago, such as 7d
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    from: Option<Micros>,
    /// Only calls up to then
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    to: Option<Micros>,
}

pub(super) fn run(args: &Args, common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    if let Some((from, to)) = args.from.zip(args.to)
        && from > to
    {
        return Err(Failure::usage(anyhow!("--from is later than --to: no call is between them")));
    }
    let config = common.config()?;
    let Tried { rules, changes } = tried(args, common)?;
    let catalogue = setup::catalogue(&config)?;
    let labels = move |call: &Call| catalogue.labels(call.server.as_deref(), &call.tool);
    let mut replay = Replay {
        access: Access::open(&config)?,
        engine: Engine::new(Arc::clone(&rules), Arc::new(labels)),
        alerts: FxHashMap::default(),
        held: 0,
        calls: 0,
        from: args.from,
        format: common.output,
        paths: FxHashMap::default(),
        rules,
    };
    replay.run(args.to, out)?;
    if common.output == Format::Human {
        replay.summary(out)?;
        for change in changes {
            writeln!(out, "{change}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The rules to try.
struct Tried {
    rules: Arc<RuleSet>,
    /// What the overrides change of rules from files, a sentence each.
    changes: Vec<String>,
}

fn tried(args: &Args, common: &Common) -> Result<Tried, Failure> {
    let config = common.config()?;
    let book = setup::rulebook(&config)?;
    if args.rule.is_empty() {
        return Ok(Tried { rules: book.rules, changes: Vec::new() });
    }
    let mut files: Vec<(String, String)> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for rule in &args.rule {
        let path = Path::new(rule);
        if path.is_file() {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::no_input(anyhow!("{}: {error}", path.display())))?;
            files.push((format!("{stem}.yml"), text));
        } else if book.rules.rules().iter().any(|known| *known.name == **rule) {
            names.push(rule);
        } else {
            return Err(Failure::no_input(anyhow!(
                "{rule} is neither a file nor the name of a rule in force; `calltrail rules list` names those"
            )));
        }
    }
    if files.is_empty() {
        let mut rules = Arc::try_unwrap(book.rules).unwrap_or_default();
        rules.keep(|rule| names.contains(&&*rule.name));
        return Ok(Tried { rules: Arc::new(rules), changes: Vec::new() });
    }
    if !names.is_empty() {
        return Err(Failure::usage(anyhow!("name either files or rules in force, not both")));
    }
    let texts: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    let refused = |problems| setup::refused(RulesError::of(problems));
    let mut rules = RuleSet::compile(&texts).map_err(refused)?;
    let folder = config.rules.folder.as_deref().map(RuleFolder::read).transpose();
    let (overrides, _) = folder.map_err(setup::refused)?.unwrap_or_default().overrides();
    let others: Vec<&str> = book.entries.iter().map(|entry| &*entry.name).collect();
    // One that is switched off is tried all the same: it was named.
    let problems = rules.change(&overrides, &others);
    if !problems.is_empty() {
        return Err(refused(problems));
    }
    let changes = rules.rules().iter().map(|rule| (rule, overrides.words(&rule.name)));
    let changes = changes.filter(|(_, words)| !words.is_empty()).map(|(rule, words)| {
        let words = display_untrusted(&words.join("; "));
        format!("{} was tried as {OVERRIDES} changes it: {words}.", rule.name)
    });
    Ok(Tried { changes: changes.collect(), rules: Arc::new(rules) })
}

struct Replay {
    access: Access,
    engine: Engine,
    rules: Arc<RuleSet>,
    /// Every alert so far: what is needed to know it again, and all of it until it is printed.
    alerts: FxHashMap<AlertId, Told>,
    /// Those that are not printed.
    held: usize,
    calls: u64,
    from: Option<Micros>,
    format: Format,
    /// Where each generation's file lies.
    paths: FxHashMap<u64, String>,
}

struct Told {
    rule: Text,
    group: Vec<(Text, Text)>,
    known: KnownAlert,
    alert: Option<Box<Alert>>,
}

impl Replay {
    fn run(&mut self, to: Option<Micros>, out: &mut impl Write) -> Result<(), Failure> {
        self.paths = paths(&mut self.access)?;
        // What lies so far back that no alert of the time asked for can rest on it need not be read.
        let reach = self.rules.rules().iter().map(Rule::reach_micros);
        let reach =
            reach.reduce(|one, other| one.zip(other).map(|(one, other)| one.max(other))).flatten();
        let back = reach.map(|reach| reach.saturating_add(SETTLED_MICROS));
        let from = self.from.zip(back).map(|(from, back)| from.minus(back));
        self.pages(&CallPage { from, to, limit: PAGE_CALLS, ..CallPage::default() }, out)?;
        if self.from.is_none() && to.is_none() {
            let untimed = CallPage { is_untimed: true, limit: PAGE_CALLS, ..CallPage::default() };
            self.pages(&untimed, out)?;
        }
        self.print(None, out)
    }

    fn pages(&mut self, first: &CallPage, out: &mut impl Write) -> Result<(), Failure> {
        let mut page = first.clone();
        loop {
            let calls = self.ask(page.clone())?;
            let Some(last) = calls.last() else { return Ok(()) };
            page.after = Some(After::of(last));
            let (at, is_last) = (last.at, calls.len() < page.limit);
            self.take(calls)?;
            self.print(at.map(|at| at.minus(SETTLED_MICROS)), out)?;
            if is_last {
                return Ok(());
            }
        }
    }

    fn ask(&mut self, page: CallPage) -> Result<Vec<Call>, Failure> {
        match told(self.access.ask(Ask::Calls { page })?)? {
            Tell::Calls { calls } => Ok(calls),
            _ => Err(unexpected()),
        }
    }

    /// Takes calls, which come behind all that were taken, through the rules.
    fn take(&mut self, calls: Vec<Call>) -> Result<(), Failure> {
        self.calls += calls.len() as u64;
        let before = calls.first().map(After::of);
        let change = |call| CallChange { old: None, new: Some(Arc::new(call)) };
        let changes: Vec<CallChange> = calls.into_iter().map(change).collect();
        let mut history = Vec::new();
        for need in self.engine.plan(&changes) {
            history.push(self.answer(need, before.as_ref())?);
        }
        for change in self.engine.apply(&changes, history) {
            match change {
                AlertChange::Set { alert, replaces, .. } => {
                    for id in replaces {
                        self.forget(id);
                    }
                    let is_printed =
                        self.alerts.get(&alert.id).is_some_and(|told| told.alert.is_none());
                    self.forget(alert.id);
                    let mut told = Told::new(alert);
                    if is_printed {
                        told.alert = None;
                    } else {
                        self.held += 1;
                    }
                    self.alerts.insert(told.known.id, told);
                }
                AlertChange::Retracted { id, .. } => self.forget(id),
            }
        }
        // What is first seen is told with its alert; the facts themselves are for a journal.
        drop(self.engine.take_first_seen());
        Ok(())
    }

    fn forget(&mut self, id: AlertId) {
        if self.alerts.remove(&id).is_some_and(|told| told.alert.is_some()) {
            self.held -= 1;
        }
    }

    /// The past of a group that the engine has let go: what was taken of it before this page.
    fn answer(&mut self, need: HistoryNeed, before: Option<&After>) -> Result<History, Failure> {
        let rule = self.rules.rules().get(need.rule).map(|rule| Text::clone(&rule.name));
        let is_known = |told: &&Told| {
            rule.as_ref().is_some_and(|rule| need.concerns(rule, &told.rule, &told.group))
                && (need.whole
                    || told.known.last_seen >= Some(need.touched.minus(need.reach_micros)))
        };
        let alerts: Vec<KnownAlert> =
            self.alerts.values().filter(is_known).map(|told| told.known.clone()).collect();
        let starts = alerts.iter().filter_map(|alert| alert.closing_at);
        let from = starts.fold(need.touched, Micros::min).minus(need.reach_micros);
        let mut page = CallPage {
            group: need.group.clone(),
            from: (!need.whole).then_some(from),
            to: before.and_then(|before| before.at),
            limit: PAGE_CALLS,
            ..CallPage::default()
        };
        let mut calls = Vec::new();
        loop {
            let found = self.ask(page.clone())?;
            let is_last = found.len() < page.limit;
            page.after = found.last().map(After::of);
            let place = |call: &Call| (call.at, Text::clone(&call.stream), call.position);
            let is_before = |call: &Call| {
                before.is_none_or(|before| {
                    place(call) < (before.at, Text::clone(&before.stream), before.position)
                })
            };
            calls.extend(found.into_iter().filter(is_before).map(Arc::new));
            if is_last {
                return Ok(History { need, calls, alerts, first_seen: Vec::new() });
            }
        }
    }

    /// Prints the alerts that can grow no more: those whose first match is before `settled`, or all.
    fn print(&mut self, settled: Option<Micros>, out: &mut impl Write) -> Result<(), Failure> {
        let mut early = None;
        if self.held > HELD_MAX {
            let held = self.alerts.values().filter(|told| told.alert.is_some());
            let mut ends: Vec<Option<Micros>> = held.map(|told| told.known.last_seen).collect();
            ends.sort_unstable();
            early = ends.get(HELD_MAX / 2).copied();
        }
        let mut due: Vec<Box<Alert>> = Vec::new();
        for told in self.alerts.values_mut() {
            let is_settled = settled.is_none() || told.known.closing_at < settled;
            if is_settled || early.is_some_and(|early| told.known.last_seen <= early) {
                due.extend(told.alert.take());
            }
        }
        self.held -= due.len();
        due.retain(|alert| {
            self.from.is_none_or(|from| alert.last_seen.is_none_or(|last| last >= from))
        });
        due.sort_by(|left, right| {
            (left.first_seen, &left.rule, left.id).cmp(&(right.first_seen, &right.rule, right.id))
        });
        let views: Vec<AlertView> = due.iter().map(|alert| self.view(alert)).collect();
        if self.format == Format::Json || !views.is_empty() {
            print_alerts(out, self.format, &views)?;
        }
        Ok(())
    }

    fn summary(&self, out: &mut impl Write) -> std::io::Result<()> {
        if !self.alerts.is_empty() {
            writeln!(out)?;
        }
        let is_asked = |last: Option<Micros>| {
            self.from.is_none_or(|from| last.is_none_or(|last| last >= from))
        };
        let asked = self.alerts.values().filter(|told| is_asked(told.known.last_seen));
        let fired = fired(self.rules.rules(), asked.map(|told| &*told.rule));
        for (rule, number) in fired {
            writeln!(out, "{rule} would have fired {}.", count(number, "time"))?;
        }
        writeln!(out, "{} looked at; nothing was written.", count(self.calls, "call"))
    }

    fn view(&self, alert: &Alert) -> AlertView {
        let texts = |pairs: &[(Text, Text)]| {
            pairs.iter().map(|(field, value)| (field.to_string(), value.to_string())).collect()
        };
        AlertView {
            id: alert.id,
            seq: 0,
            rule: alert.rule.to_string(),
            title: alert.title.clone(),
            level: alert.level,
            tags: alert.tags.iter().map(ToString::to_string).collect(),
            group: texts(&alert.group),
            actor: alert.actor.to_string(),
            first_seen: alert.first_seen,
            last_seen: alert.last_seen,
            count: alert.count,
            why: alert.why.clone(),
            retracted: None,
            state: AlertState::Open,
            close_reason: None,
            evidence: alert.evidence.iter().map(|evidence| self.evidence(evidence)).collect(),
            elided: alert.elided,
        }
    }

    fn evidence(&self, evidence: &Evidence) -> EvidenceView {
        let call = &*evidence.call;
        let steps = call
            .sightings
            .iter()
            .flat_map(|sighting| sighting.steps.iter().map(|step| (sighting.witness, step)));
        let line = |(witness, step): (_, &crate::model::Step)| WitnessLine {
            witness,
            file: self.paths.get(&step.record.generation).cloned().unwrap_or_default(),
            record: step.record,
            length: step.length,
            text: None,
        };
        EvidenceView::new(evidence, steps.map(line).collect())
    }
}

impl Told {
    fn new(alert: Box<Alert>) -> Self {
        Self {
            rule: Text::clone(&alert.rule),
            group: alert.group.clone(),
            known: KnownAlert::from(&*alert),
            alert: Some(alert),
        }
    }
}

/// How often each rule fired; that groups were too busy is told where any was, since it is no rule's own.
fn fired<'r>(rules: &'r [Rule], alerts: impl Iterator<Item = &'r str>) -> Vec<(&'r str, u64)> {
    let mut fired: Vec<(&str, u64)> = rules.iter().map(|rule| (&*rule.name, 0)).collect();
    for name in alerts {
        match fired.iter_mut().find(|(rule, _)| *rule == name) {
            Some((_, number)) => *number += 1,
            None => fired.push((name, 1)),
        }
    }
    fired
}

/// Files whose names are looked up.
const FILES_MAX: usize = 1_000_000;
const SECONDS_MAX: u64 = 60;

fn paths(access: &mut Access) -> Result<FxHashMap<u64, String>, Failure> {
    let sql = "select generation, path from sources".to_owned();
    let ask = Ask::Query { sql, rows_max: FILES_MAX, seconds_max: SECONDS_MAX };
    let Tell::Answer { answer } = told(access.ask(ask)?)? else { return Err(unexpected()) };
    let pair = |row: Vec<serde_json::Value>| {
        let [generation, path] = row.try_into().ok()?;
        Some((generation.as_u64()?, path.as_str()?.to_owned()))
    };
    Ok(answer.rows.into_iter().filter_map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::STATE_SATURATED;

    #[test]
    fn groups_that_were_too_busy_are_counted_beside_the_rules() {
        let rule = "title: t\nlogsource: {product: mcp}\ndetection: {s: {ran: no}, condition: s}\n";
        let rules = RuleSet::compile(&[("a.yml", rule), ("b.yml", rule)]).unwrap();
        let names = ["b", STATE_SATURATED, "b", STATE_SATURATED];
        let fired = fired(rules.rules(), names.into_iter());
        assert_eq!(fired, [("a", 0), ("b", 2), (STATE_SATURATED, 2)]);
    }
}
