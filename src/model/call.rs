//! Calls: one tool call as all witnesses together saw it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Args, CallId, Dialect, Micros, OutcomeClass, RecordId, Text, Witness};

/// The total order of everything: time, then stream, then place. A call without a time comes last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderKey {
    /// `i64::MAX` for a call without a time.
    pub at: Micros,
    pub stream: Text,
    pub position: RecordId,
}

/// Whether the tool was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ran {
    /// A witness shows a result.
    Yes,
    /// Denied, declined or limited, and nobody shows a run.
    No,
    Maybe,
}

impl Ran {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Maybe => "maybe",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Yes, Self::No, Self::Maybe].into_iter().find(|ran| ran.as_str() == word)
    }
}

/// What the rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// A tool call.
    #[default]
    Call,
    /// Something that reading a log showed about the log itself ([`super::IngestEvent`]). Rules that do not ask for it
    /// by `kind: ingest` never see it.
    Ingest,
}

impl EventKind {
    pub const ALL: [Self; 2] = [Self::Call, Self::Ingest];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Ingest => "ingest",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// How a witness's records were tied to the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JoinedBy {
    /// It is the call's lead witness, or the only one.
    Alone,
    /// By the model's own id of the tool use, which both logs carry.
    ToolUse,
    /// By a trace id that both logs carry.
    Trace,
    /// By tool, arguments and time.
    Arguments,
    /// By tool and time alone: nothing both know about the arguments could confirm it.
    Time,
}

impl JoinedBy {
    pub const ALL: [Self; 5] =
        [Self::Alone, Self::ToolUse, Self::Trace, Self::Arguments, Self::Time];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::ToolUse => "tool-use",
            Self::Trace => "trace",
            Self::Arguments => "arguments",
            Self::Time => "time",
        }
    }
}

/// How sure a join is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Tied by an id.
    Exact,
    /// The only candidate.
    Unambiguous,
    /// One of several candidates, taken in order.
    Ambiguous,
}

/// Something the witnesses of one call say differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Discrepancy {
    /// `denied_by` refused the call and `ran_by` shows that it ran.
    RanThoughDenied { denied_by: Witness, ran_by: Witness },
    /// Both ended the call, in different classes.
    Outcome { upper: Witness, upper_code: Text, lower: Witness, lower_code: Text },
    /// An id ties the two, yet arguments that both show differ; one witness alone can say two things as well, of the
    /// question it asked and the call it made.
    Arguments { upper: Witness, lower: Witness, names: Vec<Text> },
    /// The tool ran and the witness that `stream` belongs to has no record of it, though that log joins this one
    /// elsewhere and went on.
    Unwitnessed { by: Witness, stream: Text },
}

impl Discrepancy {
    /// What `discrepancy` is in the rule language.
    pub const WORDS: [&str; 4] =
        ["ran-though-denied", "outcome", "arguments-changed", Self::UNWITNESSED];
    /// The one of them for a call that a witness should tell of and does not.
    pub const UNWITNESSED: &str = "unwitnessed";

    pub const fn word(&self) -> &'static str {
        match self {
            Self::RanThoughDenied { .. } => Self::WORDS[0],
            Self::Outcome { .. } => Self::WORDS[1],
            Self::Arguments { .. } => Self::WORDS[2],
            Self::Unwitnessed { .. } => Self::UNWITNESSED,
        }
    }
}

/// One record of a sighting: where it is and what it said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub record: RecordId,
    /// Bytes the line takes in the file, its newline included.
    pub length: u64,
    pub at: Option<Micros>,
    pub class: OutcomeClass,
    pub code: Text,
}

/// Most candidates that a sighting names.
pub const CANDIDATES_MAX: usize = 8;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
const fn is_first(attempt: &u32) -> bool {
    *attempt == 0
}

/// One call as one witness saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sighting {
    pub witness: Witness,
    pub dialect: Dialect,
    pub stream: Text,
    /// The class of the last word it said about the call.
    pub class: OutcomeClass,
    pub code: Text,
    pub joined_by: JoinedBy,
    pub certainty: Certainty,
    /// Counted from 0: a call that failed and was made again is one call with several attempts.
    #[serde(default, skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// Where the join is ambiguous: the first records of what else fits, of other calls and of this witness, at most
    /// [`CANDIDATES_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<RecordId>,
    /// Its records in order; never empty.
    pub steps: Vec<Step>,
}

/// One tool call as all witnesses together saw it. Ingest events go the same way to the rules, in the same shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub kind: EventKind,
    pub id: CallId,
    /// The lead witness's approval, else its denial, else its first record.
    pub at: Option<Micros>,
    /// The lead witness's stream and the place of its first record: with `at`, the call's order.
    pub stream: Text,
    pub position: RecordId,
    /// The last time any witness mentions.
    pub ended: Option<Micros>,
    pub duration_ms: Option<f64>,
    /// The tool's name as its lead witness logged it.
    pub tool: Text,
    pub server: Option<Text>,
    pub principal: Option<Text>,
    pub client: Option<Text>,
    /// The principal, else the client, else the stream.
    pub actor: Text,
    pub tenant: Option<Text>,
    /// The session key: an explicit session id, else (principal, client), else the stream.
    pub session: Text,
    /// The word of the witness nearest to the work.
    pub class: OutcomeClass,
    pub code: Text,
    /// `approved`, `denied` or `declined` by the client, gateway or proxy, where one of them decided.
    pub decision: Option<OutcomeClass>,
    pub ran: Ran,
    /// The fullest view any witness has.
    pub args: Args,
    pub flags: Vec<Text>,
    pub also: Vec<(Text, Text)>,
    pub request_id: Option<Text>,
    pub group_id: Option<Text>,
    pub trace_id: Option<Text>,
    /// From the question to a person's answer, in milliseconds.
    pub ask_to_answer_ms: Option<f64>,
    /// The first attempt's lead witness first, then towards the work, then the next attempt's; empty only for an ingest
    /// event that no line shows.
    pub sightings: Vec<Sighting>,
    pub discrepancies: Vec<Discrepancy>,
}

impl Call {
    pub fn order(&self) -> OrderKey {
        OrderKey {
            at: self.at.unwrap_or(Micros(i64::MAX)),
            stream: Text::clone(&self.stream),
            position: self.position,
        }
    }

    /// The tool's name without its namespace.
    pub fn bare_tool(&self) -> &str {
        super::record::bare_tool(&self.tool)
    }

    /// What the witness of that kind said of the last attempt that it saw.
    pub fn sighting(&self, witness: Witness) -> Option<&Sighting> {
        self.sightings.iter().rfind(|sighting| sighting.witness == witness)
    }

    /// How often the call was made: 1, and more where it failed and was made again.
    pub fn attempts(&self) -> u32 {
        self.sightings.last().map_or(1, |sighting| sighting.attempt + 1)
    }
}

/// What a batch did to one call: new (`old` none), revised (both; the id may differ), or gone (`new` none).
#[derive(Clone, Debug)]
pub struct CallChange {
    pub old: Option<Arc<Call>>,
    pub new: Option<Arc<Call>>,
}
