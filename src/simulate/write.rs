//! The simulator's shell: a scenario onto the disk. The logs go into `logs`, the truth into `truth`
//! beside it, so that whoever watches the logs does not read the answers.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::generate::{SimEvent, Simulation};
use super::line::SimLine;
use super::scenario::Scenario;
use crate::model::Text;

/// Bytes held back per file before they are written.
const BUFFER_BYTES: usize = 64 * 1024;
/// Lines between two reports of progress.
const PROGRESS_LINES: u64 = 4_096;

/// Why a simulation could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("{} holds files already; choose a new or an empty folder", .0.display())]
    NotEmpty(PathBuf),
    #[error("cannot write {}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WriteSummary {
    pub seed: u64,
    pub calls: u64,
    /// Lines of all logs.
    pub lines: u64,
    pub bytes: u64,
    /// Attacks, each with an alert that must come of it.
    pub attacks: u64,
    /// Times a log was renamed because it had grown too large.
    pub rotations: u64,
}

/// Writes a scenario into `out`: the logs under `out/logs`, and under `out/truth` the calls
/// (`calls.jsonl`), the alerts that must come of the attacks (`alerts.jsonl`) and the totals
/// (`summary.json`).
///
/// A log that would grow over `rotate_bytes` is renamed to `NAME.1`, the one of that name to
/// `NAME.2` and so on; none is ever deleted. `progress` is told the calls made so far, every few
/// thousand lines. Fails where `out/logs` or `out/truth` holds files already, and where the disk
/// does.
pub fn write_logs(
    out: &Path,
    scenario: &Scenario,
    rotate_bytes: Option<u64>,
    progress: &mut dyn FnMut(u64),
) -> Result<WriteSummary, WriteError> {
    let (logs, truth) = (out.join("logs"), out.join("truth"));
    for folder in [&logs, &truth] {
        prepare(folder)?;
    }
    let mut calls = OutFile::create(truth.join("calls.jsonl"))?;
    let mut alerts = OutFile::create(truth.join("alerts.jsonl"))?;
    let mut folder =
        LogFolder { root: logs, rotate_bytes, files: FxHashMap::default(), rotations: 0 };
    let mut summary = WriteSummary { seed: scenario.seed, ..WriteSummary::default() };
    let mut simulation = Simulation::new(scenario);
    while let Some(event) = simulation.next() {
        match event {
            SimEvent::Line(line) => {
                summary.bytes += folder.append(&line)?;
                summary.lines += 1;
                if summary.lines.is_multiple_of(PROGRESS_LINES) {
                    progress(simulation.calls());
                }
            }
            SimEvent::Call(call) => calls.json_line(&call)?,
            SimEvent::Alert(alert) => {
                summary.attacks += 1;
                alerts.json_line(&alert)?;
            }
        }
    }
    summary.rotations = folder.rotations;
    summary.calls = simulation.calls();
    folder.finish()?;
    calls.finish()?;
    alerts.finish()?;
    let mut totals = OutFile::create(truth.join("summary.json"))?;
    totals.json_line(&summary)?;
    totals.finish()?;
    progress(summary.calls);
    Ok(summary)
}

/// Makes sure that the folder is there and empty.
fn prepare(folder: &Path) -> Result<(), WriteError> {
    let failed = |source| WriteError::Io { path: folder.to_path_buf(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    match fs::read_dir(folder).map_err(failed)?.next() {
        Some(_) => Err(WriteError::NotEmpty(folder.to_path_buf())),
        None => Ok(()),
    }
}

/// The logs, each open for appending.
struct LogFolder {
    root: PathBuf,
    rotate_bytes: Option<u64>,
    files: FxHashMap<Text, OutFile>,
    rotations: u64,
}

impl LogFolder {
    /// Writes the line and its newline; returns their bytes.
    fn append(&mut self, line: &SimLine) -> Result<u64, WriteError> {
        let length = line.text.len() as u64 + 1;
        let is_full = |file: &OutFile| {
            self.rotate_bytes.is_some_and(|limit| file.bytes > 0 && file.bytes + length > limit)
        };
        if self.files.get(&line.file).is_some_and(is_full)
            && let Some(file) = self.files.remove(&line.file)
        {
            shift(&file.finish()?)?;
            self.rotations += 1;
        }
        let file = if let Some(file) = self.files.get_mut(&line.file) {
            file
        } else {
            let path = self.root.join(&*line.file);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)
                    .map_err(|source| WriteError::Io { path: folder.to_path_buf(), source })?;
            }
            let file = OutFile::create(path)?;
            self.files.entry(Text::clone(&line.file)).insert_entry(file).into_mut()
        };
        file.append(line.text.as_bytes())?;
        file.append(b"\n")?;
        Ok(length)
    }

    fn finish(self) -> Result<(), WriteError> {
        self.files.into_values().try_for_each(|file| file.finish().map(drop))
    }
}

/// Renames `path` to `path.1` after `path.1` to `path.2` and so on, the oldest first.
fn shift(path: &Path) -> Result<(), WriteError> {
    let numbered = |number: u64| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let mut free = 1;
    while numbered(free).exists() {
        free += 1;
    }
    for number in (1..free).rev() {
        rename(&numbered(number), &numbered(number + 1))?;
    }
    rename(path, &numbered(1))
}

fn rename(from: &Path, to: &Path) -> Result<(), WriteError> {
    fs::rename(from, to).map_err(|source| WriteError::Io { path: to.to_path_buf(), source })
}

/// A file being written, that knows its path and its size.
struct OutFile {
    path: PathBuf,
    bytes: u64,
    file: BufWriter<File>,
}

impl OutFile {
    fn create(path: PathBuf) -> Result<Self, WriteError> {
        match File::create_new(&path) {
            Ok(file) => {
                Ok(Self { path, bytes: 0, file: BufWriter::with_capacity(BUFFER_BYTES, file) })
            }
            Err(source) => Err(WriteError::Io { path, source }),
        }
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes).map_err(|source| self.failed(source))
    }

    fn json_line(&mut self, value: &impl Serialize) -> Result<(), WriteError> {
        serde_json::to_writer(&mut self.file, value)
            .map_err(|error| self.failed(io::Error::from(error)))?;
        self.append(b"\n")
    }

    /// Writes what is held back, and returns the path.
    fn finish(mut self) -> Result<PathBuf, WriteError> {
        self.file.flush().map_err(|source| self.failed(source))?;
        Ok(self.path)
    }

    fn failed(&self, source: io::Error) -> WriteError {
        WriteError::Io { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Micros;

    fn scenario() -> Scenario {
        Scenario::new(5, Micros::parse_rfc3339("2026-03-02T08:00:00Z").unwrap(), 1_500)
    }

    /// All lines of a stream, the oldest file first.
    fn read_back(folder: &Path, stream: &str) -> Vec<String> {
        let path = |suffix: &str| folder.join(format!("{stream}{suffix}"));
        let rotated = (1..999).take_while(|number| path(&format!(".{number}")).exists()).count();
        let mut files: Vec<PathBuf> =
            (1..=rotated).rev().map(|number| path(&format!(".{number}"))).collect();
        files.push(path(""));
        files
            .iter()
            .flat_map(|file| {
                fs::read_to_string(file).unwrap().lines().map(str::to_string).collect::<Vec<_>>()
            })
            .collect()
    }

    #[test]
    fn rotation_keeps_every_line_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let summary = write_logs(folder.path(), &scenario(), Some(20_000), &mut |_| {}).unwrap();
        assert!(summary.rotations > 5, "{summary:?}");
        let mut expected: FxHashMap<Text, Vec<String>> = FxHashMap::default();
        for event in Simulation::new(&scenario()) {
            if let SimEvent::Line(line) = event {
                expected.entry(line.file).or_default().push(line.text);
            }
        }
        let logs = folder.path().join("logs");
        for (stream, lines) in expected {
            assert_eq!(read_back(&logs, &stream), lines, "{stream}");
            let first = fs::metadata(logs.join(&*stream)).unwrap();
            assert!(first.len() <= 20_000);
        }
    }

    #[test]
    fn the_truth_lies_beside_the_logs() {
        let folder = tempfile::tempdir().unwrap();
        let mut told = 0;
        let summary =
            write_logs(folder.path(), &scenario(), None, &mut |calls| told = calls).unwrap();
        assert_eq!((told, summary.calls, summary.rotations), (1_500, 1_500, 0));
        let truth = folder.path().join("truth");
        let lines = |name: &str| fs::read_to_string(truth.join(name)).unwrap().lines().count();
        assert_eq!(lines("calls.jsonl"), 1_500);
        assert_eq!(lines("alerts.jsonl") as u64, summary.attacks);
        assert!(summary.attacks > 0);
    }

    #[test]
    fn a_folder_with_files_in_it_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("logs")).unwrap();
        fs::write(folder.path().join("logs/audit.jsonl"), "{}\n").unwrap();
        let result = write_logs(folder.path(), &scenario(), None, &mut |_| {});
        assert!(matches!(result, Err(WriteError::NotEmpty(_))));
        let kept = fs::read_to_string(folder.path().join("logs/audit.jsonl")).unwrap();
        assert_eq!(kept, "{}\n");
    }
}
