//! The scene of an incident: its calls and their surroundings in order of time, with the part each
//! played in each alert.
//!
//! Pure: it joins what was read. The picture and the table are both drawn from it, so that they
//! tell the same.

use std::collections::{HashMap, HashSet};

use super::arguments;
use super::incident::Incident;
use super::shown::Shown;
use crate::model::{
    AlertView, Call, CallId, Discrepancy, EvidenceView, Micros, OutcomeClass, Ran, RecordId,
    Sighting, Witness, event_words,
};

/// Calls of one scene; beyond, the middle is left out.
pub(crate) const CALLS_MAX: usize = 300;

/// Everything that the picture and the table show.
pub(crate) struct Scene {
    /// In order of time; those without one last.
    pub(crate) calls: Vec<SceneCall>,
    /// Calls left out of the middle.
    pub(crate) left_out: usize,
}

/// One call of the scene.
pub(crate) struct SceneCall {
    pub(crate) id: CallId,
    pub(crate) at: Option<Micros>,
    pub(crate) server: Option<String>,
    pub(crate) tool: String,
    /// Its arguments in one line; none where nothing is known of them.
    pub(crate) args: Option<Shown>,
    pub(crate) code: String,
    pub(crate) class: OutcomeClass,
    pub(crate) ran: Ran,
    /// Who saw it, from the farthest to the nearest to the work; empty only for an ingest event that no line shows.
    pub(crate) seen: Vec<Seen>,
    /// The parts it played: none for a call of the surroundings.
    pub(crate) parts: Vec<Part>,
    pub(crate) discrepancies: Vec<Discrepancy>,
    /// For an ingest event: what the log did, in our words.
    pub(crate) event: Option<String>,
}

/// One witness's view of a call.
pub(crate) struct Seen {
    pub(crate) witness: Witness,
    pub(crate) from: Option<Micros>,
    pub(crate) to: Option<Micros>,
    pub(crate) class: OutcomeClass,
    pub(crate) code: String,
}

/// The part of a call in one alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Index of the alert in the incident.
    pub(crate) alert: usize,
    /// The stage's place among the alert's stages, from 0, in the order in which they first appear.
    pub(crate) stage: usize,
    pub(crate) name: String,
}

impl SceneCall {
    pub(crate) fn is_context(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Scene {
    /// Joins the incident's evidence with the calls read around it, which may hold the same calls
    /// in full.
    pub(crate) fn new(incident: &Incident, around: Vec<Call>) -> Self {
        let mut calls: Vec<SceneCall> = Vec::new();
        let mut place: HashMap<CallId, usize> = HashMap::new();
        let mut full = FullCalls::new(around);
        for (index, alert) in incident.alerts().iter().enumerate() {
            let stages = stages_of(alert);
            for evidence in &alert.evidence {
                let at = *place.entry(evidence.call_id).or_insert_with(|| {
                    let call = full.take(evidence).map_or_else(
                        || SceneCall::from_evidence(evidence),
                        |call| SceneCall::from_call(evidence.call_id, &call),
                    );
                    calls.push(call);
                    calls.len() - 1
                });
                let stage = stages.iter().position(|stage| *stage == evidence.stage).unwrap_or(0);
                let part = Part { alert: index, stage, name: evidence.stage.clone() };
                if !calls[at].parts.contains(&part) {
                    calls[at].parts.push(part);
                }
            }
        }
        calls.extend(full.rest().map(|call| SceneCall::from_call(call.id, &call)));
        calls.sort_by_key(|call| (call.at.unwrap_or(Micros(i64::MAX)), call.id));
        let left_out = calls.len().saturating_sub(CALLS_MAX);
        if left_out > 0 {
            let start = CALLS_MAX / 2;
            calls.drain(start..start + left_out);
        }
        Self { calls, left_out }
    }

    /// Every instant that the scene mentions.
    pub(crate) fn times(&self) -> impl Iterator<Item = Micros> {
        self.calls.iter().flat_map(|call| {
            let seen = call.seen.iter().flat_map(|seen| [seen.from, seen.to]);
            std::iter::once(call.at).chain(seen).flatten()
        })
    }
}

/// The names of an alert's stages in the order in which its evidence first fills them.
fn stages_of(alert: &AlertView) -> Vec<&str> {
    let mut stages: Vec<&str> = Vec::new();
    for evidence in &alert.evidence {
        if !stages.contains(&evidence.stage.as_str()) {
            stages.push(&evidence.stage);
        }
    }
    stages
}

impl SceneCall {
    fn from_call(id: CallId, call: &Call) -> Self {
        let event = event_words(call);
        Self {
            id,
            at: call.at,
            server: call.server.as_deref().map(str::to_owned),
            tool: call.tool.to_string(),
            args: if event.is_some() { None } else { arguments::summary(&call.args) },
            code: call.code.to_string(),
            class: call.class,
            ran: call.ran,
            seen: call.sightings.iter().map(Seen::from_sighting).collect(),
            parts: Vec::new(),
            discrepancies: call.discrepancies.clone(),
            event,
        }
    }

    /// What the alert itself kept, for a call that cannot be read in full.
    fn from_evidence(evidence: &EvidenceView) -> Self {
        let seen = |witness| Seen {
            witness,
            from: evidence.at,
            to: evidence.ended.or(evidence.at),
            class: evidence.class,
            code: evidence.code.clone(),
        };
        let kept = |witness: &Witness| evidence.lines.iter().any(|line| line.witness == *witness);
        Self {
            id: evidence.call_id,
            at: evidence.at,
            server: evidence.server.clone(),
            tool: evidence.tool.clone(),
            args: None,
            code: evidence.code.clone(),
            class: evidence.class,
            ran: evidence.ran,
            seen: Witness::ALL.into_iter().filter(kept).map(seen).collect(),
            parts: Vec::new(),
            discrepancies: Vec::new(),
            event: evidence.event.clone(),
        }
    }
}

impl Seen {
    fn from_sighting(sighting: &Sighting) -> Self {
        let times = || sighting.steps.iter().filter_map(|step| step.at);
        Self {
            witness: sighting.witness,
            from: times().min(),
            to: times().max(),
            class: sighting.class,
            code: sighting.code.to_string(),
        }
    }
}

/// Calls read in full, found by id or, since a revised call can have a new id, by a record they
/// share.
struct FullCalls {
    calls: Vec<Option<Call>>,
    by_id: HashMap<CallId, usize>,
    by_record: HashMap<RecordId, usize>,
}

impl FullCalls {
    fn new(calls: Vec<Call>) -> Self {
        let mut known = HashSet::new();
        let calls: Vec<Call> = calls.into_iter().filter(|call| known.insert(call.id)).collect();
        let by_id = calls.iter().enumerate().map(|(index, call)| (call.id, index)).collect();
        let by_record = calls
            .iter()
            .enumerate()
            .flat_map(|(index, call)| {
                let steps = call.sightings.iter().flat_map(|sighting| &sighting.steps);
                steps.map(move |step| (step.record, index))
            })
            .collect();
        Self { calls: calls.into_iter().map(Some).collect(), by_id, by_record }
    }

    fn take(&mut self, evidence: &EvidenceView) -> Option<Call> {
        let shared = || evidence.lines.iter().find_map(|line| self.by_record.get(&line.record));
        let index = *self.by_id.get(&evidence.call_id).or_else(shared)?;
        self.calls.get_mut(index)?.take()
    }

    fn rest(self) -> impl Iterator<Item = Call> {
        self.calls.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{call, trifecta};
    use super::*;

    #[test]
    fn evidence_and_surroundings_are_one_list_without_doubles() {
        let (incident, calls) = trifecta();
        let evidence = incident.lead().evidence.len();
        let mut around = calls.clone();
        around.push(call(99, "list_dir", 2_000_000));
        around.push(calls[0].clone());
        let scene = Scene::new(&incident, around);
        assert_eq!(scene.calls.len(), evidence + 1);
        assert_eq!(scene.calls.iter().filter(|call| call.is_context()).count(), 1);
        let mut times: Vec<_> = scene.calls.iter().map(|call| call.at).collect();
        times.sort();
        assert_eq!(times, scene.calls.iter().map(|call| call.at).collect::<Vec<_>>());
    }

    #[test]
    fn a_revised_call_is_known_by_its_records() {
        let (incident, mut calls) = trifecta();
        calls[0].id = CallId([0xee; 16]);
        let scene = Scene::new(&incident, calls);
        assert!(scene.calls.iter().all(|call| !call.is_context()));
    }

    #[test]
    fn evidence_alone_is_enough() {
        let (incident, _) = trifecta();
        let scene = Scene::new(&incident, Vec::new());
        assert!(scene.calls.iter().all(|call| !call.seen.is_empty()));
    }
}
