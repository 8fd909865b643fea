//! `rules replay`: what would have fired, with the ids that it has, and nothing written.

use std::fs;

use calltrail::model::Micros;
use calltrail::simulate::{Scenario, SimEvent, Simulation};
use serde_json::Value;

use super::{ATTACK, Kept, text};
use crate::support::alert_ids;

#[test]
fn the_rules_in_force_give_the_alerts_that_are_stored() {
    let kept = Kept { home: tempfile::tempdir().unwrap() };
    let start = Micros::parse_rfc3339("2026-01-05T07:00:00Z").unwrap();
    let mut scenario = Scenario::new(7, start, 1500);
    scenario.attack_every = 100;
    for event in Simulation::new(&scenario) {
        let SimEvent::Line(line) = event else { continue };
        let path = kept.logs().join(&*line.file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut all = fs::read_to_string(&path).unwrap_or_default();
        all.push_str(&line.text);
        all.push('\n');
        fs::write(path, all).unwrap();
    }
    kept.scan();
    let stored = kept.json(&["alerts", "list"]);
    let stands = |alert: &&Value| alert["retracted"].is_null();
    let expected: Vec<Value> = stored.iter().filter(stands).cloned().collect();
    assert!(expected.len() >= 6);
    let replayed = kept.json(&["rules", "replay"]);
    assert_eq!(alert_ids(&replayed), alert_ids(&expected));
    for alert in &replayed {
        let same = expected.iter().find(|other| other["alert_id"] == alert["alert_id"]).unwrap();
        for key in ["rule", "level", "group", "first_seen", "last_seen", "count", "why"] {
            assert_eq!(alert[key], same[key], "{key}");
        }
    }
    let files =
        |alert: &Value| alert["calls"][0]["witnesses"][0]["file"].as_str().unwrap().to_owned();
    assert!(files(&replayed[0]).starts_with(text(&kept.logs())));
    // Nothing was written.
    assert_eq!(kept.json(&["alerts", "list"]), stored);

    // From the middle on, alerts of that time are as they are.
    let middle = &expected[expected.len() / 2]["first_seen"];
    let late = kept.json(&["rules", "replay", "--from", middle.as_str().unwrap()]);
    let is_late = |alert: &&Value| alert["last_seen"].as_str() >= middle.as_str();
    let expected: Vec<Value> = expected.iter().filter(is_late).cloned().collect();
    assert_eq!(alert_ids(&late), alert_ids(&expected));
}

#[test]
fn a_rule_file_is_tried_without_being_in_force() {
    let kept = Kept::of(ATTACK);
    let rule = kept.home.path().join("any-post.yml");
    let text_of = "title: A post\nlogsource: {product: mcp}\ndetection:\n  \
                   s: {tool.name: post_comment}\n  condition: s\n";
    fs::write(&rule, text_of).unwrap();
    let told = kept.text(&["rules", "replay", "--rule", text(&rule)]);
    assert!(told.contains("any-post would have fired 3 times."), "{told}");
    assert!(told.contains("10 calls looked at; nothing was written."), "{told}");
    assert!(!told.contains("trifecta"), "{told}");
    let until = ["rules", "replay", "--rule", text(&rule), "--to", "2026-11-20T08:00:02Z"];
    assert!(kept.text(&until).contains("any-post would have fired 1 time."));
    let named = kept.text(&["rules", "replay", "--rule", "trifecta-signature"]);
    assert!(named.contains("trifecta-signature would have fired 1 time."), "{named}");
    assert!(!named.contains("call-burst"), "{named}");
    fs::write(&rule, "title: A post\n").unwrap();
    let (done, code) = kept.run(&["rules", "replay", "--rule", text(&rule)]);
    assert_eq!(code, 65);
    assert!(String::from_utf8_lossy(&done.stderr).contains("any-post.yml:1:"));
    assert_eq!(kept.run(&["rules", "replay", "--rule", "no-such"]).1, 66);
    // Files of two folders would be two rules of one name.
    fs::write(&rule, text_of).unwrap();
    fs::create_dir(kept.home.path().join("other")).unwrap();
    let other = kept.home.path().join("other/any-post.yml");
    fs::write(&other, text_of).unwrap();
    let both = ["rules", "replay", "--rule", text(&rule), "--rule", text(&other)];
    let (done, code) = kept.run(&both);
    assert_eq!(code, 65);
    assert!(String::from_utf8_lossy(&done.stderr).contains("there is another rule `any-post`"));
    let backwards =
        ["rules", "replay", "--from", "2026-11-20T08:00:02Z", "--to", "2026-11-20T08:00:01Z"];
    assert_eq!(kept.run(&backwards).1, 64);
    assert!(kept.json(&["alerts", "list"]).iter().all(|alert| alert["rule"] != "any-post"));
}

#[test]
fn a_rule_file_is_tried_as_the_overrides_change_it() {
    let kept = Kept::of(ATTACK);
    let folder = kept.home.path().join("own-rules");
    fs::create_dir(&folder).unwrap();
    let rule = folder.join("any-post.yml");
    let text_of = "title: A post\nlogsource: {product: mcp}\ndetection:\n  \
                   s: {tool.name: post_comment}\n  condition: s\n";
    fs::write(&rule, text_of).unwrap();
    let other = kept.home.path().join("any-post.yml");
    fs::write(&other, text_of.replace("post_comment", "post_*")).unwrap();
    let tried =
        || kept.text(&["rules", "replay", "--rules", text(&folder), "--rule", text(&other)]);
    assert!(tried().contains("any-post would have fired 3 times."), "{}", tried());
    assert!(!tried().contains("overrides.toml"), "{}", tried());
    let overrides = "[any-post]\ndisabled = true\n[[any-post.except]]\ntool = \"post_*\"\n\
                     [call-burst]\ncount = 30\n";
    fs::write(folder.join("overrides.toml"), overrides).unwrap();
    assert!(tried().contains("any-post would have fired 0 times."), "{}", tried());
    let told = "any-post was tried as overrides.toml changes it: disabled; except tool post_*.";
    assert!(tried().contains(told), "{}", tried());
}
