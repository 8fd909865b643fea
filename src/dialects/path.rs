//! What the path of a log says about every line in it, for the fields that a line itself does not name.

use std::collections::HashMap;

use super::reading::says_nothing;
use super::texts::Texts;
use crate::model::{PathField, PathPattern, Record, Text};

/// Streams whose names are remembered; then they are forgotten and learnt again.
const STREAMS_MAX: usize = 100_000;

/// What the paths of logs name, by the patterns of the configuration.
pub(super) struct Paths {
    patterns: Vec<PathPattern>,
    /// What is known of each stream that was read from.
    known: HashMap<Text, Named>,
}

/// The fields that one stream's path names.
type Named = Box<[(PathField, Text)]>;

impl Paths {
    pub(super) fn new(patterns: Vec<PathPattern>) -> Self {
        Self { patterns, known: HashMap::new() }
    }

    /// Fills in what the record does not name and its stream's path does. The first pattern that fits counts.
    pub(super) fn fill(&mut self, record: &mut Record, texts: &mut Texts) {
        if self.patterns.is_empty() {
            return;
        }
        if !self.known.contains_key(&record.stream) {
            if self.known.len() >= STREAMS_MAX {
                self.known.clear();
            }
            let named = name(&self.patterns, &record.stream, texts);
            self.known.insert(Text::clone(&record.stream), named);
        }
        for (field, text) in self.known.get(&record.stream).into_iter().flatten() {
            let value = match field {
                PathField::Tenant => &mut record.tenant,
                PathField::Client => &mut record.client,
                PathField::Principal => &mut record.principal,
                PathField::Server => &mut record.server,
                PathField::Session => &mut record.session,
            };
            value.get_or_insert_with(|| Text::clone(text));
        }
    }
}

/// Names of files are as hostile as what is in them: masked and cut like any text of a line.
fn name(patterns: &[PathPattern], stream: &str, texts: &mut Texts) -> Named {
    let found = patterns.iter().find_map(|pattern| pattern.read(stream)).unwrap_or_default();
    let said = found.into_iter().filter(|(_, text)| !says_nothing(text));
    said.map(|(field, text)| (field, texts.shared(text).text)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Parsed, Parser, Part};
    use crate::model::{Line, Micros, PathPattern, Record, Text};

    const BARE: &str =
        r#"{"actor":"server","tool":"t","outcome":"ok","ts":"2026-11-20T08:00:00Z"}"#;

    fn parser(patterns: &[&str]) -> Parser {
        let patterns = patterns.iter().map(|text| PathPattern::parse(text).unwrap()).collect();
        Parser::new([7; 32], vec![]).with_paths(patterns)
    }

    fn record(parser: &mut Parser, stream: &str, line: &str) -> Record {
        let line =
            Line { generation: 1, offset: 0, length: line.len() as u64, bytes: line.as_bytes() };
        match parser.parse(&line, &Text::from(stream), Micros(0)) {
            Parsed::Record(record) => record,
            other => panic!("{other:?}"),
        }
    }

    /// Tenant, client, principal, server and session, with `-` for none.
    fn named(record: &Record) -> String {
        let all =
            [&record.tenant, &record.client, &record.principal, &record.server, &record.session];
        all.map(|text| text.as_deref().unwrap_or("-")).join(" ")
    }

    #[test]
    fn the_path_names_what_the_line_does_not() {
        let mut parser = parser(&["{tenant}/{client}/{principal}/{server}/{session}.jsonl"]);
        let stream = "acme/desk/u-eng/files/s1.jsonl";
        assert_eq!(named(&record(&mut parser, stream, BARE)), "acme desk u-eng files s1");
        let own = r#"{"actor":"server","tool":"t","outcome":"ok","tenant":"globex","client_id":"-",
            "user":"u-own","server":"","session_id":"s9"}"#;
        assert_eq!(named(&record(&mut parser, stream, own)), "globex desk u-own files s9");
        assert_eq!(named(&record(&mut parser, "acme/desk/x.jsonl", BARE)), "- - - - -");
    }

    #[test]
    fn the_first_pattern_that_fits_counts_alone() {
        let mut parser = parser(&["shared/**/*.jsonl", "{tenant}/{client}.jsonl", "{server}/*"]);
        for (stream, wanted) in [
            ("shared/desk.jsonl", "- - - - -"),
            ("acme/desk.jsonl", "acme desk - - -"),
            ("acme/desk.log", "- - - acme -"),
        ] {
            assert_eq!(named(&record(&mut parser, stream, BARE)), wanted, "{stream}");
        }
    }

    #[test]
    fn a_dash_and_a_space_name_nobody() {
        let mut parser = parser(&["{tenant}/{principal}/*.jsonl"]);
        assert_eq!(named(&record(&mut parser, "-/ - /a.jsonl", BARE)), "- - - - -");
        assert_eq!(named(&record(&mut parser, "acme/ /a.jsonl", BARE)), "acme - - - -");
    }

    #[test]
    fn hostile_names_are_masked_and_bounded() {
        let mut parser = parser(&["{tenant}/{principal}/*.jsonl"]);
        let secret = format!("ghp_canarycanarycanary{}", "0".repeat(20));
        let stream = format!("{secret}/{}/a.jsonl", "x".repeat(9000));
        let record = record(&mut parser, &stream, BARE);
        let (tenant, principal) = (record.tenant.unwrap(), record.principal.unwrap());
        assert!(!tenant.contains("canary"), "{tenant}");
        assert!(principal.len() <= 1024, "{}", principal.len());
        // Two long names with one beginning stay two people.
        let other = format!("{secret}/{}/a.jsonl", "x".repeat(9001));
        assert_ne!(self::record(&mut parser, &other, BARE).principal, Some(principal));
    }

    #[test]
    fn every_object_of_a_line_gets_the_names() {
        let mut parser = parser(&["{tenant}/*.jsonl"]);
        let line = format!("{BARE}{BARE}");
        let line = Line { generation: 1, offset: 0, length: 99, bytes: line.as_bytes() };
        let Parsed::Parts(parts) = parser.parse(&line, &Text::from("acme/a.jsonl"), Micros(0))
        else {
            panic!("two records")
        };
        let tenant = |part: &Part| match part {
            Part::Record(record) => record.tenant.as_deref() == Some("acme"),
            Part::Reject(_) => false,
        };
        assert!(parts.len() == 2 && parts.iter().all(tenant));
    }
}
