//! Reading the chain: whether each entry follows from the one before, and what it tells.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Fact;
use crate::model::{JournalMark, Micros};

/// One line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry<'a> {
    pub(super) at: String,
    /// What it tells of, such as `decision`.
    pub(super) kind: Cow<'a, str>,
    pub(super) data: Value,
    /// The hash of the entry before.
    pub(super) previous: String,
    /// BLAKE3 over previous, kind, at and data.
    pub(super) hash: String,
}

/// A place where the journal is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Break {
    /// The entry on this line does not follow from the one before.
    Line { line: u64 },
    /// The entry of this number, which the database knows, is nowhere.
    Missing { entries: u64 },
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { line } => write!(
                f,
                "line {line} of the journal does not follow from the one before: it was changed, or \
                 something before it was changed or removed"
            ),
            Self::Missing { entries } => write!(
                f,
                "entry {entries} of the journal, which the database knows, is not there: the \
                 journal's end, or all of it, was removed"
            ),
        }
    }
}

/// What reading a whole journal came to.
#[derive(Debug, Default)]
pub(super) struct Chain {
    pub(super) entries: u64,
    /// The hash of the last entry; empty before the first.
    pub(super) last_hash: String,
    /// The file ends inside a line.
    pub(super) is_cut: bool,
    pub(super) breaks: Vec<Break>,
    /// There are breaks that no segment tells of yet.
    pub(super) is_open: bool,
}

/// Reads a journal. Every fact whose entry is as it was written is told to `tell`, with the entry's number from 1 and
/// its time, also after a break; one whose own hash does not fit is not. With a mark, the entry that it names must be
/// there.
pub(super) fn walk(
    mut reader: impl BufRead,
    mark: Option<&JournalMark>,
    tell: &mut dyn FnMut(u64, Micros, Fact),
) -> io::Result<Chain> {
    let mut chain = Chain::default();
    let mut is_marked = mark.is_none_or(|mark| mark.entries == 0);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        // Cut just before its end, an entry is whole.
        chain.is_cut = line.last() != Some(&b'\n');
        let Ok(entry) = serde_json::from_slice::<Entry<'_>>(&line) else {
            // The half line of a power cut: the last one, or one that was ended and left.
            continue;
        };
        is_marked |= mark.is_some_and(|mark| mark.hash == entry.hash);
        let is_own = entry.hash == hash(&entry.previous, &entry.at, &entry.kind, &entry.data);
        if !is_own || entry.previous != chain.last_hash {
            chain.add_break(Break::Line { line: number });
        }
        chain.entries += 1;
        chain.last_hash = entry.hash;
        if is_own && let Some(fact) = Fact::from_parts(&entry.kind, &entry.data) {
            if let Fact::Segment { breaks } = &fact {
                chain.seal(breaks);
            }
            tell(chain.entries, Micros::parse_rfc3339(&entry.at).unwrap_or_default(), fact);
        }
    }
    if let Some(mark) = mark.filter(|_| !is_marked) {
        chain.add_break(Break::Missing { entries: mark.entries });
    }
    Ok(chain)
}

impl Chain {
    fn add_break(&mut self, found: Break) {
        if !self.breaks.contains(&found) {
            self.breaks.push(found);
            self.is_open = true;
        }
    }

    /// A segment tells of the breaks before it; of those that only the database knew of, nothing else does.
    fn seal(&mut self, told: &[Break]) {
        for found in told {
            self.add_break(found.clone());
        }
        self.is_open = false;
    }
}

pub(super) fn hash(previous: &str, at: &str, kind: &str, data: &Value) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [previous, at, kind, &data.to_string()] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}
