//! Long busy streams of a stdio proxy: replies and request lines are lost, several requests wait at once, and still
//! the answers are a function of the records, and mostly the true ones.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::tests::{Model, arcs, one_pass, record};
use super::*;
use crate::model::{OutcomeClass, Witness};

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
    if kind != RecordKind::Call {
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
            (true, _) => (RecordKind::Call, OutcomeClass::Denied),
            (false, true) => (RecordKind::Call, OutcomeClass::Approved),
            (false, false) => (RecordKind::Request, OutcomeClass::Approved),
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
            let mut reply = proxied(until, RecordKind::Reply, OutcomeClass::Ok);
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
        if record.kind != RecordKind::Reply {
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
        written.records.iter().any(|record| {
            record.id.offset == *place && record.kind == RecordKind::Call
        })
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
    let judged = judge_many(BUSY);
    println!("{judged:?}");
    let one_at_once = judge_many(Traffic { at_once: 1, ..BUSY });
    println!("{one_at_once:?}");
    let mostly = judge_many(Traffic { ids_percent: 95, ..BUSY });
    println!("{mostly:?}");
    let none = judge_many(Traffic { ids_percent: 0, ..BUSY });
    println!("{none:?}");
    let never_quiet = judge_many(Traffic { pause_secs_max: 0, ..BUSY });
    println!("{never_quiet:?}");
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
    ) {
        let traffic = Traffic {
            seed, requests, at_once, ids_percent, denied_percent, restarts_per_mille, pause_secs_max, ..BUSY
        };
        let written = write(&traffic);
        let expected = one_pass(&written.records);
        let mut dice = Dice(seed ^ 0xabcd);
        let mut shuffled: Vec<(u64, Arc<Record>)> = (0..)
            .zip(&written.records)
            .map(|(place, record): (u64, _)| (place + dice.below(far), Arc::clone(record)))
            .collect();
        shuffled.sort_by_key(|(place, _)| *place);
        let shuffled: Vec<Arc<Record>> = shuffled.into_iter().map(|(_, record)| record).collect();
        let mut model = Model::default();
        let mut correlator = Correlator::new(Clocks::default());
        for (batch, again) in shuffled.chunks(batch).zip(restart.iter().cycle()) {
            model.feed(&mut correlator, batch);
            if *again {
                let newest = model.records.iter().filter_map(|record| record.at).max();
                correlator = Correlator::resume(Clocks::default(), newest);
            }
        }
        prop_assert_eq!(model.calls(), expected);
    }
}
