use super::*;
use crate::model::{AlertId, AlertState};

fn fact(note: u64) -> Fact {
    Fact::Decision(Decided {
        alert_id: AlertId([7; 16]),
        who: "nadia".to_owned(),
        state: AlertState::Acknowledged,
        close_reason: None,
        note: format!("note {note}"),
    })
}

fn open(path: &Path) -> Journal {
    Journal::open(path, None, |_, _, _| {}).unwrap()
}

fn journal_of(entries: u64) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.jsonl");
    let mut journal = open(&path);
    for entry in 1..=entries {
        journal.append(Micros(0), &[fact(entry)]).unwrap();
    }
    (folder, path)
}

/// The facts that are read, without the segments.
fn facts(path: &Path) -> Vec<Fact> {
    let mut facts = Vec::new();
    read(path, None, |_, _, fact| facts.push(fact)).unwrap();
    facts.retain(|fact| !matches!(fact, Fact::Segment { .. }));
    facts
}

/// Writes the journal's lines anew, as `change` leaves them.
fn forge(path: &Path, change: impl FnOnce(&mut Vec<String>)) {
    let mut lines: Vec<String> =
        std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect();
    change(&mut lines);
    std::fs::write(path, lines.iter().flat_map(|line| [line, "\n"]).collect::<String>()).unwrap();
}

#[test]
fn a_chain_goes_on_after_a_restart() {
    let (_folder, path) = journal_of(2);
    open(&path).append(Micros(1), &[fact(3), fact(4)]).unwrap();
    assert_eq!(open(&path).breaks(), []);
    assert_eq!(facts(&path), [1, 2, 3, 4].map(fact));
}

#[test]
fn a_changed_entry_is_found_and_not_believed_and_what_follows_is_read() {
    let (_folder, path) = journal_of(3);
    forge(&path, |lines| lines[1] = lines[1].replace("note 2", "note 7"));
    assert_eq!(open(&path).breaks(), [Break::Line { line: 2 }]);
    assert_eq!(facts(&path), [1, 3].map(fact));
}

#[test]
fn a_removed_entry_is_found() {
    for removed in [0, 1] {
        let (_folder, path) = journal_of(3);
        forge(&path, |lines| drop(lines.remove(removed)));
        let line = removed as u64 + 1;
        assert_eq!(open(&path).breaks(), [Break::Line { line }]);
    }
}

#[test]
fn a_break_stays_told_and_the_chain_goes_on_behind_it() {
    let (_folder, path) = journal_of(3);
    forge(&path, |lines| drop(lines.remove(1)));
    let told = [Break::Line { line: 2 }];
    for entry in 4..6 {
        let mut journal = open(&path);
        assert_eq!(journal.breaks(), told);
        journal.append(Micros(1), &[fact(entry)]).unwrap();
    }
    assert_eq!(facts(&path), [1, 3, 4, 5].map(fact));
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("\"kind\":\"segment\"").count(), 1, "one segment a break");
    forge(&path, |lines| drop(lines.remove(3)));
    assert_eq!(open(&path).breaks(), [Break::Line { line: 2 }, Break::Line { line: 4 }]);
}

#[test]
fn removed_last_entries_are_noticed_by_the_mark_and_stay_told() {
    let (_folder, path) = journal_of(3);
    let mark = open(&path).mark();
    assert_eq!(mark.entries, 3);
    let open_at = |mark: &JournalMark| Journal::open(&path, Some(mark), |_, _, _| {}).unwrap();
    assert_eq!(open_at(&mark).breaks(), []);
    let told = [Break::Missing { entries: 3 }];
    for cut in [Some(2), Some(0), None] {
        match cut {
            Some(left) => forge(&path, |lines| lines.truncate(left)),
            None => std::fs::remove_file(&path).unwrap(),
        }
        assert_eq!(open_at(&mark).breaks(), told);
        assert_eq!(open_at(&mark).breaks(), told, "until something is written behind it");
    }
    let mut journal = open_at(&mark);
    journal.append(Micros(1), &[fact(4)]).unwrap();
    let mark = journal.mark();
    assert_eq!(open_at(&mark).breaks(), told);
    assert_eq!(facts(&path), [fact(4)]);
}

#[test]
fn a_journal_ahead_of_the_mark_is_whole() {
    let (_folder, path) = journal_of(2);
    let mark = open(&path).mark();
    open(&path).append(Micros(1), &[fact(3)]).unwrap();
    let journal = Journal::open(&path, Some(&mark), |_, _, _| {}).unwrap();
    assert_eq!(journal.breaks(), []);
}

#[test]
fn a_half_line_of_a_power_cut_is_no_break() {
    let (_folder, path) = journal_of(1);
    let mut text = std::fs::read(&path).unwrap();
    text.extend_from_slice(b"{\"at\":\"20");
    std::fs::write(&path, text).unwrap();
    open(&path).append(Micros(1), &[fact(2)]).unwrap();
    assert_eq!(open(&path).breaks(), []);
    assert_eq!(facts(&path), [1, 2].map(fact));
}

#[test]
fn an_entry_cut_just_before_its_end_counts_and_the_next_has_a_line_of_its_own() {
    let (_folder, path) = journal_of(2);
    let text = std::fs::read(&path).unwrap();
    std::fs::write(&path, text.strip_suffix(b"\n").unwrap()).unwrap();
    open(&path).append(Micros(1), &[fact(3)]).unwrap();
    assert_eq!(open(&path).breaks(), []);
    assert_eq!(facts(&path), [1, 2, 3].map(fact));
}

#[test]
fn a_failed_write_or_sync_leaves_nothing_and_the_chain_goes_on() {
    let (_folder, path) = journal_of(1);
    let before = std::fs::read(&path).unwrap();
    let mut journal = open(&path);
    for share in [2, 1] {
        let failed = journal.append_by([(Micros(1), &fact(2))].into_iter(), |mut file, lines| {
            file.write_all(&lines[..lines.len() / share])?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(matches!(failed, Err(JournalError::Io { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    journal.append(Micros(2), &[fact(3)]).unwrap();
    assert_eq!(open(&path).breaks(), []);
    assert_eq!(facts(&path), [1, 3].map(fact));
}

#[test]
fn a_write_that_cannot_be_taken_back_is_the_last_one() {
    // A device that is always full, and that cannot be cut shorter either.
    let path = PathBuf::from("/dev/full");
    let file = OpenOptions::new().append(true).open(&path).unwrap();
    let mut journal = Journal { path, file, chain: Chain::default(), is_poisoned: false };
    let mut append = || journal.append(Micros(1), &[fact(1)]);
    let first = append().unwrap_err();
    assert!(
        matches!(&first, JournalError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull),
        "{first}"
    );
    assert!(matches!(append(), Err(JournalError::Poisoned { .. })));
}

#[test]
fn every_kind_of_fact_comes_back_as_it_was_written() {
    let (_folder, path) = journal_of(0);
    let raised = Raised {
        alert_id: AlertId([1; 16]),
        rule: "trifecta-signature".into(),
        level: crate::model::Level::Critical,
        group: vec![("session".into(), "s\u{202e}-1".into())],
        actor: "u-eng".into(),
        closing: crate::model::CallId([2; 16]),
        first_seen: Some(Micros(5)),
        replaces: vec![AlertId([3; 16])],
        mails: vec![Owed {
            message_id: "<a@b>".to_owned(),
            recipient: "ann@example.org".to_owned(),
        }],
    };
    let facts_written = [
        fact(1),
        Fact::Alert(raised),
        Fact::Delivery(Delivered {
            message_id: "<a@b>".to_owned(),
            recipient: "ann@example.org".to_owned(),
            alert_id: AlertId([1; 16]),
            outcome: Fate::Sent,
        }),
        Fact::FirstSeen(crate::model::FirstSeen {
            rule: "first-cross-tenant".into(),
            group: vec![("principal".into(), "u-eng".into()), ("tenant".into(), "acme".into())],
            at: Micros(9),
            stream: "a.jsonl".into(),
            call_id: crate::model::CallId([4; 16]),
            tool: "get_ticket".into(),
            server: None,
            code: "ok".into(),
            is_gone: false,
        }),
    ];
    open(&path).append(Micros(1), &facts_written).unwrap();
    assert_eq!(facts(&path), facts_written);
}
