//! `make bench`: what the rules cost an event, and a group in memory, beside rsigma.
//!
//! Lines of one log are made in memory, a hundred a second and in order, by 5,000 principals and by 200,000. All who
//! compete take each batch in turn, so that the ratios hold whatever else the machine does. The allocator counts bytes,
//! which costs all of them some. Bytes are the same in every run: where a group takes more than is meant, the exit code
//! is 1. Rates are told beside what is aimed at.

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use calltrail::catalogue::Catalogue;
use calltrail::correlate::{Clocks, Correlator};
use calltrail::detect::{Engine, History, HistoryNeed, KnownAlert, RuleSet, shipped};
use calltrail::dialects::{Parsed, Parser};
use calltrail::model::{AlertChange, Call, CallChange, Labels, Line, Micros, Record, Text};
use peak_alloc::PeakAlloc;
use rsigma_eval::{CorrelationConfig, CorrelationEngine, CorrelationEventMode, JsonEvent};
use rustc_hash::FxHashMap;
use serde_json::Value;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Events of one batch where a backlog is read.
const BATCH: u64 = 8_000;
const EVENTS: u64 = 1_000_000;
const EVENT_EVERY_MICROS: i64 = 10_000;
/// The last calls of a principal or a session: more than the rules and the episodes that go on look back at.
const LAST_MAX: usize = 4_096;
/// Groups whose memory is measured: with five calls each no more than a rule holds as a whole, and as many as fill
/// their table well, whose room would else be counted with them.
const GROUPS: u64 = 28_000;

const RATE_AIM: f64 = 3.0;
const MEMORY_AIM: f64 = 0.5;
const GROUP_BYTES_AIM: f64 = 200.0;

fn main() -> ExitCode {
    let events = std::env::var_os("CALLTRAIL_BENCH_EVENTS")
        .and_then(|text| text.to_str()?.parse().ok())
        .unwrap_or(EVENTS);
    for principals in [5_000, 200_000] {
        race(events, principals);
    }
    if memory() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn tell(text: &str) {
    println!("{text}");
}

/// One of those who take every batch: how long it took, and what it found.
#[derive(Default)]
struct Lane {
    name: &'static str,
    took: Duration,
    found: u64,
    /// Looks into the store that were asked for.
    reads: u64,
}

impl Lane {
    fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    fn timed<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.took += start.elapsed();
        done
    }

    fn tell(&self, events: u64) {
        let each = self.took.as_nanos() as f64 / events as f64;
        tell(&format!(
            "  {:<40} {each:>9.0} {:>11.0} {:>9} {:>9}",
            self.name,
            1e9 / each,
            self.found,
            self.reads
        ));
    }
}

/// What rsigma keeps of the last ten events of a group: nothing, references, all of them. An alert of ours has all.
const MODES: [CorrelationEventMode; 3] =
    [CorrelationEventMode::None, CorrelationEventMode::Refs, CorrelationEventMode::Full];

/// Everybody over the same events.
fn race(events: u64, principals: u64) {
    let mut parse = Lane::new("parse");
    let mut join = Lane::new("join");
    let mut peer_parse = Lane::new("rsigma: parse");
    let all = Arc::new(RuleSet::compile(&shipped()).expect("rules"));
    let three = compiled(&THREE);
    let mut ours = [
        Contestant::new("eighteen rules", &all, true),
        Contestant::new("eighteen rules, unmetered", &all, false),
        Contestant::new("three rules", &three, true),
    ];
    let mut peers = MODES.map(|mode| Peer::new(&THREE, mode));
    let mut reading = Reading::new();
    for first in (0..events).step_by(usize::try_from(BATCH).unwrap_or(usize::MAX)) {
        let lines: Vec<String> =
            (first..events.min(first + BATCH)).map(|number| line(number, principals)).collect();
        let records = parse.timed(|| reading.parse(&lines, first));
        let changes = join.timed(|| reading.join(&records));
        for contestant in &mut ours {
            contestant.take(&changes);
        }
        let values = peer_parse.timed(|| parsed_json(&lines));
        for peer in &mut peers {
            peer.take(&values);
        }
        // Who makes them lets go of them.
        peer_parse.timed(|| drop(values));
        parse.timed(|| drop(records));
        join.timed(|| drop(changes));
    }
    tell(&format!(
        "\n{events} events of {principals:<24} {:>9} {:>11} {:>9} {:>9}",
        "ns/event", "events/s", "alerts", "reads"
    ));
    for lane in [&parse, &join] {
        lane.tell(events);
    }
    for contestant in &ours {
        contestant.lane.tell(events);
    }
    tell_rules(&all, &ours[0].engine, events);
    peer_parse.tell(events);
    for peer in &peers {
        peer.lane.tell(events);
    }
    let sum = |lanes: [&Lane; 2]| lanes.map(|lane| lane.took.as_secs_f64()).iter().sum::<f64>();
    let metered = ours[0].lane.took.as_secs_f64() / ours[1].lane.took.as_secs_f64();
    let whole = events as f64 / sum([&parse, &ours[0].lane]);
    tell(&format!("parse and eighteen rules: {whole:.0} events/s; the meter: times {metered:.3}"));
    tell(&format!("three rules, times rsigma's rate (aim {RATE_AIM}):"));
    for peer in &peers {
        let with_parsing = sum([&peer_parse, &peer.lane]) / sum([&parse, &ours[2].lane]);
        let alone = peer.lane.took.as_secs_f64() / ours[2].lane.took.as_secs_f64();
        tell(&format!("  {:<40} {alone:>9.2}, with parsing {with_parsing:.2}", peer.lane.name));
    }
}

/// The rules that cost most.
fn tell_rules(rules: &RuleSet, engine: &Engine, events: u64) {
    let mut costs: Vec<_> = rules.rules().iter().zip(engine.costs()).collect();
    costs.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.nanos));
    for (rule, cost) in costs.iter().take(6) {
        let each = cost.nanos as f64 / events as f64;
        let share = cost.fitting as f64 / events as f64;
        let (name, groups) = (&rule.name, cost.groups);
        tell(&format!("    {name:<38} {each:>9.0} ({share:.2} of events fit; {groups} groups)"));
    }
}

/// An engine and what it would find in a store.
struct Contestant {
    lane: Lane,
    engine: Engine,
    store: Store,
}

impl Contestant {
    fn new(name: &'static str, rules: &Arc<RuleSet>, is_metered: bool) -> Self {
        let mut engine = engine(rules);
        if is_metered {
            engine.meter(nanos);
        }
        Self { lane: Lane::new(name), engine, store: Store::new(rules) }
    }

    fn take(&mut self, changes: &[CallChange]) {
        let needs = self.lane.timed(|| self.engine.plan(changes));
        self.lane.reads += needs.len() as u64;
        let history = needs.into_iter().map(|need| self.store.answer(need)).collect();
        let told = self.lane.timed(|| self.engine.apply(changes, history));
        self.lane.found += self.store.keep(changes, told);
        black_box(self.engine.take_first_seen());
    }
}

fn engine(rules: &Arc<RuleSet>) -> Engine {
    let catalogue = Catalogue::shipped();
    let labels =
        move |call: &Call| -> Labels { catalogue.labels(call.server.as_deref(), &call.tool) };
    Engine::new(Arc::clone(rules), Arc::new(labels))
}

/// What is asked for where calls come in order: the past of groups that memory let go.
struct Store {
    rules: Arc<RuleSet>,
    /// By principal, the first calls of its tenants: enough for first-seen groups.
    first: FxHashMap<Text, Vec<Arc<Call>>>,
    /// By principal and by session, the last calls: enough for the others.
    last: FxHashMap<Text, VecDeque<Arc<Call>>>,
    /// By rule and group.
    alerts: FxHashMap<(Text, Pairs), Vec<KnownAlert>>,
}

/// A group's fields and values.
type Pairs = Vec<(Text, Text)>;

impl Store {
    fn new(rules: &Arc<RuleSet>) -> Self {
        let rules = Arc::clone(rules);
        Self {
            rules,
            first: HashMap::default(),
            last: HashMap::default(),
            alerts: HashMap::default(),
        }
    }

    fn answer(&self, need: HistoryNeed) -> History {
        let rule = Text::clone(&self.rules.rules()[need.rule].name);
        let name = need.group.first().map(|(_, value)| Text::clone(value)).unwrap_or_default();
        let calls = if need.whole {
            self.first.get(&name).cloned().unwrap_or_default()
        } else {
            self.last.get(&name).map(|last| last.iter().cloned().collect()).unwrap_or_default()
        };
        let alerts = self.alerts.get(&(rule, need.alert_group.clone()));
        let alerts = alerts.cloned().unwrap_or_default();
        History { need, calls, alerts, first_seen: Vec::new() }
    }

    /// Keeps what may be asked for; tells how many alerts are new.
    fn keep(&mut self, changes: &[CallChange], told: Vec<AlertChange>) -> u64 {
        for call in changes.iter().filter_map(|change| change.new.as_ref()) {
            let Some(principal) = &call.principal else { continue };
            let known = self.first.entry(Text::clone(principal)).or_default();
            if known.iter().all(|known| known.tenant != call.tenant) {
                known.push(Arc::clone(call));
            }
            for name in [principal, &call.session] {
                let last = self.last.entry(Text::clone(name)).or_default();
                last.push_back(Arc::clone(call));
                if last.len() > LAST_MAX {
                    last.pop_front();
                }
            }
        }
        let mut new = 0;
        for change in told {
            let AlertChange::Set { alert, is_new, .. } = change else { continue };
            new += u64::from(is_new);
            let of_group =
                self.alerts.entry((Text::clone(&alert.rule), alert.group.clone())).or_default();
            of_group.retain(|known| known.id != alert.id);
            of_group.push(KnownAlert::from(&*alert));
        }
        new
    }
}

/// rsigma, with the three rules that both can express.
struct Peer {
    lane: Lane,
    engine: CorrelationEngine,
}

impl Peer {
    fn new(files: &[&str], mode: CorrelationEventMode) -> Self {
        let config = CorrelationConfig {
            timestamp_fields: vec!["ts".to_owned()],
            // As many as there are, so that none is thrown out in its window.
            max_state_entries: 4_000_000,
            emit_detections: false,
            correlation_event_mode: mode,
            ..CorrelationConfig::default()
        };
        let mut engine = CorrelationEngine::new(config);
        for file in files {
            let text = spelled(file, ["subject", "tool", "outcome"]);
            let rules = rsigma_parser::parse_sigma_yaml(&text).expect("rules");
            engine.add_collection(&rules).expect("rules");
        }
        let name = match mode {
            CorrelationEventMode::None => "rsigma: three rules",
            CorrelationEventMode::Refs => "rsigma, with references to events",
            CorrelationEventMode::Full => "rsigma, with events",
        };
        Self { lane: Lane::new(name), engine }
    }

    fn take(&mut self, values: &[Value]) {
        let Self { lane, engine } = self;
        lane.found += lane.timed(|| {
            let found = values.iter().map(|value| engine.process_event(&JsonEvent::borrow(value)));
            found
                .map(|found| found.iter().filter(|one| one.is_correlation()).count() as u64)
                .sum::<u64>()
        });
    }
}

fn parsed_json(lines: &[String]) -> Vec<Value> {
    lines.iter().map(|line| serde_json::from_str(line).expect("a line")).collect()
}

/// Lines to records to calls, as the daemon does it.
struct Reading {
    parser: Parser,
    correlator: Correlator,
    stream: Text,
}

impl Reading {
    fn new() -> Self {
        let (parser, correlator) =
            (Parser::new([7; 32], Vec::new()), Correlator::new(Clocks::default()));
        Self { parser, correlator, stream: "tenants.jsonl".into() }
    }

    fn parse(&mut self, lines: &[String], first: u64) -> Vec<Arc<Record>> {
        let record = |(number, line): (u64, &String)| {
            let length = line.len() as u64;
            let line = Line { generation: 1, offset: number, length, bytes: line.as_bytes() };
            match self.parser.parse(&line, &self.stream, Micros(i64::MAX)) {
                Parsed::Record(record) => Arc::new(record),
                other => panic!("every line is a record: {other:?}"),
            }
        };
        (first..).zip(lines).map(record).collect()
    }

    fn join(&mut self, records: &[Arc<Record>]) -> Vec<CallChange> {
        assert!(self.correlator.plan_proxies(records).is_empty());
        assert!(self.correlator.plan_tools(records, &[]).is_empty());
        self.correlator.apply(records, Vec::new()).changes
    }
}

/// What a group takes in memory; true if it is little enough.
fn memory() -> bool {
    tell(&format!(
        "\n{:<30} {:>9} {:>9} {:>9} {:>6} {:>11} {:>11}",
        "bytes a group", "calltrail", "rsigma", "with refs", "ratio", "with calls", "with events"
    ));
    let mut is_small = true;
    for (name, file, of_group) in [
        ("a count", BURST, [("read_file", "ok")].as_slice()),
        ("a sequence", TRIFECTA, [("fetch_url", "ok"), ("read_file", "ok")].as_slice()),
        ("a count, then one", DENIALS, [("read_file", "denied")].as_slice()),
    ] {
        for events in [1, 5] {
            let ours = held(file, of_group, events);
            let peer = |mode| held_by_peer(file, of_group, events, mode);
            let [plain, refs, full] = MODES.map(peer);
            // Both know then what an alert rests on.
            let ratio = ours.state / refs;
            tell(&format!(
                "  {:<28} {:>9.0} {plain:>9.0} {refs:>9.0} {ratio:>6.2} {:>11.0} {full:>11.0}",
                format!("{name}, {events} events"),
                ours.state,
                ours.whole,
            ));
            is_small &= ratio <= MEMORY_AIM && (events > 1 || ours.state <= GROUP_BYTES_AIM);
        }
    }
    tell(&format!(
        "aims: {MEMORY_AIM} of rsigma's, {GROUP_BYTES_AIM} bytes for a group with one event"
    ));
    is_small
}

/// Bytes a group.
struct Held {
    /// Of the engine alone, while others hold the calls.
    state: f64,
    /// With the calls that it keeps for evidence.
    whole: f64,
}

fn used() -> f64 {
    ALLOCATED.current_usage() as f64 / GROUPS as f64
}

/// So many events of each group, within half a minute.
fn group_lines(of_group: &[(&str, &str)], events: u64) -> Vec<String> {
    let place = |number: u64| {
        let turn = usize::try_from(number / GROUPS + number % GROUPS).unwrap_or(0) % of_group.len();
        let (tool, outcome) = of_group[turn];
        let at = Micros(START.0 + i64::try_from(number).unwrap_or(0) * 100);
        written(at, number % GROUPS, "acme", tool, outcome, number)
    };
    (0..GROUPS * events).map(place).collect()
}

fn held(file: &str, of_group: &[(&str, &str)], events: u64) -> Held {
    let lines = group_lines(of_group, events);
    let rules = compiled(&[file]);
    let before = used();
    let mut changes = Vec::new();
    let mut reading = Reading::new();
    for (part, lines) in lines.chunks(8_000).enumerate() {
        let records = reading.parse(lines, part as u64 * BATCH);
        changes.extend(reading.join(&records));
    }
    drop(reading);
    let with_calls = used();
    let mut engine = engine(&rules);
    for changes in changes.chunks(8_000) {
        black_box(engine.apply(changes, Vec::new()));
    }
    assert!(engine.costs().iter().all(|cost| cost.groups == GROUPS));
    let state = used() - with_calls;
    drop(changes);
    Held { state, whole: used() - before }
}

fn held_by_peer(
    file: &str,
    of_group: &[(&str, &str)],
    events: u64,
    mode: CorrelationEventMode,
) -> f64 {
    let lines = group_lines(of_group, events);
    let mut peer = Peer::new(&[file], mode);
    let before = used();
    for lines in lines.chunks(8_000) {
        peer.take(&parsed_json(lines));
    }
    assert!(peer.engine.state_count() as u64 >= GROUPS);
    used() - before
}

const START: Micros = Micros(1_700_000_000 * Micros::SECOND);

/// The event of that number: mostly harmless work, and every thousandth one of an attack that goes on.
fn line(number: u64, principals: u64) -> String {
    let at = Micros(START.0 + i64::try_from(number).unwrap_or(0) * EVENT_EVERY_MICROS);
    let dice = number
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let (who, what, how, place) =
        (dice % principals, (dice >> 20) % 100, (dice >> 30) % 100, (dice >> 40) % 100);
    if number % 1_000 < 25 {
        // One attacker every ten seconds: a trifecta, then five denials and a success, then a burst.
        let who = principals + number / 1_000;
        let (tool, outcome) = match number % 1_000 {
            0 => ("fetch_url", "ok"),
            2 => ("post_comment", "ok"),
            3..8 => ("read_file", "denied"),
            _ => ("read_file", "ok"),
        };
        return written(at, who, "acme", tool, outcome, number);
    }
    let tool = match what {
        0..40 => "lookup_document",
        40..60 => "search_help",
        60..75 => "list_dir",
        75..85 => "read_file",
        85..92 => "search_tickets",
        92..95 => "get_ticket",
        95..97 => "fetch_url",
        97..99 => "post_comment",
        _ => "delete_file",
    };
    let outcome = match how {
        0..93 => "ok",
        93..98 => "denied",
        _ => "error",
    };
    let tenant = if place < 1 { "initech" } else { ["acme", "globex"][usize::from(who % 2 == 0)] };
    written(at, who, tenant, tool, outcome, number)
}

fn written(at: Micros, who: u64, tenant: &str, tool: &str, outcome: &str, number: u64) -> String {
    format!(
        "{{\"ts\":\"{}\",\"subject\":\"u-{who}\",\"client_id\":\"assistant\",\"tenant\":\"{tenant}\",\
         \"tool\":\"{tool}\",\"params\":{{\"path\":\"reports/{number}.txt\",\"mode\":\"plain\"}},\
         \"dropped\":[\"query\"],\"outcome\":\"{outcome}\"}}\n",
        at.to_rfc3339()
    )
}

/// Rules for both: the names of their fields are filled in.
fn spelled(file: &str, [principal, tool, outcome]: [&str; 3]) -> String {
    file.replace("PRINCIPAL", principal).replace("TOOL", tool).replace("OUTCOME", outcome)
}

fn compiled(files: &[&str]) -> Arc<RuleSet> {
    let texts: Vec<(String, String)> = files
        .iter()
        .enumerate()
        .map(|(number, file)| {
            (format!("rule-{number}.yml"), spelled(file, ["principal", "tool.name", "outcome"]))
        })
        .collect();
    let files: Vec<(&str, &str)> =
        texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    Arc::new(RuleSet::compile(&files).expect("rules"))
}

/// Nanoseconds of a clock that only runs forward, as the daemon's.
fn nanos() -> u64 {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    let elapsed = STARTED.get_or_init(Instant::now).elapsed().as_nanos();
    u64::try_from(elapsed).unwrap_or(u64::MAX)
}

const BURST: &str = "
title: burst
id: 3ee24633-367f-402d-aa2a-8dd5cea1fe01
correlation: {type: event_count, rules: [reads], group-by: [PRINCIPAL, TOOL], timespan: 60s, condition: {gte: 20}}
---
title: reads
id: 3ee24633-367f-402d-aa2a-8dd5cea1fe02
name: reads
logsource: {product: mcp, service: tool_calls}
detection: {one: {TOOL: [read_file, search_tickets, get_ticket]}, condition: one}
";

const TRIFECTA: &str = "
title: trifecta
id: 3ee24633-367f-402d-aa2a-8dd5cea1fe03
correlation: {type: temporal_ordered, rules: [fetches, reads3, sends], group-by: [PRINCIPAL], timespan: 60s}
---
title: fetches
id: 3ee24633-367f-402d-aa2a-8dd5cea1fe04
name: fetches
logsource: {product: mcp, service: tool_calls}
detection: {one: {TOOL: fetch_url}, no: {OUTCOME: denied}, condition: one and not no}
---
title: reads3
id: 3ee24633-367f-402d-aa2a-8dd5cea1fe05
name: reads3
logsource: {product: mcp, service: tool_calls}
detection: {one: {TOOL: [read_file, search_tickets, get_ticket]}, no: {OUTCOME: denied}, condition: one and not no}
---
title: sends
id: 3ee24633-367f-402d-aa2a-8dd5cea1fe06
name: sends
logsource: {product: mcp, service: tool_calls}
detection: {one: {TOOL: post_comment}, no: {OUTCOME: denied}, condition: one and not no}
";

const DENIALS: &str = "
title: denials-then-success
id: 3ee24633-367f-402d-aa2a-8dd5cea1fe07
correlation: {type: temporal_ordered, rules: [many, success], group-by: [PRINCIPAL], timespan: 5m}
---
title: many
id: 3ee24633-367f-402d-aa2a-8dd5cea1fe08
name: many
correlation: {type: event_count, rules: [denied], group-by: [PRINCIPAL], timespan: 5m, condition: {gte: 5}}
---
title: denied
id: 3ee24633-367f-402d-aa2a-8dd5cea1fe09
name: denied
logsource: {product: mcp, service: tool_calls}
detection: {one: {OUTCOME: denied}, condition: one}
---
title: success
id: 3ee24633-367f-402d-aa2a-8dd5cea1fe10
name: success
logsource: {product: mcp, service: tool_calls}
detection: {one: {OUTCOME: ok}, condition: one}
";

const THREE: [&str; 3] = [BURST, TRIFECTA, DENIALS];
