//! One conversation with a mail server, step by step, so that a failure can be told by the step it
//! happened in.
//!
//! The steps are ours rather than the transport's of the mail library: its own limit covers the
//! connecting alone, and after the server took a mail it still waits for the goodbye, so that a
//! silent server would make a sent mail look lost.

use std::io;
use std::time::Duration;

use lettre::Message;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::notify::config::{Limits, MailConfigError, Secret, Security, SmtpConfig};
use crate::untrusted::display_untrusted;

/// How long the server may take to say goodbye after it took the mail; the answer changes nothing.
const GOODBYE_MAX: Duration = Duration::from_secs(2);
/// Longest server answer kept in an error, in characters.
const ANSWER_CHARS_MAX: usize = 300;

/// A mail server that can be talked to.
pub(super) struct SmtpServer {
    host: String,
    port: u16,
    hello: ClientId,
    security: Channel,
    credentials: Option<Credentials>,
    /// Kept to be cut out of what the server answers.
    password: Option<Secret>,
}

enum Channel {
    Tls(TlsParameters),
    StartTls(TlsParameters),
    Plain,
}

/// Where in the conversation we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Connect,
    Greeting,
    Tls,
    Login,
    Sender,
    Recipient,
    Data,
}

impl Step {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Greeting => "greeting",
            Self::Tls => "TLS",
            Self::Login => "login",
            Self::Sender => "sender",
            Self::Recipient => "recipient",
            Self::Data => "data",
        }
    }

    /// From here on the server's word is about this one mail and no longer about us.
    pub(super) const fn is_about_the_mail(self) -> bool {
        matches!(self, Self::Sender | Self::Recipient | Self::Data)
    }
}

/// The steps that were passed, and the one that is or was being taken.
#[derive(Debug, Default)]
pub(super) struct Trail {
    pub(super) passed: Vec<Step>,
    pub(super) current: Option<Step>,
}

impl Trail {
    fn enter(&mut self, step: Step) {
        self.finish();
        self.current = Some(step);
    }

    fn finish(&mut self) {
        self.passed.extend(self.current.take());
    }
}

/// Why a conversation ended before the mail was taken.
#[derive(Debug)]
pub(super) enum Failure {
    Smtp(SmtpError),
    Io(io::Error),
    TimedOut(Duration),
}

impl From<SmtpError> for Failure {
    fn from(error: SmtpError) -> Self {
        Self::Smtp(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Failure {
    /// True when the server said no for good (5xx).
    pub(super) fn is_permanent(&self) -> bool {
        matches!(self, Self::Smtp(error) if error.is_permanent())
    }
}

impl SmtpServer {
    /// Reads the certificates to trust; blocks shortly.
    pub(super) fn new(config: &SmtpConfig) -> Result<Self, MailConfigError> {
        let login = config.login.as_ref();
        Ok(Self {
            host: config.host.clone(),
            port: config.port,
            hello: ClientId::default(),
            security: match config.security {
                Security::Tls => Channel::Tls(tls(config)?),
                Security::StartTls => Channel::StartTls(tls(config)?),
                Security::Plain => Channel::Plain,
            },
            credentials: login.map(|login| {
                Credentials::new(login.username.clone(), login.password.reveal().to_owned())
            }),
            password: login.map(|login| login.password.clone()),
        })
    }

    /// Delivers the mail to its one recipient. `trail` says afterwards how far it came. Once this
    /// returns `Ok` the server has taken the mail.
    pub(super) async fn deliver(
        &self,
        message: &Message,
        limits: Limits,
        trail: &mut Trail,
    ) -> Result<(), Failure> {
        let talk = async {
            let opening = timeout(limits.connect, self.open(trail));
            let mut connection = opening.await.map_err(|_| Failure::TimedOut(limits.connect))??;
            self.log_in(&mut connection, trail).await?;
            hand_over(&mut connection, message, trail).await?;
            Ok::<_, Failure>(connection)
        };
        let talked = timeout(limits.whole, talk).await;
        let mut connection = talked.map_err(|_| Failure::TimedOut(limits.whole))??;
        let goodbye = timeout(GOODBYE_MAX.min(limits.whole), connection.abort()).await;
        if goodbye.is_err() {
            tracing::debug!("the mail server took the mail and did not say goodbye");
        }
        Ok(())
    }

    /// Sees whether anybody listens, before TLS comes into it.
    pub(super) async fn touch(&self, limits: Limits) -> Result<(), Failure> {
        let connecting = timeout(limits.connect, self.connect());
        connecting.await.map_err(|_| Failure::TimedOut(limits.connect))??;
        Ok(())
    }

    /// True when TLS comes before the greeting, so that connecting cannot be told from it.
    pub(super) fn is_tls_first(&self) -> bool {
        matches!(self.security, Channel::Tls(_))
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        TcpStream::connect((self.host.as_str(), self.port)).await
    }

    async fn open(&self, trail: &mut Trail) -> Result<AsyncSmtpConnection, Failure> {
        if let Channel::Tls(tls) = &self.security {
            trail.enter(Step::Tls);
            let server = (self.host.as_str(), self.port);
            let tls = Some(tls.clone());
            let connection =
                AsyncSmtpConnection::connect_tokio1(server, None, &self.hello, tls, None).await?;
            return Ok(connection);
        }
        trail.enter(Step::Connect);
        let stream = self.connect().await?;
        trail.enter(Step::Greeting);
        let mut connection =
            AsyncSmtpConnection::connect_with_transport(Box::new(stream), &self.hello).await?;
        if let Channel::StartTls(tls) = &self.security {
            trail.enter(Step::Tls);
            connection.starttls(tls.clone(), &self.hello).await?;
        }
        Ok(connection)
    }

    async fn log_in(
        &self,
        connection: &mut AsyncSmtpConnection,
        trail: &mut Trail,
    ) -> Result<(), Failure> {
        if let Some(credentials) = &self.credentials {
            trail.enter(Step::Login);
            connection.auth(DEFAULT_MECHANISMS, credentials).await?;
        }
        Ok(())
    }

    /// What went wrong, in words for the dashboard: hostile answers are inert, and no secret is in
    /// it.
    pub(super) fn describe(&self, step: Option<Step>, failure: &Failure) -> String {
        let step_word = step.map_or("start", Step::as_str);
        match failure {
            Failure::TimedOut(limit) => {
                format!("{step_word}: no answer within {} s", limit.as_secs_f32())
            }
            Failure::Io(error) => format!("{step_word}: {error}"),
            // A server may repeat what it was given, so of an answer to the login the code alone is
            // kept.
            Failure::Smtp(error) if step == Some(Step::Login) => match error.status() {
                Some(code) => {
                    format!("{step_word}: the server refused user name or password ({code})")
                }
                None => format!("{step_word}: failed before the server decided"),
            },
            Failure::Smtp(error) => format!("{step_word}: {}", self.without_password(error)),
        }
    }

    fn without_password(&self, error: &SmtpError) -> String {
        let mut text = error.to_string();
        if let Some(password) = self.password.as_ref().filter(|secret| !secret.reveal().is_empty())
        {
            text = text.replace(password.reveal(), "***");
        }
        let head: String = text.chars().take(ANSWER_CHARS_MAX).collect();
        display_untrusted(&head)
    }
}

/// Gives the server one mail. Returns once the server has taken it.
async fn hand_over(
    connection: &mut AsyncSmtpConnection,
    message: &Message,
    trail: &mut Trail,
) -> Result<(), Failure> {
    let envelope = message.envelope();
    trail.enter(Step::Sender);
    connection.command(Mail::new(envelope.from().cloned(), Vec::new())).await?;
    trail.enter(Step::Recipient);
    for recipient in envelope.to() {
        connection.command(Rcpt::new(recipient.clone(), Vec::new())).await?;
    }
    trail.enter(Step::Data);
    connection.command(Data).await?;
    connection.message(&message.formatted()).await?;
    trail.finish();
    Ok(())
}

fn tls(config: &SmtpConfig) -> Result<TlsParameters, MailConfigError> {
    let root_problem = |error: SmtpError| MailConfigError::Root(error.to_string());
    let mut builder = TlsParameters::builder(config.host.clone());
    if let Some(pem) = &config.extra_root_pem {
        // A file without any certificate is read as an empty list, and nothing would say why nobody
        // is trusted.
        if memchr::memmem::find(pem, b"-----BEGIN CERTIFICATE-----").is_none() {
            return Err(MailConfigError::Root("there is no PEM certificate in it".to_owned()));
        }
        builder = builder.add_root_certificate(Certificate::from_pem(pem).map_err(root_problem)?);
    }
    builder.build().map_err(root_problem)
}
