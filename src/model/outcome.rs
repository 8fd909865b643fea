//! The classes that every dialect's outcome words map to.

use serde::{Deserialize, Serialize};

/// What a record says happened to the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeClass {
    /// A person was asked.
    Asked,
    /// Policy or a person let it pass; it has not run yet.
    Approved,
    /// A person said no.
    Declined,
    /// Policy or authorisation said no.
    Denied,
    /// A person answered the server's question during the call.
    Input,
    /// It ran and succeeded.
    Ok,
    /// It was stopped by a limit.
    Limited,
    /// It failed.
    Error,
    /// Nothing is known; never taken for success.
    Unknown,
}

impl OutcomeClass {
    pub const ALL: [Self; 9] = [
        Self::Asked,
        Self::Approved,
        Self::Declined,
        Self::Denied,
        Self::Input,
        Self::Ok,
        Self::Limited,
        Self::Error,
        Self::Unknown,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Approved => "approved",
            Self::Declined => "declined",
            Self::Denied => "denied",
            Self::Input => "input",
            Self::Ok => "ok",
            Self::Limited => "limited",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == word)
    }

    /// True when nothing more is to come from this witness for the call.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Asked | Self::Approved | Self::Input)
    }

    /// True when the call was stopped before it ran.
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::Denied | Self::Declined | Self::Limited)
    }
}
