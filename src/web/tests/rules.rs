//! The pages of the rules.

use super::*;
use crate::web::RulesShown;

#[tokio::test]
async fn every_rule_is_listed_with_what_it_found_and_what_it_costs() {
    let site = Site::new(world());
    let page = site.get("/rules").await;
    assert_eq!(page.status, StatusCode::OK);
    for text in [
        "1 rule in force, 1 switched off",
        "event_count, 40 or more within 60 s, by session, tool.name",
        "overridden: <bdi>except principal backup</bdi>",
        "quiet\"><bdi>overrides.toml:2:1: with this, `call-burst` is in doubt</bdi>",
        "href=\"/?rule=call-burst\"",
        "<td class=\"num\">1.5 s</td><td class=\"num\">0.75 µs</td>",
        "100 %",
        "1,204",
        "aria-current=\"page\">Rules",
        "/etc/calltrail/rules/mine.yml",
        "href=\"/rules/mine%2F1%20%26%20more\"",
        "never",
    ] {
        assert!(page.body.contains(text), "{text}");
    }
    assert_eq!(page.body.matches("is in doubt").count(), 1);
    // A doubt refuses nothing, and no other page tells it.
    assert!(!page.body.contains("refused") && page.body.contains("data-alarms=\"0\""));
}

#[tokio::test]
async fn a_rules_page_has_its_text_its_tests_and_its_words() {
    let site = Site::new(world());
    let page = site.get("/rules/call-burst").await;
    assert_eq!(page.status, StatusCode::OK);
    for text in [
        "A session called one sensitive tool unusually often.",
        "A nightly export",
        "<bdi>  type: event_count</bdi>",
        "<span class=\"tag label\">fires</span> <bdi>twenty in a minute</bdi>",
        "<dt>In doubt</dt>",
        "<span class=\"tag\">silent</span> <bdi>nineteen</bdi></li>",
        "<bdi>a client&#39;s log and a server&#39;s</bdi> <span class=\"quiet small\">raw lines: ",
        "raw lines: <bdi>two-sided, tenant</bdi></span></li>",
        "12,345",
        "https://example.org/burst",
    ] {
        assert!(page.body.contains(text), "{text}");
    }
    assert!(page.body.contains("[masked]") && !page.body.contains("hunter2"));
    // A reference is told and leads nowhere.
    assert!(!page.body.contains("href=\"https://example.org"));
    let odd = site.get("/rules/mine%2F1%20%26%20more").await;
    assert_eq!(odd.status, StatusCode::OK);
    assert!(!odd.body.contains("In doubt"));
    assert!(odd.body.contains("switched off") && odd.body.contains("The file holds no cases."));
    assert_eq!(site.get("/rules/no-such").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn refused_files_are_told_on_every_page_and_whole_on_their_own() {
    let site = Site::new(world());
    site.rules.send_modify(|shown| shown.refused = Some("a.yml:3: this\nb.yml:4: that".to_owned()));
    site.health.send_modify(|health| {
        health.rules_refused = Some("The changed rules are refused.".to_owned());
    });
    for path in ["/", "/rules", "/sources"] {
        assert!(site.get(path).await.body.contains("The changed rules are refused."), "{path}");
    }
    // Lines are lines, and each of them is inert.
    site.health.send_modify(|health| {
        health.rules_refused = Some("refused:\n3 | <b>x\r\n  | \u{202e}y".to_owned());
    });
    let page = site.get("/").await.body;
    let lines = "<bdi>refused:</bdi><br><bdi>3 | &#60;b&#62;x</bdi><br><bdi>  | \\u{202e}y</bdi>";
    assert!(page.contains(lines), "{page}");
    assert!(page.contains("data-alarms=\"1\""), "one alarm, whatever its lines");
    let page = site.get("/rules").await.body;
    assert!(page.contains("<bdi>a.yml:3: this</bdi>") && page.contains("<bdi>b.yml:4: that</bdi>"));
    site.rules.send_replace(RulesShown::default());
    assert_eq!(site.get("/rules").await.status, StatusCode::OK);
}

#[test]
fn what_is_built_in_is_shown_as_it_is_written() {
    let mut files = 0;
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/rules")).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        if path.extension().is_some_and(|extension| extension == "yml") {
            assert_eq!(crate::mask::mask_text(&text), text, "{}", path.display());
            files += 1;
        }
    }
    assert!(files > 10);
}
