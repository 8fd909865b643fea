//! The command line: one file per subcommand. Data goes to stdout, everything else to stderr.

mod access;
mod alerts;
mod check_config;
mod decide;
mod demo;
mod doctor;
mod failure;
mod notify;
mod output;
mod progress;
mod query;
mod rebuild;
mod rules;
mod scan;
mod setup;
mod simulate;
mod token;
mod tools;
mod wanted;
mod watch;
mod words;

use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Parser;

use crate::config::{self, Config, Environment, Overrides};
use failure::Failure;
use output::Format;

/// Audit-log analytics and anomaly detection for MCP tool calls
#[derive(Parser, Debug)]
#[command(name = "calltrail", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(clap::Args, Debug)]
struct Common {
    /// How to print: for people, or one JSON object a line
    #[arg(long, global = true, help_heading = "Global options", value_enum, default_value_t)]
    output: Format,
    /// The database; without it, the configured one (a scan: a temporary one)
    #[arg(long, global = true, help_heading = "Global options", value_name = "PATH")]
    db: Option<PathBuf>,
    /// The configuration file
    #[arg(long, global = true, help_heading = "Global options", value_name = "PATH")]
    config: Option<PathBuf>,
    /// A folder with rule files of your own, laid over the shipped ones
    #[arg(long, global = true, help_heading = "Global options", value_name = "DIR")]
    rules: Option<PathBuf>,
    /// A file with labels of tools, laid over the shipped catalogue
    #[arg(long, global = true, help_heading = "Global options", value_name = "FILE")]
    catalogue: Option<PathBuf>,
    /// No progress, and no log below warnings
    #[arg(short, long, global = true, help_heading = "Global options")]
    quiet: bool,
    /// More of the log; twice for all of it
    #[arg(short, long, global = true, help_heading = "Global options", action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Watch folders: read, detect, show a dashboard and mail
    Watch(watch::Args),
    /// Read what is there once, print the alerts and end
    ///
    /// Without --db nothing is kept. With it, what is new is added to that database, and all alerts of the database are
    /// listed, those of earlier passes too.
    Scan(scan::Args),
    /// See it work: an attack is written live and watched
    Demo(demo::Args),
    /// Write realistic logs with the truth beside them
    Simulate(simulate::Args),
    /// Check, test and list rules
    #[command(subcommand)]
    Rules(rules::Command),
    /// What was called, and what it can do
    #[command(subcommand)]
    Tools(tools::Command),
    /// List, show and decide about alerts
    #[command(subcommand)]
    Alerts(alerts::Command),
    /// Run SQL over records, calls, sessions, alerts, rejects and sources
    Query(query::Args),
    /// Check that the database accounts for every byte that was read, once
    ///
    /// Says in one line that all is well, or lists what is not: bytes that are in no record, reject or gap or in more
    /// than one, positions and counters that do not fit, calls whose records are gone, and what in the journal was
    /// changed, cut or removed, or does not agree with the database. Only looks; also while the daemon runs. The exit
    /// code is 65 if anything is wrong.
    Doctor,
    /// Make the database again from the logs, the journal and what can be read of the old database
    ///
    /// For a database that is damaged, or that `calltrail doctor` finds fault with. Stop the daemon first. Logs that
    /// are still there are read again from their beginning; what the old database has of logs that are gone is taken
    /// over. Calls and alerts get the ids that they had, decisions come back, nothing that was mailed is mailed again,
    /// and a mail that was owed stays owed. The new database takes the old one's place when it is complete; the old one
    /// is kept beside it, and its name says when. What could not be recovered is told on stderr, with exit code 2.
    Rebuild(rebuild::Args),
    /// Try the mail set-up
    #[command(subcommand)]
    Notify(notify::Command),
    /// Check the configuration and print what is in force
    CheckConfig(check_config::Args),
}

/// Runs the command line and says how it went.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout and are no failure; clap knows.
            drop(error.print());
            return ExitCode::from(if error.use_stderr() { 64 } else { 0 });
        }
    };
    start_log(&cli.common);
    std::panic::set_hook(Box::new(|panic| tell_panic(panic.location())));
    if !matches!(cli.command, Command::Simulate(_)) {
        // Whatever is written beside the logs (database, its log, journal, token, socket) is for its owner alone.
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    let done = dispatch(cli.command, &cli.common, &mut out)
        .and_then(|code| Ok(out.flush().map(|()| code)?));
    match done {
        Ok(code) => code,
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            drop(writeln!(std::io::stderr(), "calltrail: {}", failure.message()));
            failure.exit_code()
        }
    }
}

fn dispatch(command: Command, common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    match command {
        Command::Watch(args) => watch::run(args, common, out),
        Command::Scan(args) => scan::run(&args, common, out),
        Command::Demo(args) => demo::run(&args, common, out),
        Command::Simulate(args) => simulate::run(&args, common, out),
        Command::Rules(command) => rules::run(&command, common, out),
        Command::Tools(command) => tools::run(&command, common, out),
        Command::Alerts(command) => alerts::run(command, common, out),
        Command::Query(args) => query::run(args, common, out),
        Command::Rebuild(args) => rebuild::run(args, common, out),
        Command::Doctor => doctor::run(common, out),
        Command::Notify(command) => notify::run(&command, common, out),
        Command::CheckConfig(args) => check_config::run(&args, common, out),
    }
}

impl Common {
    /// The configuration in force, or every problem of it, for a command that mails nobody.
    fn config(&self) -> Result<Config, Failure> {
        load(&Overrides { no_mail: true, ..self.overrides() })
    }

    /// What the flags of every command say.
    fn overrides(&self) -> Overrides {
        Overrides {
            config: self.config.clone(),
            db: self.db.clone(),
            rules: self.rules.clone(),
            catalogue: self.catalogue.clone(),
            ..Overrides::default()
        }
    }
}

fn load(overrides: &Overrides) -> Result<Config, Failure> {
    config::load(overrides, &Environment::of_process()).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::config(anyhow!("the configuration cannot be used:\n{}", problems.join("\n")))
    })
}

/// Says where a part of the program failed, and not with what: a panic's message may quote a log.
fn tell_panic(place: Option<&std::panic::Location<'_>>) {
    let place = place.map(ToString::to_string).unwrap_or_default();
    tracing::error!(place, "a part of Calltrail failed; please report this line");
}

/// The log goes to stderr: for people on a terminal, as JSON lines elsewhere.
fn start_log(common: &Common) {
    use std::io::IsTerminal as _;
    let level = match (common.quiet, common.verbose) {
        (true, _) | (false, 0) => "warn",
        (false, 1) => "info",
        (false, _) => "debug",
    };
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(level);
    if std::io::stderr().is_terminal() {
        log.init();
    } else {
        log.json().init();
    }
}
