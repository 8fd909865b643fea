//! What is wrong with a configuration, and where it was typed.

use std::collections::BTreeSet;
use std::fmt;

use crate::model::Text;
use crate::untrusted::display_untrusted;

/// One thing in the configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Where it was typed: the file's path, the variable's name or the flag.
    pub origin: String,
    /// From 1; none outside of the file.
    pub line: Option<usize>,
    /// What is wrong and, where it can, what to write instead. Holds no secret.
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.origin, self.message),
            None => write!(f, "{}: {}", self.origin, self.message),
        }
    }
}

impl std::error::Error for ConfigProblem {}

/// Where something was typed.
#[derive(Clone, Debug)]
pub(super) struct Place {
    origin: Text,
    line: Option<usize>,
}

impl Place {
    /// A line of the file.
    pub(super) fn in_file(file: &Text, line: usize) -> Self {
        Self { origin: Text::clone(file), line: Some(line) }
    }

    /// A variable, a flag, or the file as a whole.
    pub(super) fn named(origin: &str) -> Self {
        Self { origin: origin.into(), line: None }
    }

    /// True for a line of the file, false for variables and flags.
    pub(super) fn is_in_file(&self) -> bool {
        self.line.is_some()
    }

    /// Shows the place to people who ask where a value comes from.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }
}

/// A value and where it was typed.
#[derive(Clone, Debug)]
pub(super) struct Given<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

impl<T> Given<T> {
    /// A value that a flag of the command line gives.
    pub(super) fn by_flag(value: T, flag: &str) -> Self {
        Self { value, place: Place::named(flag) }
    }
}

/// Collects the problems of all sources, so that all are reported at once.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<ConfigProblem>);

impl Problems {
    /// Notes a problem once. Messages quote what was typed, so they are made inert here.
    pub(super) fn push(&mut self, place: &Place, message: impl Into<String>) {
        let problem = ConfigProblem {
            origin: place.origin.to_string(),
            line: place.line,
            message: display_untrusted(&message.into()),
        };
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    /// The value of a result whose error is a message.
    pub(super) fn take<T>(&mut self, place: &Place, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.push(place, message)).ok()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Leaves out what comes after the first `count` and speaks of one of their lines or the next:
    /// what follows from a line that cannot be read is no news.
    pub(super) fn drop_consequences(&mut self, count: usize) {
        let later = self.0.split_off(count.min(self.0.len()));
        let lines: BTreeSet<usize> = self.0.iter().filter_map(|problem| problem.line).collect();
        let is_near = |line: usize| lines.contains(&line) || lines.contains(&(line - 1));
        self.0.extend(later.into_iter().filter(|problem| !problem.line.is_some_and(is_near)));
    }

    /// Those of the file in its order, then the others.
    pub(super) fn into_sorted(mut self) -> Vec<ConfigProblem> {
        self.0.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
        self.0
    }
}

/// A typed text as messages show it: in backticks, its head alone when it is long.
pub(super) fn quote(text: &str) -> String {
    const QUOTED_CHARS_MAX: usize = 80;
    let head: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    let more = if head.len() < text.len() { "…" } else { "" };
    format!("`{head}{more}`")
}
