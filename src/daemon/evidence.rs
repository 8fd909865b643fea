//! An alert's calls with their raw lines: found again in the files while they are there, and kept.

use rustc_hash::FxHashMap;

use super::intake::Intake;
use crate::mask::mask_line;
use crate::model::{Alert, AlertId, Call, Evidence, EvidenceView, RecordId, WitnessLine};
use crate::store::{Reader, StoreError};

/// Alerts whose lines are remembered, so that an alert that grows does not read them again.
const ALERTS_MAX: usize = 512;

/// Where each generation's file lies now.
pub(super) struct Paths(FxHashMap<u64, String>);

impl Paths {
    pub(super) fn of_now(intake: &Intake) -> Self {
        let path = |status: crate::tail::SourceStatus| {
            (status.generation, status.path.to_string_lossy().into_owned())
        };
        Self(intake.status().into_iter().map(path).collect())
    }

    fn of(&self, generation: u64) -> String {
        self.0.get(&generation).cloned().unwrap_or_default()
    }
}

/// The lines of recent alerts.
#[derive(Default)]
pub(super) struct Lines {
    known: FxHashMap<AlertId, FxHashMap<RecordId, WitnessLine>>,
    /// Lines that an older database kept, of files that are gone.
    kept: FxHashMap<RecordId, String>,
}

impl Lines {
    /// Lines of files that are gone come from here.
    pub(super) fn keep(&mut self, lines: FxHashMap<RecordId, String>) {
        self.kept = lines;
    }

    /// The views of an alert's evidence, in its order. `stored` are ids under which its lines may be stored already.
    pub(super) fn views(
        &mut self,
        alert: &Alert,
        stored: &[AlertId],
        paths: &Paths,
        intake: &mut Intake,
        reader: &Reader,
    ) -> Result<Vec<EvidenceView>, StoreError> {
        let mut lines = self.take(stored, reader)?;
        let views = alert
            .evidence
            .iter()
            .map(|evidence| view(evidence, &mut lines, paths, intake, &self.kept))
            .collect();
        if self.known.len() >= ALERTS_MAX {
            self.known.clear();
        }
        self.known.insert(alert.id, lines);
        Ok(views)
    }

    fn take(
        &mut self,
        stored: &[AlertId],
        reader: &Reader,
    ) -> Result<FxHashMap<RecordId, WitnessLine>, StoreError> {
        let mut lines = FxHashMap::default();
        for id in stored {
            if let Some(known) = self.known.remove(id) {
                lines.extend(known);
                continue;
            }
            let stored = reader.alert(*id)?.map(|alert| alert.evidence).unwrap_or_default();
            let stored = stored.into_iter().flat_map(|evidence| evidence.lines);
            lines.extend(stored.map(|line| (line.record, line)));
        }
        Ok(lines)
    }
}

fn view(
    evidence: &Evidence,
    lines: &mut FxHashMap<RecordId, WitnessLine>,
    paths: &Paths,
    intake: &mut Intake,
    kept: &FxHashMap<RecordId, String>,
) -> EvidenceView {
    let call = &*evidence.call;
    EvidenceView::new(evidence, witness_lines(call, lines, paths, intake, kept))
}

fn witness_lines(
    call: &Call,
    lines: &mut FxHashMap<RecordId, WitnessLine>,
    paths: &Paths,
    intake: &mut Intake,
    kept: &FxHashMap<RecordId, String>,
) -> Vec<WitnessLine> {
    let steps = call
        .sightings
        .iter()
        .flat_map(|sighting| sighting.steps.iter().map(|step| (sighting.witness, step)));
    steps
        .map(|(witness, step)| {
            let line = lines.entry(step.record).or_insert_with(|| WitnessLine {
                witness,
                file: paths.of(step.record.generation),
                record: step.record,
                length: step.length,
                text: None,
            });
            if line.text.is_none() {
                line.text = intake
                    .read_line(step.record, step.length)
                    .map(|bytes| mask_line(bytes.trim_ascii_end()))
                    .or_else(|| kept.get(&step.record).cloned());
            }
            line.clone()
        })
        .collect()
}
