//! Runs the cases under `tests/config`: every `.toml` is loaded, and its problems, or the
//! configuration in force, are compared with the `.expect` beside it. `UPDATE_EXPECT=1` writes the
//! expected texts anew.
//!
//! A line `# set NAME=VALUE` sets a variable for the case, `# flag --name VALUE` a flag.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A folder with what the cases speak of.
struct Site(TempDir);

impl Site {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let site = Self(folder);
        for name in ["logs", "rules", "credentials"] {
            fs::create_dir(site.path(name)).unwrap();
        }
        for (name, text, mode) in [
            ("secret", "hunter2\n", 0o600),
            ("shared-secret", "hunter2\n", 0o640),
            ("long-secret", "hunter2\nhunter3\n", 0o600),
            ("empty-secret", "\n", 0o600),
            ("credentials/smtp-password", "hunter2", 0o440),
            ("ca.pem", "-----BEGIN CERTIFICATE-----\n", 0o644),
            ("tools.toml", "", 0o644),
        ] {
            fs::write(site.path(name), text).unwrap();
            fs::set_permissions(site.path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes the configuration file.
    fn write(&self, text: &str) -> PathBuf {
        let file = self.path("calltrail.toml");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        file
    }

    fn environment(&self, more: &[(&str, &str)]) -> Environment {
        let home = ("HOME", self.0.path().to_str().unwrap());
        let all = more.iter().copied().chain([home]);
        all.map(|(name, value)| (OsString::from(name), OsString::from(self.fill(value)))).collect()
    }

    /// Loads a configuration file with this text, in an otherwise empty environment.
    fn load(&self, text: &str) -> Result<Config, Vec<ConfigProblem>> {
        let overrides = Overrides { config: Some(self.write(text)), ..Overrides::default() };
        self.load_with(&overrides, &[])
    }

    fn load_with(
        &self,
        overrides: &Overrides,
        variables: &[(&str, &str)],
    ) -> Result<Config, Vec<ConfigProblem>> {
        load_with(overrides, &self.environment(variables), &self.path("etc/config.toml"))
    }

    fn fill(&self, text: &str) -> String {
        text.replace("$DIR", self.0.path().to_str().unwrap())
    }

    fn show(&self, result: Result<Config, Vec<ConfigProblem>>) -> String {
        let shown = match result {
            Ok(config) => config.to_masked_toml(),
            Err(problems) => {
                let lines = problems.iter().map(ToString::to_string);
                lines.flat_map(|line| [line, "\n".to_owned()]).collect()
            }
        };
        let shown = shown.replace(self.0.path().to_str().unwrap(), "$DIR");
        shown.replace(env!("CARGO_MANIFEST_DIR"), "$HERE")
    }
}

fn run_case(text: &str) -> String {
    let site = Site::new();
    let mut overrides =
        Overrides { config: Some(site.write(&site.fill(text))), ..Overrides::default() };
    let mut variables = Vec::new();
    for line in text.lines() {
        if let Some((name, value)) = line.strip_prefix("# set ").and_then(|set| set.split_once('='))
        {
            variables.push((name, value));
        }
        let Some(flag) = line.strip_prefix("# flag ") else { continue };
        let (name, value) = flag.split_once(' ').unwrap_or((flag, ""));
        let path = || PathBuf::from(site.fill(value));
        match name {
            "--db" => overrides.db = Some(path()),
            "--listen" => overrides.listen = Some(value.to_owned()),
            "--rules" => overrides.rules = Some(path()),
            "--catalogue" => overrides.catalogue = Some(path()),
            "--no-mail" => overrides.no_mail = true,
            "no-db" => overrides.no_db = true,
            "DIR" => overrides.logs.push(path()),
            other => panic!("no such flag: {other}"),
        }
    }
    site.show(site.load_with(&overrides, &variables))
}

#[test]
fn every_case_is_answered_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let is_case = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let mut cases: Vec<PathBuf> = entries.filter(is_case).collect();
    cases.sort();
    assert!(cases.len() >= 12, "cases are missing under {}", folder.display());
    for case in cases {
        let shown = run_case(&fs::read_to_string(&case).unwrap());
        assert!(!shown.contains("hunter"), "{} shows a password:\n{shown}", case.display());
        let expect = case.with_extension("expect");
        #[expect(clippy::disallowed_methods, reason = "the switch of this test alone")]
        if std::env::var("UPDATE_EXPECT").is_ok() {
            fs::write(&expect, &shown).unwrap();
        }
        let expected = fs::read_to_string(&expect).unwrap_or_default();
        assert_eq!(shown, expected, "{} (UPDATE_EXPECT=1 writes it anew)", case.display());
    }
}

#[test]
fn the_example_says_what_the_defaults_are() {
    let site = Site::new();
    let nothing = site.load_with(&Overrides::default(), &[]);
    assert!(nothing.as_ref().is_ok_and(|config| config.file.is_none() && config.mail.is_none()));
    assert_eq!(site.show(site.load(EXAMPLE)), site.show(nothing));
}

#[test]
fn the_example_names_every_key_and_only_keys() {
    let shown_only = |line: &&str| line.starts_with('#') && !line.starts_with("# ") && *line != "#";
    let uncommented: Vec<&str> = EXAMPLE
        .lines()
        .map(|line| if shown_only(&line) { line.trim_start_matches('#') } else { line })
        .collect();
    let text = uncommented.join("\n");
    let mut problems = Problems::default();
    let document = Document::parse(Path::new("example.toml"), &text, &mut problems);
    let environment = Environment::from_iter([]);
    let mut sources = Sources::new(Some(&document), &environment, problems);
    RawConfig::read(&mut sources);
    for (section, key) in sources.asked() {
        let named = document.section(section).is_some_and(|table| table.contains_key(*key));
        assert!(named, "the example lacks `{key}` in [{section}]");
    }
    assert_eq!(sources.into_problems().into_sorted(), []);
}

#[test]
fn what_is_in_force_reads_back_the_same() {
    let site = Site::new();
    let text = r#"
        logs = ["logs", "more \"logs\"\t"]
        web = { base_url = "https://trail.example.org/x/" }
        [mail]
        from = "Ann <a@b.org>"
        to = ["a@b.org"]
        [mail.smtp]
        host = "mail.b.org"
        username = "a\\b"
        password_file = "secret"
        ca_file = "ca.pem"
        [clocks]
        "a/b.jsonl" = "-850ms"
        [outcomes]
        "half done" = "error"
    "#;
    let first = site.load(text).unwrap();
    assert_eq!(first.clocks, [("a/b.jsonl".into(), -850_000)]);
    assert_eq!(first.outcomes, [("half done".to_owned(), OutcomeClass::Error)]);
    let shown = first.to_masked_toml();
    let second = site.load(&shown).unwrap();
    assert_eq!(second.to_masked_toml(), shown);
    assert!(second.mail.is_some_and(|mail| mail.recipients().eq(["a@b.org"])));
}

#[test]
fn the_users_file_comes_before_the_systems() {
    let site = Site::new();
    for folder in ["etc", ".config/calltrail", "xdg/calltrail"] {
        fs::create_dir_all(site.path(folder)).unwrap();
    }
    let nothing = Overrides::default();
    let file = |variables: &[(&str, &str)]| site.load_with(&nothing, variables).unwrap().file;
    assert_eq!(file(&[]), None);
    for (name, variables) in [
        ("etc/config.toml", vec![]),
        (".config/calltrail/config.toml", vec![]),
        ("xdg/calltrail/config.toml", vec![("XDG_CONFIG_HOME", "$DIR/xdg")]),
    ] {
        fs::write(site.path(name), "").unwrap();
        assert_eq!(file(&variables), Some(site.path(name)), "{name}");
    }
}

#[test]
fn a_file_that_cannot_be_trusted_or_read_is_refused() {
    let site = Site::new();
    let overrides = |config: PathBuf| Overrides { config: Some(config), ..Overrides::default() };
    let refused = |config: PathBuf, reason: &str| {
        let shown = site.show(site.load_with(&overrides(config), &[("CALLTRAIL__LOG", "x")]));
        assert!(shown.contains(reason), "{shown}");
        assert!(shown.contains("CALLTRAIL__LOGS?"), "the environment is checked too: {shown}");
    };
    refused(site.path("missing.toml"), "No such file");
    refused(site.path("logs"), "directory");
    let file = site.write("");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o602)).unwrap();
    refused(file, "everybody may write it");
    fs::write(site.path("latin.toml"), b"a = \"\xe9\"").unwrap();
    refused(site.path("latin.toml"), "UTF-8");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_answered(text in r#"([a-z_.\[\]={}"',0-9#-]|\n| ){0,80}"#) {
        if let Err(problems) = Site::new().load(&text) {
            prop_assert!(!problems.is_empty());
            prop_assert!(problems.iter().all(|problem| !problem.message.is_empty()));
        }
    }

    #[test]
    fn any_value_of_a_key_is_answered_where_it_was_typed(
        pair in prop::sample::select(vec![
            ("store", "db"), ("store", "memory_max"), ("web", "listen"), ("web", "base_url"),
            ("web", "allowed_hosts"), ("mail", "from"), ("mail", "to"), ("tail", "scan_secs"),
            ("tail", "line_bytes_max"), ("mail.smtp", "port"), ("rules", "disabled"),
        ]),
        value in prop::sample::select(vec![
            "0", "-1", "18446744073709551616", "\"\"", "\"x\"", "true", "[]", "[1]", "[\"\"]",
            "{}", "1979-05-27", "1e400", "\"\\u0000\"", "\"~no/x\"", "\"99999999999999999999GB\"",
        ]),
    ) {
        let (section, key) = pair;
        let file = format!("[{section}]\n{key} = {value}\n");
        if let Err(problems) = Site::new().load(&file) {
            for problem in problems {
                prop_assert!(matches!(problem.line, Some(1 | 2)), "{}", problem);
            }
        }
    }
}
