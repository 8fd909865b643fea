//! A database that is damaged or gone.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;

use super::run::{Run, Seen};
use super::step::Step;
use crate::support::beside;

/// A run that was killed with something in its write-ahead log, and that log's length.
fn killed(seen: &Seen) -> (Run, u64) {
    let mut run = Run::of_news(seen);
    for log in [0, 3, 1] {
        run.take(Step::Start).unwrap();
        run.take(Step::Write { log, lines: 40 }).unwrap();
        run.settle().unwrap();
    }
    run.kill();
    let length = fs::metadata(wal(&run)).expect("a write-ahead log").len();
    assert!(length > 1000, "{length}");
    (run, length)
}

fn wal(run: &Run) -> std::path::PathBuf {
    beside(&run.database(), ".wal")
}

#[test]
fn a_torn_write_ahead_log_takes_its_last_batches_with_it_and_they_are_read_again() {
    let seen = &Seen::make();
    // In the middle of some batch, and just before the end of the last.
    let cuts: [fn(u64) -> u64; 4] =
        [|all| all / 5, |all| all * 3 / 4, |all| all - 1, |all| all - 10];
    std::thread::scope(|scope| {
        for left in cuts {
            scope.spawn(move || {
                let (run, length) = killed(seen);
                OpenOptions::new()
                    .write(true)
                    .open(wal(&run))
                    .unwrap()
                    .set_len(left(length))
                    .unwrap();
                run.go(&[Step::Write { log: 0, lines: 5 }]).unwrap();
            });
        }
    });
}

#[test]
fn a_write_ahead_log_that_is_gone_is_made_up_for_from_the_logs() {
    let (run, _) = killed(&Seen::make());
    fs::remove_file(wal(&run)).unwrap();
    run.go(&[Step::Write { log: 0, lines: 5 }]).unwrap();
}

#[test]
fn a_database_that_is_gone_is_made_again_from_the_logs() {
    let seen = Seen::make();
    let mut run = Run::of_news(&seen);
    run.take(Step::Write { log: 3, lines: 20 }).unwrap();
    run.settle().unwrap();
    run.take(Step::Stop).unwrap();
    fs::remove_file(run.database()).unwrap();
    run.go(&[Step::Write { log: 3, lines: 3 }]).unwrap();
}

#[test]
fn a_database_that_is_damaged_is_refused_and_left_as_it_is() {
    let mut run = Run::of_news(&Seen::make());
    run.take(Step::Write { log: 3, lines: 20 }).unwrap();
    run.settle().unwrap();
    run.take(Step::Stop).unwrap();
    let database = OpenOptions::new().read(true).write(true).open(run.database()).unwrap();
    // Both headers: of one alone the other takes the place.
    database.write_all_at(&[0xa5; 16 << 10], 0).unwrap();
    let before = fs::read(run.database()).unwrap();
    let refused = run.take(Step::Start).unwrap_err();
    assert!(refused.contains("does not start"), "{refused}");
    assert!(
        fs::read(run.database()).unwrap() == before,
        "the file stays for whoever can repair it"
    );
}
