//! A user's folder of rule files: which files count, and what becomes of those that cannot be read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::rulebook::RulesError;
use crate::detect::{Overrides, RuleProblem};

/// The file of a rules folder that changes rules without being one.
pub const OVERRIDES: &str = "overrides.toml";
/// The longest file of a rules folder, in bytes: people write them.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// All of them together, in bytes.
const FOLDER_BYTES_MAX: u64 = 32 << 20;
/// The most files of a rules folder.
const FILES_MAX: usize = 10_000;

/// A folder of rules as it was read.
#[derive(Debug, Default)]
pub struct RuleFolder {
    /// The rule files, by name: each with its name, its text, and where it lies.
    pub files: Vec<(String, String, PathBuf)>,
    /// What [`OVERRIDES`] holds, if it is there.
    pub overrides: Option<String>,
    /// What has the name of a rule file or of the overrides, and cannot be read.
    pub unread: Vec<Unread>,
    /// What is passed over though it was perhaps meant to be a rule file or the overrides.
    pub misnamed: Vec<RuleProblem>,
}

/// A file that cannot be read.
#[derive(Debug)]
pub struct Unread {
    /// Why, at the place in it.
    pub problem: RuleProblem,
    /// It may be readable later though it is the same file.
    pub may_pass: bool,
}

/// What tells that a folder may have changed: each file's name with its size, its times and its number.
pub(super) type Fingerprint = Vec<(PathBuf, [i64; 6])>;

impl RuleFolder {
    /// Reads the files whose names end in `.yml` or `.yaml`, and the overrides. Names that begin with a dot are those
    /// of editors. What of it cannot be read is told, and hides nothing of the others.
    pub fn read(folder: &Path) -> Result<Self, RulesError> {
        let of_folder = |reason| RulesError::Folder { path: folder.to_path_buf(), reason };
        let mut found = Self::default();
        let mut left = FOLDER_BYTES_MAX;
        for path in paths(folder).map_err(of_folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match text(&path, &mut left) {
                Ok(text) if name == OVERRIDES => found.overrides = Some(text),
                Ok(text) => found.files.push((name, text, path)),
                Err(why) => found.unread.push(why.of(name)),
            }
        }
        found.files.sort();
        found.misnamed = misnamed(folder).map_err(of_folder)?;
        Ok(found)
    }

    /// The rule files as (name, text).
    pub fn texts(&self) -> Vec<(&str, &str)> {
        self.files.iter().map(|(name, text, _)| (&**name, &**text)).collect()
    }

    /// What the overrides say, and everything wrong with them.
    pub fn overrides(&self) -> (Overrides, Vec<RuleProblem>) {
        self.overrides
            .as_deref()
            .map_or_else(Default::default, |text| Overrides::parse(OVERRIDES, text))
    }

    /// What cannot be read, in words.
    pub fn problems(&self) -> impl Iterator<Item = &RuleProblem> {
        self.unread.iter().map(|unread| &unread.problem)
    }
}

/// The entries of a folder that have to do with rules, by name, whatever they are.
fn paths(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        let is_rule = path.extension().is_some_and(|ending| ending == "yml" || ending == "yaml");
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        if !is_hidden && (is_rule || name == OVERRIDES) {
            found.push(path);
        }
        if found.len() > FILES_MAX {
            return Err(io::Error::other(format!("more than {FILES_MAX} files")));
        }
    }
    found.sort();
    Ok(found)
}

/// Names that are nearly those of rule files and of the overrides. These files are left alone.
fn misnamed(folder: &Path) -> io::Result<Vec<RuleProblem>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)?.take(FILES_MAX) {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        let message = match &*ending.to_ascii_lowercase() {
            _ if name.starts_with('.') || name == OVERRIDES => continue,
            "toml" => {
                format!("this is not read: overrides are in `{OVERRIDES}` alone; rename it, or take it away")
            }
            "yml" | "yaml" if ending != "yml" && ending != "yaml" => {
                "this is not read: rule files end in `.yml` or `.yaml`, in small letters; rename it, or take it away"
                    .to_owned()
            }
            _ => continue,
        };
        found.push(RuleProblem { file: name, line: 1, column: 1, message });
    }
    found.sort();
    Ok(found)
}

/// What the folder looks like now; empty for one that cannot be looked at.
pub(super) fn fingerprint(folder: &Path) -> Fingerprint {
    paths(folder).unwrap_or_default().into_iter().map(marked).collect()
}

/// A file with what tells that it may have changed.
pub(super) fn marked(path: PathBuf) -> (PathBuf, [i64; 6]) {
    let mark = fs::metadata(&path).map_or([0; 6], |file| {
        let number = i64::from_ne_bytes(file.ino().to_ne_bytes());
        let size = i64::from_ne_bytes(file.size().to_ne_bytes());
        [size, file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec(), number]
    });
    (path, mark)
}

/// Why a file has no text.
enum NoText {
    Io(io::Error),
    IsFolder,
    IsSpecial,
    IsLong,
    IsTooMuch,
    /// Where it stops to be text.
    IsNotText {
        line: u64,
        column: u64,
    },
}

impl NoText {
    fn of(self, file: String) -> Unread {
        let (mut line, mut column) = (1, 1);
        let may_pass = matches!(self, Self::Io(_));
        let message = match self {
            Self::Io(error) => format!(
                "this cannot be read: {error}. Let the user that Calltrail runs as read it, or take it away"
            ),
            Self::IsFolder => {
                "this is a folder with the name of a rule file; rules in it are not read. Move them out of it, and \
                 rename or remove it"
                    .to_owned()
            }
            Self::IsSpecial => {
                "this is a pipe, a socket or a device and not a file; take it away".to_owned()
            }
            Self::IsLong => format!(
                "this is longer than {FILE_BYTES_MAX} bytes; a rule file holds one rule and its cases"
            ),
            Self::IsTooMuch => format!(
                "the files of this folder hold more than {FOLDER_BYTES_MAX} bytes together; from this one on they are \
                 not read. Remove some of them"
            ),
            Self::IsNotText { line: at_line, column: at_column } => {
                (line, column) = (at_line, at_column);
                "this is not UTF-8 text from here on; save the file as UTF-8".to_owned()
            }
        };
        Unread { problem: RuleProblem { file, line, column, message }, may_pass }
    }
}

/// Reads a file, which costs of the bytes that are left for all.
fn text(path: &Path, left: &mut u64) -> Result<String, NoText> {
    // A pipe could be waited for without end: it is opened without, and what was opened is looked at.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file: File =
        OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(NoText::Io)?;
    let kind = file.metadata().map_err(NoText::Io)?.file_type();
    if kind.is_dir() {
        return Err(NoText::IsFolder);
    }
    if !kind.is_file() {
        return Err(NoText::IsSpecial);
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(NoText::Io)?;
    let length = bytes.len() as u64;
    if length > FILE_BYTES_MAX {
        return Err(NoText::IsLong);
    }
    *left = left.checked_sub(length).ok_or(NoText::IsTooMuch)?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(error.as_bytes().get(..good).unwrap_or_default());
        let last = before.rsplit_once('\n').map_or(&*before, |(_, last)| last);
        NoText::IsNotText {
            line: 1 + memchr::memchr_iter(b'\n', before.as_bytes()).count() as u64,
            column: 1 + last.chars().count() as u64,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use rustix::fs::{FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_is_no_file_of_text_is_told_and_hides_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        fs::write(path("good.yaml"), "title: t\n").unwrap();
        let mode = Mode::from_raw_mode(0o600);
        mknodat(rustix::fs::CWD, path("pipe.yml"), FileType::Fifo, mode, 0).unwrap();
        let _socket = UnixListener::bind(path("socket.yml")).unwrap();
        fs::create_dir(path("folder.yml")).unwrap();
        symlink(path("loop.yml"), path("loop.yml")).unwrap();
        symlink(path("nowhere"), path("dangling.yml")).unwrap();
        symlink(path("nowhere"), path(".#good.yml")).unwrap();
        symlink(path("good.yaml"), path("linked.yml")).unwrap();
        let long = File::create(path("long.yml")).unwrap();
        long.set_len(1 << 40).unwrap();
        fs::write(path("latin.yml"), b"title: a\nwhy: \xc3\xbcb\xe9\n").unwrap();
        fs::write(path("shut.yml"), "title: t\n").unwrap();
        fs::set_permissions(path("shut.yml"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::create_dir(path("overrides.toml")).unwrap();
        let is_root = File::open(path("shut.yml")).is_ok();

        let folder = RuleFolder::read(home.path()).unwrap();
        let names: Vec<&str> = folder.files.iter().map(|(name, ..)| &**name).collect();
        let good = ["good.yaml", "linked.yml", "shut.yml"];
        assert_eq!(names, good[..if is_root { 3 } else { 2 }]);
        let told: Vec<String> = folder.problems().map(ToString::to_string).collect();
        for expected in [
            "dangling.yml:1:1: this cannot be read: No such file",
            "folder.yml:1:1: this is a folder",
            "latin.yml:2:8: this is not UTF-8",
            "long.yml:1:1: this is longer than",
            "loop.yml:1:1: this cannot be read: Too many levels",
            "overrides.toml:1:1: this is a folder",
            "pipe.yml:1:1: this is a pipe",
            // A socket cannot even be opened.
            "socket.yml:1:1: this cannot be read: ",
        ] {
            assert!(told.iter().any(|line| line.starts_with(expected)), "{expected}: {told:#?}");
        }
        assert_eq!(told.len(), if is_root { 8 } else { 9 });
        // Each shows in what the folder looks like, so that its going is a change.
        assert_eq!(fingerprint(home.path()).len(), 11);
    }

    #[test]
    fn names_that_are_nearly_right_are_told() {
        let home = tempfile::tempdir().unwrap();
        let names = ["override.toml", "Overrides.toml", "mine.YML", "a.Yaml", "overrides.TOML"];
        let others = ["overrides.toml", "a.yml", "b.yaml", ".x.toml", "a.yml~", "notes.md", "toml"];
        for name in names.iter().chain(&others) {
            fs::write(home.path().join(name), "").unwrap();
        }
        let folder = RuleFolder::read(home.path()).unwrap();
        let mut told: Vec<&str> = folder.misnamed.iter().map(|problem| &*problem.file).collect();
        let mut names = names.to_vec();
        told.sort_unstable();
        names.sort_unstable();
        assert_eq!(told, names);
    }

    #[test]
    fn a_folder_that_holds_too_much_is_told_from_there_on() {
        let home = tempfile::tempdir().unwrap();
        let mut left = 10;
        let path = home.path().join("a.yml");
        fs::write(&path, "1234567").unwrap();
        assert!(text(&path, &mut left).is_ok());
        let Err(why) = text(&path, &mut left) else { panic!("seven more are too many") };
        assert!(why.of("a.yml".to_owned()).problem.message.contains("together"));
    }
}
