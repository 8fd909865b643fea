//! Rule files that change while the daemon runs.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use serde_json::Value;

use super::{ATTACK, text};
use crate::support::{Daemon, await_that, calltrail, page, watch};

/// Three posts of one actor within a minute.
const POSTS: &str = "title: Posts\ncorrelation:\n  type: event_count\n  rules: [post]\n  group-by: [actor]\n  \
                     timespan: 60s\n  condition: {gte: 3}\n---\ntitle: A post\nname: post\n\
                     logsource: {product: mcp}\ndetection:\n  s: {tool.name: post_comment}\n  condition: s\n";

/// A daemon with a rules folder of the user's own.
struct Site {
    home: tempfile::TempDir,
    daemon: Daemon,
}

impl Site {
    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let (logs, rules) = (home.path().join("logs"), home.path().join("rules"));
        fs::create_dir(&logs).unwrap();
        fs::create_dir(&rules).unwrap();
        let daemon = Daemon::start_with(home.path(), &logs, &["--rules", text(&rules)]);
        Self { home, daemon }
    }

    /// With a configuration file that names the folder.
    fn configured() -> Self {
        let home = tempfile::tempdir().unwrap();
        for folder in ["logs", "rules", "others"] {
            fs::create_dir(home.path().join(folder)).unwrap();
        }
        let (logs, config) = (home.path().join("logs"), home.path().join("config.toml"));
        fs::write(&config, "[rules]\nfolder = \"rules\"\n").unwrap();
        let daemon = Daemon::start_with(home.path(), &logs, &["--config", text(&config)]);
        Self { home, daemon }
    }

    fn configure(&self, config: &str) {
        fs::write(self.home.path().join("config.toml"), config).unwrap();
    }

    fn rule(&self, name: &str) -> PathBuf {
        self.home.path().join("rules").join(name)
    }

    /// Appends lines, and waits until they are stored.
    fn append(&self, lines: &str) {
        let path = self.home.path().join("logs/audit.jsonl");
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        let before = self.records();
        file.write_all(lines.as_bytes()).unwrap();
        let wanted = before + lines.lines().count() as u64;
        self.daemon.await_count("select count(*) from records", wanted);
    }

    fn records(&self) -> u64 {
        self.daemon.query("select count(*) as n from records")[0]["n"].as_u64().unwrap()
    }

    fn page(&self, path: &str) -> String {
        page(&self.daemon.link, path)
    }

    fn await_page(&self, path: &str, what: &str, is_there: bool) {
        await_that(&format!("{what} on {path}: {is_there}"), || {
            self.page(path).contains(what) == is_there
        });
    }

    fn alerts_of(&self, rule: &str) -> Vec<Value> {
        let mut alerts = self.daemon.alerts();
        alerts.retain(|alert| alert["rule"] == rule);
        alerts
    }
}

/// A post of an actor, that many seconds after nine.
fn post(actor: &str, seconds: u32) -> String {
    let (minute, second) = (seconds / 60, seconds % 60);
    format!(
        "{{\"ts\": \"2026-11-20T09:{minute:02}:{second:02}.000000+00:00\", \"subject\": \"{actor}\", \
         \"client_id\": \"a\", \"tool\": \"post_comment\", \"params\": {{}}, \"dropped\": [], \"outcome\": \"ok\"}}\n"
    )
}

#[test]
fn a_new_file_is_in_force_with_the_past_that_its_calls_need() {
    let site = Site::start();
    site.append(ATTACK);
    site.append(&format!("{}{}", post("kim", 0), post("kim", 30)));
    await_that("the signature", || site.alerts_of("trifecta-signature").len() == 1);
    let before = site.alerts_of("trifecta-signature");
    fs::write(site.rule("posts.yml"), POSTS).unwrap();
    site.await_page("/rules", "posts", true);
    // Two of the three were stored before the rule was there.
    site.append(&post("kim", 60));
    await_that("the alert", || site.alerts_of("posts").len() == 1);
    let alert = &site.alerts_of("posts")[0];
    assert_eq!(alert["why"]["value"], 3);
    // Those found before stand as they are.
    let id = before[0]["alert_id"].as_str().unwrap();
    let others: Vec<Value> = site.alerts_of("trifecta-signature");
    assert_eq!(others[0]["alert_id"].as_str().unwrap(), id);
    assert!(others[0]["retracted"].is_null());

    // An episode goes on over a change of other rules.
    fs::write(site.rule("overrides.toml"), "[policy-bypass]\nlevel = \"low\"\n").unwrap();
    site.await_page("/rules", "overridden", true);
    site.append(&post("kim", 70));
    await_that("the second match", || site.alerts_of("posts")[0]["count"] == 2);
    assert_eq!(site.alerts_of("posts").len(), 1);

    // What is switched off finds nothing more, and what it found stands.
    fs::write(site.rule("overrides.toml"), "[posts]\ndisabled = true\n").unwrap();
    site.await_page("/rules", "switched off", true);
    site.append(&[0, 1, 2].map(|second| post("lee", second)).concat());
    site.append(&post("kim", 75));
    assert_eq!(site.alerts_of("posts").len(), 1);
    assert_eq!(site.alerts_of("posts")[0]["count"], 2);
}

#[test]
fn a_rule_that_takes_all_calls_as_one_group_reads_their_past_and_is_shown() {
    let site = Site::start();
    site.append(&format!("{}{}", post("kim", 0), post("lee", 30)));
    fs::write(site.rule("posts.yml"), POSTS.replace("  group-by: [actor]\n", "")).unwrap();
    site.await_page("/rules", "within 60 s, all calls as one group", true);
    // Two of the three were stored before the rule was there.
    site.append(&post("mo", 60));
    await_that("the alert", || site.alerts_of("posts").len() == 1);
    let alert = &site.alerts_of("posts")[0];
    assert_eq!((&alert["why"]["value"], &alert["group"]), (&3.into(), &serde_json::json!({})));
    site.append(&post("kim", 70));
    await_that("the second match", || site.alerts_of("posts")[0]["count"] == 2);
    let shown = site.page(&format!("/incidents/{}", alert["alert_id"].as_str().unwrap()));
    assert!(["kim", "lee", "mo"].iter().all(|who| shown.contains(who)), "{shown}");
}

#[test]
fn a_broken_file_is_refused_with_a_banner_and_the_rules_before_it_stay() {
    let site = Site::start();
    fs::write(site.rule("posts.yml"), POSTS).unwrap();
    site.await_page("/rules", "posts", true);
    fs::write(site.rule("posts.yml"), POSTS.replace("gte: 3", "lte: 3")).unwrap();
    fs::write(site.rule("overrides.toml"), "[no-such]\ncount = 3\n[posts]\ncuont = 2\n").unwrap();
    let banner = "are refused, and those read before stay in force";
    for path in ["/", "/calls", "/sources", "/rules"] {
        site.await_page(path, banner, true);
    }
    let rules = site.page("/rules");
    assert!(rules.contains("posts.yml:7:") && rules.contains("overrides.toml:4:"), "{rules}");
    site.append(&[0, 20, 40].map(|second| post("kim", second)).concat());
    await_that("the alert of the rules before", || site.alerts_of("posts").len() == 1);

    // Repaired, with another threshold.
    fs::write(site.rule("posts.yml"), POSTS.replace("gte: 3", "gte: 2")).unwrap();
    fs::remove_file(site.rule("overrides.toml")).unwrap();
    site.await_page("/", banner, false);
    site.append(&[0, 20].map(|second| post("lee", second)).concat());
    await_that("the alert of the repaired rule", || site.alerts_of("posts").len() == 2);
    assert!(site.daemon.stop().success());
}

#[test]
fn what_overrides_make_doubtful_is_in_the_log_from_the_start() {
    let home = tempfile::tempdir().unwrap();
    let [logs, rules] = ["logs", "rules"].map(|name| home.path().join(name));
    fs::create_dir(&logs).unwrap();
    fs::create_dir(&rules).unwrap();
    let overrides = "[rubber-stamp.numbers]\n\"ask_to_answer_ms|lt\" = 0\n";
    fs::write(rules.join("overrides.toml"), overrides).unwrap();
    let log = home.path().join("stderr");
    let mut command = calltrail(home.path());
    command.args(watch(&["--rules", text(&rules)])).arg(&logs);
    let daemon = Daemon::launch(home.path(), command.stderr(File::create(&log).unwrap())).unwrap();
    let doubt = "overrides.toml:2:1: with this, `rubber-stamp` is in doubt";
    assert!(fs::read_to_string(&log).unwrap().contains(doubt));
    let rules = page(&daemon.link, "/rules");
    assert!(rules.contains(doubt) && rules.contains("data-alarms=\"0\""), "{rules}");
    // `rules list` tells it as well.
    let listed = daemon.ask(&["rules", "list", "--rules", text(&home.path().join("rules"))]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains(doubt));
}

#[test]
fn alerts_of_a_changed_rule_stand_until_something_happens_in_their_group() {
    let site = Site::start();
    fs::write(site.rule("posts.yml"), POSTS).unwrap();
    site.await_page("/rules", "posts", true);
    let posts = |actor: &str| [0, 20, 40].map(|second| post(actor, second)).concat();
    site.append(&(posts("kim") + posts("lee").as_str()));
    await_that("both alerts", || site.alerts_of("posts").len() == 2);
    fs::write(site.rule("overrides.toml"), "[posts]\ncount = 5\n").unwrap();
    site.await_page("/rules", "overridden", true);
    site.append(&post("kim", 50));
    await_that("the change of one", || {
        site.alerts_of("posts").iter().any(|alert| !alert["retracted"].is_null())
    });
    for alert in site.alerts_of("posts") {
        let is_retracted = alert["group"]["actor"] == "kim";
        assert_eq!(!alert["retracted"].is_null(), is_retracted, "{alert}");
        let reason = alert["retracted"].as_str().unwrap_or("the rule was changed");
        assert!(reason.contains("the rule was changed"), "{reason}");
    }
}

#[test]
fn the_configuration_names_another_folder_and_other_rules_while_the_daemon_runs() {
    let site = Site::configured();
    fs::write(site.home.path().join("others/posts.yml"), POSTS).unwrap();
    site.configure("[rules]\nfolder = \"others\"\n");
    site.await_page("/rules", "posts", true);
    site.append(&[0, 20, 40].map(|second| post("kim", second)).concat());
    await_that("the alert", || site.alerts_of("posts").len() == 1);
    site.configure("[rules]\nfolder = \"others\"\ndisabled = [\"posts\"]\n");
    site.await_page("/rules", "switched off", true);
    // A configuration that is broken, and one that names what there is not, are refused.
    for broken in ["[rules\n", "[rules]\nfolder = \"others\"\ndisabled = [\"no-such\"]\n"] {
        site.configure(broken);
        site.await_page("/", "stay in force", true);
        site.configure("[rules]\nfolder = \"others\"\n");
        site.await_page("/", "stay in force", false);
    }
    site.append(&[0, 20, 40].map(|second| post("lee", second)).concat());
    await_that("the other alert", || site.alerts_of("posts").len() == 2);
}

#[test]
fn a_folder_that_is_gone_is_told_and_its_rules_stay() {
    let site = Site::start();
    fs::write(site.rule("posts.yml"), POSTS).unwrap();
    site.await_page("/rules", "posts", true);
    fs::rename(site.home.path().join("rules"), site.home.path().join("moved")).unwrap();
    site.await_page("/", "those read before stay in force", true);
    site.append(&[0, 20, 40].map(|second| post("kim", second)).concat());
    await_that("the alert", || site.alerts_of("posts").len() == 1);
    fs::rename(site.home.path().join("moved"), site.home.path().join("rules")).unwrap();
    site.await_page("/", "those read before stay in force", false);
}
