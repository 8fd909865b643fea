//! Whether the database accounts for every byte up to each position exactly once.

use std::collections::BTreeMap;

use duckdb::Connection;
use serde::{Deserialize, Serialize};

use super::value::{get_id, number};
use super::{Reader, StoreError};
use crate::model::CallId;

/// Faults that are told one by one; what is beyond is counted.
const FAULTS_MAX: usize = 1000;

/// What the check of a whole database came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Generations, those that are gone included.
    pub sources: u64,
    pub records: u64,
    pub rejects: u64,
    pub gaps: u64,
    /// What is wrong, by generation and place; empty where everything is right.
    pub faults: Vec<Fault>,
    /// True where there are more faults than are listed.
    pub is_cut: bool,
}

/// Something that the database says of a source and that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Empty where nothing tells the generation's stream.
    pub stream: String,
    pub generation: u64,
    /// The bytes it is about: `[from, to)`.
    pub from: u64,
    pub to: u64,
    #[serde(flatten)]
    pub what: FaultKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum FaultKind {
    /// The bytes lie before the position and are in no record, reject or gap.
    Missing,
    /// The bytes are in more than one.
    Twice,
    /// The bytes are stored, and the position says that they were not read.
    BeyondPosition,
    /// There are ranges and no position at all.
    NoPosition,
    /// The position counts other numbers than there are rows.
    Miscounted { records: u64, rejects: u64, counted_records: u64, counted_rejects: u64 },
    /// A call rests on a record at `from` that is not there.
    LostRecord { call_id: CallId },
}

impl Reader {
    /// Checks that the ranges of every generation are disjoint and cover everything up to its position, that the
    /// counters are right, and that the records of all calls are there. Sees one state of the database, also while the
    /// daemon writes.
    pub fn audit(&self) -> Result<Audit, StoreError> {
        self.with(|connection| {
            connection.execute_batch("begin transaction read only")?;
            let audit = audit(connection);
            connection.execute_batch("rollback")?;
            audit
        })
    }
}

/// What the rows of one generation add up to, and what its position says.
#[derive(Default)]
struct Ledger {
    stream: String,
    records: u64,
    rejects: u64,
    gaps: u64,
    /// Where its last range ends.
    end: u64,
    position: Option<Position>,
}

struct Position {
    offset: u64,
    records: u64,
    rejects: u64,
}

fn audit(connection: &Connection) -> Result<Audit, StoreError> {
    let ledgers = ledgers(connection)?;
    let mut audit = Audit { sources: ledgers.len() as u64, ..Audit::default() };
    for (generation, ledger) in &ledgers {
        audit.records += ledger.records;
        audit.rejects += ledger.rejects;
        audit.gaps += ledger.gaps;
        let faults = ledger.faults();
        audit.faults.extend(faults.into_iter().map(|(from, to, what)| Fault {
            stream: ledger.stream.clone(),
            generation: *generation,
            from,
            to,
            what,
        }));
    }
    let stream_of = |generation: u64| {
        ledgers.get(&generation).map(|ledger| ledger.stream.clone()).unwrap_or_default()
    };
    let suspects: Vec<u64> = audit.faults.iter().map(|fault| fault.generation).collect();
    for (generation, from, to, what) in broken_chains(connection, &suspects)? {
        audit.faults.push(Fault { stream: stream_of(generation), generation, from, to, what });
    }
    for (generation, from, to, what) in lost_records(connection)? {
        audit.faults.push(Fault { stream: stream_of(generation), generation, from, to, what });
    }
    audit.faults.sort_by_key(|fault| (fault.generation, fault.from));
    audit.is_cut = audit.faults.len() > FAULTS_MAX;
    audit.faults.truncate(FAULTS_MAX);
    Ok(audit)
}

impl Ledger {
    fn faults(&self) -> Vec<(u64, u64, FaultKind)> {
        let Some(position) = &self.position else {
            return vec![(0, self.end, FaultKind::NoPosition)];
        };
        let mut faults = Vec::new();
        if position.offset > self.end {
            faults.push((self.end, position.offset, FaultKind::Missing));
        }
        if position.offset < self.end {
            faults.push((position.offset, self.end, FaultKind::BeyondPosition));
        }
        if (position.records, position.rejects) != (self.records, self.rejects) {
            let what = FaultKind::Miscounted {
                records: self.records,
                rejects: self.rejects,
                counted_records: position.records,
                counted_rejects: position.rejects,
            };
            faults.push((0, position.offset, what));
        }
        faults
    }
}

fn ledgers(connection: &Connection) -> Result<BTreeMap<u64, Ledger>, StoreError> {
    let mut ledgers: BTreeMap<u64, Ledger> = BTreeMap::new();
    let mut statement = connection.prepare(LEDGERS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let ledger = ledgers.entry(row.get(0)?).or_default();
        let kind: String = row.get(1)?;
        let (count, end): (u64, u64) = (row.get(2)?, row.get(3)?);
        match &*kind {
            "record" => ledger.records = count,
            "reject" => ledger.rejects = count,
            _ => ledger.gaps = count,
        }
        ledger.end = ledger.end.max(end);
    }
    let mut statement = connection
        .prepare("select generation, stream, \"offset\", records, rejects from sources")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let ledger = ledgers.entry(row.get(0)?).or_default();
        ledger.stream = row.get(1)?;
        let position = Position { offset: row.get(2)?, records: row.get(3)?, rejects: row.get(4)? };
        ledger.position = Some(position);
    }
    Ok(ledgers)
}

type Found = (u64, u64, u64, FaultKind);

/// Places where a range does not begin where the one before it ends, in the generations that may have any.
///
/// Each range is a step from its offset to its end. The steps lead from 0 to the last end, each byte once, exactly if
/// every place between is the end of as many as begin there: so sums of hashes of both tell which generations to look
/// at closely, without bringing the ranges into order.
fn broken_chains(connection: &Connection, suspects: &[u64]) -> Result<Vec<Found>, StoreError> {
    let mut statement = connection.prepare(UNEVEN)?;
    let uneven = statement.query_map([], |row| row.get(0))?;
    let mut suspects: Vec<u64> =
        uneven.chain(suspects.iter().copied().map(Ok)).collect::<Result<_, _>>()?;
    suspects.sort_unstable();
    suspects.dedup();
    let suspects: Vec<String> = suspects.iter().map(u64::to_string).collect();
    let sql = BROKEN_CHAINS.replace("$suspects", &suspects.join(", "));
    if suspects.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map([number(FAULTS_MAX as u64 + 1)], |row| {
        let (generation, before, offset, end): (u64, u64, u64, u64) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        Ok(if offset > before {
            (generation, before, offset, FaultKind::Missing)
        } else {
            (generation, offset, end.min(before), FaultKind::Twice)
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn lost_records(connection: &Connection) -> Result<Vec<Found>, StoreError> {
    let mut statement = connection.prepare(LOST_RECORDS)?;
    let rows = statement.query_map([number(FAULTS_MAX as u64 + 1)], |row| {
        let (generation, offset, length): (u64, u64, u64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let call_id = CallId(get_id(row, 3)?);
        Ok((generation, offset, offset + length, FaultKind::LostRecord { call_id }))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

const LEDGERS: &str = "
    select generation, 'record', count(*), max(\"offset\" + length) from record_log group by generation
    union all
    select generation, 'reject', count(*), max(\"offset\" + length) from reject_log group by generation
    union all
    select generation, 'gap', count(*), max(\"offset\" + length) from gap_log group by generation";

const UNEVEN: &str = "
    with ranges as (
        select generation, \"offset\", \"offset\" + length as \"end\" from record_log where idx = 0
        union all select generation, \"offset\", \"offset\" + length from reject_log
        union all select generation, \"offset\", \"offset\" + length from gap_log
    )
    select generation from ranges group by generation
    having sum(hash(\"offset\")::hugeint - hash(\"end\")::hugeint)
        <> hash(0::ubigint)::hugeint - hash(max(\"end\"))::hugeint";

/// One line can hold several records: they have one range and different indices.
const BROKEN_CHAINS: &str = "
    with ranges as (
        select generation, \"offset\", length, idx from record_log
        union all select generation, \"offset\", length, 0 from reject_log
        union all select generation, \"offset\", length, 0 from gap_log
    ), chained as (
        select generation, \"offset\", length, idx, lag(\"offset\", 1, 0) over line as offset_before,
               lag(length, 1, 0) over line as length_before, lag(idx, 1, 0) over line as idx_before
        from ranges where generation in ($suspects)
        window line as (partition by generation order by \"offset\", length, idx)
    )
    select generation, offset_before + length_before, \"offset\", \"offset\" + length from chained
    where \"offset\" <> offset_before + length_before
      and (\"offset\" <> offset_before or length <> length_before or idx <= idx_before)
    order by generation, \"offset\" limit ?";

/// Most calls have one record, which their columns tell; of the others the sightings do. Ingest events rest on none.
const LOST_RECORDS: &str = "
    with told as (
        select call_id, unnest(from_json(sightings,
            '[{\"steps\": [{\"record\": {\"generation\": \"UBIGINT\", \"offset\": \"UBIGINT\", \"index\": \"UINTEGER\"},
                            \"length\": \"UBIGINT\"}]}]'), recursive := false) as sighting
        from call_now where sightings is not null and kind = 'call'
    ), stepped as (
        select call_id, unnest(sighting.steps) as step from told
    ), rests as (
        select call_id, generation, \"offset\", idx, length from call_now where sightings is null and kind = 'call'
        union all
        select call_id, step.record.generation, step.record.\"offset\", step.record.\"index\", step.length from stepped
    )
    select generation, \"offset\", length, call_id from rests anti join record_log using (generation, \"offset\", idx)
    order by generation, \"offset\" limit ?";
