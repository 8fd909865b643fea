//! `make joins`: how many joins of the records of different witnesses are right, and how many of the true ones are
//! found, on simulated logs with everything that makes it hard: equal calls at once, clocks that are off, lost and late
//! records, retries. The records arrive in slices, and each slice is read by a program started anew.
//!
//! `CALLTRAIL_BENCH_CALLS` makes another number of calls, `CALLTRAIL_SEEDS` (such as `1,2,3`) other worlds,
//! `CALLTRAIL_JOINS_APART_MS` says how far two clocks are apart at most (3,000; beyond 5,000 nothing joins by time).
//! `CALLTRAIL_JOINS_WITHOUT` (some of `lost,identical,retried,late,clocks`) spares those, and
//! `CALLTRAIL_JOINS_EXAMPLES` prints so many wrong and missed links of each kind with their lines.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use calltrail::model::{Certainty, Micros, Sighting, Text};
use calltrail::simulate::{
    CallTruth, Example, Fault, Found, FoundSighting, LinkKind, Noise, Place, Rates, Scenario,
    Score, SimEvent, Simulation, Tally, score,
};

/// Calls that make a little over a million records.
const CALLS: u64 = 320_000;
/// How far two clocks are apart at most.
const APART_MS_MAX: u32 = 3_000;
/// How often the program is started to read what has come meanwhile.
const SLICES: u64 = 12;

fn main() {
    let setting = |name: &str| std::env::var_os(name)?.into_string().ok();
    let calls =
        setting("CALLTRAIL_BENCH_CALLS").and_then(|text| text.parse().ok()).unwrap_or(CALLS);
    let examples =
        setting("CALLTRAIL_JOINS_EXAMPLES").and_then(|text| text.parse().ok()).unwrap_or(0);
    let apart_ms_max = setting("CALLTRAIL_JOINS_APART_MS")
        .and_then(|text| text.parse().ok())
        .unwrap_or(APART_MS_MAX);
    let seeds = setting("CALLTRAIL_SEEDS").unwrap_or_else(|| "1".to_owned());
    for seed in seeds.split(',').filter_map(|seed| seed.trim().parse().ok()) {
        let mut scenario = scenario(seed, calls, apart_ms_max);
        spare(&mut scenario.noise, &setting("CALLTRAIL_JOINS_WITHOUT").unwrap_or_default());
        measure(&scenario, examples);
    }
}

/// A few simple desks and proxies, and many stacks with all the noise there is.
fn scenario(seed: u64, calls: u64, apart_ms_max: u32) -> Scenario {
    let start = Micros::parse_rfc3339("2026-01-05T07:00:00Z").expect("a time");
    let mut scenario = Scenario::new(seed, start, calls);
    scenario.ticket_users = 4;
    scenario.desks = 4;
    scenario.proxies = 2;
    scenario.gate_users = 4;
    scenario.stacks = 48;
    scenario.attack_every = 0;
    scenario.noise = Noise {
        lost_percent: 2,
        identical_percent: 10,
        retried_percent: 60,
        late_percent: 5,
        skew_ms_max: apart_ms_max / 2,
        drift_ms_a_day_max: 1_000,
        stepped_percent: 20,
        off_ms_max: apart_ms_max / 2,
    };
    scenario
}

fn spare(noise: &mut Noise, kinds: &str) {
    for kind in kinds.split(',').map(str::trim).filter(|kind| !kind.is_empty()) {
        match kind {
            "lost" => noise.lost_percent = 0,
            "identical" => noise.identical_percent = 0,
            "retried" => noise.retried_percent = 0,
            "late" => noise.late_percent = 0,
            "clocks" => {
                noise.skew_ms_max = 0;
                noise.drift_ms_a_day_max = 0;
                noise.stepped_percent = 0;
            }
            other => panic!(
                "CALLTRAIL_JOINS_WITHOUT names {other}: lost, identical, retried, late and clocks are known"
            ),
        }
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn measure(scenario: &Scenario, examples: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (logs, database) = (folder.path().join("logs"), folder.path().join("joins.duckdb"));
    let count =
        Simulation::new(scenario).filter(|event| matches!(event, SimEvent::Line(_))).count() as u64;
    let mut world = World::default();
    let mut scanned = Duration::ZERO;
    let mut written = 0;
    let (mut first, mut last) = (None, None);
    for event in Simulation::new(scenario) {
        match event {
            SimEvent::Line(line) => {
                first = first.or(Some(line.at_write));
                last = Some(line.at_write);
                world.write(&logs, &line.file, &line.text);
                written += 1;
                if written * SLICES / count > (written - 1) * SLICES / count {
                    scanned += world.scan(&logs, &database);
                }
            }
            SimEvent::Call(call) => world.calls.push(call),
            SimEvent::Alert(_) => {}
        }
    }
    let days =
        first.zip(last).map_or(0.0, |(first, last)| last.since(first) as f64 / Micros::DAY as f64);
    let found = world.found(&database);
    let stream = |name: &str| world.streams.get(name).map_or(u32::MAX, |stream| stream.number);
    let score = score(&world.calls, &found, &stream);
    println!(
        "seed {}: {written} records of {} calls in {days:.1} days, read in {SLICES} slices in {:.1} s \
         ({:.0} records/s)",
        scenario.seed,
        world.calls.len(),
        scanned.as_secs_f64(),
        written as f64 / scanned.as_secs_f64(),
    );
    print_score(&score);
    print_examples(&score, &world, &logs, examples);
}

/// The logs as far as they are written, and the truth about them.
#[derive(Default)]
struct World {
    streams: HashMap<Text, Stream>,
    calls: Vec<CallTruth>,
}

struct Stream {
    number: u32,
    file: BufWriter<File>,
    /// Where each line begins.
    offsets: Vec<u64>,
    size: u64,
}

impl World {
    fn write(&mut self, logs: &Path, name: &Text, text: &str) {
        let number = u32::try_from(self.streams.len()).expect("few streams");
        let stream = self.streams.entry(Text::clone(name)).or_insert_with(|| {
            let path = logs.join(&**name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            let file = BufWriter::with_capacity(1 << 16, File::create_new(path).expect("a log"));
            Stream { number, file, offsets: Vec::new(), size: 0 }
        });
        stream.offsets.push(stream.size);
        stream.size += text.len() as u64 + 1;
        stream
            .file
            .write_all(text.as_bytes())
            .and_then(|()| stream.file.write_all(b"\n"))
            .expect("a line is written");
    }

    fn scan(&mut self, logs: &Path, database: &Path) -> Duration {
        for stream in self.streams.values_mut() {
            stream.file.flush().expect("lines are written");
        }
        let start = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_calltrail"))
            .args(["scan", "--quiet", "--output", "json", "--db"])
            .arg(database)
            .arg(logs)
            .output()
            .expect("the scan runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        start.elapsed()
    }

    /// The calls as they stand in the database.
    fn found(&self, database: &Path) -> Vec<Found> {
        let connection = duckdb::Connection::open(database).expect("a database");
        let mut generations: HashMap<u64, &Stream> = HashMap::new();
        let mut statement =
            connection.prepare("select generation, stream from sources").expect("sources");
        let rows = statement
            .query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
            .expect("sources");
        for row in rows {
            let (generation, name) = row.expect("a source");
            generations.extend(self.streams.get(name.as_str()).map(|stream| (generation, stream)));
        }
        let place = |generation: u64, offset: u64| {
            let stream = generations.get(&generation)?;
            let line = stream.offsets.binary_search(&offset).ok()? as u64 + 1;
            Some(Place { stream: stream.number, line })
        };
        let sql = "select generation, \"offset\", sightings from call_now where kind = 'call'";
        let mut statement = connection.prepare(sql).expect("calls");
        let rows = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, Option<String>>(2)?)))
            .expect("calls");
        rows.map(|row| {
            let (generation, offset, json): (u64, u64, Option<String>) = row.expect("a call");
            let Some(json) = json else {
                let places = place(generation, offset).into_iter().collect();
                return Found {
                    sightings: vec![FoundSighting {
                        how: "alone".into(),
                        is_sure: true,
                        attempt: 0,
                        places,
                    }],
                };
            };
            let sightings: Vec<Sighting> = serde_json::from_str(&json).expect("sightings");
            Found {
                sightings: sightings
                    .iter()
                    .map(|sighting| found_sighting(sighting, &place))
                    .collect(),
            }
        })
        .collect()
    }

    fn line(&self, logs: &Path, place: Place) -> String {
        let found = self.streams.iter().find(|(_, stream)| stream.number == place.stream);
        let Some((name, stream)) = found else { return "?".to_owned() };
        let text = fs::read(logs.join(&**name)).expect("a log");
        let from =
            usize::try_from(stream.offsets[usize::try_from(place.line).expect("a line") - 1])
                .expect("a place");
        let line = text[from..].split(|byte| *byte == b'\n').next().unwrap_or_default();
        format!(
            "{name}:{} {}",
            place.line,
            String::from_utf8_lossy(line).chars().take(420).collect::<String>()
        )
    }
}

fn found_sighting(sighting: &Sighting, place: &dyn Fn(u64, u64) -> Option<Place>) -> FoundSighting {
    FoundSighting {
        how: format!(
            "{}, {}",
            sighting.joined_by.as_str(),
            format!("{:?}", sighting.certainty).to_lowercase()
        )
        .into(),
        is_sure: sighting.certainty != Certainty::Ambiguous,
        attempt: sighting.attempt,
        places: sighting
            .steps
            .iter()
            .filter_map(|step| place(step.record.generation, step.record.offset))
            .collect(),
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn print_score(score: &Score) {
    println!(
        "\n{:<34} {:>8} {:>9} {:>7} {:>9} {:>7} {:>7} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "witnesses and what they show",
        "sure",
        "precision",
        "unsure",
        "right",
        "foreign",
        "orphan",
        "true",
        "recall",
        "decidable",
        "recall",
        "by stream",
        "recall"
    );
    let row = |name: &str, tally: &Tally| {
        println!(
            "{name:<34} {:>8} {:>9} {:>7} {:>9} {:>7} {:>7} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}",
            tally.claimed.all,
            share(tally.claimed),
            tally.unsure.all,
            share(tally.unsure),
            tally.foreign,
            tally.orphaned,
            tally.true_links.all,
            share(tally.true_links),
            tally.decidable.all,
            share(tally.decidable),
            tally.by_streams.all,
            share(tally.by_streams),
        );
    };
    let mut all = Tally::default();
    for (kind, tally) in &score.kinds {
        row(&kind_name(*kind), tally);
        all = all.plus(*tally);
    }
    row("all", &all);
    row("tries of one call", &score.tries);
    println!("\n{:<34} {:>8} {:>9}", "tied to the lead by", "claimed", "precision");
    for (how, rates) in score.methods.iter().filter(|(how, _)| !how.starts_with("alone")) {
        println!("{how:<34} {:>8} {:>9}", rates.all, share(*rates));
    }
    println!(
        "\ncalls: {} true ({} tries), {} found; {} found ones hold records of several calls, {} tries are split, \
         {} sightings hold records of several\n",
        score.true_calls,
        score.true_tries,
        score.found_calls,
        score.merged,
        score.split,
        score.mixed
    );
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn print_examples(score: &Score, world: &World, logs: &Path, most: usize) {
    let mut shown: HashMap<(LinkKind, bool), usize> = HashMap::new();
    for Example { kind, fault, places } in &score.examples {
        let count = shown.entry((*kind, *fault == Fault::Missed)).or_default();
        *count += 1;
        if *count > most {
            continue;
        }
        match fault {
            Fault::Missed => println!("missed: {}", kind_name(*kind)),
            Fault::Claimed { how, .. } => println!("wrong: {} ({how})", kind_name(*kind)),
        }
        println!("  {}\n  {}", world.line(logs, places.0), world.line(logs, places.1));
        if let Fault::Claimed { partner, .. } = fault {
            println!(
                "  truly {}",
                partner.map_or("lost".to_owned(), |partner| world.line(logs, partner))
            );
        }
    }
}

fn kind_name((upper, lower, upper_shows, lower_shows): LinkKind) -> String {
    format!(
        "{}-{} {}-{}",
        upper.as_str(),
        lower.as_str(),
        upper_shows.as_str(),
        lower_shows.as_str()
    )
}

fn share(rates: Rates) -> String {
    if rates.all == 0 { "-".to_owned() } else { format!("{:.2} %", rates.share() * 100.0) }
}
