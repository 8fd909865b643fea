//! The demo's story: a minute and a half of an office at work, in which five things go wrong. Its
//! times are relative, so that whoever shows it can place it in the present and tell it faster.

use rustc_hash::FxHashMap;

use super::act::{Act, Fate, Tool};
use super::actor::{Actor, Part};
use super::connection::Connection;
use super::line::{Draft, SimLine};
use super::scenario::{AttackKind, Scenario};
use super::truth::AlertTruth;
use super::{desk, gate, proxy, tickets};
use crate::model::{Micros, Text};

/// What Jonas reads.
const PAGES: [&str; 4] = [
    "https://docs.example.com/vpn/setup",
    "https://docs.example.com/printers",
    "https://status.example.com/",
    "https://blog.example.com/ticket-triage",
];

/// Who is in the story. The order is that of `cast`.
#[derive(Clone, Copy)]
enum Who {
    /// Answers tickets all along.
    Priya,
    /// Reads up on the web.
    Jonas,
    /// Its agent reads a poisoned page.
    Maya,
    /// A service agent that gets into a loop.
    Harvester,
    /// Has no business at the other tenant.
    Omar,
    /// At the desk.
    Lars,
    /// Behind the gate, guessing until it works.
    Kwame,
    /// Behind the gate, at work.
    Nadia,
    /// Whoever takes notes through the proxy, which does not say.
    Notes,
}

/// A story to be told at any time and any speed.
pub struct Story {
    /// With times relative to the beginning, in the order of writing.
    drafts: Vec<Draft>,
    files: Vec<Text>,
    alerts: Vec<AlertTruth>,
}

/// One call of the story.
struct Beat {
    /// From the beginning, in milliseconds.
    at_ms: i64,
    who: Who,
    act: Act,
    attack: Option<AttackKind>,
}

impl Story {
    /// The same seed tells the same story.
    pub fn new(seed: u64) -> Self {
        let (mut cast, files) = cast(seed);
        let mut drafts = Vec::new();
        for actor in &mut cast {
            actor.open_session(Micros(0), &mut drafts);
        }
        let mut beats = background(&mut cast);
        beats.extend(attacks());
        beats.sort_by_key(|beat| beat.at_ms);
        let mut story = Self { drafts, files, alerts: Vec::new() };
        for (call, beat) in (1_u64..).zip(beats) {
            let Some(actor) = cast.get_mut(beat.who as usize) else { continue };
            actor.burst = call;
            actor.make(&beat.act, call, Micros(beat.at_ms * 1000), &mut story.drafts);
            if let Some(kind) = beat.attack {
                story.note(kind, call, &beat.act, actor);
            }
        }
        story.drafts.sort_by_key(|draft| draft.written);
        story
    }

    /// The lines in the order of writing, for a story that begins at `start` and is told `speed`
    /// times as fast (0 counts as 1). The times in the lines are those of their writing.
    pub fn lines(&self, start: Micros, speed: u32) -> Vec<SimLine> {
        let place = |at: Micros| start.plus(at.0 / i64::from(speed.max(1)));
        let mut connections: FxHashMap<usize, Connection> = FxHashMap::default();
        let line = |draft: &Draft| SimLine {
            at_write: place(draft.written),
            file: self.files.get(draft.file).map(Text::clone).unwrap_or_default(),
            text: {
                let connection = connections.entry(draft.file).or_default();
                draft.text(place(draft.at), connection.number(&draft.message))
            },
        };
        self.drafts.iter().map(line).collect()
    }

    /// The alerts that must come of it.
    pub fn alerts(&self) -> &[AlertTruth] {
        &self.alerts
    }

    fn note(&mut self, kind: AttackKind, call: u64, act: &Act, actor: &Actor) {
        let rule = kind.rule();
        let alert = match self.alerts.iter_mut().find(|alert| alert.rule == rule) {
            Some(alert) => alert,
            None => self.alerts.push_mut(AlertTruth {
                attack: rule.into(),
                rule,
                principal: actor.principal.clone(),
                actor: actor.principal.clone().unwrap_or_default(),
                tenant: act.foreign_tenant.clone().or_else(|| actor.tenant.clone()),
                session: actor.session.clone(),
                tools: Vec::new(),
                calls: Vec::new(),
                may_also: kind.may_also(),
            }),
        };
        alert.tools.push(act.tool.name());
        alert.calls.push(call);
    }
}

/// The people of the story and their logs.
fn cast(seed: u64) -> (Vec<Actor>, Vec<Text>) {
    let mut scenario = Scenario::new(seed, Micros(0), 0);
    // A line held back would come after the end of the show.
    scenario.lateness_ms_max = 0;
    let mut files: Vec<Text> = vec!["tickets/audit.jsonl".into(), "gate/audit.jsonl".into()];
    let people = [
        (Part::Tickets, "priya"),
        (Part::Tickets, "jonas"),
        (Part::Tickets, "maya"),
        (Part::Tickets, "harvester"),
        (Part::Tickets, "omar"),
        (Part::Desk, "lars"),
        (Part::Gate, "kwame"),
        (Part::Gate, "nadia"),
        (Part::Proxy, "notes"),
    ];
    let mut cast = Vec::with_capacity(people.len());
    for (number, (part, name)) in (0_u64..).zip(people) {
        let mut actor = Actor::new(part, number, &scenario);
        actor.is_human = name != "harvester";
        match part {
            Part::Tickets => tickets::settle(&mut actor, name, &scenario),
            Part::Gate => gate::settle(&mut actor, name),
            Part::Desk => desk::settle(&mut actor, name, 1, &mut files),
            Part::Proxy => proxy::settle(&mut actor, 1, &mut files),
            // The story has none.
            Part::Docs | Part::Cases => {}
        }
        if part == Part::Tickets {
            actor.tenant = Some("acme".into());
        }
        cast.push(actor);
    }
    (cast, files)
}

/// What goes on all the time: quiet enough that no rule has anything to say.
fn background(cast: &mut [Actor]) -> Vec<Beat> {
    let routines: [(Who, i64, &[Tool]); 6] = [
        (Who::Priya, 5_000, &[Tool::ListTickets, Tool::GetTicket, Tool::PostComment]),
        (Who::Jonas, 9_000, &[Tool::FetchUrl, Tool::ListTickets]),
        (Who::Omar, 11_000, &[Tool::GetTicket, Tool::UpdateTicket]),
        (Who::Lars, 7_000, &[Tool::ReadFile, Tool::ListDir]),
        (Who::Nadia, 6_000, &[Tool::LookupDocument, Tool::SearchHelp]),
        (Who::Notes, 8_000, &[Tool::ListNotes, Tool::ReadNote, Tool::ReadNote, Tool::AppendNote]),
    ];
    let mut beats = Vec::new();
    for (who, every_ms, tools) in routines {
        let Some(actor) = cast.get_mut(who as usize) else { continue };
        let mut at_ms = actor.dice.between(0, every_ms);
        let mut pages = PAGES.iter().cycle();
        for tool in tools.iter().cycle() {
            if at_ms > 84_000 {
                break;
            }
            let mut act = Act::new(*tool, Fate::Ok);
            if *tool == Tool::FetchUrl {
                act.about = pages.next().copied();
            }
            beats.push(Beat { at_ms, who, act, attack: None });
            at_ms += actor.dice.between(every_ms / 2, every_ms * 3 / 2);
        }
    }
    beats
}

/// What goes wrong.
fn attacks() -> Vec<Beat> {
    let mut beats = Vec::new();
    let mut beat = |at_ms, who, tool, fate, attack| {
        let about = match (tool, at_ms) {
            (Tool::FetchUrl, _) => Some("https://manuals.evil.example/printer-setup"),
            (Tool::SearchTickets, 29_500) => Some("vpn credentials"),
            (Tool::SearchTickets, 31_200) => Some("customer bank details"),
            (Tool::SearchTickets, _) => Some("refund"),
            _ => None,
        };
        beats.push(Beat { at_ms, who, act: Act { about, ..Act::new(tool, fate) }, attack });
    };
    // A deletion as it should be: the question, the answer, the server asking back.
    beat(4_000, Who::Lars, Tool::DeleteFile, Fate::Elicited, None);
    // What a policy is for.
    beat(20_000, Who::Notes, Tool::DeleteNote, Fate::Denied, None);
    // Maya's agent is given a page to read. What the page says becomes its orders.
    let trifecta = Some(AttackKind::TrifectaSignature);
    beat(12_000, Who::Maya, Tool::ListTickets, Fate::Ok, None);
    beat(26_000, Who::Maya, Tool::FetchUrl, Fate::Ok, trifecta);
    beat(29_500, Who::Maya, Tool::SearchTickets, Fate::Ok, trifecta);
    beat(31_200, Who::Maya, Tool::SearchTickets, Fate::Ok, trifecta);
    beat(34_800, Who::Maya, Tool::PostComment, Fate::Ok, trifecta);
    // Kwame's agent is refused, and keeps trying until it is not.
    let denials = Some(AttackKind::DenialsThenSuccess);
    for at_ms in [36_000, 38_500, 41_000, 43_000, 46_000, 48_500] {
        beat(at_ms, Who::Kwame, Tool::LookupDocument, Fate::Denied, denials);
    }
    beat(56_000, Who::Kwame, Tool::LookupDocument, Fate::Ok, denials);
    // The client refuses a deletion; the server's own log shows that it happened.
    beat(60_000, Who::Lars, Tool::DeleteFile, Fate::Bypassed, Some(AttackKind::PolicyBypass));
    // A service agent searches the same thing over and over.
    let burst = Some(AttackKind::CallBurst);
    for round in 0..26 {
        beat(62_000 + round * 700, Who::Harvester, Tool::SearchTickets, Fate::Ok, burst);
    }
    // Omar works for acme, and reads a ticket of globex.
    let mut act = Act::new(Tool::GetTicket, Fate::Ok);
    act.foreign_tenant = Some("globex".into());
    let attack = Some(AttackKind::FirstCrossTenant);
    beats.push(Beat { at_ms: 70_000, who: Who::Omar, act, attack });
    beats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_told_faster_has_the_times_of_its_telling() {
        let story = Story::new(1);
        let start = Micros::parse_rfc3339("2026-11-20T08:00:00Z").unwrap();
        let (slow, fast) = (story.lines(start, 1), story.lines(start, 6));
        assert_eq!(slow.len(), fast.len());
        let last = |lines: &[SimLine]| lines.last().unwrap().at_write.since(start);
        assert!((60 * Micros::SECOND..100 * Micros::SECOND).contains(&last(&slow)));
        assert!((10 * Micros::SECOND..20 * Micros::SECOND).contains(&last(&fast)));
        assert!(fast.is_sorted_by_key(|line| line.at_write));
        for line in &fast {
            let value: serde_json::Value = serde_json::from_str(&line.text).unwrap();
            let at = if let Some(ts) = value.get("ts") {
                Micros::parse_rfc3339(ts.as_str().unwrap()).unwrap()
            } else {
                let time = line.text.trim_start_matches("{\"time\":").split(',').next();
                let millis: i64 = time.unwrap().replace('.', "").parse().unwrap();
                Micros(millis * 1000)
            };
            let off = line.at_write.since(at).abs();
            assert!(off < 4 * Micros::SECOND, "{off} microseconds: {}", line.text);
        }
    }

    #[test]
    fn five_things_go_wrong_and_maya_comes_first() {
        let story = Story::new(1);
        let rules: Vec<&str> = story.alerts().iter().map(|alert| alert.rule).collect();
        assert_eq!(
            rules,
            [
                "trifecta-signature",
                "denials-then-success",
                "policy-bypass",
                "call-burst",
                "first-cross-tenant"
            ]
        );
        let first = &story.alerts()[0];
        assert_eq!(first.principal.as_deref(), Some("u-maya"));
        let lines = story.lines(Micros(0), 1);
        let mayas = || lines.iter().filter(|line| line.text.contains("\"u-maya\""));
        for (shown, times) in [
            (r#""params":{"url":"https://manuals.evil.example/printer-setup"},"dropped":[]"#, 1),
            (r#""query":"vpn credentials"},"dropped":[]"#, 1),
            (r#""query":"customer bank details"},"dropped":[]"#, 1),
            (r#""dropped":["body"]"#, 1),
        ] {
            assert_eq!(mayas().filter(|line| line.text.contains(shown)).count(), times, "{shown}");
        }
        assert_eq!(first.tools, ["fetch_url", "search_tickets", "search_tickets", "post_comment"]);
    }
}
