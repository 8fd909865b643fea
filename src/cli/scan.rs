//! `calltrail scan`: one pass over what is there.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use super::failure::Failure;
use super::output::{Format, print_alerts, when};
use super::{Common, progress, setup};
use crate::config::Overrides;
use crate::daemon::{Pipeline, ScanOutcome, scan};
use crate::model::{AlertView, Level};
use crate::store::{AlertFilter, Reader};
use crate::untrusted::display_untrusted;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Folders or files with logs
    #[arg(required = true)]
    dirs: Vec<PathBuf>,
    /// Exit with 1 if an alert of this level or a graver one was found
    #[arg(long, value_name = "LEVEL", value_parser = super::parse_level)]
    fail_on: Option<Level>,
}

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
    let pipeline_setup = setup::pipeline(&config, args.dirs.clone(), &path)?;
    let mut pipeline = Pipeline::open(&pipeline_setup, crate::daemon::now())?;
    let bar = progress::bar(common.quiet);
    let outcome = scan(&mut pipeline, &mut |progress| progress::update(&bar, progress))?;
    bar.finish_and_clear();

    let reader = pipeline.reader();
    let mut alerts =
        reader.alerts(&AlertFilter { with_evidence: true, ..AlertFilter::default() })?;
    // What a batch's end made look like an alert for a moment is none.
    alerts.retain(|alert| alert.retracted.is_none());
    alerts.sort_by(|left, right| {
        (left.first_seen, &left.rule, left.id).cmp(&(right.first_seen, &right.rule, right.id))
    });
    print_alerts(out, common.output, &alerts)?;
    if common.output == Format::Human {
        print_summary(out, &outcome, &alerts, &reader, &pipeline_setup.catalogue)?;
    }
    out.flush()?;
    report_problems(&outcome, &reader)?;
    if outcome.files == 0 && !outcome.is_partial {
        return Err(Failure::no_input(anyhow::anyhow!(
            "no log files were found there: Calltrail reads *.jsonl, *.json, *.ndjson and *.log, \
             and their rotations"
        )));
    }
    let is_found =
        args.fail_on.is_some_and(|level| alerts.iter().any(|alert| alert.level >= level));
    Ok(if is_found {
        ExitCode::from(1)
    } else if outcome.is_partial || outcome.rejects > 0 {
        ExitCode::from(2)
    } else {
        ExitCode::SUCCESS
    })
}

fn print_summary(
    out: &mut impl Write,
    outcome: &ScanOutcome,
    alerts: &[AlertView],
    reader: &Reader,
    catalogue: &crate::catalogue::Catalogue,
) -> Result<(), Failure> {
    let totals = reader.totals()?;
    if !alerts.is_empty() {
        writeln!(out)?;
    }
    writeln!(
        out,
        "{} alerts in {} calls, told by {} records in {} files; {} lines rejected.",
        alerts.len(),
        totals.calls,
        outcome.records,
        outcome.files,
        outcome.rejects
    )?;
    if totals.first_at.is_some() {
        writeln!(out, "From {} to {}.", when(totals.first_at), when(totals.last_at))?;
    }
    let tools = super::tools::seen(reader, catalogue)?;
    let unlabelled = tools.iter().filter(|tool| tool.is_unlabelled()).count();
    if unlabelled > 0 {
        writeln!(
            out,
            "{unlabelled} of {} tools have no labels: rules that ask what a tool can do pass them \
             over (`calltrail tools list --help`).",
            tools.len()
        )?;
    }
    Ok(())
}

/// What was not read, on stderr.
fn report_problems(outcome: &ScanOutcome, reader: &Reader) -> Result<(), Failure> {
    let mut err = std::io::stderr().lock();
    for (path, message) in &outcome.problems {
        writeln!(err, "calltrail: {}: {}", display_untrusted(path), display_untrusted(message))?;
    }
    if outcome.rejects > 0 {
        writeln!(
            err,
            "calltrail: {} lines could not be read, the first of them:",
            outcome.rejects
        )?;
        let mut rejects = reader.rejects(None, 100_000)?;
        rejects.reverse();
        for reject in rejects.iter().take(5) {
            let (path, reason) =
                (display_untrusted(&reject.path), display_untrusted(&reject.reason));
            writeln!(err, "calltrail: {path} at byte {}: {reason}", reject.offset)?;
        }
    }
    if outcome.unfinished_bytes > 0 {
        writeln!(
            err,
            "calltrail: {} bytes of unfinished last lines wait for their newline",
            outcome.unfinished_bytes
        )?;
    }
    Ok(())
}
