//! How the command line talks to a running daemon: one JSON line each way over a Unix socket beside the database.
//!
//! The socket can be used by whoever may read the database, and by nobody else.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use super::clock::now;
use super::doctor::{Examination, examine};
use crate::model::{AlertId, AlertState, AlertView, Call, CallId, CloseReason, DecisionView};
use crate::store::{AlertFilter, Answer, CallPage, Decision, Desk, DeskError, Found, Reader};

/// The longest question.
const ASK_BYTES_MAX: u64 = 1 << 20;

/// What the command line asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Ask {
    Alerts {
        filter: AlertFilter,
    },
    Alert {
        id: AlertId,
    },
    /// What people decided about it, oldest first.
    Decisions {
        id: AlertId,
    },
    Decide {
        id: AlertId,
        who: String,
        state: AlertState,
        close_reason: Option<CloseReason>,
        note: String,
    },
    Query {
        sql: String,
        rows_max: usize,
        seconds_max: u64,
    },
    /// Whether the database accounts for everything.
    Examine,
    /// One call as it now stands, under any of its ids.
    Call {
        id: CallId,
    },
    /// Calls in the order in which rules see them.
    Calls {
        page: CallPage,
    },
    /// What became of a line: a file by the names that it may have, and the line's first byte.
    Line {
        paths: Vec<String>,
        offset: u64,
    },
}

/// What the daemon answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "kebab-case")]
pub enum Tell {
    Alerts {
        alerts: Vec<AlertView>,
    },
    Alert {
        alert: Option<Box<AlertView>>,
    },
    Decisions {
        decisions: Vec<DecisionView>,
    },
    /// The decision is put down.
    Done,
    /// No alert has this id: nothing was put down.
    Unknown {
        id: AlertId,
    },
    Answer {
        answer: Answer,
    },
    Examination {
        examination: Examination,
    },
    Call {
        call: Option<Box<Call>>,
    },
    Calls {
        calls: Vec<Call>,
    },
    Line {
        found: Found,
    },
    Failed {
        message: String,
    },
}

/// Where the socket of a database lies.
pub fn socket_path(database: &Path) -> PathBuf {
    crate::store::beside(database, ".sock")
}

/// Listens; a left-over socket of a daemon that was killed is taken over, for the database's lock is already ours.
pub(super) fn bind(database: &Path) -> io::Result<UnixListener> {
    let path = socket_path(database);
    if let Ok(found) = std::fs::symlink_metadata(&path) {
        if !found.file_type().is_socket() {
            return Err(io::Error::other(format!("{} is in the way", path.display())));
        }
        std::fs::remove_file(&path)?;
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers until shutdown.
pub(super) async fn serve(
    listener: UnixListener,
    reader: Reader,
    desk: Desk,
    shutdown: CancellationToken,
) {
    loop {
        let stream = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "the control socket failed to accept");
                    continue;
                }
            },
        };
        let (reader, desk) = (reader.clone(), desk.clone());
        tokio::spawn(async move {
            if let Err(error) = converse(stream, reader, desk).await {
                tracing::debug!(%error, "a control conversation broke off");
            }
        });
    }
}

async fn converse(stream: UnixStream, reader: Reader, desk: Desk) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    BufReader::new(read.take(ASK_BYTES_MAX)).read_line(&mut line).await?;
    let tell = match serde_json::from_str::<Ask>(&line) {
        Ok(Ask::Decide { id, who, state, close_reason, note }) => {
            let decision = Decision { alert_id: id, at: now(), who, state, close_reason, note };
            match desk.decide(decision).await {
                Ok(()) => Tell::Done,
                Err(DeskError::UnknownAlert(id)) => Tell::Unknown { id },
                Err(error) => Tell::Failed { message: error.to_string() },
            }
        }
        Ok(ask) => tokio::task::spawn_blocking(move || tell(&reader, ask))
            .await
            .unwrap_or_else(|error| Tell::Failed { message: error.to_string() }),
        Err(error) => Tell::Failed { message: format!("not a question of this version: {error}") },
    };
    write.write_all(&serde_json::to_vec(&tell)?).await?;
    write.write_all(b"\n").await?;
    write.shutdown().await
}

/// Answers what only reads; for the command line too, where no daemon runs.
pub(crate) fn tell(reader: &Reader, ask: Ask) -> Tell {
    let told = match ask {
        Ask::Alerts { filter } => reader.alerts(&filter).map(|alerts| Tell::Alerts { alerts }),
        Ask::Alert { id } => {
            reader.alert(id).map(|alert| Tell::Alert { alert: alert.map(Box::new) })
        }
        Ask::Decisions { id } => {
            reader.decisions(id).map(|decisions| Tell::Decisions { decisions })
        }
        Ask::Query { sql, rows_max, seconds_max } => {
            reader.query(&sql, rows_max, seconds_max).map(|answer| Tell::Answer { answer })
        }
        Ask::Examine => examine(reader).map(|examination| Tell::Examination { examination }),
        Ask::Call { id } => reader.call(id).map(|call| Tell::Call { call: call.map(Box::new) }),
        Ask::Calls { page } => reader.call_page(&page).map(|calls| Tell::Calls { calls }),
        Ask::Line { paths, offset } => {
            reader.found_at(&paths, offset).map(|found| Tell::Line { found })
        }
        Ask::Decide { .. } => Ok(Tell::Failed { message: "decisions go to the desk".to_owned() }),
    };
    told.unwrap_or_else(|error| Tell::Failed { message: error.to_string() })
}
