//! Incidents: the alerts of one actor that belong together in time. A pure function of the alerts.
//!
//! An incident is named by its earliest alert, but any member's id finds it, so that links outlive
//! late alerts.

use std::collections::BTreeMap;

use crate::model::{AlertId, AlertState, AlertView, CloseReason, Level, Micros};

/// Two alerts of one actor belong together when their times are at most this far apart.
pub const APART_MICROS_MAX: i64 = 30 * Micros::MINUTE;

/// Alerts of one actor with no gap longer than [`APART_MICROS_MAX`]; never empty.
#[derive(Clone, Debug)]
pub struct Incident {
    /// In order of their first call, then by id.
    alerts: Vec<AlertView>,
    lead: usize,
}

impl Incident {
    /// The alerts, in order, as one incident. The caller sees to it that there is at least one.
    pub(crate) fn of(alerts: Vec<AlertView>) -> Self {
        // A retracted alert leads only where there is no other.
        let rank = |alert: &AlertView| (alert.retracted.is_none(), alert.level);
        let mut lead = 0;
        for index in 1..alerts.len() {
            if rank(&alerts[index]) > rank(&alerts[lead]) {
                lead = index;
            }
        }
        Self { alerts, lead }
    }

    pub(crate) fn into_alerts(self) -> Vec<AlertView> {
        self.alerts
    }

    /// The alerts in order of their first call.
    pub fn alerts(&self) -> &[AlertView] {
        &self.alerts
    }

    /// The worst alert that still holds; the earliest of those.
    pub fn lead(&self) -> &AlertView {
        &self.alerts[self.lead]
    }

    /// The id of the earliest alert.
    pub fn id(&self) -> AlertId {
        self.alerts[0].id
    }

    pub fn actor(&self) -> &str {
        &self.alerts[0].actor
    }

    pub fn level(&self) -> Level {
        self.lead().level
    }

    /// Open while any alert is, then acknowledged while any is.
    pub fn state(&self) -> AlertState {
        let any = |state| self.alerts.iter().any(|alert| alert.state == state);
        [AlertState::Open, AlertState::Acknowledged]
            .into_iter()
            .find(|state| any(*state))
            .unwrap_or(AlertState::Closed)
    }

    /// The reason of a closed incident: the leading alert's.
    pub fn close_reason(&self) -> Option<CloseReason> {
        (self.state() == AlertState::Closed).then(|| self.lead().close_reason).flatten()
    }

    pub fn first_seen(&self) -> Option<Micros> {
        self.alerts.iter().filter_map(|alert| span(alert).map(|(first, _)| first)).min()
    }

    pub fn last_seen(&self) -> Option<Micros> {
        self.alerts.iter().filter_map(|alert| span(alert).map(|(_, last)| last)).max()
    }

    /// True when the records no longer show any of it.
    pub fn is_retracted(&self) -> bool {
        self.lead().retracted.is_some()
    }

    pub fn holds(&self, id: AlertId) -> bool {
        self.alerts.iter().any(|alert| alert.id == id)
    }
}

/// The alerts as incidents, the one last seen first; those without a time come last.
pub fn group(mut alerts: Vec<AlertView>) -> Vec<Incident> {
    alerts.sort_by_key(|alert| (span(alert), alert.id));
    let mut by_actor: BTreeMap<String, Vec<AlertView>> = BTreeMap::new();
    for alert in alerts {
        by_actor.entry(alert.actor.clone()).or_default().push(alert);
    }
    let mut incidents: Vec<Incident> = by_actor.into_values().flat_map(split).collect();
    incidents.sort_by_key(|incident| std::cmp::Reverse(sort_key(incident)));
    incidents
}

/// What incidents are listed by, highest first; also the key of a page's end.
pub(crate) fn sort_key(incident: &Incident) -> (Micros, AlertId) {
    (incident.last_seen().unwrap_or(Micros(i64::MIN)), incident.id())
}

/// Cuts one actor's alerts, in order of time, where nothing happened for too long.
fn split(alerts: Vec<AlertView>) -> Vec<Incident> {
    let mut incidents = Vec::new();
    let mut open: Vec<AlertView> = Vec::new();
    let mut end: Option<Micros> = None;
    for alert in alerts {
        let belongs = matches!((span(&alert), end),
            (Some((first, _)), Some(end)) if first.since(end) <= APART_MICROS_MAX);
        if !belongs && !open.is_empty() {
            incidents.push(Incident::of(std::mem::take(&mut open)));
            end = None;
        }
        end = end.max(span(&alert).map(|(_, last)| last));
        open.push(alert);
    }
    if !open.is_empty() {
        incidents.push(Incident::of(open));
    }
    incidents
}

/// First and last time; an alert of a call without a time has none and stays alone.
fn span(alert: &AlertView) -> Option<(Micros, Micros)> {
    let first = alert.first_seen.or(alert.last_seen)?;
    Some((first, alert.last_seen.unwrap_or(first).max(first)))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::alert;
    use super::*;
    use proptest::prelude::*;

    fn at(id: u8, actor: &str, first: i64, last: i64) -> AlertView {
        let mut alert = alert(id, actor, Level::Low);
        (alert.first_seen, alert.last_seen) = (Some(Micros(first)), Some(Micros(last)));
        alert
    }

    fn ids(incident: &Incident) -> Vec<u8> {
        incident.alerts().iter().map(|alert| alert.id.0[0]).collect()
    }

    #[test]
    fn thirty_minutes_join_and_one_microsecond_more_parts() {
        let gap = APART_MICROS_MAX;
        let joined = group(vec![at(1, "a", 0, 5), at(2, "a", 5 + gap, 5 + gap)]);
        assert_eq!(joined.iter().map(ids).collect::<Vec<_>>(), [[1, 2]]);
        let parted = group(vec![at(1, "a", 0, 5), at(2, "a", 6 + gap, 6 + gap)]);
        assert_eq!(parted.iter().map(ids).collect::<Vec<_>>(), [[2], [1]]);
    }

    #[test]
    fn a_long_alert_holds_later_ones_and_actors_stay_apart() {
        let hour = Micros::HOUR;
        let incidents =
            group(vec![at(1, "a", 0, 3 * hour), at(2, "a", hour, hour), at(3, "b", hour, hour)]);
        assert_eq!(incidents.iter().map(ids).collect::<Vec<_>>(), [vec![1, 2], vec![3]]);
    }

    #[test]
    fn alerts_without_a_time_stay_alone() {
        let timeless = |id| AlertView { first_seen: None, last_seen: None, ..at(id, "a", 0, 0) };
        assert_eq!(group(vec![timeless(1), timeless(2), at(3, "a", 0, 0)]).len(), 3);
    }

    #[test]
    fn the_lead_is_the_worst_that_still_holds() {
        let mut worst = at(1, "a", 0, 0);
        worst.level = Level::Critical;
        worst.retracted = Some("gone".to_owned());
        let incident = group(vec![worst, at(2, "a", 1, 1)]).remove(0);
        assert_eq!(incident.lead().id.0[0], 2);
        assert_eq!(incident.id().0[0], 1);
    }

    proptest! {
        #[test]
        fn grouping_depends_on_the_set_alone(
            spans in proptest::collection::vec((0u8..3, 0i64..200, 0i64..40), 0..24),
            seed in any::<u64>(),
        ) {
            let alerts: Vec<_> = (0u8..)
                .zip(&spans)
                .map(|(id, (actor, first, length))| {
                    let first = first * Micros::MINUTE;
                    at(id, &actor.to_string(), first, first + length * Micros::MINUTE)
                })
                .collect();
            let mut shuffled = alerts.clone();
            shuffled.sort_by_key(|alert| {
                blake3::hash(&[&alert.id.0[..], &seed.to_le_bytes()].concat()).to_hex().to_string()
            });
            let (one, two) = (group(alerts.clone()), group(shuffled));
            prop_assert_eq!(
                one.iter().map(ids).collect::<Vec<_>>(),
                two.iter().map(ids).collect::<Vec<_>>()
            );
            let members: usize = one.iter().map(|incident| incident.alerts().len()).sum();
            prop_assert_eq!(members, alerts.len());
            for (left, right) in one.iter().flat_map(|a| one.iter().map(move |b| (a, b))) {
                if left.id() != right.id() && left.actor() == right.actor() {
                    let apart = right.first_seen().unwrap().since(left.last_seen().unwrap())
                        .max(left.first_seen().unwrap().since(right.last_seen().unwrap()));
                    prop_assert!(apart > APART_MICROS_MAX);
                }
            }
        }
    }
}
