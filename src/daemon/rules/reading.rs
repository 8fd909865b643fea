//! Rules on their way into force: read and compiled on a thread of their own, for that can take seconds, in which
//! records are read and people answered.

use std::sync::Arc;

use tokio::sync::{Notify, oneshot};

use super::super::rule_folder::Fingerprint;
use super::super::rulebook::{RuleSource, Rulebook, RulesError};
use super::shown::shown;
use super::{Reread, Settings};
use crate::web::RuleShown;

/// A reading that is under way.
pub(super) struct Reading {
    outcome: oneshot::Receiver<Outcome>,
    /// From where is read, and what that looked like before.
    source: RuleSource,
    looked: Fingerprint,
    /// Something was seen to change; else what could not be read is tried again.
    pub(super) is_of_change: bool,
}

/// What a reading came to.
pub(super) struct Outcome {
    /// From where the rules were read: the configuration may have named another folder.
    pub(super) source: RuleSource,
    /// What that looked like before.
    pub(super) looked: Fingerprint,
    pub(super) loaded: Result<Loaded, RulesError>,
}

/// Rules as they were read, and what pages show of them.
pub(super) struct Loaded {
    pub(super) book: Rulebook,
    pub(super) shown: Arc<Vec<RuleShown>>,
}

impl Reading {
    /// Begins to read what looks so. `awake` is told at the end. None where the system gives no thread.
    pub(super) fn begin(
        source: RuleSource,
        looked: Fingerprint,
        settings: Option<&Settings>,
        is_of_change: bool,
        awake: Option<Arc<Notify>>,
    ) -> Option<Self> {
        let reread = settings.map(|settings| Arc::clone(&settings.reread));
        // Which file of what was looked at is the configuration's.
        let of_settings = settings.map(|settings| settings.file.clone());
        let begun_with = (source.clone(), looked.clone());
        let (tell, outcome) = oneshot::channel();
        let begun = std::thread::Builder::new().name("rules".to_owned()).spawn(move || {
            let of_settings =
                looked.iter().filter(|(file, _)| Some(file) == of_settings.as_ref()).cloned();
            let of_settings = of_settings.collect();
            let read = read(source, looked, of_settings, reread.as_ref());
            // Nobody waits any more where the daemon stops.
            drop(tell.send(read));
            if let Some(awake) = awake {
                awake.notify_one();
            }
        });
        match begun {
            Ok(_) => {
                let (source, looked) = begun_with;
                Some(Self { outcome, source, looked, is_of_change })
            }
            Err(error) => {
                tracing::warn!(%error, "no thread to read changed rules on; they are read later");
                None
            }
        }
    }

    /// What it came to, once it is at its end.
    pub(super) fn ended(&mut self) -> Option<Outcome> {
        match self.outcome.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(self.broke_off()),
        }
    }

    /// Waits for its end.
    #[cfg(test)]
    pub(super) fn wait(&mut self) -> Outcome {
        let outcome = std::mem::replace(&mut self.outcome, oneshot::channel().1);
        outcome.blocking_recv().unwrap_or_else(|_| self.broke_off())
    }

    fn broke_off(&self) -> Outcome {
        let (source, looked) = (self.source.clone(), self.looked.clone());
        Outcome { source, looked, loaded: Err(RulesError::BrokeOff) }
    }
}

/// Reads the rules from where the configuration now says that they are.
fn read(
    source: RuleSource,
    looked: Fingerprint,
    of_settings: Fingerprint,
    reread: Option<&Reread>,
) -> Outcome {
    let named = match reread.map(|reread| reread()) {
        Some(Err(error)) => {
            return Outcome { source, looked, loaded: Err(RulesError::Configuration(error)) };
        }
        Some(Ok(named)) if named != source => Some(named),
        _ => None,
    };
    let (source, looked) = match named {
        // Looked at before it is read, so that what changes meanwhile is seen as a change.
        Some(named) => {
            let looked = named.fingerprint().into_iter().chain(of_settings).collect();
            (named, looked)
        }
        None => (source, looked),
    };
    let loaded = source.load().map(|book| Loaded { shown: shown(&book).rules, book });
    Outcome { source, looked, loaded }
}
