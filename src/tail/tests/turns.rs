//! The disk changes between any two looks of the tail: every rotation, step by step, at every place
//! where it could happen. What load shows once in hundreds of runs is forced here.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

use super::*;

/// Bytes that a copying program writes at a time.
const PAGE_BYTES: usize = 4096;

/// Of so many ways one is taken: all take minutes.
const EVERY: usize = 97;

/// One thing that somebody does to a file.
#[derive(Clone, Debug)]
enum Step {
    Append(&'static str, Vec<u8>),
    Truncate(&'static str),
    Rename(&'static str, &'static str),
    Remove(&'static str),
}

/// Steps that wait for the look of the tail that they come before.
#[derive(Debug, Default)]
struct Turns {
    folder: PathBuf,
    looks: usize,
    ahead: VecDeque<(usize, Step)>,
}

thread_local! {
    static TURNS: RefCell<Turns> = RefCell::default();
}

/// The tail is about to look at the disk.
pub(in crate::tail) fn pause() {
    TURNS.with_borrow_mut(|turns| {
        while let Some((_, step)) = turns.ahead.pop_front_if(|(at, _)| *at <= turns.looks) {
            take(&turns.folder, &step);
        }
        turns.looks += 1;
    });
}

fn take(folder: &Path, step: &Step) {
    match step {
        Step::Append(name, bytes) => {
            let path = folder.join(name);
            let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
            file.write_all(bytes).unwrap();
        }
        Step::Truncate(name) => drop(File::create(folder.join(name)).unwrap()),
        Step::Rename(from, to) => fs::rename(folder.join(from), folder.join(to)).unwrap(),
        Step::Remove(name) => fs::remove_file(folder.join(name)).unwrap(),
    }
}

impl Bench {
    fn take(&self, steps: &[Step]) {
        for step in steps {
            take(self.folder.path(), step);
        }
    }
}

/// A log's life: what the tail saw of it in peace, and what then happens under its eyes.
struct Story {
    /// Done in peace; the tail catches up after each.
    past: Vec<Vec<Step>>,
    /// Done in peace, and not seen.
    unseen: Vec<Step>,
    turns: Vec<Step>,
    /// Lines that must be there, once each.
    kept: BTreeSet<String>,
    /// Lines that may be there, once each: destroyed before the tail can have read them.
    at_risk: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    open_files_max: usize,
    /// Before the steps, once more.
    is_restarted: bool,
    /// The look that the first step comes before.
    start: usize,
    /// Steps that come together, before the others do; 0 where each comes alone.
    before: usize,
    /// Looks between them.
    gap: usize,
}

impl Story {
    /// Tells it in the ways whose number `every` divides: the first `before` steps come at one
    /// look, the others so many looks later, each or all. Returns what goes wrong.
    fn tell(&self, every: usize) -> Vec<String> {
        let mut ways = Vec::new();
        for (open_files_max, is_restarted) in [(8, false), (1, false), (8, true), (1, true)] {
            let way = Way { open_files_max, is_restarted, start: 0, before: 0, gap: usize::MAX };
            let looks = self.tell_once(way).0;
            for start in 0..looks {
                for gap in [0, 1, 2, 3, 5, 8, 13, 40] {
                    ways.push(Way { start, gap, ..way });
                }
                for before in 1..self.turns.len() {
                    ways.extend([1, 2, 4].map(|gap| Way { start, before, gap, ..way }));
                }
            }
        }
        self.tell_ways(ways.into_iter().step_by(every))
    }

    fn tell_ways(&self, ways: impl Iterator<Item = Way>) -> Vec<String> {
        ways.filter_map(|way| self.tell_once(way).1).collect()
    }

    /// Returns how often the tail looked at the disk when it caught up first, and what is wrong.
    fn tell_once(&self, way: Way) -> (usize, Option<String>) {
        let Way { open_files_max, is_restarted, start, before, gap } = way;
        let folder = tempfile::tempdir().unwrap();
        let mut config = TailConfig::new(vec![folder.path().to_owned()]);
        config.open_files_max = open_files_max;
        let mut bench = Bench::with(folder, config);
        for steps in &self.past {
            bench.take(steps);
            bench.catch_up();
        }
        bench.take(&self.unseen);
        if is_restarted {
            bench.restart();
        }
        let at = |index: usize| match before {
            0 => start.saturating_add(index.saturating_mul(gap)),
            _ if index < before => start,
            _ => start.saturating_add(gap),
        };
        let ahead = self.turns.iter().cloned().enumerate().map(|(index, step)| (at(index), step));
        let is_at_rest = gap == usize::MAX;
        let turns = Turns {
            folder: bench.folder.path().to_owned(),
            looks: 0,
            ahead: if is_at_rest { VecDeque::new() } else { ahead.collect() },
        };
        TURNS.set(turns);
        let mut lost_bytes = lost_bytes_of(&bench.catch_up());
        let looks = TURNS.with_borrow(|turns| turns.looks);
        while TURNS.with_borrow(|turns| !turns.ahead.is_empty()) {
            lost_bytes += lost_bytes_of(&bench.catch_up());
        }
        TURNS.take();
        if is_at_rest {
            return (looks, None);
        }
        for _ in 0..4 {
            bench.wait();
            lost_bytes += lost_bytes_of(&bench.catch_up());
        }
        if lost_bytes > 0 && self.at_risk.is_empty() {
            return (looks, Some(format!("{lost_bytes} bytes said to be lost: {way:?}")));
        }
        let wrong = self.check(&bench.lines());
        (looks, wrong.map(|wrong| format!("{wrong}: {way:?}")))
    }

    /// What is wrong with the lines that were read.
    fn check(&self, lines: &[String]) -> Option<String> {
        let distinct: BTreeSet<String> = lines.iter().cloned().collect();
        if lines.len() > distinct.len() {
            return Some(format!("{} lines read twice", lines.len() - distinct.len()));
        }
        if let Some(lost) = self.kept.difference(&distinct).next() {
            return Some(format!("{lost} lost and more"));
        }
        let made_up = distinct
            .iter()
            .find(|line| !self.kept.contains(*line) && !self.at_risk.contains(*line));
        made_up.map(|line| format!("{line} was never written"))
    }
}

fn lost_bytes_of(report: &ScanReport) -> u64 {
    let lost_bytes = |event: &Event| match event {
        Event::Truncated { lost_bytes, .. }
        | Event::Rewritten { lost_bytes, .. }
        | Event::Gone { lost_bytes, .. } => *lost_bytes,
        _ => 0,
    };
    report.events.iter().map(lost_bytes).sum()
}

/// Lines of 28 bytes, so that 200 of them are longer than a head and end within a page.
fn text(numbers: std::ops::Range<u32>) -> Vec<u8> {
    lines(numbers.map(|number| 10_000 + number)).into_bytes()
}

fn set(numbers: impl IntoIterator<Item = u32>) -> BTreeSet<String> {
    expected(numbers.into_iter().map(|number| 10_000 + number)).into_iter().collect()
}

fn append(name: &'static str, numbers: std::ops::Range<u32>) -> Step {
    Step::Append(name, text(numbers))
}

/// Copies page by page into a new file.
fn copy(name: &'static str, content: &[u8]) -> Vec<Step> {
    let pages = content.chunks(PAGE_BYTES).map(|page| Step::Append(name, page.to_vec()));
    std::iter::once(Step::Append(name, Vec::new())).chain(pages).collect()
}

/// Compresses into a new file, in three parts.
fn compress(name: &'static str, content: &[u8]) -> Vec<Step> {
    let archive = pack(name, content);
    let parts = archive.chunks(archive.len() / 3 + 1);
    let parts = parts.map(|part| Step::Append(name, part.to_vec()));
    std::iter::once(Step::Append(name, Vec::new())).chain(parts).collect()
}

/// How much of the lines 0 to 500 the tail has read before: none of the file, some, or all.
fn pasts() -> Vec<(Vec<Vec<Step>>, Vec<Step>)> {
    vec![
        (vec![], vec![append("a.jsonl", 0..500)]),
        (vec![vec![append("a.jsonl", 0..100)]], vec![append("a.jsonl", 100..500)]),
        (vec![vec![append("a.jsonl", 0..200)]], vec![append("a.jsonl", 200..500)]),
        (vec![vec![append("a.jsonl", 0..400)]], vec![append("a.jsonl", 400..500)]),
        (vec![vec![append("a.jsonl", 0..500)]], vec![]),
    ]
}

/// Tells what happens to a log of 500 lines, whatever was read of them.
fn tell(turns: &[Step], kept: &BTreeSet<String>, at_risk: &BTreeSet<String>) {
    for (past, unseen) in pasts() {
        let (turns, kept, at_risk) = (turns.to_vec(), kept.clone(), at_risk.clone());
        check(&Story { past, unseen, turns, kept, at_risk });
    }
}

fn check(story: &Story) {
    let wrong = story.tell(EVERY);
    let some: Vec<_> = wrong.iter().step_by(1 + wrong.len() / 10).collect();
    assert!(some.is_empty(), "after {:?}: {} ways, {some:#?}", story.past.len(), wrong.len());
}

#[test]
fn copied_page_by_page_and_truncated() {
    let mut turns = copy("a.jsonl.1", &text(0..500));
    turns.push(Step::Truncate("a.jsonl"));
    turns.push(append("a.jsonl", 500..510));
    tell(&turns, &set(0..510), &BTreeSet::new());
}

#[test]
fn copied_by_a_rotation_that_does_not_stop_the_writer() {
    let mut turns = copy("a.jsonl.1", &text(0..500));
    turns.push(append("a.jsonl", 500..520));
    turns.push(Step::Truncate("a.jsonl"));
    turns.push(append("a.jsonl", 520..530));
    tell(&turns, &set((0..500).chain(520..530)), &set(500..520));
}

#[test]
fn truncated_and_written_to_the_same_length_or_more() {
    for longer in [0, 50] {
        let mut turns = copy("a.jsonl.1", &text(0..500));
        turns.push(Step::Truncate("a.jsonl"));
        turns.push(append("a.jsonl", 500..900));
        turns.push(append("a.jsonl", 900..1000 + longer));
        tell(&turns, &set(0..1000 + longer), &BTreeSet::new());
    }
}

#[test]
fn rotated_twice_by_copying() {
    let mut turns = copy("a.jsonl.1", &text(0..500));
    turns.push(Step::Truncate("a.jsonl"));
    turns.push(append("a.jsonl", 500..800));
    turns.push(Step::Rename("a.jsonl.1", "a.jsonl.2"));
    turns.extend(copy("a.jsonl.1", &text(500..800)));
    turns.push(Step::Truncate("a.jsonl"));
    turns.push(append("a.jsonl", 800..810));
    tell(&turns, &set(0..810), &BTreeSet::new());
}

#[test]
fn renamed_and_made_anew() {
    let turns = [
        Step::Rename("a.jsonl", "a.jsonl.1"),
        append("a.jsonl.1", 500..501),
        append("a.jsonl", 501..510),
        Step::Rename("a.jsonl.1", "a.jsonl.2"),
        Step::Rename("a.jsonl", "a.jsonl.1"),
        append("a.jsonl", 510..520),
    ];
    tell(&turns, &set(0..520), &BTreeSet::new());
}

#[test]
fn moved_to_another_disk() {
    let mut turns = copy("a.jsonl.1", &text(0..500));
    turns.push(Step::Remove("a.jsonl"));
    turns.push(append("a.jsonl", 500..510));
    tell(&turns, &set(0..510), &BTreeSet::new());
}

#[test]
fn renamed_and_compressed() {
    let mut turns = vec![Step::Rename("a.jsonl", "a.jsonl.1"), append("a.jsonl", 500..510)];
    turns.extend(compress("a.jsonl.1.gz", &text(0..500)));
    turns.push(Step::Remove("a.jsonl.1"));
    turns.push(append("a.jsonl", 510..520));
    tell(&turns, &set(0..520), &BTreeSet::new());
}

#[test]
fn copied_and_the_copy_compressed() {
    let mut turns = copy("a.jsonl.1", &text(0..500));
    turns.push(Step::Truncate("a.jsonl"));
    turns.extend(compress("a.jsonl.1.gz", &text(0..500)));
    turns.push(Step::Remove("a.jsonl.1"));
    turns.push(append("a.jsonl", 500..510));
    tell(&turns, &set(0..510), &BTreeSet::new());
}

#[test]
fn compressed_a_rotation_later() {
    let mut turns = vec![
        Step::Rename("a.jsonl", "a.jsonl.1"),
        append("a.jsonl", 500..800),
        Step::Rename("a.jsonl.1", "a.jsonl.2"),
        Step::Rename("a.jsonl", "a.jsonl.1"),
    ];
    turns.extend(compress("a.jsonl.2.gz", &text(0..500)));
    turns.push(Step::Remove("a.jsonl.2"));
    turns.push(append("a.jsonl", 800..810));
    tell(&turns, &set(0..810), &BTreeSet::new());
}

#[test]
fn compressed_from_the_original_that_is_then_truncated() {
    let mut turns = compress("a.jsonl.1.gz", &text(0..500));
    turns.push(Step::Truncate("a.jsonl"));
    turns.push(append("a.jsonl", 500..510));
    tell(&turns, &set(0..510), &BTreeSet::new());
}

#[test]
fn deleted_and_put_back_page_by_page() {
    for (name, read) in [("a.jsonl", 500), ("a.jsonl.1", 500), ("a.jsonl", 400)] {
        let past = vec![vec![append("a.jsonl", 0..read)], vec![Step::Remove("a.jsonl")]];
        let turns = copy(name, &text(0..500));
        let (kept, at_risk) = (set(0..500), BTreeSet::new());
        check(&Story { past, unseen: vec![], turns, kept, at_risk });
    }
}

#[test]
fn copied_and_written_to_before_the_original_goes() {
    for end in [Step::Truncate("a.jsonl"), Step::Remove("a.jsonl")] {
        for name in ["b.jsonl", "a.jsonl.1"] {
            let mut turns = copy(name, &text(0..500));
            turns.push(append(name, 500..510));
            turns.push(end.clone());
            // Of files of which nothing was read yet no one can tell which is the copy.
            for (past, unseen) in pasts().into_iter().skip(1) {
                let (turns, kept, at_risk) = (turns.clone(), set(0..510), BTreeSet::new());
                check(&Story { past, unseen, turns, kept, at_risk });
            }
        }
    }
}

/// Copies a log's lines after its older rotations made room, and truncates it.
fn rotate(older: u32, numbers: std::ops::Range<u32>) -> Vec<Step> {
    const NAMES: [&str; 5] = ["a.jsonl.1", "a.jsonl.2", "a.jsonl.3", "a.jsonl.4", "a.jsonl.5"];
    let shifts = NAMES.windows(2).take(older as usize).rev();
    let mut steps: Vec<Step> = shifts.map(|name| Step::Rename(name[0], name[1])).collect();
    steps.extend(copy("a.jsonl.1", &text(numbers)));
    steps.push(Step::Truncate("a.jsonl"));
    steps
}

/// The tail stands still for more than a rotation after it asked how long the log is, so that it
/// finds the copy in the making before it finds what that is a copy of.
fn find_the_copy_first(past: &[Vec<Step>], mut turns: Vec<Step>, older: u32, first: u32) {
    let end = first + 500;
    turns.push(append("a.jsonl", first..end));
    // All but the last three pages, and the truncation.
    let before = turns.len() + rotate(older, first..end).len() - 4;
    turns.extend(rotate(older, first..end));
    turns.push(append("a.jsonl", end..end + 10));
    let (kept, at_risk) = (set(0..end + 10), BTreeSet::new());
    let story = Story { past: past.to_vec(), unseen: vec![], turns, kept, at_risk };
    for before in before..before + 3 {
        let start = 2;
        let way = |gap| Way { open_files_max: 8, is_restarted: false, start, before, gap };
        let wrong = story.tell_ways((40..240).step_by(7).map(way));
        assert!(wrong.is_empty(), "{} ways, {wrong:#?}", wrong.len());
    }
}

#[test]
fn a_copy_in_the_making_that_is_found_before_its_original_that_was_empty() {
    let past = [vec![append("a.jsonl", 0..500)], rotate(0, 0..500)];
    find_the_copy_first(&past, vec![], 1, 500);
}

#[test]
fn a_copy_in_the_making_that_is_found_before_its_original_that_held_something_else() {
    let past = [
        vec![append("a.jsonl", 0..500)],
        rotate(0, 0..500),
        vec![append("a.jsonl", 500..1000)],
        rotate(1, 500..1000),
        vec![append("a.jsonl", 1000..1500)],
        vec![],
    ];
    find_the_copy_first(&past, rotate(2, 1000..1500), 3, 1500);
}
