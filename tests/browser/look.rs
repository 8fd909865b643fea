//! Every page in every size, in light and dark: nothing sticks out, and nobody is locked out. The pictures in
//! target/screenshots are for people to look at.

use std::fs;
use std::path::Path;

use calltrail::model::Micros;
use calltrail::simulate::Story;
use serde_json::{Value, json};

use super::chrome::Chrome;
use crate::support::Daemon;

struct Window {
    name: &'static str,
    /// In CSS pixels.
    width: u32,
    /// Pixels of the screen for one of CSS, along one side.
    scale: u32,
    /// Layouts differ between a wide and a narrow window: what lies between has nothing of its own to check.
    asks_axe: bool,
}

const WINDOWS: [Window; 4] = [
    Window { name: "wide", width: 1400, scale: 1, asks_axe: true },
    // 200 % zoom of the wide one.
    Window { name: "zoomed", width: 700, scale: 2, asks_axe: false },
    Window { name: "phone", width: 400, scale: 1, asks_axe: false },
    // 400 % zoom of a screen of 1280, which WCAG 2.2 wants to work (1.4.10).
    Window { name: "smallest", width: 320, scale: 1, asks_axe: true },
];

#[test]
fn every_page_fits_every_window_and_everybody_can_use_it_in_light() {
    look("light");
}

#[test]
fn every_page_fits_every_window_and_everybody_can_use_it_in_dark() {
    look("dark");
}

fn look(scheme: &str) {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    let alerts = write_logs(&logs);
    let daemon = Daemon::start(home.path(), &logs);
    daemon.await_count("select count(distinct rule) from alerts", alerts);
    daemon.await_count("select count(*) from rejects", 2);
    let chrome = Chrome::start();
    let media = json!([{"name": "prefers-color-scheme", "value": scheme}]);
    chrome.command("Emulation.setEmulatedMedia", json!({ "features": media }));
    let site = daemon.link.split("/login").next().unwrap();
    chrome.open(&daemon.link);
    let pages = pages(&chrome, site);
    let axe = axe();
    let mut found = Vec::new();
    for (page, address) in &pages {
        chrome.open(&format!("{site}{address}"));
        for window in &WINDOWS {
            let what = format!("{page}-{}-{scheme}", window.name);
            found.extend(fit(&chrome, window).map(|over| format!("{what}: {over}")));
            chrome.take_picture(&what);
            if window.asks_axe {
                let complaints = complaints_of_axe(&chrome, &axe);
                found.extend(complaints.iter().map(|complaint| format!("{what}: {complaint}")));
            }
        }
    }
    if scheme == "light" {
        let (_, address) = pages.iter().find(|page| page.0 == "incident").unwrap();
        chrome.open(&format!("{site}{address}"));
        picture_for_the_readme(&chrome);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The story of the demo, and two lines that are none.
fn write_logs(logs: &Path) -> u64 {
    let story = Story::new(1);
    let start = Micros::parse_rfc3339("2026-11-20T09:00:00Z").unwrap();
    let mut lines: Vec<(String, String)> =
        story.lines(start, 1).into_iter().map(|line| (line.file.to_string(), line.text)).collect();
    lines.push(("desk.log".to_owned(), "Started desk 1.4 on port 8080".to_owned()));
    lines.push(("desk.log".to_owned(), r#"{"level":"info","msg":"ready"}"#.to_owned()));
    for (file, text) in lines {
        let path = logs.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut old = fs::read_to_string(&path).unwrap_or_default();
        old.push_str(&text);
        old.push('\n');
        fs::write(path, old).unwrap();
    }
    story.alerts().iter().map(|alert| 1 + alert.may_also.len() as u64).sum()
}

/// The pages to look at: name and address.
fn pages(chrome: &Chrome, site: &str) -> Vec<(&'static str, String)> {
    let path = |selector: &str| {
        chrome.await_element(selector);
        chrome.properties(selector, "href")[0].trim_start_matches(site).to_owned()
    };
    chrome.open(&format!("{site}/?rule=trifecta-signature"));
    let incident = path("#incidents a.title");
    chrome.open(&format!("{site}{incident}"));
    let joined = path("tr.call-row:not(.context) th a");
    chrome.open(&format!("{site}/?rule=policy-bypass"));
    let bypass = path("#incidents a.title");
    chrome.open(&format!("{site}{bypass}"));
    let call = path("tr.call-row:not(.context) th a");
    chrome.open(&format!("{site}{call}"));
    let session = path("a[href^='/sessions/of/']");
    let calls = path("a[href^='/calls?']");
    let search = "/?q=comment&level=low&rule=trifecta-signature&from=2026-11-01T00%3A00";
    vec![
        ("list", "/".to_owned()),
        ("search", search.to_owned()),
        ("nothing", "/?q=nothing+of+the+kind".to_owned()),
        ("incident", incident),
        ("bypass", bypass),
        ("call", call),
        ("joined", joined),
        ("session", session),
        ("calls", calls),
        ("no-calls", "/calls?outcome=input&tool=nothing".to_owned()),
        ("rules", "/rules".to_owned()),
        ("rule", "/rules/denials-then-success".to_owned()),
        ("sources", "/sources".to_owned()),
        ("login", "/login".to_owned()),
        ("error", "/incidents/none".to_owned()),
    ]
}

/// Gives the browser the window and makes it as high as the page. Says by how much something sticks out.
fn fit(chrome: &Chrome, window: &Window) -> Option<String> {
    resize(chrome, window.width, 800, window.scale);
    let page = "document.documentElement";
    let size = |name: &str| chrome.run(&format!("return {page}.{name}")).as_u64().unwrap();
    let inner = chrome.run("return innerWidth").as_u64().unwrap();
    assert_eq!(inner, u64::from(window.width));
    let over = size("scrollWidth").checked_sub(inner + 1).filter(|over| *over > 0);
    resize(chrome, window.width, size("scrollHeight").max(800), window.scale);
    over.map(|over| format!("{over} pixels stick out"))
}

fn resize(chrome: &Chrome, width: u32, height: u64, scale: u32) {
    let size =
        json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": false});
    chrome.command("Emulation.setDeviceMetricsOverride", size);
}

/// The axe-core library, which knows what of the accessibility guidelines a program can check.
fn axe() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/axe-core/axe.min.js");
    fs::read_to_string(path).expect("axe-core is missing: run `make test`, which fetches it")
}

fn complaints_of_axe(chrome: &Chrome, axe: &str) -> Vec<String> {
    if chrome.run("return typeof axe") == "undefined" {
        chrome.run(axe);
    }
    let result = chrome.run_async(
        "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
            resultTypes: ['violations']}).then((result) => done(result.violations), (error) => done(String(error)));",
    );
    let violations = result.as_array().unwrap_or_else(|| panic!("axe: {result}"));
    let describe = |violation: &Value| {
        let nodes = violation["nodes"].as_array().into_iter().flatten();
        let places: Vec<String> =
            nodes.map(|node| format!("{} ({})", node["target"], node["failureSummary"])).collect();
        format!("{}: {}", violation["id"], places.join(", "))
    };
    violations.iter().map(describe).collect()
}

/// The incident from its headline to its table, as src/web/incident.png has it.
fn picture_for_the_readme(chrome: &Chrome) {
    chrome.command("Emulation.setScrollbarsHidden", json!({"hidden": true}));
    resize(chrome, 1200, 800, 1);
    let height = chrome.run(
        "const top = document.querySelector('.head.incident').getBoundingClientRect().top;
         const table = document.querySelector('table.calls').closest('.card');
         return Math.round(table.getBoundingClientRect().bottom - top + 28);",
    );
    resize(chrome, 1200, height.as_u64().unwrap(), 1);
    chrome.run(
        "const top = document.querySelector('.head.incident').getBoundingClientRect().top;
         window.scrollBy(0, top - 14);",
    );
    chrome.take_picture("readme");
}
