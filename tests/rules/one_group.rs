//! A rule without fields to group by: all calls are one group, wherever a group shows.

use std::fs;

use serde_json::{Value, json};

use super::{ATTACK, Kept, text};
use crate::support::calltrail;

const ANYBODY: &str = "title: Anybody is busy
correlation:
  type: event_count
  rules: [reads, posts]
  timespan: 5m
  condition: {gte: 3}
tests:
  - name: three calls of two people
    events:
      - {at: 0, principal: ann, tool: get_ticket}
      - {at: 1, principal: bob, tool: get_ticket}
      - {at: 2, principal: ann, tool: post_comment}
    fires: [{group: {}, calls: [0-2]}]
  - name: two are too few
    events:
      - {at: 0, principal: ann, tool: get_ticket}
      - {at: 1, principal: bob, tool: get_ticket}
    fires: false
---
title: A read
name: reads
logsource: {product: mcp}
detection: {s: {tool.name: get_ticket}, condition: s}
---
title: A post
name: posts
logsource: {product: mcp}
detection: {s: {tool.name: post_comment}, condition: s}
";

fn of_rule(told: &[Value]) -> Vec<Value> {
    told.iter().filter(|told| told["rule"] == "anybody").cloned().collect()
}

#[test]
fn a_rule_without_groups_is_told_listed_replayed_and_explained() {
    let kept = Kept::of(ATTACK);
    let folder = kept.home.path().join("rules");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("anybody.yml"), ANYBODY).unwrap();
    let rules = ["--rules", text(&folder)];
    let check = || {
        let mut command = calltrail(kept.home.path());
        let done = command.args(["rules", "check", text(&folder)]).output().unwrap();
        let told = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8(told).unwrap())
    };
    let (is_good, told) = check();
    assert!(!is_good && told.contains("anybody.yml:1:1: there is no `group-by`"), "{told}");

    let meant = ANYBODY.replace("  timespan", "  group-by: []\n  timespan");
    fs::write(folder.join("anybody.yml"), meant).unwrap();
    assert!(check().0, "{}", check().1);
    let human = kept.text(&[&["rules", "list"], &rules[..]].concat());
    assert!(human.contains("(one group)"), "{human}");

    let found = of_rule(&kept.json(&[&["rules", "replay"], &rules[..]].concat()));
    let [alert] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!(alert["group"], json!({}));
    let stages: Vec<&Value> =
        alert["calls"].as_array().unwrap().iter().map(|call| &call["stage"]).collect();
    assert!(stages.contains(&&json!("reads")) && stages.contains(&&json!("posts")), "{stages:?}");

    let line = format!("{}:5", text(&kept.log()));
    let explain = [&["rules", "explain", &line], &rules[..]].concat();
    let explained = of_rule(&kept.json(&explain));
    assert_eq!((&explained[0]["matched"], &explained[0]["group"]), (&json!(true), &json!({})));
    let human = kept.text(&[&explain[..], &["--rule", "anybody"]].concat());
    assert!(human.contains("(event_count, all calls as one group)"), "{human}");
}
