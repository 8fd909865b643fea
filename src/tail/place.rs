//! Files not seen before: whose content is it? A copy made by a rotation, a file put back, or
//! something new.

use std::cmp::Reverse;
use std::io;

use super::Tail;
use super::codec::{Fault, is_archive};
use super::common::Common;
use super::content::Content;
use super::discover::{Found, outside};
use super::heads::Heads;
use super::identity::{
    Anchor, HEAD_BYTES, Head, Stamp, holds_time, is_distinctive, is_utf16, may_become_utf16,
    opening,
};
use super::name::is_packed;
use super::open::OpenError;
use super::reader::ReadError;
use super::report::{Event, Problem, ProblemKind, SourceState};
use super::scan::Pass;
use super::short::Short;
use super::source::{Inherited, Source};

/// Compressed files that are kept open between scans to be placed.
const WAITING_MAX: usize = 2;

/// Generations that a file is compared with, byte by byte, at most.
const COMPARED_MAX: usize = 8;

/// A file that holds what another one holds or held: nothing in it needs reading yet, unless the
/// original goes.
#[derive(Debug)]
pub(super) struct Copy {
    of: u64,
    /// When it was compared with the original.
    stamp: Stamp,
    /// Bytes of its content then.
    size: u64,
    /// The end of the last whole line that it had then.
    lines: Anchor,
    /// It goes on in its own way, and is read as soon as the original was read that far: should
    /// that go before, the rest of it is here.
    has_more: bool,
}

impl Copy {
    fn new(of: u64, stamp: Stamp, size: u64) -> Self {
        Self { of, stamp, size, lines: Anchor::START, has_more: false }
    }
}

/// A file that is no known generation's by its inode.
struct Stranger {
    found: Found,
    file: Content,
    stamp: Stamp,
    head: Vec<u8>,
    /// How far it was compared with a generation.
    compared: Option<(u64, Common)>,
}

/// A compressed file that one scan did not get through.
#[derive(Debug)]
pub(super) struct Waiting {
    file: Content,
    /// As it was when it was compared.
    stamp: Stamp,
    compared: Option<(u64, Common)>,
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
    /// As far as it goes or was looked at, that of another file.
    Copy(Copy),
    /// That of another file, and more: that file is a copy of this one, perhaps not finished.
    Original(Copy),
    /// Something changed while they were compared.
    Unclear,
    /// A generation's whose file is gone, not even as far as that was read: the rest may follow.
    CutOff,
    /// Nobody can tell.
    Unreadable(ProblemKind, &'static str),
    /// The generation's up to a place, its own from there on.
    Branch(Inherited),
}

impl Tail {
    /// Finds a place for a file that is not a known generation's by its inode.
    pub(super) fn place(&mut self, found: Found, pass: &mut Pass) {
        let read = |of: u64| self.sources.get(&of).map_or(0, |source| source.read.offset);
        let is_same_copy = self.copies.get(&found.key).is_some_and(|copy| {
            let is_idle =
                if copy.has_more { read(copy.of) < copy.size } else { copy.stamp == found.stamp };
            is_idle && self.is_alive(copy.of, pass)
        });
        // An empty file is nobody's yet: it may be the beginning of a copy. Where an original was
        // truncated since, the copy is there by now.
        if is_same_copy || (found.stamp.size == 0 && pass.lost.is_empty()) {
            return;
        }
        if pass.unpackable_bytes == 0 && is_packed(&found.path) {
            self.is_deciding = true;
            return;
        }
        let path = found.path.clone();
        match self.open_stranger(found) {
            Ok(Some(stranger)) => self.place_opened(stranger, pass),
            // The next scan sees it as it is then.
            Ok(None) | Err(OpenError::Moved | OpenError::Special) => {}
            Err(OpenError::Outside) => pass.problems.push(outside(&path)),
            Err(OpenError::Io(error)) => {
                pass.problems.push(Problem::refused(path, "opened", &error));
            }
        }
    }

    fn place_opened(&mut self, mut stranger: Stranger, pass: &mut Pass) {
        stranger.file.allow(pass.unpackable_bytes);
        let origin = self.look_into(&mut stranger, pass);
        pass.spend(&stranger.file);
        let path = &stranger.found.path;
        match origin {
            Ok(Origin::New) => self.adopt(stranger, None, pass),
            Ok(Origin::Same(generation)) => self.rebind(generation, stranger, pass),
            Ok(Origin::Copy(copy)) => {
                let of = copy.of;
                if self.copies.insert(stranger.found.key, copy).is_none() {
                    pass.events.push(Event::Copied { path: path.clone(), of });
                }
            }
            Ok(Origin::Branch(from)) => self.adopt(stranger, Some(from), pass),
            Ok(Origin::Original(copy)) => {
                let (of, file) = (copy.of, self.sources.get(&copy.of));
                if let Some((key, path)) = file.map(|source| (source.key, source.path.clone())) {
                    self.rebind(of, stranger, pass);
                    self.copies.insert(key, copy);
                    pass.events.push(Event::Copied { path, of });
                }
            }
            // The next scan sees it as it is then.
            Ok(Origin::Unclear | Origin::CutOff) => {}
            Ok(Origin::Unreadable(kind, message)) => {
                pass.problems.push(Problem::new(path, kind, message));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_deciding = true;
                let Stranger { found, file, stamp, compared, .. } = stranger;
                if self.waiting.len() < WAITING_MAX {
                    self.waiting.insert(found.key, Waiting { file, stamp, compared });
                }
            }
            Err(error) => pass.problems.push(Problem::refused(path, "read", &error)),
        }
    }

    /// None if the file was swapped since it was listed.
    fn open_stranger(&mut self, found: Found) -> Result<Option<Stranger>, OpenError> {
        let (file, before) = match self.waiting.remove(&found.key) {
            Some(Waiting { file, stamp, compared }) => (file, Some((stamp, compared))),
            None => (self.files.open(&found.path, &self.inside)?.0, None),
        };
        let (key, stamp) = file.look()?;
        if key != found.key || stamp.size == 0 {
            return Ok(None);
        }
        let compared = before.filter(|(before, _)| *before == stamp).and_then(|(_, common)| common);
        Ok(Some(Stranger { found, file, stamp, head: Vec::new(), compared }))
    }

    /// Looks at how the stranger begins, and if it can be read, at whose content it is.
    fn look_into(&mut self, stranger: &mut Stranger, pass: &mut Pass) -> io::Result<Origin> {
        stranger.head = stranger.file.read_up_to(0, HEAD_BYTES as u64)?;
        let fault = stranger.file.fault();
        if is_utf16(&stranger.head) {
            let message = "is UTF-16 and cannot be read: convert it, for example with iconv -t \
                           UTF-8, or have its writer use UTF-8";
            return Ok(Origin::Unreadable(ProblemKind::Encoding, message));
        }
        if !stranger.file.is_packed() && is_archive(&stranger.head) {
            let message = "is compressed and its name does not say so; it is read once its name \
                           ends with .gz or .zst";
            return Ok(Origin::Unreadable(ProblemKind::Compressed, message));
        }
        if stranger.head.is_empty()
            && let Some(fault) = fault.filter(|fault| *fault != Fault::Cut)
        {
            return Ok(Origin::Unreadable(ProblemKind::Damaged, fault.message()));
        }
        if stranger.head.is_empty() || may_become_utf16(&stranger.head) {
            return Ok(self.wait_for_the_rest(stranger));
        }
        let origin = self.origin(stranger, pass)?;
        // As long as it is in the making it may be a copy of which too little is there to see it.
        let is_new = matches!(origin, Origin::New) && stranger.file.fault() == Some(Fault::Cut);
        if is_new && !(self.is_cut_for_good(stranger) && is_distinctive(&stranger.head)) {
            return Ok(self.wait_for_the_rest(stranger));
        }
        Ok(origin)
    }

    /// Whether a compressed file that ends too early was the same at the last scan.
    fn is_cut_for_good(&self, stranger: &Stranger) -> bool {
        self.cut_off.get(&stranger.found.key) == Some(&stranger.stamp)
    }

    /// For a compressed file that ends too early: says so if it was the same at the last scan.
    fn wait_for_the_rest(&mut self, stranger: &Stranger) -> Origin {
        if stranger.file.fault() != Some(Fault::Cut) {
            return Origin::Unclear;
        }
        if self.is_cut_for_good(stranger) {
            return Origin::Unreadable(ProblemKind::Damaged, Fault::Cut.message());
        }
        self.cut_off.insert(stranger.found.key, stranger.stamp);
        Origin::Unclear
    }

    /// Whether the generation's own file is there to be read.
    fn is_alive(&self, generation: u64, pass: &Pass) -> bool {
        let is_there = pass.seen.contains(&generation) || self.files.has(generation);
        is_there
            && !pass.lost.contains_key(&generation)
            && self.sources.get(&generation).is_some_and(|s| s.state != SourceState::Gone)
    }

    fn origin(&mut self, stranger: &mut Stranger, pass: &mut Pass) -> io::Result<Origin> {
        let mates = self.mates(stranger, pass);
        let mut longer = None;
        for mate in &mates {
            match self.succession(stranger, mate, pass)? {
                // An older one may be all that it holds.
                Some(Origin::CutOff) => longer = longer.or(Some(mate.generation)),
                Some(origin) => return Ok(origin),
                None => {}
            }
        }
        if let Some(of) = longer {
            return self.fall_short(stranger, of, pass);
        }
        if let Some(short) = self.short.remove(&stranger.found.key)
            && !self.is_alive(short.of, pass)
        {
            // It has grown past what was read, and not as that did.
            return Ok(Origin::Branch(Inherited { of: short.of, until: short.until() }));
        }
        let known = self.copies.get(&stranger.found.key);
        if let Some(copy) = known
            && !self.is_alive(copy.of, pass)
        {
            // What it had when both were last compared was in the original.
            let (of, is_unchanged) = (copy.of, copy.stamp == stranger.stamp);
            let until = if is_unchanged { copy.size } else { copy.lines.offset };
            let may_grow = !is_unchanged && !copy.has_more;
            let read = self.sources.get(&of).map_or(0, |source| source.read.offset);
            if is_unchanged && read <= until {
                return Ok(Origin::Same(of));
            }
            if read > until && until > 0 && (is_unchanged || copy.lines.holds_in(&stranger.file)?) {
                if may_grow && !stranger.file.reaches(read)? {
                    return self.fall_short(stranger, of, pass);
                }
                return Ok(Origin::Branch(Inherited { of, until }));
            }
        }
        let known = known.map(|copy| copy.of);
        let others = mates.into_iter().filter(|mate| known != Some(mate.generation));
        let mut compared = 0;
        for mate in known.map(Mate::alike).into_iter().chain(others) {
            if !self.is_alive(mate.generation, pass) {
                continue;
            }
            if !(mate.is_alike || self.could_share(stranger, mate.generation)?) {
                // To look at many places of a compressed file takes long.
                compared += usize::from(stranger.file.is_packed());
                if compared >= COMPARED_MAX {
                    break;
                }
                continue;
            }
            let is_known_copy = known == Some(mate.generation);
            if let Some(origin) = self.comparison(stranger, mate.generation, is_known_copy)? {
                return Ok(origin);
            }
            compared += 1;
            if compared >= COMPARED_MAX {
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
            Some(opening) => heads.opening(opening),
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
        if is_alive && !is_adrift {
            return Ok(None);
        }
        let read = source.read.offset;
        let head = if read > 0 { source.read.head } else { source.seen };
        if !head.begins(&stranger.head) {
            return Ok(None);
        }
        if pass.moved.contains(&mate.generation) {
            return Ok(Some(Origin::Unclear));
        }
        let bytes = stranger.head.get(..head.len as usize).unwrap_or_default();
        // Where nothing was read nothing can be skipped by mistake.
        if !(is_distinctive(bytes) || (is_akin && read == 0)) {
            return Ok(None);
        }
        // Whether it is long enough is asked before its content: it may be growing.
        let is_shorter = !stranger.file.reaches(read)?;
        if !is_shorter && source.read.holds_in(&stranger.file)? {
            // What is still being written to through a deleted name is longer than any copy of it.
            let is_all = !is_adrift || stranger.file.reaches(source.size)?;
            return Ok(is_all.then_some(Origin::Same(mate.generation)));
        }
        let is_surely_it = head.is_full() && (is_akin || holds_time(bytes));
        let is_short = is_shorter && !is_adrift && is_surely_it;
        Ok(is_short.then_some(Origin::CutOff))
    }

    /// Decides about a file that holds less than was read of a generation that is gone. Either it
    /// is being copied, and the rest follows, or it was copied before that was last read, so that
    /// its part of it was read in the original, or it is that log, cut, and goes on: which of them
    /// shows with time.
    fn fall_short(&mut self, stranger: &Stranger, of: u64, pass: &mut Pass) -> io::Result<Origin> {
        let Stranger { found, file, stamp, .. } = stranger;
        if file.is_packed() {
            // Whole archives do not grow.
            return Ok(match file.fault() {
                Some(Fault::Cut) => self.wait_for_the_rest(stranger),
                _ => Origin::Branch(Inherited { of, until: file.extent()?.size }),
            });
        }
        let before = self.short.remove(&found.key);
        if before.is_none() {
            pass.events.push(Event::Copied { path: found.path.clone(), of });
        }
        let short = Short::look(before, of, file, *stamp, pass.now)?;
        if let Some(until) = short.decided(pass.now) {
            return Ok(Origin::Branch(Inherited { of, until }));
        }
        self.short.insert(found.key, short);
        Ok(Origin::Unclear)
    }

    /// Whether comparing byte by byte can show that the stranger was copied from a file that
    /// differs from it now.
    fn could_share(&self, stranger: &Stranger, generation: u64) -> io::Result<bool> {
        let Some(source) = self.sources.get(&generation) else { return Ok(false) };
        let is_short = source.size.min(stranger.head.len() as u64) < HEAD_BYTES as u64;
        Ok(is_short || (source.read.offset > 0 && source.read.holds_in(&stranger.file)?))
    }

    /// Compares the stranger with a living file.
    fn comparison(
        &mut self,
        stranger: &mut Stranger,
        generation: u64,
        is_known_copy: bool,
    ) -> io::Result<Option<Origin>> {
        let opened = self.open_again(generation);
        let Some(source) = self.sources.get_mut(&generation) else { return Ok(None) };
        match opened {
            Ok(()) => {}
            // Moved away since it was seen, which is when copies of it take its place.
            Err(ReadError::Gone | ReadError::Open(OpenError::Moved)) => {
                return Ok(Some(Origin::Unclear));
            }
            // What was read of it must not be read again, only since it cannot be compared now.
            Err(ReadError::Open(OpenError::Io(error))) if begins_with_all_of(source, stranger) => {
                let path = source.path.display();
                let why = format!("begins like {path}, which cannot be opened: {error}");
                return Err(io::Error::new(error.kind(), why));
            }
            Err(_) => return Ok(None),
        }
        let Some(file) = self.files.get(generation) else { return Ok(None) };
        let before = stranger.compared.take().filter(|(with, _)| *with == generation);
        let mut common = before.map(|(_, common)| common).unwrap_or_default();
        file.allow(u64::MAX);
        // Either may change while they are compared: what is noted of it is older.
        let (_, stamp) = file.look()?;
        let outcome = common.extend(&stranger.file, file);
        stranger.compared = Some((generation, common));
        outcome?;
        if !source.verify_change(file)? {
            return Ok(Some(Origin::Unclear));
        }
        let original = Copy::new(generation, stamp, common.bytes);
        judge(stranger, source, file, &original, &common, is_known_copy)
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
        // The original may have begun with more since it was copied.
        source.seen = Head::seen(&stranger.head);
        // It may have been gone when it was committed.
        if source.read.is_nowhere()
            && let Ok(Some(read)) = Anchor::at(&stranger.file, source.read.offset)
        {
            source.read = read;
        }
        let committed = Anchor::at(&stranger.file, source.committed.offset);
        // What had been seen in the original beyond the copy's end is lost; verifying counts it.
        source.verified = None;
        source.forget_progress();
        // The file was just compared; should it have changed since, the next scan finds out.
        let has_changed = matches!(source.verify(&stranger.file), Ok(false));
        if !has_changed && let Ok(Some(committed)) = committed {
            source.committed = committed;
        }
        self.files.hold(generation, stranger.file);
        self.see(generation, stranger.found, pass);
        if let Some(source) = self.sources.get_mut(&generation) {
            source.is_stalled = has_changed;
        }
    }

    /// Makes a new generation of the stranger.
    fn adopt(&mut self, stranger: Stranger, inherited: Option<Inherited>, pass: &mut Pass) {
        let generation = self.next_generation;
        let Stranger { found, file, head, .. } = stranger;
        let mut source = Source::new(generation, &found.stream, found.path.clone(), found.key);
        source.seen = Head::seen(&head);
        source.opening = opening(&head);
        source.inherited = inherited;
        match source.verify(&file) {
            Ok(true) => {}
            // Something else than was just looked at: the next scan sees it as it is then.
            Ok(false) => return,
            // What cannot be found out now shows when it is read.
            Err(_) => source.is_stalled = true,
        }
        self.next_generation += 1;
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

/// Whether a stranger begins with what was read of a generation, and with enough of it to be its
/// copy.
fn begins_with_all_of(source: &Source, stranger: &Stranger) -> bool {
    let head = source.read.head;
    let bytes = stranger.head.get(..head.len as usize).unwrap_or_default();
    let is_akin = *source.stream == *stranger.found.stream;
    head.begins(&stranger.head)
        && (head.is_full() || holds_time(bytes) || (is_akin && is_distinctive(bytes)))
}

/// What a stranger is that was just compared with a generation's living file; `original` describes
/// that file as it was before.
fn judge(
    stranger: &Stranger,
    source: &Source,
    file: &Content,
    original: &Copy,
    common: &Common,
    is_known_copy: bool,
) -> io::Result<Option<Origin>> {
    let head = usize::try_from(common.bytes).unwrap_or(HEAD_BYTES).min(stranger.head.len());
    // Two living logs of different names may well begin alike where lines have no time: to take
    // one for a copy would lose what it says. Within a stream, copies are what rotations make.
    let is_akin = *source.stream == *stranger.found.stream;
    let head = stranger.head.get(..head).unwrap_or_default();
    let is_long = common.bytes >= HEAD_BYTES as u64;
    if !(is_long || holds_time(head) || (is_akin && is_distinctive(head))) {
        return Ok(None);
    }
    let until = common.line_bytes;
    let lines =
        |file: &Content| Ok::<_, io::Error>(Anchor::at(file, until)?.unwrap_or(Anchor::START));
    let copy = Copy::new(original.of, stranger.stamp, common.bytes);
    if common.is_all_of_left {
        return Ok(Some(Origin::Copy(Copy { lines: lines(&stranger.file)?, ..copy })));
    }
    let read = source.read.offset;
    let is_all = common.is_all_of_right;
    // A rotation's copy that was found before the log itself is in the making as long as it is
    // shorter.
    let is_in_making = is_akin && stranger.found.is_live && source.state == SourceState::Rotated;
    if is_all && (is_in_making || (read == 0 && source.inherited.is_none())) {
        return Ok(Some(Origin::Original(Copy { lines: lines(file)?, ..*original })));
    }
    let is_branch = is_known_copy || is_all || (read > 0 && common.bytes >= read);
    if !is_branch || until == 0 {
        return Ok(None);
    }
    if read < until {
        let (size, lines) = (until, lines(&stranger.file)?);
        return Ok(Some(Origin::Copy(Copy { size, lines, has_more: true, ..copy })));
    }
    Ok(Some(Origin::Branch(Inherited { of: copy.of, until })))
}
