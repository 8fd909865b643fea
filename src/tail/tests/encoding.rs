//! Files that are not UTF-8 throughout.

use super::*;

fn utf16(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(to_bytes).collect()
}

#[test]
fn a_utf16_file_is_one_problem_until_it_is_replaced_by_utf8() {
    let text = lines(1..300);
    for (mark, to_bytes) in [
        ("\u{feff}", u16::to_le_bytes as fn(u16) -> [u8; 2]),
        ("\u{feff}", u16::to_be_bytes),
        ("", u16::to_le_bytes),
        ("", u16::to_be_bytes),
    ] {
        for name in ["a.jsonl", "a.jsonl.1.gz"] {
            let mut bench = Bench::new();
            let bytes = utf16(&format!("{mark}{text}"), to_bytes);
            let is_packed = name != "a.jsonl";
            bench.append(name, if is_packed { pack(name, &bytes) } else { bytes });
            let report = bench.catch_up();
            assert_eq!(kinds(&report.problems), [(bench.path(name), ProblemKind::Encoding)]);
            assert!(report.problems[0].message.contains("iconv"));
            assert_eq!((bench.catch_up().problems, bench.tail.status()), (vec![], vec![]));
            bench.append("b.jsonl", lines(900..901));
            bench.rewrite(
                name,
                if is_packed { pack(name, text.as_bytes()) } else { text.clone().into() },
            );
            bench.catch_up();
            assert_eq!(bench.tail.problems().count(), 0);
            let mut read = bench.lines();
            read.sort();
            assert_eq!(read, expected((1..300).chain([900])));
        }
    }
}

#[test]
fn a_log_that_is_rewritten_as_utf16_is_a_problem() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", lines(1..3));
    bench.catch_up();
    bench.rewrite("a.jsonl", utf16(&("\u{feff}".to_owned() + &lines(1..9)), u16::to_le_bytes));
    let report = bench.catch_up();
    assert_eq!(kinds(&report.problems), [(bench.path("a.jsonl"), ProblemKind::Encoding)]);
    assert_eq!(bench.lines(), expected(1..3));
}

#[test]
fn the_first_byte_of_a_mark_waits_for_the_second() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", b"\xff");
    let report = bench.catch_up();
    assert_eq!((report.events, report.problems), (vec![], vec![]));
    bench.append("a.jsonl", b"\xfe{\0");
    assert_eq!(kinds(&bench.catch_up().problems), [(bench.path("a.jsonl"), ProblemKind::Encoding)]);
}

#[test]
fn a_utf8_mark_is_part_of_the_first_line() {
    let mut bench = Bench::new();
    bench.append("a.jsonl", format!("\u{feff}{}", lines(1..3)));
    bench.catch_up();
    assert_eq!(bench.lines()[0], format!("\u{feff}{}", line(1)));
    assert_eq!(bench.cursors[&1].offset, 3 + lines(1..3).len() as u64);
}
