//! A writer that rotates while the tail reads: the races that no single step shows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

const LINES: u32 = 20_000;
const LINES_A_TURN: u32 = 500;

/// Runs `turn` after every few hundred lines that a thread writes, while the tail reads.
fn read_while_written(bench: &mut Bench, turn: impl Fn(&Path, u32) + Sync) {
    let folder = bench.folder.path().to_owned();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for first in (0..LINES).step_by(LINES_A_TURN as usize) {
                for number in first..first + LINES_A_TURN {
                    let live = folder.join("a.jsonl");
                    let mut file = OpenOptions::new().append(true).create(true).open(live).unwrap();
                    file.write_all((line(number) + "\n").as_bytes()).unwrap();
                }
                turn(&folder, first / LINES_A_TURN);
            }
            is_done.store(true, Ordering::SeqCst);
        });
        while !is_done.load(Ordering::SeqCst) {
            bench.catch_up();
        }
    });
    for _ in 0..3 {
        bench.catch_up();
    }
}

/// Gives every rotation one number more, newest last, so that `a.jsonl.1` is free.
fn shift(folder: &Path, turns: u32) {
    for number in (1..=turns).rev() {
        let name = |number: u32| folder.join(format!("a.jsonl.{number}"));
        fs::rename(name(number), name(number + 1)).unwrap();
    }
}

#[test]
fn renaming_under_load_loses_nothing_and_repeats_nothing() {
    let mut bench = Bench::new();
    read_while_written(&mut bench, |folder, turn| {
        shift(folder, turn);
        fs::rename(folder.join("a.jsonl"), folder.join("a.jsonl.1")).unwrap();
    });
    check(&bench);
}

#[test]
fn copying_and_truncating_under_load_loses_nothing_and_repeats_nothing() {
    let mut bench = Bench::new();
    read_while_written(&mut bench, |folder, turn| {
        shift(folder, turn);
        fs::copy(folder.join("a.jsonl"), folder.join("a.jsonl.1")).unwrap();
        File::create(folder.join("a.jsonl")).unwrap();
    });
    // The writer pauses for the copy, so that nothing is lost, either.
    check(&bench);
}

fn check(bench: &Bench) {
    let lines = bench.lines();
    let distinct: std::collections::BTreeSet<_> = lines.iter().collect();
    assert_eq!((lines.len(), distinct.len()), (LINES as usize, LINES as usize));
}
