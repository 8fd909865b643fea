//! `rules explain`: by id, by line, closed and beside the daemon.

use std::fs;
use std::io::Write as _;

use serde_json::{Value, json};

use super::{ATTACK, Kept, text};
use crate::support::Daemon;

fn of_rule<'a>(told: &'a [Value], rule: &str) -> &'a Value {
    told.iter().find(|told| told["rule"] == rule).unwrap()
}

#[test]
fn a_line_is_explained_with_its_stage_its_alert_and_what_others_lacked() {
    let kept = Kept::of(ATTACK);
    let line = format!("{}:3", text(&kept.log()));
    let told = kept.json(&["rules", "explain", &line]);
    let alerts = kept.json(&["alerts", "list"]);
    let alert = of_rule(&alerts, "trifecta-signature")["alert_id"].clone();
    let trifecta = of_rule(&told, "trifecta-signature");
    assert_eq!(trifecta["matched"], true);
    assert_eq!(trifecta["alerts"][0]["alert_id"], alert);
    assert_eq!(trifecta["alerts"][0]["stage"], trifecta["stages"][1]["name"]);
    let fits: Vec<&Value> =
        trifecta["stages"].as_array().unwrap().iter().map(|stage| &stage["fits"]).collect();
    assert_eq!(fits, [false, true, false]);
    let burst = of_rule(&told, "call-burst");
    assert_eq!(burst["missing"], json!(["2 of 20 calls within 60 s"]));
    let id = told[0]["call_id"].as_str().unwrap();
    assert_eq!(kept.json(&["rules", "explain", id]), told);

    let human = kept.text(&["rules", "explain", id, "--rule", "trifecta-signature"]);
    assert!(human.contains(&format!("part of alert {}", alert.as_str().unwrap())), "{human}");
    assert!(human.contains("yes tool.sensitive: yes   it has: yes"), "{human}");
    assert!(!human.contains("call-burst"), "{human}");
    // Ann fetched and posted, and read nothing between.
    let post = kept.json(&["rules", "explain", &format!("{}:7", text(&kept.log()))]);
    let missing = of_rule(&post, "trifecta-signature")["missing"][0].as_str().unwrap();
    assert!(missing.contains("did not come before it within 60 s"), "{missing}");
}

#[test]
fn a_line_of_a_compressed_rotation_is_explained() {
    let kept = Kept { home: tempfile::tempdir().unwrap() };
    fs::create_dir(kept.logs()).unwrap();
    let packed = kept.logs().join("audit.jsonl.1.gz");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(ATTACK.as_bytes()).unwrap();
    fs::write(&packed, encoder.finish().unwrap()).unwrap();
    kept.scan();
    let told = kept.json(&["rules", "explain", &format!("{}:3", text(&packed))]);
    assert_eq!(of_rule(&told, "trifecta-signature")["matched"], true);
    let (done, code) = kept.run(&["rules", "explain", &format!("{}:11", text(&packed))]);
    assert_eq!(code, 66);
    assert!(String::from_utf8(done.stderr).unwrap().contains("no line 11"));
}

#[test]
fn a_line_without_a_call_says_what_became_of_it() {
    let kept = Kept::of(ATTACK);
    let asked = |line: &str| {
        let (done, code) = kept.run(&["rules", "explain", line]);
        assert_eq!(code, 66);
        String::from_utf8(done.stderr).unwrap()
    };
    let log = text(&kept.log()).to_owned();
    assert!(asked(&format!("{log}:11")).contains("no line 11"));
    let other = kept.home.path().join("other.jsonl");
    fs::write(&other, ATTACK).unwrap();
    assert!(asked(&format!("{}:1", text(&other))).contains("none of the logs"));
    fs::write(kept.log(), format!("{ATTACK}oh dear\n")).unwrap();
    assert!(asked(&format!("{log}:11")).contains("was not read"));
    let (_, code) = kept.run(&["scan", text(&kept.logs())]);
    assert_eq!(code, 2);
    assert!(asked(&format!("{log}:11")).contains("could not be read"));
}

#[test]
fn beside_a_running_daemon_the_same_is_told() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    fs::create_dir(&logs).unwrap();
    fs::write(logs.join("audit.jsonl"), ATTACK).unwrap();
    let daemon = Daemon::start(home.path(), &logs);
    daemon.await_count("select count(*) from alerts where rule = 'trifecta-signature'", 1);
    let line = format!("{}:5", text(&logs.join("audit.jsonl")));
    let done = daemon.ask(&["rules", "explain", "--output", "json", &line]);
    let told = crate::support::json_lines(&done);
    let alert = &of_rule(&told, "trifecta-signature")["alerts"][0];
    let alerts = daemon.alerts();
    assert_eq!(alert["alert_id"], of_rule(&alerts, "trifecta-signature")["alert_id"]);
    let replayed =
        daemon.ask(&["rules", "replay", "--rule", "trifecta-signature", "--output", "json"]);
    assert_eq!(crate::support::json_lines(&replayed)[0]["alert_id"], alert["alert_id"]);
}
