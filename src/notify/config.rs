//! How mail is to be sent, checked whole before anything uses it.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use lettre::Address;
use lettre::message::Mailbox;

use crate::model::Level;

/// Where mails go, from whom, and by which way. Only [`MailConfig::new`] makes one, so every value
/// holds.
#[derive(Clone, Debug)]
pub struct MailConfig {
    from: Mailbox,
    to: Vec<Address>,
    transport: Transport,
    base_url: String,
    level_min: Level,
    limits: Limits,
}

/// The way a mail takes.
#[derive(Clone, Debug)]
pub enum Transport {
    Smtp(SmtpConfig),
    /// Every mail becomes an `.eml` file in the folder: for trying out and for sites whose own
    /// tools send.
    File {
        folder: PathBuf,
    },
}

/// A mail server and how to talk to it.
#[derive(Clone, Debug)]
pub struct SmtpConfig {
    /// Host name or IP address; the server's certificate must name it.
    pub host: String,
    pub port: u16,
    pub security: Security,
    /// None for a server that asks for no login.
    pub login: Option<Login>,
    /// Certificates in PEM to trust besides the system's, for a private authority.
    pub extra_root_pem: Option<Vec<u8>>,
}

/// How the connection is kept from being read or changed on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// TLS from the first byte, usually port 465.
    Tls,
    /// STARTTLS, usually port 587; a server that does not offer it is refused.
    StartTls,
    /// No encryption: only to a server on this machine.
    Plain,
}

/// Who we are to the mail server.
#[derive(Clone, Debug)]
pub struct Login {
    pub username: String,
    pub password: Secret,
}

/// A text that is never shown: its `Debug` form is masked and it has no other.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn new(secret: String) -> Self {
        Self(secret)
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How long one mail may take and how many may go out.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the first packet to a server that is ready to talk, encryption included.
    pub connect: Duration,
    /// One mail from beginning to end.
    pub whole: Duration,
    /// Mails in an hour below the critical level; what is over waits.
    pub hourly_max: usize,
    /// Critical mails in an hour, counted apart so that others cannot hold them up.
    pub critical_hourly_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            whole: Duration::from_mins(2),
            hourly_max: 30,
            critical_hourly_max: 60,
        }
    }
}

/// Something in the mail configuration that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MailConfigError {
    #[error("`{0}` is no mail address; write it as name@domain, the domain in its ASCII form")]
    Address(String),
    #[error("there is nobody to mail to")]
    NoRecipient,
    #[error(
        "unencrypted mail goes to this machine only, and `{0}` is another; use TLS or STARTTLS"
    )]
    PlainToRemote(String),
    #[error(
        "`{0}` is no base URL; write it as https://host/path, without login, query or fragment"
    )]
    BaseUrl(String),
    #[error("the mail server has no host name")]
    NoHost,
    #[error("the extra root certificate cannot be used: {0}")]
    Root(String),
}

impl MailConfig {
    /// Checks everything and reports every problem at once.
    pub fn new(
        from: &str,
        to: &[String],
        transport: Transport,
        base_url: &str,
        level_min: Level,
    ) -> Result<Self, Vec<MailConfigError>> {
        let mut problems = Vec::new();
        let from = mailbox(from).map_err(|problem| problems.push(problem)).ok();
        let mut recipients = Vec::with_capacity(to.len());
        for address in to {
            match mailbox(address) {
                Ok(mailbox) if recipients.contains(&mailbox.email) => {}
                Ok(mailbox) => recipients.push(mailbox.email),
                Err(problem) => problems.push(problem),
            }
        }
        if to.is_empty() {
            problems.push(MailConfigError::NoRecipient);
        }
        if let Transport::Smtp(smtp) = &transport {
            problems.extend(smtp_problem(smtp));
        }
        if !is_base_url(base_url) {
            problems.push(MailConfigError::BaseUrl(base_url.to_owned()));
        }
        match from {
            Some(from) if problems.is_empty() => Ok(Self {
                from,
                to: recipients,
                transport,
                base_url: base_url.trim_end_matches('/').to_owned(),
                level_min,
                limits: Limits::default(),
            }),
            _ => Err(problems),
        }
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Whether an alert of this level is worth a mail.
    pub fn wants(&self, level: Level) -> bool {
        level >= self.level_min
    }

    /// The addresses every alert goes to, each once, without display names.
    pub fn recipients(&self) -> impl Iterator<Item = &str> {
        self.to.iter().map(AsRef::as_ref)
    }

    /// The sender's domain: our message ids and list id end in it.
    pub fn domain(&self) -> &str {
        self.from.email.domain()
    }

    pub(super) fn from(&self) -> &Mailbox {
        &self.from
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Without a slash at its end.
    pub(super) fn base_url(&self) -> &str {
        &self.base_url
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }
}

/// Reads an address, with or without a display name. ASCII alone, because not every server takes
/// more.
fn mailbox(text: &str) -> Result<Mailbox, MailConfigError> {
    match text.parse::<Mailbox>() {
        Ok(mailbox) if AsRef::<str>::as_ref(&mailbox.email).is_ascii() => Ok(mailbox),
        _ => Err(MailConfigError::Address(text.to_owned())),
    }
}

fn smtp_problem(smtp: &SmtpConfig) -> Option<MailConfigError> {
    if smtp.host.is_empty() {
        return Some(MailConfigError::NoHost);
    }
    if smtp.security == Security::Plain && !is_loopback(&smtp.host) {
        return Some(MailConfigError::PlainToRemote(smtp.host.clone()));
    }
    None
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The base URL is the only link of a mail, so nothing that could mislead or leak may be in it.
fn is_base_url(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && rest.bytes().all(|byte| {
                byte.is_ascii_alphanumeric()
                    || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':')
                    || matches!(byte, b'/' | b'[' | b']' | b'%')
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smtp(host: &str, security: Security) -> Transport {
        let login = Login { username: "calltrail".into(), password: Secret::new("hunter2".into()) };
        Transport::Smtp(SmtpConfig {
            host: host.into(),
            port: 587,
            security,
            login: Some(login),
            extra_root_pem: None,
        })
    }

    fn config(
        from: &str,
        to: &[&str],
        transport: Transport,
        base_url: &str,
    ) -> Result<MailConfig, Vec<MailConfigError>> {
        let to: Vec<String> = to.iter().map(|&address| address.to_owned()).collect();
        MailConfig::new(from, &to, transport, base_url, Level::High)
    }

    #[test]
    fn a_sound_configuration_is_taken() {
        let config = config(
            "Calltrail <calltrail@example.org>",
            &["a@example.org", "Ann <a@example.org>", "b@example.org"],
            smtp("mail.example.org", Security::StartTls),
            "https://trail.example.org/",
        )
        .unwrap();
        assert_eq!(config.recipients().collect::<Vec<_>>(), ["a@example.org", "b@example.org"]);
        assert_eq!(config.base_url(), "https://trail.example.org");
        assert_eq!(config.domain(), "example.org");
        assert!(config.wants(Level::Critical) && config.wants(Level::High));
        assert!(!config.wants(Level::Medium));
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let problems = config(
            "nobody",
            &["ünï@example.org", "x\r\nBcc: y@example.org"],
            smtp("mail.example.org", Security::Plain),
            "javascript:alert(1)",
        )
        .unwrap_err();
        assert_eq!(problems.len(), 5, "{problems:?}");
    }

    #[test]
    fn plain_text_is_for_this_machine_alone() {
        for host in ["localhost", "127.0.0.1", "127.8.8.8", "::1"] {
            let transport = smtp(host, Security::Plain);
            assert!(config("a@b.org", &["a@b.org"], transport, "http://x").is_ok(), "{host}");
        }
        for host in ["example.org", "10.0.0.1", "localhost.example.org", "0.0.0.0"] {
            let transport = smtp(host, Security::Plain);
            let problems = config("a@b.org", &["a@b.org"], transport, "http://x").unwrap_err();
            assert_eq!(problems, [MailConfigError::PlainToRemote(host.into())]);
        }
    }

    #[test]
    fn a_base_url_holds_no_login_query_or_markup() {
        for url in ["ftp://x", "https://", "https://u:p@x", "https://x?t=1", "https://x/\"><b>"] {
            let problems =
                config("a@b.org", &["a@b.org"], smtp("x", Security::Tls), url).unwrap_err();
            assert_eq!(problems, [MailConfigError::BaseUrl(url.into())]);
        }
    }

    #[test]
    fn the_password_is_not_in_the_debug_form() {
        let config = config("a@b.org", &["a@b.org"], smtp("x", Security::Tls), "http://x").unwrap();
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
