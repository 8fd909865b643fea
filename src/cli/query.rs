//! `calltrail query`: SQL over the public views, read-only.

use std::io::Write;
use std::process::ExitCode;

use serde_json::Value;

use super::alerts::{told, unexpected};
use super::failure::Failure;
use super::output::Format;
use super::{Common, access};
use crate::daemon::control::{Ask, Tell};
use crate::store::Answer;
use crate::untrusted::display_untrusted;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// One statement over records, calls, sessions, alerts, rejects and sources
    sql: String,
    /// Rows to print at most
    #[arg(long, default_value_t = 10_000)]
    rows: usize,
    /// Seconds the statement may take
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

pub(super) fn run(args: Args, common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let config = common.config()?;
    let ask = Ask::Query { sql: args.sql, rows_max: args.rows, seconds_max: args.seconds };
    let Tell::Answer { answer } = told(access::ask(&config, ask)?)? else {
        return Err(unexpected());
    };
    match common.output {
        Format::Json => {
            for row in &answer.rows {
                let object: serde_json::Map<String, Value> =
                    answer.columns.iter().cloned().zip(row.iter().cloned()).collect();
                writeln!(out, "{}", Value::Object(object))?;
            }
        }
        Format::Human => print_table(out, &answer)?,
    }
    if answer.cut {
        let mut err = std::io::stderr().lock();
        writeln!(err, "calltrail: there are more rows than {}; raise --rows", args.rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Widest cell, in characters.
const CELL_CHARS_MAX: usize = 60;

fn print_table(out: &mut impl Write, answer: &Answer) -> std::io::Result<()> {
    let rows: Vec<Vec<String>> =
        answer.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let widths: Vec<usize> = answer
        .columns
        .iter()
        .enumerate()
        .map(|(column, name)| {
            let widest =
                rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            widest.chain([name.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let mut print = |cells: &[String]| {
        let line: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", line.join("  ").trim_end())
    };
    print(&answer.columns)?;
    rows.iter().try_for_each(|row| print(row))
}

fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => display_untrusted(text),
        other => display_untrusted(&other.to_string()),
    };
    if text.chars().count() <= CELL_CHARS_MAX {
        return text;
    }
    text.chars().take(CELL_CHARS_MAX - 1).chain(['…']).collect()
}
