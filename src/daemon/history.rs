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

/// An answer, and from when on its calls are wanted; none: all of them.
type Answer = (History, Option<Micros>);

/// Answers every need of a plan.
pub(super) fn histories(
    store: &Store,
    rules: &RuleSet,
    needs: Vec<HistoryNeed>,
) -> Result<Vec<History>, StoreError> {
    let earliest = needs.iter().map(since).min().flatten();
    // Of one statement, all groups have the same fields; a rule with aliases has several.
    let mut by_rule: FxHashMap<(usize, Vec<Text>), Vec<HistoryNeed>> = FxHashMap::default();
    for need in needs {
        by_rule.entry((need.rule, fields_of(&need))).or_default().push(need);
    }
    // Rules that look at the same fields ask for the same calls, mostly.
    let mut by_fields: FxHashMap<Vec<Text>, Vec<Answer>> = FxHashMap::default();
    let loads = if by_rule.is_empty() { Loads::default() } else { loads_by_rule(store, earliest)? };
    for ((rule, fields), needs) in by_rule {
        let name = rules.rules().get(rule).map_or("", |rule| &*rule.name);
        by_fields.entry(fields).or_default().extend(of_rule(store, name, needs, &loads)?);
    }
    let mut shared: FxHashMap<CallId, Arc<Call>> = FxHashMap::default();
    let mut all = Vec::new();
    for (fields, mut answers) in by_fields {
        put_calls(store, &fields, &mut answers, &mut shared)?;
        all.extend(answers.into_iter().map(|(answer, _)| answer));
    }
    Ok(all)
}

/// Alerts on busy groups, by the rule whose groups they are.
type Loads = FxHashMap<Text, Vec<(Pairs, StoredAlert)>>;

fn loads_by_rule(store: &Store, since: Option<Micros>) -> Result<Loads, StoreError> {
    let mut loads = Loads::default();
    for (group, alert) in store.alerts_of(STATE_SATURATED, since, None)? {
        let rule = group.iter().find(|(name, _)| &**name == "rule");
        if let Some((_, rule)) = rule {
            loads.entry(Text::clone(rule)).or_default().push((group, alert));
        }
    }
    Ok(loads)
}

fn fields_of(need: &HistoryNeed) -> Vec<Text> {
    need.group.iter().map(|(field, _)| Text::clone(field)).collect()
}

/// Answers that lack their calls yet.
fn of_rule(
    store: &Store,
    rule: &str,
    needs: Vec<HistoryNeed>,
    loads: &Loads,
) -> Result<Vec<Answer>, StoreError> {
    let width = needs.first().map_or(0, |need| need.group.len());
    let earliest_since = needs.iter().filter_map(since).min();
    let is_whole = needs.iter().any(|need| need.whole);
    let mut alerts: FxHashMap<Pairs, Vec<StoredAlert>> = FxHashMap::default();
    // Where all of the past is wanted, the group is but the beginning of that of each alert.
    let groups: Option<Vec<&[(Text, Text)]>> =
        (!is_whole).then(|| needs.iter().map(|need| &*need.alert_group).collect());
    let earliest = earliest_since.filter(|_| !is_whole);
    for (mut group, alert) in store.alerts_of(rule, earliest, groups.as_deref())? {
        group.truncate(width);
        alerts.entry(group).or_default().push(alert);
    }
    let mut answers: Vec<Answer> = needs
        .into_iter()
        .map(|need| {
            let known = alerts.get(&need.alert_group).map_or(&[][..], Vec::as_slice);
            let of_load = loads
                .get(rule)
                .into_iter()
                .flatten()
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
    Ok(answers)
}

/// Adds their calls to answers whose groups have the same fields.
fn put_calls(
    store: &Store,
    fields: &[Text],
    answers: &mut [Answer],
    shared: &mut FxHashMap<CallId, Arc<Call>>,
) -> Result<(), StoreError> {
    let mut calls: FxHashMap<Vec<Text>, Vec<Arc<Call>>> = FxHashMap::default();
    for call in store.calls_of(&wanted(answers), shared)? {
        let Some(key) = fields.iter().map(|field| value_of(&call, field)).collect() else {
            continue;
        };
        calls.entry(key).or_default().push(call);
    }
    for (answer, from) in answers.iter_mut().filter(|(answer, _)| !answer.need.only_remembered) {
        let key: Vec<Text> =
            answer.need.group.iter().map(|(_, value)| Text::clone(value)).collect();
        let until = answer.need.until(&answer.alerts);
        let is_asked_for = |call: &&Arc<Call>| {
            from.is_none_or(|from| call.at >= Some(from))
                && until.is_none_or(|until| call.at.is_some_and(|at| at <= until))
        };
        let calls = calls.get(&key).into_iter().flatten();
        answer.calls = calls.filter(is_asked_for).cloned().collect();
    }
    Ok(())
}

/// What the answers want, with stretches of one group that meet as one.
fn wanted(answers: &[Answer]) -> Vec<WantedGroup<'_>> {
    let mut wanted: Vec<WantedGroup<'_>> = answers
        .iter()
        .filter(|(answer, _)| !answer.need.only_remembered)
        .map(|(answer, from)| WantedGroup {
            group: &answer.need.group,
            from: *from,
            until: answer.need.until(&answer.alerts),
        })
        .collect();
    wanted.sort_by(|left, right| (left.group, left.from).cmp(&(right.group, right.from)));
    wanted.dedup_by(|next, known| {
        // Without a beginning or an end it is from the first or to the last.
        let meets = next.group == known.group
            && (next.from.is_none() || known.until.is_none_or(|until| next.from <= Some(until)));
        if meets {
            known.until = known.until.zip(next.until).map(|(left, right)| left.max(right));
        }
        meets
    });
    wanted
}

/// Adds what is remembered of the groups of a first-seen rule.
fn remember(store: &Store, rule: &str, answers: &mut [Answer]) -> Result<(), StoreError> {
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
