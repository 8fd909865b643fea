//! Random sequences of steps: 200 short ones in every test run, and as many long ones as wanted.
//!
//! `CALLTRAIL_SEEDS=0..5000` runs these seeds with long sequences, `CALLTRAIL_SEEDS=17` one of them, telling each step;
//! `CALLTRAIL_STEPS=20` says how long the sequences are.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::asked;
use super::run::{Run, Seen, told};
use super::step::{Step, steps};

const SEEDS: u64 = 200;
const STEPS: u64 = 14;
const STEPS_LONG: u64 = 60;
/// How long a failing sequence is made shorter.
const SHRINK_MAX: Duration = Duration::from_mins(2);
/// Runs at a time for every processor: a daemon mostly waits.
const RUNS_PER_CORE: usize = 4;

#[test]
fn no_line_is_lost_or_counted_twice_whatever_happens_to_files_process_and_disk() {
    let wanted = asked("CALLTRAIL_SEEDS");
    let (from, to) = wanted.as_deref().map_or((0, SEEDS), range);
    let steps = if wanted.is_some() { STEPS_LONG } else { STEPS };
    let soak = Soak {
        from,
        to,
        steps: asked("CALLTRAIL_STEPS").map_or(steps, |text| text.parse().unwrap()),
        is_told: wanted.is_some(),
        next: AtomicU64::new(from),
        empty: Seen::make(),
        failures: Mutex::default(),
        began: Instant::now(),
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..(cores * RUNS_PER_CORE).min(usize::try_from(to - from).unwrap()) {
            scope.spawn(|| soak.work());
        }
    });
    let failures = soak.failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    told(&format!("{} seeds of {} steps in {:?}", to - from, soak.steps, soak.began.elapsed()));
}

/// Seeds that are run side by side until one fails.
struct Soak {
    from: u64,
    to: u64,
    steps: u64,
    is_told: bool,
    next: AtomicU64,
    empty: Seen,
    failures: Mutex<Vec<String>>,
    began: Instant,
}

impl Soak {
    fn work(&self) {
        let is_single = self.to - self.from == 1;
        loop {
            let seed = self.next.fetch_add(1, Ordering::SeqCst);
            if seed >= self.to || !self.failures.lock().unwrap().is_empty() {
                return;
            }
            if self.is_told && seed.is_multiple_of(100) {
                told(&format!(
                    "seed {seed} of {}..{} after {:?}",
                    self.from,
                    self.to,
                    self.began.elapsed()
                ));
            }
            let steps = steps(seed, self.steps);
            if let Err(error) = run(seed, &self.empty, &steps, is_single) {
                let (steps, error) = if is_single {
                    (steps, error)
                } else {
                    shrunk(seed, &self.empty, steps, error)
                };
                let text = format!(
                    "seed {seed} fails: {error}\nthe steps: {steps:#?}\nagain by CALLTRAIL_SEEDS={seed} \
                     CALLTRAIL_STEPS={} cargo test --test tests faults::random",
                    self.steps
                );
                self.failures.lock().unwrap().push(text);
            }
        }
    }
}

fn range(text: &str) -> (u64, u64) {
    let number =
        |text: &str| text.trim().parse().expect("CALLTRAIL_SEEDS is `from..to` or one seed");
    match text.split_once("..") {
        Some((from, to)) => (number(from), number(to)),
        None => (number(text), number(text) + 1),
    }
}

fn run(seed: u64, empty: &Seen, steps: &[Step], is_told: bool) -> Result<(), String> {
    // One in four begins with logs that were there before the database.
    let run = if seed.is_multiple_of(4) { Run::new() } else { Run::of_news(empty) };
    run.telling(is_told).go(steps)
}

/// Leaves out steps as long as the rest still fails.
fn shrunk(seed: u64, empty: &Seen, mut steps: Vec<Step>, mut error: String) -> (Vec<Step>, String) {
    let began = Instant::now();
    let mut size = steps.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < steps.len() && began.elapsed() < SHRINK_MAX {
            let fewer: Vec<Step> = [&steps[..at], &steps[(at + size).min(steps.len())..]].concat();
            match run(seed, empty, &fewer, false) {
                Err(found) => (steps, error) = (fewer, found),
                Ok(()) => at += size,
            }
        }
        size /= 2;
    }
    (steps, error)
}
