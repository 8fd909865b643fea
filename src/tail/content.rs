//! What a file holds: its bytes, or, of a compressed file, those that it was made from. Whoever
//! reads it does not see the difference.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::codec::Fault;
use super::identity::{FileKey, Stamp, key_and_stamp};
use super::name::is_packed;
use super::packed::Packed;

/// How much content there is, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) size: u64,
    /// A compressed file that was not yet unpacked to its end: there may be more.
    pub(super) has_more: bool,
}

#[derive(Debug)]
pub(super) enum Content {
    Plain(File),
    Packed(Box<Packed>),
}

impl Content {
    /// The content of a file that was opened at `path`, whose name says whether it is compressed.
    pub(super) fn of(file: File, path: &Path) -> Self {
        if is_packed(path) { Self::Packed(Box::new(Packed::new(file))) } else { Self::Plain(file) }
    }

    /// Which file it is, and whether it changed.
    pub(super) fn look(&self) -> io::Result<(FileKey, Stamp)> {
        pause();
        Ok(key_and_stamp(&self.metadata()?))
    }

    fn metadata(&self) -> io::Result<Metadata> {
        match self {
            Self::Plain(file) => file.metadata(),
            Self::Packed(packed) => packed.metadata(),
        }
    }

    pub(super) fn extent(&self) -> io::Result<Extent> {
        pause();
        match self {
            Self::Plain(file) => Ok(Extent { size: file.metadata()?.len(), has_more: false }),
            Self::Packed(packed) => packed.extent(),
        }
    }

    /// Reads `length` bytes from `offset` on, fewer only where the content ends. Where a compressed
    /// file would have to be unpacked further than [`Content::allow`] let it, the error's kind is
    /// [`io::ErrorKind::WouldBlock`]; asking again goes on from there.
    pub(super) fn read_up_to(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(file) => read_up_to(file, offset, length),
            Self::Packed(packed) => packed.read_up_to(offset, length, false),
        }
    }

    /// As [`Content::read_up_to`], beside the reading that goes on: it does not lose its place in a
    /// compressed file.
    pub(super) fn read_aside(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(file) => read_up_to(file, offset, length),
            Self::Packed(packed) => packed.read_up_to(offset, length, true),
        }
    }

    /// Whether there are at least `size` bytes.
    pub(super) fn reaches(&self, size: u64) -> io::Result<bool> {
        pause();
        match self {
            Self::Plain(file) => Ok(file.metadata()?.len() >= size),
            Self::Packed(packed) => packed.reaches(size),
        }
    }

    /// Where the next byte stands from `at` on that is not in a hole of the file; `at` where that
    /// is not known.
    pub(super) fn skip_hole(&self, at: u64) -> io::Result<u64> {
        let Self::Plain(file) = self else { return Ok(at) };
        match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) => Ok(data.max(at)),
            // A hole up to the end.
            Err(rustix::io::Errno::NXIO) => Ok(file.metadata()?.len().max(at)),
            // A file system that knows no holes.
            Err(_) => Ok(at),
        }
    }

    /// What keeps a compressed file from being unpacked further, as far as it was tried.
    pub(super) fn fault(&self) -> Option<Fault> {
        match self {
            Self::Plain(_) => None,
            Self::Packed(packed) => packed.fault(),
        }
    }

    pub(super) fn is_packed(&self) -> bool {
        matches!(self, Self::Packed(_))
    }

    /// Lets a compressed file be unpacked by so many bytes from now on; returns how many were
    /// unpacked since this was last said.
    pub(super) fn allow(&self, bytes: u64) -> u64 {
        match self {
            Self::Plain(_) => 0,
            Self::Packed(packed) => packed.allow(bytes),
        }
    }

    /// Nothing before `offset` will be read again soon.
    pub(super) fn forget_before(&self, offset: u64) {
        if let Self::Packed(packed) = self {
            packed.forget_before(offset);
        }
    }

    /// Decoders at work.
    pub(super) fn decoders(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Packed(packed) => packed.decoders(),
        }
    }

    /// Puts the decoders away; reading on begins at the file's beginning again.
    pub(super) fn close_decoders(&self) {
        if let Self::Packed(packed) = self {
            packed.close_decoders();
        }
    }

    /// Where reading a compressed file goes on.
    #[cfg(test)]
    pub(super) fn unpacked_to(&self) -> Option<u64> {
        match self {
            Self::Plain(_) => None,
            Self::Packed(packed) => packed.unpacked_to(),
        }
    }

    /// For a compressed file: the size of the content as it says itself, a hint only.
    pub(super) fn stated_size(&self) -> io::Result<Option<u64>> {
        match self {
            Self::Plain(_) => Ok(None),
            Self::Packed(packed) => packed.stated_size(),
        }
    }

    /// Whether a compressed file says that its content has this size; if so, that is taken for
    /// true from now on.
    pub(super) fn ends_as_stated(&self, size: u64) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(false),
            Self::Packed(packed) => packed.ends_as_stated(size),
        }
    }
}

/// The tail is about to look at the disk, which may have changed since it last did: tests make it
/// change at each such place.
pub(super) fn pause() {
    #[cfg(test)]
    super::tests::turns::pause();
}

/// Reads `length` bytes of a file from `offset` on, fewer only where it ends.
pub(super) fn read_up_to(file: &File, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        pause();
        // So that something can happen between two pages in tests.
        #[cfg(test)]
        let (rest, _) = rest.split_at_mut(rest.len().min(4096));
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
