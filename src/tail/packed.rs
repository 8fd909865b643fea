//! The content of a compressed file, read at any place. Decoders go forward only: one stays where
//! reading goes on, another one serves looks back, and both keep the bytes around their place.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::sync::Arc;

use super::LINE_BYTES_MAX;
use super::codec::{self, Codec, Fault, Step};
use super::content::{Extent, read_up_to};
use super::identity::{HEAD_BYTES, Stamp, TAIL_BYTES, hash, key_and_stamp};

/// Unpacked bytes kept before a decoder's place, so that a long line whose end was found can be
/// read whole.
const BACK_BYTES_MAX: u64 = LINE_BYTES_MAX as u64 + (1 << 20);

/// Memory that a decoder keeps for those bytes when few of them are left.
const SMALL_BYTES: usize = 4 << 20;

pub(super) struct Packed {
    file: Arc<File>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// The file as it was when the rest was found out.
    stamp: Option<Stamp>,
    /// The first bytes of the content.
    head: Vec<u8>,
    /// Bytes known to be there.
    size: u64,
    end: Option<End>,
    ahead: Option<Decoder>,
    aside: Option<Decoder>,
    allowed_bytes: u64,
    unpacked_bytes: u64,
}

/// Where unpacking came to its end.
#[derive(Clone, Copy)]
struct End {
    fault: Option<Fault>,
    /// How much of the file it took, and a hash of the last bytes of that: whether a file that is
    /// longer now was only appended to.
    fed: u64,
    fed_hash: [u8; 16],
}

impl Packed {
    pub(super) fn new(file: File) -> Self {
        let state = State { allowed_bytes: u64::MAX, ..State::default() };
        Self { file: Arc::new(file), state: RefCell::new(state) }
    }

    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    pub(super) fn extent(&self) -> io::Result<Extent> {
        let mut state = self.state.borrow_mut();
        state.refresh(&self.file)?;
        Ok(Extent { size: state.size, has_more: state.end.is_none() })
    }

    pub(super) fn fault(&self) -> Option<Fault> {
        self.state.borrow().end.and_then(|end| end.fault)
    }

    pub(super) fn allow(&self, bytes: u64) -> u64 {
        let mut state = self.state.borrow_mut();
        state.allowed_bytes = bytes;
        std::mem::take(&mut state.unpacked_bytes)
    }

    pub(super) fn read_up_to(
        &self,
        offset: u64,
        length: u64,
        is_aside: bool,
    ) -> io::Result<Vec<u8>> {
        let mut state = self.state.borrow_mut();
        state.refresh(&self.file)?;
        let end = offset.saturating_add(length);
        if let Some(bytes) = state.out_of_head(offset, end) {
            return Ok(bytes);
        }
        let mut decoder = state.take(is_aside, offset, &self.file);
        if offset > decoder.at {
            decoder.wanted_from = offset;
        }
        let outcome = state.decode(&self.file, &mut decoder, offset, end);
        let bytes = outcome.map(|()| decoder.window(offset, end));
        *state.slot(is_aside) = Some(decoder);
        bytes
    }

    pub(super) fn reaches(&self, size: u64) -> io::Result<bool> {
        let mut state = self.state.borrow_mut();
        state.refresh(&self.file)?;
        if size <= state.size || state.end.is_some() {
            return Ok(size <= state.size);
        }
        let from = state.size;
        let mut decoder = state.take(false, from, &self.file);
        let outcome = state.decode(&self.file, &mut decoder, size, size);
        state.ahead = Some(decoder);
        outcome.map(|()| size <= state.size)
    }

    pub(super) fn forget_before(&self, offset: u64) {
        if let Some(decoder) = &mut self.state.borrow_mut().ahead {
            decoder.wanted_from = decoder.wanted_from.max(offset);
            decoder.trim(u64::MAX);
        }
    }

    pub(super) fn decoders(&self) -> usize {
        let state = self.state.borrow();
        usize::from(state.ahead.is_some()) + usize::from(state.aside.is_some())
    }

    pub(super) fn close_decoders(&self) {
        let mut state = self.state.borrow_mut();
        (state.ahead, state.aside) = (None, None);
    }

    #[cfg(test)]
    pub(super) fn unpacked_to(&self) -> Option<u64> {
        self.state.borrow().ahead.as_ref().map(|decoder| decoder.at)
    }

    pub(super) fn stated_size(&self) -> io::Result<Option<u64>> {
        Ok(codec::stated_size(&self.file)?.map(|stated| stated.size))
    }

    pub(super) fn ends_as_stated(&self, size: u64) -> io::Result<bool> {
        let Some(stated) = codec::stated_size(&self.file)? else { return Ok(false) };
        if !stated.is(size) {
            return Ok(false);
        }
        let mut state = self.state.borrow_mut();
        state.refresh(&self.file)?;
        let fed = self.file.metadata()?.len();
        state.size = size;
        state.end = Some(End { fault: None, fed, fed_hash: hash_before(&self.file, fed)? });
        Ok(true)
    }
}

impl State {
    /// Forgets everything about a file that is another one now, and the end of one that grew.
    fn refresh(&mut self, file: &File) -> io::Result<()> {
        let (_, stamp) = key_and_stamp(&file.metadata()?);
        if self.stamp == Some(stamp) {
            return Ok(());
        }
        let is_appended = match self.end {
            Some(End { fault: Some(Fault::Cut) | None, fed, fed_hash })
                if self.stamp.is_some_and(|before| before.size <= stamp.size) =>
            {
                stamp.size >= fed && hash_before(file, fed)? == fed_hash
            }
            _ => false,
        };
        if is_appended {
            self.end = None;
        } else {
            let (allowed_bytes, unpacked_bytes) = (self.allowed_bytes, self.unpacked_bytes);
            *self = Self { allowed_bytes, unpacked_bytes, ..Self::default() };
        }
        self.stamp = Some(stamp);
        Ok(())
    }

    /// Answers from the head alone, if that is possible.
    fn out_of_head(&self, offset: u64, end: u64) -> Option<Vec<u8>> {
        let is_there = end <= self.head.len() as u64;
        let is_all = self.end.is_some() && self.size == self.head.len() as u64;
        let is_past = self.end.is_some() && offset >= self.size;
        if is_past {
            return Some(Vec::new());
        }
        if !(is_there || is_all) {
            return None;
        }
        let end = usize::try_from(end).unwrap_or(usize::MAX).min(self.head.len());
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(end);
        self.head.get(start..end).map(<[u8]>::to_vec)
    }

    fn slot(&mut self, is_aside: bool) -> &mut Option<Decoder> {
        if is_aside { &mut self.aside } else { &mut self.ahead }
    }

    /// The decoder to use: one that still has, or has not reached, `offset`.
    fn take(&mut self, is_aside: bool, offset: u64, file: &Arc<File>) -> Decoder {
        let fits = |decoder: &Decoder| decoder.start() <= offset;
        if let Some(decoder) = self.slot(is_aside).take_if(|decoder| fits(decoder)) {
            return decoder;
        }
        Decoder::new(file)
    }

    /// Unpacks until the decoder stands at `end` or the content ends.
    fn decode(
        &mut self,
        file: &File,
        decoder: &mut Decoder,
        offset: u64,
        end: u64,
    ) -> io::Result<()> {
        while decoder.at < end && !(self.end.is_some() && decoder.at >= self.size) {
            if self.unpacked_bytes >= self.allowed_bytes {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let before = decoder.at;
            let step = decoder.step()?;
            self.unpacked_bytes += decoder.at - before;
            self.note(decoder, before);
            decoder.trim(offset);
            let fault = match step {
                Step::More => continue,
                Step::End => None,
                Step::Fault(fault) => Some(fault),
            };
            let fed = decoder.codec.fed();
            self.end = Some(End { fault, fed, fed_hash: hash_before(file, fed)? });
            // What was unpacked before and is not now can only be a file that is changing.
            self.size = decoder.at;
        }
        Ok(())
    }

    /// Keeps what the decoder brought for the first time.
    fn note(&mut self, decoder: &Decoder, before: u64) {
        self.size = self.size.max(decoder.at);
        let have = self.head.len() as u64;
        if have < HEAD_BYTES as u64 && before <= have && decoder.at > have {
            let fresh = decoder.window(have, decoder.at.min(HEAD_BYTES as u64));
            self.head.extend(fresh);
        }
    }
}

struct Decoder {
    codec: Codec,
    /// The bytes before `at`, as far as they are kept.
    kept: VecDeque<u8>,
    at: u64,
    /// What stands before this place is not wanted any more.
    wanted_from: u64,
}

impl Decoder {
    fn new(file: &Arc<File>) -> Self {
        Self { codec: Codec::new(file), kept: VecDeque::new(), at: 0, wanted_from: 0 }
    }

    /// Where the bytes kept begin.
    fn start(&self) -> u64 {
        self.at - self.kept.len() as u64
    }

    fn step(&mut self) -> io::Result<Step> {
        let (kept, at) = (&mut self.kept, &mut self.at);
        self.codec.step(|bytes| {
            kept.extend(bytes);
            *at += bytes.len() as u64;
        })
    }

    /// Lets go of bytes that nobody wants, or that are too far back; never of those after `needed`.
    fn trim(&mut self, needed: u64) {
        let floor = self.wanted_from.max(self.at.saturating_sub(BACK_BYTES_MAX));
        let drop = floor.min(needed).min(self.at).saturating_sub(self.start());
        if drop > 0 {
            self.kept.drain(..usize::try_from(drop).unwrap_or(self.kept.len()));
            if self.kept.capacity() > SMALL_BYTES && self.kept.len() < SMALL_BYTES / 4 {
                self.kept.shrink_to(SMALL_BYTES);
            }
        }
    }

    /// The bytes from `from` to `to`, as far as they are kept.
    fn window(&self, from: u64, to: u64) -> Vec<u8> {
        let start = self.start();
        let index = |place: u64| {
            let index = usize::try_from(place.saturating_sub(start)).unwrap_or(usize::MAX);
            index.min(self.kept.len())
        };
        let (from, to) = (index(from), index(to));
        let (front, back) = self.kept.as_slices();
        let part = |slice: &[u8], skip: usize| {
            let end = to.saturating_sub(skip).min(slice.len());
            slice.get(from.saturating_sub(skip).min(end)..end).unwrap_or_default().to_vec()
        };
        let mut bytes = part(front, 0);
        bytes.extend(part(back, front.len()));
        bytes
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed").field("file", &self.file).finish_non_exhaustive()
    }
}

fn hash_before(file: &File, place: u64) -> io::Result<[u8; 16]> {
    let start = place.saturating_sub(TAIL_BYTES);
    Ok(hash(&read_up_to(file, start, place - start)?))
}
