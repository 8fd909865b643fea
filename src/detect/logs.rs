//! Cases of raw lines: the logs of a case as they stand in its file, and the calls that are made of them.
//!
//! What a line says is not known here: that is a dialect's matter, and joining lines to calls another's. Whoever runs
//! the cases hands both in.

use std::sync::Arc;

use crate::model::{Call, Dialect, Labels, Text};

use super::allowance::Allowance;
use super::cases::{EVENTS_MAX, check_keys};
use super::field::did_you_mean;
use super::problem::Problems;
use super::rule::Rule;
use super::yaml::{Entry, Node, Value, entry};

/// One log of a case. A log whose name was there before goes on behind what it held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseLog {
    /// The log's path below a watched folder.
    pub name: Text,
    /// The format that all of its lines are in.
    pub dialect: Dialect,
    /// As they stand in the log, without the newline.
    pub lines: Vec<Text>,
}

/// A call that lines of a case tell of, or what they show about their log.
#[derive(Clone, Debug)]
pub struct CaseCall {
    pub call: Arc<Call>,
    pub labels: Labels,
    /// The lines that tell of it, counted from 0 through all logs of the case, sorted.
    pub lines: Vec<usize>,
}

/// Makes calls of the logs of one of the rule's cases; the error says what cannot be read of them.
pub type ReadLogs<'a> = dyn Fn(&Rule, &[CaseLog]) -> Result<Vec<CaseCall>, String> + 'a;

/// The name of a log that has none.
const NAME: &str = "case";
/// The longest name of a log, in bytes.
const NAME_BYTES_MAX: usize = 1024;
/// What a line takes in memory besides its text, in bytes, about.
const LINE_BYTES: usize = 128;

const LOG_KEYS: [&str; 3] = ["log", "dialect", "lines"];

/// How a text is written that is a line.
const HOW: &str =
    "write `lines: |` and paste the lines below it, further in, or put each in single quotes";

/// Reads the `lines` of a case, which are of the case's `dialect` where a log does not name another; empty where
/// anything is wrong with them, which is told.
pub(super) fn read(
    lines: &Entry,
    dialect: Option<&Entry>,
    allowance: &mut Allowance,
    problems: &mut Problems<'_>,
) -> Vec<CaseLog> {
    let of_case = dialect.and_then(|found| problems.take(found.node.mark, word(&found.node)));
    // What is wrong with the case's own was told.
    let is_told = dialect.is_some();
    let mut reader = Reader { of_case, is_told, left: EVENTS_MAX, allowance, problems };
    let read: Vec<Option<CaseLog>> = match &lines.node.value {
        Value::List(nodes) if nodes.iter().any(is_log) => {
            nodes.iter().map(|node| reader.named(node)).collect()
        }
        _ => vec![reader.log(NAME.into(), None, lines)],
    };
    read.into_iter().collect::<Option<_>>().unwrap_or_default()
}

/// The dialects that the logs are in, each once.
pub(super) fn dialects(logs: &[CaseLog]) -> Vec<Dialect> {
    let is_there = |dialect: &Dialect| logs.iter().any(|log| log.dialect == *dialect);
    Dialect::ALL.into_iter().filter(is_there).collect()
}

/// How many lines the logs hold.
pub(super) fn count(logs: &[CaseLog]) -> usize {
    logs.iter().map(|log| log.lines.len()).sum()
}

/// Whether a node of a list is a log and no line.
fn is_log(node: &Node) -> bool {
    node.map().is_some_and(|entries| entry(entries, "lines").is_some())
}

fn word(node: &Node) -> Result<Dialect, String> {
    let names = || Dialect::ALL.into_iter().map(Dialect::as_str);
    let known = || names().collect::<Vec<_>>().join(", ");
    let Some(word) = node.text() else {
        return Err(format!("`dialect` is one of {}, not {}", known(), node.kind()));
    };
    Dialect::from_word(word).ok_or_else(|| {
        let hint = did_you_mean(word, names());
        format!("there is no dialect `{word}`{hint} There are {}", known())
    })
}

struct Reader<'a, 'p> {
    of_case: Option<Dialect>,
    /// What is wrong with the case's dialect was told.
    is_told: bool,
    /// Lines that the case still has room for.
    left: u64,
    allowance: &'a mut Allowance,
    problems: &'a mut Problems<'p>,
}

impl Reader<'_, '_> {
    /// One of several logs.
    fn named(&mut self, node: &Node) -> Option<CaseLog> {
        let (Some(entries), true) = (node.map(), is_log(node)) else {
            let message = "a log among others is {log: .., dialect: .., lines: ..}";
            self.problems.push(node.mark, message);
            return None;
        };
        check_keys(entries, &LOG_KEYS, self.problems);
        let name = entry(entries, "log").and_then(|found| found.node.text());
        let name = name.filter(|name| (1..=NAME_BYTES_MAX).contains(&name.len()));
        if name.is_none() {
            let message = format!(
                "a log among others has a name, `log`: its path below the watched folder, \
                 {NAME_BYTES_MAX} bytes at most"
            );
            self.problems.push(node.mark, message);
        }
        let lines = entry(entries, "lines")?;
        self.log(name?.into(), entry(entries, "dialect"), lines)
    }

    fn log(&mut self, name: Text, dialect: Option<&Entry>, lines: &Entry) -> Option<CaseLog> {
        let dialect = if let Some(found) = dialect {
            self.problems.take(found.node.mark, word(&found.node))
        } else {
            if self.of_case.is_none() && !self.is_told {
                let known = Dialect::ALL.map(Dialect::as_str).join(", ");
                let message = format!("`lines` need a `dialect` beside them: {known}");
                self.problems.push(lines.mark, message);
            }
            self.of_case
        };
        let mut read = Vec::new();
        match &lines.node.value {
            Value::Text(text) => {
                for line in text.lines() {
                    self.add(line, &lines.node, &mut read)?;
                }
            }
            Value::List(nodes) => {
                for node in nodes {
                    let line = self.line(node)?;
                    self.add(line, node, &mut read)?;
                }
            }
            _ => {}
        }
        if read.is_empty() {
            let kind = lines.node.kind();
            self.problems
                .push(lines.mark, format!("`lines` are texts, one at least, not {kind}: {HOW}"));
        }
        Some(CaseLog { name, dialect: dialect?, lines: read })
    }

    /// A text of a list is one line.
    fn line<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        let Some(text) = node.text() else {
            // A line that is not quoted is a map to YAML.
            self.problems.push(node.mark, format!("a line is a text, not {}: {HOW}", node.kind()));
            return None;
        };
        let text = text.strip_suffix('\n').unwrap_or(text);
        if text.contains('\n') {
            let message = "this line breaks, which no line of a log does; `>-` instead of `|` joins what stands \
                           on several";
            self.problems.push(node.mark, message);
            return None;
        }
        Some(text)
    }

    /// Adds a line; none where there is no room for it, which was told.
    fn add(&mut self, line: &str, node: &Node, lines: &mut Vec<Text>) -> Option<()> {
        let Some(left) = self.left.checked_sub(1) else {
            self.problems.push(node.mark, format!("a case has {EVENTS_MAX} lines at most"));
            return None;
        };
        self.left = left;
        if self.allowance.is_spent() {
            return None;
        }
        let spent = self.allowance.spend(LINE_BYTES.saturating_add(line.len()));
        self.problems.take(node.mark, spent)?;
        lines.push(line.into());
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use crate::detect::RuleSet;

    const RULE: &str = "title: t\nlogsource: {product: mcp}\ndetection: {s: {outcome: ok}, condition: s}\ntests:\n";

    /// What is wrong with these cases, each with its place in them.
    fn refused(cases: &str) -> Vec<String> {
        let text = format!("{RULE}{cases}");
        let above = RULE.lines().count() as u64;
        let problems = RuleSet::compile(&[("x.yml", &text)]).unwrap_err();
        let told = problems.iter().map(|problem| {
            format!("{}:{} {}", problem.line - above, problem.column, problem.message)
        });
        told.collect()
    }

    #[test]
    fn what_is_no_case_of_lines_is_told_where_it_stands() {
        for (cases, expected) in [
            (
                "- {name: a, dialect: gats, lines: ['x'], fires: false}",
                "1:22 there is no dialect `gats`; did you mean `gate`? There are two-sided, stdio-proxy, gate, tenant",
            ),
            (
                "- name: a\n  dialect: [gate]\n  lines: ['x']\n  fires: false",
                "2:12 `dialect` is one of two-sided, stdio-proxy, gate, tenant, not a list",
            ),
            (
                "- {name: a, lines: ['x'], fires: false}",
                "1:13 `lines` need a `dialect` beside them: two-sided, stdio-proxy, gate, tenant",
            ),
            (
                "- {name: a, dialect: gate, fires: false, events: [{at: 0}]}",
                "1:13 `dialect` is that of `lines`, and here are none",
            ),
            (
                "- {name: a, dialect: gate, lines: ['x'], events: [{at: 0}], fires: false}",
                "1:42 a case has `events` or `lines`, and not both",
            ),
            (
                "- name: a\n  dialect: gate\n  lines:\n  - 'x'\n  - {\"tool\":\"x\"}\n  fires: false",
                "5:5 a line is a text, not a map: write `lines: |` and paste the lines below it, further in, or \
                 put each in single quotes",
            ),
            (
                "- name: a\n  dialect: gate\n  lines:\n  - |\n    x\n    y\n  fires: false",
                "5:5 this line breaks, which no line of a log does; `>-` instead of `|` joins what stands on several",
            ),
            (
                "- {name: a, dialect: gate, lines: [], fires: false}",
                "1:28 `lines` are texts, one at least, not a list: write `lines: |` and paste the lines below it, \
                 further in, or put each in single quotes",
            ),
            (
                "- {name: a, lines: [{log: a, dialect: tenat, lines: 'x'}], fires: false}",
                "1:39 there is no dialect `tenat`; did you mean `tenant`? There are two-sided, stdio-proxy, gate, \
                 tenant",
            ),
            (
                "- {name: a, dialect: gate, lines: [{lines: 'x'}], fires: false}",
                "1:36 a log among others has a name, `log`: its path below the watched folder, 1024 bytes at most",
            ),
            (
                "- {name: a, dialect: gate, lines: [{log: a, lins: 'x', lines: 'x'}], fires: false}",
                "1:45 the key `lins` is not known here; did you mean `lines`?",
            ),
            (
                "- {name: a, dialect: gate, lines: [{log: a, lines: 'x'}, 'y'], fires: false}",
                "1:58 a log among others is {log: .., dialect: .., lines: ..}",
            ),
            (
                "- {name: a, dialect: gate, lines: ['x'], fires: [{calls: [0]}]}",
                "1:51 the key `calls` is not known here",
            ),
            (
                "- {name: a, dialect: gate, lines: ['x'], fires: [{lines: [1]}]}",
                "1:59 `lines` holds indices of lines from 0, or ranges such as 0-19",
            ),
            (
                "- {name: a, dialect: gate, lines: ['x'], fires: [{lines: [0, 0-0]}]}",
                "1:62 `lines` names 0 twice; once is enough",
            ),
        ] {
            let told = refused(cases);
            assert!(told.iter().any(|told| told == expected), "{cases}: {told:#?}");
        }
    }

    #[test]
    fn lines_are_bounded_as_events_are() {
        let of = |count: usize| {
            let lines = "    x\n".repeat(count);
            format!("- name: a\n  dialect: gate\n  fires: false\n  lines: |\n{lines}")
        };
        let text = format!("{RULE}{}", of(10_000));
        assert!(RuleSet::compile(&[("x.yml", &text)]).is_ok());
        assert_eq!(refused(&of(10_001)), ["5:5 a case has 10000 lines at most"]);
        // All logs of a case count, and so do all cases of a file.
        let many = "    x\n".repeat(6_000);
        let half = format!("  - log: a\n    lines: &l |\n  {}", many.replace('\n', "\n  "));
        let logs = format!(
            "- name: a\n  dialect: gate\n  fires: false\n  lines:\n{half}- {{log: b, lines: *l}}"
        );
        let told = refused(&logs);
        assert!(told[0].ends_with("a case has 10000 lines at most"), "{told:?}");
        let case = "- {name: a, dialect: gate, fires: false, lines: *l}\n";
        let cases =
            format!("{}{}", of(10_000).replacen("lines: |", "lines: &l |", 1), case.repeat(13));
        let told = refused(&cases);
        assert!(told[0].contains("what is made of this file is too large"), "{told:?}");
    }
}
