//! Every page in every size, in light and dark: nothing sticks out, and nobody is locked out. The pictures in
//! target/screenshots are for people to look at.

use std::fs;
use std::path::Path;

use calltrail::model::Micros;
use calltrail::simulate::Story;
use serde_json::{Value, json};

use super::chrome::Chrome;
use crate::support::Daemon;

/// A window: its name, its width in CSS pixels, and how many real ones each is.
const WINDOWS: [(&str, u32, u32); 4] = [
    ("wide", 1400, 1),
    // 200 % zoom of the wide one.
    ("zoomed", 700, 2),
    ("phone", 400, 1),
    // 400 % zoom of a screen of 1280, which WCAG 2.2 wants to work (1.4.10).
    ("smallest", 320, 1),
];

#[test]
fn every_page_fits_every_window_and_everybody_can_use_it() {
    let home = tempfile::tempdir().unwrap();
    let logs = home.path().join("logs");
    let alerts = write_logs(&logs);
    let daemon = Daemon::start(home.path(), &logs);
    daemon.await_count("select count(distinct rule) from alerts", alerts);
    daemon.await_count("select count(*) from rejects", 2);
    let chrome = Chrome::start();
    let site = daemon.link.split("/login").next().unwrap();
    chrome.open(&daemon.link);
    let pages = pages(&chrome, site);
    let axe = axe();
    let mut found = Vec::new();
    for scheme in ["light", "dark"] {
        let media = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        chrome.command("Emulation.setEmulatedMedia", json!({ "features": media }));
        for (page, address) in &pages {
            chrome.open(&format!("{site}{address}"));
            for (window, width, scale) in WINDOWS {
                let what = format!("{page}-{window}-{scheme}");
                found.extend(fit(&chrome, width, scale).map(|over| format!("{what}: {over}")));
                chrome.take_picture(&what);
                if scale == 1 {
                    let complaints = complaints_of_axe(&chrome, &axe);
                    found.extend(complaints.iter().map(|complaint| format!("{what}: {complaint}")));
                }
            }
        }
    }
    picture_for_the_readme(&chrome, site, &pages);
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
    story.alerts().len() as u64
}

/// The pages to look at: name and address.
fn pages(chrome: &Chrome, site: &str) -> Vec<(&'static str, String)> {
    let path = |selector: &str| {
        chrome.await_element(selector);
        chrome.properties(selector, "href")[0].trim_start_matches(site).to_owned()
    };
    let incident = path("#incidents tr.critical a.title");
    chrome.open(&format!("{site}/?rule=policy-bypass"));
    let bypass = path("#incidents a.title");
    chrome.open(&format!("{site}{bypass}"));
    let call = path("tr.call-row:not(.context) th a");
    let search = "/?q=comment&level=low&rule=trifecta-signature&from=2026-11-01T00%3A00";
    vec![
        ("list", "/".to_owned()),
        ("search", search.to_owned()),
        ("nothing", "/?q=nothing+of+the+kind".to_owned()),
        ("incident", incident),
        ("bypass", bypass),
        ("call", call),
        ("sources", "/sources".to_owned()),
        ("login", "/login".to_owned()),
        ("error", "/incidents/none".to_owned()),
    ]
}

/// Gives the window a width and makes it as high as the page. Says by how much something sticks out.
fn fit(chrome: &Chrome, width: u32, scale: u32) -> Option<String> {
    let resize = |height: u64| {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": scale, "mobile": false,
        });
        chrome.command("Emulation.setDeviceMetricsOverride", size);
    };
    resize(800);
    let page = "document.documentElement";
    let size = |name: &str| chrome.run(&format!("return {page}.{name}")).as_u64().unwrap();
    let inner = chrome.run("return innerWidth").as_u64().unwrap();
    assert_eq!(inner, u64::from(width));
    let over = size("scrollWidth").checked_sub(inner + 1).filter(|over| *over > 0);
    resize(size("scrollHeight").max(800));
    over.map(|over| format!("{over} pixels stick out"))
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
fn picture_for_the_readme(chrome: &Chrome, site: &str, pages: &[(&str, String)]) {
    let media = json!([{"name": "prefers-color-scheme", "value": "light"}]);
    chrome.command("Emulation.setEmulatedMedia", json!({ "features": media }));
    let (_, address) = pages.iter().find(|page| page.0 == "incident").unwrap();
    chrome.open(&format!("{site}{address}"));
    let size = |height: u64| {
        let size = json!({
            "width": 1200, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        chrome.command("Emulation.setDeviceMetricsOverride", size);
    };
    size(800);
    let height = chrome.run(
        "const top = document.querySelector('.head.incident').getBoundingClientRect().top - 14;
         const end = document.querySelector('table.calls').closest('.card').getBoundingClientRect().bottom + 10;
         return Math.round(end - top);",
    );
    size(height.as_u64().unwrap());
    chrome.run(
        "const top = document.querySelector('.head.incident').getBoundingClientRect().top - 14;
         window.scrollBy(0, top);",
    );
    chrome.take_picture("readme");
}
