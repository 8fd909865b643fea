//! Opening files safely, and holding some of them open.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::content::{Content, pause};
use super::identity::{FileKey, Stamp, key_and_stamp};

/// Opening a pipe that nobody writes to must not wait. No effect on regular files.
#[cfg(any(target_os = "linux", target_os = "android"))]
const O_NONBLOCK: i32 = 0o4000;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const O_NONBLOCK: i32 = 0x4;

/// Compressed files' decoders at work at a time, about.
const DECODERS_MAX: usize = 8;

/// The error number for "this process has too many files open".
const EMFILE: i32 = 24;

/// Why a file could not be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// The path leads to another file now, or to none.
    #[error("the file has moved")]
    Moved,
    /// The path leads out of the roots.
    #[error("the path leads out of the watched folders")]
    Outside,
    /// Not a regular file.
    #[error("not a regular file")]
    Special,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Opens a regular file that lies inside one of the real paths `inside`, and says which file it is.
///
/// The answer is about the opened file. That it lies inside is checked after opening, by going down
/// its path once more: whoever can swap folders for links at the right moments could still have a
/// file outside read as a log.
pub(super) fn open_inside(
    path: &Path,
    inside: &[PathBuf],
) -> Result<(Content, FileKey, Stamp), OpenError> {
    pause();
    let file = match OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(OpenError::Moved),
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(OpenError::Special);
    }
    let (key, stamp) = key_and_stamp(&metadata);
    let real = fs::canonicalize(path).map_err(|_| OpenError::Moved)?;
    if !inside.iter().any(|root| real.starts_with(root)) {
        return Err(OpenError::Outside);
    }
    let there = fs::symlink_metadata(&real).map_err(|_| OpenError::Moved)?;
    if key_and_stamp(&there).0 != key {
        return Err(OpenError::Moved);
    }
    Ok((Content::of(file, path), key, stamp))
}

/// How much a file held open would be missed; the least is let go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Worth {
    /// Everything in it is stored, and it can be opened again.
    Drained,
    /// It can be opened again.
    Reopenable,
    /// It has no path any more: what is unread in it would be lost.
    Adrift,
}

/// Files held open, by generation; bounded, least recently used out first among those of equal
/// worth.
#[derive(Debug)]
pub(super) struct OpenFiles {
    files: HashMap<u64, Held>,
    files_max: usize,
    uses: u64,
}

#[derive(Debug)]
struct Held {
    content: Content,
    last_use: u64,
    worth: Worth,
}

impl OpenFiles {
    pub(super) fn new(files_max: usize) -> Self {
        Self { files: HashMap::new(), files_max: files_max.max(1), uses: 0 }
    }

    pub(super) fn has(&self, generation: u64) -> bool {
        self.files.contains_key(&generation)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// The file held for the generation; counts as a use.
    pub(super) fn get(&mut self, generation: u64) -> Option<&Content> {
        self.uses += 1;
        let held = self.files.get_mut(&generation)?;
        held.last_use = self.uses;
        if held.content.is_packed() {
            self.close_decoders(generation);
        }
        self.peek(generation)
    }

    /// The file held for the generation, if it is; does not count as a use.
    pub(super) fn peek(&self, generation: u64) -> Option<&Content> {
        self.files.get(&generation).map(|held| &held.content)
    }

    /// Keeps the decoders few: those of compressed files that were not used for longest are put
    /// away, never those of the generation that is to be read next.
    fn close_decoders(&self, next: u64) {
        let mut at_work: Vec<(u64, &Content)> = self
            .files
            .iter()
            .filter(|(generation, held)| **generation != next && held.content.decoders() > 0)
            .map(|(_, held)| (held.last_use, &held.content))
            .collect();
        at_work.sort_by_key(|(last_use, _)| Reverse(*last_use));
        let mut count = 1;
        for (_, content) in at_work {
            count += content.decoders();
            if count > DECODERS_MAX {
                content.close_decoders();
            }
        }
    }

    #[cfg(test)]
    pub(super) fn decoders(&self) -> usize {
        self.files.values().map(|held| held.content.decoders()).sum()
    }

    pub(super) fn hold(&mut self, generation: u64, content: Content) {
        while self.files.len() >= self.files_max && !self.files.contains_key(&generation) {
            self.let_one_go();
        }
        self.uses += 1;
        let held = Held { content, last_use: self.uses, worth: Worth::Reopenable };
        self.files.insert(generation, held);
    }

    pub(super) fn rate(&mut self, generation: u64, worth: Worth) {
        if let Some(held) = self.files.get_mut(&generation) {
            held.worth = worth;
        }
    }

    pub(super) fn let_go(&mut self, generation: u64) {
        self.files.remove(&generation);
    }

    /// As [`open_inside`]; where the process has too many files open, lets one go and tries again.
    pub(super) fn open(
        &mut self,
        path: &Path,
        inside: &[PathBuf],
    ) -> Result<(Content, FileKey, Stamp), OpenError> {
        loop {
            match open_inside(path, inside) {
                Err(OpenError::Io(error))
                    if error.raw_os_error() == Some(EMFILE) && !self.files.is_empty() =>
                {
                    self.files_max = self.files.len().max(2) - 1;
                    self.let_one_go();
                }
                opened => return opened,
            }
        }
    }

    fn let_one_go(&mut self) {
        let least = self.files.iter().min_by_key(|(_, held)| (held.worth, held.last_use));
        if let Some(generation) = least.map(|(generation, _)| *generation) {
            self.files.remove(&generation);
        }
    }
}
