//! `calltrail rules explain`: what the rules make of one call, and why not.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::anyhow;
use serde_json::{Value, json};

use super::super::access::Access;
use super::super::alerts::{told, unexpected};
use super::super::failure::Failure;
use super::super::output::{Format, when};
use super::super::{Common, setup};
use crate::daemon::OVERRIDES;
use crate::daemon::control::{Ask, Tell};
use crate::detect::{Asked, Explanation, LabelsOf, Neighbours, Rule};
use crate::model::{Call, CallId};
use crate::store::{Answer, CallPage, Found};
use crate::tail::line_offset;
use crate::untrusted::display_untrusted;

/// Calls around the explained one that are looked at: more tell the same.
const AROUND_MAX: usize = 50_000;
/// Alerts of one call that are told.
const ALERTS_MAX: usize = 1_000;
const SECONDS_MAX: u64 = 60;

#[derive(clap::Args, Debug)]
pub(in crate::cli) struct Args {
    /// A call's id, the address of its page, or `FILE:LINE`
    #[arg(value_name = "CALL_ID|FILE:LINE")]
    call: Named,
    /// Only this rule; can be given several times
    #[arg(long, value_name = "NAME")]
    rule: Vec<String>,
}

/// A call as it was named.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    Id(CallId),
    /// A file, and the number of a line in it, from 1.
    Line(PathBuf, u64),
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let id = text
            .rsplit_once("/calls/")
            .map_or(text, |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
        if let Ok(id) = id.parse() {
            return Ok(Self::Id(id));
        }
        let line = text.rsplit_once(':').and_then(|(file, line)| {
            let line: u64 = line.parse().ok().filter(|line| *line > 0)?;
            Some(Self::Line(PathBuf::from(file), line))
        });
        line.ok_or_else(|| {
            "a call's id is 32 hexadecimal digits; the address of its page does as well, and so does a line of a \
             log, such as audit.jsonl:12"
                .to_owned()
        })
    }
}

pub(super) fn run(args: &Args, common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let config = common.config()?;
    let book = setup::rulebook(&config)?;
    let catalogue = setup::catalogue(&config)?;
    let labels = move |call: &Call| catalogue.labels(call.server.as_deref(), &call.tool);
    if let Some(unknown) = args.rule.iter().find(|name| !is_rule(book.rules.rules(), name)) {
        return Err(Failure::usage(anyhow!(
            "no rule in force is called {unknown}; `calltrail rules list` names them"
        )));
    }
    let mut access = Access::open(&config)?;
    for id in ids(&mut access, &args.call)? {
        let call = Arc::new(call(&mut access, id)?);
        let alerts = Alerts::of(&mut access, &call)?;
        if common.output == Format::Human {
            writeln!(out, "{}", headline(&call))?;
        }
        for rule in book.rules.rules() {
            if !args.rule.is_empty() && !args.rule.iter().any(|name| **name == *rule.name) {
                continue;
            }
            let around = match book.rules.neighbours(rule, &labels as &LabelsOf, &call) {
                Some(asked) => neighbours(&mut access, asked)?,
                None => Vec::new(),
            };
            let is_cut = around.len() >= AROUND_MAX;
            let told = book.rules.explain(rule, &labels, &call, &around);
            let alerts = alerts.of_rule(&rule.name);
            match common.output {
                Format::Human => print(out, rule, &told, &alerts, is_cut)?,
                Format::Json => {
                    writeln!(out, "{}", as_json(&call, rule, &told, &alerts, is_cut))?;
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn is_rule(rules: &[Rule], name: &str) -> bool {
    rules.iter().any(|rule| *rule.name == *name)
}

/// The calls that are meant.
fn ids(access: &mut Access, named: &Named) -> Result<Vec<CallId>, Failure> {
    let (file, line) = match named {
        Named::Id(id) => return Ok(vec![*id]),
        Named::Line(file, line) => (file, *line),
    };
    let shown = display_untrusted(&file.to_string_lossy());
    let offset = offset_of(file, line)?
        .ok_or_else(|| Failure::no_input(anyhow!("{shown} has no line {line}")))?;
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.clone());
    let real = file.canonicalize().unwrap_or_else(|_| file.clone());
    let mut paths: Vec<String> =
        [file, &absolute, &real].iter().map(|path| path.to_string_lossy().into_owned()).collect();
    paths.dedup();
    let Tell::Line { found } = told(access.ask(Ask::Line { paths, offset })?)? else {
        return Err(unexpected());
    };
    let problem = match found {
        Found::Calls { ids } => return Ok(ids),
        Found::NoCall => format!("the record of line {line} of {shown} belongs to no call"),
        Found::Reject { reason } => {
            format!("line {line} of {shown} could not be read: {}", display_untrusted(&reason))
        }
        Found::Nothing => {
            format!("line {line} of {shown} was not read; what was stood there before")
        }
        Found::NoLog => format!("{shown} is none of the logs that were read"),
    };
    Err(Failure::no_input(anyhow!(problem)))
}

/// Where a line begins, in bytes; none where the file has no such line.
fn offset_of(file: &Path, line: u64) -> Result<Option<u64>, Failure> {
    let shown = display_untrusted(&file.to_string_lossy());
    line_offset(file, line).map_err(|error| Failure::no_input(anyhow!("{shown}: {error}")))
}

fn call(access: &mut Access, id: CallId) -> Result<Call, Failure> {
    let Tell::Call { call } = told(access.ask(Ask::Call { id })?)? else {
        return Err(unexpected());
    };
    call.map(|call| *call).ok_or_else(|| Failure::no_input(anyhow!("no call has the id {id}")))
}

fn neighbours(access: &mut Access, asked: Neighbours) -> Result<Vec<Arc<Call>>, Failure> {
    let mut all = Vec::new();
    for group in asked.groups {
        let (from, to) = (asked.from, Some(asked.to));
        let page = CallPage { group, from, to, limit: AROUND_MAX, ..CallPage::default() };
        let Tell::Calls { calls } = told(access.ask(Ask::Calls { page })?)? else {
            return Err(unexpected());
        };
        all.extend(calls.into_iter().map(Arc::new));
    }
    Ok(all)
}

/// The alerts that rest on a call, as SQL gives them.
struct Alerts(Answer);

/// An alert that rests on the call.
struct OfCall<'a> {
    id: &'a str,
    stage: &'a str,
    status: &'a str,
    is_retracted: bool,
}

impl Alerts {
    fn of(access: &mut Access, call: &Call) -> Result<Self, Failure> {
        // An id is of hexadecimal digits alone.
        let sql = format!(
            "select a.rule, a.alert_id, c.stage, a.status, a.retracted is not null
             from alert_calls c join alerts a using (alert_id) where c.call_id = '{}' order by all",
            call.id
        );
        let ask = Ask::Query { sql, rows_max: ALERTS_MAX, seconds_max: SECONDS_MAX };
        let Tell::Answer { answer } = told(access.ask(ask)?)? else { return Err(unexpected()) };
        Ok(Self(answer))
    }

    fn of_rule(&self, rule: &str) -> Vec<OfCall<'_>> {
        let of_rule = |row: &&Vec<Value>| row.first().and_then(Value::as_str) == Some(rule);
        self.0
            .rows
            .iter()
            .filter(of_rule)
            .filter_map(|row| {
                let [_, id, stage, status, retracted] = row.as_slice() else { return None };
                Some(OfCall {
                    id: id.as_str()?,
                    stage: stage.as_str()?,
                    status: status.as_str()?,
                    is_retracted: retracted.as_bool()?,
                })
            })
            .collect()
    }
}

fn headline(call: &Call) -> String {
    let mut line = format!(
        "call {}  {}  {}  {}  ran: {}  actor {}",
        call.id,
        when(call.at),
        display_untrusted(&call.tool),
        call.class.as_str(),
        call.ran.as_str(),
        display_untrusted(&call.actor),
    );
    if let Some(tenant) = &call.tenant {
        // Writing to a text cannot fail.
        _ = write!(line, "  tenant {}", display_untrusted(tenant));
    }
    line
}

fn print(
    out: &mut impl Write,
    rule: &Rule,
    told: &Explanation,
    alerts: &[OfCall<'_>],
    is_cut: bool,
) -> std::io::Result<()> {
    let fields: Vec<&str> = rule.group_by().collect();
    let groups = match fields.as_slice() {
        [] => "all calls as one group".to_owned(),
        fields => format!("by {}", fields.join(", ")),
    };
    writeln!(out, "\n{} ({}, {groups})", rule.name, rule.type_word())?;
    for alert in alerts {
        let status = if alert.is_retracted { "retracted" } else { alert.status };
        writeln!(
            out,
            "  part of alert {} ({status}) as stage `{}`",
            alert.id,
            display_untrusted(alert.stage)
        )?;
    }
    if alerts.is_empty() && told.is_matched {
        writeln!(
            out,
            "  part of a match, of which no alert is stored or the alert names other calls"
        )?;
    }
    for missing in &told.missing {
        writeln!(out, "  no match: {missing}")?;
    }
    if is_cut {
        writeln!(out, "  (looked at the first {AROUND_MAX} calls of its group alone)")?;
    }
    let is_filled = told.stages.iter().any(|stage| stage.fits);
    if is_filled && !told.group.is_empty() {
        let group: Vec<String> = told
            .group
            .iter()
            .map(|(field, value)| {
                let value = value.as_deref().map_or("(none)".to_owned(), display_untrusted);
                format!("{field}={value}")
            })
            .collect();
        writeln!(out, "  group: {}", group.join(" "))?;
    }
    for stage in &told.stages {
        let verb = if stage.fits { "fills" } else { "does not fill" };
        let name = &stage.name;
        match &stage.count {
            Some(count) => writeln!(out, "  {verb} stage `{count}` as `{name}`")?,
            None => writeln!(out, "  {verb} stage `{name}`")?,
        }
        print_asked(out, &stage.asked, 4)?;
        if let Some(except) = &stage.except {
            let mark = if except.holds() { "no " } else { "yes" };
            writeln!(out, "    {mark} not an exception in {OVERRIDES}")?;
            print_asked(out, except, 8)?;
        }
    }
    Ok(())
}

fn print_asked(out: &mut impl Write, asked: &Asked, indent: usize) -> std::io::Result<()> {
    let mark = |holds: bool| if holds { "yes" } else { "no " };
    match asked {
        Asked::Item { asks, values, holds } => {
            let values: Vec<String> = values.iter().map(|value| display_untrusted(value)).collect();
            let values = if values.is_empty() { "(none)".to_owned() } else { values.join(", ") };
            let asks = display_untrusted(asks);
            writeln!(out, "{:indent$}{} {asks}   it has: {values}", "", mark(*holds))
        }
        Asked::All { holds, of } => print_parts(out, mark(*holds), "all of", of, indent),
        Asked::Any { holds, of } => print_parts(out, mark(*holds), "one of", of, indent),
        Asked::Not { holds, of } => {
            print_parts(out, mark(*holds), "not", std::slice::from_ref(&**of), indent)
        }
    }
}

fn print_parts(
    out: &mut impl Write,
    mark: &str,
    join: &str,
    parts: &[Asked],
    indent: usize,
) -> std::io::Result<()> {
    writeln!(out, "{:indent$}{mark} {join}", "")?;
    parts.iter().try_for_each(|part| print_asked(out, part, indent + 4))
}

fn as_json(
    call: &Call,
    rule: &Rule,
    told: &Explanation,
    alerts: &[OfCall<'_>],
    is_cut: bool,
) -> Value {
    let alerts: Vec<Value> = alerts
        .iter()
        .map(|alert| {
            json!({ "alert_id": alert.id, "stage": alert.stage, "status": alert.status,
                    "retracted": alert.is_retracted })
        })
        .collect();
    let group: serde_json::Map<String, Value> =
        told.group.iter().map(|(field, value)| (field.to_string(), json!(value))).collect();
    json!({
        "call_id": call.id,
        "rule": rule.name,
        "type": rule.type_word(),
        "matched": told.is_matched,
        // Its group has more calls around it than were looked at.
        "partial": is_cut,
        "missing": told.missing,
        "group": group,
        "stages": told.stages,
        "alerts": alerts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_named_by_id_address_or_line() {
        let id = "0123456789abcdef0123456789abcdef";
        let whole = Ok(Named::Id(id.parse().unwrap()));
        assert_eq!(id.parse(), whole);
        assert_eq!(format!("http://h:1/calls/{id}?x=1").parse(), whole);
        assert_eq!("a:b.jsonl:3".parse(), Ok(Named::Line(PathBuf::from("a:b.jsonl"), 3)));
        for wrong in ["a.jsonl", "a.jsonl:0", "a.jsonl:x", ""] {
            assert!(wrong.parse::<Named>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_line_begins_behind_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        std::fs::write(&file, "one\n\nthree").unwrap();
        let offsets: Vec<_> = (1..=4).map(|line| offset_of(&file, line).unwrap()).collect();
        assert_eq!(offsets, [Some(0), Some(4), Some(5), None]);
        std::fs::write(&file, "one\n").unwrap();
        assert_eq!(offset_of(&file, 2).unwrap(), None);
    }
}
