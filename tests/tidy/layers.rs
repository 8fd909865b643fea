//! Who may name whom: the arrows between the modules, the purity of the stages, and who owns which crate.

use super::assert_none;
use super::source::{Named, SOURCES, Source, paths_with_tests};
use super::tree::files_below;

/// Every module and the modules it may name, beside itself. The text of the README's map, as a rule.
const ARROWS: [(&str, &[&str]); 19] = [
    ("main", &["cli"]),
    // The command line starts the daemon, and for a command that needs none goes to the parts itself.
    (
        "cli",
        &[
            "catalogue",
            "config",
            "daemon",
            "detect",
            "journal",
            "model",
            "notify",
            "simulate",
            "store",
            "tail",
            "untrusted",
        ],
    ),
    (
        "daemon",
        &[
            "absence",
            "catalogue",
            "config",
            "correlate",
            "detect",
            "dialects",
            "fault",
            "journal",
            "mask",
            "model",
            "notify",
            "store",
            "tail",
            "untrusted",
            "web",
        ],
    ),
    ("config", &["model", "notify", "untrusted"]),
    // What comes from logs is masked before it is stored; the text of a rule file is not stored.
    ("web", &["mask", "model", "store", "untrusted"]),
    ("notify", &["model", "store", "untrusted"]),
    ("store", &["fault", "model"]),
    ("journal", &["model"]),
    ("tail", &["model"]),
    ("simulate", &["model"]),
    ("detect", &["model"]),
    ("correlate", &["model"]),
    ("absence", &["model"]),
    ("catalogue", &["model"]),
    // What a dialect gives is masked and shown inert from its first moment on.
    ("dialects", &["mask", "model", "untrusted"]),
    ("mask", &[]),
    ("untrusted", &[]),
    ("fault", &[]),
    ("model", &[]),
];

/// The stages that are functions of their arguments. Of `simulate`, all but the file that writes.
const PURE: [&str; 9] = [
    "absence",
    "catalogue",
    "correlate",
    "detect",
    "dialects",
    "mask",
    "model",
    "simulate",
    "untrusted",
];
const PURE_BUT_FOR: [&str; 1] = ["src/simulate/write.rs"];

/// What a pure stage must not name: whatever gives another answer tomorrow, or leaves something behind.
const IMPURE: [&str; 15] = [
    "chrono::Local",
    "chrono::Utc::now",
    "duckdb",
    "rand::rng",
    "std::env",
    "std::fs",
    "std::io::stderr",
    "std::io::stdout",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "tokio",
    "tracing",
];

/// Crates and parts of the standard library that belong to a few modules.
const OWNED: [(&str, &[&str]); 17] = [
    ("anyhow", &["cli", "daemon"]),
    ("askama", &["notify", "web"]),
    ("askama_web", &["web"]),
    ("axum", &["web"]),
    ("clap", &["cli"]),
    ("duckdb", &["store"]),
    ("indicatif", &["cli"]),
    ("lettre", &["notify"]),
    ("notify", &["tail"]),
    ("std::env", &["cli", "config", "fault", "main"]),
    ("std::fs", &["cli", "config", "daemon", "journal", "notify", "simulate", "store", "tail"]),
    ("std::process", &["cli", "fault", "main"]),
    ("std::time::SystemTime", &["daemon"]),
    ("tokio::signal", &["cli", "daemon"]),
    ("tower", &["web"]),
    ("tower_http", &["web"]),
    ("tracing_subscriber", &["cli"]),
];

#[test]
fn modules_name_only_what_lies_below_them() {
    let found: Vec<String> = SOURCES.iter().flat_map(wrong_arrows).collect();
    assert_none(
        "Move what is needed to a module that both may name (often model), or hand it in as an \
         argument; a new arrow is a change of the architecture and belongs into ARROWS and the README.",
        &found,
    );
}

#[test]
fn pure_stages_name_nothing_impure() {
    let found: Vec<String> = SOURCES.iter().flat_map(impurities).collect();
    assert_none(
        "Take the value as an argument, or return it to the daemon: the stages between reading and \
         writing give the same answer whenever and wherever they run.",
        &found,
    );
}

#[test]
fn tests_of_pure_stages_name_no_part_of_the_shell() {
    let files = files_below("src").into_iter().filter(|file| file.has_extension("rs"));
    let found: Vec<String> = files.flat_map(|file| shell_in(&file.path, &file.text)).collect();
    assert_none(
        "A test that needs the daemon or a store lives with those: there it may use every stage.",
        &found,
    );
    let text = "#[cfg(test)] mod tests { use crate::{model::Call, store::Store}; }";
    assert_eq!(shell_in("src/detect/rule.rs", text).len(), 1);
    assert_eq!(shell_in("src/daemon/rules.rs", text), Vec::<String>::new());
}

#[test]
fn crates_are_named_by_their_owners_alone() {
    let found: Vec<String> = SOURCES.iter().flat_map(trespasses).collect();
    assert_none(
        "Let the module that owns it offer what you need in the model's words (see OWNED).",
        &found,
    );
}

#[test]
fn every_module_has_its_arrows_and_every_exception_its_file() {
    for source in SOURCES.iter() {
        let is_known =
            source.top() == "lib" || ARROWS.iter().any(|(from, _)| *from == source.top());
        assert!(is_known, "{}: say in ARROWS what this module may name", source.path);
    }
    let listed = ARROWS.iter().map(|(from, _)| *from).chain(PURE);
    for module in listed {
        let exists = SOURCES.iter().any(|source| source.top() == module);
        assert!(exists, "there is no module {module} any more: take it off the lists");
    }
    for path in PURE_BUT_FOR {
        let exists = SOURCES.iter().any(|source| source.path == path);
        assert!(exists, "there is no {path} any more: take it off the list");
    }
}

#[test]
fn the_rules_see_what_they_forbid() {
    let source = |path: &str, text: &str| Source::parse(path, text);
    let web = source("src/web/page.rs", "use crate::{model::Call, daemon::{self, now}};");
    assert_eq!(wrong_arrows(&web).len(), 2);
    let web = source("src/web/page.rs", "fn f() { super::super::tail::read() }");
    assert_eq!(wrong_arrows(&web).len(), 1);
    let main = source("src/main.rs", "fn main() { calltrail::store::open() }");
    assert_eq!(wrong_arrows(&main).len(), 1);
    let below =
        source("src/web/page.rs", "use crate::store::Reader; #[cfg(test)] use crate::tail;");
    assert_eq!(wrong_arrows(&below), Vec::<String>::new());

    let pure = source("src/detect/rule.rs", "use std::{fs, time::{Duration, Instant}};");
    assert_eq!(impurities(&pure).len(), 2);
    let pure = source("src/mask.rs", "fn f() { tracing::warn!(\"x\") }");
    assert_eq!(impurities(&pure).len(), 1);
    let pure = source("src/mask.rs", "use std::*;");
    assert_eq!(impurities(&pure).len(), 1);
    let tests = source("src/mask.rs", "// std::fs\n#[cfg(test)] mod tests { use std::fs; }");
    assert_eq!(impurities(&tests), Vec::<String>::new());
    let shell = source("src/simulate/write.rs", "use std::fs;");
    assert_eq!(impurities(&shell), Vec::<String>::new());

    let store = source("src/web/page.rs", "use duckdb::Connection; fn f() -> lettre::Message {}");
    assert_eq!(trespasses(&store).len(), 2);
    let crate_named = source("src/daemon/watch.rs", "use notify::Watcher;");
    assert_eq!(trespasses(&crate_named).len(), 1);
    let own = source("src/cli/mod.rs", "mod notify; fn f() { notify::run() }");
    assert_eq!(trespasses(&own), Vec::<String>::new());
}

fn wrong_arrows(source: &Source) -> Vec<String> {
    let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == source.top()) else {
        return Vec::new();
    };
    let target = |named: &Named| {
        let is_crate = named.starts_with("crate") || named.starts_with("calltrail");
        named.path.get(1).filter(|_| is_crate).cloned()
    };
    complain(source, |named| {
        let target = target(named)?;
        let is_right = target == source.top() || allowed.contains(&target.as_str());
        (!is_right).then(|| format!("{} names {target}", source.top()))
    })
}

/// Parts of the shell that a file of a pure stage names, with their lines.
fn shell_in(path: &str, text: &str) -> Vec<String> {
    let inside = path.trim_start_matches("src/").trim_end_matches(".rs");
    let is_pure = |top: &str| PURE.contains(&top);
    if !inside.split('/').next().is_some_and(is_pure) {
        return Vec::new();
    }
    let is_shell = |top: &str| ARROWS.iter().any(|(known, _)| *known == top) && !is_pure(top);
    let named = paths_with_tests(text).into_iter().filter(|named| named.starts_with("crate"));
    named
        .filter_map(|named| {
            let top = named.path.get(1).filter(|top| is_shell(top))?;
            Some(format!("{path}:{}: {inside} names {top}", named.line))
        })
        .collect()
}

fn impurities(source: &Source) -> Vec<String> {
    if !PURE.contains(&source.top()) || PURE_BUT_FOR.contains(&source.path.as_str()) {
        return Vec::new();
    }
    complain(source, |named| {
        let impure =
            IMPURE.iter().find(|impure| named.starts_with(impure) || takes_in(named, impure));
        impure.map(|impure| format!("{} is pure and names {impure}", source.top()))
    })
}

fn trespasses(source: &Source) -> Vec<String> {
    let top = source.top();
    complain(source, |named| {
        let (owned, owners) =
            OWNED.iter().find(|(owned, _)| named.starts_with(owned) && !source.has_own(owned))?;
        (!owners.contains(&top)).then(|| format!("{top} names {owned}, which is for {owners:?}"))
    })
}

/// Whether a `use` with a star takes a forbidden name in.
fn takes_in(named: &Named, forbidden: &str) -> bool {
    let Some((star, before)) = named.path.split_last() else { return false };
    star == "*" && forbidden.starts_with(&format!("{}::", before.join("::")))
}

/// What is wrong with the paths of a file, with their lines.
fn complain(source: &Source, wrong: impl Fn(&Named) -> Option<String>) -> Vec<String> {
    let wrong = source.paths.iter().filter_map(|named| Some((named.line, wrong(named)?)));
    wrong.map(|(line, what)| format!("{}:{line}: {what}", source.path)).collect()
}
