//! Single defects that joining once had, each by what it did wrong.

use super::tests::{
    Model, arcs, correlator, one_pass, one_pass_by, one_pass_within, record, small, with_id,
    with_path,
};
use super::*;
use crate::model::{Certainty, JoinedBy, OutcomeClass, RecordId, Sighting, Witness};

fn traced(mut record: Record) -> Record {
    record.trace_id = Some("4bf92f3577b34da6a3ce929d0e0e4736".into());
    record
}

/// A record of a witness between client and server.
fn between(stream: &str, offset: u64, at_ms: i64, class: OutcomeClass) -> Record {
    let mut record = record(stream, offset, at_ms, "read", class);
    record.witness = Witness::Gateway;
    record.dialect = Dialect::Gate;
    record
}

fn by_stream<'a>(call: &'a Call, stream: &str) -> Option<&'a Sighting> {
    call.sightings.iter().find(|sighting| *sighting.stream == *stream)
}

/// Who was joined with whom, by streams.
fn joins(calls: &[Call]) -> Vec<Vec<String>> {
    let streams = |call: &Call| call.sightings.iter().map(|one| one.stream.to_string()).collect();
    calls.iter().map(streams).collect()
}

#[test]
fn the_joined_call_carries_the_future_flag_of_any_record() {
    use OutcomeClass::{Approved, Ok};
    let mut end = with_id(record("client", 1, 10, "read", Ok), "1");
    end.flags = vec!["future".into()];
    let calls = one_pass(&arcs(vec![
        with_id(record("client", 0, 0, "read", Approved), "1"),
        end,
        record("server", 0, 5, "read", Ok),
    ]));
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].flags, ["future".into()] as [Text; 1]);
}

#[test]
fn the_number_of_a_generation_decides_no_tie() {
    use OutcomeClass::Ok;
    let told = |first: u64, second: u64| {
        let numbered = |stream, generation, at| {
            let mut record = record(stream, 0, at, "read", Ok);
            record.id = RecordId { generation, offset: 0, index: 0 };
            record
        };
        joins(&one_pass(&arcs(vec![
            numbered("client-a", first, 0),
            numbered("client-b", second, 0),
            numbered("server", 9, 1),
        ])))
    };
    assert_eq!(told(1, 2), [vec!["client-a", "server"], vec!["client-b"]]);
    assert_eq!(told(2, 1), told(1, 2));
}

#[test]
fn a_trace_of_several_calls_ties_no_run_to_another_calls_denial() {
    use OutcomeClass::{Denied, Ok};
    let (a, b) = (1, 2);
    let calls = one_pass(&arcs(vec![
        traced(with_id(with_path(record("client", 0, 0, "delete", Denied), a), "1")),
        traced(with_id(with_path(record("client", 1, 100, "delete", Ok), b), "2")),
        traced(with_path(record("server", 0, 50, "delete", Ok), b)),
        traced(with_path(record("server", 1, 150, "delete", Ok), b)),
    ]));
    assert!(calls.iter().all(|call| call.discrepancies.is_empty()), "{calls:?}");
    assert_eq!(joins(&calls), [vec!["client"], vec!["client", "server"], vec!["server"]]);
}

#[test]
fn a_trace_is_exact_only_for_a_single_candidate() {
    use OutcomeClass::Ok;
    let client = traced(record("client", 0, 0, "read", Ok));
    let server = |offset| traced(record("server", offset, 10, "read", Ok));
    let how = |calls: &[Call]| {
        let joined = by_stream(&calls[0], "server").unwrap();
        (joined.joined_by, joined.certainty)
    };
    let one = one_pass(&arcs(vec![client.clone(), server(0)]));
    assert_eq!(how(&one), (JoinedBy::Trace, Certainty::Exact));
    let two = one_pass(&arcs(vec![client, server(0), server(1)]));
    assert_eq!(how(&two), (JoinedBy::Trace, Certainty::Ambiguous));
}

#[test]
fn what_later_records_of_a_unit_say_reaches_the_call() {
    use OutcomeClass::{Approved, Ok};
    let first = with_id(record("client", 0, 0, "read", Approved), "1");
    let plain = with_id(record("client", 1, 10, "read", Ok), "1");
    let mut telling = traced(plain.clone());
    telling.duration_ms = Some(7.0);
    telling.principal = Some("ann".into());
    telling.client = Some("desk".into());
    telling.tenant = Some("acme".into());
    telling.session = Some("s1".into());
    telling.server = Some("files".into());
    telling.flags = vec!["naive-time".into()];
    telling.also = vec![("tool.name".into(), "delete".into())];
    let bare = one_pass(&arcs(vec![first.clone(), plain])).remove(0);
    let call = one_pass(&arcs(vec![first, telling.clone()])).remove(0);
    assert_eq!(call.id, bare.id, "the first record alone names the call");
    assert_eq!(call.duration_ms, telling.duration_ms);
    assert_eq!(call.principal, telling.principal);
    assert_eq!(call.client, telling.client);
    assert_eq!(call.tenant, telling.tenant);
    assert_eq!(Some(call.session), telling.session);
    assert_eq!(call.server, telling.server);
    assert_eq!(call.trace_id, telling.trace_id);
    assert_eq!(call.flags, telling.flags);
    assert_eq!(call.also, telling.also);
}

#[test]
fn the_first_principal_and_the_last_duration_of_a_unit_count() {
    use OutcomeClass::{Approved, Ok};
    let told = |offset, class, principal: &str, duration_ms| {
        let mut record = with_id(record("client", offset, 0, "read", class), "1");
        record.principal = Some(principal.into());
        record.duration_ms = Some(duration_ms);
        record
    };
    let calls = one_pass(&arcs(vec![told(0, Approved, "ann", 1.0), told(1, Ok, "bob", 2.0)]));
    assert_eq!((calls[0].principal.as_deref(), calls[0].duration_ms), (Some("ann"), Some(2.0)));
}

#[test]
fn a_clocks_offset_is_added_to_its_streams_times() {
    use OutcomeClass::Ok;
    // The server's clock is eight seconds behind.
    let records =
        arcs(vec![record("client", 0, 10_000, "read", Ok), record("server", 0, 2_000, "read", Ok)]);
    let calls = |offset_seconds: i64| {
        let offset = ("server".into(), offset_seconds * Micros::SECOND);
        one_pass_by(Clocks::new([offset]), &records)
    };
    assert_eq!(calls(0).len(), 2);
    assert_eq!(calls(-8).len(), 2);
    let joined = calls(8);
    assert_eq!(joined.len(), 1);
    assert_eq!(joined[0].at, Some(Micros(10_000_000)), "the log's own time stays");
}

#[test]
fn who_was_first_is_told_by_the_common_clock() {
    use OutcomeClass::Ok;
    let records = arcs(vec![
        record("client-late", 0, 0, "read", Ok),
        record("client-true", 0, 1_000, "read", Ok),
        record("server", 0, 1_500, "read", Ok),
    ]);
    let with_server = |clocks| {
        let calls = one_pass_by(clocks, &records);
        let joined = calls.into_iter().find(|call| by_stream(call, "server").is_some());
        joined.map(|call| call.stream.to_string())
    };
    assert_eq!(with_server(Clocks::default()).as_deref(), Some("client-late"));
    let behind = Clocks::new([("client-late".into(), 3 * Micros::SECOND)]);
    assert_eq!(with_server(behind).as_deref(), Some("client-true"));
}

#[test]
fn a_nearer_witness_may_have_begun_before_the_call() {
    use OutcomeClass::{Approved, Ok};
    let gate = |offset, at, class| with_id(between("gate", offset, at, class), "g");
    let calls = one_pass(&arcs(vec![
        gate(0, 0, Approved),
        record("client", 0, 30_000, "read", Ok),
        gate(1, 60_000, Ok),
    ]));
    assert_eq!(joins(&calls), [vec!["client", "gate"]]);
}

#[test]
fn one_that_ended_before_the_call_is_no_candidate() {
    use OutcomeClass::{Approved, Ok};
    let gate = |id: &str, offset, at, class| with_id(between("gate", offset, at, class), id);
    let calls = one_pass(&arcs(vec![
        // The long one lets the search begin far back, among those that are over.
        gate("long", 0, 0, Approved),
        gate("over", 1, 1_000, Approved),
        gate("over", 2, 2_000, Ok),
        record("client", 0, 30_000, "read", Ok),
        gate("inside", 3, 30_100, Ok),
        gate("long", 4, 60_000, Ok),
    ]));
    assert_eq!(calls.len(), 3);
    let joined = calls.iter().find(|call| call.sightings.len() == 2).unwrap();
    let gate = by_stream(joined, "gate").unwrap();
    assert_eq!(gate.steps[0].record.offset, 3, "who began inside comes before who began earlier");
    assert_eq!(gate.certainty, Certainty::Ambiguous);
}

#[test]
fn a_call_that_reaches_beyond_the_floor_is_not_forgotten_where_one_without_a_time_is_next() {
    use OutcomeClass::{Asked, Denied};
    let hour = 3_600_000;
    let mut timeless = record("client", 9, 0, "read", Asked);
    timeless.at = None;
    let batches = [
        vec![with_id(record("client", 1, 30 * hour, "read", Denied), "1"), timeless],
        vec![with_id(record("client", 0, 29 * hour, "read", Asked), "1")],
        vec![record("server", 0, 30 * hour, "read", Denied)],
    ];
    let expected = one_pass(&arcs(batches.concat()));
    let mut model = Model::default();
    let mut correlator = Correlator::new(Clocks::default());
    for batch in batches {
        model.feed(&mut correlator, &arcs(batch));
    }
    assert_eq!(model.calls(), expected);
    assert_eq!(joins(&expected)[0], ["client", "server"]);
}

#[test]
fn a_call_that_stays_as_it_was_is_not_told_again() {
    use OutcomeClass::{Approved, Ok};
    let mut correlator = Correlator::new(Clocks::default());
    let mut model = Model::default();
    for call in 0..200 {
        let (at, id) = (i64::try_from(call).unwrap() * 700, call.to_string());
        let client = |step, at, class| {
            with_id(with_path(record("client", step, at, "read", class), call), &id)
        };
        for (record, new) in [
            (client(2 * call, at, Approved), true),
            (with_path(record("server", call, at + 90, "read", Ok), call), false),
            (client(2 * call + 1, at + 100, Ok), false),
        ] {
            let batch = arcs(vec![record]);
            assert!(correlator.plan_tools(&batch, &[]).is_empty());
            let outcome = correlator.apply(&batch, Vec::new());
            // All of them are of one piece of time, and joined anew with it.
            assert_eq!(outcome.changes.len(), 1, "call {call}");
            assert_eq!(outcome.changes[0].old.is_none(), new, "call {call}");
            model.take(outcome);
        }
    }
    assert_eq!(model.calls().len(), 200);
}

/// Fourteen calls, a minute apart, that two logs tell of: enough to know that they belong together.
fn known(upper: impl Fn(u64, i64) -> Record, lower: impl Fn(u64, i64) -> Record) -> Vec<Record> {
    let minutes = (0..14).zip((0..).map(|minute| minute * 60_000));
    minutes.flat_map(|(offset, at)| [upper(offset, at), lower(offset, at + 10)]).collect()
}

#[test]
fn a_join_by_time_of_a_log_that_is_known_to_belong_to_another_is_in_doubt() {
    use OutcomeClass::Ok;
    let later = 3_600_000;
    let client = record("client", 99, later, "read", Ok);
    let alone = vec![client, record("state", 0, later + 5, "read", Ok)];
    let how = |records: Vec<Record>| {
        let calls = one_pass(&arcs(records));
        let joined = calls.iter().find_map(|call| by_stream(call, "state")).cloned().unwrap();
        (joined.joined_by, joined.certainty, joined.candidates)
    };
    assert_eq!(how(alone.clone()), (JoinedBy::Time, Certainty::Unambiguous, vec![]));
    let mut beside = known(
        |offset, at| record("client", offset, at, "read", Ok),
        |offset, at| record("server", offset, at, "read", Ok),
    );
    beside.extend(alone);
    assert_eq!(how(beside), (JoinedBy::Time, Certainty::Ambiguous, vec![]));
}

#[test]
fn a_join_by_time_alone_that_is_not_where_the_clocks_say_is_in_doubt() {
    use OutcomeClass::Ok;
    let later = 3_600_000;
    let client = |offset, at| record("client", offset, at, "read", Ok);
    let server = |offset, at| record("server", offset, at, "read", Ok);
    let certainty = |ends: i64, path: Option<u64>| {
        let mut records = known(client, server);
        let last = [client(98, later), server(98, later + ends)];
        records.extend(last.map(|record| match path {
            Some(path) => with_path(record, path),
            None => record,
        }));
        by_stream(one_pass(&arcs(records)).last().unwrap(), "server").unwrap().certainty
    };
    assert_eq!(certainty(400, None), Certainty::Unambiguous);
    assert_eq!(certainty(700, None), Certainty::Ambiguous);
    assert_eq!(certainty(700, Some(7)), Certainty::Unambiguous, "a value ties it");
}

#[test]
fn logs_that_are_often_joined_at_no_distance_of_their_own_are_joined_in_doubt() {
    use OutcomeClass::Ok;
    let certainty = |apart: i64, path: Option<u64>| {
        let record = |stream, offset, at| {
            let mut record = record(stream, offset, at, "read", Ok);
            record.principal = Some("ann".into());
            path.map_or(record.clone(), |path| with_path(record, path))
        };
        let minutes = (0..40).zip((0..).map(|minute| minute * 60_000));
        let both = minutes.flat_map(|(offset, at)| {
            let off = i64::try_from(offset).unwrap() * 733 * apart % 9_000 - 4_500 * apart;
            [record("client", offset, at), record("server", offset, at + off)]
        });
        let calls = one_pass(&arcs(both.collect()));
        calls
            .iter()
            .find_map(|call| {
                by_stream(call, "server").filter(|_| call.sightings.len() > 1).cloned()
            })
            .unwrap()
            .certainty
    };
    assert_eq!(certainty(0, None), Certainty::Unambiguous);
    assert_eq!(certainty(1, None), Certainty::Ambiguous, "they lie anywhere");
    assert_eq!(certainty(1, Some(7)), Certainty::Unambiguous, "all arguments are equal");
}

#[test]
fn logs_that_are_known_to_belong_together_join_before_others() {
    use OutcomeClass::Ok;
    let later = 3_600_000;
    let gate = |offset, at| between("gate", offset, at, Ok);
    let server = |offset, at| record("server", offset, at, "read", Ok);
    let mut records = known(gate, server);
    records.extend([
        with_path(record("client", 0, later, "read", Ok), 7),
        gate(98, later + 5),
        server(98, later + 15),
        with_path(record("state", 0, later + 20, "read", Ok), 7),
    ]);
    let joins = joins(&one_pass(&arcs(records)));
    assert_eq!(joins[14..], [vec!["client", "state"], vec!["gate", "server"]]);
}

#[test]
fn two_logs_whose_clocks_were_measured_against_a_third_know_each_other() {
    use OutcomeClass::Ok;
    // The gate's clock is two seconds behind and the server's two ahead of the client's.
    let client = |offset, at| with_path(record("client", offset, at, "read", Ok), 7);
    let gate = |offset, at: i64| between("gate", offset, at - 2_000, Ok);
    let server = |offset, at| with_path(record("server", offset, at + 2_000, "read", Ok), 7);
    let mut records = known(client, server);
    records.extend(known(client, gate).into_iter().filter(|record| &*record.stream == "gate"));
    let later = 3_600_000;
    records.extend([gate(98, later), server(98, later), gate(99, later + 900)]);
    let calls = one_pass(&arcs(records));
    assert!(joins(&calls).ends_with(&[vec!["gate".into(), "server".into()], vec!["gate".into()]]));
    let joined = calls.iter().rev().find_map(|call| by_stream(call, "server")).unwrap();
    assert_eq!((joined.joined_by, joined.certainty), (JoinedBy::Time, Certainty::Unambiguous));
}

#[test]
fn what_was_done_after_the_client_gave_up_is_its_calls() {
    use OutcomeClass::{Approved, Error, Ok};
    let later = 3_600_000;
    let client = |offset, at, class| with_path(record("client", offset, at, "read", class), 7);
    let server = |offset, at| with_path(record("server", offset, at, "read", Ok), 7);
    let ended = |class| {
        let mut records = known(|offset, at| client(offset, at, Ok), server);
        records.push(with_id(client(98, later, Approved), "1"));
        records.push(with_id(client(99, later + 30_000, class), "1"));
        records.push(server(98, later + 33_500));
        joins(&one_pass(&arcs(records))).len()
    };
    assert_eq!(ended(Error), 15);
    assert_eq!(ended(Ok), 16, "it had its answer long before");
}

#[test]
fn whoever_saw_a_refused_call_run_follows_the_one_that_a_value_ties_to_it() {
    use OutcomeClass::{Denied, Ok};
    let denied = with_id(with_path(record("client", 0, 0, "read", Denied), 7), "1");
    let gate = between("gate", 0, 100, Ok);
    let server = record("server", 0, 90, "read", Ok);
    let tied = [denied.clone(), gate.clone(), with_path(server.clone(), 7)];
    assert_eq!(joins(&one_pass(&arcs(tied.into()))), [vec!["client", "gate", "server"]]);
    let apart = joins(&one_pass(&arcs(vec![denied, gate, server])));
    assert_eq!(apart, [vec!["client"], vec!["gate", "server"]], "by time alone it has not run");
}

#[test]
fn a_call_whose_long_arguments_are_summarised_is_known_again_when_it_is_made_again() {
    use OutcomeClass::{Error, Ok};
    let summarised = |offset, at, class, chars| {
        let mut record = with_path(record("client", offset, at, "save", class), 0);
        (record.args.values[0].summarised, record.args.values[0].chars) = (true, chars);
        with_id(record, &offset.to_string())
    };
    let calls = |first, second| {
        one_pass(&arcs(vec![summarised(0, 0, Error, first), summarised(1, 2_000, Ok, second)]))
            .len()
    };
    assert_eq!(calls(Some(300), Some(300)), 1);
    assert_eq!(calls(Some(300), Some(301)), 2);
    assert_eq!(calls(None, None), 2, "of a secret not even the length is known");
}

/// Whether a mark cuts depends on what begins behind it, and that may come after all around the mark was over.
#[test]
fn a_piece_that_is_cut_after_it_has_ended_is_not_forgotten_before() {
    use OutcomeClass::Ok;
    let ms_at_mark = 60_000;
    let call = |stream, offset, ms: i64, path| {
        with_path(record(stream, offset, ms_at_mark + ms, "read", Ok), path)
    };
    let mut first = vec![call("client", 0, -500, 7), call("client", 1, 0, 7)];
    first.push(call("server", 0, -400, 7));
    first.extend((0..6).map(|other| call("client", 20 + other, 20_500, other)));
    let then: Vec<Record> = (2..9).map(|other| call("client", other, 10_600, other)).collect();
    let (first, then) = (arcs(first), arcs(then));
    let limits = small(12);
    let mut model = Model::default();
    let mut correlator = correlator(&limits);
    model.feed(&mut correlator, &first);
    let joined = |calls: &[Call]| calls[0].sightings[1].candidates.len();
    assert_eq!(joined(&model.calls()), 1, "the server's may be of the call behind the mark");
    model.feed(&mut correlator, &then);
    let all: Vec<Arc<Record>> = first.into_iter().chain(then).collect();
    assert_eq!(joined(&model.calls()), 0, "now the mark cuts");
    assert_eq!(model.calls(), one_pass_within(&limits, &all));
}
