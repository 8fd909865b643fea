//! The daemon: the pipeline on a thread of its own, dashboard, mail and control socket around it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::clock::now;
use super::control;
use super::drive::{Driver, Trouble};
use super::pipeline::{Pipeline, Setup};
use super::rules::Keeper;
use crate::notify::Mailer;
use crate::store::{Desk, Reader};
use crate::web::{self, Health, WebConfig};

/// Requests that may wait for the writer.
const DESK_REQUESTS_MAX: usize = 256;
/// How long the parts may take to end.
const STOP_SECS_MAX: u64 = 9;
const BROKE_DOWN: &str =
    "the writer broke down; what was committed is safe, and a new start goes on from there";

/// What to run.
pub(crate) struct WatchSetup {
    pub(crate) pipeline: Setup,
    pub(crate) listener: std::net::TcpListener,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) token: String,
    pub(crate) scan_every: Duration,
    pub(crate) rules: Keeper,
    /// Told (bytes done, bytes in all) while a backlog is read, and none once it is.
    pub(crate) on_backfill: OnBackfill,
}

pub(crate) type OnBackfill = Box<dyn Fn(Option<(u64, u64)>) + Send>;

/// Opens everything, tells `on_ready` the bound address, and runs until `shutdown`.
pub(crate) async fn watch(
    setup: WatchSetup,
    shutdown: CancellationToken,
    on_ready: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let pipeline = Pipeline::open(&setup.pipeline, now())?;
    let (queue, requests) = mpsc::channel(DESK_REQUESTS_MAX);
    let desk = Desk::new(queue);
    let reader = pipeline.reader();
    let (health_tx, health) = watch::channel(Health::default());
    let (news_tx, news) = watch::channel(pipeline.seq());
    setup.listener.set_nonblocking(true).context("the dashboard's socket")?;
    let listener = TcpListener::from_std(setup.listener).context("the dashboard's socket")?;
    let address = listener.local_addr().context("the dashboard's socket")?;

    let mut tasks = tokio::task::JoinSet::new();
    let standing_problems = start_control(&setup.pipeline, &reader, &desk, &shutdown, &mut tasks);
    start_mail(&setup.pipeline, &reader, &desk, &news, &shutdown, &mut tasks)?;
    let catalogue = Arc::clone(&setup.pipeline.catalogue);
    let config = WebConfig {
        reader: reader.clone(),
        desk,
        token: setup.token,
        allowed_hosts: setup.allowed_hosts,
        labels: Arc::new(move |server, tool| catalogue.labels(server, tool)),
        health,
        news,
        rules: setup.rules.shown(),
        clock: now,
    };
    let web_shutdown = shutdown.clone();
    tasks.spawn(async move {
        if let Err(error) = web::serve(listener, config, web_shutdown).await {
            tracing::error!(%error, "the dashboard has stopped");
        }
    });
    let (looked, first_look) = oneshot::channel();
    let driver = Driver {
        setup: setup.pipeline,
        desk: requests,
        health: health_tx,
        news: news_tx,
        standing_problems,
        looked: Some(looked),
        on_backfill: setup.on_backfill,
        scan_every: setup.scan_every,
        shutdown: shutdown.clone(),
        reader,
        trouble: Trouble::default(),
        rules: setup.rules,
    };
    let writer = start_writer(driver, pipeline)?;
    tokio::select! {
        _ = first_look => on_ready(address),
        () = shutdown.cancelled() => {}
    }
    shutdown.cancelled().await;
    let stop = async {
        while tasks.join_next().await.is_some() {}
        // Its end is the last thing: what was read is stored, and the log is written into the database.
        tokio::task::spawn_blocking(move || writer.join()).await
    };
    match tokio::time::timeout(Duration::from_secs(STOP_SECS_MAX), stop).await {
        Ok(Ok(Ok(()))) => {}
        // Whoever started the daemon starts it again only if it says that it broke down.
        Ok(_) => anyhow::bail!(BROKE_DOWN),
        Err(_) => tracing::warn!("not everything ended in time; what was committed is safe"),
    }
    Ok(())
}

/// The pipeline blocks for as long as a batch takes, so it has a thread, and a small runtime, of its own.
fn start_writer(driver: Driver, pipeline: Pipeline) -> anyhow::Result<std::thread::JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the writer's runtime")?;
    let shutdown = driver.shutdown.clone();
    std::thread::Builder::new()
        .name("writer".to_owned())
        .spawn(move || {
            // A writer that panics must not leave a daemon that looks alive: everything stops.
            let _stop = shutdown.drop_guard();
            runtime.block_on(driver.run(pipeline));
        })
        .context("the writer's thread")
}

fn start_control(
    setup: &Setup,
    reader: &Reader,
    desk: &Desk,
    shutdown: &CancellationToken,
    tasks: &mut tokio::task::JoinSet<()>,
) -> Vec<String> {
    match control::bind(&setup.store.path) {
        Ok(listener) => {
            let path = control::socket_path(&setup.store.path);
            let serve = control::serve(listener, reader.clone(), desk.clone(), shutdown.clone());
            tasks.spawn(async move {
                serve.await;
                drop(std::fs::remove_file(path));
            });
            Vec::new()
        }
        Err(error) => {
            let problem = format!(
                "the control socket cannot be made ({error}): commands such as `alerts list` will \
                 not find this daemon; a shorter path for --db may help"
            );
            tracing::warn!("{problem}");
            vec![problem]
        }
    }
}

fn start_mail(
    setup: &Setup,
    reader: &Reader,
    desk: &Desk,
    news: &watch::Receiver<u64>,
    shutdown: &CancellationToken,
    tasks: &mut tokio::task::JoinSet<()>,
) -> anyhow::Result<()> {
    let Some(mail) = &setup.mail else { return Ok(()) };
    let mailer = Mailer::new(mail.as_ref().clone())?;
    let (reader, desk) = (reader.clone(), desk.clone());
    tasks.spawn(crate::notify::run(reader, desk, mailer, now, news.clone(), shutdown.clone()));
    Ok(())
}
