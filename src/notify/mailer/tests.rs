//! Sending against a server that misbehaves, and into files.

use std::time::Duration;

use super::*;
use crate::model::Micros;
use crate::notify::config::{Limits, Login, Secret, Security, SmtpConfig};
use crate::notify::sink::{Behaviour, Sink};
use crate::notify::{compose, fixture, render};

fn mail(config: &MailConfig) -> Mail {
    let rendered = render(&fixture::trifecta(), config).unwrap();
    let owed = fixture::owed("ann@example.org");
    compose(&rendered, config, &owed.recipient, &owed.message_id, Micros(0)).unwrap()
}

async fn send(config: MailConfig) -> SendResult {
    let mail = mail(&config);
    Mailer::new(config).unwrap().send_once(&mail).await
}

/// What one mail meets at a server of that behaviour.
async fn meet(behaviour: Behaviour) -> (SendResult, Sink) {
    let sink = Sink::start(vec![behaviour]).await;
    (send(fixture::plain(sink.port)).await, sink)
}

/// The same for a sender that does not wait long.
async fn meet_in_haste(behaviour: Behaviour, connect: Duration, whole: Duration) -> SendResult {
    let sink = Sink::start(vec![behaviour]).await;
    let limits = Limits { connect, whole, ..Limits::default() };
    send(fixture::plain(sink.port).with_limits(limits)).await
}

#[tokio::test]
async fn a_mail_is_taken() {
    let (result, sink) = meet(Behaviour::Accept).await;
    assert_eq!(result, SendResult::Sent);
    let mails = sink.mails();
    assert_eq!(mails.len(), 1);
    assert!(mails[0].contains("Message-ID: <abababababababababababababababab."), "{mails:?}");
    let commands = sink.commands();
    assert_eq!(commands[1], "MAIL FROM:<calltrail@example.org>");
    assert_eq!(commands[2], "RCPT TO:<ann@example.org>");
}

#[tokio::test]
async fn a_busy_server_is_unreachable_and_a_grey_list_is_transient() {
    let (result, _) = meet(Behaviour::Greet("421 too busy")).await;
    assert_eq!(result, SendResult::Unreachable("greeting: transient error (421): too busy".into()));
    let (result, _) = meet(Behaviour::Answer("RCPT", "450 come back later")).await;
    assert_eq!(
        result,
        SendResult::Transient("recipient: transient error (450): come back later".into())
    );
}

#[tokio::test]
async fn a_refused_recipient_is_permanent() {
    let (result, sink) = meet(Behaviour::Answer("RCPT", "550 no such user")).await;
    assert_eq!(
        result,
        SendResult::Permanent("recipient: permanent error (550): no such user".into())
    );
    assert!(sink.mails().is_empty());
}

#[tokio::test]
async fn a_refusal_of_us_is_not_the_end_of_the_mail() {
    let (result, _) = meet(Behaviour::Greet("554 blocked")).await;
    assert!(matches!(result, SendResult::Unreachable(_)), "{result:?}");
}

#[tokio::test]
async fn a_server_that_hangs_up_after_the_mail_leaves_it_unknown() {
    let (result, sink) = meet(Behaviour::DropAfterData).await;
    assert!(matches!(result, SendResult::Transient(_)), "{result:?}");
    assert_eq!(sink.mails().len(), 1);
}

#[tokio::test]
async fn silence_ends_at_our_limit_wherever_it_begins() {
    let (short, long) = (Duration::from_millis(500), Duration::from_mins(1));
    let result = meet_in_haste(Behaviour::SilentAtOnce, short, long).await;
    assert_eq!(result, SendResult::Unreachable("greeting: no answer within 0.5 s".into()));
    let result = meet_in_haste(Behaviour::SilentAt("RCPT"), long, 2 * short).await;
    assert_eq!(result, SendResult::Transient("recipient: no answer within 1 s".into()));
}

#[tokio::test]
async fn a_taken_mail_stays_taken_without_a_goodbye() {
    let (result, _) = meet(Behaviour::SilentAt("QUIT")).await;
    assert_eq!(result, SendResult::Sent);
}

#[tokio::test]
async fn nobody_listening_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let result = send(fixture::plain(port)).await;
    assert!(matches!(&result, SendResult::Unreachable(text) if text.starts_with("connect: ")));
}

/// With a login, by way of `security`.
fn with_login(port: u16, security: Security) -> MailConfig {
    let password = Secret::new("hunter2hunter2".into());
    fixture::config(Transport::Smtp(SmtpConfig {
        host: "127.0.0.1".into(),
        port,
        security,
        login: Some(Login { username: "calltrail".into(), password }),
        extra_root_pem: None,
    }))
}

#[tokio::test]
async fn a_server_that_repeats_the_password_does_not_spread_it() {
    for (word, code, answer) in [
        ("AUTH", "535", "535 AGNhbGx0cmFpbABodW50ZXIyaHVudGVyMg== hunter2hunter2 is wrong"),
        ("RCPT", "550", "550 not for hunter2hunter2\u{202e}"),
    ] {
        let sink = Sink::start(vec![Behaviour::Answer(word, answer)]).await;
        let result = send(with_login(sink.port, Security::Plain)).await;
        let text = format!("{result:?}");
        assert!(matches!(result, SendResult::Unreachable(_) | SendResult::Permanent(_)), "{text}");
        assert!(!text.contains("hunter2") && !text.contains("AGNh"), "{text}");
        assert!(!text.contains('\u{202e}') && text.contains(code), "{text}");
    }
}

#[tokio::test]
async fn without_the_wanted_encryption_nothing_is_said() {
    let sink = Sink::start(vec![Behaviour::Accept]).await;
    let result = send(with_login(sink.port, Security::StartTls)).await;
    assert!(matches!(&result, SendResult::Unreachable(text) if text.starts_with("TLS: ")));
    let commands = sink.commands();
    assert!(commands.iter().all(|command| command.starts_with("EHLO")), "{commands:?}");
}

#[tokio::test]
async fn a_mail_into_a_folder_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let config = fixture::config(Transport::File { folder: folder.path().join("mails") });
    let mail = mail(&config);
    let mailer = Mailer::new(config).unwrap();
    for _ in 0..2 {
        assert_eq!(mailer.send_once(&mail).await, SendResult::Sent);
    }
    let files: Vec<_> = fs::read_dir(folder.path().join("mails"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(fs::read(&files[0]).unwrap(), eml(&mail));
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_unreachable() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let result = send(fixture::config(Transport::File { folder: file.path().to_owned() })).await;
    assert!(matches!(result, SendResult::Unreachable(_)), "{result:?}");
}

#[test]
fn an_extra_root_without_a_certificate_is_refused() {
    let Transport::Smtp(mut smtp) = with_login(1, Security::Tls).transport().clone() else {
        unreachable!("with_login makes an SMTP transport");
    };
    smtp.extra_root_pem = Some(b"no certificate".to_vec());
    let config = fixture::config(Transport::Smtp(smtp));
    assert!(matches!(Mailer::new(config), Err(MailConfigError::Root(_))));
}
