//! What is found where: roots, links, kinds of files, rights, order, limits.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use super::*;

fn streams(bench: &Bench) -> Vec<(u64, String)> {
    let status = bench.tail.status();
    status.iter().map(|source| (source.generation, source.stream.to_string())).collect()
}

#[test]
fn generations_count_streams_by_name_and_each_from_its_oldest_file() {
    let mut bench = Bench::new();
    let oldest_first = [
        "a.jsonl.10",
        "a.jsonl.2",
        "a.jsonl.1",
        "a.jsonl",
        "b/audit-20251231.jsonl",
        "b/audit-20260101.jsonl",
        "b/audit.jsonl",
    ];
    // Made in another order, so that neither inodes nor the listing's order help.
    for index in [4, 0, 6, 2, 5, 1, 3] {
        bench.append(oldest_first[index], lines([u32::try_from(index).unwrap()]));
    }
    bench.catch_up();
    assert_eq!(bench.lines(), expected(0..7));
    let names: Vec<_> = streams(&bench).into_iter().map(|(_, stream)| stream).collect();
    assert_eq!(names, [["a.jsonl"; 4].as_slice(), &["b/audit.jsonl"; 3]].concat());
}

#[test]
fn the_newest_of_dated_files_is_live() {
    let mut bench = Bench::new();
    bench.append("a-20260101.jsonl", lines([1]));
    bench.append("a-20260102.jsonl", lines([2]));
    bench.append("b.jsonl.1", lines([3]));
    bench.scan();
    let states: Vec<_> = (1..4).map(|generation| bench.state(generation)).collect();
    assert_eq!(states, [SourceState::Rotated, SourceState::Live, SourceState::Rotated]);
}

#[test]
fn two_roots_with_the_same_names_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let roots = ["x/logs", "y/logs", "z"].map(|name| folder.path().join(name));
    let mut bench = Bench::with(folder, TailConfig::new(roots.to_vec()));
    bench.append("x/logs/a.jsonl", lines([1]));
    bench.append("y/logs/a.jsonl", lines([2]));
    bench.append("z/a.jsonl", lines([3]));
    bench.append("z/b.jsonl", lines([4]));
    bench.scan();
    let names: Vec<_> = streams(&bench).into_iter().map(|(_, stream)| stream).collect();
    assert_eq!(names, ["b.jsonl", "logs#2/a.jsonl", "logs/a.jsonl", "z/a.jsonl"]);
}

#[test]
fn roots_inside_each_other_read_each_file_once() {
    let folder = tempfile::tempdir().unwrap();
    let roots = vec![folder.path().to_owned(), folder.path().join("sub")];
    let mut bench = Bench::with(folder, TailConfig::new(roots));
    bench.append("sub/a.jsonl", lines([1]));
    bench.catch_up();
    assert_eq!(bench.lines(), expected([1]));
    assert_eq!(bench.cursors[&1].stream, "sub/a.jsonl");
}

#[test]
fn a_root_may_be_a_single_file() {
    let folder = tempfile::tempdir().unwrap();
    let config = TailConfig::new(vec![folder.path().join("trace.txt")]);
    let mut bench = Bench::with(folder, config);
    let missing = bench.path("trace.txt");
    let report = bench.catch_up();
    assert_eq!(kinds(&report.problems), [(missing, ProblemKind::MissingRoot)]);
    bench.append("trace.txt", lines(1..3));
    bench.append("other.jsonl", lines(5..7));
    bench.catch_up();
    bench.rename("trace.txt", "trace.txt.1");
    bench.append("trace.txt.1", lines(3..4));
    bench.append("trace.txt", lines(4..5));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..5));
    assert_eq!(bench.cursors[&1].stream, "trace.txt");
}

#[test]
fn links_out_of_the_root_and_into_nothing_are_refused() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.jsonl"), lines(1..3)).unwrap();
    let mut bench = Bench::new();
    symlink(outside.path().join("secret.jsonl"), bench.path("a.jsonl")).unwrap();
    symlink(outside.path(), bench.path("folder")).unwrap();
    symlink("nowhere", bench.path("b.jsonl")).unwrap();
    symlink("loop.jsonl", bench.path("loop.jsonl")).unwrap();
    let report = bench.catch_up();
    assert_eq!(
        kinds(&report.problems),
        [
            (bench.path("a.jsonl"), ProblemKind::OutsideRoot),
            (bench.path("b.jsonl"), ProblemKind::BrokenLink),
            (bench.path("loop.jsonl"), ProblemKind::BrokenLink),
        ]
    );
    assert_eq!(bench.tail.status(), []);
    assert_eq!(bench.scan().problems, [], "reported once");
    assert_eq!(bench.tail.problems().count(), 3, "but they stand");
}

#[test]
fn a_folder_swapped_for_a_link_does_not_lead_out() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("a.jsonl"), lines(5..9)).unwrap();
    let mut bench = Bench::new();
    bench.config.open_files_max = 1;
    bench.restart();
    bench.append("sub/a.jsonl", lines(1..3));
    bench.append("z.jsonl", lines(3..4));
    bench.scan();
    assert!(!bench.tail.files.has(1), "it must be opened again");
    bench.rename("sub", "moved");
    symlink(outside.path(), bench.path("sub")).unwrap();
    assert!(bench.tail.read(1, 4096).items.is_empty());
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..4));
}

#[test]
fn pipes_are_skipped_without_waiting() {
    let mut bench = Bench::new();
    let made = Command::new("mkfifo").arg(bench.path("x.jsonl")).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    bench.append("a.jsonl", lines([1]));
    let report = bench.catch_up();
    assert_eq!(kinds(&report.problems), [(bench.path("x.jsonl"), ProblemKind::NotAFile)]);
    assert_eq!(bench.lines(), expected([1]));
    // Opening one by mistake would not wait either.
    let inside = [fs::canonicalize(bench.folder.path()).unwrap()];
    let opened = open::open_inside(&bench.path("x.jsonl"), &inside);
    assert!(matches!(opened, Err(open::OpenError::Special)));
}

#[test]
fn archives_that_are_not_unpacked_are_noted_once_and_hidden_files_never() {
    let mut bench = Bench::new();
    for name in
        ["a.jsonl.1.bz2", ".a.jsonl.gz", ".hidden.jsonl", "a.jsonl~", ".git/b.jsonl", "notes.txt"]
    {
        bench.append(name, lines([1]));
    }
    let report = bench.catch_up();
    assert_eq!(kinds(&report.problems), [(bench.path("a.jsonl.1.bz2"), ProblemKind::Compressed)]);
    assert_eq!(bench.scan().problems, []);
    assert_eq!(bench.tail.status(), []);
}

#[test]
fn unreadable_files_and_folders_are_problems_and_read_later() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.append("sub/b.jsonl", lines(3..5));
    bench.append("c.jsonl", lines(5..7));
    let (file, folder) = (bench.path("a.jsonl"), bench.path("sub"));
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&file, 0o000);
    set(&folder, 0o000);
    let may_read_all = is_privileged(&file);
    let report = bench.scan();
    set(&file, 0o644);
    set(&folder, 0o755);
    if !may_read_all {
        let problems = [(file, ProblemKind::Unreadable), (folder, ProblemKind::Unreadable)];
        assert_eq!(kinds(&report.problems), problems);
        assert!(report.problems[0].message.contains("the right to read it"));
    }
    bench.catch_up();
    let mut lines = bench.lines();
    lines.sort();
    assert_eq!(lines, expected(1..7));
}

#[test]
fn files_below_a_missing_root_are_not_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let config = TailConfig::new(vec![folder.path().join("logs")]);
    let mut bench = Bench::with(folder, config);
    bench.append("logs/a.jsonl", lines(1..3));
    bench.catch_up();
    bench.restart();
    // As when a disk is not mounted for a while.
    bench.rename("logs", "away");
    for _ in 0..3 {
        assert_eq!(bench.catch_up().events, []);
    }
    assert_eq!(bench.state(1), SourceState::Live);
    bench.rename("away", "logs");
    bench.append("logs/a.jsonl", lines(3..5));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..5));
}

#[test]
fn folders_made_later_are_found_with_what_is_in_them() {
    let mut bench = Bench::new();
    bench.catch_up();
    bench.append("x/y/z/a.jsonl", lines(1..3));
    let report = bench.catch_up();
    assert_eq!(bench.lines(), expected(1..3));
    assert!(report.folders.contains(&bench.path("x/y/z")));
    fs::remove_dir_all(bench.path("x")).unwrap();
    bench.append("x/y/z/a.jsonl", lines(3..5));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..5));
}

#[test]
fn many_files_are_read_through_few_open_ones() {
    let mut bench = Bench::new();
    bench.config.open_files_max = 4;
    bench.restart();
    let count = 100;
    for round in 0..3 {
        for file in 0..count {
            bench.append(&format!("{file:03}.jsonl"), lines([file * 10 + round]));
        }
        bench.catch_up();
        assert!(bench.tail.files.len() <= 4);
    }
    let expected = expected((0..count).flat_map(|file| (0..3).map(move |n| file * 10 + n)));
    assert_eq!(bench.lines(), expected);
}

#[test]
fn names_that_are_not_utf8_are_read() {
    use std::os::unix::ffi::OsStrExt;
    let mut bench = Bench::new();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9\n.jsonl");
    if fs::write(bench.folder.path().join(name), lines(1..3)).is_err() {
        return;
    }
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..3));
    assert_eq!(bench.cursors[&1].stream, "caf\u{fffd}\n.jsonl");
}

#[test]
fn empty_files_are_nothing_yet() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", "");
    assert_eq!(bench.catch_up().events, []);
    bench.append("a.jsonl", lines(1..3));
    assert_eq!(bench.catch_up().events, [Event::Discovered { generation: 1 }]);
}
