//! Links from one text for people to another, and into them.

use super::assert_none;
use super::tree::{TextFile, all_files};

#[test]
fn links_between_texts_lead_somewhere() {
    let texts: Vec<TextFile> =
        all_files().into_iter().filter(|file| file.has_extension("md")).collect();
    assert_none("Link to a text that is there, and to a heading that it has.", &dead(&texts));
}

#[test]
fn the_rule_sees_what_it_forbids() {
    let text = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
    let texts = [
        text("README.md", "# One `two`, three\n[a](rules/README.md#b-c) [b](#one-two-three)\n"),
        text("rules/README.md", "## B: c\n[up](../README.md) [web](https://x.org/#y)\n"),
    ];
    assert_eq!(dead(&texts), Vec::<String>::new());
    for wrong in ["#b-c", "rules/README.md#b", "rules/README.md#fenced", "other.md"] {
        let body = format!("# One\n```\n[x](no.md)\n```\n[a]({wrong})\n");
        let other = text("rules/README.md", "## B: c\n```yaml\n# fenced\n```\n");
        let found = dead(&[text("README.md", &body), other]);
        assert_eq!(found, [format!("README.md:5: {wrong}")]);
    }
}

/// Links to texts that there are not, or to headings that these have not, with the place.
fn dead(texts: &[TextFile]) -> Vec<String> {
    let mut found = Vec::new();
    for text in texts {
        for (number, line) in prose(&text.text) {
            for target in targets(line).filter(|target| !leads(texts, text, target)) {
                found.push(format!("{}:{number}: {target}", text.path));
            }
        }
    }
    found
}

/// The lines outside of fences, numbered.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        (!is_fenced && !is_fence).then_some((number + 1, line))
    })
}

/// The targets of a line's links to texts of the tree.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let all = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    all.filter(|target| {
        !target.contains("://") && (target.contains(".md") || target.starts_with('#'))
    })
}

fn leads(texts: &[TextFile], from: &TextFile, target: &str) -> bool {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { from.path.clone() } else { resolved(&from.path, path) };
    let Some(text) = texts.iter().find(|text| text.path == path) else { return false };
    heading.is_empty() || headings(&text.text).any(|known| known == heading)
}

/// A path as it is written in a file, from the root.
fn resolved(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The headings of a text as links name them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = prose(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.strip_prefix(' ')).flatten()
    });
    titles.map(|title| {
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}
