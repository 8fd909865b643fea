//! A stack: several witnesses that each log the same calls in a dialect, at a level of detail and by
//! a clock of their own. Nothing but an argument, a trace or a time ties one's records to another's.

use super::act::{Act, Fate};
use super::actor::{Actor, Part};
use super::dice::Dice;
use super::journey::Journey;
use super::line::Draft;
use super::paper::Paper;
use super::scenario::{Noise, Scenario};
use crate::model::{Micros, Text};

/// Calls of a run of identical ones.
const RUN_CALLS: (i64, i64) = (3, 7);
/// How many those are in the mean.
const RUN_CALLS_MEAN: u64 = 5;
/// Of a thousand turns, those whose calls are made at once, and those that are traced.
const PARALLEL_PER_MILLE: u64 = 300;
const TRACED_PER_MILLE: u64 = 250;
/// Of a thousand calls made again, those that fail again.
const FAILS_AGAIN_PER_MILLE: u64 = 300;
const TRIES_MAX: u32 = 3;

/// Logs that several stacks write to, by their place in the list of files.
#[derive(Default)]
pub(super) struct Halls {
    docs: Option<usize>,
    gate: Option<usize>,
    cases: Option<usize>,
}

/// Who stands between the client and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Middle {
    Proxy(usize),
    Gate(usize),
}

/// The witnesses of a stack, and what it is at.
#[expect(
    clippy::struct_excessive_bools,
    reason = "two say how it logs, two what it is at; none rules out another"
)]
pub(super) struct Stack {
    /// Index of the log of the client, where there is one.
    pub(super) client: Option<usize>,
    pub(super) middle: Option<Middle>,
    /// Index of the server's log.
    pub(super) server: usize,
    /// What the client puts before a tool's name.
    pub(super) namespace: &'static str,
    /// The client's log says who sits there.
    pub(super) names_user: bool,
    /// The client logs long strings as their length, and the server in full; else the other way
    /// round.
    pub(super) client_summarises: bool,
    /// The trace of the turn under way, where it has one.
    pub(super) trace: Option<Text>,
    /// The arguments of the last call.
    pub(super) paper: Paper,
    /// A call that is made over and over.
    run: Option<Run>,
    /// The call under way is one of the run's, after its first.
    is_repeating: bool,
    /// The turn's calls do not wait for each other.
    at_once: bool,
    /// The turn that `trace` and `at_once` belong to.
    turn: u64,
    busy_until: Micros,
}

/// A call that is made over and over.
struct Run {
    act: Act,
    /// How often it still will be.
    left: i64,
    /// The calls do not wait for each other.
    at_once: bool,
}

/// The combinations of witnesses, taken in turn.
pub(super) const fn part(place: u64) -> Part {
    match place % 6 {
        0..=2 => Part::Docs,
        _ => Part::Cases,
    }
}

/// Gives the stack its logs.
pub(super) fn settle(
    actor: &mut Actor,
    name: &str,
    place: u64,
    halls: &mut Halls,
    files: &mut Vec<Text>,
    scenario: &Scenario,
) {
    let mut file = |path: String| {
        files.push(path.into());
        files.len() - 1
    };
    let kind = place % 6;
    let client =
        (kind != 2 && kind != 5).then(|| file(format!("stack-{place}/client/audit.jsonl")));
    let (middle, server) = match kind {
        1 | 2 => {
            let proxy = file(format!("stack-{place}/proxy/tool-calls.jsonl"));
            (Some(Middle::Proxy(proxy)), file(format!("stack-{place}/server/audit.jsonl")))
        }
        0 => (None, *halls.docs.get_or_insert_with(|| file("docs/server/audit.jsonl".into()))),
        _ => {
            let mut gate =
                || *halls.gate.get_or_insert_with(|| file("cases/gate/audit.jsonl".into()));
            let gate = (kind != 3).then(|| Middle::Gate(gate()));
            let cases = halls.cases.get_or_insert_with(|| file("cases/server/audit.jsonl".into()));
            (gate, *cases)
        }
    };
    let names_user = actor.dice.chance(600);
    if actor.part == Part::Cases || (names_user && client.is_some()) {
        actor.principal = Some(name.into());
    }
    if actor.part == Part::Cases {
        let home = actor.dice.index(scenario.tenants.len());
        actor.tenant = scenario.tenants.get(home).map(|tenant| Text::from(tenant.as_str()));
    }
    if client.is_none() {
        actor.session = None;
    }
    actor.is_human = actor.dice.chance(600);
    actor.file = client.unwrap_or(server);
    let namespace = match (actor.part, actor.dice.below(3)) {
        (Part::Docs, 0) => "docs.",
        (Part::Docs, 1) => "mcp__docs__",
        (Part::Cases, 0) => "cases.",
        (Part::Cases, 1) => "mcp__cases__",
        _ => "",
    };
    actor.stack = Some(Box::new(Stack {
        client,
        middle,
        server,
        namespace,
        names_user,
        client_summarises: actor.dice.chance(500),
        trace: None,
        paper: Paper::default(),
        run: None,
        is_repeating: false,
        at_once: false,
        turn: 0,
        busy_until: Micros(i64::MIN),
    }));
}

/// Writes the call, with the tries before it.
pub(super) fn write(
    actor: &mut Actor,
    act: &Act,
    call: u64,
    at: Micros,
    out: &mut Vec<Draft>,
) -> Micros {
    let Some(mut stack) = actor.stack.take() else { return at };
    if stack.turn != actor.burst {
        stack.begin_turn(actor);
    }
    if !stack.is_repeating {
        stack.paper = Paper::new(actor, act.tool, stack.client_summarises);
    }
    let mut journey = Journey::new(actor, &stack, act.tool, call, at, out);
    let (failing, failures) = act.tries_before.unwrap_or((act.fate, 0));
    for _ in 0..failures {
        journey.make(failing);
        journey.try_again();
    }
    journey.make(act.fate);
    let ended = journey.now();
    stack.busy_until = stack.busy_until.max(ended);
    actor.stack = Some(stack);
    ended
}

/// When a stack's next call begins, after one from `at` to `ended`; `pause` is how long the actor
/// waits before the next one that is not the same again, none where there is none.
pub(super) fn next(
    actor: &mut Actor,
    (at, ended): (Micros, Micros),
    pause: impl FnOnce(&mut Actor) -> Option<i64>,
) -> Option<Micros> {
    let run = actor.stack.as_ref().and_then(|stack| stack.run.as_ref());
    if let Some(at_once) = run.filter(|run| run.left > 0).map(|run| run.at_once) {
        return Some(if at_once {
            at.plus(actor.dice.between(2_000, 90_000))
        } else {
            ended.plus(actor.dice.skewed(50_000, 600_000))
        });
    }
    let pause = pause(actor)?;
    let Actor { stack: Some(stack), dice, burst, .. } = actor else { return None };
    if stack.turn == *burst && stack.at_once {
        return Some(at.plus(dice.between(1_000, 60_000)));
    }
    Some(stack.busy_until.plus(pause))
}

/// When the last of a stack's calls so far is over.
pub(super) fn busy_until(actor: &Actor, ended: Micros) -> Micros {
    actor.stack.as_ref().map_or(ended, |stack| stack.busy_until)
}

impl Stack {
    /// The call that is to be made once more, if one is.
    pub(super) fn again(&mut self) -> Option<Act> {
        let run = self.run.as_mut().filter(|run| run.left > 0)?;
        run.left -= 1;
        self.is_repeating = true;
        Some(run.act.clone())
    }

    /// Makes what the actor has in mind fit its witnesses, and lets it be repeated or retried.
    pub(super) fn fit(&mut self, dice: &mut Dice, act: &mut Act, noise: &Noise) {
        self.is_repeating = false;
        self.run = None;
        let needs_client =
            matches!(act.fate, Fate::Asked | Fate::Elicited | Fate::Declined | Fate::Bypassed);
        if needs_client && self.client.is_none() {
            act.fate = Fate::Ok;
        }
        let retried = u64::from(noise.retried_percent) * 10;
        if matches!(act.fate, Fate::Error | Fate::Timeout) && dice.chance(retried) {
            let more = (1..TRIES_MAX).take_while(|_| dice.chance(FAILS_AGAIN_PER_MILLE)).count();
            act.tries_before = Some((act.fate, 1 + u32::try_from(more).unwrap_or(0)));
            act.fate = Fate::Ok;
        }
        let share = u64::from(noise.identical_percent.min(90));
        // So many runs that their calls make up the share of all.
        let begins = 1000 * share / (100 * RUN_CALLS_MEAN - (RUN_CALLS_MEAN - 1) * share);
        if act.fate == Fate::Ok && act.tries_before.is_none() && dice.chance(begins) {
            let left = dice.between(RUN_CALLS.0, RUN_CALLS.1) - 1;
            self.run = Some(Run { act: act.clone(), left, at_once: dice.chance(500) });
        }
    }

    fn begin_turn(&mut self, actor: &mut Actor) {
        self.turn = actor.burst;
        self.at_once = actor.dice.chance(PARALLEL_PER_MILLE);
        self.trace = actor.dice.chance(TRACED_PER_MILLE).then(|| {
            let (high, low) = (actor.dice.below(u64::MAX), actor.dice.below(u64::MAX));
            format!("{high:016x}{low:016x}").into()
        });
    }
}
