//! Files not seen before: whose content is it? A copy made by a rotation, a file put back, or
//! something new.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;

use super::Tail;
use super::discover::{Found, outside};
use super::identity::{
    Anchor, HEAD_BYTES, Head, Stamp, first_half, holds_time, is_distinctive, key_and_stamp,
    opening, read_up_to,
};
use super::open::OpenError;
use super::report::{Event, Problem, SourceState};
use super::scan::Pass;
use super::source::{Inherited, Source};

/// Generations that a file is compared with, byte by byte, at most.
const COMPARED_MAX: usize = 8;

/// A file that holds only what a living one holds: nothing in it needs reading, unless the original
/// goes.
#[derive(Debug)]
pub(super) struct Copy {
    of: u64,
    /// When it was compared with the original.
    stamp: Stamp,
    /// The end of the last whole line that it had then.
    lines: Anchor,
}

/// A file that is no known generation's by its inode.
struct Stranger {
    found: Found,
    file: File,
    stamp: Stamp,
    head: Vec<u8>,
}

/// A generation that a stranger's content may have to do with.
struct Mate {
    generation: u64,
    /// The stranger begins with all that was read or seen of the generation's beginning, not just a
    /// few bytes.
    is_alike: bool,
}

impl Mate {
    fn alike(generation: u64) -> Self {
        Self { generation, is_alike: true }
    }
}

/// Whose content a stranger holds.
enum Origin {
    New,
    /// The generation's: its own file is gone or holds something else now.
    Same(u64),
    /// As far as it goes, that of a living file.
    Copy(Copy),
    /// That of a file of which nothing was read yet, and more: that file is a copy of this one,
    /// perhaps not finished.
    Original(Copy),
    /// Something changed while they were compared.
    Unclear,
    /// The generation's up to a place, its own from there on.
    Branch(Inherited),
}

impl Tail {
    /// Finds a place for a file that is not a known generation's by its inode.
    pub(super) fn place(&mut self, found: Found, pass: &mut Pass) {
        let is_same_copy = self
            .copies
            .get(&found.key)
            .is_some_and(|copy| copy.stamp == found.stamp && self.is_alive(copy.of, pass));
        // An empty file is nobody's yet: it may be the beginning of a copy.
        if is_same_copy || found.stamp.size == 0 {
            return;
        }
        let path = found.path.clone();
        let placed = self.open_stranger(found).and_then(|stranger| match stranger {
            Some(stranger) => Ok(Some((self.origin(&stranger, pass)?, stranger))),
            None => Ok(None),
        });
        match placed {
            Ok(Some((Origin::New, stranger))) => self.adopt(stranger, None, pass),
            Ok(Some((Origin::Same(generation), stranger))) => {
                self.rebind(generation, stranger, pass);
            }
            Ok(Some((Origin::Copy(copy), stranger))) => {
                let of = copy.of;
                if self.copies.insert(stranger.found.key, copy).is_none() {
                    pass.events.push(Event::Copied { path, of });
                }
            }
            Ok(Some((Origin::Branch(from), stranger))) => self.adopt(stranger, Some(from), pass),
            Ok(Some((Origin::Original(copy), stranger))) => {
                let (of, file) = (copy.of, self.sources.get(&copy.of));
                if let Some((key, path)) = file.map(|source| (source.key, source.path.clone())) {
                    self.rebind(of, stranger, pass);
                    self.copies.insert(key, copy);
                    pass.events.push(Event::Copied { path, of });
                }
            }
            // The next scan sees it as it is then.
            Ok(Some((Origin::Unclear, _)) | None) | Err(OpenError::Moved | OpenError::Special) => {}
            Err(OpenError::Outside) => pass.problems.push(outside(&path)),
            Err(OpenError::Io(error)) => {
                pass.problems.push(Problem::refused(path, "opened", &error));
            }
        }
    }

    /// None if the file was swapped since it was listed.
    fn open_stranger(&mut self, found: Found) -> Result<Option<Stranger>, OpenError> {
        let (file, key, stamp) = self.files.open(&found.path, &self.inside)?;
        if key != found.key || stamp.size == 0 {
            return Ok(None);
        }
        let head = read_up_to(&file, 0, HEAD_BYTES as u64)?;
        Ok(Some(Stranger { found, file, stamp, head }))
    }

    /// Whether the generation's own file is there to be read.
    fn is_alive(&self, generation: u64, pass: &Pass) -> bool {
        let is_there = pass.seen.contains(&generation) || self.files.has(generation);
        is_there
            && !pass.lost.contains_key(&generation)
            && self.sources.get(&generation).is_some_and(|s| s.state != SourceState::Gone)
    }

    fn origin(&mut self, stranger: &Stranger, pass: &mut Pass) -> io::Result<Origin> {
        let mates = self.mates(stranger, pass);
        for mate in &mates {
            if let Some(origin) = self.succession(stranger, mate, pass)? {
                return Ok(origin);
            }
        }
        let known = self.copies.get(&stranger.found.key);
        if let Some(copy) = known
            && !self.is_alive(copy.of, pass)
        {
            // What it had when both were last compared was in the original.
            let (of, is_unchanged) = (copy.of, copy.stamp == stranger.stamp);
            let until = if is_unchanged { copy.stamp.size } else { copy.lines.offset };
            let is_read = self.sources.get(&of).is_some_and(|source| source.read.offset > until);
            if is_unchanged && !is_read {
                return Ok(Origin::Same(of));
            }
            if is_read && until > 0 && (is_unchanged || copy.lines.holds_in(&stranger.file)?) {
                return Ok(Origin::Branch(Inherited { of, until }));
            }
        }
        let known = known.map(|copy| copy.of);
        let others = mates.into_iter().filter(|mate| known != Some(mate.generation));
        let mut compared = 0;
        for mate in known.map(Mate::alike).into_iter().chain(others) {
            let is_worth_it = mate.is_alike || self.could_share(stranger, mate.generation)?;
            if !is_worth_it || !self.is_alive(mate.generation, pass) {
                continue;
            }
            let is_known_copy = known == Some(mate.generation);
            if let Some(origin) = self.comparison(stranger, mate.generation, is_known_copy)? {
                return Ok(origin);
            }
            compared += 1;
            if compared == COMPARED_MAX {
                break;
            }
        }
        Ok(Origin::New)
    }

    /// The generations that the stranger's content may have to do with, the likeliest first.
    fn mates(&self, stranger: &Stranger, pass: &mut Pass) -> Vec<Mate> {
        let heads = pass.heads.get_or_insert_with(|| Heads::of(self.sources.values()));
        let is_akin = |generation: u64| {
            self.sources.get(&generation).is_some_and(|s| *s.stream == *stranger.found.stream)
        };
        let alike = heads.beginning(&stranger.head).into_iter().map(Mate::alike);
        let mut mates: Vec<Mate> = alike.collect();
        let opening = opening(&stranger.head);
        let others: Vec<u64> = match opening {
            Some(opening) => heads.by_opening.get(&opening).cloned().unwrap_or_default(),
            // Too short to be looked up.
            None => self.sources.keys().copied().filter(|other| is_akin(*other)).collect(),
        };
        mates.extend(others.into_iter().map(|generation| Mate { generation, is_alike: false }));
        // Those alike first, so that they stay where a generation is there twice.
        mates.sort_by_key(|mate| (mate.generation, !mate.is_alike));
        mates.dedup_by_key(|mate| mate.generation);
        mates.sort_by_cached_key(|mate| {
            (!is_akin(mate.generation), !mate.is_alike, Reverse(mate.generation))
        });
        mates
    }

    /// Whether the stranger takes the place of a generation whose own file is gone.
    fn succession(
        &self,
        stranger: &Stranger,
        mate: &Mate,
        pass: &Pass,
    ) -> io::Result<Option<Origin>> {
        let Some(source) = self.sources.get(&mate.generation) else { return Ok(None) };
        let is_akin = *source.stream == *stranger.found.stream;
        let is_alive = self.is_alive(mate.generation, pass);
        let is_adrift = is_alive && !pass.seen.contains(&mate.generation);
        // What is still being written to through a deleted name is longer than any copy of it.
        if is_alive && !(is_adrift && stranger.stamp.size >= source.size) {
            return Ok(None);
        }
        let read = source.read.offset;
        let head = if read > 0 { source.read.head } else { source.seen };
        if !head.begins(&stranger.head) {
            return Ok(None);
        }
        let bytes = stranger.head.get(..head.len as usize).unwrap_or_default();
        // Where nothing was read nothing can be skipped by mistake.
        if !(is_distinctive(bytes) || (is_akin && read == 0)) {
            return Ok(None);
        }
        if stranger.stamp.size >= read {
            let holds = source.read.holds_in(&stranger.file)?;
            return Ok(holds.then_some(Origin::Same(mate.generation)));
        }
        // Copied earlier than it was last read: the copy's part of it was read in the original.
        let from = Inherited { of: mate.generation, until: stranger.stamp.size };
        Ok((is_akin && head.is_full()).then_some(Origin::Branch(from)))
    }

    /// Whether comparing byte by byte can show that the stranger was copied from a file that
    /// differs from it now.
    fn could_share(&self, stranger: &Stranger, generation: u64) -> io::Result<bool> {
        let Some(source) = self.sources.get(&generation) else { return Ok(false) };
        let is_short = source.size.min(stranger.stamp.size) < HEAD_BYTES as u64;
        let is_read = (1..=stranger.stamp.size).contains(&source.read.offset);
        Ok(is_short || (is_read && source.read.holds_in(&stranger.file)?))
    }

    /// Compares the stranger with a living file.
    fn comparison(
        &mut self,
        stranger: &Stranger,
        generation: u64,
        is_known_copy: bool,
    ) -> io::Result<Option<Origin>> {
        if self.open_again(generation).is_err() {
            return Ok(None);
        }
        let Some(source) = self.sources.get_mut(&generation) else { return Ok(None) };
        let Some(file) = self.files.get(generation) else { return Ok(None) };
        let common = compare(&stranger.file, file)?;
        if !source.verify_change(file)? {
            return Ok(Some(Origin::Unclear));
        }
        let head = usize::try_from(common.bytes).unwrap_or(HEAD_BYTES).min(stranger.head.len());
        // Two living logs of different names may well begin alike where lines have no time: to take one for a copy
        // would lose what it says. Within a stream, copies are what rotations make.
        let is_akin = *source.stream == *stranger.found.stream;
        let head = stranger.head.get(..head).unwrap_or_default();
        let is_long = common.bytes >= HEAD_BYTES as u64;
        if !(is_long || holds_time(head) || (is_akin && is_distinctive(head))) {
            return Ok(None);
        }
        if common.bytes >= stranger.stamp.size {
            let (of, stamp) = (generation, stranger.stamp);
            let lines = Anchor::at(&stranger.file, common.line_bytes)?;
            let lines = lines.unwrap_or(Anchor::START);
            return Ok(Some(Origin::Copy(Copy { of, stamp, lines })));
        }
        let read = source.read.offset;
        let (_, stamp) = key_and_stamp(&file.metadata()?);
        if read == 0 && source.inherited.is_none() && common.bytes == stamp.size {
            let lines = Anchor::at(file, common.line_bytes)?.unwrap_or(Anchor::START);
            return Ok(Some(Origin::Original(Copy { of: generation, stamp, lines })));
        }
        let is_branch =
            is_known_copy || common.bytes >= stamp.size || (read > 0 && common.bytes >= read);
        let from = Inherited { of: generation, until: common.line_bytes };
        Ok((is_branch && common.line_bytes > 0).then_some(Origin::Branch(from)))
    }

    /// Goes on with a generation in another file.
    fn rebind(&mut self, generation: u64, stranger: Stranger, pass: &mut Pass) {
        let Some(source) = self.sources.get_mut(&generation) else { return };
        pass.lost.remove(&generation);
        if self.by_key.get(&source.key) == Some(&generation) {
            self.by_key.remove(&source.key);
        }
        source.key = stranger.found.key;
        self.by_key.insert(source.key, generation);
        self.copies.remove(&source.key);
        // The original may have begun with more since it was copied, or have been gone when it was
        // committed.
        source.seen = Head::seen(&stranger.head);
        for anchor in [&mut source.read, &mut source.committed] {
            if let Ok(Some(there)) = Anchor::at(&stranger.file, anchor.offset) {
                *anchor = there;
            }
        }
        // What had been seen in the original beyond the copy's end is lost; verifying counts it.
        source.verified = None;
        source.forget_progress();
        // The copy was just compared; should it have changed since, the next scan finds out.
        source.is_stalled = !source.verify(&stranger.file).unwrap_or(false);
        self.files.hold(generation, stranger.file);
        self.see(generation, stranger.found, pass);
    }

    /// Makes a new generation of the stranger.
    fn adopt(&mut self, stranger: Stranger, inherited: Option<Inherited>, pass: &mut Pass) {
        let generation = self.next_generation;
        self.next_generation += 1;
        let Stranger { found, file, stamp, head } = stranger;
        let mut source = Source::new(generation, &found.stream, found.path.clone(), found.key);
        source.size = stamp.size;
        source.seen = Head::seen(&head);
        source.opening = opening(&head);
        source.verified = Some(stamp);
        source.inherited = inherited;
        if let Some(heads) = pass.heads.as_mut() {
            heads.add(&source);
        }
        self.by_key.insert(source.key, generation);
        self.copies.remove(&source.key);
        self.sources.insert(generation, source);
        self.files.hold(generation, file);
        pass.events.push(Event::Discovered { generation });
        if let Some(Inherited { of, .. }) = inherited {
            pass.events.push(Event::Copied { path: found.path.clone(), of });
        }
        self.see(generation, found, pass);
    }
}

/// Generations by their heads.
pub(super) struct Heads {
    by_len: BTreeMap<u32, HashMap<[u8; 16], Vec<u64>>>,
    by_opening: HashMap<[u8; 16], Vec<u64>>,
}

impl Heads {
    fn of<'a>(sources: impl Iterator<Item = &'a Source>) -> Self {
        let mut heads = Self { by_len: BTreeMap::new(), by_opening: HashMap::new() };
        sources.for_each(|source| heads.add(source));
        heads
    }

    fn add(&mut self, source: &Source) {
        for Head { len, hash } in [source.read.head, source.seen] {
            if len > 0 {
                let same_len = self.by_len.entry(len).or_default();
                same_len.entry(hash).or_default().push(source.generation);
            }
        }
        if let Some(opening) = source.opening {
            self.by_opening.entry(opening).or_default().push(source.generation);
        }
    }

    /// The generations that a file with this beginning could be.
    fn beginning(&self, bytes: &[u8]) -> Vec<u64> {
        let mut alike = Vec::new();
        let mut hasher = blake3::Hasher::new();
        let mut done = 0;
        for (len, same_len) in &self.by_len {
            // Ascending: beyond this one all are too long.
            let Some(more) = bytes.get(done..*len as usize) else { break };
            hasher.update(more);
            done = *len as usize;
            alike.extend(same_len.get(&first_half(&hasher.finalize())).into_iter().flatten());
        }
        alike
    }
}

/// What two files have in common from their beginnings on.
struct Common {
    bytes: u64,
    /// Up to the last newline of it.
    line_bytes: u64,
}

fn compare(left: &File, right: &File) -> io::Result<Common> {
    const BLOCK_BYTES: u64 = 64 << 10;
    let mut common = Common { bytes: 0, line_bytes: 0 };
    loop {
        let left = read_up_to(left, common.bytes, BLOCK_BYTES)?;
        let right = read_up_to(right, common.bytes, BLOCK_BYTES)?;
        let same = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
        let block = left.get(..same).unwrap_or_default();
        if let Some(newline) = memchr::memrchr(b'\n', block) {
            common.line_bytes = common.bytes + newline as u64 + 1;
        }
        common.bytes += same as u64;
        if (same as u64) < BLOCK_BYTES {
            return Ok(common);
        }
    }
}
