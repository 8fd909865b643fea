//! Alerts as rows, and back as views.

use duckdb::{Appender, Row};

use super::value::{
    bytes, get_id, get_json, get_text, get_time, get_word, number, optional, text, time,
};
use super::{AlertRow, StoreError};
use crate::model::{AlertId, AlertState, AlertView, Level, Why};

/// The columns in the order of [`from_row`].
pub(super) const COLUMNS: &str = "alert_id, seq, rule, title, level, tags, group_by, actor, \
    first_seen, last_seen, count, why, elided, retracted, evidence_seq";

pub(super) fn append(
    appender: &mut Appender<'_>,
    seq: u64,
    AlertRow { alert, evidence, .. }: &AlertRow,
) -> Result<(), StoreError> {
    appender.append_row([
        number(seq),
        bytes(&alert.id.0),
        text(&alert.rule),
        text(&alert.title),
        text(alert.level.as_str()),
        text(&json(&alert.tags)),
        text(&json(&alert.group)),
        text(&alert.actor),
        time(alert.first_seen),
        time(alert.last_seen),
        bytes(&alert.closing.0),
        time(alert.closing_at),
        number(alert.count),
        text(&json(&alert.why)),
        number(alert.elided),
        optional(None),
        number(evidence.set(seq)),
    ])?;
    Ok(())
}

/// An alert without evidence or decisions, and the number of its evidence rows' set.
pub(super) fn from_row(row: &Row<'_>) -> duckdb::Result<(AlertView, u64)> {
    let why: Option<Why> = get_json(row, 11)?;
    let view = AlertView {
        id: AlertId(get_id(row, 0)?),
        seq: row.get(1)?,
        rule: row.get(2)?,
        title: row.get(3)?,
        level: get_word(row, 4, Level::from_word)?,
        tags: get_json(row, 5)?,
        group: get_json(row, 6)?,
        actor: row.get(7)?,
        first_seen: get_time(row, 8)?,
        last_seen: get_time(row, 9)?,
        count: row.get(10)?,
        why: why.unwrap_or(Why { text: String::new(), threshold: 0, value: 0, timespan: None }),
        elided: row.get(12)?,
        retracted: get_text(row, 13)?.map(|text| text.to_string()),
        state: AlertState::Open,
        close_reason: None,
        evidence: Vec::new(),
    };
    Ok((view, row.get(14)?))
}

/// Our own plain types always become JSON.
pub(super) fn json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
