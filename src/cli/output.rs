//! What commands print: the JSON contract, and the same for people. Nothing from a log reaches a terminal as it is.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::words::{count, reason_word};
use crate::model::{AlertView, DecisionView, EvidenceView, Micros};
use crate::untrusted::display_untrusted;

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// The alert as scripts rely on it: every key is always there.
pub(super) fn alert_json(alert: &AlertView) -> Value {
    let group: serde_json::Map<String, Value> = alert
        .group
        .iter()
        .map(|(field, value)| (field.clone(), Value::String(value.clone())))
        .collect();
    json!({
        "alert_id": alert.id,
        "rule": alert.rule,
        "title": alert.title,
        "level": alert.level,
        "status": alert.state,
        "group": group,
        "first_seen": rfc3339(alert.first_seen),
        "last_seen": rfc3339(alert.last_seen),
        "count": alert.count,
        "why": {
            "text": alert.why.text,
            "threshold": alert.why.threshold,
            "value": alert.why.value,
            "timespan": alert.why.timespan,
        },
        "calls": alert.evidence.iter().map(call_json).collect::<Vec<_>>(),
        "tags": alert.tags,
        "retracted": alert.retracted,
        "elided_calls": alert.elided,
    })
}

fn call_json(call: &EvidenceView) -> Value {
    let witnesses: Vec<Value> = call
        .lines
        .iter()
        .map(|line| {
            json!({
                "witness": line.witness,
                "file": line.file,
                "offset": line.record.offset,
                "length": line.length,
            })
        })
        .collect();
    json!({
        "call_id": call.call_id,
        "stage": call.stage,
        "at": rfc3339(call.at),
        "server": call.server,
        "tool": call.tool,
        "outcome": call.class,
        "ran": call.ran,
        "principal": call.principal,
        "tenant": call.tenant,
        "session": call.session,
        "witnesses": witnesses,
    })
}

fn rfc3339(at: Option<Micros>) -> Option<String> {
    at.map(Micros::to_rfc3339)
}

/// Prints alerts, one a line of JSON or as a table with what each is about below it.
pub(super) fn print_alerts(
    out: &mut impl Write,
    format: Format,
    alerts: &[AlertView],
) -> io::Result<()> {
    if format == Format::Json {
        return alerts.iter().try_for_each(|alert| writeln!(out, "{}", alert_json(alert)));
    }
    if alerts.is_empty() {
        return Ok(());
    }
    let row = |cells: [&str; 6]| {
        let [seen, level, status, rule, actor, id] = cells;
        format!("{seen:<20}  {level:<13}  {status:<12}  {rule:<22}  {actor:<16}  {id}")
    };
    let head = ["LAST SEEN", "LEVEL", "STATUS", "RULE", "ACTOR", "ALERT"];
    writeln!(out, "{}", row(head))?;
    for alert in alerts {
        let (seen, actor) = (when(alert.last_seen), display_untrusted(&alert.actor));
        let (level, status) = (alert.level.as_str(), status(alert));
        let cells = [&seen, level, status, &alert.rule, &actor, &alert.id.to_string()];
        writeln!(out, "{}", row(cells))?;
        print_about(out, alert)?;
    }
    Ok(())
}

fn status(alert: &AlertView) -> &'static str {
    if alert.retracted.is_some() { "retracted" } else { alert.state.as_str() }
}

/// What it is about, and why it no longer stands where it does not.
fn print_about(out: &mut impl Write, alert: &AlertView) -> io::Result<()> {
    let group: Vec<String> = alert
        .group
        .iter()
        .map(|(field, value)| format!("{field}={}", display_untrusted(value)))
        .collect();
    writeln!(out, "    {}  {}", alert.title, group.join(" "))?;
    if let Some(reason) = &alert.retracted {
        writeln!(out, "    retracted: {}", display_untrusted(reason))?;
    }
    Ok(())
}

/// One alert as a candidate among others.
pub(super) fn id_line(alert: &AlertView) -> String {
    let actor = display_untrusted(&alert.actor);
    format!("  {}  {}  {}  {actor}", alert.id, when(alert.last_seen), alert.rule)
}

/// Prints one alert with its calls and its history.
pub(super) fn print_alert(
    out: &mut impl Write,
    format: Format,
    alert: &AlertView,
    history: &[DecisionView],
) -> io::Result<()> {
    if format == Format::Json {
        let mut object = alert_json(alert);
        object["history"] = history.iter().map(decision_json).collect();
        return writeln!(out, "{object}");
    }
    writeln!(out, "{}  {}  {}", alert.level.as_str(), alert.rule, alert.id)?;
    print_about(out, alert)?;
    let reason = alert.close_reason.map(|reason| format!(" as {}", reason_word(reason)));
    writeln!(out, "Status: {}{}", status(alert), reason.unwrap_or_default())?;
    writeln!(out, "Seen: {} to {}", when_exactly(alert.first_seen), when_exactly(alert.last_seen))?;
    writeln!(out, "\n{}", alert.why.text)?;
    if let Some(span) = alert.why.timespan {
        writeln!(
            out,
            "Asked for {} within {span} s; found {}.",
            alert.why.threshold, alert.why.value
        )?;
    }
    print_calls(out, alert)?;
    print_history(out, history)
}

fn print_calls(out: &mut impl Write, alert: &AlertView) -> io::Result<()> {
    writeln!(out, "\nCalls:")?;
    for call in &alert.evidence {
        let (stage, tool) = (display_untrusted(&call.stage), display_untrusted(&call.tool));
        write!(out, "  {}  {stage:<18} {tool:<28} ", when_exactly(call.at))?;
        match &call.event {
            Some(event) => writeln!(out, "the log {event}")?,
            None => writeln!(out, "{:<9} ran: {}", call.class.as_str(), call.ran.as_str())?,
        }
        for line in &call.lines {
            let file = display_untrusted(&line.file);
            writeln!(out, "      {} {file} at byte {}", line.witness.as_str(), line.record.offset)?;
            if let Some(text) = &line.text {
                writeln!(out, "        {}", display_untrusted(text))?;
            }
        }
    }
    if alert.elided > 0 {
        writeln!(out, "  ... and {} between them", count(alert.elided, "more call"))?;
    }
    Ok(())
}

fn print_history(out: &mut impl Write, history: &[DecisionView]) -> io::Result<()> {
    writeln!(out, "\nHistory:")?;
    if history.is_empty() {
        writeln!(out, "  nobody has decided anything yet")?;
    }
    for decision in history {
        let reason = decision.close_reason.map(|reason| format!(" as {}", reason_word(reason)));
        write!(
            out,
            "  {}  {}{} by {}",
            when_exactly(Some(decision.at)),
            decision.state.as_str(),
            reason.unwrap_or_default(),
            display_untrusted(&decision.who),
        )?;
        if !decision.note.is_empty() {
            write!(out, ": {}", display_untrusted(&decision.note))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn decision_json(decision: &DecisionView) -> Value {
    json!({
        "at": rfc3339(Some(decision.at)),
        "who": decision.who,
        "status": decision.state,
        "close_reason": decision.close_reason,
        "note": decision.note,
    })
}

/// A time for people, in UTC with seconds.
pub(super) fn when(at: Option<Micros>) -> String {
    formatted(at, "%Y-%m-%d %H:%M:%SZ")
}

/// The same with milliseconds, where calls follow each other closely.
fn when_exactly(at: Option<Micros>) -> String {
    formatted(at, "%Y-%m-%d %H:%M:%S%.3fZ")
}

fn formatted(at: Option<Micros>, format: &str) -> String {
    at.map_or_else(|| "no time".to_owned(), |at| at.to_datetime().format(format).to_string())
}
