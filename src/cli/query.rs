//! `calltrail query`: SQL over the public views, read-only.

use std::io::{IsTerminal as _, Write};
use std::process::ExitCode;

use anyhow::anyhow;
use serde_json::Value;

use super::alerts::{told, unexpected};
use super::failure::Failure;
use super::output::Format;
use super::words::count;
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
    /// Print long values whole on a terminal, as they are elsewhere
    #[arg(long)]
    wide: bool,
}

pub(super) fn run(args: Args, common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    if args.sql.trim_matches(|letter: char| letter.is_whitespace() || letter == ';').is_empty() {
        return Err(Failure::usage(anyhow!(
            "the statement is empty; try calltrail query 'select * from alerts'"
        )));
    }
    let config = common.config()?;
    let ask = Ask::Query { sql: args.sql, rows_max: args.rows, seconds_max: args.seconds };
    let Tell::Answer { answer } = told(access::ask(&config, ask)?)? else {
        return Err(unexpected());
    };
    match common.output {
        Format::Json => {
            let keys = keys(&answer.columns);
            for row in &answer.rows {
                writeln!(out, "{}", object(&keys, row))?;
            }
        }
        Format::Human => {
            let is_cut = !args.wide && std::io::stdout().is_terminal();
            print_table(out, &answer, if is_cut { CELL_CHARS_MAX } else { usize::MAX })?;
        }
    }
    if answer.cut {
        let mut err = std::io::stderr().lock();
        writeln!(
            err,
            "calltrail: there is more than {}; raise --rows",
            count(args.rows as u64, "row")
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The names of the columns as keys of an object: where several have one name, each gets its number.
fn keys(columns: &[String]) -> Vec<String> {
    let is_shared = |name: &String| columns.iter().filter(|other| *other == name).count() > 1;
    let mut keys: Vec<String> = Vec::with_capacity(columns.len());
    for name in columns {
        let mut key = name.clone();
        let mut number = 0_u32;
        while (number == 0 && is_shared(name))
            || keys.contains(&key)
            || (number > 0 && columns.contains(&key))
        {
            number += 1;
            key = format!("{name}_{number}");
        }
        keys.push(key);
    }
    keys
}

/// A row as the text of a JSON object whose keys are in the order of the columns.
fn object(keys: &[String], row: &[Value]) -> String {
    let members: Vec<String> = keys
        .iter()
        .zip(row)
        .map(|(key, value)| format!("{}:{value}", Value::from(&**key)))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// Widest cell on a terminal, in characters.
const CELL_CHARS_MAX: usize = 60;

fn print_table(out: &mut impl Write, answer: &Answer, chars_max: usize) -> std::io::Result<()> {
    let rows: Vec<Vec<String>> = answer
        .rows
        .iter()
        .map(|row| row.iter().map(|value| cell(value, chars_max)).collect())
        .collect();
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

fn cell(value: &Value, chars_max: usize) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => display_untrusted(text),
        other => display_untrusted(&other.to_string()),
    };
    if text.chars().count() <= chars_max {
        return text;
    }
    text.chars().take(chars_max - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_the_order_of_columns_and_every_one_of_them() {
        let columns = ["z", "n", "a", "n", "n_1"].map(str::to_owned);
        let row = [1, 2, 3, 4, 5].map(Value::from);
        let text = object(&keys(&columns), &row);
        assert_eq!(text, r#"{"z":1,"n_2":2,"a":3,"n_3":4,"n_1":5}"#);
        assert_eq!(keys(&["n".to_owned(), "n".to_owned()]), ["n_1", "n_2"]);
    }
}
