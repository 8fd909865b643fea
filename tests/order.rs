//! Logs that are hard to join give the same calls and alerts however they arrive: as a whole, slice by slice, each
//! file by itself and much too late, or to a daemon that is killed.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use calltrail::model::{Micros, Sighting};
use calltrail::simulate::{Noise, Scenario, SimEvent, Simulation};
use serde_json::Value;

use crate::support::{Daemon, calltrail, database, json_lines};

const CALLS: &str = r#"select lower(hex(call_id)) as id, stream, "offset", class, code, decision, ran, witnesses,
    tenant, client, session, discrepancies::varchar as discrepancies, coalesce(sightings::varchar, '[]') as sightings
    from call_now where kind = 'call' order by all"#;
/// Of the logs themselves one reading sees what another does not: that they went back in time, or stood still.
const ALERTS: &str = "select alert_id, rule, level, count::varchar as count from alerts
    where retracted is null and rule <> 'log-tampering' order by all";

/// The lines of each file in the order in which they were written.
type World = BTreeMap<String, Vec<String>>;

/// Stacks of clients, proxies, gateways and servers whose clocks are apart, with lost, late and equal calls.
fn world(seed: u64) -> World {
    let start = Micros::parse_rfc3339("2026-01-05T07:00:00Z").unwrap();
    let mut scenario = Scenario::new(seed, start, 900);
    scenario.ticket_users = 2;
    scenario.desks = 1;
    scenario.proxies = 1;
    scenario.gate_users = 1;
    scenario.stacks = 4;
    scenario.attack_every = 60;
    scenario.noise = Noise {
        lost_percent: 2,
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

/// A folder of logs that grows, and the state of who reads it.
struct Site {
    home: tempfile::TempDir,
    world: World,
    /// Lines of each file that are written.
    written: HashMap<String, usize>,
}

impl Site {
    fn new(world: &World) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("logs")).unwrap();
        Self { home, world: world.clone(), written: HashMap::new() }
    }

    fn logs(&self) -> PathBuf {
        self.home.path().join("logs")
    }

    /// Writes a file on, up to this line.
    fn write(&mut self, name: &str, lines: usize) {
        let path = self.logs().join(name);
        let all = &self.world[name];
        let from = self.written.entry(name.to_owned()).or_default();
        let to = lines.clamp(*from, all.len());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        let text: String = all[*from..to].iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        file.write_all(text.as_bytes()).unwrap();
        *from = to;
    }

    fn write_all(&mut self) {
        for name in self.names() {
            self.write(&name, usize::MAX);
        }
    }

    fn names(&self) -> Vec<String> {
        self.world.keys().cloned().collect()
    }

    fn scan(&self) {
        let output = calltrail(self.home.path())
            .args(["scan", "--quiet", "--output", "json", "--db"])
            .arg(database(self.home.path()))
            .arg(self.logs())
            .output()
            .unwrap();
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn findings(&self) -> Findings {
        Findings::of(self.home.path())
    }
}

/// Calls and alerts, without the numbers that files have by the order in which they were found.
#[derive(PartialEq)]
struct Findings {
    calls: Vec<String>,
    alerts: Vec<String>,
}

impl Findings {
    fn of(home: &Path) -> Self {
        let ask = |sql: &str| {
            let output = calltrail(home).args(["query", "--output", "json", sql]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            json_lines(&output)
        };
        let names = ask("select stream, generation from sources order by stream");
        let numbers: HashMap<u64, u64> = (0..)
            .zip(&names)
            .filter_map(|(number, row)| Some((row["generation"].as_u64()?, number)))
            .collect();
        let call = |mut row: Value| {
            let text = row["sightings"].as_str().unwrap_or("[]");
            let mut sightings: Vec<Sighting> = serde_json::from_str(text).unwrap();
            for sighting in &mut sightings {
                for place in &mut sighting.candidates {
                    place.generation = numbers[&place.generation];
                }
                for step in &mut sighting.steps {
                    step.record.generation = numbers[&step.record.generation];
                }
            }
            row["sightings"] = serde_json::to_value(sightings).unwrap();
            row.to_string()
        };
        let calls = ask(CALLS).into_iter().map(call).collect();
        Self { calls, alerts: ask(ALERTS).iter().map(Value::to_string).collect() }
    }

    #[track_caller]
    fn must_be(&self, expected: &Self) {
        let part = |found: &[String], expected: &[String]| {
            let odd = found.iter().filter(|one| !expected.contains(one));
            odd.take(3).cloned().collect::<Vec<_>>().join("\n")
        };
        assert!(
            self == expected,
            "{} calls and {} alerts, of which these should not be:\n{}\n{}\nand these are missing:\n{}\n{}",
            self.calls.len(),
            self.alerts.len(),
            part(&self.calls, &expected.calls),
            part(&self.alerts, &expected.alerts),
            part(&expected.calls, &self.calls),
            part(&expected.alerts, &self.alerts),
        );
    }
}

/// What one pass over the finished logs says.
fn at_once(world: &World) -> Findings {
    let mut site = Site::new(world);
    site.write_all();
    site.scan();
    site.findings()
}

#[test]
fn hard_logs_give_the_same_calls_slice_by_slice_and_file_by_file() {
    let world = world(11);
    let expected = at_once(&world);
    assert!(
        expected.calls.len() > 700 && expected.alerts.len() > 3,
        "there is something to compare"
    );
    // The witnesses of a day come one after the other, the servers first and the clients last.
    let mut by_file = Site::new(&world);
    for name in by_file.names().into_iter().rev() {
        by_file.write(&name, usize::MAX);
        by_file.scan();
    }
    by_file.findings().must_be(&expected);
    // And side by side, each as far as it likes.
    let mut sliced = Site::new(&world);
    let mut state = 11_u64;
    for slice in 1..=8_usize {
        for name in sliced.names() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let ahead = usize::try_from(state >> 62).unwrap();
            let lines = sliced.world[&name].len() * (slice + ahead) / 8;
            sliced.write(&name, lines);
        }
        sliced.scan();
    }
    sliced.findings().must_be(&expected);
}

#[test]
fn hard_logs_give_the_same_calls_to_a_daemon_that_is_killed() {
    let world = world(12);
    let expected = at_once(&world);
    let mut site = Site::new(&world);
    for round in 1..=5_usize {
        let daemon = Daemon::start(site.home.path(), &site.logs());
        for part in 1..=4_usize {
            for name in site.names() {
                let lines = site.world[&name].len() * (4 * round + part - 4) / 20;
                site.write(&name, lines);
            }
            let written: usize = site.written.values().sum();
            // Some are killed in the middle of what they read.
            if part < 4 || round % 2 == 0 {
                daemon.await_count("select count(*) as n from record_log", written as u64);
            }
        }
        daemon.kill();
    }
    site.scan();
    site.findings().must_be(&expected);
}
