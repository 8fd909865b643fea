//! Who calls: people at desks, service agents, and the proxies and gates they go through.

use super::act::Act;
use super::dice::Dice;
use super::line::Draft;
use super::scenario::Scenario;
use super::stack::{self, Stack};
use super::{desk, gate, proxy, tickets};
use crate::model::{Micros, Text};

/// First names, as many as a small firm has people.
const NAMES: [&str; 36] = [
    "maya", "jonas", "aisha", "pedro", "ingrid", "kwame", "nadia", "tomas", "yuki", "elena",
    "omar", "sofia", "lars", "priya", "diego", "hannah", "malik", "freya", "anton", "leila",
    "marco", "grete", "samir", "chloe", "viktor", "amara", "felix", "noor", "bruno", "tessa",
    "ivan", "mei", "oscar", "dalia", "hugo", "zora",
];

/// Clients that name themselves to the ticket server.
const CLIENTS: [&str; 4] = ["assistant", "ide-agent", "support-bot", "desktop"];

/// Which log tells of an actor's calls, and in which dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Tickets,
    Desk,
    Proxy,
    Gate,
    /// A stack in front of the document server.
    Docs,
    /// A stack in front of the case server.
    Cases,
}

/// Somebody whose calls are logged, together with the clocks and counters of the programs that log
/// them.
pub(super) struct Actor {
    pub(super) part: Part,
    pub(super) dice: Dice,
    pub(super) principal: Option<Text>,
    pub(super) client: &'static str,
    pub(super) tenant: Option<Text>,
    /// The session id the log shows, where it shows one.
    pub(super) session: Option<Text>,
    /// Works in the hours of people, not at night and not at weekends.
    pub(super) is_human: bool,
    /// Index of the log: the client's where there are two.
    pub(super) file: usize,
    /// Index of the server's log.
    pub(super) server_file: usize,
    /// How far the server's clock is ahead of the client's, in microseconds.
    pub(super) clock_offset: i64,
    /// The longest a line is held back, in microseconds.
    pub(super) lateness_max: i64,
    /// Counts whatever the dialect numbers: requests, paths, tickets.
    pub(super) serial: u64,
    /// Counts the bursts of work: one request of a user each.
    pub(super) burst: u64,
    /// Makes ids of different actors differ.
    pub(super) number: u64,
    /// The witnesses of a stack's calls.
    pub(super) stack: Option<Box<Stack>>,
}

impl Actor {
    /// Writes down one call that begins at `at`, and returns when it ended by the true clock.
    pub(super) fn make(
        &mut self,
        act: &Act,
        call: u64,
        at: Micros,
        out: &mut Vec<Draft>,
    ) -> Micros {
        self.serial += 1;
        match self.part {
            Part::Tickets => tickets::write(self, act, call, at, out),
            Part::Desk => desk::write(self, act, call, at, out),
            Part::Proxy => proxy::write(self, act, call, at, out),
            Part::Gate => gate::write(self, act, call, at, out),
            Part::Docs | Part::Cases => stack::write(self, act, call, at, out),
        }
    }

    /// Begins a session: a new id where the log shows ids, and the handshake where the log shows
    /// it. Returns when the first call can be made.
    pub(super) fn open_session(&mut self, at: Micros, out: &mut Vec<Draft>) -> Micros {
        if self.session.is_some() {
            let (high, low) = (self.dice.below(1 << 32), self.number);
            self.session = Some(format!("s-{high:08x}{low:04x}").into());
        }
        match self.part {
            Part::Proxy => proxy::open(self, at, out),
            Part::Tickets | Part::Desk | Part::Gate | Part::Docs | Part::Cases => at,
        }
    }

    /// Mostly a moment; now and then as long as lines are held back at most.
    pub(super) fn writing_delay(&mut self) -> i64 {
        if self.dice.chance(20) {
            self.dice.between(0, self.lateness_max)
        } else {
            self.dice.between(0, 3_000)
        }
    }

    pub(super) fn new(part: Part, number: u64, scenario: &Scenario) -> Self {
        let mut dice = Dice::new(scenario.seed, number);
        let is_human = !dice.chance(250);
        Self {
            part,
            principal: None,
            client: dice.pick(&CLIENTS),
            tenant: None,
            session: dice.chance(400).then(|| Text::from("")),
            is_human,
            file: 0,
            server_file: 0,
            clock_offset: dice.between(-scenario.clock_offset_max(), scenario.clock_offset_max()),
            lateness_max: scenario.lateness_max(),
            serial: dice.below(500),
            burst: 0,
            number,
            stack: None,
            dice,
        }
    }

    /// A name nobody else in the scenario has.
    fn name(&self) -> String {
        let place = usize::try_from(self.number).unwrap_or(0);
        let name = NAMES[place % NAMES.len()];
        match place / NAMES.len() {
            0 => name.to_string(),
            round => format!("{name}{}", round + 1),
        }
    }
}

/// Everybody in the scenario, and the files their calls are logged in.
pub(super) fn cast(scenario: &Scenario) -> (Vec<Actor>, Vec<Text>) {
    let mut actors = Vec::new();
    let mut files: Vec<Text> = vec!["tickets/audit.jsonl".into(), "gate/audit.jsonl".into()];
    let parts = [
        (Part::Tickets, scenario.ticket_users),
        (Part::Gate, scenario.gate_users),
        (Part::Desk, scenario.desks),
        (Part::Proxy, scenario.proxies),
    ];
    for (part, count) in parts {
        for place in 1..=u64::from(count) {
            let mut actor = Actor::new(part, actors.len() as u64, scenario);
            let name = actor.name();
            match part {
                Part::Tickets => tickets::settle(&mut actor, &name, scenario),
                Part::Gate => gate::settle(&mut actor, &name),
                Part::Desk => desk::settle(&mut actor, &name, place, &mut files),
                Part::Proxy => proxy::settle(&mut actor, place, &mut files),
                Part::Docs | Part::Cases => {}
            }
            actors.push(actor);
        }
    }
    let mut halls = stack::Halls::default();
    for place in 1..=u64::from(scenario.stacks) {
        let part = stack::part(place);
        let mut actor = Actor::new(part, actors.len() as u64, scenario);
        let name = actor.name();
        stack::settle(&mut actor, &name, place, &mut halls, &mut files, scenario);
        actors.push(actor);
    }
    (actors, files)
}
