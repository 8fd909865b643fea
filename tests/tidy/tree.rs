//! The files of the tree, as far as the rules look at them.

use std::fs;
use std::path::{Path, PathBuf};

/// One file.
pub(super) struct TextFile {
    /// Relative to the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl TextFile {
    pub(super) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|own| own == extension)
    }
}

/// Every text file below a folder of the root, in the order of paths.
pub(super) fn files_below(folder: &str) -> Vec<TextFile> {
    let mut paths = Vec::new();
    walk(&root().join(folder), &mut paths);
    let mut files: Vec<TextFile> = paths.iter().filter_map(|path| read(path)).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!files.is_empty(), "{folder} holds no file: has it been moved?");
    files
}

/// The files at the root itself, without the lock file, which cargo writes.
pub(super) fn root_files() -> Vec<TextFile> {
    let entries = fs::read_dir(root()).expect("the root is readable");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.is_file() && !path.ends_with("Cargo.lock"))
        .filter_map(|path| read(&path))
        .collect()
}

/// Everything that people wrote.
pub(super) fn all_files() -> Vec<TextFile> {
    let folders = [".cargo", ".ci", "benches", "migrations", "rules", "src", "templates", "tests"];
    let below = folders.into_iter().flat_map(files_below);
    below.chain(root_files()).collect()
}

/// One file of the root, by its path.
pub(super) fn file(path: &str) -> TextFile {
    read(&root().join(path)).unwrap_or_else(|| panic!("{path} is missing: has it been moved?"))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, paths);
        } else {
            paths.push(path);
        }
    }
}

/// A file that is no text, such as a sample of damaged bytes, is nothing the rules could read.
fn read(path: &Path) -> Option<TextFile> {
    let text = String::from_utf8(fs::read(path).ok()?).ok()?;
    let relative = path.strip_prefix(root()).expect("the walk stays below the root");
    let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
    Some(TextFile { path: parts.join("/"), text })
}
