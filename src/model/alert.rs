//! Alerts: findings as people handle them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{AlertId, Call, CallId, Micros, RecordId, Text, Witness};

/// How bad it is, in Sigma's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Informational,
    Low,
    Medium,
    High,
    Critical,
}

impl Level {
    pub const ALL: [Self; 5] =
        [Self::Informational, Self::Low, Self::Medium, Self::High, Self::Critical];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Informational => "informational",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// What people have made of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlertState {
    Open,
    Acknowledged,
    Closed,
}

impl AlertState {
    pub const ALL: [Self; 3] = [Self::Open, Self::Acknowledged, Self::Closed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Acknowledged => "acknowledged",
            Self::Closed => "closed",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// Why an alert was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    TruePositive,
    FalsePositive,
    Benign,
    Duplicate,
    Other,
}

impl CloseReason {
    pub const ALL: [Self; 5] =
        [Self::TruePositive, Self::FalsePositive, Self::Benign, Self::Duplicate, Self::Other];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TruePositive => "true_positive",
            Self::FalsePositive => "false_positive",
            Self::Benign => "benign",
            Self::Duplicate => "duplicate",
            Self::Other => "other",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

/// Why a rule fired, in words and figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// One sentence, from the rule. Holds nothing from a log.
    pub text: String,
    /// What the rule asks for: the count, or the number of stages.
    pub threshold: u64,
    /// What was there at the first match.
    pub value: u64,
    /// The rule's span in seconds; none for single-event and first-seen rules.
    pub timespan: Option<f64>,
}

/// One call that an alert rests on, and the stage of the rule it filled.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The stage's name: the name of the rule (or sub-rule) the call matched.
    pub stage: Text,
    pub call: Arc<Call>,
}

/// One line of a witness that an alert rests on. The text outlives the log's rotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WitnessLine {
    pub witness: Witness,
    pub file: String,
    pub record: RecordId,
    pub length: u64,
    /// The raw line, masked; none if the file was gone before it could be read again.
    pub text: Option<String>,
}

/// One episode of one rule and group.
#[derive(Clone, Debug)]
pub struct Alert {
    pub id: AlertId,
    /// The rule's name (file stem in `rules/`), such as `trifecta-signature`.
    pub rule: Text,
    pub title: String,
    pub level: Level,
    pub tags: Vec<Text>,
    /// The group-by fields and their values, in the rule's order.
    pub group: Vec<(Text, Text)>,
    /// Actor, principal, tenant, session and server of the closing call of the first match.
    pub actor: Text,
    /// The first evidence call's time; none only for a single call without a time.
    pub first_seen: Option<Micros>,
    /// The last match's closing call's time.
    pub last_seen: Option<Micros>,
    /// The closing call of the first match and its time: what the id is derived from.
    pub closing: CallId,
    pub closing_at: Option<Micros>,
    /// Matches folded into this alert.
    pub count: u64,
    pub why: Why,
    /// In order; over the cap the middle is left out.
    pub evidence: Vec<Evidence>,
    /// Evidence calls left out by the cap.
    pub elided: u64,
}

/// What a batch did to the alerts.
#[derive(Clone, Debug)]
pub enum AlertChange {
    /// New, or the same alert grown or changed. `replaces` are former ids of the same episode: they become aliases.
    Set { alert: Box<Alert>, is_new: bool, replaces: Vec<AlertId> },
    /// The records as they now stand no longer show it, and nothing took its place.
    Retracted { id: AlertId, reason: String },
}
