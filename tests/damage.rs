//! A write-ahead log that a crash tore or a disk damaged: the daemon goes on, and everything is counted once.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use calltrail::model::Micros;
use calltrail::simulate::{Scenario, SimEvent, Simulation};

use crate::ranges::assert_whole;
use crate::support::{Daemon, alert_ids, calltrail, json_lines, scan};

/// Lines of every dialect with attacks among them, and the file of each.
fn lines() -> Vec<(String, String)> {
    let start = Micros::parse_rfc3339("2026-01-05T07:00:00Z").unwrap();
    let mut scenario = Scenario::new(23, start, 1200);
    scenario.attack_every = 100;
    Simulation::new(&scenario)
        .filter_map(|event| match event {
            SimEvent::Line(line) => Some((line.file.to_string(), line.text.clone())),
            _ => None,
        })
        .collect()
}

fn append(logs: &Path, lines: &[(String, String)]) {
    for (file, text) in lines {
        let path = logs.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{text}").unwrap();
    }
}

/// Every line that is stored.
const ALL: &str = "select (select count(*) from records) + (select count(*) from rejects)";

/// A daemon that was killed after it had stored all of some lines, the last part of them in its write-ahead log alone.
struct Killed {
    home: tempfile::TempDir,
    logs: PathBuf,
    database: PathBuf,
    lines: u64,
    alerts: Vec<String>,
}

impl Killed {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let logs = home.path().join("logs");
        fs::create_dir(&logs).unwrap();
        let database = home.path().join("state/calltrail/calltrail.duckdb");
        let lines = lines();
        let (history, news) = lines.split_at(lines.len() / 2);
        append(&logs, history);
        let killed = Self { home, logs, database, lines: lines.len() as u64, alerts: vec![] };
        let daemon = killed.start();
        daemon.await_count(ALL, history.len() as u64);
        append(&killed.logs, news);
        daemon.await_count(ALL, killed.lines);
        let alerts = alert_ids(&daemon.alerts());
        assert!(alerts.len() >= 4, "the simulated attacks are found");
        daemon.kill();
        let log = fs::metadata(killed.log()).unwrap().len();
        assert!(log > 10_000, "the log holds what came last: {log}");
        Self { alerts, ..killed }
    }

    fn start(&self) -> Daemon {
        Daemon::start(self.home.path(), &self.logs)
    }

    fn log(&self) -> PathBuf {
        PathBuf::from(format!("{}.wal", self.database.display()))
    }

    /// Overwrites the second half of the log with zeros; returns what it holds then.
    fn zero_log(&self) -> Vec<u8> {
        let mut log = fs::read(self.log()).unwrap();
        let middle = log.len() / 2;
        log[middle..].fill(0);
        fs::write(self.log(), &log).unwrap();
        log
    }

    fn set_aside(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.database.parent().unwrap()).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        paths.filter(|path| path.to_string_lossy().contains(".wal.damaged-")).collect()
    }

    /// A new daemon stores each line once and finds the same alerts; that `logs` write-ahead logs were damaged is
    /// another.
    fn assert_exact(&self, logs: usize) {
        let daemon = self.start();
        daemon.await_count(ALL, self.lines);
        assert_whole(&daemon);
        let (damage, alerts): (Vec<_>, Vec<_>) = daemon.alerts().into_iter().partition(is_damage);
        assert_eq!(alert_ids(&alerts), self.alerts);
        assert_eq!(damage.len(), logs);
        assert!(daemon.stop().success());
    }
}

/// That a write-ahead log was damaged is an alert of its own.
fn is_damage(alert: &serde_json::Value) -> bool {
    alert["group"]["actor"].as_str().is_some_and(|actor| actor.contains(".wal"))
}

#[test]
fn a_torn_write_ahead_log_costs_nothing_and_nobody_has_to_do_anything() {
    for part in [0.6, 0.99] {
        let killed = Killed::new();
        let length = fs::metadata(killed.log()).unwrap().len();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of a file"
        )]
        let kept = (length as f64 * part) as u64;
        OpenOptions::new().write(true).open(killed.log()).unwrap().set_len(kept).unwrap();
        killed.assert_exact(0);
        assert_eq!(killed.set_aside(), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_damaged_write_ahead_log_is_set_aside_by_the_daemon_and_read_from_the_logs_again() {
    let killed = Killed::new();
    let damaged = killed.zero_log();
    // Those who only read move nothing, and say what helps.
    for arguments in [&["alerts", "list"][..], &["query", "select 1"], &["tools", "list"]] {
        let done = calltrail(killed.home.path()).args(arguments).output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(65), "{told}");
        assert!(told.contains("damaged") && told.contains("calltrail watch"), "{told}");
    }
    assert_eq!(killed.set_aside(), Vec::<PathBuf>::new());
    killed.assert_exact(1);
    let aside = killed.set_aside();
    assert_eq!(aside.len(), 1);
    assert_eq!(fs::read(&aside[0]).unwrap(), damaged);
}

#[test]
fn a_pass_with_a_kept_database_sets_a_damaged_write_ahead_log_aside_too() {
    let killed = Killed::new();
    killed.zero_log();
    let done = calltrail(killed.home.path())
        .args(["scan", "--output", "json", "--db"])
        .args([&killed.database, &killed.logs])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let (damage, alerts): (Vec<_>, Vec<_>) = json_lines(&done).into_iter().partition(is_damage);
    assert_eq!((alert_ids(&alerts), damage.len()), (killed.alerts.clone(), 1));
    assert_eq!(killed.set_aside().len(), 1);
    let (_, once) = scan(&killed.logs);
    assert_eq!(alert_ids(&once), killed.alerts);
}
