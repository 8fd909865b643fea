//! Stacks and noise: the truth is exact about calls that several witnesses see and about what went
//! wrong with their records.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::*;
use crate::model::{Micros, Text, Witness};

fn scenario(noise: Noise) -> Scenario {
    let start = Micros::parse_rfc3339("2026-03-02T08:00:00Z").unwrap();
    Scenario {
        ticket_users: 0,
        desks: 0,
        proxies: 0,
        gate_users: 0,
        stacks: 12,
        attack_every: 0,
        noise,
        ..Scenario::new(9, start, 12_000)
    }
}

const ALL: Noise = Noise {
    lost_percent: 2,
    identical_percent: 10,
    retried_percent: 60,
    late_percent: 5,
    skew_ms_max: 3_000,
    drift_ms_a_day_max: 1_000,
    stepped_percent: 50,
    off_ms_max: 0,
};

struct Output {
    lines: FxHashMap<(Text, u64), SimLine>,
    calls: Vec<CallTruth>,
}

fn run(noise: Noise) -> Output {
    let mut output = Output { lines: FxHashMap::default(), calls: Vec::new() };
    let mut counts: FxHashMap<Text, u64> = FxHashMap::default();
    for event in Simulation::new(&scenario(noise)) {
        match event {
            SimEvent::Line(line) => {
                let count = counts.entry(Text::clone(&line.file)).or_default();
                *count += 1;
                output.lines.insert((Text::clone(&line.file), *count), line);
            }
            SimEvent::Call(call) => output.calls.push(call),
            SimEvent::Alert(_) => {}
        }
    }
    output
}

impl Output {
    fn json(&self, record: &RecordPlace) -> Value {
        serde_json::from_str(&self.lines[&(Text::clone(&record.file), record.line)].text).unwrap()
    }

    fn records(&self) -> impl Iterator<Item = (&CallTruth, &RecordPlace)> {
        self.calls.iter().flat_map(|call| call.records.iter().map(move |record| (call, record)))
    }
}

/// The time that a line shows.
fn shown(line: &SimLine) -> Micros {
    let value: Value = serde_json::from_str(&line.text).unwrap();
    if let Some(ts) = value.get("ts") {
        return Micros::parse_rfc3339(ts.as_str().unwrap()).unwrap();
    }
    let millis = value["time"].to_string().replace('.', "");
    Micros(format!("{millis:0<13}").parse::<i64>().unwrap() * 1000)
}

#[test]
fn the_truth_accounts_for_every_record_of_every_witness() {
    let output = run(ALL);
    assert_eq!(output.calls.len(), 12_000);
    assert_eq!(output.records().count(), output.lines.len(), "each line once");
    for (call, record) in output.records() {
        let value = output.json(record);
        let witness = match record.file.split('/').nth(1).unwrap() {
            "client" => Witness::Client,
            "proxy" => Witness::Proxy,
            "gate" => Witness::Gateway,
            _ => Witness::Server,
        };
        assert_eq!(record.witness, witness);
        assert!((1..=call.tries.len()).contains(&(record.attempt as usize)));
        if let Some(tool) = value.get("tool") {
            assert!(tool.as_str().unwrap().ends_with(call.tool), "{value}");
        }
        let trace = value.get("trace_id").or(value.get("traceparent"));
        let trace = trace.and_then(Value::as_str);
        assert_eq!(trace.is_some(), record.shows.trace, "{value}");
        assert!(trace.is_none_or(|trace| trace.contains(&**call.trace.as_ref().unwrap())));
        let principal = ["user", "caller", "subject"].iter().find_map(|key| value.get(key));
        assert_eq!(principal.is_some(), record.shows.principal, "{value}");
    }
}

#[test]
fn the_keys_of_the_arguments_say_which_look_alike() {
    let output = run(ALL);
    let mut kinds: BTreeMap<(&str, Witness, ArgsShown), FxHashMap<u64, String>> = BTreeMap::new();
    for (call, record) in output.records() {
        let value = output.json(record);
        if value["outcome"] == "INPUT ACCEPTED" {
            continue;
        }
        let args = value.get("args").or(value.get("params")).map(ToString::to_string);
        let level = record.shows.args;
        let kind = kinds.entry((call.tool, record.witness, level)).or_default();
        let Some(key) = call.args.at(level, level) else {
            assert!(args.is_none_or(|args| args.starts_with('[')), "{value}");
            continue;
        };
        let args = args.unwrap();
        assert_eq!(args.contains(" chars>"), level == ArgsShown::Summarised, "{value}");
        let dropped = value.get("dropped").is_some_and(|names| names != &serde_json::json!([]));
        assert_eq!(dropped, level == ArgsShown::Partial, "{value}");
        assert_eq!(kind.entry(key).or_insert_with(|| args.clone()), &args);
    }
    for (kind, texts) in &kinds {
        let mut distinct: Vec<&String> = texts.values().collect();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), texts.len(), "{kind:?}: one text under two keys");
    }
    let levels: std::collections::BTreeSet<ArgsShown> =
        kinds.keys().map(|(_, _, level)| *level).collect();
    assert_eq!(levels.len(), 5, "every level of showing occurs: {levels:?}");
}

#[test]
fn every_kind_of_noise_has_its_share_and_none_comes_unasked() {
    let noisy = run(ALL);
    let quiet = run(Noise::default());
    let lost_of =
        |output: &Output| -> u64 { output.calls.iter().map(|call| u64::from(call.lost)).sum() };
    let share = lost_of(&noisy) * 1000 / (noisy.lines.len() as u64 + lost_of(&noisy));
    assert!((15..=25).contains(&share), "{share} of a thousand are lost");
    assert_eq!(lost_of(&quiet), 0);

    let retried = |output: &Output| output.calls.iter().filter(|call| call.tries.len() > 1).count();
    assert!(retried(&noisy) > 200, "{}", retried(&noisy));
    assert_eq!(retried(&quiet), 0);
    for call in &noisy.calls {
        for pair in call.tries.windows(2) {
            // The server may still be at the try that the client has given up.
            let later = pair[1].from.since(pair[0].from);
            assert!((0..=50 * Micros::SECOND).contains(&later), "{call:?}");
        }
    }

    let twins = |output: &Output| {
        let mut last: FxHashMap<(&str, u64), (&Text, u64)> = FxHashMap::default();
        let mut twins = 0;
        for call in &output.calls {
            if let Some((actor, number)) =
                last.insert((call.tool, call.args.full), (&call.actor, call.call))
            {
                twins += u64::from(*actor == call.actor && call.call.abs_diff(number) < 8);
            }
        }
        twins
    };
    let more = twins(&noisy).saturating_sub(twins(&quiet));
    assert!((600..1_300).contains(&more), "{more} calls are repeated");
}

#[test]
fn a_log_that_stands_still_goes_on_in_its_order() {
    let output = run(Noise { late_percent: 5, ..Noise::default() });
    let mut files: BTreeMap<&Text, Vec<(u64, &SimLine)>> = BTreeMap::new();
    for ((file, number), line) in &output.lines {
        files.entry(file).or_default().push((*number, line));
    }
    let mut late = 0;
    for lines in files.values_mut() {
        lines.sort_by_key(|(number, _)| *number);
        assert!(lines.is_sorted_by_key(|(_, line)| line.at_write));
        assert!(lines.is_sorted_by_key(|(_, line)| shown(line)), "time goes back in a log");
        late += lines.iter().filter(|(_, line)| line.at_write.since(shown(line)) > 1_000).count();
    }
    let share = late * 1000 / output.lines.len();
    assert!((15..=110).contains(&share), "{share} of a thousand are late");
    let most = output.lines.values().map(|line| line.at_write.since(shown(line))).max().unwrap();
    assert!((20 * Micros::MINUTE..=Micros::HOUR).contains(&most));
}

#[test]
fn clocks_are_off_but_for_those_of_clients() {
    let output = run(Noise { skew_ms_max: 3_000, ..Noise::default() });
    let mut off: BTreeMap<&Text, i64> = BTreeMap::new();
    for line in output.lines.values() {
        let ahead = shown(line).since(line.at_write);
        // A gate writes whole milliseconds.
        let known = *off.entry(&line.file).or_insert(ahead);
        assert!((known - ahead).abs() <= 1_000, "{}", line.file);
    }
    for (file, ahead) in &off {
        assert_eq!(file.contains("/client/"), *ahead == 0, "{file} is {ahead} off");
    }
}

/// Each witness's records of a try as one sighting, each try as an attempt; of several records the first is left out.
fn found(call: &CallTruth) -> Found {
    let mut of_tries: BTreeMap<(u32, Witness), Vec<Place>> = BTreeMap::new();
    for record in &call.records {
        let place = Place { stream: number(&record.file), line: record.line };
        of_tries.entry((record.attempt, record.witness)).or_default().push(place);
    }
    let sightings = of_tries.into_iter().map(|((attempt, _), mut places)| {
        if places.len() > 1 {
            places.remove(0);
        }
        FoundSighting { how: "known".into(), is_sure: true, attempt: attempt - 1, places }
    });
    Found { sightings: sightings.collect() }
}

fn number(stream: &str) -> u32 {
    stream.bytes().fold(0, |number, byte| number.wrapping_mul(31).wrapping_add(u32::from(byte)))
}

#[test]
fn lateness_changes_neither_the_truth_nor_the_score() {
    let [late, prompt] = [ALL, Noise { late_percent: 0, ..ALL }].map(|noise| {
        let mut output = run(noise);
        let found: Vec<Found> = output.calls.iter().map(found).collect();
        let score = score(&output.calls, &found, &number);
        let figures = format!("{:?}", Score { examples: Vec::new(), ..score });
        output.calls.sort_by_key(|call| call.call);
        for call in &mut output.calls {
            call.records.sort_by_key(|record| (record.witness, record.line));
        }
        let lines: BTreeMap<(Text, u64), String> =
            output.lines.into_iter().map(|(place, line)| (place, line.text)).collect();
        (output.calls, figures, lines)
    });
    assert!(late.0 == prompt.0, "the truth is another");
    assert!(late.2 == prompt.2, "the lines are others");
    assert_eq!(late.1, prompt.1);
}

#[test]
fn a_client_numbers_its_requests_in_the_order_in_which_the_proxy_sees_them() {
    let output = run(ALL);
    let mut requests: BTreeMap<&Text, BTreeMap<u64, u64>> = BTreeMap::new();
    let mut replies = 0;
    for call in &output.calls {
        let proxied = call.records.iter().filter(|record| record.witness == Witness::Proxy);
        let mut by_try: BTreeMap<u32, Vec<&RecordPlace>> = BTreeMap::new();
        for record in proxied {
            by_try.entry(record.attempt).or_default().push(record);
        }
        for records in by_try.values() {
            let [request, reply] = &records[..] else { continue };
            let raw = output.json(reply)["raw"].as_str().unwrap().to_owned();
            let id = raw.split_once("\"id\":").unwrap().1.split(',').next().unwrap().to_owned();
            requests.entry(&request.file).or_default().insert(request.line, id.parse().unwrap());
            replies += 1;
        }
    }
    assert!(replies > 1_000, "{replies}");
    for (file, ids) in &requests {
        assert!(ids.values().is_sorted_by(|one, two| one < two), "{file}: {ids:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_records() {
    let lines = |noise| -> Vec<SimLine> {
        Simulation::new(&scenario(noise))
            .filter_map(|event| match event {
                SimEvent::Line(line) => Some(line),
                _ => None,
            })
            .collect()
    };
    assert_eq!(lines(ALL), lines(ALL));
    assert_ne!(lines(ALL), lines(Noise { lost_percent: 3, ..ALL }));
}
