//! How long things may be. What is longer is read by nobody in one go.

use super::assert_none;
use super::source::{Token, tokens};
use super::tree::{TextFile, all_files, files_below};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_COLUMNS_MAX: usize = 120;

#[test]
fn files_are_short() {
    let found: Vec<String> = rust_files().iter().filter_map(long_file).collect();
    assert_none("Split the file by the nouns in it, one module each.", &found);
}

#[test]
fn functions_are_short() {
    let found: Vec<String> = rust_files().iter().flat_map(long_functions).collect();
    assert_none("Give the parts of the function names of their own.", &found);
}

#[test]
fn lines_are_short() {
    let is_code = |file: &TextFile| {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let is_script = file.path.starts_with(".ci/") || name == "Makefile";
        is_script || file.has_extension("rs")
    };
    let files = all_files();
    let found: Vec<String> =
        files.iter().filter(|file| is_code(file)).flat_map(long_lines).collect();
    assert_none("Break the line: `cargo fmt` leaves comments and texts alone.", &found);
}

#[test]
fn a_folder_of_code_holds_no_stray_file() {
    let has_kind = |file: &TextFile| {
        file.path.rsplit('/').next().is_some_and(|name| name.contains('.') || name == "Makefile")
    };
    let stray = |file: &TextFile| (!has_kind(file)).then(|| file.path.clone());
    let found: Vec<String> = ["src", "tests", "benches"]
        .iter()
        .flat_map(|folder| files_below(folder))
        .filter_map(|file| stray(&file))
        .collect();
    assert_none("Delete what a command left behind.", &found);
}

#[test]
fn the_rules_see_what_they_forbid() {
    let file = |text: String| TextFile { path: "src/x.rs".to_owned(), text };
    assert!(long_file(&file("x\n".repeat(FILE_LINES_MAX))).is_none());
    assert!(long_file(&file("x\n".repeat(FILE_LINES_MAX + 1))).is_some());

    let function = |lines: usize| format!("fn f() {{{}}}\n", "\n".repeat(lines - 1));
    let signature = "trait T { fn f(x: [u8; 2]); }\n".to_owned();
    let text = signature + function(FUNCTION_LINES_MAX).as_str();
    assert_eq!(long_functions(&file(text.clone())), Vec::<String>::new());
    let text = text + function(FUNCTION_LINES_MAX + 1).as_str();
    assert_eq!(long_functions(&file(text)).len(), 1);

    assert_eq!(long_lines(&file("ä".repeat(LINE_COLUMNS_MAX))), Vec::<String>::new());
    assert_eq!(long_lines(&file("ä".repeat(LINE_COLUMNS_MAX + 1))).len(), 1);
}

fn rust_files() -> Vec<TextFile> {
    all_files().into_iter().filter(|file| file.has_extension("rs")).collect()
}

fn long_file(file: &TextFile) -> Option<String> {
    let lines = file.text.lines().count();
    (lines > FILE_LINES_MAX)
        .then(|| format!("{}: {lines} lines, {FILE_LINES_MAX} may be", file.path))
}

fn long_lines(file: &TextFile) -> Vec<String> {
    let lines = file.text.lines().enumerate().filter_map(|(index, line)| {
        let columns = line.chars().count();
        (columns > LINE_COLUMNS_MAX).then(|| {
            format!("{}:{}: {columns} columns, {LINE_COLUMNS_MAX} may be", file.path, index + 1)
        })
    });
    lines.collect()
}

fn long_functions(file: &TextFile) -> Vec<String> {
    let tokens = tokens(&file.text);
    let functions = tokens.windows(2).enumerate().filter_map(|(at, pair)| {
        // `fn(u8)` is a type and has no name.
        let [keyword, name] = pair else { return None };
        if !(keyword.is("fn") && name.is_word()) {
            return None;
        }
        let lines = body_end(&tokens, at)? + 1 - keyword.line;
        (lines > FUNCTION_LINES_MAX).then(|| {
            let place = format!("{}:{}", file.path, keyword.line);
            format!("{place}: {} has {lines} lines, {FUNCTION_LINES_MAX} may be", name.text)
        })
    });
    functions.collect()
}

/// The last line of the function whose `fn` is here; none where it has no body.
fn body_end(tokens: &[Token], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for token in tokens.iter().skip(start) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => return None,
            _ => {}
        }
        if depth == 0 && token.is("}") {
            return Some(token.line);
        }
    }
    None
}
