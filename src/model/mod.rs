//! The words of Calltrail as types: records, calls, alerts and their ids. Pure data: no file, no clock.

mod alert;
mod call;
mod clock;
mod fact;
mod ids;
mod ingest;
mod labels;
mod life;
mod listing;
mod outcome;
mod pair;
mod path_pattern;
mod record;
mod time;
mod view;

pub use alert::{Alert, AlertChange, AlertState, CloseReason, Evidence, Level, Why, WitnessLine};
pub use call::{
    CANDIDATES_MAX, Call, CallChange, Certainty, Discrepancy, EventKind, JoinedBy, OrderKey, Ran,
    Sighting, Step,
};
pub use clock::{ClockSample, ClockUse};
pub use fact::{FirstSeen, JournalMark};
pub use ids::{AlertId, CallId, IdHasher, RecordId, SessionId};
pub use ingest::{EventLine, IngestCode, IngestEvent, event_words};
pub use labels::{Label, LabelSource, Labels, Tri};
pub use life::{Attempt, Gap, LifeStep, Phase, Wait, Word, life};
pub use listing::{CallView, Names, SessionView};
pub use outcome::OutcomeClass;
pub use pair::{PairFact, WitnessPair};
pub use path_pattern::{PathField, PathNames, PathPattern, PathPatternError};
pub(crate) use record::bare_tool;
pub use record::{
    ArgValue, ArgView, Args, Dialect, Line, Record, RecordKind, Reject, TimeQuality, Witness,
};
pub use time::Micros;
pub use view::{
    AlertView, CandidateCall, CandidateView, ClockView, DecisionView, EvidenceView, OutboxItem,
    RecordView, RejectView, RuleAlerts, SourceView, Totals,
};

/// A short string that many records share: cloning it copies a pointer.
pub type Text = std::sync::Arc<str>;
