//! A labels file: TOML text to entries, with every problem in it and the line it is on.

use std::ops::Range;

use rustc_hash::FxHashSet;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::name;
use crate::model::{Label, Labels, Tri};

/// Something wrong with a labels file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct CatalogueProblem {
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// One tool name (or pattern) of one `[[tool]]` table.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) server: Option<String>,
    pub(super) name: String,
    /// What it says; `unknown` where it says nothing.
    pub(super) labels: Labels,
    /// Line of the `[[tool]]` table, counted from 1.
    pub(super) line: usize,
}

/// Reads a whole labels file. The entries are those without a problem.
pub(super) fn parse(text: &str, file: &str) -> (Vec<Entry>, Vec<CatalogueProblem>) {
    let mut reader = Reader { text, file, entries: Vec::new(), problems: Vec::new() };
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        reader.problem(error.span().unwrap_or_default(), error.message().to_string());
    }
    reader.root(root.get_ref());
    reader.repeats();
    reader.problems.sort_by_key(|problem| problem.line);
    (reader.entries, reader.problems)
}

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
    entries: Vec<Entry>,
    problems: Vec<CatalogueProblem>,
}

impl Reader<'_> {
    fn root(&mut self, root: &DeTable<'_>) {
        for (key, value) in root {
            if key.get_ref() != "tool" {
                let message =
                    format!("`{}` is not known here; entries are [[tool]]", key.get_ref());
                self.problem(key.span(), message);
                continue;
            }
            let Some(tables) = value.get_ref().as_array() else {
                self.problem(key.span(), "`tool` is a list of tables: write [[tool]]".to_string());
                continue;
            };
            for table in tables {
                match table.get_ref() {
                    DeValue::Table(fields) => self.tool(fields, table.span()),
                    _ => self.problem(table.span(), "an entry is a table: write [[tool]]".into()),
                }
            }
        }
    }

    fn tool(&mut self, fields: &DeTable<'_>, span: Range<usize>) {
        let before = self.problems.len();
        let mut server = None;
        let mut names = Vec::new();
        let mut labels = Labels::default();
        for (key, value) in fields {
            match (key.get_ref().as_ref(), Label::ALL.iter().find(|l| l.as_str() == key.get_ref()))
            {
                ("server", _) => server = self.server(value),
                ("name", _) => names = self.names(value),
                (_, Some(label)) => match value.get_ref().as_bool() {
                    Some(true) => labels.set(*label, Tri::Yes),
                    Some(false) => labels.set(*label, Tri::No),
                    None => self.problem(value.span(), format!("`{label:?}` is true or false")),
                },
                (other, None) => {
                    let known: Vec<&str> = Label::ALL.iter().map(|label| label.as_str()).collect();
                    let message = format!(
                        "`{other}` is not known here; an entry has server, name, {}",
                        known.join(", ")
                    );
                    self.problem(key.span(), message);
                }
            }
        }
        let line = self.line(span.start);
        if self.problems.len() > before {
            return;
        }
        if names.is_empty() {
            self.problem(span, "the entry names no tool: write name = \"...\"".to_string());
        } else if Label::ALL.iter().all(|&label| labels.get(label) == Tri::Unknown) {
            self.problem(span, "the entry says nothing: write one label or more".to_string());
        } else {
            let entry = |name| Entry { server: server.clone(), name, labels, line };
            self.entries.extend(names.into_iter().map(entry));
        }
    }

    fn server(&mut self, value: &Spanned<DeValue<'_>>) -> Option<String> {
        match value.get_ref().as_str() {
            Some(server) if !server.is_empty() => Some(server.to_ascii_lowercase()),
            _ => {
                let message =
                    "`server` is a server's name; leave it out to go by the tool's name alone";
                self.problem(value.span(), message.to_string());
                None
            }
        }
    }

    fn names(&mut self, value: &Spanned<DeValue<'_>>) -> Vec<String> {
        let single = std::slice::from_ref(value);
        let values: Vec<&Spanned<DeValue<'_>>> = match value.get_ref().as_array() {
            Some(list) => list.iter().collect(),
            None => single.iter().collect(),
        };
        let mut names = Vec::new();
        for value in values {
            match value.get_ref().as_str() {
                Some(text) if name::split(text) == (None, text) && !text.is_empty() => {
                    names.push(text.to_string());
                }
                Some(text) if !text.is_empty() => {
                    let (server, bare) = name::split(text);
                    let message = format!(
                        "names go without a namespace: write server = {:?}, name = {bare:?}",
                        server.unwrap_or_default()
                    );
                    self.problem(value.span(), message);
                }
                _ => {
                    let message = "`name` is a tool's name or a list of names".to_string();
                    self.problem(value.span(), message);
                }
            }
        }
        names
    }

    /// Two entries for the same tool of the same server would leave open which one holds.
    fn repeats(&mut self) {
        let mut seen = FxHashSet::default();
        let repeated: Vec<(usize, String)> = self
            .entries
            .iter()
            .filter(|entry| !seen.insert((entry.server.clone(), entry.name.clone())))
            .map(|entry| (entry.line, format!("{:?} has an entry already", entry.name)))
            .collect();
        for (line, message) in repeated {
            self.problems.push(CatalogueProblem { file: self.file.to_string(), line, message });
        }
    }

    fn problem(&mut self, span: Range<usize>, message: String) {
        let line = self.line(span.start);
        self.problems.push(CatalogueProblem { file: self.file.to_string(), line, message });
    }

    fn line(&self, offset: usize) -> usize {
        let before = self.text.as_bytes().get(..offset).unwrap_or(self.text.as_bytes());
        1 + memchr::memchr_iter(b'\n', before).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let (_, problems) = parse(text, "labels.toml");
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_list_of_names_makes_one_entry_each() {
        let text = "[[tool]]\nserver = \"GitHub\"\nname = [\"a\", \"b_*\"]\noutbound = true\n";
        let (entries, problems) = parse(text, "labels.toml");
        assert!(problems.is_empty(), "{problems:?}");
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["a", "b_*"]);
        assert!(entries.iter().all(|entry| entry.server.as_deref() == Some("github")));
        assert!(entries.iter().all(|entry| entry.labels.outbound == Tri::Yes && entry.line == 1));
    }

    #[test]
    fn every_problem_is_told_with_its_line() {
        let text = "\
[[tool]]
name = \"a\"
outbound = \"yes\"
colour = true
[[tool]]
sensitive = true
[[tool]]
name = \"b\"
[[tool]]
name = \"mcp__files__read_file\"
sensitive = true
[[tool]]
name = \"c\"
sensitive = true
[[tool]]
name = \"c\"
sensitive = false
[[tool]]
server = \"\"
name = 3
[labels]
";
        let lines: Vec<usize> =
            parse(text, "labels.toml").1.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [3, 4, 5, 7, 10, 15, 19, 20, 21], "{:#?}", problems(text));
    }

    #[test]
    fn broken_toml_is_a_problem_and_not_a_panic() {
        for text in ["[[tool", "tool = 3", "tool = [1]", "\u{feff}[[tool]]\n=", "name = \"x"] {
            assert!(!problems(text).is_empty(), "{text:?}");
        }
    }
}
