//! What people do with rules, through the real binary.

mod explain;
mod lines;
mod one_group;
mod overrides;
mod reload;
mod replay;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{calltrail, json_lines};

const ATTACK: &str = include_str!("samples/trifecta/logs/tickets/audit.jsonl");

/// Logs that were read once into a database that is kept.
struct Kept {
    home: tempfile::TempDir,
}

impl Kept {
    /// One log with these lines.
    fn of(lines: &str) -> Self {
        let kept = Self { home: tempfile::tempdir().unwrap() };
        fs::create_dir(kept.logs()).unwrap();
        fs::write(kept.log(), lines).unwrap();
        kept.scan();
        kept
    }

    fn logs(&self) -> PathBuf {
        self.home.path().join("logs")
    }

    fn log(&self) -> PathBuf {
        self.logs().join("audit.jsonl")
    }

    fn scan(&self) {
        let database = self.home.path().join("kept.duckdb");
        let done = calltrail(self.home.path())
            .args(["scan", "--quiet", "--db"])
            .arg(database)
            .arg(self.logs())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// A command over the database; its output and its exit code.
    fn run(&self, arguments: &[&str]) -> (std::process::Output, i32) {
        let done = calltrail(self.home.path())
            .args(arguments)
            .arg("--db")
            .arg(self.home.path().join("kept.duckdb"))
            .output()
            .unwrap();
        let code = done.status.code().unwrap_or(-1);
        (done, code)
    }

    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let (done, code) = self.run(&[arguments, &["--output", "json"]].concat());
        assert_eq!(code, 0, "{}", String::from_utf8_lossy(&done.stderr));
        json_lines(&done)
    }

    fn text(&self, arguments: &[&str]) -> String {
        let (done, code) = self.run(arguments);
        assert_eq!(code, 0, "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
