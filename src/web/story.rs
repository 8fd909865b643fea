//! The incident in sentences: the same facts as the picture, to be read aloud or pasted into a
//! report.

use std::collections::BTreeSet;

use super::incident::Incident;
use super::scene::{Scene, SceneCall};
use super::shown::{Shown, brief_duration, clock_text, count, counted};
use crate::model::{Discrepancy, Ran, Text, Witness};

/// Calls told one by one; a longer chain is told by its ends.
const TOLD_MAX: usize = 12;
/// Arguments named in one sentence.
const NAMES_MAX: usize = 5;
/// Longest value in a sentence, in characters.
const VALUE_CHARS_MAX: usize = 120;

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
pub(crate) struct Speech(Vec<Piece>);

impl Speech {
    pub(crate) fn say(mut self, words: &str) -> Self {
        self.0.push(Piece { text: Shown::new(words), voice: Voice::Ours });
        self
    }

    pub(crate) fn quote(mut self, words: &str) -> Self {
        self.0.push(Piece { text: Shown::short(words, 120), voice: Voice::Log });
        self
    }

    pub(crate) fn args(mut self, args: &Shown) -> Self {
        self.0.push(Piece { text: args.clone(), voice: Voice::Args });
        self
    }

    pub(crate) fn end(self) -> Sentence {
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
            sentences
                .extend(call.discrepancies.iter().map(|what| contradiction(&call.tool, what, &[])));
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

/// An argument that witnesses show differently, with the values as they are stored: masked.
pub(crate) struct Changed {
    pub(crate) name: Text,
    pub(crate) upper: Option<Text>,
    pub(crate) lower: Option<Text>,
}

/// What the witnesses say differently, in words; `changed` are the values behind a disagreement about arguments, as far
/// as they are at hand.
pub(crate) fn contradiction(tool: &str, what: &Discrepancy, changed: &[Changed]) -> Sentence {
    let speech = Speech::default();
    match what {
        Discrepancy::RanThoughDenied { denied_by, ran_by } => speech
            .say(&format!("The {} refused ", denied_by.as_str()))
            .quote(tool)
            .say(&format!(", yet the {} shows that it ran.", ran_by.as_str()))
            .end(),
        Discrepancy::Outcome { upper, upper_code, lower, lower_code } => speech
            .say("The witnesses disagree about how ")
            .quote(tool)
            .say(&format!(" ended: the {} says ", upper.as_str()))
            .quote(upper_code)
            .say(&format!(", the {} says ", lower.as_str()))
            .quote(lower_code)
            .say(".")
            .end(),
        Discrepancy::Arguments { upper, lower, names } => {
            let (upper, lower) = (upper.as_str(), lower.as_str());
            let (said, sides) = if upper == lower {
                let said = format!(
                    "The {upper} asked about one thing and did another: after the question, "
                );
                (said, ["in the question".to_owned(), "in the end".to_owned()])
            } else {
                let said = format!("The {upper} and the {lower} show different calls: ");
                (said, [format!("for the {upper}"), format!("for the {lower}")])
            };
            let speech = named(speech.say(&said), names);
            let verb = if upper == lower { " changed" } else { " differ" };
            let verb = match (names.len(), upper == lower) {
                (1, false) => " differs",
                _ => verb,
            };
            values(speech.say(&format!("{verb} in ")).quote(tool).say("."), changed, &sides).end()
        }
        Discrepancy::Unwitnessed { by, stream } => {
            let or = match by {
                Witness::Server => "the call did not reach that server",
                Witness::Gateway | Witness::Proxy => "the call went round it",
                Witness::Client | Witness::Transcript => "the call was not made through it",
            };
            speech
                .quote(tool)
                .say(&format!(" ran, yet the {}'s log ", by.as_str()))
                .quote(stream)
                .say(&format!(
                    ", which went on meanwhile, has no record of it: either {or}, or that log leaves things out."
                ))
                .end()
        }
    }
}

/// `the argument path`, `the arguments path, mode and 3 more`.
fn named(speech: Speech, names: &[Text]) -> Speech {
    let noun = if names.len() == 1 { "the argument " } else { "the arguments " };
    let mut speech = speech.say(noun);
    for (index, name) in names.iter().take(NAMES_MAX).enumerate() {
        let before = match index {
            0 => "",
            _ if index + 1 == names.len() => " and ",
            _ => ", ",
        };
        speech = speech.say(before).quote(name);
    }
    match names.len().saturating_sub(NAMES_MAX) {
        0 => speech,
        more => speech.say(&format!(" and {} more", count(more as u64))),
    }
}

/// Both values of each argument, where at least one is known.
fn values(mut speech: Speech, changed: &[Changed], sides: &[String; 2]) -> Speech {
    let known = changed.iter().filter(|one| one.upper.is_some() || one.lower.is_some());
    for one in known.take(NAMES_MAX) {
        speech = speech.say(" ").quote(&one.name).say(" is ");
        if one.upper == one.lower {
            speech = speech
                .args(&shown_value(one.upper.as_ref()))
                .say(" on both sides once what is secret in it is masked.");
            continue;
        }
        speech = speech
            .args(&shown_value(one.upper.as_ref()))
            .say(&format!(" {}, ", sides[0]))
            .args(&shown_value(one.lower.as_ref()))
            .say(&format!(" {}.", sides[1]));
    }
    speech
}

fn shown_value(value: Option<&Text>) -> Shown {
    value.map_or_else(|| Shown::new("not shown"), |value| Shown::short(value, VALUE_CHARS_MAX))
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
    fn every_disagreement_is_told_in_words() {
        let told = |what: &Discrepancy, changed: &[(&str, Option<&str>, Option<&str>)]| {
            let text_of = |text: Option<&str>| text.map(Text::from);
            let changed: Vec<Changed> = changed
                .iter()
                .map(|(name, upper, lower)| Changed {
                    name: (*name).into(),
                    upper: text_of(*upper),
                    lower: text_of(*lower),
                })
                .collect();
            text(&contradiction("delete_file", what, &changed))
        };
        let (client, server) = (Witness::Client, Witness::Server);
        let args = |upper, lower, names: &[&str]| Discrepancy::Arguments {
            upper,
            lower,
            names: names.iter().map(|name| Text::from(*name)).collect(),
        };
        assert_eq!(
            told(
                &Discrepancy::RanThoughDenied { denied_by: Witness::Gateway, ran_by: server },
                &[]
            ),
            "The gateway refused delete_file, yet the server shows that it ran."
        );
        let outcome = Discrepancy::Outcome {
            upper: client,
            upper_code: "COMPLETED".into(),
            lower: server,
            lower_code: "error".into(),
        };
        assert_eq!(
            told(&outcome, &[]),
            "The witnesses disagree about how delete_file ended: the client says COMPLETED, the server says error."
        );
        assert_eq!(
            told(&args(client, server, &["path"]), &[("path", Some("\"a\""), Some("\"b\""))]),
            "The client and the server show different calls: the argument path differs in delete_file. \
             path is \"a\" for the client, \"b\" for the server."
        );
        let names = ["a", "b", "c", "d", "e", "f"];
        assert_eq!(
            told(&args(client, client, &names), &[("a", Some("1"), None), ("b", None, None)]),
            "The client asked about one thing and did another: after the question, the arguments a, b, c, d, e \
             and 1 more changed in delete_file. a is 1 in the question, not shown in the end."
        );
        assert_eq!(
            told(&args(client, server, &["k"]), &[("k", Some("\"***\""), Some("\"***\""))]),
            "The client and the server show different calls: the argument k differs in delete_file. \
             k is \"***\" on both sides once what is secret in it is masked."
        );
        let silent = |by| Discrepancy::Unwitnessed { by, stream: "s.jsonl".into() };
        for (by, or) in [
            (server, "the call did not reach that server"),
            (Witness::Proxy, "the call went round it"),
            (client, "the call was not made through it"),
        ] {
            assert_eq!(
                told(&silent(by), &[]),
                format!(
                    "delete_file ran, yet the {}'s log s.jsonl, which went on meanwhile, has no record of it: \
                     either {or}, or that log leaves things out.",
                    by.as_str()
                )
            );
        }
    }
}
