//! What a batch did to the alerts of one rule, before it is told to others.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{Alert, AlertChange, AlertId, CallId, FirstSeen};

/// Alerts to set and alerts that nothing in their group bears out any more.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) set: Vec<Set>,
    pub(super) gone: Vec<Gone>,
    /// Alerts that stand although their call may be gone without its time: it has come back with
    /// one.
    pub(super) standing: FxHashSet<AlertId>,
    /// What it did to alerts on groups that are too busy.
    pub(super) load: Option<Box<Self>>,
    /// Values seen for the first time, and those no longer seen.
    pub(super) first_seen: Vec<FirstSeen>,
}

pub(super) struct Set {
    pub(super) alert: Box<Alert>,
    pub(super) is_new: bool,
    pub(super) replaces: Vec<AlertId>,
}

pub(super) struct Gone {
    pub(super) id: AlertId,
    pub(super) closing: CallId,
}

const RETRACTED: &str = "a record that was read later changed, moved or withdrew a call that this \
                         alert rests on, or the rule was changed, and as things stand it does not fire";

impl Outcome {
    pub(super) fn extend(&mut self, other: Self) {
        self.set.extend(other.set);
        self.gone.extend(other.gone);
        self.standing.extend(other.standing);
        self.first_seen.extend(other.first_seen);
        if let Some(load) = other.load {
            self.add_load(*load);
        }
    }

    pub(super) fn add_load(&mut self, load: Self) {
        if !load.set.is_empty() || !load.gone.is_empty() {
            self.load.get_or_insert_default().extend(load);
        }
    }

    /// A batch can take a closing call from one part of its group's past to another, which are told of
    /// one after the other: the alert that goes in the one part is the alert that is set in the other.
    fn keep_what_is_set(&mut self) {
        let ids: FxHashSet<AlertId> = self.set.iter().map(|set| set.alert.id).collect();
        let mut moved = FxHashSet::default();
        let mut leaves = |id: AlertId| {
            let stays = ids.contains(&id);
            if stays {
                moved.insert(id);
            }
            !stays
        };
        self.gone.retain(|gone| leaves(gone.id));
        for set in &mut self.set {
            set.replaces.retain(|id| leaves(*id));
        }
        for set in &mut self.set {
            set.is_new &= !moved.contains(&set.alert.id);
        }
    }

    /// The changes as they are told. An alert whose closing call became another call, even one of
    /// another group, goes on as the alert that closes with that other call. `became` says what the
    /// batch made of each revised call.
    pub(super) fn into_changes(mut self, became: &FxHashMap<CallId, CallId>) -> Vec<AlertChange> {
        let load = self.load.take();
        self.keep_what_is_set();
        let closings: FxHashMap<CallId, usize> =
            self.set.iter().enumerate().map(|(index, set)| (set.alert.closing, index)).collect();
        let mut retracted = Vec::new();
        for gone in self.gone {
            let successor = became
                .get(&gone.closing)
                .and_then(|closing| closings.get(closing))
                .and_then(|index| self.set.get_mut(*index));
            if let Some(set) = successor {
                set.is_new = false;
                set.replaces.push(gone.id);
            } else if !self.standing.contains(&gone.id) {
                retracted.push(AlertChange::Retracted { id: gone.id, reason: RETRACTED.into() });
            }
        }
        let set = self.set.into_iter().map(|set| AlertChange::Set {
            alert: set.alert,
            is_new: set.is_new,
            replaces: set.replaces,
        });
        let mut changes: Vec<AlertChange> = set.chain(retracted).collect();
        changes.extend(load.into_iter().flat_map(|load| load.into_changes(became)));
        changes
    }
}
