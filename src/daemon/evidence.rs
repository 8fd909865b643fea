//! An alert's calls with their raw lines: found again in the files while they are there, and kept.

use rustc_hash::FxHashMap;

use super::intake::Intake;
use crate::mask::mask_line;
use crate::model::{Alert, AlertId, Call, EvidenceView, RecordId, Step, Witness, WitnessLine};
use crate::store::{Reader, StoreError};

/// Text of lines that are remembered, so that alerts that grow, and several on one call, do not read them again.
const BYTES_MAX: usize = 64 << 20;

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
    known: FxHashMap<RecordId, WitnessLine>,
    bytes: usize,
    /// Lines that an older database kept, of files that are gone.
    kept: FxHashMap<RecordId, String>,
}

impl Lines {
    /// Lines of files that are gone come from here.
    pub(super) fn keep(&mut self, lines: FxHashMap<RecordId, String>) {
        self.kept = lines;
    }

    /// The views of an alert's evidence, in its order. `stored` are ids under which its lines may be stored already:
    /// they are asked for where a file is gone.
    pub(super) fn views(
        &mut self,
        alert: &Alert,
        stored: &[AlertId],
        paths: &Paths,
        intake: &mut Intake,
        reader: &Reader,
    ) -> Result<Vec<EvidenceView>, StoreError> {
        if self.bytes > BYTES_MAX {
            (self.known, self.bytes) = (FxHashMap::default(), 0);
        }
        let mut lacking = Vec::new();
        for (witness, step) in alert.evidence.iter().flat_map(|evidence| steps(&evidence.call)) {
            let known = self.known.get(&step.record);
            if known.is_some_and(|line| line.text.is_some()) {
                continue;
            }
            let is_new = known.is_none();
            let file = paths.of(step.record.generation);
            let text = intake
                .read_line(step.record, step.length)
                .map(|bytes| mask_line(bytes.trim_ascii_end()))
                .or_else(|| self.kept.get(&step.record).cloned());
            let (record, length) = (step.record, step.length);
            let line = WitnessLine { witness, file, record, length, text };
            if line.text.is_some() {
                self.remember(line);
            } else if is_new {
                lacking.push(line);
            }
        }
        if !lacking.is_empty() {
            let mut found = stored_lines(stored, reader)?;
            for line in lacking {
                let stored = found.remove(&line.record);
                self.remember(stored.unwrap_or(line));
            }
        }
        let lines_of = |call: &Call| {
            steps(call).filter_map(|(_, step)| self.known.get(&step.record).cloned()).collect()
        };
        let views = alert.evidence.iter().map(|one| EvidenceView::new(one, lines_of(&one.call)));
        Ok(views.collect())
    }

    fn remember(&mut self, line: WitnessLine) {
        let text = line.text.as_ref().map_or(0, String::len);
        self.bytes += text + size_of::<WitnessLine>() + line.file.len();
        self.known.insert(line.record, line);
    }
}

fn steps(call: &Call) -> impl Iterator<Item = (Witness, &Step)> {
    let sightings = call.sightings.iter();
    sightings.flat_map(|sighting| sighting.steps.iter().map(|step| (sighting.witness, step)))
}

fn stored_lines(
    stored: &[AlertId],
    reader: &Reader,
) -> Result<FxHashMap<RecordId, WitnessLine>, StoreError> {
    let mut lines = FxHashMap::default();
    for id in stored {
        let stored = reader.alert(*id)?.map(|alert| alert.evidence).unwrap_or_default();
        let stored = stored.into_iter().flat_map(|evidence| evidence.lines);
        lines.extend(stored.map(|line| (line.record, line)));
    }
    Ok(lines)
}
