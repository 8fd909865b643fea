//! Standard-input proxy: a proxy between client and server on standard input and output. Its lines toward the server
//! say what was decided; those toward the client hold only the beginning of the message.

use super::fields::Fields;
use super::json::Json;
use super::prefix::{self, Prefix};
use super::reading::Reading;
use crate::model::{OutcomeClass, Record, RecordKind, Witness};

const TO_SERVER: &str = "client->server";
const TO_CLIENT: &str = "server->client";
const CALL_METHOD: &str = "tools/call";

/// `direction` says which way the message went.
pub(super) fn fits(fields: &Fields<'_>) -> bool {
    matches!(fields.text("direction"), Some(TO_SERVER | TO_CLIENT))
}

pub(super) fn read(reading: &mut Reading<'_, '_>, record: &mut Record) {
    record.witness = Witness::Proxy;
    record.detail = reading.detail();
    if is_parse_error(&reading.fields) {
        record.class = OutcomeClass::Error;
        record.code = reading.texts.shared("parse_error").text;
    } else if reading.fields.text("direction") == Some(TO_SERVER) {
        read_request(reading, record);
    } else {
        read_reply(reading, record);
    }
    if record.kind != RecordKind::Context {
        // The record's kind says it; for context, extra keeps it.
        reading.values("direction");
    }
}

fn is_parse_error(fields: &Fields<'_>) -> bool {
    fields.get("parse_error").is_some_and(|value| !matches!(value, Json::Null | Json::Bool(false)))
}

fn read_request(reading: &mut Reading<'_, '_>, record: &mut Record) {
    record.tool = reading.name(&["tool"], "tool.name");
    record.request_id = reading.id(&["request_id", "id"], "request_id");
    record.args = reading.args("args", &[]);
    if let Some(decision) = reading.name(&["decision"], "code") {
        record.class = reading.words.class_with_detail(&decision, record.detail.as_deref());
        record.code = decision;
    }
    record.kind = request_kind(reading.fields.text("method"), record);
    if record.kind == RecordKind::Call && reading.fields.text("method") == Some(CALL_METHOD) {
        reading.values("method");
    }
}

fn request_kind(method: Option<&str>, record: &Record) -> RecordKind {
    let is_denied = record.class.is_refusal();
    match method {
        Some(CALL_METHOD) => RecordKind::Call,
        // Denials name no method, and what allows a tool without one is a call too.
        _ if record.tool.is_some() && (is_denied || method.is_none()) => RecordKind::Call,
        None => RecordKind::Context,
        Some(method) if method.starts_with("notifications/") => RecordKind::Context,
        // The proxy answers itself: no reply will come from the server.
        Some(_) if is_denied => RecordKind::Context,
        Some(_) => RecordKind::Request,
    }
}

fn read_reply(reading: &mut Reading<'_, '_>, record: &mut Record) {
    let raw = reading.fields.text("raw").unwrap_or_default();
    let Some(prefix) = prefix::read(raw).filter(is_reply) else { return };
    let (class, code) = outcome(raw, &prefix);
    let code = code.to_owned();
    let id = prefix.id.as_deref().map(str::to_owned);
    let is_guess = class == OutcomeClass::Ok && !prefix.is_whole && prefix.is_error.is_none();
    record.kind = RecordKind::Reply;
    record.class = class;
    record.code = reading.texts.shared(&code).text;
    record.request_id = id.map(|id| reading.texts.once(&id).text);
    if is_guess {
        // `isError` may stand behind the cut.
        reading.flag("cut-reply");
    }
}

/// A reply has no method; an id alone says that it is one, though not how it ended.
fn is_reply(prefix: &Prefix<'_>) -> bool {
    prefix.method.is_none() && (prefix.has_result || prefix.has_error || prefix.id.is_some())
}

/// The class and the code of a reply. A result counts as ok unless the prefix shows that it is an
/// error; with neither a result nor an error in sight nothing is known.
fn outcome<'a>(raw: &str, prefix: &'a Prefix<'_>) -> (OutcomeClass, &'a str) {
    if prefix.has_error {
        match prefix.error_code {
            Some("-32001") if raw.contains("policy_denied") => {
                (OutcomeClass::Denied, "policy_denied")
            }
            code => (OutcomeClass::Error, code.unwrap_or("error")),
        }
    } else if prefix.is_error == Some(true) {
        (OutcomeClass::Error, "tool_error")
    } else if prefix.has_result {
        (OutcomeClass::Ok, "ok")
    } else {
        (OutcomeClass::Unknown, "")
    }
}
