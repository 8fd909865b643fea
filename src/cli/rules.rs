//! `calltrail rules`: checking, testing and listing rule files.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use serde_json::json;

use super::failure::Failure;
use super::output::Format;
use super::{Common, setup};
use crate::detect::{RuleProblem, RuleSet, run_tests, shipped};

#[derive(clap::Subcommand, Debug)]
pub(super) enum Command {
    /// Check rule files: every problem of every file at once
    Check {
        /// A folder of rule files; without it, the rules that a scan would use
        folder: Option<PathBuf>,
    },
    /// Run the cases inside the rule files, and their variants
    Test {
        /// A folder of rule files; without it, the rules that a scan would use
        folder: Option<PathBuf>,
    },
    /// List the rules in use
    List,
}

pub(super) fn run(
    command: &Command,
    common: &Common,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    match command {
        Command::Check { folder } => check(folder.as_ref(), common, out),
        Command::Test { folder } => test(folder.as_ref(), common, out),
        Command::List => list(common, out),
    }
}

fn check(
    folder: Option<&PathBuf>,
    common: &Common,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let files = files(folder, common)?;
    let texts: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    let problems = match RuleSet::compile(&texts) {
        Ok(rules) => rules.lacking_cases(),
        Err(problems) => problems,
    };
    for problem in &problems {
        print_problem(out, common.output, problem)?;
    }
    if problems.is_empty() {
        if common.output == Format::Human {
            writeln!(out, "{} rule files are good.", files.len())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    out.flush()?;
    Err(Failure::data(anyhow!("{} problems in rule files", problems.len())))
}

fn print_problem(
    out: &mut impl Write,
    format: Format,
    problem: &RuleProblem,
) -> std::io::Result<()> {
    match format {
        Format::Human => writeln!(out, "{problem}"),
        Format::Json => writeln!(
            out,
            "{}",
            json!({ "file": problem.file, "line": problem.line, "message": problem.message })
        ),
    }
}

fn test(
    folder: Option<&PathBuf>,
    common: &Common,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let files = files(folder, common)?;
    let texts: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    let rules = RuleSet::compile(&texts).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::data(anyhow!("rules cannot be used:\n{}", problems.join("\n")))
    })?;
    let results = run_tests(&Arc::new(rules));
    let failed = results.iter().filter(|result| result.failure.is_some()).count();
    for result in &results {
        match (common.output, &result.failure) {
            (Format::Json, failure) => writeln!(
                out,
                "{}",
                json!({ "rule": result.rule, "case": result.case, "variant": result.variant,
                        "failure": failure })
            )?,
            (Format::Human, Some(failure)) => {
                writeln!(out, "{}: {} ({}): {failure}", result.rule, result.case, result.variant)?;
            }
            (Format::Human, None) => {}
        }
    }
    if common.output == Format::Human {
        writeln!(out, "{} passed, {failed} failed", results.len() - failed)?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn list(common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let config = common.config()?;
    for rule in setup::rules(&config)?.rules() {
        match common.output {
            Format::Human => {
                writeln!(out, "{:<13} {:<24} {}", rule.level.as_str(), rule.name, rule.title)?;
            }
            Format::Json => writeln!(
                out,
                "{}",
                json!({ "rule": rule.name, "title": rule.title, "level": rule.level,
                        "id": rule.id, "tags": rule.tags, "group_by": rule.group_by().collect::<Vec<_>>(),
                        "why": rule.why })
            )?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The files of a folder, or those in use.
fn files(folder: Option<&PathBuf>, common: &Common) -> Result<Vec<(String, String)>, Failure> {
    if let Some(folder) = folder {
        return setup::own_rules(Some(folder));
    }
    let config = common.config()?;
    let own = setup::own_rules(config.rules.folder.as_deref())?;
    let own: Vec<(&str, &str)> = own.iter().map(|(name, text)| (&**name, &**text)).collect();
    let all = crate::detect::merge(&shipped(), &own);
    Ok(all.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect())
}
