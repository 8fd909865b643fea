//! `calltrail rules`: checking, testing and listing rule files.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use serde_json::json;

use super::failure::Failure;
use super::output::Format;
use super::words::count_of;
use super::{Common, setup};
use crate::detect::{RuleProblem, RuleSet, TestResult, run_tests, shipped};

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
            let verb = if files.len() == 1 { "is" } else { "are" };
            writeln!(out, "{} {verb} good.", count_of(&files, "rule file"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    out.flush()?;
    Err(Failure::data(anyhow!("{} in rule files", count_of(&problems, "problem"))))
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
    let rules = Arc::new(rules);
    let results = run_tests(&rules);
    let failed = results.iter().filter(|result| result.failure.is_some()).count();
    match common.output {
        Format::Json => results.iter().try_for_each(|result| {
            let line = json!({ "rule": result.rule, "case": result.case, "variant": result.variant,
                               "failure": result.failure });
            writeln!(out, "{line}")
        })?,
        Format::Human => {
            for rule in rules.rules() {
                print_tested(out, &rule.name, &results)?;
            }
            writeln!(out, "{} passed, {failed} failed", results.len() - failed)?;
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// How one rule's cases went, and each that failed.
fn print_tested(out: &mut impl Write, rule: &str, results: &[TestResult]) -> std::io::Result<()> {
    let mut passed = 0;
    let mut failures = Vec::new();
    for result in results.iter().filter(|result| &*result.rule == rule) {
        match &result.failure {
            None => passed += 1,
            Some(failure) => failures.push((result, failure)),
        }
    }
    writeln!(out, "{rule:<24} {passed:>4} passed, {} failed", failures.len())?;
    for (result, failure) in failures {
        writeln!(out, "  {} ({}): {failure}", result.case, result.variant)?;
    }
    Ok(())
}

fn list(common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let config = common.config()?;
    let own = setup::own_rules(config.rules.folder.as_deref())?;
    let shipped = shipped();
    for rule in setup::rules(&config)?.rules() {
        let is_rule = |name: &str| name.strip_suffix(".yml") == Some(&*rule.name);
        let is_own = own.iter().any(|(name, _)| is_rule(name));
        let replaces = is_own && shipped.iter().any(|(name, _)| is_rule(name));
        match common.output {
            Format::Human => {
                let origin = match (is_own, replaces) {
                    (false, _) => "shipped",
                    (true, false) => "own",
                    (true, true) => "own, replaces the shipped one",
                };
                let level = rule.level.as_str();
                writeln!(out, "{level:<13} {:<24} {} ({origin})", rule.name, rule.title)?;
            }
            Format::Json => writeln!(
                out,
                "{}",
                json!({ "rule": rule.name, "title": rule.title, "level": rule.level,
                        "id": rule.id, "tags": rule.tags, "group_by": rule.group_by().collect::<Vec<_>>(),
                        "why": rule.why, "origin": if is_own { "own" } else { "shipped" } })
            )?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The files of a folder, or those in use.
fn files(folder: Option<&PathBuf>, common: &Common) -> Result<Vec<(String, String)>, Failure> {
    if let Some(folder) = folder {
        let files = setup::own_rules(Some(folder))?;
        if files.is_empty() {
            return Err(Failure::no_input(anyhow!(
                "no rule files are in {}: they are named *.yml or *.yaml",
                folder.display()
            )));
        }
        return Ok(files);
    }
    let config = common.config()?;
    let own = setup::own_rules(config.rules.folder.as_deref())?;
    let own: Vec<(&str, &str)> = own.iter().map(|(name, text)| (&**name, &**text)).collect();
    let all = crate::detect::merge(&shipped(), &own);
    Ok(all.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect())
}
