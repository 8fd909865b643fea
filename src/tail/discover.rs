//! Walking the roots: which files are there, by name, link and kind. Opens nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry, FileType, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::content::pause;
use super::identity::{FileKey, Stamp, key_and_stamp};
use super::name::{Age, Looks, Name, is_packed, look_at};
use super::report::{Problem, ProblemKind};

/// Files found in one scan after which no further folder is looked into.
const FILES_MAX: usize = 100_000;

/// Folders inside folders.
const DEPTH_MAX: usize = 64;

/// A file that looks like a log.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) stream: String,
    pub(super) age: Age,
    /// By the path; only the opened file tells for sure.
    pub(super) key: FileKey,
    pub(super) stamp: Stamp,
    /// False where its name says that a rotation set it aside, or that a newer file took over.
    pub(super) is_live: bool,
    is_packed: bool,
    root: usize,
    is_link: bool,
}

/// What lies under the roots.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// One entry a file, however many paths it has; streams by name, each with its oldest content
    /// first.
    pub(super) found: Vec<Found>,
    pub(super) problems: Vec<Problem>,
    /// Nothing is known about what lies below these.
    pub(super) unseen: Vec<PathBuf>,
    pub(super) folders: Vec<PathBuf>,
    /// The real paths of the roots.
    pub(super) inside: Vec<PathBuf>,
}

/// Walks the roots. Of several paths to one file the one that `is_known` says was used before is
/// taken.
pub(super) fn walk(roots: &[PathBuf], is_known: impl Fn(FileKey, &Path) -> bool) -> Walk {
    let mut walk = Walk::default();
    // All roots first: a link in one may lead into another.
    let real_roots: Vec<_> = roots.iter().map(fs::canonicalize).collect();
    walk.inside = real_roots.iter().flatten().cloned().collect();
    for (index, (root, real)) in roots.iter().zip(real_roots).enumerate() {
        match real.and_then(fs::metadata) {
            Ok(metadata) if metadata.is_dir() => walk.enter(root, index),
            Ok(metadata) => walk.take_file_root(root, index, &metadata),
            Err(error) => walk.miss_root(root, &error),
        }
    }
    walk.keep_one_path_a_file(is_known);
    walk.tell_roots_apart(roots);
    walk.found.sort_by(|a, b| (&a.stream, &a.age, &a.path).cmp(&(&b.stream, &b.age, &b.path)));
    walk.find_live();
    walk
}

impl Walk {
    fn miss_root(&mut self, root: &Path, error: &io::Error) {
        self.unseen.push(root.to_owned());
        self.problems.push(if error.kind() == io::ErrorKind::NotFound {
            let message = "does not exist; it is read as soon as it appears";
            Problem::new(root, ProblemKind::MissingRoot, message)
        } else {
            Problem::refused(root, "opened", error)
        });
    }

    /// A file named as a root is read whatever its name is.
    fn take_file_root(&mut self, root: &Path, index: usize, metadata: &Metadata) {
        let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (stem, is_packed) = match look_at(&name) {
            Looks::Log(name) => (name.stem, name.is_packed),
            Looks::Compressed => {
                self.problems.push(compressed(root));
                return;
            }
            Looks::Other => (name, is_packed(root)),
        };
        // No rotation is known beside it, so it is as live as a file can be.
        let name = Name { stem, age: Age::newest(), is_packed };
        self.add(root.to_owned(), name, metadata, index, false);
    }

    /// Goes down a folder that is a root.
    fn enter(&mut self, root: &Path, index: usize) {
        let mut ahead = vec![(root.to_owned(), 0)];
        while let Some((folder, depth)) = ahead.pop() {
            pause();
            let entries =
                match fs::read_dir(&folder).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
                    Ok(entries) => entries,
                    // Removed since it was listed: its files are gone, too.
                    Err(error) if depth > 0 && error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => {
                        self.problems.push(Problem::refused(&folder, "listed", &error));
                        self.unseen.push(folder);
                        continue;
                    }
                };
            for entry in in_order(entries) {
                let Ok(kind) = entry.file_type() else { continue };
                if !kind.is_dir() {
                    self.consider(&entry, kind, root, index);
                } else if !is_hidden(&entry) && depth < DEPTH_MAX && self.found.len() < FILES_MAX {
                    ahead.push((entry.path(), depth + 1));
                } else if !is_hidden(&entry) {
                    self.pass_over(entry.path());
                }
            }
            self.folders.push(folder);
        }
        self.folders.sort();
    }

    fn pass_over(&mut self, folder: PathBuf) {
        let message = "is not looked into: it lies more than 64 folders deep, or more than 100000 \
                       files were found before it; watch smaller folders";
        self.problems.push(Problem::new(&folder, ProblemKind::TooMany, message));
        self.unseen.push(folder);
    }

    /// Takes a folder's entry if it looks like a log.
    fn consider(&mut self, entry: &DirEntry, kind: FileType, root: &Path, index: usize) {
        let path = entry.path();
        let mut name = match look_at(&entry.file_name().to_string_lossy()) {
            Looks::Log(name) => name,
            Looks::Compressed => {
                if kind.is_file() {
                    self.problems.push(compressed(&path));
                }
                return;
            }
            Looks::Other => return,
        };
        pause();
        let metadata = if kind.is_symlink() { self.follow(&path) } else { entry.metadata().ok() };
        let Some(metadata) = metadata else { return };
        if !metadata.is_file() {
            // A linked folder inside the roots is walked where it is.
            if !metadata.is_dir() {
                let message = "has a log's name but is a pipe, socket or device; it is not read";
                self.problems.push(Problem::new(path, ProblemKind::NotAFile, message));
            }
            return;
        }
        let folder = path.parent().and_then(|folder| folder.strip_prefix(root).ok());
        let mut stream = String::new();
        for part in folder.into_iter().flatten() {
            stream.push_str(&part.to_string_lossy());
            stream.push('/');
        }
        stream.push_str(&name.stem);
        name.stem = stream;
        self.add(path, name, &metadata, index, kind.is_symlink());
    }

    /// The file that a link leads to, if it lies inside the roots.
    fn follow(&mut self, link: &Path) -> Option<Metadata> {
        let Ok(real) = fs::canonicalize(link) else {
            let message = "is a link that leads nowhere; it is not read";
            self.problems.push(Problem::new(link, ProblemKind::BrokenLink, message));
            return None;
        };
        if !self.inside.iter().any(|root| real.starts_with(root)) {
            self.problems.push(outside(link));
            return None;
        }
        fs::metadata(real).ok()
    }

    fn add(&mut self, path: PathBuf, name: Name, metadata: &Metadata, root: usize, is_link: bool) {
        let (key, stamp) = key_and_stamp(metadata);
        let Name { stem: stream, age, is_packed } = name;
        let is_live = !is_packed;
        self.found.push(Found { path, stream, age, key, stamp, is_live, is_packed, root, is_link });
    }

    fn keep_one_path_a_file(&mut self, is_known: impl Fn(FileKey, &Path) -> bool) {
        self.found.sort_by_cached_key(|found| {
            let is_new = !is_known(found.key, &found.path);
            (found.key, is_new, found.is_link, found.root, found.path.clone())
        });
        self.found.dedup_by_key(|found| found.key);
    }

    /// Where two roots have a stream of the same name, puts the root's own name before it.
    fn tell_roots_apart(&mut self, roots: &[PathBuf]) {
        let mut users: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for found in &self.found {
            users.entry(&found.stream).or_default().insert(found.root);
        }
        let shared: BTreeSet<String> = users
            .into_iter()
            .filter(|(_, roots)| roots.len() > 1)
            .map(|(stream, _)| stream.to_owned())
            .collect();
        let name_of = |index: usize| {
            let name = roots.get(index).and_then(|root| root.file_name()).unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        for found in self.found.iter_mut().filter(|found| shared.contains(&found.stream)) {
            let name = name_of(found.root);
            let namesakes = (0..found.root).filter(|&other| name_of(other) == name).count();
            found.stream = if namesakes == 0 {
                format!("{name}/{}", found.stream)
            } else {
                format!("{name}#{}/{}", namesakes + 1, found.stream)
            };
        }
    }

    /// Of dated files the newest is live, unless the stream has a file without any suffix.
    fn find_live(&mut self) {
        let mut newer: Option<&str> = None;
        for found in self.found.iter_mut().rev() {
            let is_newest = newer != Some(found.stream.as_str());
            let is_current = is_newest || !found.age.is_dated();
            found.is_live = !found.age.is_set_aside() && !found.is_packed && is_current;
            newer = Some(&found.stream);
        }
    }
}

pub(super) fn outside(path: &Path) -> Problem {
    let message = "is a link that leads out of the watched folders; it is not read; to read it, \
                   watch the folder that it leads to";
    Problem::new(path, ProblemKind::OutsideRoot, message)
}

fn compressed(path: &Path) -> Problem {
    let message = "is compressed in a way that is not read; unpack it, or use gzip or zstd, if its \
                   content was never read";
    Problem::new(path, ProblemKind::Compressed, message)
}

/// Folders list their entries in no order; a limit must not cut at random.
fn in_order(mut entries: Vec<DirEntry>) -> Vec<DirEntry> {
    entries.sort_by_cached_key(DirEntry::file_name);
    entries
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().as_encoded_bytes().starts_with(b".")
}
