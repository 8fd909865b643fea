//! What commands print: the JSON contract, and the same for people. Nothing from a log reaches a terminal as it is.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::model::{AlertView, EvidenceView, Micros};
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

/// Prints alerts, one a line or as a short list.
pub(super) fn print_alerts(
    out: &mut impl Write,
    format: Format,
    alerts: &[AlertView],
) -> io::Result<()> {
    for alert in alerts {
        match format {
            Format::Json => writeln!(out, "{}", alert_json(alert))?,
            Format::Human => print_alert_line(out, alert)?,
        }
    }
    Ok(())
}

fn print_alert_line(out: &mut impl Write, alert: &AlertView) -> io::Result<()> {
    let group: Vec<String> = alert
        .group
        .iter()
        .map(|(field, value)| format!("{field}={}", display_untrusted(value)))
        .collect();
    writeln!(
        out,
        "{:<13} {}  {}  {}",
        alert.level.as_str(),
        when(alert.first_seen),
        alert.title,
        group.join(" ")
    )?;
    writeln!(out, "              {}  {} ({})", alert.id, alert.rule, alert.state.as_str())?;
    if let Some(reason) = &alert.retracted {
        writeln!(out, "              retracted: {}", display_untrusted(reason))?;
    }
    Ok(())
}

/// Prints one alert with its calls.
pub(super) fn print_alert(
    out: &mut impl Write,
    format: Format,
    alert: &AlertView,
) -> io::Result<()> {
    if format == Format::Json {
        return writeln!(out, "{}", alert_json(alert));
    }
    print_alert_line(out, alert)?;
    writeln!(out, "\n{}", alert.why.text)?;
    if let Some(span) = alert.why.timespan {
        writeln!(
            out,
            "Asked for {} within {span} s; found {}.",
            alert.why.threshold, alert.why.value
        )?;
    }
    writeln!(out, "\nCalls:")?;
    for call in &alert.evidence {
        writeln!(
            out,
            "  {}  {:<18} {:<28} {:<9} ran: {}",
            when(call.at),
            display_untrusted(&call.stage),
            display_untrusted(&call.tool),
            call.class.as_str(),
            call.ran.as_str(),
        )?;
        for line in &call.lines {
            let file = display_untrusted(&line.file);
            writeln!(out, "      {} {file} at byte {}", line.witness.as_str(), line.record.offset)?;
            if let Some(text) = &line.text {
                writeln!(out, "        {}", display_untrusted(text))?;
            }
        }
    }
    if alert.elided > 0 {
        writeln!(out, "  ... and {} more calls between them", alert.elided)?;
    }
    Ok(())
}

/// A time for people, in UTC with seconds.
pub(super) fn when(at: Option<Micros>) -> String {
    at.map_or_else(
        || "no time             ".to_owned(),
        |at| at.to_datetime().format("%Y-%m-%d %H:%M:%SZ").to_string(),
    )
}
