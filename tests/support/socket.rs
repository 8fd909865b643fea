//! Asking a running daemon by its control socket, which is much cheaper than by the command line.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use calltrail::daemon::control::{Ask, Tell, socket_path};
use serde_json::Value;

/// The longest that an answer may take. One that is stopped for a while, or opens its database again, comes late.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// The rows of a query; an error if there is no answer, or none of rows.
pub(crate) fn rows(database: &Path, sql: &str) -> Result<Vec<Vec<Value>>, String> {
    let ask = Ask::Query { sql: sql.to_owned(), rows_max: 1_000_000, seconds_max: 30 };
    match tell(database, &ask)? {
        Tell::Answer { answer } => Ok(answer.rows),
        other => Err(format!("{other:?}")),
    }
}

pub(crate) fn tell(database: &Path, ask: &Ask) -> Result<Tell, String> {
    let converse = || {
        let mut stream = UnixStream::connect(socket_path(database))?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.write_all(&serde_json::to_vec(ask)?)?;
        stream.write_all(b"\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok::<_, std::io::Error>(serde_json::from_slice(&answer)?)
    };
    converse().map_err(|error| error.to_string())
}
