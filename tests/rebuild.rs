//! The database made again: what was in it comes back from the logs, the journal and the old database, and nobody is
//! mailed twice.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Output;

use calltrail::model::Micros;
use calltrail::simulate::{Scenario, SimEvent, Simulation};
use serde_json::Value;

use crate::smtp_server::RealSmtp;
use crate::support::{Daemon, alert_ids, await_that, calltrail, json_lines, scan};

const ATTACK: &str = include_str!("samples/trifecta/logs/tickets/audit.jsonl");

/// The attack, without the alerts that other rules raise on it.
fn criticals(mut alerts: Vec<Value>) -> Vec<Value> {
    alerts.retain(|alert| alert["level"] == "critical");
    alerts
}

/// A folder of state with logs beside it, and the commands that a person would give.
struct Site {
    home: tempfile::TempDir,
    config: Option<PathBuf>,
}

impl Site {
    fn new() -> Self {
        let site = Self { home: tempfile::tempdir().unwrap(), config: None };
        fs::create_dir(site.logs()).unwrap();
        site
    }

    fn logs(&self) -> PathBuf {
        self.home.path().join("logs")
    }

    fn database(&self) -> PathBuf {
        self.home.path().join("state/calltrail/calltrail.duckdb")
    }

    fn journal(&self) -> PathBuf {
        let mut name = self.database().into_os_string();
        name.push(".journal.jsonl");
        name.into()
    }

    /// Lines of every dialect in many files.
    fn simulate(&self) {
        let start = Micros::parse_rfc3339("2026-01-05T07:00:00Z").unwrap();
        let mut scenario = Scenario::new(7, start, 1500);
        scenario.attack_every = 100;
        for event in Simulation::new(&scenario) {
            if let SimEvent::Line(line) = event {
                self.append(&line.file, &format!("{}\n", line.text));
            }
        }
    }

    fn append(&self, file: &str, text: &str) {
        let path = self.logs().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn files(&self) -> Vec<PathBuf> {
        files_below(&self.logs())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = calltrail(self.home.path());
        command.args(arguments);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        command.output().unwrap()
    }

    fn start(&self) -> Daemon {
        let config = self.config.as_ref().map(|config| config.to_str().unwrap().to_owned());
        let more: Vec<&str> = config.iter().flat_map(|config| ["--config", config]).collect();
        Daemon::start_with(self.home.path(), &self.logs(), &more)
    }

    /// Reads all there is with the daemon, and stops it.
    fn watch_once(&self) {
        let daemon = self.start();
        daemon.await_count("select count(*) from meta where name = 'history_read_at'", 1);
        daemon.await_count("select count(*) from sources where \"offset\" < size", 0);
        assert!(daemon.stop().success());
    }

    fn rebuild(&self) -> (i32, Value) {
        let logs = self.logs();
        let done = self.run(&["rebuild", "--output", "json", logs.to_str().unwrap()]);
        let told = json_lines(&done).pop().unwrap_or_default();
        let code = done.status.code().unwrap();
        assert!(matches!(code, 0 | 2), "{}", String::from_utf8_lossy(&done.stderr));
        (code, told)
    }

    fn query(&self, sql: &str) -> Vec<Value> {
        let done = self.run(&["query", "--output", "json", sql]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        json_lines(&done)
    }

    /// Alerts that stand.
    fn alerts(&self) -> Vec<Value> {
        let mut alerts = json_lines(&self.run(&["alerts", "list", "--output", "json"]));
        alerts.retain(|alert| alert["retracted"].is_null());
        alerts
    }

    fn call_ids(&self) -> Vec<Value> {
        self.query("select call_id from calls order by all")
    }

    fn assert_sound(&self) {
        let done = self.run(&["doctor"]);
        assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stdout));
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Flips bytes in what tells DuckDB where everything is.
fn corrupt(path: &Path) {
    let mut file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut head = vec![0; 3 * 4096];
    file.read_exact(&mut head).unwrap();
    for byte in &mut head {
        *byte ^= 0x5a;
    }
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(&head).unwrap();
}

/// Every entry's kind and data, without the times.
fn facts(journal: &Path) -> Vec<(String, Value)> {
    let text = fs::read_to_string(journal).unwrap();
    let entries = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries
        .map(|entry| (entry["kind"].as_str().unwrap().to_owned(), entry["data"].clone()))
        .collect()
}

#[test]
fn a_database_made_again_from_whole_logs_is_that_of_one_pass() {
    let site = Site::new();
    site.simulate();
    let (_, expected) = scan(&site.logs());
    assert!(expected.len() >= 6, "the simulated attacks are found");
    site.watch_once();
    let calls = site.call_ids();
    let journal = facts(&site.journal());
    let key = "select value from meta where name = 'hash_key'";
    let before = site.query(key);
    let (code, told) = site.rebuild();
    assert_eq!(code, 0, "{told}");
    assert_eq!(told["records_carried"], 0);
    assert_eq!(alert_ids(&site.alerts()), alert_ids(&expected));
    assert_eq!(site.call_ids(), calls);
    assert_eq!(site.query(key), before, "masked values of both are comparable");
    assert_eq!(facts(&site.journal()), journal, "nothing in it is news");
    site.assert_sound();
    assert!(Path::new(told["old_database"].as_str().unwrap()).exists(), "the old one is kept");
}

#[test]
fn logs_that_are_gone_come_from_the_old_database_with_the_lines_of_their_alerts() {
    let site = Site::new();
    site.simulate();
    site.append("odd.jsonl", "no line\n\n\0\0\0\0{\"neither\": whole\n");
    site.watch_once();
    let expected = site.alerts();
    assert!(expected.len() >= 6, "the simulated attacks are found");
    let calls = site.call_ids();
    let records = site.query("select * from records order by all");
    let counted =
        site.query("select stream, \"offset\", records, rejects from sources order by all");
    let shown = |site: &Site| {
        let sql = "select e.stage, t.evidence from evidence_now e
             join evidence_text_log t on t.seq = e.text_seq and t.number = e.text_number";
        let mut shown = site.query(sql);
        shown.sort_by_key(ToString::to_string);
        shown
    };
    let lines = shown(&site);
    for (number, file) in site.files().iter().enumerate() {
        if number % 2 == 0 || file.ends_with("odd.jsonl") {
            fs::remove_file(file).unwrap();
        }
    }
    let (code, told) = site.rebuild();
    assert_eq!(code, 0, "{told}");
    assert!(told["records_carried"].as_u64().unwrap() > 100, "{told}");
    assert!(told["records_read"].as_u64().unwrap() > 100, "{told}");
    assert_eq!(alert_ids(&site.alerts()), alert_ids(&expected));
    assert_eq!(site.call_ids(), calls);
    assert_eq!(site.query("select * from records order by all"), records);
    let after = site.query("select stream, \"offset\", records, rejects from sources order by all");
    assert_eq!(after, counted);
    assert_eq!(shown(&site), lines, "the lines are kept although their logs are gone");
    site.assert_sound();
    // All of it once more, with no log left at all.
    fs::remove_dir_all(site.logs()).unwrap();
    fs::create_dir(site.logs()).unwrap();
    assert_eq!(site.rebuild().0, 0);
    assert_eq!((alert_ids(&site.alerts()), site.call_ids()), (alert_ids(&expected), calls));
    assert_eq!(shown(&site), lines);
    site.assert_sound();
}

#[test]
fn decisions_and_former_ids_come_back() {
    let site = Site::new();
    // The last word of the attack comes first, so that the alert begins elsewhere once the rest is there.
    let again = ATTACK.lines().map(|line| line.replace("08:00:", "08:01:")).collect::<Vec<_>>();
    site.append(
        "tickets/audit.jsonl",
        &again.iter().flat_map(|line| [line, "\n"]).collect::<String>(),
    );
    let daemon = site.start();
    daemon.await_count("select count(*) from alerts where level = 'critical'", 1);
    let first = alert_ids(&criticals(daemon.alerts()));
    let closed =
        ["alerts", "close", &first[0], "--reason", "benign", "--note", "known", "--who", "nadia"];
    assert!(daemon.ask(&closed).status.success());
    site.append("tickets/late.jsonl", ATTACK);
    daemon.await_count("select count(*) from alert_alias", 2);
    let moved = alert_ids(&criticals(daemon.alerts()));
    assert_ne!(moved, first);
    assert_eq!(criticals(daemon.alerts())[0]["status"], "closed");
    assert!(daemon.stop().success());

    let check = |site: &Site, how: &str| {
        let alerts = criticals(site.alerts());
        assert_eq!(alert_ids(&alerts), moved, "{how}");
        assert_eq!(alerts[0]["status"], "closed", "{how}");
        let shown = json_lines(&site.run(&["alerts", "show", &first[0], "--output", "json"]));
        assert_eq!(
            shown[0]["alert_id"].as_str(),
            Some(&*moved[0]),
            "{how}: the former id leads on"
        );
        assert_eq!(shown[0]["history"][0]["note"], "known", "{how}");
        site.assert_sound();
    };
    site.rebuild();
    check(&site, "rebuild");
    fs::remove_file(site.database()).unwrap();
    site.rebuild();
    check(&site, "rebuild without the old database");
    fs::remove_file(site.database()).unwrap();
    site.watch_once();
    check(&site, "a new database beside the journal");
    corrupt(&site.database());
    let (code, told) = site.rebuild();
    assert_eq!((code, told["unreadable"].is_string()), (2, true), "{told}");
    check(&site, "rebuild of a database that cannot be opened");
}

#[test]
fn a_damaged_database_is_refused_and_kept_and_the_message_says_what_to_do() {
    let site = Site::new();
    site.append("tickets/audit.jsonl", ATTACK);
    site.watch_once();
    corrupt(&site.database());
    let damaged = fs::read(site.database()).unwrap();
    let done = site.run(&["watch", "--listen", "127.0.0.1:0", site.logs().to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(65));
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(told.contains("calltrail rebuild"), "{told}");
    assert!(fs::read(site.database()).unwrap() == damaged, "it is kept as it is");
    let (code, told) = site.rebuild();
    assert_eq!(code, 2);
    assert!(fs::read(told["old_database"].as_str().unwrap()).unwrap() == damaged);
    assert_eq!(alert_ids(&site.alerts()), alert_ids(&scan(&site.logs()).1));
}

#[test]
fn a_running_daemon_is_not_pulled_from_under() {
    let site = Site::new();
    site.append("tickets/audit.jsonl", ATTACK);
    let daemon = site.start();
    let done = site.run(&["rebuild", site.logs().to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(75));
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(told.contains(&format!("PID {}", daemon.pid())), "{told}");
    assert!(daemon.stop().success());
}

#[test]
fn what_was_seen_first_is_not_first_again_though_all_else_is_lost() {
    let line = |tenant: &str, second: u32| {
        format!(
            "{{\"ts\":\"2026-11-20T08:00:{second:02}Z\",\"subject\":\"u-eng\",\"client_id\":\"c\",\
             \"tenant\":\"{tenant}\",\"tool\":\"get_ticket\",\"params\":{{}},\"dropped\":[],\"outcome\":\"ok\"}}\n"
        )
    };
    let site = Site::new();
    site.append("a.jsonl", &line("acme", 1));
    site.append("a.jsonl", &line("globex", 2));
    site.watch_once();
    let alert = alert_ids(&site.alerts());
    assert_eq!(alert.len(), 1, "the second tenant is not home");
    // Neither the logs nor the database are left.
    fs::remove_file(site.logs().join("a.jsonl")).unwrap();
    fs::remove_file(site.database()).unwrap();
    site.append("b.jsonl", &line("globex", 30));
    site.append("b.jsonl", &line("acme", 31));
    site.append("b.jsonl", &line("initech", 32));
    site.rebuild();
    let alerts = json_lines(&site.run(&["alerts", "list", "--output", "json"]));
    let group = |tenant: &str| {
        let of_tenant = alerts.iter().filter(|alert| alert["group"]["tenant"] == tenant);
        alert_ids(&of_tenant.cloned().collect::<Vec<_>>())
    };
    assert_eq!(group("acme"), [] as [&str; 0], "home stays home");
    assert_eq!(group("globex"), alert, "what was known is the alert of then");
    assert_eq!(group("initech").len(), 1, "what is new is new");
    site.assert_sound();
}

#[test]
fn what_an_interrupted_run_left_is_cleared_away() {
    let site = Site::new();
    site.append("tickets/audit.jsonl", ATTACK);
    site.watch_once();
    let mut left = site.database().into_os_string();
    left.push(".rebuilding");
    fs::write(&left, "half a database").unwrap();
    let before = fs::read_dir(site.database().parent().unwrap()).unwrap().count();
    assert_eq!(site.rebuild().0, 0);
    assert!(!Path::new(&left).exists());
    let after = fs::read_dir(site.database().parent().unwrap()).unwrap().count();
    assert_eq!(after, before, "the old database is more, what was left over is less");
    site.assert_sound();
}

#[test]
fn a_mail_that_was_sent_is_not_sent_again_and_one_that_was_owed_is() {
    let server = RealSmtp::start();
    for how in ["rebuild", "rebuild without the old database", "a new database", "a damaged one"] {
        let mut site = Site::new();
        site.config = Some(crate::alarm::write_config(site.home.path(), server.port, &server));
        site.append("earlier.jsonl", "\n");
        site.watch_once();
        let sent = server.mails().len();
        let daemon = site.start();
        site.append("tickets/audit.jsonl", ATTACK);
        daemon.await_count("select count(*) from delivery_log where outcome = 'sent'", 1);
        assert!(daemon.stop().success());
        // A second one is owed, and the mail server is away.
        let dead = crate::alarm::free_port();
        site.config = Some(crate::alarm::write_config(site.home.path(), dead, &server));
        let daemon = site.start();
        site.append("tickets/audit.jsonl", &ATTACK.replace("2026-11-20", "2026-11-21"));
        daemon
            .await_count("select least(count(*), 1) from delivery_log where outcome = 'retry'", 1);
        assert!(daemon.stop().success());
        assert_eq!(server.mails().len(), sent + 1, "{how}");

        site.config = Some(crate::alarm::write_config(site.home.path(), server.port, &server));
        match how {
            "rebuild" => {}
            "a damaged one" => corrupt(&site.database()),
            _ => fs::remove_file(site.database()).unwrap(),
        }
        if how != "a new database" {
            site.rebuild();
        }
        let daemon = site.start();
        await_that("the mail that was owed", || server.mails().len() > sent + 1);
        daemon.await_count("select count(*) from delivery_log where outcome = 'sent'", 2);
        daemon.await_count("select count(*) from outbox", 2);
        assert!(daemon.stop().success());
        let mails = server.mails();
        assert_eq!(mails.len(), sent + 2, "{how}");
        assert!(mails[sent].contains("2026-11-20"), "{how}");
        assert!(mails[sent + 1].contains("2026-11-21"), "{how}");
        site.assert_sound();
    }
}

#[test]
fn an_alert_on_lines_that_nobody_had_read_is_news_and_what_was_history_is_not() {
    let server = RealSmtp::start();
    let mut site = Site::new();
    site.config = Some(crate::alarm::write_config(site.home.path(), server.port, &server));
    site.append("tickets/audit.jsonl", ATTACK);
    site.watch_once();
    site.append("tickets/audit.jsonl", &ATTACK.replace("2026-11-20", "2026-11-21"));
    site.rebuild();
    assert_eq!(criticals(site.alerts()).len(), 2);
    let daemon = site.start();
    daemon.await_count("select count(*) from delivery_log where outcome = 'sent'", 1);
    assert!(daemon.stop().success());
    let mails = server.mails();
    assert_eq!(mails.len(), 1);
    assert!(mails[0].contains("2026-11-21"), "{}", mails[0]);
}

/// Something that somebody does to the journal's lines.
type Forge<'a> = &'a dyn Fn(&mut Vec<String>);

#[test]
fn a_journal_that_was_changed_or_cut_holds_nothing_up_and_is_told_for_good() {
    let forge = |site: &Site, change: Forge<'_>| {
        let text = fs::read_to_string(site.journal()).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        change(&mut lines);
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        fs::write(site.journal(), text).unwrap();
    };
    let cases: [(&str, Forge<'_>, &str); 4] = [
        (
            "edited",
            &|lines| lines[0] = lines[0].replacen("\"at\":\"20", "\"at\":\"19", 1),
            "line 1 of the journal",
        ),
        ("removed", &|lines| drop(lines.remove(0)), "line 1 of the journal"),
        ("cut", &|lines| lines.truncate(1), "is not there"),
        ("emptied", &Vec::clear, "is not there"),
    ];
    for (how, change, told) in cases {
        let site = Site::new();
        site.append("tickets/audit.jsonl", ATTACK);
        let daemon = site.start();
        daemon.await_count("select count(*) from alerts where level = 'critical'", 1);
        let alert = alert_ids(&criticals(daemon.alerts())).pop().unwrap();
        assert!(daemon.ask(&["alerts", "ack", &alert]).status.success());
        assert!(daemon.stop().success());
        forge(&site, change);
        for restart in 0..3 {
            let daemon = site.start();
            let alerts = daemon.alerts();
            let known = alerts.iter().find(|known| known["alert_id"] == *alert).unwrap();
            assert_eq!(known["status"], "acknowledged", "{how}");
            await_that(&format!("{told} on the page, {how}, restart {restart}"), || {
                crate::support::page(&daemon.link, "/sources").contains(told)
            });
            let done = daemon.ask(&["doctor"]);
            assert_eq!(done.status.code(), Some(65), "{how}");
            let said = String::from_utf8_lossy(&done.stdout).into_owned();
            assert!(said.contains(told), "{how}: {said}");
            if restart == 1 {
                assert!(daemon.ask(&["alerts", "ack", &alert, "--note", "still"]).status.success());
            }
            assert!(daemon.stop().success());
        }
        let kinds =
            facts(&site.journal()).into_iter().filter(|(kind, _)| kind == "segment").count();
        assert_eq!(kinds, 1, "{how}");
    }
}
