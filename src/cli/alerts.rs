//! `calltrail alerts`: listing, showing and deciding.

use std::io::Write;
use std::process::ExitCode;

use anyhow::anyhow;

use super::decide::{Remark, Verdict, decide};
use super::failure::Failure;
use super::output::{Format, print_alert, print_alerts};
use super::wanted::{Wanted, resolve};
use super::words::{parse_level, parse_moment, parse_reason, parse_state};
use super::{Common, access};
use crate::config::Config;
use crate::daemon::control::{Ask, Tell};
use crate::model::{AlertId, AlertState, AlertView, CloseReason, Level, Micros};
use crate::store::AlertFilter;

#[derive(clap::Subcommand, Debug)]
pub(super) enum Command {
    /// List alerts, those seen last first
    List(ListArgs),
    /// Show one alert with its calls, their lines and what people decided about it
    Show {
        #[arg(value_name = "ID", help = ID_HELP)]
        id: Wanted,
    },
    /// Say that you are looking at it
    Ack {
        #[arg(value_name = "ID", help = ID_HELP)]
        id: Wanted,
        #[command(flatten)]
        remark: Remark,
    },
    /// Close it
    Close {
        #[arg(value_name = "ID", help = ID_HELP)]
        id: Wanted,
        /// Why; one of: true-positive, false-positive, benign, duplicate, other
        #[arg(long, value_parser = parse_reason)]
        reason: CloseReason,
        #[command(flatten)]
        remark: Remark,
    },
    /// Open it again
    Reopen {
        #[arg(value_name = "ID", help = ID_HELP)]
        id: Wanted,
        #[command(flatten)]
        remark: Remark,
    },
}

/// What an id may be; for every command that takes one.
pub(super) const ID_HELP: &str =
    "Its id, the first 4 or more digits of it, or the address of its page on the dashboard";

#[derive(clap::Args, Debug)]
pub(super) struct ListArgs {
    /// Only this state; one of: open, acknowledged, closed
    #[arg(long, value_parser = parse_state)]
    status: Option<AlertState>,
    /// Only this level and graver ones; one of: informational, low, medium, high, critical
    #[arg(long, value_parser = parse_level)]
    level: Option<Level>,
    /// Only this rule
    #[arg(long)]
    rule: Option<String>,
    /// Only this actor
    #[arg(long)]
    actor: Option<String>,
    /// Only what was seen at this time or later: RFC 3339, or how long ago, such as 24h or 7d
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    since: Option<Micros>,
    /// Only what was first seen at this time or before, written as for --since
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    until: Option<Micros>,
    /// At most so many; without it, all
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
}

pub(super) fn run(
    command: Command,
    common: &Common,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let config = common.config()?;
    match command {
        Command::List(args) => list(&config, args, common.output, out)?,
        Command::Show { id } => {
            let alert = find(&config, resolve(&config, &id)?)?;
            let ask = Ask::Decisions { id: alert.id };
            let Tell::Decisions { decisions } = told(access::ask(&config, ask)?)? else {
                return Err(unexpected());
            };
            print_alert(out, common.output, &alert, &decisions)?;
        }
        Command::Ack { id, remark } => {
            decide(&config, &id, Verdict::Acknowledge, remark, common.output, out)?;
        }
        Command::Close { id, reason, remark } => {
            decide(&config, &id, Verdict::Close(reason), remark, common.output, out)?;
        }
        Command::Reopen { id, remark } => {
            decide(&config, &id, Verdict::Reopen, remark, common.output, out)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(
    config: &Config,
    args: ListArgs,
    format: Format,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let filter = AlertFilter {
        state: args.status,
        level_min: args.level,
        rule: args.rule,
        actor: args.actor,
        from: args.since,
        to: args.until,
        // The store cuts in the order of what changed last, so the cut is made below.
        limit: None,
        with_evidence: format == Format::Json,
        ..AlertFilter::default()
    };
    let Tell::Alerts { mut alerts } = told(access::ask(config, Ask::Alerts { filter })?)? else {
        return Err(unexpected());
    };
    alerts.sort_by(|left, right| {
        let newest = right.last_seen.cmp(&left.last_seen);
        newest.then_with(|| (&left.rule, left.id).cmp(&(&right.rule, right.id)))
    });
    alerts.truncate(args.limit.unwrap_or(usize::MAX));
    if alerts.is_empty() {
        writeln!(std::io::stderr(), "no alerts")?;
    }
    Ok(print_alerts(out, format, &alerts)?)
}

/// The alert of this id with its calls.
pub(super) fn find(config: &Config, id: AlertId) -> Result<Box<AlertView>, Failure> {
    let Tell::Alert { alert } = told(access::ask(config, Ask::Alert { id })?)? else {
        return Err(unexpected());
    };
    alert.ok_or_else(|| unknown(id))
}

/// An answer that is no failure.
pub(super) fn told(tell: Tell) -> Result<Tell, Failure> {
    match tell {
        Tell::Failed { message } => Err(Failure::data(anyhow!(message))),
        Tell::Unknown { id } => Err(unknown(id)),
        tell => Ok(tell),
    }
}

fn unknown(id: AlertId) -> Failure {
    Failure::no_input(anyhow!("no alert has the id {id}"))
}

pub(super) fn unexpected() -> Failure {
    Failure::busy(anyhow!("the running daemon is of another version; restart it"))
}
