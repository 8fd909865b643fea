//! The client gate: one line of metadata a call, with stable codes and no arguments (dialect
//! `gate`).

use super::act::{Act, Fate};
use super::actor::Actor;
use super::line::{Draft, Object, TimeStyle};
use super::truth::{ArgsShown, Shows};
use crate::model::{Micros, Witness};

/// What the gate calls a tool the model made up.
pub(super) const UNKNOWN_TOOL: &str = "(unknown)";

/// Index of the one gate's log.
const FILE: usize = 1;

pub(super) fn settle(actor: &mut Actor, name: &str) {
    actor.file = FILE;
    actor.session = None;
    actor.principal = Some(name.into());
}

/// Writes the call's one line.
pub(super) fn write(
    actor: &mut Actor,
    act: &Act,
    call: u64,
    at: Micros,
    out: &mut Vec<Draft>,
) -> Micros {
    let duration_ms = match act.fate {
        Fate::Denied | Fate::NotListed | Fate::Limited => actor.dice.between(0, 3),
        Fate::DefinitionChanged => actor.dice.between(1, 6),
        Fate::Timeout => actor.dice.between(15_000, 15_040),
        _ => actor.dice.skewed(6, 350),
    };
    let tool = if act.fate == Fate::NotListed { UNKNOWN_TOOL } else { act.tool.name() };
    let flags = if act.fate == Fate::Ok && actor.dice.chance(8) { "too_large" } else { "" };
    let outcome = outcome(actor, act.fate);
    // One request of a user makes several calls: the id groups them and names none.
    let request = format!("r{:x}-{:x}", actor.number, actor.burst);
    let object = Object::new()
        .time("time", TimeStyle::EpochSeconds)
        .text("request_id", &request)
        .text("caller", actor.principal.as_deref().unwrap_or("-"))
        .text("tool", tool)
        .text("outcome", outcome)
        .number("duration_ms", duration_ms)
        .text("flags", flags);
    let ended = at.plus(duration_ms * 1000);
    let delay = ended.since(at) + actor.writing_delay();
    let shows = Shows { args: ArgsShown::Nothing, principal: true, ..Shows::default() };
    let draft = Draft::new(Some(call), actor.file, at, object).delayed(delay);
    out.push(draft.by(Witness::Gateway).showing(shows));
    ended
}

fn outcome(actor: &mut Actor, fate: Fate) -> &'static str {
    match fate {
        Fate::Error => actor.dice.pick(&["tool_error", "invalid_arguments", "result_too_large"]),
        Fate::Timeout => "timeout",
        Fate::Denied => "forbidden_task",
        Fate::NotListed => "not_allowed",
        Fate::Limited => actor.dice.pick(&["call_limit", "repeated_call"]),
        Fate::DefinitionChanged => "definition_changed",
        _ => "ok",
    }
}
