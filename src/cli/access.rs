//! The way to a database: through the daemon that has it open, or by opening it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::Context as _;

use super::failure::Failure;
use super::setup;
use crate::config::Config;
use crate::daemon::control::{Ask, Tell, socket_path, tell};
use crate::daemon::{decide, journal_path, now, open_journal};
use crate::store::{Decision, OpenOptions, Restored, Store};

/// Asks the daemon that has the database open; where none runs, opens the database and answers from it.
pub(super) fn ask(config: &Config, ask: Ask) -> Result<Tell, Failure> {
    let path = &config.store.db;
    match UnixStream::connect(socket_path(path)) {
        Ok(stream) => Ok(converse(stream, &ask).context("talking to the running daemon")?),
        Err(_) => answer(config, path, ask),
    }
}

fn converse(mut stream: UnixStream, ask: &Ask) -> anyhow::Result<Tell> {
    stream.write_all(&serde_json::to_vec(ask)?)?;
    stream.write_all(b"\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

fn answer(config: &Config, path: &Path, ask: Ask) -> Result<Tell, Failure> {
    let options = OpenOptions { create: false, ..setup::open_options(config, path) };
    let mut store = Store::open(&options)?;
    let Ask::Decide { id, who, state, close_reason, note } = ask else {
        return Ok(tell(&store.reader(), ask));
    };
    let decision = Decision { alert_id: id, at: now(), who, state, close_reason, note };
    if !store.knows_alert(id)? {
        return Ok(Tell::Unknown { id });
    }
    let (mut journal, _) =
        open_journal(&journal_path(path), &mut store, Restored::default(), decision.at)?;
    decide(Some(&mut journal), &mut store, &decision)?;
    Ok(Tell::Done)
}
