//! At rest, who is missed and who fell silent is a function of what was read: random logs, in any order and batches,
//! with kills at any moment, against a slow evaluator.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions as FileOptions};
use std::io::Write;
use std::path::Path;

use super::*;
use crate::catalogue::Catalogue;
use crate::daemon::pipeline::Setup;
use crate::detect::{RuleSet, shipped};
use crate::model::{Discrepancy, EventKind, Ran, Text, Witness};
use crate::store::{AlertFilter, CallFilter, OpenOptions};
use crate::tail::TailConfig;

const DAY: i64 = 24 * 60;
/// Worlds tried.
const SEEDS: u64 = 4;
/// The first minute of the logs, and when everything is read.
const BEGIN: i64 = 29_900_000;
const NOW: Micros = Micros((BEGIN + 30 * DAY) * Micros::MINUTE);

/// The same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Lines by file, with their times, in the order in which they are written.
#[derive(Default)]
struct World(BTreeMap<String, Vec<(Micros, String)>>);

impl World {
    fn add(&mut self, file: &str, at: Micros, fields: &str) {
        let line = format!("{{{fields},\"ts\":\"{}\"}}\n", at.to_rfc3339());
        self.0.entry(file.to_owned()).or_default().push((at, line));
    }

    /// Calls of two clients and three servers over some days, with days on which a client's log says nothing, lost
    /// records, late ones, look-alikes, and servers that name nobody.
    fn random(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let mut world = Self::default();
        let days = 5;
        let quiet: BTreeSet<(u64, u64)> =
            (0..3).map(|_| (dice.below(2), dice.below(days))).collect();
        let calls = 20 + dice.below(60);
        for number in 0..calls {
            let day = dice.below(days);
            let minute = BEGIN + i64::try_from(day * 1440 + dice.below(1440)).unwrap();
            // Some come in bunches, so that it is open which record is whose.
            let minute = if dice.is(30) { minute / 100 * 100 } else { minute };
            let seconds = i64::try_from(dice.below(60)).unwrap();
            let at = Micros(minute * Micros::MINUTE + seconds * Micros::SECOND);
            let (client, server) = (dice.below(2), dice.below(3));
            let tool = ["delete_file", "send_email"][usize::from(dice.is(50))];
            let id = if dice.is(60) { number } else { dice.below(2) };
            let who = match dice.below(3) {
                0 => String::new(),
                _ => format!(",\"subject\":\"p{client}\""),
            };
            let common = format!("\"tool\":\"{tool}\",\"args\":{{\"id\":{id}}}");
            if dice.is(70) && !quiet.contains(&(client, day)) {
                let said = "\"outcome\":\"APPROVED\",\"actor\":\"client\"";
                world.add(&format!("client-{client}.jsonl"), at, &format!("{common},{said}{who}"));
            }
            let later = at.plus(i64::try_from(dice.below(3000)).unwrap() * 1000);
            if dice.is(85) {
                let who = if dice.is(50) { who } else { String::new() };
                let said = "\"outcome\":\"OK\",\"actor\":\"server\"";
                world.add(
                    &format!("server-{server}.jsonl"),
                    later,
                    &format!("{common},{said}{who}"),
                );
            }
            if dice.is(20) {
                let said = "\"outcome\":\"ok\",\"caller\":\"p0\",\"duration_ms\":1";
                world.add("gate.jsonl", later, &format!("\"tool\":\"{tool}\",{said}"));
            }
        }
        for lines in world.0.values_mut() {
            lines.sort();
            for index in 0..lines.len() {
                if dice.is(10) {
                    let later =
                        (index + 1 + usize::try_from(dice.below(8)).unwrap()).min(lines.len() - 1);
                    lines.swap(index, later);
                }
            }
        }
        world
    }

    fn client_minutes(&self) -> BTreeSet<(String, i64)> {
        let clients = self.0.iter().filter(|(file, _)| file.starts_with("client"));
        let minutes = clients.flat_map(|(file, lines)| {
            lines.iter().map(move |(at, _)| (file.clone(), absence::minute(*at)))
        });
        minutes.collect()
    }
}

/// (call, client's log) of those that are unwitnessed; (log, minute of its last record) of those that fell silent.
type Found = (BTreeSet<(CallIdBytes, String)>, BTreeSet<(String, i64)>);
type CallIdBytes = [u8; 16];

/// What stands, by the definition, over calls as they are.
fn naive(world: &World, calls: &[Call]) -> Found {
    let heard = world.client_minutes();
    let newest = world.0.values().flatten().map(|(at, _)| absence::minute(*at)).max();
    let is_upper = |witness| matches!(witness, Witness::Client | Witness::Transcript);
    let mut found = Found::default();
    for call in calls {
        let is_alone = !call.sightings.iter().any(|sighting| is_upper(sighting.witness));
        let Some(at) = call.at.filter(|_| call.ran == Ran::Yes && is_alone) else { continue };
        let minute = absence::minute(at);
        let mut expected: BTreeSet<String> = BTreeSet::new();
        for joint in calls.iter().filter(|joint| joint.at < Some(at)) {
            let is_same = (call.principal.is_none() || call.principal == joint.principal)
                && (call.client.is_none() || call.client == joint.client);
            let is_of = |stream: &Text| {
                joint.sightings.iter().any(|of| !is_upper(of.witness) && of.stream == *stream)
            };
            if is_same && call.sightings.iter().any(|own| is_of(&own.stream)) {
                let uppers = joint.sightings.iter().filter(|of| is_upper(of.witness));
                expected.extend(uppers.map(|of| of.stream.to_string()));
            }
        }
        for stream in expected {
            let is_heard = |from: i64, to: i64| {
                (from..=to).rev().find(|minute| heard.contains(&(stream.clone(), *minute)))
            };
            if is_heard(minute + 2, minute + DAY).is_some() {
                found.0.insert((call.id.0, stream));
            } else if newest > Some(minute + DAY)
                && let Some(last) = is_heard(minute - DAY, minute + 1)
            {
                found.1.insert((stream, last));
            }
        }
    }
    found
}

/// What stands in the database, and the calls.
fn stored(pipeline: &Pipeline) -> (Found, Vec<Call>) {
    let filter = CallFilter { limit: 100_000, ..CallFilter::default() };
    let (events, calls): (Vec<Call>, Vec<Call>) = pipeline
        .reader
        .calls(&filter)
        .unwrap()
        .into_iter()
        .partition(|call| call.kind == EventKind::Ingest);
    let mut found = Found::default();
    for call in &calls {
        for discrepancy in &call.discrepancies {
            if let Discrepancy::Unwitnessed { stream, .. } = discrepancy {
                found.0.insert((call.id.0, stream.to_string()));
            }
        }
    }
    for event in events.iter().filter(|event| &*event.code == "witness-silent") {
        let last = absence::minute(event.at.unwrap()) - DAY;
        assert!(found.1.insert((event.stream.to_string(), last)), "told once");
    }
    (found, calls)
}

pub(in crate::daemon) fn setup(home: &Path) -> Setup {
    let logs = home.join("logs");
    fs::create_dir_all(&logs).unwrap();
    let database = home.join("calltrail.duckdb");
    Setup {
        store: OpenOptions {
            path: database.clone(),
            create: true,
            memory_max: "256MB".to_owned(),
            now: Micros(0),
        },
        tail: TailConfig::new(vec![logs]),
        rules: std::sync::Arc::new(RuleSet::compile(&shipped()).unwrap()),
        catalogue: std::sync::Arc::new(Catalogue::shipped()),
        clocks: vec![],
        outcome_words: vec![],
        path_patterns: vec![],
        is_single_pass: false,
        silence_micros: None,
        journal: Some(crate::daemon::journal_path(&database)),
        mail: None,
        free_bytes_min: 0,
    }
}

fn read(pipeline: &mut Pipeline) {
    pipeline.look(NOW);
    while pipeline.step(NOW).unwrap().is_some() {}
}

fn open(setup: &Setup) -> Pipeline {
    let mut pipeline = Pipeline::open(setup, NOW).unwrap();
    pipeline.batch_lines_max = 7;
    pipeline
}

/// Writes the lines in random pieces and reads between them, with restarts that leave much or little unjudged.
fn deliver(world: &World, setup: &Setup, seed: u64) -> Pipeline {
    let mut dice = Dice(seed);
    let mut pipeline = open(setup);
    let mut left: Vec<(&String, &[(Micros, String)])> =
        world.0.iter().map(|(file, lines)| (file, lines.as_slice())).collect();
    let piece = 1 + dice.below(30);
    while !left.is_empty() {
        let index = usize::try_from(dice.below(left.len() as u64)).unwrap();
        let (file, lines) = left[index];
        let count = usize::try_from(1 + dice.below(piece)).unwrap().min(lines.len());
        let path = setup.tail.roots[0].join(file);
        let mut log = FileOptions::new().create(true).append(true).open(path).unwrap();
        for (_, line) in &lines[..count] {
            log.write_all(line.as_bytes()).unwrap();
        }
        left[index].1 = &lines[count..];
        left.retain(|(_, lines)| !lines.is_empty());
        match dice.below(6) {
            0 => {
                // Dies after a batch or a few, before anything is judged.
                pipeline.look(NOW);
                for _ in 0..=dice.below(3) {
                    pipeline.step(NOW).unwrap();
                }
                drop(pipeline);
                pipeline = open(setup);
            }
            1 => pipeline.rest().unwrap(),
            2 => {}
            _ => read(&mut pipeline),
        }
    }
    // The last look may still be telling files apart.
    read(&mut pipeline);
    read(&mut pipeline);
    pipeline
}

/// What stands after the database was made again.
fn rebuilt(setup: &Setup) -> (Found, BTreeSet<CallIdBytes>) {
    crate::daemon::rebuild(setup, &mut |_| {}).unwrap();
    let pipeline = open(setup);
    (stored(&pipeline).0, alerts(&pipeline))
}

fn alerts(pipeline: &Pipeline) -> BTreeSet<CallIdBytes> {
    let standing =
        AlertFilter { rule: Some("unapproved-execution".to_owned()), ..AlertFilter::default() };
    let alerts = pipeline.reader.alerts(&standing).unwrap();
    alerts.iter().filter(|alert| alert.retracted.is_none()).map(|alert| alert.id.0).collect()
}

#[test]
fn whatever_the_order_the_batches_and_the_kills_what_stands_is_what_the_records_say() {
    let (mut unwitnessed, mut silent, mut raised) = (0, 0, 0);
    for seed in 0..SEEDS {
        let world = World::random(seed);
        let mut told: Option<BTreeSet<CallIdBytes>> = None;
        for order in 0..2 {
            let home = tempfile::tempdir().unwrap();
            let setup = setup(home.path());
            let pipeline = deliver(&world, &setup, seed * 2 + order);
            let (found, calls) = stored(&pipeline);
            assert_eq!(found, naive(&world, &calls), "seed {seed}, order {order}");
            unwitnessed += found.0.len();
            silent += found.1.len();
            let alerts = alerts(&pipeline);
            raised += alerts.len();
            assert_eq!(*told.get_or_insert(alerts.clone()), alerts, "seed {seed}: alerts");
            if seed == 0 {
                drop(pipeline);
                assert_eq!(rebuilt(&setup), (found, alerts), "order {order}: made again");
            }
        }
    }
    assert!(unwitnessed > 30 && silent > 3 && raised > 8, "{unwitnessed} {silent} {raised}");
}

#[test]
fn a_record_that_was_stored_and_not_judged_before_a_kill_is_judged_after_it() {
    let home = tempfile::tempdir().unwrap();
    let setup = setup(home.path());
    let mut pipeline = open(&setup);
    let add = |actor: &str, minute: i64| {
        let at = Micros((BEGIN + minute) * Micros::MINUTE).to_rfc3339();
        let path = setup.tail.roots[0].join(format!("{actor}.jsonl"));
        let mut log = FileOptions::new().create(true).append(true).open(path).unwrap();
        let call =
            format!("\"tool\":\"delete_file\",\"args\":{{\"id\":{minute}}},\"outcome\":\"OK\"");
        log.write_all(format!("{{{call},\"actor\":\"{actor}\",\"ts\":\"{at}\"}}\n").as_bytes())
            .unwrap();
    };
    add("client", 0);
    add("server", 0);
    add("server", 10);
    read(&mut pipeline);
    assert_eq!(stored(&pipeline).0, Found::default());
    add("client", 20);
    pipeline.look(NOW);
    assert_eq!(pipeline.step(NOW).unwrap().unwrap().records, 1);
    assert_eq!(stored(&pipeline).0, Found::default(), "not judged yet");
    drop(pipeline);
    let mut pipeline = open(&setup);
    read(&mut pipeline);
    assert_eq!((stored(&pipeline).0.0.len(), alerts(&pipeline).len()), (1, 1));
    // Judged once, and known to be.
    pipeline.rest().unwrap();
    assert_eq!(pipeline.store.judged().unwrap().seq, pipeline.store.seq());
}
