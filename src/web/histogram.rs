//! The volume picture above the list: alerts over time by level, each bar a link to its stretch of
//! time.

use super::filter::Filter;
use super::shown::{Px, Severity, Shown, clock_text, counted};
use crate::model::{AlertView, Level, Micros};

pub(crate) const WIDTH: f64 = 960.0;
pub(crate) const HEIGHT: f64 = 64.0;
const BARS: i64 = 48;

/// Alerts over time.
pub(crate) struct Histogram {
    pub(crate) bars: Vec<Bar>,
    pub(crate) from: Shown,
    pub(crate) to: Shown,
    pub(crate) most: usize,
}

/// The alerts that began in one stretch of time.
pub(crate) struct Bar {
    pub(crate) x: Px,
    pub(crate) width: Px,
    pub(crate) title: Shown,
    pub(crate) address: String,
    pub(crate) parts: Vec<Part>,
}

/// The alerts of one level in a bar, worst at the bottom.
pub(crate) struct Part {
    pub(crate) y: Px,
    pub(crate) height: Px,
    pub(crate) severity: Severity,
}

impl Histogram {
    /// None when there are too few different times to draw.
    pub(crate) fn new(alerts: &[AlertView], filter: &Filter) -> Option<Self> {
        let times = || alerts.iter().filter_map(|alert| alert.first_seen);
        let (from, to) = (times().min()?, times().max()?);
        let step = to.since(from) / BARS + 1;
        if to == from {
            return None;
        }
        let mut counts = vec![[0_usize; Level::ALL.len()]; usize::try_from(BARS).ok()?];
        for alert in alerts {
            let slot = alert.first_seen.and_then(|at| usize::try_from(at.since(from) / step).ok());
            if let Some(slot) = slot.and_then(|slot| counts.get_mut(slot)) {
                slot[alert.level as usize] += 1;
            }
        }
        let most = counts.iter().map(|slot| slot.iter().sum::<usize>()).max()?;
        let width = WIDTH / BARS as f64;
        let bars = (0..BARS)
            .zip(&counts)
            .filter(|(_, slot)| slot.iter().any(|count| *count > 0))
            .map(|(index, slot)| {
                let start = from.plus(index * step);
                let total = slot.iter().sum::<usize>() as u64;
                Bar {
                    x: Px(index as f64 * width + 1.0),
                    width: Px(width - 2.0),
                    title: Shown::new(&format!(
                        "{} from {}",
                        counted(total, "alert"),
                        clock_text(start)
                    )),
                    address: filter.address_within(start, start.plus(step - 1)),
                    parts: stack(slot, most),
                }
            })
            .collect();
        let label = |at| Shown::new(&clock_text(at));
        Some(Self { bars, from: label(from), to: label(to), most })
    }
}

/// The levels of one bar on top of each other; each at least two units high, so that a single alert
/// is seen.
fn stack(slot: &[usize; Level::ALL.len()], most: usize) -> Vec<Part> {
    let mut y = HEIGHT;
    let mut parts = Vec::new();
    for level in Level::ALL.into_iter().rev() {
        let count = slot[level as usize];
        if count > 0 {
            let height = (count as f64 / most as f64 * HEIGHT).max(2.0);
            y = (y - height).max(0.0);
            parts.push(Part { y: Px(y), height: Px(height), severity: Severity(level) });
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::alert;
    use super::*;

    #[test]
    fn every_alert_with_a_time_is_in_one_bar() {
        let alerts: Vec<_> = (0..40_u8)
            .map(|id| {
                let level = Level::ALL[usize::from(id) % 5];
                let mut alert = alert(id, "a", level);
                alert.first_seen = Some(Micros(i64::from(id) * i64::from(id) * Micros::MINUTE));
                alert
            })
            .collect();
        let histogram = Histogram::new(&alerts, &Filter::default()).unwrap();
        let total: u64 = histogram
            .bars
            .iter()
            .map(|bar| bar.title.as_str().split(' ').next().unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(total, 40);
        assert!(Histogram::new(&alerts[..1], &Filter::default()).is_none());
    }
}
