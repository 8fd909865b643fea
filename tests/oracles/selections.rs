//! Selections at random, with every modifier, and calls that they may fit.

use std::collections::BTreeSet;

use calltrail::model::{Micros, OutcomeClass, Ran};
use proptest::prelude::*;

use super::calls::Shape;
use super::sigma::single_text;

const TEXTS: [&str; 11] =
    ["ann", "Ann", "bob", "anna-bob", "a*b", "C:\\temp\\x", "", "äb", "Äb", "nothing", "5"];
const ADDRESSES: [&str; 5] = ["10.1.2.3", "192.168.0.7", "fe80::1", "10.1.2", "no address"];
const NUMBERS: [&str; 6] = ["5", "5.0", "10", "-1", "1e1", "many"];
const TOOLS: [&str; 7] = ["fetch", "read", "read_all", "send", "all", "plain", "mcp__files__read"];
const FLAGS: [&str; 4] = ["too_large", "Secret", "secret", "signal:override"];

pub(super) fn text_of(pool: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(pool)
}

pub(super) fn maybe(pool: &'static [&'static str]) -> impl Strategy<Value = Option<&'static str>> {
    prop::option::weighted(0.7, text_of(pool))
}

/// Calls with all sorts of values, a second or more apart.
pub(super) fn rich_shapes() -> impl Strategy<Value = Vec<Shape>> {
    let outcome = prop::sample::select(vec![
        (OutcomeClass::Ok, Ran::Yes),
        (OutcomeClass::Denied, Ran::No),
        (OutcomeClass::Error, Ran::Maybe),
    ]);
    let who = (maybe(&TEXTS), maybe(&TEXTS), maybe(&TEXTS), text_of(&TEXTS));
    let flags = prop::sample::subsequence(FLAGS.to_vec(), 0..3);
    let args = (maybe(&TEXTS), maybe(&ADDRESSES), maybe(&NUMBERS), maybe(&["true", "false"]));
    let duration = prop::option::of(prop::sample::select(vec![0.0, 4.5, 5.0, 1000.0]));
    let shape = (text_of(&TOOLS), outcome, who, flags, args, duration).prop_map(
        |(tool, (class, ran), (principal, client, tenant, code), flags, args, duration_ms)| {
            let (path, host, count, force) = args;
            let named = [("path", path), ("host", host), ("count", count), ("force", force)];
            let args = named.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            let shape = Shape::at(0, tool);
            Shape { class, ran, principal, client, tenant, code, duration_ms, flags, args, ..shape }
        },
    );
    in_order(shape, 1..3, 20)
}

/// Shapes one after another, with so many seconds between them.
pub(super) fn in_order(
    shape: impl Strategy<Value = Shape>,
    seconds: std::ops::Range<i64>,
    most: usize,
) -> impl Strategy<Value = Vec<Shape>> {
    prop::collection::vec((shape, seconds), 1..most).prop_map(|shapes| {
        let mut at = 1_000;
        let placed = |(shape, seconds): (Shape, i64)| {
            at += seconds;
            Shape { at: at * Micros::SECOND, ..shape }
        };
        shapes.into_iter().map(placed).collect()
    })
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn list_of(
    pool: &'static [&'static str],
    many: std::ops::RangeInclusive<usize>,
) -> impl Strategy<Value = String> {
    let some = prop::sample::subsequence(pool.to_vec(), many);
    some.prop_map(|texts| {
        let texts: Vec<String> = texts.into_iter().map(quoted).collect();
        format!("[{}]", texts.join(", "))
    })
}

const FIELDS: &[&str] =
    &["principal", "client", "tenant", "code", "tool.name", "args.path", "flags", "args.names"];

/// A line that compares texts.
fn text_item() -> impl Strategy<Value = String> {
    let patterns: &[&str] = &[
        "ann",
        "ANN",
        "a*",
        "*b",
        "?nn",
        "a\\*b",
        "*\\*b",
        "C:\\temp\\x",
        "C:\\*",
        "C:\\\\temp*",
        "äb",
        "ÄB",
        "",
        "*",
        "n",
        "5",
        "mcp__*",
        "read",
        "se?d",
        "secret",
        "*:*",
        "n*h",
    ];
    let plain: &[&str] =
        &["a", "ANN", "a\\*", "\\x", "x", "Äb", "", "read", "secret", "5", "mcp__"];
    let regexes: &[&str] = &["^a", "B$", "n{2}", "^$", "[0-9]", "ä", "s(end|ecret)", "\\\\t"];
    let hows: &[&str] = &["", "", "|contains", "|cased", "|contains|cased"];
    let ends: &[&str] =
        &["|startswith", "|endswith", "|startswith|cased", "|endswith|cased", "|endswith|all"];
    let alls: &[&str] = &["|all", "|contains|all", "|contains|cased|all"];
    let ended = (text_of(FIELDS), text_of(ends), list_of(plain, 2..=3))
        .prop_map(|(field, how, values)| format!("{field}{how}: {values}"));
    let texts = (text_of(FIELDS), text_of(hows), list_of(patterns, 1..=2))
        .prop_map(|(field, how, values)| format!("{field}{how}: {values}"));
    let all = (text_of(FIELDS), text_of(alls), list_of(patterns, 2..=3))
        .prop_map(|(field, how, values)| format!("{field}{how}: {values}"));
    let matched =
        (text_of(FIELDS), text_of(&["|re", "|re|i", "|re|s", "|re|m"]), list_of(regexes, 1..=2))
            .prop_map(|(field, how, values)| format!("{field}{how}: {values}"));
    prop_oneof![5 => texts, 2 => ended, 2 => all, 2 => matched]
}

/// One line of a selection.
fn item() -> impl Strategy<Value = String> {
    let networks: &[&str] =
        &["10.0.0.0/8", "192.168.0.0/24", "fe80::/10", "0.0.0.0/0", "10.1.2.3/32"];
    let numbers: &[&str] = &["|lt", "|lte", "|gt", "|gte", ""];
    let near = (text_of(&["args.host", "args.path"]), list_of(networks, 1..=2))
        .prop_map(|(field, values)| format!("{field}|cidr: {values}"));
    let compared = (
        text_of(&["duration_ms", "args.count"]),
        text_of(numbers),
        text_of(&["5", "4.5", "0", "-1", "10"]),
    )
        .prop_map(|(field, how, value)| format!("{field}{how}: {value}"));
    let there = (text_of(FIELDS), any::<bool>())
        .prop_map(|(field, wanted)| format!("{field}|exists: {wanted}"));
    let missing = text_of(FIELDS).prop_map(|field| format!("{field}: null"));
    let word = text_of(&[
        "outcome: ok",
        "outcome: [denied, error]",
        "outcome: 'DE*'",
        "tool.sensitive: yes",
        "tool.open_world: no",
        "tool.outbound: unknown",
        "ran: no",
        "ran: [yes, maybe]",
        "kind: call",
        "attempts: 1",
        "attempts|gt: 1",
        "args.force: true",
        "args.force: 'true'",
    ])
    .prop_map(str::to_owned);
    prop_oneof![
        11 => text_item(), 1 => near, 2 => compared, 1 => there, 1 => missing, 2 => word,
    ]
}

/// A rule that fires on single calls.
pub(super) fn single() -> impl Strategy<Value = String> {
    let selection =
        (prop::collection::vec(item(), 1..3), any::<bool>()).prop_map(|(items, is_list)| {
            let mut keys = BTreeSet::new();
            let items: Vec<String> = items
                .into_iter()
                .filter(|item| keys.insert(item.split(':').next().unwrap().to_owned()))
                .map(|item| if is_list { format!("- {item}") } else { item })
                .collect();
            items.join("\n")
        });
    let conditions: &[&str] = &[
        "one and two and three",
        "one or two or three",
        "(one or two) and not three",
        "one and not (two or three)",
        "not one or (two and three)",
        "1 of them",
        "all of them",
        "1 of t* and not one",
        "all of t* or one",
        "not 1 of t* and one",
    ];
    (prop::collection::vec(selection, 3), text_of(conditions)).prop_map(
        |(selections, condition)| {
            let selections: Vec<&str> = selections.iter().map(String::as_str).collect();
            single_text(&selections, condition)
        },
    )
}
