//! Three shipped rules, each written as one SQL statement that says what it means: windows and joins over all calls,
//! nothing kept between them. DuckDB's answer over the whole table is the engine's over batches that come in any order.

use std::collections::BTreeSet;
use std::sync::Arc;

use calltrail::detect::{RuleSet, shipped};
use calltrail::model::{Alert, Call, Labels, Micros, OutcomeClass, Ran, Tri};
use duckdb::{Connection, params};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::calls::{Shape, calls, labels};
use super::store::Shop;

const SECOND: i64 = Micros::SECOND;

/// The matches of a rule to its alerts. A statement names its matches `matched (g, n)` (the group and the closing call)
/// and its evidence `shown (g, m, n, stage)` (of the match that closes at `m`). What is at most `quiet` apart is one
/// episode. A call has the stage that it fills in the first match, else the first that it fills. `ord` is the calls'
/// total order.
const EPISODES: &str = "
marked as (
    select matched.g, calls.n, calls.us, calls.ord,
           calls.us - lag(calls.us) over (partition by g order by ord) > $1 as starts
    from matched join calls using (n)),
episode as (
    select *, count(*) filter (starts) over (partition by g order by ord) as e from marked),
rests as (
    select episode.g, e, shown.n, coalesce(min(stage) filter (starts is not false), min(stage)) as stage
    from episode join shown on shown.g = episode.g and shown.m = episode.n group by all),
evidence as (
    select rests.g, e, min(calls.us) as first_at,
           list(rests.n::varchar || ':' || stage order by calls.ord) as calls
    from rests join calls using (n) group by all)
select episode.g, arg_min(n, ord), count(*), first_at, max(us), array_to_string(calls, ' ')
from episode join evidence on evidence.g = episode.g and evidence.e = episode.e
group by episode.g, episode.e, first_at, calls";

/// Twenty calls of one session to one sensitive tool, none more than a minute before the last.
const BURST: &str = "
with sensitive as (from calls where can_read),
matched as (
    select session || '/' || tool as g, n from sensitive as c
    where (select count(*) from sensitive as b
           where b.session = c.session and b.tool = c.tool and b.ord <= c.ord
             and c.us - b.us <= 60_000_000) >= 20),
shown as (
    select matched.g, c.n as m, b.n, 0 as stage
    from matched join calls c on c.n = matched.n join sensitive b
      on b.session = c.session and b.tool = c.tool and b.ord <= c.ord
     and c.us - b.us <= 60_000_000),";

/// Somewhere in a session an open-world call, a sensitive read and an outbound write that ran, in this order, with at
/// most a minute from the first to the last.
const TRIFECTA: &str = "
with did as (from calls where ran <> 'no' and outcome <> 'asked'),
chain as (
    select c.session as g, a.n as a, b.n as b, c.n as c
    from did a join did b on b.session = a.session and b.ord > a.ord
    join did c on c.session = b.session and c.ord > b.ord
    where a.can_open and b.can_read and c.can_write and c.us - a.us <= 60_000_000),
matched as (select distinct g, c as n from chain),
shown as (
    select g, c as m, unnest([a, b, c]) as n, unnest([0, 1, 2]) as stage from chain),";

/// A denial with which there are five in five minutes, and in the five minutes after it a success.
const DENIALS: &str = "
with denied as (from calls where outcome = 'denied' and principal is not null),
fifth as (
    from denied as d where (
        select count(*) from denied as b
        where b.principal = d.principal and b.ord <= d.ord and d.us - b.us <= 300_000_000) >= 5),
chain as (
    select s.principal as g, s.n as m, d.n as d, d.ord, d.us
    from calls s join fifth d on d.principal = s.principal and d.ord < s.ord
     and s.us - d.us <= 300_000_000
    where s.outcome = 'ok'),
matched as (select distinct g, m as n from chain),
shown as (
    select g, m, m as n, 1 as stage from chain union
    select chain.g, m, b.n, 0 from chain join denied b
      on b.principal = chain.g and b.ord <= chain.ord and chain.us - b.us <= 300_000_000),";

/// A rule, its statement, its quiet period in seconds, and the names of its stages.
type Said = (&'static str, &'static str, i64, &'static [&'static str]);

const RULES: [Said; 3] = [
    ("call-burst", BURST, 60, &["sensitive-call"]),
    ("trifecta-signature", TRIFECTA, 60, &["open-world-call", "sensitive-read", "outbound-write"]),
    ("denials-then-success", DENIALS, 300, &["denied", "success"]),
];

/// An alert as both say it: rule, group, closing call, matches, first and last time, calls with their stages.
type Found = (String, String, usize, u64, i64, i64, String);

fn rule_set() -> Arc<RuleSet> {
    let is_said =
        |name: &str| RULES.iter().any(|(rule, ..)| *rule == name.trim_end_matches(".yml"));
    let files: Vec<_> = shipped().into_iter().filter(|(name, _)| is_said(name)).collect();
    Arc::new(RuleSet::compile(&files).unwrap())
}

fn ask(connection: &Connection, (rule, statement, quiet, _): Said) -> Vec<Found> {
    let sql = format!("{statement}{EPISODES}");
    let mut prepared = connection.prepare(&sql).unwrap();
    let rows = prepared.query_map([quiet * SECOND], |row| {
        Ok((
            rule.to_owned(),
            row.get(0)?,
            row.get(1)?,
            row.get(2)?,
            row.get(3)?,
            row.get(4)?,
            row.get(5)?,
        ))
    });
    rows.unwrap().map(|row| row.unwrap()).collect()
}

/// The calls in a table of an empty database, with their places in the total order.
fn table(calls: &[Arc<Call>]) -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(
            "create table given (n bigint, us bigint, stream text, \"offset\" ubigint, session text, tool text,
                 principal text, outcome text, ran text, can_open bool, can_read bool, can_write bool)",
        )
        .unwrap();
    let mut rows = connection.appender("given").unwrap();
    for (number, call) in calls.iter().enumerate() {
        let Labels { open_world, sensitive, outbound, .. } = labels(call);
        let row = params![
            i64::try_from(number).unwrap(),
            call.at.unwrap().0,
            &*call.stream,
            call.position.offset,
            &*call.session,
            &*call.tool,
            call.principal.as_deref(),
            call.class.as_str(),
            call.ran.as_str(),
            open_world == Tri::Yes,
            sensitive == Tri::Yes,
            outbound == Tri::Yes,
        ];
        rows.append_row(row).unwrap();
    }
    rows.flush().unwrap();
    drop(rows);
    let ordered = "create table calls as
        select *, row_number() over (order by us, stream, \"offset\") as ord from given";
    connection.execute_batch(ordered).unwrap();
    connection
}

fn found(alert: &Alert, calls: &[Arc<Call>]) -> Found {
    let number = |id| calls.iter().position(|call| call.id == id).unwrap();
    let group: Vec<&str> = alert.group.iter().map(|(_, value)| &**value).collect();
    let stages = RULES.iter().find(|(rule, ..)| *rule == &*alert.rule).unwrap().3;
    let shown: Vec<String> = alert
        .evidence
        .iter()
        .map(|evidence| {
            let stage = stages.iter().position(|stage| *stage == &*evidence.stage).unwrap();
            format!("{}:{stage}", number(evidence.call.id))
        })
        .collect();
    (
        alert.rule.to_string(),
        group.join("/"),
        number(alert.closing),
        alert.count,
        alert.first_seen.unwrap().0,
        alert.last_seen.unwrap().0,
        shown.join(" "),
    )
}

/// How the calls come: in which order, in batches of which sizes, and whether the engine starts anew before a batch.
#[derive(Clone, Debug)]
struct Delivery {
    order: Vec<usize>,
    batches: Vec<(usize, bool)>,
}

fn check(shapes: &[Shape], delivery: &Delivery) -> Result<usize, TestCaseError> {
    let calls = calls(shapes);
    let connection = table(&calls);
    let said: BTreeSet<Found> = RULES.iter().flat_map(|rule| ask(&connection, *rule)).collect();
    let mut shop = Shop::new(&rule_set());
    let mut rest = delivery.order.as_slice();
    for (size, restarts) in delivery.batches.iter().cycle() {
        let (batch, after) = rest.split_at(rest.len().min(*size));
        if *restarts {
            shop.restart();
        }
        shop.take(&batch.iter().map(|number| Arc::clone(&calls[*number])).collect::<Vec<_>>());
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    let told: BTreeSet<Found> = shop.alerts.values().map(|alert| found(alert, &calls)).collect();
    prop_assert_eq!(&told, &said);
    Ok(said.len())
}

/// Calls of few sessions within a quarter of an hour, crowded enough for bursts, with ties, and with gaps that are a
/// timespan to the microsecond.
fn shape() -> impl Strategy<Value = Shape> {
    let second = prop_oneof![3 => 0..70_i64, 2 => 0..400_i64, 1 => 0..900_i64];
    let nudge = prop_oneof![8 => Just(0), 1 => Just(1), 1 => Just(-1), 1 => Just(SECOND / 2)];
    let tool = prop::sample::select(vec![
        "read", "read", "read", "read", "read_all", "fetch", "send", "all", "plain",
    ]);
    let outcome = prop::sample::select(vec![
        (OutcomeClass::Ok, Ran::Yes),
        (OutcomeClass::Ok, Ran::Yes),
        (OutcomeClass::Denied, Ran::No),
        (OutcomeClass::Denied, Ran::No),
        (OutcomeClass::Denied, Ran::Yes),
        (OutcomeClass::Asked, Ran::Maybe),
        (OutcomeClass::Error, Ran::Yes),
    ]);
    let principal = prop::option::weighted(0.9, prop::sample::select(vec!["ann", "ann", "bob"]));
    let session = prop::sample::select(vec!["s1", "s1", "s2"]);
    let stream = prop::sample::select(vec!["left", "right"]);
    (second, nudge, tool, outcome, principal, session, stream).prop_map(
        |(second, nudge, tool, (class, ran), principal, session, stream)| {
            let at = 1_000 * SECOND + second * SECOND + nudge;
            Shape { class, ran, principal, session, stream, ..Shape::at(at, tool) }
        },
    )
}

fn story() -> impl Strategy<Value = (Vec<Shape>, Delivery)> {
    let batches = prop::collection::vec((1..40_usize, prop::bool::weighted(0.1)), 1..8);
    (prop::collection::vec(shape(), 1..120), batches, any::<bool>()).prop_flat_map(
        |(shapes, batches, is_shuffled)| {
            let mut order: Vec<usize> = (0..shapes.len()).collect();
            order.sort_by_key(|number| shapes[*number].at);
            let order =
                if is_shuffled { Just(order).prop_shuffle().boxed() } else { Just(order).boxed() };
            let delivery =
                order.prop_map(move |order| Delivery { order, batches: batches.clone() });
            (Just(shapes), delivery)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn batches_in_any_order_find_what_one_sql_statement_finds((shapes, delivery) in story()) {
        check(&shapes, &delivery)?;
    }
}

/// The random stories must not all be silent: this one has every rule fire, at the edge of its timespan.
#[test]
fn sql_and_engine_agree_on_the_edges_of_all_three_rules() {
    let seconds = |second: i64| 1_000 * SECOND + second * SECOND;
    let burst = (0..20).map(|n| Shape::at(seconds(n * 3 + n / 19 * 3), "read"));
    let denied = Shape { class: OutcomeClass::Denied, ran: Ran::No, ..Shape::at(0, "plain") };
    let denials = (0..5).map(|n| Shape { at: seconds(1_000 + n * 75), ..denied.clone() });
    let success = Shape::at(seconds(1_600), "plain");
    let trifecta = ["fetch", "all", "send"];
    let trifecta = trifecta.into_iter().zip([0, 60, 60]);
    let trifecta = trifecta.map(|(tool, at)| Shape::at(seconds(3_000 + at), tool));
    let shapes: Vec<Shape> = burst.chain(denials).chain([success]).chain(trifecta).collect();
    let order: Vec<usize> = (0..shapes.len()).rev().collect();
    let delivery = Delivery { order, batches: vec![(1, false)] };
    assert_eq!(check(&shapes, &delivery).unwrap(), 3);
    // A microsecond more is too much for each.
    let late = |number: usize| {
        let mut shapes = shapes.clone();
        shapes[number].at += 1;
        check(&shapes, &delivery).unwrap()
    };
    assert_eq!([late(19), late(25), late(28)], [2, 2, 2]);
}
