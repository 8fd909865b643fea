//! `calltrail watch`: the daemon.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::{Common, progress, setup};
use crate::config::{Config, Overrides};
use crate::daemon::{OnBackfill, WatchSetup, watch};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Folders or files with logs; without any, those of the configuration
    dirs: Vec<PathBuf>,
    /// Where the dashboard listens, such as 127.0.0.1:7700; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Mail nobody, whatever the configuration says
    #[arg(long)]
    no_mail: bool,
}

pub(super) fn run(args: Args, common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let config = super::load(&Overrides {
        logs: args.dirs,
        listen: args.listen,
        no_mail: args.no_mail,
        ..common.overrides()
    })?;
    let dirs = config.logs.clone();
    if dirs.is_empty() {
        return Err(Failure::usage(anyhow!(
            "name at least one folder with logs, or set `logs` in the configuration"
        )));
    }
    setup::check_roots(&dirs)?;
    let setup = prepare(&config, dirs, &config.store.db, common.quiet)?;
    serve(setup, |address, token| announce(out, address, token))
}

/// Everything that the daemon needs, or every reason why it cannot start.
pub(super) fn prepare(
    config: &Config,
    dirs: Vec<PathBuf>,
    database: &Path,
    quiet: bool,
) -> Result<WatchSetup, Failure> {
    let listener = bind(config.web.listen)?;
    if let Some(folder) = database.parent() {
        crate::store::make_private_folder(folder)?;
    }
    Ok(WatchSetup {
        pipeline: setup::pipeline(config, dirs, database)?,
        listener,
        allowed_hosts: config.web.allowed_hosts.clone(),
        token: super::token::load(&setup::beside(database, ".token"))?,
        scan_every: Duration::from_secs(config.tail.scan_secs),
        journal: setup::journal_path(database),
        on_backfill: show_backfill(quiet),
    })
}

/// A bar on the terminal while a backlog is read.
fn show_backfill(quiet: bool) -> OnBackfill {
    let bar = progress::bar(quiet);
    Box::new(move |backfill| match backfill {
        Some((done, total)) => {
            if bar.is_finished() {
                bar.reset();
            }
            bar.set_length(total.max(done));
            bar.set_position(done);
        }
        None => bar.finish_and_clear(),
    })
}

/// Runs the daemon until it is told to stop. `on_ready` gets the address and the login token.
pub(super) fn serve(
    setup: WatchSetup,
    on_ready: impl FnOnce(SocketAddr, &str) -> std::io::Result<()>,
) -> Result<ExitCode, Failure> {
    let token = setup.token.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the runtime")?;
    let shutdown = CancellationToken::new();
    runtime.block_on(async {
        stop_on_signals(shutdown.clone())?;
        watch(setup, shutdown, |address| {
            if let Err(error) = on_ready(address, &token) {
                tracing::warn!(%error, "the dashboard's address could not be printed");
            }
        })
        .await
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the login link: whoever has it may see everything, so it goes to the terminal and nowhere else.
pub(super) fn announce(
    out: &mut impl Write,
    address: SocketAddr,
    token: &str,
) -> std::io::Result<()> {
    writeln!(out, "Dashboard: http://{address}/login?token={token}")?;
    out.flush()
}

fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| {
        let error = if error.kind() == std::io::ErrorKind::AddrInUse {
            anyhow!(
                "{address} is taken by another program, perhaps another Calltrail; stop it, or \
                 choose another address with --listen (127.0.0.1:0 takes any free port)"
            )
        } else {
            anyhow!("the dashboard cannot listen on {address}: {error}")
        };
        Failure::busy(error)
    })
}

fn stop_on_signals(shutdown: CancellationToken) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("listening for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for signals")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shutdown.cancel();
    });
    Ok(())
}
