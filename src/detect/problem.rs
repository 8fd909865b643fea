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
}

impl<'a> Problems<'a> {
    pub(super) const fn new(file: &'a str) -> Self {
        Self { file, found: Vec::new() }
    }

    pub(super) fn push(&mut self, mark: Mark, message: impl Into<String>) {
        self.found.push(RuleProblem::at(self.file, mark, message.into()));
    }

    /// The value of a result whose error is a message.
    pub(super) fn take<T>(&mut self, mark: Mark, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.push(mark, message)).ok()
    }

    pub(super) fn into_found(self) -> Vec<RuleProblem> {
        self.found
    }
}
