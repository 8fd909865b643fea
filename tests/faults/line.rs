//! Lines of every format, each with a mark of its own by which it is found again.

use serde_json::{Value, json};

use super::step::time_of;

/// What a line has to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Becomes {
    Record,
    Reject,
}

/// One line that was written.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Writer and number, such as `w2-000017`.
    pub(super) mark: String,
    /// Without its newline.
    pub(super) text: String,
    pub(super) becomes: Becomes,
}

/// Which format a log is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    TwoSided,
    StdioProxy,
    Gate,
    Tenant,
}

impl Format {
    pub(super) const ALL: [Self; 4] = [Self::TwoSided, Self::StdioProxy, Self::Gate, Self::Tenant];
}

/// The writer of the lines by which a test sees that all before them is read.
pub(super) const SENTINEL: usize = 99;

/// More than the daemon under test reads whole.
const OVERLONG_BYTES: usize = 70_000;

/// Makes lines; every line of a run has another number and another time.
#[derive(Default)]
pub(super) struct Lines {
    made: u64,
}

impl Lines {
    /// An everyday line.
    pub(super) fn plain(&mut self, writer: usize, format: Format) -> Line {
        self.line(writer, |mark, at| match format {
            Format::TwoSided => two_sided("client", "read_file", "ASK", &format!("r-{mark}"), &mark, &at),
            Format::StdioProxy => json!({
                "direction": "client->server", "decision": "deny", "tool": "delete_file", "args": [mark],
                "ts": at, "mark": mark,
            }),
            Format::Gate => json!({
                "time": at, "request_id": format!("r-{mark}"), "caller": "nadia", "tool": "lookup_document",
                "outcome": "ok", "duration_ms": 12, "mark": mark,
            }),
            Format::Tenant => tenant("u-everyday", "get_ticket", &mark, &at),
        })
    }

    /// A client's question and a server's answer.
    pub(super) fn pair(&mut self, client: usize, server: usize) -> [Line; 2] {
        let request = format!("p-{}", self.made);
        [(client, "client", "ASK"), (server, "server", "OK")].map(|(writer, actor, outcome)| {
            self.line(writer, |mark, at| {
                two_sided(actor, "write_file", outcome, &request, &mark, &at)
            })
        })
    }

    /// What a trifecta is made of, by a principal of its own.
    pub(super) fn attack(&mut self, writer: usize) -> [Line; 3] {
        let who = format!("u-{}", self.made);
        ["fetch_url", "search_tickets", "post_comment"]
            .map(|tool| self.line(writer, |mark, at| tenant(&who, tool, &mark, &at)))
    }

    /// A line that no rule has to do with.
    pub(super) fn sentinel(&mut self) -> Line {
        self.line(SENTINEL, |mark, at| tenant("u-sentinel", "ping", &mark, &at))
    }

    /// A line that cannot be read. It has a time: a copy of less than 64 bytes is known by one alone.
    pub(super) fn bad(&mut self, writer: usize) -> Line {
        let Line { mark, text, .. } =
            self.line(writer, |mark, at| json!({ "mark": mark, "ts": at }));
        Line { mark, text: text.replace('}', ", broken"), becomes: Becomes::Reject }
    }

    pub(super) fn overlong(&mut self, writer: usize) -> Line {
        let filler = "x".repeat(OVERLONG_BYTES);
        let line =
            self.line(writer, |mark, at| json!({ "mark": mark, "ts": at, "filler": filler }));
        Line { becomes: Becomes::Reject, ..line }
    }

    fn line(&mut self, writer: usize, value: impl FnOnce(String, String) -> Value) -> Line {
        self.made += 1;
        let mark = format!("w{writer}-{:06}", self.made);
        let text = value(mark.clone(), time_of(self.made).to_rfc3339()).to_string();
        Line { mark, text, becomes: Becomes::Record }
    }
}

/// The first argument of both is the request: by that, too, they are one call.
fn two_sided(actor: &str, tool: &str, outcome: &str, request: &str, mark: &str, at: &str) -> Value {
    json!({
        "actor": actor, "tool": tool, "args": { "filepath": request }, "outcome": outcome,
        "request_id": request, "ts": at, "mark": mark,
    })
}

pub(super) fn tenant(who: &str, tool: &str, mark: &str, at: &str) -> Value {
    json!({
        "ts": at, "subject": who, "client_id": "assistant", "tenant": "acme", "tool": tool,
        "params": { "status": mark }, "dropped": [], "outcome": "ok", "mark": mark,
    })
}
