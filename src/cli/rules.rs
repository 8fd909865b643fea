//! `calltrail rules`: checking, testing, listing and trying rules.

mod explain;
mod list;
mod replay;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use serde_json::json;

use super::failure::Failure;
use super::output::Format;
use super::words::{count, count_of};
use super::{Common, setup};
use crate::daemon::{OVERRIDES, Rehearsal, RuleFolder, RulesError};
use crate::detect::{
    CaseLog, Effort, Rule, RuleProblem, RuleSet, TestResult, merge, rule_name, run_tests, shipped,
};
use crate::untrusted::display_untrusted;

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
    /// List the rules: what each looks for, where it comes from, and what is changed of it
    List,
    /// Say what the rules make of a call, and why they do not fire
    ///
    /// Of every rule: whether the call fits, which stage it fills, each question with the call's values, the group, the
    /// alert that it is part of, or what was missing. The call is named by its id, by its page's address, or by a line
    /// of a log.
    Explain(explain::Args),
    /// Say what rules would have found in what is stored
    ///
    /// All stored calls are gone through once more, in the order of their times, and nothing is written. Works beside
    /// the running daemon.
    Replay(replay::Args),
}

pub(super) fn run(
    command: &Command,
    common: &Common,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    match command {
        Command::Check { folder } => check(folder.as_ref(), common, out),
        Command::Test { folder } => test(folder.as_ref(), common, out),
        Command::List => list::run(common, out),
        Command::Explain(args) => explain::run(args, common, out),
        Command::Replay(args) => replay::run(args, common, out),
    }
}

fn check(
    named: Option<&PathBuf>,
    common: &Common,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let files = folder(named, common)?;
    let problems = problems(&files);
    for problem in &problems {
        print_problem(out, common.output, problem)?;
    }
    if problems.is_empty() {
        if common.output == Format::Human {
            writeln!(out, "{}", good(&files))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    out.flush()?;
    Err(Failure::data(anyhow!("{} in rule files", count_of(&problems, "problem"))))
}

/// What is said of files that nothing is wrong with.
fn good(files: &RuleFolder) -> String {
    let verb = if files.files.len() == 1 { "is" } else { "are" };
    let rules = format!("{} {verb} good", count_of(&files.files, "rule file"));
    if files.overrides.is_none() {
        return format!("{rules}.");
    }
    let changed = count(files.overrides().0.changed() as u64, "rule");
    let overrides = format!("{OVERRIDES} is good: {changed} changed.");
    if files.files.is_empty() { overrides } else { format!("{rules}, and {overrides}") }
}

/// Everything wrong with the files of a folder, its overrides among them: nothing hides anything else.
fn problems(files: &RuleFolder) -> Vec<RuleProblem> {
    let texts = files.texts();
    let mut problems: Vec<RuleProblem> = files.problems().cloned().collect();
    problems.extend(RuleSet::inspect(&texts));
    let (overrides, found) = files.overrides();
    problems.extend(found);
    // They may be about built-in rules as well.
    let shipped = shipped();
    let merged = merge(&shipped, &texts);
    let (mut rules, found, unreadable) = RuleSet::readable(&merged);
    // What is made of all files together has a bound, and a built-in one may be the first without room.
    problems.extend(found);
    let unread = files.problems().map(|problem| &*problem.file);
    let others: Vec<&str> = unreadable.into_iter().chain(unread).map(rule_name).collect();
    let before = rules.doubted(&overrides, Effort::Check);
    problems.extend(rules.tune(&overrides, &others));
    problems.extend(rules.doubted_since(&before, &overrides).into_values().flatten());
    problems.extend(files.misnamed.iter().cloned());
    problems.sort();
    problems.dedup();
    problems
}

fn print_problem(
    out: &mut impl Write,
    format: Format,
    problem: &RuleProblem,
) -> std::io::Result<()> {
    match format {
        Format::Human => writeln!(out, "{}", display_untrusted(&problem.to_string())),
        Format::Json => writeln!(
            out,
            "{}",
            json!({ "file": problem.file, "line": problem.line, "column": problem.column,
                    "message": problem.message })
        ),
    }
}

fn test(
    named: Option<&PathBuf>,
    common: &Common,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let files = folder(named, common)?;
    // Cases are about the rules as they are written, whatever the overrides say.
    let unread: Vec<RuleProblem> = files.problems().cloned().collect();
    let rules = match RuleSet::compile(&files.texts()) {
        Ok(rules) if unread.is_empty() => rules,
        compiled => {
            let problems = [unread, compiled.err().unwrap_or_default()].concat();
            return Err(setup::refused(RulesError::of(problems)));
        }
    };
    let rules = Arc::new(rules);
    let results = results(&rules, &files, common)?;
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

/// Runs all cases. Raw lines in files of the user's are read with the configuration, as his logs are; those in built-in
/// files are about what is built in.
fn results(
    rules: &Arc<RuleSet>,
    files: &RuleFolder,
    common: &Common,
) -> Result<Vec<TestResult>, Failure> {
    let (texts, shipped) = (files.texts(), shipped());
    let is_built_in =
        |rule: &Rule| texts.iter().any(|file| file.0 == rule.file() && shipped.contains(file));
    let has_lines = |rule: &Rule| rule.cases().any(|case| !case.dialects.is_empty());
    let built_in = Rehearsal::default();
    // Without lines to be read, the rules are tested whatever the configuration is like.
    let needs_own = rules.rules().iter().any(|rule| has_lines(rule) && !is_built_in(rule));
    let own = needs_own.then(|| setup::rehearsal(&common.config()?)).transpose()?;
    let read = |rule: &Rule, logs: &[CaseLog]| {
        own.as_ref().filter(|_| !is_built_in(rule)).unwrap_or(&built_in).calls(logs)
    };
    Ok(run_tests(rules, &read))
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
    // A file's name is its rule's.
    let rule = display_untrusted(rule);
    writeln!(out, "{rule:<24} {passed:>4} passed, {} failed", failures.len())?;
    for (result, failure) in failures {
        // Both may quote what the file says.
        let (case, failure) = (display_untrusted(&result.case), display_untrusted(failure));
        writeln!(out, "  {case} ({}): {failure}", result.variant)?;
    }
    Ok(())
}

/// The files of a folder, or those in use.
fn folder(folder: Option<&PathBuf>, common: &Common) -> Result<RuleFolder, Failure> {
    if let Some(folder) = folder {
        let found = RuleFolder::read(folder).map_err(setup::refused)?;
        if found.files.is_empty() && found.overrides.is_none() && found.unread.is_empty() {
            return Err(Failure::no_input(anyhow!(
                "no rule files are in {}: they are named *.yml or *.yaml",
                folder.display()
            )));
        }
        return Ok(found);
    }
    let own = common.config()?.rules.folder;
    let mut found = own
        .as_deref()
        .map(RuleFolder::read)
        .transpose()
        .map_err(setup::refused)?
        .unwrap_or_default();
    let own: Vec<&str> = found.files.iter().map(|(name, ..)| rule_name(name)).collect();
    let missing = shipped().into_iter().filter(|(name, _)| !own.contains(&rule_name(name)));
    let missing: Vec<_> = missing
        .map(|(name, text)| (name.to_owned(), text.to_owned(), PathBuf::from(name)))
        .collect();
    found.files.extend(missing);
    found.files.sort();
    Ok(found)
}
