//! `rules test` over raw lines: with the configuration for files of one's own, and with none for built-in ones.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::text;
use crate::support::{calltrail, json_lines};

const CONFIG: &str =
    "[outcomes]\n\"done deal\" = \"ok\"\n\n[tail]\npath_patterns = [\"{tenant}/*.jsonl\"]\n";
const LABELS: &str = "[[tool]]\nname = \"shred\"\ndestructive = true\n\n\
                      [[tool]]\nserver = \"tickets\"\nname = \"fetch_url\"\nopen-world = false\n";
const RULE: &str = r#"title: Something was shredded
logsource: {product: mcp}
detection:
  s: {tool.destructive: yes, outcome: ok, tenant: acme}
  condition: s
tests:
  - name: as the log says
    dialect: gate
    lines:
      - log: acme/desk.jsonl
        lines: |
          {"caller":"ann","tool":"list_dir","outcome":"done deal","duration_ms":1,"time":1795161600}
          {"caller":"ann","tool":"shred","outcome":"done deal","duration_ms":1,"time":1795161601}
    fires: [{group: {actor: ann}, lines: [1]}]
  - name: in another folder
    dialect: gate
    lines: ['{"caller":"ann","tool":"shred","outcome":"done deal","duration_ms":1,"time":1795161601}']
    fires: false
"#;

fn run(home: &Path, arguments: &[&str]) -> (Vec<Value>, i32, String) {
    let done = calltrail(home).args(arguments).args(["--output", "json"]).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    (json_lines(&done), done.status.code().unwrap_or(-1), told)
}

/// The case and why it failed, of those that did.
fn failed(results: &[Value]) -> Vec<(&str, &str)> {
    let failed = results.iter().filter(|result| !result["failure"].is_null());
    failed.filter_map(|result| result["case"].as_str().zip(result["failure"].as_str())).collect()
}

#[test]
fn lines_of_ones_own_rules_are_read_with_the_configuration() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    fs::create_dir(path("rules")).unwrap();
    fs::write(path("rules/mine.yml"), RULE).unwrap();
    fs::write(path("labels.toml"), LABELS).unwrap();
    fs::write(path("config.toml"), CONFIG).unwrap();
    let (config, labels) = (path("config.toml"), path("labels.toml"));
    let folder = path("rules");
    let with = ["--config", text(&config), "--catalogue", text(&labels)];
    let (results, code, told) =
        run(home.path(), &[&["rules", "test", text(&folder)], &with[..]].concat());
    assert_eq!((code, failed(&results)), (0, Vec::new()), "{told}");
    assert!(results.len() >= 8, "{results:?}");
    let (_, code, told) = run(home.path(), &["rules", "check", text(&folder)]);
    assert_eq!(code, 0, "{told}");

    // Without it the words and the tool mean nothing.
    let (results, code, _) = run(home.path(), &["rules", "test", text(&folder)]);
    assert_eq!(code, 1);
    let expected = "gave nothing; of the lines 0 is list_dir unknown, ran maybe; 1 is shred unknown, ran maybe";
    assert_eq!(failed(&results), [("as the log says", expected)]);

    // What is built in is tested as it was built, whatever the configuration.
    let with = [&["rules", "test", "--rules", text(&folder)], &with[..]].concat();
    let (results, code, told) = run(home.path(), &with);
    assert_eq!((code, failed(&results)), (0, Vec::new()), "{told}");
    assert!(results.iter().any(|result| result["rule"] == "trifecta-signature"));
    fs::write(path("config.toml"), "[outcomes]\nx = 1\n").unwrap();
    let (.., code, _) = run(home.path(), &with);
    assert_eq!(code, 78, "lines of one's own need the configuration");
}

#[test]
fn a_line_that_cannot_be_read_fails_its_case_and_is_shown_inert() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("rules");
    fs::create_dir(&folder).unwrap();
    let rule = RULE.replace(
        "{\"caller\":\"ann\",\"tool\":\"shred\"",
        "{\"\\u001b[31mx\":1,\"tool\":\"shred\"",
    );
    let rule = rule.replace("name: as the log says", "name: \"as \\e the log says\"");
    let odd = folder.join("a\u{1b}[31mred.yml");
    fs::write(&odd, rule).unwrap();
    let done = calltrail(home.path()).args(["rules", "test", text(&folder)]).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let told = String::from_utf8(done.stdout).unwrap();
    assert!(told.contains("[31mred "), "{told}");
    assert!(told.contains("the log says (as written): line 1 cannot be read: "), "{told}");
    assert!(!told.contains('\u{1b}'), "{told}");

    fs::remove_file(odd).unwrap();
    let rule = RULE.replace("dialect: gate", "dialect: gte");
    fs::write(folder.join("mine.yml"), rule).unwrap();
    let (problems, code, _) = run(home.path(), &["rules", "check", text(&folder)]);
    assert_eq!((code, problems.len()), (65, 2));
    assert_eq!((&problems[0]["line"], &problems[0]["column"]), (&8.into(), &14.into()));
    assert!(problems[0]["message"].as_str().unwrap().contains("did you mean `gate`?"));
}
