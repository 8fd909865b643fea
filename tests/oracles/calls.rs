//! Calls made up for rules.

use std::sync::Arc;

use calltrail::model::{
    ArgValue, ArgView, Args, Call, CallId, EventKind, IdHasher, Labels, Micros, OutcomeClass, Ran,
    RecordId, Text, Tri,
};

/// What varies between calls.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Microseconds.
    pub(super) at: i64,
    pub(super) tool: &'static str,
    pub(super) class: OutcomeClass,
    pub(super) ran: Ran,
    pub(super) principal: Option<&'static str>,
    pub(super) client: Option<&'static str>,
    pub(super) tenant: Option<&'static str>,
    pub(super) session: &'static str,
    pub(super) stream: &'static str,
    pub(super) code: &'static str,
    pub(super) duration_ms: Option<f64>,
    pub(super) flags: Vec<&'static str>,
    pub(super) args: Vec<(&'static str, &'static str)>,
}

impl Shape {
    /// A successful call of `ann`.
    pub(super) const fn at(at: i64, tool: &'static str) -> Self {
        Self {
            at,
            tool,
            class: OutcomeClass::Ok,
            ran: Ran::Yes,
            principal: Some("ann"),
            client: None,
            tenant: None,
            session: "s1",
            stream: "left",
            code: "ok",
            duration_ms: None,
            flags: Vec::new(),
            args: Vec::new(),
        }
    }
}

/// The call of that shape; its number is its place in its log.
pub(super) fn call(shape: &Shape, number: usize) -> Arc<Call> {
    let text = |text: Option<&str>| text.map(Text::from);
    let number = u64::try_from(number).unwrap();
    let mut hasher = IdHasher::new("oracle");
    hasher.number(number);
    let argument = |(name, value): &(&str, &str)| ArgValue {
        name: (*name).into(),
        text: (*value).into(),
        hash: 0,
        chars: None,
        summarised: false,
    };
    Arc::new(Call {
        kind: EventKind::Call,
        id: CallId::from_hasher(&hasher),
        at: Some(Micros(shape.at)),
        stream: shape.stream.into(),
        position: RecordId { generation: 1, offset: number, index: 0 },
        ended: None,
        duration_ms: shape.duration_ms,
        tool: shape.tool.into(),
        server: None,
        principal: text(shape.principal),
        client: text(shape.client),
        actor: shape.principal.or(shape.client).unwrap_or(shape.stream).into(),
        tenant: text(shape.tenant),
        session: shape.session.into(),
        class: shape.class,
        code: shape.code.into(),
        decision: None,
        ran: shape.ran,
        args: Args {
            view: ArgView::Full,
            values: shape.args.iter().map(argument).collect(),
            dropped: Vec::new(),
        },
        flags: shape.flags.iter().map(|flag| Text::from(*flag)).collect(),
        also: Vec::new(),
        request_id: None,
        group_id: None,
        trace_id: None,
        ask_to_answer_ms: None,
        sightings: Vec::new(),
        discrepancies: Vec::new(),
    })
}

pub(super) fn calls(shapes: &[Shape]) -> Vec<Arc<Call>> {
    shapes.iter().enumerate().map(|(number, shape)| call(shape, number)).collect()
}

/// What the tools of made-up calls can do: `all` can do everything.
pub(super) fn labels(call: &Call) -> Labels {
    let can = |tools: &[&str]| if tools.contains(&&*call.tool) { Tri::Yes } else { Tri::No };
    Labels {
        open_world: can(&["fetch", "all"]),
        sensitive: can(&["read", "read_all", "all"]),
        outbound: can(&["send", "all"]),
        ..Labels::default()
    }
}
