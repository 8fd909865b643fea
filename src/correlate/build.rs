//! Makes the joined call of its units: whose word counts for what.

use crate::model::{
    Call, Discrepancy, EventKind, Micros, OutcomeClass, Ran, Record, Sighting, Text, Witness,
};

use super::arguments::{Agreement, agreement, differing};
use super::pair::{Joined, Tied};
use super::unit::{Unit, says_arguments};

/// Builds the call. `occurrence` counts the lead unit among its equals (same stream, time, tool, word, ids).
pub(super) fn build(joined: &Joined<'_>, occurrence: usize) -> Call {
    let units: Vec<&Unit> = joined.units.iter().map(|tied| tied.seen.unit).collect();
    let lead = units[0];
    let nearest = units[units.len() - 1];
    let shown = units
        .iter()
        .map(|unit| &unit.shown)
        .max_by_key(|record| (record.args.view, std::cmp::Reverse(record.witness)))
        .filter(|record| says_arguments(record));
    let first_of = |field: fn(&Record) -> Option<&Text>| first_known(&units, field);
    let principal = first_of(|record| record.principal.as_ref());
    let client = first_of(|record| record.client.as_ref());
    let stream = Text::clone(&lead.base.stream);
    let discrepancies = discrepancies(joined);
    let outcome = nearest.outcome();
    Call {
        kind: EventKind::Call,
        id: lead.call_id(occurrence),
        at: lead.at(),
        position: lead.base.id,
        ended: units.iter().filter_map(|unit| unit.last_at()).max(),
        duration_ms: nearest_known(&units, |record| record.duration_ms),
        tool: lead.base.tool.clone().unwrap_or_default(),
        server: first_of(|record| record.server.as_ref()),
        actor: principal.clone().or_else(|| client.clone()).unwrap_or_else(|| Text::clone(&stream)),
        tenant: first_of(|record| record.tenant.as_ref()),
        session: session_key(
            first_of(|record| record.session.as_ref()),
            principal.as_ref(),
            client.as_ref(),
            &stream,
        ),
        principal,
        client,
        class: outcome.class,
        code: Text::clone(&outcome.code),
        decision: decision(&units),
        ran: ran(&units),
        args: shown.map(|record| record.args.clone()).unwrap_or_default(),
        flags: flags(&units),
        also: units.iter().flat_map(|unit| unit.told.also.iter().cloned()).collect(),
        request_id: first_of(|record| record.request_id.as_ref()),
        group_id: first_of(|record| record.group_id.as_ref()),
        trace_id: first_of(|record| record.trace_id.as_ref()),
        ask_to_answer_ms: units.iter().find_map(|unit| ask_to_answer_ms(unit)),
        sightings: joined.units.iter().map(sighting).collect(),
        discrepancies,
        stream,
    }
}

/// An explicit session id, else (principal, client), else the stream. Traces join records, not sessions.
pub(super) fn session_key(
    explicit: Option<Text>,
    principal: Option<&Text>,
    client: Option<&Text>,
    stream: &Text,
) -> Text {
    match (explicit, principal, client) {
        (Some(session), ..) => session,
        (None, Some(principal), Some(client)) => format!("{principal} via {client}").into(),
        (None, Some(principal), None) => Text::clone(principal),
        (None, None, _) => Text::clone(stream),
    }
}

fn first_known(units: &[&Unit], field: fn(&Record) -> Option<&Text>) -> Option<Text> {
    units.iter().find_map(|unit| field(&unit.told)).cloned()
}

/// What the witness nearest to the work knows.
fn nearest_known(units: &[&Unit], field: fn(&Record) -> Option<f64>) -> Option<f64> {
    units.iter().rev().find_map(|unit| field(&unit.told))
}

/// Who decides is client, gateway or proxy; a refusal by any of them outweighs another's approval.
fn decision(units: &[&Unit]) -> Option<OutcomeClass> {
    let deciders = || {
        units
            .iter()
            .filter(|unit| unit.witness() != Witness::Server)
            .flat_map(|unit| unit.steps.iter().map(|step| step.class))
    };
    deciders()
        .find(|class| matches!(class, OutcomeClass::Denied | OutcomeClass::Declined))
        .or_else(|| deciders().find(|class| *class == OutcomeClass::Approved))
}

fn ran(units: &[&Unit]) -> Ran {
    if units.iter().any(|unit| unit.shows_run()) {
        Ran::Yes
    } else if units.iter().any(|unit| unit.is_refused()) {
        Ran::No
    } else {
        Ran::Maybe
    }
}

/// From the question to the first answer.
fn ask_to_answer_ms(unit: &Unit) -> Option<f64> {
    let asked = unit.steps.iter().position(|step| step.class == OutcomeClass::Asked)?;
    let answered = unit.steps.iter().skip(asked).find(|step| {
        matches!(step.class, OutcomeClass::Approved | OutcomeClass::Denied | OutcomeClass::Declined)
    })?;
    let waited: Micros = Micros(answered.at?.since(unit.steps[asked].at?));
    Some(waited.0 as f64 / 1000.0)
}

fn flags(units: &[&Unit]) -> Vec<Text> {
    let mut flags: Vec<Text> =
        units.iter().flat_map(|unit| unit.told.flags.iter().cloned()).collect();
    flags.sort();
    flags.dedup();
    flags
}

fn sighting(tied: &Tied<'_>) -> Sighting {
    let unit = tied.seen.unit;
    let outcome = unit.outcome();
    Sighting {
        witness: unit.witness(),
        dialect: unit.base.dialect,
        stream: Text::clone(&unit.base.stream),
        class: outcome.class,
        code: Text::clone(&outcome.code),
        joined_by: tied.joined_by,
        certainty: tied.certainty,
        attempt: tied.attempt,
        candidates: tied.candidates.clone(),
        steps: unit.steps.clone(),
    }
}

fn discrepancies(joined: &Joined<'_>) -> Vec<Discrepancy> {
    let mut found = Vec::new();
    for (index, upper) in joined.units.iter().enumerate() {
        found.extend(change_of_mind(upper.seen.unit));
        let of_attempt = |lower: &&Tied<'_>| lower.attempt == upper.attempt;
        for lower in joined.units[index + 1..].iter().filter(of_attempt) {
            let (upper, lower) = (upper.seen.unit, lower.seen.unit);
            found.extend(disagreement(upper, lower));
            found.extend(changed_arguments(upper, lower));
        }
    }
    found
}

/// What one witness's own records say differently of the arguments.
fn change_of_mind(unit: &Unit) -> Option<Discrepancy> {
    let (witness, names) = (unit.witness(), unit.changed.clone());
    (!names.is_empty()).then_some(Discrepancy::Arguments { upper: witness, lower: witness, names })
}

/// Only an id ties records whose arguments contradict each other.
fn changed_arguments(upper: &Unit, lower: &Unit) -> Option<Discrepancy> {
    let (above, below) = (&upper.shown.args, &lower.shown.args);
    (agreement(above, below) == Agreement::Contradicts).then(|| Discrepancy::Arguments {
        upper: upper.witness(),
        lower: lower.witness(),
        names: differing(above, below),
    })
}

fn disagreement(upper: &Unit, lower: &Unit) -> Option<Discrepancy> {
    for (refuser, runner) in [(upper, lower), (lower, upper)] {
        if !refuser.is_refused() || !runner.shows_run() {
            continue;
        }
        let agreed = agreement(&refuser.shown.args, &runner.shown.args);
        let tied = agreed >= Agreement::Some
            || agreed != Agreement::Contradicts && refuser.shares_trace(runner);
        if tied {
            return Some(Discrepancy::RanThoughDenied {
                denied_by: refuser.witness(),
                ran_by: runner.witness(),
            });
        }
    }
    let (above, below) = (upper.outcome(), lower.outcome());
    let differ = above.class.is_terminal()
        && below.class.is_terminal()
        && above.class != below.class
        && above.class != OutcomeClass::Unknown
        && below.class != OutcomeClass::Unknown;
    differ.then(|| Discrepancy::Outcome {
        upper: upper.witness(),
        upper_code: Text::clone(&above.code),
        lower: lower.witness(),
        lower_code: Text::clone(&below.code),
    })
}
