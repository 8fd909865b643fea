//! `calltrail notify`: trying the mail set-up, and looking at a mail.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use serde_json::json;

use super::alerts::{told, unexpected};
use super::failure::Failure;
use super::output::Format;
use super::{Common, access};
use crate::config::Config;
use crate::daemon::control::{Ask, Tell};
use crate::daemon::now;
use crate::model::AlertId;
use crate::notify::{MailConfig, compose, eml, message_id, probe, render};

#[derive(clap::Subcommand, Debug)]
pub(super) enum Command {
    /// Send a test mail, step by step
    Test {
        /// To this address instead of the configured ones
        #[arg(long)]
        to: Option<String>,
    },
    /// Print the mail of an alert as it would be sent
    Preview { id: AlertId },
}

pub(super) fn run(
    command: &Command,
    common: &Common,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let config = super::load(&common.overrides())?;
    match command {
        Command::Test { to } => test(&config, to.as_deref(), common.output, out),
        Command::Preview { id } => preview(&config, *id, out),
    }
}

fn mail_of(config: &Config) -> Result<&MailConfig, Failure> {
    config.mail.as_ref().ok_or_else(|| {
        Failure::config(anyhow!(
            "no mail is set up: add a section [mail] with from, to and [mail.smtp] to the \
             configuration (`calltrail check-config --example` shows one)"
        ))
    })
}

fn test(
    config: &Config,
    to: Option<&str>,
    format: Format,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let mail = mail_of(config)?.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime")?;
    let steps = runtime.block_on(probe(mail, to, now()));
    let mut is_good = true;
    for step in &steps {
        let failure = step.result.as_ref().err();
        is_good &= failure.is_none();
        let recipient = step.recipient.as_deref().unwrap_or_default();
        match (format, failure) {
            (Format::Json, _) => writeln!(
                out,
                "{}",
                json!({ "step": step.step, "recipient": step.recipient, "failure": failure })
            )?,
            (Format::Human, None) => writeln!(out, "ok      {} {recipient}", step.step)?,
            (Format::Human, Some(error)) => {
                writeln!(out, "failed  {} {recipient}: {error}", step.step)?;
            }
        }
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(69) })
}

fn preview(config: &Config, id: AlertId, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let mail = mail_of(config)?;
    let Tell::Alert { alert } = told(access::ask(config, Ask::Alert { id })?)? else {
        return Err(unexpected());
    };
    let alert = alert.ok_or_else(|| Failure::no_input(anyhow!("no alert has the id {id}")))?;
    let rendered = render(&alert, mail).context("rendering the mail")?;
    let recipient = mail.recipients().next().unwrap_or_default();
    let message_id = message_id(alert.id, recipient, mail.domain());
    let mail =
        compose(&rendered, mail, recipient, &message_id, now()).context("composing the mail")?;
    out.write_all(&eml(&mail))?;
    Ok(ExitCode::SUCCESS)
}
