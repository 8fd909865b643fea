//! `calltrail scan`: one pass over what is there.

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use super::failure::Failure;
use super::output::{Format, print_alerts, when};
use super::words::{count, count_of, parse_level};
use super::{Common, progress, setup};
use crate::catalogue::Catalogue;
use crate::config::Overrides;
use crate::daemon::{Pipeline, ScanOutcome, scan};
use crate::model::{AlertState, AlertView, Level, RejectView};
use crate::store::{AlertFilter, Listed, Reader};
use crate::untrusted::display_untrusted;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Folders or files with logs
    #[arg(required = true)]
    dirs: Vec<PathBuf>,
    /// Exit with 1 if there is an alert of this level or a graver one that nobody has closed; one of: informational,
    /// low, medium, high, critical
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    fail_on: Option<Level>,
}

/// Alerts that are in memory with their evidence at a time.
const ALERTS_AT_A_TIME: usize = 2_000;

pub(super) fn run(args: &Args, common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let overrides = Overrides {
        logs: args.dirs.clone(),
        no_mail: true,
        no_db: common.db.is_none(),
        ..common.overrides()
    };
    let config = super::load(&overrides)?;
    setup::check_roots(&args.dirs)?;
    // A pass keeps nothing unless a database is named.
    let temporary = tempfile::Builder::new().prefix("calltrail-").tempdir()?;
    let path = common.db.clone().unwrap_or_else(|| temporary.path().join("scan.duckdb"));
    let rules = setup::rulebook(&config)?.rules;
    let mut pipeline_setup = setup::pipeline(&config, args.dirs.clone(), &path, &rules)?;
    pipeline_setup.is_single_pass = true;
    if common.db.is_none() {
        pipeline_setup.journal = None;
    }
    let mut pipeline = Pipeline::open(&pipeline_setup, crate::daemon::now())?;
    let reader = pipeline.reader();
    let known: HashSet<_> = rejects(&reader)?.iter().map(place).collect();
    let bar = progress::bar(common.quiet);
    let outcome = scan(&mut pipeline, &mut |progress| progress::update(&bar, progress))?;
    bar.finish_and_clear();

    let mut alerts = reader.listed(&AlertFilter::default())?;
    // What a batch's end made look like an alert for a moment is none.
    alerts.retain(|listed| listed.alert.retracted.is_none());
    alerts.sort_by(|Listed { alert: left, .. }, Listed { alert: right, .. }| {
        (left.first_seen, &left.rule, left.id).cmp(&(right.first_seen, &right.rule, right.id))
    });
    if common.output == Format::Json {
        for part in alerts.chunks(ALERTS_AT_A_TIME) {
            print_alerts(out, common.output, &reader.opened(part)?)?;
        }
    }
    let alerts: Vec<AlertView> = alerts.into_iter().map(|listed| listed.alert).collect();
    if common.output == Format::Human {
        print_alerts(out, common.output, &alerts)?;
        print_summary(out, &outcome, &alerts, &reader, common.db.is_some())?;
        print_unlabelled(out, &reader, &pipeline_setup.catalogue)?;
    }
    out.flush()?;
    report_problems(&outcome, &reader, &known)?;
    if outcome.files == 0 && !outcome.is_partial {
        return Err(Failure::no_input(anyhow::anyhow!(
            "no log files were found there: Calltrail reads *.jsonl, *.json, *.ndjson and *.log, \
             and their rotations"
        )));
    }
    let is_found =
        args.fail_on.is_some_and(|level| alerts.iter().any(|alert| counts(alert, level)));
    Ok(if is_found {
        ExitCode::from(1)
    } else if outcome.is_partial || outcome.rejects > 0 {
        ExitCode::from(2)
    } else {
        ExitCode::SUCCESS
    })
}

/// Whether an alert makes a pass fail: what a person has closed is dealt with.
fn counts(alert: &AlertView, level: Level) -> bool {
    alert.level >= level && alert.state != AlertState::Closed && alert.retracted.is_none()
}

fn print_summary(
    out: &mut impl Write,
    outcome: &ScanOutcome,
    alerts: &[AlertView],
    reader: &Reader,
    is_kept: bool,
) -> Result<(), Failure> {
    let totals = reader.totals()?;
    if !alerts.is_empty() {
        writeln!(out)?;
    }
    let (files, rejects) = (count(outcome.files, "file"), count(outcome.rejects, "line"));
    let (alerts, calls) = (count_of(alerts, "alert"), count(totals.calls, "call"));
    if is_kept {
        let (new, all) = (outcome.records, totals.records);
        writeln!(
            out,
            "{} in this pass, from {files}; {rejects} rejected.\n\
             The database now holds {alerts} in {calls}, told by {}.",
            count(new, "new record"),
            count(all, "record"),
        )?;
    } else {
        let records = count(outcome.records, "record");
        writeln!(out, "{alerts} in {calls}, told by {records} in {files}; {rejects} rejected.")?;
    }
    if totals.first_at.is_some() {
        writeln!(out, "From {} to {}.", when(totals.first_at), when(totals.last_at))?;
    }
    Ok(())
}

/// Unlabelled tools that are named.
const TOOLS_NAMED_MAX: usize = 5;

fn print_unlabelled(
    out: &mut impl Write,
    reader: &Reader,
    catalogue: &Catalogue,
) -> Result<(), Failure> {
    let tools = super::tools::seen(reader, catalogue)?;
    let unlabelled: Vec<_> = tools.iter().filter(|tool| tool.is_unlabelled()).collect();
    if unlabelled.is_empty() {
        return Ok(());
    }
    let mut names: Vec<String> =
        unlabelled.iter().take(TOOLS_NAMED_MAX).map(|tool| tool.shown_name()).collect();
    if unlabelled.len() > TOOLS_NAMED_MAX {
        names.push(format!("and {} more", unlabelled.len() - TOOLS_NAMED_MAX));
    }
    writeln!(
        out,
        "Of {} these have no labels, so rules that ask what a tool can do pass them over: {}.\n\
         Label them in a file of your own and name it with --catalogue (`calltrail tools list --help`).",
        count_of(&tools, "tool"),
        names.join(", "),
    )?;
    Ok(())
}

/// What was not read, on stderr.
fn report_problems(
    outcome: &ScanOutcome,
    reader: &Reader,
    known: &HashSet<(u64, u64)>,
) -> Result<(), Failure> {
    let mut err = std::io::stderr().lock();
    for (path, message) in &outcome.problems {
        writeln!(err, "calltrail: {}: {}", display_untrusted(path), display_untrusted(message))?;
    }
    if outcome.rejects > 0 {
        writeln!(
            err,
            "calltrail: {} could not be read{}:",
            count(outcome.rejects, "line"),
            if outcome.rejects > 5 { ", the first five" } else { "" }
        )?;
        let mut rejects = rejects(reader)?;
        rejects.reverse();
        for reject in rejects.iter().filter(|reject| !known.contains(&place(reject))).take(5) {
            let (path, reason) =
                (display_untrusted(&reject.path), display_untrusted(&reject.reason));
            writeln!(err, "calltrail: {path} at byte {}: {reason}", reject.offset)?;
        }
    }
    if outcome.unfinished_bytes > 0 {
        writeln!(
            err,
            "calltrail: {} of unfinished last lines wait for their newline",
            count(outcome.unfinished_bytes, "byte")
        )?;
    }
    Ok(())
}

/// Rejects looked at, to tell those of this pass from those of earlier ones.
const REJECTS_MAX: usize = 100_000;

fn rejects(reader: &Reader) -> Result<Vec<RejectView>, Failure> {
    Ok(reader.rejects(None, REJECTS_MAX)?)
}

fn place(reject: &RejectView) -> (u64, u64) {
    (reject.generation, reject.offset)
}
