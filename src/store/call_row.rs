//! Calls as rows of `call_log`.

use duckdb::{Appender, Row};

use super::StoreError;
use super::record_row::args_json;
use super::value::{
    Words, bytes, get_id, get_json, get_text, get_time, get_word, json_list, number, optional,
    real, shared, small, text, time,
};
use crate::model::{
    Call, CallId, Certainty, Dialect, Discrepancy, EventKind, JoinedBy, OutcomeClass, Ran,
    RecordId, Sighting, Step, Text, Witness,
};

/// The columns in the order of [`from_row`].
pub(super) const COLUMNS: &str = "call_id, time, ended, stream, generation, \"offset\", idx, length, \
    witness, dialect, tool, server, principal, client, actor, tenant, session, class, code, \
    decision, ran, duration_ms, ask_to_answer_ms, args, flags, also, request_id, group_id, \
    trace_id, sightings, discrepancies, kind";

pub(super) fn append(appender: &mut Appender<'_>, seq: u64, call: &Call) -> Result<(), StoreError> {
    let args = args_json(&call.args);
    let flags = json_list(&call.flags);
    let also = json_list(&call.also);
    let discrepancies = json_list(&call.discrepancies);
    let sightings = if is_plain(call) { None } else { json_list(&call.sightings) };
    let lead = call.sightings.first();
    let length = lead.and_then(|lead| lead.steps.first()).map_or(0, |step| step.length);
    appender.append_row(duckdb::appender_params_from_iter([
        number(seq),
        bytes(&call.id.0),
        time(call.at),
        time(call.ended),
        text(&call.stream),
        number(call.position.generation),
        number(call.position.offset),
        small(call.position.index),
        number(length),
        text(lead.map_or(Witness::Server, |lead| lead.witness).as_str()),
        text(lead.map_or(Dialect::Tenant, |lead| lead.dialect).as_str()),
        text(&call.tool),
        text(call.bare_tool()),
        shared(call.server.as_ref()),
        shared(call.principal.as_ref()),
        shared(call.client.as_ref()),
        text(&call.actor),
        shared(call.tenant.as_ref()),
        text(&call.session),
        text(call.class.as_str()),
        text(&call.code),
        optional(call.decision.map(OutcomeClass::as_str)),
        text(call.ran.as_str()),
        real(call.duration_ms),
        real(call.ask_to_answer_ms),
        optional(args.as_deref()),
        optional(flags.as_deref()),
        optional(also.as_deref()),
        shared(call.request_id.as_ref()),
        shared(call.group_id.as_ref()),
        shared(call.trace_id.as_ref()),
        text(witness_names(call)),
        optional(sightings.as_deref()),
        optional(discrepancies.as_deref()),
        text(call.kind.as_str()),
    ]))?;
    Ok(())
}

pub(super) fn from_row(row: &Row<'_>) -> duckdb::Result<Call> {
    read(row, get_text)
}

/// As [`from_row`], for many rows: what they say alike is in memory once.
pub(super) fn from_row_with(row: &Row<'_>, words: &mut Words) -> duckdb::Result<Call> {
    read(row, |row, index| words.get(row, index))
}

fn read(
    row: &Row<'_>,
    mut word: impl FnMut(&Row<'_>, usize) -> duckdb::Result<Option<Text>>,
) -> duckdb::Result<Call> {
    let mut call = Call {
        kind: get_word(row, 31, EventKind::from_word)?,
        id: CallId(get_id(row, 0)?),
        at: get_time(row, 1)?,
        ended: get_time(row, 2)?,
        stream: word(row, 3)?.unwrap_or_default(),
        position: RecordId { generation: row.get(4)?, offset: row.get(5)?, index: row.get(6)? },
        tool: word(row, 10)?.unwrap_or_default(),
        server: word(row, 11)?,
        principal: word(row, 12)?,
        client: word(row, 13)?,
        actor: word(row, 14)?.unwrap_or_default(),
        tenant: word(row, 15)?,
        session: word(row, 16)?.unwrap_or_default(),
        class: get_word(row, 17, OutcomeClass::from_word)?,
        code: word(row, 18)?.unwrap_or_default(),
        decision: get_text(row, 19)?.as_deref().and_then(OutcomeClass::from_word),
        ran: get_word(row, 20, Ran::from_word)?,
        duration_ms: row.get(21)?,
        ask_to_answer_ms: row.get(22)?,
        args: get_json(row, 23)?,
        flags: get_json(row, 24)?,
        also: get_json::<Vec<(Text, Text)>>(row, 25)?,
        request_id: get_text(row, 26)?,
        group_id: get_text(row, 27)?,
        trace_id: get_text(row, 28)?,
        sightings: get_json(row, 29)?,
        discrepancies: get_json::<Vec<Discrepancy>>(row, 30)?,
    };
    let length = row.get(7)?;
    // An ingest event that no line shows has none; every other row has at least one witness.
    if call.sightings.is_empty() && (call.kind == EventKind::Call || length > 0) {
        let witness = get_word(row, 8, Witness::from_word)?;
        let dialect = get_word(row, 9, Dialect::from_word)?;
        call.sightings = vec![plain_sighting(&call, length, witness, dialect)];
    }
    Ok(call)
}

/// True where the columns tell everything: one witness, one record, nothing derived from more.
fn is_plain(call: &Call) -> bool {
    let [sighting] = call.sightings.as_slice() else { return false };
    let [step] = sighting.steps.as_slice() else { return false };
    sighting.joined_by == JoinedBy::Alone
        && sighting.certainty == Certainty::Exact
        && step.at == call.at
        && step.record == call.position
        && sighting.class == call.class
        && sighting.code == call.code
        && step.class == call.class
        && step.code == call.code
        && sighting.stream == call.stream
}

fn plain_sighting(call: &Call, length: u64, witness: Witness, dialect: Dialect) -> Sighting {
    let step = Step {
        record: call.position,
        length,
        at: call.at,
        class: call.class,
        code: Text::clone(&call.code),
    };
    Sighting {
        witness,
        dialect,
        stream: Text::clone(&call.stream),
        class: call.class,
        code: Text::clone(&call.code),
        joined_by: JoinedBy::Alone,
        certainty: Certainty::Exact,
        attempt: 0,
        candidates: Vec::new(),
        steps: vec![step],
    }
}

/// The witnesses' names joined by a comma, in the order of the sightings.
fn witness_names(call: &Call) -> &'static str {
    let mut set = 0_usize;
    for sighting in &call.sightings {
        set |= 1 << (sighting.witness as usize);
    }
    NAMES.get_or_init(all_names).get(set).map_or("", String::as_str)
}

static NAMES: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();

/// One joined name for each of the 32 sets of witnesses, so that none is built per call.
fn all_names() -> Vec<String> {
    (0..1_usize << Witness::ALL.len())
        .map(|set| {
            let names: Vec<_> = Witness::ALL
                .into_iter()
                .filter(|witness| set & (1 << (*witness as usize)) != 0)
                .map(Witness::as_str)
                .collect();
            names.join(",")
        })
        .collect()
}
