//! What later batches made void goes, in idle moments.

use super::{Store, StoreError};

/// Void rows that are worth a clean-up.
const TIDY_FROM: u64 = 50_000;

/// Rows of a table of evidence that are looked at in one transaction: there can be many millions, and memory is
/// bounded.
const STEP_ROWS: u64 = 250_000;

impl Store {
    /// Drops what later batches made void, in an idle moment: the lists that every read has to apply stay short. False
    /// where there was too little of it.
    pub fn tidy(&mut self) -> Result<bool, StoreError> {
        self.tidy_by(TIDY_FROM, STEP_ROWS)
    }

    #[cfg(test)]
    pub(super) fn tidy_from(&mut self, rows_min: u64) -> Result<bool, StoreError> {
        self.tidy_by(rows_min, STEP_ROWS)
    }

    pub(super) fn tidy_by(&mut self, rows_min: u64, step_rows: u64) -> Result<bool, StoreError> {
        let rows: u64 = self.connection.query_row(
            "select (select count(*) from call_superseded) + (select count(*) from position_log)
                + (select greatest(count(*) - 2 * count(distinct alert_id), 0) from alert_log)
                + (select count(*) from evidence_gone_log)",
            [],
            |row| row.get(0),
        )?;
        if rows < rows_min {
            return Ok(false);
        }
        let transaction = self.connection.transaction()?;
        transaction.execute_batch(TIDY)?;
        transaction.commit()?;
        for (table, step) in EVIDENCE {
            self.tidy_evidence(table, step, step_rows)?;
        }
        Ok(true)
    }

    /// Runs a step over all rows of a table, a stretch at a time, the newest first: what goes can give those behind it
    /// other row numbers, and never those before it. Each stretch is a transaction: what is void does no harm while it
    /// is there.
    fn tidy_evidence(&mut self, table: &str, step: &str, step_rows: u64) -> Result<(), StoreError> {
        let sql = format!("select coalesce(max(rowid) + 1, 0)::ubigint from {table}");
        let mut to: u64 = self.connection.query_row(&sql, [], |row| row.get(0))?;
        while to > 0 {
            let from = to.saturating_sub(step_rows);
            let step = step.replace("$from", &from.to_string()).replace("$to", &to.to_string());
            let transaction = self.connection.transaction()?;
            transaction.execute_batch(&step)?;
            transaction.commit()?;
            if from > 0 {
                // Until then DuckDB keeps in memory which rows are gone.
                self.checkpoint()?;
            }
            to = from;
        }
        Ok(())
    }
}

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
";

/// What goes of evidence, in this order: the table whose rows a step is bounded by, and what it does with those from
/// row `$from` up to row `$to`.
const EVIDENCE: [(&str, &str); 3] = [
    (
        "evidence_row_log",
        "delete from evidence_row_log e
             using alert_now a
             where a.alert_id = e.alert_id and a.evidence_seq <> e.evidence_seq
               and e.rowid >= $from and e.rowid < $to;",
    ),
    (
        "evidence_gone_log",
        "delete from evidence_row_log e
             using evidence_gone_log g
             where g.alert_id = e.alert_id and g.evidence_seq = e.evidence_seq and g.number = e.number
               and g.rowid >= $from and g.rowid < $to;
         delete from evidence_gone_log where rowid >= $from and rowid < $to;",
    ),
    (
        "evidence_text_log",
        // The rows that can name these texts are few of all that there are.
        "delete from evidence_text_log t
             where t.rowid >= $from and t.rowid < $to and not exists (
                 from evidence_row_log r
                 where r.text_seq = t.seq and r.text_number = t.number
                   and r.text_seq >= (select min(seq) from evidence_text_log where rowid >= $from and rowid < $to)
                   and r.text_seq <= (select max(seq) from evidence_text_log where rowid >= $from and rowid < $to)
             );",
    ),
];
