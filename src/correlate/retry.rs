//! A call that failed and was made again is one call with attempts, and no burst.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use super::pair::Joined;
use super::unit::Unit;
use crate::model::{ArgView, Args, Micros, OutcomeClass, Text};

/// How long after the end of a failed attempt the next one may begin.
const RETRY_MICROS_MAX: i64 = 10 * Micros::SECOND;
/// Attempts of one call at most: what goes on failing for longer is to be seen call by call.
const ATTEMPTS_MAX: u32 = 16;
/// What ends an attempt that asks for more before it can run.
const INPUT_REQUIRED: &str = "input_required";

/// What all attempts of a call share: who made it, and with what.
type Same<'a> = (&'a Text, u64, [Option<&'a Text>; 3]);

/// Folds each call into the failed one that it repeats. It has to be told by the same log, by the same principal,
/// client and session, with the same arguments, all of them shown; and nobody may say that the failed one went well,
/// since then it ran twice.
pub(super) fn fold(mut calls: Vec<Joined<'_>>) -> Vec<Joined<'_>> {
    if !calls.iter().any(|call| may_be_repeated(call)) {
        return calls;
    }
    calls.sort_by(|left, right| {
        (left.lead.from(), left.lead.stream(), left.lead.unit.base.id).cmp(&(
            right.lead.from(),
            right.lead.stream(),
            right.lead.unit.base.id,
        ))
    });
    let mut folded: Vec<Joined<'_>> = Vec::with_capacity(calls.len());
    let mut last: FxHashMap<Same<'_>, usize> = FxHashMap::default();
    for call in calls {
        let Some(same) = same(&call) else {
            folded.push(call);
            continue;
        };
        let place = last
            .get(&same)
            .copied()
            .filter(|place| folded.get(*place).is_some_and(|before| repeats(before, &call)));
        if let Some(before) = place.and_then(|place| folded.get_mut(place)) {
            let attempt = attempts(before);
            before.units.extend(call.units.into_iter().map(|mut tied| {
                tied.attempt = attempt;
                tied
            }));
        } else {
            last.insert(same, folded.len());
            folded.push(call);
        }
    }
    folded
}

/// Whether a unit may be an attempt that another follows: only then it matters what comes next to it.
pub(super) fn is_failed(unit: &Unit) -> bool {
    let outcome = unit.outcome();
    outcome.class == OutcomeClass::Error || &*outcome.code == INPUT_REQUIRED
}

fn may_be_repeated(call: &Joined<'_>) -> bool {
    call.units.iter().any(|tied| is_failed(tied.seen.unit))
}

fn same<'a>(call: &Joined<'a>) -> Option<Same<'a>> {
    let lead = call.lead.unit;
    let told = &lead.told;
    let who = [told.principal.as_ref(), told.client.as_ref(), told.session.as_ref()];
    call.lead.span?;
    let key = lead.key.or_else(|| key_of(&lead.shown.args))?;
    Some((&lead.base.stream, key, who))
}

/// The same for arguments that one log shows alike: all of them, the long ones perhaps as their length. Of two calls
/// within seconds, one after the other failed, that is enough; of a secret not even the length is known.
fn key_of(args: &Args) -> Option<u64> {
    if args.view != ArgView::Full {
        return None;
    }
    let mut hasher = FxHasher::default();
    for value in &args.values {
        let shown = if value.summarised { value.chars? } else { value.hash };
        (&value.name, value.summarised, shown).hash(&mut hasher);
    }
    Some(hasher.finish())
}

fn attempts(call: &Joined<'_>) -> u32 {
    call.units.last().map_or(1, |tied| tied.attempt + 1)
}

fn repeats(before: &Joined<'_>, call: &Joined<'_>) -> bool {
    let attempt = attempts(before) - 1;
    if attempt + 1 >= ATTEMPTS_MAX {
        return false;
    }
    let of_last = || before.units.iter().filter(|tied| tied.attempt == attempt);
    let went_well = of_last().any(|tied| tied.seen.unit.outcome().class == OutcomeClass::Ok);
    let refused = of_last().any(|tied| tied.seen.unit.is_refused());
    let failed = of_last().any(|tied| is_failed(tied.seen.unit));
    let Some(lead) = of_last().next() else { return false };
    let (Some((_, ended)), Some((begins, _))) = (lead.seen.span, call.lead.span) else {
        return false;
    };
    let waited = begins.since(ended);
    failed && !went_well && !refused && (0..=RETRY_MICROS_MAX).contains(&waited)
}
