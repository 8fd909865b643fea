//! Files: finding logs, telling them apart through rotations, reading them line by line,
//! remembering positions.
//!
//! [`Tail`] is synchronous and has one owner, which drives it: `scan` looks at the folders,
//! `pending` says what is unread, `read` hands out lines, `cursor_at` describes a position for the
//! store, and `commit` says that the store has it. It reads no clock and knows no database; the
//! only thread is the one that [`Wake`] may start, and what that reports are hints. The truth is
//! what a scan finds.
//!
//! A *generation* is one content stream. It keeps its number when its file is renamed, or copied
//! away before the original is truncated; other content in the same file is a new generation, read
//! from its beginning. The items of a generation cover `[0, offset)` exactly, in order.
//!
//! A `.gz` or `.zst` file is the content it was made from: its identity, its size and every offset
//! are those of the unpacked bytes. It is unpacked as it is read, never to disk, in steps of
//! bounded length, with a few decoders of bounded memory; how much it holds is known only at its
//! end. One that ends too early gives its complete lines and is a problem until it is whole.
//!
//! What cannot be promised:
//!
//! - Bytes written and then truncated or deleted between two reads are lost; where their number is
//!   known, it is reported.
//! - Changes to bytes already read show only in the first 4096 of the file and in the 256 before
//!   the position.
//! - A copy beside a file that is still there is not read again as far as both agree. Copies are
//!   recognised by their content: by a time in it, within a stream also by 64 bytes, elsewhere by
//!   4096. Other files that are alike are each read.
//! - Of two files that first differ before anything of either was read, both are read in full.
//! - A file that is shorter than what was read of a generation that is gone, and begins like it, is
//!   taken for a copy of its beginning or for one in the making, in whatever folder it lies: it is
//!   told, and what it has is not read. Once it has stood still for five seconds, or grown by whole
//!   lines for as long, what it has more than then, or than at first, is its own.
//! - A copy of less than 4096 bytes that a rotation made of a growing file, which was read further
//!   and truncated before a scan saw the copy, is read again.
//! - A compressed file is verified piece by piece, at the end of each member: of a damaged one,
//!   lines that the damage changed may have been handed out before it shows, and a sound one in its
//!   place is then read again.
//! - A compressed file that was read to its end is known again after a restart by the head of its
//!   content and the size that it states.
//! - Of generations that are gone the last 10000 are known: older content that comes back is read
//!   again.
//! - A single file as a root is exactly that file: its rotations are read only through the file
//!   held open.

mod again;
mod codec;
mod common;
mod content;
mod cut;
mod discover;
mod heads;
mod identity;
mod lines;
mod name;
mod open;
mod packed;
mod place;
mod reader;
mod report;
mod scan;
mod short;
mod skim;
mod source;
#[cfg(test)]
mod tests;
mod wake;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

pub use cut::{Chunk, GapWhy, Item, Overlong};
pub use lines::line_offset;
pub use report::{Event, Problem, ProblemKind, ScanReport, SourceState, SourceStatus};
pub use source::Cursor;
pub use wake::Wake;

use crate::model::Micros;
use identity::{FileKey, Stamp};
use open::OpenFiles;
use place::{Copy, Waiting};
use short::Short;
use source::Source;

/// Longest line read whole, in bytes without its newline; a longer one becomes an
/// [`Item::Overlong`].
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// Files held open at a time.
pub const OPEN_FILES_MAX: usize = 256;

/// How long a rotated or deleted file must have been quiet before its unterminated rest counts as a
/// line, and before a deleted file is let go.
pub const GRACE_MICROS: i64 = Micros::MINUTE;

/// What to tail and within which limits.
#[derive(Clone, Debug)]
pub struct TailConfig {
    /// Folders and single files. Nothing outside of them is read, whatever links say.
    pub roots: Vec<PathBuf>,
    pub line_bytes_max: usize,
    pub open_files_max: usize,
    pub grace_micros: i64,
}

impl TailConfig {
    /// With the limits of the constants.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self {
            roots,
            line_bytes_max: LINE_BYTES_MAX,
            open_files_max: OPEN_FILES_MAX,
            grace_micros: GRACE_MICROS,
        }
    }
}

/// Reads the logs under some roots, each byte once.
#[derive(Debug)]
pub struct Tail {
    config: TailConfig,
    next_generation: u64,
    /// By generation. Those gone stay: their content may come back under another name.
    sources: BTreeMap<u64, Source>,
    /// The generation whose content a file held when it was last looked at; none of those gone.
    by_key: HashMap<FileKey, u64>,
    /// Files that so far hold nothing but a copy of what another, living file holds.
    copies: BTreeMap<FileKey, Copy>,
    /// Compressed files that it takes several scans to place.
    waiting: HashMap<FileKey, Waiting>,
    /// Compressed files that end too early, as they were at the last scan.
    cut_off: BTreeMap<FileKey, Stamp>,
    /// Files that hold less than was read of what they begin like.
    short: BTreeMap<FileKey, Short>,
    /// Compressed files that the last scan could not decide about in the time that it had.
    is_deciding: bool,
    files: OpenFiles,
    /// The real paths of the roots at the last scan: what is opened must lie inside.
    inside: Vec<PathBuf>,
    /// What stands in the way now; a scan reports what is new in it.
    problems: BTreeMap<(PathBuf, ProblemKind), Problem>,
    /// Met while reading, since the last scan.
    read_problems: Vec<Problem>,
    /// Whether newer files wait for the archives of their stream.
    may_wait: bool,
}

impl Tail {
    /// A tail that goes on from `cursors` and numbers new generations from `next_generation`.
    /// Touches no file.
    pub fn new(config: TailConfig, cursors: Vec<Cursor>, next_generation: u64) -> Self {
        let mut sources = BTreeMap::new();
        let mut by_key = HashMap::new();
        let mut next_generation = next_generation;
        for cursor in cursors {
            next_generation = next_generation.max(cursor.generation.saturating_add(1));
            // Of which nothing was stored is discovered anew, by rules that a position would bend.
            if cursor.offset > 0 {
                sources.insert(cursor.generation, Source::restored(cursor));
            }
        }
        // In order of generation: of two that were once in one file, the later one is there now.
        for source in sources.values().filter(|source| source.state != SourceState::Gone) {
            by_key.insert(source.key, source.generation);
        }
        Self {
            files: OpenFiles::new(config.open_files_max),
            config,
            next_generation,
            sources,
            by_key,
            copies: BTreeMap::new(),
            waiting: HashMap::new(),
            cut_off: BTreeMap::new(),
            short: BTreeMap::new(),
            is_deciding: false,
            inside: Vec::new(),
            problems: BTreeMap::new(),
            read_problems: Vec::new(),
            may_wait: true,
        }
    }

    /// The number that the next new generation gets.
    pub fn next_generation(&self) -> u64 {
        self.next_generation
    }

    /// Whether the last scan left compressed files undecided, since that takes long; each scan goes
    /// on where the last one stopped.
    pub fn is_deciding(&self) -> bool {
        self.is_deciding
    }

    /// Every source, by generation.
    pub fn status(&self) -> Vec<SourceStatus> {
        self.sources.values().map(Source::status).collect()
    }

    /// Everything that stood in the way at the last scan.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.problems.values()
    }
}
