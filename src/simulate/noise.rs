//! What goes wrong with logs of their own accord: clocks that are off, lines that come late or never.

use super::dice::Dice;
use super::scenario::Noise;
use crate::model::Micros;

/// The farthest that a clock is set at once.
const STEP_MAX: i64 = 10 * Micros::SECOND;
/// When a clock is set, after the scenario's start.
const STEP_AFTER_MIN: i64 = 12 * Micros::HOUR;
const STEP_AFTER_MAX: i64 = 96 * Micros::HOUR;
/// How long a log stands still.
const STALL_MIN: i64 = 30 * Micros::SECOND;
const STALL_MAX: i64 = Micros::HOUR;

/// A clock that is off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Micros,
    offset: i64,
    drift_a_day: i64,
    step_at: Micros,
    step: i64,
    off_max: i64,
}

impl Clock {
    pub(super) fn new(dice: &mut Dice, noise: &Noise, start: Micros) -> Self {
        let mut up_to = |ms: u32| {
            let most = i64::from(ms) * 1000;
            dice.between(-most, most)
        };
        let (offset, drift_a_day) = (up_to(noise.skew_ms_max), up_to(noise.drift_ms_a_day_max));
        let is_stepped = dice.chance(u64::from(noise.stepped_percent) * 10);
        let step = if is_stepped { dice.between(-STEP_MAX, STEP_MAX) } else { 0 };
        let step_at = start.plus(dice.between(STEP_AFTER_MIN, STEP_AFTER_MAX));
        let off_max = match noise.off_ms_max {
            0 => i64::MAX,
            ms => i64::from(ms) * 1000,
        };
        Self { start, offset, drift_a_day, step_at, step, off_max }
    }

    /// How far ahead it is at a true time, in microseconds.
    pub(super) fn ahead(&self, at: Micros) -> i64 {
        let drifted = i128::from(at.since(self.start)) * i128::from(self.drift_a_day);
        let drifted = i64::try_from(drifted / i128::from(Micros::DAY)).unwrap_or(0);
        let step = if at >= self.step_at { self.step } else { 0 };
        (self.offset + drifted + step).clamp(-self.off_max, self.off_max)
    }
}

/// The times at which a log stands still; its lines are written when it goes on.
pub(super) struct Stalls {
    dice: Dice,
    late_percent: i64,
    /// In order, up to the last time that was asked for.
    windows: Vec<(Micros, Micros)>,
    known_until: Micros,
}

impl Stalls {
    pub(super) fn new(dice: Dice, noise: &Noise, start: Micros) -> Self {
        let late_percent = i64::from(noise.late_percent.min(90));
        Self { dice, late_percent, windows: Vec::new(), known_until: start }
    }

    /// When a line that is due at a time is written.
    pub(super) fn written(&mut self, due: Micros) -> Micros {
        if self.late_percent == 0 {
            return due;
        }
        while self.known_until <= due {
            let length = self.dice.skewed(STALL_MIN, STALL_MAX);
            let between = 2 * length * (100 - self.late_percent) / self.late_percent;
            let from = self.known_until.plus(self.dice.between(0, between));
            self.known_until = from.plus(length);
            self.windows.push((from, self.known_until));
        }
        let place = self.windows.partition_point(|(_, to)| *to <= due);
        self.windows.get(place).filter(|(from, _)| *from <= due).map_or(due, |(_, to)| *to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_stands_still_for_its_share_of_the_time() {
        let noise = Noise { late_percent: 5, ..Noise::default() };
        let mut stalls = Stalls::new(Dice::new(3, 1), &noise, Micros(0));
        let minutes = 400 * 24 * 60;
        let (mut late, mut last) = (0, Micros(0));
        for minute in 0..minutes {
            let due = Micros(minute * Micros::MINUTE);
            let written = stalls.written(due);
            assert!(written >= last, "lines stay in order");
            assert!(written.since(due) <= Micros::HOUR);
            late += i64::from(written > due);
            last = written;
        }
        assert!((30..70).contains(&(late * 1000 / minutes)), "{late} of {minutes}");
    }

    #[test]
    fn a_clock_drifts_and_is_set_once() {
        let noise = Noise { drift_ms_a_day_max: 1_000, stepped_percent: 100, ..Noise::default() };
        let clock = Clock::new(&mut Dice::new(1, 1), &noise, Micros(0));
        let day = |number: i64| clock.ahead(Micros(number * Micros::DAY));
        assert_eq!(day(0), 0);
        assert_eq!(day(9) - day(8), day(8) - day(7));
        assert_ne!(day(5) - day(0), 5 * (day(9) - day(8)), "it was set in between");
        let kept = Noise { off_ms_max: 500, ..noise };
        let clock = Clock::new(&mut Dice::new(1, 1), &kept, Micros(0));
        let farthest = (0..30).map(|number| clock.ahead(Micros(number * Micros::DAY)).abs()).max();
        assert_eq!(farthest, Some(500_000));
    }
}
