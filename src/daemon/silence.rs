//! Logs that were written to and no longer are. Counted by stream: whoever renames or deletes a log makes it no less
//! silent, and a rotation no more.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::notice;
use crate::model::{IngestEvent, Micros, RecordId, Text};
use crate::tail::{SourceState, SourceStatus};

/// What is known of the silence of every stream.
#[derive(Debug, Default)]
pub(super) struct Silences {
    /// Since when this process has been looking: what was written while nobody looked is not silence.
    looking_since: Option<Micros>,
    /// From when on the silence is that was told of each stream.
    told: FxHashMap<Text, Micros>,
}

/// One stream at a look.
struct Stream {
    heard_at: Micros,
    position: RecordId,
    has_unread: bool,
}

impl Silences {
    /// The streams that have just been silent for `silence_micros`. `heard_at` says when a record that is news was last
    /// read of a generation, if ever.
    pub(super) fn notice(
        &mut self,
        status: &[SourceStatus],
        heard_at: impl Fn(&SourceStatus) -> Option<Micros>,
        silence_micros: i64,
        now: Micros,
    ) -> Vec<IngestEvent> {
        let since = *self.looking_since.get_or_insert(now);
        let mut streams: BTreeMap<&Text, Stream> = BTreeMap::new();
        for status in status {
            let has_unread = status.state != SourceState::Gone && status.committed < status.size;
            let position =
                RecordId { generation: status.generation, offset: status.committed, index: 0 };
            // Of a stream that never gave anything new, nothing is missed.
            let heard_at = heard_at(status).unwrap_or(Micros(i64::MIN));
            let stream = streams.entry(&status.stream).or_insert(Stream {
                heard_at,
                position,
                has_unread: false,
            });
            stream.has_unread |= has_unread;
            if heard_at > stream.heard_at {
                (stream.heard_at, stream.position) = (heard_at, position);
            }
        }
        let mut events = Vec::new();
        for (name, Stream { heard_at, position, has_unread }) in streams {
            let from = heard_at.max(since);
            let is_silent = heard_at > Micros(i64::MIN)
                && !has_unread
                && now.since(from) >= silence_micros
                && self.told.get(name) != Some(&heard_at);
            if is_silent {
                self.told.insert(Text::clone(name), heard_at);
                events.push(notice::of_silence(name, position, from, silence_micros));
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * Micros::HOUR;

    fn status(generation: u64, state: SourceState, committed: u64, size: u64) -> SourceStatus {
        SourceStatus {
            generation,
            stream: "a.jsonl".into(),
            path: "/logs/a.jsonl".into(),
            state,
            size,
            is_size_known: true,
            read: committed,
            committed,
        }
    }

    /// Days at which silence is told of a stream whose generations were heard of at these days, looked at from day 0.
    fn told(status: &[SourceStatus], heard: &[(u64, i64)]) -> Vec<i64> {
        let mut silences = Silences::default();
        let heard_at = |status: &SourceStatus| {
            let of = heard.iter().find(|(generation, _)| *generation == status.generation)?;
            Some(Micros(of.1 * DAY))
        };
        (0..9)
            .filter(|day| !silences.notice(status, heard_at, 2 * DAY, Micros(day * DAY)).is_empty())
            .collect()
    }

    #[test]
    fn a_log_that_was_renamed_or_deleted_is_as_silent_as_one_that_was_not() {
        for state in SourceState::ALL {
            assert_eq!(told(&[status(1, state, 9, 9)], &[(1, 1)]), [3], "{state:?}");
        }
    }

    #[test]
    fn a_rotation_is_no_silence_and_unread_bytes_are_none() {
        let rotated = status(1, SourceState::Rotated, 9, 9);
        let live = status(2, SourceState::Live, 5, 5);
        assert_eq!(told(&[rotated.clone(), live], &[(1, 1), (2, 4)]), [6]);
        let unread = status(2, SourceState::Live, 5, 6);
        assert_eq!(told(&[rotated, unread], &[(1, 1), (2, 4)]), [] as [i64; 0]);
    }

    #[test]
    fn what_was_written_while_nobody_looked_is_not_counted_as_silence() {
        assert_eq!(told(&[status(1, SourceState::Live, 9, 9)], &[(1, -30)]), [2]);
        assert_eq!(told(&[status(1, SourceState::Live, 9, 9)], &[]), [] as [i64; 0]);
    }
}
