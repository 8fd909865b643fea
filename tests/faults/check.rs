//! What the database holds, compared with what the folder's model says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::Value;

use super::folder::Folder;
use super::line::SENTINEL;
use crate::support::{calltrail, socket};

/// The line of each record and reject, by its mark: what it became, and the stream it is part of.
const MARKS: &str =
    "select 'record', regexp_extract(extra, 'w[0-9]+-[0-9]+'), stream from record_log
    union all select 'reject', regexp_extract(head, 'w[0-9]+-[0-9]+'), '' from reject_log";

/// Every range that a generation's bytes were put down as: each begins where the one before ends, the first at 0, and
/// the last ends at the position.
const TORN_RANGES: &str = r#"with ranges as (
        select distinct generation, "offset", length from record_log
        union all select generation, "offset", length from reject_log
        union all select generation, "offset", length from gap_log
    ), chained as (
        select *, lag("offset" + length, 1, 0) over (partition by generation order by "offset", length) as expected
        from ranges
    ), ends as (
        select generation, max("offset" + length) as "end" from ranges group by all
    )
    select 'torn', generation, "offset", expected from chained where "offset" <> expected
    union all
    select 'short', generation, s."offset", e."end" from sources s full join ends e using (generation)
    where s."offset" is distinct from coalesce(e."end", 0)"#;

/// Sources whose counters differ from the rows they count.
const WRONG_COUNTERS: &str =
    "select generation, s.records, s.rejects, coalesce(r.n, 0), coalesce(j.n, 0)
    from sources s
    left join (select generation, count(*) as n from record_log group by all) r using (generation)
    left join (select generation, count(*) as n from reject_log group by all) j using (generation)
    where s.records <> coalesce(r.n, 0) or s.rejects <> coalesce(j.n, 0)";

/// Standing alerts worth a mail for which none is owed, under any of their ids.
const UNMAILED: &str = "select a.alert_id, a.rule from alerts a where a.retracted is null
    and a.level in ('high', 'critical') and not exists (
        from outbox o where lower(hex(o.alert_id)) = a.alert_id
        or o.alert_id in (select m.member from alert_member m where lower(hex(m.alert_id)) = a.alert_id))";

const CALLS: &str =
    "select 'call', lower(hex(call_id)), code, ran, witnesses, session from call_now
    where stream <> 'sentinel.jsonl' and kind = 'call'";
const ALERTS: &str = "select 'alert', alert_id, rule, level, count::varchar, '' from alerts
    where retracted is null and rule <> 'log-tampering'";
/// What reading showed about the logs themselves, which one clean pass does not see.
const OF_LOGS: &str =
    "select lower(hex(call_id)), code, stream from call_now where kind = 'ingest'";

/// What was found about the lines.
pub(super) struct Found {
    /// By mark: the stream of a record, none of a reject.
    lines: BTreeMap<String, Option<String>>,
    /// What must not be.
    pub(super) wrong: Vec<String>,
    /// Marks that must be there and are not.
    pub(super) missing: Vec<String>,
}

/// Everything that a restart must not change.
#[derive(PartialEq, Eq)]
pub(super) struct Shape {
    lines: BTreeSet<String>,
    of_logs: BTreeSet<String>,
    pub(super) findings: BTreeSet<String>,
}

/// Looks for every line that was written.
pub(super) fn find(database: &Path, folder: &Folder) -> Result<Found, String> {
    let mut found = Found { lines: BTreeMap::new(), wrong: Vec::new(), missing: Vec::new() };
    for row in socket::rows(database, MARKS)? {
        let [kind, mark, stream] = [0, 1, 2].map(|column| row[column].as_str().unwrap_or_default());
        let is_record = kind == "record";
        let line = folder.written.get(mark).filter(|line| line.is_record() == is_record);
        let is_torn = !is_record && (mark.is_empty() || folder.torn.contains(mark));
        if line.is_none() && (!is_torn || folder.torn.is_empty()) {
            found.wrong.push(format!("never written as such: {kind} {mark}"));
        }
        let stream = is_record.then(|| stream.to_owned());
        if !mark.is_empty() && found.lines.insert(mark.to_owned(), stream).is_some() {
            found.wrong.push(format!("twice: {mark}"));
        }
    }
    let missing = folder.required().filter(|line| !found.lines.contains_key(&line.mark));
    found.missing = missing.map(|line| line.mark.clone()).collect();
    Ok(found)
}

/// Lines, calls and alerts, without those of sentinels.
pub(super) fn shape(database: &Path, found: &Found) -> Result<Shape, String> {
    let sentinel = format!("w{SENTINEL}-");
    let lines = found.lines.keys().filter(|mark| !mark.starts_with(&sentinel)).cloned().collect();
    let told = |sql: &str| -> Result<BTreeSet<String>, String> {
        Ok(socket::rows(database, sql)?.iter().map(|row| shown(row)).collect())
    };
    let findings = told(&format!("{CALLS} union all {ALERTS}"))?;
    Ok(Shape { lines, of_logs: told(OF_LOGS)?, findings })
}

impl Shape {
    /// What a restart changed. It may show that something is lost: the half line of a file that was deleted, say.
    pub(super) fn changed_to(&self, after: &Self) -> Vec<String> {
        let lines = self.lines.symmetric_difference(&after.lines);
        let findings = self.findings.symmetric_difference(&after.findings);
        lines.chain(self.of_logs.difference(&after.of_logs)).chain(findings).cloned().collect()
    }
}

/// What the database says against itself.
pub(super) fn contradictions(database: &Path) -> Result<Vec<String>, String> {
    let mut wrong = Vec::new();
    for (what, sql) in [("ranges", TORN_RANGES), ("counters", WRONG_COUNTERS)] {
        wrong.extend(
            socket::rows(database, sql)?.iter().map(|row| format!("{what}: {}", shown(row))),
        );
    }
    Ok(wrong)
}

/// What `calltrail doctor` finds, of the journal too.
pub(super) fn doctor(home: &Path, database: &Path) -> Vec<String> {
    let told = calltrail(home).arg("doctor").arg("--db").arg(database).output().unwrap();
    let lines = String::from_utf8_lossy(&told.stdout);
    let is_sound = told.status.success();
    lines.lines().filter(|_| !is_sound).map(|line| format!("doctor: {line}")).collect()
}

/// What is wrong about the mails that were sent; `doubles_max` may have been sent once more, for their fate was lost.
pub(super) fn mails(
    database: &Path,
    sent: &[String],
    doubles_max: usize,
) -> Result<Vec<String>, String> {
    let mut wrong: Vec<String> = socket::rows(database, UNMAILED)?
        .iter()
        .map(|row| format!("not mailed: {}", shown(row)))
        .collect();
    let owed = owed(database)?;
    let distinct: BTreeSet<String> = sent.iter().cloned().collect();
    wrong.extend(
        owed.symmetric_difference(&distinct).map(|id| format!("owed or sent, not both: {id}")),
    );
    let doubles = sent.len() - distinct.len();
    if doubles > doubles_max {
        wrong.push(format!("{doubles} mails were sent twice"));
    }
    Ok(wrong)
}

/// The message ids of all mails that are or were owed.
pub(super) fn owed(database: &Path) -> Result<BTreeSet<String>, String> {
    let rows = socket::rows(database, "select message_id from outbox")?;
    Ok(rows.iter().filter_map(|row| row[0].as_str()).map(str::to_owned).collect())
}

/// The calls and alerts of one pass over plain files that hold the lines that were found, and no others.
pub(super) fn one_pass(home: &Path, folder: &Folder, found: &Found) -> BTreeSet<String> {
    let clean = home.join("clean");
    let mut lines: Vec<(&str, &str)> = Vec::new();
    for (mark, stream) in &found.lines {
        let text = folder.written.get(mark).map(|line| line.text.as_str());
        lines.extend(stream.as_deref().zip(text));
    }
    // The time of each is in its text; those of one stream lie in the order of their numbers.
    lines.sort_by_key(|(_, text)| {
        text.split("\"mark\":\"").nth(1).and_then(|mark| mark.split('-').nth(1))
    });
    for (stream, text) in lines {
        let path = clean.join(stream);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{text}").unwrap();
    }
    fs::create_dir_all(&clean).unwrap();
    let database = home.join("clean.duckdb");
    let scan =
        calltrail(home).args(["scan", "--quiet"]).arg(&clean).arg("--db").arg(&database).output();
    assert!(scan.as_ref().is_ok_and(|scan| scan.status.code() == Some(0)), "{scan:?}");
    let connection = duckdb::Connection::open(&database).unwrap();
    let mut statement = connection.prepare(&format!("{CALLS} union all {ALERTS}")).unwrap();
    let cells =
        |row: &duckdb::Row<'_>| (0..6).map(|column| row.get::<_, Option<String>>(column)).collect();
    let rows = statement.query_map([], cells).unwrap();
    let shown = |cells: Vec<Option<String>>| {
        cells
            .into_iter()
            .map(|cell| cell.unwrap_or_else(|| "null".to_owned()))
            .collect::<Vec<_>>()
            .join(" ")
    };
    rows.map(|row| shown(row.unwrap())).collect()
}

fn shown(row: &[Value]) -> String {
    let cells =
        row.iter().map(|cell| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned));
    cells.collect::<Vec<_>>().join(" ")
}
