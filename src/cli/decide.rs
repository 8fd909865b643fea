//! What a person decides about an alert, checked against how it stands, and told back in one line.

use std::io::Write;

use anyhow::anyhow;
use clap::builder::NonEmptyStringValueParser;
use serde_json::json;

use super::access;
use super::alerts::{find, told, unexpected};
use super::failure::Failure;
use super::output::Format;
use super::wanted::{Wanted, resolve};
use super::words::reason_word;
use crate::config::Config;
use crate::daemon::control::{Ask, Tell};
use crate::model::{AlertState, AlertView, CloseReason};
use crate::untrusted::display_untrusted;

/// What is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Acknowledge,
    Close(CloseReason),
    Reopen,
}

#[derive(clap::Args, Debug)]
pub(super) struct Remark {
    /// A note for the history
    #[arg(long, default_value = "")]
    note: String,
    /// Who decides, for the history; without it, the name you are logged in with
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    who: Option<String>,
}

/// Puts a decision down and says so.
pub(super) fn decide(
    config: &Config,
    wanted: &Wanted,
    verdict: Verdict,
    remark: Remark,
    format: Format,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let alert = find(config, resolve(config, wanted)?)?;
    let is_repeated = verdict.check(&alert)?;
    let who = remark.who.unwrap_or_else(login_name);
    let ask = Ask::Decide {
        id: alert.id,
        who: who.clone(),
        state: verdict.state(),
        close_reason: verdict.close_reason(),
        note: remark.note.clone(),
    };
    let Tell::Done = told(access::ask(config, ask)?)? else { return Err(unexpected()) };
    match format {
        Format::Json => writeln!(
            out,
            "{}",
            json!({
                "alert_id": alert.id,
                "status": verdict.state(),
                "close_reason": verdict.close_reason(),
                "who": who,
                "note": remark.note,
                "repeated": is_repeated,
            })
        )?,
        Format::Human => {
            let repeated = if is_repeated { " (it was already)" } else { "" };
            let who = display_untrusted(&who);
            writeln!(out, "{} {} by {who}{repeated}", alert.id, verdict.done())?;
        }
    }
    Ok(())
}

impl Verdict {
    const fn state(self) -> AlertState {
        match self {
            Self::Acknowledge => AlertState::Acknowledged,
            Self::Close(_) => AlertState::Closed,
            Self::Reopen => AlertState::Open,
        }
    }

    const fn close_reason(self) -> Option<CloseReason> {
        match self {
            Self::Close(reason) => Some(reason),
            Self::Acknowledge | Self::Reopen => None,
        }
    }

    fn done(self) -> String {
        match self {
            Self::Acknowledge => "acknowledged".to_owned(),
            Self::Close(reason) => format!("closed as {}", reason_word(reason)),
            Self::Reopen => "reopened".to_owned(),
        }
    }

    /// Whether this was decided already. What would undo a closing without saying so is refused.
    fn check(self, alert: &AlertView) -> Result<bool, Failure> {
        if self == Self::Acknowledge && alert.state == AlertState::Closed {
            return Err(Failure::data(anyhow!(
                "{id} is closed, and acknowledging would open it again; \
                 if that is meant, `calltrail alerts reopen {id}` first",
                id = alert.id
            )));
        }
        Ok(self.state() == alert.state && self.close_reason() == alert.close_reason)
    }
}

/// The name of whoever runs this: what the session says, else what the system's list of users does.
#[expect(clippy::disallowed_methods, reason = "who is logged in is no configuration")]
fn login_name() -> String {
    let named = |variable| std::env::var(variable).ok().filter(|name| !name.trim().is_empty());
    let uid = rustix::process::getuid().as_raw();
    named("USER")
        .or_else(|| named("LOGNAME"))
        .or_else(|| user_of(uid, &std::fs::read_to_string("/etc/passwd").ok()?))
        .unwrap_or_else(|| format!("uid {uid}"))
}

fn user_of(uid: u32, users: &str) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_number() {
        let users = "root:x:0:0:root:/root:/bin/bash\nbroken\nnadia:x:1000:1000::/home/n:/bin/sh\n";
        assert_eq!(user_of(0, users).as_deref(), Some("root"));
        assert_eq!(user_of(1000, users).as_deref(), Some("nadia"));
        assert_eq!(user_of(7, users), None);
    }
}
