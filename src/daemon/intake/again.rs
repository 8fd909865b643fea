//! Reading everything that an older database had read, and nothing beyond it, before going on as usual.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Cut, Intake, Known};
use crate::daemon::carried::Carried;
use crate::model::Micros;
use crate::store::Position;
use crate::tail::Cursor;

/// Stands for the old database among the generations, which are numbered from one.
pub(super) const CARRIED: u64 = 0;

/// What is read again.
pub(in crate::daemon) struct Again {
    /// How far each generation was read; others wait.
    pub(in crate::daemon) limits: BTreeMap<u64, u64>,
    /// Records of files that are gone.
    pub(in crate::daemon) carried: Option<Carried>,
}

impl Again {
    /// Whether an entry of a generation that ends there may be handed out.
    pub(super) fn allows(&self, generation: u64, end: u64) -> bool {
        self.limits.get(&generation).is_some_and(|limit| end <= *limit)
    }
}

impl Intake {
    pub(in crate::daemon) fn begin_again(&mut self, again: Again) {
        self.again = Some(again);
    }

    /// Generations that were not read as far as before, and to where they were.
    pub(in crate::daemon) fn unread_again(&self) -> Vec<(u64, u64)> {
        let Some(again) = &self.again else { return Vec::new() };
        let statuses = self.tail.status().into_iter();
        statuses
            .filter(|status| {
                let limit = again.limits.get(&status.generation);
                limit.is_some_and(|limit| status.committed < *limit)
            })
            .map(|status| (status.generation, status.committed))
            .collect()
    }

    /// Whether something that was read before can be read now.
    pub(super) fn is_pending_again(&self, again: &Again) -> bool {
        let is_short = |(generation, limit): (&u64, &u64)| {
            let read = self.tail.read_offset(*generation);
            self.tail.is_pending(*generation) && read.is_some_and(|read| read < *limit)
        };
        again.limits.iter().any(is_short)
    }

    /// The time of the next entry of a generation that may be handed out now.
    pub(super) fn next_key(&mut self, generation: u64, now: Micros) -> Option<Micros> {
        if generation == CARRIED {
            return self.again.as_mut()?.carried.as_mut()?.next_at();
        }
        let entry = self.queues.get_mut(&generation)?.next(self.waits.may_hold, now)?;
        let is_allowed =
            self.again.as_ref().is_none_or(|again| again.allows(generation, entry.end));
        is_allowed.then(|| entry.key())
    }

    /// Hands out the next record of a file that is gone; false at the end.
    pub(super) fn put_carried(&mut self, cut: &mut Cut) -> bool {
        let carried = self.again.as_mut().and_then(|again| again.carried.as_mut());
        let record = carried.and_then(Carried::pop);
        cut.bytes += record.as_ref().map_or(0, |record| record.length);
        let is_one = record.is_some();
        cut.records.extend(record.map(Arc::new));
        is_one
    }

    /// Goes on as usual. Gives back what was carried.
    pub(in crate::daemon) fn end_again(&mut self) -> Option<Carried> {
        self.again.take()?.carried
    }

    /// Goes on from where the old database stood: the rest of what it had read is carried over.
    pub(in crate::daemon) fn resume(&mut self, position: &Position, cursor: &Cursor) {
        self.tail.resume(cursor);
        if let Some(queue) = self.queues.remove(&position.generation) {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(queue.bytes());
        }
        self.known.insert(position.generation, Known::of(position));
    }
}
