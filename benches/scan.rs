//! `make bench`: one pass over a million simulated records beside DuckDB's own load of the same files, in one run.
//!
//! Figures of one machine and moment mean little; the ratio of the two does not depend on them as much.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use calltrail::model::Micros;
use calltrail::simulate::{Scenario, write_logs};

/// Calls that make a little over a million records with the simulator's mix of dialects.
const CALLS: u64 = 680_000;

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let start = Micros::parse_rfc3339("2026-01-05T07:00:00Z").expect("a time");
    let calls =
        std::env::var_os("CALLTRAIL_BENCH_CALLS").and_then(|text| text.to_str()?.parse().ok());
    let scenario = Scenario::new(1, start, calls.unwrap_or(CALLS));
    let (wrote, summary) = timed(|| {
        write_logs(folder.path(), &scenario, Some(64 << 20), &mut |_| {}).expect("logs are written")
    });
    let logs = folder.path().join("logs");
    let (loaded, rows) = timed(|| load_with_duckdb(&logs, &folder.path().join("plain.duckdb")));
    let (scanned, alerts) = timed(|| scan(&logs, &folder.path().join("scan.duckdb")));

    let lines = summary.lines;
    println!("{lines} records, {} MB, {} attacks", summary.bytes >> 20, summary.attacks);
    row("simulate", lines, wrote);
    row("DuckDB read_ndjson", rows, loaded);
    row("calltrail scan", lines, scanned);
    println!(
        "scan takes {:.1} times as long as DuckDB's load and raises {alerts} alerts",
        scanned.as_secs_f64() / loaded.as_secs_f64()
    );
    let size =
        |name: &str| std::fs::metadata(folder.path().join(name)).map_or(0, |file| file.len());
    println!(
        "on disk: scan {} MB, DuckDB's load {} MB",
        size("scan.duckdb") >> 20,
        size("plain.duckdb") >> 20
    );
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn row(what: &str, records: u64, took: Duration) {
    let rate = records as f64 / took.as_secs_f64();
    println!("{what:<20} {:>8.2} s  {rate:>10.0} records/s", took.as_secs_f64());
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let done = work();
    (start.elapsed(), done)
}

/// The least that any tool on DuckDB has to do: every line parsed and stored, nothing understood.
fn load_with_duckdb(logs: &Path, database: &Path) -> u64 {
    let connection = duckdb::Connection::open(database).expect("a database");
    let sql = format!(
        "set threads = 2; create table lines as select * from
         read_ndjson('{}/**/*', union_by_name = true, sample_size = 20480)",
        logs.display()
    );
    connection.execute_batch(&sql).expect("DuckDB loads the logs");
    connection.query_row("select count(*) from lines", [], |row| row.get(0)).expect("a count")
}

fn scan(logs: &Path, database: &Path) -> usize {
    let output = Command::new(env!("CARGO_BIN_EXE_calltrail"))
        .args(["scan", "--output", "json", "--db"])
        .arg(database)
        .arg(logs)
        .output()
        .expect("the scan runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count()
}
