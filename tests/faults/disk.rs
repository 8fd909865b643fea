//! A disk that is full for a while, and one that fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::run::{Run, Seen, told};
use super::step::Step;

/// The size of the disk that gets full.
const DISK_BYTES: usize = 24 << 20;

/// What a shell does so that only what it becomes sees a small disk at `folder`.
fn small_disk(folder: &Path) -> String {
    let mount = format!("mount -t tmpfs -o size={DISK_BYTES} small \"{}\"", folder.display());
    format!("exec unshare -Urm sh -c '{mount} && exec \"$0\" \"$@\"' \"$0\" \"$@\"")
}

/// Whether a plain user may mount a disk of their own here.
fn may_mount() -> bool {
    let there = tempfile::tempdir().unwrap();
    let script =
        format!("set -- true; {}", small_disk(there.path()).replace("\"$0\" \"$@\"", "\"$@\""));
    Command::new("sh").args(["-c", &script]).status().is_ok_and(|status| status.success())
}

/// Writes zeros until nothing more fits; returns the file.
fn fill_up(folder: &Path) -> PathBuf {
    let filler = folder.join("filler");
    let blocks = vec![0; DISK_BYTES];
    let full = fs::write(&filler, blocks).map_err(|error| error.kind());
    assert_eq!(full, Err(std::io::ErrorKind::StorageFull));
    filler
}

#[test]
fn a_full_disk_stops_reading_for_a_while_and_loses_nothing() {
    if !may_mount() {
        told("SKIPPED: nobody may mount a small disk here, so that it could be filled");
        return;
    }
    for lines_before in [200, 4000] {
        let mut run = Run::new();
        let state = run.database().parent().unwrap().to_owned();
        fs::create_dir_all(&state).unwrap();
        run = run.after(&small_disk(&state));
        run.take(Step::Start).unwrap();
        run.move_into_namespace();
        run.take(Step::Write { log: 0, lines: lines_before }).unwrap();
        run.settle().unwrap();
        let filler = fill_up(run.database().parent().unwrap());
        for log in 0..4 {
            run.take(Step::Write { log, lines: 2000 }).unwrap();
            run.take(Step::Rename { log }).unwrap();
            run.take(Step::Write { log, lines: 50 }).unwrap();
        }
        run.await_fault().unwrap();
        fs::remove_file(filler).unwrap();
        run.settle().unwrap();
        run.agree().unwrap();
    }
}

#[test]
fn files_that_may_not_grow_for_a_while_lose_nothing() {
    let seen = Seen::make();
    let mut steps = Vec::new();
    // The write-ahead log gets no byte more, a few, or all but the checkpoint's.
    for slack in [0, 3_000, 400_000] {
        steps.extend([
            Step::Write { log: 3, lines: 5 },
            Step::Settle,
            Step::Fill { slack },
            Step::Write { log: 1, lines: 1000 },
            Step::Wait { millis: 400 },
            Step::Free,
            Step::Settle,
            Step::Fill { slack },
            Step::Write { log: 1, lines: 1000 },
            Step::Stop,
        ]);
    }
    Run::of_news(&seen).go(&steps).unwrap();
}

#[test]
fn a_sync_that_fails_is_survived() {
    let is_there = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    if !is_there.is_ok_and(|status| status.success()) {
        told("SKIPPED: there is no strace that may trace, so no sync can be made to fail");
        return;
    }
    let seen = Seen::make();
    for nth in [2, 5] {
        // As a grandchild of its own, so that it is the daemon that gets the signals.
        let prelude = format!(
            "exec strace -D -f -qq -o /dev/null -e trace=fsync,fdatasync \
             -e inject=fsync,fdatasync:error=EIO:when={nth} \"$0\" \"$@\""
        );
        let mut run = Run::of_news(&seen).after(&prelude);
        let steps = [
            Step::Start,
            Step::Write { log: 3, lines: 30 },
            Step::Settle,
            Step::WriteAttack { log: 3 },
        ];
        for step in steps {
            run.take(step).unwrap();
        }
        run.settle().unwrap();
        run.kill();
        let run = run.after("");
        run.go(&[Step::Write { log: 3, lines: 3 }]).unwrap();
    }
}
