//! What really happened: the answers that a reader of the logs is to find.

use serde::{Serialize, Serializer};

use super::line::push_rfc3339;
use crate::model::{Micros, OutcomeClass, Text, Witness};

/// One call, and where its records are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallTruth {
    /// Counted from 1 in the order in which calls begin.
    pub call: u64,
    /// When it begins, by the true clock.
    #[serde(serialize_with = "as_rfc3339")]
    pub at: Micros,
    pub tool: &'static str,
    /// The principal, where the log names one.
    pub principal: Option<Text>,
    /// The principal, else the stream.
    pub actor: Text,
    pub tenant: Option<Text>,
    /// The explicit session id, where the log has one.
    pub session: Option<Text>,
    /// How it ended, by the witness nearest to the work.
    pub class: OutcomeClass,
    /// Its records, in the order in which they were written.
    pub records: Vec<RecordPlace>,
    /// When each try was under way: a call that failed may be made again, and stays one call.
    pub tries: Vec<Span>,
    /// Records that never reached their log.
    pub lost: u32,
    /// The trace it is part of, where a log names it.
    pub trace: Option<Text>,
    #[serde(skip)]
    pub args: ArgKeys,
    /// The attack it is part of.
    pub attack: Option<Text>,
}

/// Where a record is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordPlace {
    /// The stream: the file's path whatever it is called after rotation.
    pub file: Text,
    /// Line in the stream, counted from 1 through rotations.
    pub line: u64,
    pub witness: Witness,
    /// The try it tells of, counted from 1.
    pub attempt: u32,
    pub shows: Shows,
    /// When what it tells of happened, by the true clock.
    #[serde(serialize_with = "as_rfc3339")]
    pub at: Micros,
    /// How far ahead of the true clock that of its log was, in microseconds.
    pub ahead: i64,
}

/// A piece of true time, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// When the request was sent; where none was, when it was refused.
    #[serde(serialize_with = "as_rfc3339")]
    pub from: Micros,
    /// When the last record of it was made.
    #[serde(serialize_with = "as_rfc3339")]
    pub to: Micros,
}

/// How much a record gives away of what could tell its call from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Shows {
    pub args: ArgsShown,
    pub principal: bool,
    pub trace: bool,
    pub says: Says,
    /// It names neither the tool nor its call: it quotes a reply.
    pub is_reply: bool,
}

/// What a record says of how its call went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Says {
    /// Not yet anything.
    #[default]
    Nothing,
    Refused,
    Failed,
    Ok,
}

/// How much a record shows of its call's arguments: each kind shows all that the ones before it do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArgsShown {
    #[default]
    Nothing,
    /// Their names.
    Names,
    /// Some values, and the names of the others.
    Partial,
    /// All values, the long ones as their length.
    Summarised,
    /// All values.
    Full,
}

impl ArgsShown {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Names => "names",
            Self::Partial => "partial",
            Self::Summarised => "summarised",
            Self::Full => "full",
        }
    }
}

/// Keys of a call's arguments as they look at each level of showing: calls of one tool whose keys
/// of a level are equal cannot be told apart by what that level shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArgKeys {
    pub partial: u64,
    pub summarised: u64,
    pub full: u64,
}

impl ArgKeys {
    /// Arguments that no call with another number has.
    pub(super) const fn unique(number: u64) -> Self {
        Self { partial: number, summarised: number, full: number }
    }

    /// What the arguments look like to one who compares two records of these levels; none where
    /// they say nothing about values.
    pub fn at(self, one: ArgsShown, other: ArgsShown) -> Option<u64> {
        match one.min(other) {
            ArgsShown::Nothing | ArgsShown::Names => None,
            ArgsShown::Partial => Some(self.partial),
            ArgsShown::Summarised => Some(self.summarised),
            ArgsShown::Full => Some(self.full),
        }
    }
}

/// One attack, and the alert that must come of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AlertTruth {
    /// Its name, such as `call-burst-3`.
    pub attack: Text,
    /// The rule that must fire.
    pub rule: &'static str,
    pub principal: Option<Text>,
    /// The principal, else the stream.
    pub actor: Text,
    /// The tenant of the closing call.
    pub tenant: Option<Text>,
    pub session: Option<Text>,
    /// The tools of the calls the alert rests on, in order.
    pub tools: Vec<&'static str>,
    /// The numbers of those calls.
    pub calls: Vec<u64>,
    /// Rules that may fire for the same calls.
    pub may_also: &'static [&'static str],
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
fn as_rfc3339<S: Serializer>(at: &Micros, serializer: S) -> Result<S::Ok, S::Error> {
    let mut text = String::with_capacity(32);
    push_rfc3339(&mut text, *at);
    serializer.serialize_str(&text)
}
