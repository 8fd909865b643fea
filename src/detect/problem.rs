//! Why a rule file is refused.

use std::fmt;

use super::yaml::Mark;

/// One reason to refuse a rule file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleProblem {
    /// The file's name as it was given.
    pub file: String,
    /// From 1.
    pub line: u64,
    /// From 1, in characters.
    pub column: u64,
    /// What is wrong and, where it can, what to write instead.
    pub message: String,
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl RuleProblem {
    pub(super) fn at(file: &str, mark: Mark, message: String) -> Self {
        Self { file: file.to_owned(), line: mark.line, column: mark.column, message }
    }
}

/// Collects the problems of one file, so that all are reported at once.
pub(super) struct Problems<'a> {
    file: &'a str,
    found: Vec<RuleProblem>,
    left_out: usize,
}

/// The most problems that are told of one file.
const PROBLEMS_MAX: usize = 1000;

/// Problems of one file that may take long to find words for.
const MANY: usize = 50;

/// The longest message, in characters.
const MESSAGE_CHARS_MAX: usize = 500;

impl<'a> Problems<'a> {
    pub(super) const fn new(file: &'a str) -> Self {
        Self { file, found: Vec::new(), left_out: 0 }
    }

    pub(super) fn push(&mut self, mark: Mark, message: impl AsRef<str>) {
        if self.found.len() < PROBLEMS_MAX {
            self.found.push(RuleProblem::at(self.file, mark, one_line(message.as_ref())));
        } else {
            self.left_out += 1;
        }
    }

    /// True where so much is wrong that what may be meant need not be looked for any more.
    pub(super) const fn are_many(&self) -> bool {
        self.found.len() >= MANY
    }

    /// The value of a result whose error is a message.
    pub(super) fn take<T>(&mut self, mark: Mark, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.push(mark, message)).ok()
    }

    pub(super) fn into_found(mut self) -> Vec<RuleProblem> {
        if let Some(last) = self.found.last().filter(|_| self.left_out > 0) {
            let message = format!("and {} more problems in this file", self.left_out);
            self.found.push(RuleProblem { message, ..last.clone() });
        }
        self.found
    }
}

/// A message may quote what a file says, however long that is, and over several lines.
fn one_line(message: &str) -> String {
    let mut line = String::new();
    for char in message.chars().take(MESSAGE_CHARS_MAX) {
        line.push(if char == '\n' { ' ' } else { char });
    }
    if line.len() < message.len() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_and_cut_and_counted() {
        let mut problems = Problems::new("x.yml");
        problems.push(Mark::START, "a\nb");
        problems.push(Mark::START, "x".repeat(MESSAGE_CHARS_MAX + 1));
        for _ in 2..PROBLEMS_MAX + 5 {
            problems.push(Mark::START, "again");
        }
        let found = problems.into_found();
        assert_eq!(found[0].message, "a b");
        assert_eq!(found[1].message.chars().count(), MESSAGE_CHARS_MAX + 1);
        assert_eq!(found.len(), PROBLEMS_MAX + 1);
        assert_eq!(found[PROBLEMS_MAX].message, "and 5 more problems in this file");
    }
}
