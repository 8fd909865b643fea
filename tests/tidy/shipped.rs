//! Files that are shipped inside the program, and the places that must name them.

use super::assert_none;
use super::source::{SOURCES, Source, Token};
use super::tree::{TextFile, file, files_below};

#[test]
fn migrations_are_numbered_without_gaps_and_embedded() {
    let names = names_below("migrations", ".sql");
    let embedded = file("src/store/migrate.rs").text;
    let mut found = wrong_numbers(&names);
    found.extend(unnamed(&names, "migrations", &embedded));
    assert_none("Number the migration next to the last and add it to MIGRATIONS in store.", &found);
}

#[test]
fn every_rule_is_embedded() {
    let found =
        unnamed(&names_below("rules", ".yml"), "rules", &file("src/detect/shipped.rs").text);
    assert_none("Add the rule to FILES in detect/shipped.rs, so that it is shipped.", &found);
}

#[test]
fn templates_exist_and_are_used() {
    let names = files_below("templates").into_iter().map(|file| below("templates", &file));
    let names: Vec<String> = names.collect();
    let mut used: Vec<(String, String)> = SOURCES.iter().flat_map(templates_of).collect();
    used.extend(files_below("templates").iter().flat_map(references_of));
    let missing = used.iter().filter(|(_, name)| !names.contains(name));
    let missing =
        missing.map(|(place, name)| format!("{place} uses templates/{name}: no such file"));
    let idle = names.iter().filter(|name| !used.iter().any(|(_, used)| used == *name));
    let idle = idle.map(|name| format!("templates/{name} is used by nothing"));
    let found: Vec<String> = missing.chain(idle).collect();
    assert_none("Write or remove the template.", &found);
}

#[test]
fn the_changelog_speaks_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let is_named = has_section(&file("CHANGELOG.md").text, version);
    assert!(is_named, "Say in CHANGELOG.md, under '## [{version}]', what is in this version.");
}

#[test]
fn the_rules_see_what_they_forbid() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(wrong_numbers(&names(&["0001_a.sql", "0002_b.sql"])), Vec::<String>::new());
    for wrong in
        [["0001_a.sql", "0003_b.sql"], ["0001_a.sql", "0001_b.sql"], ["1_a.sql", "2_b.sql"]]
    {
        assert!(!wrong_numbers(&names(&wrong)).is_empty(), "{wrong:?}");
    }
    let embedded = r#"("a.yml", include_str!("../../rules/a.yml"))"#;
    assert_eq!(unnamed(&names(&["a.yml", "b.yml"]), "rules", embedded).len(), 1);

    let text = r#"#[template(path = "a.html")] struct A; const B: &str = include_str!("../../templates/b.css");"#;
    let used = templates_of(&Source::parse("src/web/a.rs", text));
    let used: Vec<&str> = used.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(used, ["a.html", "b.css"]);
    let text = r#"{% extends "a.html" %}{%- include "b.svg" -%}{% if "c" %}"#.to_owned();
    let used = references_of(&TextFile { path: "templates/x.html".to_owned(), text });
    let used: Vec<&str> = used.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(used, ["a.html", "b.svg"]);

    assert!(has_section("# Changes\n\n## [1.2.3] - unreleased\n", "1.2.3"));
    assert!(!has_section("# Changes\n\n## [1.2.30] and 1.2.3\n", "1.2.3"));
}

fn names_below(folder: &str, ending: &str) -> Vec<String> {
    let names = files_below(folder).into_iter().map(|file| below(folder, &file));
    names.filter(|name| name.ends_with(ending)).collect()
}

fn below(folder: &str, file: &TextFile) -> String {
    file.path.trim_start_matches(folder).trim_start_matches('/').to_owned()
}

fn wrong_numbers(names: &[String]) -> Vec<String> {
    let wrong = names.iter().zip(1..).filter_map(|(name, number)| {
        let wanted = format!("{number:04}_");
        (!name.starts_with(&wanted))
            .then(|| format!("migrations/{name} should start with {wanted}"))
    });
    wrong.collect()
}

fn unnamed(names: &[String], folder: &str, embedded: &str) -> Vec<String> {
    let is_named = |name: &String| embedded.contains(&format!("{folder}/{name}\")"));
    let unnamed = names.iter().filter(|name| !is_named(name));
    unnamed.map(|name| format!("{folder}/{name} is not embedded")).collect()
}

/// The files below `templates` that a file of Rust names, with the place.
fn templates_of(source: &Source) -> Vec<(String, String)> {
    let place = |token: &Token| format!("{}:{}", source.path, token.line);
    let by_attribute = source.program.windows(5).filter_map(|five| {
        let is_template = five[0].is("template") && five[2].is("path") && five[3].is("=");
        is_template.then(|| (place(&five[4]), five[4].text.trim_matches('"').to_owned()))
    });
    let by_text = source.program.iter().filter_map(|token| {
        let (_, name) = token.text.trim_matches('"').split_once("../templates/")?;
        Some((place(token), name.to_owned()))
    });
    by_attribute.chain(by_text).collect()
}

/// The templates that a template names, with the place.
fn references_of(file: &TextFile) -> Vec<(String, String)> {
    let tags = file.text.split("{%").skip(1).filter_map(|rest| rest.split("%}").next());
    let references = tags.filter_map(|tag| {
        let tag = tag.trim_matches(|c: char| c == '-' || c.is_whitespace());
        let (word, rest) = tag.split_once(' ')?;
        let is_reference = ["extends", "include", "import"].contains(&word);
        let name = rest.trim_start().strip_prefix('"')?.split('"').next()?;
        is_reference.then(|| (file.path.clone(), name.to_owned()))
    });
    references.collect()
}

fn has_section(changelog: &str, version: &str) -> bool {
    changelog.lines().any(|line| line.starts_with(&format!("## [{version}]")))
}
