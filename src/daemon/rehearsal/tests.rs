//! Lines of a case become the calls that a daemon makes of them, and bad ones become none.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::catalogue::Catalogue;
use crate::daemon::{Pipeline, Setup};
use crate::detect::RuleSet;
use crate::dialects::Parsed;
use crate::model::{Dialect, Discrepancy, Label, Line, Micros, Ran, Tri};
use crate::simulate::{Scenario, SimEvent, Simulation};
use crate::store::{CallFilter, OpenOptions};
use crate::tail::TailConfig;

fn log(name: &str, dialect: Dialect, lines: &[&str]) -> CaseLog {
    CaseLog { name: name.into(), dialect, lines: lines.iter().map(|line| (*line).into()).collect() }
}

/// A line of a client or a server, seconds after ten o'clock. The client names the call by its file.
fn line(actor: &str, second: u32, tool: &str, file: &str, outcome: &str) -> String {
    let (minute, second) = (second / 60, second % 60);
    let request =
        if actor == "client" { format!("\"request_id\":\"{file}\",") } else { String::new() };
    format!(
        "{{{request}\"actor\":\"{actor}\",\"tool\":\"{tool}\",\"args\":{{\"filepath\":\"{file}\"}},\
         \"outcome\":\"{outcome}\",\"ts\":\"2026-11-20T10:{minute:02}:{second:02}Z\"}}"
    )
}

fn two_sided(name: &str, lines: &[String]) -> CaseLog {
    log(name, Dialect::TwoSided, &lines.iter().map(String::as_str).collect::<Vec<_>>())
}

fn read(logs: &[CaseLog]) -> Vec<CaseCall> {
    Rehearsal::default().calls(logs).unwrap()
}

fn unread(logs: &[CaseLog]) -> String {
    Rehearsal::default().calls(logs).unwrap_err()
}

#[test]
fn a_call_that_two_logs_tell_of_is_one_and_each_of_its_lines_names_it() {
    let client = two_sided(
        "client.jsonl",
        &[
            line("client", 0, "delete_file", "a", "ASK"),
            line("client", 3, "delete_file", "a", "APPROVED"),
            line("client", 9, "read_file", "b", "COMPLETED"),
        ],
    );
    let server = two_sided("server.jsonl", &[line("server", 4, "delete_file", "a", "success")]);
    let calls = read(&[client, server]);
    let told: Vec<_> = calls.iter().map(|made| (&*made.call.tool, made.lines.as_slice())).collect();
    assert_eq!(told, [("delete_file", [0, 1, 3].as_slice()), ("read_file", [2].as_slice())]);
    assert_eq!(calls[0].call.ran, Ran::Yes);
    // And the tools have their labels.
    assert_eq!(calls[0].labels.get(Label::Destructive), Tri::Yes);
    assert_eq!(calls[1].labels.get(Label::Sensitive), Tri::Yes);
}

#[test]
fn a_line_that_is_no_record_of_its_dialect_is_told_with_its_number_and_nothing_is_read() {
    let good = line("client", 0, "read_file", "a", "COMPLETED");
    let told = unread(&[
        two_sided("a.jsonl", std::slice::from_ref(&good)),
        log("b.jsonl", Dialect::Gate, &["{\"foo\":1}", "prose", &good]),
    ]);
    assert!(
        told.starts_with("line 1 cannot be read: no known format has these keys: foo"),
        "{told}"
    );
    assert!(told.contains("; line 2 cannot be read: "), "{told}");
    let other =
        "; line 3 cannot be read: this is a line of the dialect `two-sided`, and not of `gate`";
    assert!(told.ends_with(other), "{told}");
    // Half a line behind a whole one is not passed over either.
    let torn = format!("{good}{}", good.split_once("\"args\"").unwrap().0);
    let told = unread(&[two_sided("a.jsonl", &[good.clone(), torn])]);
    assert!(told.starts_with("line 1 cannot be read: "), "{told}");
    let many = vec!["x".to_owned(); 9];
    assert!(unread(&[two_sided("a.jsonl", &many)]).ends_with("; and 4 more"));
}

#[test]
fn a_record_of_another_dialect_behind_one_of_the_right_one_is_told_too() {
    let gate = "{\"caller\":\"u\",\"tool\":\"t\",\"outcome\":\"ok\",\"duration_ms\":1,\"time\":1795161600}";
    let both = gate.to_owned() + &line("server", 0, "read_file", "a", "success");
    let told = unread(&[log("a.jsonl", Dialect::Gate, &[gate, &both])]);
    let expected =
        "line 1 cannot be read: this is a line of the dialect `two-sided`, and not of `gate`";
    assert_eq!(told, expected);
}

#[test]
fn lines_of_one_id_beyond_the_steps_of_a_call_are_another_call_and_name_it() {
    let lines: Vec<String> =
        (0..300).map(|second| line("client", second, "read_file", "a", "APPROVED")).collect();
    let calls = read(&[two_sided("a.jsonl", &lines)]);
    let named: Vec<usize> = calls.iter().flat_map(|made| made.lines.iter().copied()).collect();
    assert_eq!(calls.iter().map(|made| made.lines.len()).collect::<Vec<_>>(), [256, 44]);
    assert!(named.into_iter().eq(0..300));
}

#[test]
fn clocks_that_do_not_settle_fail_the_case() {
    let mut lines = [Vec::new(), Vec::new()];
    for number in 0..20 {
        let file = number.to_string();
        lines[0].push(line("client", number * 60, "read_file", &file, "COMPLETED"));
        lines[1].push(line("server", number * 60 + 3, "read_file", &file, "success"));
    }
    let logs = [two_sided("client", &lines[0]), two_sided("server", &lines[1])];
    let mut parser = Parser::new([0; 32], Vec::new());
    let pasted = Pasted::read(&logs, &mut parser).unwrap();
    let made = |rounds| joined::calls(&pasted.records, Clocks::default(), rounds);
    let told = made(0).unwrap_err();
    assert!(told.contains("does not settle"), "{told}");
    assert_eq!(made(joined::ROUNDS_MAX).unwrap().len(), 20);
}

#[test]
fn a_line_with_more_records_than_a_case_may_have_is_refused() {
    let line = "{\"caller\":\"u\",\"tool\":\"t\",\"outcome\":\"ok\",\"time\":1795161600}";
    let line = line.repeat(10_001);
    assert!(unread(&[log("a.jsonl", Dialect::Gate, &[&line])]).contains("more than 10000 records"));
}

#[test]
fn blank_lines_count_and_say_nothing_and_a_line_names_all_that_is_on_it() {
    let calls = read(&[two_sided(
        "a.jsonl",
        &[
            " ".to_owned(),
            line("server", 0, "read_file", "a", "success")
                + &line("server", 100, "read_file", "b", "success"),
            line("server", 200, "read_file", "c", "success"),
        ],
    )]);
    let lines: Vec<_> = calls.iter().map(|made| made.lines.as_slice()).collect();
    assert_eq!(lines, [[1], [1], [2]]);
}

#[test]
fn a_log_goes_on_where_it_is_named_again_and_lines_without_a_time_take_their_neighbours() {
    let timed = line("server", 7, "read_file", "a", "success");
    let timeless = "{\"caller\":\"u\",\"tool\":\"list_dir\",\"outcome\":\"ok\",\"duration_ms\":1}";
    let at = |calls: &[CaseCall]| -> Vec<Option<Micros>> {
        calls.iter().map(|made| made.call.at).collect()
    };
    let ten = Micros::parse_rfc3339("2026-11-20T10:00:07Z");
    for logs in [
        [two_sided("a", std::slice::from_ref(&timed)), log("a", Dialect::Gate, &[timeless])],
        [log("a", Dialect::Gate, &[timeless]), two_sided("a", std::slice::from_ref(&timed))],
    ] {
        assert_eq!(at(&read(&logs)), [ten, ten]);
    }
    let other = [two_sided("a", &[timed]), log("b", Dialect::Gate, &[timeless])];
    assert_eq!(at(&read(&other)), [ten, None]);
}

#[test]
fn what_a_client_lacks_and_what_lines_show_of_their_log_is_there_too() {
    let both =
        |second| ["client", "server"].map(|actor| line(actor, second, "read_file", "b", "success"));
    let ([c0, s0], [c1, s1]) = (both(0), both(600));
    let past = line("server", 300, "delete_file", "z", "success");
    let logs = [two_sided("client", &[c0, c1]), two_sided("server", &[s0, past, s1])];
    let calls = read(&logs);
    let lone = calls.iter().find(|made| made.lines == [3]).unwrap();
    assert_eq!(lone.call.discrepancies.first().map(Discrepancy::word), Some("unwitnessed"));

    let back = [1200, 0].map(|second| line("server", second, "read_file", "b", "success"));
    let calls = read(&[two_sided("server", &back)]);
    let event = calls.iter().find(|made| &*made.call.code == "time-back").unwrap();
    assert_eq!((event.call.kind, event.lines.as_slice()), (EventKind::Ingest, [1].as_slice()));
}

#[test]
fn what_is_told_of_a_log_as_a_whole_is_named_by_all_of_its_lines() {
    let dated = |actor: &str, day: u32, tool: &str| {
        line(actor, 0, tool, "a", "success").replace("11-20", &format!("11-{day}"))
    };
    let client = [dated("client", 20, "read_file")];
    let server = [
        dated("server", 20, "read_file"),
        dated("server", 20, "delete_file").replace("T10:00", "T10:30"),
        dated("server", 23, "list_dir"),
    ];
    let calls = read(&[two_sided("client", &client), two_sided("server", &server)]);
    let silent = calls.iter().find(|made| &*made.call.code == "witness-silent").unwrap();
    assert_eq!((&*silent.call.stream, silent.lines.as_slice()), ("client", [0].as_slice()));
}

#[test]
fn a_configuration_counts() {
    let own = "{\"caller\":\"u\",\"tool\":\"shred\",\"outcome\":\"done_deal\",\"time\":1795161600}";
    let logs = [log("acme/desk.jsonl", Dialect::Gate, &[own])];
    let plain = &read(&logs)[0];
    assert_eq!((plain.call.class, plain.call.tenant.as_deref()), (OutcomeClass::Unknown, None));
    let labels = "[[tool]]\nname = \"shred\"\ndestructive = true\n";
    let rehearsal = Rehearsal {
        outcome_words: vec![("done deal".to_owned(), OutcomeClass::Ok)],
        path_patterns: vec![PathPattern::parse("{tenant}/*.jsonl").unwrap()],
        catalogue: Catalogue::with_operator(labels, "own.toml").unwrap(),
        clocks: vec![("server".into(), -60_000_000)],
    };
    let made = rehearsal.calls(&logs).unwrap().remove(0);
    assert_eq!((made.call.class, made.call.tenant.as_deref()), (OutcomeClass::Ok, Some("acme")));
    assert_eq!(made.labels.get(Label::Destructive), Tri::Yes);
    let logs = [("client", 0), ("server", 61)].map(|(actor, second)| {
        two_sided(actor, &[line(actor, second, "read_file", "a", "success")])
    });
    assert_eq!(read(&logs).len(), 2, "a minute apart");
    assert_eq!(rehearsal.calls(&logs).unwrap().len(), 1, "whose clock is known");
}

/// Lines by log.
type Files = BTreeMap<String, Vec<String>>;

#[test]
fn the_calls_are_those_that_the_daemon_makes_of_the_same_lines() {
    let start = Micros::parse_rfc3339("2026-01-05T07:00:00Z").unwrap();
    let mut scenario = Scenario::new(11, start, 900);
    scenario.attack_every = 60;
    let mut files = Files::new();
    for event in Simulation::new(&scenario) {
        let SimEvent::Line(line) = event else { continue };
        files.entry(line.file.to_string()).or_default().push(line.text);
    }
    let made = same_as_stored(&files);
    assert!(made.len() > 800, "{}", made.len());
    assert!(made.iter().any(|made| made.call.sightings.len() > 1));
}

#[test]
fn clocks_that_the_lines_themselves_show_count_as_they_do_for_the_daemon() {
    // The server is three seconds ahead: many calls that are like no other show it. Of other tools there are calls that
    // are alike, of which the client lost the first: by the nearest in time each would be joined with its neighbour's.
    let mut files = Files::new();
    let mut add = |tool: &str, second: u32, file: &str, by: [bool; 2]| {
        let asked = line("server", second, tool, file, "COMPLETED");
        let client = format!("\"request_id\":\"{second}\",\"actor\":\"client\"");
        let asked = asked.replace("\"actor\":\"server\"", &client);
        let done = line("server", second + 3, tool, file, "success");
        for (log, line, is_there) in [("client", asked, by[0]), ("server", done, by[1])] {
            let lines = files.entry(format!("{log}.jsonl")).or_default();
            lines.extend(is_there.then_some(line));
        }
    };
    for number in 0..20 {
        add("read_file", number * 60, &number.to_string(), [true; 2]);
    }
    for tool in 0..8 {
        for number in 0..6 {
            let name = format!("tool_{tool}");
            add(&name, 1300 + tool * 60 + number * 3, "same", [number > 0, true]);
        }
    }
    let made = same_as_stored(&files);
    let lone = made.iter().filter(|made| made.call.sightings.len() == 1);
    let is_first = |made: &CaseCall| made.call.at.is_some_and(|at| at.0 / 1_000_000 % 60 == 43);
    assert_eq!((made.len(), lone.clone().count()), (20 + 8 * 6, 8));
    assert!(lone.clone().all(is_first), "{lone:?}");
}

/// What is made of the lines, which is what a daemon stores of logs with them.
fn same_as_stored(files: &Files) -> Vec<CaseCall> {
    let now = Micros::parse_rfc3339("2027-06-01T00:00:00Z").unwrap();
    let stored = stored(files, now);
    let mut parser = Parser::new([0; 32], Vec::new());
    let mut dialect_of = |text: &str| {
        let bytes = text.as_bytes();
        let line = Line { generation: 0, offset: 0, length: bytes.len() as u64, bytes };
        match parser.parse(&line, &"x".into(), now) {
            Parsed::Record(record) => record.dialect,
            other => panic!("{other:?}"),
        }
    };
    // Formats are mixed in a log: a piece for each line.
    let logs: Vec<CaseLog> = files
        .iter()
        .flat_map(|(file, lines)| lines.iter().map(move |text| (file, text)))
        .map(|(file, text)| log(file, dialect_of(text), &[text]))
        .collect();
    let made = read(&logs);
    let told = |call: &Call| {
        let witnesses: Vec<_> = call
            .sightings
            .iter()
            .map(|seen| (seen.witness, seen.stream.clone(), seen.joined_by, seen.steps.len()))
            .collect();
        let discrepancies: Vec<_> = call.discrepancies.iter().map(Discrepancy::word).collect();
        let who = (call.actor.clone(), call.session.clone(), call.tenant.clone());
        (call.at, call.tool.clone(), call.class, call.ran, who, witnesses, discrepancies)
    };
    for (made, stored) in made.iter().zip(&stored) {
        assert_eq!(told(&made.call), told(stored));
    }
    assert_eq!(made.len(), stored.len());
    made
}

/// The calls that a pipeline stores of logs with these lines.
fn stored(files: &Files, now: Micros) -> Vec<Call> {
    let home = tempfile::tempdir().unwrap();
    let setup = setup(home.path());
    for (file, lines) in files {
        let path = setup.tail.roots[0].join(file).with_extension("jsonl");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, lines.join("\n") + "\n").unwrap();
    }
    let mut pipeline = Pipeline::open(&setup, now).unwrap();
    for _ in 0..2 {
        pipeline.look(now);
        while pipeline.step(now).unwrap().is_some() {}
    }
    let filter = CallFilter { limit: 100_000, ..CallFilter::default() };
    let mut stored = pipeline.reader().calls(&filter).unwrap();
    stored.sort_by_key(Call::order);
    stored
}

fn setup(home: &std::path::Path) -> Setup {
    let logs = home.join("logs");
    fs::create_dir_all(&logs).unwrap();
    Setup {
        store: OpenOptions {
            path: home.join("calltrail.duckdb"),
            create: true,
            memory_max: "256MB".to_owned(),
            now: Micros(0),
        },
        tail: TailConfig::new(vec![logs]),
        rules: Arc::new(RuleSet::default()),
        catalogue: Arc::new(Catalogue::shipped()),
        clocks: Vec::new(),
        outcome_words: Vec::new(),
        path_patterns: Vec::new(),
        is_single_pass: true,
        silence_micros: None,
        journal: None,
        mail: None,
        free_bytes_min: 0,
    }
}
