//! `calltrail watch`: the daemon.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::words::count_of;
use super::{Common, progress, setup};
use crate::config::{Config, Overrides};
use crate::daemon::{Keeper, OnBackfill, Reread, WatchSetup, watch};
use crate::untrusted::display_untrusted;

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
    let overrides = Overrides {
        logs: args.dirs,
        listen: args.listen,
        no_mail: args.no_mail,
        ..common.overrides()
    };
    let config = super::load(&overrides)?;
    let dirs = config.logs.clone();
    if dirs.is_empty() {
        return Err(Failure::usage(anyhow!(
            "name at least one folder with logs, or set `logs` in the configuration"
        )));
    }
    setup::check_roots(&dirs)?;
    let mut setup = prepare(&config, dirs, &config.store.db, common.quiet)?;
    if let Some(file) = config.file.clone() {
        setup.rules.follow(file, reread(overrides));
    }
    let about = about(&setup);
    serve(setup, common.quiet, |address, token| {
        hint(common.quiet, &about);
        announce(out, address, token)
    })
}

/// Reads where rules come from again, whatever else the configuration says.
fn reread(overrides: Overrides) -> Reread {
    let overrides = Overrides { no_mail: true, no_db: true, ..overrides };
    std::sync::Arc::new(move || {
        let config = super::load(&overrides).map_err(|failure| failure.message())?;
        Ok(setup::rule_source(&config))
    })
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
    let rules = Keeper::start(setup::rule_source(config)).map_err(setup::refused)?;
    Ok(WatchSetup {
        pipeline: setup::pipeline(config, dirs, database, &rules.book().rules)?,
        rules,
        listener,
        allowed_hosts: config.web.allowed_hosts.clone(),
        token: super::token::load(&setup::beside(database, ".token"))?,
        scan_every: Duration::from_secs(config.tail.scan_secs),
        on_backfill: show_backfill(quiet),
    })
}

/// What is watched, kept and mailed, a line each.
pub(super) fn about(setup: &WatchSetup) -> String {
    let pipeline = &setup.pipeline;
    let shown = |path: &Path| display_untrusted(&path.to_string_lossy());
    let folders: Vec<String> = pipeline.tail.roots.iter().map(|root| shown(root)).collect();
    let mail = match &pipeline.mail {
        Some(mail) => format!("mail to {}", mail.recipients().collect::<Vec<_>>().join(", ")),
        None => "nobody is mailed".to_owned(),
    };
    format!(
        "watching {}\ndatabase {}\n{}\n{mail}",
        folders.join(", "),
        shown(&pipeline.store.path),
        count_of(pipeline.rules.rules(), "rule"),
    )
}

/// Tells people on stderr, a line each. That nobody reads it stops nothing.
pub(super) fn hint(quiet: bool, text: &str) {
    if !quiet {
        let mut err = std::io::stderr().lock();
        drop(text.lines().try_for_each(|line| writeln!(err, "calltrail: {line}")));
    }
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
    quiet: bool,
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
    hint(quiet, "stopped");
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
