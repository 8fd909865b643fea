//! Calls and sessions as lists show them: narrow rows, whatever a call's arguments and witnesses weigh.

use super::{CallId, Micros, OutcomeClass, Ran, SessionId};

/// One call as a list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct CallView {
    pub id: CallId,
    /// Calls without a time are in no list.
    pub at: Micros,
    /// The last time any witness mentions.
    pub ended: Option<Micros>,
    pub tool: String,
    pub server: Option<String>,
    pub tenant: Option<String>,
    pub actor: String,
    pub class: OutcomeClass,
    pub code: String,
    pub ran: Ran,
    /// Whose logs show it, joined by commas, the farthest from the work first.
    pub witnesses: String,
}

/// A run of calls of one session key with gaps of at most 30 minutes.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionView {
    pub id: SessionId,
    /// The session key.
    pub key: String,
    pub first_at: Micros,
    /// The latest end of any of its calls.
    pub last_at: Micros,
    pub calls: u64,
    /// Calls that a witness shows to have run.
    pub ran: u64,
    /// Calls that were denied, declined or limited.
    pub denied: u64,
    /// Calls that ended in an error.
    pub failed: u64,
    pub actors: Names,
    pub clients: Names,
    pub tenants: Names,
    pub servers: Names,
}

/// The first few of some names in their order, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub first: Vec<String>,
    pub total: u64,
}
