//! Whether two views of a call's arguments can be of the same call.

use crate::model::{ArgValue, ArgView, Args, Text};

/// How two views agree, from knowing nothing to knowing all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Agreement {
    /// Something that both know differs.
    Contradicts,
    /// Nothing that both know; the names, where both know them, agree.
    Nothing,
    /// At least one value is equal, or a summary has the right length.
    Some,
    /// Both show all values and all are equal.
    All,
}

pub(super) fn agreement(left: &Args, right: &Args) -> Agreement {
    use ArgView::{Full, Names, Nothing, Partial};
    match (left.view, right.view) {
        (Nothing, _) | (_, Nothing) => Agreement::Nothing,
        (Names, _) | (_, Names) => {
            if same_names(left, right) {
                Agreement::Nothing
            } else {
                Agreement::Contradicts
            }
        }
        (Full, Full) => compare(left, right, true, true),
        (Full, Partial) => compare(left, right, true, false),
        (Partial, Full) => compare(right, left, true, false),
        (Partial, Partial) => compare(left, right, false, false),
    }
}

/// Walks both sorted lists of values. `left_whole` and `right_whole` say whether a name that is absent there is
/// known to be absent; a partial view is never proof of absence, and a dropped name proves presence.
fn compare(left: &Args, right: &Args, left_whole: bool, right_whole: bool) -> Agreement {
    if left_whole && right_whole && are_equal(left, right) {
        return Agreement::All;
    }
    let mut equal = 0_usize;
    let mut exact = true;
    for value in &left.values {
        match find(right, value) {
            Some(other) if is_undecided(value, other) => exact = false,
            Some(other) if !same_value(value, other) => return Agreement::Contradicts,
            Some(other) => {
                equal += 1;
                exact &= !value.summarised && !other.summarised;
            }
            None if right_whole => return Agreement::Contradicts,
            None => exact = false,
        }
    }
    if (has_key_twice(left) || has_key_twice(right))
        && right.values.iter().any(|v| differs(left, v))
    {
        return Agreement::Contradicts;
    }
    if left_whole && lacks(left, right) || right_whole && lacks(right, left) {
        return Agreement::Contradicts;
    }
    match equal {
        _ if exact && left_whole && right_whole => Agreement::All,
        0 => Agreement::Nothing,
        _ => Agreement::Some,
    }
}

/// Whether a view that shows all there is lacks a name that the other one knows of.
fn lacks(whole: &Args, other: &Args) -> bool {
    let known = |name: &str| whole.values.iter().any(|value| &*value.name == name);
    other.values.iter().any(|value| !known(&value.name))
        || other.dropped.iter().any(|name| !known(name) && !whole.dropped.contains(name))
}

/// Whether the two show the same values one by one, all of them and whole: mostly they do, and then nothing has to be
/// looked up by its name.
fn are_equal(left: &Args, right: &Args) -> bool {
    let is_same = |(left, right): (&ArgValue, &ArgValue)| {
        let is_whole = !left.summarised && !right.summarised;
        is_whole && left.hash == right.hash && left.name == right.name
    };
    left.values.len() == right.values.len()
        && left.dropped.is_empty()
        && right.dropped.is_empty()
        && left.values.iter().zip(&right.values).all(is_same)
}

/// Names of the arguments by which two views contradict each other.
pub(super) fn differing(left: &Args, right: &Args) -> Vec<Text> {
    let one_way = |left: &Args, right: &Args| -> Vec<Text> {
        let is_whole = right.view == ArgView::Full;
        let has = |value: &ArgValue| find(right, value).is_some();
        let differing = left.values.iter();
        let differing = differing.filter(|v| differs(right, v) || (is_whole && !has(v)));
        differing.map(|value| Text::clone(&value.name)).collect()
    };
    let mut names = one_way(left, right);
    names.extend(one_way(right, left));
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether a key stands more than once. One reader of it takes the first value and another the last, so that all of
/// them count: a value that only one side shows is one that was not agreed to.
fn has_key_twice(args: &Args) -> bool {
    args.values.windows(2).any(|two| matches!(two, [one, next] if one.name == next.name))
}

/// Whether a value's name is known and no value of it is the same.
fn differs(args: &Args, value: &ArgValue) -> bool {
    find(args, value).is_some_and(|other| !is_undecided(value, other) && !same_value(value, other))
}

/// The value that agrees, where there are several of that name.
fn find<'a>(args: &'a Args, wanted: &ArgValue) -> Option<&'a ArgValue> {
    let mut of_name = args.values.iter().filter(|value| value.name == wanted.name).peekable();
    let first = of_name.peek().copied();
    of_name.find(|value| same_value(value, wanted)).or(first)
}

/// A summary of a secret says nothing: of secrets not even the length is kept.
fn is_undecided(left: &ArgValue, right: &ArgValue) -> bool {
    (left.summarised || right.summarised) && left.chars.is_none() && right.chars.is_none()
}

/// A summary matches any value of its length.
fn same_value(left: &ArgValue, right: &ArgValue) -> bool {
    if left.summarised || right.summarised {
        return left.chars.is_some() && left.chars == right.chars;
    }
    left.hash == right.hash
}

/// Compares names where one side knows nothing else. A partial view knows its values' and its dropped names.
fn same_names(left: &Args, right: &Args) -> bool {
    let has = |args: &Args, name: &str| {
        args.values.iter().any(|value| &*value.name == name)
            || args.dropped.iter().any(|dropped| &**dropped == name)
    };
    let covered = |of: &Args, by: &Args| {
        of.values.iter().all(|value| has(by, &value.name))
            && of.dropped.iter().all(|name| has(by, name))
    };
    covered(left, right) && covered(right, left)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(name: &str, hash: u64) -> ArgValue {
        ArgValue { name: name.into(), text: "".into(), hash, chars: Some(5), summarised: false }
    }

    fn args(view: ArgView, values: Vec<ArgValue>, dropped: &[&str]) -> Args {
        Args { view, values, dropped: dropped.iter().map(|name| Text::from(*name)).collect() }
    }

    #[test]
    fn equal_and_different_values() {
        let one = args(ArgView::Full, vec![value("path", 1)], &[]);
        let two = args(ArgView::Full, vec![value("path", 2)], &[]);
        assert_eq!(agreement(&one, &one), Agreement::All);
        assert_eq!(agreement(&one, &two), Agreement::Contradicts);
    }

    #[test]
    fn a_partial_view_is_no_proof_of_absence() {
        let full = args(ArgView::Full, vec![value("id", 1), value("query", 2)], &[]);
        let partial = args(ArgView::Partial, vec![value("id", 1)], &["query"]);
        assert_eq!(agreement(&full, &partial), Agreement::Some);
        let bare = args(ArgView::Partial, vec![], &["query"]);
        assert_eq!(agreement(&full, &bare), Agreement::Nothing);
        let other = args(ArgView::Partial, vec![], &["url"]);
        assert_eq!(agreement(&full, &other), Agreement::Contradicts);
    }

    #[test]
    fn a_summary_matches_any_value_of_its_length() {
        let mut summary = value("body", 9);
        summary.summarised = true;
        let summary = args(ArgView::Full, vec![summary], &[]);
        let same_length = args(ArgView::Full, vec![value("body", 1)], &[]);
        assert_eq!(agreement(&summary, &same_length), Agreement::Some);
        let mut longer = value("body", 1);
        longer.chars = Some(6);
        let longer = args(ArgView::Full, vec![longer], &[]);
        assert_eq!(agreement(&summary, &longer), Agreement::Contradicts);
    }

    #[test]
    fn a_summary_of_a_secret_neither_ties_nor_contradicts() {
        let secret = |hash, summarised| {
            let value = ArgValue { chars: None, summarised, ..value("password", hash) };
            args(ArgView::Full, vec![value], &[])
        };
        assert_eq!(agreement(&secret(1, true), &secret(2, false)), Agreement::Nothing);
        assert_eq!(agreement(&secret(1, false), &secret(2, false)), Agreement::Contradicts);
    }

    #[test]
    fn names_must_agree() {
        let names = args(ArgView::Names, vec![], &["path"]);
        let full = args(ArgView::Full, vec![value("path", 1)], &[]);
        assert_eq!(agreement(&names, &full), Agreement::Nothing);
        let other = args(ArgView::Full, vec![value("url", 1)], &[]);
        assert_eq!(agreement(&names, &other), Agreement::Contradicts);
    }

    #[test]
    fn a_name_that_one_of_two_whole_views_left_out_contradicts_both_ways() {
        let whole = args(ArgView::Full, vec![value("path", 1)], &[]);
        let more = args(ArgView::Full, vec![value("path", 1)], &["mode"]);
        assert_eq!(agreement(&whole, &more), Agreement::Contradicts);
        assert_eq!(agreement(&more, &whole), Agreement::Contradicts);
    }

    /// What was approved is not what ran, whichever of the two values a server takes.
    #[test]
    fn a_value_added_under_a_name_that_is_there_contradicts() {
        let approved = args(ArgView::Full, vec![value("path", 1)], &[]);
        let ran = args(ArgView::Full, vec![value("path", 1), value("path", 2)], &[]);
        assert_eq!(agreement(&approved, &ran), Agreement::Contradicts);
        assert_eq!(agreement(&ran, &approved), Agreement::Contradicts);
        assert_eq!(differing(&approved, &ran), [Text::from("path")]);
        let again = args(ArgView::Full, vec![value("path", 2), value("path", 1)], &[]);
        assert_eq!(agreement(&ran, &again), Agreement::All);
    }

    fn any_args() -> impl Strategy<Value = Args> {
        let name = prop::sample::select(vec!["a", "b"]);
        let one = (name, 0..2_u64, 0..2_u64, prop::bool::weighted(0.2)).prop_map(
            |(name, hash, chars, summarised)| {
                let chars = (chars > 0).then_some(hash + 3);
                ArgValue { chars, summarised, ..value(name, hash) }
            },
        );
        let view = prop::sample::select(vec![
            ArgView::Full,
            ArgView::Partial,
            ArgView::Names,
            ArgView::Nothing,
        ]);
        let values = prop::collection::vec(one, 0..4);
        let dropped = prop::collection::vec(prop::sample::select(vec!["c", "d"]), 0..2);
        (view, values, dropped).prop_map(|(view, mut values, dropped)| {
            values.sort_by(|a, b| a.name.cmp(&b.name));
            let is_shown = matches!(view, ArgView::Full | ArgView::Partial);
            args(view, if is_shown { values } else { Vec::new() }, &dropped)
        })
    }

    proptest! {
        #[test]
        fn which_witness_is_asked_first_changes_nothing(one in any_args(), other in any_args()) {
            prop_assert_eq!(agreement(&one, &other), agreement(&other, &one));
        }
    }
}
