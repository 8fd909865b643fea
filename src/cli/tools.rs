//! `calltrail tools`: what was called, and what it can do.

use std::io::Write;
use std::process::ExitCode;

use anyhow::anyhow;
use serde_json::json;

use super::failure::Failure;
use super::output::Format;
use super::words::count_of;
use super::{Common, access, setup};
use crate::catalogue::Catalogue;
use crate::daemon::control::{Ask, Tell};
use crate::model::{Label, LabelSource, Labels, Tri};
use crate::store::{Answer, Reader};
use crate::untrusted::display_untrusted;

#[derive(clap::Subcommand, Debug)]
pub(super) enum Command {
    /// List the tools that were called, with their labels and where each comes from
    ///
    /// Labels decide which calls the rules look at. Tools without labels can be labelled in a file of your own, named
    /// by `file` in the section `catalogue` of the configuration.
    List,
}

/// A tool that was called.
pub(super) struct SeenTool {
    server: Option<String>,
    tool: String,
    calls: u64,
    labels: Labels,
}

impl SeenTool {
    pub(super) fn is_unlabelled(&self) -> bool {
        self.labels.source == LabelSource::Unknown
    }

    /// The name for a terminal, with its server where it is known.
    pub(super) fn shown_name(&self) -> String {
        let server = self.server.as_deref();
        let server = server.map(|server| format!(" on {}", display_untrusted(server)));
        display_untrusted(&self.tool) + &server.unwrap_or_default()
    }
}

const SEEN: &str = "select server, tool, count(*) as calls from calls group by all order by all";
/// Tools listed at most.
const TOOLS_MAX: usize = 100_000;
const SECONDS_MAX: u64 = 60;

pub(super) fn run(
    command: &Command,
    common: &Common,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let Command::List = command;
    let config = common.config()?;
    let catalogue = setup::catalogue(&config)?;
    let ask = Ask::Query { sql: SEEN.to_owned(), rows_max: TOOLS_MAX, seconds_max: SECONDS_MAX };
    let tools = match access::ask(&config, ask)? {
        Tell::Answer { answer } => from_answer(answer, &catalogue),
        Tell::Failed { message } => return Err(Failure::data(anyhow!(message))),
        _ => Vec::new(),
    };
    for tool in &tools {
        match common.output {
            Format::Json => writeln!(out, "{}", as_json(tool, &catalogue))?,
            Format::Human => print(out, tool)?,
        }
    }
    if common.output == Format::Human {
        let unlabelled = tools.iter().filter(|tool| tool.is_unlabelled()).count();
        writeln!(out, "{unlabelled} of {} without labels.", count_of(&tools, "tool"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The tools that a database has calls of.
pub(super) fn seen(reader: &Reader, catalogue: &Catalogue) -> Result<Vec<SeenTool>, Failure> {
    Ok(from_answer(reader.query(SEEN, TOOLS_MAX, SECONDS_MAX)?, catalogue))
}

fn from_answer(answer: Answer, catalogue: &Catalogue) -> Vec<SeenTool> {
    let tools = answer.rows.into_iter().filter_map(|row| {
        let [server, tool, calls] = row.try_into().ok()?;
        let server = server.as_str().map(str::to_owned);
        let tool = tool.as_str()?.to_owned();
        let labels = catalogue.labels(server.as_deref(), &tool);
        Some(SeenTool { server, tool, calls: calls.as_u64()?, labels })
    });
    tools.collect()
}

fn print(out: &mut impl Write, tool: &SeenTool) -> std::io::Result<()> {
    let labels: Vec<String> = Label::ALL
        .iter()
        .filter_map(|label| match tool.labels.get(*label) {
            Tri::Yes => Some(label.as_str().to_owned()),
            Tri::No | Tri::Unknown => None,
        })
        .collect();
    let source = match tool.labels.source {
        LabelSource::Operator => "yours",
        LabelSource::Shipped => "shipped",
        LabelSource::Guessed => "guessed from the name",
        LabelSource::Unknown => "none",
    };
    writeln!(
        out,
        "{:<32} {:>9} {}  {} ({source})",
        tool.shown_name(),
        tool.calls,
        if tool.calls == 1 { "call " } else { "calls" },
        if labels.is_empty() { "-".to_owned() } else { labels.join(", ") },
    )
}

fn as_json(tool: &SeenTool, catalogue: &Catalogue) -> serde_json::Value {
    let (labels, origins) = catalogue.explain(tool.server.as_deref(), &tool.tool);
    let origins: serde_json::Map<_, _> = origins
        .iter()
        .map(|origin| (origin.label.as_str().to_owned(), json!(origin.source)))
        .collect();
    json!({
        "server": tool.server,
        "tool": tool.tool,
        "calls": tool.calls,
        "labels": labels,
        "origins": origins,
    })
}
