//! What one batch writes, in one transaction: nothing of it is there, or all of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use duckdb::Connection;

use super::value::{NULL, bytes, number, optional, text, time};
use super::{
    EvidenceRows, Judged, Position, Store, StoreError, ToolRow, absence, alert_row, call_row,
    clock_log, evidence, first_seen, pairs, position, record_row, restore, tool_row,
};
use crate::fault::{self, Point};
use crate::model::{
    Alert, AlertId, CallChange, CallId, ClockSample, ClockUse, FirstSeen, Micros, OutboxItem,
    PairFact, Record, Reject,
};

/// Everything that one batch of lines led to.
#[derive(Default)]
pub struct Batch {
    pub records: Vec<Arc<Record>>,
    pub rejects: Vec<Reject>,
    pub gaps: Vec<Gap>,
    pub calls: Vec<CallChange>,
    /// Calls that turned out to be part of another: (gone, the one it is part of).
    pub merged: Vec<(CallId, CallId)>,
    pub alerts: Vec<AlertRow>,
    /// What is shown of calls that the alerts rest on: [`EvidenceView`]s without a stage, as JSON.
    ///
    /// [`EvidenceView`]: crate::model::EvidenceView
    pub evidence_texts: Vec<String>,
    /// Alerts the records no longer show, with the reason.
    pub retracted: Vec<(AlertId, String)>,
    /// Tools that were called for the first time.
    pub tools: Vec<ToolRow>,
    /// Mails now owed; `id` and `attempts` are the store's to fill.
    pub outbox: Vec<OutboxItem>,
    /// Values of first-seen rules that these lines show for the first time, or no longer show.
    pub first_seen: Vec<FirstSeen>,
    /// What joins show of the streams' clocks.
    pub clock_samples: Vec<ClockSample>,
    pub clock_uses: Vec<ClockUse>,
    /// Pairs of logs that began at another time than was known, or are none.
    pub pairs: Vec<PairFact>,
    /// Up to where absence is judged, where that is further than was stored.
    pub judged: Option<Judged>,
    /// The positions that these lines lead to.
    pub positions: Vec<Position>,
}

/// Bytes of a source that hold no line to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    pub generation: u64,
    pub offset: u64,
    pub length: u64,
    /// `blank`, `zeros`, `copy` or `lost`.
    pub why: &'static str,
}

impl Gap {
    /// Read once, and could not be read again when the database was made again.
    pub const LOST: &'static str = "lost";
    /// Everything that a gap can be.
    pub const WHY: [&'static str; 4] = ["blank", "zeros", "copy", Self::LOST];
}

/// A new or changed alert.
pub struct AlertRow {
    pub alert: Alert,
    /// What of its evidence is to be stored; `alert.evidence` is not looked at.
    pub evidence: EvidenceRows,
    /// Former ids that lead to it from now on.
    pub replaces: Vec<AlertId>,
}

impl Store {
    /// Writes a batch. On an error nothing of it is stored, or, where the commit itself failed, all of it may be: only
    /// the database's own positions tell, so the store is of no use any more and has to be opened again.
    pub fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let seq = self.seq + 1;
        // Dropped without commit, the transaction rolls back. Every appender is made and dropped inside it: one that
        // outlived it would write its rows on its own.
        let transaction = self.connection.transaction()?;
        write(&transaction, seq, batch)?;
        restore::write_mark(&transaction, seq, self.mark.as_ref())?;
        fault::at(Point::BeforeCommit)?;
        transaction.commit()?;
        self.mark = None;
        fault::at(Point::AfterCommit)?;
        self.check_kept(seq, batch)?;
        self.seq = seq;
        Ok(())
    }

    /// Looks whether the last thing that a batch wrote is there: a transaction that DuckDB has given up can say that it
    /// was committed and store nothing. It costs a fraction of what the commit's sync does.
    fn check_kept(&self, seq: u64, batch: &Batch) -> Result<(), StoreError> {
        if batch.positions.is_empty() {
            return Ok(());
        }
        let sql = "select coalesce(max(seq), 0) from position_log";
        let kept: u64 = self.connection.query_row(sql, [], |row| row.get(0))?;
        if kept == seq { Ok(()) } else { Err(StoreError::NotKept { seq }) }
    }
}

pub(super) fn write(connection: &Connection, seq: u64, batch: &Batch) -> Result<(), StoreError> {
    append_each(connection, "record_log", &batch.records, |appender, record| {
        record_row::append(appender, record)
    })?;
    append_each(connection, "reject_log", &batch.rejects, append_reject)?;
    append_each(connection, "gap_log", &batch.gaps, append_gap)?;
    fault::at(Point::MidAppend)?;
    write_calls(connection, seq, batch)?;
    append_each(connection, "tool_label", &batch.tools, tool_row::append)?;
    write_alerts(connection, seq, batch)?;
    write_outbox(connection, &batch.outbox)?;
    append_each(connection, "first_seen_log", &batch.first_seen, |appender, fact| {
        first_seen::append(appender, seq, fact, false)
    })?;
    append_each(connection, "clock_log", &batch.clock_samples, |appender, sample| {
        clock_log::append_sample(appender, seq, sample)
    })?;
    append_each(connection, "clock_use_log", &batch.clock_uses, |appender, used| {
        clock_log::append_use(appender, seq, used)
    })?;
    append_each(connection, "pair_log", &batch.pairs, |appender, fact| {
        pairs::append_pair(appender, seq, fact)
    })?;
    if let Some(judged) = batch.judged {
        absence::write_judged(connection, seq, judged)?;
    }
    append_each(connection, "position_log", &batch.positions, |appender, position| {
        position::append(appender, seq, position)
    })
}

/// Appends rows and flushes, so that an error shows here and not when the appender is dropped.
pub(super) fn append_each<T>(
    connection: &Connection,
    table: &str,
    rows: &[T],
    mut append: impl FnMut(&mut duckdb::Appender<'_>, &T) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut appender = connection.appender(table)?;
    for row in rows {
        append(&mut appender, row)?;
    }
    fault::at(Point::BeforeFlush)?;
    appender.flush()?;
    Ok(())
}

fn append_reject(appender: &mut duckdb::Appender<'_>, reject: &Reject) -> Result<(), StoreError> {
    appender.append_row([
        number(reject.generation),
        number(reject.offset),
        number(reject.length),
        text(&reject.reason),
        text(&reject.head),
    ])?;
    Ok(())
}

fn append_gap(appender: &mut duckdb::Appender<'_>, gap: &Gap) -> Result<(), StoreError> {
    appender.append_row([
        number(gap.generation),
        number(gap.offset),
        number(gap.length),
        text(gap.why),
    ])?;
    Ok(())
}

fn write_calls(connection: &Connection, seq: u64, batch: &Batch) -> Result<(), StoreError> {
    let changes = &batch.calls;
    let merged: HashMap<CallId, CallId> = batch.merged.iter().copied().collect();
    let revised: Vec<_> = changes.iter().filter(|change| change.old.is_some()).collect();
    append_each(connection, "call_superseded", &revised, |appender, change| {
        let Some(old) = &change.old else { return Ok(()) };
        let new = change.new.as_ref().map(|new| &new.id).or_else(|| merged.get(&old.id));
        let new = new.map_or(NULL, |new| bytes(&new.0));
        appender.append_row([bytes(&old.id.0), number(seq), new])?;
        Ok(())
    })?;
    let standing: Vec<_> = changes.iter().filter_map(|change| change.new.as_ref()).collect();
    append_each(connection, "call_log", &standing, |appender, call| {
        call_row::append(appender, seq, call)
    })
}

fn write_alerts(connection: &Connection, seq: u64, batch: &Batch) -> Result<(), StoreError> {
    append_each(connection, "alert_log", &batch.alerts, |appender, row| {
        alert_row::append(appender, seq, row)
    })?;
    evidence::write(connection, seq, batch)?;
    if !batch.alerts.is_empty() {
        // An id that stands again is no alias any more.
        connection.execute(
            "delete from alert_alias where old_id in (select alert_id from alert_log where seq = ?)",
            [number(seq)],
        )?;
    }
    append_each(connection, "alert_alias", &batch.alerts, |appender, row| {
        for old in row.replaces.iter().filter(|old| **old != row.alert.id) {
            appender.append_row([bytes(&old.0), bytes(&row.alert.id.0), number(seq)])?;
        }
        Ok(())
    })?;
    retract(connection, seq, &batch.retracted)
}

fn retract(
    connection: &Connection,
    seq: u64,
    retracted: &[(AlertId, String)],
) -> Result<(), StoreError> {
    if retracted.is_empty() {
        return Ok(());
    }
    let listed: Vec<[String; 2]> =
        retracted.iter().map(|(id, reason)| [id.to_string(), reason.clone()]).collect();
    let listed = serde_json::to_string(&listed).unwrap_or_default();
    connection.execute(
        "insert into alert_log
         select a.* replace (? as seq, w.pair[2] as retracted)
         from (select unnest(from_json(?, '[[\"VARCHAR\"]]')) as pair) w
         join alert_now a on a.alert_id = unhex(w.pair[1])",
        [number(seq), text(&listed)],
    )?;
    Ok(())
}

fn write_outbox(connection: &Connection, mails: &[OutboxItem]) -> Result<(), StoreError> {
    if mails.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = mails.iter().map(|mail| &*mail.message_id).collect();
    let ids = serde_json::to_string(&ids).unwrap_or_default();
    let mut statement = connection.prepare(
        "select message_id from outbox where message_id in (select unnest(from_json(?, '[\"VARCHAR\"]')))",
    )?;
    let rows = statement.query_map([text(&ids)], |row| row.get::<_, String>(0))?;
    let mut known: HashSet<String> = rows.collect::<Result<_, _>>()?;
    // A message id names alert and recipient: an alert that went and came back is not mailed twice.
    let mut fresh: Vec<&OutboxItem> = mails.iter().collect();
    fresh.retain(|mail| known.insert(mail.message_id.clone()));
    let mut id: u64 =
        connection.query_row("select coalesce(max(id), 0) from outbox", [], |row| row.get(0))?;
    append_each(connection, "outbox", &fresh, |appender, mail| {
        id += 1;
        appender.append_row([
            number(id),
            bytes(&mail.alert_id.0),
            text(&mail.recipient),
            text(&mail.message_id),
            time(Some(mail.created_at)),
        ])?;
        Ok(())
    })
}

impl Store {
    /// Puts a person's decision down.
    pub fn decide(&mut self, decision: &super::Decision) -> Result<(), StoreError> {
        let seq = self.seq + 1;
        let transaction = self.connection.transaction()?;
        transaction.execute(
            "insert into decision_log values (?, ?, ?, ?, ?, ?, ?)",
            [
                number(seq),
                bytes(&decision.alert_id.0),
                time(Some(decision.at)),
                text(&decision.who),
                text(decision.state.as_str()),
                optional(decision.close_reason.map(crate::model::CloseReason::as_str)),
                text(&decision.note),
            ],
        )?;
        restore::write_mark(&transaction, seq, self.mark.as_ref())?;
        transaction.commit()?;
        self.mark = None;
        self.seq = seq;
        Ok(())
    }

    /// Puts down what became of an attempt to send a mail.
    pub fn deliver(&mut self, delivery: &super::Delivery) -> Result<(), StoreError> {
        use super::DeliveryOutcome::{Dead, Retry, Sent};
        fault::at(Point::BeforeDelivery)?;
        let (outcome, next_at, error): (_, Option<Micros>, _) = match &delivery.outcome {
            Sent => ("sent", None, None),
            Retry { next_at, error } => ("retry", Some(*next_at), Some(error.as_str())),
            Dead { error } => ("dead", None, Some(error.as_str())),
        };
        let seq = self.seq + 1;
        let transaction = self.connection.transaction()?;
        transaction.execute(
            "insert into delivery_log values (?, ?, ?, ?, ?)",
            [
                number(delivery.outbox_id),
                time(Some(delivery.at)),
                text(outcome),
                time(next_at),
                optional(error),
            ],
        )?;
        restore::write_mark(&transaction, seq, self.mark.as_ref())?;
        transaction.commit()?;
        self.mark = None;
        self.seq = seq;
        Ok(())
    }

    /// Drops what later batches made void, in an idle moment: the lists that every read has to apply stay short. False
    /// where there was too little of it.
    pub fn tidy(&mut self) -> Result<bool, StoreError> {
        self.tidy_from(TIDY_FROM)
    }

    pub(super) fn tidy_from(&mut self, rows_min: u64) -> Result<bool, StoreError> {
        let rows: u64 = self.connection.query_row(
            "select (select count(*) from call_superseded) + (select count(*) from position_log)
                + (select greatest(count(*) - 2 * count(distinct alert_id), 0) from alert_log)",
            [],
            |row| row.get(0),
        )?;
        if rows < rows_min {
            return Ok(false);
        }
        let transaction = self.connection.transaction()?;
        transaction.execute_batch(TIDY)?;
        transaction.commit()?;
        Ok(true)
    }
}

/// Void rows that are worth a clean-up.
const TIDY_FROM: u64 = 50_000;

/// Of an alert's rows the first stays with the newest: it tells whether the alert began as another's new id.
const TIDY: &str = "
    delete from call_log c using call_superseded s where s.call_id = c.call_id and s.before_seq > c.seq;
    insert into call_alias
        select call_id, new_id, before_seq from call_superseded where new_id is not null and new_id <> call_id;
    delete from call_superseded;
    delete from position_log p
        using (select generation, max(seq) as seq from position_log group by generation) newest
        where newest.generation = p.generation and p.seq < newest.seq;
    delete from alert_log a
        using (select alert_id, min(seq) as first, max(seq) as newest from alert_log group by alert_id) kept
        where kept.alert_id = a.alert_id and a.seq > kept.first and a.seq < kept.newest;
    delete from journal_mark m where m.seq < (select max(seq) from journal_mark);
    delete from first_seen_log f
        using (select rule, others, field, value, max(seq) as seq from first_seen_log group by all) newest
        where newest.rule = f.rule and newest.others = f.others and newest.field = f.field
          and newest.value = f.value and f.seq < newest.seq;
    create or replace temp table clock_many as
        select max(seq) as seq, slot, upper, lower, bin_ms, sum(samples)::bigint as samples
        from clock_log group by slot, upper, lower, bin_ms having count(*) > 4;
    delete from clock_log c using clock_many m
        where m.slot = c.slot and m.upper = c.upper and m.lower = c.lower and m.bin_ms = c.bin_ms;
    insert into clock_log from clock_many where samples <> 0;
    drop table clock_many;
    delete from absence_log a where a.seq < (select max(seq) from absence_log);
    delete from pair_log p
        using (select lower_stream, upper_stream, principal, client, max(seq) as seq from pair_log group by all) newest
        where newest.lower_stream = p.lower_stream and newest.upper_stream = p.upper_stream
          and newest.principal is not distinct from p.principal
          and newest.client is not distinct from p.client and p.seq < newest.seq;
    delete from evidence_row_log e
        using alert_now a where a.alert_id = e.alert_id and a.evidence_seq <> e.evidence_seq;
    delete from evidence_row_log e
        using evidence_gone_log g
        where g.alert_id = e.alert_id and g.evidence_seq = e.evidence_seq and g.number = e.number;
    delete from evidence_gone_log;
    delete from evidence_text_log t
        where not exists (from evidence_row_log r where r.text_seq = t.seq and r.text_number = t.number);
";

#[cfg(test)]
mod tests {
    use super::*;

    fn store(folder: &std::path::Path) -> Store {
        let options = crate::store::OpenOptions {
            path: folder.join("a.duckdb"),
            create: true,
            memory_max: "256MB".to_owned(),
            now: Micros(0),
        };
        Store::open(&options).unwrap()
    }

    fn batch(generation: u64, gaps: std::ops::Range<u64>) -> Batch {
        let gap = |offset| Gap { generation, offset, length: 1, why: "blank" };
        let position = Position {
            generation,
            stream: "log".to_owned(),
            path: "/log".to_owned(),
            dev: 0,
            inode: 0,
            state: "live".to_owned(),
            size: 0,
            offset: gaps.end,
            head_len: 0,
            head_hash: vec![],
            tail_len: 0,
            tail_hash: vec![],
            last_at: None,
            heard_at: None,
            history_until: 0,
            records: 0,
            rejects: 0,
        };
        Batch { gaps: gaps.map(gap).collect(), positions: vec![position], ..Batch::default() }
    }

    fn counts(store: &Store) -> (u64, u64) {
        let sql = "select (select count(*) from gap_log), (select count(*) from position_log)";
        store.connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    }

    /// More rows than an appender holds back, so that a part of them was handed over when it breaks.
    const ROWS: u64 = 300_000;

    #[test]
    fn an_error_or_a_panic_in_the_midst_of_appending_leaves_nothing_and_the_next_batch_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store(folder.path());
        for is_panic in [false, true] {
            let rows = batch(1, 0..ROWS).gaps;
            let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let transaction = store.connection.transaction()?;
                append_each(&transaction, "gap_log", &rows, |appender, gap| {
                    if gap.offset < ROWS - 10 {
                        return append_gap(appender, gap);
                    }
                    assert!(!is_panic, "a broken appender");
                    Err(StoreError::NotKept { seq: 0 })
                })?;
                transaction.commit()?;
                Ok::<(), StoreError>(())
            }));
            assert_eq!(broken.is_err(), is_panic);
            assert!(!matches!(broken, Ok(Ok(()))));
            assert_eq!(counts(&store), (0, 0));
        }
        store.commit(&batch(1, 0..3)).unwrap();
        drop(store);
        assert_eq!(counts(&self::store(folder.path())), (3, 1));
    }

    #[test]
    fn a_statement_error_at_flush_rolls_all_of_the_batch_back_and_the_number_is_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store(folder.path());
        store.connection.execute_batch("create unique index once on gap_log (\"offset\")").unwrap();
        store.commit(&batch(1, 0..10)).unwrap();
        let error = store.commit(&batch(2, 5..15)).unwrap_err();
        assert_eq!(error.cause(), crate::store::Cause::Content, "{error}");
        assert_eq!((counts(&store), store.seq()), ((10, 1), 1));
        store.commit(&batch(2, 10..15)).unwrap();
        assert_eq!((counts(&store), store.seq()), ((15, 2), 2));
    }

    #[test]
    fn a_commit_that_stored_nothing_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store(folder.path());
        store.commit(&batch(1, 0..1)).unwrap();
        let claimed = store.check_kept(2, &batch(1, 1..2));
        assert!(matches!(claimed, Err(StoreError::NotKept { seq: 2 })));
    }
}
