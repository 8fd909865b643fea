//! What one mail says, as plain texts: text and HTML are both made of this, so that they cannot
//! differ.
//!
//! Everything in it is inert already. Argument values, results and raw lines have no place here.

use crate::model::{AlertState, AlertView, EvidenceView, Level, Micros, Ran};
use crate::notify::inert::{NAME_CHARS_MAX, inert};

/// Longest title or sentence of a rule, in characters.
pub(super) const SENTENCE_CHARS_MAX: usize = 300;
/// Calls shown; over it the middle is left out.
const CALLS_SHOWN_MAX: usize = 20;
/// Different values of one kind (sessions, tenants ...) shown.
const VALUES_SHOWN_MAX: usize = 3;
/// Group-by fields shown.
const GROUP_FIELDS_SHOWN_MAX: usize = 8;

/// Group-by fields whose values may be in a mail: names and outcome words. Others can hold
/// arguments or paths.
const GROUP_FIELDS: [&str; 12] = [
    "actor",
    "principal",
    "client",
    "tenant",
    "session",
    "tool.name",
    "tool.server",
    "outcome",
    "code",
    "decision",
    "ran",
    "kind",
];

/// One mail's content.
pub(super) struct MailView {
    pub(super) level: Level,
    pub(super) title: String,
    pub(super) facts: Vec<Fact>,
    /// The rule's sentence.
    pub(super) why: String,
    /// The figures behind it.
    pub(super) measure: String,
    pub(super) legs: Vec<Leg>,
    pub(super) link: String,
    pub(super) alert_id: String,
}

/// One line of the summary.
pub(super) struct Fact {
    pub(super) name: &'static str,
    pub(super) value: String,
}

/// One call, or the note that calls are left out here.
pub(super) enum Leg {
    Call {
        number: u64,
        stage: String,
        at: String,
        /// Time since the call shown before it; empty for the first.
        gap: String,
        tool: String,
        server: String,
        outcome: String,
    },
    Elided {
        count: u64,
    },
}

impl MailView {
    /// `base_url` without a slash at its end.
    pub(super) fn new(alert: &AlertView, base_url: &str) -> Self {
        Self {
            level: alert.level,
            title: inert(&alert.title, SENTENCE_CHARS_MAX),
            facts: facts(alert),
            why: inert(&alert.why.text, SENTENCE_CHARS_MAX),
            measure: measure(alert),
            legs: legs(&alert.evidence, alert.elided),
            link: format!("{base_url}/incidents/{}", alert.id),
            alert_id: alert.id.to_string(),
        }
    }
}

/// One of the names a call carries.
type NameOf = fn(&EvidenceView) -> Option<&str>;

fn facts(alert: &AlertView) -> Vec<Fact> {
    let mut facts = vec![
        fact("Rule", name(&alert.rule)),
        fact("Level", alert.level.as_str().to_owned()),
        fact("Actor", name(&alert.actor)),
    ];
    let kinds: [(&str, NameOf); 5] = [
        ("Principal", |call| call.principal.as_deref()),
        ("Client", |call| call.client.as_deref()),
        ("Tenant", |call| call.tenant.as_deref()),
        ("Session", |call| Some(&call.session)),
        ("Server", |call| call.server.as_deref()),
    ];
    for (kind, value) in kinds {
        let values = distinct(alert.evidence.iter().filter_map(value));
        facts.extend(values.map(|values| fact(kind, values)));
    }
    facts.extend(group(alert).map(|group| fact("Group", group)));
    facts.push(fact("First call", utc(alert.first_seen)));
    facts.push(fact("Last call", utc(alert.last_seen)));
    if let (Some(first), Some(last)) = (alert.first_seen, alert.last_seen) {
        facts.push(fact("Within", span(last.since(first))));
    }
    facts.push(fact("Matches", alert.count.to_string()));
    facts.extend(state(alert).map(|state| fact("State", state)));
    if let Some(reason) = &alert.retracted {
        let reason = inert(reason, SENTENCE_CHARS_MAX);
        facts.push(fact("Retracted", format!("the records no longer show it: {reason}")));
    }
    facts
}

fn fact(name: &'static str, value: String) -> Fact {
    Fact { name, value }
}

/// What people made of it before the mail went out; an open alert needs no word.
fn state(alert: &AlertView) -> Option<String> {
    match (alert.state, alert.close_reason) {
        (AlertState::Open, _) => None,
        (state, Some(reason)) => Some(format!("{} ({})", state.as_str(), reason.as_str())),
        (state, None) => Some(state.as_str().to_owned()),
    }
}

/// What the rule groups by; none for a rule that groups by nothing.
fn group(alert: &AlertView) -> Option<String> {
    let shown = alert.group.iter().take(GROUP_FIELDS_SHOWN_MAX).map(|(field, value)| {
        // A field's name is shown inert too: `tool.name` reads as a host.
        if GROUP_FIELDS.contains(&field.as_str()) {
            format!("{} = {}", name(field), name(value))
        } else {
            format!("{} (value in the dashboard)", name(field))
        }
    });
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

fn measure(alert: &AlertView) -> String {
    let why = &alert.why;
    let within = match why.timespan {
        // Timespans come from rule files and are far below what microseconds can hold; the cast
        // saturates.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a saturated span is still shown as very long"
        )]
        Some(seconds) => format!(", within {}", span((seconds * 1e6) as i64)),
        None => String::new(),
    };
    format!("Asked for: {}{within}. There at the first match: {}.", why.threshold, why.value)
}

/// Both ends of a long chain are shown: the cause is at its beginning and the effect at its end.
fn legs(evidence: &[EvidenceView], elided_before: u64) -> Vec<Leg> {
    let over = evidence.len().saturating_sub(CALLS_SHOWN_MAX);
    let head = if over == 0 { evidence.len() / 2 } else { CALLS_SHOWN_MAX / 2 };
    let elided = elided_before + over as u64;
    let mut legs = Vec::with_capacity(evidence.len() - over + 1);
    let mut previous = None;
    for (index, call) in evidence.iter().enumerate() {
        if (head..head + over).contains(&index) {
            continue;
        }
        if index >= head + over && elided > 0 && !legs.iter().any(is_elision) {
            legs.push(Leg::Elided { count: elided });
        }
        let skipped = if index < head { 0 } else { elided_before };
        legs.push(leg(index as u64 + 1 + skipped, call, previous));
        previous = call.at;
    }
    legs
}

fn is_elision(leg: &Leg) -> bool {
    matches!(leg, Leg::Elided { .. })
}

fn leg(number: u64, call: &EvidenceView, previous: Option<Micros>) -> Leg {
    let gap = match (previous, call.at) {
        (Some(previous), Some(at)) => format!("+{}", span(at.since(previous))),
        _ => String::new(),
    };
    let ran = match call.ran {
        Ran::Yes => "ran",
        Ran::No => "did not run",
        Ran::Maybe => "may have run",
    };
    Leg::Call {
        number,
        stage: name(&call.stage),
        at: utc(call.at),
        gap,
        tool: name(&call.tool),
        server: match (&call.server, &call.event) {
            (Some(server), _) => name(server),
            (None, Some(_)) => name(&call.session),
            (None, None) => "server not named".to_owned(),
        },
        outcome: match &call.event {
            Some(event) => format!("the log {event}"),
            None => format!("{}, {ran}", outcome(call)),
        },
    }
}

/// Our class, and the log's own word where it says more.
fn outcome(call: &EvidenceView) -> String {
    let class = call.class.as_str();
    if call.code == class { class.to_owned() } else { format!("{class} ({})", name(&call.code)) }
}

/// The different values in order of appearance; none if there are none.
fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut seen: Vec<&str> = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    let mut shown: Vec<String> = seen.iter().take(VALUES_SHOWN_MAX).copied().map(name).collect();
    if seen.len() > VALUES_SHOWN_MAX {
        shown.push(format!("{} more", seen.len() - VALUES_SHOWN_MAX));
    }
    (!shown.is_empty()).then(|| shown.join(", "))
}

fn name(text: &str) -> String {
    inert(text, NAME_CHARS_MAX)
}

fn utc(at: Option<Micros>) -> String {
    match at {
        Some(at) => at.to_datetime().format("%Y-%m-%d %H:%M:%S%.3f UTC").to_string(),
        None => "no time in the log".to_owned(),
    }
}

/// A length of time in its two largest units, exact to the millisecond below a minute.
fn span(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let millis = micros.unsigned_abs() / 1000;
    let seconds = millis / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{sign}{seconds}.{:03} s", millis % 1000),
        (0, 0, _) => format!("{sign}{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{sign}{hours} h {} min", minutes % 60),
        _ => format!("{sign}{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::fixture::trifecta;

    #[test]
    fn spans_read_well() {
        let seconds = |count: i64| span(count * Micros::SECOND);
        assert_eq!(span(3_200_900), "3.200 s");
        assert_eq!(span(-50_000), "-0.050 s");
        assert_eq!(seconds(192), "3 min 12 s");
        assert_eq!(seconds(7_500), "2 h 5 min");
        assert_eq!(seconds(200_000), "2 d 7 h");
    }

    #[test]
    fn a_long_chain_keeps_its_ends_and_says_what_is_missing() {
        let mut alert = trifecta();
        let call = alert.evidence[0].clone();
        alert.evidence = vec![call; CALLS_SHOWN_MAX + 5];
        alert.elided = 100;
        let legs = MailView::new(&alert, "http://x").legs;
        assert_eq!(legs.len(), CALLS_SHOWN_MAX + 1);
        let numbers: Vec<u64> = legs
            .iter()
            .map(|leg| match leg {
                Leg::Call { number, .. } => *number,
                Leg::Elided { count } => 1000 + count,
            })
            .collect();
        assert_eq!(numbers[9..12], [10, 1105, 116]);
        assert_eq!(numbers.last(), Some(&125));
    }

    #[test]
    fn values_of_argument_fields_stay_out() {
        let mut alert = trifecta();
        alert.group = vec![("args.url".into(), "CANARY".into()), ("tenant".into(), "acme".into())];
        let group = group(&alert).unwrap();
        assert_eq!(group, "args[.]url (value in the dashboard), tenant = acme");
    }

    #[test]
    fn many_sessions_are_counted() {
        let sessions = ["a", "b", "a", "c", "d", "e"];
        assert_eq!(distinct(sessions.into_iter()).unwrap(), "a, b, c, 2 more");
        assert_eq!(distinct(std::iter::empty()), None);
    }
}
