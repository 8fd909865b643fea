//! What the database says of alerts, the journal says too.

use std::fs::OpenOptions as FileOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::daemon::examine;
use crate::daemon::facts::Remembered;
use crate::daemon::pipeline::Setup;
use crate::daemon::pipeline::absent::tests::setup;
use crate::detect::RuleSet;
use crate::store::AlertFilter;

/// Any call of which nobody knows whether it ran.
const RULE: &str = "title: Perhaps it ran\nlogsource: {product: mcp}\nlevel: low\ndetection:\n  \
                    s: {ran: maybe}\n  condition: s\n";

fn now() -> Micros {
    Micros::parse_rfc3339("2026-11-21T10:00:00Z").unwrap()
}

fn append(home: &Path, actor: &str, minute: u32, outcome: &str) {
    let path = home.join("logs").join(format!("{actor}.jsonl"));
    let mut log = FileOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(
        log,
        "{{\"actor\":\"{actor}\",\"tool\":\"delete_file\",\"args\":{{\"filepath\":\"{minute}\"}},\
         \"outcome\":\"{outcome}\",\"ts\":\"2026-11-20T10:{minute:02}:00Z\"}}"
    )
    .unwrap();
}

fn maybe(home: &Path) -> Setup {
    let rules = RuleSet::compile(&[("maybe.yml", RULE)]).unwrap();
    Setup { rules: Arc::new(rules), ..setup(home) }
}

/// Whether the journal says of each standing alert that it stands.
fn is_each_told(setup: &Setup, pipeline: &Pipeline) -> bool {
    let mut told = Remembered::default();
    let path = setup.journal.clone().unwrap();
    crate::journal::read(&path, None, |_, at, fact| told.hear(at, fact)).unwrap();
    let alerts = pipeline.reader.alerts(&AlertFilter::default()).unwrap();
    alerts.iter().filter(|alert| alert.retracted.is_none()).all(|alert| told.stands(alert.id))
}

/// Reads all there is in a process of its own, and ends it without notice.
fn read(setup: &Setup) -> Vec<(u64, bool)> {
    let mut pipeline = Pipeline::open(setup, now()).unwrap();
    for _ in 0..2 {
        pipeline.look(now());
        while pipeline.step(now()).unwrap().is_some() {}
    }
    let examined = examine(&pipeline.reader).unwrap();
    assert!(examined.is_sound(), "{examined:?}");
    assert!(is_each_told(setup, &pipeline), "the journal has another's former self");
    let alerts = pipeline.reader.alerts(&AlertFilter::default()).unwrap();
    alerts.iter().map(|alert| (alert.count, alert.retracted.is_some())).collect()
}

#[test]
fn an_alert_that_parts_from_another_is_in_the_journal_though_nobody_is_mailed() {
    let home = tempfile::tempdir().unwrap();
    let setup = maybe(home.path());
    for minute in [0, 6, 12] {
        append(home.path(), "client", minute, "APPROVED");
    }
    assert_eq!(read(&setup), [(3, false)]);
    // The one in the middle ran, as a server tells later: what is before it and behind it are two.
    append(home.path(), "server", 6, "success");
    assert_eq!(read(&setup), [(1, false), (1, false)]);
}

#[test]
fn an_alert_that_was_another_s_former_self_and_stands_again_is_told_so() {
    let home = tempfile::tempdir().unwrap();
    let setup = maybe(home.path());
    append(home.path(), "client", 0, "APPROVED");
    append(home.path(), "client", 12, "APPROVED");
    assert_eq!(read(&setup), [(1, false), (1, false)]);
    append(home.path(), "client", 6, "APPROVED");
    assert_eq!(read(&setup), [(3, false)], "a late line makes them one");
    append(home.path(), "server", 6, "success");
    assert_eq!(read(&setup), [(1, false), (1, false)], "and another one two");
}

#[test]
fn an_alert_that_parts_from_another_takes_its_lines_along_though_their_log_is_gone() {
    let home = tempfile::tempdir().unwrap();
    let setup = maybe(home.path());
    for minute in [0, 6, 12] {
        append(home.path(), "client", minute, "APPROVED");
    }
    assert_eq!(read(&setup), [(3, false)]);
    std::fs::remove_file(home.path().join("logs/client.jsonl")).unwrap();
    append(home.path(), "server", 6, "success");
    assert_eq!(read(&setup), [(1, false), (1, false)]);
    let pipeline = Pipeline::open(&setup, now()).unwrap();
    let alerts = pipeline.reader.alerts(&AlertFilter::default()).unwrap();
    for alert in alerts {
        let alert = pipeline.reader.alert(alert.id).unwrap().unwrap();
        let lines = alert.evidence.iter().flat_map(|evidence| &evidence.lines);
        let texts: Vec<_> = lines.filter_map(|line| line.text.as_deref()).collect();
        assert!(texts.len() == 1 && texts[0].contains("APPROVED"), "{alert:?}");
    }
}
