//! The ticket server of many tenants: one line a call, with the parameters that are on the tool's
//! allow list and the names of the others (dialect `tenant`).

use super::act::{Act, Fate, Tool};
use super::actor::Actor;
use super::line::{Draft, Object, TimeStyle};
use super::scenario::Scenario;
use super::truth::{ArgsShown, Shows};
use crate::model::{Micros, Text};

const STATUSES: [&str; 4] = ["open", "waiting", "solved", "any"];

/// Gives the actor a home among the tenants.
pub(super) fn settle(actor: &mut Actor, name: &str, scenario: &Scenario) {
    let home = actor.dice.index(scenario.tenants.len());
    actor.tenant = scenario.tenants.get(home).map(|tenant| Text::from(tenant.as_str()));
    let name = if actor.is_human { format!("u-{name}") } else { format!("svc-{name}") };
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
    let took = took(actor, act);
    let tenant = act.foreign_tenant.clone().or_else(|| actor.tenant.clone());
    let (params, dropped) = params(actor, act, tenant.as_deref().unwrap_or_default());
    let outcome = outcome(actor, act.fate);
    let object = Object::new()
        .time("ts", TimeStyle::Rfc3339)
        .text("subject", actor.principal.as_deref().unwrap_or("-"))
        .text("client_id", actor.client)
        .optional("tenant", tenant.as_deref())
        .text("tool", act.tool.name())
        .json("params", &params)
        .list("dropped", dropped)
        .text("outcome", outcome)
        .optional("session", actor.session.as_deref());
    let delay = took + actor.writing_delay();
    let args = if dropped.is_empty() { ArgsShown::Full } else { ArgsShown::Partial };
    let shows = Shows { args, principal: true, ..Shows::default() };
    out.push(Draft::new(Some(call), actor.file, at, object).delayed(delay).showing(shows));
    at.plus(took)
}

/// In microseconds.
fn took(actor: &mut Actor, act: &Act) -> i64 {
    match (act.fate, act.tool) {
        (Fate::Denied | Fate::Limited, _) => actor.dice.between(400, 6_000),
        (Fate::Timeout, _) => actor.dice.between(10_000_000, 10_050_000),
        (_, Tool::FetchUrl) => actor.dice.skewed(80_000, 2_500_000),
        _ => actor.dice.skewed(8_000, 400_000),
    }
}

fn params(actor: &mut Actor, act: &Act, tenant: &str) -> (String, &'static [&'static str]) {
    let status = actor.dice.pick(&STATUSES);
    let initial = tenant.chars().next().unwrap_or('t').to_ascii_uppercase();
    let number = 1000 + (actor.number * 7919 + actor.serial * 37) % 9000;
    let ticket = format!("{initial}-{number}");
    let object = Object::new();
    match (act.tool, act.about) {
        (Tool::FetchUrl, Some(url)) => (object.text("url", url).finish(), &[]),
        (Tool::FetchUrl, None) => (object.finish(), &["url"]),
        (Tool::SearchTickets, Some(query)) => {
            (object.text("status", status).text("query", query).finish(), &[])
        }
        (Tool::SearchTickets, None) => (object.text("status", status).finish(), &["query"]),
        (Tool::ListTickets, _) => {
            let page = actor.dice.between(1, 4);
            (object.text("status", status).number("page", page).finish(), &[])
        }
        (Tool::UpdateTicket, _) => {
            (object.text("ticket_id", &ticket).text("status", status).finish(), &["note"])
        }
        (Tool::PostComment, _) => (object.text("ticket_id", &ticket).finish(), &["body"]),
        (Tool::SendEmail, _) => {
            (object.text("template", "reply").finish(), &["to", "subject", "body"])
        }
        _ => (object.text("ticket_id", &ticket).finish(), &[]),
    }
}

fn outcome(actor: &mut Actor, fate: Fate) -> &'static str {
    match fate {
        Fate::Error => actor.dice.pick(&["error", "tool_error", "invalid_arguments"]),
        Fate::Timeout => "timeout",
        Fate::Denied => actor.dice.pick(&["insufficient_scope", "forbidden"]),
        Fate::Limited => "rate_limited",
        _ => "ok",
    }
}
