//! The `correlation:` block: Sigma's counts and sequences, and our first-seen, ratio and taint rules.

use super::bounds::Bounds;
use super::field::{ValueField, did_you_mean};
use super::group_by::{self, GroupBy};
use super::problem::Problems;
use super::yaml::{Entry, Mark, Node, Value, entry};

/// A correlation with its references still by name.
pub(super) struct Correlation {
    /// Names or ids of other documents, each with its place. Of a ratio: the counted ones, then all;
    /// of a taint: source, what it touches, sink.
    pub(super) rules: Vec<(Mark, String)>,
    /// What the calls are grouped by; of nothing, all of them are one group.
    pub(super) group_by: Vec<GroupBy>,
    /// The file says what they are grouped by, if only that it is nothing.
    pub(super) is_grouped: bool,
    pub(super) what: Correlates,
    /// One call may fill several stages.
    pub(super) is_same_event_allowed: bool,
}

/// What a correlation looks for. Spans are microseconds.
pub(super) enum Correlates {
    Count {
        what: Counts,
        timespan: i64,
    },
    Temporal {
        timespan: i64,
    },
    TemporalOrdered {
        timespan: i64,
    },
    Taint,
    FirstSeen {
        baseline: usize,
        learning: Option<i64>,
    },
    /// Calls that a witness should tell of and does not.
    Absence,
}

/// What a counting correlation counts.
pub(super) enum Counts {
    Events(Bounds, u64),
    Values { field: ValueField, bounds: Bounds, min: u64 },
    Share { bounds: Bounds, minimum: u64 },
}

/// The longest timespan: state and history reads are bounded by it.
const TIMESPAN_MAX_SECONDS: u64 = 7 * 24 * 3600;

/// The most stages of a sequence.
pub(super) const STAGES_MAX: usize = 16;

/// The most calls a rule can count, and the most first values that can be home.
pub(super) const COUNT_MAX: u64 = 100_000;

/// The longest that a first-seen rule can learn.
const LEARNING_MAX_SECONDS: u64 = 366 * 24 * 3600;

/// Whom calls can lack as a witness: nobody else is known to be told of every call.
const EXPECTED: &str = "client";

const TYPES: [&str; 8] = [
    "event_count",
    "value_count",
    "temporal",
    "temporal_ordered",
    "first_seen",
    "ratio",
    "taint",
    "absence",
];

const SAME_EVENT: &str = "allow-same-event";

/// The keys of a type; none for a type that is not known.
fn keys_of(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "event_count" | "value_count" => {
            &["type", "rules", "generate", "group-by", "aliases", "timespan", "condition"]
        }
        "temporal" | "temporal_ordered" => {
            &["type", "rules", "generate", "group-by", "aliases", "timespan", SAME_EVENT]
        }
        "first_seen" => &["type", "rules", "generate", "fields", "baseline", "learning"],
        "ratio" => {
            &["type", "of", "per", "generate", "group-by", "timespan", "condition", "minimum"]
        }
        "taint" => &["type", "source", "touches", "sink", "generate", "group-by", SAME_EVENT],
        "absence" => &["type", "rules", "generate", "group-by", "expect"],
        _ => return None,
    })
}

impl Correlation {
    /// Reads the block; everything wrong with it goes to `problems`.
    pub(super) fn read(found: &Entry, problems: &mut Problems<'_>) -> Option<Self> {
        let Some(entries) = found.node.map() else {
            problems.push(found.mark, "`correlation` is a map");
            return None;
        };
        let Some(kind) = entry(entries, "type") else {
            problems.push(found.mark, "`correlation` has no `type`");
            return None;
        };
        let word = kind.node.text().unwrap_or_default();
        let Some(keys) = keys_of(word) else {
            let (types, hint) = (TYPES.join(", "), did_you_mean(word, TYPES.into_iter()));
            let message = format!("the type `{word}` is not supported; there are {types}{hint}");
            problems.push(kind.node.mark, message);
            return None;
        };
        known_keys(entries, keys, problems);
        generate(entries, problems);
        let rules = match word {
            "ratio" => named(found.mark, entries, &["of", "per"], &[], problems),
            "taint" => named(found.mark, entries, &["source", "sink"], &["touches"], problems),
            _ => references(found.mark, entries, problems),
        };
        let grouped = read_group_by(word, found.mark, entries, problems);
        let what = match word {
            "first_seen" => Some(Correlates::FirstSeen {
                baseline: baseline(entries, problems),
                learning: learning(entries, problems),
            }),
            "absence" => expected(found.mark, entries, problems).then_some(Correlates::Absence),
            "taint" => Some(Correlates::Taint),
            "temporal" => timespan(found.mark, entries, problems)
                .map(|timespan| Correlates::Temporal { timespan }),
            "temporal_ordered" => timespan(found.mark, entries, problems)
                .map(|timespan| Correlates::TemporalOrdered { timespan }),
            _ => {
                let counts = counts(word, found.mark, entries, problems);
                let timespan = timespan(found.mark, entries, problems);
                counts.zip(timespan).map(|(what, timespan)| Correlates::Count { what, timespan })
            }
        };
        let is_same_event_allowed = same_event(entries, problems);
        let is_grouped = grouped.is_some();
        let group_by = grouped.unwrap_or_default();
        Some(Self { rules: rules?, group_by, is_grouped, what: what?, is_same_event_allowed })
    }
}

/// The fields to group by; none where the file does not say and need not.
fn read_group_by(
    word: &str,
    mark: Mark,
    entries: &[Entry],
    problems: &mut Problems<'_>,
) -> Option<Vec<GroupBy>> {
    let key = if word == "first_seen" { "fields" } else { "group-by" };
    let found = entry(entries, key);
    let aliases = entry(entries, "aliases");
    let aliases = aliases.map(|aliases| group_by::aliases(aliases, found, problems));
    // Those of Sigma, and what can stand among them: without fields all calls are one group.
    let can_be_one = !matches!(word, "first_seen" | "taint" | "absence");
    let is_empty = |found: &Entry| found.node.list().is_some_and(<[Node]>::is_empty);
    match found {
        None if can_be_one => None,
        None => {
            problems.push(mark, format!("`{key}` is missing, such as `{key}: [actor]`"));
            None
        }
        Some(found) if is_empty(found) && !can_be_one => {
            problems.push(found.mark, format!("`{key}` names no field, such as `{key}: [actor]`"));
            None
        }
        Some(found) => Some(group_by::group_by(found, aliases.unwrap_or_default(), problems)),
    }
}

/// The rules under these keys, in the order source, touched, sink; the ones of `maybe` may be
/// missing.
fn named(
    mark: Mark,
    entries: &[Entry],
    keys: &[&str],
    maybe: &[&str],
    problems: &mut Problems<'_>,
) -> Option<Vec<(Mark, String)>> {
    let mut rules = Vec::new();
    let (last, first) = keys.split_last()?;
    for key in first.iter().chain(maybe).chain([last]) {
        let Some(found) = entry(entries, key) else {
            if !maybe.contains(key) {
                problems.push(mark, format!("`{key}` is missing: the name of a rule in this file"));
            }
            continue;
        };
        match found.node.text() {
            Some(name) => rules.push((found.node.mark, name.to_owned())),
            None => problems.push(found.node.mark, format!("`{key}` is the name of one rule")),
        }
    }
    (rules.len() >= keys.len()).then_some(rules)
}

fn known_keys(entries: &[Entry], keys: &[&str], problems: &mut Problems<'_>) {
    for found in entries.iter().filter(|found| !keys.contains(&found.key.as_str())) {
        let hint = did_you_mean(&found.key, keys.iter().copied());
        let message = format!("this type of correlation does not support `{}`{hint}", found.key);
        problems.push(found.mark, message);
    }
}

fn generate(entries: &[Entry], problems: &mut Problems<'_>) {
    if let Some(found) = entry(entries, "generate")
        && !matches!(found.node.value, Value::Bool(false))
    {
        let message = "only `generate: false` is supported: a rule that a correlation names does \
                       not fire by itself; put a copy of it into a file of its own";
        problems.push(found.mark, message);
    }
}

fn references(
    mark: Mark,
    entries: &[Entry],
    problems: &mut Problems<'_>,
) -> Option<Vec<(Mark, String)>> {
    let nodes = entry(entries, "rules").and_then(|found| found.node.list()).unwrap_or_default();
    if nodes.is_empty() {
        problems.push(mark, "`rules` is a list of the names of rules in this file");
        return None;
    }
    if nodes.len() > STAGES_MAX {
        problems
            .push(mark, format!("`rules` names {} rules; {STAGES_MAX} are the most", nodes.len()));
        return None;
    }
    nodes
        .iter()
        .map(|node| {
            if node.text().is_none() {
                problems.push(node.mark, "a rule is named by a text");
            }
            Some((node.mark, node.text()?.to_owned()))
        })
        .collect()
}

fn timespan(mark: Mark, entries: &[Entry], problems: &mut Problems<'_>) -> Option<i64> {
    let Some(found) = entry(entries, "timespan") else {
        problems.push(mark, "`timespan` is missing, such as `timespan: 5m`");
        return None;
    };
    let micros = found.node.text().and_then(span_micros);
    if micros.is_none() {
        let message = "`timespan` is a whole number with s, m, h or d, such as 90s, and 7d at most";
        problems.push(found.mark, message);
    }
    micros
}

pub(super) fn span_micros(text: &str) -> Option<i64> {
    span_up_to(text, TIMESPAN_MAX_SECONDS)
}

/// The microseconds of a time that a first-seen rule learns.
pub(super) fn learning_micros(text: &str) -> Option<i64> {
    span_up_to(text, LEARNING_MAX_SECONDS)
}

fn span_up_to(text: &str, seconds_max: u64) -> Option<i64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds_each: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return None,
    };
    let seconds = number.parse::<u32>().ok().map(u64::from)?.checked_mul(seconds_each)?;
    if seconds == 0 || seconds > seconds_max {
        return None;
    }
    i64::try_from(seconds).ok()?.checked_mul(1_000_000)
}

fn counts(
    word: &str,
    mark: Mark,
    entries: &[Entry],
    problems: &mut Problems<'_>,
) -> Option<Counts> {
    let Some(found) = entry(entries, "condition") else {
        problems.push(mark, "`condition` is missing, such as `condition: {gte: 20}`");
        return None;
    };
    let Some(parts) = found.node.map() else {
        let kind = found.node.kind();
        problems
            .push(found.mark, format!("`condition` is a map such as `{{gte: 20}}`, not {kind}"));
        return None;
    };
    let other_keys: &[&str] = if word == "value_count" { &["field"] } else { &[] };
    let bounds = match Bounds::read(parts, other_keys) {
        Ok(bounds) => bounds,
        Err((mark, message)) => {
            problems.push(mark, message);
            return None;
        }
    };
    if word == "ratio" {
        share(found.mark, &bounds, problems);
        let minimum = entry(entries, "minimum").and_then(|found| found.node.count());
        let minimum = minimum.filter(|minimum| (1..=COUNT_MAX).contains(minimum));
        if minimum.is_none() {
            let message = format!("`minimum` is the least number of calls, 1 to {COUNT_MAX}");
            problems.push(mark, message);
        }
        return minimum.map(|minimum| Counts::Share { bounds, minimum });
    }
    let min = smallest(found.mark, &bounds, problems)?;
    if word == "event_count" {
        return Some(Counts::Events(bounds, min));
    }
    let Some(field) = entry(parts, "field") else {
        problems.push(found.mark, "`condition` has no `field`, whose values are counted");
        return None;
    };
    let parsed = ValueField::parse(field.node.text().unwrap_or_default());
    let field = problems.take(field.node.mark, parsed)?;
    Some(Counts::Values { field, bounds, min })
}

/// True if a share can be compared with it.
pub(super) fn share(mark: Mark, bounds: &Bounds, problems: &mut Problems<'_>) -> bool {
    let is_share = bounds.are_shares();
    if !is_share {
        problems.push(
            mark,
            "`condition` compares a share from 0 to 1, such as 0.5 for half of the calls",
        );
    }
    is_share
}

/// The least count that fits. A count at a call is one or more: that nothing or little happened is
/// seen at no call.
pub(super) fn smallest(mark: Mark, bounds: &Bounds, problems: &mut Problems<'_>) -> Option<u64> {
    if !bounds.has_floor() {
        let message = "`condition` needs a lower bound (`gte`, `gt` or `eq`): that no more happened is \
                       seen at no call";
        problems.push(mark, message);
        return None;
    }
    if let Some(number) = bounds.broken() {
        problems.push(mark, format!("counts are whole numbers, and {number} is none"));
        return None;
    }
    let min = bounds.smallest(COUNT_MAX);
    if min.is_none() {
        problems.push(mark, format!("`condition` fits no whole number from 1 to {COUNT_MAX}"));
    }
    min
}

fn baseline(entries: &[Entry], problems: &mut Problems<'_>) -> usize {
    let Some(found) = entry(entries, "baseline") else {
        return 1;
    };
    let count = Node::count(&found.node).filter(|count| *count <= COUNT_MAX);
    if count.is_none() {
        problems.push(found.mark, format!("`baseline` is a whole number, 0 to {COUNT_MAX}"));
    }
    count.and_then(|count| usize::try_from(count).ok()).unwrap_or(1)
}

fn learning(entries: &[Entry], problems: &mut Problems<'_>) -> Option<i64> {
    let found = entry(entries, "learning")?;
    let micros = found.node.text().and_then(learning_micros);
    if micros.is_none() {
        let message =
            "`learning` is a whole number with s, m, h or d, such as 7d, and 366d at most";
        problems.push(found.mark, message);
    }
    micros
}

/// True if the witness that is missed is one that can be.
fn expected(mark: Mark, entries: &[Entry], problems: &mut Problems<'_>) -> bool {
    let Some(found) = entry(entries, "expect") else {
        problems.push(mark, format!("`expect` is missing: `expect: {EXPECTED}`"));
        return false;
    };
    let is_known = found.node.text() == Some(EXPECTED);
    if !is_known {
        let message =
            format!("`expect` is `{EXPECTED}`: no other witness is missed where it says nothing");
        problems.push(found.mark, message);
    }
    is_known
}

fn same_event(entries: &[Entry], problems: &mut Problems<'_>) -> bool {
    let Some(found) = entry(entries, SAME_EVENT) else { return false };
    let Value::Bool(is_allowed) = found.node.value else {
        problems.push(found.mark, format!("`{SAME_EVENT}` is true or false"));
        return false;
    };
    is_allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_whole_and_bounded() {
        assert_eq!(span_micros("90s"), Some(90_000_000));
        assert_eq!(span_micros("7d"), Some(604_800_000_000));
        for bad in ["", "5", "5w", "0s", "8d", "1.5h", "-1s", "99999999999d", "5µ"] {
            assert_eq!(span_micros(bad), None, "{bad}");
        }
    }
}
