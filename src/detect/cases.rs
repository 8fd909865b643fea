//! The cases under `tests:`: calls described in a line each, or raw lines of logs, and what must fire.

use std::sync::Arc;

use crate::model::{
    ArgValue, ArgView, Args, Call, CallId, Certainty, Dialect, Discrepancy, EventKind, IdHasher,
    JoinedBy, Label, Labels, Micros, OutcomeClass, Ran, RecordId, Sighting, Step, Text, Tri,
    Witness,
};

use super::allowance::Allowance;
use super::field::did_you_mean;
use super::firing::{FIRINGS_MAX, Firing, Named};
use super::logs::{self, CaseLog};
use super::problem::Problems;
use super::yaml::{Entry, Node, Value, entry};

/// One case of a rule file.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) given: Given,
    /// What must fire; empty for a case that must stay silent.
    pub(super) fires: Vec<Firing>,
}

/// What a case is made of.
#[derive(Clone, Debug)]
pub(super) enum Given {
    Events(Vec<(Arc<Call>, Labels)>),
    Logs(Vec<CaseLog>),
}

/// 2026-01-01T00:00:00Z, where every case starts.
const START: Micros = Micros(1_767_225_600_000_000);

/// The most events of a case, repeats included, and the most lines.
pub(super) const EVENTS_MAX: u64 = 10_000;

/// What an event takes in memory, in bytes, about.
const EVENT_BYTES: usize = 1 << 10;

const CASE_KEYS: [&str; 5] = ["name", "events", "lines", "dialect", "fires"];

const EVENT_KEYS: [&str; 29] = [
    "at",
    "kind",
    "tool",
    "outcome",
    "code",
    "principal",
    "client",
    "tenant",
    "session",
    "server",
    "ran",
    "decision",
    "flags",
    "witnesses",
    "discrepancy",
    "args",
    "duration_ms",
    "ask_to_answer_ms",
    "attempts",
    "open_world",
    "sensitive",
    "outbound",
    "destructive",
    "read_only",
    "file",
    "repeat",
    "every",
    "also",
    "joined_by",
];

/// Reads the cases of a rule; everything wrong goes to `problems`.
pub(super) fn read(
    tests: &Node,
    group_by: &[Text],
    allowance: &mut Allowance,
    problems: &mut Problems<'_>,
) -> Vec<Case> {
    let Some(nodes) = tests.list() else {
        problems.push(tests.mark, "`tests` is a list of cases");
        return Vec::new();
    };
    let read = |node| case(node, group_by, allowance, problems);
    nodes.iter().filter_map(read).collect()
}

fn case(
    node: &Node,
    group_by: &[Text],
    allowance: &mut Allowance,
    problems: &mut Problems<'_>,
) -> Option<Case> {
    // That too much is made of the file was told.
    if allowance.is_spent() {
        return None;
    }
    let Some(entries) = node.map() else {
        problems.push(node.mark, "a case is a map with `name`, `events` or `lines`, and `fires`");
        return None;
    };
    check_keys(entries, &CASE_KEYS, problems);
    let name = entry(entries, "name").and_then(|found| found.node.text());
    if name.is_none() {
        problems.push(node.mark, "a case has a `name`");
    }
    let given = given(node, entries, allowance, problems);
    let Some(fires) = entry(entries, "fires") else {
        problems.push(node.mark, "a case says what `fires`: false, or a list of alerts");
        return None;
    };
    let fires = match &fires.node.value {
        Value::Bool(false) => Vec::new(),
        Value::List(nodes) if nodes.len() > FIRINGS_MAX => {
            let message =
                format!("this list is too large: a case expects {FIRINGS_MAX} alerts at most");
            problems.push(fires.mark, message);
            Vec::new()
        }
        Value::List(nodes) if !nodes.is_empty() => {
            let named = Named { word: given.word(), count: given.count() };
            let read = |node| Firing::read(node, group_by, named, allowance, problems);
            nodes.iter().filter_map(read).collect()
        }
        _ => {
            let message =
                format!("`fires` is false or a list of `{{group: .., {}: [..]}}`", given.word());
            problems.push(fires.mark, message);
            Vec::new()
        }
    };
    Some(Case { name: name?.to_owned(), given, fires })
}

/// What the case is made of; empty where nothing of it can be read, which is told.
fn given(
    node: &Node,
    entries: &[Entry],
    allowance: &mut Allowance,
    problems: &mut Problems<'_>,
) -> Given {
    let dialect = entry(entries, "dialect");
    if let Some(lines) = entry(entries, "lines") {
        if let Some(found) = entry(entries, "events") {
            problems.push(found.mark, "a case has `events` or `lines`, and not both");
        }
        return Given::Logs(logs::read(lines, dialect, allowance, problems));
    }
    if let Some(found) = dialect {
        problems.push(found.mark, "`dialect` is that of `lines`, and here are none");
    }
    let mut events = Vec::new();
    let described = entry(entries, "events").and_then(|found| found.node.list());
    for described in described.unwrap_or_default() {
        add_events(described, &mut events, allowance, problems);
    }
    if events.is_empty() {
        problems.push(node.mark, "a case has a list of `events`, or `lines` of a `dialect`");
    }
    Given::Events(events)
}

impl Given {
    /// What evidence is named by.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Events(_) => "calls",
            Self::Logs(_) => "lines",
        }
    }

    /// How many events or lines there are.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Events(events) => events.len(),
            Self::Logs(logs) => logs::count(logs),
        }
    }
}

pub(super) fn check_keys(entries: &[Entry], known: &[&str], problems: &mut Problems<'_>) {
    for found in entries.iter().filter(|found| !known.contains(&found.key.as_str())) {
        let hint = did_you_mean(&found.key, known.iter().copied());
        problems.push(found.mark, format!("the key `{}` is not known here{hint}", found.key));
    }
}

fn add_events(
    node: &Node,
    out: &mut Vec<(Arc<Call>, Labels)>,
    allowance: &mut Allowance,
    problems: &mut Problems<'_>,
) {
    if allowance.is_spent() {
        return;
    }
    let Some(entries) = node.map() else {
        problems.push(node.mark, "an event is a map, such as {at: 1.5, tool: get_ticket}");
        return;
    };
    check_keys(entries, &EVENT_KEYS, problems);
    let reader = Reader { entries };
    let times = entry(entries, "repeat").map_or(Some(1), |found| found.node.count());
    let every = entry(entries, "every").map_or(Some(1.0), |found| found.node.number());
    let Some((times, every)) = times.filter(|times| *times > 0).zip(every) else {
        problems.push(node.mark, "`repeat` is a whole number and `every` a number of seconds");
        return;
    };
    if times > EVENTS_MAX.saturating_sub(out.len() as u64) {
        problems.push(node.mark, format!("a case has {EVENTS_MAX} events at most, with `repeat`"));
        return;
    }
    let bytes = usize::try_from(times).unwrap_or(usize::MAX).saturating_mul(EVENT_BYTES);
    if problems.take(node.mark, allowance.spend(bytes)).is_none() {
        return;
    }
    for time in 0..times {
        let event = reader.call(out.len(), every * time as f64);
        if let Some(event) = problems.take(node.mark, event) {
            out.push(event);
        }
    }
}

/// Reads one described event.
struct Reader<'a> {
    entries: &'a [Entry],
}

impl Reader<'_> {
    fn call(&self, index: usize, later_seconds: f64) -> Result<(Arc<Call>, Labels), String> {
        let stream = self.text("file")?.unwrap_or_else(|| "case".into());
        let class = self.word("outcome", OutcomeClass::from_word)?.unwrap_or(OutcomeClass::Ok);
        let code = self.text("code")?.unwrap_or_else(|| class.as_str().into());
        let ran = self.word("ran", Ran::from_word)?.unwrap_or(match class {
            OutcomeClass::Ok | OutcomeClass::Error => Ran::Yes,
            class if class.is_refusal() => Ran::No,
            _ => Ran::Maybe,
        });
        let (principal, client) = (self.text("principal")?, self.text("client")?);
        let actor = principal.as_ref().or(client.as_ref()).unwrap_or(&stream);
        let at = self.time(later_seconds)?;
        let position = RecordId { generation: 1, offset: index as u64, index: 0 };
        let call = Call {
            kind: self.word("kind", EventKind::from_word)?.unwrap_or_default(),
            id: call_id(index),
            at,
            position,
            ended: at,
            duration_ms: self.number("duration_ms")?,
            tool: self.text("tool")?.unwrap_or_else(|| "tool".into()),
            server: self.text("server")?,
            actor: Text::clone(actor),
            tenant: self.text("tenant")?,
            session: self.text("session")?.unwrap_or_else(|| Text::clone(actor)),
            principal,
            client,
            class,
            decision: self.word("decision", OutcomeClass::from_word)?,
            ran,
            args: self.args()?,
            flags: self.texts("flags")?,
            also: self.also()?,
            request_id: None,
            group_id: None,
            trace_id: None,
            ask_to_answer_ms: self.number("ask_to_answer_ms")?,
            sightings: self.sightings(&stream, class, &code, position)?,
            discrepancies: self.discrepancies()?,
            stream,
            code,
        };
        Ok((Arc::new(call), self.labels()?))
    }

    fn node(&self, key: &str) -> Option<&Node> {
        entry(self.entries, key).map(|found| &found.node)
    }

    fn text(&self, key: &str) -> Result<Option<Text>, String> {
        match self.node(key) {
            None => Ok(None),
            Some(node) => match node.text() {
                Some(text) => Ok(Some(text.into())),
                None => Err(format!("`{key}` is a text, not {}", node.kind())),
            },
        }
    }

    fn texts(&self, key: &str) -> Result<Vec<Text>, String> {
        let Some(node) = self.node(key) else {
            return Ok(Vec::new());
        };
        let texts = node.list().and_then(|nodes| {
            nodes.iter().map(|node| node.text().map(Text::from)).collect::<Option<Vec<_>>>()
        });
        texts.ok_or_else(|| format!("`{key}` is a list of texts"))
    }

    fn number(&self, key: &str) -> Result<Option<f64>, String> {
        match self.node(key) {
            None => Ok(None),
            Some(node) => node.number().map(Some).ok_or_else(|| format!("`{key}` is a number")),
        }
    }

    fn word<T>(&self, key: &str, read: fn(&str) -> Option<T>) -> Result<Option<T>, String> {
        match self.text(key)? {
            None => Ok(None),
            Some(text) => read(&text).map(Some).ok_or_else(|| format!("`{key}` is never `{text}`")),
        }
    }

    /// Seconds after the start; `at: null` is a call without a time.
    fn time(&self, later_seconds: f64) -> Result<Option<Micros>, String> {
        let Some(node) = self.node("at") else {
            return Err("an event says `at`, in seconds".into());
        };
        if matches!(node.value, Value::Null) {
            return Ok(None);
        }
        let seconds = node.number().ok_or("`at` is a number of seconds or null")? + later_seconds;
        if !(0.0..=1e9).contains(&seconds) {
            return Err("`at` is from 0 to a thousand million seconds".into());
        }
        #[expect(clippy::cast_possible_truncation, reason = "the range was checked just above")]
        let micros = (seconds * 1e6).round() as i64;
        Ok(Some(START.plus(micros)))
    }

    fn args(&self) -> Result<Args, String> {
        let Some(node) = self.node("args") else {
            return Ok(Args::default());
        };
        let entries = node.map().ok_or("`args` is a map of names and values")?;
        let mut values = Vec::new();
        for part in entries {
            let json = match &part.node.value {
                Value::Null => serde_json::Value::Null,
                Value::Bool(value) => (*value).into(),
                Value::Int(value) => (*value).into(),
                Value::Float(value) => (*value).into(),
                Value::Text(value) => value.as_str().into(),
                Value::List(_) | Value::Map(_) => {
                    return Err(format!("the argument `{}` is one value", part.key));
                }
            };
            values.push(ArgValue {
                name: part.key.as_str().into(),
                text: json.to_string().into(),
                hash: 0,
                chars: None,
                summarised: false,
            });
        }
        values.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Args { view: ArgView::Full, values, dropped: Vec::new() })
    }

    fn also(&self) -> Result<Vec<(Text, Text)>, String> {
        let Some(node) = self.node("also") else {
            return Ok(Vec::new());
        };
        let pairs = node.map().and_then(|entries| {
            let pair = |part: &Entry| Some((part.key.as_str().into(), part.node.text()?.into()));
            entries.iter().map(pair).collect::<Option<Vec<_>>>()
        });
        pairs.ok_or_else(|| "`also` is a map of fields and texts".into())
    }

    fn sightings(
        &self,
        stream: &Text,
        class: OutcomeClass,
        code: &Text,
        record: RecordId,
    ) -> Result<Vec<Sighting>, String> {
        let words = self.texts("witnesses")?;
        let mut witnesses = Vec::new();
        for word in &words {
            let witness = Witness::from_word(word);
            witnesses.push(witness.ok_or_else(|| format!("`witnesses` never holds `{word}`"))?);
        }
        if witnesses.is_empty() {
            witnesses.push(Witness::Server);
        }
        let joined_by = match self.text("joined_by")? {
            None => JoinedBy::Arguments,
            Some(word) => JoinedBy::ALL
                .into_iter()
                .find(|by| *by.as_str() == *word)
                .ok_or_else(|| format!("`joined_by` is never `{word}`"))?,
        };
        let attempts = self.node("attempts").map_or(Some(1), Node::count);
        let last_attempt = attempts
            .and_then(|attempts| u32::try_from(attempts).ok()?.checked_sub(1))
            .ok_or("`attempts` is a whole number, 1 or more")?;
        let sighting = |(index, witness)| Sighting {
            witness,
            dialect: Dialect::TwoSided,
            stream: Text::clone(stream),
            class,
            code: Text::clone(code),
            joined_by: if index == 0 { JoinedBy::Alone } else { joined_by },
            certainty: Certainty::Unambiguous,
            attempt: last_attempt,
            candidates: Vec::new(),
            steps: vec![Step { record, length: 1, at: None, class, code: Text::clone(code) }],
        };
        Ok(witnesses.into_iter().enumerate().map(sighting).collect())
    }

    fn discrepancies(&self) -> Result<Vec<Discrepancy>, String> {
        match self.text("discrepancy")?.as_deref() {
            None => Ok(Vec::new()),
            Some("ran-though-denied") => Ok(vec![Discrepancy::RanThoughDenied {
                denied_by: Witness::Client,
                ran_by: Witness::Server,
            }]),
            Some("outcome") => Ok(vec![Discrepancy::Outcome {
                upper: Witness::Client,
                upper_code: "ok".into(),
                lower: Witness::Server,
                lower_code: "error".into(),
            }]),
            Some("arguments-changed") => Ok(vec![Discrepancy::Arguments {
                upper: Witness::Client,
                lower: Witness::Server,
                names: Vec::new(),
            }]),
            Some("unwitnessed") => {
                Ok(vec![Discrepancy::Unwitnessed { by: Witness::Client, stream: "client".into() }])
            }
            Some(word) => Err(format!("`discrepancy` is never `{word}`")),
        }
    }

    fn labels(&self) -> Result<Labels, String> {
        let mut labels = Labels::default();
        for label in Label::ALL {
            let key = label.as_str().replace('-', "_");
            let value = match self.node(&key).map(|node| (&node.value, node.text())) {
                None => continue,
                Some((Value::Bool(true), _) | (_, Some("yes"))) => Tri::Yes,
                Some((Value::Bool(false), _) | (_, Some("no"))) => Tri::No,
                Some((_, Some("unknown"))) => Tri::Unknown,
                Some(_) => return Err(format!("`{key}` is yes, no or unknown")),
            };
            labels.set(label, value);
        }
        Ok(labels)
    }
}

/// The id of a case's event, by its index.
pub(super) fn call_id(index: usize) -> CallId {
    let mut hasher = IdHasher::new("case");
    hasher.number(index as u64);
    CallId::from_hasher(&hasher)
}
