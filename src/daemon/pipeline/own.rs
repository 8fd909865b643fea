//! What happened to Calltrail's own files, as events for the rules: the watched may be the attacker.

use std::path::{Path, PathBuf};

use super::{Pipeline, Setup};
use crate::model::{IngestCode, IngestEvent, Micros, RecordId, Text};
use crate::store::StoreError;

/// Damaged logs that are looked at; more than that nobody keeps.
const DAMAGED_MAX: usize = 64;

impl Pipeline {
    /// Notes a broken journal, and damaged write-ahead logs that were set aside, each once: the store knows of those
    /// that were told.
    pub(super) fn notice_own(&mut self, setup: &Setup, now: Micros) -> Result<(), StoreError> {
        let breaks = self.journal_breaks();
        if !breaks.is_empty() {
            // Breaks are told for good. Another set of them, even a smaller one, is another event.
            let all: Vec<String> = breaks.iter().map(ToString::to_string).collect();
            let event = IngestEvent {
                more: all.len() as u64 - 1,
                ..event(IngestCode::JournalBroken, setup.journal.as_deref(), &all.join("\n"), now)
            };
            self.tell_once(event)?;
        }
        for log in damaged_logs(&setup.store.path) {
            let name = log.to_string_lossy();
            self.tell_once(event(IngestCode::WalDamaged, Some(&log), &name, now))?;
        }
        Ok(())
    }

    fn tell_once(&mut self, event: IngestEvent) -> Result<(), StoreError> {
        if !self.store.knows_event_at(event.code, event.position.offset)? {
            self.intake.tell(event);
        }
        Ok(())
    }
}

/// The damaged write-ahead logs that lie beside a database: they tell of themselves, whatever became of the process
/// that found them.
fn damaged_logs(database: &Path) -> Vec<PathBuf> {
    let prefix =
        format!("{}.wal.damaged-", database.file_name().unwrap_or_default().to_string_lossy());
    let Some(files) = database.parent().and_then(|folder| std::fs::read_dir(folder).ok()) else {
        return Vec::new();
    };
    let mut names: Vec<PathBuf> = files
        .flatten()
        .map(|file| PathBuf::from(file.file_name()))
        .filter(|name| name.to_string_lossy().starts_with(&prefix))
        .collect();
    names.sort();
    names.truncate(DAMAGED_MAX);
    names
}

/// The file's own name stands for a log's, and a hash of what was found for a place in it.
fn event(code: IngestCode, file: Option<&Path>, found: &str, now: Micros) -> IngestEvent {
    let name = file.and_then(Path::file_name).unwrap_or_default();
    let hash = blake3::hash(found.as_bytes());
    let offset = hash.as_bytes().iter().take(8).fold(0, |all, byte| (all << 8) | u64::from(*byte));
    let position = RecordId { generation: 0, offset, index: 0 };
    let stream = Text::from(name.to_string_lossy());
    IngestEvent { code, at: now, stream, position, bytes: 0, seconds: 0, more: 0, line: None }
}
