//! What the system does not give: file descriptors, watches, events.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::process::Command;

use super::line::tenant;
use super::run::{Run, Seen, told};
use super::step::Step;
use crate::faults::is_soak;
use crate::support::await_that;
use crate::support::socket::rows;

/// Before all lines of the folder's own.
const AT: &str = "2026-01-04T07:00:00Z";

/// What a shell does so that what it becomes may have only so many of something of inotify's.
fn with_limit(name: &str, most: u32) -> String {
    let set = format!("echo {most} > /proc/sys/user/{name}");
    format!("exec unshare -Ur sh -c '{set} && exec \"$0\" \"$@\"' \"$0\" \"$@\"")
}

fn may_limit() -> bool {
    let script = "echo 1 > /proc/sys/user/max_inotify_watches";
    let done = Command::new("unshare").args(["-Ur", "sh", "-c", script]).status();
    let may = done.is_ok_and(|status| status.success());
    if !may {
        told("SKIPPED: nobody may have a user namespace here, so watches cannot be made scarce");
    }
    may
}

#[test]
fn many_files_are_read_with_few_descriptors() {
    let files = if is_soak() { 10_000 } else { 2_000 };
    // Set too high on purpose: the daemon has to do with what the system gives.
    let mut run = Run::new().after("ulimit -n 256");
    for number in 0..files {
        let folder = run.root().join(format!("many/{}", number % 10));
        fs::create_dir_all(&folder).unwrap();
        let mark = format!("w88-{number:06}");
        let line = tenant(&format!("u-{number}"), "get_ticket", &mark, AT).to_string();
        fs::write(folder.join(format!("f{number}.jsonl")), line + "\n").unwrap();
    }
    run.take(Step::Start).unwrap();
    let sql = "select count(*), count(distinct extra) from record_log where extra like '%w88-%'";
    await_that("every file's line", || {
        rows(&run.database(), sql).is_ok_and(|rows| {
            rows[0][0].as_u64() == Some(files) && rows[0][1].as_u64() == Some(files)
        })
    });
    for number in [0, files - 1] {
        let path = run.root().join(format!("many/{}/f{number}.jsonl", number % 10));
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        let mark = format!("w88-9{number:05}");
        writeln!(file, "{}", tenant("u-0", "get_ticket", &mark, AT)).unwrap();
    }
    await_that("what was added", || {
        rows(&run.database(), sql).is_ok_and(|rows| rows[0][1].as_u64() == Some(files + 2))
    });
}

#[test]
fn without_any_watch_or_event_every_change_is_found_by_looking() {
    if !may_limit() {
        return;
    }
    let seen = Seen::make();
    for name in ["max_inotify_watches", "max_inotify_instances"] {
        let mut run = Run::of_news(&seen).after(&with_limit(name, 0));
        for step in [
            Step::Start,
            Step::Write { log: 0, lines: 4 },
            Step::Settle,
            Step::Rename { log: 0 },
            Step::Write { log: 0, lines: 4 },
            Step::Nest { lines: 3 },
            Step::CopyTruncate { log: 0, quiet: true, between: 0 },
        ] {
            run.take(step).unwrap();
        }
        run.finish().unwrap();
    }
}

#[test]
fn a_queue_of_events_that_overflows_hides_nothing() {
    let mut run = Run::of_news(&Seen::make());
    run.take(Step::Write { log: 0, lines: 3 }).unwrap();
    run.settle().unwrap();
    run.take(Step::Pause).unwrap();
    // Twice as many as a queue holds by default; one after the other in different files, or they count as one.
    for number in 0..20_000 {
        fs::write(run.root().join(format!("noise{}.txt", number % 2)), "x").unwrap();
    }
    for step in [
        Step::Rename { log: 0 },
        Step::Write { log: 0, lines: 5 },
        Step::Nest { lines: 5 },
        Step::Resume,
    ] {
        run.take(step).unwrap();
    }
    run.finish().unwrap();
}

#[test]
fn a_folder_that_is_made_anew_or_replaced_is_read_on() {
    let mut run = Run::of_news(&Seen::make());
    run.take(Step::Nest { lines: 3 }).unwrap();
    run.settle().unwrap();
    // The nested folder goes, another with the same name comes, with other files in it.
    let folder = run.root().join("s9");
    for (number, way) in ["made", "moved"].into_iter().enumerate() {
        drop(fs::remove_dir_all(&folder));
        let made =
            if way == "made" { folder.clone() } else { run.root().with_file_name("elsewhere") };
        fs::create_dir_all(&made).unwrap();
        let line = tenant("u-9", "get_ticket", &format!("w88-00000{number}"), AT).to_string();
        fs::write(made.join("audit.jsonl"), line + "\n").unwrap();
        if made != folder {
            fs::rename(&made, &folder).unwrap();
        }
        let sql = "select count(*) from record_log where extra like '%w88-%'";
        await_that("the new folder's line", || {
            rows(&run.database(), sql)
                .is_ok_and(|rows| rows[0][0].as_u64() == Some(number as u64 + 1))
        });
    }
}
