//! `calltrail demo`: a realistic attack, written live into a folder of its own, and watched.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use super::failure::Failure;
use super::{Common, watch};
use crate::config::Overrides;
use crate::daemon::now;
use crate::model::Micros;
use crate::simulate::{SimLine, Story};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Where the dashboard listens; without it, the configured address or any free port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// How many times faster than life the story is told
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=60))]
    speed: u32,
    /// Another seed tells it with other people
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(super) fn run(args: &Args, common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let overrides = |listen| Overrides { listen, no_db: true, ..common.overrides() };
    let mut config = super::load(&overrides(args.listen.clone()))?;
    if args.listen.is_none() && TcpListener::bind(config.web.listen).is_err() {
        // A demo next to a real daemon must simply work.
        let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        config = super::load(&overrides(Some(free.to_string())))?;
    }
    let folder = tempfile::Builder::new().prefix("calltrail-demo-").tempdir()?;
    let logs = folder.path().join("logs");
    std::fs::create_dir(&logs)?;
    let database =
        common.db.clone().unwrap_or_else(|| folder.path().join("state").join("demo.duckdb"));
    let setup = watch::prepare(&config, vec![logs.clone()], &database, common.quiet)?;
    let story = Story::new(args.seed);
    let speed = args.speed;
    let quiet = common.quiet;
    let about = watch::about(&setup);
    let (stop, stopped) = mpsc::channel();
    let mut teller = None;
    let answer = watch::serve(setup, quiet, |address, token| {
        let lines = story.lines(now().plus(Micros::SECOND), speed);
        watch::hint(quiet, &format!("{about}\n{}", guide(&lines, &logs, &database)));
        watch::announce(out, address, token)?;
        let story = std::thread::Builder::new().name("story".to_owned());
        teller = Some(story.spawn(move || match tell(lines, &logs, &stopped) {
            Ok(()) => watch::hint(quiet, "the story has ended; the page stays until Ctrl-C"),
            Err(error) => {
                tracing::warn!(%error, "the story could not be written to its end");
            }
        })?);
        Ok(())
    });
    // Whoever still writes into the folder would keep it from being removed.
    drop(stop);
    if let Some(teller) = teller {
        drop(teller.join());
    }
    drop(folder);
    answer
}

/// What is to be seen, and how long.
fn guide(lines: &[SimLine], logs: &Path, database: &Path) -> String {
    let end = lines.iter().map(|line| line.at_write).max().unwrap_or_else(now);
    let seconds = end.since(now()).max(0) / Micros::SECOND + 1;
    format!(
        "a story of an agent and a poisoned web page is being written to {}\n\
         the first alert comes after a few seconds; the story ends after about {seconds} s; \
         the page stays until Ctrl-C\n\
         in another terminal: calltrail alerts list --db {}",
        logs.display(),
        database.display()
    )
}

/// Writes each line when its time has come, as the programs of the story would; ends early when `stopped` does.
fn tell(lines: Vec<SimLine>, logs: &Path, stopped: &mpsc::Receiver<()>) -> std::io::Result<()> {
    for SimLine { at_write, file, text } in lines {
        let wait = at_write.since(now());
        let wait = Duration::from_micros(u64::try_from(wait).unwrap_or(0));
        if stopped.recv_timeout(wait) != Err(mpsc::RecvTimeoutError::Timeout) {
            return Ok(());
        }
        let path: PathBuf = logs.join(&*file);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(format!("{text}\n").as_bytes())?;
    }
    Ok(())
}
