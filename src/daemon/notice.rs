//! Ingest events of a batch: what the tail and the lines themselves tell about the logs.

use std::collections::BTreeMap;

use crate::model::{
    EventLine, IngestCode, IngestEvent, Micros, Record, RecordId, Text, TimeQuality,
};
use crate::tail::Event;

/// A line dated this much before the one in front of it is told: writers that share a file differ by less.
const TIME_BACK_MICROS_MIN: i64 = 10 * Micros::MINUTE;

/// The events of one batch: one a log and kind, so that a log full of oddities is no flood of events. The others are
/// counted in the one.
#[derive(Debug, Default)]
pub(super) struct Notices(BTreeMap<(u64, IngestCode), IngestEvent>);

impl Notices {
    pub(super) fn add(&mut self, event: IngestEvent) {
        let key = (event.position.generation, event.code);
        self.0.entry(key).and_modify(|first| first.more += 1 + event.more).or_insert(event);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes back what was told of lines that are read again.
    pub(super) fn forget(&mut self, generation: u64) {
        self.0.retain(|(of, _), _| *of != generation);
    }

    pub(super) fn extend(&mut self, other: Self) {
        other.0.into_values().for_each(|event| self.add(event));
    }

    pub(super) fn into_events(self) -> impl Iterator<Item = IngestEvent> {
        self.0.into_values()
    }
}

/// What a change of a file tells of its log; none where it is in order. `offset` is where the log was read to.
pub(super) fn of_file(
    event: &Event,
    stream: &Text,
    offset: u64,
    now: Micros,
) -> Option<IngestEvent> {
    let (code, generation, bytes) = match event {
        Event::Truncated { generation, lost_bytes } => {
            (IngestCode::Truncated, *generation, *lost_bytes)
        }
        Event::Rewritten { generation, lost_bytes } => {
            (IngestCode::Rewritten, *generation, *lost_bytes)
        }
        Event::Gone { generation, lost_bytes } if *lost_bytes > 0 => {
            (IngestCode::Gap, *generation, *lost_bytes)
        }
        Event::Gone { .. }
        | Event::Discovered { .. }
        | Event::Renamed { .. }
        | Event::Copied { .. } => return None,
    };
    let position = RecordId { generation, offset, index: 0 };
    Some(IngestEvent { bytes, ..event_at(code, now, stream, position) })
}

/// What a record's time tells of its log, after a line of the time `last_at`.
pub(super) fn of_record(
    record: &Record,
    last_at: Option<Micros>,
    now: Micros,
) -> Option<IngestEvent> {
    let (witness, dialect) = (record.witness, record.dialect);
    let line = Some(EventLine { witness, dialect, at: record.at });
    let at = last_at.unwrap_or(now);
    let (code, micros) = match (record.time_quality, record.at, last_at) {
        (TimeQuality::Future, Some(own), _) => (IngestCode::ClockAhead, own.since(now)),
        (TimeQuality::Own, Some(own), Some(last)) if last.since(own) >= TIME_BACK_MICROS_MIN => {
            (IngestCode::TimeBack, last.since(own))
        }
        _ => return None,
    };
    Some(IngestEvent {
        bytes: record.length,
        seconds: (micros / Micros::SECOND).cast_unsigned(),
        line,
        ..event_at(code, at, &record.stream, record.id)
    })
}

/// A line that was not looked at, or a hole, `bytes` long.
pub(super) fn of_bytes(
    code: IngestCode,
    stream: &Text,
    position: RecordId,
    bytes: u64,
    at: Micros,
) -> IngestEvent {
    IngestEvent { bytes, ..event_at(code, at, stream, position) }
}

/// A log of which something was last read at `heard_at`, and that has said nothing for `silence_micros` since.
pub(super) fn of_silence(
    stream: &Text,
    position: RecordId,
    heard_at: Micros,
    silence_micros: i64,
) -> IngestEvent {
    let seconds = (silence_micros / Micros::SECOND).cast_unsigned();
    // Dated by what it follows, so that it is the same event however often it is noticed.
    let at = heard_at.plus(silence_micros);
    IngestEvent { seconds, ..event_at(IngestCode::Silent, at, stream, position) }
}

fn event_at(code: IngestCode, at: Micros, stream: &Text, position: RecordId) -> IngestEvent {
    let stream = Text::clone(stream);
    IngestEvent { code, at, stream, position, bytes: 0, seconds: 0, more: 0, line: None }
}
