//! Sends one mail once, by the configured way, within a time limit, and says how it went.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::notify::config::{MailConfig, MailConfigError, Transport};
use crate::notify::render::{Mail, eml};
use crate::notify::smtp::{Failure, SmtpServer, Step, Trail};

/// Sends mails as its configuration says.
pub struct Mailer {
    config: MailConfig,
    way: Way,
}

enum Way {
    Smtp(Box<SmtpServer>),
    File(PathBuf),
}

/// How sending one mail went. No text holds a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendResult {
    Sent,
    /// The server could not be reached or would not have us; every other mail would have failed
    /// alike.
    Unreachable(String),
    /// This mail did not go through for now. It may have arrived: an answer can be lost.
    Transient(String),
    /// The server refused this mail for good.
    Permanent(String),
}

impl Mailer {
    /// Reads the certificates to trust; blocks shortly.
    pub fn new(config: MailConfig) -> Result<Self, MailConfigError> {
        let way = match config.transport() {
            Transport::Smtp(smtp) => Way::Smtp(Box::new(SmtpServer::new(smtp)?)),
            Transport::File { folder } => Way::File(folder.clone()),
        };
        Ok(Self { config, way })
    }

    pub fn config(&self) -> &MailConfig {
        &self.config
    }

    /// Sends the mail to its recipient, once. Ends within the configured limit whatever the server
    /// does.
    pub async fn send_once(&self, mail: &Mail) -> SendResult {
        match &self.way {
            Way::Smtp(server) => {
                let mut trail = Trail::default();
                let limits = self.config.limits();
                match server.deliver(mail.message(), limits, &mut trail).await {
                    Ok(()) => SendResult::Sent,
                    Err(failure) => refused(server, trail.current, &failure),
                }
            }
            Way::File(folder) => {
                let (folder, name, bytes) = (folder.clone(), file_name(mail), eml(mail));
                let write = move || write_whole(&folder, &name, &bytes);
                match tokio::task::spawn_blocking(write).await {
                    Ok(Ok(())) => SendResult::Sent,
                    Ok(Err(error)) => SendResult::Unreachable(format!("file: {error}")),
                    Err(error) => SendResult::Unreachable(format!("file: {error}")),
                }
            }
        }
    }

    pub(super) fn server(&self) -> Option<&SmtpServer> {
        match &self.way {
            Way::Smtp(server) => Some(server),
            Way::File(_) => None,
        }
    }
}

/// A refusal before the mail's own part is about us (a wrong password, a bad certificate) and can
/// be mended by the operator, so the mail is kept even if the server says never.
fn refused(server: &SmtpServer, step: Option<Step>, failure: &Failure) -> SendResult {
    let text = server.describe(step, failure);
    match step {
        Some(step) if step.is_about_the_mail() && failure.is_permanent() => {
            SendResult::Permanent(text)
        }
        Some(step) if step.is_about_the_mail() => SendResult::Transient(text),
        _ => SendResult::Unreachable(text),
    }
}

/// The same for every attempt, so that a repeat replaces the file and the mail is there once.
fn file_name(mail: &Mail) -> String {
    let safe = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '@');
    let id: String = mail.message_id().chars().filter(safe).take(200).collect();
    format!("{}.eml", id.trim_start_matches('.'))
}

/// Writes beside and renames, so that a reader never sees half a mail. Only the owner may read it.
fn write_whole(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let draft = folder.join(format!(".{name}.part"));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, folder.join(name))
}

#[cfg(test)]
mod tests;
