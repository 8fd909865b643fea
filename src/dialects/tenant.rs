//! Tenant: a server of many tenants that logs allow-listed parameters and the names of the others.

use super::fields::Fields;
use super::json::Json;
use super::reading::Reading;
use crate::model::{Record, RecordKind, Witness};

/// A tool with its outcome, and parameters or whose call it was.
pub(super) fn fits(fields: &Fields<'_>) -> bool {
    super::gate::has_call(fields)
        && ["params", "dropped", "subject", "client_id", "tenant"]
            .iter()
            .any(|key| fields.get(key).is_some())
}

pub(super) fn read(reading: &mut Reading<'_, '_>, record: &mut Record) {
    record.witness = Witness::Server;
    record.kind = RecordKind::Call;
    record.tool = reading.name(&["tool"], "tool.name");
    record.request_id = reading.id(&["request_id"], "request_id");
    record.detail = reading.detail();
    reading.outcome(record, None);
    let dropped = dropped(reading);
    record.args = reading.args("params", &dropped);
}

/// The names of what the log does not show. None or an empty list means that it shows everything.
fn dropped<'a>(reading: &mut Reading<'a, '_>) -> Vec<Json<'a>> {
    let mut names = Vec::new();
    for value in reading.values("dropped") {
        match value {
            Json::List(items) => names.extend(items),
            Json::Text(text) => {
                let parts = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                names.extend(parts.map(|name| Json::Text(name.to_owned().into())));
            }
            Json::Null => {}
            _ => reading.flag("odd-type"),
        }
    }
    names
}
