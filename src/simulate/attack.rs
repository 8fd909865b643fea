//! Attacks: short scripts that an actor plays instead of a session of work.

use super::act::{Act, Fate, Tool};
use super::actor::{Actor, Part};
use super::scenario::AttackKind;
use super::truth::AlertTruth;
use crate::model::{Micros, Text};

/// No script has more calls.
pub(super) const ATTACK_CALLS_MAX: u64 = 40;

/// One call of a script.
#[derive(Debug)]
pub(super) struct Step {
    /// From the end of the call before it, in microseconds.
    pub(super) pause: i64,
    pub(super) act: Act,
    /// True for the calls that the alert rests on.
    pub(super) counts: bool,
}

/// An attack under way.
#[derive(Debug)]
pub(super) struct Attack {
    pub(super) kind: AttackKind,
    pub(super) name: Text,
    /// Last step first.
    steps: Vec<Step>,
    tools: Vec<&'static str>,
    calls: Vec<u64>,
    tenant: Option<Text>,
}

impl Attack {
    /// `number` counts the attacks. `target` is the tenant of a cross-tenant attack.
    pub(super) fn new(
        actor: &mut Actor,
        kind: AttackKind,
        number: u64,
        target: Option<&str>,
    ) -> Self {
        let mut steps = match kind {
            AttackKind::TrifectaSignature => trifecta(actor),
            AttackKind::DenialsThenSuccess => denials(actor),
            AttackKind::FirstCrossTenant => cross_tenant(actor, target.unwrap_or_default()),
            AttackKind::CallBurst => burst(actor),
            AttackKind::PolicyBypass => bypass(actor),
            AttackKind::DefinitionChanged => definition_changed(actor),
        };
        steps.reverse();
        actor.burst += 1;
        Self {
            kind,
            name: format!("{}-{number}", kind.rule()).into(),
            steps,
            tools: Vec::new(),
            calls: Vec::new(),
            tenant: target.map(Text::from).or_else(|| actor.tenant.clone()),
        }
    }

    pub(super) fn calls_left(&self) -> u64 {
        self.steps.len() as u64
    }

    /// The next step, which becomes call number `call`.
    pub(super) fn step(&mut self, call: u64) -> Option<Step> {
        let step = self.steps.pop()?;
        if step.counts {
            self.tools.push(step.act.tool.name());
            self.calls.push(call);
        }
        Some(step)
    }

    /// How long after the last call the next one begins; none when the attack is over.
    pub(super) fn pause(&self) -> Option<i64> {
        self.steps.last().map(|step| step.pause)
    }

    /// The alert that must come of it.
    pub(super) fn alert(&self, actor: &Actor, stream: &Text) -> AlertTruth {
        AlertTruth {
            attack: Text::clone(&self.name),
            rule: self.kind.rule(),
            principal: actor.principal.clone(),
            actor: actor.principal.clone().unwrap_or_else(|| Text::clone(stream)),
            tenant: self.tenant.clone(),
            session: actor.session.clone(),
            tools: self.tools.clone(),
            calls: self.calls.clone(),
            may_also: self.kind.may_also(),
        }
    }
}

/// Whether an actor in that part of the scenario can play an attack of that kind.
pub(super) const fn fits(kind: AttackKind, part: Part) -> bool {
    match kind {
        AttackKind::TrifectaSignature | AttackKind::FirstCrossTenant | AttackKind::CallBurst => {
            matches!(part, Part::Tickets)
        }
        AttackKind::DenialsThenSuccess | AttackKind::DefinitionChanged => {
            matches!(part, Part::Gate)
        }
        AttackKind::PolicyBypass => matches!(part, Part::Desk),
    }
}

/// A call that is there for the look of it.
fn by_the_way(pause: i64, tool: Tool) -> Step {
    Step { pause, act: Act::new(tool, Fate::Ok), counts: false }
}

fn counting(pause: i64, tool: Tool, fate: Fate) -> Step {
    Step { pause, act: Act::new(tool, fate), counts: true }
}

/// A few seconds, in microseconds.
fn moment(actor: &mut Actor) -> i64 {
    actor.dice.skewed(900_000, 6_000_000)
}

/// At most six calls and 45 seconds from the first that counts to the last.
fn trifecta(actor: &mut Actor) -> Vec<Step> {
    let mut steps = vec![by_the_way(0, Tool::ListTickets)];
    steps.push(counting(moment(actor), Tool::FetchUrl, Fate::Ok));
    for _ in 0..actor.dice.between(1, 3) {
        let tool = actor.dice.pick(&[Tool::SearchTickets, Tool::GetTicket]);
        steps.push(counting(moment(actor), tool, Fate::Ok));
    }
    let way_out = actor.dice.pick(&[Tool::PostComment, Tool::SendEmail]);
    steps.push(counting(moment(actor), way_out, Fate::Ok));
    steps
}

/// Five to eight refusals within three minutes, then a success within one.
fn denials(actor: &mut Actor) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..actor.dice.between(5, 8) {
        let pause = actor.dice.between(4_000_000, 22_000_000);
        steps.push(counting(pause, Tool::LookupDocument, Fate::Denied));
    }
    let pause = actor.dice.between(3_000_000, 50_000_000);
    steps.push(counting(pause, Tool::LookupDocument, Fate::Ok));
    steps
}

/// A look at home, then one next door. Only the first foreign call counts: after that the tenant is
/// known.
fn cross_tenant(actor: &mut Actor, target: &str) -> Vec<Step> {
    let mut steps =
        vec![by_the_way(0, Tool::GetTicket), by_the_way(moment(actor), Tool::GetTicket)];
    let foreign = |pause, counts| {
        let mut step = counting(pause, Tool::GetTicket, Fate::Ok);
        step.act.foreign_tenant = Some(target.into());
        step.counts = counts;
        step
    };
    steps.push(foreign(moment(actor), true));
    steps.push(foreign(moment(actor), false));
    steps
}

/// Twenty-four calls or more, none more than 1.8 seconds after the one before it.
fn burst(actor: &mut Actor) -> Vec<Step> {
    let count = actor.dice.between(24, 40);
    let step = |actor: &mut Actor| {
        counting(actor.dice.between(300_000, 1_400_000), Tool::SearchTickets, Fate::Ok)
    };
    (0..count).map(|_| step(actor)).collect()
}

fn bypass(actor: &mut Actor) -> Vec<Step> {
    vec![
        by_the_way(0, Tool::ListDir),
        by_the_way(moment(actor), Tool::ReadFile),
        counting(moment(actor) + 10 * Micros::SECOND, Tool::DeleteFile, Fate::Bypassed),
    ]
}

fn definition_changed(actor: &mut Actor) -> Vec<Step> {
    vec![
        by_the_way(0, Tool::LookupDocument),
        by_the_way(moment(actor), Tool::LookupDocument),
        counting(moment(actor), Tool::LookupDocument, Fate::DefinitionChanged),
    ]
}
