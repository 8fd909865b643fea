//! Deaths: of the process at any moment and at each point of the write path, and of the writer alone.

use super::run::{Run, Seen};
use super::step::{Dice, POINTS, Step};
use crate::faults::is_soak;

/// Everyday life of one log, with an alert to find and to mail.
const LIFE: [Step; 5] = [
    Step::Write { log: 0, lines: 6 },
    Step::WriteAttack { log: 3 },
    Step::WritePair { log: 0 },
    Step::Rename { log: 0 },
    Step::WriteBad { log: 0 },
];

/// Starts armed, lives, and lives on after whatever happened.
fn survive(point: &'static str, action: &'static str, passing: u64) {
    let seen = Seen::make();
    let mut steps = vec![Step::Write { log: 3, lines: 3 }, Step::Settle];
    steps.push(Step::Fault { point, action, passing });
    for step in LIFE {
        steps.extend([step, Step::Wait { millis: 80 }]);
    }
    steps.extend([Step::Stop, Step::Write { log: 3, lines: 3 }]);
    steps.extend(LIFE);
    Run::of_news(&seen)
        .go(&steps)
        .unwrap_or_else(|error| panic!("{point}:{action}:{passing}: {error}"));
}

#[test]
fn a_death_at_any_point_of_the_write_path_loses_nothing_and_doubles_nothing() {
    std::thread::scope(|scope| {
        for point in POINTS {
            scope.spawn(move || survive(point, "kill", 1));
        }
    });
}

#[test]
fn a_statement_that_fails_takes_the_whole_batch_with_it_and_the_batch_comes_again() {
    survive("mid_append", "error", 1);
}

#[test]
fn rows_in_an_appenders_buffer_are_stored_by_nobody_when_the_writer_panics() {
    std::thread::scope(|scope| {
        for passing in [1, 2, 5] {
            scope.spawn(move || survive("before_flush", "panic", passing));
        }
    });
}

#[test]
fn a_commit_that_failed_is_made_again_and_one_that_only_said_so_is_not() {
    std::thread::scope(|scope| {
        scope.spawn(|| survive("before_commit", "error", 1));
        scope.spawn(|| survive("after_commit", "error", 1));
    });
}

#[test]
fn a_writer_that_panics_ends_the_daemon_with_an_error() {
    survive("in_step", "panic", 1);
}

#[test]
fn killed_again_and_again_under_load_and_rotation_every_line_is_there_once() {
    let kills = if is_soak() { 500 } else { 20 };
    let seen = Seen::make();
    let mut dice = Dice::new(54);
    let mut steps = Vec::new();
    for _ in 0..kills {
        let log = dice.below(4);
        steps.extend([
            Step::Write { log, lines: 60 },
            Step::Start,
            Step::Wait { millis: dice.below(100) },
            Step::Write { log, lines: 40 },
            if dice.below(3) == 0 {
                Step::CopyTruncate { log, quiet: false, between: 0 }
            } else {
                Step::Rename { log }
            },
            Step::Write { log, lines: 20 },
            Step::WriteHalf { log },
            Step::Wait { millis: dice.below(100) },
            Step::Kill,
        ]);
        if dice.below(4) == 0 {
            steps.push(Step::Settle);
        }
    }
    Run::of_news(&seen).go(&steps).unwrap();
}

#[test]
fn told_to_stop_in_the_midst_of_a_large_backlog_it_stops_soon_and_goes_on_later() {
    let seen = Seen::make();
    let mut steps: Vec<Step> = (0..4).map(|log| Step::Write { log, lines: 5_000 }).collect();
    // Once before a batch is through, and once, on a slower machine, in the middle of another.
    for millis in [0, 700] {
        steps.extend([Step::Start, Step::Wait { millis }, Step::Stop]);
    }
    Run::of_news(&seen).go(&steps).unwrap();
}

#[test]
fn a_line_behind_the_half_of_a_writer_that_died_is_read() {
    let seen = Seen::make();
    let mut steps = Vec::new();
    for log in 0..4 {
        steps.extend([
            Step::WriteHalf { log },
            Step::AbandonHalf { log, lines: 2 },
            Step::Write { log, lines: 1 },
        ]);
    }
    Run::of_news(&seen).go(&steps).unwrap();
}

#[test]
fn half_a_line_at_the_moment_of_death_is_one_line_later() {
    let seen = Seen::make();
    let steps = [
        Step::Write { log: 1, lines: 2 },
        Step::WriteHalf { log: 1 },
        Step::Settle,
        Step::Kill,
        Step::FinishHalf { log: 1, lines: 1 },
    ];
    Run::of_news(&seen).go(&steps).unwrap();
}

#[test]
fn a_rotation_that_is_packed_while_nobody_looks_is_read_on_from_where_it_was() {
    let seen = Seen::make();
    let mut steps = Vec::new();
    for way in [Step::Stop, Step::Kill, Step::Pause] {
        steps.extend([Step::Write { log: 1, lines: 8 }, Step::Settle, way]);
        steps.extend([
            Step::Write { log: 1, lines: 5 },
            Step::Rename { log: 1 },
            Step::Compress { log: 1 },
        ]);
        steps.extend([Step::Write { log: 1, lines: 2 }, Step::Settle]);
    }
    Run::of_news(&seen).go(&steps).unwrap();
}
