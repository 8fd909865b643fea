//! An alert's calls with their raw lines: found again in the files while they are there, and kept.

mod kept;

use rustc_hash::{FxHashMap, FxHashSet};

use super::intake::Intake;
use crate::mask::mask_line;
use crate::model::{AlertId, Call, RecordId, Step, Witness, WitnessLine};

pub(super) use kept::{Kept, Plan};

/// Text of lines that are remembered, so that several alerts on one call do not read them again.
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
    /// Alerts whose stored lines are among them.
    asked: FxHashSet<AlertId>,
    /// Lines that an older database kept, of files that are gone.
    kept: FxHashMap<RecordId, String>,
}

impl Lines {
    /// Lines of files that are gone come from here.
    pub(super) fn keep(&mut self, lines: FxHashMap<RecordId, String>) {
        self.kept = lines;
    }

    /// Whether what is remembered is much.
    pub(super) fn are_many(&self) -> bool {
        self.bytes + self.asked.len() * size_of::<AlertId>() > BYTES_MAX
    }

    /// Forgets what is remembered, if it is much. Not to be asked between [`Lines::look`] and [`Lines::of`].
    pub(super) fn make_room(&mut self) {
        if self.are_many() {
            (self.known, self.bytes) = (FxHashMap::default(), 0);
            self.asked.clear();
        }
    }

    /// Looks for the lines of a call in their files. False where one is not there: it may be stored with an alert.
    pub(super) fn look(&mut self, call: &Call, paths: &Paths, intake: &mut Intake) -> bool {
        let mut is_found = true;
        for (witness, step) in steps(call) {
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
            is_found &= text.is_some();
            if text.is_some() || is_new {
                self.remember(WitnessLine { witness, file, record, length, text });
            }
        }
        is_found
    }

    /// Those of some alerts whose stored lines were not asked for yet; from now on they are.
    pub(super) fn not_asked<'a>(
        &mut self,
        alerts: &'a [AlertId],
    ) -> impl Iterator<Item = AlertId> + use<'_, 'a> {
        alerts.iter().copied().filter(|alert| self.asked.insert(*alert))
    }

    /// Takes over all lines that are stored with alerts: what files hold today they may not hold tomorrow.
    pub(super) fn recall(&mut self, stored: Vec<WitnessLine>) {
        for line in stored.into_iter().filter(|line| line.text.is_some()) {
            if self.known.get(&line.record).is_none_or(|known| known.text.is_none()) {
                self.remember(line);
            }
        }
    }

    /// The lines of a call that was looked for.
    fn of(&self, call: &Call) -> Vec<WitnessLine> {
        steps(call).filter_map(|(_, step)| self.known.get(&step.record).cloned()).collect()
    }

    /// Whether the lines of a call that was looked for are all there.
    fn are_whole(&self, call: &Call) -> bool {
        let known = |step: &Step| self.known.get(&step.record);
        steps(call).all(|(_, step)| known(step).is_some_and(|line| line.text.is_some()))
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
