//! Long busy streams of a stdio proxy: replies and request lines are lost, several requests wait at once, and still
//! the answers are a function of the records, and mostly the true ones.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::tests::{Model, arcs, one_pass, record};
use super::*;
use crate::model::OutcomeClass::{self, Approved, Denied, Ok as Good};
use crate::model::RecordKind::{Call as Asks, Reply};
use crate::model::Witness;

/// A proxy's traffic.
#[derive(Clone, Copy, Debug)]
struct Traffic {
    seed: u64,
    requests: u64,
    /// Requests that wait at once at most.
    at_once: usize,
    lost_replies_percent: u64,
    lost_requests_percent: u64,
    /// Of the replies, those that show an id.
    ids_percent: u64,
    denied_percent: u64,
    /// Of a thousand requests, those before which the client begins anew.
    restarts_per_mille: u64,
    /// Seconds between two requests that do not overlap, at most.
    pause_secs_max: u64,
}

const BUSY: Traffic = Traffic {
    seed: 1,
    requests: 400,
    at_once: 4,
    lost_replies_percent: 5,
    lost_requests_percent: 2,
    ids_percent: 100,
    denied_percent: 5,
    restarts_per_mille: 3,
    pause_secs_max: 60,
};

/// What was written, and the true request of each reply by their places.
struct Written {
    records: Vec<Arc<Record>>,
    asked_by: BTreeMap<u64, u64>,
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888);
        (self.0 >> 33) % end.max(1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

fn proxied(at_ms: i64, kind: RecordKind, class: OutcomeClass) -> Record {
    let mut record = record("proxy", 0, at_ms, "read", class);
    record.dialect = Dialect::StdioProxy;
    record.witness = Witness::Proxy;
    record.kind = kind;
    if kind != Asks {
        record.tool = None;
    }
    record
}

fn write(traffic: &Traffic) -> Written {
    let mut dice = Dice(traffic.seed);
    let mut lines: Vec<(i64, u64, Record)> = Vec::new();
    let mut ends: Vec<i64> = vec![0; traffic.at_once];
    let (mut now, mut id) = (0_i64, dice.below(50));
    for serial in 0..traffic.requests {
        let pause = if dice.chance(40) { 5 } else { traffic.pause_secs_max * 1000 };
        now += 1 + i64::try_from(dice.below(pause)).unwrap();
        let (lane, end) = ends.iter().copied().enumerate().min_by_key(|(_, end)| *end).unwrap();
        now = now.max(end + 1);
        id += 1;
        if dice.below(1000) < traffic.restarts_per_mille {
            id = 0;
            now = now.max(ends.iter().copied().max().unwrap()) + 100;
        }
        let is_denied = dice.chance(traffic.denied_percent);
        let is_call = dice.chance(90);
        let (kind, class) = match (is_denied, is_call) {
            (true, _) => (Asks, Denied),
            (false, true) => (Asks, Approved),
            (false, false) => (RecordKind::Request, Approved),
        };
        if !dice.chance(traffic.lost_requests_percent) {
            lines.push((now, serial, proxied(now, kind, class)));
        }
        if is_denied {
            continue;
        }
        let millis = if dice.chance(5) { 30_000 } else { 350 };
        let until = now + 3 + i64::try_from(dice.below(millis)).unwrap();
        ends[lane] = until;
        if !dice.chance(traffic.lost_replies_percent) {
            let mut reply = proxied(until, Reply, Good);
            reply.request_id = dice.chance(traffic.ids_percent).then(|| id.to_string().into());
            lines.push((until, serial, reply));
        }
    }
    lines.sort_by_key(|(at, serial, _)| (*at, *serial));
    let mut places: BTreeMap<u64, u64> = BTreeMap::new();
    let mut asked_by = BTreeMap::new();
    let mut records = Vec::new();
    for (place, (_, serial, mut record)) in (0_u64..).zip(lines) {
        record.id.offset = place;
        if record.kind != Reply {
            places.insert(serial, place);
        } else if let Some(request) = places.get(&serial) {
            asked_by.insert(place, *request);
        }
        records.push(record);
    }
    Written { records: arcs(records), asked_by }
}

/// Of the replies that were given to calls: those that are theirs, the others, and those of the others that are
/// believed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Judged {
    right: usize,
    wrong: usize,
    right_believed: usize,
    wrong_believed: usize,
    /// Replies of calls that were given to no one or another.
    missed: usize,
}

fn judge(written: &Written, calls: &[Call]) -> Judged {
    let mut judged = Judged::default();
    let mut found: BTreeSet<u64> = BTreeSet::new();
    for sighting in calls.iter().flat_map(|call| &call.sightings) {
        let [request, reply] = &sighting.steps[..] else { continue };
        let is_right = written.asked_by.get(&reply.record.offset) == Some(&request.record.offset);
        let is_believed = reply.class != OutcomeClass::Unknown;
        judged.right += usize::from(is_right);
        judged.wrong += usize::from(!is_right);
        judged.right_believed += usize::from(is_right && is_believed);
        judged.wrong_believed += usize::from(!is_right && is_believed);
        if is_right {
            found.insert(reply.record.offset);
        }
    }
    let is_call = |place: &u64| {
        written.records.iter().any(|record| record.id.offset == *place && record.kind == Asks)
    };
    judged.missed = written
        .asked_by
        .iter()
        .filter(|(reply, request)| is_call(request) && !found.contains(reply))
        .count();
    judged
}

fn judge_many(traffic: Traffic) -> Judged {
    let mut all = Judged::default();
    for seed in 1..=20 {
        let written = write(&Traffic { seed, ..traffic });
        let judged = judge(&written, &one_pass(&written.records));
        all.right += judged.right;
        all.wrong += judged.wrong;
        all.right_believed += judged.right_believed;
        all.wrong_believed += judged.wrong_believed;
        all.missed += judged.missed;
    }
    all
}

#[test]
fn ids_tell_which_reply_is_whose_though_lines_are_lost_and_several_wait() {
    let busy = judge_many(BUSY);
    assert!(busy.missed * 50 < busy.right, "{busy:?}");
    assert!(busy.wrong * 50 < busy.right, "{busy:?}");
    assert!(busy.wrong_believed * 300 < busy.right_believed, "{busy:?}");
    assert!(busy.right_believed * 100 > busy.right * 97, "{busy:?}");
    let one_by_one = judge_many(Traffic { at_once: 1, ..BUSY });
    assert!((one_by_one.missed + one_by_one.wrong) * 500 < one_by_one.right, "{one_by_one:?}");
    assert!(one_by_one.right_believed * 100 > one_by_one.right * 97, "{one_by_one:?}");
    // A reply here and there shows no id.
    let mostly = judge_many(Traffic { ids_percent: 95, ..BUSY });
    assert!(mostly.wrong * 25 < mostly.right, "{mostly:?}");
    assert!(mostly.wrong_believed * 150 < mostly.right_believed, "{mostly:?}");
}

/// What each call's reply is, by the place of its line; negative where it is not believed, 0 for none.
fn replies(lines: &[(i64, RecordKind, OutcomeClass, Option<&str>)]) -> Vec<i64> {
    let record =
        |(place, (at, kind, class, id)): (u64, &(i64, RecordKind, OutcomeClass, Option<&str>))| {
            let mut record = proxied(*at, *kind, *class);
            record.id.offset = place;
            record.request_id = id.map(Text::from);
            if *class == Denied && *kind == Reply {
                record.code = "policy_denied".into();
            }
            record
        };
    let records = arcs((0_u64..).zip(lines).map(record).collect());
    let reply_of = |call: &Call| {
        let step = call.sightings[0].steps.get(1)?;
        let place = i64::try_from(step.record.offset).unwrap();
        Some(if step.class == OutcomeClass::Unknown { -place } else { place })
    };
    one_pass(&records).iter().map(|call| reply_of(call).unwrap_or(0)).collect()
}

#[test]
fn a_lost_reply_shifts_no_other_and_leaves_none_in_doubt() {
    let given = replies(&[
        (0, Asks, Approved, None),
        (20, Reply, Good, Some("4")),
        (100, Asks, Approved, None),
        (200, Asks, Approved, None),
        (201, Asks, Approved, None),
        (230, Reply, Good, Some("7")),
        (240, Reply, Good, Some("6")),
        (300, Asks, Approved, None),
        (320, Reply, Good, Some("8")),
    ]);
    assert_eq!(given, [1, 0, 6, 5, 8]);
}

#[test]
fn ids_grow_by_one_more_where_a_request_line_was_lost_and_begin_anew_with_the_client() {
    let given = replies(&[
        (0, Asks, Approved, None),
        (20, Reply, Good, Some("4")),
        (100, Reply, Good, Some("5")),
        (200, Asks, Approved, None),
        (201, Asks, Approved, None),
        (230, Reply, Good, Some("7")),
        (240, Reply, Good, Some("6")),
        (9_000, RecordKind::Request, Approved, None),
        (9_020, Reply, Good, Some("0")),
        (9_100, Asks, Approved, None),
        (9_101, Asks, Approved, None),
        (9_120, Reply, Good, Some("2")),
        (9_130, Reply, Good, Some("1")),
    ]);
    assert_eq!(given, [1, 6, 5, 12, 11]);
}

#[test]
fn the_proxys_own_refusal_belongs_to_the_denied_request() {
    let given = replies(&[
        (0, Asks, Approved, None),
        (1, Asks, Denied, None),
        (2, Reply, Denied, Some("5")),
        (3, Asks, Denied, None),
        (4, Reply, Denied, None),
        (30, Reply, Good, Some("4")),
    ]);
    assert_eq!(given, [5, 2, 4]);
}

#[test]
fn an_id_that_the_request_shows_decides_and_without_any_the_first_is_answered_first() {
    let shown = replies(&[
        (0, Asks, Approved, Some("a")),
        (1, Asks, Approved, Some("b")),
        (2, Reply, Good, Some("b")),
        (3, Reply, Good, Some("a")),
    ]);
    assert_eq!(shown, [3, 2]);
    for id in [None, Some("9f3c")] {
        let hidden = replies(&[
            (0, Asks, Approved, None),
            (1, Asks, Approved, None),
            (2, Reply, Good, id),
            (3, Reply, Good, id),
        ]);
        assert_eq!(hidden, [-2, 3], "several waited, then one");
    }
}

#[test]
fn two_that_wait_at_first_are_told_apart_by_what_comes_next() {
    let first =
        [(0, Asks, Approved, None), (10, Asks, Approved, None), (90, Reply, Good, Some("7"))];
    let mut lines = first.to_vec();
    assert_eq!(replies(&lines).iter().filter(|place| **place > 0).count(), 0, "no one can tell");
    lines.push((120, Reply, Good, Some("6")));
    assert_eq!(replies(&lines), [3, 2]);
}

#[test]
fn what_nobody_can_tell_is_no_surer_once_time_has_passed() {
    let mut lines = vec![
        (0, Asks, Approved, None),
        (1, Reply, Good, Some("1")),
        (100, Asks, Approved, None),
        (110, Asks, Approved, None),
        (120, Asks, Approved, None),
        (130, Reply, Good, Some("4")),
        (131, Reply, Good, Some("5")),
    ];
    let at_first = replies(&lines);
    assert_eq!(at_first.iter().filter(|place| **place < 0).count(), 2, "{at_first:?}");
    lines.push((60_000, Asks, Approved, None));
    assert_eq!(replies(&lines)[..at_first.len()], at_first);
}

#[test]
fn a_request_is_given_up_after_the_longest_wait() {
    let minute = 60_000;
    for (waited, reply) in [(19 * minute, 1), (21 * minute, 0)] {
        let given = replies(&[(0, Asks, Approved, None), (waited, Reply, Good, Some("1"))]);
        assert_eq!(given, [reply], "{waited} ms");
    }
}

/// Requests with their replies, each of its second.
fn in_order(calls: i64, has_time: bool) -> Vec<Arc<Record>> {
    let mut records = Vec::new();
    for call in 0..calls {
        for (after, kind, class) in [(0, Asks, Approved), (300, Reply, Good)] {
            let mut record = proxied(call * 1_000 + after, kind, class);
            record.id.offset = records.len() as u64;
            record.at = record.at.filter(|_| has_time);
            records.push(record);
        }
    }
    arcs(records)
}

#[test]
fn whatever_a_proxy_writes_a_bounded_part_is_held_and_what_comes_in_order_needs_no_look_back() {
    for (calls, has_time) in [(20_000, true), (1_900, false)] {
        let records = in_order(calls, has_time);
        let limits = Limits { units: 2_000, ..Limits::default() };
        let mut correlator = Correlator { limits, ..Correlator::new(Clocks::default()) };
        let mut model = Model::default();
        let (mut held_max, mut needs) = (0, 0);
        for batch in records.chunks(100) {
            needs += correlator.plan_proxies(batch).len();
            model.feed(&mut correlator, batch);
            held_max = held_max.max(correlator.memory.held_of_proxies());
        }
        assert!((1_000..10_000).contains(&held_max), "{held_max} held, with times: {has_time}");
        assert_eq!(needs, 0, "looks back, with times: {has_time}");
        let found = model.calls();
        assert_eq!(found.len() as u64, calls.cast_unsigned());
        assert!(found.iter().all(|call| call.class == Good), "each has its reply");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn answers_do_not_depend_on_the_order_of_arrival(
        seed in any::<u64>(),
        requests in 50_u64..400,
        at_once in 1_usize..5,
        ids_percent in prop_oneof![Just(0_u64), Just(90), Just(100)],
        denied_percent in 0_u64..10,
        restarts_per_mille in 0_u64..10,
        pause_secs_max in prop_oneof![Just(3_u64), Just(60), Just(400)],
        batch in 1_usize..60,
        far in prop_oneof![Just(1_u64), Just(30), Just(10_000)],
        restart in prop::collection::vec(prop::bool::weighted(0.3), 16),
        units in prop_oneof![Just(50_000_usize), Just(40), Just(300)],
        ahead_secs in prop_oneof![Just(None), (600_i64..700).prop_map(Some)],
    ) {
        let limits = Limits { units, ..Limits::default() };
        let traffic = Traffic {
            seed, requests, at_once, ids_percent, denied_percent, restarts_per_mille, pause_secs_max, ..BUSY
        };
        let written = write(&traffic);
        let mut dice = Dice(seed ^ 0xabcd);
        let mut shuffled: Vec<(u64, Arc<Record>)> = (0..)
            .zip(&written.records)
            .map(|(place, record): (u64, _)| (place + dice.below(far), Arc::clone(record)))
            .collect();
        shuffled.sort_by_key(|(place, _)| *place);
        let shuffled: Vec<Arc<Record>> = shuffled.into_iter().map(|(_, record)| record).collect();
        // Another log may be so far ahead that a batch's own replies lie behind what is held.
        let batches: Vec<Vec<Arc<Record>>> = (0_u64..)
            .zip(shuffled.chunks(batch))
            .map(|(number, batch)| {
                let newest = batch.iter().filter_map(|record| record.at).max();
                let of_other = newest.zip(ahead_secs).map(|(newest, secs)| {
                    let at_ms = newest.0 / 1000 + secs * 1000;
                    Arc::new(record("server", number, at_ms, "other", Good))
                });
                batch.iter().cloned().chain(of_other).collect()
            })
            .collect();
        let expected = one_pass(&batches.concat());
        let mut model = Model::default();
        let new = Correlator::new(Clocks::default());
        let mut correlator = Correlator { limits: limits.clone(), ..new };
        for (batch, again) in batches.iter().zip(restart.iter().cycle()) {
            model.feed(&mut correlator, batch);
            if *again {
                let newest = model.records.iter().filter_map(|record| record.at).max();
                let resumed = Correlator::resume(Clocks::default(), newest);
                correlator = Correlator { limits: limits.clone(), ..resumed };
            }
        }
        prop_assert_eq!(model.calls(), expected);
    }
}
