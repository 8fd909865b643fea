//! What is put back into a database from the journal and from an older database. All of it can be put back twice.

use duckdb::Connection;
use rustc_hash::FxHashSet;

use super::batch::write;
use super::value::{bytes, get_id, get_time, number, optional, text, time};
use super::{
    AlertRow, Batch, Decision, DeliveryOutcome, FaultKind, Gap, Store, StoreError, first_seen,
};
use crate::model::{Alert, AlertId, CloseReason, FirstSeen, JournalMark, Micros};

/// Facts that a new database cannot find in the logs.
#[derive(Debug, Default)]
pub struct Restored {
    /// In the order in which they were made.
    pub decisions: Vec<Decision>,
    pub mails: Vec<RestoredMail>,
    pub first_seen: Vec<FirstSeen>,
    pub aliases: Vec<Alias>,
    /// Alerts, without their evidence: for the journal alone.
    pub alerts: Vec<Alert>,
    /// Where the journal stood.
    pub mark: Option<JournalMark>,
}

/// A mail that was owed at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredMail {
    pub alert_id: AlertId,
    pub recipient: String,
    pub message_id: String,
    pub created_at: Micros,
    /// What became of it, where that is settled: sent or given up.
    pub fate: Option<(Micros, DeliveryOutcome)>,
}

/// A former id of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alias {
    pub old: AlertId,
    pub new: AlertId,
    /// The new id was an alert of its own before the old one led to it.
    pub is_own: bool,
}

impl Store {
    /// Where the journal stood at the last commit that noted it.
    pub fn journal_mark(&self) -> Result<Option<JournalMark>, StoreError> {
        let mut statement = self.connection.prepare(
            "select entries, hash from journal_mark order by seq desc, entries desc limit 1",
        )?;
        let found = statement
            .query_map([], |row| Ok(JournalMark { entries: row.get(0)?, hash: row.get(1)? }))?
            .next()
            .transpose()?;
        Ok(found)
    }

    /// Notes where the journal stands: the next thing that is stored says so in its transaction.
    pub fn note_journal(&mut self, mark: JournalMark) {
        self.mark = Some(mark);
    }

    /// Puts facts back, those left out that are there.
    pub fn restore(&mut self, restored: &Restored) -> Result<(), StoreError> {
        let mut seq = self.seq + 1;
        let transaction = self.connection.transaction()?;
        first_seen_rows(&transaction, seq, &restored.first_seen)?;
        for decision in &restored.decisions {
            seq += restore_decision(&transaction, seq, decision)? as u64;
        }
        for mail in &restored.mails {
            restore_mail(&transaction, mail)?;
        }
        for alias in &restored.aliases {
            // Zero is before every alert: the new id began as the old one's.
            let from = if alias.is_own { seq } else { 0 };
            transaction.execute(
                "insert into alert_alias select ?, ?, ?
                 where not exists (from alert_alias where old_id = ?)
                   and not exists (from alert_now where alert_id = ? and retracted is null)",
                [
                    bytes(&alias.old.0),
                    bytes(&alias.new.0),
                    number(from),
                    bytes(&alias.old.0),
                    bytes(&alias.old.0),
                ],
            )?;
        }
        write_mark(&transaction, seq, self.mark.as_ref())?;
        transaction.commit()?;
        self.mark = None;
        self.seq = seq;
        Ok(())
    }

    /// The ids of all alerts that are stored, retracted ones too, and all former ids.
    pub fn alert_ids(&self) -> Result<FxHashSet<AlertId>, StoreError> {
        let mut statement = self
            .connection
            .prepare("select alert_id from alert_log union select old_id from alert_alias")?;
        let rows = statement.query_map([], |row| get_id(row, 0).map(AlertId))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// A mail by its number in the outbox, without its fate.
    pub fn mail(&self, outbox_id: u64) -> Result<Option<RestoredMail>, StoreError> {
        let mut statement = self.connection.prepare(
            "select alert_id, recipient, message_id, created_at from outbox where id = ?",
        )?;
        let found = statement.query_map([number(outbox_id)], mail_from_row)?.next().transpose()?;
        Ok(found)
    }

    /// Bytes before a position that are in no range become gaps, and the counters of positions what is there. Returns
    /// how many bytes that are.
    pub fn declare_lost(&mut self) -> Result<u64, StoreError> {
        let mut bytes = 0;
        loop {
            let audit = self.reader().audit()?;
            let mut batch = Batch::default();
            let mut positions = self.positions()?;
            for fault in audit.faults {
                let position =
                    positions.iter_mut().find(|position| position.generation == fault.generation);
                match (fault.what, position) {
                    (FaultKind::Missing, _) => batch.gaps.push(Gap {
                        generation: fault.generation,
                        offset: fault.from,
                        length: fault.to - fault.from,
                        why: Gap::LOST,
                    }),
                    (FaultKind::Miscounted { records, rejects, .. }, Some(position)) => {
                        (position.records, position.rejects) = (records, rejects);
                        batch.positions.push(position.clone());
                    }
                    _ => {}
                }
            }
            if batch.gaps.is_empty() && batch.positions.is_empty() {
                return Ok(bytes);
            }
            bytes += batch.gaps.iter().map(|gap| gap.length).sum::<u64>();
            self.commit(&batch)?;
            if !audit.is_cut {
                return Ok(bytes);
            }
        }
    }

    /// Stores alerts that no rule shows from the records that are there, as retracted for a reason each.
    pub fn restore_alerts(&mut self, alerts: Vec<(AlertRow, String)>) -> Result<(), StoreError> {
        if alerts.is_empty() {
            return Ok(());
        }
        let reasons = alerts.iter().map(|(row, reason)| (row.alert.id, reason.clone())).collect();
        let rows = alerts.into_iter().map(|(row, _)| row).collect();
        // Both or none: an alert that stood in between would be one that nothing shows, and for good.
        let seq = self.seq + 1;
        let transaction = self.connection.transaction()?;
        write(&transaction, seq, &Batch { alerts: rows, ..Batch::default() })?;
        write(&transaction, seq + 1, &Batch { retracted: reasons, ..Batch::default() })?;
        transaction.commit()?;
        self.seq = seq + 1;
        Ok(())
    }
}

/// Writes where the journal stands, if it moved.
pub(super) fn write_mark(
    connection: &Connection,
    seq: u64,
    mark: Option<&JournalMark>,
) -> Result<(), StoreError> {
    if let Some(mark) = mark {
        connection.execute(
            "insert into journal_mark values (?, ?, ?)",
            [number(seq), number(mark.entries), text(&mark.hash)],
        )?;
    }
    Ok(())
}

fn first_seen_rows(
    connection: &Connection,
    seq: u64,
    facts: &[FirstSeen],
) -> Result<(), StoreError> {
    if facts.is_empty() {
        return Ok(());
    }
    let mut appender = connection.appender("first_seen_log")?;
    for fact in facts {
        first_seen::append(&mut appender, seq, fact, true)?;
    }
    appender.flush()?;
    Ok(())
}

fn restore_decision(
    connection: &Connection,
    seq: u64,
    decision: &Decision,
) -> Result<usize, StoreError> {
    let row = [
        bytes(&decision.alert_id.0),
        time(Some(decision.at)),
        text(&decision.who),
        text(decision.state.as_str()),
        optional(decision.close_reason.map(CloseReason::as_str)),
        text(&decision.note),
    ];
    let values = [number(seq)].into_iter().chain(row.iter().cloned()).chain(row.iter().cloned());
    Ok(connection.execute(
        "insert into decision_log select ?, ?, ?, ?, ?, ?, ?
         where not exists (from decision_log where alert_id = ? and time = ? and who = ? and state = ?
                           and close_reason is not distinct from ? and note = ?)",
        duckdb::params_from_iter(values),
    )?)
}

/// Reads alert, recipient, message id and time, in this order.
pub(super) fn mail_from_row(row: &duckdb::Row<'_>) -> duckdb::Result<RestoredMail> {
    Ok(RestoredMail {
        alert_id: AlertId(get_id(row, 0)?),
        recipient: row.get(1)?,
        message_id: row.get(2)?,
        created_at: get_time(row, 3)?.unwrap_or_default(),
        fate: None,
    })
}

fn restore_mail(connection: &Connection, mail: &RestoredMail) -> Result<(), StoreError> {
    connection.execute(
        "insert into outbox
         select (select coalesce(max(id), 0) + 1 from outbox), ?, ?, ?, ?
         where not exists (from outbox where message_id = ?)",
        [
            bytes(&mail.alert_id.0),
            text(&mail.recipient),
            text(&mail.message_id),
            time(Some(mail.created_at)),
            text(&mail.message_id),
        ],
    )?;
    let Some((at, outcome)) = &mail.fate else { return Ok(()) };
    let (outcome, error) = match outcome {
        DeliveryOutcome::Sent => ("sent", None),
        DeliveryOutcome::Dead { error } => ("dead", Some(error.as_str())),
        DeliveryOutcome::Retry { .. } => return Ok(()),
    };
    connection.execute(
        "insert into delivery_log
         select id, ?, ?, null, ? from outbox o where message_id = ?
         and not exists (from delivery_log d where d.outbox_id = o.id and d.outcome in ('sent', 'dead'))",
        [time(Some(*at)), text(outcome), optional(error), text(&mail.message_id)],
    )?;
    Ok(())
}
