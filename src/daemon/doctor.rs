//! Whether the database accounts for everything, and agrees with the journal beside it.

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use super::facts::{journal_path, refused};
use crate::journal::{self, Fact};
use crate::model::{AlertId, AlertState, Micros};
use crate::store::{Audit, Noted, Reader, StoreError};

/// What the check of a database and its journal came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Examination {
    pub audit: Audit,
    /// What is wrong with the journal, or differs between it and the database, a sentence each.
    pub journal: Vec<String>,
}

impl Examination {
    /// True where nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.audit.faults.is_empty() && self.journal.is_empty()
    }
}

/// Examines a database and the journal beside it, also while the daemon writes both.
pub fn examine(reader: &Reader) -> Result<Examination, StoreError> {
    let audit = reader.audit()?;
    // The journal is always ahead of the database, so it is read last.
    let noted = reader.noted()?;
    let mut told = Told::default();
    let path = journal_path(reader.path());
    let mark = (noted.mark.entries > 0).then_some(&noted.mark);
    let breaks = journal::read(&path, mark, |number, at, fact| {
        told.hear(number <= noted.mark.entries, at, fact);
    })
    .map_err(refused)?;
    let mut journal: Vec<String> = breaks
        .iter()
        .map(|found| {
            format!("{found}; keep the file and find out who wrote to it: the break stays told")
        })
        .collect();
    journal.extend(told.differences(&noted, breaks.is_empty()));
    Ok(Examination { audit, journal })
}

type DecisionKey = (AlertId, Micros, String, AlertState);

/// What the journal tells.
#[derive(Default)]
struct Told {
    decisions: FxHashSet<DecisionKey>,
    /// Those that the database must have.
    old_decisions: FxHashSet<DecisionKey>,
    alerts: FxHashSet<AlertId>,
    settled_mails: FxHashSet<String>,
    old_settled_mails: FxHashSet<String>,
}

impl Told {
    fn hear(&mut self, is_before_mark: bool, at: Micros, fact: Fact) {
        match fact {
            Fact::Decision(decided) => {
                let key = (decided.alert_id, at, decided.who, decided.state);
                if is_before_mark {
                    self.old_decisions.insert(key.clone());
                }
                self.decisions.insert(key);
            }
            Fact::Alert(raised) => {
                self.alerts.insert(raised.alert_id);
            }
            Fact::Delivery(delivered) => {
                if is_before_mark {
                    self.old_settled_mails.insert(delivered.message_id.clone());
                }
                self.settled_mails.insert(delivered.message_id);
            }
            Fact::FirstSeen(_) | Fact::Segment { .. } => {}
        }
    }

    fn differences(&self, noted: &Noted, is_whole: bool) -> Vec<String> {
        let lacks = |count: usize, what: &str, of: &str, to_do: &str| {
            (count > 0).then(|| format!("{what} that {of}: {count}; {to_do}"))
        };
        let in_journal = "the database has and the journal does not";
        let in_database = "the journal has and the database does not";
        let again = "`calltrail rebuild` brings them back";
        let cut = "without the database they would be lost: `calltrail rebuild` puts them into the journal as well";
        let mut found = vec![
            lacks(
                noted.decisions.difference(&self.decisions).count(),
                "decisions",
                in_journal,
                cut,
            ),
            lacks(noted.alerts.difference(&self.alerts).count(), "alerts", in_journal, cut),
            lacks(
                noted.settled_mails.difference(&self.settled_mails).count(),
                "mails sent or given up",
                in_journal,
                cut,
            ),
        ];
        // With a break, the numbers of the entries do not tell which the database must have.
        if is_whole {
            let decisions = self.old_decisions.difference(&noted.decisions).count();
            let mails = self.old_settled_mails.difference(&noted.settled_mails).count();
            found.push(lacks(decisions, "decisions", in_database, again));
            found.push(lacks(mails, "mails sent or given up", in_database, again));
        }
        found.into_iter().flatten().collect()
    }
}
