//! Units: one call as one witness saw it, before witnesses are joined.

use std::sync::Arc;

use super::arguments::{Agreement, agreement, differing};
use super::waiting::key_of;
use crate::model::{
    ArgView, CallId, IdHasher, Micros, OutcomeClass, Record, RecordId, Step, Text, Witness,
};

/// A gap between two records of one request id after which the id means another call: counters restart.
const ID_GAP_MICROS: i64 = Micros::HOUR;

/// Records of one call, at most; what comes then under its id is another call. Nobody answers that often, and a log
/// that never ends a call must not make each of its lines dearer than the one before.
const STEPS_MAX: usize = 256;

/// One witness's records of one call.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// The first record: it names the call if this witness leads it.
    pub(super) base: Arc<Record>,
    /// The first record with what the others add: flags, further values, ids that it lacks, the last duration.
    pub(super) told: Arc<Record>,
    /// The record with the fullest view of the arguments; of views that contradict each other the last, which is what
    /// was carried out.
    pub(super) shown: Arc<Record>,
    /// The same for units that show the same arguments, all of them and whole.
    pub(super) key: Option<u64>,
    /// Names of arguments that changed between its records.
    pub(super) changed: Vec<Text>,
    /// All records in order; never empty.
    pub(super) steps: Vec<Step>,
}

impl Unit {
    pub(super) fn single(record: Arc<Record>) -> Self {
        let steps = vec![step_of(&record)];
        let (shown, told) = (Arc::clone(&record), Arc::clone(&record));
        let key = key_of(&record.args);
        Self { shown, key, changed: Vec::new(), told, base: record, steps }
    }

    pub(super) fn push(&mut self, record: &Arc<Record>) {
        self.show(record);
        self.steps.push(step_of(record));
        fold(&mut self.told, record);
    }

    /// Takes in what the record shows of the arguments. An answer to the server is no argument of the tool.
    fn show(&mut self, record: &Arc<Record>) {
        if record.class == OutcomeClass::Input || record.args == self.shown.args {
            return;
        }
        if agreement(&self.shown.args, &record.args) == Agreement::Contradicts {
            gather(&mut self.changed, &differing(&self.shown.args, &record.args));
        } else if record.args.view <= self.shown.args.view {
            return;
        }
        self.shown = Arc::clone(record);
        self.key = key_of(&record.args);
    }

    pub(super) fn shares_trace(&self, other: &Self) -> bool {
        self.told.trace_id.is_some() && self.told.trace_id == other.told.trace_id
    }

    pub(super) fn witness(&self) -> Witness {
        self.base.witness
    }

    /// The approval, else the denial, else the first record.
    pub(super) fn at(&self) -> Option<Micros> {
        let of = |wanted: fn(OutcomeClass) -> bool| {
            self.steps.iter().find(|step| wanted(step.class)).and_then(|step| step.at)
        };
        of(|class| class == OutcomeClass::Approved)
            .or_else(|| of(OutcomeClass::is_refusal))
            .or(self.base.at)
    }

    pub(super) fn last_at(&self) -> Option<Micros> {
        self.steps.iter().filter_map(|step| step.at).max()
    }

    /// The record that ended it, else the last.
    pub(super) fn outcome(&self) -> &Step {
        let last = &self.steps[self.steps.len() - 1];
        self.steps.iter().rfind(|step| step.class.is_terminal()).unwrap_or(last)
    }

    pub(super) fn is_open(&self) -> bool {
        !self.steps.iter().any(|step| step.class.is_terminal())
    }

    /// From [approval, else first record] to the last record: when the others must have seen the call.
    pub(super) fn interval(&self) -> Option<(Micros, Micros)> {
        let first = self.base.at?;
        let from = self
            .steps
            .iter()
            .find(|step| step.class == OutcomeClass::Approved)
            .and_then(|step| step.at)
            .unwrap_or(first);
        Some((from, self.last_at().unwrap_or(first).max(from)))
    }

    pub(super) fn is_refused(&self) -> bool {
        self.outcome().class.is_refusal()
    }

    /// True when this witness shows that the tool gave a result.
    pub(super) fn shows_run(&self) -> bool {
        let outcome = self.outcome();
        match (self.witness(), outcome.class) {
            (_, OutcomeClass::Ok) | (Witness::Server | Witness::Proxy, OutcomeClass::Error) => true,
            (Witness::Gateway, OutcomeClass::Error) => GATE_RESULTS.contains(&&*outcome.code),
            _ => false,
        }
    }

    /// What equal calls share: the occurrence among equals tells them apart.
    pub(super) fn equal_key(&self) -> u64 {
        let id = CallId::from_hasher(&self.id_hasher());
        id.0.iter().take(8).fold(0, |key, byte| (key << 8) | u64::from(*byte))
    }

    /// The call's id if this unit leads it.
    pub(super) fn call_id(&self, occurrence: usize) -> CallId {
        let mut hasher = self.id_hasher();
        hasher.number(occurrence as u64);
        CallId::from_hasher(&hasher)
    }

    fn id_hasher(&self) -> IdHasher {
        let record = &self.base;
        let mut hasher = IdHasher::new("call");
        hasher
            .text(&record.stream)
            .number(record.at.map_or(u64::MAX, |at| at.0.cast_unsigned()))
            .optional(record.tool.as_deref())
            .text(&record.code)
            .optional(record.request_id.as_deref())
            .optional(record.principal.as_deref());
        hasher
    }
}

/// Error words of a gate that mean the tool was reached and answered.
const GATE_RESULTS: [&str; 4] =
    ["tool_error", "result_too_large", "malformed_response", "protocol_error"];

/// Most flags, and most further values, that a unit gathers from its records after the first.
const GATHERED_MAX: usize = 256;

/// Adds to `told` what another record of the unit says: of an id the first value counts, of the duration the last.
pub(super) fn fold(told: &mut Arc<Record>, record: &Record) {
    let adds =
        ids(told).into_iter().zip(ids(record)).any(|(old, new)| old.is_none() && new.is_some())
            || record.duration_ms.is_some_and(|duration_ms| told.duration_ms != Some(duration_ms))
            || record.flags.iter().any(|flag| !told.flags.contains(flag))
            || record.also.iter().any(|also| !told.also.contains(also));
    if !adds {
        // Most later records repeat the first, and copying it is dear.
        return;
    }
    let told = Arc::make_mut(told);
    for (told, new) in [
        (&mut told.principal, &record.principal),
        (&mut told.client, &record.client),
        (&mut told.tenant, &record.tenant),
        (&mut told.session, &record.session),
        (&mut told.server, &record.server),
        (&mut told.trace_id, &record.trace_id),
        (&mut told.tool_use_id, &record.tool_use_id),
    ] {
        if told.is_none() {
            told.clone_from(new);
        }
    }
    told.duration_ms = record.duration_ms.or(told.duration_ms);
    gather(&mut told.flags, &record.flags);
    told.flags.sort_unstable();
    gather(&mut told.also, &record.also);
}

/// The fields of which a unit knows the first value that any of its records has.
fn ids(record: &Record) -> [&Option<Text>; 7] {
    let Record { principal, client, tenant, session, server, trace_id, tool_use_id, .. } = record;
    [principal, client, tenant, session, server, trace_id, tool_use_id]
}

fn gather<T: Clone + PartialEq>(known: &mut Vec<T>, more: &[T]) {
    for new in more {
        if known.len() < GATHERED_MAX && !known.contains(new) {
            known.push(new.clone());
        }
    }
}

fn step_of(record: &Record) -> Step {
    Step {
        record: record.id,
        length: record.length,
        at: record.at,
        class: record.class,
        code: Arc::clone(&record.code),
    }
}

/// The order of records inside one stream: time, then place; records without a time come last.
pub(super) fn record_order(record: &Record) -> (Micros, RecordId) {
    (record.at.unwrap_or(Micros(i64::MAX)), record.id)
}

/// Cuts the records of one (stream, tool, request id) into units. `records` are in order.
pub(super) fn split(records: &[Arc<Record>]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for record in records {
        match units.last_mut() {
            Some(unit) if continues(unit, record) => unit.push(record),
            _ => units.push(Unit::single(Arc::clone(record))),
        }
    }
    units
}

/// A new question, a record after the end, or an hour's silence starts another call; a record without a time goes on
/// only from others without one.
fn continues(unit: &Unit, record: &Record) -> bool {
    // Records come in order, and one that ends a call is the last of its unit.
    let Some(last) = unit.steps.last() else { return true };
    if last.class.is_terminal()
        || record.class == OutcomeClass::Asked
        || unit.steps.len() >= STEPS_MAX
    {
        return false;
    }
    match (last.at, record.at) {
        (Some(last), Some(at)) => at.since(last) <= ID_GAP_MICROS,
        (None, None) => true,
        _ => false,
    }
}

/// True where a record names its call by id and not only itself.
pub(super) fn groups_by_id(record: &Record) -> bool {
    record.request_id.is_some()
}

/// True when two views say anything of the arguments at all.
pub(super) fn says_arguments(record: &Record) -> bool {
    record.args.view != ArgView::Nothing
}
