//! How the daemon is doing, as the pages tell it. The daemon fills it in; nothing here measures.

use super::shown::{Shown, bytes, duration};
use crate::model::Micros;

/// Silence of the reading loop after which the pages raise the alarm.
const STALL_MICROS: i64 = 60 * Micros::SECOND;

/// The daemon's condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why ingest stands still, where it does.
    pub ingest_error: Option<String>,
    /// (bytes free, bytes needed) on the database's disk while reading waits for room there.
    pub disk_full: Option<(u64, u64)>,
    /// Why file changes are noticed late or by polling only, where they are.
    pub watcher_degraded: Option<String>,
    /// (bytes read, bytes to read) while history is being read.
    pub backfill: Option<(u64, u64)>,
    /// When the reading loop last finished a round, whether or not it found new lines.
    pub last_batch_at: Option<Micros>,
    /// Why changed rules were refused, where the last change was.
    pub rules_refused: Option<String>,
    /// Anything else that an operator should know, one sentence each.
    pub problems: Vec<String>,
}

impl Health {
    /// What is wrong, worst first, each as the lines that it has; empty when all is well.
    pub(crate) fn alarms(&self, now: Micros) -> Vec<Vec<Shown>> {
        let mut alarms: Vec<Vec<Shown>> = Vec::new();
        if let Some(error) = &self.ingest_error {
            alarms.push(Shown::lines(&format!("Ingest has stopped: {error}")));
        }
        if let Some((free, needed)) = self.disk_full {
            alarms.push(Shown::lines(&format!(
                "The disk with the database is full: {} are free and {} are needed. New log lines are not read until \
                 there is room; then reading goes on by itself. Nothing is lost as long as the logs are kept.",
                bytes(free),
                bytes(needed)
            )));
        }
        if let Some(silence) = self.stalled_for(now) {
            alarms.push(Shown::lines(&format!(
                "Ingest has been silent for {}: new log lines are not being read.",
                duration(silence)
            )));
        }
        if let Some(reason) = &self.watcher_degraded {
            alarms.push(Shown::lines(&format!("File changes are noticed late: {reason}")));
        }
        alarms.extend(self.rules_refused.iter().map(|told| Shown::lines(told)));
        alarms.extend(self.problems.iter().map(|problem| Shown::lines(problem)));
        alarms
    }

    /// How far the reading of history has come, in words.
    pub(crate) fn progress(&self) -> Option<Shown> {
        let (done, total) = self.backfill?;
        let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100).min(100);
        Some(Shown::new(&format!(
            "Reading history: {percent} % ({} of {}). Older incidents may still appear.",
            bytes(done),
            bytes(total)
        )))
    }

    /// Microseconds since the last round, where that is too long. A backfill's rounds are long
    /// ones.
    fn stalled_for(&self, now: Micros) -> Option<i64> {
        let silence = now.since(self.last_batch_at?);
        let is_explained =
            self.backfill.is_some() || self.ingest_error.is_some() || self.disk_full.is_some();
        (!is_explained && silence > STALL_MICROS).then_some(silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_an_alarm_only_outside_a_backfill() {
        let now = Micros(1_000_000_000);
        let quiet = Health { last_batch_at: Some(now.minus(61_000_000)), ..Health::default() };
        assert_eq!(quiet.alarms(now).len(), 1);
        assert!(Health { backfill: Some((1, 2)), ..quiet }.alarms(now).is_empty());
    }

    #[test]
    fn a_full_disk_is_told_with_what_is_needed() {
        let health = Health { disk_full: Some((3 << 20, 64 << 20)), ..Health::default() };
        let alarms = health.alarms(Micros(0));
        let [alarm] = &alarms[..] else { panic!("one alarm and not {}", alarms.len()) };
        let [line] = &alarm[..] else { panic!("one line and not {}", alarm.len()) };
        assert!(line.as_str().contains("full"), "{}", line.as_str());
        assert!(line.as_str().contains("64"), "{}", line.as_str());
    }

    #[test]
    fn progress_of_nothing_is_complete() {
        let health = Health { backfill: Some((0, 0)), ..Health::default() };
        assert!(health.progress().unwrap().as_str().contains("100 %"));
    }
}
