//! Damaged lines: whatever bytes come, nothing panics, every byte is accounted for, what is read
//! can be found again, and the work is bounded.

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{Parsed, Parser, Part};
use crate::model::{Line, Micros, Record, Text};

const NOW: Micros = Micros(1_798_675_200_000_000); // 2026-12-31T00:00:00Z
const OFFSET: u64 = 1000;

/// One of every dialect.
const LINES: [&str; 5] = [
    concat!(
        r#"{"actor":"client","tool":"files.read","args":{"path":"é/x","all":[1,{"n":null}]},"#,
        r#""outcome":"ASK","request_id":"3f9c","ts":"2026-11-20T08:00:00Z"}"#,
    ),
    concat!(
        r#"{"direction":"client->server","decision":"deny","tool":"delete_file","#,
        r#""args":["path"],"ts":"2026-05-04T09:12:44+00:00"}"#,
    ),
    concat!(
        r#"{"direction":"server->client","raw":"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"te","#,
        r#""ts":"2026-05-04T09:12:45+00:00"}"#,
    ),
    concat!(
        r#"{"time":1764400000.25,"request_id":"r1","caller":"nadia","tool":"look","#,
        r#""outcome":"ok","duration_ms":12,"flags":"a,b"}"#,
    ),
    concat!(
        r#"{"ts":"2026-11-20T08:01:02.000003+00:00","subject":"u-e","tenant":"acme","tool":"s","#,
        r#""params":{"status":"open"},"dropped":["query"],"outcome":"ok"}"#,
    ),
];

fn parse(parser: &mut Parser, bytes: &[u8]) -> Parsed {
    let length = bytes.len() as u64 + 1;
    let line = Line { generation: 1, offset: OFFSET, length, bytes };
    parser.parse(&line, &Text::from("s"), NOW)
}

/// The parts of a line as (offset, length), with the record where there is one.
fn ranges(parsed: Parsed) -> Vec<(u64, u64, Option<Record>)> {
    let parts = match parsed {
        Parsed::Blank => return Vec::new(),
        Parsed::Record(record) => vec![Part::Record(record)],
        Parsed::Reject(reject) => vec![Part::Reject(reject)],
        Parsed::Parts(parts) => parts,
    };
    let range = |part| match part {
        Part::Record(record) => (record.id.offset, record.length, Some(record)),
        Part::Reject(reject) => (reject.offset, reject.length, None),
    };
    parts.into_iter().map(range).collect()
}

/// Without what tells where it stood.
fn stripped(mut record: Record) -> Record {
    record.id.offset = 0;
    record.length = 0;
    let ours = ["salvaged", "concatenated", "list-item", "maybe-argument"];
    record.flags.retain(|flag| !ours.contains(&&**flag));
    record
}

/// Parses a line and checks that its parts cover it exactly, and that each record is read again from
/// its own bytes. Returns the records.
fn checked(parser: &mut Parser, bytes: &[u8]) -> Vec<Record> {
    let shown = || String::from_utf8_lossy(bytes).into_owned();
    let parsed = parse(parser, bytes);
    if parsed == Parsed::Blank {
        return Vec::new();
    }
    let at = |offset: u64| bytes.len().min(usize::try_from(offset - OFFSET).unwrap());
    let mut end = OFFSET;
    let mut records = Vec::new();
    for (offset, length, record) in ranges(parsed) {
        assert!(offset == end && length > 0, "a hole or an overlap at {offset}: {}", shown());
        end += length;
        let Some(record) = record else { continue };
        let own = &bytes[at(offset)..at(end)];
        let again = ranges(parse(parser, own)).pop().and_then(|(.., record)| record);
        assert_eq!(again.map(stripped), Some(stripped(record.clone())), "{}", shown());
        records.push(stripped(record));
    }
    assert_eq!(end, OFFSET + bytes.len() as u64 + 1, "{}", shown());
    records
}

fn parser() -> Parser {
    Parser::new([7; 32], vec![])
}

#[test]
fn a_writer_killed_at_any_byte_hides_nothing_of_the_next_one() {
    let mut parser = parser();
    for half in LINES {
        for whole in LINES {
            let expected = checked(&mut parser, whole.as_bytes());
            for cut in 1..half.len() {
                let line = [&half.as_bytes()[..cut], whole.as_bytes()].concat();
                let shown = String::from_utf8_lossy(&line).into_owned();
                assert_eq!(checked(&mut parser, &line), expected, "{shown}");
                let ranges = ranges(parse(&mut parser, &line));
                assert_eq!(ranges[0].1, cut as u64, "the reject is exactly the half: {shown}");
            }
        }
    }
}

#[test]
fn two_writers_killed_on_one_line_hide_nothing_either() {
    let mut parser = parser();
    let whole = LINES[0];
    let expected = checked(&mut parser, whole.as_bytes());
    for first in (1..LINES[4].len()).step_by(3) {
        for second in (1..LINES[3].len()).step_by(5) {
            let line = [&LINES[4].as_bytes()[..first], &LINES[3].as_bytes()[..second]].concat();
            let line = [&line, whole.as_bytes()].concat();
            assert_eq!(checked(&mut parser, &line).last(), expected.first());
            let line = [whole.as_bytes(), &line].concat();
            assert_eq!(checked(&mut parser, &line).first(), expected.first());
        }
    }
}

#[test]
fn a_line_cut_short_at_any_byte_gives_no_record() {
    let mut parser = parser();
    for line in LINES {
        for cut in 1..line.len() {
            assert_eq!(checked(&mut parser, &line.as_bytes()[..cut]), []);
        }
    }
}

#[test]
fn twenty_thousand_damaged_lines_are_accounted_for() {
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(20_261_129));
    let mut parser = parser();
    let (mut read, mut rejected, mut parted) = (0, 0, 0);
    for _ in 0..20_000 {
        let line = dice.damaged();
        let records = checked(&mut parser, &line);
        match parse(&mut parser, &line) {
            Parsed::Parts(_) => parted += 1,
            Parsed::Reject(_) => rejected += 1,
            _ => read += records.len(),
        }
    }
    assert!(read > 1000 && rejected > 1000 && parted > 1000, "{read} {rejected} {parted}");
}

struct Dice(ChaCha8Rng);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0.next_u32() as usize % count
    }

    fn line(&mut self) -> Vec<u8> {
        LINES[self.below(LINES.len())].as_bytes().to_vec()
    }

    fn damaged(&mut self) -> Vec<u8> {
        let mut line = self.line();
        for _ in 0..=self.below(3) {
            let at = self.below(line.len() + 1);
            let last = line.len() - 1;
            match self.below(9) {
                0 => line[at.min(last)] ^= 1 << self.below(8),
                1 => line.truncate(at.max(1)),
                2 => drop(line.drain(..at.min(last))),
                3 => line.extend(self.line()),
                4 => {
                    line.truncate(at.max(1));
                    line.extend(self.line());
                }
                5 => drop(line.splice(at..at, vec![0; 1 + self.below(20)])),
                6 => {
                    let pair =
                        [r#""tool":"other","#, r#""outcome":"ok","#, r#""args":{"a":1,"a":2},"#];
                    drop(line.splice(1..1, pair[self.below(3)].bytes()));
                }
                7 => {
                    let odd = ["\u{feff}", ",", "[", "]", "{", "}", "\"", "\\", "\r", "1e999"];
                    drop(line.splice(at..at, odd[self.below(odd.len())].bytes()));
                }
                _ => {
                    let other = self.line();
                    line.splice(at..at, other);
                }
            }
        }
        line.retain(|byte| *byte != b'\n');
        line
    }
}

/// Were the work on any of these not in proportion to its length, this test would not end today.
#[test]
fn a_hostile_line_takes_no_more_than_its_length_deserves() {
    const BYTES: usize = 300_000;
    let mut parser = parser();
    let record = r#"{"actor":"client","tool":"t"}"#;
    for (start, again, records) in [
        ("", "{", 0),
        ("", "{\"", 0),
        ("", "{\"a\":", 0),
        ("", "{\"a\":{\"b\":\"", 0),
        ("", "{}", 0),
        ("", "[{},", 0),
        ("", "[", 0),
        ("", "\\ud800", 0),
        (record, "{", 1),
        (record, "x{\"a\":", 1),
        (record, " {\"a\":\"", 1),
        (record, "{\"a\":\"\\", 1),
        (record, "{\"a\":[[[[[[", 1),
        (record, "]", 1),
        (record, "\0", 1),
        ("", record, BYTES / record.len() + 1),
        ("", "{\"actor\":\"client\",\"tool\":", 0),
    ] {
        let line = start.to_owned() + &again.repeat(BYTES / again.len() + 1);
        assert_eq!(checked(&mut parser, line.as_bytes()).len(), records, "{start} {again}");
    }
}

#[test]
fn beginnings_are_tried_until_the_work_is_out_of_proportion() {
    let record = r#"{"actor":"client","tool":"t"}"#;
    let ones = "1,".repeat(10_000);
    for (depth, records) in [(2, 2), (100, 1)] {
        let open = "{\"a\":".repeat(depth);
        let line = format!("{record}x{open}[{ones}1 x {record}");
        assert_eq!(checked(&mut parser(), line.as_bytes()).len(), records, "{depth}");
    }
}

#[test]
fn a_line_of_too_many_objects_is_read_up_to_the_limit_and_says_so() {
    let line = r#"{"actor":"client","tool":"t"}"#.repeat(70_000);
    let Parsed::Parts(parts) = parse(&mut parser(), line.as_bytes()) else { panic!("parts") };
    assert_eq!(parts.len(), 65_537);
    let Some(Part::Reject(reject)) = parts.last() else { panic!("the rest") };
    assert_eq!(reject.reason, "more than 65536 objects on one line; write one object per line");
}

#[test]
fn large_and_deep_values_are_read_or_rejected_whole() {
    let line =
        |args: &str| format!(r#"{{"actor":"client","tool":"t","args":{args},"outcome":"ASK"}}"#);
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let keys: Vec<String> = (0..1_000_000).map(|key| format!("\"k{key}\":{key}")).collect();
    let mut parser = parser();
    for (args, flags) in [
        (format!("{{\"deep\":{deep}}}"), &["odd-json"][..]),
        (format!("{{{}}}", keys.join(",")), &["args-cut"]),
        (format!("{{\"long\":\"{}\"}}", "é".repeat(8_000_000)), &[]),
        (format!("{{\"n\":{}}}", "9".repeat(400)), &["odd-json"]),
    ] {
        let parsed = parse(&mut parser, line(&args).as_bytes());
        let Parsed::Record(record) = parsed else { panic!("a record") };
        assert_eq!(record.flags, flags.iter().map(|flag| Text::from(*flag)).collect::<Vec<_>>());
        assert_eq!(record.tool.as_deref(), Some("t"));
    }
    assert_eq!(checked(&mut parser, "{\"a\":".repeat(100_000).as_bytes()), []);
}

proptest! {
    #[test]
    fn any_bytes_are_covered_exactly(bytes: Vec<u8>) {
        checked(&mut parser(), &bytes);
    }

    #[test]
    fn any_pieces_of_lines_are_covered_exactly(
        pieces in prop::collection::vec((0_usize..5, 0_usize..150, 0_usize..150), 1..6),
        between in prop::sample::select(vec!["", " ", ",", "\0", "\r", "x", "\u{feff}", "[", "]", "}"]),
    ) {
        let cut = |(line, from, to): &(usize, usize, usize)| {
            let line = LINES[*line].as_bytes();
            let (from, to) = (from.min(&line.len()).to_owned(), *to.min(&line.len()));
            if from < to && from % 2 == 0 { line[from..to].to_vec() } else { line.to_vec() }
        };
        let pieces: Vec<Vec<u8>> = pieces.iter().map(cut).collect();
        checked(&mut parser(), &pieces.join(between.as_bytes()));
    }
}
