//! What the pages, the command line and the mails show: rows as they are read back from the store.

use serde::{Deserialize, Serialize};

use super::{
    AlertId, AlertState, Args, CallId, CloseReason, Evidence, Level, Micros, OutcomeClass, Ran,
    RecordId, Text, TimeQuality, Why, Witness, WitnessLine, event_words,
};

/// One alert as it now stands, with what people decided about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AlertView {
    pub id: AlertId,
    /// Grows with every new or changed alert; the newest has the highest.
    pub seq: u64,
    pub rule: String,
    pub title: String,
    pub level: Level,
    pub tags: Vec<String>,
    pub group: Vec<(String, String)>,
    pub actor: String,
    pub first_seen: Option<Micros>,
    pub last_seen: Option<Micros>,
    pub count: u64,
    pub why: Why,
    /// Why the records no longer show it, where they do not.
    pub retracted: Option<String>,
    pub state: AlertState,
    pub close_reason: Option<CloseReason>,
    /// In order; empty where only the list was asked for.
    pub evidence: Vec<EvidenceView>,
    /// Evidence calls left out by the cap.
    pub elided: u64,
}

/// One call that an alert rests on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EvidenceView {
    pub stage: String,
    pub call_id: CallId,
    pub at: Option<Micros>,
    pub ended: Option<Micros>,
    pub server: Option<String>,
    pub tool: String,
    pub code: String,
    pub class: OutcomeClass,
    pub ran: Ran,
    pub principal: Option<String>,
    pub client: Option<String>,
    pub tenant: Option<String>,
    pub session: String,
    /// For an ingest event: what the log, which is its actor, did, in our words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    pub lines: Vec<WitnessLine>,
}

impl EvidenceView {
    /// The call as evidence, with the lines that were found of it.
    pub fn new(evidence: &Evidence, lines: Vec<WitnessLine>) -> Self {
        let call = &*evidence.call;
        let text = |value: &Option<Text>| value.as_ref().map(ToString::to_string);
        Self {
            stage: evidence.stage.to_string(),
            call_id: call.id,
            at: call.at,
            ended: call.ended,
            server: text(&call.server),
            tool: call.tool.to_string(),
            code: call.code.to_string(),
            class: call.class,
            ran: call.ran,
            principal: text(&call.principal),
            client: text(&call.client),
            tenant: text(&call.tenant),
            session: call.session.to_string(),
            event: event_words(call),
            lines,
        }
    }
}

/// How often a rule fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleAlerts {
    pub rule: String,
    /// Alerts that stand.
    pub alerts: u64,
    pub retracted: u64,
    /// When the latest that stands was last seen.
    pub last_seen: Option<Micros>,
}

/// Something a person did to an alert.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecisionView {
    pub at: Micros,
    pub who: String,
    pub state: AlertState,
    pub close_reason: Option<CloseReason>,
    pub note: String,
}

/// One source's content stream as the sources page shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SourceView {
    pub generation: u64,
    pub stream: String,
    /// Where it was last found.
    pub path: String,
    /// `live`, `rotated` or `gone`.
    pub state: String,
    /// Bytes in the file when it was last looked at.
    pub size: u64,
    /// Bytes read and committed.
    pub offset: u64,
    pub records: u64,
    pub rejects: u64,
    pub last_at: Option<Micros>,
}

impl SourceView {
    /// Bytes not read yet.
    pub fn lag(&self) -> u64 {
        self.size.saturating_sub(self.offset)
    }
}

/// One reject.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RejectView {
    pub generation: u64,
    pub stream: String,
    pub path: String,
    pub offset: u64,
    pub length: u64,
    pub reason: String,
    pub head: String,
}

/// How far apart two streams' clocks were on one day, as the joins of their records show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockView {
    /// Where the day begins, in UTC.
    pub day: Micros,
    /// The stream nearer to the person who asked.
    pub upper_stream: String,
    /// The stream nearer to the work.
    pub lower_stream: String,
    /// Joins it rests on.
    pub samples: u64,
    /// How far the lower stream's clock runs ahead of the upper's, in milliseconds; behind it where negative.
    pub offset_ms: i64,
    /// The distance from the offset within which 90 % of the joins lie, in milliseconds.
    pub spread_ms: u64,
}

/// One stored record as the call page shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordView {
    pub id: RecordId,
    pub length: u64,
    pub witness: Witness,
    pub dialect: String,
    pub stream: String,
    pub path: String,
    pub at: Option<Micros>,
    pub time_quality: TimeQuality,
    pub class: OutcomeClass,
    pub code: String,
    pub detail: Option<String>,
    pub flags: Vec<String>,
    /// The tool's name as this record has it.
    pub tool: Option<String>,
    pub server: Option<String>,
    pub args: Args,
    pub principal: Option<String>,
    pub client: Option<String>,
    pub tenant: Option<String>,
    pub session: Option<String>,
    /// The raw line, masked, where it is kept with an alert or could be read from its file.
    pub line: Option<String>,
}

/// What else would fit where a join is ambiguous.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CandidateView {
    pub record: RecordId,
    /// The file that holds it, where the store still knows it.
    pub path: Option<String>,
    /// The call that the record belongs to.
    pub call: Option<CandidateCall>,
}

/// The call that a candidate leads to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CandidateCall {
    pub id: CallId,
    pub at: Option<Micros>,
    pub actor: String,
}

/// Figures over the whole database.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    pub records: u64,
    pub calls: u64,
    pub rejects: u64,
    pub alerts: u64,
    pub open_alerts: u64,
    pub first_at: Option<Micros>,
    pub last_at: Option<Micros>,
    /// The highest alert sequence number: the live banner counts from it.
    pub alert_seq: u64,
    pub outbox_pending: u64,
    pub outbox_dead: u64,
    pub last_mail_error: Option<String>,
    pub database_bytes: u64,
}

/// A mail that is owed.
#[derive(Clone, Debug)]
pub struct OutboxItem {
    pub id: u64,
    pub alert_id: AlertId,
    /// One recipient per row, so that one bad address does not hold up the others.
    pub recipient: String,
    /// Constant over all attempts, so that a receiver can drop a repeat.
    pub message_id: String,
    pub created_at: Micros,
    /// Attempts made so far.
    pub attempts: u32,
}
