//! Turns typed paths into absolute ones.

use std::path::{Component, Path, PathBuf};

use super::environment::Environment;
use super::problem::Given;

/// What relative paths are relative to.
pub(super) struct Folders {
    home: Option<PathBuf>,
    /// The user's folder for state, or the system's for a user who has no home.
    pub(super) state: PathBuf,
    /// The configuration file's folder.
    base: PathBuf,
    /// The service manager's folder for this service's secrets.
    pub(super) credentials: Option<PathBuf>,
}

impl Folders {
    pub(super) fn new(file: Option<&Path>, environment: &Environment) -> Self {
        let home = environment.folder("HOME");
        let state = environment
            .folder("XDG_STATE_HOME")
            .or_else(|| home.as_ref().map(|home| home.join(".local/state")))
            .unwrap_or_else(|| PathBuf::from("/var/lib"));
        let base = file.map(absolute).and_then(|file| file.parent().map(Path::to_owned));
        let credentials = environment.folder("CREDENTIALS_DIRECTORY");
        Self { home, state, base: base.unwrap_or_default(), credentials }
    }

    /// A path in the file is relative to the file's folder, one in a variable to the current one.
    pub(super) fn resolve(&self, typed: &Given<String>) -> Result<PathBuf, String> {
        let text = typed.value.as_str();
        if text.is_empty() {
            return Err("the path is empty".to_owned());
        }
        if let Some(rest) = text.strip_prefix('~')
            && (rest.is_empty() || rest.starts_with('/'))
        {
            let home = self.home.as_ref().ok_or("`~` has no meaning: HOME is not set")?;
            return Ok(home.join(rest.trim_start_matches('/')));
        }
        if typed.place.is_in_file() {
            return Ok(absolute(&self.base.join(text)));
        }
        Ok(absolute(Path::new(text)))
    }
}

/// The path from the root; itself if the current folder is unknown.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// True when `path` is `folder` or lies below it, whatever links and `..` say. Neither need exist.
pub(super) fn is_inside(path: &Path, folder: &Path) -> bool {
    real(path).starts_with(real(folder))
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let path = absolute(path);
    for existing in path.ancestors() {
        if let Ok(real) = existing.canonicalize() {
            let rest = path.strip_prefix(existing).unwrap_or(Path::new(""));
            return rest.components().fold(real, |mut path, component| {
                match component {
                    Component::ParentDir => {
                        path.pop();
                    }
                    other => path.push(other),
                }
                path
            });
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_dots_do_not_hide_where_a_path_leads() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("logs");
        std::fs::create_dir(&logs).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&logs, &link).unwrap();
        for inside in ["logs/a.duckdb", "link/a.duckdb", "link/new/a", "new/../logs/a", "logs"] {
            assert!(is_inside(&folder.path().join(inside), &logs), "{inside}");
            assert!(is_inside(&folder.path().join(inside), &link), "{inside}");
        }
        for outside in ["a.duckdb", "logs-too/a", "link/../a"] {
            assert!(!is_inside(&folder.path().join(outside), &logs), "{outside}");
        }
    }
}
