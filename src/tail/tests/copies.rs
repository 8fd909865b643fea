//! Copies: by a rotation that truncates the original, by a person, by chance.

use super::*;

#[test]
fn the_copy_of_a_copytruncate_inherits_the_generation() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.append("a.jsonl", lines(3..5));
    bench.copy("a.jsonl", "a.jsonl.1");
    bench.rewrite("a.jsonl", "");
    let (from, to) = (bench.path("a.jsonl"), bench.path("a.jsonl.1"));
    assert_eq!(bench.catch_up().events, [Event::Renamed { generation: 1, from, to }]);
    bench.append("a.jsonl", lines(5..7));
    assert_eq!(bench.catch_up().events, [Event::Discovered { generation: 2 }]);
    assert_eq!(bench.lines(), expected(1..7));
    assert_eq!(bench.state(1), SourceState::Rotated);
}

#[test]
fn copytruncate_while_down() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.append("a.jsonl", lines(3..5));
    bench.copy("a.jsonl", "a.jsonl.1");
    bench.rewrite("a.jsonl", lines(5..20));
    bench.restart();
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..20));
    assert_eq!(bench.cursors.len(), 2);
}

#[test]
fn copytruncate_before_anything_was_read_keeps_the_order() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.scan();
    bench.copy("a.jsonl", "a.jsonl.1");
    bench.rewrite("a.jsonl", lines(3..5));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..5));
}

#[test]
fn a_copy_is_not_read_while_the_original_is_there() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.append("a.jsonl", lines(3..5));
    bench.copy("a.jsonl", "a.jsonl.1");
    let path = bench.path("a.jsonl.1");
    assert_eq!(bench.catch_up().events, [Event::Copied { path, of: 1 }]);
    assert_eq!(bench.catch_up().events, []);
    bench.append("a.jsonl", lines(5..7));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..7));
}

#[test]
fn a_copy_seen_before_the_truncation_is_not_read_twice() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.copy("a.jsonl", "a.jsonl.1");
    bench.catch_up();
    // The busy writer goes on, and is read, between copying and truncating.
    bench.append("a.jsonl", lines(3..5));
    bench.catch_up();
    bench.rewrite("a.jsonl", lines(5..7));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..7));
    let copied = bench.cursors.values().find(|cursor| cursor.path == bench.path("a.jsonl.1"));
    let generation = copied.unwrap().generation;
    assert_eq!(bench.stored[&(generation, 0)].what, What::CopyOf(1));
}

#[test]
fn a_copy_not_seen_before_the_truncation_is_not_read_twice() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..300));
    bench.catch_up();
    bench.copy("a.jsonl", "a.jsonl.1");
    bench.append("a.jsonl", lines(300..302));
    // Read, as the copy was not, without a scan in between.
    let chunk = bench.tail.read(1, 4096);
    bench.store(&chunk);
    bench.rewrite("a.jsonl", lines(302..304));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..304));
}

#[test]
fn a_copy_in_progress_waits() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..300));
    bench.catch_up();
    bench.append("a.jsonl", lines(300..302));
    let whole = fs::read(bench.path("a.jsonl")).unwrap();
    for end in [0, 5000, 6001, whole.len()] {
        bench.rewrite("a.jsonl.1", &whole[..end]);
        bench.catch_up();
    }
    bench.rewrite("a.jsonl", "");
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..302));
    assert_eq!(bench.cursors.len(), 1);
}

#[test]
fn copied_where_nobody_looks_says_what_was_lost() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.append("a.jsonl", lines(3..5));
    bench.scan();
    bench.rewrite("a.jsonl", "");
    let lost_bytes = lines(3..5).len() as u64;
    assert_eq!(bench.catch_up().events, [Event::Truncated { generation: 1, lost_bytes }]);
}

#[test]
fn a_copy_that_goes_its_own_way_has_the_common_part_once() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..5));
    bench.catch_up();
    bench.copy("a.jsonl", "b.jsonl");
    bench.catch_up();
    bench.append("a.jsonl", lines(5..7));
    bench.append("b.jsonl", lines(7..9));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..9));
    assert_eq!(bench.stored[&(2, 0)].what, What::CopyOf(1));
}

#[test]
fn a_copy_first_seen_after_it_went_its_own_way() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..5));
    bench.catch_up();
    bench.copy("a.jsonl", "b.jsonl");
    bench.append("a.jsonl", lines(5..7));
    bench.append("b.jsonl", lines(7..9));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..9));
}

#[test]
fn distinct_files_with_the_same_first_bytes_are_both_read() {
    for is_read_between in [false, true] {
        let mut bench = Bench::new();
        let head = lines(1..200);
        bench.append("a.jsonl", head.clone() + &lines(200..300));
        if is_read_between {
            bench.catch_up();
        }
        bench.append("b.jsonl", head + &lines(300..400));
        bench.catch_up();
        let expected = [expected(1..300), expected(1..200), expected(300..400)].concat();
        assert_eq!(bench.lines(), expected);
    }
}

#[test]
fn equal_lines_in_one_file_are_both_read() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", line(1) + "\n" + &line(1) + "\n");
    bench.catch_up();
    assert_eq!(bench.lines(), [line(1), line(1)]);
}

#[test]
fn short_equal_files_without_a_time_are_both_read() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", "{\"event\":\"start\"}\n");
    bench.append("b.jsonl", "{\"event\":\"start\"}\n");
    bench.catch_up();
    assert_eq!(bench.lines().len(), 2);
}

#[test]
fn replaced_by_a_longer_copy_of_itself() {
    // What editors and `sed -i` do: write another file, then rename it over the first.
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..5));
    bench.catch_up();
    bench.append(".swap", lines(1..7));
    bench.rename(".swap", "a.jsonl");
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..7));
    assert_eq!(bench.cursors.len(), 1);
}

#[test]
fn a_file_put_back_is_not_read_again() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..5));
    bench.catch_up();
    bench.copy("a.jsonl", "saved");
    bench.remove("a.jsonl");
    bench.catch_up();
    bench.wait();
    bench.catch_up();
    assert_eq!(bench.state(1), SourceState::Gone);
    bench.cursors.insert(1, bench.tail.cursor(1).unwrap());
    bench.restart();
    bench.rename("saved", "a.jsonl");
    bench.append("a.jsonl", lines(5..7));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..7));
    assert_eq!(bench.state(1), SourceState::Live);
}

#[test]
fn two_names_of_one_file_are_one_reader() {
    let mut bench = Bench::new();
    bench.append("a-20260101.jsonl", lines(1..3));
    fs::hard_link(bench.path("a-20260101.jsonl"), bench.path("latest.jsonl")).unwrap();
    std::os::unix::fs::symlink("a-20260101.jsonl", bench.path("current.jsonl")).unwrap();
    bench.catch_up();
    bench.append("latest.jsonl", lines(3..5));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..5));
    assert_eq!(bench.cursors[&1].stream, "a.jsonl");
}

#[test]
fn a_link_that_moves_from_file_to_file_reads_each_once() {
    let mut bench = Bench::new();
    for number in 0..5 {
        let target = format!("data-{number}");
        bench.append(&target, lines(number * 10..number * 10 + 5));
        let link = bench.path("current.jsonl");
        drop(fs::remove_file(&link));
        std::os::unix::fs::symlink(&target, link).unwrap();
        bench.catch_up();
        bench.append(&target, lines(number * 10 + 5..number * 10 + 10));
        bench.catch_up();
    }
    assert_eq!(bench.lines(), expected(0..50));
}

#[test]
fn a_copy_in_progress_found_together_with_its_original_waits() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..300));
    let whole = fs::read(bench.path("a.jsonl")).unwrap();
    for end in [5000, 6001, whole.len()] {
        bench.rewrite("a.jsonl.1", &whole[..end]);
        bench.catch_up();
    }
    bench.rewrite("a.jsonl", lines(300..302));
    bench.catch_up();
    assert_eq!(bench.lines(), expected(1..302));
    assert_eq!(bench.cursors[&1].path, bench.path("a.jsonl"));
    assert_eq!(bench.state(1), SourceState::Rotated);
}

#[test]
fn a_copy_takes_over_from_an_original_that_was_never_read() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..4));
    bench.scan();
    bench.copy("a.jsonl", "a.jsonl.1");
    bench.scan();
    // Seen to begin with more than the copy has.
    bench.append("a.jsonl", lines(4..6));
    bench.scan();
    bench.rewrite("a.jsonl", "");
    let report = bench.catch_up();
    let lost_bytes = lines(4..6).len() as u64;
    assert!(report.events.contains(&Event::Truncated { generation: 1, lost_bytes }));
    assert_eq!(bench.lines(), expected(1..4));
    assert_eq!(bench.cursors[&1].path, bench.path("a.jsonl.1"));
}

#[test]
fn a_file_that_begins_like_a_deleted_one_but_has_no_time_is_read() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", "{\"event\":\"start\"}\n");
    bench.catch_up();
    bench.remove("a.jsonl");
    bench.append("b.jsonl", "{\"event\":\"start\"}\n{\"event\":\"stop\"}\n");
    bench.catch_up();
    assert_eq!(bench.lines().len(), 3);
}

#[test]
fn two_living_logs_that_begin_alike_and_have_no_times_are_both_read() {
    let mut bench = Bench::new();
    let line = "{\"actor\":\"client\",\"tool\":\"get_x\",\"args\":{\"a\":1},\"outcome\":\"ASK\",\"id\":\"r\"}\n";
    bench.append("a.jsonl", line);
    bench.catch_up();
    bench.append("b.jsonl", line);
    bench.catch_up();
    assert_eq!(bench.lines().len(), 2);
}

#[test]
fn a_log_cut_to_its_beginning_in_another_file_is_read_on() {
    for looks in 1..4 {
        let mut bench = Bench::new();
        bench.append("a.jsonl", lines(1..400));
        bench.catch_up();
        bench.append(".swap", lines(1..300));
        bench.rename(".swap", "a.jsonl");
        bench.restart();
        let path = bench.path("a.jsonl");
        let copied = Event::Copied { path, of: 1 };
        assert!(bench.catch_up().events.contains(&copied), "it is told");
        for _ in 1..looks {
            bench.catch_up();
        }
        bench.append("a.jsonl", lines(400..410));
        bench.catch_up();
        // Not even half a line is taken for more of the copy.
        bench.append("a.jsonl", line(410));
        bench.catch_up();
        bench.append("a.jsonl", "\n");
        bench.catch_up();
        bench.wait();
        bench.catch_up();
        assert_eq!(bench.lines(), expected(1..411), "{looks}");
    }
}

#[test]
fn a_copy_put_back_piece_by_piece_waits_until_it_is_whole() {
    for name in ["a.jsonl", "a.jsonl.1"] {
        let mut bench = Bench::new();
        bench.append("a.jsonl", lines(1..400));
        bench.catch_up();
        bench.remove("a.jsonl");
        bench.restart();
        let whole = lines(1..410);
        for piece in whole.as_bytes().chunks(4500) {
            bench.append(name, piece);
            bench.catch_up();
            bench.catch_up();
        }
        assert_eq!(bench.lines(), expected(1..410), "{name}");
        assert_eq!(bench.cursors.len(), 1);
    }
}

/// Before it was truncated the log went on, and the tail had read that: the copy holds less than was
/// read. While it was made it ended with a line, page by page.
#[test]
fn a_copy_that_is_shorter_than_what_was_read_is_not_read_again() {
    let text: String = (0..300).map(|n| line(10_000 + n) + "    \n").collect();
    assert_eq!(text.len() % 32, 0);
    let mut bench = Bench::new();
    bench.append("a.jsonl", &text);
    bench.catch_up();
    for page in text.as_bytes().chunks(4096) {
        bench.append("a.jsonl.1", page);
        bench.catch_up();
    }
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.rewrite("a.jsonl", lines(3..5));
    for _ in 0..3 {
        bench.catch_up();
        bench.wait();
    }
    assert_eq!(bench.lines().len(), 304);
}

#[test]
fn lines_that_end_where_pages_do_are_no_sign_of_a_log_that_goes_on() {
    let text: String = (0..300).map(|n| line(10_000 + n) + "    \n").collect();
    let mut bench = Bench::new();
    bench.append("a.jsonl", text.clone() + &lines(1..3));
    bench.catch_up();
    bench.remove("a.jsonl");
    bench.restart();
    for page in text.as_bytes().chunks(4096) {
        bench.append("a.jsonl", page);
        bench.catch_up();
    }
    bench.wait();
    bench.catch_up();
    assert_eq!(bench.lines().len(), 302);
}

#[test]
fn a_log_cut_within_a_line_goes_on_from_there() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..400));
    bench.catch_up();
    let whole = lines(1..400);
    bench.append(".swap", &whole.as_bytes()[..9000]);
    bench.rename(".swap", "a.jsonl");
    bench.catch_up();
    for number in 400..410 {
        bench.append("a.jsonl", format!("\n{}\n", line(number)));
        bench.catch_up();
    }
    bench.wait();
    bench.catch_up();
    // After the half line that was there.
    assert_eq!(bench.lines()[400..], expected(400..410));
}

/// An archive is whole once it was written: there is nothing to wait for.
#[test]
fn an_archive_of_less_than_was_read_is_told_at_once() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..400) + "{\"half\":");
    bench.catch_up();
    bench.pack("a.jsonl", "packed.gz");
    fs::rename(bench.path("packed.gz"), bench.folder.path().join("../a.jsonl.1.gz.held")).ok();
    bench.append("a.jsonl", "1}\n");
    bench.catch_up();
    bench.rewrite("a.jsonl", lines(400..402));
    fs::rename(bench.folder.path().join("../a.jsonl.1.gz.held"), bench.path("a.jsonl.1.gz")).ok();
    bench.catch_up();
    assert_eq!(bench.cursors.len(), 3, "a generation of its own");
    assert_eq!(bench.lines().len(), 402);
}
