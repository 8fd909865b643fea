//! `calltrail alerts`: listing, showing and deciding.

use std::io::Write;
use std::process::ExitCode;

use anyhow::anyhow;

use super::failure::Failure;
use super::output::{print_alert, print_alerts};
use super::{Common, access};
use crate::daemon::control::{Ask, Tell};
use crate::model::{AlertId, AlertState, CloseReason, Level};
use crate::store::AlertFilter;

#[derive(clap::Subcommand, Debug)]
pub(super) enum Command {
    /// List alerts, newest first
    List {
        /// Only this state: open, acknowledged, closed
        #[arg(long, value_parser = parse_state)]
        status: Option<AlertState>,
        /// Only this level and graver ones
        #[arg(long, value_parser = super::parse_level)]
        level: Option<Level>,
        /// Only this rule
        #[arg(long)]
        rule: Option<String>,
        /// Only this actor
        #[arg(long)]
        actor: Option<String>,
        /// At most so many
        #[arg(long)]
        limit: Option<usize>,
    },
    /// Show one alert with its calls and their lines
    Show { id: AlertId },
    /// Say that you are looking at it
    Ack {
        id: AlertId,
        #[command(flatten)]
        remark: Remark,
    },
    /// Close it
    Close {
        id: AlertId,
        /// Why: true-positive, false-positive, benign, duplicate or other
        #[arg(long, value_parser = parse_reason)]
        reason: CloseReason,
        #[command(flatten)]
        remark: Remark,
    },
}

#[derive(clap::Args, Debug)]
pub(super) struct Remark {
    /// A note for the history
    #[arg(long, default_value = "")]
    note: String,
    /// Who decides, for the history
    #[arg(long, env = "USER", default_value = "somebody")]
    who: String,
}

pub(super) fn run(
    command: Command,
    common: &Common,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let config = common.config()?;
    match command {
        Command::List { status, level, rule, actor, limit } => {
            let filter = AlertFilter {
                state: status,
                level_min: level,
                rule,
                actor,
                limit,
                with_evidence: true,
                ..AlertFilter::default()
            };
            let Tell::Alerts { alerts } = told(access::ask(&config, Ask::Alerts { filter })?)?
            else {
                return Err(unexpected());
            };
            print_alerts(out, common.output, &alerts)?;
        }
        Command::Show { id } => {
            let Tell::Alert { alert } = told(access::ask(&config, Ask::Alert { id })?)? else {
                return Err(unexpected());
            };
            let alert =
                alert.ok_or_else(|| Failure::no_input(anyhow!("no alert has the id {id}")))?;
            print_alert(out, common.output, &alert)?;
        }
        Command::Ack { id, remark } => {
            decide(&config, id, AlertState::Acknowledged, None, remark)?;
        }
        Command::Close { id, reason, remark } => {
            decide(&config, id, AlertState::Closed, Some(reason), remark)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn decide(
    config: &crate::config::Config,
    id: AlertId,
    state: AlertState,
    close_reason: Option<CloseReason>,
    remark: Remark,
) -> Result<(), Failure> {
    let ask = Ask::Decide { id, who: remark.who, state, close_reason, note: remark.note };
    told(access::ask(config, ask)?).map(drop)
}

/// An answer that is no failure.
pub(super) fn told(tell: Tell) -> Result<Tell, Failure> {
    match tell {
        Tell::Failed { message } => Err(Failure::data(anyhow!(message))),
        tell => Ok(tell),
    }
}

pub(super) fn unexpected() -> Failure {
    Failure::busy(anyhow!("the running daemon is of another version; restart it"))
}

fn parse_state(word: &str) -> Result<AlertState, String> {
    AlertState::from_word(word).ok_or_else(|| "open, acknowledged or closed".to_owned())
}

fn parse_reason(word: &str) -> Result<CloseReason, String> {
    let words = CloseReason::ALL.map(CloseReason::as_str).join(", ");
    CloseReason::from_word(&word.replace('-', "_")).ok_or(words)
}
