//! First calls that are remembered from an earlier database, as calls that first-seen rules can look at.

use std::sync::Arc;

use crate::model::{Args, Call, EventKind, FirstSeen, OutcomeClass, Ran, RecordId, Text};

use super::chain::Event;

/// A call of which only what the fact says is known: no record of it is stored.
pub(super) fn remembered(fact: &FirstSeen) -> Event {
    let value = |field: &str| {
        fact.group.iter().find(|(name, _)| **name == *field).map(|(_, value)| Text::clone(value))
    };
    let (principal, client) = (value("principal"), value("client"));
    let actor = value("actor").or_else(|| principal.clone()).or_else(|| client.clone());
    let actor = actor.unwrap_or_else(|| Text::clone(&fact.stream));
    let call = Call {
        kind: EventKind::Call,
        id: fact.call_id,
        at: Some(fact.at),
        stream: Text::clone(&fact.stream),
        position: RecordId { generation: 0, offset: 0, index: 0 },
        ended: None,
        duration_ms: None,
        tool: value("tool.name").unwrap_or_else(|| Text::clone(&fact.tool)),
        server: value("tool.server").or_else(|| fact.server.clone()),
        principal,
        client,
        session: value("session").unwrap_or_else(|| Text::clone(&actor)),
        actor,
        tenant: value("tenant"),
        class: OutcomeClass::Unknown,
        code: value("code").unwrap_or_else(|| Text::clone(&fact.code)),
        decision: None,
        ran: Ran::Maybe,
        args: Args::default(),
        flags: Vec::new(),
        also: Vec::new(),
        request_id: None,
        group_id: None,
        trace_id: None,
        ask_to_answer_ms: None,
        sightings: Vec::new(),
        discrepancies: Vec::new(),
    };
    Event::new(fact.at, 1, &Arc::new(call))
}

/// Whether a call is one of these: every other has its place in a file, and those are numbered from one.
pub(super) fn is_remembered(call: &Call) -> bool {
    call.kind == EventKind::Call && call.position.generation == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::field::GroupField;
    use crate::model::{CallId, Micros};

    #[test]
    fn a_remembered_call_is_in_the_group_that_it_was_in() {
        let fields = [
            "principal",
            "client",
            "actor",
            "tenant",
            "session",
            "tool.name",
            "tool.server",
            "code",
        ];
        let fact = FirstSeen {
            rule: "r".into(),
            group: fields.map(|field| (field.into(), format!("its {field}").into())).into(),
            at: Micros(3),
            stream: "log".into(),
            call_id: CallId([1; 16]),
            tool: "t".into(),
            server: None,
            code: "ok".into(),
            is_gone: false,
        };
        let event = remembered(&fact);
        for (field, value) in &fact.group {
            let field = GroupField::parse(field).unwrap();
            assert_eq!(field.value(event.call().unwrap()), Some(value));
        }
        assert!(is_remembered(event.call().unwrap()));
    }
}
