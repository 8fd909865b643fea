//! Mail: what an alert's mail says, how it is sent, and the loop that sends what is owed.
//!
//! The outbox itself is the store's: a mail is owed from the moment the alert is committed. This
//! module reads what is due, renders it, talks to the mail server and tells the store what became
//! of it. It decides nothing about alerts, and nothing from a log reaches a mail other than names,
//! times and outcome words, made inert.

mod backoff;
mod caps;
mod config;
mod inert;
mod mailer;
mod outbox;
mod probe;
mod render;
mod smtp;
mod view;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod sink;

pub use backoff::next_attempt;
pub use config::{
    Limits, Login, MailConfig, MailConfigError, Secret, Security, SmtpConfig, Transport,
};
pub use mailer::{Mailer, SendResult};
pub use outbox::run;
pub use probe::{StepResult, probe};
pub use render::{Mail, RenderError, RenderedMail, compose, eml, message_id, render};
