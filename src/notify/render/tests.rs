//! What the mails say and what they must never say.

use super::*;
use crate::model::{AlertState, CloseReason};
use crate::notify::config::Transport;
use crate::notify::fixture;

const DATE: Micros = Micros(1_795_161_620_000_000);

fn config() -> MailConfig {
    fixture::config(Transport::File { folder: "unused".into() })
}

fn rendered(alert: &AlertView) -> RenderedMail {
    render(alert, &config()).unwrap()
}

fn composed(alert: &AlertView) -> Mail {
    let id = message_id(alert.id, "ann@example.org", "example.org");
    compose(&rendered(alert), &config(), "ann@example.org", &id, DATE).unwrap()
}

/// Everything a recipient can see or decode.
fn everything(alert: &AlertView) -> String {
    let mail = rendered(alert);
    let headers = mail.headers.iter().map(|(name, value)| format!("{name}: {value}"));
    [mail.subject, mail.text, mail.html].into_iter().chain(headers).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_trifecta_as_text() {
    insta::assert_snapshot!("trifecta_text", rendered(&fixture::trifecta()).text);
}

#[test]
fn a_trifecta_as_html() {
    insta::assert_snapshot!("trifecta_html", rendered(&fixture::trifecta()).html);
}

#[test]
fn a_trifecta_as_a_whole_mail() {
    let mail = String::from_utf8(eml(&composed(&fixture::trifecta()))).unwrap();
    assert!(mail.is_ascii() && mail.lines().all(|line| line.len() <= 998));
    insta::with_settings!({filters => vec![("[0-9A-Za-z]{40}", "BOUNDARY"), ("\r", "")]}, {
        insta::assert_snapshot!("trifecta_eml", mail);
    });
}

#[test]
fn importance_is_for_critical_alone() {
    let mut alert = fixture::trifecta();
    let importance = |alert: &AlertView| {
        rendered(alert).headers.into_iter().find(|(name, _)| *name == "Importance")
    };
    assert_eq!(importance(&alert), Some(("Importance", "high".to_owned())));
    alert.level = Level::High;
    assert_eq!(importance(&alert), None);
    assert!(rendered(&alert).subject.starts_with("[high] "));
}

#[test]
fn what_people_decided_is_said() {
    let mut alert = fixture::trifecta();
    alert.state = AlertState::Closed;
    alert.close_reason = Some(CloseReason::FalsePositive);
    alert.retracted = Some("a late call came between".into());
    let text = rendered(&alert).text;
    assert!(text.contains("State       closed (false_positive)"), "{text}");
    assert!(text.contains("the records no longer show it: a late call came between"), "{text}");
}

#[test]
fn arguments_raw_lines_and_paths_are_nowhere() {
    let mut alert = fixture::trifecta();
    alert.group.push(("args.url".into(), "CANARY-argument".into()));
    alert.group.push(("source.file".into(), "/home/CANARY/audit.jsonl".into()));
    assert!(!everything(&alert).contains("CANARY"));
    assert!(!String::from_utf8_lossy(&eml(&composed(&alert))).contains("CANARY"));
}

#[test]
fn hostile_names_stay_inert_in_every_place() {
    let corpus = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "a\r\nBcc: victim@evil.example\r\n\r\nbody",
        "safe\u{202e}gpj.exe\u{2066}\u{200b}",
        "https://user:CANARY@evil.example/?token=CANARY",
        "www.evil.example",
        "ann@evil.example",
        r"\\evil.example\share",
        "=?utf-8?q?=E2=80=AE?=",
        "{{ 7*7 }}{% raw %}",
        "\u{1b}]8;;evil\u{7}\0",
    ];
    let long = "x".repeat(100_000);
    for hostile in corpus.into_iter().chain([long.as_str()]) {
        let mut alert = fixture::trifecta();
        alert.title = hostile.into();
        alert.rule = hostile.into();
        alert.actor = hostile.into();
        alert.why.text = hostile.into();
        alert.group = vec![("tenant".into(), hostile.into()), (hostile.into(), hostile.into())];
        alert.retracted = Some(hostile.into());
        for call in &mut alert.evidence {
            for text in [&mut call.stage, &mut call.tool, &mut call.code, &mut call.session] {
                *text = hostile.into();
            }
            for text in [&mut call.server, &mut call.principal, &mut call.client, &mut call.tenant]
            {
                *text = Some(hostile.into());
            }
        }
        check_inert(&alert);
    }
}

fn check_inert(alert: &AlertView) {
    let mail = rendered(alert);
    let own_link = format!("https://trail.example.org/incidents/{}", alert.id);
    let seen = everything(alert);
    assert_eq!(seen.matches("://").count(), 3, "{seen}");
    assert_eq!(seen.matches(&own_link).count(), 3, "{seen}");
    for markup in ["<script", "<img", "onerror=alert(1)>"] {
        assert!(!mail.html.contains(markup), "{markup} in {}", mail.html);
    }
    for bad in ["CANARY", "evil.example", "@evil", "=?", "\\\\", "www."] {
        assert!(!seen.contains(bad), "{bad} in {seen}");
    }
    assert!(seen.chars().all(|letter| letter == '\n' || !letter.is_control()), "{seen:?}");
    assert!(!seen.contains(['\u{202e}', '\u{2066}', '\u{200b}']), "{seen:?}");
    assert!(mail.subject.chars().count() <= 170 && !mail.subject.contains('\n'));
    assert!(mail.text.len() < 40_000 && mail.html.len() < 60_000);

    let raw = eml(&composed(alert));
    let raw = String::from_utf8(raw).unwrap();
    let head = raw.split("\r\n\r\n").next().unwrap();
    assert!(!head.lines().any(|line| line.starts_with("Bcc") || line.len() > 998), "{head}");
    assert!(!raw.contains("CANARY"));
}

#[test]
fn ids_are_stable_and_differ_by_recipient() {
    let id = |recipient| message_id(AlertId([1; 16]), recipient, "example.org");
    assert_eq!(id("ann@example.org"), id("ann@example.org"));
    assert_ne!(id("ann@example.org"), id("bob@example.org"));
    assert!(!id("ann@example.org").contains("ann"));
    assert!(id("a@b.org").starts_with("<01010101") && id("a@b.org").ends_with("@example.org>"));
}

#[test]
fn a_date_out_of_range_is_held_at_its_end() {
    let mail = rendered(&fixture::trifecta());
    for date in [Micros(i64::MIN), Micros(-1), Micros(i64::MAX)] {
        assert!(compose(&mail, &config(), "a@example.org", "<1@x>", date).is_ok());
    }
}

#[test]
fn a_bad_recipient_is_an_error() {
    let mail = rendered(&fixture::trifecta());
    let composed = compose(&mail, &config(), "a@b\r\nBcc: c@d", "<1@x>", DATE);
    assert!(matches!(composed, Err(RenderError::Recipient)));
}
