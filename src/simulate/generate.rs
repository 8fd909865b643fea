//! The generator: actors in the order of their next call, their lines in the order of writing. What
//! it holds in memory is the actors and the lines of calls under way, however many calls are made.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use rustc_hash::FxHashMap;

use super::act::{Act, Fate};
use super::actor::{Actor, Part, cast};
use super::attack::{ATTACK_CALLS_MAX, Attack, fits};
use super::connection::Connection;
use super::dice::Dice;
use super::gate::UNKNOWN_TOOL;
use super::line::{Draft, Message, SimLine};
use super::noise::{Clock, Stalls};
use super::scenario::{AttackKind, Scenario};
use super::stack;
use super::truth::{AlertTruth, ArgKeys, CallTruth, RecordPlace, Span};
use super::work::{Work, is_refusal, next_session};
use crate::model::{Micros, Text, Witness};

/// Between two attacks of one kind, so that no alert can fold into another.
const ATTACKS_APART: i64 = 30 * Micros::MINUTE;

/// The sources of chance beside those of the actors, which count from 0.
const LOSSES: u64 = u64::MAX;
const CLOCKS: u64 = u64::MAX - 1;

/// What the generator yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimEvent {
    /// The next line in the order of writing.
    Line(SimLine),
    /// A call whose lines are all written.
    Call(CallTruth),
    /// An attack whose last call has begun.
    Alert(AlertTruth),
}

/// Makes the calls of a scenario, one after the other.
pub struct Simulation {
    scenario: Scenario,
    roles: Vec<Role>,
    /// Who calls next, and when.
    turns: BinaryHeap<Reverse<(Micros, usize)>>,
    files: Vec<File>,
    /// Lines that are not due yet.
    pending: BinaryHeap<Reverse<Pending>>,
    /// Calls with lines that are not due yet.
    open: FxHashMap<u64, (CallTruth, usize)>,
    ready: VecDeque<SimEvent>,
    drafts: Vec<Draft>,
    /// Lines and calls so far.
    written: u64,
    calls: u64,
    /// Calls that attacks under way still have to make.
    reserved: u64,
    threats: Threats,
    /// Decides which records get lost.
    losses: Dice,
}

/// An actor, and what it is at.
struct Role {
    actor: Actor,
    stage: Stage,
    refused_at: Micros,
    /// Tenants it has attacked already, by their place in the scenario.
    touched: Vec<usize>,
}

enum Stage {
    Away,
    Work(Work),
    Attack(Attack),
}

struct File {
    name: Text,
    lines: u64,
    /// That of the program that writes it, where that is no client.
    clock: Clock,
    stalls: Stalls,
    connection: Connection,
}

/// A line that waits for its time, ordered by it; at one time by when it would be written if its log
/// never stood still: lines keep this order.
struct Pending {
    written: Micros,
    number: u64,
    /// The time that it shows.
    shown: Micros,
    draft: Draft,
}

impl Ord for Pending {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |line: &Self| (line.written, line.draft.written, line.number);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Pending {}

/// Attacks that are to come.
struct Threats {
    /// The kinds that somebody in the scenario can play.
    kinds: Vec<Threat>,
    /// Calls per attack; 0 for no attacks.
    every: u64,
    next_at_call: u64,
    /// Which kind becomes due next.
    turn: usize,
    /// Attacks begun so far.
    count: u64,
}

struct Threat {
    kind: AttackKind,
    due: u64,
    began: Option<Micros>,
}

impl Simulation {
    pub fn new(scenario: &Scenario) -> Self {
        let (actors, files) = cast(scenario);
        let mut turns = BinaryHeap::with_capacity(actors.len());
        let mut roles = Vec::with_capacity(actors.len());
        for (place, mut actor) in actors.into_iter().enumerate() {
            let first = scenario.start.plus(actor.dice.between(0, 45 * Micros::MINUTE));
            turns.push(Reverse((first, place)));
            let refused_at = Micros(i64::MIN);
            roles.push(Role { actor, stage: Stage::Away, refused_at, touched: Vec::new() });
        }
        Self {
            threats: Threats::new(scenario, &roles),
            scenario: scenario.clone(),
            roles,
            turns,
            files: files
                .into_iter()
                .zip(0..)
                .map(|(name, place)| File::new(name, place, scenario))
                .collect(),
            pending: BinaryHeap::new(),
            open: FxHashMap::default(),
            ready: VecDeque::new(),
            drafts: Vec::new(),
            written: 0,
            calls: 0,
            reserved: 0,
            losses: Dice::new(scenario.seed, LOSSES),
        }
    }

    /// Calls begun so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Every stream of the scenario and the lines written to it so far.
    pub fn streams(&self) -> impl Iterator<Item = (&Text, u64)> {
        self.files.iter().map(|file| (&file.name, file.lines))
    }

    /// Lines and calls held in memory.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.pending.len() + self.open.len() + self.ready.len()
    }

    /// One actor's turn: its next call, and when the turn after that comes.
    fn turn(&mut self, at: Micros, place: usize) {
        let Some(role) = self.roles.get_mut(place) else { return };
        let mut at = at;
        if matches!(role.stage, Stage::Away) {
            if self.scenario.calls.saturating_sub(self.calls + self.reserved) == 0 {
                return;
            }
            at = role.actor.open_session(at, &mut self.drafts);
            // An attack that could not be finished would leave an alert that never comes.
            let is_room = self.calls + self.reserved + ATTACK_CALLS_MAX <= self.scenario.calls;
            let attack = if is_room { self.threats.attack(role, at, &self.scenario) } else { None };
            role.stage = match attack {
                Some(attack) => {
                    self.reserved += attack.calls_left();
                    Stage::Attack(attack)
                }
                None => Stage::Work(Work::begin(&mut role.actor)),
            };
        }
        let next = match &mut role.stage {
            Stage::Work(_) if self.calls + self.reserved >= self.scenario.calls => None,
            Stage::Work(work) => {
                self.calls += 1;
                let again = role.actor.stack.as_mut().and_then(|stack| stack.again());
                let act = again.unwrap_or_else(|| {
                    let mut act = work.act(&mut role.actor, at, role.refused_at);
                    if let Actor { stack: Some(stack), dice, .. } = &mut role.actor {
                        stack.fit(dice, &mut act, &self.scenario.noise);
                    }
                    act
                });
                let ended = role.actor.make(&act, self.calls, at, &mut self.drafts);
                if is_refusal(act.fate) {
                    role.refused_at = ended;
                }
                self.begin(place, &act, at, None);
                self.after(place, &act, at, ended)
            }
            Stage::Attack(attack) => {
                self.calls += 1;
                self.reserved = self.reserved.saturating_sub(1);
                let Some(step) = attack.step(self.calls) else { return };
                let ended = role.actor.make(&step.act, self.calls, at, &mut self.drafts);
                let name = Text::clone(&attack.name);
                self.begin(place, &step.act, at, Some(name));
                self.after(place, &step.act, at, ended)
            }
            Stage::Away => None,
        };
        if let Some(next) = next {
            self.turns.push(Reverse((next, place)));
        }
        self.threats.count_up(self.calls);
        self.file_drafts();
    }

    /// Notes the call's truth; its lines are among the drafts.
    fn begin(&mut self, place: usize, act: &Act, at: Micros, attack: Option<Text>) {
        let Some(role) = self.roles.get(place) else { return };
        let lost_per_mille = u64::from(self.scenario.noise.lost_percent) * 10;
        let (mut lines, mut lost) = (0, 0);
        let mut tries: Vec<Span> = Vec::new();
        for draft in self.drafts.iter_mut().filter(|draft| draft.call == Some(self.calls)) {
            draft.is_lost = lost_per_mille > 0 && self.losses.chance(lost_per_mille);
            lost += u32::from(draft.is_lost);
            lines += usize::from(!draft.is_lost);
            note_try(&mut tries, draft);
        }
        let stack = role.actor.stack.as_deref();
        let stream = self.files.get(role.actor.file).map(|file| Text::clone(&file.name));
        let truth = CallTruth {
            call: self.calls,
            at,
            tool: if act.fate == Fate::NotListed { UNKNOWN_TOOL } else { act.tool.name() },
            principal: role.actor.principal.clone(),
            actor: role.actor.principal.clone().or(stream).unwrap_or_default(),
            tenant: act.foreign_tenant.clone().or_else(|| role.actor.tenant.clone()),
            session: role.actor.session.clone(),
            class: act.fate.class(),
            records: Vec::with_capacity(lines),
            tries,
            lost,
            trace: stack.and_then(|stack| stack.trace.clone()),
            args: stack.map_or(ArgKeys::unique(self.calls), |stack| stack.paper.keys),
            attack,
        };
        if lines == 0 {
            self.ready.push_back(SimEvent::Call(truth));
        } else {
            self.open.insert(self.calls, (truth, lines));
        }
    }

    /// When the actor's next turn comes, after a call that ended at `ended`.
    fn after(&mut self, place: usize, act: &Act, at: Micros, ended: Micros) -> Option<Micros> {
        let role = self.roles.get_mut(place)?;
        let mut ended = ended;
        let pause = match &mut role.stage {
            Stage::Work(work) if role.actor.stack.is_some() => {
                let pause = |actor: &mut Actor| work.pause(actor, act.fate);
                match stack::next(&mut role.actor, (at, ended), pause) {
                    Some(next) => return Some(next),
                    None => ended = stack::busy_until(&role.actor, ended),
                }
                None
            }
            Stage::Work(work) => work.pause(&mut role.actor, act.fate),
            Stage::Attack(attack) => {
                let pause = attack.pause();
                if pause.is_none() {
                    let stream = self.files.get(role.actor.file).map(|file| &file.name)?;
                    let alert = attack.alert(&role.actor, stream);
                    self.ready.push_back(SimEvent::Alert(alert));
                }
                pause
            }
            Stage::Away => None,
        };
        if let Some(pause) = pause {
            return Some(ended.plus(pause));
        }
        role.stage = Stage::Away;
        Some(next_session(&mut role.actor, ended))
    }

    fn file_drafts(&mut self) {
        // A request that is not logged was sent all the same, under a number of its own.
        let matters = |draft: &Draft| !draft.is_lost || draft.message != Message::None;
        for draft in self.drafts.drain(..).filter(matters) {
            let Some(file) = self.files.get_mut(draft.file) else { continue };
            self.written += 1;
            let ahead = match draft.witness {
                Witness::Client => 0,
                _ => file.clock.ahead(draft.happened),
            };
            self.pending.push(Reverse(Pending {
                written: file.stalls.written(draft.written),
                number: self.written,
                shown: draft.at.plus(ahead),
                draft,
            }));
        }
    }

    /// Hands out the line, unless it is lost, and the truth of its call if this was the last one.
    fn write(&mut self, line: &Pending) -> Option<SimEvent> {
        let draft = &line.draft;
        let file = self.files.get_mut(draft.file)?;
        let number = file.connection.number(&draft.message);
        if draft.is_lost {
            return None;
        }
        file.lines += 1;
        let name = Text::clone(&file.name);
        if let Some(call) = draft.call
            && let Some((truth, lines)) = self.open.get_mut(&call)
        {
            truth.records.push(RecordPlace {
                file: Text::clone(&name),
                line: file.lines,
                witness: draft.witness,
                attempt: draft.attempt,
                shows: draft.shows,
                at: draft.happened,
                ahead: line.shown.since(draft.happened),
            });
            if truth.records.len() >= *lines
                && let Some((truth, _)) = self.open.remove(&call)
            {
                self.ready.push_back(SimEvent::Call(truth));
            }
        }
        let text = draft.text(line.shown, number);
        let line = SimLine { at_write: line.written, file: name, text };
        Some(SimEvent::Line(line))
    }
}

impl File {
    fn new(name: Text, place: u64, scenario: &Scenario) -> Self {
        let mut dice = Dice::new(scenario.seed, CLOCKS - place);
        let clock = Clock::new(&mut dice, &scenario.noise, scenario.start);
        let stalls = Stalls::new(dice, &scenario.noise, scenario.start);
        // Some have been at work for a while.
        let connection = Connection::begun(1 + place % 500);
        Self { name, lines: 0, clock, stalls, connection }
    }
}

/// Widens the span of the draft's try to it. What was before the request was sent does not count,
/// unless none was.
fn note_try(tries: &mut Vec<Span>, draft: &Draft) {
    let from = draft.sent.unwrap_or(draft.happened);
    let number = usize::try_from(draft.attempt).unwrap_or(1);
    if tries.len() < number {
        tries.push(Span { from, to: draft.happened });
    } else if let Some(span) = tries.last_mut() {
        // Records come in order, and those after the first one that knows when it was sent all do.
        span.from = from;
        span.to = span.to.max(draft.happened);
    }
}

impl Iterator for Simulation {
    type Item = SimEvent;

    fn next(&mut self) -> Option<SimEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let next_turn = self.turns.peek().map(|Reverse((at, _))| *at);
            // No turn to come can bring a line that is due before it.
            let is_due = |line: &Pending| next_turn.is_none_or(|at| line.written <= at);
            if self.pending.peek().is_some_and(|Reverse(line)| is_due(line)) {
                let Reverse(line) = self.pending.pop()?;
                if let Some(event) = self.write(&line) {
                    return Some(event);
                }
                continue;
            }
            let Reverse((at, place)) = self.turns.pop()?;
            self.turn(at, place);
        }
    }
}

impl Threats {
    fn new(scenario: &Scenario, roles: &[Role]) -> Self {
        let can_play = |kind: &AttackKind| roles.iter().any(|role| fits(*kind, role.actor.part));
        let kinds = scenario.attacks.iter().copied().filter(can_play);
        Self {
            kinds: kinds.map(|kind| Threat { kind, due: 0, began: None }).collect(),
            every: scenario.attack_every,
            next_at_call: scenario.attack_every,
            turn: 0,
            count: 0,
        }
    }

    /// Makes the next kind due whenever so many calls have been made. A kind that still waits for
    /// somebody to play it is passed over: the firsts of cross-tenant access run out.
    fn count_up(&mut self, calls: u64) {
        if self.every == 0 || calls < self.next_at_call || self.kinds.is_empty() {
            return;
        }
        self.next_at_call += self.every;
        let count = self.kinds.len();
        let from_turn = (0..count).map(|offset| (self.turn + offset) % count);
        let is_waiting = |place: &usize| self.kinds.get(*place).is_some_and(|kind| kind.due > 0);
        let Some(place) = from_turn.min_by_key(is_waiting) else { return };
        self.turn = place + 1;
        if let Some(threat) = self.kinds.get_mut(place) {
            threat.due += 1;
        }
    }

    /// The attack that the actor's session is to be, if one is due that it can play.
    fn attack(&mut self, role: &mut Role, at: Micros, scenario: &Scenario) -> Option<Attack> {
        let target = target(role, scenario);
        let threat = self.kinds.iter_mut().find(|threat| {
            threat.due > 0
                && threat.began.is_none_or(|began| at.since(began) >= ATTACKS_APART)
                && fits(threat.kind, role.actor.part)
                && (threat.kind != AttackKind::FirstCrossTenant || target.is_some())
        })?;
        threat.due -= 1;
        threat.began = Some(at);
        self.count += 1;
        let target = target.filter(|_| threat.kind == AttackKind::FirstCrossTenant);
        role.touched.extend(target);
        let tenant = target.and_then(|target| scenario.tenants.get(target)).map(String::as_str);
        Some(Attack::new(&mut role.actor, threat.kind, self.count, tenant))
    }
}

/// A tenant the actor has never touched.
fn target(role: &Role, scenario: &Scenario) -> Option<usize> {
    if role.actor.part != Part::Tickets {
        return None;
    }
    let home = role.actor.tenant.as_deref();
    (0..scenario.tenants.len()).find(|place| {
        !role.touched.contains(place) && scenario.tenants.get(*place).map(String::as_str) != home
    })
}
