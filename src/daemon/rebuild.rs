//! The database made again from the logs, the journal, and whatever of the old database can be read.
//!
//! The new one is built under a name of its own and takes the old one's place only when it is complete; the old one
//! is kept under another name.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

use super::clock::now;
use super::control::socket_path;
use super::pipeline::{Old, Pipeline, Setup, Step};
use super::scan::{Progress, ScanOutcome, scan};
use crate::model::Micros;
use crate::store::{OpenOptions, Store, StoreError, beside};

/// What a database made again came to.
#[derive(Debug, Default)]
pub struct Rebuilt {
    /// Where the old database lies now, where there was one.
    pub kept: Option<PathBuf>,
    /// Why the old database gave nothing, where it did not.
    pub unreadable: Option<String>,
    /// Records read again from the logs.
    pub records_read: u64,
    /// Records taken over from the old database, since their files are gone.
    pub records_carried: u64,
    /// Alerts kept as they were found, though the records and rules that are there do not show them.
    pub alerts_kept: u64,
    /// Bytes that were read once and can be read nowhere any more.
    pub bytes_lost: u64,
    /// What else could not be recovered, a sentence each.
    pub losses: Vec<String>,
    /// What was read beyond the old database's positions, and what stood in the way.
    pub news: ScanOutcome,
}

impl Rebuilt {
    /// True where something is missing that was there.
    pub fn is_partial(&self) -> bool {
        self.unreadable.is_some()
            || self.bytes_lost > 0
            || !self.losses.is_empty()
            || self.news.is_partial
    }
}

/// Makes the database at `setup.store.path` again.
pub(crate) fn rebuild(
    setup: &Setup,
    on_progress: &mut dyn FnMut(Progress),
) -> anyhow::Result<Rebuilt> {
    let path = &setup.store.path;
    let mut rebuilt = Rebuilt::default();
    let was_there = path.exists();
    let old = open_old(setup, &mut rebuilt)?;
    // Of a database that is not there, or is no database any more, the lock says nothing.
    if old.is_none() && UnixStream::connect(socket_path(path)).is_ok() {
        return Err(StoreError::InUse { path: path.clone(), pid: None }.into());
    }
    let temporary = beside(path, ".rebuilding");
    clear(&temporary, setup)?;
    let options = OpenOptions { path: temporary.clone(), create: true, ..setup.store.clone() };
    let mut store = Store::open(&options)?;
    let mut setup = setup.clone();
    setup.store = options;
    setup.is_single_pass = true;
    let mut pipeline = if let Some(old) = old {
        store.adopt_key(old.store.hash_key())?;
        read_again(&setup, store, old, &mut rebuilt, on_progress)?
    } else {
        drop(store);
        Pipeline::open(&setup, now())?
    };
    rebuilt.news = scan(&mut pipeline, on_progress)?;
    rebuilt.alerts_kept += pipeline.alerts_kept();
    rebuilt.bytes_lost = pipeline.declare_lost()?;
    pipeline.rest()?;
    drop(pipeline);
    rebuilt.kept = replace(path, &temporary, was_there)?;
    Ok(rebuilt)
}

/// Everything that the old database had read, from the files or from it.
fn read_again(
    setup: &Setup,
    store: Store,
    old: Old,
    rebuilt: &mut Rebuilt,
    on_progress: &mut dyn FnMut(Progress),
) -> Result<Pipeline, StoreError> {
    let total: u64 = old.positions.iter().map(|position| position.offset).sum();
    let (mut pipeline, reading) = Pipeline::again(setup, store, old, now())?;
    let mut all = Step::default();
    let mut count = |step: Step| {
        all.bytes += step.bytes;
        all.records += step.records;
        all.rejects += step.rejects;
        let (records, rejects) = (all.records, all.rejects);
        on_progress(Progress { done: all.bytes, total: total.max(all.bytes), records, rejects });
    };
    while let Some(step) = pipeline.step(now())? {
        count(step);
    }
    let read = pipeline.end_again(reading, now, &mut count)?;
    rebuilt.records_read = all.records - read.records_carried;
    rebuilt.records_carried = read.records_carried;
    rebuilt.alerts_kept = read.alerts_kept;
    rebuilt.losses.extend(read.losses);
    Ok(pipeline)
}

/// Opens the old database and reads what has to be known of it before anything else. None where there is none, or where
/// it cannot be opened.
fn open_old(setup: &Setup, rebuilt: &mut Rebuilt) -> Result<Option<Old>, StoreError> {
    let options = OpenOptions { create: false, ..setup.store.clone() };
    let store = match Store::salvage(&options) {
        Ok((store, lost)) => {
            rebuilt.losses.extend(lost);
            store
        }
        Err(StoreError::Missing { .. }) => return Ok(None),
        Err(StoreError::Open { reason, .. }) => {
            rebuilt.unreadable = Some(format!("the old database cannot be opened: {reason}"));
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let known = store
        .positions()
        .and_then(|positions| Ok((positions, store.copied()?, store.history_read_at()?)));
    let (positions, copied, history_read_at) = match known {
        Ok(known) => known,
        Err(error) if error.is_damage() => {
            rebuilt.unreadable = Some(format!("the old database cannot be read: {error}"));
            return Ok(None);
        }
        // With more memory, say, it can be read: nothing may be made without it.
        Err(error) => return Err(error),
    };
    let facts = store.facts(|what, error| rebuilt.losses.push(format!("{what}: {error}")))?;
    Ok(Some(Old { store, positions, facts, copied, history_read_at }))
}

/// Removes what an interrupted run left; refuses while another is at it.
fn clear(temporary: &Path, setup: &Setup) -> Result<(), StoreError> {
    if temporary.exists() {
        let options =
            OpenOptions { path: temporary.to_path_buf(), create: false, ..setup.store.clone() };
        if let Err(error @ StoreError::InUse { .. }) = Store::open(&options) {
            return Err(error);
        }
    }
    for file in [temporary.to_path_buf(), beside(temporary, ".wal")] {
        match fs::remove_file(&file) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(reason) => return Err(StoreError::Folder { path: file, reason }),
        }
    }
    Ok(())
}

/// Puts the complete new database in the place of the old one, which keeps its content under another name.
///
/// The old one gets its second name first, so that at no time there is none: whatever ends this in between leaves the
/// old database in its place, or the new one.
fn replace(path: &Path, temporary: &Path, was_there: bool) -> anyhow::Result<Option<PathBuf>> {
    if !was_there && path.exists() {
        return Err(anyhow!(
            "{} was made by somebody else meanwhile; nothing was replaced",
            path.display()
        ));
    }
    if beside(temporary, ".wal").exists() {
        return Err(anyhow!(
            "the new database {} could not be closed; nothing was replaced",
            temporary.display()
        ));
    }
    let wal = beside(path, ".wal");
    let mut kept = None;
    if was_there {
        let aside = free_name(path, now());
        keep(path, &aside).with_context(|| format!("keeping {}", path.display()))?;
        if wal.exists() {
            // The old log must not be replayed into the new database.
            fs::rename(&wal, beside(&aside, ".wal"))
                .with_context(|| format!("keeping {}", wal.display()))?;
        }
        kept = Some(aside);
    }
    fs::rename(temporary, path).with_context(|| format!("putting {} in place", path.display()))?;
    if let Some(folder) = path.parent() {
        fs::File::open(folder)
            .and_then(|folder| folder.sync_all())
            .with_context(|| format!("syncing {}", folder.display()))?;
    }
    Ok(kept)
}

/// Gives a file another name; where the file system knows no two names of one file, in place of the first.
fn keep(path: &Path, aside: &Path) -> io::Result<()> {
    fs::hard_link(path, aside).or_else(|_| fs::rename(path, aside))
}

/// A name that says when, and that nothing has.
fn free_name(path: &Path, at: Micros) -> PathBuf {
    let when = at.to_datetime().format("%Y%m%dT%H%M%SZ").to_string();
    let names = (0_u32..).map(|number| match number {
        0 => beside(path, &format!(".before-{when}")),
        _ => beside(path, &format!(".before-{when}-{number}")),
    });
    let mut free = names.filter(|name| fs::symlink_metadata(name).is_err());
    free.next().unwrap_or_else(|| beside(path, ".before"))
}

#[cfg(test)]
mod tests;
