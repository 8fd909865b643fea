//! What all handlers share.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::backend::{Reading, Rows, Writing};
use super::guard::HostList;
use super::session::Session;
use super::{Health, LabelsOf, RulesShown, WebConfig};
use crate::model::Micros;

/// Browsers that may listen for news at the same time.
const LISTENERS_MAX: usize = 64;

pub(crate) type Shared = Arc<WebState>;

pub(crate) struct WebState {
    pub(crate) reading: Reading,
    pub(crate) writing: Writing,
    pub(crate) session: Session,
    pub(crate) hosts: HostList,
    pub(crate) labels: LabelsOf,
    pub(crate) health: watch::Receiver<Health>,
    pub(crate) news: watch::Receiver<u64>,
    pub(crate) rules: watch::Receiver<RulesShown>,
    pub(crate) clock: fn() -> Micros,
    pub(crate) listeners: Arc<Semaphore>,
    pub(crate) shutdown: CancellationToken,
}

impl WebState {
    pub(crate) fn new(config: WebConfig, bound: SocketAddr, shutdown: CancellationToken) -> Self {
        Self {
            reading: Reading::new(Rows::Store(config.reader)),
            writing: Writing::Store(config.desk),
            session: Session::new(&config.token, bound),
            hosts: HostList::new(bound, &config.allowed_hosts),
            labels: config.labels,
            health: config.health,
            news: config.news,
            rules: config.rules,
            clock: config.clock,
            listeners: Arc::new(Semaphore::new(LISTENERS_MAX)),
            shutdown,
        }
    }
}
