//! The configuration file: where it is, what it holds, and on which line.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::environment::Environment;
use super::problem::{Place, Problems};
use crate::model::Text;

/// Longest configuration file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Finds and reads the configuration file: the one named, else the user's, else the system's, else
/// none. The error is a path and what is wrong with it.
pub(super) fn find(
    named: Option<&Path>,
    environment: &Environment,
    system: &Path,
) -> Result<Option<(PathBuf, String)>, (PathBuf, String)> {
    if let Some(path) = named {
        return match read(path) {
            Ok(text) => Ok(Some((path.to_owned(), text))),
            Err(error) => Err((path.to_owned(), explain(&error))),
        };
    }
    let folder = environment
        .folder("XDG_CONFIG_HOME")
        .or_else(|| environment.folder("HOME").map(|home| home.join(".config")));
    let of_user = folder.map(|folder| folder.join("calltrail/config.toml"));
    for path in of_user.into_iter().chain([system.to_owned()]) {
        match read(&path) {
            Ok(text) => return Ok(Some((path, text))),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err((path, explain(&error))),
        }
    }
    Ok(None)
}

/// A parsed configuration file.
pub(super) struct Document<'a> {
    origin: Text,
    text: &'a str,
    table: DeTable<'a>,
}

impl<'a> Document<'a> {
    /// Parses the text. What cannot be read is reported, and the rest is there nevertheless.
    pub(super) fn parse(path: &Path, text: &'a str, problems: &mut Problems) -> Self {
        let (table, errors) = DeTable::parse_recoverable(text);
        let origin = path.to_string_lossy().into();
        let document = Self { origin, text, table: table.into_inner() };
        for error in errors {
            let span = error.span().unwrap_or_default();
            problems.push(&document.place(&span), error.message());
        }
        document
    }

    /// The table of a section, by its dotted name; the empty name is the top.
    pub(super) fn section(&self, section: &str) -> Option<&DeTable<'a>> {
        section.split('.').filter(|part| !part.is_empty()).try_fold(&self.table, |table, part| {
            match table.get(part)?.get_ref() {
                DeValue::Table(inner) => Some(inner),
                _ => None,
            }
        })
    }

    /// Where a section is first named.
    pub(super) fn section_place(&self, section: &str) -> Option<Place> {
        let (parent, name) = section.rsplit_once('.').unwrap_or(("", section));
        let (key, _) = self.section(parent)?.get_key_value(name)?;
        Some(self.place(&key.span()))
    }

    pub(super) fn place(&self, span: &Range<usize>) -> Place {
        let before = self.text.as_bytes().get(..span.start).unwrap_or(self.text.as_bytes());
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        Place::in_file(&self.origin, line)
    }
}

/// Reads a regular file of at most [`FILE_BYTES_MAX`] that not everybody may write.
fn read(path: &Path) -> io::Result<String> {
    use std::os::unix::fs::MetadataExt;
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if metadata.is_file() && metadata.mode() & 0o002 != 0 {
        return Err(io::Error::other("everybody may write it; take that away with chmod o-w"));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    Ok(text)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn explain(error: &io::Error) -> String {
    format!("the configuration file cannot be used: {error}")
}
