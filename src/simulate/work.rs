//! Honest work: sessions of a few bursts, with time to think between them. No session of honest
//! work looks like an attack, by the way it is put together and not by luck:
//!
//! - a session either reads the open web or sends something out after reading what is sensitive,
//!   never both;
//! - at most six calls in a burst and at least 25 seconds between bursts, so never twenty calls in
//!   a minute;
//! - refusals of one actor are at least 100 seconds apart, so never five in five minutes;
//! - at most one destructive call in a burst, and no call at all for a minute after a limit;
//! - sessions of one actor are more than half an hour apart, so that nothing carries over.

use super::act::{Act, Fate, Tool};
use super::actor::{Actor, Part};
use super::dice::Dice;
use crate::model::Micros;

/// From the end of a session to the next one's start, in microseconds: more than what still counts
/// as one session.
const AWAY_MIN: i64 = 35 * Micros::MINUTE;
const AWAY_MAX: i64 = 200 * Micros::MINUTE;
/// Agents in a stack are kept busy; no attack is told by them, so nothing needs to be kept apart.
const STACK_AWAY_MIN: i64 = 2 * Micros::MINUTE;
const STACK_AWAY_MAX: i64 = 40 * Micros::MINUTE;
const PAUSE_MIN: i64 = 25 * Micros::SECOND;
const PAUSE_MAX: i64 = 240 * Micros::SECOND;
const PAUSE_AFTER_LIMIT: i64 = 70 * Micros::SECOND;
const BURST_CALLS_MAX: i64 = 6;
const REFUSALS_APART: i64 = 100 * Micros::SECOND;

/// What an actor is at in this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Tickets are read and answered; nothing from outside comes in.
    Support,
    /// The web and tickets are read; nothing goes out.
    Research,
    /// The web is read and something goes out; nothing sensitive is read.
    Outreach,
}

/// A session of honest work under way.
#[derive(Debug)]
pub(super) struct Work {
    mode: Mode,
    bursts_left: i64,
    calls_left: i64,
    /// The model made a tool's name up: once a session is enough.
    made_up: bool,
    destroyed: bool,
}

impl Work {
    pub(super) fn begin(actor: &mut Actor) -> Self {
        let mode =
            actor.dice.weighted(&[(Mode::Support, 55), (Mode::Research, 30), (Mode::Outreach, 15)]);
        let bursts_left = actor.dice.skewed(4, 16);
        let mut work = Self { mode, bursts_left, calls_left: 0, made_up: false, destroyed: false };
        work.next_burst(actor);
        work
    }

    /// The next call of the session. `refused_at` is when the actor was last refused.
    pub(super) fn act(&mut self, actor: &mut Actor, at: Micros, refused_at: Micros) -> Act {
        let mut tool = self.tool(actor);
        if tool.is_destructive() {
            if self.destroyed {
                tool = harmless(actor.part);
            }
            self.destroyed = true;
        }
        let mut fate = fate(&mut actor.dice, actor.part, tool);
        if is_refusal(fate) && at.since(refused_at) < REFUSALS_APART {
            (tool, fate) = (harmless(actor.part), Fate::Ok);
        }
        if fate == Fate::NotListed {
            if self.made_up {
                fate = Fate::Ok;
            }
            self.made_up = true;
        }
        Act::new(tool, fate)
    }

    /// How long after a call that ended so the next one begins; none when the session is over.
    pub(super) fn pause(&mut self, actor: &mut Actor, fate: Fate) -> Option<i64> {
        self.calls_left -= 1;
        if self.calls_left > 0 && fate != Fate::Limited {
            return Some(actor.dice.skewed(600_000, 6_000_000));
        }
        if self.bursts_left <= 0 {
            return None;
        }
        self.next_burst(actor);
        let least = if fate == Fate::Limited { PAUSE_AFTER_LIMIT } else { PAUSE_MIN };
        Some(actor.dice.skewed(least, PAUSE_MAX))
    }

    fn next_burst(&mut self, actor: &mut Actor) {
        actor.burst += 1;
        self.bursts_left -= 1;
        self.calls_left = actor.dice.between(1, BURST_CALLS_MAX);
        self.destroyed = false;
    }

    fn tool(&self, actor: &mut Actor) -> Tool {
        let dice = &mut actor.dice;
        match (actor.part, self.mode) {
            (Part::Tickets, Mode::Support) => dice.weighted(&[
                (Tool::GetTicket, 32),
                (Tool::SearchTickets, 25),
                (Tool::ListTickets, 18),
                (Tool::UpdateTicket, 10),
                (Tool::PostComment, 10),
                (Tool::SendEmail, 5),
            ]),
            (Part::Tickets, Mode::Research) => dice.weighted(&[
                (Tool::FetchUrl, 40),
                (Tool::SearchTickets, 25),
                (Tool::GetTicket, 25),
                (Tool::ListTickets, 10),
            ]),
            (Part::Tickets, Mode::Outreach) => dice.weighted(&[
                (Tool::FetchUrl, 40),
                (Tool::ListTickets, 25),
                (Tool::PostComment, 20),
                (Tool::SendEmail, 15),
            ]),
            (Part::Desk, _) => dice.weighted(&[
                (Tool::ReadFile, 50),
                (Tool::ListDir, 25),
                (Tool::WriteFile, 17),
                (Tool::DeleteFile, 8),
            ]),
            (Part::Proxy, _) => dice.weighted(&[
                (Tool::ReadNote, 50),
                (Tool::ListNotes, 25),
                (Tool::AppendNote, 20),
                (Tool::DeleteNote, 5),
            ]),
            (Part::Gate, _) => dice.weighted(&[
                (Tool::LookupDocument, 55),
                (Tool::SearchHelp, 30),
                (Tool::ListDeployments, 12),
                (Tool::DeleteDeployment, 3),
            ]),
            (Part::Docs, _) => dice.weighted(&[
                (Tool::OpenDoc, 50),
                (Tool::ListDocs, 22),
                (Tool::SaveDoc, 20),
                (Tool::RemoveDoc, 8),
            ]),
            (Part::Cases, _) => dice.weighted(&[
                (Tool::OpenCase, 45),
                (Tool::FindCases, 30),
                (Tool::NoteCase, 15),
                (Tool::MailCase, 10),
            ]),
        }
    }
}

/// When the actor's next session begins, after one that ended at `ended`.
pub(super) fn next_session(actor: &mut Actor, ended: Micros) -> Micros {
    let away = match actor.part {
        Part::Docs | Part::Cases => actor.dice.skewed(STACK_AWAY_MIN, STACK_AWAY_MAX),
        _ => actor.dice.skewed(AWAY_MIN, AWAY_MAX),
    };
    let ready = ended.plus(away);
    if !actor.is_human || is_working_time(ready) {
        return ready;
    }
    let mut day = ready.0.div_euclid(Micros::DAY);
    if ready.0.rem_euclid(Micros::DAY) >= 8 * Micros::HOUR {
        day += 1;
    }
    while is_weekend(day) {
        day += 1;
    }
    let dawdling = actor.dice.skewed(0, 150 * Micros::MINUTE);
    Micros(day.saturating_mul(Micros::DAY)).plus(8 * Micros::HOUR + dawdling)
}

/// True when the policy or a person says no.
pub(super) const fn is_refusal(fate: Fate) -> bool {
    matches!(fate, Fate::Denied | Fate::NotListed | Fate::Declined | Fate::Cancelled)
}

fn is_working_time(at: Micros) -> bool {
    let day = at.0.div_euclid(Micros::DAY);
    let hours = at.0.rem_euclid(Micros::DAY) / Micros::HOUR;
    !is_weekend(day) && (8..18).contains(&hours)
}

/// 1970 began on a Thursday.
fn is_weekend(day: i64) -> bool {
    matches!((day + 3).rem_euclid(7), 5 | 6)
}

/// What the actor does instead.
fn harmless(part: Part) -> Tool {
    match part {
        Part::Tickets => Tool::ListTickets,
        Part::Desk => Tool::ListDir,
        Part::Proxy => Tool::ListNotes,
        Part::Gate => Tool::SearchHelp,
        Part::Docs => Tool::ListDocs,
        Part::Cases => Tool::FindCases,
    }
}

fn fate(dice: &mut Dice, part: Part, tool: Tool) -> Fate {
    match (part, tool) {
        (Part::Tickets, _) => dice.weighted(&[
            (Fate::Ok, 945),
            (Fate::Error, 25),
            (Fate::Timeout, 5),
            (Fate::Denied, 17),
            (Fate::Limited, 8),
        ]),
        (Part::Gate, _) => dice.weighted(&[
            (Fate::Ok, 945),
            (Fate::Error, 25),
            (Fate::Timeout, 5),
            (Fate::Denied, 17),
            (Fate::NotListed, 4),
            (Fate::Limited, 4),
        ]),
        (_, Tool::DeleteFile) => dice.weighted(&[
            (Fate::Elicited, 770),
            (Fate::Declined, 120),
            (Fate::Cancelled, 60),
            (Fate::Denied, 50),
        ]),
        (_, Tool::WriteFile) => dice.weighted(&[
            (Fate::Ok, 500),
            (Fate::Asked, 400),
            (Fate::Declined, 60),
            (Fate::Error, 40),
        ]),
        (_, Tool::DeleteNote) => dice.weighted(&[(Fate::Ok, 850), (Fate::Denied, 150)]),
        (_, Tool::AppendNote) => {
            dice.weighted(&[(Fate::Ok, 940), (Fate::Error, 30), (Fate::Denied, 30)])
        }
        (Part::Desk, _) => dice.weighted(&[
            (Fate::Ok, 935),
            (Fate::Asked, 15),
            (Fate::Error, 30),
            (Fate::Denied, 15),
            (Fate::Timeout, 5),
        ]),
        (Part::Proxy, _) => dice.weighted(&[(Fate::Ok, 960), (Fate::Error, 40)]),
        (Part::Docs | Part::Cases, _) => dice.weighted(&[
            (Fate::Ok, 770),
            (Fate::Asked, 70),
            (Fate::Elicited, 15),
            (Fate::Error, 65),
            (Fate::Timeout, 15),
            (Fate::Denied, 45),
            (Fate::Declined, 14),
            (Fate::Bypassed, 6),
        ]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_work_on_weekdays() {
        let at = |text| Micros::parse_rfc3339(text).unwrap();
        assert!(is_working_time(at("2026-11-20T09:00:00Z")), "a Friday");
        assert!(!is_working_time(at("2026-11-21T09:00:00Z")), "a Saturday");
        assert!(!is_working_time(at("2026-11-22T09:00:00Z")), "a Sunday");
        assert!(is_working_time(at("2026-11-23T17:59:59Z")), "a Monday");
        assert!(!is_working_time(at("2026-11-23T18:00:00Z")));
    }
}
