//! What happened to Calltrail's own files, as events for the rules: the watched may be the attacker.

use std::path::Path;

use super::Pipeline;
use crate::model::{IngestCode, IngestEvent, Micros, RecordId, Text};
use crate::store::StoreError;

impl Pipeline {
    /// Notes a broken journal, and a damaged write-ahead log that opening found, each once.
    pub(super) fn notice_own(
        &mut self,
        journal: Option<&Path>,
        now: Micros,
    ) -> Result<(), StoreError> {
        let breaks = self.journal_breaks().len() as u64;
        // A break is told for good, so that more of them are another event.
        if breaks > 0 && !self.store.knows_event_at(IngestCode::JournalBroken, breaks)? {
            self.intake.tell(IngestEvent {
                more: breaks - 1,
                ..event(IngestCode::JournalBroken, journal, breaks, now)
            });
        }
        if let Some(log) = &self.set_aside {
            self.intake.tell(event(IngestCode::WalDamaged, Some(log), 0, now));
        }
        Ok(())
    }
}

/// The file's own name stands for a log's.
fn event(code: IngestCode, file: Option<&Path>, offset: u64, now: Micros) -> IngestEvent {
    let name = file.and_then(Path::file_name).unwrap_or_default();
    let position = RecordId { generation: 0, offset, index: 0 };
    let stream = Text::from(name.to_string_lossy());
    IngestEvent { code, at: now, stream, position, bytes: 0, seconds: 0, more: 0, line: None }
}
