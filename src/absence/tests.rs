//! What a batch says of pairs and of the minutes that are to be judged.

use std::sync::Arc;

use super::*;
use crate::model::{Args, Certainty, Dialect, JoinedBy, OutcomeClass, RecordId, Sighting, Step};

/// A call of a minute that these logs tell of.
fn call(at: i64, witnesses: &[(Witness, &str)]) -> Arc<Call> {
    let at = Some(start_of(at));
    let (class, code) = (OutcomeClass::Ok, Text::from("ok"));
    let record = RecordId { generation: 1, offset: 0, index: 0 };
    let sighting = |(witness, stream): &(Witness, &str)| Sighting {
        witness: *witness,
        dialect: Dialect::TwoSided,
        stream: Text::from(*stream),
        class,
        code: Text::clone(&code),
        joined_by: JoinedBy::Arguments,
        certainty: Certainty::Unambiguous,
        attempt: 0,
        candidates: Vec::new(),
        steps: vec![Step { record, length: 1, at, class, code: Text::clone(&code) }],
    };
    Arc::new(Call {
        kind: EventKind::Call,
        id: CallId([u8::try_from(at.map_or(0, minute) % 200).unwrap(); 16]),
        at,
        stream: witnesses[0].1.into(),
        position: record,
        ended: at,
        duration_ms: None,
        tool: "delete_file".into(),
        server: None,
        principal: None,
        client: None,
        actor: "a".into(),
        tenant: None,
        session: "a".into(),
        class,
        code: Text::clone(&code),
        decision: None,
        ran: Ran::Yes,
        args: Args::default(),
        flags: Vec::new(),
        also: Vec::new(),
        request_id: None,
        group_id: None,
        trace_id: None,
        ask_to_answer_ms: None,
        sightings: witnesses.iter().map(sighting).collect(),
        discrepancies: Vec::new(),
    })
}

const BOTH: [(Witness, &str); 2] = [(Witness::Client, "c"), (Witness::Server, "s")];

fn change(old: Option<&Arc<Call>>, new: Option<&Arc<Call>>) -> CallChange {
    CallChange { old: old.cloned(), new: new.cloned() }
}

#[test]
fn a_pair_whose_first_call_falls_apart_is_suspect_until_it_is_looked_up() {
    let mut absence =
        Absence::resume(Resumed { newest: Some(start_of(100)), ..Resumed::default() });
    let (first, later) = (call(10, &BOTH), call(20, &BOTH));
    absence.note(&[change(None, Some(&first)), change(None, Some(&later))], &[]);
    let [fact] = absence.take_changed_pairs().try_into().unwrap();
    assert_eq!(fact.first_at, first.at);
    assert!(absence.suspects().is_empty());
    // Another revision of it that still shows the pair changes nothing; nor does another call.
    absence.note(&[change(Some(&first), Some(&first)), change(Some(&later), None)], &[]);
    assert!(absence.suspects().is_empty());

    absence.note(&[change(Some(&first), Some(&call(10, &BOTH[1..])))], &[]);
    assert_eq!(absence.suspects(), [(fact.pair.clone(), first.at.unwrap())]);
    assert!(!absence.is_settled());
    absence.clear(&fact.pair, later.at);
    let [fact] = absence.take_changed_pairs().try_into().unwrap();
    assert_eq!(fact.first_at, later.at);
    // The calls between the two are no longer behind it.
    let sitting = absence.sit().unwrap();
    assert!(sitting.due().any(|(from, to)| from <= start_of(11) && start_of(19) <= to));
}

#[test]
fn where_every_call_is_joined_there_is_nothing_to_judge() {
    let mut absence = Absence::resume(Resumed { newest: Some(start_of(10)), ..Resumed::default() });
    absence.note(&[change(None, Some(&call(10, &BOTH)))], &[]);
    absence.sit();
    absence.take_changed_pairs();
    for minute in 11..200 {
        absence.note(&[change(None, Some(&call(minute, &BOTH)))], &[]);
        absence.note_again(&[("c".into(), minute)]);
        // The minute in which the pair begins may hold such calls, and is looked at once more.
        if minute == 12 {
            absence.sit();
        }
        assert!(absence.is_settled() && absence.sit().is_none(), "minute {minute}");
    }
    absence.note(&[change(None, Some(&call(150, &BOTH[1..])))], &[]);
    assert!(absence.sit().is_some());
}

#[test]
fn a_call_that_nobody_can_miss_yet_is_judged_once_a_log_has_gone_on_behind_it() {
    let mut absence = Absence::resume(Resumed { newest: Some(start_of(10)), ..Resumed::default() });
    absence.note(&[change(None, Some(&call(10, &BOTH)))], &[]);
    absence.sit();
    absence.take_changed_pairs();
    absence.horizon = Some(21);
    absence.note(&[change(None, Some(&call(20, &BOTH[1..])))], &[]);
    assert!(absence.is_settled(), "no log has gone on");
    absence.horizon = Some(22);
    absence.note_again(&[("c".into(), 22)]);
    let sitting = absence.sit().expect("the client's log has gone on");
    assert!(sitting.due().any(|(from, to)| from <= start_of(20) && start_of(20) <= to));
    // A late one is judged at once.
    absence.note(&[change(None, Some(&call(20, &BOTH[1..])))], &[]);
    assert!(!absence.is_settled());
}
