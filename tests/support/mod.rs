//! The real binary: running commands, and a daemon that is stopped when a test is done with it.

/// A mail server that takes everything.
pub(crate) mod sink;
/// Questions to a running daemon.
pub(crate) mod socket;

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longest that anything awaited may take, so that a broken test fails instead of hanging.
const WAIT_MAX: Duration = Duration::from_mins(2);

/// A command of the binary, cut off from the user's own configuration.
pub(crate) fn calltrail(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_calltrail"));
    command
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"))
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env_remove("RUST_LOG");
    command
}

/// The output's lines as JSON.
pub(crate) fn json_lines(output: &Output) -> Vec<Value> {
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("stdout holds one JSON object a line"))
        .collect()
}

/// One pass over a folder: its exit code and its alerts.
pub(crate) fn scan(logs: &Path) -> (i32, Vec<Value>) {
    let home = tempfile::tempdir().unwrap();
    let output =
        calltrail(home.path()).args(["scan", "--output", "json"]).arg(logs).output().unwrap();
    (output.status.code().unwrap_or(-1), json_lines(&output))
}

/// The ids of alerts, sorted.
pub(crate) fn alert_ids(alerts: &[Value]) -> Vec<String> {
    let mut ids: Vec<String> =
        alerts.iter().filter_map(|alert| alert["alert_id"].as_str()).map(str::to_owned).collect();
    ids.sort();
    ids
}

/// A running daemon.
pub(crate) struct Daemon {
    child: Child,
    home: PathBuf,
    /// The login link.
    pub(crate) link: String,
}

impl Daemon {
    /// Starts `watch` over a folder, its state under `home`, and waits for its dashboard.
    pub(crate) fn start(home: &Path, logs: &Path) -> Self {
        Self::start_with(home, logs, &[])
    }

    pub(crate) fn start_with(home: &Path, logs: &Path, arguments: &[&str]) -> Self {
        Self::launch(home, calltrail(home).args(watch(arguments)).arg(logs))
            .expect("the daemon ended before it was ready")
    }

    /// Runs a command that becomes the daemon, its state under `home`; how it ended, if it did before it was ready.
    pub(crate) fn launch(home: &Path, command: &mut Command) -> Result<Self, ExitStatus> {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let Some(Ok(first)) = lines.next() else { return Err(child.wait().unwrap()) };
        let link = first.strip_prefix("Dashboard: ").expect("the login link").to_owned();
        Ok(Self { child, home: home.to_path_buf(), link })
    }

    /// Runs another command against the same state.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Output {
        calltrail(&self.home).args(arguments).output().unwrap()
    }

    pub(crate) fn query(&self, sql: &str) -> Vec<Value> {
        let output = self.ask(&["query", "--output", "json", sql]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        json_lines(&output)
    }

    /// Waits until a query gives this number in its only column.
    pub(crate) fn await_count(&self, sql: &str, wanted: u64) {
        let mut last = 0;
        await_that(&format!("{wanted} from: {sql}"), || {
            let rows = self.query(sql);
            last = rows
                .first()
                .and_then(|row| row.as_object()?.values().next()?.as_u64())
                .unwrap_or(0);
            last == wanted
        });
    }

    pub(crate) fn alerts(&self) -> Vec<Value> {
        json_lines(&self.ask(&["alerts", "list", "--output", "json"]))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// SIGSTOP: it neither reads nor answers until it is told to go on.
    pub(crate) fn pause(&self) {
        signal(&self.child, Signal::STOP);
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        signal(&self.child, Signal::CONT);
    }

    /// kill -9.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM; returns how it ended.
    pub(crate) fn stop(mut self) -> ExitStatus {
        signal(&self.child, Signal::TERM);
        self.child.wait().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A page of the dashboard, by way of its login link.
pub(crate) fn page(link: &str, path: &str) -> String {
    let address = link.split('/').nth(2).unwrap();
    let login = link.split_once(address).unwrap().1;
    let get = |path: &str, cookie: &str| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let welcome = get(login, "");
    let cookie = welcome.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("set-cookie").then(|| value.trim())
    });
    get(path, cookie.and_then(|cookie| cookie.split(';').next()).expect("a cookie"))
}

/// A command of the binary that a limit on the size of its files does not kill: it gets an error instead. A shell
/// becomes it after `prelude`.
pub(crate) fn shielded(home: &Path, prelude: &str) -> Command {
    let plain = calltrail(home);
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("trap '' XFSZ\n{prelude}\nexec \"$0\" \"$@\""))
        .arg(plain.get_program());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// The arguments of `watch` on any free port.
pub(crate) fn watch<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    ["watch", "--listen", "127.0.0.1:0"].iter().chain(arguments).copied().collect()
}

/// The database of a daemon whose state lies under `home`.
pub(crate) fn database(home: &Path) -> PathBuf {
    home.join("state/calltrail/calltrail.duckdb")
}

/// A file that belongs to a database.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Polls until something is true; there is no event to await in another process.
pub(crate) fn await_that(what: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < WAIT_MAX, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(25));
    }
}
