//! What the catalogue says of the tools that were called, so that SQL can ask for it.

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

    /// Writes all labels anew: the catalogue may be another one now.
    pub fn relabel(&mut self, rows: &[ToolRow]) -> Result<(), StoreError> {
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
}

pub(super) fn append(appender: &mut Appender<'_>, row: &ToolRow) -> Result<(), StoreError> {
    let label = |label| text(word(row.labels.get(label)));
    appender.append_row([
        shared(row.server.as_ref()),
        text(&row.tool),
        label(Label::OpenWorld),
        label(Label::Sensitive),
        label(Label::Outbound),
        label(Label::Destructive),
        label(Label::ReadOnly),
        text(match row.labels.source {
            LabelSource::Operator => "operator",
            LabelSource::Shipped => "shipped",
            LabelSource::Guessed => "guessed",
            LabelSource::Unknown => "unknown",
        }),
    ])?;
    Ok(())
}

const fn word(value: Tri) -> &'static str {
    match value {
        Tri::Yes => "yes",
        Tri::No => "no",
        Tri::Unknown => "unknown",
    }
}
