//! Hand-made rows for tests: a trifecta, its surroundings and its sources.

mod disputed;
pub(crate) mod rules;
mod sources;

use std::cmp::Ordering;
use std::sync::Arc;

use super::RulesShown;
use super::incident::{Incident, group};
use crate::model::{
    AlertId, AlertState, AlertView, ArgValue, ArgView, Args, Call, CallId, CallView, CandidateCall,
    CandidateView, Certainty, ClockView, DecisionView, Dialect, Discrepancy, EvidenceView,
    JoinedBy, Level, Micros, Names, OutcomeClass, Ran, RecordId, RecordView, RejectView,
    RuleAlerts, SessionId, SessionView, Sighting, SourceView, Step, Text, TimeQuality, Totals, Why,
    Witness, WitnessLine,
};
use crate::store::{AlertFilter, CallFilter, CallQuery};
use sources::{clocks, ingest_event, reject, source, totals};

/// 2026-11-29T10:00:00Z
pub(crate) const START: Micros = Micros(1_795_946_400_000_000);

/// Rows as a store would give them.
#[derive(Default)]
pub(crate) struct Fixture {
    pub(crate) alerts: Vec<AlertView>,
    pub(crate) decisions: Vec<DecisionView>,
    pub(crate) calls: Vec<Call>,
    pub(crate) records: Vec<RecordView>,
    pub(crate) sources: Vec<SourceView>,
    pub(crate) ingest_events: Vec<Call>,
    pub(crate) clocks: Vec<ClockView>,
    pub(crate) rejects: Vec<RejectView>,
    pub(crate) totals: Totals,
    pub(crate) rules: RulesShown,
}

impl Fixture {
    pub(crate) fn alerts(&self, filter: &AlertFilter) -> Vec<AlertView> {
        let within = |alert: &&AlertView| {
            filter.after_seq.is_none_or(|after| alert.seq > after)
                && filter.actor.as_ref().is_none_or(|actor| *actor == alert.actor)
                && filter.from.is_none_or(|from| alert.last_seen.is_some_and(|last| last >= from))
                && filter.to.is_none_or(|to| alert.first_seen.is_some_and(|first| first <= to))
        };
        let limit = filter.limit.unwrap_or(usize::MAX);
        let mut alerts: Vec<_> = self.alerts.iter().filter(within).take(limit).cloned().collect();
        if !filter.with_evidence {
            for alert in &mut alerts {
                alert.evidence.clear();
            }
        }
        alerts
    }

    pub(crate) fn alert(&self, id: AlertId) -> Option<AlertView> {
        self.alerts.iter().find(|alert| alert.id == id).cloned()
    }

    pub(crate) fn rule_alerts(&self) -> Vec<RuleAlerts> {
        let of = |rule: &String| {
            let alerts = || self.alerts.iter().filter(|alert| alert.rule == *rule);
            let retracted = alerts().filter(|alert| alert.retracted.is_some()).count() as u64;
            RuleAlerts {
                rule: rule.clone(),
                alerts: alerts().count() as u64 - retracted,
                retracted,
                last_seen: alerts().filter_map(|alert| alert.last_seen).max(),
            }
        };
        let rules: std::collections::BTreeSet<&String> =
            self.alerts.iter().map(|alert| &alert.rule).collect();
        rules.into_iter().map(of).collect()
    }

    pub(crate) fn decisions(&self, id: AlertId) -> Vec<DecisionView> {
        if self.alerts.first().is_some_and(|alert| alert.id == id) {
            self.decisions.clone()
        } else {
            Vec::new()
        }
    }

    pub(crate) fn call(&self, id: CallId) -> Option<Call> {
        self.calls.iter().find(|call| call.id == id).cloned()
    }

    pub(crate) fn calls(&self, filter: &CallFilter) -> Vec<Call> {
        let within = |call: &&Call| {
            filter.session.as_ref().is_none_or(|session| **session == *call.session)
                && filter.from.is_none_or(|from| call.at.is_some_and(|at| at >= from))
                && filter.to.is_none_or(|to| call.at.is_some_and(|at| at <= to))
        };
        self.calls.iter().filter(within).take(filter.limit).cloned().collect()
    }

    pub(crate) fn call_list(&self, query: &CallQuery) -> Vec<CallView> {
        let within = |call: &CallView| {
            (query.actors.is_empty() || query.actors.contains(&call.actor))
                && (query.tools.is_empty() || query.tools.contains(&call.tool))
                && query.class.is_none_or(|class| call.class == class)
                && query.from.is_none_or(|from| call.at >= from)
                && query.to.is_none_or(|to| call.at <= to)
                && query.after.is_none_or(|(at, id)| {
                    let beyond =
                        if query.is_newest_first { Ordering::Less } else { Ordering::Greater };
                    (call.at, call.id).cmp(&(at, id)) == beyond
                })
        };
        let in_session =
            |call: &&Call| query.session.as_deref().is_none_or(|session| *session == *call.session);
        let calls = self.calls.iter().filter(in_session);
        let mut calls: Vec<CallView> = calls.filter_map(view).filter(within).collect();
        calls.sort_by_key(|call| (call.at, call.id));
        if query.is_newest_first {
            calls.reverse();
        }
        calls.truncate(query.limit);
        calls
    }

    /// All calls as one session.
    pub(crate) fn session(&self) -> Option<SessionView> {
        let calls = self.call_list(&CallQuery { limit: usize::MAX, ..CallQuery::default() });
        let names = |name: fn(&CallView) -> Option<&String>| {
            let mut first: Vec<String> = calls.iter().filter_map(name).cloned().collect();
            first.sort();
            first.dedup();
            Names { total: first.len() as u64 + 3, first }
        };
        Some(SessionView {
            id: SessionId([7; 16]),
            key: self.calls.first()?.session.to_string(),
            first_at: calls.first()?.at,
            last_at: calls.last()?.ended?,
            calls: calls.len() as u64,
            ran: 7,
            denied: 2,
            failed: 1,
            actors: names(|call| Some(&call.actor)),
            clients: names(|call| call.tenant.as_ref()),
            tenants: names(|call| call.tenant.as_ref()),
            servers: names(|call| call.server.as_ref()),
        })
    }

    pub(crate) fn busy_until(&self, to: Micros) -> Option<Micros> {
        self.calls.iter().filter(|call| call.at <= Some(to)).filter_map(|call| call.ended).max()
    }

    pub(crate) fn records_of(&self, call: &Call) -> Vec<RecordView> {
        let step = |record: &&RecordView| {
            call.sightings
                .iter()
                .flat_map(|sighting| &sighting.steps)
                .any(|step| step.record == record.id)
        };
        self.records.iter().filter(step).cloned().collect()
    }

    pub(crate) fn candidates_of(&self, call: &Call) -> Vec<CandidateView> {
        let wanted = call.sightings.iter().flat_map(|sighting| &sighting.candidates);
        wanted
            .map(|record| {
                let call = self.calls.iter().find(|call| call.position == *record);
                CandidateView {
                    record: *record,
                    path: self.sources.first().map(|source| source.path.clone()),
                    call: call.map(|call| CandidateCall {
                        id: call.id,
                        at: call.at,
                        actor: call.actor.to_string(),
                    }),
                }
            })
            .collect()
    }

    pub(crate) fn clocks_of(&self, call: &Call) -> Vec<ClockView> {
        let streams: Vec<&str> = call.sightings.iter().map(|sighting| &*sighting.stream).collect();
        let is_of = |view: &&ClockView| {
            let is_between = [&view.upper_stream, &view.lower_stream]
                .iter()
                .all(|stream| streams.contains(&stream.as_str()));
            is_between && view.day == self.clocks[0].day
        };
        self.clocks.iter().filter(is_of).cloned().collect()
    }
}

fn view(call: &Call) -> Option<CallView> {
    let owned = |text: &Option<Text>| text.as_deref().map(str::to_owned);
    Some(CallView {
        id: call.id,
        at: call.at?,
        ended: call.ended,
        tool: call.tool.to_string(),
        server: owned(&call.server),
        tenant: owned(&call.tenant),
        actor: call.actor.to_string(),
        class: call.class,
        code: call.code.to_string(),
        ran: call.ran,
        witnesses: "client,server".to_owned(),
    })
}

pub(crate) fn alert(id: u8, actor: &str, level: Level) -> AlertView {
    AlertView {
        id: AlertId([id; 16]),
        seq: u64::from(id),
        rule: "error-rate".to_owned(),
        title: "Most calls fail".to_owned(),
        level,
        tags: vec!["atlas.t0053".to_owned()],
        group: vec![("actor".to_owned(), actor.to_owned())],
        actor: actor.to_owned(),
        first_seen: Some(START),
        last_seen: Some(START),
        count: 1,
        why: Why {
            text: "More than half of the calls failed.".to_owned(),
            threshold: 20,
            value: 24,
            timespan: Some(300.0),
        },
        retracted: None,
        state: AlertState::Open,
        close_reason: None,
        evidence: Vec::new(),
        elided: 0,
    }
}

fn record_id(id: u8, witness: u64, step: u64) -> RecordId {
    RecordId { generation: witness, offset: u64::from(id) * 1000 + step * 412, index: 0 }
}

fn sighting(id: u8, witness: Witness, times: &[i64]) -> Sighting {
    let steps: Vec<Step> = (0..)
        .zip(times)
        .map(|(step, at)| {
            let is_last = step + 1 == times.len() as u64;
            let class = if is_last { OutcomeClass::Ok } else { OutcomeClass::Approved };
            Step {
                record: record_id(id, witness as u64, step),
                length: 412,
                at: Some(START.plus(*at)),
                class,
                code: class.as_str().into(),
            }
        })
        .collect();
    let is_lead = witness == Witness::Client;
    Sighting {
        witness,
        dialect: Dialect::TwoSided,
        stream: format!("{}.jsonl", witness.as_str()).into(),
        class: OutcomeClass::Ok,
        code: "ok".into(),
        joined_by: if is_lead { JoinedBy::Alone } else { JoinedBy::Arguments },
        certainty: if is_lead { Certainty::Exact } else { Certainty::Unambiguous },
        attempt: 0,
        candidates: Vec::new(),
        steps,
    }
}

/// A call that client and server saw, `at` microseconds after [`START`].
pub(crate) fn call(id: u8, tool: &str, at: i64) -> Call {
    let server = if tool == "fetch_url" { "web" } else { "tickets" };
    let arg = |name: &str, text: &str| ArgValue {
        name: name.into(),
        text: text.into(),
        hash: 1,
        chars: Some(text.chars().count() as u64),
        summarised: false,
    };
    Call {
        kind: crate::model::EventKind::Call,
        id: CallId([id; 16]),
        at: Some(START.plus(at)),
        stream: "client.jsonl".into(),
        position: record_id(id, Witness::Client as u64, 0),
        ended: Some(START.plus(at + 180_000)),
        duration_ms: Some(180.0),
        tool: tool.into(),
        server: Some(server.into()),
        principal: Some("u-eng".into()),
        client: Some("desk-agent".into()),
        actor: "u-eng".into(),
        tenant: Some("acme".into()),
        session: "s-1".into(),
        class: OutcomeClass::Ok,
        code: "ok".into(),
        decision: Some(OutcomeClass::Approved),
        ran: Ran::Yes,
        args: Args {
            view: ArgView::Full,
            values: if tool == "fetch_url" {
                vec![arg("url", "\"https://evil.example/manual\"")]
            } else {
                vec![
                    arg("query", "\"customer tokens\""),
                    arg("options", "{\"limit\":20,\"fields\":[\"id\",\"body\"]}"),
                ]
            },
            dropped: vec!["cursor".into()],
        },
        flags: vec!["duplicate-key".into()],
        also: Vec::new(),
        request_id: Some("17".into()),
        group_id: None,
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
        ask_to_answer_ms: Some(1240.0),
        sightings: vec![
            sighting(id, Witness::Client, &[at, at + 180_000]),
            sighting(id, Witness::Server, &[at + 90_000]),
        ],
        discrepancies: Vec::new(),
    }
}

fn evidence(stage: &str, call: &Call) -> EvidenceView {
    EvidenceView {
        stage: stage.to_owned(),
        call_id: call.id,
        at: call.at,
        ended: call.ended,
        server: call.server.as_deref().map(str::to_owned),
        tool: call.tool.to_string(),
        code: call.code.to_string(),
        class: call.class,
        ran: call.ran,
        principal: call.principal.as_deref().map(str::to_owned),
        client: call.client.as_deref().map(str::to_owned),
        tenant: call.tenant.as_deref().map(str::to_owned),
        session: call.session.to_string(),
        event: None,
        lines: call
            .sightings
            .iter()
            .flat_map(|sighting| sighting.steps.iter().map(move |step| (sighting, step)))
            .map(|(sighting, step)| WitnessLine {
                witness: sighting.witness,
                file: format!("/var/log/mcp/{}", sighting.stream),
                record: step.record,
                length: step.length,
                text: Some(format!(
                    "{{\"event\":\"tool_call\",\"args\":{}}}",
                    if call.tool.as_ref() == "fetch_url" {
                        "{\"url\":\"https://evil.example/manual\"}"
                    } else {
                        "{}"
                    }
                )),
            })
            .collect(),
    }
}

/// Four calls of one actor that make a trifecta: legs 4.1 s and 5.25 s apart.
pub(crate) fn trifecta() -> (Incident, Vec<Call>) {
    let calls = vec![
        call(11, "fetch_url", 0),
        call(12, "search_tickets", 4_100_000),
        call(13, "search_tickets", 6_800_000),
        call(14, "post_comment", 12_050_000),
    ];
    let stages = ["open-world", "sensitive-read", "sensitive-read", "outbound-write"];
    let alert = AlertView {
        rule: "trifecta-signature".to_owned(),
        title: "Lethal trifecta: foreign content, then sensitive reads, then an outbound write"
            .to_owned(),
        last_seen: calls[3].at,
        why: Why {
            text:
                "Content from outside was read, then sensitive data, then something was sent out."
                    .to_owned(),
            threshold: 3,
            value: 3,
            timespan: Some(60.0),
        },
        evidence: stages.iter().zip(&calls).map(|(stage, call)| evidence(stage, call)).collect(),
        ..alert(1, "u-eng", Level::Critical)
    };
    (group(vec![alert]).remove(0), calls)
}

fn record(call: &Call) -> Vec<RecordView> {
    call.sightings
        .iter()
        .flat_map(|sighting| sighting.steps.iter().map(move |step| (sighting, step)))
        .map(|(sighting, step)| RecordView {
            id: step.record,
            length: step.length,
            witness: sighting.witness,
            dialect: "two-sided".to_owned(),
            stream: sighting.stream.to_string(),
            path: format!("/var/log/mcp/{}", sighting.stream),
            at: step.at,
            time_quality: TimeQuality::Own,
            class: step.class,
            code: step.code.to_string(),
            detail: Some("200 in 180 ms".to_owned()),
            tool: Some(call.tool.to_string()),
            server: call.server.as_deref().map(str::to_owned),
            args: call.args.clone(),
            principal: call.principal.as_deref().map(str::to_owned),
            client: None,
            tenant: call.tenant.as_deref().map(str::to_owned),
            session: None,
            flags: vec!["duplicate-key".to_owned()],
            line: Some(
                r#"{"event":"tool_call","tool":"search_tickets","args":{"query":"customer tokens",
                "options":{"limit":20,"fields":["id","body"]}},"token":"[masked]","outcome":"ok"}"#
                    .replace('\n', ""),
            ),
        })
        .collect()
}

/// A small world: the trifecta, what surrounds it, other incidents, sources and rejects.
pub(crate) fn world() -> Fixture {
    let (incident, mut calls) = trifecta();
    calls.extend([
        call(20, "list_dir", -40_000_000),
        call(21, "read_file", 2_000_000),
        call(22, "search_help", 31_000_000),
        call(23, "list_dir", 200_000_000),
    ]);
    let mut burst = alert(2, "u-eng", Level::Medium);
    burst.rule = "call-burst".to_owned();
    burst.title = "A sensitive tool is called unusually often".to_owned();
    burst.first_seen = calls[1].at;
    burst.last_seen = calls[2].at;
    burst.evidence = calls[1..3].iter().map(|call| evidence("sensitive-call", call)).collect();
    burst.elided = 17;
    calls[3].discrepancies.push(timeout_against_ok());
    let mut alerts = incident.into_alerts();
    alerts.push(burst);
    let others = [
        (3, "u-ann", Level::High, "policy-bypass", "A denied call ran all the same", 3_i64),
        (4, "build-bot", Level::Low, "rubber-stamp", "Approvals faster than anyone can read", 9),
        (5, "u-bob", Level::Informational, "unlisted-tool", "A tool that nobody listed", 26),
        (6, "u-cat", Level::High, "first-cross-tenant", "A tenant this principal never used", 70),
    ];
    for (id, actor, level, rule, title, hours) in others {
        let mut other = alert(id, actor, level);
        (other.rule, other.title) = (rule.to_owned(), title.to_owned());
        other.first_seen = Some(START.minus(hours * Micros::HOUR));
        other.last_seen = other.first_seen.map(|first| first.plus(7_000_000));
        other.evidence = vec![evidence("match", &calls[usize::from(id) % 4])];
        alerts.push(other);
    }
    (alerts[3].state, alerts[4].state) = (AlertState::Acknowledged, AlertState::Closed);
    alerts[4].close_reason = Some(crate::model::CloseReason::Benign);
    alerts[5].retracted = Some("a backdated record moved the first use".to_owned());
    let (disputed, disputed_records) = disputed::disputed();
    let records = calls.iter().flat_map(record).chain(disputed_records).collect();
    calls.push(disputed);
    Fixture {
        rules: rules::rules(),
        decisions: vec![DecisionView {
            at: START.plus(Micros::MINUTE),
            who: "Mara".to_owned(),
            state: AlertState::Acknowledged,
            close_reason: None,
            note: "Looking at it.\nAsked the owner of desk-agent.".to_owned(),
        }],
        records,
        calls,
        ingest_events: vec![ingest_event()],
        clocks: vec![
            clocks(0, "client.jsonl", "server.jsonl", 1_840, 12),
            clocks(0, "client.jsonl", "gateway.jsonl", 0, 3),
            clocks(1, "client.jsonl", "server.jsonl", -61_500, 40),
        ],
        sources: vec![
            source("client", "live", 1),
            source("server", "live", 2),
            source("server", "rotated", 4),
            source("gateway", "gone", 3),
        ],
        rejects: vec![reject()],
        totals: totals(alerts.len() as u64),
        alerts,
    }
}

fn timeout_against_ok() -> Discrepancy {
    Discrepancy::Outcome {
        upper: Witness::Client,
        upper_code: "timeout".into(),
        lower: Witness::Server,
        lower_code: "ok".into(),
    }
}

/// The world with `text` wherever a log could have put it.
pub(crate) fn hostile_world(text: &str) -> Fixture {
    let mut world = world();
    world.rules = rules::hostile_rules(text);
    let owned = || text.to_owned();
    let shared = || Arc::<str>::from(text);
    for alert in &mut world.alerts {
        alert.title = format!("{} {text}", alert.title);
        alert.actor = owned();
        alert.rule = owned();
        alert.tags = vec![owned()];
        alert.group = vec![(owned(), owned())];
        alert.why.text = owned();
        alert.retracted = Some(owned());
        for call in &mut alert.evidence {
            call.stage = format!("{text}{}", call.stage);
            (call.tool, call.code, call.session) = (owned(), owned(), owned());
            (call.server, call.principal, call.client, call.tenant) =
                (Some(owned()), Some(owned()), Some(owned()), Some(owned()));
        }
    }
    for call in &mut world.calls {
        make_hostile(call, text);
    }
    for record in &mut world.records {
        (record.dialect, record.stream, record.path) = (owned(), owned(), owned());
        (record.code, record.detail, record.line) = (owned(), Some(owned()), Some(owned()));
        record.flags = vec![owned()];
        (record.tool, record.server, record.client) = (Some(owned()), Some(owned()), Some(owned()));
        (record.tenant, record.session) = (Some(owned()), Some(owned()));
        // Two values of a principal, so that the page tells of both.
        record.principal = Some(format!("{:?}{text}", record.witness));
        record.args.values.iter_mut().for_each(|arg| (arg.name, arg.text) = (shared(), shared()));
        record.args.dropped = vec![shared()];
    }
    for source in &mut world.sources {
        (source.stream, source.path, source.state) = (owned(), owned(), owned());
    }
    for clocks in &mut world.clocks {
        (clocks.upper_stream, clocks.lower_stream) = (owned(), owned());
    }
    for event in &mut world.ingest_events {
        event.stream = shared();
    }
    for reject in &mut world.rejects {
        (reject.stream, reject.path) = (owned(), owned());
        (reject.reason, reject.head) = (owned(), owned());
    }
    for decision in &mut world.decisions {
        (decision.who, decision.note) = (owned(), owned());
    }
    world.totals.last_mail_error = Some(owned());
    world
}

fn make_hostile(call: &mut Call, text: &str) {
    let shared = || Arc::<str>::from(text);
    (call.tool, call.code, call.session, call.actor) = (shared(), shared(), shared(), shared());
    (call.server, call.principal, call.client) = (Some(shared()), Some(shared()), Some(shared()));
    (call.tenant, call.request_id, call.group_id, call.trace_id) =
        (Some(shared()), Some(shared()), Some(shared()), Some(shared()));
    call.flags = vec![shared()];
    call.also = vec![(shared(), shared())];
    call.args.dropped = vec![shared()];
    call.args.values.iter_mut().for_each(|arg| (arg.name, arg.text) = (shared(), shared()));
    for sighting in &mut call.sightings {
        (sighting.stream, sighting.code) = (shared(), shared());
        sighting.steps.iter_mut().for_each(|step| step.code = shared());
    }
    call.discrepancies = vec![
        Discrepancy::Outcome {
            upper: Witness::Client,
            upper_code: shared(),
            lower: Witness::Server,
            lower_code: shared(),
        },
        Discrepancy::Arguments {
            upper: Witness::Client,
            lower: Witness::Server,
            names: vec![shared()],
        },
        Discrepancy::Unwitnessed { by: Witness::Gateway, stream: shared() },
    ];
}
