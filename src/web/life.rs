//! The life of a call in words: each step with its time and waits, and what never came.

use super::shown::{Shown, WhenExact, brief_duration, count};
use super::story::{Sentence, Speech};
use super::timeline::class_word;
use crate::model::{
    Attempt, Call, ClockView, Gap, LifeStep, Micros, OutcomeClass, Phase, Sighting, Wait, Witness,
    Word, life,
};

/// Attempts told; of more, the first and the last.
const ATTEMPTS_MAX: usize = 12;
/// Steps told of one attempt; of more, the first and the last.
const STEPS_MAX: usize = 60;
/// Clocks that are less apart are not worth a note at each step.
const NOTED_MICROS_MIN: i64 = 100_000;

/// The life of one call.
pub(super) struct LifeBlock {
    /// Where it was made more than once: how each attempt ended.
    pub(super) summary: Option<Sentence>,
    pub(super) attempts: Vec<AttemptBlock>,
    pub(super) attempts_left_out: usize,
    /// What is known of the clocks of its logs.
    pub(super) clocks: Vec<Sentence>,
    pub(super) has_several_clocks: bool,
}

pub(super) struct AttemptBlock {
    /// None where there is one attempt alone.
    pub(super) number: Option<u32>,
    pub(super) class: &'static str,
    pub(super) code: Shown,
    pub(super) steps: Vec<StepBlock>,
    pub(super) steps_left_out: usize,
}

pub(super) struct StepBlock {
    /// `told`, `missing` or `untold`: how the step is drawn.
    pub(super) kind: &'static str,
    /// The class of what was told; empty for what was not.
    pub(super) class: &'static str,
    pub(super) title: &'static str,
    pub(super) words: Sentence,
    pub(super) told: Option<ToldBlock>,
    /// Since the step before.
    pub(super) wait: Option<Shown>,
    pub(super) own_wait: Option<Shown>,
    /// Between question and answer.
    pub(super) window: Option<Shown>,
    /// Where clocks make a step seem to come before its cause, or are known to be apart.
    pub(super) note: Option<Sentence>,
}

/// Who told a step, when and in which word.
pub(super) struct ToldBlock {
    pub(super) witness: &'static str,
    pub(super) stream: Shown,
    pub(super) code: Shown,
    pub(super) at: WhenExact,
    /// Since the first step that has a time.
    pub(super) offset: Shown,
}

impl LifeBlock {
    pub(super) fn new(call: &Call, clocks: &[ClockView]) -> Self {
        let mut attempts = life(call);
        let start = attempts.iter().flat_map(|attempt| &attempt.steps).find_map(LifeStep::at);
        let made = call.attempts();
        let attempts_left_out = leave_out_middle(&mut attempts, ATTEMPTS_MAX);
        let mut streams: Vec<_> = call.sightings.iter().map(|sighting| &sighting.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        Self {
            summary: (made > 1).then(|| summary(made, &attempts, attempts_left_out)),
            attempts: attempts.iter().map(|attempt| block(attempt, made, start, clocks)).collect(),
            attempts_left_out,
            clocks: clocks.iter().map(clock_words).collect(),
            has_several_clocks: streams.len() > 1,
        }
    }
}

/// Says how many went.
fn leave_out_middle<T>(all: &mut Vec<T>, len_max: usize) -> usize {
    let left_out = all.len().saturating_sub(len_max);
    if left_out > 0 {
        all.drain(len_max / 2..len_max / 2 + left_out);
    }
    left_out
}

fn summary(made: u32, attempts: &[Attempt<'_>], left_out: usize) -> Sentence {
    let mut speech =
        Speech::default().say(&format!("The call was made {} times: ", count(made.into())));
    for (index, attempt) in attempts.iter().enumerate() {
        let before = match index {
            0 => "",
            _ if left_out > 0 && index == ATTEMPTS_MAX / 2 => "; …; ",
            _ => "; ",
        };
        speech = speech.say(&format!("{before}attempt {}: ", attempt.number)).quote(attempt.code);
    }
    speech.say(".").end()
}

fn block(
    attempt: &Attempt<'_>,
    made: u32,
    start: Option<Micros>,
    clocks: &[ClockView],
) -> AttemptBlock {
    let mut steps: Vec<_> =
        attempt.steps.iter().map(|step| step_block(step, made, start, clocks)).collect();
    let steps_left_out = leave_out_middle(&mut steps, STEPS_MAX);
    AttemptBlock {
        number: (made > 1).then_some(attempt.number),
        class: class_word(attempt.class),
        code: Shown::short(attempt.code, 80),
        steps,
        steps_left_out,
    }
}

fn step_block(
    step: &LifeStep<'_>,
    made: u32,
    start: Option<Micros>,
    clocks: &[ClockView],
) -> StepBlock {
    let (sighting, word) = match step.word {
        Word::Gap(gap) => return gap_block(gap, if made > 1 { "attempt" } else { "call" }),
        Word::Told { sighting, step } => (sighting, step),
    };
    let (title, words) = told_words(step.phase, sighting, word.class);
    let offset = start.zip(word.at).map(|(start, at)| {
        let offset = at.since(start);
        format!("{}{}", if offset < 0 { "" } else { "+" }, brief_duration(offset))
    });
    let measured = step.wait.as_ref().map(|wait| Measured::new(wait, sighting, clocks));
    StepBlock {
        kind: "told",
        // An answer is told from its question by a mark that is full.
        class: match word.class {
            OutcomeClass::Approved => "asked passed",
            class => class_word(class),
        },
        title,
        words: Speech::default().say(&words).end(),
        told: Some(ToldBlock {
            witness: sighting.witness.as_str(),
            stream: Shown::short(&sighting.stream, 200),
            code: Shown::short(&word.code, 80),
            at: WhenExact(word.at),
            offset: Shown::new(&offset.unwrap_or_default()),
        }),
        wait: measured.as_ref().and_then(Measured::words),
        own_wait: step
            .own_wait
            .map(|own| Shown::new(&format!("{} after its own word before", brief_duration(own)))),
        window: step.window.map(|window| Shown::new(&brief_duration(window))),
        note: measured.and_then(|measured| measured.note(sighting)),
    }
}

/// A wait, with what is known of the clocks it was taken by.
struct Measured {
    /// As the logs have it.
    micros: i64,
    is_one_clock: bool,
    /// How far this step's clock runs ahead of the other's, in microseconds, where joins of that day show it.
    ahead: Option<i64>,
}

impl Measured {
    fn new(wait: &Wait<'_>, sighting: &Sighting, clocks: &[ClockView]) -> Self {
        let (from, to) = (&**wait.since, &*sighting.stream);
        Self {
            micros: wait.micros,
            is_one_clock: from == to,
            ahead: ahead(from, to, clocks).filter(|_| from != to),
        }
    }

    /// What the wait was when the clocks' difference is taken off.
    const fn true_micros(&self) -> i64 {
        match self.ahead {
            Some(ahead) => self.micros.saturating_sub(ahead),
            None => self.micros,
        }
    }

    fn words(&self) -> Option<Shown> {
        let about = if self.is_one_clock { "" } else { "about " };
        let micros = self.true_micros();
        (micros >= 0).then(|| Shown::new(&format!("{about}{} later", brief_duration(micros))))
    }

    fn note(&self, sighting: &Sighting) -> Option<Sentence> {
        let speech = Speech::default()
            .say(&format!("By the clock of the {}'s log ", sighting.witness.as_str()))
            .quote(&sighting.stream);
        let apart = |micros: i64| brief_duration(micros.saturating_abs());
        if self.micros >= 0 {
            let ahead = self.ahead.filter(|ahead| ahead.saturating_abs() >= NOTED_MICROS_MIN)?;
            let speech = speech.say(&format!(
                " it was {} later; that day this clock runs {}, as joins show.",
                apart(self.micros),
                ahead_words(ahead)
            ));
            return Some(speech.end());
        }
        let before = format!(" this was {} before the step above", apart(self.micros));
        let measured =
            |ahead| format!("; that day this clock runs {}, as joins show", ahead_words(ahead));
        let why = match self.ahead {
            Some(ahead) if self.true_micros() >= 0 => {
                format!("{}, which explains it.", measured(ahead))
            }
            Some(ahead) => {
                format!("{}, which does not explain it: it may have come first.", measured(ahead))
            }
            None if self.is_one_clock => ".".to_owned(),
            None => ": the two clocks are apart by at least as much, or it came first.".to_owned(),
        };
        Some(speech.say(&before).say(&why).end())
    }
}

/// How far the clock of the log `to` runs ahead of that of `from`, in microseconds: as joins of the two show, else as
/// their joins with a third log do.
fn ahead(from: &str, to: &str, clocks: &[ClockView]) -> Option<i64> {
    let of = |upper: &str, lower: &str| {
        let view =
            clocks.iter().find(|view| view.upper_stream == upper && view.lower_stream == lower);
        view.map(|view| view.offset_ms.saturating_mul(1000))
    };
    let between =
        |from: &str, to: &str| of(from, to).or_else(|| of(to, from).map(i64::saturating_neg));
    between(from, to).or_else(|| {
        let mut thirds = clocks.iter().flat_map(|view| [&view.upper_stream, &view.lower_stream]);
        thirds.find_map(|third| Some(between(from, third)?.saturating_add(between(third, to)?)))
    })
}

fn ahead_words(micros: i64) -> String {
    let apart = brief_duration(micros.saturating_abs());
    match micros {
        0 => "with the other".to_owned(),
        1.. => format!("{apart} ahead of the other"),
        _ => format!("{apart} behind the other"),
    }
}

fn clock_words(view: &ClockView) -> Sentence {
    let spread =
        brief_duration(i64::try_from(view.spread_ms).unwrap_or(i64::MAX).saturating_mul(1000));
    Speech::default()
        .say("The clock of ")
        .quote(&view.lower_stream)
        .say(" ran ")
        .say(&ahead_words(view.offset_ms.saturating_mul(1000)).replace("the other", "that of"))
        .say(" ")
        .quote(&view.upper_stream)
        .say(&format!(" that day (±{spread}, from {} joins).", count(view.samples)))
        .end()
}

/// The name of a step that a witness told, and what it means.
fn told_words(phase: Phase, sighting: &Sighting, class: OutcomeClass) -> (&'static str, String) {
    let who = sighting.witness.as_str();
    let has_asked = sighting.steps.iter().any(|step| step.class == OutcomeClass::Asked);
    match (phase, class) {
        (Phase::Asked, _) => ("Asked", format!("The {who} asked a person for approval.")),
        (Phase::Decided, OutcomeClass::Approved) if has_asked => {
            ("Approved", "A person approved it.".to_owned())
        }
        (Phase::Decided, OutcomeClass::Approved) => {
            ("Allowed", format!("The {who} let it pass without asking anybody."))
        }
        (Phase::Decided, OutcomeClass::Declined) => ("Declined", "A person said no.".to_owned()),
        (Phase::Decided, OutcomeClass::Limited) => {
            ("Stopped", format!("A limit of the {who} stopped it."))
        }
        (Phase::Decided, _) => ("Denied", format!("The {who} refused it.")),
        (Phase::Input, OutcomeClass::Declined) => {
            ("Input", "A person refused what the server asked during the call.".to_owned())
        }
        (Phase::Input, _) => {
            ("Input", "A person answered what the server asked during the call.".to_owned())
        }
        (Phase::Sent, _) => ("Sent", format!("The {who} let it pass to the server.")),
        (Phase::Ran, _) => ran_words(class),
        (Phase::Result, _) => result_words(sighting.witness, class),
        (Phase::Completed, _) => completed_words(who, class),
    }
}

fn ran_words(class: OutcomeClass) -> (&'static str, String) {
    let (title, words) = match class {
        OutcomeClass::Ok => ("Ran", "The server ran it, and it succeeded."),
        OutcomeClass::Limited => ("Stopped", "A limit of the server stopped it; it did not run."),
        OutcomeClass::Denied | OutcomeClass::Declined => {
            ("Refused", "The server refused it; it did not run.")
        }
        OutcomeClass::Error => ("Ran", "The server worked on it, and it failed."),
        _ => ("Ran", "The server ended it in a word that says neither success nor failure."),
    };
    (title, words.to_owned())
}

fn result_words(witness: Witness, class: OutcomeClass) -> (&'static str, String) {
    let who = witness.as_str();
    match class {
        OutcomeClass::Ok => ("Result", format!("The {who} saw a result come back.")),
        OutcomeClass::Error if witness == Witness::Proxy => {
            ("Result", format!("The {who} saw an error come back."))
        }
        OutcomeClass::Error => ("Failed", format!("For the {who} it ended in an error.")),
        _ if class.is_refusal() => ("Refused", format!("The {who} saw it refused.")),
        _ => (
            "Reply",
            format!("The {who} saw a reply that says neither success nor failure of this call."),
        ),
    }
}

fn completed_words(who: &str, class: OutcomeClass) -> (&'static str, String) {
    match class {
        OutcomeClass::Ok => ("Completed", format!("The {who} got the result.")),
        OutcomeClass::Error => ("Failed", format!("For the {who} it ended in an error.")),
        _ if class.is_refusal() => ("Refused", format!("For the {who} it ended as refused.")),
        _ => (
            "Ended",
            format!("For the {who} it ended in a word that says neither success nor failure."),
        ),
    }
}

/// `this` is what the witnesses tell of: the call, or one attempt.
fn gap_block(gap: Gap<'_>, this: &str) -> StepBlock {
    let speech = Speech::default();
    let (title, speech) = match gap {
        Gap::Unanswered { went_on: false } => {
            ("Answer", speech.say("Nobody has answered the question."))
        }
        Gap::Unanswered { went_on: true } => {
            ("Answer", speech.say("No log has an answer to the question, yet the call went on."))
        }
        Gap::NothingShowsRun => {
            ("Run", speech.say("It was let pass, and nothing shows that it ran."))
        }
        Gap::NoReply { by } => {
            ("Reply", speech.say(&format!("The {} let it pass and saw no reply.", by.as_str())))
        }
        Gap::NoEnd { by: Witness::Server, .. } => (
            "Run",
            speech.say(&format!("The server's log tells of this {this} and not of its end.")),
        ),
        Gap::NoEnd { by, ran: true } => {
            ("End", speech.say(&format!("It ran, and the {} never saw it end.", by.as_str())))
        }
        Gap::NoEnd { by, ran: false } => {
            ("End", speech.say(&format!("The {}'s log never tells of an end.", by.as_str())))
        }
        Gap::Unwitnessed { by, stream } => (
            match by {
                Witness::Server => "Run",
                Witness::Gateway | Witness::Proxy => "Passage",
                Witness::Client | Witness::Transcript => "Question or approval",
            },
            speech
                .say(&format!("The {}'s log ", by.as_str()))
                .quote(stream)
                .say(" went on and has no record of it."),
        ),
        Gap::NoClientLog => (
            "Question or approval",
            speech.say(&format!(
                "No log of a client tells of this {this}: whether anybody was asked is not known."
            )),
        ),
        Gap::NoServerLog => {
            ("Run", speech.say(&format!("No log of a server tells of this {this}.")))
        }
    };
    StepBlock {
        kind: if gap.never_came() { "missing" } else { "untold" },
        class: "",
        title,
        words: speech.end(),
        told: None,
        wait: None,
        own_wait: None,
        window: None,
        note: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::call;
    use super::*;

    fn text(sentence: &Sentence) -> String {
        sentence.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }

    #[test]
    fn an_endless_life_is_told_by_its_ends() {
        let mut call = call(1, "x", 0);
        let mut sighting = call.sightings.remove(0);
        let step = sighting.steps[0].clone();
        sighting.steps = (0..200)
            .map(|second| {
                let mut step = step.clone();
                (step.class, step.at) = (OutcomeClass::Input, step.at.map(|at| at.plus(second)));
                step
            })
            .collect();
        call.sightings = (0..40)
            .map(|attempt| {
                let mut sighting = sighting.clone();
                sighting.attempt = attempt;
                sighting
            })
            .collect();
        let life = LifeBlock::new(&call, &[]);
        let numbers: Vec<_> = life.attempts.iter().filter_map(|attempt| attempt.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 35, 36, 37, 38, 39, 40]);
        assert_eq!(life.attempts_left_out, 28);
        // Besides what was told, that nothing shows a run and that the client saw no end.
        let steps = life.attempts[0].steps.len();
        assert_eq!((steps, life.attempts[0].steps_left_out), (60, 142));
        let summary = life.summary.as_ref().map(text).unwrap_or_default();
        assert!(summary.starts_with("The call was made 40 times: attempt 1: "));
        assert_eq!(summary.matches("; …; ").count(), 1);
    }

    #[test]
    fn clocks_are_taken_off_and_told_where_they_matter() {
        let stream = |witness: &str| format!("{witness}.jsonl");
        let view = |offset_ms| ClockView {
            day: Micros(0),
            upper_stream: stream("client"),
            lower_stream: stream("server"),
            samples: 10,
            offset_ms,
            spread_ms: 1,
        };
        // The client has it at 0, the server at 90 ms.
        for (clocks, wait, note) in [
            (vec![], Some("about 90 ms later"), ""),
            (vec![view(0)], Some("about 90 ms later"), ""),
            (vec![view(30)], Some("about 60 ms later"), ""),
            (
                vec![view(-2000)],
                Some("about 2.09 s later"),
                " it was 90 ms later; that day this clock runs 2 s behind the other, as joins show.",
            ),
            (
                vec![view(2000)],
                None,
                " it was 90 ms later; that day this clock runs 2 s ahead of the other, as joins show.",
            ),
        ] {
            let life = LifeBlock::new(&call(1, "x", 0), &clocks);
            let ran = &life.attempts[0].steps[1];
            assert_eq!(ran.wait.as_ref().map(Shown::as_str), wait, "{clocks:?}");
            let told = ran.note.as_ref().map(text).unwrap_or_default();
            assert!(told.ends_with(note) && told.is_empty() == note.is_empty(), "{told}");
        }
        // Without anything known of the clocks, a step before its cause says so.
        let mut early = call(1, "x", 0);
        let step = &mut early.sightings[1].steps[0];
        step.at = step.at.map(|at| at.minus(1_000_000));
        let life = LifeBlock::new(&early, &[]);
        let ran = &life.attempts[0].steps[1];
        assert_eq!((ran.wait.is_none(), ran.title), (true, "Ran"));
        assert_eq!(
            ran.note.as_ref().map(text).unwrap_or_default(),
            "By the clock of the server's log server.jsonl this was 910 ms before the step above: \
             the two clocks are apart by at least as much, or it came first."
        );
    }
    #[test]
    fn two_clocks_that_a_third_knows_are_told_apart() {
        let view = |lower: &str, offset_ms| ClockView {
            day: Micros(0),
            upper_stream: "client.jsonl".to_owned(),
            lower_stream: lower.to_owned(),
            samples: 10,
            offset_ms,
            spread_ms: 1,
        };
        let clocks = [view("proxy.jsonl", 775), view("server.jsonl", 175), view("other.jsonl", 5)];
        assert_eq!(ahead("proxy.jsonl", "server.jsonl", &clocks), Some(-600_000));
        assert_eq!(ahead("server.jsonl", "proxy.jsonl", &clocks), Some(600_000));
        assert_eq!(ahead("server.jsonl", "client.jsonl", &clocks), Some(-175_000));
        assert_eq!(ahead("server.jsonl", "gate.jsonl", &clocks), None);
    }
}
