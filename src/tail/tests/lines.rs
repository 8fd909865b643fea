//! What is handed out: partial, unterminated, overlong lines, holes, positions, lines found again.

use std::os::unix::fs::FileExt;

use super::*;

fn limited(line_bytes_max: usize) -> Bench {
    let mut bench = Bench::new();
    bench.config.line_bytes_max = line_bytes_max;
    bench.restart();
    bench
}

fn read_all(bench: &mut Bench, bytes_max: usize) {
    while let Some(&generation) = bench.tail.pending().first() {
        let chunk = bench.tail.read(generation, bytes_max);
        bench.store(&chunk);
    }
}

#[test]
fn a_partial_line_waits_for_its_end() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines([1]) + "{\"half\":");
    bench.catch_up();
    bench.wait();
    bench.catch_up();
    bench.finish_all();
    assert!(bench.tail.finish(1).items.is_empty(), "never while the file is live");
    assert_eq!(bench.lines(), expected([1]));
    bench.append("a.jsonl", "1}\n");
    bench.catch_up();
    assert_eq!(bench.lines(), [line(1), "{\"half\":1}".to_owned()]);
}

#[test]
fn a_partial_line_survives_a_restart() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines([1]) + "{\"half\":");
    bench.catch_up();
    bench.restart();
    bench.append("a.jsonl", "1}\n");
    bench.catch_up();
    assert_eq!(bench.lines(), [line(1), "{\"half\":1}".to_owned()]);
}

#[test]
fn the_rest_of_a_rotated_file_is_an_unterminated_line_after_the_grace_period() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines([1]) + "half");
    bench.catch_up();
    bench.rename("a.jsonl", "a.jsonl.1");
    bench.catch_up();
    bench.finish_all();
    assert_eq!(bench.lines(), expected([1]));
    // Bytes that still come start the wait anew.
    bench.append("a.jsonl.1", " and half");
    bench.wait();
    bench.catch_up();
    bench.finish_all();
    assert_eq!(bench.lines(), expected([1]));
    bench.wait();
    bench.finish_all();
    assert_eq!(bench.lines(), [line(1), "half and half…".to_owned()]);
    bench.finish_all();
    assert_eq!(bench.lines().len(), 2);
}

#[test]
fn the_rest_of_a_deleted_file_is_an_unterminated_line() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines([1]) + "half");
    bench.catch_up();
    bench.remove("a.jsonl");
    bench.catch_up();
    bench.wait();
    assert_eq!(bench.catch_up().events, []);
    bench.finish_all();
    assert_eq!(bench.lines(), [line(1), "half…".to_owned()]);
    assert_eq!(bench.scan().events, [Event::Gone { generation: 1, lost_bytes: 0 }]);
}

#[test]
fn an_overlong_line_is_passed_over_whatever_the_size_of_the_reads() {
    for bytes_max in [1, 7, 64, 1000, 1 << 20] {
        let mut bench = limited(100);
        let long = "x".repeat(300_000);
        let text = lines([1]) + &"y".repeat(100) + "\n" + &"z".repeat(101) + "\n" + &long + "\n";
        bench.append("a.jsonl", text + &lines([2]));
        bench.scan();
        let mut overlong = Vec::new();
        while let Some(&generation) = bench.tail.pending().first() {
            let chunk = bench.tail.read(generation, bytes_max);
            overlong.extend(chunk.items.iter().filter_map(|item| match item {
                Item::Overlong(overlong) => Some((**overlong).clone()),
                _ => None,
            }));
            bench.store(&chunk);
        }
        assert_eq!(bench.lines(), [line(1), "y".repeat(100), line(2)], "{bytes_max}");
        assert_eq!(overlong[0].length, 102);
        assert_eq!(overlong[1].length, 300_001);
        assert_eq!(overlong[1].head, "x".repeat(64 << 10).as_bytes());
        assert_eq!(overlong[1].hash, identity::hash(long.as_bytes()));
    }
}

#[test]
fn a_line_longer_than_a_read_is_read_whole() {
    let mut bench = Bench::new();
    let long = "x".repeat(1_000_000);
    bench.append("a.jsonl", lines([1]) + &long + "\n" + &lines([2]));
    bench.scan();
    read_all(&mut bench, 10);
    assert_eq!(bench.lines(), [line(1), long, line(2)]);
}

#[test]
fn an_endless_line_is_a_problem_and_holds_nothing_in_memory() {
    let mut bench = limited(1000);
    bench.append("a.jsonl", lines([1]));
    for _ in 0..20 {
        bench.append("a.jsonl", "x".repeat(100_000));
        bench.scan();
        read_all(&mut bench, 4096);
    }
    let report = bench.scan();
    assert_eq!(report.problems, [], "reported when it was first seen");
    let problems: Vec<_> = bench.tail.problems().map(|problem| problem.kind).collect();
    assert_eq!(problems, [ProblemKind::EndlessLine]);
    bench.append("a.jsonl", "\n".to_owned() + &lines([2]));
    bench.scan();
    read_all(&mut bench, 4096);
    assert_eq!(bench.lines(), expected([1, 2]));
    assert_eq!(bench.what()[1], What::Overlong);
    bench.scan();
    assert_eq!(bench.tail.problems().count(), 0);
}

#[test]
fn an_endless_line_ends_with_its_file() {
    let mut bench = limited(1000);
    bench.append("a.jsonl", lines([1]) + &"x".repeat(100_000));
    bench.catch_up();
    bench.rename("a.jsonl", "a.jsonl.1");
    bench.catch_up();
    bench.wait();
    bench.finish_all();
    assert_eq!(bench.what(), [What::Line(line(1)), What::Overlong]);
    assert_eq!(bench.lines(), expected([1]));
}

#[test]
fn a_hole_is_a_gap() {
    // The writer kept its position when the file was truncated.
    let mut bench = Bench::new();
    let path = bench.path("a.jsonl");
    let file = File::create(&path).unwrap();
    file.write_all_at(lines(1..3).as_bytes(), 40 << 20).unwrap();
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..3));
    assert_eq!(bench.stored[&(1, 0)], Piece { length: 40 << 20, what: What::Zeros });
}

#[test]
fn a_sparse_hole_of_a_gigabyte_is_one_gap_and_passed_over_at_once() {
    use std::os::unix::fs::FileExt;
    const HOLE_BYTES: u64 = 1 << 30;
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    let start = lines(1..3).len() as u64;
    let file = OpenOptions::new().write(true).open(bench.path("a.jsonl")).unwrap();
    file.write_all_at(lines(3..5).as_bytes(), start + HOLE_BYTES).unwrap();
    bench.scan();
    let mut reads = 0;
    while bench.tail.is_pending(1) {
        let chunk = bench.tail.read(1, 4096);
        bench.store(&chunk);
        reads += 1;
    }
    // At reading speed it would be 64.
    assert!(reads < 10, "{reads}");
    let piece = &bench.stored[&(1, start)];
    assert_eq!((piece.length, &piece.what), (HOLE_BYTES, &What::Zeros));
    assert_eq!(bench.lines(), expected(1..5));
}

#[test]
fn zeros_at_the_end_wait_for_what_is_written_over_them() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines([1]) + &"\0".repeat(10_000));
    bench.catch_up();
    assert_eq!(bench.lines(), expected([1]));
    let file = OpenOptions::new().write(true).open(bench.path("a.jsonl")).unwrap();
    file.write_all_at(lines([2]).as_bytes(), lines([1]).len() as u64).unwrap();
    bench.catch_up();
    bench.append("a.jsonl", lines([3]));
    bench.catch_up();
    assert_eq!(bench.lines(), expected([1, 2, 3]));
    assert_eq!(bench.what()[2], What::Zeros);
    assert_eq!(bench.cursors.len(), 1);
}

#[test]
fn blank_lines_move_the_position() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", "\n\n".to_owned() + &lines([1]) + " \r\n");
    bench.catch_up();
    assert_eq!(bench.what(), [What::Blank, What::Line(line(1)), What::Blank]);
    bench.lines();
}

#[test]
fn rewinding_hands_out_again_what_was_not_committed() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..100));
    bench.scan();
    let first = bench.tail.read(1, 100);
    bench.store(&first);
    let second = bench.tail.read(1, 1000);
    bench.tail.read(1, 1000);
    bench.tail.rewind();
    let again = bench.tail.read(1, 1000);
    assert_eq!((again.start, &again.items), (second.start, &second.items));
    bench.tail.rewind();
    bench.drain();
    assert_eq!(bench.lines(), expected(1..100));
}

#[test]
fn a_cursor_may_stand_at_any_line_handed_out() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..300));
    bench.scan();
    let chunk = bench.tail.read(1, 100_000);
    let place = chunk.items[150].offset();
    let cursor = bench.tail.cursor_at(1, place).unwrap();
    assert!(bench.tail.cursor_at(1, chunk.end + 1).is_none());
    let mut again = Tail::new(bench.config.clone(), vec![cursor], 2);
    assert_eq!(again.scan(Micros(0)).events, []);
    let rest = again.read(1, 100_000);
    assert_eq!((rest.start, rest.end), (place, chunk.end));
    assert_eq!(again.cursor_at(1, rest.end), bench.tail.cursor_at(1, chunk.end));
}

#[test]
fn a_cursor_into_content_that_is_gone_fits_no_file() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..5));
    bench.scan();
    let chunk = bench.tail.read(1, 4096);
    bench.rewrite("a.jsonl", lines(1..2) + &lines(6..20));
    let place = chunk.items[2].offset();
    assert_eq!(bench.tail.cursor_at(1, place), None, "a scan has to find out first");
    bench.scan();
    let cursor = bench.tail.cursor_at(1, place).unwrap();
    assert_eq!((cursor.offset, cursor.state), (place, SourceState::Gone));
    let mut again = Tail::new(bench.config.clone(), vec![cursor], 2);
    let report = again.scan(Micros(0));
    assert_eq!(report.events[0], Event::Discovered { generation: 2 });
}

#[test]
fn lines_are_found_again_through_rotations_and_not_in_other_content() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..5));
    bench.catch_up();
    let (offset, length) = (lines(1..3).len() as u64, lines([3]).len() as u64);
    let third = Some(lines([3]).into_bytes());
    assert_eq!(bench.tail.read_line(1, offset, length), third);
    bench.rename("a.jsonl", "a.jsonl.1");
    bench.catch_up();
    assert_eq!(bench.tail.read_line(1, offset, length), third);
    bench.rewrite("a.jsonl.1", lines(11..19));
    assert_eq!(bench.tail.read_line(1, offset, length), None);
    bench.catch_up();
    assert_eq!(bench.tail.read_line(1, offset, length), None);
    assert_eq!(bench.tail.read_line(1, 0, 1_000_000), None);
    assert_eq!(bench.tail.read_line(9, 0, 1), None);
}

#[test]
fn one_unreadable_generation_holds_up_no_other() {
    let mut bench = Bench::new();
    bench.config.open_files_max = 1;
    bench.restart();
    bench.append("a.jsonl", lines(1..3));
    bench.append("b.jsonl", lines(3..5));
    bench.scan();
    // Not held open, and not where it was.
    bench.rename("a.jsonl", "elsewhere");
    bench.drain();
    assert_eq!(bench.lines(), expected(3..5));
    bench.rename("elsewhere", "a.jsonl");
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..5));
}
