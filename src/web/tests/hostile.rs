//! Hostile log content through every page: it must stay text.

use super::*;

const PAGES: [&str; 10] = [
    "/",
    "/?q=match",
    INCIDENT,
    CALL,
    DISPUTED,
    "/sources",
    "/calls",
    SESSION,
    "/rules",
    "/rules/call-burst",
];

const CORPUS: [&str; 10] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'><svg/onload=alert(1)>",
    "javascript:alert(1)",
    "{{ 7*7 }}{% raw %}",
    "</title></text></svg><iframe src=//evil.example>",
    "abc\u{202e}gpj.exe\u{2066}",
    "\u{1b}]8;;https://evil.example\u{7}click\u{1b}[31m",
    "nul\u{0}and\r\nSet-Cookie: x=1\u{2028}",
    "\u{feff}\u{200b}\u{e000}zero\u{ad}width",
];

/// Every way in which text becomes markup or a link elsewhere.
fn assert_inert(page: &str, text: &str, body: &str) {
    // No markup of the payload's own: what looks like it is escaped.
    for tag in ["<script>", "<img", "<svg/onload", "<iframe", "</svg><"] {
        assert!(!body.contains(tag), "{page}: {tag} in {text:?}");
    }
    assert_eq!(body.matches("<script").count(), 1, "{page}: {text:?}");
    for bad in [
        '\u{202e}', '\u{2066}', '\u{1b}', '\u{7}', '\u{0}', '\r', '\u{2028}', '\u{feff}',
        '\u{200b}', '\u{ad}',
    ] {
        assert!(!body.contains(bad), "{page}: {bad:?} of {text:?}");
    }
    for attribute in attributes(body, "href=\"")
        .chain(attributes(body, "src=\""))
        .chain(attributes(body, "action=\""))
    {
        let ours = attribute.is_empty() || attribute.starts_with('/') || attribute.starts_with('#');
        assert!(ours && !attribute.starts_with("//"), "{page}: link to {attribute:?}");
    }
    let tags = body.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default());
    for tag in tags {
        let names = tag.split('"').step_by(2);
        for name in names.flat_map(|outside| outside.split_whitespace()) {
            assert!(!name.starts_with("on"), "{page}: handler {name} in {text:?}");
            assert!(!name.starts_with("style="), "{page}: inline style in {text:?}");
        }
    }
}

fn attributes<'a>(body: &'a str, name: &'static str) -> impl Iterator<Item = &'a str> {
    body.split(name).skip(1).map(|rest| rest.split('"').next().unwrap_or_default())
}

#[tokio::test]
async fn hostile_text_stays_text_on_every_page() {
    for text in CORPUS {
        let site = Site::new(hostile_world(text));
        for page in PAGES {
            let answer = site.get(page).await;
            assert_eq!(answer.status, StatusCode::OK, "{page}: {text:?}");
            assert_inert(page, text, &answer.body);
        }
    }
}

#[tokio::test]
async fn hostile_text_is_shown_and_not_hidden() {
    let site = Site::new(hostile_world("<script>\u{202e}"));
    for page in PAGES {
        let body = site.get(page).await.body;
        let shown = body.contains("&#60;script&#62;\\u{202e}");
        assert!(shown || page == "/?q=match", "{page}");
    }
}

#[tokio::test]
async fn very_long_text_is_cut() {
    let site = Site::new(hostile_world(&"x".repeat(100_000)));
    for page in PAGES {
        let body = site.get(page).await.body;
        assert!(!body.contains(&"x".repeat(4200)), "{page}");
        assert!(body.len() < 600_000, "{page}: {} bytes", body.len());
    }
}

#[tokio::test]
async fn what_a_link_or_form_brings_in_stays_text_too() {
    let site = Site::new(world());
    for text in
        ["%3Cscript%3Ealert(1)%3C/script%3E", "%22%3E%3Cimg%20src=x%20onerror=y%3E", "%E2%80%AE"]
    {
        let incidents = ["q", "actor", "rule", "level", "from", "before", "range"];
        let calls = ["actor", "tool", "outcome", "from", "to", "before", "range"];
        let addresses = incidents.iter().map(|key| format!("/?{key}={text}"));
        let session = ["call", "after"]
            .map(|key| format!("/sessions/07070707070707070707070707070707?{key}={text}"));
        let more = calls.iter().map(|key| format!("/calls?{key}={text}")).chain(session);
        for page in addresses.chain(more) {
            let answer = site.get(&page).await;
            assert_eq!(answer.status, StatusCode::OK, "{page}");
            assert_inert(&page, text, &answer.body);
        }
        let login = site.send(stranger("GET", &format!("/login?next=/{text}")), "").await;
        assert_eq!(login.count("<script"), 0);
        assert!(!login.body.contains("<img"));
    }
    for path in [
        "/calls/%3Cscript%3E",
        "/incidents/%3Cscript%3E",
        "/sessions/%3Cscript%3E",
        "/sessions/of/%3Cscript%3E",
        "/%3Cscript%3E",
    ] {
        let answer = site.get(path).await;
        assert_eq!((answer.status, answer.count("<script")), (StatusCode::NOT_FOUND, 0));
    }
}

#[test]
fn templates_hold_nothing_inline_and_trust_nothing() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_file() {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let bad = [
            "|safe",
            "| safe",
            "style=",
            "<style",
            "javascript:",
            "escape none",
            "http://",
            "https://",
        ];
        for bad in bad {
            assert!(!text.contains(bad), "{bad} in {}", path.display());
        }
        assert!(text.matches("<script").count() <= 1, "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 8);
}
