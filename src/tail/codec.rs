//! The formats of compressed files: a stream of gzip members or zstd frames, one after the other.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use flate2::bufread::GzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder, StreamingDecoder};

use super::content::read_up_to;

/// How far back a zstd frame may refer, in bytes: what every level but `--ultra -22` and the usual
/// use of `--long` need. Each open decoder may hold so much in memory.
const ZSTD_WINDOW_BYTES_MAX: u64 = 64 << 20;

const FEED_BYTES: usize = 64 << 10;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The longest header of a zstd frame.
const ZSTD_HEADER_BYTES: u64 = 18;

/// Blocks looked at to add up the sizes of zstd frames.
const ZSTD_BLOCKS_MAX: usize = 100_000;

/// Why an archive cannot be unpacked further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It ends within a member: it is being written, or was cut.
    Cut,
    /// It does not begin as an archive.
    Foreign,
    /// Something that is no archive follows its last member.
    Garbage,
    /// Its content does not match its checksums or its format.
    Corrupt,
    /// A zstd frame wants more memory than there is for it.
    Window,
}

impl Fault {
    /// What is wrong and what to do about it.
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::Cut => {
                "is a compressed file that ends too early; its complete lines are read, and the \
                 rest as soon as it grows or is replaced by a whole one"
            }
            Self::Foreign => {
                "has the name of a compressed file and is none (or is encrypted); give it the \
                 name of what it is, or compress it again"
            }
            Self::Garbage => {
                "is a compressed file with something else behind its end; what stands before it \
                 is read: remove the rest, or compress the file again"
            }
            Self::Corrupt => {
                "is a compressed file that is damaged; what could be unpacked is read: put a sound \
                 copy in its place"
            }
            Self::Window => {
                "is compressed so that unpacking it needs over 64 MiB of memory; compress it again \
                 with a lower level, without --ultra and --long"
            }
        }
    }
}

/// What one step of unpacking came to.
pub(super) enum Step {
    More,
    /// All members are unpacked.
    End,
    Fault(Fault),
}

/// Unpacks an archive from its beginning to its end.
pub(super) struct Codec {
    state: State,
    /// Where the member or frame at hand begins in the file.
    member_start: u64,
    /// Bytes that it gave so far.
    member_bytes: u64,
    /// Bytes to drop: they were handed out before the frame was begun again.
    skip: u64,
    is_first: bool,
    block: Vec<u8>,
}

enum State {
    Between(Feed),
    Gzip(Box<GzDecoder<Feed>>),
    Zstd(Box<StreamingDecoder<Feed, FrameDecoder>>),
    /// Taken out for the moment, or given up.
    None,
}

impl Codec {
    pub(super) fn new(file: &Arc<File>) -> Self {
        Self {
            state: State::Between(Feed::new(Arc::clone(file), 0)),
            member_start: 0,
            member_bytes: 0,
            skip: 0,
            is_first: true,
            block: vec![0; FEED_BYTES],
        }
    }

    /// How far the file was read.
    pub(super) fn fed(&self) -> u64 {
        match &self.state {
            State::Between(feed) => feed.at,
            State::Gzip(decoder) => decoder.get_ref().at,
            State::Zstd(decoder) => decoder.get_ref().at,
            State::None => 0,
        }
    }

    /// Unpacks a little more into `put`. After [`Fault::Cut`] it may be asked again once the file
    /// is longer; after other faults not.
    pub(super) fn step(&mut self, mut put: impl FnMut(&[u8])) -> io::Result<Step> {
        loop {
            let got = match &mut self.state {
                State::None => return Ok(Step::Fault(Fault::Corrupt)),
                State::Between(_) => match self.begin()? {
                    None => continue,
                    Some(step) => return Ok(step),
                },
                State::Gzip(decoder) => decoder.read(&mut self.block),
                State::Zstd(decoder) => decoder.read(&mut self.block),
            };
            match got {
                Ok(0) => {
                    if !self.end_member() {
                        return Ok(Step::Fault(Fault::Corrupt));
                    }
                }
                Ok(count) => {
                    let from = self.count(count);
                    put(self.block.get(from..count).unwrap_or_default());
                    return Ok(Step::More);
                }
                Err(error) => {
                    let rest = self.held_back();
                    let from = self.count(rest.len());
                    put(rest.get(from..).unwrap_or_default());
                    return self.judge(error);
                }
            }
        }
    }

    /// Counts bytes of the member; returns how many of them were handed out before.
    fn count(&mut self, bytes: usize) -> usize {
        self.member_bytes += bytes as u64;
        let skipped = self.skip.min(bytes as u64);
        self.skip -= skipped;
        usize::try_from(skipped).unwrap_or(bytes)
    }

    /// The bytes that a zstd decoder still keeps to refer to: where its frame breaks off, an empty
    /// last block in place of what is missing brings them out.
    fn held_back(&mut self) -> Vec<u8> {
        const LAST_BLOCK_AND_CHECKSUM: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];
        let State::Zstd(decoder) = &mut self.state else { return Vec::new() };
        let (end, all) = (&LAST_BLOCK_AND_CHECKSUM[..], BlockDecodingStrategy::All);
        match decoder.decoder.decode_blocks(end, all) {
            Ok(_) => decoder.decoder.collect().unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// Begins the next member; none if there is one now.
    fn begin(&mut self) -> io::Result<Option<Step>> {
        let State::Between(feed) = &mut self.state else { return Ok(None) };
        let (start, is_first) = (feed.at, self.is_first);
        let magic = feed.peek()?;
        let foreign = if is_first { Fault::Foreign } else { Fault::Garbage };
        let is_gzip = magic.starts_with(&GZIP_MAGIC);
        let is_skippable = matches!(magic, [0x50..=0x5f, 0x2a, 0x4d, 0x18]);
        let is_zstd = magic == ZSTD_MAGIC;
        if magic.is_empty() {
            return Ok(Some(if is_first { Step::Fault(Fault::Cut) } else { Step::End }));
        }
        if !(is_gzip || is_zstd || is_skippable) {
            let is_short = magic.len() < 4 && matches!(magic, [0x1f] | [0x28 | 0x50..=0x5f, ..]);
            return Ok(Some(Step::Fault(if is_short { Fault::Cut } else { foreign })));
        }
        let State::Between(feed) = std::mem::replace(&mut self.state, State::None) else {
            return Ok(None);
        };
        self.member_start = start;
        self.member_bytes = 0;
        let file = Arc::clone(&feed.file);
        if is_gzip {
            self.state = State::Gzip(Box::new(GzDecoder::new(feed)));
            return Ok(None);
        }
        match StreamingDecoder::new_with_max_window_size(feed, ZSTD_WINDOW_BYTES_MAX) {
            Ok(decoder) => self.state = State::Zstd(Box::new(decoder)),
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let next = start + 8 + u64::from(length);
                if file.metadata()?.len() < next {
                    self.state = State::Between(Feed::new(file, start));
                    return Ok(Some(Step::Fault(Fault::Cut)));
                }
                self.state = State::Between(Feed::new(file, next));
                self.is_first = false;
            }
            Err(FrameDecoderError::WindowSizeTooBig { .. }) => {
                return Ok(Some(Step::Fault(Fault::Window)));
            }
            Err(_) => {
                let is_cut = file.metadata()?.len() < start + ZSTD_HEADER_BYTES;
                let fault = if is_cut { Fault::Cut } else { Fault::Corrupt };
                self.state = State::Between(Feed::new(file, start));
                return Ok(Some(Step::Fault(fault)));
            }
        }
        Ok(None)
    }

    /// False if what a frame gave does not match its checksum.
    fn end_member(&mut self) -> bool {
        let feed = match std::mem::replace(&mut self.state, State::None) {
            State::Gzip(decoder) => decoder.into_inner(),
            State::Zstd(decoder) => {
                let stated = decoder.decoder.get_checksum_from_data();
                let is_sound =
                    stated.is_none() || stated == decoder.decoder.get_calculated_checksum();
                if !is_sound {
                    return false;
                }
                decoder.into_inner()
            }
            State::Between(_) | State::None => return false,
        };
        self.is_first = false;
        self.state = State::Between(feed);
        true
    }

    /// Tells the end of the file from damage, and both from a file that cannot be read.
    fn judge(&mut self, error: io::Error) -> io::Result<Step> {
        let feed = match &mut self.state {
            State::Gzip(decoder) => decoder.get_mut(),
            State::Zstd(decoder) => decoder.get_mut(),
            State::Between(_) | State::None => return Err(error),
        };
        if let Some(error) = feed.error.take() {
            self.again();
            return Err(error);
        }
        if !std::mem::take(&mut feed.is_at_end) {
            self.state = State::None;
            return Ok(Step::Fault(Fault::Corrupt));
        }
        // A gzip decoder goes on where it stands.
        if let State::Zstd(_) = self.state {
            self.again();
        }
        Ok(Step::Fault(Fault::Cut))
    }

    /// Begins the member again, to drop what it gave so far.
    fn again(&mut self) {
        let file = match &self.state {
            State::Between(feed) => Arc::clone(&feed.file),
            State::Gzip(decoder) => Arc::clone(&decoder.get_ref().file),
            State::Zstd(decoder) => Arc::clone(&decoder.get_ref().file),
            State::None => return,
        };
        self.skip = self.skip.max(self.member_bytes);
        self.state = State::Between(Feed::new(file, self.member_start));
    }
}

/// Whether a file that begins so is compressed in a way that is unpacked here.
pub(super) fn is_archive(head: &[u8]) -> bool {
    head.starts_with(&GZIP_MAGIC) || head.starts_with(&ZSTD_MAGIC)
}

/// What an archive says about the size of its content.
pub(super) struct StatedSize {
    pub(super) size: u64,
    /// It says the lower 32 bits, of its last member.
    is_gzip: bool,
}

impl StatedSize {
    pub(super) fn is(&self, size: u64) -> bool {
        let said = if self.is_gzip { size & u64::from(u32::MAX) } else { size };
        self.size == said
    }
}

/// Looks up what an archive says about the size of its content; unpacks nothing.
pub(super) fn stated_size(file: &File) -> io::Result<Option<StatedSize>> {
    let end = file.metadata()?.len();
    if read_up_to(file, 0, 2)? == GZIP_MAGIC {
        let last = read_up_to(file, end.saturating_sub(4), 4)?;
        let size = last.try_into().ok().map(|last| u64::from(u32::from_le_bytes(last)));
        return Ok(size.map(|size| StatedSize { size, is_gzip: true }));
    }
    let (mut at, mut size, mut blocks) = (0, 0_u64, 0);
    while at < end {
        let header = read_up_to(file, at, ZSTD_HEADER_BYTES)?;
        let mut decoder = FrameDecoder::new();
        if decoder.init(header.as_slice()).is_err() || decoder.content_size() == 0 {
            return Ok(None);
        }
        size = size.saturating_add(decoder.content_size());
        at += decoder.bytes_read_from_source();
        loop {
            let header = read_up_to(file, at, 3)?;
            let &[low, middle, high] = header.as_slice() else { return Ok(None) };
            let header = u32::from_le_bytes([low, middle, high, 0]);
            // A block of one byte repeated holds that byte.
            let length = if header >> 1 & 3 == 1 { 1 } else { u64::from(header >> 3) };
            at += 3 + length;
            blocks += 1;
            if header & 1 == 1 {
                break;
            }
            if blocks > ZSTD_BLOCKS_MAX {
                return Ok(None);
            }
        }
        let has_checksum = header.get(4).is_some_and(|descriptor| descriptor & 4 != 0);
        at += if has_checksum { 4 } else { 0 };
    }
    Ok((at == end).then_some(StatedSize { size, is_gzip: false }))
}

/// The file's bytes in order. At its end it says that there are none for now: it may grow.
struct Feed {
    file: Arc<File>,
    /// Where the next unused byte stands in the file.
    at: u64,
    buffer: Vec<u8>,
    used: usize,
    filled: usize,
    is_at_end: bool,
    error: Option<io::Error>,
}

impl Feed {
    fn new(file: Arc<File>, at: u64) -> Self {
        let buffer = vec![0; FEED_BYTES];
        Self { file, at, buffer, used: 0, filled: 0, is_at_end: false, error: None }
    }

    /// The next four bytes, fewer where the file ends.
    fn peek(&mut self) -> io::Result<&[u8]> {
        if self.filled - self.used < 4 {
            self.buffer.copy_within(self.used..self.filled, 0);
            (self.used, self.filled) = (0, self.filled - self.used);
            self.fill()?;
        }
        let end = self.filled.min(self.used + 4);
        Ok(self.buffer.get(self.used..end).unwrap_or_default())
    }

    /// Fills what is free behind the bytes at hand.
    fn fill(&mut self) -> io::Result<()> {
        let from = self.at + (self.filled - self.used) as u64;
        let Some(free) = self.buffer.get_mut(self.filled..) else { return Ok(()) };
        loop {
            match self.file.read_at(free, from) {
                Ok(count) => {
                    self.filled += count;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl BufRead for Feed {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.filled {
            (self.used, self.filled) = (0, 0);
            if let Err(error) = self.fill() {
                self.error = Some(error);
                return Err(io::ErrorKind::Other.into());
            }
            if self.filled == 0 {
                self.is_at_end = true;
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        Ok(self.buffer.get(self.used..self.filled).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        let count = count.min(self.filled - self.used);
        self.used += count;
        self.at += count as u64;
    }
}

impl Read for Feed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let there = self.fill_buf()?;
        let count = there.len().min(into.len());
        for (to, from) in into.iter_mut().zip(there) {
            *to = *from;
        }
        self.consume(count);
        Ok(count)
    }
}
