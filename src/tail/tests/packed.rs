//! Compressed files: archives that rotations made, whole, cut, damaged and replaced.

use std::fmt::Write as _;

use super::*;

const KINDS: [&str; 2] = ["gz", "zst"];

/// Runs a case for each kind of archive; `name` gives a file name its suffix.
fn each_kind(case: impl Fn(&mut Bench, &dyn Fn(&str) -> String)) {
    for kind in KINDS {
        case(&mut Bench::new(), &|name| format!("{name}.{kind}"));
    }
}

/// Lines whose archive has more than one block.
fn many(numbers: std::ops::Range<u32>) -> String {
    let mut text = String::new();
    for number in numbers {
        let hash = blake3::hash(&number.to_le_bytes()).to_hex();
        writeln!(text, "{{\"ts\":{},\"h\":\"{hash}\"}}", 1_767_225_600 + number).unwrap();
    }
    text
}

/// Packs so that the archive states the size of its content, which the encoder for zstd does not:
/// a frame of blocks that are stored as they are.
fn sized(name: &str, content: &[u8]) -> Vec<u8> {
    if Path::new(name).extension().is_some_and(|kind| kind == "gz") {
        return pack(name, content);
    }
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xc0, 7 << 3];
    frame.extend((content.len() as u64).to_le_bytes());
    let blocks: Vec<&[u8]> = content.chunks(100_000).collect();
    for (index, block) in blocks.iter().enumerate() {
        let is_last = u32::from(index + 1 == blocks.len());
        let header = u32::try_from(block.len()).unwrap() << 3 | is_last;
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(*block);
    }
    frame
}

fn split(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

#[test]
fn an_archive_of_what_was_read_gives_nothing() {
    each_kind(|bench, packed| {
        for is_down in [false, true] {
            bench.append("a.jsonl", lines(1..300));
            bench.catch_up();
            bench.rename("a.jsonl", "a.jsonl.1");
            bench.catch_up();
            if is_down {
                bench.restart();
            }
            bench.pack("a.jsonl.1", &packed("a.jsonl.1"));
            bench.remove("a.jsonl.1");
            for _ in 0..3 {
                bench.catch_up();
            }
            let cursor = bench.tail.cursor(1).unwrap();
            bench.cursors.insert(1, cursor);
            bench.restart();
            assert_eq!(bench.catch_up().events, []);
            assert_eq!(bench.scan().problems, []);
            assert_eq!((bench.lines(), bench.cursors.len()), (expected(1..300), 1));
            assert_eq!(bench.tail.status()[0].path, bench.path(&packed("a.jsonl.1")));
            assert_eq!(bench.state(1), SourceState::Rotated);
            *bench = Bench::new();
        }
    });
}

#[test]
fn an_archive_with_an_unread_tail_gives_only_the_tail() {
    each_kind(|bench, packed| {
        bench.append("a.jsonl", many(1..3000));
        bench.scan();
        for _ in 0..10 {
            let chunk = bench.tail.read(1, 4096);
            bench.store(&chunk);
        }
        bench.append("a.jsonl", many(3000..3010));
        bench.rename("a.jsonl", "a.jsonl.1");
        bench.pack("a.jsonl.1", &packed("a.jsonl.1"));
        bench.remove("a.jsonl.1");
        bench.append("a.jsonl", many(3010..3020));
        bench.restart();
        bench.catch_up();
        assert_eq!(bench.lines(), split(&many(1..3020)));
        assert_eq!(bench.cursors.len(), 2);
    });
}

#[test]
fn an_archive_beside_its_original_is_read_once() {
    each_kind(|bench, packed| {
        bench.append("a.jsonl.1", lines(1..300));
        bench.append("a.jsonl", lines(300..310));
        bench.pack("a.jsonl.1", &packed("a.jsonl.1"));
        bench.catch_up();
        bench.restart();
        bench.catch_up();
        assert_eq!((bench.lines(), bench.cursors.len()), (expected(1..310), 2));
        // The original goes at last; its content stays the same generation.
        bench.remove("a.jsonl.1");
        for _ in 0..3 {
            bench.catch_up();
            bench.wait();
        }
        assert_eq!((bench.lines(), bench.cursors.len()), (expected(1..310), 2));
        assert_eq!(bench.tail.status()[0].path, bench.path(&packed("a.jsonl.1")));
    });
}

#[test]
fn an_archive_with_an_unread_tail_takes_over_from_the_open_file() {
    each_kind(|bench, packed| {
        bench.append("a.jsonl", lines(1..300));
        bench.catch_up();
        bench.append("a.jsonl", lines(300..400));
        bench.rename("a.jsonl", "a.jsonl.1");
        bench.pack("a.jsonl.1", &packed("a.jsonl.1"));
        bench.remove("a.jsonl.1");
        bench.catch_up();
        assert_eq!(bench.lines(), expected(1..400));
        assert_eq!(bench.tail.status()[0].path, bench.path(&packed("a.jsonl.1")));
    });
}

#[test]
fn archives_never_seen_are_read_whole_in_the_order_of_their_age() {
    let mut bench = Bench::new();
    let oldest_first =
        ["a.jsonl-20251230.gz", "a.jsonl-20251231.zst", "a.jsonl.2.gz", "a.jsonl.1.gz", "a.jsonl"];
    for index in [4, 1, 3, 0, 2] {
        let number = u32::try_from(index).unwrap() * 1000;
        let text = many(number..number + 1000);
        fs::write(
            bench.path(oldest_first[index]),
            match index {
                4 => text.into_bytes(),
                _ => pack(oldest_first[index], text.as_bytes()),
            },
        )
        .unwrap();
    }
    bench.scan();
    assert_eq!(bench.tail.pending(), [1], "the others wait for the oldest");
    assert!(!bench.tail.status()[0].is_size_known);
    bench.drain();
    assert!(bench.tail.status()[0].is_size_known);
    assert_eq!(bench.lines(), split(&many(0..5000)));
    let states: Vec<_> = (1..6).map(|generation| bench.state(generation)).collect();
    assert_eq!(states[3..], [SourceState::Rotated, SourceState::Live]);
}

#[test]
fn an_archive_that_is_being_written_gives_its_complete_lines() {
    each_kind(|bench, packed| {
        let name = packed("a.jsonl.1");
        let text = many(0..6000);
        let archive = pack(&name, text.as_bytes());
        let mut had = 0;
        for percent in [0, 1, 30, 70, 99] {
            bench.rewrite(&name, &archive[..archive.len() * percent / 100]);
            let report = bench.catch_up();
            assert_eq!(report.problems, [], "it may be in the making");
            let lines = bench.lines();
            assert_eq!(lines, split(&text)[..lines.len()]);
            assert!(lines.len() >= had);
            had = lines.len();
        }
        assert!(had > 2000, "{had}");
        // It stays so: that is a problem, once; nothing loops.
        bench.wait();
        assert_eq!(kinds(&bench.scan().problems), [(bench.path(&name), ProblemKind::Damaged)]);
        assert_eq!((bench.tail.pending(), bench.tail.finishable(bench.now)), (vec![], vec![]));
        assert_eq!(bench.scan().problems, []);
        bench.restart();
        bench.catch_up();
        bench.scan();
        assert_eq!(bench.tail.problems().count(), 1);
        bench.rewrite(&name, &archive);
        bench.catch_up();
        assert_eq!(bench.tail.problems().count(), 0);
        assert_eq!((bench.lines(), bench.cursors.len()), (split(&text), 1));
    });
}

#[test]
fn an_archive_cut_before_what_was_read_waits_for_the_rest() {
    each_kind(|bench, packed| {
        let text = many(0..6000);
        bench.append("a.jsonl", &text);
        bench.catch_up();
        bench.remove("a.jsonl");
        bench.restart();
        for _ in 0..3 {
            bench.catch_up();
        }
        assert_eq!(bench.state(1), SourceState::Gone);
        let name = packed("a.jsonl.1");
        let archive = pack(&name, (text.clone() + &many(6000..6100)).as_bytes());
        bench.append(&name, &archive[..archive.len() * 7 / 10]);
        assert_eq!(bench.catch_up().problems, []);
        let report = bench.catch_up();
        assert_eq!(kinds(&report.problems), [(bench.path(&name), ProblemKind::Damaged)]);
        bench.append(&name, &archive[archive.len() * 7 / 10..]);
        bench.catch_up();
        assert_eq!((bench.lines(), bench.cursors.len()), (split(&many(0..6100)), 1));
        assert_eq!(bench.tail.problems().count(), 0);
    });
}

#[test]
fn an_archive_is_read_to_the_end_of_its_last_member() {
    each_kind(|bench, packed| {
        let name = packed("a.jsonl.1");
        let halves = many(0..2000);
        let (first, second) = halves.split_at(halves.len() / 2 + 7);
        bench.append(&name, pack(&name, first.as_bytes()));
        bench.append(&name, pack(&name, second.as_bytes()));
        bench.catch_up();
        assert_eq!(bench.lines(), split(&halves));
        // And so is what a writer adds.
        bench.append(&name, pack(&name, many(2000..2010).as_bytes()));
        bench.catch_up();
        assert_eq!((bench.lines(), bench.cursors.len()), (split(&many(0..2010)), 1));
    });
}

#[test]
fn what_stands_before_damage_is_read_and_the_damage_is_told() {
    each_kind(|bench, packed| {
        let text = many(0..6000);
        let sound = pack(&packed("a.jsonl.1"), text.as_bytes());
        let other = many(10_000..16_000);
        let whole = pack(&packed("b.jsonl.1"), other.as_bytes());
        let mut torn = whole.clone();
        let middle = torn.len() / 2;
        torn[middle..middle + 100].fill(0x55);
        bench.append(&packed("a.jsonl.1"), [&sound[..], b"and then?"].concat());
        bench.append(&packed("b.jsonl.1"), &torn);
        bench.append(&packed("c.jsonl.1"), lines(1..3));
        let mut problems = kinds(&bench.catch_up().problems);
        problems.extend(kinds(&bench.catch_up().problems));
        problems.sort();
        let damaged = ["a.jsonl.1", "b.jsonl.1", "c.jsonl.1"]
            .map(|name| (bench.path(&packed(name)), ProblemKind::Damaged));
        assert_eq!(problems, damaged);
        let read = bench.lines();
        assert_eq!(read[..6000], split(&text));
        assert_eq!(read[6000..][..2500], split(&other)[..2500]);
        // What is read from a sound one in its place is all of it.
        bench.rewrite(&packed("b.jsonl.1"), &whole);
        bench.catch_up();
        bench.catch_up();
        let of_b = bench.tail.status().into_iter().filter(|s| s.stream.starts_with('b'));
        assert_eq!(of_b.map(|status| status.committed).max(), Some(other.len() as u64));
        let left: Vec<_> = bench.tail.problems().map(|problem| problem.path.clone()).collect();
        assert_eq!(left, ["a.jsonl.1", "c.jsonl.1"].map(|name| bench.path(&packed(name))));
    });
}

#[test]
fn an_archive_that_does_not_match_its_checksum_is_told() {
    each_kind(|bench, packed| {
        let name = packed("a.jsonl.1");
        let mut archive = pack(&name, many(0..2000).as_bytes());
        // The last four bytes of a frame, and those before the size of a member.
        let place = archive.len() - if packed("a") == "a.gz" { 6 } else { 2 };
        archive[place] ^= 1;
        bench.append(&name, &archive);
        bench.catch_up();
        assert_eq!(bench.lines(), split(&many(0..2000)));
        assert_eq!(kinds(&bench.catch_up().problems), [(bench.path(&name), ProblemKind::Damaged)]);
    });
}

#[test]
fn an_archive_replaced_by_other_content_is_a_new_generation() {
    each_kind(|bench, packed| {
        let name = packed("a.jsonl.1");
        bench.append(&name, pack(&name, lines(1..300).as_bytes()));
        bench.catch_up();
        bench.rewrite(&name, pack(&name, lines(300..700).as_bytes()));
        let rewritten = Event::Rewritten { generation: 1, lost_bytes: 0 };
        assert!(bench.catch_up().events.contains(&rewritten));
        assert_eq!((bench.lines(), bench.cursors.len()), (expected(1..700), 2));
        assert_eq!(bench.state(1), SourceState::Gone);
    });
}

#[test]
fn lines_in_archives_are_found_again_while_reading_goes_on() {
    each_kind(|bench, packed| {
        let name = packed("a.jsonl.1");
        bench.append(&name, pack(&name, many(0..6000).as_bytes()));
        bench.scan();
        let mut first = None;
        let mut at = None;
        for _ in 0..60 {
            let chunk = bench.tail.read(1, 4096);
            bench.store(&chunk);
            let before = at;
            at = bench.tail.files.peek(1).unwrap().unpacked_to();
            assert!(at >= before, "reading kept its place");
            let Item::Line { offset, length, range, .. } = &chunk.items[0] else { panic!() };
            let first = first.get_or_insert((*offset, *length, chunk.bytes(range).to_vec()));
            let mut line = bench.tail.read_line(1, first.0, first.1).unwrap();
            assert_eq!(line.pop(), Some(b'\n'));
            assert_eq!(line, first.2);
            assert_eq!(bench.tail.files.peek(1).unwrap().unpacked_to(), at);
        }
        bench.drain();
        assert_eq!(bench.lines(), split(&many(0..6000)));
    });
}

#[test]
fn reading_an_archive_unpacks_it_once() {
    each_kind(|bench, packed| {
        let name = packed("a.jsonl.1");
        let text = many(0..6000);
        bench.append(&name, pack(&name, text.as_bytes()));
        let content =
            content::Content::of(File::open(bench.path(&name)).unwrap(), &bench.path(&name));
        let (mut at, mut unpacked) = (0, 0);
        while content.reaches(at + 1).unwrap() {
            // As reading does: a piece, its beginning again, and what stands before its end.
            let piece = content.read_up_to(at, 5000).unwrap();
            assert_eq!(piece, text.as_bytes()[usize::try_from(at).unwrap()..][..piece.len()]);
            content.read_up_to(0, 4096).unwrap();
            content.read_up_to(at.saturating_sub(256), 256).unwrap();
            at += piece.len() as u64 / 2 + 1;
            content.forget_before(at.saturating_sub(256));
            unpacked += content.allow(u64::MAX);
        }
        assert_eq!((at, unpacked), (text.len() as u64, text.len() as u64));
        assert_eq!(content.decoders(), 1);
    });
}

#[test]
fn unpacking_stops_where_it_was_allowed_to_and_goes_on() {
    each_kind(|bench, packed| {
        let name = packed("a.jsonl.1");
        let text = many(0..20_000);
        bench.append(&name, pack(&name, text.as_bytes()));
        let content =
            content::Content::of(File::open(bench.path(&name)).unwrap(), &bench.path(&name));
        let place = text.len() as u64 - 100;
        let mut rounds = 0;
        let bytes = loop {
            content.allow(200_000);
            match content.read_up_to(place, 100) {
                Ok(bytes) => break bytes,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
            rounds += 1;
        };
        assert_eq!(bytes, text.as_bytes()[text.len() - 100..]);
        assert!((3..20).contains(&rounds), "{rounds}");
    });
}

#[test]
fn a_restart_does_not_unpack_what_was_read_before() {
    each_kind(|bench, packed| {
        let name = packed("a.jsonl.1");
        bench.append(&name, sized(&name, many(0..6000).as_bytes()));
        bench.catch_up();
        bench.restart();
        bench.catch_up();
        assert_eq!(bench.tail.files.decoders(), 1);
        assert!(bench.tail.files.peek(1).unwrap().unpacked_to().unwrap() < 300_000);
        assert_eq!(bench.lines().len(), 6000);
        // What is appended or put in its place while down is noticed.
        bench.restart();
        bench.append(&name, sized(&name, many(6000..6010).as_bytes()));
        bench.catch_up();
        assert_eq!((bench.lines(), bench.cursors.len()), (split(&many(0..6010)), 1));
        bench.restart();
        bench.rewrite(&name, sized(&name, (many(0..6010) + &many(7000..7001)).as_bytes()));
        bench.catch_up();
        assert_eq!(bench.lines(), split(&(many(0..6010) + &many(7000..7001))));
    });
}

#[test]
fn few_decoders_are_at_work_however_many_archives_there_are() {
    let mut bench = Bench::new();
    let text = many(0..2000);
    for number in 0..20 {
        let name = format!("{number:02}.jsonl.1.{}", KINDS[number % 2]);
        bench.append(&name, pack(&name, format!("{{\"n\":{number}}}\n{text}").as_bytes()));
    }
    bench.scan();
    while !bench.tail.pending().is_empty() {
        let pending = bench.tail.pending();
        assert!(pending.len() <= 6, "{pending:?}");
        for generation in pending {
            let chunk = bench.tail.read(generation, 50_000);
            bench.store(&chunk);
        }
        assert!(bench.tail.files.decoders() <= 8);
    }
    assert_eq!(bench.lines().len(), 20 * 2001);
}

#[test]
fn an_archive_without_the_name_of_one_is_a_problem_and_read_when_it_has_it() {
    each_kind(|bench, packed| {
        bench.append("a.jsonl.1", pack(&packed("a"), lines(1..300).as_bytes()));
        let report = bench.catch_up();
        assert_eq!(kinds(&report.problems), [(bench.path("a.jsonl.1"), ProblemKind::Compressed)]);
        bench.rename("a.jsonl.1", &packed("a.jsonl.1"));
        bench.catch_up();
        assert_eq!((bench.lines(), bench.tail.problems().count()), (expected(1..300), 0));
    });
}

#[test]
fn an_archive_of_nothing_is_nothing() {
    each_kind(|bench, packed| {
        let name = packed("a.jsonl.1");
        bench.append(&name, pack(&name, b""));
        for _ in 0..3 {
            let report = bench.catch_up();
            assert_eq!((report.events, report.problems), (vec![], vec![]));
        }
    });
}

#[test]
fn the_unterminated_end_of_an_archive_is_a_line_after_the_grace_period() {
    each_kind(|bench, packed| {
        let name = packed("a.jsonl.1");
        bench.append(&name, pack(&name, (lines(1..3) + "{\"half\":").as_bytes()));
        bench.catch_up();
        bench.finish_all();
        assert_eq!(bench.lines(), expected(1..3));
        bench.wait();
        bench.catch_up();
        bench.finish_all();
        assert_eq!(bench.lines().last().unwrap(), "{\"half\":…");
    });
}

#[test]
fn long_lines_and_holes_in_an_archive_are_passed_over() {
    each_kind(|bench, packed| {
        bench.config.line_bytes_max = 10_000;
        bench.restart();
        let name = packed("a.jsonl.1");
        let long = |length: usize| "x".repeat(length) + "\n";
        let text =
            [lines([1]), long(9_999), long(300_000), "\0".repeat(100_000), lines([2])].concat();
        bench.append(&name, pack(&name, text.as_bytes()));
        bench.scan();
        for _ in 0..100 {
            let chunk = bench.tail.read(1, 1000);
            bench.store(&chunk);
        }
        let what = bench.what();
        assert_eq!(what[2..4], [What::Overlong, What::Zeros]);
        assert_eq!(what.len(), 5);
        assert_eq!(bench.lines()[2], line(2));
    });
}
