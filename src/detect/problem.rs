//! Why a rule file is refused.

use std::fmt;

/// One reason to refuse a rule file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleProblem {
    /// The file's name as it was given.
    pub file: String,
    /// From 1.
    pub line: u64,
    /// What is wrong and, where it can, what to write instead.
    pub message: String,
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
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

    pub(super) fn push(&mut self, line: u64, message: impl Into<String>) {
        self.found.push(RuleProblem { file: self.file.to_owned(), line, message: message.into() });
    }

    /// The value of a result whose error is a message.
    pub(super) fn take<T>(&mut self, line: u64, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.push(line, message)).ok()
    }

    pub(super) fn into_found(self) -> Vec<RuleProblem> {
        self.found
    }
}
