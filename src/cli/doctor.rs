//! `calltrail doctor`: whether the database accounts for every byte, and agrees with the journal.

use std::io::Write;
use std::process::ExitCode;

use serde_json::json;

use super::alerts::{told, unexpected};
use super::failure::Failure;
use super::output::Format;
use super::words::count;
use super::{Common, access};
use crate::daemon::Examination;
use crate::daemon::control::{Ask, Tell};
use crate::store::{Audit, Fault, FaultKind};
use crate::untrusted::display_untrusted;

pub(super) fn run(common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let config = common.config()?;
    let Tell::Examination { examination } = told(access::ask(&config, Ask::Examine)?)? else {
        return Err(unexpected());
    };
    match common.output {
        Format::Json => print_json(out, &examination)?,
        Format::Human => print(out, &examination)?,
    }
    Ok(if examination.is_sound() { ExitCode::SUCCESS } else { ExitCode::from(65) })
}

fn print(out: &mut impl Write, examination: &Examination) -> std::io::Result<()> {
    let Audit { sources, records, rejects, gaps, faults, is_cut } = &examination.audit;
    let held = format!(
        "{}, {}, {}, {}",
        count(*sources, "source"),
        count(*records, "record"),
        count(*rejects, "reject"),
        count(*gaps, "gap"),
    );
    if examination.is_sound() {
        return writeln!(out, "{held}: every byte up to each position is accounted for once");
    }
    for fault in faults {
        writeln!(out, "{}", sentence(fault))?;
    }
    if *is_cut {
        writeln!(out, "... and more of this kind")?;
    }
    for fault in &examination.journal {
        writeln!(out, "{}", display_untrusted(fault))?;
    }
    let number = (faults.len() + examination.journal.len()) as u64;
    let more = if *is_cut { " and more" } else { "" };
    writeln!(out, "{held}: {}{more}", count(number, "fault"))
}

fn print_json(out: &mut impl Write, examination: &Examination) -> std::io::Result<()> {
    let Audit { sources, records, rejects, gaps, faults, is_cut } = &examination.audit;
    let faults: Vec<_> = faults
        .iter()
        .map(|fault| {
            let mut object = serde_json::to_value(fault).unwrap_or_default();
            object["text"] = sentence(fault).into();
            object
        })
        .collect();
    let object = json!({
        "sound": examination.is_sound(),
        "sources": sources,
        "records": records,
        "rejects": rejects,
        "gaps": gaps,
        "faults": faults,
        "more_faults": is_cut,
        "journal_faults": examination.journal,
    });
    writeln!(out, "{object}")
}

/// What is wrong, where, and what to do.
fn sentence(fault: &Fault) -> String {
    let Fault { stream, generation, from, to, what } = fault;
    let stream = if stream.is_empty() { "(no name)".to_owned() } else { display_untrusted(stream) };
    let place = format!("{stream}, generation {generation}, bytes {from} to {to}");
    let rebuild = "`calltrail rebuild` makes the database again";
    match what {
        FaultKind::Missing => format!(
            "{place}: before the position and in no record, reject or gap, so they may never have \
             been read; {rebuild}"
        ),
        FaultKind::Twice => format!("{place}: stored more than once; {rebuild}"),
        FaultKind::BeyondPosition => format!(
            "{place}: stored, but the position says that they are still to be read, so the next \
             start would read them twice; stop `calltrail watch`, then {rebuild}"
        ),
        FaultKind::NoPosition => format!("{place}: stored without a reading position; {rebuild}"),
        FaultKind::Miscounted { records, rejects, counted_records, counted_rejects } => format!(
            "{place}: the position counts {counted_records} records and {counted_rejects} rejects, \
             and there are {records} and {rejects}; {rebuild}"
        ),
        FaultKind::LostRecord { call_id } => {
            format!("{place}: call {call_id} rests on a record that is not there; {rebuild}")
        }
    }
}
