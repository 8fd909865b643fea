//! Records as rows of `record_log`.

use duckdb::{Appender, Row};

use super::StoreError;
use super::value::{
    get_json, get_text, get_time, get_word, json_list, number, optional, real, shared, small, text,
    time,
};
use crate::model::{
    ArgView, Args, Dialect, OutcomeClass, Record, RecordId, RecordKind, Text, TimeQuality, Witness,
};

/// The columns in the order of [`from_row`].
pub(super) const COLUMNS: &str = "generation, \"offset\", idx, length, stream, time, time_quality, \
    dialect, witness, kind, class, code, detail, tool, server, args, request_id, group_id, \
    trace_id, tool_use_id, principal, client, tenant, session, duration_ms, flags, also, extra";

pub(super) fn append(appender: &mut Appender<'_>, record: &Record) -> Result<(), StoreError> {
    let args = args_json(&record.args);
    let flags = json_list(&record.flags);
    let also = json_list(&record.also);
    appender.append_row([
        number(record.id.generation),
        number(record.id.offset),
        small(record.id.index),
        number(record.length),
        text(&record.stream),
        time(record.at),
        text(record.time_quality.as_str()),
        text(record.dialect.as_str()),
        text(record.witness.as_str()),
        text(record.kind.as_str()),
        text(record.class.as_str()),
        text(&record.code),
        shared(record.detail.as_ref()),
        shared(record.tool.as_ref()),
        optional(record.bare_tool()),
        shared(record.server.as_ref()),
        optional(args.as_deref()),
        shared(record.request_id.as_ref()),
        shared(record.group_id.as_ref()),
        shared(record.trace_id.as_ref()),
        shared(record.tool_use_id.as_ref()),
        shared(record.principal.as_ref()),
        shared(record.client.as_ref()),
        shared(record.tenant.as_ref()),
        shared(record.session.as_ref()),
        real(record.duration_ms),
        optional(flags.as_deref()),
        optional(also.as_deref()),
        shared(record.extra.as_ref()),
    ])?;
    Ok(())
}

pub(super) fn from_row(row: &Row<'_>) -> duckdb::Result<Record> {
    Ok(Record {
        id: RecordId { generation: row.get(0)?, offset: row.get(1)?, index: row.get(2)? },
        length: row.get(3)?,
        stream: get_text(row, 4)?.unwrap_or_default(),
        at: get_time(row, 5)?,
        time_quality: get_word(row, 6, TimeQuality::from_word)?,
        dialect: get_word(row, 7, Dialect::from_word)?,
        witness: get_word(row, 8, Witness::from_word)?,
        kind: get_word(row, 9, RecordKind::from_word)?,
        class: get_word(row, 10, OutcomeClass::from_word)?,
        code: get_text(row, 11)?.unwrap_or_default(),
        detail: get_text(row, 12)?,
        tool: get_text(row, 13)?,
        server: get_text(row, 14)?,
        args: get_json(row, 15)?,
        request_id: get_text(row, 16)?,
        group_id: get_text(row, 17)?,
        trace_id: get_text(row, 18)?,
        tool_use_id: get_text(row, 19)?,
        principal: get_text(row, 20)?,
        client: get_text(row, 21)?,
        tenant: get_text(row, 22)?,
        session: get_text(row, 23)?,
        duration_ms: row.get(24)?,
        flags: get_json(row, 25)?,
        also: get_json::<Vec<(Text, Text)>>(row, 26)?,
        extra: get_text(row, 27)?,
    })
}

/// Arguments as JSON; nothing where the record says nothing of them.
pub(super) fn args_json(args: &Args) -> Option<String> {
    if args.view == ArgView::Nothing { None } else { serde_json::to_string(args).ok() }
}
