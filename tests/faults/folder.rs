//! A log folder as its writers and rotations see it, beside the real one: which lines lie in which file, which must
//! have been read, and which nobody can promise.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};

use super::line::{Becomes, Format, Line, Lines};

/// Rotations kept; what is older is deleted.
const KEPT: usize = 3;
/// A copy that grew on while it was made is known for one only if it fills the head by which files are told apart.
const GROWING_COPY_BYTES_MIN: u64 = 4096;
/// Logs that folders made later may bring the folder to.
const LOGS_MAX: usize = 9;

/// The folder and everything that was ever written to it.
pub(super) struct Folder {
    pub(super) root: PathBuf,
    logs: Vec<Log>,
    lines: Lines,
    /// Every whole line, by its mark.
    pub(super) written: BTreeMap<String, Line>,
    /// Whole lines that were destroyed before anybody saw them stored.
    pub(super) at_risk: BTreeSet<String>,
    /// Marks of lines that never were whole.
    pub(super) torn: BTreeSet<String>,
    /// Lines that were seen stored.
    stored: BTreeSet<String>,
}

/// One log: the file that is written to, and what rotations left of it.
struct Log {
    /// Below the root.
    name: String,
    format: Format,
    kind: Kind,
    live: Option<File>,
    /// Newest first.
    rotated: Vec<File>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rotated,
    /// Written in parts, with a link that leads to the newest.
    Parts,
}

/// One content and where it lies.
struct File {
    path: PathBuf,
    /// A hard link to it.
    alias: Option<PathBuf>,
    marks: Vec<String>,
    size: u64,
    half: Option<Half>,
}

struct Half {
    line: Line,
    rest: String,
}

impl Folder {
    pub(super) fn new(root: &Path) -> Self {
        let log = |(number, format): (usize, Format)| Log {
            name: format!("s{number}/audit.jsonl"),
            format,
            kind: Kind::Rotated,
            live: None,
            rotated: Vec::new(),
        };
        let mut logs: Vec<Log> = Format::ALL.into_iter().enumerate().map(log).collect();
        logs.push(Log {
            name: "parts/current.jsonl".to_owned(),
            format: Format::Gate,
            kind: Kind::Parts,
            live: None,
            rotated: Vec::new(),
        });
        fs::create_dir_all(root).unwrap();
        Self {
            root: root.to_owned(),
            logs,
            lines: Lines::default(),
            written: BTreeMap::new(),
            at_risk: BTreeSet::new(),
            torn: BTreeSet::new(),
            stored: BTreeSet::new(),
        }
    }

    /// Whole lines that must be stored, whatever happened.
    pub(super) fn required(&self) -> impl Iterator<Item = &Line> {
        self.written.values().filter(|line| !self.at_risk.contains(&line.mark))
    }

    /// Says that everything that must be stored was seen to be.
    pub(super) fn note_stored(&mut self) {
        let required: Vec<String> = self.required().map(|line| line.mark.clone()).collect();
        self.stored.extend(required);
    }

    /// Writes a line to a log that nothing else happens to; returns its mark.
    pub(super) fn write_sentinel(&mut self) -> String {
        let line = self.lines.sentinel();
        let path = self.root.join("sentinel.jsonl");
        append(&path, &format!("{}\n", line.text));
        let mark = line.mark.clone();
        self.written.insert(mark.clone(), line);
        mark
    }

    pub(super) fn write(&mut self, log: u64, count: u64) {
        let log = self.index(log);
        let lines: Vec<Line> = (0..count).map(|_| self.plain(log)).collect();
        self.append_lines(log, lines);
    }

    pub(super) fn write_pair(&mut self, log: u64) {
        let client = self.index(log);
        let server = self.index(log + 1);
        let [question, answer] = self.lines.pair(client, server);
        self.append_lines(client, vec![question]);
        self.append_lines(server, vec![answer]);
    }

    pub(super) fn write_attack(&mut self, log: u64) {
        let log = self.index(log);
        let lines = self.lines.attack(log);
        self.append_lines(log, lines.to_vec());
    }

    pub(super) fn write_bad(&mut self, log: u64) {
        let log = self.index(log);
        let line = self.lines.bad(log);
        self.append_lines(log, vec![line]);
    }

    pub(super) fn write_overlong(&mut self, log: u64) {
        let log = self.index(log);
        let line = self.lines.overlong(log);
        self.append_lines(log, vec![line]);
    }

    /// Bytes that hold no line. Not inside a half one, whose rest they would become.
    pub(super) fn write_filler(&mut self, log: u64, bytes: &str) {
        let log = self.index(log);
        if !self.has_half(log) {
            self.append_bytes(log, bytes);
        }
    }

    pub(super) fn write_half(&mut self, log: u64) {
        let log = self.index(log);
        if self.has_half(log) {
            return;
        }
        let line = self.plain(log);
        let (half, rest) = line.text.split_at(line.text.len() * 2 / 3);
        let rest = rest.to_owned();
        self.append_bytes(log, half);
        self.live(log).half = Some(Half { line, rest });
    }

    pub(super) fn finish_half(&mut self, log: u64, more: u64) {
        let log = self.index(log);
        if let Some(file) = self.logs[log].live.as_mut() {
            let line = file.finish();
            self.written.extend(line.map(|line| (line.mark.clone(), line)));
        }
        let lines: Vec<Line> = (0..more).map(|_| self.plain(log)).collect();
        self.append_lines(log, lines);
    }

    pub(super) fn cut_half(&mut self, log: u64) {
        let log = self.index(log);
        let Some(file) = self.logs[log].live.as_mut() else { return };
        let Some(half) = file.half.take() else { return };
        file.size -= (half.line.text.len() - half.rest.len()) as u64;
        open(&file.path).set_len(file.size).unwrap();
        self.torn.insert(half.line.mark);
    }

    pub(super) fn abandon_half(&mut self, log: u64, more: u64) {
        let index = self.index(log);
        let half = self.logs[index].live.as_mut().and_then(|file| file.half.take());
        self.torn.extend(half.map(|half| half.line.mark));
        self.write(log, more);
    }

    pub(super) fn rename(&mut self, log: u64) {
        let log = self.index(log);
        if self.logs[log].kind != Kind::Rotated || self.logs[log].live.is_none() {
            return;
        }
        self.shift(log);
        let to = self.rotated_path(log, 1);
        let Some(mut file) = self.logs[log].live.take() else { return };
        fs::rename(&file.path, &to).unwrap();
        file.path = to;
        // The writer still has the file that it began the line in.
        let line = file.finish();
        self.written.extend(line.map(|line| (line.mark.clone(), line)));
        self.logs[log].rotated.insert(0, file);
    }

    pub(super) fn copy_truncate(&mut self, log: u64, between: u64) {
        let log = self.index(log);
        let is_whole = |file: &File| file.half.is_none() && file.size > 0;
        if self.logs[log].kind != Kind::Rotated
            || !self.logs[log].live.as_ref().is_some_and(is_whole)
        {
            return;
        }
        self.shift(log);
        let to = self.rotated_path(log, 1);
        let Some(live) = self.logs[log].live.as_ref() else { return };
        let (path, size, marks) = (live.path.clone(), live.size, live.marks.clone());
        fs::copy(&path, &to).unwrap();
        if size >= GROWING_COPY_BYTES_MIN {
            let lines: Vec<Line> = (0..between).map(|_| self.plain(log)).collect();
            let lost: Vec<String> = lines.iter().map(|line| line.mark.clone()).collect();
            self.append_lines(log, lines);
            self.give_up(&lost);
        }
        open(&path).set_len(0).unwrap();
        let live = self.live(log);
        (live.marks, live.size) = (Vec::new(), 0);
        let copy = File { path: to, alias: None, marks, size, half: None };
        self.logs[log].rotated.insert(0, copy);
    }

    pub(super) fn delete(&mut self, log: u64) {
        let log = self.index(log);
        if self.logs[log].kind == Kind::Rotated
            && let Some(file) = self.logs[log].live.take()
        {
            self.destroy(file);
        }
    }

    pub(super) fn recreate(&mut self, log: u64, count: u64) {
        self.delete(log);
        self.write(log, count);
    }

    /// Truncates and writes other lines, up to fewer or more bytes than there were.
    pub(super) fn rewrite(&mut self, log: u64, is_longer: bool) {
        let log = self.index(log);
        let Some(old) = self.empty(log) else { return };
        let mut lines = vec![self.plain(log)];
        let bytes = |lines: &[Line]| lines.iter().map(|l| l.text.len() as u64 + 1).sum::<u64>();
        while is_longer && bytes(&lines) <= old {
            lines.push(self.plain(log));
        }
        self.append_lines(log, lines);
    }

    pub(super) fn punch(&mut self, log: u64) {
        let log = self.index(log);
        let Some(old) = self.empty(log) else { return };
        let Line { mark, text, becomes } = self.plain(log);
        let file = self.live(log);
        file.size = old + text.len() as u64 + 1;
        file.marks.push(mark.clone());
        open(&file.path).write_all_at(format!("{text}\n").as_bytes(), old).unwrap();
        self.written.insert(mark.clone(), Line { mark, text, becomes });
    }

    pub(super) fn replace(&mut self, log: u64, count: u64) {
        let log = self.index(log);
        let is_rotated = self.logs[log].kind == Kind::Rotated;
        let Some(live) =
            self.logs[log].live.as_mut().filter(|live| is_rotated && live.half.is_none())
        else {
            return;
        };
        live.drop_alias();
        let copy = live.path.with_extension("new");
        fs::copy(&live.path, &copy).unwrap();
        fs::rename(&copy, &live.path).unwrap();
        let lines: Vec<Line> = (0..count).map(|_| self.plain(log)).collect();
        self.append_lines(log, lines);
    }

    /// Packs the oldest rotation.
    pub(super) fn compress(&mut self, log: u64) {
        let log = self.index(log);
        let is_plain = |file: &&mut File| file.path.extension().is_some_and(|e| e != "gz");
        let Some(file) = self.logs[log].rotated.iter_mut().rev().find(is_plain) else { return };
        file.drop_alias();
        let done = std::process::Command::new("gzip").arg(&file.path).status().unwrap();
        assert!(done.success(), "gzip packs {}", file.path.display());
        file.path.as_mut_os_string().push(".gz");
    }

    pub(super) fn hard_link(&mut self, log: u64) {
        let log = self.index(log);
        let is_rotated = self.logs[log].kind == Kind::Rotated;
        let Some(live) = self.logs[log].live.as_mut().filter(|_| is_rotated) else { return };
        let alias = live.path.with_file_name(format!("latest{}.jsonl", self.written.len()));
        if live.alias.is_none() && fs::hard_link(&live.path, &alias).is_ok() {
            live.alias = Some(alias);
        }
    }

    /// A new part, to which the link leads from now on.
    pub(super) fn swap_link(&mut self, count: u64) {
        let log = self.logs.iter().position(|log| log.kind == Kind::Parts).unwrap();
        if let Some(mut file) = self.logs[log].live.take() {
            let line = file.finish();
            self.written.extend(line.map(|line| (line.mark.clone(), line)));
            self.logs[log].rotated.insert(0, file);
        }
        let lines: Vec<Line> = (0..count).map(|_| self.plain(log)).collect();
        self.append_lines(log, lines);
    }

    pub(super) fn link_outside(&self) {
        let outside = self.root.with_file_name("outside.jsonl");
        fs::write(&outside, "{\"mark\":\"w77-000001\"}\n").unwrap();
        drop(symlink(&outside, self.root.join("leads-out.jsonl")));
    }

    pub(super) fn nest(&mut self, count: u64) {
        if self.logs.len() < LOGS_MAX {
            let number = self.logs.len();
            self.logs.push(Log {
                name: format!("n{number}/deep/er/audit.jsonl"),
                format: Format::ALL[number % Format::ALL.len()],
                kind: Kind::Rotated,
                live: None,
                rotated: Vec::new(),
            });
            self.write(number as u64, count);
        }
    }

    fn index(&self, log: u64) -> usize {
        usize::try_from(log).unwrap() % self.logs.len()
    }

    fn plain(&mut self, log: usize) -> Line {
        self.lines.plain(log, self.logs[log].format)
    }

    fn has_half(&self, log: usize) -> bool {
        self.logs[log].live.as_ref().is_some_and(|file| file.half.is_some())
    }

    /// The file that is written to, made new if there is none.
    fn live(&mut self, log: usize) -> &mut File {
        let root = &self.root;
        let Log { name, kind, live, rotated, .. } = &mut self.logs[log];
        live.get_or_insert_with(|| {
            let named = root.join(&*name);
            let folder = named.parent().unwrap();
            fs::create_dir_all(folder).unwrap();
            let path = match kind {
                Kind::Rotated => named,
                Kind::Parts => {
                    let part = format!("part-{}.log", rotated.len());
                    let fresh = folder.join(".link");
                    symlink(&part, &fresh).unwrap();
                    fs::rename(&fresh, &named).unwrap();
                    folder.join(part)
                }
            };
            File { path, alias: None, marks: Vec::new(), size: 0, half: None }
        })
    }

    fn append_bytes(&mut self, log: usize, text: &str) {
        let live = self.live(log);
        append(&live.path, text);
        live.size += text.len() as u64;
    }

    /// Whole lines; a half one before them is finished first.
    fn append_lines(&mut self, log: usize, lines: Vec<Line>) {
        if lines.is_empty() {
            return;
        }
        let finished = self.live(log).finish();
        self.written.extend(finished.map(|line| (line.mark.clone(), line)));
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        self.append_bytes(log, &(texts.join("\n") + "\n"));
        for line in lines {
            self.live(log).marks.push(line.mark.clone());
            self.written.insert(line.mark.clone(), line);
        }
    }

    fn rotated_path(&self, log: usize, number: usize) -> PathBuf {
        self.root.join(format!("{}.{number}", self.logs[log].name))
    }

    /// Makes room for a new first rotation.
    fn shift(&mut self, log: usize) {
        while self.logs[log].rotated.len() >= KEPT {
            let Some(oldest) = self.logs[log].rotated.pop() else { break };
            self.destroy(oldest);
        }
        for number in (1..=self.logs[log].rotated.len()).rev() {
            let is_packed =
                self.logs[log].rotated[number - 1].path.extension().is_some_and(|e| e == "gz");
            let mut to = self.rotated_path(log, number + 1);
            if is_packed {
                to.as_mut_os_string().push(".gz");
            }
            let file = &mut self.logs[log].rotated[number - 1];
            fs::rename(&file.path, &to).unwrap();
            file.path = to;
        }
    }

    /// Truncates the live file and gives up what was in it; returns how long it was.
    fn empty(&mut self, log: usize) -> Option<u64> {
        if self.logs[log].kind != Kind::Rotated {
            return None;
        }
        let live = self.logs[log].live.as_mut()?;
        open(&live.path).set_len(0).unwrap();
        let old = std::mem::take(&mut live.size);
        let (marks, half) = (std::mem::take(&mut live.marks), live.half.take());
        self.give_up(&marks);
        self.torn.extend(half.map(|half| half.line.mark));
        Some(old)
    }

    fn destroy(&mut self, mut file: File) {
        file.drop_alias();
        fs::remove_file(&file.path).unwrap();
        self.give_up(&file.marks);
        self.torn.extend(file.half.map(|half| half.line.mark));
    }

    /// What is in no file any more can be missing, unless it was seen stored.
    fn give_up(&mut self, marks: &[String]) {
        let lost = marks.iter().filter(|mark| !self.stored.contains(*mark));
        self.at_risk.extend(lost.cloned());
    }
}

impl File {
    /// Writes the rest of a half line, if there is one; returns the line.
    fn finish(&mut self) -> Option<Line> {
        let Half { line, rest } = self.half.take()?;
        append(&self.path, &format!("{rest}\n"));
        self.size += rest.len() as u64 + 1;
        self.marks.push(line.mark.clone());
        Some(line)
    }

    fn drop_alias(&mut self) {
        if let Some(alias) = self.alias.take() {
            fs::remove_file(alias).unwrap();
        }
    }
}

impl Line {
    pub(super) fn is_record(&self) -> bool {
        self.becomes == Becomes::Record
    }
}

fn open(path: &Path) -> fs::File {
    OpenOptions::new().write(true).open(path).unwrap()
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}
