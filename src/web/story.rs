//! The incident in sentences: the same facts as the picture, to be read aloud or pasted into a
//! report.

use std::collections::BTreeSet;

use super::incident::Incident;
use super::scene::{Scene, SceneCall};
use super::shown::{Shown, brief_duration, clock_text, counted};
use crate::model::{Discrepancy, Ran};

/// Calls told one by one; a longer chain is told by its ends.
const TOLD_MAX: usize = 12;

/// One sentence: our words and, set apart, words from the logs.
pub(crate) struct Sentence {
    pub(crate) pieces: Vec<Piece>,
}

pub(crate) struct Piece {
    pub(crate) text: Shown,
    pub(crate) voice: Voice,
}

/// Whose words a piece is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    Ours,
    /// A name or a word from the logs.
    Log,
    /// A call's arguments.
    Args,
}

/// Builds a sentence piece by piece.
#[derive(Default)]
struct Speech(Vec<Piece>);

impl Speech {
    fn say(mut self, words: &str) -> Self {
        self.0.push(Piece { text: Shown::new(words), voice: Voice::Ours });
        self
    }

    fn quote(mut self, words: &str) -> Self {
        self.0.push(Piece { text: Shown::short(words, 120), voice: Voice::Log });
        self
    }

    fn args(mut self, args: &Shown) -> Self {
        self.0.push(Piece { text: args.clone(), voice: Voice::Args });
        self
    }

    fn end(self) -> Sentence {
        Sentence { pieces: self.0 }
    }
}

/// Tells the incident: the whole, then the leading alert's calls one after the other, then what
/// does not add up.
pub(crate) fn tell(incident: &Incident, scene: &Scene) -> Vec<Sentence> {
    let lead = incident.alerts().iter().position(|alert| alert.id == incident.lead().id);
    let chain: Vec<&SceneCall> = scene
        .calls
        .iter()
        .filter(|call| call.parts.iter().any(|part| Some(part.alert) == lead))
        .collect();
    let mut sentences = vec![summary(incident, scene)];
    let skipped = chain.len().saturating_sub(TOLD_MAX);
    for (index, call) in chain.iter().enumerate() {
        if skipped > 0 && index == TOLD_MAX / 2 {
            let words = format!("… {} more like these …", counted(skipped as u64, "call"));
            sentences.push(Speech::default().say(&words).end());
        }
        if index < TOLD_MAX / 2 || index >= TOLD_MAX / 2 + skipped {
            let before = index.checked_sub(1).and_then(|before| chain.get(before)).copied();
            sentences.push(step(call, before, lead));
        }
    }
    for call in &scene.calls {
        if !call.is_context() {
            sentences.extend(call.discrepancies.iter().map(|what| contradiction(&call.tool, what)));
        }
    }
    sentences
}

fn summary(incident: &Incident, scene: &Scene) -> Sentence {
    let evidence = || scene.calls.iter().filter(|call| !call.is_context());
    let elided: u64 = incident.alerts().iter().map(|alert| alert.elided).sum();
    let calls = evidence().count() as u64;
    let at_least = if elided > 0 { "at least " } else { "" };
    // The actor of an ingest event is the log itself.
    let is_log = evidence().all(|call| call.event.is_some());
    let (verb, noun) = if is_log { (": ", "event") } else { (" made ", "call") };
    let mut speech = Speech::default()
        .quote(incident.actor())
        .say(&format!("{verb}{at_least}{}", counted(calls, noun)));
    if let Some((first, last)) = incident.first_seen().zip(incident.last_seen()) {
        speech = match last.since(first) {
            0 => speech.say(&format!(" at {}", clock_text(first))),
            lasted => speech.say(&format!(
                " within {}, from {}",
                brief_duration(lasted),
                clock_text(first)
            )),
        };
    }
    let witnesses: BTreeSet<_> =
        evidence().flat_map(|call| call.seen.iter().map(|seen| seen.witness)).collect();
    let witnesses: Vec<_> = witnesses.iter().map(|witness| witness.as_str()).collect();
    if !witnesses.is_empty() {
        speech = speech.say(&format!(", seen by the logs of the {}", witnesses.join(", ")));
    }
    speech.say(".").end()
}

fn step(call: &SceneCall, before: Option<&SceneCall>, lead: Option<usize>) -> Sentence {
    let gap = before.and_then(|before| Some(call.at?.since(before.at?)));
    let speech = match (gap, call.at) {
        (Some(gap), _) => Speech::default().say(&format!("{} later: ", brief_duration(gap))),
        (None, Some(at)) => Speech::default().say(&format!("At {}: ", clock_text(at))),
        (None, None) => Speech::default().say("At an unknown time: "),
    };
    if let Some(event) = &call.event {
        return speech.say("the log ").say(event).say(".").end();
    }
    let mut speech = speech.quote(&call.tool);
    if let Some(args) = &call.args {
        speech = speech.say(" (").args(args).say(")");
    }
    if let Some(server) = &call.server {
        speech = speech.say(" on ").quote(server);
    }
    if let Some(part) = call.parts.iter().find(|part| Some(part.alert) == lead) {
        speech = speech.say(", as ").quote(&part.name);
    }
    speech = speech.say(", ended ").quote(&call.code);
    let ran = match call.ran {
        Ran::Yes => ".",
        Ran::No => "; it did not run.",
        Ran::Maybe => "; whether it ran is not known.",
    };
    speech.say(ran).end()
}

/// What two witnesses say differently, in words.
pub(crate) fn contradiction(tool: &str, what: &Discrepancy) -> Sentence {
    match what {
        Discrepancy::RanThoughDenied { denied_by, ran_by } => Speech::default()
            .say(&format!("The {} refused ", denied_by.as_str()))
            .quote(tool)
            .say(&format!(", yet the {} shows that it ran.", ran_by.as_str()))
            .end(),
        Discrepancy::Outcome { upper, upper_code, lower, lower_code } => Speech::default()
            .say("On ")
            .quote(tool)
            .say(&format!(" the witnesses disagree: the {} says ", upper.as_str()))
            .quote(upper_code)
            .say(&format!(", the {} says ", lower.as_str()))
            .quote(lower_code)
            .say(".")
            .end(),
        Discrepancy::Arguments { upper, lower, .. } if upper == lower => Speech::default()
            .say(&format!(
                "What the {} asked about and what it did differ: other arguments for ",
                upper.as_str()
            ))
            .quote(tool)
            .say(".")
            .end(),
        Discrepancy::Arguments { upper, lower, .. } => Speech::default()
            .say(&format!(
                "The {} and the {} show other arguments for ",
                upper.as_str(),
                lower.as_str()
            ))
            .quote(tool)
            .say(".")
            .end(),
        Discrepancy::Unwitnessed { by, stream } => Speech::default()
            .quote(tool)
            .say(&format!(" ran, and the {}'s log ", by.as_str()))
            .quote(stream)
            .say(" has no record of it, though that log went on.")
            .end(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::trifecta;
    use super::*;

    fn text(sentence: &Sentence) -> String {
        sentence.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }

    #[test]
    fn the_trifecta_is_told_step_by_step() {
        let (incident, calls) = trifecta();
        let told: Vec<_> =
            tell(&incident, &Scene::new(&incident, calls)).iter().map(text).collect();
        let args = "query: \"customer tokens\", \
                    options: {\"limit\":20,\"fields\":[\"id\",\"body\"]}, cursor: not logged";
        assert_eq!(
            told,
            [
                "u-eng made 4 calls within 12.05 s, from 2026-11-29 10:00:00.000 UTC, \
                 seen by the logs of the client, server."
                    .to_owned(),
                "At 2026-11-29 10:00:00.000 UTC: fetch_url (url: https://evil.example/manual, \
                 cursor: not logged) on web, as open-world, ended ok."
                    .to_owned(),
                format!(
                    "4.1 s later: search_tickets ({args}) on tickets, as sensitive-read, ended ok."
                ),
                format!(
                    "2.7 s later: search_tickets ({args}) on tickets, as sensitive-read, ended ok."
                ),
                format!(
                    "5.25 s later: post_comment ({args}) on tickets, as outbound-write, ended ok."
                ),
            ]
        );
    }

    #[test]
    fn a_call_that_cannot_be_read_shows_no_arguments() {
        let (incident, _) = trifecta();
        let told = tell(&incident, &Scene::new(&incident, Vec::new()));
        assert!(told.iter().all(|sentence| !text(sentence).contains('(')));
    }

    #[test]
    fn a_contradiction_names_both_witnesses() {
        use crate::model::Witness;
        let what =
            Discrepancy::RanThoughDenied { denied_by: Witness::Gateway, ran_by: Witness::Server };
        let told = text(&contradiction("delete_file", &what));
        assert_eq!(told, "The gateway refused delete_file, yet the server shows that it ran.");
    }
}
