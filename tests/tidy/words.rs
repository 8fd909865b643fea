//! Words that must not be left behind. They are written in two halves here, or this file would complain about itself.

use super::assert_none;
use super::source::{Token, tokens};
use super::tree::{TextFile, all_files};

/// Macros for the time of writing.
const MACROS: [&str; 3] = ["dbg", "todo", "unimplemented"];

/// Marks of unfinished work.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Addresses of package registries and folders of the machines this was written on: no business of a reader.
const PLACES: [&str; 7] = [
    concat!("registry.", "npmjs"),
    concat!("files.", "pythonhosted"),
    concat!("pypi", ".org"),
    concat!("index.", "crates.io"),
    concat!("deb.", "debian.org"),
    concat!("/work", "/"),
    concat!("/root", "/"),
];

#[test]
fn nothing_unfinished_is_left() {
    let files = all_files();
    let mut found: Vec<String> = files.iter().flat_map(|file| words(file, &MARKS)).collect();
    found.extend(rust(&files).flat_map(left_macros));
    assert_none("Finish it, or file an issue and take the mark out.", &found);
}

#[test]
fn no_test_is_ignored() {
    let files = all_files();
    let found: Vec<String> = rust(&files).flat_map(ignored_tests).collect();
    assert_none("Make the test pass or remove it: one that nobody runs protects nothing.", &found);
}

#[test]
fn no_place_of_a_machine_is_named() {
    let files = all_files();
    let found: Vec<String> = files.iter().flat_map(|file| words(file, &PLACES)).collect();
    assert_none("Name the thing, not where it lay when you wrote this.", &found);
}

#[test]
fn every_exception_from_a_lint_has_a_reason() {
    let files = all_files();
    let found: Vec<String> = rust(&files).flat_map(bare_exceptions).collect();
    assert_none("Add `reason = \"...\"`, or repair what the lint complains about.", &found);
}

#[test]
fn the_rules_see_what_they_forbid() {
    let file = |text: &str| TextFile { path: "src/x.rs".to_owned(), text: text.to_owned() };
    for mark in MARKS {
        assert_eq!(words(&file(&format!("// {mark}: later")), &MARKS).len(), 1, "{mark}");
        assert!(words(&file(&format!("{mark}_1 mark{mark}")), &MARKS).is_empty(), "{mark}");
    }
    for place in PLACES {
        assert_eq!(words(&file(&format!("see {place}x")), &PLACES).len(), 1, "{place}");
    }
    for name in MACROS {
        assert_eq!(left_macros(&file(&format!("fn f() {{ {name}!() }}"))).len(), 1, "{name}");
        assert!(left_macros(&file(&format!("// {name}!()"))).is_empty(), "{name}");
    }
    assert_eq!(ignored_tests(&file("#[test]\n#[ignore = \"slow\"]\nfn f() {}")).len(), 1);
    assert!(ignored_tests(&file("#[test]\nfn f() {}")).is_empty());
    for text in ["#[allow(dead_code)]", "#![expect(a, b)]", "#[cfg_attr(x, allow(y))]"] {
        assert_eq!(bare_exceptions(&file(text)).len(), 1, "{text}");
    }
    let text = "#[expect(a, reason = \"(so)\")] fn f() { allow(x) }";
    assert!(bare_exceptions(&file(text)).is_empty());
}

fn rust(files: &[TextFile]) -> impl Iterator<Item = &TextFile> {
    files.iter().filter(|file| file.has_extension("rs"))
}

/// The lines that hold one of the words, where it is no part of a longer one.
fn words(file: &TextFile, words: &[&str]) -> Vec<String> {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let holds = |line: &str, word: &str| {
        line.match_indices(word).any(|(at, _)| {
            let (before, rest) = line.split_at(at);
            let after = rest.strip_prefix(word).and_then(|after| after.chars().next());
            let is_open = word.ends_with(|c: char| !c.is_alphanumeric()) || word.contains('.');
            !is_part(before.chars().last()) && (is_open || !is_part(after))
        })
    };
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let held = words.iter().filter(|word| holds(line, word));
        found.extend(held.map(|word| format!("{}:{}: {word}", file.path, index + 1)));
    }
    found
}

fn left_macros(file: &TextFile) -> Vec<String> {
    let tokens = tokens(&file.text);
    let macros = tokens.windows(2).filter(|pair| pair[1].is("!"));
    let macros = macros.filter(|pair| MACROS.contains(&pair[0].text.as_str()));
    macros.map(|pair| format!("{}:{}: {}!", file.path, pair[0].line, pair[0].text)).collect()
}

fn ignored_tests(file: &TextFile) -> Vec<String> {
    let attributes = attributes(&file.text);
    let ignored = attributes.iter().filter(|attribute| attribute[0].is("ignore"));
    ignored.map(|attribute| format!("{}:{}: ignored", file.path, attribute[0].line)).collect()
}

fn bare_exceptions(file: &TextFile) -> Vec<String> {
    let attributes = attributes(&file.text);
    let bare = attributes.iter().filter(|attribute| {
        let has = |word: &str| attribute.iter().any(|token| token.is(word));
        (has("allow") || has("expect")) && !has("reason")
    });
    bare.map(|attribute| format!("{}:{}: no reason", file.path, attribute[0].line)).collect()
}

/// What stands inside of every `#[...]` and `#![...]`.
fn attributes(text: &str) -> Vec<Vec<Token>> {
    let tokens = tokens(text);
    let mut attributes = Vec::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.is("#")) {
        let rest =
            tokens.iter().skip(at + 1).skip_while(|next| next.is("!") && next.line == token.line);
        let mut depth = 0_usize;
        let mut inside = Vec::new();
        for next in rest {
            depth += usize::from(next.is("["));
            depth = depth.saturating_sub(usize::from(next.is("]")));
            if depth == 0 {
                break;
            }
            inside.push(next.clone());
        }
        // The first is the opening bracket; an attribute that is one word long is kept as well.
        inside.drain(..inside.len().min(1));
        if !inside.is_empty() {
            attributes.push(inside);
        }
    }
    attributes
}
