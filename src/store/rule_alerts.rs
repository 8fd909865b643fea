//! How often each rule fired.

use super::value::get_time;
use super::{Reader, StoreError};
use crate::model::RuleAlerts;

impl Reader {
    /// The alerts of every rule that has any, by the rule's name.
    pub fn rule_alerts(&self) -> Result<Vec<RuleAlerts>, StoreError> {
        self.with(|connection| {
            let mut statement = connection.prepare(
                "select rule, count(*) filter (retracted is null), count(*) filter (retracted is not null),
                        max(last_seen) filter (retracted is null)
                 from alert_now where alert_id not in (select old_id from alert_alias)
                 group by rule order by rule",
            )?;
            let rows = statement.query_map([], |row| {
                Ok(RuleAlerts {
                    rule: row.get(0)?,
                    alerts: row.get(1)?,
                    retracted: row.get(2)?,
                    last_seen: get_time(row, 3)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}
