//! Facts that outlive the database: what the journal holds, and how far it went.

use serde::{Deserialize, Serialize};

use super::{CallId, Micros, Text};

/// The first call that shows a value of a first-seen rule's last field, for the values of its others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstSeen {
    pub rule: Text,
    /// The group-by fields and their values, in the rule's order; the last is the one that was new.
    pub group: Vec<(Text, Text)>,
    pub at: Micros,
    pub stream: Text,
    pub call_id: CallId,
    pub tool: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Text>,
    pub code: Text,
    /// True where the call was withdrawn or changed, and no other shows the value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_gone: bool,
}

/// A place in the journal that the database knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalMark {
    /// Entries up to there.
    pub entries: u64,
    /// The hash of the last of them, in hex; empty before the first.
    pub hash: String,
}
