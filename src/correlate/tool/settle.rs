//! Joins the units of one piece, and notes which call each now belongs to.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::super::clock::{Clocks, Sample};
use super::super::pair::{Joined, Tied};
use super::super::waiting::Seen;
use super::super::{Diff, build, pair};
use super::{Entry, ToolState, UnitKey};
use crate::model::{Call, Micros, Sighting};

/// Streams and hours of one piece that are remembered as told to the clocks.
const ENTERED_MAX: usize = 16;

impl ToolState {
    pub(super) fn settle_alone(&mut self, key: UnitKey, clocks: &Clocks, diff: &mut Diff) {
        let Some(entry) = self.units.get(&key) else { return };
        let seen = Seen::new(&entry.unit, 0, clocks);
        let joined = pair::alone(&seen);
        let occurrence = self.occurrence(entry);
        let is_known = known(&joined, occurrence, &[entry]).is_some();
        let call = (!is_known).then(|| Arc::new(build::build(&joined, occurrence)));
        let Some(entry) = self.units.get_mut(&key) else { return };
        // It may have been joined before so many came that nobody can tell them apart.
        diff.samples.extend(entry.sample.take().map(|sample| (sample, -1)));
        if let Some(call) = call {
            entry.occurrence = occurrence;
            diff.old.extend(entry.call.replace(Arc::clone(&call)));
            diff.new.push(call);
        }
    }

    pub(super) fn settle_piece(&mut self, keys: &[UnitKey], clocks: &mut Clocks, diff: &mut Diff) {
        // They follow each other, with nothing between them.
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return };
        let entries: Vec<&Entry> = self.units.range(*first..=*last).map(|(_, one)| one).collect();
        let seen = Seen::all(entries.iter().map(|entry| &entry.unit), clocks);
        enter(&seen, clocks);
        let verdict = pair::join(&seen, clocks);
        // Calls that are told of already: those that stay as they are need not be.
        let mut seen: FxHashSet<*const Call> = FxHashSet::default();
        let mut owners: Vec<Option<(Arc<Call>, usize)>> = vec![None; entries.len()];
        for joined in verdict.calls {
            let lead = joined.units.first().and_then(|lead| entries.get(lead.seen.place));
            let occurrence = lead.map_or(0, |entry| self.occurrence(entry));
            if let Some(call) = known(&joined, occurrence, &entries) {
                seen.insert(Arc::as_ptr(call));
                continue;
            }
            let call = Arc::new(build::build(&joined, occurrence));
            for tied in &joined.units {
                if let Some(owner) = owners.get_mut(tied.seen.place) {
                    *owner = Some((Arc::clone(&call), occurrence));
                }
            }
            diff.new.push(call);
        }
        let mut samples: Vec<Option<Sample>> = vec![None; entries.len()];
        for (place, sample) in verdict.samples {
            if let Some(of_place) = samples.get_mut(place) {
                *of_place = Some(sample);
            }
        }
        let entries = self.units.range_mut(*first..=*last).map(|(_, entry)| entry);
        for ((entry, sample), owner) in entries.zip(samples).zip(owners) {
            if sample != entry.sample {
                diff.samples.extend(sample.clone().map(|sample| (sample, 1)));
                let old = std::mem::replace(&mut entry.sample, sample);
                diff.samples.extend(old.map(|sample| (sample, -1)));
            }
            let Some((owner, occurrence)) = owner else { continue };
            entry.occurrence = occurrence;
            let old = entry.call.replace(owner);
            diff.old.extend(old.filter(|old| seen.insert(Arc::as_ptr(old))));
        }
    }

    /// How many of its equals come before it.
    fn occurrence(&self, entry: &Entry) -> usize {
        self.equals.before(entry.equal, entry.unit.base.id)
    }
}

/// Tells the clocks whose calls are joined and when, each stream and hour mostly once.
fn enter(units: &[Seen<'_>], clocks: &mut Clocks) {
    let mut entered: Vec<(usize, i64)> = Vec::new();
    for seen in units {
        let Some((at, _)) = seen.span else { continue };
        let hour = (seen.number, at.0.div_euclid(Micros::HOUR));
        if !entered.contains(&hour) {
            clocks.enter(seen.stream(), at);
            if entered.len() < ENTERED_MAX {
                entered.push(hour);
            }
        }
    }
}

/// The call that is there already, where it is of the same units, tied in the same way: what is built of them again
/// would be equal to it.
fn known<'e>(
    joined: &Joined<'_>,
    occurrence: usize,
    entries: &[&'e Entry],
) -> Option<&'e Arc<Call>> {
    let lead = joined.units.first()?;
    let lead = entries.get(lead.seen.place).filter(|lead| lead.occurrence == occurrence)?;
    let call = lead.call.as_ref()?;
    let is_same = |(tied, sighting): (&Tied<'_>, &Sighting)| {
        // A unit that is there anew, though with the same first record, has no call yet.
        let own = entries.get(tied.seen.place).and_then(|entry| entry.call.as_ref());
        own.is_some_and(|own| Arc::ptr_eq(own, call))
            && sighting.steps.first().is_some_and(|step| step.record == tied.seen.unit.base.id)
            && tied.joined_by == sighting.joined_by
            && tied.certainty == sighting.certainty
            && tied.attempt == sighting.attempt
            && tied.candidates == sighting.candidates
    };
    let is_whole = call.sightings.len() == joined.units.len();
    let mut both = joined.units.iter().zip(&call.sightings);
    (is_whole && both.all(is_same)).then_some(call)
}
