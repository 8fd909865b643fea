//! `make bench`: what joining one record costs, whatever the number of records, tools, and floods beside it.
//!
//! Records are made in memory, in order of time, and only the correlator's work on them is timed: by the time on the
//! processor where the system tells it, so that what else runs counts little. Figures of one machine and moment mean
//! little; the ratios within one run do not depend on them as much.
//!
//! `CALLTRAIL_BENCH_SHARE` (such as `0.1`) makes fewer records, `CALLTRAIL_BENCH_ONLY` keeps the rows whose names hold
//! it, with the usual ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use calltrail::correlate::{Clocks, Correlator};
use calltrail::model::{
    ArgValue, ArgView, Args, Dialect, Micros, OutcomeClass, Record, RecordId, RecordKind, Text,
    TimeQuality, Witness,
};

/// Records of one batch where a backlog is read, and where a live log is.
const BATCH: usize = 8_000;
const BATCH_LIVE: usize = 20;
/// Ten million records a day.
const CALL_EVERY_MICROS: i64 = 35_000;
const RECORDS_A_CALL: u64 = 4;
const TOOLS: u64 = 20;

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn main() {
    let share = std::env::var_os("CALLTRAIL_BENCH_SHARE");
    let share: f64 = share.and_then(|text| text.to_str()?.parse().ok()).unwrap_or(1.0);
    let only = std::env::var_os("CALLTRAIL_BENCH_ONLY").and_then(|text| text.into_string().ok());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let count = |full: u64| (full as f64 * share) as u64;
    println!(
        "{:<44} {:>10} {:>10} {:>7} {:>6} {:>6}",
        "", "records", "ns/record", "ratio", "aim", "loads"
    );
    let base = Some(print("usual", None, "", &base()));
    let row = |what: &str, aim: &str, timed: &dyn Fn() -> Timed| {
        if only.as_deref().is_none_or(|only| what.contains(only)) {
            print(what, base, aim, &timed());
        }
    };
    // The base is one morning; the long row has days that begin with measured clocks, so that what they join is
    // joined twice.
    row("usual, five times as many", "1.25", &|| usual(count(500_000), BATCH));
    row("usual, fifty times as many", "1.25", &|| usual(count(5_000_000), BATCH));
    row("one tool, equal arguments, concurrent", "3", &|| hot(count(1_000_000), BATCH));
    row("beside a flood of another tool", "1.25", &|| flooded(count(400_000), Flood::Unmatched));
    row("beside calls that never end", "1.25", &|| flooded(count(400_000), Flood::Open));
    row("beside a flood dated ahead", "1.25", &|| flooded(count(400_000), Flood::Ahead));
    row("100,000 tools", "", &|| many_tools(count(400_000)));
    row("live: batches of 20", "", &|| usual(count(100_000), BATCH_LIVE));
    row("live: one tool, equal arguments", "", &|| hot(count(40_000), BATCH_LIVE));
    row("live: all at one moment, 5,000", "", &|| one_moment(count(5_000)));
    row("live: all at one moment, 40,000", "", &|| one_moment(count(40_000)));
}

/// What was timed: records and how long joining them took.
struct Timed {
    records: u64,
    took: Duration,
    /// Looks into the store that were asked for; none is needed for what comes in order.
    loads: usize,
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn print(what: &str, base: Option<f64>, aim: &str, timed: &Timed) -> f64 {
    let each = timed.took.as_nanos() as f64 / timed.records.max(1) as f64;
    let ratio = base.map_or(String::new(), |base| format!("{:.2}", each / base));
    let Timed { records, loads, .. } = timed;
    println!("{what:<44} {records:>10} {each:>10.0} {ratio:>7} {aim:>6} {loads:>6}");
    each
}

/// Time on the processor, else time as it passes.
enum Clock {
    Cpu(u64),
    Wall(Instant),
}

impl Clock {
    fn now() -> Self {
        cpu_nanos().map_or_else(|| Self::Wall(Instant::now()), Self::Cpu)
    }

    fn elapsed(&self) -> Duration {
        match self {
            Self::Cpu(start) => {
                Duration::from_nanos(cpu_nanos().unwrap_or(0).saturating_sub(*start))
            }
            Self::Wall(start) => start.elapsed(),
        }
    }
}

/// What this thread has had of the processor; the kernel counts it in ticks, which even out over many batches.
fn cpu_nanos() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Joins batches one after another.
struct Joining {
    correlator: Correlator,
    timed: Timed,
}

impl Joining {
    fn new() -> Self {
        let correlator = Correlator::new(Clocks::default());
        Self { correlator, timed: Timed { records: 0, took: Duration::ZERO, loads: 0 } }
    }

    fn join(&mut self, batch: &[Arc<Record>], counts: bool) {
        let start = Clock::now();
        let proxies = self.correlator.plan_proxies(batch);
        let tools = self.correlator.plan_tools(batch, &[]);
        let outcome = self.correlator.apply(batch, Vec::new());
        let took = start.elapsed();
        assert!(!outcome.changes.is_empty());
        if counts {
            self.timed.took += took;
            self.timed.records += batch.len() as u64;
            self.timed.loads += proxies.len() + tools.len();
        }
    }

    /// Lets go of what is still held. A record costs until it is forgotten, and a short run ends before half of its
    /// records are.
    fn end(self) -> Timed {
        let Self { correlator, mut timed } = self;
        let start = Clock::now();
        drop(correlator);
        timed.took += start.elapsed();
        timed
    }
}

/// The row that others are compared with, which is so short that one run of it says little: the middle one of five.
fn base() -> Timed {
    let mut runs: Vec<Timed> = (0..5).map(|_| usual(100_000, BATCH)).collect();
    runs.sort_by_key(|timed| timed.took);
    runs.swap_remove(2)
}

fn usual(records: u64, batch: usize) -> Timed {
    let mut joining = Joining::new();
    for records in batches(records, batch, |call| (tool(call % TOOLS), call % 997)) {
        joining.join(&records, true);
    }
    joining.end()
}

fn hot(records: u64, batch: usize) -> Timed {
    let mut joining = Joining::new();
    let name = tool(0);
    for records in batches(records, batch, |_| (Text::clone(&name), 7)) {
        joining.join(&records, true);
    }
    joining.end()
}

fn many_tools(records: u64) -> Timed {
    let mut joining = Joining::new();
    for records in batches(records, BATCH, |call| (tool(call % 100_000), call % 997)) {
        joining.join(&records, true);
    }
    joining.end()
}

#[derive(Clone, Copy)]
enum Flood {
    Unmatched,
    Open,
    Ahead,
}

/// Usual batches, each followed by four of a flood in one other tool; only the usual ones count.
fn flooded(records: u64, flood: Flood) -> Timed {
    let mut joining = Joining::new();
    let name = Text::from("flood");
    let mut number = 0;
    for records in batches(records, BATCH, |call| (tool(call % TOOLS), call % 997)) {
        joining.join(&records, true);
        let ends = (records.first().and_then(|one| one.at), records.last().and_then(|one| one.at));
        let (Some(first), Some(last)) = ends else { continue };
        let step = last.since(first) / (4 * i64::try_from(BATCH).unwrap_or(1));
        for part in 0..4 {
            let made: Vec<Arc<Record>> = (0..BATCH)
                .map(|index| {
                    let place = i64::try_from(part * BATCH + index).unwrap_or(0);
                    number += 1;
                    Arc::new(flood_record(flood, &name, number, first.plus(step * place)))
                })
                .collect();
            joining.join(&made, false);
        }
    }
    joining.timed
}

fn flood_record(flood: Flood, name: &Text, number: u64, at: Micros) -> Record {
    let mut record = record(3, "flood", number, at, name, OutcomeClass::Approved);
    match flood {
        Flood::Unmatched => record.class = OutcomeClass::Ok,
        Flood::Open => record.request_id = Some(number.to_string().into()),
        Flood::Ahead => {
            record.at = Some(at.plus(365 * 24 * Micros::HOUR));
            record.time_quality = TimeQuality::Future;
        }
    }
    record
}

/// One client's and one server's record of each call, all at the same microsecond.
fn one_moment(records: u64) -> Timed {
    let mut joining = Joining::new();
    let name = tool(0);
    let at = Micros(1_700_000_000 * Micros::SECOND);
    let all: Vec<Arc<Record>> = (0..records)
        .map(|number| {
            let (witness, stream) = if number % 2 == 0 { (0, "client") } else { (3, "server") };
            Arc::new(record(witness, stream, number, at, &name, OutcomeClass::Ok))
        })
        .collect();
    for batch in all.chunks(BATCH_LIVE) {
        joining.join(batch, true);
    }
    joining.timed
}

fn tool(number: u64) -> Text {
    format!("tool_{number}").into()
}

/// Batches of calls as three witnesses saw them, in order of time.
fn batches(
    records: u64,
    batch: usize,
    of: impl Fn(u64) -> (Text, u64),
) -> impl Iterator<Item = Vec<Arc<Record>>> {
    let calls = records / RECORDS_A_CALL;
    let of_batch = batch as u64 / RECORDS_A_CALL;
    (0..calls.div_ceil(of_batch)).map(move |part| {
        let mut made: Vec<Record> = Vec::with_capacity(batch);
        for call in part * of_batch..calls.min((part + 1) * of_batch) {
            let (name, value) = of(call);
            made.extend(witnesses(call, &name, value));
        }
        made.sort_by_key(|record| record.at);
        made.into_iter().map(Arc::new).collect()
    })
}

fn witnesses(call: u64, tool: &Text, value: u64) -> [Record; 4] {
    let start = 1_700_000_000 * Micros::SECOND;
    let at = Micros(start + i64::try_from(call).unwrap_or(0) * CALL_EVERY_MICROS);
    // Between 40 and 240 ms, so that several are in flight.
    let lasted = 40_000 + i64::try_from(call * 7_919 % 200_000).unwrap_or(0);
    let one = |witness, stream, offset, after: i64, class| {
        let mut record = record(witness, stream, offset, at.plus(after), tool, class);
        record.args.values.push(argument("path", value));
        record
    };
    let id = |mut record: Record| {
        record.request_id = Some(call.to_string().into());
        record
    };
    [
        id(one(0, "client", 2 * call, 0, OutcomeClass::Approved)),
        id(one(0, "client", 2 * call + 1, lasted, OutcomeClass::Ok)),
        one(1, "gate", call, lasted - 5_000, OutcomeClass::Ok),
        one(3, "server", call, lasted - 10_000, OutcomeClass::Ok),
    ]
}

fn record(
    witness: usize,
    stream: &str,
    offset: u64,
    at: Micros,
    tool: &Text,
    class: OutcomeClass,
) -> Record {
    let witness = [Witness::Client, Witness::Gateway, Witness::Proxy, Witness::Server][witness];
    Record {
        id: RecordId { generation: witness as u64, offset, index: 0 },
        length: 200,
        stream: stream.into(),
        at: Some(at),
        time_quality: TimeQuality::Own,
        dialect: Dialect::TwoSided,
        witness,
        kind: RecordKind::Call,
        class,
        code: class.as_str().into(),
        detail: None,
        tool: Some(Text::clone(tool)),
        server: None,
        args: Args {
            view: ArgView::Full,
            values: vec![argument("depth", 3), argument("mode", 1)],
            dropped: Vec::new(),
        },
        request_id: None,
        tool_use_id: None,
        group_id: None,
        trace_id: None,
        principal: None,
        client: None,
        tenant: None,
        session: None,
        duration_ms: None,
        flags: Vec::new(),
        also: Vec::new(),
        extra: None,
    }
}

fn argument(name: &str, value: u64) -> ArgValue {
    ArgValue {
        name: name.into(),
        text: value.to_string().into(),
        hash: value,
        chars: None,
        summarised: false,
    }
}
