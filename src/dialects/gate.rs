//! Gate: a gate between host and servers that logs stable codes and flags, and never arguments.

use super::fields::Fields;
use super::json::Json;
use super::reading::Reading;
use crate::model::{Record, RecordKind, Witness};

/// A tool with its outcome, and what only a gate says: who called, flags, or a request with its
/// duration.
pub(super) fn fits(fields: &Fields<'_>) -> bool {
    let has_duration = || super::GATE_DURATION_KEYS.iter().any(|key| fields.has(key));
    has_call(fields)
        && (fields.get("caller").is_some()
            || (!super::tenant::fits(fields)
                && (fields.get("flags").is_some() || (fields.has("request_id") && has_duration()))))
}

pub(super) fn read(reading: &mut Reading<'_, '_>, record: &mut Record) {
    record.witness = Witness::Gateway;
    record.kind = RecordKind::Call;
    record.tool = reading.name(&["tool"], "tool.name");
    // One user request makes many tool calls, so the id groups and does not identify.
    record.group_id = reading.id(&["request_id"], "request_id");
    record.detail = reading.detail();
    reading.outcome(record, None);
    for value in reading.values("flags") {
        match &value {
            Json::Text(text) => reading.flag_all(text.split(',')),
            Json::List(items) => reading.flag_all(items.iter().filter_map(Json::as_str)),
            Json::Null => {}
            _ => reading.flag("odd-type"),
        }
    }
}

/// True when the line names a tool and what became of the call.
pub(super) fn has_call(fields: &Fields<'_>) -> bool {
    fields.has("tool") && fields.has("outcome")
}
