//! A line that is not one whole object, taken apart: objects that share a line, an object with a
//! list's punctuation around it, a writer that was killed in the middle of a line and the next one
//! that wrote on behind it. Only lines that cannot be read as they are come here.
//!
//! What is looked for and what is not:
//!
//! - Only lines that begin with an object or a list of objects are taken apart. Prose may quote
//!   anything, and nobody logged what it quotes.
//! - Where an object breaks, the next one is looked for at the very place where it broke, since a
//!   killed writer leaves the beginning of an object and no more. It counts if it is of a known
//!   format and clean objects follow it to the end of the line, or up to the next broken one.
//! - Behind anything else that is no object, every brace is tried.
//! - The work is bounded, whatever the line: see [`WORK_PER_BYTE`] and [`OBJECTS_MAX`].

use memchr::{memchr, memrchr};

use super::fields::Fields;
use super::json::{self, Broken, Json, text_end};
use crate::model::Record;

/// Most objects that are read of one line; what follows them is rejected.
const OBJECTS_MAX: usize = 65_536;

/// Bytes that may be read again for each byte of the line while beginnings of objects are tried,
/// and what each try counts besides what it reads. After that the rest of the line is rejected.
const WORK_PER_BYTE: usize = 4;
const WORK_PER_TRY: usize = 256;

/// How far before the place where a text broke the brace is looked for that broke it: only spaces
/// and the first quote of the next object stand between them.
const BACK_BYTES_MAX: usize = 64;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// The parts of a line, in order.
pub(super) struct Split {
    pub(super) parts: Vec<Part>,
    /// Brackets or commas of a list stand on the line.
    pub(super) is_list: bool,
    /// Something stands on the line that is neither an object nor a list's punctuation.
    pub(super) is_broken: bool,
}

/// One part of a line: it goes up to the start of the next one.
pub(super) struct Part {
    /// Its first byte in the line.
    pub(super) start: usize,
    /// The record, or why there is none. Of neighbours without a record only the first is told.
    pub(super) what: Result<Record, String>,
    /// Where it stands, the broken object before it could hold a value.
    pub(super) may_be_argument: bool,
}

/// Takes a line apart. `read` makes a record of the object that begins at a byte of the line. No
/// record among the parts: there is nothing to gain, and the line is best rejected as a whole.
pub(super) fn split<'a>(
    bytes: &'a [u8],
    read: impl FnMut(usize, Fields<'a>) -> Result<Record, String>,
) -> Split {
    let split = Split { parts: Vec::new(), is_list: false, is_broken: false };
    let work_left = bytes.len().saturating_mul(WORK_PER_BYTE).saturating_add(WORK_PER_TRY);
    let mut splitter = Splitter { bytes, read, split, objects: 0, work_left };
    let start = splitter.start();
    if bytes.get(start) == Some(&b'{') {
        let mut stop = splitter.objects(start);
        while stop.at < bytes.len() {
            stop = splitter.beyond(stop);
        }
    }
    splitter.split
}

struct Splitter<'a, R> {
    bytes: &'a [u8],
    read: R,
    split: Split,
    /// Objects read so far, those included that were given up.
    objects: usize,
    work_left: usize,
}

/// Where a run of objects ended.
struct Stop {
    at: usize,
    /// What is wrong with the object that begins there; none if there begins none.
    broken: Option<Broken>,
}

impl<'a, R: FnMut(usize, Fields<'a>) -> Result<Record, String>> Splitter<'a, R> {
    /// Where the first object begins, behind the bracket of a list.
    fn start(&mut self) -> usize {
        let at = self.skip(0);
        if self.bytes.get(at) != Some(&b'[') {
            return at;
        }
        self.split.is_list = true;
        self.skip(at + 1)
    }

    /// Passes over what may stand between objects. Zeros are what a power cut leaves.
    fn skip(&mut self, from: usize) -> usize {
        let mut at = from;
        loop {
            let rest = self.rest(at);
            match rest.first() {
                Some(b',') => self.split.is_list = true,
                Some(b']') if is_blank(rest.get(1..).unwrap_or_default()) => {
                    self.split.is_list = true;
                }
                Some(0) => self.split.is_broken = true,
                Some(byte) if byte.is_ascii_whitespace() => {}
                _ if rest.starts_with(BOM) => at += BOM.len() - 1,
                _ => return at,
            }
            at += 1;
        }
    }

    /// Reads objects as long as one follows another.
    fn objects(&mut self, from: usize) -> Stop {
        let mut at = from;
        while self.bytes.get(at) == Some(&b'{') && self.objects < OBJECTS_MAX {
            match json::read_first(self.rest(at)) {
                Ok((Json::Object(pairs), length)) => {
                    let what = (self.read)(at, Fields::new(pairs));
                    self.push(at, what);
                    self.objects += 1;
                    at = self.skip(at + length);
                }
                Ok(_) => break,
                Err(broken) => return Stop { at, broken: Some(broken) },
            }
        }
        Stop { at, broken: None }
    }

    /// Rejects what is no object, and reads the objects that follow it; without any, all the rest
    /// of the line is rejected.
    fn beyond(&mut self, stop: Stop) -> Stop {
        let (begin, at) = (self.split.parts.len(), stop.at);
        let is_half = stop.broken.is_some();
        let reason = if self.objects >= OBJECTS_MAX {
            format!("more than {OBJECTS_MAX} objects on one line; write one object per line")
        } else if let Some(broken) = &stop.broken {
            broken.reason.clone()
        } else {
            "text that is no JSON, beside objects on the same line".to_owned()
        };
        self.push(at, Err(reason));
        self.split.is_broken = true;
        let Some(next) = self.next_run(stop) else {
            return Stop { at: self.bytes.len(), broken: None };
        };
        if let Some(part) =
            self.split.parts.get_mut(begin).filter(|part| part.start == at && is_half)
        {
            part.what = Err("a JSON object that ends where another one begins on the same line: \
                             its writer was interrupted"
                .to_owned());
        }
        next
    }

    /// Finds and reads the next run of objects behind what is no object, and says where it ends.
    fn next_run(&mut self, stop: Stop) -> Option<Stop> {
        let mark = self.split.parts.len();
        let is_junk = stop.broken.is_none();
        let (mut from, mut broken) = (stop.at, stop.broken);
        while self.objects < OBJECTS_MAX {
            let at_break = broken.as_ref().and_then(|broken| self.at_break(from, broken));
            let start = at_break.or_else(|| self.at_brace(from + 1).filter(|_| is_junk))?;
            let stop = self.objects(start.at);
            let seen = stop.at + stop.broken.as_ref().map_or(0, |broken| broken.at) - start.at;
            self.work_left = self.work_left.checked_sub(seen + WORK_PER_TRY)?;
            if self.is_run(mark, stop.at) {
                if let Some(first) = self.split.parts.get_mut(mark).filter(|p| p.start == start.at)
                {
                    first.may_be_argument = start.may_be_argument;
                }
                return Some(stop);
            }
            self.split.parts.truncate(mark);
            // It may be a broken one itself, with the next one behind it.
            if stop.at != start.at && !is_junk {
                return None;
            }
            (from, broken) = (stop.at, stop.broken);
        }
        None
    }

    /// Whether what was read since `mark` can be believed: objects of a known format are among it,
    /// and nothing else follows them but another object, broken or not. What stands among the
    /// arguments of a corrupt line is followed by the rest of that line.
    fn is_run(&self, mark: usize, stop: usize) -> bool {
        let read = self.split.parts.get(mark..).unwrap_or_default();
        let before = self.bytes.get(..stop).unwrap_or_default().trim_ascii_end();
        read.iter().any(|part| part.what.is_ok())
            && match self.bytes.get(stop) {
                None => true,
                Some(byte) => *byte == b'{' && !before.ends_with(b","),
            }
    }

    /// Where the next object may begin behind one that begins at `from` and breaks.
    fn at_break(&self, from: usize, broken: &Broken) -> Option<Start> {
        if broken.is_deep {
            return None;
        }
        let end = if broken.is_cut {
            self.bytes.len()
        } else {
            let at = from + broken.at;
            let blank = self.rest(at).iter().take_while(|byte| is_space(**byte)).count();
            match self.bytes.get(at + blank) {
                Some(b'{') if at + blank > from => at + blank,
                // The first quote of the next object ended a text that the broken one had begun.
                _ => self.brace_before(from + 1, at + 2)?,
            }
        };
        // Where a value was due when the writer was killed, the next object looks like that value.
        let whole = closing_object(self.bytes.get(from..end)?);
        match whole {
            Some(start) => Some(Start { at: from + start, may_be_argument: true }),
            None if broken.is_cut => None,
            None => Some(Start { at: end, may_be_argument: false }),
        }
    }

    fn brace_before(&self, first: usize, end: usize) -> Option<usize> {
        let first = first.max(end.saturating_sub(BACK_BYTES_MAX));
        let window = self.bytes.get(first..end.min(self.bytes.len()))?;
        memrchr(b'{', window).map(|at| first + at)
    }

    fn at_brace(&self, first: usize) -> Option<Start> {
        let at = first + memchr(b'{', self.bytes.get(first..)?)?;
        Some(Start { at, may_be_argument: false })
    }

    fn push(&mut self, start: usize, what: Result<Record, String>) {
        let is_more_of_the_same =
            what.is_err() && self.split.parts.last().is_some_and(|part| part.what.is_err());
        if !is_more_of_the_same {
            self.split.parts.push(Part { start, what, may_be_argument: false });
        }
    }

    fn rest(&self, from: usize) -> &'a [u8] {
        self.bytes.get(from..).unwrap_or_default()
    }
}

/// Where an object may begin.
struct Start {
    at: usize,
    may_be_argument: bool,
}

const fn is_space(byte: u8) -> bool {
    byte == 0 || byte.is_ascii_whitespace()
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| is_space(*byte) || *byte == b',')
}

/// Where the object begins that closes at the end of an unfinished one. The bytes are JSON up to
/// their end.
fn closing_object(bytes: &[u8]) -> Option<usize> {
    let bytes = bytes.trim_ascii_end();
    if bytes.last() != Some(&b'}') {
        return None;
    }
    let mut open = Vec::new();
    let mut last = None;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = text_end(bytes, at + 1)?,
            b'{' | b'[' => open.push(at),
            b'}' | b']' => last = open.pop().map(|start| (start, at)),
            _ => {}
        }
        at += 1;
    }
    let (start, end) = last?;
    (start > 0 && end + 1 == bytes.len()).then_some(start)
}
