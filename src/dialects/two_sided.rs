//! Two-sided: the client and the server each write their own log in one shape, told apart by `actor`.

use super::fields::Fields;
use super::json::{Json, push_items, push_quoted};
use super::reading::Reading;
use super::texts::head;
use super::words::is_answer;
use crate::mask::mask_text;
use crate::model::{OutcomeClass, Record, RecordKind, Witness};

/// Most names of an answer that are kept, and the bytes of each.
const ANSWER_NAMES_MAX: usize = 32;
const ANSWER_NAME_BYTES_MAX: usize = 64;

/// `actor` says client or server, and there is a tool or an outcome.
pub(super) fn fits(fields: &Fields<'_>) -> bool {
    fields.text("actor").is_some_and(|actor| witness(actor).is_some())
        && (fields.has("tool") || fields.has("outcome"))
}

pub(super) fn read(reading: &mut Reading<'_, '_>, record: &mut Record) {
    if let Some(actor) = reading.name(&["actor"], "actor").as_deref().and_then(witness) {
        record.witness = actor;
    }
    record.tool = reading.name(&["tool"], "tool.name");
    record.kind = if record.tool.is_some() { RecordKind::Call } else { RecordKind::Context };
    record.request_id = reading.id(&["request_id"], "request_id");
    let detail = reading.detail();
    reading.outcome(record, detail.as_deref());
    record.detail = detail;
    if record.class == OutcomeClass::Input || is_answer(&record.code) {
        keep_answer_names(reading);
    } else {
        record.args = reading.args("args", &[]);
    }
}

fn witness(actor: &str) -> Option<Witness> {
    if actor.eq_ignore_ascii_case("client") {
        Some(Witness::Client)
    } else if actor.eq_ignore_ascii_case("server") {
        Some(Witness::Server)
    } else {
        None
    }
}

/// An answer's values stand under `args` but are not the tool's arguments: only their names are
/// kept, out of the way of every comparison.
fn keep_answer_names(reading: &mut Reading<'_, '_>) {
    let mut names = Vec::new();
    for value in reading.values("args") {
        if let Json::Object(pairs) = value {
            names.extend(pairs.into_iter().map(|(name, _)| name));
        }
    }
    names.truncate(ANSWER_NAMES_MAX);
    if !names.is_empty() {
        let mut json = String::new();
        push_items(&mut json, ('[', ']'), &names, |out, name| {
            push_quoted(out, head(&mask_text(name), ANSWER_NAME_BYTES_MAX));
        });
        reading.add_extra("answer_names", json);
    }
}
