//! Calls of the raw lines that rule files hold as tests: read, joined, missed and labelled as those of logs are, over
//! nothing but these lines.

mod joined;
#[cfg(test)]
mod lines;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod shipped;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::intake::Pasted;
use crate::absence::{Absence, Heard, Resumed};
use crate::catalogue::Catalogue;
use crate::correlate::Clocks;
use crate::detect::{CaseCall, CaseLog};
use crate::dialects::Parser;
use crate::model::{Call, CallChange, CallId, EventKind, OutcomeClass, PathPattern, Record, Text};

/// What a daemon makes of lines, apart from files and a store.
pub struct Rehearsal {
    /// Outcome words of the configuration.
    pub outcome_words: Vec<(String, OutcomeClass)>,
    /// What the paths of logs name.
    pub path_patterns: Vec<PathPattern>,
    /// How far the clocks of logs are known to be off, in microseconds.
    pub clocks: Vec<(Text, i64)>,
    pub catalogue: Catalogue,
}

/// As without a configuration.
impl Default for Rehearsal {
    fn default() -> Self {
        Self {
            outcome_words: Vec::new(),
            path_patterns: Vec::new(),
            clocks: Vec::new(),
            catalogue: Catalogue::shipped(),
        }
    }
}

impl Rehearsal {
    /// What the logs of a case tell of, in the order of time. The error says which lines are no records of the dialect
    /// that they should be in, by their number through all logs, and why; or why no calls can be made of them.
    pub fn calls(&self, logs: &[CaseLog]) -> Result<Vec<CaseCall>, String> {
        // The key is that of no database: nothing made here is kept.
        let mut parser =
            Parser::new([0; 32], self.outcome_words.clone()).with_paths(self.path_patterns.clone());
        let mut pasted = Pasted::read(logs, &mut parser)?;
        let clocks = Clocks::new(self.clocks.iter().cloned());
        let joined = joined::calls(&pasted.records, clocks, joined::ROUNDS_MAX)?;
        let mut calls = judged(joined, &pasted.records);
        let notices = std::mem::take(&mut pasted.notices);
        calls.extend(notices.into_events().map(|event| Arc::new(event.to_call())));
        calls.sort_by_cached_key(|call| call.order());
        Ok(calls.into_iter().map(|call| self.told(call, &pasted)).collect())
    }

    fn told(&self, call: Arc<Call>, pasted: &Pasted) -> CaseCall {
        let labels = self.catalogue.labels(call.server.as_deref(), &call.tool);
        CaseCall { labels, lines: pasted.lines_of(&call), call }
    }
}

/// The calls, with what is said of those that a client's log lacks, and of clients' logs that fell silent.
fn judged(joined: Vec<CallChange>, records: &[Arc<Record>]) -> Vec<Arc<Call>> {
    let mut absence = Absence::resume(Resumed::default());
    absence.note(&joined, records);
    let mut calls: Vec<Arc<Call>> = joined.into_iter().filter_map(|change| change.new).collect();
    let Some(mut sitting) = absence.sit() else { return calls };
    let due: Vec<_> = sitting.due().collect();
    let is_due = |call: &&Arc<Call>| {
        let is_in = |at| due.iter().any(|(from, to)| (*from..=*to).contains(&at));
        call.kind == EventKind::Call && call.at.is_some_and(is_in)
    };
    let asked = calls.iter().filter(is_due).map(|call| Call::clone(call)).collect();
    // All of the clients' life is in memory.
    let changed = sitting.judge(&mut absence, asked, &Heard::default());
    let mut changed: FxHashMap<CallId, Arc<Call>> =
        changed.into_iter().filter_map(|change| change.new).map(|new| (new.id, new)).collect();
    for call in &mut calls {
        if let Some(new) = changed.remove(&call.id) {
            *call = new;
        }
    }
    calls.extend(sitting.end(&mut absence).into_iter().filter_map(|change| change.new));
    calls
}

/// Makes calls of a case's lines, as a daemon without a configuration does.
#[cfg(test)]
fn read_logs(_: &crate::detect::Rule, logs: &[CaseLog]) -> Result<Vec<CaseCall>, String> {
    static REHEARSAL: std::sync::LazyLock<Rehearsal> = std::sync::LazyLock::new(Rehearsal::default);
    REHEARSAL.calls(logs)
}
