//! What detection asks of the store: the past of the groups that a batch touches and memory does not hold.
//!
//! A batch of late lines can touch thousands of groups. One statement a rule serves them all, and a call that several
//! rules ask for is in memory once.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::detect::{History, HistoryNeed, KnownAlert, RuleSet, STATE_SATURATED};
use crate::model::{Call, CallId, FirstSeen, Micros, Text};
use crate::store::{Store, StoreError, StoredAlert, WantedGroup};

/// Fields of the rule language and their values, in the rule's order.
type Pairs = Vec<(Text, Text)>;

/// Answers every need of a plan.
pub(super) fn histories(
    store: &Store,
    rules: &RuleSet,
    needs: Vec<HistoryNeed>,
) -> Result<Vec<History>, StoreError> {
    // Of one statement, all groups have the same fields; a rule with aliases has several.
    let mut by_rule: FxHashMap<(usize, Vec<Text>), Vec<HistoryNeed>> = FxHashMap::default();
    for need in needs {
        let fields = need.group.iter().map(|(field, _)| Text::clone(field)).collect();
        by_rule.entry((need.rule, fields)).or_default().push(need);
    }
    let mut shared: FxHashMap<CallId, Arc<Call>> = FxHashMap::default();
    let mut answers = Vec::new();
    let loads =
        if by_rule.is_empty() { Vec::new() } else { store.alerts_of(STATE_SATURATED, None)? };
    for ((rule, _), needs) in by_rule {
        let name = rules.rules().get(rule).map_or("", |rule| &*rule.name);
        answers.extend(of_rule(store, name, needs, &loads, &mut shared)?);
    }
    Ok(answers)
}

fn of_rule(
    store: &Store,
    rule: &str,
    needs: Vec<HistoryNeed>,
    loads: &[(Pairs, StoredAlert)],
    shared: &mut FxHashMap<CallId, Arc<Call>>,
) -> Result<Vec<History>, StoreError> {
    let width = needs.first().map_or(0, |need| need.group.len());
    let earliest_since = needs.iter().filter_map(since).min();
    let is_whole = needs.iter().any(|need| need.whole);
    let mut alerts: FxHashMap<Pairs, Vec<StoredAlert>> = FxHashMap::default();
    for (mut group, alert) in store.alerts_of(rule, earliest_since.filter(|_| !is_whole))? {
        group.truncate(width);
        alerts.entry(group).or_default().push(alert);
    }
    let mut answers: Vec<(History, Option<Micros>)> = needs
        .into_iter()
        .map(|need| {
            let known = alerts.get(&need.alert_group).map_or(&[][..], Vec::as_slice);
            let of_load = loads
                .iter()
                .filter(|(group, _)| need.concerns(rule, STATE_SATURATED, group))
                .map(|(_, alert)| (alert, true));
            let known: Vec<KnownAlert> = known
                .iter()
                .map(|alert| (alert, false))
                .chain(of_load)
                .filter(|(alert, _)| {
                    since(&need).is_none_or(|since| alert.last_seen >= Some(since))
                })
                .map(|(alert, is_of_load)| known_alert(alert, is_of_load))
                .collect();
            let earliest = known.iter().filter_map(|alert| alert.closing_at).min();
            let touched = need.touched.min(earliest.unwrap_or(need.touched));
            let from = (!need.whole).then(|| touched.minus(need.reach_micros));
            (History { need, calls: Vec::new(), alerts: known, first_seen: Vec::new() }, from)
        })
        .collect();
    if is_whole {
        remember(store, rule, &mut answers)?;
    }
    let wanted: Vec<WantedGroup<'_>> = answers
        .iter()
        .filter(|(answer, _)| !answer.need.only_remembered)
        .map(|(answer, from)| WantedGroup {
            group: &answer.need.group,
            from: *from,
            until: answer.need.until(&answer.alerts),
        })
        .collect();
    let found = store.calls_of(&wanted)?;
    hand_out(found, &mut answers, shared);
    Ok(answers.into_iter().map(|(answer, _)| answer).collect())
}

/// Gives every answer its calls: those of its group from when on it wants them.
fn hand_out(
    found: Vec<Call>,
    answers: &mut [(History, Option<Micros>)],
    shared: &mut FxHashMap<CallId, Arc<Call>>,
) {
    let mut calls: FxHashMap<Vec<Text>, Vec<Arc<Call>>> = FxHashMap::default();
    let fields: Vec<Text> = answers.first().map_or_else(Vec::new, |(answer, _)| {
        answer.need.group.iter().map(|(field, _)| Text::clone(field)).collect()
    });
    for call in found {
        let Some(key) = fields.iter().map(|field| value_of(&call, field)).collect() else {
            continue;
        };
        let call = shared.entry(call.id).or_insert_with(|| Arc::new(call));
        calls.entry(key).or_default().push(Arc::clone(call));
    }
    for (answer, from) in answers {
        let key: Vec<Text> =
            answer.need.group.iter().map(|(_, value)| Text::clone(value)).collect();
        // One group can be asked for at several times.
        let (from, until) = (*from, answer.need.until(&answer.alerts));
        let is_asked = |call: &&Arc<Call>| {
            from.is_none_or(|from| call.at >= Some(from))
                && until.is_none_or(|until| call.at <= Some(until))
        };
        let calls = calls.get(&key).map_or(&[][..], Vec::as_slice);
        answer.calls = calls.iter().filter(is_asked).cloned().collect();
    }
}

/// Adds what is remembered of the groups of a first-seen rule.
fn remember(
    store: &Store,
    rule: &str,
    answers: &mut [(History, Option<Micros>)],
) -> Result<(), StoreError> {
    if !store.remembers_first_seen()? {
        return Ok(());
    }
    let groups: Vec<&[(Text, Text)]> =
        answers.iter().map(|(answer, _)| &*answer.need.group).collect();
    let mut found: FxHashMap<Pairs, Vec<FirstSeen>> = FxHashMap::default();
    for fact in store.remembered_first_seen(rule, &groups)? {
        let Some((_, others)) = fact.group.split_last() else { continue };
        found.entry(others.to_vec()).or_default().push(fact);
    }
    for (answer, _) in answers {
        answer.first_seen = found.remove(&answer.need.group).unwrap_or_default();
    }
    Ok(())
}

/// From when on alerts matter; none: all of them.
fn since(need: &HistoryNeed) -> Option<Micros> {
    (!need.whole).then(|| need.touched.minus(need.reach_micros))
}

fn known_alert(alert: &StoredAlert, is_of_load: bool) -> KnownAlert {
    KnownAlert {
        id: alert.id,
        closing: alert.closing,
        closing_at: alert.closing_at,
        first_seen: alert.first_seen,
        last_seen: alert.last_seen,
        count: alert.count,
        is_of_load,
    }
}

/// A call's value of a field that rules may group by.
fn value_of(call: &Call, field: &str) -> Option<Text> {
    match field {
        "principal" => call.principal.clone(),
        "client" => call.client.clone(),
        "actor" => Some(Text::clone(&call.actor)),
        "tenant" => call.tenant.clone(),
        "session" => Some(Text::clone(&call.session)),
        "tool.name" => Some(Text::clone(&call.tool)),
        "tool.server" => call.server.clone(),
        "code" => Some(Text::clone(&call.code)),
        _ => None,
    }
}
