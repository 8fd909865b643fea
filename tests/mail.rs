//! Mail through a real server: encryption, login, and what arrives.

use calltrail::model::{
    AlertId, AlertState, AlertView, CallId, EvidenceView, Level, Micros, OutcomeClass, Ran, Why,
};
use calltrail::notify::{
    Login, MailConfig, Mailer, Secret, Security, SendResult, SmtpConfig, Transport, compose,
    message_id, probe, render,
};

use crate::smtp_server::{PASSWORD, RealSmtp, USERNAME};

const NOW: Micros = Micros(1_795_161_620_000_000);
const RECIPIENT: &str = "ann@example.org";

fn config(smtp: SmtpConfig) -> MailConfig {
    MailConfig::new(
        "Calltrail <calltrail@example.org>",
        &[RECIPIENT.to_owned()],
        Transport::Smtp(smtp),
        "https://trail.example.org",
        Level::High,
    )
    .expect("a sound configuration")
}

fn alert() -> AlertView {
    let call = |stage: &str, tool: &str, millis: i64| EvidenceView {
        stage: stage.into(),
        call_id: CallId([3; 16]),
        at: Some(NOW.plus(millis * 1000)),
        ended: None,
        server: Some("tickets".into()),
        tool: tool.into(),
        code: "ok".into(),
        class: OutcomeClass::Ok,
        ran: Ran::Yes,
        principal: Some("zoë".into()),
        client: None,
        tenant: None,
        session: "s-1".into(),
        event: None,
        lines: Vec::new(),
    };
    AlertView {
        id: AlertId([7; 16]),
        seq: 1,
        rule: "trifecta-signature".into(),
        title: "Lethal trifecta within seconds".into(),
        level: Level::Critical,
        tags: Vec::new(),
        group: Vec::new(),
        actor: "zoë".into(),
        first_seen: Some(NOW),
        last_seen: Some(NOW.plus(6_700_000)),
        count: 1,
        why: Why {
            text: "All three came together.".into(),
            threshold: 3,
            value: 3,
            timespan: None,
        },
        retracted: None,
        state: AlertState::Open,
        close_reason: None,
        evidence: vec![
            call("open-world", "fetch_url", 0),
            call("sensitive-read", "search_tickets", 2_900),
            call("outbound-write", "post_comment", 6_700),
        ],
        elided: 0,
    }
}

async fn send(smtp: SmtpConfig) -> SendResult {
    let config = config(smtp);
    let id = message_id(alert().id, RECIPIENT, config.domain());
    let rendered = render(&alert(), &config).expect("it renders");
    let mail = compose(&rendered, &config, RECIPIENT, &id, NOW).expect("it composes");
    Mailer::new(config).expect("a mailer").send_once(&mail).await
}

#[tokio::test]
async fn an_alert_arrives_encrypted_and_whole() {
    let server = RealSmtp::start();
    assert_eq!(send(server.config()).await, SendResult::Sent);
    let mails = server.mails();
    assert_eq!(mails.len(), 1);
    for part in [
        "Date: Fri, 20 Nov 2026 08:00:20 +0000",
        "Message-ID: <07070707070707070707070707070707.",
        "Auto-Submitted: auto-generated",
        "X-Auto-Response-Suppress: All",
        "X-Calltrail-Level: critical",
        "Content-Type: text/plain; charset=utf-8",
        "Content-Type: text/html; charset=utf-8",
        "post_comment",
    ] {
        assert!(mails[0].contains(part), "{part} is missing in {}", mails[0]);
    }
}

#[tokio::test]
async fn tls_from_the_first_byte_works_too() {
    let server = RealSmtp::start_with(Security::Tls);
    let steps = probe(config(server.config()), Some("bob@example.org"), NOW).await;
    let told: Vec<(&str, bool)> =
        steps.iter().map(|step| (step.step, step.result.is_ok())).collect();
    let names = ["connect", "TLS", "login", "sender", "recipient", "data"];
    assert_eq!(told, names.map(|name| (name, true)), "{steps:?}");
    assert_eq!(send(server.config()).await, SendResult::Sent);
    assert_eq!(server.mails().len(), 2);
}

#[tokio::test]
async fn a_wrong_password_is_told_without_telling_it() {
    let server = RealSmtp::start();
    let mut smtp = server.config();
    let password = Secret::new("wrong-horse".to_owned());
    smtp.login = Some(Login { username: USERNAME.to_owned(), password });
    let result = send(smtp).await;
    let SendResult::Unreachable(text) = &result else { panic!("{result:?}") };
    assert_eq!(text, "login: the server refused user name or password (535)");
    assert!(!text.contains("wrong-horse") && !text.contains(PASSWORD));
    assert!(server.mails().is_empty());
}

#[tokio::test]
async fn a_server_with_an_unknown_certificate_gets_nothing() {
    let server = RealSmtp::start();
    let smtp = SmtpConfig { extra_root_pem: None, ..server.config() };
    let result = send(smtp).await;
    assert!(
        matches!(&result, SendResult::Unreachable(text) if text.starts_with("TLS: ")),
        "{result:?}"
    );
    // The certificate is for `localhost` and not for the address.
    let smtp = SmtpConfig { host: "127.0.0.1".to_owned(), ..server.config() };
    let result = send(smtp).await;
    assert!(
        matches!(&result, SendResult::Unreachable(text) if text.starts_with("TLS: ")),
        "{result:?}"
    );
    assert!(server.mails().is_empty());
}

#[tokio::test]
async fn without_a_login_the_server_takes_nothing() {
    let server = RealSmtp::start();
    let smtp = SmtpConfig { login: None, ..server.config() };
    let result = send(smtp).await;
    assert!(
        matches!(&result, SendResult::Permanent(text) if text.starts_with("sender: ")),
        "{result:?}"
    );
}

#[tokio::test]
async fn the_trial_mail_tells_every_step() {
    let server = RealSmtp::start();
    let steps = probe(config(server.config()), None, NOW).await;
    let told: Vec<(&str, bool)> =
        steps.iter().map(|step| (step.step, step.result.is_ok())).collect();
    let names = ["connect", "greeting", "TLS", "login", "sender", "recipient", "data"];
    assert_eq!(told, names.map(|name| (name, true)), "{steps:?}");
    assert_eq!(server.mails().len(), 1);
}
