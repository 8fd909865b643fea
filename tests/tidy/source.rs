//! Rust read as tokens: enough to tell names from comments and text, and the program from its tests.

use std::collections::BTreeSet;
use std::slice;
use std::sync::LazyLock;

use super::tree::files_below;

/// A word, a text with its quotes, `::`, or one character. Comments are none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) line: usize,
    pub(super) text: String,
}

impl Token {
    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub(super) fn is_word(&self) -> bool {
        self.text.starts_with(|first: char| first.is_alphabetic() || first == '_')
    }
}

/// One file of Rust.
pub(super) struct Source {
    pub(super) path: String,
    /// Where it is in the crate: `src/web/guard.rs` is `web`, `guard`. Empty for `lib.rs`.
    module: Vec<String>,
    /// The tokens outside tests.
    pub(super) program: Vec<Token>,
    /// Every path the program names, written out in full: groups opened, `super` and `self` resolved.
    pub(super) paths: Vec<Named>,
    /// The modules with files of their own that are tests.
    test_modules: Vec<String>,
}

impl Source {
    /// Reads one file, which may hold tests of its own but is no file of tests.
    pub(super) fn parse(path: &str, text: &str) -> Self {
        let inside = path.trim_start_matches("src/").trim_end_matches(".rs").split('/');
        let module = inside.filter(|part| !["mod", "lib"].contains(part));
        let module: Vec<String> = module.map(str::to_owned).collect();
        let (program, test_modules) = without_tests(&tokens(text));
        let paths = named_paths(&program).into_iter().map(|named| named.below(&module)).collect();
        Self { path: path.to_owned(), module, program, paths, test_modules }
    }

    /// The module directly below the crate; `lib` for the crate's root.
    pub(super) fn top(&self) -> &str {
        self.module.first().map_or("lib", String::as_str)
    }

    /// Whether a name at the start of a path is one of this file's own modules or imports and no crate.
    pub(super) fn has_own(&self, name: &str) -> bool {
        let is_module = self.program.windows(2).any(|pair| pair[0].is("mod") && pair[1].is(name));
        let is_import = |named: &Named| {
            named.starts_with("crate") && named.path.last().is_some_and(|last| last == name)
        };
        is_module || self.paths.iter().any(is_import)
    }
}

/// A path that the program names, and where.
pub(super) struct Named {
    pub(super) line: usize,
    pub(super) path: Vec<String>,
}

impl Named {
    /// The path from the crate's root on, when the file that names it is this module.
    fn below(self, module: &[String]) -> Self {
        let supers = self.path.iter().take_while(|part| *part == "super").count();
        if supers == 0 && self.path.first().is_none_or(|part| part != "self") {
            return self;
        }
        let mut path = vec!["crate".to_owned()];
        path.extend(module.iter().take(module.len().saturating_sub(supers)).cloned());
        path.extend(self.path.into_iter().skip(supers.max(1)));
        Self { line: self.line, path }
    }

    pub(super) fn starts_with(&self, path: &str) -> bool {
        let wanted: Vec<&str> = path.split("::").collect();
        self.path.len() >= wanted.len() && wanted.iter().zip(&self.path).all(|(a, b)| a == b)
    }
}

/// Every file of the program in `src`, without those that are tests alone.
pub(super) static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let files = files_below("src").into_iter().filter(|file| file.has_extension("rs"));
    let mut sources: Vec<Source> =
        files.map(|file| Source::parse(&file.path, &file.text)).collect();
    let mut test_modules = BTreeSet::new();
    for Source { module, test_modules: names, .. } in &sources {
        test_modules
            .extend(names.iter().map(|name| [module.as_slice(), slice::from_ref(name)].concat()));
    }
    sources.retain(|source| !test_modules.iter().any(|tests| source.module.starts_with(tests)));
    sources
});

/// Cuts a text into tokens.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    Lexer { chars: text.chars().collect(), at: 0, line: 1 }.run()
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
}

impl Lexer {
    fn run(mut self) -> Vec<Token> {
        let mut tokens = Vec::new();
        while let Some(first) = self.peek(0) {
            let (line, start) = (self.line, self.at);
            match first {
                '/' if self.peek(1) == Some('/') => self.skip_while(|c| c != '\n'),
                '/' if self.peek(1) == Some('*') => self.skip_block_comment(),
                _ if first.is_whitespace() => self.skip(1),
                _ => {
                    self.skip_token(first);
                    let text = self.chars[start..self.at].iter().collect();
                    tokens.push(Token { line, text });
                }
            }
        }
        tokens
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.line += usize::from(self.peek(0) == Some('\n'));
            self.at += usize::from(self.peek(0).is_some());
        }
    }

    fn skip_while(&mut self, wanted: impl Fn(char) -> bool) {
        while self.peek(0).is_some_and(&wanted) {
            self.skip(1);
        }
    }

    fn skip_block_comment(&mut self) {
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                (None, _) => return,
                _ => {
                    self.skip(1);
                    continue;
                }
            }
            self.skip(2);
            if depth == 0 {
                return;
            }
        }
    }

    fn skip_token(&mut self, first: char) {
        if first.is_alphanumeric() || first == '_' {
            let start = self.at;
            self.skip_while(|c| c.is_alphanumeric() || c == '_');
            let word: String = self.chars[start..self.at].iter().collect();
            match word.as_str() {
                "r" | "br" | "cr" => self.skip_raw_text(),
                "b" | "c" if self.peek(0) == Some('"') => self.skip_quoted('"'),
                "b" if self.peek(0) == Some('\'') => self.skip_quoted('\''),
                _ => {}
            }
        } else if first == '"' {
            self.skip_quoted('"');
        } else if first == '\'' && (self.peek(1) == Some('\\') || self.peek(2) == Some('\'')) {
            self.skip_quoted('\'');
        } else if first == '\'' {
            self.skip(1);
            self.skip_while(|c| c.is_alphanumeric() || c == '_');
        } else {
            self.skip(if first == ':' && self.peek(1) == Some(':') { 2 } else { 1 });
        }
    }

    fn skip_quoted(&mut self, quote: char) {
        self.skip(1);
        while let Some(next) = self.peek(0).filter(|next| *next != quote) {
            self.skip(if next == '\\' { 2 } else { 1 });
        }
        self.skip(1);
    }

    /// The rest of `r"..."` or `r##"..."##`; nothing where it is a word such as `r#type`.
    fn skip_raw_text(&mut self) {
        let hashes = self.chars.iter().skip(self.at).take_while(|next| **next == '#').count();
        if self.peek(hashes) != Some('"') {
            return;
        }
        self.skip(hashes + 1);
        while self.peek(0).is_some() {
            let closes = self.peek(0) == Some('"')
                && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            self.skip(if closes { hashes + 1 } else { 1 });
            if closes {
                return;
            }
        }
    }
}

/// Leaves out every item under `#[cfg(test)]`; returns the rest and the names of the test modules in other files.
fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>) {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut rest, mut modules, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(token) = tokens.get(at) {
        let is_marked = tokens.len() >= at + MARK.len()
            && tokens[at..].iter().zip(MARK).all(|(token, mark)| token.is(mark));
        if !is_marked {
            rest.push(token.clone());
            at += 1;
            continue;
        }
        let end = item_end(tokens, at + MARK.len());
        if let [.., name, semicolon] = &tokens[at..end]
            && semicolon.is(";")
            && tokens[at..end].iter().any(|token| token.is("mod"))
        {
            modules.push(name.text.clone());
        }
        at = end;
    }
    (rest, modules)
}

/// Where the item ends that starts here: behind its block, or behind its semicolon where it has none.
fn item_end(tokens: &[Token], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut ends_by_semicolon = false;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.text.as_str() {
            "use" | "const" | "static" | "let" if depth == 0 => ends_by_semicolon = true,
            // `const fn`
            "fn" if depth == 0 => ends_by_semicolon = false,
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_end = token.is(";") || (token.is("}") && !ends_by_semicolon);
        if depth == 0 && is_end {
            return at + 1;
        }
    }
    tokens.len()
}

/// Every path that a file names, its tests included, as it is written.
pub(super) fn paths_with_tests(text: &str) -> Vec<Named> {
    named_paths(&tokens(text))
}

/// Every path in order: those of `use`, with groups opened, and those with `::` anywhere else.
fn named_paths(tokens: &[Token]) -> Vec<Named> {
    let (mut named, mut at) = (Vec::new(), 0);
    while let Some(token) = tokens.get(at) {
        let next = tokens.get(at + 1);
        if token.is("use") && next.is_some_and(|next| !next.is("<")) {
            at += 1;
            use_tree(tokens, &mut at, &[], &mut named);
            continue;
        }
        let mut path = Vec::new();
        while tokens.get(at).is_some_and(Token::is_word) {
            path.push(tokens[at].text.clone());
            at += 1;
            let goes_on = tokens.get(at).is_some_and(|token| token.is("::"))
                && tokens.get(at + 1).is_some_and(Token::is_word);
            if !goes_on {
                break;
            }
            at += 1;
        }
        if path.is_empty() {
            at += 1;
        } else if path.len() > 1 {
            named.push(Named { line: token.line, path });
        }
    }
    named
}

/// One branch of a `use`: a path, then maybe a group of further branches.
fn use_tree(tokens: &[Token], at: &mut usize, before: &[String], named: &mut Vec<Named>) {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(*at) {
        match token.text.as_str() {
            "{" => {
                loop {
                    *at += 1;
                    if tokens.get(*at).is_none_or(|token| token.is("}")) {
                        break;
                    }
                    use_tree(tokens, at, &path, named);
                    if tokens.get(*at).is_none_or(|token| !token.is(",")) {
                        break;
                    }
                }
                *at += 1;
                return;
            }
            "as" => *at += 1,
            "," | "}" | ";" => break,
            "self" if !path.is_empty() => {}
            _ if token.is_word() || token.is("*") => path.push(token.text.clone()),
            _ => {}
        }
        *at += 1;
    }
    let line = tokens.get(at.saturating_sub(1)).map_or(0, |token| token.line);
    named.push(Named { line, path });
}

#[test]
fn comments_and_texts_are_no_names() {
    let text = r##"// a::b
        /* c::d /* e */ f::g */ h("i::j", 'k', '\'', b'l', r#"m::"n"#, r"o") 'p: r#type"##;
    let words: Vec<String> = tokens(text)
        .into_iter()
        .filter(|token| token.text.chars().all(char::is_alphanumeric))
        .map(|token| token.text)
        .collect();
    assert_eq!(words, ["h", "r", "type"]);
}

#[test]
fn tests_are_no_part_of_the_program() {
    let text = "a; #[cfg(test)] mod tests { b } #[cfg(test)] use c::{d, e}; \
        #[cfg(test)] #[rustfmt::skip] const fn f(x: [u8; 2]) -> u8 { 1 } \
        #[cfg(test)] pub(crate) mod cases; g";
    let (rest, modules) = without_tests(&tokens(text));
    let rest: Vec<String> = rest.into_iter().map(|token| token.text).collect();
    assert_eq!(rest, ["a", ";", "g"]);
    assert_eq!(modules, ["cases"]);
}

#[test]
fn paths_are_written_out() {
    let text = "use std::{fs::{self, File}, io as inout, net::*,};\n\
        use super::super::store::{Reader};\nfn f() -> crate::model::Call<'a> { self::g::<u8>() }";
    let source = Source::parse("src/web/guard.rs", text);
    let paths: Vec<String> = source.paths.iter().map(|named| named.path.join("::")).collect();
    assert_eq!(
        paths,
        [
            "std::fs",
            "std::fs::File",
            "std::io",
            "std::net::*",
            "crate::store::Reader",
            "crate::model::Call",
            "crate::web::guard::g"
        ]
    );
}
