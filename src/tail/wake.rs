//! Hints that something changed, so that the next scan need not wait. Never the truth: events get
//! lost, folders on network shares send none, and a scan finds everything without them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{ErrorKind, Event, RecommendedWatcher, RecursiveMode, Watcher};

/// Watches folders and calls back when something in them changed.
pub struct Wake {
    watcher: Option<RecommendedWatcher>,
    flags: Arc<Flags>,
    followed: BTreeSet<PathBuf>,
    degraded: Option<String>,
}

#[derive(Debug, Default)]
struct Flags {
    /// Called back and not rearmed: further events say nothing new.
    is_awake: AtomicBool,
    /// Something was removed or renamed: watches may hang on folders that are no longer there.
    is_stale: AtomicBool,
}

impl Wake {
    /// Starts watching nothing yet. `on_wake` runs on a thread of the watcher's, once until
    /// [`Wake::rearm`]; it must return at once.
    pub fn start(on_wake: impl Fn() + Send + 'static) -> Self {
        let flags = Arc::new(Flags::default());
        let handler = {
            let flags = Arc::clone(&flags);
            move |event: notify::Result<Event>| {
                if flags.note(event.as_ref().ok()) {
                    on_wake();
                }
            }
        };
        let (watcher, degraded) = match notify::recommended_watcher(handler) {
            Ok(watcher) => (Some(watcher), None),
            Err(error) => (None, Some(explain(&error))),
        };
        Self { watcher, flags, followed: BTreeSet::new(), degraded }
    }

    /// A wake that never wakes: for file systems that send no events, and for tests of the scan
    /// alone.
    pub fn off() -> Self {
        Self {
            watcher: None,
            flags: Arc::default(),
            followed: BTreeSet::new(),
            degraded: Some("switched off; changes are found by scanning alone".to_owned()),
        }
    }

    /// Lets the next event call back again. Call it before the scan, so that nothing slips between.
    pub fn rearm(&self) {
        self.flags.is_awake.store(false, Ordering::SeqCst);
    }

    /// Watches exactly these folders: those that the last scan listed.
    pub fn follow(&mut self, folders: &[PathBuf]) {
        let Some(watcher) = self.watcher.as_mut() else { return };
        let wanted: BTreeSet<PathBuf> = folders.iter().cloned().collect();
        // A folder made anew under an old name needs a new watch; asking again for one that stands
        // is harmless.
        let is_stale = self.flags.is_stale.swap(false, Ordering::SeqCst);
        for folder in self.followed.difference(&wanted) {
            // The watch of a removed folder went with it.
            drop(watcher.unwatch(folder));
        }
        let mut degraded = None;
        let mut followed = BTreeSet::new();
        for folder in wanted {
            if is_stale || !self.followed.contains(&folder) {
                match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                    Ok(()) => {}
                    // Removed since the scan.
                    Err(error) if is_not_found(&error) => continue,
                    Err(error) => {
                        degraded = Some(explain(&error));
                        continue;
                    }
                }
            }
            followed.insert(folder);
        }
        self.followed = followed;
        self.degraded = degraded;
    }

    /// Why some or all changes are found by scanning alone, and what to do about it; none if all is
    /// well.
    pub fn degraded(&self) -> Option<&str> {
        self.degraded.as_deref()
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wake")
            .field("followed", &self.followed)
            .field("degraded", &self.degraded)
            .finish_non_exhaustive()
    }
}

impl Flags {
    /// Takes note of an event, or of an error; true if it is the first since the rearming.
    fn note(&self, event: Option<&Event>) -> bool {
        // A full queue lost events, and so may an error have: either way there may be something to
        // see.
        let is_certain = event.is_some_and(|event| !event.need_rescan());
        let kind = event.filter(|_| is_certain).map(|event| event.kind);
        match kind {
            // Reading, and above all our own, changes nothing.
            Some(EventKind::Access(access)) if access != AccessKind::Close(AccessMode::Write) => {
                return false;
            }
            None | Some(EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) => {
                self.is_stale.store(true, Ordering::SeqCst);
            }
            Some(_) => {}
        }
        !self.is_awake.swap(true, Ordering::SeqCst)
    }
}

fn is_not_found(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(error) => error.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

fn explain(error: &notify::Error) -> String {
    let advice = if matches!(error.kind, ErrorKind::MaxFilesWatch) {
        "; raise the sysctl fs.inotify.max_user_watches"
    } else if matches!(&error.kind, ErrorKind::Io(error) if error.raw_os_error() == Some(24)) {
        "; raise the sysctl fs.inotify.max_user_instances"
    } else {
        ""
    };
    format!("cannot watch for changes, so they are found by scanning: {:?}{advice}", error.kind)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use notify::event::{CreateKind, Flag, RemoveKind};

    use super::*;

    #[test]
    fn one_wake_stands_for_many_events_until_rearmed() {
        let flags = Flags::default();
        let event = Event::new(EventKind::Create(CreateKind::File));
        assert!(flags.note(Some(&event)));
        assert!(!flags.note(Some(&event)));
        flags.is_awake.store(false, Ordering::SeqCst);
        assert!(flags.note(Some(&event)));
    }

    #[test]
    fn reading_wakes_nobody() {
        let flags = Flags::default();
        let read = EventKind::Access(AccessKind::Open(AccessMode::Any));
        assert!(!flags.note(Some(&Event::new(read))));
        let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
        assert!(flags.note(Some(&Event::new(written))));
    }

    #[test]
    fn lost_events_errors_and_removals_renew_the_watches() {
        for event in [
            Some(Event::new(EventKind::Other).set_flag(Flag::Rescan)),
            Some(Event::new(EventKind::Remove(RemoveKind::Folder))),
            None,
        ] {
            let flags = Flags::default();
            assert!(flags.note(event.as_ref()), "{event:?}");
            assert!(flags.is_stale.load(Ordering::SeqCst), "{event:?}");
        }
    }

    #[test]
    fn a_write_in_a_followed_folder_wakes() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, receiver) = mpsc::channel();
        let mut wake = Wake::start(move || sender.send(()).unwrap_or_default());
        wake.follow(&[folder.path().to_owned(), folder.path().join("missing")]);
        if wake.degraded().is_some() {
            // No watches to be had on this machine: that is what it says then.
            return;
        }
        let followed: Vec<_> = wake.followed.iter().collect();
        assert_eq!(followed, [folder.path()], "what is missing is not followed, and no error");
        std::fs::write(folder.path().join("a.jsonl"), "x").unwrap();
        assert!(receiver.recv_timeout(Duration::from_secs(30)).is_ok());
    }

    #[test]
    fn a_wake_that_is_off_says_so() {
        let mut wake = Wake::off();
        wake.follow(&[PathBuf::from("/")]);
        assert!(wake.degraded().is_some());
    }
}
