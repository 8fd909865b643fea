//! Calls are a function of the set of records: a model store answers the needs, and every order gives the same.

mod model;

pub(super) use model::Model;
use proptest::prelude::*;

use super::*;
use crate::model::{ArgValue, ArgView, Args, Discrepancy, OutcomeClass, Ran, RecordId, Witness};

pub(super) fn one_pass(records: &[Arc<Record>]) -> Vec<Call> {
    one_pass_by(Clocks::default(), records)
}

pub(super) fn one_pass_by(clocks: Clocks, records: &[Arc<Record>]) -> Vec<Call> {
    let mut model = Model::default();
    let mut correlator = Correlator::new(clocks);
    let mut records = records.to_vec();
    records.sort_by_key(|record| (record.at, Text::clone(&record.stream), record.id));
    model.feed(&mut correlator, &records);
    model.rejoin(&mut correlator, true);
    model.calls()
}

fn generation_of(stream: &str) -> u64 {
    stream.bytes().map(u64::from).sum()
}

pub(super) fn record(
    stream: &str,
    offset: u64,
    at_ms: i64,
    tool: &str,
    class: OutcomeClass,
) -> Record {
    Record {
        id: RecordId { generation: generation_of(stream), offset, index: 0 },
        length: 10,
        stream: stream.into(),
        at: Some(Micros(at_ms * 1000)),
        time_quality: TimeQuality::Own,
        dialect: Dialect::TwoSided,
        witness: if stream.starts_with('c') { Witness::Client } else { Witness::Server },
        kind: RecordKind::Call,
        class,
        code: class.as_str().into(),
        detail: None,
        tool: Some(tool.into()),
        server: None,
        args: Args::default(),
        request_id: None,
        group_id: None,
        trace_id: None,
        tool_use_id: None,
        principal: None,
        client: None,
        tenant: None,
        session: None,
        duration_ms: None,
        flags: vec![],
        also: vec![],
        extra: None,
    }
}

pub(super) fn with_path(mut record: Record, hash: u64) -> Record {
    let value = ArgValue {
        name: "path".into(),
        text: hash.to_string().into(),
        hash,
        chars: None,
        summarised: false,
    };
    record.args = Args { view: ArgView::Full, values: vec![value], dropped: vec![] };
    record
}

pub(super) fn with_id(mut record: Record, id: &str) -> Record {
    record.request_id = Some(id.into());
    record
}

pub(super) fn arcs(records: Vec<Record>) -> Vec<Arc<Record>> {
    records.into_iter().map(Arc::new).collect()
}

#[test]
fn a_client_and_a_server_tell_of_one_call() {
    use OutcomeClass::{Approved, Asked, Ok};
    let calls = one_pass(&arcs(vec![
        with_id(with_path(record("client", 0, 0, "delete", Asked), 7), "a1"),
        with_id(with_path(record("client", 1, 4_100, "delete", Approved), 7), "a1"),
        with_id(with_path(record("client", 2, 9_810, "delete", Ok), 7), "a1"),
        with_path(record("server", 0, 9_790, "files.delete", Ok), 7),
    ]));
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].ran, Ran::Yes);
    assert_eq!(calls[0].at, Some(Micros(4_100_000)));
    assert_eq!(calls[0].ask_to_answer_ms, Some(4_100.0));
    assert_eq!(calls[0].sightings.len(), 2);
    assert_eq!(calls[0].sightings[1].joined_by, crate::model::JoinedBy::Arguments);
}

#[test]
fn a_denied_call_ran_only_where_a_value_ties_it() {
    use OutcomeClass::{Denied, Ok};
    let denied = with_id(with_path(record("client", 0, 0, "delete", Denied), 7), "a1");
    let tied =
        one_pass(&arcs(vec![denied.clone(), with_path(record("server", 0, 200, "delete", Ok), 7)]));
    assert_eq!(tied.len(), 1);
    assert_eq!(
        tied[0].discrepancies,
        [Discrepancy::RanThoughDenied { denied_by: Witness::Client, ran_by: Witness::Server }]
    );
    let other = one_pass(&arcs(vec![denied, record("server", 0, 200, "delete", Ok)]));
    assert_eq!(other.len(), 2, "nothing both know ties them");
}

#[test]
fn a_reused_request_id_is_another_call() {
    use OutcomeClass::{Approved, Asked, Ok};
    let id = |record| with_id(record, "1");
    let calls = one_pass(&arcs(vec![
        id(record("client", 0, 0, "read", Approved)),
        id(record("client", 1, 10, "read", Ok)),
        id(record("client", 2, 20, "read", Approved)),
        id(record("client", 3, 30, "read", Asked)),
        id(record("client", 4, 40 + 3_600_030, "read", Ok)),
    ]));
    assert_eq!(calls.len(), 4);
}

#[test]
fn identical_calls_in_flight_are_matched_in_order() {
    use OutcomeClass::Ok;
    let mut records = Vec::new();
    for call in 0..3 {
        let id = format!("r{call}");
        let at = i64::try_from(call).unwrap() * 100;
        records.push(with_id(with_path(record("client", call, at, "read", Ok), 7), &id));
        records.push(with_path(record("server", call, at + 1, "read", Ok), 7));
    }
    let calls = one_pass(&arcs(records));
    assert_eq!(calls.len(), 3);
    for call in &calls {
        let offsets: Vec<u64> =
            call.sightings.iter().map(|sighting| sighting.steps[0].record.offset).collect();
        assert_eq!(offsets[0], offsets[1]);
    }
}

#[test]
fn replies_go_to_the_request_that_waits() {
    use OutcomeClass::{Approved, Ok, Unknown};
    let proxied = |offset, at, kind, class, tool: Option<&str>| {
        let mut record = record("proxy", offset, at, tool.unwrap_or("-"), class);
        record.dialect = Dialect::StdioProxy;
        record.witness = Witness::Proxy;
        record.kind = kind;
        record.tool = tool.map(Text::from);
        record
    };
    let calls = one_pass(&arcs(vec![
        proxied(0, 0, RecordKind::Request, Unknown, None),
        proxied(1, 10, RecordKind::Reply, Ok, None),
        proxied(2, 20, RecordKind::Call, Approved, Some("read")),
        proxied(3, 30, RecordKind::Reply, Ok, None),
        proxied(4, 40, RecordKind::Call, OutcomeClass::Denied, Some("delete")),
    ]));
    let told: Vec<_> = calls.iter().map(|call| (&*call.tool, call.class, call.ran)).collect();
    assert_eq!(told, [("read", Ok, Ran::Yes), ("delete", OutcomeClass::Denied, Ran::No)]);
}

/// Stands for a record without a time.
const TIMELESS: i64 = 1_000_000;

const STREAMS: [&str; 5] = ["client", "code", "server", "state", "proxy"];

/// One random record: (stream, seconds, tool, class, path, request id).
fn any_record() -> impl Strategy<Value = (usize, i64, usize, usize, u64, usize)> {
    let time = prop_oneof![4 => 0_i64..60, 2 => 0_i64..90_000, 1 => Just(100), 1 => Just(TIMELESS)];
    (0_usize..5, time, 0_usize..2, 0_usize..6, 0_u64..2, 0_usize..3)
}

fn build_records(raw: &[(usize, i64, usize, usize, u64, usize)]) -> Vec<Arc<Record>> {
    use OutcomeClass::{Approved, Asked, Denied, Error, Input, Ok};
    let classes = [Asked, Approved, Denied, Ok, Error, Input];
    let mut next = [0_u64; 5];
    let mut sorted = raw.to_vec();
    // Each stream is written in order of time; what arrives late is a stream as a whole, or a batch.
    sorted.sort_by_key(|raw| raw.1);
    sorted
        .iter()
        .map(|(stream, seconds, tool, class, path, id)| {
            let offset = next[*stream];
            next[*stream] += 1;
            let name = ["read", "files.read"][*tool];
            let mut built = with_path(
                record(STREAMS[*stream], offset, seconds * 1000, name, classes[*class]),
                *path,
            );
            if *stream < 2 {
                built.request_id = Some(["1", "2", "3"][*id].into());
                // Later records say more than the first.
                built.flags = vec![built.code.clone()];
                built.principal = (*class > 2).then(|| "ann".into());
            }
            if *stream == 4 {
                built.dialect = Dialect::StdioProxy;
                built.witness = Witness::Proxy;
                built.args = Args::default();
                built.kind = [RecordKind::Call, RecordKind::Reply, RecordKind::Request][*id];
                if built.kind != RecordKind::Call {
                    built.tool = None;
                }
                built.class = if *class % 2 == 0 { Approved } else { Denied };
                if built.kind == RecordKind::Reply {
                    built.class = Ok;
                    built.duration_ms = Some([7.0, 9.0][usize::from(*path > 0)]);
                    built.flags = vec!["cut-reply".into()];
                    built.tenant = Some("acme".into());
                }
            }
            if *seconds == TIMELESS {
                built.at = None;
            }
            Arc::new(built)
        })
        .collect()
}

/// What has no time has only its place in its file, and files are read from front to back.
fn timeless_in_order(mut records: Vec<Arc<Record>>) -> Vec<Arc<Record>> {
    let mut timeless: Vec<Arc<Record>> =
        records.iter().filter(|record| record.at.is_none()).cloned().collect();
    timeless.sort_by_key(|record| std::cmp::Reverse(record.id.offset));
    for place in &mut records {
        if place.at.is_none() {
            let stream = Text::clone(&place.stream);
            let next = timeless.iter().rposition(|record| record.stream == stream);
            *place = timeless.remove(next.unwrap());
        }
    }
    records
}

fn shuffle_by(records: &mut [Arc<Record>], seed: u64) {
    let mut state = seed | 1;
    for index in (1..records.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let other = usize::try_from(state >> 33).unwrap() % (index + 1);
        records.swap(index, other);
    }
}

/// The same records from files that were found in another order.
fn renumbered(records: &[Arc<Record>], number: impl Fn(u64) -> u64) -> Vec<Arc<Record>> {
    let renumbered = records.iter().map(|record| {
        let mut record = Record::clone(record);
        record.id.generation = number(record.id.generation);
        Arc::new(record)
    });
    renumbered.collect()
}

/// Calls without the numbers of generations: streams and places tell the records apart.
fn without_numbers(mut calls: Vec<Call>) -> Vec<Call> {
    for call in &mut calls {
        call.position.generation = 0;
        for candidate in call.sightings.iter_mut().flat_map(|sighting| &mut sighting.candidates) {
            candidate.generation = 0;
        }
        for step in call.sightings.iter_mut().flat_map(|sighting| &mut sighting.steps) {
            step.record.generation = 0;
        }
    }
    calls
}

/// Calls of two desks, in loops of the same arguments now and then, by clocks that are apart, with records lost. Each
/// is (desk, gap in milliseconds, seconds it takes, path, what is lost).
fn desks(raw: &[(usize, i64, i64, u64, u8)], days: i64) -> Vec<Arc<Record>> {
    use OutcomeClass::{Approved, Ok};
    let mut records = Vec::new();
    let mut at = [0_i64, 40_000];
    for (number, (desk, gap, took, path, lost)) in (0_u64..).zip(raw) {
        let stretch = if number % 7 == 6 { days * 11 * 3_600_000 } else { 0 };
        at[*desk] += gap + stretch;
        let (begin, end) = (at[*desk], at[*desk] + took);
        let (client, server) = (["client", "code"][*desk], ["server", "state"][*desk]);
        let off = [1_700, -900][*desk];
        let id = number.to_string();
        let of_client = |offset, at, class| {
            with_id(with_path(record(client, offset, at, "read", class), *path), &id)
        };
        if lost & 1 == 0 {
            records.push(of_client(2 * number, begin, Approved));
        }
        if lost & 2 == 0 {
            records.push(of_client(2 * number + 1, end, Ok));
        }
        // The gate stands before the server that is first in line.
        if *desk == 0 && *path > 0 {
            let mut gate = record("gate", number, end - 3 - off, "read", Ok);
            (gate.witness, gate.dialect) = (Witness::Gateway, Dialect::Gate);
            records.push(gate);
        }
        if lost & 0b1100 != 0b1100 {
            records.push(with_path(record(server, number, end - 5 + off, "read", Ok), *path));
        }
    }
    arcs(records)
}

/// Most calls take no time; some take so long that the pieces of two loads overlap.
fn any_call() -> impl Strategy<Value = (usize, i64, i64, u64, u8)> {
    let took = prop_oneof![9 => 10_i64..2_500, 1 => 10_i64..5_000_000];
    (0_usize..2, 20_i64..9_000, took, 0_u64..3, 0_u8..16)
}

/// Limits that the few records of a test reach.
pub(super) fn small(piece_units: u32) -> Limits {
    Limits { scope_units: 8, units: 12, scopes: 3, piece_units, ..Limits::default() }
}

pub(super) fn correlator(limits: &Limits) -> Correlator {
    Correlator { limits: limits.clone(), ..Correlator::new(Clocks::default()) }
}

pub(super) fn one_pass_within(limits: &Limits, records: &[Arc<Record>]) -> Vec<Call> {
    let mut model = Model::default();
    let mut records = records.to_vec();
    records.sort_by_key(|record| (record.at, Text::clone(&record.stream), record.id));
    let unbounded = Limits { piece_units: limits.piece_units, ..Limits::default() };
    model.feed(&mut correlator(&unbounded), &records);
    model.calls()
}

/// Feeds the records in any order, in batches and with restarts, and compares with one pass in order.
fn compare(
    limits: &Limits,
    records: &[Arc<Record>],
    shuffle: u64,
    batch: usize,
    restart: &[bool],
    numbers: [u64; 5],
) -> Result<(), TestCaseError> {
    let expected = without_numbers(one_pass_within(limits, records));
    let stream = |generation| STREAMS.iter().position(|name| generation_of(name) == generation);
    let mut shuffled = renumbered(records, |generation| numbers[stream(generation).unwrap()]);
    // A tenth stays in order, where memory alone is asked.
    if !shuffle.is_multiple_of(10) {
        shuffle_by(&mut shuffled, shuffle);
    }
    let shuffled = timeless_in_order(shuffled);
    let mut model = Model::default();
    let mut correlator = correlator(limits);
    for (batch, again) in shuffled.chunks(batch).zip(restart) {
        model.feed(&mut correlator, batch);
        if *again {
            let newest = model.records.iter().filter_map(|record| record.at).max();
            let resumed = Correlator::resume(Clocks::default(), newest);
            correlator = Correlator { limits: limits.clone(), ..resumed };
        }
    }
    prop_assert_eq!(without_numbers(model.calls()), expected);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_order_batching_and_restart_gives_the_same_calls(
        raw in prop::collection::vec(any_record(), 1..40),
        shuffle in any::<u64>(),
        batch in 1_usize..9,
        restart in prop::collection::vec(any::<bool>(), 40),
        numbers in Just([0_u64, 1, 2, 3, 4]).prop_shuffle(),
    ) {
        compare(&Limits::default(), &build_records(&raw), shuffle, batch, &restart, numbers)?;
    }

    #[test]
    fn what_is_forgotten_early_and_cut_often_gives_the_same_calls(
        raw in prop::collection::vec(any_record(), 1..60),
        shuffle in any::<u64>(),
        batch in 1_usize..9,
        restart in prop::collection::vec(prop::bool::weighted(0.1), 60),
        numbers in Just([0_u64, 1, 2, 3, 4]).prop_shuffle(),
        piece_units in 3_u32..30,
    ) {
        let records = build_records(&raw);
        compare(&small(piece_units), &records, shuffle, batch, &restart, numbers)?;
    }

    #[test]
    fn measured_clocks_give_the_same_calls_in_any_order(
        raw in prop::collection::vec(any_call(), 1..60),
        days in 0_i64..9,
        shuffle in any::<u64>(),
        batch in 1_usize..30,
        then in prop::collection::vec(0_u8..6, 60),
        is_tight in any::<bool>(),
        piece_units in prop_oneof![Just(512_u32), 3_u32..30],
    ) {
        let clocks = || Clocks::default().believing(3);
        // What is forgotten early is loaded again, and joined by the clocks of its day.
        let limits = if is_tight { small(piece_units) } else { Limits { piece_units, ..Limits::default() } };
        let records = desks(&raw, days);
        let mut model = Model::default();
        let unbounded = Limits { piece_units: limits.piece_units, ..Limits::default() };
        let mut correlator = Correlator { limits: unbounded, ..Correlator::new(clocks()) };
        let mut in_order = records.clone();
        in_order.sort_by_key(|record| (record.at, Text::clone(&record.stream), record.id));
        model.feed(&mut correlator, &in_order);
        model.rejoin(&mut correlator, true);
        let (expected, clocks_expected) = (model.calls(), model.clocks());
        let mut shuffled = records.clone();
        if shuffle % 3 > 0 {
            shuffle_by(&mut shuffled, shuffle);
        }
        let mut model = Model::default();
        let mut correlator = Correlator { limits: limits.clone(), ..Correlator::new(clocks()) };
        for (batch, then) in shuffled.chunks(batch).zip(then.into_iter().cycle()) {
            model.feed(&mut correlator, batch);
            match then {
                0 => correlator = model.resume(clocks(), &limits),
                1 => model.rejoin(&mut correlator, true),
                2 => model.rejoin(&mut correlator, false),
                _ => {}
            }
        }
        model.rejoin(&mut correlator, true);
        prop_assert_eq!(first_difference(&model.calls(), &expected), None);
        prop_assert_eq!(model.clocks(), clocks_expected);
    }
}

/// Where two lists of calls part, in few words.
fn first_difference(left: &[Call], right: &[Call]) -> Option<String> {
    let brief = |call: &Call| {
        let seen = call.sightings.iter().map(|seen| {
            let places: Vec<String> =
                seen.steps.iter().map(|step| step.record.offset.to_string()).collect();
            let others: Vec<String> = seen
                .candidates
                .iter()
                .map(|other| format!("{}/{}", other.generation, other.offset))
                .collect();
            format!(
                "{} {} {}/{} [{}]",
                seen.stream,
                places.join("+"),
                seen.joined_by.as_str(),
                seen.attempt,
                others.join(" ")
            )
        });
        format!("{:?}: {}", call.at, seen.collect::<Vec<_>>().join(", "))
    };
    let (mut lefts, mut rights) = (left.iter(), right.iter());
    loop {
        let (left, right) = (lefts.next(), rights.next());
        if left != right {
            return Some(format!("{:?} is not {:?}", left.map(brief), right.map(brief)));
        }
        left?;
    }
}
