//! Runs the cases under `tests/dialects`: every `.jsonl` is parsed line by line and rendered beside
//! it as `.expect`. `UPDATE_EXPECT=1` writes the expected texts anew.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::{Parsed, Parser, Part};
use crate::model::{Args, Line, Micros, OutcomeClass, Record, Reject, Text};

const NOW: Micros = Micros(1_798_675_200_000_000); // 2026-12-31T00:00:00Z

fn parser() -> Parser {
    Parser::new([7; 32], vec![("fine then".to_owned(), OutcomeClass::Ok)])
}

fn parse(parser: &mut Parser, bytes: &[u8]) -> Parsed {
    let length = bytes.len() as u64 + 1;
    parser.parse(&Line { generation: 1, offset: 0, length, bytes }, &Text::from("s"), NOW)
}

#[test]
fn every_case_reads_as_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialects");
    let mut cases = Vec::new();
    find_cases(&root, &mut cases);
    assert!(cases.len() >= 8, "cases are missing under {}", root.display());
    for case in cases {
        let mut parser = parser();
        let lines = fs::read(&case).unwrap();
        let mut shown = String::new();
        let lines = lines.strip_suffix(b"\n").unwrap_or(&lines).split(|byte| *byte == b'\n');
        for (index, line) in lines.enumerate() {
            shown.extend([
                (index + 1).to_string().as_str(),
                " ",
                &render(&parse(&mut parser, line)),
                "\n",
            ]);
        }
        let expect = case.with_extension("expect");
        #[expect(clippy::disallowed_methods, reason = "the switch of this test alone")]
        if std::env::var("UPDATE_EXPECT").is_ok() {
            fs::write(&expect, &shown).unwrap();
        }
        let expected = fs::read_to_string(&expect).unwrap_or_default();
        assert_eq!(shown, expected, "{} (UPDATE_EXPECT=1 writes it anew)", case.display());
    }
}

#[test]
fn a_rejected_line_shows_a_bounded_head_without_secrets() {
    // The cut goes through the secret: its first half must not stay either.
    let before = "x ".repeat((64 * 1024 - 10) / 2);
    let line = format!("{before}ghp_canarycanarycanary{} {}", "0".repeat(99), "y".repeat(100_000));
    let Parsed::Reject(reject) = parse(&mut parser(), line.as_bytes()) else { panic!("a reject") };
    assert!(reject.head.len() <= 64 * 1024 && reject.head.len() > 60_000);
    assert!(!reject.head.contains("ghp_c"));
    assert_eq!(reject.length, line.len() as u64 + 1);
}

#[test]
fn a_secret_at_the_end_of_what_is_seen_of_a_line_does_not_stay() {
    // Masking shortens the line, so that the end of what was looked at is shown.
    let mut line = "password=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ".repeat(2000);
    line.truncate(68 * 1024 - 10);
    let line = format!("{line} ghp_canarycanarycanary");
    let Parsed::Reject(reject) = parse(&mut parser(), line.as_bytes()) else { panic!("a reject") };
    assert!(reject.head.len() < 64 * 1024);
    assert!(!reject.head.contains("ghp_c"));
}

#[test]
fn over_long_fields_are_cut_and_say_so() {
    let long = "t".repeat(5000);
    let line = format!(
        r#"{{"actor":"client","tool":"{long}","outcome":"DENIED","detail":"{long}","tenant":"x"}}"#
    );
    let Parsed::Record(record) = parse(&mut parser(), line.as_bytes()) else { panic!("a record") };
    assert!(record.tool.is_some_and(|tool| tool.len() <= 1024));
    assert!(record.detail.is_some_and(|detail| detail.len() <= 4096));
    assert_eq!(record.flags, ["long-field".into()] as [Text; 1]);
}

#[test]
fn a_record_of_the_future_is_flagged() {
    let flags = |ts: &str| {
        let line = format!(r#"{{"actor":"server","tool":"read","outcome":"OK","ts":"{ts}"}}"#);
        let Parsed::Record(record) = parse(&mut parser(), line.as_bytes()) else {
            panic!("a record")
        };
        record.flags
    };
    assert_eq!(flags("2026-12-31T00:01:01Z"), ["future".into()] as [Text; 1]);
    assert!(flags("2026-12-31T00:00:59Z").is_empty());
}

fn find_cases(folder: &Path, cases: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_cases(&path, cases);
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            cases.push(path);
        }
    }
    cases.sort();
}

/// One record over a few lines: fields that are not there are not named.
fn render(parsed: &Parsed) -> String {
    match parsed {
        Parsed::Blank => "blank".to_owned(),
        Parsed::Reject(reject) => render_reject(reject),
        Parsed::Record(record) => render_record(record),
        Parsed::Parts(parts) => {
            let shown = parts.iter().map(|part| match part {
                Part::Record(record) => {
                    format!("\n  @{}+{} {}", record.id.offset, record.length, render_record(record))
                }
                Part::Reject(reject) => {
                    format!("\n  @{}+{} {}", reject.offset, reject.length, render_reject(reject))
                }
            });
            format!("{} parts{}", parts.len(), shown.collect::<String>())
        }
    }
}

fn render_reject(reject: &Reject) -> String {
    format!("reject: {}\n    head: {:?}", reject.reason, reject.head)
}

fn render_record(record: &Record) -> String {
    let at = record.at.map_or_else(|| "-".to_owned(), |at| at.to_string());
    let mut lines = vec![
        format!(
            "{} {} {} {} {:?}",
            record.dialect.as_str(),
            record.witness.as_str(),
            record.kind.as_str(),
            record.class.as_str(),
            record.code
        ),
        format!("at {at} {}", record.time_quality.as_str()),
    ];
    lines.extend(render_fields(record));
    lines.extend(render_args(&record.args));
    if !record.flags.is_empty() {
        lines.push(format!("flags {:?}", record.flags));
    }
    if !record.also.is_empty() {
        lines.push(format!("also {:?}", record.also));
    }
    lines.extend(record.extra.as_ref().map(|extra| format!("extra {extra}")));
    lines.join("\n    ")
}

fn render_fields(record: &Record) -> Option<String> {
    let fields = [
        ("tool", &record.tool),
        ("server", &record.server),
        ("detail", &record.detail),
        ("request", &record.request_id),
        ("group", &record.group_id),
        ("trace", &record.trace_id),
        ("tool-use", &record.tool_use_id),
        ("principal", &record.principal),
        ("client", &record.client),
        ("tenant", &record.tenant),
        ("session", &record.session),
    ];
    let texts = fields
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}={:?}", value.as_ref()?)))
        .chain(record.duration_ms.map(|duration_ms| format!("ms={duration_ms}")));
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

fn render_args(args: &Args) -> Option<String> {
    if *args == Args::default() {
        return None;
    }
    let mut parts = vec![format!("args {}", format!("{:?}", args.view).to_lowercase())];
    for value in &args.values {
        let summary = value.chars.filter(|_| value.summarised);
        let summary = summary.map(|chars| format!("(summary of {chars})")).unwrap_or_default();
        parts.push(format!("{}={}{summary}", value.name, value.text));
    }
    if !args.dropped.is_empty() {
        parts.push(format!("dropped {:?}", args.dropped));
    }
    Some(parts.join(" "))
}

/// A line of one of the dialects with parts that are likely to break something.
fn hostile_line() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "actor",
        "direction",
        "decision",
        "tool",
        "args",
        "params",
        "dropped",
        "outcome",
        "detail",
        "ts",
        "time",
        "raw",
        "caller",
        "flags",
        "subject",
        "tenant",
        "request_id",
        "duration_ms",
        "traceparent",
        "parse_error",
        "method",
        "x",
        "password",
    ]);
    let value = prop::sample::select(vec![
        "null",
        "true",
        "0",
        "-1e300",
        "1764400000.25",
        "\"\"",
        "\"-\"",
        "\"client\"",
        "\"server\"",
        "\"client->server\"",
        "\"server->client\"",
        "\"INPUT ACCEPTED\"",
        "\"ok\"",
        "{}",
        "[]",
        "[\"a\",1]",
        "{\"a\":{\"b\":[1]},\"a\":2}",
        "\"{\\\"id\\\":1,\\\"res\"",
        "\"\\u0000\"",
        "\"<5 chars>\"",
        "\"a,,b\"",
        "\"00-\"",
    ]);
    prop::collection::vec((key, value), 0..12).prop_map(|pairs| {
        let pairs: Vec<String> =
            pairs.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", pairs.join(","))
    })
}

proptest! {
    #[test]
    fn any_bytes_give_one_answer(bytes: Vec<u8>) {
        let parsed = parse(&mut parser(), &bytes);
        let blank = bytes.trim_ascii().is_empty();
        prop_assert_eq!(parsed == Parsed::Blank, blank);
    }

    #[test]
    fn any_pairs_and_any_cut_give_one_answer(line in hostile_line(), cut in 0_usize..200) {
        let mut parser = parser();
        let whole = parse(&mut parser, line.as_bytes());
        prop_assert_eq!(&whole, &parse(&mut parser, line.as_bytes()), "a second reading differs");
        if let Parsed::Record(record) = whole {
            prop_assert!(record.flags.is_sorted());
            prop_assert!(record.args.values.is_sorted_by(|a, b| a.name <= b.name));
            prop_assert!(record.args.dropped.is_sorted());
            if let Some(extra) = record.extra {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&extra).is_ok());
            }
        }
        let bytes = line.as_bytes();
        parse(&mut parser, bytes.get(..cut).unwrap_or(bytes));
    }

    #[test]
    fn a_secret_under_a_secret_name_never_shows(
        secret in "canary[a-zA-Z0-9+/=_-]{8,60}",
        name in prop::sample::select(vec![
            "password", "API-Key", "accessToken", "client_secret", "Cookie",
        ]),
        wrap in prop::sample::select(vec![
            "\"SECRET\"", "[1,\"SECRET\"]", "{\"value\":\"SECRET\"}", "\"a SECRET b\"",
        ]),
        depth in 0_usize..4,
        line in prop::sample::select(vec![
            r#"{"actor":"client","tool":"t","args":ARGS,"outcome":"ASK"}"#,
            r#"{"actor":"client","tool":"t","args":ARGS,"outcome":"INPUT ACCEPTED"}"#,
            r#"{"actor":"client","tool":"t","args":ARGS,"args":{},"outcome":"ASK"}"#,
            r#"{"actor":"client","tool":ARGS,"args":[],"outcome":"ASK","x":ARGS}"#,
            r#"{"subject":"u","tool":"t","params":ARGS,"outcome":"ok","detail":ARGS}"#,
            r#"{"caller":"u","tool":"t","args":ARGS,"outcome":"ok","flags":ARGS}"#,
            r#"{"direction":"client->server","decision":"deny","tool":"t","args":ARGS}"#,
            r#"{"direction":"server->client","raw":TEXT}"#,
            r#"{"direction":"client->server","parse_error":true,"raw":TEXT}"#,
            r#"{"actor":"client","tool":"t","args":{"body":TEXT},"outcome":"ASK"}"#,
            r#"{"hello":ARGS}"#,
            r#"{"hello":TEXT"#,
            "not json ARGS",
        ]),
    ) {
        let mut args = format!("{{\"{name}\":{}}}", wrap.replace("SECRET", &secret));
        for _ in 0..depth {
            args = format!("{{\"b\":1,\"a\":{args}}}");
        }
        let text = serde_json::to_string(&args).unwrap();
        let line = line.replace("ARGS", &args).replace("TEXT", &text);
        let shown = format!("{:?}", parse(&mut parser(), line.as_bytes()));
        prop_assert!(!shown.contains("canary"), "{}", shown);
    }
}
