//! Tries the mail configuration step by step, with the very conversation that alerts use.

use crate::model::AlertId;
use crate::model::{IdHasher, Micros};
use crate::notify::config::{MailConfig, MailConfigError};
use crate::notify::mailer::{Mailer, SendResult};
use crate::notify::render::{Mail, RenderError, RenderedMail, compose, machine_headers};
use crate::notify::smtp::{SmtpServer, Step, Trail};

/// How one step of the trial went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepResult {
    /// `connect`, `greeting`, `TLS`, `login`, `sender`, `recipient`, `data`; `file` for mails into
    /// a folder; `set-up` where it does not come to a conversation.
    pub step: &'static str,
    /// The recipient, for the steps that are about one mail.
    pub recipient: Option<String>,
    /// What went wrong, without secrets; the steps after a failed one are not tried.
    pub result: Result<(), String>,
}

/// Sends a trial mail to `to`, or to every configured recipient, and tells each step. `now` dates
/// the mail.
pub async fn probe(config: MailConfig, to: Option<&str>, now: Micros) -> Vec<StepResult> {
    let mut steps = Vec::new();
    if let Err(problem) = try_all(config, to, now, &mut steps).await {
        steps.push(step("set-up", None, Err(problem.to_string())));
    }
    steps
}

/// What keeps it from coming to a conversation.
#[derive(Debug, thiserror::Error)]
enum SetUpProblem {
    #[error(transparent)]
    Config(#[from] MailConfigError),
    #[error(transparent)]
    Mail(#[from] RenderError),
}

async fn try_all(
    config: MailConfig,
    to: Option<&str>,
    now: Micros,
    steps: &mut Vec<StepResult>,
) -> Result<(), SetUpProblem> {
    let recipients: Vec<String> = match to {
        Some(to) => vec![to.to_owned()],
        None => config.recipients().map(str::to_owned).collect(),
    };
    let mailer = Mailer::new(config)?;
    for (turn, recipient) in recipients.iter().enumerate() {
        let mail = trial_mail(mailer.config(), recipient, now)?;
        if let Some(server) = mailer.server() {
            try_server(server, &mailer, &mail, recipient, turn == 0, steps).await;
            continue;
        }
        let result = match mailer.send_once(&mail).await {
            SendResult::Sent => Ok(()),
            SendResult::Unreachable(text)
            | SendResult::Transient(text)
            | SendResult::Permanent(text) => Err(text),
        };
        steps.push(step("file", Some(recipient), result));
    }
    Ok(())
}

/// The steps before the mail's own are told for the first recipient alone: they are the same for
/// all.
async fn try_server(
    server: &SmtpServer,
    mailer: &Mailer,
    mail: &Mail,
    recipient: &str,
    is_first: bool,
    steps: &mut Vec<StepResult>,
) {
    let limits = mailer.config().limits();
    if is_first && server.is_tls_first() {
        let touched = server.touch(limits).await;
        let touched = touched.map_err(|failure| server.describe(Some(Step::Connect), &failure));
        let failed = touched.is_err();
        steps.push(step(Step::Connect.as_str(), None, touched));
        if failed {
            return;
        }
    }
    let mut trail = Trail::default();
    let delivered = server.deliver(mail.message(), limits, &mut trail).await;
    let about = |taken: Step| taken.is_about_the_mail().then_some(recipient);
    for &taken in &trail.passed {
        if is_first || taken.is_about_the_mail() {
            steps.push(step(taken.as_str(), about(taken), Ok(())));
        }
    }
    if let (Err(failure), Some(taken)) = (delivered, trail.current) {
        let text = server.describe(Some(taken), &failure);
        steps.push(step(taken.as_str(), about(taken), Err(text)));
    }
}

fn step(step: &'static str, recipient: Option<&str>, result: Result<(), String>) -> StepResult {
    StepResult { step, recipient: recipient.map(str::to_owned), result }
}

fn trial_mail(config: &MailConfig, recipient: &str, now: Micros) -> Result<Mail, RenderError> {
    let text = "This is a trial mail of Calltrail: alerts will reach you this way.\n";
    let rendered = RenderedMail {
        subject: "[test] Calltrail can reach you".to_owned(),
        text: text.to_owned(),
        html: format!("<!doctype html>\n<html lang=\"en\"><body><p>{text}</p></body></html>\n"),
        headers: machine_headers(config.domain()),
    };
    let mut hasher = IdHasher::new("trial-mail");
    hasher.text(recipient).number(now.0.unsigned_abs());
    let id = format!("<test.{}@{}>", AlertId::from_hasher(&hasher), config.domain());
    compose(&rendered, config, recipient, &id, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::config::Transport;
    use crate::notify::fixture;
    use crate::notify::sink::{Behaviour, Sink};

    fn told(steps: &[StepResult]) -> Vec<(&'static str, bool)> {
        steps.iter().map(|step| (step.step, step.result.is_ok())).collect()
    }

    #[tokio::test]
    async fn every_step_is_told() {
        let sink = Sink::start(vec![Behaviour::Accept]).await;
        let steps = probe(fixture::plain(sink.port), Some("bob@example.org"), Micros(0)).await;
        let names = ["connect", "greeting", "sender", "recipient", "data"];
        assert_eq!(told(&steps), names.map(|name| (name, true)));
        assert_eq!(steps[3].recipient.as_deref(), Some("bob@example.org"));
        assert!(sink.mails()[0].contains("Subject: [test]"));
    }

    #[tokio::test]
    async fn the_failing_step_is_the_last() {
        let sink = Sink::start(vec![Behaviour::Answer("RCPT", "550 unknown")]).await;
        let steps = probe(fixture::plain(sink.port), None, Micros(0)).await;
        let expected =
            [("connect", true), ("greeting", true), ("sender", true), ("recipient", false)];
        assert_eq!(told(&steps), expected);
    }

    #[tokio::test]
    async fn a_bad_recipient_and_a_folder_are_told_too() {
        let sink = Sink::start(vec![]).await;
        let steps = probe(fixture::plain(sink.port), Some("nobody"), Micros(0)).await;
        assert_eq!(told(&steps), [("set-up", false)]);
        let folder = tempfile::tempdir().unwrap();
        let transport = Transport::File { folder: folder.path().to_owned() };
        let steps = probe(fixture::config(transport), None, Micros(0)).await;
        assert_eq!(told(&steps), [("file", true)]);
    }
}
