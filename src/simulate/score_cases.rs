//! The score, on truths and findings that are small enough to count by hand.

use super::*;
use crate::model::{Micros, OutcomeClass, Text, Witness};

/// A call from second `from` to second `to` that client and server saw, on line `call` of their logs.
fn call(number: u64, from: i64, to: i64) -> CallTruth {
    let at = |seconds: i64| Micros(seconds * Micros::SECOND);
    let span = Span { from: at(from), to: at(to) };
    let record = |file: &str, witness, args| RecordPlace {
        file: file.into(),
        line: number,
        witness,
        attempt: 1,
        shows: Shows { args, ..Shows::default() },
        at: span.to,
        ahead: 0,
    };
    CallTruth {
        call: number,
        at: span.from,
        tool: "read",
        principal: None,
        actor: "ann".into(),
        tenant: None,
        session: None,
        class: OutcomeClass::Ok,
        records: vec![
            record("client", Witness::Client, ArgsShown::Full),
            record("server", Witness::Server, ArgsShown::Full),
        ],
        tries: vec![span],
        lost: 0,
        trace: None,
        args: ArgKeys::unique(7),
        attack: None,
    }
}

/// A found call with those lines of the client's and the server's log.
fn found(lines: &[(u32, u64)]) -> Found {
    let sighting = |(stream, line): &(u32, u64)| FoundSighting {
        how: "time".into(),
        is_sure: true,
        attempt: 0,
        places: vec![Place { stream: *stream, line: *line }],
    };
    Found { sightings: lines.iter().map(sighting).collect() }
}

fn number(stream: &str) -> u32 {
    match stream {
        "client" => 0,
        "server" => 1,
        _ => 2,
    }
}

fn judge(calls: &[CallTruth], found: &[Found]) -> (Score, Tally) {
    let score = score(calls, found, &number);
    let all = score.kinds.values().fold(Tally::default(), |all, tally| all.plus(*tally));
    (score, all)
}

const fn rates(good: u64, all: u64) -> Rates {
    Rates { all, good }
}

#[test]
fn what_is_found_and_right_is_counted() {
    let calls = [call(1, 0, 1), call(2, 10, 11), call(3, 20, 21)];
    let (score, all) =
        judge(&calls, &[found(&[(0, 1), (1, 1)]), found(&[(0, 2), (1, 3)]), found(&[(0, 3)])]);
    assert_eq!(
        (all.claimed, all.true_links, all.decidable),
        (rates(1, 2), rates(1, 3), rates(1, 3))
    );
    assert_eq!(score.methods[&Text::from("time")], rates(1, 2));
    assert_eq!((score.true_calls, score.found_calls, score.merged, score.split), (3, 3, 1, 2));
    let claimed: Vec<_> =
        score.examples.iter().filter(|example| example.fault != Fault::Missed).collect();
    let [Example { fault: Fault::Claimed { partner, .. }, .. }] = claimed.as_slice() else {
        panic!("{claimed:?}");
    };
    assert_eq!(*partner, Some(Place { stream: 1, line: 2 }));
}

#[test]
fn calls_that_look_alike_at_one_time_are_undecidable() {
    let pair = [call(1, 0, 10), call(2, 5, 15)];
    let decidable = |calls: &[CallTruth]| {
        let (_, all) = judge(calls, &[]);
        (all.decidable.all, all.by_streams.all)
    };
    assert_eq!(decidable(&pair), (0, 0));
    assert_eq!(decidable(&[call(1, 0, 10), call(2, 11, 15)]), (2, 2), "one after the other");

    let mut other_tool = pair.clone();
    other_tool[1].tool = "write";
    assert_eq!(decidable(&other_tool), (2, 2));

    let mut other_args = pair.clone();
    other_args[1].args = ArgKeys::unique(8);
    assert_eq!(decidable(&other_args), (2, 2));
    for call in &mut other_args {
        call.records[1].shows.args = ArgsShown::Nothing;
    }
    assert_eq!(decidable(&other_args), (0, 0), "the server does not show them");

    let mut other_streams = pair.clone();
    other_streams[1].records[1].file = "other".into();
    assert_eq!(decidable(&other_streams), (0, 0), "the client is the same");
    other_streams[1].records.remove(0);
    assert_eq!(decidable(&other_streams), (0, 1), "only who knows the logs can tell");

    let mut principals = pair.clone();
    for (call, name) in principals.iter_mut().zip(["ann", "bob"]) {
        call.principal = Some(name.into());
        call.records[1].shows.principal = true;
    }
    assert_eq!(decidable(&principals), (0, 0), "only one side names them");
    for call in &mut principals {
        call.records[0].shows.principal = true;
    }
    assert_eq!(decidable(&principals), (2, 2));

    let mut traced = pair.clone();
    traced[0].trace = Some("t".into());
    for record in &mut traced[0].records {
        record.shows.trace = true;
    }
    assert_eq!(decidable(&traced), (1, 1), "the trace tells its own call and no other");
}

#[test]
fn what_was_not_written_is_not_looked_for() {
    let mut calls = [call(1, 0, 1), call(2, 10, 11)];
    calls[0].records.pop();
    calls[1].records.clear();
    let (score, all) = judge(&calls, &[found(&[(0, 1)])]);
    assert_eq!((all.true_links, score.true_calls, score.true_tries), (rates(0, 0), 1, 1));
}

#[test]
fn tries_of_one_call_are_told_apart_from_its_links() {
    let mut retried = call(1, 0, 1);
    let second: Vec<RecordPlace> = retried
        .records
        .iter()
        .map(|record| RecordPlace { line: 2, attempt: 2, ..record.clone() })
        .collect();
    retried.records.extend(second);
    retried.tries.push(Span { from: Micros(5 * Micros::SECOND), to: Micros(6 * Micros::SECOND) });
    let known = |change: &dyn Fn(&mut CallTruth)| {
        let mut retried = retried.clone();
        retried.records[2].at = Micros(6 * Micros::SECOND);
        retried.records[0].shows.says = Says::Failed;
        change(&mut retried);
        judge(&[retried], &[]).0.tries.decidable.all
    };
    assert_eq!(known(&|_| {}), 1);
    assert_eq!(known(&|call| call.records[0].shows.says = Says::Nothing), 0, "nobody saw it fail");
    assert_eq!(known(&|call| call.records[1].shows.says = Says::Ok), 0, "it ran twice");
    assert_eq!(known(&|call| call.records[2].at = Micros(12 * Micros::SECOND)), 0, "long after");
    assert_eq!(known(&|call| call.records[2].file = "other".into()), 0);
    assert_eq!(known(&|call| call.records[2].shows.args = ArgsShown::Partial), 0);
    let calls = [retried];
    let mut folded = found(&[(0, 1), (1, 1), (0, 2), (1, 2)]);
    for sighting in &mut folded.sightings[2..] {
        sighting.attempt = 1;
    }
    let (score, all) = judge(&calls, &[folded]);
    assert_eq!((all.claimed, all.true_links), (rates(2, 2), rates(2, 2)));
    assert_eq!((score.tries.claimed, score.tries.true_links), (rates(1, 1), rates(1, 1)));
    let (score, all) = judge(&calls, &[found(&[(0, 1), (1, 1)]), found(&[(0, 2), (1, 2)])]);
    assert_eq!((all.claimed, all.true_links), (rates(2, 2), rates(2, 2)));
    assert_eq!((score.tries.claimed, score.tries.true_links), (rates(0, 0), rates(0, 1)));
}

#[test]
fn a_sighting_of_two_calls_is_mixed() {
    let calls = [call(1, 0, 1), call(2, 10, 11)];
    let mut both = found(&[(0, 1)]);
    both.sightings[0].places.push(Place { stream: 0, line: 2 });
    let (score, _) = judge(&calls, &[both]);
    assert_eq!((score.mixed, score.merged, score.found_calls), (1, 1, 1));
}

#[test]
fn what_the_records_cannot_show_is_undecidable() {
    let decidable = |change: &dyn Fn(&mut CallTruth)| {
        let mut call = call(1, 0, 1);
        change(&mut call);
        judge(&[call], &[]).1.decidable.all
    };
    let hide = |call: &mut CallTruth| call.records[1].shows.args = ArgsShown::Nothing;
    assert_eq!(decidable(&|_| {}), 1);
    assert_eq!(decidable(&hide), 1, "by time");
    assert_eq!(decidable(&|call| call.records[1].shows.is_reply = true), 0, "names no tool");
    for (apart_secs, expected) in [(5, 1), (6, 0)] {
        let ahead = apart_secs * Micros::SECOND;
        assert_eq!(decidable(&|call| call.records[0].ahead = -ahead), expected);
    }
    let refuse = |call: &mut CallTruth| call.records[0].shows.says = Says::Refused;
    assert_eq!(decidable(&refuse), 1, "the arguments tie it");
    let refuse_and_hide = |call: &mut CallTruth| {
        refuse(call);
        hide(call);
    };
    assert_eq!(decidable(&refuse_and_hide), 0);
    let late = |call: &mut CallTruth| call.records[1].at = Micros(7 * Micros::SECOND);
    assert_eq!(decidable(&late), 1, "the arguments tie it");
    let late_and_hidden = |call: &mut CallTruth| {
        late(call);
        hide(call);
    };
    assert_eq!(decidable(&late_and_hidden), 0);
}

#[test]
fn who_says_that_others_fit_as_well_is_judged_apart() {
    let calls = [call(1, 0, 1), call(2, 10, 11)];
    let mut unsure = found(&[(0, 1), (1, 2)]);
    unsure.sightings[1].is_sure = false;
    let (_, all) = judge(&calls, &[unsure, found(&[(0, 2)]), found(&[(1, 1)])]);
    assert_eq!((all.claimed, all.unsure), (rates(0, 0), rates(0, 1)));
}
