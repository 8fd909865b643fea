//! Nothing is read twice and nothing is left out: the database accounts for every byte up to each file's position.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use calltrail::model::Micros;
use calltrail::simulate::{Scenario, SimEvent, Simulation};

use crate::support::Daemon;

/// Lines of every dialect and the file of each.
fn lines() -> Vec<(String, String)> {
    let start = Micros::parse_rfc3339("2026-01-05T07:00:00Z").unwrap();
    Simulation::new(&Scenario::new(11, start, 600))
        .filter_map(|event| match event {
            SimEvent::Line(line) => Some((line.file.to_string(), line.text.clone())),
            _ => None,
        })
        .collect()
}

/// A folder of logs, and how many lines in it are whole and not blank.
struct Logs {
    folder: PathBuf,
    lines: u64,
}

impl Logs {
    fn append(&self, file: &str, text: &str) {
        let path = self.folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// A line, and now and then something that is none.
    fn write(&mut self, number: usize, file: &str, text: &str) {
        match number % 40 {
            5 => self.append(file, "\n"),
            15 => self.append(file, " \t \r\n"),
            25 => self.append(file, "\0\0\0\0"),
            35 => {
                self.append(file, "{\"neither\": whole\n");
                self.lines += 1;
            }
            _ => {}
        }
        self.append(file, text);
        self.append(file, "\n");
        self.lines += 1;
    }

    fn await_all(&self, daemon: &Daemon) {
        let all = "select (select count(distinct (generation, \"offset\")) from records) +
                          (select count(*) from rejects)";
        daemon.await_count(all, self.lines);
    }

    fn path(&self, file: &str, extension: &str) -> PathBuf {
        self.folder.join(file).with_extension(extension)
    }
}

/// Every range that a generation's bytes were put down as.
const RANGES: &str = "with ranges as (
    select distinct generation, \"offset\", length from records
    union all select generation, \"offset\", length from rejects
    union all select generation, \"offset\", length from gap_log)";

fn count(daemon: &Daemon, sql: &str) -> u64 {
    daemon.query(sql)[0].as_object().unwrap().values().next().unwrap().as_u64().unwrap()
}

/// Each range starts where the one before ends, the first at 0, and the last ends at the position.
pub(crate) fn assert_whole(daemon: &Daemon) {
    let torn = format!(
        "{RANGES}, chained as (
            select *, lag(\"offset\" + length, 1, 0) over
                (partition by generation order by \"offset\", length) as expected
            from ranges)
         select * from chained where \"offset\" <> expected"
    );
    assert_eq!(
        daemon.query(&torn),
        Vec::<serde_json::Value>::new(),
        "ranges touch and nothing overlaps"
    );
    let short = format!(
        "{RANGES}, ends as (select generation, max(\"offset\" + length) as \"end\" from ranges group by all)
         select s.* from sources s full join ends e using (generation)
         where s.\"offset\" is distinct from coalesce(e.\"end\", 0)"
    );
    assert_eq!(
        daemon.query(&short),
        Vec::<serde_json::Value>::new(),
        "ranges reach up to the position"
    );
}

#[test]
fn records_rejects_and_gaps_cover_every_generation_up_to_its_position_exactly() {
    let home = tempfile::tempdir().unwrap();
    let mut logs = Logs { folder: home.path().join("logs"), lines: 0 };
    fs::create_dir(&logs.folder).unwrap();
    let mut daemon = Daemon::start(home.path(), &logs.folder);
    let lines = lines();
    let last = lines.len() - 1;
    for (number, (file, text)) in lines.iter().enumerate() {
        if number == last / 4 {
            // Half a line, seen as such, before the rest comes.
            let (half, rest) = text.split_at(text.len() / 2);
            logs.append(file, half);
            logs.await_all(&daemon);
            logs.append(file, &format!("{rest}\n"));
            logs.lines += 1;
        } else if number == last / 3 {
            logs.write(number, file, text);
            fs::rename(logs.path(file, "jsonl"), logs.path(file, "jsonl.1")).unwrap();
        } else if number == last / 2 {
            // In the midst of reading, with half a line on disk; more comes while nobody looks.
            let (half, rest) = text.split_at(text.len() / 2);
            logs.append(file, half);
            daemon.kill();
            logs.append(file, &format!("{rest}\n"));
            logs.lines += 1;
            daemon = Daemon::start(home.path(), &logs.folder);
        } else if number == last * 2 / 3 {
            logs.write(number, file, text);
            logs.await_all(&daemon);
            copy_and_truncate(&logs.path(file, "jsonl"), &logs.path(file, "jsonl.2"));
        } else {
            logs.write(number, file, text);
        }
    }
    logs.append(&lines[last].0, "{\"half\":");
    logs.await_all(&daemon);
    assert_whole(&daemon);
    for sql in [
        "select count(*) from rejects",
        "select count(*) from gap_log where why = 'blank'",
        "select count(*) from gap_log where why = 'zeros'",
        "select count(*) from sources where state <> 'live'",
    ] {
        assert!(count(&daemon, sql) > 0, "the test has lost its point: {sql}");
    }
    assert!(daemon.stop().success());
}

/// As logrotate's copytruncate does.
fn copy_and_truncate(path: &Path, copy: &Path) {
    fs::copy(path, copy).unwrap();
    OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap();
}
