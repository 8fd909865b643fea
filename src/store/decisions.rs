//! What people decided about alerts, over every id that an alert has had. The rule itself is in the views, so that a
//! person's own SQL and the pages never differ.

use std::collections::HashMap;

use duckdb::Connection;

use super::StoreError;
use super::value::{bytes, get_id, get_text, get_time, get_word};
use crate::model::{AlertId, AlertState, AlertView, CloseReason, DecisionView};

/// The states of alerts that stand.
pub(super) struct States(HashMap<AlertId, (AlertState, Option<CloseReason>)>);

impl States {
    pub(super) fn of_all(connection: &Connection) -> Result<Self, StoreError> {
        Self::load(connection, "", [])
    }

    pub(super) fn of(connection: &Connection, id: AlertId) -> Result<Self, StoreError> {
        Self::load(connection, "where alert_id = ?", [bytes(&id.0)])
    }

    fn load<P: duckdb::Params>(
        connection: &Connection,
        condition: &str,
        values: P,
    ) -> Result<Self, StoreError> {
        let mut statement = connection.prepare(&format!(
            "select alert_id, state, close_reason from alert_state {condition}"
        ))?;
        let rows = statement.query_map(values, |row| {
            let reason = get_text(row, 2)?;
            let reason = reason.as_deref().and_then(CloseReason::from_word);
            Ok((AlertId(get_id(row, 0)?), (get_word(row, 1, AlertState::from_word)?, reason)))
        })?;
        Ok(Self(rows.collect::<Result<_, _>>()?))
    }

    pub(super) fn apply(&self, alert: &mut AlertView) {
        if let Some((state, close_reason)) = self.0.get(&alert.id) {
            (alert.state, alert.close_reason) = (*state, *close_reason);
        }
    }
}

/// The id that an old one leads to.
pub(super) fn resolve(connection: &Connection, id: AlertId) -> Result<AlertId, StoreError> {
    let mut statement =
        connection.prepare("select alert_id from alert_member where member = ? limit 1")?;
    let found = statement.query_map([bytes(&id.0)], |row| get_id(row, 0))?.next().transpose()?;
    Ok(found.map_or(id, AlertId))
}

/// The decisions made under every id that leads to this one, oldest first.
pub(super) fn made(connection: &Connection, id: AlertId) -> Result<Vec<DecisionView>, StoreError> {
    let mut statement = connection.prepare(
        "select time, who, state, close_reason, note from decision_log
         where alert_id in (select member from alert_member where alert_id = ?) order by seq",
    )?;
    let rows = statement.query_map([bytes(&id.0)], |row| {
        let reason = get_text(row, 3)?;
        Ok(DecisionView {
            at: get_time(row, 0)?.unwrap_or_default(),
            who: row.get(1)?,
            state: get_word(row, 2, AlertState::from_word)?,
            close_reason: reason.as_deref().and_then(CloseReason::from_word),
            note: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
