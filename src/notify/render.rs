//! An alert to a mail: subject, headers, text and HTML. Pure: what it needs to know it is given.

use std::time::{Duration, UNIX_EPOCH};

use askama::Template;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::{Address, Message};

use crate::model::{AlertId, AlertView, IdHasher, Level, Micros};
use crate::notify::config::MailConfig;
use crate::notify::inert::{NAME_CHARS_MAX, inert};
use crate::notify::view::{Leg, MailView};

/// Characters of the title and of the actor in a subject: together they fit what mail lists show.
const SUBJECT_TITLE_CHARS_MAX: usize = 90;
const SUBJECT_ACTOR_CHARS_MAX: usize = 60;

/// The last second whose year a mail header can hold.
const DATE_SECONDS_MAX: u64 = 253_402_300_799;

/// What a mail says, whoever it goes to.
#[derive(Clone, Debug)]
pub struct RenderedMail {
    pub subject: String,
    /// Complete without the HTML.
    pub text: String,
    pub html: String,
    /// Those headers that depend on the alert alone, in order.
    pub headers: Vec<(&'static str, String)>,
}

/// A mail with sender, recipient, date and id: ready to be sent or shown.
#[derive(Clone, Debug)]
pub struct Mail {
    message: Message,
    message_id: String,
}

impl Mail {
    pub(super) fn message(&self) -> &Message {
        &self.message
    }

    pub(super) fn message_id(&self) -> &str {
        &self.message_id
    }
}

/// Why there is no mail for an alert.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error("the mail's template failed: {0}")]
    Template(#[from] askama::Error),
    #[error("the recipient is no mail address")]
    Recipient,
    #[error("the mail could not be put together: {0}")]
    Message(#[from] lettre::error::Error),
}

#[derive(Template)]
#[template(path = "mail/alert.txt")]
struct AlertText<'a> {
    view: &'a MailView,
}

#[derive(Template)]
#[template(path = "mail/alert.html")]
struct AlertHtml<'a> {
    view: &'a MailView,
}

/// Says in a mail what the alert is. Every text from a log is inert, short and without arguments.
pub fn render(alert: &AlertView, config: &MailConfig) -> Result<RenderedMail, RenderError> {
    let view = MailView::new(alert, config.base_url());
    let mut headers = machine_headers(config.domain());
    headers.push(("X-Calltrail-Alert", alert.id.to_string()));
    headers.push(("X-Calltrail-Level", alert.level.as_str().to_owned()));
    headers.push(("X-Calltrail-Rule", header_word(&inert(&alert.rule, NAME_CHARS_MAX))));
    if alert.level == Level::Critical {
        headers.push(("Importance", "high".to_owned()));
    }
    Ok(RenderedMail {
        subject: format!(
            "[{}] {} – {}",
            alert.level.as_str(),
            inert(&alert.title, SUBJECT_TITLE_CHARS_MAX),
            inert(&alert.actor, SUBJECT_ACTOR_CHARS_MAX),
        ),
        text: AlertText { view: &view }.render()?,
        html: AlertHtml { view: &view }.render()?,
        headers,
    })
}

/// What a mail of a machine carries, so that no out-of-office robot answers and lists can sort it.
pub(super) fn machine_headers(domain: &str) -> Vec<(&'static str, String)> {
    vec![
        ("Auto-Submitted", "auto-generated".to_owned()),
        ("X-Auto-Response-Suppress", "All".to_owned()),
        ("List-Id", format!("Calltrail alerts <alerts.calltrail.{domain}>")),
    ]
}

/// Addresses a rendered mail. The date is the caller's; the message id is the one the outbox holds.
pub fn compose(
    rendered: &RenderedMail,
    config: &MailConfig,
    recipient: &str,
    message_id: &str,
    date: Micros,
) -> Result<Mail, RenderError> {
    let to: Address = recipient.parse().map_err(|_| RenderError::Recipient)?;
    let seconds = u64::try_from(date.0 / Micros::SECOND).unwrap_or(0).min(DATE_SECONDS_MAX);
    let mut builder = Message::builder()
        .date(UNIX_EPOCH + Duration::from_secs(seconds))
        .message_id(Some(message_id.to_owned()))
        .from(config.from().clone())
        .to(Mailbox::new(None, to))
        .subject(rendered.subject.clone());
    for (name, value) in &rendered.headers {
        let name = HeaderName::new_from_ascii_str(name);
        builder = builder.raw_header(HeaderValue::new(name, value.clone()));
    }
    let parts = MultiPart::alternative_plain_html(rendered.text.clone(), rendered.html.clone());
    Ok(Mail { message: builder.multipart(parts)?, message_id: message_id.to_owned() })
}

/// The mail as a file that mail programs open.
pub fn eml(mail: &Mail) -> Vec<u8> {
    mail.message.formatted()
}

/// The id of an alert's mail to one recipient: the same at every attempt and after a rebuild, so
/// that a mail delivered twice is recognised. The recipient is in it as a hash, because ids are
/// quoted in answers.
pub fn message_id(alert: AlertId, recipient: &str, domain: &str) -> String {
    let mut hasher = IdHasher::new("mail-recipient");
    hasher.text(recipient);
    // Any of the sixteen-byte ids would do: only the digits are wanted.
    let recipient = AlertId::from_hasher(&hasher);
    format!("<{alert}.{recipient}@{domain}>")
}

/// A header that machines sort by: one word of ASCII.
fn header_word(text: &str) -> String {
    let word = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    text.chars().map(|letter| if word(letter) { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests;
