//! What the catalogue says of the tools that were called, so that SQL can ask for it.

use std::collections::HashMap;

use duckdb::Appender;

use super::value::{get_text, shared, text};
use super::{Store, StoreError};
use crate::model::{Label, LabelSource, Labels, Text, Tri};

/// A tool as logs name it, and its labels.
#[derive(Clone, Debug)]
pub struct ToolRow {
    pub server: Option<Text>,
    pub tool: Text,
    pub labels: Labels,
}

/// A tool as logs name it: (server, tool).
pub type ToolName = (Option<Text>, Text);

impl Store {
    /// Every tool that has a call.
    pub fn tools_called(&self) -> Result<Vec<ToolName>, StoreError> {
        let mut statement = self
            .connection
            .prepare("select distinct server, tool from call_log where kind = 'call'")?;
        let rows = statement
            .query_map([], |row| Ok((get_text(row, 0)?, get_text(row, 1)?.unwrap_or_default())))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Writes all labels anew: the catalogue may be another one now. Nothing is written where they stand already, so
    /// that a database can be opened, and looked at, on a full disk.
    pub fn relabel(&mut self, rows: &[ToolRow]) -> Result<(), StoreError> {
        if self.is_labelled(rows)? {
            return Ok(());
        }
        let transaction = self.connection.transaction()?;
        transaction.execute_batch("delete from tool_label")?;
        {
            let mut appender = transaction.appender("tool_label")?;
            for row in rows {
                append(&mut appender, row)?;
            }
            appender.flush()?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Whether exactly these labels are stored.
    fn is_labelled(&self, rows: &[ToolRow]) -> Result<bool, StoreError> {
        let mut statement = self.connection.prepare(
            "select server, tool, concat_ws(' ', open_world, sensitive, outbound, destructive, read_only, labels_from)
             from tool_label",
        )?;
        let stored = statement.query_map([], |row| {
            let name = (get_text(row, 0)?, get_text(row, 1)?.unwrap_or_default());
            Ok((name, row.get::<_, String>(2)?))
        })?;
        let stored: Vec<(ToolName, String)> = stored.collect::<Result<_, _>>()?;
        let (count, stored) = (stored.len(), HashMap::<_, _>::from_iter(stored));
        let stands = |row: &ToolRow| {
            let name = (row.server.clone(), Text::clone(&row.tool));
            stored.get(&name).is_some_and(|labels| *labels == words(row.labels).join(" "))
        };
        Ok(count == rows.len() && rows.iter().all(stands))
    }
}

pub(super) fn append(appender: &mut Appender<'_>, row: &ToolRow) -> Result<(), StoreError> {
    let [open_world, sensitive, outbound, destructive, read_only, from] = words(row.labels);
    appender.append_row([
        shared(row.server.as_ref()),
        text(&row.tool),
        text(open_world),
        text(sensitive),
        text(outbound),
        text(destructive),
        text(read_only),
        text(from),
    ])?;
    Ok(())
}

/// The labels as their columns hold them.
fn words(labels: Labels) -> [&'static str; 6] {
    let label = |label| word(labels.get(label));
    let from = match labels.source {
        LabelSource::Operator => "operator",
        LabelSource::Shipped => "shipped",
        LabelSource::Guessed => "guessed",
        LabelSource::Unknown => "unknown",
    };
    [
        label(Label::OpenWorld),
        label(Label::Sensitive),
        label(Label::Outbound),
        label(Label::Destructive),
        label(Label::ReadOnly),
        from,
    ]
}

const fn word(value: Tri) -> &'static str {
    match value {
        Tri::Yes => "yes",
        Tri::No => "no",
        Tri::Unknown => "unknown",
    }
}
