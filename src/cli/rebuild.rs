//! `calltrail rebuild`: the database made again.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use serde_json::json;

use super::failure::Failure;
use super::output::Format;
use super::words::count;
use super::{Common, progress, setup};
use crate::config::Overrides;
use crate::daemon::{Rebuilt, rebuild};
use crate::untrusted::display_untrusted;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Folders or files with logs; without any, those of the configuration
    dirs: Vec<PathBuf>,
}

pub(super) fn run(args: Args, common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let config = super::load(&Overrides { logs: args.dirs, ..common.overrides() })?;
    let dirs = config.logs.clone();
    if dirs.is_empty() {
        return Err(Failure::usage(anyhow!(
            "name at least one folder with logs, or set `logs` in the configuration"
        )));
    }
    setup::check_roots(&dirs)?;
    let rules = setup::rulebook(&config)?.rules;
    let setup = setup::pipeline(&config, dirs, &config.store.db, &rules)?;
    let bar = progress::bar(common.quiet);
    let rebuilt = rebuild(&setup, &mut |progress| progress::update(&bar, progress))?;
    bar.finish_and_clear();
    tell_losses(&rebuilt)?;
    match common.output {
        Format::Json => print_json(out, &rebuilt)?,
        Format::Human => print(out, &rebuilt)?,
    }
    Ok(if rebuilt.is_partial() { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

fn print(out: &mut impl Write, rebuilt: &Rebuilt) -> std::io::Result<()> {
    writeln!(
        out,
        "{} read again from the logs, {} taken over from the old database, {} new.",
        count(rebuilt.records_read, "record"),
        rebuilt.records_carried,
        rebuilt.news.records,
    )?;
    if rebuilt.alerts_kept > 0 {
        writeln!(
            out,
            "{} kept as found before, though the records and rules that are there do not show {}.",
            count(rebuilt.alerts_kept, "alert"),
            if rebuilt.alerts_kept == 1 { "it" } else { "them" },
        )?;
    }
    if let Some(kept) = &rebuilt.kept {
        writeln!(out, "The old database is {}.", display_untrusted(&kept.to_string_lossy()))?;
    }
    Ok(())
}

fn print_json(out: &mut impl Write, rebuilt: &Rebuilt) -> std::io::Result<()> {
    let object = json!({
        "partial": rebuilt.is_partial(),
        "records_read": rebuilt.records_read,
        "records_carried": rebuilt.records_carried,
        "records_new": rebuilt.news.records,
        "alerts_kept": rebuilt.alerts_kept,
        "bytes_lost": rebuilt.bytes_lost,
        "losses": rebuilt.losses,
        "unreadable": rebuilt.unreadable,
        "old_database": rebuilt.kept.as_ref().map(|kept| kept.to_string_lossy()),
    });
    writeln!(out, "{object}")
}

/// What could not be recovered, on stderr.
fn tell_losses(rebuilt: &Rebuilt) -> std::io::Result<()> {
    let mut err = std::io::stderr().lock();
    if let Some(reason) = &rebuilt.unreadable {
        writeln!(
            err,
            "calltrail: {}\n\
             calltrail: so the new database is made from the logs and the journal alone: what was \
             only in the old one is not in it, and all that the logs hold now is history, which is \
             not mailed",
            display_untrusted(reason)
        )?;
    }
    if rebuilt.bytes_lost > 0 {
        writeln!(
            err,
            "calltrail: {} that were read once are in no log and not in the old database any more; \
             they are gaps now (`calltrail query \"select * from gap_log where why = 'lost'\"`)",
            count(rebuilt.bytes_lost, "byte")
        )?;
    }
    for loss in &rebuilt.losses {
        writeln!(err, "calltrail: not recovered: {}", display_untrusted(loss))?;
    }
    for (path, message) in &rebuilt.news.problems {
        writeln!(err, "calltrail: {}: {}", display_untrusted(path), display_untrusted(message))?;
    }
    Ok(())
}
