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
    if left_whole {
        let known = |name: &str| left.values.iter().any(|value| &*value.name == name);
        let missing = right.values.iter().any(|value| !known(&value.name))
            || right.dropped.iter().any(|name| !known(name) && !left.dropped.contains(name));
        if missing {
            return Agreement::Contradicts;
        }
    }
    match equal {
        _ if exact && left_whole && right_whole => Agreement::All,
        0 => Agreement::Nothing,
        _ => Agreement::Some,
    }
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
        let differs = |value: &&ArgValue| match find(right, value) {
            Some(other) => !is_undecided(value, other) && !same_value(value, other),
            None => is_whole,
        };
        left.values.iter().filter(differs).map(|value| Text::clone(&value.name)).collect()
    };
    let mut names = one_way(left, right);
    names.extend(one_way(right, left));
    names.sort_unstable();
    names.dedup();
    names
}

/// A duplicated key has several values: one that agrees is enough.
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
}
