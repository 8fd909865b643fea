//! What really happened: the answers that a reader of the logs is to find.

use serde::{Serialize, Serializer};

use super::line::push_rfc3339;
use crate::model::{Micros, OutcomeClass, Text};

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
