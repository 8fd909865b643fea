//! The filter of the list of calls: all of it is in the query string, so that a page's address is
//! the page.

use super::filter::{Chip, ESCAPE, RANGES, VALUE_CHARS_MAX, put, read_cursor, read_time};
use super::link;
use super::shown::{Shown, clock_text};
use crate::model::{CallId, Micros, OutcomeClass};
use crate::store::CallQuery;

const PATH: &str = "/calls";

/// What to list. Empty fields do not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallsFilter {
    pub(crate) actor: Option<String>,
    pub(crate) tool: Option<String>,
    pub(crate) outcome: Option<OutcomeClass>,
    pub(crate) range: Option<&'static str>,
    pub(crate) from: Option<Micros>,
    pub(crate) to: Option<Micros>,
    /// Where the page before this one ended.
    pub(crate) before: Option<(Micros, CallId)>,
    /// Names of fields whose values could not be read.
    pub(crate) ignored: Vec<&'static str>,
}

impl CallsFilter {
    /// Reads query pairs; what it does not understand it names instead of failing.
    pub(crate) fn read(pairs: &[(String, String)]) -> Self {
        let mut filter = Self::default();
        for (key, value) in pairs {
            // Names are matched as they are; the others are not meant to the space.
            let is_name = matches!(key.as_str(), "actor" | "tool");
            let value = if is_name { value } else { value.trim() };
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
            "actor" => ("actor", put(&mut self.actor, Some(value))),
            "tool" => ("tool", put(&mut self.tool, Some(value))),
            "outcome" => ("outcome", put(&mut self.outcome, OutcomeClass::from_word(&value))),
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

    /// What to ask the store for, the newest first.
    pub(crate) fn query(&self, now: Micros, limit: usize) -> CallQuery {
        let range = RANGES.iter().find(|range| Some(range.0) == self.range);
        CallQuery {
            actors: self.actor.as_deref().map(as_meant).unwrap_or_default(),
            tools: self.tool.as_deref().map(as_meant).unwrap_or_default(),
            class: self.outcome,
            from: range.map_or(self.from, |range| Some(now.minus(range.2))),
            to: self.to,
            is_newest_first: true,
            after: self.before,
            limit,
            ..CallQuery::default()
        }
    }

    /// The address of one actor's calls from a day before the first instant to a day after the
    /// last; none for a name too long to be a filter.
    pub(crate) fn address_of_actor(
        actor: &str,
        around: Option<(Micros, Micros)>,
    ) -> Option<String> {
        let fits = Shown::new(actor).as_str().chars().nth(VALUE_CHARS_MAX).is_none();
        let filter = Self {
            actor: Some(actor.to_owned()),
            from: around.map(|(first, _)| first.minus(Micros::DAY)),
            to: around.map(|(_, last)| last.plus(Micros::DAY)),
            ..Self::default()
        };
        fits.then(|| filter.address())
    }

    /// The address of the list with this filter, from its first page on.
    pub(crate) fn address(&self) -> String {
        self.address_without("before")
    }

    /// The address of the page that begins after `end`.
    pub(crate) fn address_after(&self, end: (Micros, CallId)) -> String {
        Self { before: Some(end), ..self.clone() }.address_without("")
    }

    fn address_without(&self, left_out: &str) -> String {
        let time = |at: Micros| at.to_rfc3339();
        let pairs = [
            ("actor", self.actor.clone()),
            ("tool", self.tool.clone()),
            ("outcome", self.outcome.map(|outcome| outcome.as_str().to_owned())),
            ("range", self.range.map(str::to_owned)),
            ("from", self.from.map(time)),
            ("to", self.to.map(time)),
            ("before", self.before.map(|(at, id)| format!("{}.{id}", at.0))),
        ];
        // Another restriction begins its list anew.
        let kept = pairs
            .iter()
            .filter(|(key, _)| *key != left_out && (*key != "before" || left_out.is_empty()));
        let query = kept.filter_map(|(key, value)| Some((*key, value.as_deref()?)));
        format!("{PATH}{}", link::query(query))
    }

    /// The active restrictions.
    pub(crate) fn chips(&self) -> Vec<Chip> {
        let range = RANGES.iter().find(|range| Some(range.0) == self.range);
        [
            ("actor", "actor", self.actor.clone()),
            ("tool", "tool", self.tool.clone()),
            ("outcome", "outcome", self.outcome.map(|outcome| outcome.as_str().to_owned())),
            ("time", "range", range.map(|range| range.1.to_owned())),
            ("from", "from", self.from.map(clock_text)),
            ("to", "to", self.to.map(clock_text)),
        ]
        .into_iter()
        .filter_map(|(name, key, value)| {
            let value = Shown::short(&value?, 80);
            Some(Chip { name, value, without: self.address_without(key) })
        })
        .collect()
    }
}

/// The names that were meant: as it stands and, where a form brought it back with its hidden
/// characters written out, with these.
fn as_meant(name: &str) -> Vec<String> {
    let mut meant = vec![name.to_owned()];
    let mut hidden = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once(ESCAPE) {
        hidden.push_str(before);
        let character = after.split_once('}').and_then(|(digits, behind)| {
            let code = u32::from_str_radix(digits, 16).ok()?;
            Some((char::from_u32(code)?, behind))
        });
        if let Some((character, behind)) = character {
            hidden.push(character);
            rest = behind;
        } else {
            hidden.push_str(ESCAPE);
            rest = after;
        }
    }
    hidden.push_str(rest);
    if hidden != name {
        meant.push(hidden);
    }
    meant
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> CallsFilter {
        let owned: Vec<_> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        CallsFilter::read(&owned)
    }

    #[test]
    fn an_address_reads_back_as_the_filter() {
        let id = "0123456789abcdef0123456789abcdef";
        let filter = read(&[
            ("actor", "a&b=\"<"),
            ("tool", "read file"),
            ("outcome", "denied"),
            ("from", "2026-11-29T10:00"),
            ("to", "2026-11-29T10:00:30Z"),
            ("before", &format!("-5.{id}")),
        ]);
        assert_eq!(filter.ignored, [""; 0]);
        assert_eq!(
            filter.address(),
            "/calls?actor=a%26b%3D%22%3C&tool=read%20file&outcome=denied\
             &from=2026-11-29T10%3A00%3A00.000000Z&to=2026-11-29T10%3A00%3A30.000000Z"
        );
        assert!(filter.address_without("").ends_with(&format!("&before=-5.{id}")));
        assert_eq!(filter.chips().len(), 5);
        assert!(filter.chips().iter().all(|chip| !chip.without.contains("before")));
    }

    #[test]
    fn what_cannot_be_read_is_named_and_empty_fields_are_nothing() {
        let filter = read(&[
            ("outcome", "fine"),
            ("from", "now"),
            ("before", "5"),
            ("tool", ""),
            ("x", "y"),
        ]);
        assert_eq!(filter.ignored, ["outcome", "from", "before"]);
        assert_eq!(filter.address(), "/calls");
    }

    #[test]
    fn a_range_counts_back_from_now_and_beats_bounds() {
        let query = read(&[("range", "15m"), ("from", "2026-11-29T10:00")])
            .query(Micros(20 * Micros::MINUTE), 7);
        assert_eq!((query.from, query.to), (Some(Micros(5 * Micros::MINUTE)), None));
    }

    #[test]
    fn a_name_is_meant_as_it_is_and_as_it_is_shown() {
        assert_eq!(as_meant("u-eng"), ["u-eng"]);
        assert_eq!(as_meant("u\\u{202e}g"), ["u\\u{202e}g", "u\u{202e}g"]);
        for odd in ["\\u{", "\\u{}", "\\u{d800}", "\\u{110000}x"] {
            assert_eq!(as_meant(odd), [odd]);
        }
    }

    #[test]
    fn a_name_too_long_to_be_a_filter_has_no_link() {
        assert!(CallsFilter::address_of_actor(&"\u{202e}".repeat(26), None).is_none());
        let day = Some((Micros(0), Micros(0)));
        assert_eq!(
            CallsFilter::address_of_actor("u", day).as_deref(),
            Some(
                "/calls?actor=u&from=1969-12-31T00%3A00%3A00.000000Z\
                 &to=1970-01-02T00%3A00%3A00.000000Z"
            )
        );
    }
}
