//! Detections and correlations as rsigma finds them: calls in order, at least a second apart, one at a time. What is
//! compared is at which calls a rule closes a match, in which group; how often an engine tells of it is its own affair.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use calltrail::detect::{Engine, RuleSet};
use calltrail::model::{
    AlertChange, AlertId, Call, CallChange, Labels, Micros, OutcomeClass, Ran, Text,
};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use rsigma_eval::{CorrelationConfig, CorrelationEngine, JsonEvent};
use serde_json::{Map, Value, json};

use super::calls::{Shape, calls, labels};
use super::selections::{in_order, maybe, rich_shapes, single, text_of};
use super::sigma_exceptions::Exception;

/// A call by its number, and the group's fields and values, of those that it has.
pub(super) type Closing = (usize, Vec<(String, String)>);

/// A rule as both read it, and what is known of it beside its text.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) kind: Kind,
    /// Of a count, what is counted.
    pub(super) stages: Vec<Stage>,
    /// Fields; of a rule with an alias, its name alone. Without any, all calls are one group.
    pub(super) group_by: Vec<&'static str>,
    /// The fields that the alias `who` stands for, one for every stage.
    pub(super) alias: Option<Vec<&'static str>>,
    /// Seconds.
    pub(super) timespan: i64,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    EventCount(String),
    ValueCount { field: &'static str, condition: String },
    Temporal,
    TemporalOrdered,
}

/// What fills a stage: calls of one sort, or the call with which there are so many of them in so many seconds.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) sort: Sort,
    pub(super) count: Option<(i64, u64)>,
}

/// Sorts of calls; the last three overlap with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Fetch,
    Read,
    Send,
    Denied,
    Ok,
    Any,
}

impl Sort {
    const ALONE: [Self; 3] = [Self::Fetch, Self::Read, Self::Send];
    const ALL: [Self; 6] = [Self::Fetch, Self::Read, Self::Send, Self::Denied, Self::Ok, Self::Any];

    const fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetches",
            Self::Read => "reads",
            Self::Send => "sends",
            Self::Denied => "denials",
            Self::Ok => "successes",
            Self::Any => "calls",
        }
    }

    const fn selection(self) -> &'static str {
        match self {
            Self::Fetch => "tool.name: fetch",
            Self::Read => "tool.name|startswith: read",
            Self::Send => "tool.name: [se?d, post_*]",
            Self::Denied => "outcome: denied",
            Self::Ok => "outcome: ok",
            Self::Any => "session|exists: true",
        }
    }

    /// What the selection says, in Rust.
    pub(super) fn fits(self, shape: &Shape) -> bool {
        match self {
            Self::Fetch => shape.tool == "fetch",
            Self::Read => shape.tool.starts_with("read"),
            Self::Send => shape.tool == "send",
            Self::Denied => shape.class == OutcomeClass::Denied,
            Self::Ok => shape.class == OutcomeClass::Ok,
            Self::Any => true,
        }
    }
}

impl Rule {
    fn text(&self, for_rsigma: bool) -> String {
        let names: Vec<String> = self.stages.iter().map(Stage::name).collect();
        let (word, condition) = match &self.kind {
            Kind::EventCount(condition) => ("event_count", format!("{{{condition}}}")),
            Kind::ValueCount { field, condition } => {
                ("value_count", format!("{{field: {field}, {condition}}}"))
            }
            // Without a condition any of the rules is enough for rsigma.
            Kind::Temporal if for_rsigma => ("temporal", format!("{{gte: {}}}", names.len())),
            Kind::Temporal => ("temporal", String::new()),
            Kind::TemporalOrdered => ("temporal_ordered", String::new()),
        };
        let condition = match condition.as_str() {
            "" => String::new(),
            condition => format!("  condition: {condition}\n"),
        };
        let aliases = self.alias.as_ref().map_or(String::new(), |fields| {
            let pairs: Vec<String> =
                names.iter().zip(fields).map(|(name, field)| format!("{name}: {field}")).collect();
            format!("  aliases: {{who: {{{}}}}}\n", pairs.join(", "))
        });
        // No such key is as good as an empty one, and is what most files without groups have.
        let group_by = match self.group_by.as_slice() {
            [] => String::new(),
            fields => format!("  group-by: [{}]\n", fields.join(", ")),
        };
        let mut text = format!(
            "title: main\nid: {}\nlevel: low\ncorrelation:\n  type: {word}\n  rules: [{}]\n{group_by}\
             {aliases}  timespan: {}s\n{condition}",
            id(0),
            names.join(", "),
            self.timespan,
        );
        let mut sorts: Vec<Sort> = Vec::new();
        for (number, stage) in self.stages.iter().enumerate() {
            if let Some((timespan, least)) = stage.count {
                write!(
                    text,
                    "---\ntitle: {name}\nid: {}\nname: {name}\ncorrelation:\n  type: event_count\n  rules: [{}]\n\
                     {group_by}  timespan: {timespan}s\n  condition: {{gte: {least}}}\n",
                    id(10 + number),
                    stage.sort.name(),
                    name = stage.name(),
                )
                .unwrap();
            }
            if !sorts.contains(&stage.sort) {
                sorts.push(stage.sort);
            }
        }
        for sort in sorts {
            text.push_str(&detection(
                sort.name(),
                &id(20 + sort as usize),
                &[sort.selection()],
                "one",
            ));
        }
        text
    }
}

impl Stage {
    fn name(&self) -> String {
        let name = self.sort.name();
        self.count.map_or(name.to_owned(), |_| format!("many-{name}"))
    }
}

fn id(number: usize) -> String {
    format!("7c0f6f0c-0f0e-4a59-9a3e-{number:012}")
}

/// A detection with selections called one, two and three.
fn detection(name: &str, id: &str, selections: &[&str], condition: &str) -> String {
    let mut text = format!(
        "---\ntitle: {name}\nid: {id}\nname: {name}\nlevel: low\nlogsource: {{product: mcp, service: tool_calls}}\n\
         detection:\n"
    );
    for (name, items) in ["one", "two", "three"].iter().zip(selections) {
        let items = items.replace('\n', "\n    ");
        writeln!(text, "  {name}:\n    {items}").unwrap();
    }
    writeln!(text, "  condition: {condition}").unwrap();
    text
}

/// Where our engine closes matches of the one rule of a file, given its calls one after another.
fn ours(text: &str, calls: &[Arc<Call>]) -> BTreeSet<Closing> {
    let rules = RuleSet::compile(&[("main.yml", text)])
        .unwrap_or_else(|problems| panic!("{problems:?} in\n{text}"));
    let mut engine = Engine::new(Arc::new(rules), Arc::new(labels));
    let mut counts: BTreeMap<AlertId, u64> = BTreeMap::new();
    let mut closings = BTreeSet::new();
    for (number, call) in calls.iter().enumerate() {
        let changes = [CallChange { old: None, new: Some(Arc::clone(call)) }];
        assert!(engine.plan(&changes).is_empty(), "calls in order need no history");
        for change in engine.apply(&changes, Vec::new()) {
            let AlertChange::Set { alert, replaces, .. } = change else {
                panic!("calls in order take nothing back")
            };
            assert!(replaces.is_empty(), "calls in order move no start");
            let known = counts.insert(alert.id, alert.count).unwrap_or(0);
            assert_eq!(alert.count, known + 1, "one call closes one match of a group");
            let text = |(field, value): &(Text, Text)| (field.to_string(), value.to_string());
            closings.insert((number, alert.group.iter().map(text).collect()));
        }
    }
    closings
}

/// Where rsigma does. Every closing call fires there: nothing is suppressed, and nothing reset.
fn theirs(text: &str, calls: &[Arc<Call>]) -> BTreeSet<Closing> {
    let collection = rsigma_parser::parse_sigma_yaml(text).unwrap();
    assert!(collection.errors.is_empty(), "{:?} in\n{text}", collection.errors);
    let config =
        CorrelationConfig { max_state_entries: usize::MAX, ..CorrelationConfig::default() };
    let mut engine = CorrelationEngine::new(config);
    engine.add_collection(&collection).unwrap();
    let mut closings = BTreeSet::new();
    for (number, call) in calls.iter().enumerate() {
        let event = event(call);
        let seconds = call.at.unwrap().0 / Micros::SECOND;
        for found in engine.process_event_at(&JsonEvent::borrow(&event), seconds) {
            if found.header.rule_title != "main" {
                continue;
            }
            let group = found.as_correlation().map_or(Vec::new(), |body| body.group_key.clone());
            closings.insert((number, group));
        }
    }
    closings
}

/// The call as an event with the fields of the rule language.
fn event(call: &Call) -> Value {
    let mut event = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        event.extend(value.map(|value| (name.to_owned(), value)));
    };
    for (name, value) in [
        ("principal", call.principal.as_ref()),
        ("client", call.client.as_ref()),
        ("tenant", call.tenant.as_ref()),
        ("actor", Some(&call.actor)),
        ("session", Some(&call.session)),
        ("code", Some(&call.code)),
    ] {
        put(name, value.map(|text| json!(&**text)));
    }
    let bare = call.bare_tool();
    // The reference says that a tool has two names where it has a namespace.
    let name = if bare == &*call.tool { json!(bare) } else { json!([&*call.tool, bare]) };
    put("tool.name", Some(name));
    put("outcome", Some(json!(call.class.as_str())));
    put("ran", Some(json!(call.ran.as_str())));
    put("kind", Some(json!("call")));
    put("duration_ms", call.duration_ms.map(|ms| json!(ms)));
    put("attempts", Some(json!(1)));
    let Labels { open_world, sensitive, outbound, .. } = labels(call);
    for (name, label) in
        [("open_world", open_world), ("sensitive", sensitive), ("outbound", outbound)]
    {
        put(&format!("tool.{name}"), Some(json!(format!("{label:?}").to_lowercase())));
    }
    let flags: Vec<&str> = call.flags.iter().map(|flag| &**flag).collect();
    put("flags", (!flags.is_empty()).then(|| json!(flags)));
    let names: Vec<&str> = call.args.values.iter().map(|arg| &*arg.name).collect();
    put("args.names", (!names.is_empty()).then(|| json!(names)));
    for arg in &call.args.values {
        put(&format!("args.{}", arg.name), Some(json!(&*arg.text)));
    }
    Value::Object(event)
}

/// At which calls each closes matches, with one text and no exceptions: ours, then rsigma's.
pub(super) fn closings(rule: &Rule, shapes: &[Shape]) -> [Vec<usize>; 2] {
    let (text, calls) = (rule.text(false), calls(shapes));
    let numbers = |closings: BTreeSet<Closing>| closings.into_iter().map(|(number, _)| number);
    [numbers(ours(&text, &calls)).collect(), numbers(theirs(&text, &calls)).collect()]
}

/// Whether a call fits a selection, for us and for rsigma.
pub(super) fn fits(selection: &str, shape: &Shape) -> (bool, bool) {
    let text = single_text(&[selection], "one");
    let calls = calls(std::slice::from_ref(shape));
    (!ours(&text, &calls).is_empty(), !theirs(&text, &calls).is_empty())
}

/// What the rule finds in the calls: for each difference the exception that explains it, or an error.
pub(super) fn compare(rule: &Rule, shapes: &[Shape]) -> Result<Vec<Exception>, TestCaseError> {
    let text = rule.text(false);
    let calls = calls(shapes);
    let (ours, theirs) = (ours(&text, &calls), theirs(&rule.text(true), &calls));
    if let Some(only) = ours.difference(&theirs).next() {
        return Err(TestCaseError::fail(format!("{only:?} is found by us alone, by\n{text}")));
    }
    let explain = |only: &Closing| {
        let found = Exception::ALL.into_iter().find(|one| one.explains(rule, shapes, only));
        found.ok_or_else(|| {
            TestCaseError::fail(format!("{only:?} is found by rsigma alone, by\n{text}"))
        })
    };
    theirs.difference(&ours).map(explain).collect()
}

/// The text of a rule that fires on single calls.
pub(super) fn single_text(selections: &[&str], condition: &str) -> String {
    let text = detection("main", &id(0), selections, condition);
    text.replacen("---\n", "", 1).replacen("level: low\n", "level: low\ngroup-by: [session]\n", 1)
}

/// Calls of two principals and clients, whom some do not name.
fn plain_shapes() -> impl Strategy<Value = Vec<Shape>> {
    let tool = text_of(&["fetch", "read", "read_all", "send", "plain"]);
    let outcome = prop::sample::select(vec![
        (OutcomeClass::Ok, Ran::Yes),
        (OutcomeClass::Denied, Ran::No),
        (OutcomeClass::Error, Ran::Maybe),
    ]);
    let who = (maybe(&["ann", "bob"]), maybe(&["ann", "bob"]), maybe(&["t1", "t2", "t3"]));
    let shape = (tool, outcome, who, text_of(&["s1", "s1", "s2"])).prop_map(
        |(tool, (class, ran), (principal, client, tenant), session)| Shape {
            class,
            ran,
            principal,
            client,
            tenant,
            session,
            ..Shape::at(0, tool)
        },
    );
    in_order(shape, 1..6, 40)
}

fn condition() -> impl Strategy<Value = String> {
    text_of(&[
        "gte: 1",
        "gte: 3",
        "gt: 2",
        "eq: 2",
        "gte: 2, lt: 4",
        "gt: 1, lte: 3",
        "gte: 2, neq: 3",
    ])
    .prop_map(str::to_owned)
}

fn groups() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::select(vec![
        vec!["session"],
        vec!["actor"],
        vec!["principal"],
        vec!["principal", "tenant"],
        vec!["session", "tool.name"],
        vec![],
    ])
}

fn counted() -> impl Strategy<Value = Rule> {
    let kind = prop_oneof![
        condition().prop_map(Kind::EventCount),
        (text_of(&["tenant", "tool.name", "client"]), condition())
            .prop_map(|(field, condition)| Kind::ValueCount { field, condition }),
    ];
    // rsigma counts a call once for each of the rules that it fits, which matters where it is calls that are counted.
    let alone = (Just(Sort::ALONE.to_vec()).prop_shuffle(), 1..4_usize);
    let mixed = (Just(Sort::ALL.to_vec()).prop_shuffle(), 1..4_usize);
    let field = text_of(&["principal", "client", "tenant"]);
    let alias = prop::option::weighted(0.2, prop::collection::vec(field, 3));
    (kind, alone, mixed, groups(), alias, 1..15_i64).prop_map(
        |(kind, alone, mixed, group_by, alias, timespan)| {
            let is_alone = matches!(kind, Kind::EventCount(_)) && mixed.1 > 1;
            let (sorts, width) = if is_alone { alone } else { mixed };
            let stages = sorts.into_iter().take(width).map(|sort| Stage { sort, count: None });
            Rule {
                kind,
                stages: stages.collect(),
                group_by: if alias.is_some() { vec!["who"] } else { group_by },
                alias,
                timespan,
            }
        },
    )
}

/// Stages that no call can fill two of, or any.
fn staged() -> impl Strategy<Value = Rule> {
    let alone = Just(Sort::ALONE.to_vec()).prop_shuffle();
    let mixed = Just(Sort::ALL.to_vec()).prop_shuffle();
    let sorts = prop_oneof![3 => alone, 1 => mixed];
    let count = prop::option::weighted(0.3, (1..12_i64, 1..4_u64));
    let field = text_of(&["principal", "client", "tenant"]);
    let alias = prop::option::weighted(0.3, prop::collection::vec(field, 3));
    let counts = prop::collection::vec(count, 3);
    (any::<bool>(), sorts, 2..4_usize, counts, groups(), alias, 1..25_i64).prop_map(
        |(is_ordered, sorts, width, counts, group_by, alias, timespan)| {
            let counts = counts.into_iter().map(|count| count.filter(|_| alias.is_none()));
            let stages = sorts.into_iter().zip(counts).take(width);
            Rule {
                kind: if is_ordered { Kind::TemporalOrdered } else { Kind::Temporal },
                stages: stages.map(|(sort, count)| Stage { sort, count }).collect(),
                group_by: if alias.is_some() { vec!["who"] } else { group_by },
                alias,
                timespan,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn detections_fit_the_calls_that_they_fit_in_rsigma(text in single(), shapes in rich_shapes()) {
        let calls = calls(&shapes);
        let numbers = |closings: BTreeSet<Closing>| {
            closings.into_iter().map(|(number, _)| number).collect::<Vec<_>>()
        };
        prop_assert_eq!(numbers(ours(&text, &calls)), numbers(theirs(&text, &calls)), "{}", text);
    }

    #[test]
    fn counts_close_where_they_close_in_rsigma(rule in counted(), shapes in plain_shapes()) {
        compare(&rule, &shapes)?;
    }

    #[test]
    fn sequences_close_where_they_close_in_rsigma(rule in staged(), shapes in plain_shapes()) {
        compare(&rule, &shapes)?;
    }
}
