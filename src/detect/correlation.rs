//! The `correlation:` block: Sigma's event counts and ordered sequences, and our first-seen rules.

use super::document::group_by;
use super::field::{GroupField, did_you_mean};
use super::problem::Problems;
use super::yaml::{Entry, Mark, Node, Value, entry};

/// A correlation with its references still by name.
pub(super) struct Correlation {
    /// Names or ids of other documents, each with its line.
    pub(super) rules: Vec<(Mark, String)>,
    pub(super) group_by: Vec<GroupField>,
    pub(super) what: Correlates,
}

/// What a correlation looks for. Spans are microseconds.
pub(super) enum Correlates {
    EventCount { min: u64, timespan: i64 },
    TemporalOrdered { timespan: i64 },
    FirstSeen { baseline: usize },
}

/// The longest timespan: state and history reads are bounded by it.
const TIMESPAN_MAX_SECONDS: u64 = 7 * 24 * 3600;

/// The most calls a rule can count, and the most first values that can be home.
const COUNT_MAX: u64 = 100_000;

const TYPES: [&str; 3] = ["event_count", "temporal_ordered", "first_seen"];

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
        let keys: &[&str] = match kind.node.text() {
            Some("event_count") => {
                &["type", "rules", "generate", "group-by", "timespan", "condition"]
            }
            Some("temporal_ordered") => &["type", "rules", "generate", "group-by", "timespan"],
            Some("first_seen") => &["type", "rules", "generate", "fields", "baseline"],
            other => {
                let other = other.unwrap_or_default();
                let (types, hint) = (TYPES.join(", "), did_you_mean(other, TYPES.into_iter()));
                let message =
                    format!("the type `{other}` is not supported; there are {types}{hint}");
                problems.push(kind.mark, message);
                return None;
            }
        };
        known_keys(entries, keys, problems);
        generate(entries, problems);
        let rules = references(found.mark, entries, problems);
        let first_seen = kind.node.text() == Some("first_seen");
        let fields = if first_seen { "fields" } else { "group-by" };
        let group_by = if let Some(entry) = entry(entries, fields) {
            group_by(entry, problems)
        } else {
            let message = format!("`{fields}` is missing, such as `{fields}: [actor]`");
            problems.push(found.mark, message);
            Vec::new()
        };
        let what = if first_seen {
            Some(Correlates::FirstSeen { baseline: baseline(entries, problems) })
        } else {
            let timespan = timespan(found.mark, entries, problems);
            if kind.node.text() == Some("event_count") {
                let min = minimum(found.mark, entries, problems);
                min.zip(timespan).map(|(min, timespan)| Correlates::EventCount { min, timespan })
            } else {
                timespan.map(|timespan| Correlates::TemporalOrdered { timespan })
            }
        };
        Some(Self { rules: rules?, group_by, what: what? })
    }
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

fn span_micros(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds_each: u64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return None,
    };
    let seconds = number.parse::<u32>().ok().map(u64::from)?.checked_mul(seconds_each)?;
    if seconds == 0 || seconds > TIMESPAN_MAX_SECONDS {
        return None;
    }
    i64::try_from(seconds).ok()?.checked_mul(1_000_000)
}

/// Only a lower bound can close a match at a call: that something did *not* happen is seen at no
/// call.
fn minimum(mark: Mark, entries: &[Entry], problems: &mut Problems<'_>) -> Option<u64> {
    let Some(found) = entry(entries, "condition") else {
        problems.push(mark, "`condition` is missing, such as `condition: {gte: 20}`");
        return None;
    };
    let min = match found.node.map() {
        Some([only]) => match only.key.as_str() {
            "gte" => only.node.count(),
            "gt" => only.node.count().and_then(|count| count.checked_add(1)),
            _ => None,
        },
        _ => None,
    };
    let min = min.filter(|min| (1..=COUNT_MAX).contains(min));
    if min.is_none() {
        let message = format!("`condition` is one of `gte: N` and `gt: N`, 1 to {COUNT_MAX}");
        problems.push(found.mark, message);
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
