//! Logs that attack whoever looks at them: every field holds markup, scripts, marks that turn text around, and more
//! text than anybody reads.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::chrome::Chrome;
use crate::support::Daemon;

const SCRIPT: &str = "<script>window.hacked=1</script>";
/// As a reader must see it.
const TURNED: &str = "\\u{202e}gnp.exe\\u{2066}";

#[test]
fn a_hostile_log_is_shown_and_does_nothing() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    write_logs(&logs);
    let daemon = Daemon::start(home.path(), &logs);
    daemon.await_count("select least(count(distinct rule), 2) from alerts", 2);
    daemon.await_count("select count(*) from rejects", 2);

    let chrome = Chrome::start();
    watch_the_policy(&chrome);
    chrome.open(&daemon.link);
    let site = daemon.link.split("/login").next().unwrap();
    let mut seen = String::new();
    let mut pictures = BTreeSet::new();
    let mut visit = |path: &str| {
        chrome.open(&format!("{site}{path}"));
        assert_inert(&chrome, path);
        if pictures.insert(path.split('/').nth(1).unwrap_or_default().to_owned()) {
            chrome.take_picture(&format!("hostile-{}", pictures.len()));
        }
        seen.push_str(chrome.run("return document.body.innerText").as_str().unwrap());
    };
    let paths = |selector: &str| -> BTreeSet<String> {
        let links = chrome.properties(selector, "href");
        links.iter().map(|link| link.trim_start_matches(site).to_owned()).collect()
    };
    visit("/");
    let incidents = paths("#incidents a.title");
    let actors = paths("#incidents a.soft");
    assert!(incidents.len() >= 2);
    assert!(!actors.is_empty());
    let mut calls = BTreeSet::new();
    for path in &incidents {
        visit(path);
        calls.extend(paths("tr.call-row th a"));
    }
    assert!(calls.len() >= 10);
    let mut sessions = BTreeSet::new();
    for path in &calls {
        visit(path);
        sessions.extend(paths("a[href^='/sessions/of/']"));
    }
    assert!(sessions.len() >= 10);
    for path in sessions.iter().take(3) {
        visit(path);
        assert!(chrome.count("table.calls tbody tr") >= 1, "{path} lists the session's calls");
    }
    visit("/sources");
    visit("/?q=%22%3E%3Cimg+src%3Dx+onerror%3Dwindow.hacked%3D1%3E&rule=%E2%80%AEx&actor=%1B[31m");
    for path in &actors {
        visit(path);
        assert!(chrome.count("#incidents tbody tr") >= 1, "{path} lists the actor's incidents");
        // What the form holds is what was asked for: sending it again finds the same.
        chrome.follow("form.filter button");
        assert!(chrome.count("#incidents tbody tr") >= 1, "{path} sent again");
        assert_inert(&chrome, path);
    }
    for text in [SCRIPT, "<img src=x", "javascript:window.hacked=1", TURNED, "\\u{1b}[2J", "\\u{0}"]
    {
        assert!(seen.contains(text), "{text} is not shown");
    }
    assert_eq!(chrome.complaints(), Vec::<String>::new());
}

#[test]
fn a_hostile_name_in_a_filter_of_calls_is_a_name() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    write_logs(&logs);
    let daemon = Daemon::start(home.path(), &logs);
    daemon.await_count("select count(*) from calls", 17);
    let chrome = Chrome::start();
    watch_the_policy(&chrome);
    chrome.open(&daemon.link);
    let site = daemon.link.split("/login").next().unwrap();
    let filter =
        "actor=%22%3E%3Cimg+src%3Dx+onerror%3Dwindow.hacked%3D1%3E&tool=%E2%80%AEx&outcome=%1B[31m";
    for (path, rows) in [
        ("/calls", 17),
        (&*format!("/calls?{filter}"), 0),
        ("/calls?tool=%E2%80%AEgnp.exe%E2%81%A6", 1),
    ] {
        chrome.open(&format!("{site}{path}"));
        assert_eq!(chrome.count("table.calls tbody tr"), rows, "{path}");
        assert_inert(&chrome, path);
        // What the form holds is what was asked for: sending it again finds the same.
        chrome.follow("form.filter button");
        assert_eq!(chrome.count("table.calls tbody tr"), rows, "{path} sent again");
        assert_inert(&chrome, path);
    }
    assert_eq!(chrome.complaints(), Vec::<String>::new());
}

/// Two attacks by people and with tools of hostile names, and lines that are none.
fn write_logs(logs: &Path) {
    let folder = logs.join("<img src=x onerror=window.hacked=1>");
    fs::create_dir_all(&folder).unwrap();
    let mut lines: Vec<String> = Vec::new();
    let attack = ["fetch_url", "search_tickets", "post_comment"];
    let calls = ["fetch_url"].into_iter().chain(payloads_as_str()).chain(attack);
    for (second, tool) in calls.enumerate() {
        let mut call = hostile_fields();
        call["tool"] = json!(tool);
        call["outcome"] = json!("COMPLETED");
        call["ts"] = json!(format!("2026-11-20T08:00:{second:02}Z"));
        lines.push(call.to_string());
    }
    // Somebody is refused again and again, and gets in at last.
    for second in 20..27 {
        let mut call = hostile_fields();
        let payload = payloads()[second % 8].clone();
        call["subject"] = json!(format!("mallory {SCRIPT} {TURNED_RAW}"));
        call["session"] = json!("another");
        call["tool"] = json!(payload);
        call["outcome"] = json!(if second == 26 { "COMPLETED" } else { "DENIED" });
        call["ts"] = json!(format!("2026-11-20T08:00:{second}Z"));
        lines.push(call.to_string());
    }
    lines.push(format!("{SCRIPT}\u{202e}\u{1b}[2J\"><img src=x onerror=window.hacked=1>"));
    lines.push(format!("{{\"{SCRIPT}\":\"\\u202e\",\"javascript:window.hacked=1\":{{}}}}\n"));
    fs::write(folder.join("\u{202e}audit<script>.jsonl"), lines.join("\n")).unwrap();
}

/// One call of which every field but the tool, the time and the outcome is hostile.
fn hostile_fields() -> Value {
    let all = payloads().join(" ");
    let mut args = serde_json::Map::new();
    for payload in payloads() {
        args.insert(payload.clone(), json!(payload));
    }
    args.insert("nested".to_owned(), json!({ SCRIPT: [all.clone(), {"x": payloads()}] }));
    json!({
        "actor": "server",
        "subject": all,
        "tenant": format!("\"><img src=x onerror=window.hacked=1> {TURNED_RAW}"),
        "session": format!("{SCRIPT}{TURNED_RAW}"),
        "client_id": "javascript:window.hacked=1",
        "server": format!("' onmouseover='window.hacked=1 {SCRIPT}"),
        "request_id": format!("{SCRIPT}\u{7}"),
        "args": args,
        "detail": payloads().join("\n"),
        "flags": payloads(),
        "what nobody reads": all,
    })
}

const TURNED_RAW: &str = "\u{202e}gnp.exe\u{2066}";

fn payloads() -> Vec<String> {
    let mut all: Vec<String> = payloads_as_str().map(str::to_owned).collect();
    all.push("long ".repeat(4000));
    all.push("long".repeat(4000));
    all
}

fn payloads_as_str() -> impl Iterator<Item = &'static str> {
    [
        SCRIPT,
        "\"><img src=x onerror=window.hacked=1>",
        "javascript:window.hacked=1",
        TURNED_RAW,
        "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m",
        "a\0b\u{200b}\u{ad}\r\nc</pre></bdi></title></svg><svg onload=window.hacked=1>",
    ]
    .into_iter()
}

/// Keeps on every page what the content policy stopped.
fn watch_the_policy(chrome: &Chrome) {
    let script = "window.stopped = [];
        document.addEventListener('securitypolicyviolation',
            (event) => window.stopped.push(event.violatedDirective + ' ' + event.blockedURI));";
    chrome.command("Page.addScriptToEvaluateOnNewDocument", json!({"source": script}));
}

/// Fails when a text of the log has become more than a text, or could fool a reader.
fn assert_inert(chrome: &Chrome, path: &str) {
    let found = chrome.run(
        r"
        const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069]/;
        const found = [];
        if (window.hacked !== undefined) found.push('a script of the log ran');
        for (const violation of window.stopped) found.push('the policy had to stop ' + violation);
        for (const text of [document.body.innerText, document.title, document.documentElement.outerHTML]) {
            const match = hidden.exec(text);
            if (match) found.push('a hidden character: ' + escape(match[0]) + ' in '
                + text.slice(Math.max(0, match.index - 40), match.index + 40));
        }
        if (document.documentElement.scrollWidth > innerWidth + 1) found.push('something sticks out');
        const ours = document.querySelectorAll('head script[src^=\'/assets/\']').length;
        if (document.scripts.length !== ours || ours !== 1) found.push('scripts: ' + document.scripts.length);
        for (const element of document.querySelectorAll('*')) {
            if (/^(img|iframe|object|embed|base|style)$/i.test(element.tagName)) found.push(element.tagName);
            for (const attribute of element.attributes) {
                const address = /^(href|src|action|xlink:href)$/.test(attribute.name);
                if (/^on|^style$/.test(attribute.name)) found.push(attribute.name);
                if (address && attribute.value && !/^[/#?](?![/\\])/.test(attribute.value)) {
                    found.push(attribute.name + ' leads to ' + attribute.value);
                }
            }
        }
        for (const request of performance.getEntriesByType('resource')) {
            if (new URL(request.name).origin !== location.origin) found.push('asked for ' + request.name);
        }
        return found;",
    );
    assert_eq!(found, json!([]), "{path}");
}
