//! At rest, calls, joins and clocks are a function of what was read: the logs of several stacks in random pieces, read
//! by one process after the other, against one pass over the whole.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, OpenOptions as FileOptions};
use std::io::Write;

use proptest::prelude::*;

use super::*;
use crate::daemon::pipeline::Setup;
use crate::daemon::pipeline::absent::tests::setup;
use crate::model::{Call, RecordId};
use crate::simulate::{Noise, Scenario, SimEvent, Simulation};
use crate::store::{AlertFilter, CallFilter};

/// Orders tried in one run. `PROPTEST_CASES=12800` tries 200.
const CASES_SHARE: u32 = 64;
const START: &str = "2026-01-05T07:00:00Z";

/// The lines of each log in the order in which they are written.
type World = BTreeMap<String, Vec<String>>;

/// Stacks of witnesses whose clocks are apart, with lost, late and look-alike calls, on one day or over several.
fn world(seed: u64, calls: u64) -> World {
    let mut scenario = Scenario::new(seed, Micros::parse_rfc3339(START).unwrap(), calls);
    scenario.stacks = 3;
    (scenario.desks, scenario.proxies) = (1, 1);
    (scenario.ticket_users, scenario.gate_users) = (2, 1);
    scenario.attack_every = 40;
    scenario.noise = Noise {
        lost_percent: 8,
        identical_percent: 10,
        retried_percent: 60,
        late_percent: 5,
        skew_ms_max: 3_000,
        drift_ms_a_day_max: 1_000,
        stepped_percent: 20,
        off_ms_max: 0,
    };
    let mut world = World::new();
    for event in Simulation::new(&scenario) {
        if let SimEvent::Line(line) = event {
            world.entry(line.file.to_string()).or_default().push(line.text);
        }
    }
    world
}

/// Long after the last line, so that none is dated ahead.
fn after_all() -> Micros {
    Micros::parse_rfc3339(START).unwrap().plus(90 * Micros::DAY)
}

struct Site {
    home: tempfile::TempDir,
    setup: Setup,
}

impl Site {
    fn new(is_single_pass: bool) -> Self {
        let home = tempfile::tempdir().unwrap();
        let setup = Setup { is_single_pass, ..setup(home.path()) };
        Self { home, setup }
    }

    fn open(&self) -> Pipeline {
        Pipeline::open(&self.setup, after_all()).unwrap()
    }

    fn append(&self, file: &str, lines: &[String]) {
        let path = self.home.path().join("logs").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut log = FileOptions::new().create(true).append(true).open(path).unwrap();
        for line in lines {
            writeln!(log, "{line}").unwrap();
        }
    }
}

fn read(pipeline: &mut Pipeline, now: Micros) {
    pipeline.look(now);
    while pipeline.step(now).unwrap().is_some() {}
}

/// What the records are said to show, without what differs from database to database: files are numbered in the order
/// in which they were found.
#[derive(PartialEq)]
struct Findings {
    calls: BTreeMap<String, String>,
    clocks: BTreeSet<String>,
    alerts: BTreeSet<String>,
}

impl Findings {
    fn of(pipeline: &Pipeline) -> Self {
        let sources = pipeline.reader.sources().unwrap();
        let mut streams: Vec<_> =
            sources.into_iter().map(|source| (source.stream, source.generation)).collect();
        streams.sort();
        let numbers: HashMap<u64, u64> =
            (0..).zip(streams).map(|(number, (_, generation))| (generation, number)).collect();
        let filter = CallFilter { limit: 100_000, ..CallFilter::default() };
        let calls = pipeline.reader.calls(&filter).unwrap().into_iter();
        let calls = calls.map(|mut call| {
            renumber(&mut call, &numbers);
            (format!("{:?}", call.id), format!("{call:?}"))
        });
        let mut clocks = BTreeSet::new();
        for day in pipeline.store.clock_days().unwrap() {
            let (samples, uses) = pipeline.store.clocks_on(day).unwrap();
            clocks.extend(samples.iter().map(|sample| format!("{sample:?}")));
            let known = uses.iter().filter(|used| used.offset_micros.is_some());
            clocks.extend(known.map(|used| format!("{used:?}")));
        }
        let alerts = pipeline.reader.alerts(&AlertFilter::default()).unwrap();
        // Of the logs themselves one reading sees what another does not.
        let standing = alerts
            .iter()
            .filter(|alert| alert.retracted.is_none() && &*alert.rule != "log-tampering");
        let alerts = standing
            .map(|alert| format!("{:?} {} {}", alert.id, alert.rule, alert.count))
            .collect();
        Self { calls: calls.collect(), clocks, alerts }
    }

    /// The first of what is here and should not be, or should be and is not; none where there is nothing.
    fn difference(&self, expected: &Self) -> Option<String> {
        let odd = self.calls.keys().chain(expected.calls.keys());
        let odd = odd.filter(|id| self.calls.get(*id) != expected.calls.get(*id));
        let odd: BTreeSet<&String> = odd.collect();
        let clocks: Vec<_> = self.clocks.symmetric_difference(&expected.clocks).take(3).collect();
        let alerts: Vec<_> = self.alerts.symmetric_difference(&expected.alerts).take(3).collect();
        (self != expected).then(|| {
            let first = odd.first().map(|id| (self.calls.get(*id), expected.calls.get(*id)));
            format!("{} calls: {first:#?}; clocks: {clocks:?}; alerts: {alerts:?}", odd.len())
        })
    }
}

fn renumber(call: &mut Call, numbers: &HashMap<u64, u64>) {
    let renumber = |id: &mut RecordId| id.generation = numbers[&id.generation];
    if let Some(number) = numbers.get(&call.position.generation) {
        call.position.generation = *number;
    }
    for sighting in &mut call.sightings {
        sighting.candidates.iter_mut().for_each(renumber);
        sighting.steps.iter_mut().for_each(|step| renumber(&mut step.record));
    }
    // Every database hashes values with a key of its own.
    call.args.values.iter_mut().for_each(|value| value.hash = 0);
}

fn one_pass(world: &World) -> Findings {
    let site = Site::new(true);
    for (file, lines) in world {
        site.append(file, lines);
    }
    let mut pipeline = site.open();
    read(&mut pipeline, after_all());
    Findings::of(&pipeline)
}

/// One piece of one log, and how many seconds pass after it; none: it is not read before the next one comes. Whether
/// the process ends then, and another one goes on.
type Piece = (usize, usize, Option<i64>, bool);

fn any_piece() -> impl Strategy<Value = Piece> {
    let lines = prop_oneof![Just(1_usize), 2_usize..12, 12_usize..80, 80_usize..600];
    let seconds = prop_oneof![
        2 => Just(None),
        4 => Just(Some(0)),
        2 => (1_i64..5).prop_map(Some),
        1 => Just(Some(90)),
        1 => Just(Some(3_700)),
    ];
    (0_usize..1_000, lines, seconds, prop::bool::weighted(0.15))
}

/// Hands the logs in these pieces to one process after the other, and then what is left of each; in the end lets the
/// last one rest.
fn in_pieces(world: &World, pieces: &[Piece]) -> Findings {
    let site = Site::new(false);
    let mut pipeline = site.open();
    let mut now = after_all();
    let mut left: Vec<(&String, &[String])> =
        world.iter().map(|(file, lines)| (file, lines.as_slice())).collect();
    let rest = (0, usize::MAX, Some(0), false);
    for (place, lines, seconds, is_last) in pieces.iter().chain(std::iter::repeat(&rest)) {
        if left.is_empty() {
            break;
        }
        let place = place % left.len();
        let (file, rest) = &mut left[place];
        let (piece, after) = rest.split_at(rest.len().min(*lines));
        site.append(file, piece);
        *rest = after;
        left.retain(|(_, lines)| !lines.is_empty());
        if let Some(seconds) = seconds {
            read(&mut pipeline, now);
            now = now.plus(seconds * Micros::SECOND);
        }
        if *is_last {
            drop(pipeline);
            pipeline = site.open();
        }
    }
    // The last look may still be telling files apart, and the newest day rest.
    for _ in 0..3 {
        read(&mut pipeline, now);
        now = now.plus(pipeline.rejoining.rest_micros);
    }
    Findings::of(&pipeline)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.div_ceil(CASES_SHARE),
        // Each try reads everything again.
        max_shrink_iters: 0,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_the_order_the_pieces_and_the_restarts_calls_are_what_one_pass_says(
        seed in 0_u64..1_000,
        calls in 40_u64..260,
        pieces in prop::collection::vec(any_piece(), 1..25),
    ) {
        let world = world(seed, calls);
        let difference = in_pieces(&world, &pieces).difference(&one_pass(&world));
        prop_assert!(difference.is_none(), "{}", difference.unwrap_or_default());
    }
}

/// A log that comes later tells of clocks and of whose logs are whose: what was joined without it is joined anew, as
/// soon as that day has rested.
#[test]
fn what_comes_while_the_newest_day_rests_changes_earlier_joins_once_it_has_rested() {
    let world = world(99, 700);
    let site = Site::new(false);
    let (mut pipeline, now) = (site.open(), after_all());
    for (file, lines) in &world {
        site.append(file, lines);
        read(&mut pipeline, now);
    }
    let expected = one_pass(&world);
    assert!(Findings::of(&pipeline).difference(&expected).is_some(), "the day rests");
    let rested = now.plus(pipeline.rejoining.rest_micros);
    read(&mut pipeline, rested);
    assert_eq!(Findings::of(&pipeline).difference(&expected), None);
}

#[test]
fn how_long_the_newest_day_rests_goes_by_what_it_costs_to_join_it_anew() {
    let rest = |took_millis: u64| {
        let mut rejoining = Rejoining { is_newest: true, ..Rejoining::default() };
        let at = after_all();
        assert!(rejoining.has_rested(at), "it was never joined anew");
        rejoining.note(Duration::from_millis(took_millis), at);
        let rested = |micros: i64| rejoining.has_rested(at.plus(micros));
        assert!(rested(rejoining.rest_micros) && !rested(rejoining.rest_micros - 1));
        assert!(rested(-rejoining.rest_micros), "a clock that was set back holds nothing up");
        rejoining.rest_micros / Micros::SECOND
    };
    assert_eq!([1, 200, 4_000, 1_000_000].map(rest), [1, 4, 80, 3_600]);
    let mut past = Rejoining::default();
    past.note(Duration::from_mins(3), after_all());
    assert!(past.has_rested(after_all()), "an older day that was joined anew is not the newest");
    let mut single = Rejoining { is_newest: true, is_single_pass: true, ..Rejoining::default() };
    single.note(Duration::from_mins(3), after_all());
    assert!(single.has_rested(after_all()));
}
