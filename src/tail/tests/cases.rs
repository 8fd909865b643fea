//! Rotation, truncation, deletion, inodes given out again: every way a log's file changes.

use super::*;

#[test]
fn appended_lines_are_read_once() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.append("a.jsonl", lines(3..5));
    bench.catch_up();
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..5));
    assert_eq!(bench.cursors.len(), 1);
}

#[test]
fn a_restart_goes_on_where_the_store_is() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.restart();
    bench.append("a.jsonl", lines(3..5));
    let report = bench.catch_up();
    assert_eq!(report.events, []);
    assert_eq!(bench.lines(), expected(1..5));
}

#[test]
fn renamed_while_open_is_drained_under_its_new_name() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.append("a.jsonl", lines(3..5));
    bench.rename("a.jsonl", "a.jsonl.1");
    bench.append("a.jsonl", lines(5..7));
    let report = bench.catch_up();
    assert_eq!(
        report.events,
        [
            Event::Renamed {
                generation: 1,
                from: bench.path("a.jsonl"),
                to: bench.path("a.jsonl.1")
            },
            Event::Discovered { generation: 2 },
        ]
    );
    assert_eq!(bench.state(1), SourceState::Rotated);
    assert_eq!(bench.state(2), SourceState::Live);
    // The writer has not noticed the rotation yet.
    bench.append("a.jsonl.1", lines(5..5));
    assert_eq!(bench.lines(), expected(1..7));
}

#[test]
fn a_writer_that_keeps_the_renamed_file_is_read_on() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.rename("a.jsonl", "a.jsonl.1");
    bench.catch_up();
    bench.wait();
    bench.append("a.jsonl.1", lines(3..5));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..5));
}

#[test]
fn renamed_while_down() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.append("a.jsonl", lines(3..5));
    bench.rename("a.jsonl", "a.jsonl.1");
    bench.append("a.jsonl", lines(5..7));
    bench.restart();
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..7));
    assert_eq!(bench.cursors.len(), 2);
}

#[test]
fn shifted_three_times_while_down() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.append("a.jsonl", lines(3..5));
    for number in [5, 7, 9] {
        for (from, to) in [("a.jsonl.2", "a.jsonl.3"), ("a.jsonl.1", "a.jsonl.2")] {
            if bench.path(from).exists() {
                bench.rename(from, to);
            }
        }
        bench.rename("a.jsonl", "a.jsonl.1");
        bench.append("a.jsonl", lines(number..number + 2));
    }
    bench.restart();
    bench.catch_up();
    // In order of generation, which is the order of the content.
    assert_eq!(bench.lines(), expected(1..11));
    assert_eq!(bench.cursors[&1].path, bench.path("a.jsonl.3"));
}

#[test]
fn moved_out_of_sight_is_drained_through_the_open_file() {
    let outside = tempfile::tempdir().unwrap();
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.rename("a.jsonl", "a.saved");
    bench.append("a.saved", lines(3..5));
    bench.catch_up();
    bench.append("a.saved", lines(5..7));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..7));
    bench.wait();
    let report = bench.catch_up();
    assert_eq!(report.events, [Event::Gone { generation: 1, lost_bytes: 0 }]);
    assert_eq!(bench.tail.files.len(), 0);
    drop(outside);
}

#[test]
fn deleted_while_being_read_is_drained_and_then_closed() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..1000));
    bench.scan();
    let chunk = bench.tail.read(1, 4096);
    bench.store(&chunk);
    bench.remove("a.jsonl");
    bench.catch_up();
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..1000));
    assert_eq!(bench.tail.files.len(), 1, "held for the grace period");
    bench.wait();
    let report = bench.scan();
    assert_eq!(report.events, [Event::Gone { generation: 1, lost_bytes: 0 }]);
    assert_eq!(bench.tail.files.len(), 0);
    assert_eq!(bench.state(1), SourceState::Gone);
}

#[test]
fn a_deleted_file_is_held_until_it_is_committed() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.scan();
    bench.remove("a.jsonl");
    assert_eq!(bench.tail.read(1, 4096).items.len(), 2);
    for _ in 0..3 {
        bench.scan();
        bench.wait();
    }
    bench.tail.rewind();
    bench.drain();
    assert_eq!(bench.lines(), expected(1..3));
}

#[test]
fn deleted_and_not_held_says_what_was_lost() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.append("a.jsonl", lines(3..5));
    bench.scan();
    bench.cursors.insert(1, bench.tail.cursor(1).unwrap());
    bench.restart();
    bench.remove("a.jsonl");
    // A listing may miss a file that is just being renamed; two in a row do not.
    assert_eq!(bench.scan().events, []);
    let lost_bytes = lines(3..5).len() as u64;
    assert_eq!(bench.scan().events, [Event::Gone { generation: 1, lost_bytes }]);
}

#[test]
fn an_inode_given_out_again_is_another_file() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    let inode = bench.inode("a.jsonl");
    // Nobody holds the file open: the file system gives its inode to the next one.
    bench.restart();
    bench.remove("a.jsonl");
    bench.append("b.jsonl", lines(3..7));
    if bench.inode("b.jsonl") != inode {
        // Not the file system that this is about.
        return;
    }
    let report = bench.catch_up();
    assert_eq!(
        report.events,
        [Event::Discovered { generation: 2 }, Event::Gone { generation: 1, lost_bytes: 0 }]
    );
    assert_eq!(bench.lines(), expected(1..7));
}

#[test]
fn an_inode_given_out_again_with_the_same_size_is_another_file() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.restart();
    bench.remove("a.jsonl");
    bench.append("a.jsonl", lines(3..5));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..5));
}

#[test]
fn deleted_and_made_again_many_times() {
    let mut bench = Bench::new();
    for number in 0..1000 {
        bench.append("a.jsonl", lines([number]));
        bench.catch_up();
        bench.remove("a.jsonl");
        bench.wait();
    }
    bench.catch_up();
    bench.wait();
    bench.catch_up();
    assert_eq!(bench.lines(), expected(0..1000));
    assert_eq!(bench.tail.files.len(), 0, "no file stays open");
}

#[test]
fn truncated_and_rewritten_shorter() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..6));
    bench.catch_up();
    bench.append("a.jsonl", lines(6..7));
    bench.scan();
    bench.rewrite("a.jsonl", lines(7..9));
    let report = bench.catch_up();
    let lost_bytes = lines(6..7).len() as u64;
    assert_eq!(
        report.events,
        [Event::Discovered { generation: 2 }, Event::Truncated { generation: 1, lost_bytes }]
    );
    assert_eq!(bench.lines(), [expected(1..6), expected(7..9)].concat());
}

#[test]
fn truncated_and_rewritten_longer_before_the_next_scan() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.rewrite("a.jsonl", lines(3..9));
    // Reading before the scan must not take the other content for more of the same.
    assert!(bench.tail.read(1, 4096).items.is_empty());
    let report = bench.catch_up();
    assert_eq!(
        report.events,
        [Event::Discovered { generation: 2 }, Event::Rewritten { generation: 1, lost_bytes: 0 },]
    );
    assert_eq!(bench.lines(), expected(1..9));
}

#[test]
fn truncated_and_rewritten_longer_while_down() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.rewrite("a.jsonl", lines(3..9));
    bench.restart();
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..9));
}

#[test]
fn rewritten_before_anything_was_read() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.scan();
    bench.rewrite("a.jsonl", lines(3..9));
    assert!(bench.tail.read(1, 4096).items.is_empty());
    let report = bench.catch_up();
    let lost_bytes = lines(1..3).len() as u64;
    assert!(report.events.contains(&Event::Rewritten { generation: 1, lost_bytes }));
    assert_eq!(bench.lines(), expected(3..9));
}

#[test]
fn rewritten_with_the_same_first_bytes() {
    let mut bench = Bench::new();
    let header = "{\"format\":\"audit\",\"ts\":1767225600}".repeat(200) + "\n";
    bench.append("a.jsonl", header.clone() + &lines(1..30));
    bench.catch_up();
    bench.restart();
    bench.rewrite("a.jsonl", header.clone() + &lines(31..90));
    bench.catch_up();
    let header = vec![header.trim_end().to_owned()];
    let expected = [&header[..], &expected(1..30), &header, &expected(31..90)].concat();
    assert_eq!(bench.lines(), expected);
}

#[test]
fn same_size_and_times_but_other_content() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    let modified = fs::metadata(bench.path("a.jsonl")).unwrap().modified().unwrap();
    bench.rewrite("a.jsonl", lines(3..5));
    let file = OpenOptions::new().append(true).open(bench.path("a.jsonl")).unwrap();
    file.set_modified(modified).unwrap();
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..5));
}

#[test]
fn truncated_within_what_was_not_read() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.append("a.jsonl", lines(3..5));
    bench.scan();
    let file = OpenOptions::new().write(true).open(bench.path("a.jsonl")).unwrap();
    file.set_len(lines(1..4).len() as u64).unwrap();
    let report = bench.catch_up();
    let lost_bytes = lines(4..5).len() as u64;
    assert_eq!(report.events, [Event::Truncated { generation: 1, lost_bytes }]);
    bench.append("a.jsonl", lines(5..6));
    bench.catch_up();
    assert_eq!(bench.lines(), [expected(1..4), expected(5..6)].concat());
}

#[test]
fn generations_that_are_gone_are_remembered_within_a_limit() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    let mut of_long_ago = bench.cursors[&1].clone();
    of_long_ago.state = SourceState::Gone;
    for generation in 2..10_100 {
        bench.cursors.insert(generation, Cursor { generation, ..of_long_ago.clone() });
    }
    bench.restart();
    bench.scan();
    let known: Vec<u64> = bench.tail.status().iter().map(|source| source.generation).collect();
    assert_eq!((known.len(), known[0], known[1]), (10_001, 1, 100));
    assert_eq!(bench.tail.next_generation(), 10_100);
}

#[test]
fn times_that_go_back_change_nothing() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    let file = OpenOptions::new().append(true).open(bench.path("a.jsonl")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(bench.catch_up().events, []);
    assert_eq!(bench.lines(), expected(1..3));
}

#[test]
fn a_change_that_a_coarse_clock_hides_is_found_before_more_is_read() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1000..1400));
    bench.scan();
    let chunk = bench.tail.read(1, 4096);
    bench.store(&chunk);
    let read = bench.lines().len();
    bench.rewrite("a.jsonl", lines(2000..2400));
    // As if all that had happened within one tick of the clock.
    let (_, stamp) = bench.tail.files.peek(1).unwrap().look().unwrap();
    bench.tail.sources.get_mut(&1).unwrap().verified = Some(stamp);
    assert_eq!(bench.tail.read(1, 4096).items, []);
    bench.catch_up();
    assert_eq!(bench.lines()[..read], expected(1000..1400)[..read]);
    assert_eq!(bench.lines()[read..], expected(2000..2400));
}
