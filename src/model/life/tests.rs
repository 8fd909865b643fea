//! Lives of every shape, told in one line each.

use std::fmt::Write as _;

use super::*;
use crate::model::{Args, CallId, Certainty, Dialect, EventKind, JoinedBy, Ran, RecordId};

const START: Micros = Micros(1_795_946_400_000_000);

/// `client: asked 0, approved 1200 / server: ok 1900 // client: …`: sightings part at `/`, attempts at `//`; times in
/// milliseconds, `-` for none.
fn call(text: &str, discrepancies: &[Discrepancy]) -> Call {
    let sightings: Vec<Sighting> = (0..)
        .zip(text.split("//"))
        .flat_map(|(attempt, made)| made.split('/').map(move |saw| sighting(attempt, saw.trim())))
        .collect();
    let last = sightings.last().unwrap();
    Call {
        kind: EventKind::Call,
        id: CallId([1; 16]),
        at: Some(START),
        stream: Text::clone(&sightings[0].stream),
        position: sightings[0].steps[0].record,
        ended: None,
        duration_ms: None,
        tool: "delete_file".into(),
        server: None,
        principal: None,
        client: None,
        actor: "u-a".into(),
        tenant: None,
        session: "u-a".into(),
        class: last.class,
        code: Text::clone(&last.code),
        decision: None,
        ran: Ran::Maybe,
        args: Args::default(),
        flags: Vec::new(),
        also: Vec::new(),
        request_id: None,
        group_id: None,
        trace_id: None,
        ask_to_answer_ms: None,
        sightings,
        discrepancies: discrepancies.to_vec(),
    }
}

fn sighting(attempt: u32, text: &str) -> Sighting {
    let (witness, words) = text.split_once(':').unwrap();
    let witness = Witness::from_word(witness).unwrap();
    let steps: Vec<Step> = (0..)
        .zip(words.split(','))
        .map(|(number, word)| {
            let (class, at) = word.trim().split_once(' ').unwrap();
            Step {
                record: RecordId { generation: witness as u64, offset: number, index: attempt },
                length: 1,
                at: at.parse().ok().map(|millis: i64| START.plus(millis * 1000)),
                class: OutcomeClass::from_word(class).unwrap(),
                code: class.into(),
            }
        })
        .collect();
    let end = steps.iter().rfind(|step| step.class.is_terminal()).or(steps.last()).unwrap();
    Sighting {
        witness,
        dialect: Dialect::TwoSided,
        stream: witness.as_str().into(),
        class: end.class,
        code: Text::clone(&end.code),
        joined_by: JoinedBy::Alone,
        certainty: Certainty::Exact,
        attempt,
        candidates: Vec::new(),
        steps,
    }
}

/// `Asked client | Decided client approved +1200 window 1200 | …`: `~` before a wait that spans two clocks, `own`
/// before that of the witness's own; `!` before what never came, `?` before what no log here tells.
fn told(call: &Call) -> String {
    let attempts = life(call);
    let text =
        |attempt: &Attempt<'_>| attempt.steps.iter().map(step_text).collect::<Vec<_>>().join(" | ");
    attempts.iter().map(text).collect::<Vec<_>>().join(" // ")
}

fn step_text(step: &LifeStep<'_>) -> String {
    let phase = step.phase;
    let (sighting, word) = match step.word {
        Word::Gap(gap) => {
            return format!("{}{phase:?} {gap:?}", if gap.never_came() { '!' } else { '?' });
        }
        Word::Told { sighting, step } => (sighting, step.class.as_str()),
    };
    let mut text = format!("{phase:?} {} {word}", sighting.witness.as_str());
    if let Some(wait) = &step.wait {
        let clock = if *wait.since == sighting.stream { "" } else { "~" };
        _ = write!(text, " {clock}{:+}", wait.micros / 1000);
    }
    if let Some(own) = step.own_wait {
        _ = write!(text, " own {:+}", own / 1000);
    }
    if let Some(window) = step.window {
        _ = write!(text, " window {}", window / 1000);
    }
    text
}

/// A shape and its life.
const LIVES: &[(&str, &str)] = &[
    // A client and its server.
    (
        "client: asked 0, approved 1200, ok 2000 / server: ok 1900",
        "Asked client asked | Decided client approved +1200 window 1200 \
             | Ran server ok ~+700 | Completed client ok ~+100 own +800",
    ),
    (
        "client: asked 0, approved 1200, input 1500, ok 2000 / server: ok 1900",
        "Asked client asked | Decided client approved +1200 window 1200 \
             | Input client input +300 | Ran server ok ~+400 | Completed client ok ~+100 own +500",
    ),
    // The server's clock is behind: causes keep their order.
    (
        "client: approved 0, ok 2000 / server: ok -1900",
        "Decided client approved | Ran server ok ~-1900 | Completed client ok ~+3900 own +2000",
    ),
    // Asked, and then nothing.
    ("client: asked 0", "Asked client asked | !Decided Unanswered { went_on: false }"),
    // Nobody answered, and it ran.
    (
        "client: asked 0 / server: ok 900",
        "Asked client asked | !Decided Unanswered { went_on: true } | Ran server ok ~+900 \
             | !Completed NoEnd { by: Client, ran: true }",
    ),
    (
        "client: asked 0, ok 900",
        "Asked client asked | !Decided Unanswered { went_on: true } \
             | ?Ran NoServerLog | Completed client ok +900",
    ),
    // Refused: nothing more is to come.
    (
        "client: asked 0, declined 4000",
        "Asked client asked | Decided client declined +4000 window 4000",
    ),
    ("client: denied 0", "Decided client denied"),
    ("client: limited 0", "Decided client limited"),
    // A refused answer to the server's question is no refusal of the call.
    (
        "client: asked 0, approved 100, declined 300",
        "Asked client asked | Decided client approved +100 window 100 \
             | Input client declined +200",
    ),
    // Refused, and it ran.
    ("client: denied 0 / server: ok 50", "Decided client denied | Ran server ok ~+50"),
    // Approved, and then nothing.
    (
        "client: approved 0",
        "Decided client approved | !Ran NothingShowsRun \
             | !Completed NoEnd { by: Client, ran: false }",
    ),
    // It ran, and the client never saw it; or it saw it fail.
    (
        "client: approved 0 / server: ok 90",
        "Decided client approved | Ran server ok ~+90 \
             | !Completed NoEnd { by: Client, ran: true }",
    ),
    (
        "client: approved 0, error 5000",
        "Decided client approved | ?Ran NoServerLog | Completed client error +5000",
    ),
    // The server refused what the client let pass.
    (
        "client: approved 0, denied 90 / server: denied 60",
        "Decided client approved | Ran server denied ~+60 | Completed client denied ~+30 own +90",
    ),
    // A server of its own.
    ("server: ok 0", "?Asked NoClientLog | Ran server ok"),
    ("server: denied 0", "?Asked NoClientLog | Ran server denied"),
    (
        "server: approved 0",
        "?Asked NoClientLog | Decided server approved \
             | !Ran NoEnd { by: Server, ran: false }",
    ),
    // A proxy: sent, and a reply or none.
    (
        "proxy: approved 0, ok 18",
        "?Asked NoClientLog | Sent proxy approved | ?Ran NoServerLog | Result proxy ok +18",
    ),
    (
        "proxy: approved 0",
        "?Asked NoClientLog | Sent proxy approved | !Ran NothingShowsRun \
             | !Result NoReply { by: Proxy }",
    ),
    ("proxy: denied 0", "?Asked NoClientLog | Decided proxy denied"),
    (
        "proxy: approved 0, denied 5",
        "?Asked NoClientLog | Sent proxy approved | Result proxy denied +5",
    ),
    (
        "proxy: approved 0 / server: ok 9",
        "?Asked NoClientLog | Sent proxy approved | Ran server ok ~+9 \
             | !Result NoReply { by: Proxy }",
    ),
    // A gate: its one word is the reply, or its refusal.
    ("gateway: ok 0", "?Asked NoClientLog | ?Ran NoServerLog | Result gateway ok"),
    ("gateway: error 0", "?Asked NoClientLog | ?Ran NoServerLog | Result gateway error"),
    ("gateway: denied 0", "?Asked NoClientLog | Decided gateway denied"),
    (
        "gateway: asked 0, approved 700, ok 800",
        "Asked gateway asked | Decided gateway approved +700 window 700 \
             | ?Ran NoServerLog | Result gateway ok +100",
    ),
    // All of them; an answer to the server goes where its time says.
    (
        "client: asked 0, approved 1000, input 1030, ok 1100 / gateway: ok 1080 \
             / proxy: approved 1010, ok 1070 / server: ok 1050",
        "Asked client asked | Decided client approved +1000 window 1000 \
             | Sent proxy approved ~+10 | Input client input ~+20 own +30 \
             | Ran server ok ~+20 | Result proxy ok ~+20 own +60 | Result gateway ok ~+10 \
             | Completed client ok ~+20 own +70",
    ),
    (
        "client: approved 0, input 5, ok 100 / proxy: approved 10, ok 70",
        "Decided client approved | Input client input +5 | Sent proxy approved ~+5 \
             | ?Ran NoServerLog | Result proxy ok +60 | Completed client ok ~+30 own +95",
    ),
    // Without times nothing is measured.
    (
        "client: asked -, approved -, ok 70 / server: ok 60",
        "Asked client asked | Decided client approved | Ran server ok \
             | Completed client ok ~+10",
    ),
    // Made again after it failed: each attempt has a life of its own.
    (
        "client: asked 0, approved 500, error 5500 \
             // client: approved 6000, ok 6100 / server: ok 6050",
        "Asked client asked | Decided client approved +500 window 500 \
             | ?Ran NoServerLog | Completed client error +5000 \
             // Decided client approved | Ran server ok ~+50 | Completed client ok ~+50 own +100",
    ),
];

#[test]
fn every_shape_of_a_life_is_told_with_what_never_came() {
    for (shape, life) in LIVES {
        assert_eq!(told(&call(shape, &[])), *life, "{shape}");
    }
}

#[test]
fn a_log_that_went_on_without_the_call_is_named() {
    let silent = |by: Witness| [Discrepancy::Unwitnessed { by, stream: by.as_str().into() }];
    for (shape, by, life) in [
        (
            "client: approved 0, ok 90",
            Witness::Server,
            "Decided client approved | !Ran Unwitnessed { by: Server, stream: \"server\" } \
             | Completed client ok +90",
        ),
        (
            "server: ok 0",
            Witness::Client,
            "!Asked Unwitnessed { by: Client, stream: \"client\" } | Ran server ok",
        ),
        (
            "client: approved 0, ok 90 / server: ok 80",
            Witness::Proxy,
            "Decided client approved | !Sent Unwitnessed { by: Proxy, stream: \"proxy\" } \
             | Ran server ok ~+80 | Completed client ok ~+10 own +90",
        ),
        // Only of the attempt that ran.
        (
            "client: approved 0, error 10 // client: approved 20, ok 30",
            Witness::Server,
            "Decided client approved | ?Ran NoServerLog | Completed client error +10 \
             // Decided client approved | !Ran Unwitnessed { by: Server, stream: \"server\" } \
             | Completed client ok +10",
        ),
    ] {
        assert_eq!(told(&call(shape, &silent(by))), life, "{shape}");
    }
}

#[test]
fn attempts_are_numbered_and_end_in_the_word_of_the_nearest() {
    let call = call("client: approved 0, error 9 // client: approved 20 / server: ok 30", &[]);
    let ends: Vec<_> =
        life(&call).iter().map(|attempt| (attempt.number, attempt.code.to_string())).collect();
    assert_eq!(ends, [(1, "error".to_owned()), (2, "ok".to_owned())]);
}
