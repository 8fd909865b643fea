//! What the database says of alerts, the journal says too.

use std::fs::OpenOptions as FileOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::daemon::examine;
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

/// Reads all there is in a process of its own, and ends it without notice.
fn read(setup: &Setup) -> Vec<(u64, bool)> {
    let mut pipeline = Pipeline::open(setup, now()).unwrap();
    for _ in 0..2 {
        pipeline.look(now());
        while pipeline.step(now()).unwrap().is_some() {}
    }
    let examined = examine(&pipeline.reader).unwrap();
    assert!(examined.is_sound(), "{examined:?}");
    let alerts = pipeline.reader.alerts(&AlertFilter::default()).unwrap();
    alerts.iter().map(|alert| (alert.count, alert.retracted.is_some())).collect()
}

#[test]
fn an_alert_that_parts_from_another_is_in_the_journal_though_nobody_is_mailed() {
    let home = tempfile::tempdir().unwrap();
    let rules = RuleSet::compile(&[("maybe.yml", RULE)]).unwrap();
    let setup = Setup { rules: Arc::new(rules), ..setup(home.path()) };
    for minute in [0, 6, 12] {
        append(home.path(), "client", minute, "APPROVED");
    }
    assert_eq!(read(&setup), [(3, false)]);
    // The one in the middle ran, as a server tells later: what is before it and behind it are two.
    append(home.path(), "server", 6, "success");
    assert_eq!(read(&setup), [(1, false), (1, false)]);
}
