//! What can happen to a log folder and to the daemon, and random sequences of it.

use calltrail::model::Micros;

/// A seeded source of chance that gives the same numbers for ever.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }

    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[usize::try_from(self.below(items.len() as u64)).unwrap()]
    }
}

/// One thing that happens. `log` picks one of the logs that are there; a step that cannot be taken where it comes,
/// such as a rotation of nothing, does nothing, so that any step can be left out of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Write {
        log: u64,
        lines: u64,
    },
    /// The question in one log, the answer in another.
    WritePair {
        log: u64,
    },
    /// Three calls that raise an alert.
    WriteAttack {
        log: u64,
    },
    WriteBad {
        log: u64,
    },
    WriteOverlong {
        log: u64,
    },
    WriteBlank {
        log: u64,
    },
    WriteZeros {
        log: u64,
    },
    WriteHalf {
        log: u64,
    },
    /// The rest of a half line, and with `lines` more after it.
    FinishHalf {
        log: u64,
        lines: u64,
    },
    /// A writer that comes back cuts off the half line it left.
    CutHalf {
        log: u64,
    },
    /// A writer died with a half line behind it, and another goes on in the same line.
    AbandonHalf {
        log: u64,
        lines: u64,
    },
    /// a -> a.1 -> a.2; a half line is finished in the file that was renamed.
    Rename {
        log: u64,
    },
    /// Copied to a.1 and truncated. `quiet`: everything was read before. Else with `between` lines written after the
    /// copying and before the truncation, which nobody can promise.
    CopyTruncate {
        log: u64,
        quiet: bool,
        between: u64,
    },
    Delete {
        log: u64,
        quiet: bool,
    },
    /// Another file takes the name at once, and perhaps the inode.
    Recreate {
        log: u64,
        quiet: bool,
        lines: u64,
    },
    RewriteShorter {
        log: u64,
        quiet: bool,
    },
    RewriteLonger {
        log: u64,
        quiet: bool,
    },
    /// Truncated under a writer that goes on where it was: zeros, then lines.
    Hole {
        log: u64,
        quiet: bool,
    },
    /// A copy of the file with more in it takes its place.
    Replace {
        log: u64,
        lines: u64,
    },
    /// The oldest rotation is packed.
    Compress {
        log: u64,
    },
    HardLink {
        log: u64,
    },
    /// `current` leads to the next part.
    SwapLink {
        lines: u64,
    },
    LinkOutside,
    /// A folder in a folder with a file in it, all at once.
    Nest {
        lines: u64,
    },
    Stop,
    Start,
    Kill,
    /// Starts with a fail-point armed.
    Fault {
        point: &'static str,
        action: &'static str,
        passing: u64,
    },
    Pause,
    Resume,
    /// No file of the daemon's may grow any more, but for `slack` bytes.
    Fill {
        slack: u64,
    },
    Free,
    /// Waits until all is read, and compares.
    Settle,
    /// A moment passes, so that what comes next meets the daemon somewhere else.
    Wait {
        millis: u64,
    },
}

/// A random sequence.
pub(super) fn steps(seed: u64, count: u64) -> Vec<Step> {
    let mut dice = Dice::new(seed);
    (0..count).map(|_| step(&mut dice)).collect()
}

fn step(dice: &mut Dice) -> Step {
    let log = dice.below(1 << 16);
    let quiet = dice.below(2) == 0;
    match dice.below(100) {
        0..=19 => Step::Write { log, lines: 1 + dice.below(8) },
        20..=21 => Step::Write { log, lines: 25 + dice.below(30) },
        22..=24 => Step::WritePair { log },
        25..=27 => Step::WriteAttack { log },
        28..=36 => write_odd(dice, log),
        37..=39 => Step::FinishHalf { log, lines: dice.below(4) },
        40..=45 => Step::Rename { log },
        46..=50 => Step::CopyTruncate { log, quiet, between: dice.below(4) },
        51..=60 => destroy(dice, log, quiet),
        61..=66 => link(dice, log),
        67..=68 => Step::Stop,
        69..=72 => Step::Start,
        73..=77 => Step::Kill,
        78..=83 => fault(dice),
        84..=86 => Step::Pause,
        87..=89 => Step::Resume,
        90 => Step::Fill { slack: dice.below(20_000) },
        91..=92 => Step::Free,
        93..=95 => Step::Settle,
        _ => Step::Wait { millis: dice.below(120) },
    }
}

fn write_odd(dice: &mut Dice, log: u64) -> Step {
    match dice.below(13) {
        0..=1 => Step::WriteBad { log },
        2 => Step::WriteOverlong { log },
        3..=4 => Step::WriteBlank { log },
        5..=6 => Step::WriteZeros { log },
        7 => Step::CutHalf { log },
        8 => Step::AbandonHalf { log, lines: 1 + dice.below(3) },
        _ => Step::WriteHalf { log },
    }
}

fn destroy(dice: &mut Dice, log: u64, quiet: bool) -> Step {
    match dice.below(7) {
        0 => Step::Delete { log, quiet },
        1..=2 => Step::Recreate { log, quiet, lines: 1 + dice.below(6) },
        3 => Step::RewriteShorter { log, quiet },
        4 => Step::RewriteLonger { log, quiet },
        5 => Step::Hole { log, quiet },
        _ => Step::Replace { log, lines: dice.below(4) },
    }
}

fn link(dice: &mut Dice, log: u64) -> Step {
    match dice.below(8) {
        0 => Step::HardLink { log },
        1..=2 => Step::SwapLink { lines: 1 + dice.below(5) },
        3 => Step::LinkOutside,
        4..=5 => Step::Compress { log },
        _ => Step::Nest { lines: 1 + dice.below(5) },
    }
}

/// The fail-points on the write path.
pub(super) const POINTS: [&str; 8] = [
    "in_step",
    "before_flush",
    "mid_append",
    "before_commit",
    "after_commit",
    "before_checkpoint",
    "after_checkpoint",
    "before_delivery",
];

fn fault(dice: &mut Dice) -> Step {
    let point = dice.pick(&POINTS);
    // Most deaths are sudden; after an error the database is opened again, which takes its time.
    let action = dice.pick(&["kill", "kill", "kill", "kill", "panic", "error"]);
    // A batch passes a flush for every table it fills.
    let passings = if point == "before_flush" { 12 } else { 3 };
    Step::Fault { point, action, passing: 1 + dice.below(passings) }
}

/// The time of the line with this number: each line has its own.
pub(super) fn time_of(number: u64) -> Micros {
    let start = Micros::parse_rfc3339("2026-01-05T07:00:00Z").unwrap();
    start.plus(i64::try_from(number).unwrap() * 700_000)
}
