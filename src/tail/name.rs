//! File names: which look like a log, which stream they belong to, and how old their content is
//! within it.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

use chrono::DateTime;
use regex::Regex;

/// What a file's name promises.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Looks {
    Log(Name),
    /// A log inside an archive of a kind that is not unpacked.
    Compressed,
    Other,
}

/// A log's name, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// The name without rotation suffixes, such as `audit.jsonl`.
    pub(super) stem: String,
    pub(super) age: Age,
    /// Compressed in a way that is unpacked: a rotation's work.
    pub(super) is_packed: bool,
}

/// Where a file stands among the rotations of its stream; the greatest is the newest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Age {
    /// False for what was set aside as `.old`.
    in_use: bool,
    /// The date in the name as digits; [`NO_DATE`] sorts after every date.
    date: String,
    /// The number in the name: the higher, the older; 0 where there is none.
    number: Reverse<u32>,
}

const NO_DATE: &str = "~";

/// What the names of compressed files that are unpacked end with.
const PACKED: [&str; 2] = ["gz", "zst"];

impl Age {
    /// The age of a name without any rotation suffix.
    pub(super) fn newest() -> Self {
        Self { in_use: true, date: NO_DATE.to_owned(), number: Reverse(0) }
    }

    pub(super) fn is_dated(&self) -> bool {
        self.date != NO_DATE
    }

    /// Whether a rotation gave the file this name: a date alone may just as well be the writer's
    /// own scheme.
    pub(super) fn is_set_aside(&self) -> bool {
        !self.in_use || self.number.0 > 0
    }
}

/// Takes a file's name apart; says [`Looks::Other`] for everything that does not look like a log.
pub(super) fn look_at(file_name: &str) -> Looks {
    if file_name.starts_with(['.', '~', '#']) {
        return Looks::Other;
    }
    if let Some((inner, packing)) = file_name.rsplit_once('.')
        && matches!(packing, "gz" | "zst" | "bz2" | "xz" | "zip")
    {
        return match parse(inner) {
            Some(name) if PACKED.contains(&packing) => {
                // Without a date or a number it is what was in the file last.
                let is_bare = name.age == Age::newest();
                let number = Reverse(u32::from(is_bare) + name.age.number.0 * u32::from(!is_bare));
                Looks::Log(Name { age: Age { number, ..name.age }, is_packed: true, ..name })
            }
            Some(_) => Looks::Compressed,
            None => Looks::Other,
        };
    }
    parse(file_name).map_or(Looks::Other, Looks::Log)
}

/// Whether a file with this name is unpacked to be read.
pub(super) fn is_packed(path: &Path) -> bool {
    let packing = path.extension().and_then(OsStr::to_str);
    packing.is_some_and(|packing| PACKED.contains(&packing))
}

/// Years 1900 to 2099, with or without the time of day, and seconds since 1970 from 2017 to 2033.
const DATE: &str = concat!(
    r"(?:(?:19|20)\d{2}-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])",
    r"(?:[-_T]?(?:[01]\d|2[0-3])(?:[-_:]?[0-5]\d(?:[-_:]?[0-5]\d(?:\.\d{3})?)?)?Z?)?",
    r"|1[5-9]\d{8})",
);

static LOG: LazyLock<Regex> = LazyLock::new(|| {
    let base = format!(r"(?<alone>{DATE})|(?<base>.+?)(?:[-._](?<date>{DATE}))?");
    let suffixes = format!(r"(?:\.old|[-._]{DATE}|\.\d{{1,5}})*");
    compile(&format!(r"(?s)^(?:{base})\.(?<kind>jsonl|json|ndjson|log)(?<suffixes>{suffixes})$"))
});

static SUFFIX: LazyLock<Regex> = LazyLock::new(|| {
    compile(&format!(r"(?<old>\.old)|[-._](?<date>{DATE})|\.(?<number>\d{{1,5}})"))
});

#[expect(clippy::expect_used, reason = "the patterns are constants; the tests compile them")]
fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a valid pattern")
}

fn parse(file_name: &str) -> Option<Name> {
    let found = LOG.captures(file_name)?;
    let text = |group: &str| found.name(group).map(|part| part.as_str());
    let base = text("alone").map_or_else(|| text("base"), |_| Some("*"))?;
    let mut age = Age::newest();
    if let Some(date) = text("alone").or_else(|| text("date")) {
        age.date = digits(date);
    }
    for suffix in SUFFIX.captures_iter(text("suffixes").unwrap_or_default()) {
        if suffix.name("old").is_some() {
            age.in_use = false;
        } else if let Some(date) = suffix.name("date") {
            age.date = digits(date.as_str());
        } else if let Some(number) = suffix.name("number") {
            age.number = Reverse(number.as_str().parse().unwrap_or(u32::MAX));
        }
    }
    Some(Name { stem: format!("{base}.{}", text("kind")?), age, is_packed: false })
}

/// The date as `YYYYMMDDhhmmss…`, so that dates of every notation compare.
fn digits(date: &str) -> String {
    let digits: String = date.chars().filter(char::is_ascii_digit).collect();
    let since_1970 = digits.len() == 10 && digits.starts_with('1') && !digits.starts_with("19");
    let calendar = since_1970
        .then(|| DateTime::from_timestamp(digits.parse().ok()?, 0))
        .flatten()
        .map(|time| time.format("%Y%m%d%H%M%S").to_string());
    format!("{:0<17}", calendar.unwrap_or(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stem(file_name: &str) -> Option<String> {
        match look_at(file_name) {
            Looks::Log(name) => Some(name.stem),
            Looks::Compressed | Looks::Other => None,
        }
    }

    #[test]
    fn every_rotation_of_a_log_has_its_stem() {
        for name in [
            "audit.jsonl",
            "audit.jsonl.1",
            "audit.jsonl.12",
            "audit.jsonl.old",
            "audit.jsonl.1.old",
            "audit.jsonl-20260101",
            "audit.jsonl.2026-01-01",
            "audit.jsonl.20260101-120000",
            "audit.jsonl-20260101.3",
            "audit.jsonl-1767225600",
            "audit-20260101.jsonl",
            "audit.2026-01-01.jsonl",
            "audit_2026-01-01T10-00-00.jsonl",
            "audit-2026-01-01T10-00-00.000.jsonl",
            "audit-20260101.jsonl.2",
            "audit.jsonl.gz",
            "audit.jsonl.1.gz",
            "audit-20260101.jsonl.zst",
            "audit.jsonl-20260101.zst",
        ] {
            assert_eq!(stem(name).as_deref(), Some("audit.jsonl"), "{name}");
        }
        assert_eq!(stem("2026-01-01.jsonl").as_deref(), Some("*.jsonl"));
        assert_eq!(stem("server-7.log").as_deref(), Some("server-7.log"));
        assert_eq!(stem("a.log.jsonl").as_deref(), Some("a.log.jsonl"));
        assert_eq!(stem("new\nline.ndjson.1").as_deref(), Some("new\nline.ndjson"));
    }

    #[test]
    fn other_files_are_not_logs() {
        for name in [
            ".audit.jsonl",
            "audit.jsonl~",
            "#audit.jsonl#",
            "audit.jsonl.swp",
            "audit.jsonl.tmp",
            "audit.txt",
            "jsonl",
            ".jsonl",
            "photo.gz",
        ] {
            assert_eq!(look_at(name), Looks::Other, "{name}");
        }
        assert_eq!(look_at("audit.jsonl.1.bz2"), Looks::Compressed);
        assert_eq!(look_at("audit-20260101.log.xz"), Looks::Compressed);
    }

    #[test]
    fn oldest_content_sorts_first() {
        let oldest_first = [
            "a.log.1.old",
            "a-20251231.log",
            "a.log-20260101.2",
            "a.log-20260101.1",
            "a.log-20260101",
            "a.log.2026-01-01T10-00-00",
            "a.log-2026010111",
            "a.log-1767312000",
            "a.log.10",
            "a.log.3.gz",
            "a.log.2",
            "a.log.1",
            "a.log.gz",
            "a.log",
        ];
        let ages: Vec<Age> = oldest_first
            .iter()
            .map(|name| match look_at(name) {
                Looks::Log(name) => name.age,
                other => panic!("{name}: {other:?}"),
            })
            .collect();
        assert!(ages.is_sorted(), "{ages:#?}");
    }
}
