//! What the templates must not hold: a page has a strict content policy, and what it shows comes from attackers.

use regex::Regex;

use super::assert_none;
use super::tree::{TextFile, files_below};

/// Forbidden in every template: (pattern, what it is).
const EVERYWHERE: [(&str, &str); 5] = [
    (r"\{\{[^}]*\|\s*safe\b|\{%[^%]*\|\s*safe\b", "a value shown without escaping"),
    (r#"escape\(\s*"none""#, "a value shown without escaping"),
    (r"(?i)<[^>]*\son[a-z]+\s*=", "a script in an attribute"),
    (r"(?i)javascript:", "a script in a link"),
    (
        r#"(?i)\b(src|href|action|srcset|poster)\s*=\s*["']?\s*(https?:|//)"#,
        "something from elsewhere",
    ),
];

/// Forbidden in pages; mails have no other way to look like anything.
const IN_PAGES: [(&str, &str); 2] = [
    (r"(?i)<[^>]*\sstyle\s*=", "a style in an attribute"),
    (r"(?i)<style\b", "a style sheet inside the page"),
];

#[test]
fn templates_hold_nothing_that_could_run_or_leak() {
    let found: Vec<String> = files_below("templates")
        .iter()
        .filter(|file| file.has_extension("html") || file.has_extension("svg"))
        .flat_map(complaints_of)
        .collect();
    assert_none(
        "Put style and script into templates/assets, let values be escaped, and load nothing from elsewhere.",
        &found,
    );
}

#[test]
fn the_rules_see_what_they_forbid() {
    let complaints = |path: &str, text: &str| {
        complaints_of(&TextFile { path: path.to_owned(), text: text.to_owned() })
    };
    let wrong = [
        "{{ tool|safe }}",
        "{% let x = tool | safe %}",
        r#"{{ tool|escape("none") }}"#,
        "<a\n onclick=x>",
        "<a href='javascript:x'>",
        r#"<img src="http://example.com/x">"#,
        "<a href=//example.com>",
        "<script>x</script>",
        "<script src=\"x\">y</script>",
    ];
    for text in wrong {
        assert_eq!(complaints("templates/x.html", text).len(), 1, "{text}");
        assert_eq!(complaints("templates/mail/x.html", text).len(), 1, "{text}");
    }
    for text in ["<p style=\"margin:0\">", "<style>p{}</style>"] {
        assert_eq!(complaints("templates/x.html", text).len(), 1, "{text}");
        assert_eq!(complaints("templates/mail/x.html", text), Vec::<String>::new(), "{text}");
    }
    let right =
        r#"<script src="{{ script }}" defer></script> <a href="{{ link }}">one=two {{ safe }}</a>"#;
    assert_eq!(complaints("templates/x.html", right), Vec::<String>::new());
}

fn complaints_of(file: &TextFile) -> Vec<String> {
    let is_mail = file.path.starts_with("templates/mail/");
    let in_pages = IN_PAGES.iter().filter(|_| !is_mail);
    let mut found = Vec::new();
    for (pattern, what) in EVERYWHERE.iter().chain(in_pages) {
        let pattern = Regex::new(pattern).expect("the pattern is right");
        found.extend(pattern.find_iter(&file.text).map(|hit| complaint(file, hit.start(), what)));
    }
    let script = Regex::new(r"(?is)<script\b[^>]*>(.*?)</script>").expect("the pattern is right");
    for hit in script.captures_iter(&file.text) {
        let (Some(whole), Some(body)) = (hit.get(0), hit.get(1)) else { continue };
        if !body.as_str().trim().is_empty() {
            found.push(complaint(file, whole.start(), "a script inside the page"));
        }
    }
    found
}

fn complaint(file: &TextFile, at: usize, what: &str) -> String {
    let line = file.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    format!("{}:{line}: {what}", file.path)
}
