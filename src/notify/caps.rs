//! How many mails may go out in an hour. What is over is put off, never dropped.

use std::collections::{HashMap, VecDeque};

use crate::model::{Level, Micros};
use crate::notify::config::Limits;

/// The caps of all levels. They live in memory: after a restart the hour begins anew.
pub(super) struct Caps {
    critical: Cap,
    others: Cap,
}

/// Whether a mail may go out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Now,
    /// It has a place reserved at that time.
    At(Micros),
}

impl Caps {
    pub(super) fn new(limits: Limits) -> Self {
        Self { critical: Cap::new(limits.critical_hourly_max), others: Cap::new(limits.hourly_max) }
    }

    /// Gives the mail with this outbox id its place. A mail keeps its place over all its attempts.
    pub(super) fn admit(&mut self, level: Level, mail: u64, now: Micros) -> Admission {
        self.of(level).admit(mail, now)
    }

    /// The mail is sent or given up: its place is not needed again, but counts on for its hour.
    pub(super) fn settle(&mut self, level: Level, mail: u64) {
        self.of(level).places.remove(&mail);
    }

    fn of(&mut self, level: Level) -> &mut Cap {
        if level == Level::Critical { &mut self.critical } else { &mut self.others }
    }
}

/// Places are given in a row: the one after the next `hourly_max` is at least an hour later.
struct Cap {
    hourly_max: usize,
    /// The last `hourly_max` places, oldest first; those of the future are reserved.
    given: VecDeque<Micros>,
    /// Places of mails that are still owed.
    places: HashMap<u64, Micros>,
}

impl Cap {
    fn new(hourly_max: usize) -> Self {
        // A cap of nothing would never let a mail out, which would be a drop.
        Self { hourly_max: hourly_max.max(1), given: VecDeque::new(), places: HashMap::new() }
    }

    fn admit(&mut self, mail: u64, now: Micros) -> Admission {
        let place = match self.places.get(&mail) {
            Some(place) => *place,
            None => self.reserve(mail, now),
        };
        if place <= now { Admission::Now } else { Admission::At(place) }
    }

    fn reserve(&mut self, mail: u64, now: Micros) -> Micros {
        let place = if self.given.len() < self.hourly_max {
            now
        } else {
            self.given.pop_front().map_or(now, |oldest| oldest.plus(Micros::HOUR).max(now))
        };
        self.given.push_back(place);
        self.places.insert(mail, place);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Micros = Micros(1_795_161_620_000_000);

    fn caps() -> Caps {
        Caps::new(Limits { hourly_max: 3, critical_hourly_max: 2, ..Limits::default() })
    }

    #[test]
    fn a_flood_is_spread_and_nothing_is_dropped() {
        let mut caps = caps();
        let places: Vec<Micros> = (0..10)
            .map(|mail| match caps.admit(Level::Low, mail, NOW) {
                Admission::Now => NOW,
                Admission::At(place) => place,
            })
            .collect();
        let hours: Vec<i64> = places.iter().map(|place| place.since(NOW) / Micros::HOUR).collect();
        assert_eq!(hours, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]);
        for (mail, place) in (0..10).zip(places) {
            assert_eq!(caps.admit(Level::Low, mail, place), Admission::Now);
        }
    }

    #[test]
    fn others_do_not_hold_up_critical_mails() {
        let mut caps = caps();
        for mail in 0..50 {
            caps.admit(Level::High, mail, NOW);
        }
        assert_eq!(caps.admit(Level::Critical, 50, NOW), Admission::Now);
        assert_eq!(caps.admit(Level::Critical, 51, NOW), Admission::Now);
        assert_eq!(caps.admit(Level::Critical, 52, NOW), Admission::At(NOW.plus(Micros::HOUR)));
    }

    #[test]
    fn further_attempts_take_no_further_place() {
        let mut caps = caps();
        for _ in 0..20 {
            assert_eq!(caps.admit(Level::Low, 1, NOW), Admission::Now);
        }
        assert_eq!(caps.admit(Level::Low, 2, NOW), Admission::Now);
        caps.settle(Level::Low, 1);
        caps.settle(Level::Low, 2);
        assert!(caps.others.places.is_empty());
        // What was sent counts on for its hour.
        assert_eq!(caps.admit(Level::Low, 3, NOW), Admission::Now);
        assert_ne!(caps.admit(Level::Low, 4, NOW), Admission::Now);
        assert_eq!(caps.admit(Level::Low, 5, NOW.plus(2 * Micros::HOUR)), Admission::Now);
    }
}
