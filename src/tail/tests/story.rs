//! Random stories of a log's life against a small model of what may be lost, and what must not.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Rotations kept; what is older is deleted.
const KEPT: usize = 3;

#[derive(Clone, Debug)]
enum Act {
    Append(u32),
    AppendHalf,
    Rename,
    CopyTruncate,
    /// The copy is seen before the original is truncated.
    CopyScanTruncate,
    Delete,
    /// The newest rotation is compressed, and the original removed unless `keep`.
    Compress {
        kind: &'static str,
        keep: bool,
    },
    /// Compressing it begins, and gets so far.
    CompressPart {
        kind: &'static str,
        percent: usize,
    },
    /// A writer that comes back cuts off the half line it left.
    CutHalf,
    /// Another file with the same text, and perhaps more, takes the name.
    Replace(u32),
    RewriteLonger,
    RewriteShorter,
    Restart,
    Scan,
    Read {
        bytes_max: usize,
        reads: usize,
    },
    CommitPart(u8),
    Commit,
    Rewind,
}

fn kind() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(".gz"), Just(".zst")]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (1..6u32).prop_map(Act::Append),
        2 => Just(Act::AppendHalf),
        2 => Just(Act::Rename),
        2 => Just(Act::CopyTruncate),
        1 => Just(Act::CopyScanTruncate),
        1 => Just(Act::Delete),
        2 => (kind(), any::<bool>()).prop_map(|(kind, keep)| Act::Compress { kind, keep }),
        1 => (kind(), 0..100usize)
            .prop_map(|(kind, percent)| Act::CompressPart { kind, percent }),
        1 => Just(Act::CutHalf),
        1 => (0..3u32).prop_map(Act::Replace),
        1 => Just(Act::RewriteLonger),
        1 => Just(Act::RewriteShorter),
        2 => Just(Act::Restart),
        6 => Just(Act::Scan),
        6 => (1..400usize, 1..6usize).prop_map(|(bytes_max, reads)| Act::Read { bytes_max, reads }),
        2 => any::<u8>().prop_map(Act::CommitPart),
        4 => Just(Act::Commit),
        1 => Just(Act::Rewind),
    ]
}

/// The log `a.jsonl` with its rotations as it should be, beside the real one.
struct Model {
    bench: Bench,
    /// The text of the live file and of each rotation, newest first.
    texts: Vec<String>,
    /// Lines that nobody can promise: destroyed before the store had them.
    at_risk: BTreeSet<String>,
    /// Every line that was ever complete, or the end of its file.
    written: BTreeSet<String>,
    /// Handed out and not committed.
    open: BTreeMap<(u64, u64), Piece>,
    next: u32,
}

impl Model {
    fn new() -> Self {
        Self {
            bench: Bench::new(),
            texts: vec![String::new()],
            at_risk: BTreeSet::new(),
            written: BTreeSet::new(),
            open: BTreeMap::new(),
            next: 0,
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Append(count) => {
                let text: String = (0..*count).map(|_| self.new_line() + "\n").collect();
                self.append(&text);
            }
            Act::AppendHalf => {
                let line = self.new_line();
                self.append(line.trim_end_matches('}'));
            }
            Act::Rename => self.rotate(|bench| bench.rename("a.jsonl", "a.jsonl.1")),
            Act::CopyTruncate => self.rotate(copy_truncate),
            Act::CopyScanTruncate => {
                self.make_room();
                if self.bench.path("a.jsonl").exists() {
                    self.bench.copy("a.jsonl", "a.jsonl.1");
                    self.bench.scan();
                    self.read(200, 2);
                    self.bench.rewrite("a.jsonl", "");
                }
                self.texts.insert(0, String::new());
            }
            Act::Delete => {
                drop(fs::remove_file(self.bench.path("a.jsonl")));
                let text = std::mem::take(&mut self.texts[0]);
                self.destroy(&text);
            }
            Act::Compress { kind, keep } => self.compress(kind, 100, *keep),
            Act::CompressPart { kind, percent } => self.compress(kind, *percent, true),
            Act::CutHalf => {
                let half = self.texts[0].lines().last().unwrap_or_default().to_owned();
                if !self.texts[0].is_empty() && !self.texts[0].ends_with('\n') {
                    self.destroy(&half);
                    let kept = self.texts[0].len() - half.len();
                    self.texts[0].truncate(kept);
                    let path = self.bench.path("a.jsonl");
                    let file = OpenOptions::new().write(true).open(path).unwrap();
                    file.set_len(kept as u64).unwrap();
                }
            }
            Act::Replace(count) => {
                // A half line could go two ways then.
                if self.texts[0].ends_with('\n') {
                    self.bench.copy("a.jsonl", "new");
                    self.bench.rename("new", "a.jsonl");
                    let text: String = (0..*count).map(|_| self.new_line() + "\n").collect();
                    self.append(&text);
                }
            }
            Act::RewriteLonger => self.rewrite(|old, new| new > old),
            Act::RewriteShorter => self.rewrite(|_, new| new > 0),
            Act::Restart => {
                self.open.clear();
                self.bench.restart();
            }
            Act::Scan => drop(self.bench.scan()),
            Act::Read { bytes_max, reads } => self.read(*bytes_max, *reads),
            Act::CommitPart(part) => {
                for generation in self.open_generations() {
                    let ends = self.ends(generation);
                    self.commit_to(generation, ends[usize::from(*part) % ends.len()]);
                }
            }
            Act::Commit => self.commit(),
            Act::Rewind => {
                self.open.clear();
                self.bench.tail.rewind();
            }
        }
    }

    fn new_line(&mut self) -> String {
        self.next += 1;
        line(self.next)
    }

    fn append(&mut self, text: &str) {
        self.bench.append("a.jsonl", text);
        self.texts[0].push_str(text);
    }

    /// Shifts the rotations by one; the live file's place in the model is empty afterwards.
    fn make_room(&mut self) {
        for number in (1..=KEPT).rev() {
            for kind in ["", ".gz", ".zst"] {
                let path = self.bench.path(&format!("a.jsonl.{number}{kind}"));
                if number == KEPT {
                    drop(fs::remove_file(path));
                } else {
                    let older = format!("a.jsonl.{}{kind}", number + 1);
                    drop(fs::rename(path, self.bench.path(&older)));
                }
            }
        }
        if self.texts.len() > KEPT {
            let oldest = self.texts.pop().unwrap();
            self.destroy(&oldest);
        }
    }

    /// Compresses the newest rotation that is not, up to `percent` of the archive.
    fn compress(&mut self, kind: &str, percent: usize, keep: bool) {
        let name = |number: &usize| format!("a.jsonl.{number}");
        let newest = (1..=KEPT).find(|number| self.bench.path(&name(number)).exists());
        let Some(name) = newest.as_ref().map(name) else { return };
        // One rotation is compressed in one way.
        let kind = [".gz", ".zst"]
            .into_iter()
            .find(|kind| self.bench.path(&format!("{name}{kind}")).exists())
            .unwrap_or(kind);
        let archive = pack(&format!("a{kind}"), &fs::read(self.bench.path(&name)).unwrap());
        let part = &archive[..archive.len() * percent / 100];
        self.bench.rewrite(&format!("{name}{kind}"), part);
        if !keep {
            self.bench.remove(&name);
        }
    }

    fn rotate(&mut self, turn: impl Fn(&Bench)) {
        self.make_room();
        if self.bench.path("a.jsonl").exists() {
            turn(&self.bench);
        }
        self.texts.insert(0, String::new());
    }

    fn rewrite(&mut self, is_enough: impl Fn(usize, usize) -> bool) {
        let old = std::mem::take(&mut self.texts[0]);
        self.destroy(&old);
        let mut new = String::new();
        while !is_enough(old.len(), new.len()) {
            new += &(self.new_line() + "\n");
        }
        self.bench.rewrite("a.jsonl", &new);
        self.texts[0] = new;
    }

    /// Text that is no longer in any file: what the store has of it is safe.
    fn destroy(&mut self, text: &str) {
        let safe: BTreeSet<String> = self.bench.lines().into_iter().collect();
        for line in text.lines() {
            self.written.insert(line.to_owned());
            if !safe.contains(line) {
                self.at_risk.insert(line.to_owned());
            }
        }
    }

    fn read(&mut self, bytes_max: usize, reads: usize) {
        for _ in 0..reads {
            for generation in self.bench.tail.pending() {
                let chunk = self.bench.tail.read(generation, bytes_max);
                self.keep(&chunk);
            }
        }
    }

    fn keep(&mut self, chunk: &Chunk) {
        let mut pieces = BTreeMap::new();
        Bench::keep(chunk, &mut pieces);
        self.open.extend(pieces);
    }

    fn open_generations(&self) -> BTreeSet<u64> {
        self.open.keys().map(|(generation, _)| *generation).collect()
    }

    fn ends(&self, generation: u64) -> Vec<u64> {
        let range = (generation, 0)..=(generation, u64::MAX);
        self.open.range(range).map(|((_, offset), piece)| offset + piece.length).collect()
    }

    fn commit_to(&mut self, generation: u64, end: u64) {
        let mut cursor = self.bench.tail.cursor_at(generation, end);
        if cursor.is_none() {
            self.bench.scan();
            cursor = self.bench.tail.cursor_at(generation, end);
        }
        let Some(cursor) = cursor else { return };
        self.bench.tail.commit(&cursor);
        self.bench.cursors.insert(generation, cursor);
        let open = self.open.range((generation, 0)..(generation, end));
        let places: Vec<_> = open.map(|(place, _)| *place).collect();
        for place in places {
            let piece = self.open.remove(&place).unwrap();
            self.bench.stored.insert(place, piece);
        }
    }

    fn commit(&mut self) {
        for generation in self.open_generations() {
            let end = *self.ends(generation).last().unwrap();
            self.commit_to(generation, end);
        }
    }

    /// Reads everything that is left and checks what the store has.
    fn check(mut self) {
        for _ in 0..3 {
            self.bench.scan();
            while !self.bench.tail.pending().is_empty() {
                self.read(300, 1);
            }
            for generation in self.bench.tail.finishable(self.bench.now) {
                let chunk = self.bench.tail.finish(generation);
                self.keep(&chunk);
            }
            self.commit();
            self.bench.wait();
        }
        for (index, text) in self.texts.iter().enumerate() {
            let is_live = index == 0;
            let waits = is_live && !text.is_empty() && !text.ends_with('\n');
            let complete = text.lines().count() - usize::from(waits);
            self.written.extend(text.lines().take(complete).map(str::to_owned));
        }
        let lines = self.bench.lines();
        let mut seen = BTreeSet::new();
        for line in &lines {
            let line = line.trim_end_matches('…');
            assert!(self.written.contains(line), "never written: {line}");
            assert!(seen.insert(line.to_owned()), "twice: {line}");
        }
        for line in &self.written {
            assert!(seen.contains(line) || self.at_risk.contains(line), "lost: {line}");
        }
    }
}

fn copy_truncate(bench: &Bench) {
    bench.copy("a.jsonl", "a.jsonl.1");
    bench.rewrite("a.jsonl", "");
}

fn run(acts: &[Act]) {
    let mut model = Model::new();
    for act in acts {
        model.act(act);
    }
    model.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_nothing_is_counted_twice(acts in prop::collection::vec(act(), 1..60)) {
        run(&acts);
    }
}
