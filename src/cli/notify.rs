//! `calltrail notify`: trying the mail set-up, and looking at a mail.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use serde_json::json;

use super::Common;
use super::alerts::{ID_HELP, find};
use super::failure::Failure;
use super::output::Format;
use super::wanted::{Wanted, resolve};
use super::words::count;
use crate::config::Config;
use crate::daemon::now;
use crate::notify::{MailConfig, Transport, compose, eml, message_id, probe, render};

#[derive(clap::Subcommand, Debug)]
pub(super) enum Command {
    /// Send a test mail, step by step
    Test {
        /// To this address instead of the configured ones
        #[arg(long)]
        to: Option<String>,
    },
    /// Print the mail of an alert as it would be sent
    Preview {
        #[arg(value_name = "ID", help = ID_HELP)]
        id: Wanted,
    },
}

pub(super) fn run(
    command: &Command,
    common: &Common,
    out: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let config = super::load(&common.overrides())?;
    match command {
        Command::Test { to } => test(&config, to.as_deref(), common.output, out),
        Command::Preview { id } => preview(&config, id, out),
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
    if format == Format::Human {
        writeln!(out, "Trying {}", way(&mail))?;
        out.flush()?;
    }
    let steps = runtime.block_on(probe(mail, to, now()));
    let mut is_good = true;
    for step in &steps {
        let failure = step.result.as_ref().err();
        is_good &= failure.is_none();
        let recipient =
            step.recipient.as_deref().map(|recipient| format!(" {recipient}")).unwrap_or_default();
        match (format, failure) {
            (Format::Json, _) => writeln!(
                out,
                "{}",
                json!({ "step": step.step, "recipient": step.recipient, "failure": failure })
            )?,
            (Format::Human, None) => writeln!(out, "ok      {}{recipient}", step.step)?,
            (Format::Human, Some(error)) => {
                writeln!(out, "failed  {}{recipient}: {error}", step.step)?;
            }
        }
    }
    if format == Format::Human {
        let failed = steps.iter().filter(|step| step.result.is_err()).count() as u64;
        match failed {
            0 => writeln!(out, "Mail works.")?,
            failed => writeln!(out, "Mail does not work: {} failed.", count(failed, "step"))?,
        }
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(69) })
}

/// Where mails go first.
fn way(mail: &MailConfig) -> String {
    match mail.transport() {
        Transport::Smtp(server) => format!("{}:{}", server.host, server.port),
        Transport::File { folder } => format!("the folder {}", folder.display()),
    }
}

fn preview(config: &Config, wanted: &Wanted, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let mail = mail_of(config)?;
    let alert = find(config, resolve(config, wanted)?)?;
    let rendered = render(&alert, mail).context("rendering the mail")?;
    let recipient = mail.recipients().next().unwrap_or_default();
    let message_id = message_id(alert.id, recipient, mail.domain());
    let mail =
        compose(&rendered, mail, recipient, &message_id, now()).context("composing the mail")?;
    out.write_all(&eml(&mail))?;
    Ok(ExitCode::SUCCESS)
}
