//! The tailer against real files: one test a case, and random stories against a model.

mod cases;
mod copies;
mod encoding;
mod folders;
mod lines;
mod load;
mod packed;
mod story;
pub(super) mod turns;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::model::Micros;

/// A folder of logs, the tail over it, and a store that keeps what is committed.
struct Bench {
    folder: TempDir,
    config: TailConfig,
    tail: Tail,
    cursors: BTreeMap<u64, Cursor>,
    /// What the store has, by generation and place.
    stored: BTreeMap<(u64, u64), Piece>,
    now: Micros,
}

/// One item as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    length: u64,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Line(String),
    Unterminated(String),
    Blank,
    Overlong,
    Zeros,
    CopyOf(u64),
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = TailConfig::new(vec![folder.path().to_owned()]);
        Self::with(folder, config)
    }

    fn with(folder: TempDir, config: TailConfig) -> Self {
        Self {
            tail: Tail::new(config.clone(), Vec::new(), 1),
            folder,
            config,
            cursors: BTreeMap::new(),
            stored: BTreeMap::new(),
            now: Micros(0),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn append(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(text.as_ref()).unwrap();
    }

    /// Writes over the file in place: the inode stays.
    fn rewrite(&self, name: &str, text: impl AsRef<[u8]>) {
        File::create(self.path(name)).unwrap().write_all(text.as_ref()).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    /// Puts a compressed file there, whole.
    fn pack(&self, from: &str, to: &str) {
        let packed = pack(to, &fs::read(self.path(from)).unwrap());
        fs::write(self.path(to), packed).unwrap();
    }

    fn copy(&self, from: &str, to: &str) {
        fs::copy(self.path(from), self.path(to)).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    fn inode(&self, name: &str) -> u64 {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(self.path(name)).unwrap().ino()
    }

    fn scan(&mut self) -> ScanReport {
        self.tail.scan(self.now)
    }

    /// Takes what a chunk holds, after checking that it covers its bytes.
    fn keep(chunk: &Chunk, into: &mut BTreeMap<(u64, u64), Piece>) {
        let mut at = chunk.start;
        for item in &chunk.items {
            assert_eq!(item.offset(), at, "items follow each other without a hole");
            at += item.length();
            let text = |range| String::from_utf8_lossy(chunk.bytes(range)).into_owned();
            let what = match item {
                Item::Line { range, is_unterminated: false, .. } => What::Line(text(range)),
                Item::Line { range, .. } => What::Unterminated(text(range)),
                Item::Blank { .. } => What::Blank,
                Item::Overlong(_) => What::Overlong,
                Item::Gap { why: GapWhy::Zeros, .. } => What::Zeros,
                Item::Gap { why: GapWhy::CopyOf { generation }, .. } => What::CopyOf(*generation),
            };
            let place = (chunk.generation, item.offset());
            into.insert(place, Piece { length: item.length(), what });
        }
        assert_eq!(at, chunk.end);
    }

    /// Stores what a chunk holds and commits it.
    fn store(&mut self, chunk: &Chunk) {
        if chunk.items.is_empty() {
            return;
        }
        let mut pieces = BTreeMap::new();
        Self::keep(chunk, &mut pieces);
        let cursor = self.tail.cursor_at(chunk.generation, chunk.end).unwrap();
        self.tail.commit(&cursor);
        self.cursors.insert(chunk.generation, cursor);
        self.stored.extend(pieces);
    }

    /// Reads and stores everything that is pending.
    fn drain(&mut self) {
        loop {
            let pending = self.tail.pending();
            if pending.is_empty() {
                return;
            }
            for generation in pending {
                let chunk = self.tail.read(generation, 4096);
                self.store(&chunk);
            }
        }
    }

    fn finish_all(&mut self) {
        for generation in self.tail.finishable(self.now) {
            let chunk = self.tail.finish(generation);
            self.store(&chunk);
        }
    }

    /// A scan, and everything it saw stored.
    fn catch_up(&mut self) -> ScanReport {
        let report = self.scan();
        self.drain();
        report
    }

    fn restart(&mut self) {
        let cursors = self.cursors.values().cloned().collect();
        self.tail = Tail::new(self.config.clone(), cursors, self.tail.next_generation());
    }

    /// The time of grace and more goes by.
    fn wait(&mut self) {
        self.now = self.now.plus(self.config.grace_micros);
    }

    /// The lines that the store has, in order of generation and place, after checking that every
    /// generation is covered from its beginning to its position.
    fn lines(&self) -> Vec<String> {
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        for ((generation, offset), piece) in &self.stored {
            let end = ends.entry(*generation).or_default();
            assert_eq!(end, offset, "generation {generation} is covered without hole or overlap");
            *end += piece.length;
        }
        for (generation, cursor) in &self.cursors {
            assert_eq!(ends.get(generation).copied().unwrap_or(0), cursor.offset);
        }
        let line = |piece: &Piece| match &piece.what {
            What::Line(text) => Some(text.clone()),
            What::Unterminated(text) => Some(format!("{text}…")),
            _ => None,
        };
        self.stored.values().filter_map(line).collect()
    }

    fn what(&self) -> Vec<What> {
        self.stored.values().map(|piece| piece.what.clone()).collect()
    }

    fn state(&self, generation: u64) -> SourceState {
        let of = |status: &SourceStatus| status.generation == generation;
        self.tail.status().into_iter().find(of).unwrap().state
    }
}

/// Compresses as the name says.
fn pack(name: &str, content: &[u8]) -> Vec<u8> {
    if Path::new(name).extension().is_some_and(|kind| kind == "zst") {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        return ruzstd::encoding::compress_to_vec(content, level);
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A line with a time, so that its file is recognised by it.
fn line(number: u32) -> String {
    format!("{{\"ts\":{},\"n\":{number}}}", 1_767_225_600 + number)
}

fn lines(numbers: impl IntoIterator<Item = u32>) -> String {
    numbers.into_iter().map(|number| line(number) + "\n").collect()
}

fn expected(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
    numbers.into_iter().map(line).collect()
}

fn kinds(problems: &[Problem]) -> Vec<(PathBuf, ProblemKind)> {
    problems.iter().map(|problem| (problem.path.clone(), problem.kind)).collect()
}

/// Whether this process may read everything, so that nothing can be denied to it.
fn is_privileged(path: &Path) -> bool {
    File::open(path).is_ok()
}
