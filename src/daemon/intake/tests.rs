use super::queue::{FAIR_MICROS, HOLD_MICROS};
use super::*;
use crate::tail::TailConfig;

const WITHOUT: &str = "{\"actor\":\"client\",\"tool\":\"a\",\"outcome\":\"ASK\"}\n";
const WITH: &str = "{\"actor\":\"client\",\"tool\":\"b\",\"outcome\":\"ASK\",\
                    \"ts\":\"2026-11-20T08:00:00Z\"}\n";

fn intake(logs: &std::path::Path, may_hold: bool) -> Intake {
    let tail = Tail::new(TailConfig::new(vec![logs.to_path_buf()]), vec![], 1);
    let waits = Waits { may_hold, silence_micros: None };
    Intake::new(tail, Parser::new([0; 32], vec![]), &[], waits)
}

fn times(intake: &mut Intake, now: Micros) -> Vec<Option<Micros>> {
    intake.scan(now, false);
    let cut = intake.cut(100, now);
    intake.commit(&cut);
    cut.records.iter().map(|record| record.at).collect()
}

#[test]
fn a_first_line_without_a_time_takes_the_next_ones_however_it_was_read() {
    let at = Micros::parse_rfc3339("2026-11-20T08:00:00Z");
    let now = at.unwrap();
    let logs = tempfile::tempdir().unwrap();
    let file = logs.path().join("a.jsonl");
    let mut live = intake(logs.path(), true);
    std::fs::write(&file, WITHOUT).unwrap();
    assert_eq!(times(&mut live, now), []);
    let mut log = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
    std::io::Write::write_all(&mut log, WITH.as_bytes()).unwrap();
    assert_eq!(times(&mut live, now.plus(Micros::SECOND)), [at, at]);
    assert_eq!(times(&mut intake(logs.path(), false), now), [at, at]);
}

#[test]
fn a_log_without_times_is_read_all_the_same() {
    let logs = tempfile::tempdir().unwrap();
    std::fs::write(logs.path().join("a.jsonl"), WITHOUT).unwrap();
    let mut live = intake(logs.path(), true);
    assert_eq!(times(&mut live, Micros(0)), []);
    assert_eq!(times(&mut live, Micros(HOLD_MICROS)), [None]);
    assert_eq!(times(&mut intake(logs.path(), false), Micros(0)), [None]);
}

#[test]
fn a_log_that_was_written_to_and_no_longer_is_is_told_of_once() {
    let day = 24 * Micros::HOUR;
    let start = Micros::parse_rfc3339("2026-11-20T08:00:00Z").unwrap();
    let logs = tempfile::tempdir().unwrap();
    let file = logs.path().join("a.jsonl");
    std::fs::write(&file, WITH).unwrap();
    let waits = Waits { may_hold: true, silence_micros: Some(day) };
    let tail = Tail::new(TailConfig::new(vec![logs.path().to_path_buf()]), vec![], 1);
    let mut intake = Intake::new(tail, Parser::new([0; 32], vec![]), &[], waits);
    let mut events = |now: Micros, is_history: bool| {
        intake.scan(now, is_history);
        let mut cut = intake.cut(100, now);
        intake.commit(&cut);
        let notices = std::mem::take(&mut cut.notices);
        notices.into_events().map(|event| (event.code, event.at)).collect::<Vec<_>>()
    };
    assert_eq!(events(start, true), [], "what was there at the start is history");
    assert_eq!(events(start.plus(3 * day), false), [], "nothing ever came: no silence");
    let mut log = std::fs::OpenOptions::new().append(true).open(&file).unwrap();
    std::io::Write::write_all(&mut log, WITH.as_bytes()).unwrap();
    let spoke = start.plus(3 * day + 1);
    assert_eq!(events(spoke, false), []);
    assert_eq!(events(spoke.plus(day - 1), false), []);
    let silent = [(IngestCode::Silent, spoke.plus(day))];
    assert_eq!(events(spoke.plus(day), false), silent);
    assert_eq!(events(spoke.plus(2 * day), false), []);
}

#[test]
fn oddities_of_one_kind_are_one_event_with_their_number() {
    let now = Micros::parse_rfc3339("2026-11-20T08:00:00Z").unwrap();
    let logs = tempfile::tempdir().unwrap();
    let back = WITH.replace("08:00:00", "07:00:00");
    std::fs::write(logs.path().join("a.jsonl"), format!("{WITH}{back}{WITH}{back}")).unwrap();
    let mut intake = intake(logs.path(), false);
    intake.scan(now, false);
    let notices = std::mem::take(&mut intake.cut(100, now).notices);
    let events: Vec<_> = notices.into_events().collect();
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert_eq!((event.code, event.more, event.seconds), (IngestCode::TimeBack, 1, 3600));
    assert_eq!(event.position.offset, WITH.len() as u64);
}

/// A line of some bytes at a second of the morning.
fn dated(second: u32, padding: usize) -> String {
    format!(
        "{{\"actor\":\"client\",\"tool\":\"b\",\"args\":{{\"p\":\"{}\"}},\"outcome\":\"ASK\",\
         \"ts\":\"2026-11-20T08:{:02}:{:02}Z\"}}\n",
        "p".repeat(padding),
        second / 60,
        second % 60
    )
}

/// How many lines of each stream a batch holds.
fn shares(cut: &Cut) -> BTreeMap<u64, usize> {
    let records = cut.records.iter().map(|record| record.id.generation);
    let mut shares = BTreeMap::new();
    for generation in records.chain(cut.rejects.iter().map(|reject| reject.generation)) {
        *shares.entry(generation).or_default() += 1;
    }
    shares
}

#[test]
fn a_file_that_floods_with_old_lines_or_rejects_does_not_keep_the_others_waiting() {
    const BATCH: usize = 100;
    for flood in [dated(0, 10), "no record at all\n".to_owned()] {
        let logs = tempfile::tempdir().unwrap();
        std::fs::write(logs.path().join("a.jsonl"), flood.repeat(5_000)).unwrap();
        let quiet: String = (100..160).map(|second| dated(second, 10)).collect();
        std::fs::write(logs.path().join("b.jsonl"), quiet).unwrap();
        for (is_fair, expected) in [(false, 0), (true, BATCH / 2)] {
            let mut intake = intake(logs.path(), true);
            intake.be_fair(is_fair);
            let mut now = Micros::parse_rfc3339("2026-11-20T09:00:00Z").unwrap();
            intake.scan(now, false);
            let mut batch = |after: i64| {
                now = now.plus(after);
                let cut = intake.cut(BATCH, now);
                intake.commit(&cut);
                shares(&cut)
            };
            assert_eq!(batch(0), BTreeMap::from([(1, BATCH)]), "nothing has waited for long");
            assert_eq!(batch(FAIR_MICROS - 1), BTreeMap::from([(1, BATCH)]));
            let third = batch(1);
            assert_eq!(third.get(&2).copied().unwrap_or(0), expected);
            assert_eq!(third.values().sum::<usize>(), BATCH);
        }
    }
}

#[test]
fn of_many_files_that_wait_each_gets_a_share_of_the_batch() {
    let logs = tempfile::tempdir().unwrap();
    std::fs::write(logs.path().join("a.jsonl"), dated(0, 10).repeat(5_000)).unwrap();
    for file in 0..20 {
        let lines: String = (100..150).map(|second| dated(second, 10 + file)).collect();
        std::fs::write(logs.path().join(format!("b{file:02}.jsonl")), lines).unwrap();
    }
    let mut intake = intake(logs.path(), true);
    intake.be_fair(true);
    let now = Micros::parse_rfc3339("2026-11-20T09:00:00Z").unwrap();
    intake.scan(now, false);
    let cut = intake.cut(100, now);
    intake.commit(&cut);
    let cut = intake.cut(100, now.plus(FAIR_MICROS));
    let shares = shares(&cut);
    assert_eq!(shares.len(), 21);
    assert!(shares.values().filter(|share| **share == 2).count() >= 20, "{shares:?}");
}

#[test]
fn a_batch_and_what_is_read_ahead_of_it_are_bounded_in_bytes_whatever_the_lines() {
    let logs = tempfile::tempdir().unwrap();
    let line_bytes = 1 << 20;
    for file in 0..40 {
        let lines: String = (0..3).map(|second| dated(second, line_bytes + file)).collect();
        std::fs::write(logs.path().join(format!("{file:02}.jsonl")), lines).unwrap();
    }
    let mut intake = intake(logs.path(), false);
    intake.scan(Micros(0), false);
    let (mut lines, mut batches) = (0, 0);
    loop {
        let cut = intake.cut(50_000, Micros(0));
        if cut.cursors.is_empty() {
            break;
        }
        assert!(cut.bytes <= BATCH_BYTES_MAX + line_bytes as u64 * 2, "{}", cut.bytes);
        assert!(intake.waiting_bytes <= WAITING_BYTES_MAX + line_bytes as u64 * 2);
        lines += cut.records.len();
        batches += 1;
        intake.commit(&cut);
    }
    assert_eq!((lines, intake.waiting_bytes), (120, 0));
    assert!(batches >= 4);
}

#[test]
fn more_files_than_are_read_at_a_time_are_all_read() {
    let logs = tempfile::tempdir().unwrap();
    let files = 2 * FILES_ADDED_MIN + 100;
    for file in 0..files {
        std::fs::write(logs.path().join(format!("{file}.jsonl")), dated(0, file).repeat(2))
            .unwrap();
    }
    let mut intake = intake(logs.path(), false);
    intake.files_max = 100;
    intake.scan(Micros(0), false);
    let first = intake.cut(1, Micros(0));
    intake.commit(&first);
    assert_eq!(intake.queues.len(), 100);
    let mut lines = first.records.len();
    loop {
        let cut = intake.cut(50_000, Micros(0));
        if cut.cursors.is_empty() {
            break;
        }
        lines += cut.records.len();
        intake.commit(&cut);
    }
    assert_eq!(lines, files * 2);
}

/// What the database gets of a batch, as (offset, length) in order, and up to where.
fn ranges(cut: &Cut) -> (Vec<(u64, u64)>, u64) {
    let records = cut.records.iter().map(|record| (record.id.offset, record.length));
    let rejects = cut.rejects.iter().map(|reject| (reject.offset, reject.length));
    let gaps = cut.gaps.iter().map(|gap| (gap.offset, gap.length));
    let mut ranges: Vec<_> = records.chain(rejects).chain(gaps).collect();
    ranges.sort_unstable();
    (ranges, cut.positions[0].offset)
}

#[test]
fn the_parts_of_a_line_come_in_one_batch_and_reading_goes_on_behind_it() {
    let half = "{\"actor\":\"client\",\"tool\":\"ha";
    let first = half.to_owned() + WITHOUT.trim_end() + WITH;
    let logs = tempfile::tempdir().unwrap();
    std::fs::write(logs.path().join("a.jsonl"), first.clone() + WITH).unwrap();
    let now = Micros::parse_rfc3339("2026-11-20T08:00:00Z").unwrap();
    let mut intake = intake(logs.path(), false);
    intake.scan(now, false);
    let cut = intake.cut(1, now);
    let (half, without) = (half.len() as u64, WITHOUT.trim_end().len() as u64);
    let (with, end) = (WITH.len() as u64, first.len() as u64);
    let expected = vec![(0, half), (half, without), (half + without, with)];
    assert_eq!(ranges(&cut), (expected, end));
    assert_eq!((cut.positions[0].records, cut.positions[0].rejects), (2, 1));
    assert_eq!(cut.bytes, end);
    // The first of them has no time and takes that of the second.
    assert!(cut.records.iter().all(|record| record.at == Some(now)));
    intake.commit(&cut);
    for record in &cut.records {
        let line = intake.read_line(record.id, record.length).unwrap();
        assert!(line.starts_with(b"{\"actor\"") && line.trim_ascii_end().ends_with(b"}"));
    }
    let (rest, position) = ranges(&intake.cut(1, now));
    assert_eq!((rest, position), (vec![(end, with)], end + with));
}

#[test]
fn an_overlong_line_is_known_again_by_its_hash() {
    let logs = tempfile::tempdir().unwrap();
    let line = "x".repeat(2000);
    std::fs::write(logs.path().join("a.jsonl"), line.clone() + "\n").unwrap();
    let mut config = TailConfig::new(vec![logs.path().to_path_buf()]);
    config.line_bytes_max = 1000;
    let tail = Tail::new(config, vec![], 1);
    let waits = Waits { may_hold: false, silence_micros: None };
    let mut intake = Intake::new(tail, Parser::new([0; 32], vec![]), &[], waits);
    intake.scan(Micros(0), false);
    let cut = intake.cut(10, Micros(0));
    let hash = blake3::hash(line.as_bytes()).to_hex();
    let (hash, _) = hash.split_at(16);
    let wanted = format!("a line of 2001 bytes (BLAKE3 {hash}) is longer");
    assert!(cut.rejects[0].reason.starts_with(&wanted), "{}", cut.rejects[0].reason);
}
