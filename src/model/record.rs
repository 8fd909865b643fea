//! Lines, records and rejects: what the tail reads and the dialects make of it.

use serde::{Deserialize, Serialize};

use super::{Micros, OutcomeClass, RecordId, Text};

/// Raw bytes at a place in a source, without the newline.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    pub generation: u64,
    pub offset: u64,
    /// Bytes the line takes in the file, its newline included.
    pub length: u64,
    pub bytes: &'a [u8],
}

/// A line that could not become a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    pub generation: u64,
    pub offset: u64,
    /// Bytes the line takes in the file, its newline included; where it has several parts, those of this part.
    pub length: u64,
    /// Says what is wrong and, where it can, what to do. Holds no values from the line.
    pub reason: String,
    /// The head of the line, masked, at most 64 KiB; bytes that are not UTF-8 are replaced.
    pub head: String,
}

/// Whose log a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Witness {
    Transcript,
    Client,
    Gateway,
    Proxy,
    Server,
}

impl Witness {
    /// From the farthest from the work to the nearest: the first that saw a call leads it, the last knows its outcome.
    pub const ALL: [Self; 5] =
        [Self::Transcript, Self::Client, Self::Gateway, Self::Proxy, Self::Server];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transcript => "transcript",
            Self::Client => "client",
            Self::Gateway => "gateway",
            Self::Proxy => "proxy",
            Self::Server => "server",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|witness| witness.as_str() == word)
    }
}

/// The format a record was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// A1: the client and the server log in the same shape.
    TwoSided,
    /// A2: a proxy between client and server on standard input and output.
    StdioProxy,
    /// A3: a gate that logs stable codes and no arguments.
    Gate,
    /// A4: a server of many tenants that logs allow-listed parameters.
    Tenant,
}

impl Dialect {
    pub const ALL: [Self; 4] = [Self::TwoSided, Self::StdioProxy, Self::Gate, Self::Tenant];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TwoSided => "two-sided",
            Self::StdioProxy => "stdio-proxy",
            Self::Gate => "gate",
            Self::Tenant => "tenant",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == word)
    }
}

/// What part a record plays in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// Tells of a tool call.
    Call,
    /// A request of another method that awaits a reply (stdio proxy): it takes its turn in the reply queue, no more.
    Request,
    /// A reply that belongs to the oldest request still waiting in its stream, or to the one with its id.
    Reply,
    /// Everything else: notifications, parse errors.
    Context,
}

impl RecordKind {
    pub const ALL: [Self; 4] = [Self::Call, Self::Request, Self::Reply, Self::Context];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Request => "request",
            Self::Reply => "reply",
            Self::Context => "context",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// Where a record's time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeQuality {
    /// The record's own.
    Own,
    /// The record had none: the last valid one before it in its generation, else the next one, else none.
    Missing,
    /// The record had one that cannot be read or cannot be: taken as if missing.
    Invalid,
    /// Its own, but more than 60 s ahead of the clock when it was read.
    Future,
}

impl TimeQuality {
    pub const ALL: [Self; 4] = [Self::Own, Self::Missing, Self::Invalid, Self::Future];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Missing => "missing",
            Self::Invalid => "invalid",
            Self::Future => "future",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|quality| quality.as_str() == word)
    }
}

/// How much of a call's arguments a record shows.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum ArgView {
    /// Nothing is said about them.
    #[default]
    Nothing,
    /// Only their names.
    Names,
    /// Some values, and the names of the others.
    Partial,
    /// All of them (a long value may still be summarised by its length).
    Full,
}

/// One argument as a record shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgValue {
    pub name: Text,
    /// The value as JSON text, masked and cut at 4 KiB.
    pub text: Text,
    /// Hash of the unmasked value, keyed per database, so that masked values stay comparable.
    pub hash: u64,
    /// Length in characters where the value is a string, or the length that a summary states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chars: Option<u64>,
    /// True when the log shows only the value's length (`<2048 chars>`): it matches any value of that length.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summarised: bool,
}

/// A call's arguments as one record shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Args {
    pub view: ArgView,
    /// The values shown, sorted by name.
    pub values: Vec<ArgValue>,
    /// Names of arguments whose values are not shown, sorted.
    pub dropped: Vec<Text>,
}

/// One normalised audit record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub id: RecordId,
    /// Bytes the line takes in the file, its newline included; where it has several parts, those of this part.
    pub length: u64,
    /// The source's name through rotations: path relative to the watched root without rotation suffix.
    pub stream: Text,
    /// Own time, or the neighbour's; none if no line of the generation has one.
    pub at: Option<Micros>,
    pub time_quality: TimeQuality,
    pub dialect: Dialect,
    pub witness: Witness,
    pub kind: RecordKind,
    pub class: OutcomeClass,
    /// The dialect's own outcome word.
    pub code: Text,
    pub detail: Option<Text>,
    /// The tool's name as logged, namespace included.
    pub tool: Option<Text>,
    pub server: Option<Text>,
    pub args: Args,
    /// Identifies one call within (stream, tool); for replies and proxied requests the JSON-RPC id.
    pub request_id: Option<Text>,
    /// Groups the calls of one user request without identifying any (gate).
    pub group_id: Option<Text>,
    /// W3C trace id, from `trace_id` or `traceparent`.
    pub trace_id: Option<Text>,
    /// The model's own id of this tool use, from `tool_use_id`: the same in every log that carries it.
    pub tool_use_id: Option<Text>,
    pub principal: Option<Text>,
    pub client: Option<Text>,
    pub tenant: Option<Text>,
    /// An explicit session id.
    pub session: Option<Text>,
    pub duration_ms: Option<f64>,
    /// The log's own flags and ours (`duplicate-key`, `unterminated`), sorted.
    pub flags: Vec<Text>,
    /// Further values of duplicated keys, as (field name of the rule language, value): rules see them all.
    pub also: Vec<(Text, Text)>,
    /// Keys no field takes, as a JSON object, masked and cut at 4 KiB.
    pub extra: Option<Text>,
}

impl Record {
    /// The tool's name without its namespace: `files.read_file` and `mcp__files__read_file` are `read_file`.
    pub fn bare_tool(&self) -> Option<&str> {
        self.tool.as_deref().map(bare_tool)
    }
}

/// Strips the namespace from a tool's name; a name that is all namespace stays as it is.
pub(crate) fn bare_tool(tool: &str) -> &str {
    let after_prefix = tool
        .strip_prefix("mcp__")
        .and_then(|rest| rest.split_once("__"))
        .map_or(tool, |(_, bare)| bare);
    let bare = after_prefix.rsplit_once(['.', '/', ':']).map_or(after_prefix, |(_, bare)| bare);
    if bare.is_empty() { tool } else { bare }
}
