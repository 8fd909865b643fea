//! `overrides.toml`: what it changes, how it is shown, and that nothing wrong in it is passed over.

use std::fs;

use serde_json::json;

use super::{ATTACK, Kept, text};

#[test]
fn rules_are_listed_with_what_is_changed_of_them() {
    let kept = Kept::of(ATTACK);
    let folder = kept.home.path().join("rules");
    fs::create_dir(&folder).unwrap();
    let own =
        "title: Mine\nlogsource: {product: mcp}\ndetection:\n  s: {ran: no}\n  condition: s\n";
    fs::write(folder.join("mine.yml"), own).unwrap();
    let overrides = "[call-burst]\ncount = 40\nlevel = \"low\"\n[trifecta-signature]\ndisabled = true\n\
                     [[mine.except]]\nprincipal = \"backup-*\"\n";
    fs::write(folder.join("overrides.toml"), overrides).unwrap();
    let rules = ["--rules", text(&folder)];
    let listed = kept.json(&[&["rules", "list"], &rules[..]].concat());
    let of = |name: &str| listed.iter().find(|rule| rule["rule"] == name).unwrap();
    let burst = of("call-burst");
    assert_eq!(burst["overrides"], json!(["level low", "count 40"]));
    assert_eq!((&burst["level"], &burst["count"]), (&json!("low"), &json!(40)));
    assert_eq!((&burst["type"], &burst["origin"]), (&json!("event_count"), &json!("built-in")));
    let off = of("trifecta-signature");
    assert_eq!((&off["disabled"], &off["type"]), (&json!(true), &json!("temporal_ordered")));
    let mine = of("mine");
    assert_eq!(mine["file"], text(&folder.join("mine.yml")));
    assert_eq!(mine["overrides"], json!(["except principal backup-*"]));
    let human = kept.text(&[&["rules", "list"], &rules[..]].concat());
    assert!(human.contains("overrides.toml: except principal backup-*"), "{human}");
    // What is switched off finds nothing.
    let signatures = |arguments: &[&str]| {
        let alerts = kept.json(&[&["rules", "replay"], arguments].concat());
        alerts.iter().filter(|alert| alert["rule"] == "trifecta-signature").count()
    };
    assert_eq!((signatures(&rules), signatures(&[])), (0, 1));
}

#[test]
fn an_exception_takes_calls_out_of_the_rule() {
    let kept = Kept::of(ATTACK);
    let folder = kept.home.path().join("rules");
    fs::create_dir(&folder).unwrap();
    let alerts = |overrides: &str| {
        fs::write(folder.join("overrides.toml"), overrides).unwrap();
        let rule = ["rules", "replay", "--rule", "trifecta-signature", "--rules", text(&folder)];
        kept.json(&rule).len()
    };
    assert_eq!(alerts("[[trifecta-signature.except]]\nprincipal = \"u-ann\"\n"), 1);
    assert_eq!(alerts("[[trifecta-signature.except]]\nprincipal = \"u-ENG\"\n"), 0);
    assert_eq!(alerts("[[trifecta-signature.except]]\ntool = \"post_*\"\ntenant = \"acme\"\n"), 0);
    assert_eq!(
        alerts("[[trifecta-signature.except]]\ntool = \"post_*\"\ntenant = \"globex\"\n"),
        1
    );
}

#[test]
fn everything_wrong_is_told_at_once_with_its_line() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("rules");
    fs::create_dir(&folder).unwrap();
    let overrides = "[call-brust]\ncount = 3\n[call-burst]\ncount = -1\nlevel = \"loud\"\n";
    fs::write(folder.join("overrides.toml"), overrides).unwrap();
    let run = |arguments: &[&str]| {
        let done = crate::support::calltrail(home.path()).args(arguments).output().unwrap();
        let all = [done.stdout, done.stderr].concat();
        (done.status.code().unwrap(), String::from_utf8(all).unwrap())
    };
    for arguments in [["rules", "check", text(&folder)], ["rules", "list", "--rules"]] {
        let arguments = if arguments[2] == "--rules" {
            vec!["rules", "list", "--rules", text(&folder)]
        } else {
            arguments.to_vec()
        };
        let (code, told) = run(&arguments);
        assert_eq!(code, 65, "{told}");
        assert!(told.contains("overrides.toml:4:") && told.contains("overrides.toml:5:"), "{told}");
    }
    fs::write(folder.join("overrides.toml"), "[call-brust]\ncount = 3\n").unwrap();
    let (code, told) = run(&["rules", "check", text(&folder)]);
    assert_eq!(code, 65);
    assert!(
        told.contains("overrides.toml:1:") && told.contains("did you mean `call-burst`"),
        "{told}"
    );
}

#[test]
fn overrides_that_are_good_doubtful_or_misnamed_are_told_by_the_check() {
    let home = tempfile::tempdir().unwrap();
    let check = |name: &str, body: &str| {
        let folder = home.path().join("rules");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("overrides.toml"), "[call-burst]\ncount = 3\n").unwrap();
        fs::write(folder.join(name), body).unwrap();
        let arguments = ["rules", "check", text(&folder)];
        let done = crate::support::calltrail(home.path()).args(arguments).output().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let all = [done.stdout, done.stderr].concat();
        (done.status.code().unwrap(), String::from_utf8(all).unwrap())
    };
    let (code, told) = check("notes.md", "");
    assert_eq!((code, &*told), (0, "overrides.toml is good: 1 rule changed.\n"));
    let (code, told) = check("override.toml", "");
    assert!(code == 65 && told.contains("override.toml:1:1: this is not read"), "{told}");
    let doubtful = "[rubber-stamp.numbers]\n\"ask_to_answer_ms|lt\" = 0\n";
    let (code, told) = check("overrides.toml", doubtful);
    assert!(code == 65 && told.contains("overrides.toml:2:1: with this, `rubber-stamp`"), "{told}");
}
