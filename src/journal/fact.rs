//! What an entry tells.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Break;
use crate::model::{AlertId, AlertState, CallId, CloseReason, FirstSeen, Level, Micros, Text};

/// One fact. In an entry its name is the `kind` and the rest the `data`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "kebab-case")]
pub enum Fact {
    /// What a person decided.
    Decision(Decided),
    /// An alert was found, or goes on under another id, or is mailed.
    Alert(Raised),
    /// A mail's fate is settled.
    Delivery(Delivered),
    /// A value was seen for the first time.
    FirstSeen(FirstSeen),
    /// The chain goes on after these breaks.
    Segment { breaks: Vec<Break> },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    pub alert_id: AlertId,
    pub who: String,
    pub state: AlertState,
    pub close_reason: Option<CloseReason>,
    pub note: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    pub alert_id: AlertId,
    pub rule: Text,
    pub level: Level,
    pub group: Vec<(Text, Text)>,
    pub actor: Text,
    /// The closing call of the first match.
    pub closing: CallId,
    pub first_seen: Option<Micros>,
    /// Former ids, which lead to this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<AlertId>,
    /// The mails that are owed for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mails: Vec<Owed>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    pub message_id: String,
    pub recipient: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    pub message_id: String,
    pub recipient: String,
    pub alert_id: AlertId,
    pub outcome: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    Sent,
    /// Given up.
    Dead,
}

impl Fact {
    /// The kind and the data of its entry.
    pub(super) fn parts(&self) -> serde_json::Result<(String, Value)> {
        let mut whole = serde_json::to_value(self)?;
        let kind = whole["kind"].as_str().unwrap_or_default().to_owned();
        Ok((kind, whole["data"].take()))
    }

    /// Reads what an entry tells; none for a kind that this version does not know.
    pub(super) fn from_parts(kind: &str, data: &Value) -> Option<Self> {
        serde_json::from_value(json!({ "kind": kind, "data": data })).ok()
    }
}
