//! The incident list's filter: all of it is in the query string, so that a page's address is the
//! page.

use std::str::FromStr;

use serde_json::Value;

use super::incident::Incident;
use super::link;
use super::shown::{Severity, Shown, clock_text};
use crate::model::{AlertId, AlertState, AlertView, Level, Micros};

/// Longest value of one filter field, in characters.
pub(crate) const VALUE_CHARS_MAX: usize = 200;
/// How hidden characters are shown. Values of the form come back with them written so.
pub(crate) const ESCAPE: &str = "\\u{";

/// The time ranges on offer: word, description, length.
pub(crate) const RANGES: [(&str, &str, i64); 6] = [
    ("15m", "last 15 minutes", 15 * Micros::MINUTE),
    ("1h", "last hour", Micros::HOUR),
    ("6h", "last 6 hours", 6 * Micros::HOUR),
    ("24h", "last 24 hours", Micros::DAY),
    ("7d", "last 7 days", 7 * Micros::DAY),
    ("30d", "last 30 days", 30 * Micros::DAY),
];

/// What to list. Empty fields do not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) level_min: Option<Level>,
    pub(crate) state: Option<AlertState>,
    pub(crate) rule: Option<String>,
    pub(crate) actor: Option<String>,
    pub(crate) range: Option<&'static str>,
    pub(crate) from: Option<Micros>,
    pub(crate) to: Option<Micros>,
    pub(crate) text: Option<String>,
    /// Where the page before this one ended.
    pub(crate) before: Option<(Micros, AlertId)>,
    /// Names of fields whose values could not be read.
    pub(crate) ignored: Vec<&'static str>,
}

/// One active restriction, with the address of the page without it.
pub(crate) struct Chip {
    pub(crate) name: &'static str,
    pub(crate) value: Shown,
    pub(crate) without: String,
}

impl Filter {
    /// Reads query pairs; what it does not understand it names instead of failing.
    pub(crate) fn read(pairs: &[(String, String)]) -> Self {
        let mut filter = Self::default();
        for (key, value) in pairs {
            // Actors and rules are matched as they are; people's own words are not meant to the
            // space.
            let is_exact = matches!(key.as_str(), "actor" | "rule");
            let value = if is_exact { value } else { value.trim() };
            let value: String = value.chars().take(VALUE_CHARS_MAX).collect();
            if !value.is_empty() {
                filter.set(key, value);
            }
        }
        if filter.range.is_some() {
            (filter.from, filter.to) = (None, None);
        }
        filter
    }

    fn set(&mut self, key: &str, value: String) {
        let read = match key {
            "level" => ("level", put(&mut self.level_min, Level::from_word(&value))),
            "state" => ("state", put(&mut self.state, AlertState::from_word(&value))),
            "rule" => ("rule", put(&mut self.rule, Some(value))),
            "actor" => ("actor", put(&mut self.actor, Some(value))),
            "q" => ("q", put(&mut self.text, Some(value))),
            "range" => {
                let known = RANGES.iter().find(|range| range.0 == value).map(|range| range.0);
                ("range", put(&mut self.range, known))
            }
            "from" => ("from", put(&mut self.from, read_time(&value))),
            "to" => ("to", put(&mut self.to, read_time(&value))),
            "before" => ("before", put(&mut self.before, read_cursor(&value))),
            _ => return,
        };
        if let (name, false) = read {
            self.ignored.push(name);
        }
    }

    /// First and last instant to list.
    pub(crate) fn bounds(&self, now: Micros) -> (Option<Micros>, Option<Micros>) {
        let range = RANGES.iter().find(|range| Some(range.0) == self.range);
        match range {
            Some((_, _, length)) => (Some(now.minus(*length)), None),
            None => (self.from, self.to),
        }
    }

    /// The actor for the store to filter by. A name from the form may be written as it is shown,
    /// which only `passes` can tell.
    pub(crate) fn actor_for_store(&self) -> Option<&str> {
        self.actor.as_deref().filter(|actor| !actor.contains(ESCAPE))
    }

    /// True when the incident passes everything but time, which the store filters by.
    pub(crate) fn passes(&self, incident: &Incident) -> bool {
        self.actor.as_ref().is_none_or(|actor| {
            let is = incident.actor();
            is == actor || (actor.contains(ESCAPE) && Shown::new(is).as_str() == actor)
        }) && self.level_min.is_none_or(|level| incident.level() >= level)
            && self.state.is_none_or(|state| incident.state() == state)
            && self
                .rule
                .as_ref()
                .is_none_or(|rule| incident.alerts().iter().any(|alert| alert.rule == *rule))
            && self.text.as_ref().is_none_or(|text| {
                let text = text.to_lowercase();
                incident.alerts().iter().any(|alert| mentions(alert, &text))
            })
    }

    /// The address of the list with this filter, from its first page on.
    pub(crate) fn address(&self) -> String {
        self.address_without("before")
    }

    /// The address of the page that begins after `end`.
    pub(crate) fn address_after(&self, end: (Micros, AlertId)) -> String {
        Self { before: Some(end), ..self.clone() }.address_without("")
    }

    /// The address of an incident's page, which keeps the filter for the ways back and on.
    pub(crate) fn address_of_incident(&self, id: AlertId, around: Option<u32>) -> String {
        let around = around.map(|minutes| ("around", minutes.to_string()));
        format!("/incidents/{id}{}", self.query_with(around))
    }

    /// Where an incident's form is sent.
    pub(crate) fn address_of_decision(&self, id: AlertId) -> String {
        format!("/incidents/{id}/decide{}", self.query_with(None))
    }

    fn query_with(&self, more: Option<(&'static str, String)>) -> String {
        let mut pairs = self.pairs();
        pairs.retain(|(key, _)| *key != "before");
        pairs.extend(more);
        link::query(pairs.iter().map(|(key, value)| (*key, value.as_str())))
    }

    /// The address of the list of one actor; none for a name too long to be a filter.
    pub(crate) fn address_of_actor(&self, actor: &str) -> Option<String> {
        let fits = Shown::new(actor).as_str().chars().nth(VALUE_CHARS_MAX).is_none();
        fits.then(|| Self { actor: Some(actor.to_owned()), ..self.clone() }.address())
    }

    /// The address of the list within other bounds.
    pub(crate) fn address_within(&self, from: Micros, to: Micros) -> String {
        Self { range: None, from: Some(from), to: Some(to), ..self.clone() }.address()
    }

    fn address_without(&self, left_out: &str) -> String {
        let pairs = self.pairs();
        let kept = pairs
            .iter()
            .filter(|(key, _)| *key != left_out && (*key != "before" || left_out.is_empty()));
        format!("/{}", link::query(kept.map(|(key, value)| (*key, value.as_str()))))
    }

    fn pairs(&self) -> Vec<(&'static str, String)> {
        let time = |at: Micros| at.to_rfc3339();
        [
            ("level", self.level_min.map(|level| level.as_str().to_owned())),
            ("state", self.state.map(|state| state.as_str().to_owned())),
            ("rule", self.rule.clone()),
            ("actor", self.actor.clone()),
            ("range", self.range.map(str::to_owned)),
            ("from", self.from.map(time)),
            ("to", self.to.map(time)),
            ("q", self.text.clone()),
            ("before", self.before.map(|(at, id)| format!("{}.{id}", at.0))),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect()
    }

    /// The active restrictions.
    pub(crate) fn chips(&self) -> Vec<Chip> {
        let range = RANGES.iter().find(|range| Some(range.0) == self.range);
        let at_least = self.level_min.map(|level| format!("{} or worse", Severity(level).word()));
        [
            ("severity", "level", at_least),
            ("state", "state", self.state.map(|state| state.as_str().to_owned())),
            ("rule", "rule", self.rule.clone()),
            ("actor", "actor", self.actor.clone()),
            ("time", "range", range.map(|range| range.1.to_owned())),
            ("from", "from", self.from.map(clock_text)),
            ("to", "to", self.to.map(clock_text)),
            ("text", "q", self.text.clone()),
        ]
        .into_iter()
        .filter_map(|(name, key, value)| {
            let value = Shown::short(&value?, 80);
            Some(Chip { name, value, without: self.address_without(key) })
        })
        .collect()
    }
}

/// Puts a value where it belongs; false when there is none to put.
pub(crate) fn put<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    let is_read = value.is_some();
    *place = value;
    is_read
}

fn mentions(alert: &AlertView, text: &str) -> bool {
    let is_escaped = text.contains(ESCAPE);
    let holds = |hay: &str| {
        hay.to_lowercase().contains(text)
            || (is_escaped && Shown::new(hay).as_str().to_lowercase().contains(text))
    };
    [&alert.title, &alert.rule, &alert.actor].into_iter().any(|hay| holds(hay))
        || alert.group.iter().any(|(_, value)| holds(value))
        || alert.tags.iter().any(|tag| holds(tag))
        || alert.evidence.iter().any(|call| {
            holds(&call.tool)
                || [&call.server, &call.principal, &call.client, &call.tenant]
                    .into_iter()
                    .any(|hay| hay.as_deref().is_some_and(holds))
                || call
                    .lines
                    .iter()
                    .filter_map(|line| line.text.as_deref())
                    .any(|line| has_value(line, &holds))
        })
}

/// True when a value of the JSON line holds the text: the keys are in every line. A line that is no
/// JSON counts as a whole. Most lines are told apart without being parsed; escapes hide text.
fn has_value(line: &str, holds: &impl Fn(&str) -> bool) -> bool {
    if !line.contains('\\') && !holds(line) {
        return false;
    }
    serde_json::from_str(line).map_or_else(|_| holds(line), |value| in_value(&value, holds))
}

fn in_value(value: &Value, holds: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => holds(text),
        Value::Array(items) => items.iter().any(|item| in_value(item, holds)),
        Value::Object(members) => members.values().any(|member| in_value(member, holds)),
        Value::Number(number) => holds(&number.to_string()),
        Value::Null | Value::Bool(_) => false,
    }
}

/// RFC 3339, or what a browser's date and time field sends, taken as UTC.
pub(crate) fn read_time(text: &str) -> Option<Micros> {
    Micros::parse_rfc3339(text)
        .or_else(|| Micros::parse_rfc3339(&format!("{text}Z")))
        .or_else(|| Micros::parse_rfc3339(&format!("{text}:00Z")))
}

/// Where the page before ended.
pub(crate) fn read_cursor<Id: FromStr>(text: &str) -> Option<(Micros, Id)> {
    let (at, id) = text.split_once('.')?;
    Some((Micros(at.parse().ok()?), id.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::alert;
    use super::super::incident::group;
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Filter {
        let owned: Vec<_> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Filter::read(&owned)
    }

    #[test]
    fn an_address_reads_back_as_the_filter() {
        let id = "0123456789abcdef0123456789abcdef";
        let filter = read(&[
            ("level", "high"),
            ("state", "open"),
            ("actor", "a&b=\"<"),
            ("from", "2026-11-29T10:00"),
            ("to", "2026-11-29T10:00:30Z"),
            ("q", "x y"),
            ("before", &format!("-5.{id}")),
        ]);
        assert_eq!(filter.ignored, [""; 0]);
        assert_eq!(
            filter.address(),
            "/?level=high&state=open&actor=a%26b%3D%22%3C&from=2026-11-29T10%3A00%3A00.000000Z\
             &to=2026-11-29T10%3A00%3A30.000000Z&q=x%20y"
        );
        assert!(filter.address_without("").ends_with(&format!("&before=-5.{id}")));
        assert_eq!(filter.chips().len(), 6);
        assert!(!filter.chips()[0].without.contains("level"));
        assert!(!filter.chips()[0].without.contains("before"));
    }

    #[test]
    fn what_cannot_be_read_is_named_and_empty_fields_are_nothing() {
        let filter = read(&[("level", "awful"), ("from", "yesterday"), ("q", " "), ("what", "x")]);
        assert_eq!(filter.ignored, ["level", "from"]);
        assert_eq!(filter.address(), "/");
    }

    #[test]
    fn a_range_counts_back_from_now_and_beats_bounds() {
        let filter = read(&[("range", "15m"), ("from", "2026-11-29T10:00")]);
        let now = Micros(20 * Micros::MINUTE);
        assert_eq!(filter.bounds(now), (Some(Micros(5 * Micros::MINUTE)), None));
    }

    #[test]
    fn a_name_with_hidden_characters_is_found_as_it_is_and_as_it_is_shown() {
        let name = "u\u{202e}gne";
        let incident = group(vec![alert(1, name, Level::High)]).remove(0);
        for written in [name, "u\\u{202e}gne"] {
            for field in ["actor", "q"] {
                assert!(read(&[(field, written)]).passes(&incident), "{field} {written}");
            }
        }
        assert!(!read(&[("actor", "u\\u{202d}gne")]).passes(&incident));
        assert_eq!(read(&[("actor", name)]).actor_for_store(), Some(name));
        assert_eq!(read(&[("actor", "u\\u{202e}gne")]).actor_for_store(), None);
        // Every name with a link to its list comes back whole from the form there.
        assert!(Filter::default().address_of_actor(&"\u{202e}".repeat(26)).is_none());
    }

    #[test]
    fn lines_are_searched_by_their_values() {
        let line = r#"{"args":{"url":"https://evil.example/","caf":["caf\u00e9",417]}}"#;
        for (text, is_found) in
            [("evil.example", true), ("café", true), ("417", true), ("url", false)]
        {
            assert_eq!(has_value(line, &|hay: &str| hay.contains(text)), is_found, "{text}");
        }
        assert!(has_value("no JSON \\", &|hay: &str| hay.contains("JSON")));
        assert!(!has_value("no JSON \\", &|hay: &str| hay.contains("args")));
    }

    #[test]
    fn text_is_found_whatever_its_case() {
        let incident = group(vec![alert(1, "U-Eng", Level::High)]).remove(0);
        assert!(read(&[("q", "u-ENG")]).passes(&incident));
        assert!(!read(&[("q", "u-ann")]).passes(&incident));
        assert!(!read(&[("level", "critical")]).passes(&incident));
        assert!(!read(&[("state", "closed")]).passes(&incident));
    }
}
