//! One look at the folders: which known files are where, which are other files now, which are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem;
use std::path::PathBuf;

use super::Tail;
use super::codec::Fault;
use super::content::Content;
use super::discover::{Found, Walk, outside, walk};
use super::heads::Heads;
use super::name::is_packed;
use super::open::OpenError;
use super::report::{Event, Problem, ProblemKind, ScanReport, SourceState};
use super::source::Source;
use crate::model::Micros;

/// A file that a folder's listing missed while it was being renamed is there at the next scan.
const MISSES_MAX: u32 = 2;

/// Bytes of compressed files unpacked in one scan: what takes longer goes on in the next one.
const UNPACKED_BYTES_MAX: u64 = 128 << 20;

/// Generations kept whose content is gone: it may come back under another name, and is then known.
const GONE_MAX: usize = 10_000;

/// What one scan gathers.
pub(super) struct Pass {
    pub(super) now: Micros,
    pub(super) events: Vec<Event>,
    pub(super) problems: Vec<Problem>,
    /// Generations whose file is where a path leads.
    pub(super) seen: BTreeSet<u64>,
    /// Generations whose file was renamed, replaced or deleted since it was listed.
    pub(super) moved: BTreeSet<u64>,
    /// Generations whose file holds other content now.
    pub(super) lost: BTreeMap<u64, Loss>,
    /// Files that hold no known generation's content by what their inode says.
    strangers: Vec<Found>,
    /// Bytes of compressed files that may still be unpacked to find out whose content they are.
    pub(super) unpackable_bytes: u64,
    /// The heads of all generations; made when the first stranger needs them.
    pub(super) heads: Option<Heads>,
}

impl Pass {
    /// Counts what was unpacked of a file since it was allowed to.
    pub(super) fn spend(&mut self, file: &Content) {
        let spent = file.allow(u64::MAX);
        self.unpackable_bytes = self.unpackable_bytes.saturating_sub(spent);
    }
}

/// How a file came to hold other content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    Truncated,
    Rewritten,
    Deleted,
}

impl Tail {
    /// Looks at every file under the roots and decides whose content it is: by its inode and its
    /// content first, by content alone for files not seen before. New generations are numbered
    /// stream by stream, each from its oldest file to its newest. `now` serves the grace period
    /// alone. A file that cannot be read is a problem in the report and holds up no other.
    pub fn scan(&mut self, now: Micros) -> ScanReport {
        let walk = self.walk();
        self.inside = walk.inside;
        let mut pass = Pass {
            now,
            events: Vec::new(),
            problems: walk.problems,
            seen: BTreeSet::new(),
            moved: BTreeSet::new(),
            lost: BTreeMap::new(),
            strangers: Vec::new(),
            unpackable_bytes: UNPACKED_BYTES_MAX,
            heads: None,
        };
        self.is_deciding = false;
        let mut keys: BTreeSet<_> = walk.found.iter().map(|found| found.key).collect();
        for found in walk.found {
            self.recognise(found, &mut pass);
        }
        self.check_unseen(&mut pass);
        for stranger in mem::take(&mut pass.strangers) {
            self.place(stranger, &mut pass);
        }
        if self.is_rest_lost(&pass) {
            // The copy may have been made since the folders were listed.
            for found in self.walk().found {
                keys.insert(found.key);
                let is_looked_at = self.cut_off.contains_key(&found.key);
                if !(is_looked_at || self.by_key.contains_key(&found.key)) {
                    self.place(found, &mut pass);
                }
            }
        }
        self.copies.retain(|key, _| keys.contains(key));
        self.waiting.retain(|key, _| keys.contains(key));
        self.cut_off.retain(|key, _| keys.contains(key) && !self.by_key.contains_key(key));
        self.short.retain(|key, _| keys.contains(key) && !self.by_key.contains_key(key));
        self.miss(&walk.unseen, &mut pass);
        self.forget_gone();
        self.report(pass, walk.folders)
    }

    fn walk(&self) -> Walk {
        walk(&self.config.roots, |key, path| {
            let known = self.by_key.get(&key).and_then(|generation| self.sources.get(generation));
            known.is_some_and(|source| source.path == path)
        })
    }

    /// Whether content is gone of which not all was read.
    fn is_rest_lost(&self, pass: &Pass) -> bool {
        let source = |generation| self.sources.get(generation);
        pass.lost.keys().filter_map(source).any(|source| source.unread_bytes() > 0)
    }

    /// Decides whether a file still is the generation that its inode was.
    fn recognise(&mut self, found: Found, pass: &mut Pass) {
        let known = self.by_key.get(&found.key).copied();
        let Some(generation) = known else {
            pass.strangers.push(found);
            return;
        };
        let was_held = self.files.has(generation);
        match self.verify_at(generation, &found, pass) {
            Ok(true) => self.see(generation, found, pass),
            Ok(false) => {
                let source = self.sources.get(&generation);
                let has_moved = source.is_some_and(|source| source.path != found.path);
                // The size of a compressed file says nothing of its content's.
                let is_shorter = source.is_some_and(|source| {
                    source.unpacking.is_none() && found.stamp.size < source.size
                });
                pass.lost.insert(
                    generation,
                    match (was_held, has_moved, is_shorter) {
                        // Deleted, and its inode given out again to another file.
                        (false, true, _) => Loss::Deleted,
                        (.., true) => Loss::Truncated,
                        (.., false) => Loss::Rewritten,
                    },
                );
                self.by_key.remove(&found.key);
                self.files.let_go(generation);
                pass.strangers.push(found);
            }
            // Swapped between the listing and now: the next scan sees clearly.
            Err(OpenError::Moved | OpenError::Special) => {
                pass.moved.insert(generation);
            }
            Err(OpenError::Outside) => pass.problems.push(outside(&found.path)),
            Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                pass.seen.insert(generation);
                self.put_off(generation);
            }
            Err(OpenError::Io(error)) => {
                // There, but not to be read now.
                pass.seen.insert(generation);
                pass.problems.push(Problem::refused(found.path, "opened", &error));
            }
        }
    }

    /// Finds those whose file has no path any more and was truncated besides, before a copy is
    /// looked for.
    fn check_unseen(&mut self, pass: &mut Pass) {
        for source in self.sources.values_mut() {
            let generation = source.generation;
            // Of those gone, and of those just found to be lost, no file is held.
            if pass.seen.contains(&generation) {
                continue;
            }
            let Some(file) = self.files.get(generation) else { continue };
            file.allow(pass.unpackable_bytes);
            let is_same = source.verify(file);
            pass.spend(file);
            match is_same {
                Ok(true) => source.is_stalled = false,
                Ok(false) => {
                    pass.lost.insert(generation, Loss::Rewritten);
                    self.by_key.remove(&source.key);
                    self.files.let_go(generation);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_deciding = true;
                    source.is_stalled = true;
                }
                Err(error) => {
                    source.is_stalled = true;
                    pass.problems.push(Problem::refused(&source.path, "read", &error));
                }
            }
        }
    }

    /// What is in a compressed file shows at a later scan.
    fn put_off(&mut self, generation: u64) {
        self.is_deciding = true;
        if let Some(source) = self.sources.get_mut(&generation) {
            source.is_stalled = true;
            source.missed = 0;
        }
    }

    fn verify_at(
        &mut self,
        generation: u64,
        found: &Found,
        pass: &mut Pass,
    ) -> Result<bool, OpenError> {
        let Some(source) = self.sources.get_mut(&generation) else { return Ok(false) };
        if source.is_settled && source.verified == Some(found.stamp) {
            return Ok(true);
        }
        // What was begun goes on first: its decoder must stay.
        if pass.unpackable_bytes == 0 && is_packed(&found.path) {
            return Err(io::Error::from(io::ErrorKind::WouldBlock).into());
        }
        // A file held open keeps its inode: it is the one that was found.
        if !self.files.has(generation) {
            let (file, key, _) = self.files.open(&found.path, &self.inside)?;
            if key != found.key {
                return Err(OpenError::Moved);
            }
            self.files.hold(generation, file);
        }
        let file = self.files.get(generation).ok_or(OpenError::Moved)?;
        file.allow(pass.unpackable_bytes);
        let is_same = source.verify(file);
        pass.spend(file);
        Ok(is_same?)
    }

    /// Notes that the generation's content is where `found` says.
    pub(super) fn see(&mut self, generation: u64, found: Found, pass: &mut Pass) {
        let Some(source) = self.sources.get_mut(&generation) else { return };
        if source.path != found.path {
            let from = mem::replace(&mut source.path, found.path.clone());
            pass.events.push(Event::Renamed { generation, from, to: found.path });
        }
        let state = if found.is_live { SourceState::Live } else { SourceState::Rotated };
        if source.state != state {
            source.state = state;
            source.quiet_since = pass.now;
        }
        source.is_adrift = false;
        source.is_stalled = false;
        source.missed = 0;
        source.note_quiet(pass.now);
        pass.seen.insert(generation);
        self.rate(generation);
    }

    /// Decides what became of the generations whose file was not found.
    fn miss(&mut self, unseen: &[PathBuf], pass: &mut Pass) {
        let missing: Vec<u64> = self
            .sources
            .values()
            .filter(|source| source.state != SourceState::Gone)
            .map(|source| source.generation)
            .filter(|generation| !pass.seen.contains(generation))
            .collect();
        for generation in missing {
            let Some(source) = self.sources.get_mut(&generation) else { continue };
            // A root that was a single file is gone when its path is; below others nothing is
            // known.
            let is_hidden = |top: &PathBuf| source.path.starts_with(top) && source.path != *top;
            if let Some(loss) = pass.lost.get(&generation) {
                let lost_bytes = source.unread_bytes() + mem::take(&mut source.lost_bytes);
                pass.events.push(match loss {
                    Loss::Truncated => Event::Truncated { generation, lost_bytes },
                    Loss::Rewritten => Event::Rewritten { generation, lost_bytes },
                    Loss::Deleted => Event::Gone { generation, lost_bytes },
                });
                source.state = SourceState::Gone;
            } else if unseen.iter().any(is_hidden) {
            } else if self.files.has(generation) {
                self.drift(generation, pass);
            } else {
                source.missed += 1;
                source.is_stalled = true;
                if source.missed >= MISSES_MAX {
                    self.let_go(generation, pass);
                }
            }
        }
    }

    /// Reads on through the open file of a generation that has no path any more, until it is stored
    /// and quiet.
    fn drift(&mut self, generation: u64, pass: &mut Pass) {
        let Some(source) = self.sources.get_mut(&generation) else { return };
        if !source.is_adrift {
            source.is_adrift = true;
            source.state = SourceState::Rotated;
            source.quiet_since = pass.now;
        }
        source.note_quiet(pass.now);
        let is_stored = source.committed.offset >= source.size;
        if is_stored && pass.now.since(source.quiet_since) >= self.config.grace_micros {
            self.let_go(generation, pass);
        } else {
            self.rate(generation);
        }
    }

    /// Gives a generation up whose file is gone.
    fn let_go(&mut self, generation: u64, pass: &mut Pass) {
        let Some(source) = self.sources.get_mut(&generation) else { return };
        let lost_bytes = source.unread_bytes() + mem::take(&mut source.lost_bytes);
        source.state = SourceState::Gone;
        self.files.let_go(generation);
        if self.by_key.get(&source.key) == Some(&generation) {
            self.by_key.remove(&source.key);
        }
        pass.events.push(Event::Gone { generation, lost_bytes });
    }

    /// Forgets the oldest of those gone that need nothing any more.
    fn forget_gone(&mut self) {
        let is_over = |source: &&Source| {
            source.state == SourceState::Gone && source.committed.offset >= source.read.offset
        };
        let gone: Vec<u64> = self.sources.values().filter(is_over).map(|s| s.generation).collect();
        for generation in gone.iter().take(gone.len().saturating_sub(GONE_MAX)) {
            self.sources.remove(generation);
        }
    }

    fn report(&mut self, mut pass: Pass, folders: Vec<PathBuf>) -> ScanReport {
        for source in self.sources.values_mut() {
            let lost_bytes = mem::take(&mut source.lost_bytes);
            if lost_bytes > 0 {
                let generation = source.generation;
                pass.events.push(Event::Truncated { generation, lost_bytes });
            }
            // One that ends too early may be in the making: until it was the same at two scans.
            let is_lasting = |fault: &Fault| *fault != Fault::Cut || source.is_settled;
            if source.state != SourceState::Gone
                && let Some(fault) = source.fault().filter(is_lasting)
            {
                let kind = ProblemKind::Damaged;
                pass.problems.push(Problem::new(&source.path, kind, fault.message()));
            }
            let is_endless = source.skim.as_ref().is_some_and(|skim| {
                skim.is_endless_line(source.read.offset, self.config.line_bytes_max)
            });
            if is_endless {
                let message = "has a line beyond the limit that has not ended; what follows cannot \
                               be read before it does: look at what writes this file";
                let kind = ProblemKind::EndlessLine;
                pass.problems.push(Problem::new(&source.path, kind, message));
            }
        }
        pass.problems.append(&mut self.read_problems);
        let now: BTreeMap<_, _> = pass
            .problems
            .into_iter()
            .map(|problem| ((problem.path.clone(), problem.kind), problem))
            .collect();
        let before = mem::replace(&mut self.problems, now);
        let is_new =
            |(place, _): &(&(PathBuf, ProblemKind), &Problem)| !before.contains_key(*place);
        let problems =
            self.problems.iter().filter(is_new).map(|(_, problem)| problem.clone()).collect();
        ScanReport { events: pass.events, problems, folders }
    }
}
