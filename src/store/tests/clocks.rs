//! What the public view makes of the joins' clock differences.

use super::*;
use crate::model::ClockView;

/// 2026-11-29T00:00:00Z
const DAY: Micros = Micros(1_795_910_400_000_000);

#[test]
fn clocks_are_the_median_and_spread_of_the_bins_of_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    assert_eq!(store.reader().clocks(9).unwrap(), []);
    store
        .connection
        .execute_batch(
            "insert into clock_log values
                 -- Half of ten lie at or below 20; nine of ten within 30 of it; the tenth far away.
                 (1, '2026-11-29 00:10:00', 'client', 'server', 20, 5),
                 (1, '2026-11-29 23:50:00', 'client', 'server', 30, 2),
                 (2, '2026-11-29 23:50:00', 'client', 'server', 50, 2),
                 (2, '2026-11-29 00:00:00', 'client', 'server', -90000, 1),
                 -- Taken back: nothing of it counts.
                 (2, '2026-11-29 00:10:00', 'client', 'server', 700, 40),
                 (3, '2026-11-29 00:10:00', 'client', 'server', 700, -40),
                 (3, '2026-11-29 00:10:00', 'client', 'gone', 10, 1),
                 (4, '2026-11-29 00:10:00', 'client', 'gone', 10, -1),
                 -- Other pairs and days are apart; bins may be as far as they can be.
                 (4, '2026-11-29 00:10:00', 'client', 'gateway', -2147483648, 1),
                 (4, '2026-11-29 00:10:00', 'client', 'gateway', 2147483647, 1),
                 (4, '2026-11-28 00:00:00', 'client', 'server', 1500, 3)",
        )
        .unwrap();
    let view = |day: Micros, lower: &str, samples, offset_ms, spread_ms| ClockView {
        day,
        upper_stream: "client".to_owned(),
        lower_stream: lower.to_owned(),
        samples,
        offset_ms,
        spread_ms,
    };
    let all = [
        view(DAY, "gateway", 2, -2_147_483_648, 4_294_967_295),
        view(DAY, "server", 10, 20, 30),
        view(DAY.minus(Micros::DAY), "server", 3, 1500, 0),
    ];
    assert_eq!(store.reader().clocks(9).unwrap(), all);
    assert_eq!(store.reader().clocks(2).unwrap(), all[..2]);

    // Of one call: its day, and pairs of its own streams.
    let mut seen = Call::clone(&call("seen", 1, OutcomeClass::Ok));
    seen.at = Some(DAY.plus(5 * Micros::HOUR));
    assert!(store.reader().clocks_of(&seen).unwrap().is_empty());
    let mut other = seen.sightings[0].clone();
    (seen.sightings[0].stream, other.stream) = ("server".into(), "client".into());
    seen.sightings.push(other);
    assert_eq!(store.reader().clocks_of(&seen).unwrap(), all[1..2]);
}
