//! When a mail that could not be sent is tried again.

use crate::model::Micros;

/// The first wait is at most this long, and each further one may be twice as long.
const FIRST_WAIT_MAX: i64 = 5 * Micros::SECOND;
/// No wait is longer.
const WAIT_MAX: i64 = 15 * Micros::MINUTE;
/// No wait is shorter: the chance behind the jitter may come out as nothing.
const WAIT_MIN: i64 = Micros::SECOND;
/// A mail is given up when it is this old ...
const AGE_MAX: i64 = Micros::DAY;
/// ... and was tried this often: after a machine slept over the weekend, or behind the hourly cap,
/// a mail can be older than a day at its first attempt.
const ATTEMPTS_MIN: u32 = 10;

/// The next attempt after one that failed for the time being, or none when the mail is given up.
///
/// `attempts` counts the failed ones before it, `random` is even in [0, 1): the wait is anything up
/// to a ceiling that doubles, so that many mails do not come back at the same moment.
pub fn next_attempt(now: Micros, created_at: Micros, attempts: u32, random: f64) -> Option<Micros> {
    if now.since(created_at) >= AGE_MAX && attempts >= ATTEMPTS_MIN {
        return None;
    }
    Some(now.plus(wait(attempts, random)))
}

/// A wait in microseconds after `failures` earlier failures.
pub(super) fn wait(failures: u32, random: f64) -> i64 {
    // Fifteen minutes are reached at the eighth doubling; more would only overflow.
    let ceiling = (FIRST_WAIT_MAX << failures.min(8)).min(WAIT_MAX);
    #[expect(clippy::cast_possible_truncation, reason = "at most WAIT_MAX")]
    let jittered = (ceiling as f64 * random.clamp(0.0, 1.0)) as i64;
    jittered.max(WAIT_MIN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Micros = Micros(1_795_161_620_000_000);

    fn wait_secs(attempts: u32, random: f64) -> i64 {
        next_attempt(NOW, NOW, attempts, random).unwrap().since(NOW) / Micros::SECOND
    }

    #[test]
    fn the_ceiling_doubles_from_five_seconds_to_fifteen_minutes() {
        let ceilings: Vec<i64> = (0..10).map(|attempts| wait_secs(attempts, 1.0)).collect();
        assert_eq!(ceilings, [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]);
        assert_eq!(wait_secs(u32::MAX, 1.0), 900);
    }

    #[test]
    fn the_wait_is_anything_below_the_ceiling() {
        assert_eq!(wait_secs(3, 0.5), 20);
        assert_eq!(wait_secs(3, 0.0), 1);
    }

    #[test]
    fn a_mail_is_given_up_after_a_day() {
        let yesterday = NOW.minus(Micros::DAY);
        assert_eq!(next_attempt(NOW, yesterday, 100, 0.5), None);
        assert!(next_attempt(NOW, yesterday.plus(1), 100, 0.5).is_some());
    }

    #[test]
    fn an_old_mail_that_was_hardly_tried_is_not_given_up() {
        let long_ago = NOW.minus(3 * Micros::DAY);
        assert!(next_attempt(NOW, long_ago, 0, 0.5).is_some());
        assert_eq!(next_attempt(NOW, long_ago, ATTEMPTS_MIN, 0.5), None);
    }

    proptest! {
        #[test]
        fn the_next_attempt_is_soon_and_later(
            age in any::<i64>(),
            attempts: u32,
            random in 0.0..1.0,
        ) {
            if let Some(next) = next_attempt(NOW, NOW.minus(age), attempts, random) {
                prop_assert!((WAIT_MIN..=WAIT_MAX).contains(&next.since(NOW)));
            }
        }
    }
}
