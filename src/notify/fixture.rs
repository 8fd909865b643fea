//! The alert that the tests of this module mail.

use crate::model::{
    AlertId, AlertState, AlertView, CallId, EvidenceView, Level, Micros, OutboxItem, OutcomeClass,
    Ran, RecordId, Why, Witness, WitnessLine,
};
use crate::notify::config::{MailConfig, Security, SmtpConfig, Transport};

/// A lethal trifecta of four calls. Every place that no mail may show holds a word with `CANARY` in
/// it.
pub(super) fn trifecta() -> AlertView {
    let start = Micros::parse_rfc3339("2026-11-20T08:00:03.2Z").unwrap();
    let after = |millis: i64| start.plus(millis * 1000);
    AlertView {
        id: AlertId([0xab; 16]),
        seq: 7,
        rule: "trifecta-signature".into(),
        title: "Lethal trifecta within seconds".into(),
        level: Level::Critical,
        tags: vec!["attack.exfiltration".into()],
        group: vec![("actor".into(), "u-eng".into()), ("session".into(), "s-41".into())],
        actor: "u-eng".into(),
        first_seen: Some(start),
        last_seen: Some(after(6_700)),
        count: 2,
        why: Why {
            text: "Foreign content came in, sensitive data was read, and something was sent out."
                .into(),
            threshold: 3,
            value: 3,
            timespan: Some(60.0),
        },
        retracted: None,
        state: AlertState::Open,
        close_reason: None,
        evidence: vec![
            call(1, "open-world", start, "fetch_url", "web"),
            call(2, "sensitive-read", after(2_900), "tickets.search_tickets", "tickets"),
            call(3, "sensitive-read", after(4_200), "tickets.search_tickets", "tickets"),
            call(4, "outbound-write", after(6_700), "tickets.post_comment", "tickets"),
        ],
        elided: 0,
    }
}

fn call(number: u8, stage: &str, at: Micros, tool: &str, server: &str) -> EvidenceView {
    EvidenceView {
        stage: stage.into(),
        call_id: CallId([number; 16]),
        at: Some(at),
        ended: None,
        server: Some(server.into()),
        tool: tool.into(),
        code: if number == 4 { "TOOL_OK".into() } else { "ok".into() },
        class: OutcomeClass::Ok,
        ran: Ran::Yes,
        principal: Some("u-eng".into()),
        client: Some("assistant".into()),
        tenant: Some("acme".into()),
        session: "s-41".into(),
        event: None,
        lines: vec![WitnessLine {
            witness: Witness::Server,
            file: "/home/CANARY-path/audit.jsonl".into(),
            record: RecordId { generation: 1, offset: 0, index: 0 },
            length: 200,
            text: Some(r#"{"url": "https://CANARY-host/?token=CANARY-token"}"#.into()),
        }],
    }
}

/// The mail owed for it.
pub(super) fn owed(recipient: &str) -> OutboxItem {
    OutboxItem {
        id: 1,
        alert_id: AlertId([0xab; 16]),
        recipient: recipient.into(),
        message_id: crate::notify::message_id(AlertId([0xab; 16]), recipient, "example.org"),
        created_at: Micros(0),
        attempts: 0,
    }
}

pub(super) fn config(transport: Transport) -> MailConfig {
    MailConfig::new(
        "Calltrail <calltrail@example.org>",
        &["ann@example.org".to_owned()],
        transport,
        "https://trail.example.org",
        Level::High,
    )
    .unwrap()
}

/// To a server in this process.
pub(super) fn plain(port: u16) -> MailConfig {
    config(Transport::Smtp(SmtpConfig {
        host: "127.0.0.1".into(),
        port,
        security: Security::Plain,
        login: None,
        extra_root_pem: None,
    }))
}
