//! What a scan has to say: events, problems, the state of every source.

use std::path::PathBuf;

use crate::model::Text;

/// What one scan found out.
#[derive(Debug, Default)]
pub struct ScanReport {
    /// In a fixed order for the same files, whatever order the folders list them in.
    pub events: Vec<Event>,
    /// The problems that the scan before did not have.
    pub problems: Vec<Problem>,
    /// Every folder that was listed: what a [`super::Wake`] should watch.
    pub folders: Vec<PathBuf>,
}

/// Something that happened to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Content not seen before.
    Discovered { generation: u64 },
    /// The generation's content is now found at another path: renamed, or copied before the
    /// original went.
    Renamed { generation: u64, from: PathBuf, to: PathBuf },
    /// The file is a copy of what is, or was, read as generation `of`: the part they share is not
    /// read again.
    Copied { path: PathBuf, of: u64 },
    /// The file became shorter than what was seen of it; `lost_bytes` had been seen but not read.
    Truncated { generation: u64, lost_bytes: u64 },
    /// Other content stands in the file's place; `lost_bytes` of the old had been seen but not
    /// read.
    Rewritten { generation: u64, lost_bytes: u64 },
    /// The file is no longer there; `lost_bytes` had been seen but not read.
    Gone { generation: u64, lost_bytes: u64 },
}

/// Something that keeps a file from being read, or that a person should know about how it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where; as hostile as any file name, so show it escaped.
    pub path: PathBuf,
    pub kind: ProblemKind,
    /// What is wrong and what to do about it. Holds nothing from a log.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// A root that does not exist.
    MissingRoot,
    /// The system refuses to list, open or read it.
    Unreadable,
    /// A link that leads out of the watched folders.
    OutsideRoot,
    /// A link that leads nowhere.
    BrokenLink,
    /// A pipe, socket or device with a log's name.
    NotAFile,
    /// An archive of a kind that is not unpacked.
    Compressed,
    /// A compressed file that cannot be unpacked to its end.
    Damaged,
    /// UTF-16 or another text that is not UTF-8.
    Encoding,
    /// A line beyond the limit that has not ended yet.
    EndlessLine,
    /// More files or deeper folders than the limits allow.
    TooMany,
}

impl Problem {
    pub(super) fn new(path: impl Into<PathBuf>, kind: ProblemKind, message: &str) -> Self {
        Self { path: path.into(), kind, message: message.to_owned() }
    }

    /// The system refused to do `what` ("opened", "listed", "read").
    pub(super) fn refused(path: impl Into<PathBuf>, what: &str, error: &std::io::Error) -> Self {
        let advice = if error.kind() == std::io::ErrorKind::PermissionDenied {
            "give the user that Calltrail runs as the right to read it; it is then read from where \
             it was left"
        } else {
            "it is tried again with every scan"
        };
        Self {
            path: path.into(),
            kind: ProblemKind::Unreadable,
            message: format!("cannot be {what}: {error}; {advice}"),
        }
    }
}

/// Whether a source's file is still written to, and whether it is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceState {
    /// Found under the stream's own name.
    Live,
    /// Found under a rotation's name, or no longer at any path but still readable through the open
    /// file.
    Rotated,
    /// Deleted, truncated or rewritten: nothing more can be read of it.
    Gone,
}

impl SourceState {
    pub const ALL: [Self; 3] = [Self::Live, Self::Rotated, Self::Gone];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Rotated => "rotated",
            Self::Gone => "gone",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// One source as it now stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceStatus {
    pub generation: u64,
    pub stream: Text,
    /// Where it was last found.
    pub path: PathBuf,
    pub state: SourceState,
    /// Bytes of its content when it was last looked at; of a compressed file that is not unpacked
    /// to its end, what it says or at least what is known.
    pub size: u64,
    /// False for a compressed file that is not unpacked to its end yet.
    pub is_size_known: bool,
    /// Bytes handed out.
    pub read: u64,
    /// Bytes that the store has.
    pub committed: u64,
}
