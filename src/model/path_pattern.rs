//! Patterns over the paths of logs: which of a path's parts name a tenant, a client or a principal.

/// Longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1024;

/// A path below a watched folder with places that name something, such as `{tenant}/{client}/*.jsonl`.
///
/// A placeholder stands for one or more characters of one folder or file name, as few as fit; `*` for any number of
/// them; `**` for any number of whole folders. Everything else stands for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    segments: Vec<Segment>,
}

/// What a placeholder's part of a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathField {
    Tenant,
    Client,
    Principal,
    Server,
    Session,
}

/// What a path says: at most one text for each field, none of them empty.
pub type PathNames<'a> = Vec<(PathField, &'a str)>;

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathPatternError {
    #[error("it is empty; write it like {{tenant}}/{{client}}/*.jsonl")]
    Empty,
    #[error("it has more than {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    #[error("it begins at the watched folder: leave out the `/` or `~` before it")]
    Absolute,
    #[error("a name between two `/` is empty")]
    EmptySegment,
    #[error("`**` stands for whole folders: put `/` around it, or write `*`")]
    PartOfSegment,
    #[error("`**` cannot be the last: name the file, with `*` for any")]
    NoFile,
    #[error("a `{{` or `}}` is alone; a placeholder is written {{tenant}}")]
    LoneBrace,
    #[error("{{{name}}} is no placeholder")]
    UnknownField { name: String },
    #[error("{{{0}}} stands there twice", field.as_str())]
    Twice { field: PathField },
    #[error(
        "where one placeholder or `*` follows another, a text between them has to tell them apart"
    )]
    Adjacent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    /// `**`
    AnyFolders,
    Name(NamePattern),
}

/// One folder or file name: a text, then wildcards, each with the text behind it, which is empty for the last alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NamePattern {
    head: String,
    /// No field: `*`.
    wildcards: Vec<(Option<PathField>, String)>,
}

impl PathField {
    pub const ALL: [Self; 5] =
        [Self::Tenant, Self::Client, Self::Principal, Self::Server, Self::Session];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Client => "client",
            Self::Principal => "principal",
            Self::Server => "server",
            Self::Session => "session",
        }
    }

    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.as_str() == word)
    }
}

impl PathPattern {
    pub fn parse(text: &str) -> Result<Self, PathPatternError> {
        if text.trim().is_empty() {
            return Err(PathPatternError::Empty);
        }
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PathPatternError::TooLong);
        }
        if text.starts_with(['/', '~']) {
            return Err(PathPatternError::Absolute);
        }
        let mut seen = Vec::new();
        let segments: Vec<Segment> = text
            .split('/')
            .map(|segment| parse_segment(segment, &mut seen))
            .collect::<Result<_, _>>()?;
        if segments.last() == Some(&Segment::AnyFolders) {
            return Err(PathPatternError::NoFile);
        }
        Ok(Self { text: text.to_owned(), segments })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What the stream's path says; none if it does not fit the pattern as a whole. Takes time in proportion to the
    /// lengths of both, whatever they hold.
    pub fn read<'a>(&self, stream: &'a str) -> Option<PathNames<'a>> {
        let names: Vec<&str> = stream.split('/').collect();
        let mut found = Vec::new();
        // Where to go on if what follows the last `**` does not fit: there, with one more folder left to it.
        let mut retry: Option<(usize, usize, usize)> = None;
        let (mut at, mut name) = (0, 0);
        loop {
            let fits = match (self.segments.get(at), names.get(name)) {
                (None, None) => return Some(found),
                (Some(Segment::AnyFolders), _) => {
                    retry = Some((at + 1, name, found.len()));
                    at += 1;
                    continue;
                }
                (Some(Segment::Name(pattern)), Some(text)) => {
                    pattern.read(text, &mut found).is_some()
                }
                _ => false,
            };
            if fits {
                (at, name) = (at + 1, name + 1);
                continue;
            }
            let (segment, from, known) = retry?;
            if from >= names.len() {
                return None;
            }
            found.truncate(known);
            (at, name) = (segment, from + 1);
            retry = Some((segment, from + 1, known));
        }
    }
}

fn parse_segment(text: &str, seen: &mut Vec<PathField>) -> Result<Segment, PathPatternError> {
    match text {
        "" => return Err(PathPatternError::EmptySegment),
        "**" => return Ok(Segment::AnyFolders),
        _ if text.contains("**") => return Err(PathPatternError::PartOfSegment),
        _ => {}
    }
    let mut pattern = NamePattern::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (literal, wild) = rest.split_at(rest.find(['*', '{', '}']).unwrap_or(rest.len()));
        match pattern.wildcards.last_mut() {
            Some(_) if literal.is_empty() => return Err(PathPatternError::Adjacent),
            Some((_, behind)) => literal.clone_into(behind),
            None => literal.clone_into(&mut pattern.head),
        }
        rest = wild;
        if let Some(after) = wild.strip_prefix('*') {
            pattern.wildcards.push((None, String::new()));
            rest = after;
        } else if !wild.is_empty() {
            let inner = wild.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let (name, after) = inner.ok_or(PathPatternError::LoneBrace)?;
            let field = PathField::from_word(name)
                .ok_or_else(|| PathPatternError::UnknownField { name: name.to_owned() })?;
            if seen.contains(&field) {
                return Err(PathPatternError::Twice { field });
            }
            seen.push(field);
            pattern.wildcards.push((Some(field), String::new()));
            rest = after;
        }
    }
    Ok(Segment::Name(pattern))
}

impl NamePattern {
    /// Adds what the name says; none where it does not fit. Each wildcard takes as little as lets the text behind it
    /// follow: with a text behind each but the last, taking more would never help.
    fn read<'a>(&self, name: &'a str, found: &mut PathNames<'a>) -> Option<()> {
        let mut rest = name.strip_prefix(self.head.as_str())?;
        for (number, (field, behind)) in self.wildcards.iter().enumerate() {
            let least = if field.is_some() { rest.chars().next()?.len_utf8() } else { 0 };
            let end = if number + 1 == self.wildcards.len() {
                rest.strip_suffix(behind.as_str())?.len()
            } else {
                least + rest.get(least..)?.find(behind.as_str())?
            };
            let taken = rest.get(..end).filter(|_| end >= least)?;
            found.extend(field.map(|field| (field, taken)));
            rest = rest.get(end + behind.len()..)?;
        }
        rest.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the pattern reads, as `field=text` in the order of the path.
    fn read(pattern: &str, stream: &str) -> Option<String> {
        let pattern = PathPattern::parse(pattern).unwrap();
        let names = pattern.read(stream)?;
        let shown: Vec<String> =
            names.iter().map(|(field, text)| format!("{}={text}", field.as_str())).collect();
        Some(shown.join(" "))
    }

    #[test]
    fn placeholders_name_what_stands_in_their_place() {
        for (pattern, stream, wanted) in [
            ("{tenant}/{client}/*.jsonl", "acme/desk/audit.jsonl", Some("tenant=acme client=desk")),
            ("{tenant}/{client}/*.jsonl", "acme/audit.jsonl", None),
            ("{tenant}/{client}/*.jsonl", "acme/desk/x/audit.jsonl", None),
            ("{tenant}/{client}/*.jsonl", "acme/desk/audit.log", None),
            // As few characters as fit, and one at least.
            ("{tenant}-{client}.jsonl", "acme-eu-desk.jsonl", Some("tenant=acme client=eu-desk")),
            ("{tenant}-{client}.jsonl", "-desk-x.jsonl", Some("tenant=-desk client=x")),
            ("{tenant}-{client}.jsonl", "acme-.jsonl", None),
            ("{principal}.jsonl", ".jsonl", None),
            ("u-{principal}@*.jsonl", "u-ann@x@y.jsonl", Some("principal=ann")),
            ("*-{server}.log", "a-b-c.log", Some("server=b-c")),
            ("*aa", "aaa", Some("")),
            ("{session}é", "éé", Some("session=é")),
            // Whole folders, none among them.
            ("**/{server}/audit.jsonl", "files/audit.jsonl", Some("server=files")),
            ("**/{server}/audit.jsonl", "a/b/files/audit.jsonl", Some("server=files")),
            ("{tenant}/**/{client}.jsonl", "acme/x.jsonl", Some("tenant=acme client=x")),
            ("{tenant}/**/{client}.jsonl", "acme/a/b/x.jsonl", Some("tenant=acme client=x")),
            ("**/x/{client}/**/*.log", "x/x/a.log", Some("client=x")),
            ("**/x/{client}/b/*.log", "x/a/x/c/b/d.log", Some("client=c")),
            ("**/x/*.log", "a/b", None),
            ("a.log", "a.log", Some("")),
            ("a.log", "b.log", None),
        ] {
            assert_eq!(read(pattern, stream).as_deref(), wanted, "{pattern} {stream}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_told() {
        use PathPatternError as E;
        let unknown = |name: &str| E::UnknownField { name: name.to_owned() };
        let twice = E::Twice { field: PathField::Tenant };
        for (text, wanted) in [
            ("", E::Empty),
            (" ", E::Empty),
            ("/var/log/{tenant}/*", E::Absolute),
            ("~/{tenant}/*", E::Absolute),
            ("{tenant}//*", E::EmptySegment),
            ("{tenant}/", E::EmptySegment),
            ("{tenant}/a**", E::PartOfSegment),
            ("{tenant}/**", E::NoFile),
            ("{tenant/x", E::LoneBrace),
            ("tenant}/x", E::LoneBrace),
            ("{ten{ant}/x", unknown("ten{ant")),
            ("{}/x", unknown("")),
            ("{Tenant}/x", unknown("Tenant")),
            ("{tenant}/{tenant}", twice),
            ("{tenant}{client}/x", E::Adjacent),
            ("*{client}/x", E::Adjacent),
            (&"x".repeat(PATTERN_BYTES_MAX + 1), E::TooLong),
        ] {
            assert_eq!(PathPattern::parse(text), Err(wanted), "{text}");
        }
    }

    #[test]
    fn a_path_made_to_be_slow_is_not() {
        // Tried one by one, the ways to divide this would outlast the universe.
        let pattern = format!("{}{}", "**/a/".repeat(200), "*a".repeat(8));
        let pattern = PathPattern::parse(&pattern).unwrap();
        assert_eq!(pattern.read(&"a/".repeat(2000)), None);
        let pattern = PathPattern::parse(&format!("{}b", "*a".repeat(500))).unwrap();
        assert_eq!(pattern.read(&"a".repeat(4096)), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_pattern_or_not_and_any_path_fits_or_not(
            pattern in r"[a{}*/]{0,12}|(\*\*/)?\{tenant\}[ab-]?\*?/a?\{client\}b?",
            stream in "[ab/é-]{0,12}",
        ) {
            if let Ok(pattern) = PathPattern::parse(&pattern) {
                for (_, text) in pattern.read(&stream).unwrap_or_default() {
                    prop_assert!(!text.is_empty() && !text.contains('/'));
                }
            }
        }
    }
}
