//! The way to a database: through the daemon that has it open, or by opening it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::Context as _;

use super::failure::Failure;
use super::setup;
use crate::config::Config;
use crate::daemon::control::{Ask, Tell, socket_path, tell};
use crate::daemon::{decide, journal_path, now, open_journal};
use crate::store::{Decision, OpenOptions, Restored, Store};

/// A database that is asked more than once: through the daemon, or held open meanwhile.
pub(super) enum Access {
    Daemon(PathBuf),
    Store(Box<Store>),
}

impl Access {
    pub(super) fn open(config: &Config) -> Result<Self, Failure> {
        let path = &config.store.db;
        let socket = socket_path(path);
        if UnixStream::connect(&socket).is_ok() {
            return Ok(Self::Daemon(socket));
        }
        let options = OpenOptions { create: false, ..setup::open_options(config, path) };
        Ok(Self::Store(Box::new(Store::open(&options)?)))
    }

    pub(super) fn ask(&mut self, ask: Ask) -> Result<Tell, Failure> {
        match self {
            Self::Daemon(socket) => {
                let stream = UnixStream::connect(socket).context("the daemon has gone")?;
                Ok(converse(stream, &ask).context("talking to the running daemon")?)
            }
            Self::Store(store) => answer(store, ask),
        }
    }
}

/// Asks the daemon that has the database open; where none runs, opens the database and answers from it.
pub(super) fn ask(config: &Config, ask: Ask) -> Result<Tell, Failure> {
    Access::open(config)?.ask(ask)
}

fn converse(mut stream: UnixStream, ask: &Ask) -> anyhow::Result<Tell> {
    stream.write_all(&serde_json::to_vec(ask)?)?;
    stream.write_all(b"\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

fn answer(store: &mut Store, ask: Ask) -> Result<Tell, Failure> {
    let Ask::Decide { id, who, state, close_reason, note } = ask else {
        return Ok(tell(&store.reader(), ask));
    };
    let decision = Decision { alert_id: id, at: now(), who, state, close_reason, note };
    if !store.knows_alert(id)? {
        return Ok(Tell::Unknown { id });
    }
    let path = journal_path(store.path());
    let (mut journal, _) = open_journal(&path, store, Restored::default(), decision.at)?;
    decide(Some(&mut journal), store, &decision)?;
    Ok(Tell::Done)
}
