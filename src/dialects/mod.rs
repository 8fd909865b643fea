//! Raw lines to records: one file per log format, and one table that tells which a line is in by
//! its keys. Formats may be mixed in one file. Pure: a line, its stream's name and the time of
//! reading go in, a [`Parsed`] comes out; a line that cannot be read is data ([`Reject`]), never an
//! error. `README.md` here says how to add a format.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod damage;
mod fields;
mod gate;
mod json;
mod mend;
mod parts;
mod path;
mod prefix;
mod reading;
mod shown;
mod stdio_proxy;
mod tenant;
mod texts;
mod time;
mod two_sided;
mod words;

use std::borrow::Cow;
use std::collections::VecDeque;

use self::fields::Fields;
use self::json::Json;
use self::path::Paths;
use self::reading::Reading;
use self::texts::{Texts, head};
use self::words::Words;
use crate::mask::{mask_cut, mask_line, mask_text};
use crate::model::{
    Args, Dialect, Line, Micros, OutcomeClass, PathPattern, Record, RecordId, RecordKind, Reject,
    Text, Witness,
};
use crate::untrusted::display_untrusted;

/// Longest head of a rejected line, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// How far behind the head secrets are looked for, so that one which the cut goes through is still
/// known.
const HEAD_MARGIN_BYTES: usize = 4 * 1024;

/// Most keys a reject's reason names, and the characters of each.
const REASON_KEYS_MAX: usize = 12;
const REASON_KEY_BYTES_MAX: usize = 64;

const GATE_DURATION_KEYS: [&str; 3] = ["duration_ms", "ms", "duration"];

/// How lines of one dialect look.
struct Shape {
    dialect: Dialect,
    fits: fn(&Fields<'_>) -> bool,
    /// Fills in what the dialect knows; the fields that all dialects share are there already.
    read: fn(&mut Reading<'_, '_>, &mut Record),
    /// Where the principal stands, most trusted first.
    principal_keys: &'static [&'static str],
    duration_keys: &'static [&'static str],
    /// For people: the keys by which a line is known.
    known_by: &'static str,
}

/// The first shape that fits is the line's.
static SHAPES: [Shape; 4] = [
    Shape {
        dialect: Dialect::StdioProxy,
        fits: stdio_proxy::fits,
        read: stdio_proxy::read,
        principal_keys: &["subject", "principal", "user"],
        duration_keys: &["duration_ms"],
        known_by: "direction (client->server or server->client)",
    },
    Shape {
        dialect: Dialect::TwoSided,
        fits: two_sided::fits,
        read: two_sided::read,
        principal_keys: &["subject", "principal", "user"],
        duration_keys: &["duration_ms"],
        known_by: "actor (client or server), tool, outcome",
    },
    Shape {
        dialect: Dialect::Gate,
        fits: gate::fits,
        read: gate::read,
        principal_keys: &["caller", "subject", "principal", "user"],
        duration_keys: &GATE_DURATION_KEYS,
        known_by: "caller, tool, outcome",
    },
    Shape {
        dialect: Dialect::Tenant,
        fits: tenant::fits,
        read: tenant::read,
        principal_keys: &["subject", "principal", "user"],
        duration_keys: &["duration_ms"],
        known_by: "subject or params, tool, outcome",
    },
];

/// What a line is.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every line is a record: boxing would cost each"
)]
pub enum Parsed {
    /// One record, with index 0.
    Record(Record),
    /// Nothing but space.
    Blank,
    Reject(Reject),
    /// A line that holds more than one thing. Records and rejects, at least one of each or two
    /// records, whose ranges cover the line's exactly and in order; what separates them belongs to
    /// the one before it. They belong into the database together: reading goes on behind the line.
    Parts(Vec<Part>),
}

/// One thing of several on a line.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "most are records")]
pub enum Part {
    Record(Record),
    Reject(Reject),
}

/// Why a line is no record.
enum Unread {
    /// It is no JSON object; it may hold some.
    Json(String),
    /// It is one of a format that nobody knows.
    Shape(String),
}

/// Makes records of lines. It remembers texts it has seen and what paths name, within bounds, to
/// share them; nothing else carries over from line to line.
pub struct Parser {
    texts: Texts,
    words: Words,
    paths: Paths,
}

impl Parser {
    /// `hash_key` keys the hashes of argument values; `words` are outcome words of the
    /// configuration, which win over the common ones.
    pub fn new(hash_key: [u8; 32], words: Vec<(String, OutcomeClass)>) -> Self {
        let paths = Paths::new(Vec::new());
        Self { texts: Texts::new(hash_key), words: Words::new(words), paths }
    }

    /// With patterns over the names of streams, the first that fits one counting for it: what it
    /// names there holds for every record of the stream that does not name it itself.
    #[must_use]
    pub fn with_paths(self, patterns: Vec<PathPattern>) -> Self {
        Self { paths: Paths::new(patterns), ..self }
    }

    /// Reads one line of `stream`. `now` is when it was read: a time more than a minute ahead of it
    /// is kept but marked.
    pub fn parse(&mut self, line: &Line<'_>, stream: &Text, now: Micros) -> Parsed {
        let bytes = content(line.bytes);
        if bytes.is_empty() {
            return Parsed::Blank;
        }
        let reason = match self.read(bytes, line, stream, now) {
            Ok(record) => return Parsed::Record(record),
            Err(Unread::Shape(reason)) => reason,
            Err(Unread::Json(reason)) => {
                let mended = self.read_mended(bytes, line, stream, now);
                match mended.or_else(|| self.read_parts(line, stream, now)) {
                    Some(parsed) => return parsed,
                    None => reason,
                }
            }
        };
        Parsed::Reject(Reject {
            generation: line.generation,
            offset: line.offset,
            length: line.length,
            reason,
            head: masked_head(bytes, false),
        })
    }

    fn read(
        &mut self,
        bytes: &[u8],
        line: &Line<'_>,
        stream: &Text,
        now: Micros,
    ) -> Result<Record, Unread> {
        let text =
            std::str::from_utf8(bytes).map_err(|error| Unread::Json(not_utf8(bytes, error)))?;
        match json::parse(text).map_err(Unread::Json)? {
            Json::Object(pairs) => {
                self.read_object(Fields::new(pairs), line, stream, now).map_err(Unread::Shape)
            }
            other => {
                let kind = kind_of(&other);
                Err(Unread::Json(format!("{kind}, where an object was expected")))
            }
        }
    }

    /// The error says why the object is no record.
    fn read_object(
        &mut self,
        fields: Fields<'_>,
        line: &Line<'_>,
        stream: &Text,
        now: Micros,
    ) -> Result<Record, String> {
        let shape = SHAPES
            .iter()
            .find(|shape| (shape.fits)(&fields))
            .ok_or_else(|| unknown_shape(&fields))?;
        let mut reading = Reading::new(fields, &mut self.texts, &self.words);
        let mut record = shared_fields(&mut reading, shape, line, stream, now);
        (shape.read)(&mut reading, &mut record);
        reading.finish(&mut record);
        self.paths.fill(&mut record, &mut self.texts);
        Ok(record)
    }

    /// Reads a line that is nearly JSON; none if that does not make it a record.
    fn read_mended(
        &mut self,
        bytes: &[u8],
        line: &Line<'_>,
        stream: &Text,
        now: Micros,
    ) -> Option<Parsed> {
        let mended = mend::mend(bytes)?;
        let mut record = self.read(mended.as_bytes(), line, stream, now).ok()?;
        self.add_flags(&mut record, &[(true, "odd-json")]);
        Some(Parsed::Record(record))
    }

    /// Reads a line that is not one whole object; none if there is no record on it.
    fn read_parts(&mut self, line: &Line<'_>, stream: &Text, now: Micros) -> Option<Parsed> {
        let split =
            parts::split(line.bytes, |_, fields| self.read_object(fields, line, stream, now));
        let records = split.parts.iter().filter(|part| part.what.is_ok()).count();
        if records == 0 {
            return None;
        }
        let is_shared = records > 1 || (!split.is_broken && split.parts.len() > 1);
        let flags = [
            (split.is_broken, "salvaged"),
            (is_shared, "concatenated"),
            (split.is_list, "list-item"),
        ];
        // What stands before the first part belongs to it, and what separates parts to the former.
        let mut starts = split.parts.iter().map(|part| part.start).skip(1).collect::<VecDeque<_>>();
        let mut start = 0;
        let mut parts = Vec::with_capacity(split.parts.len());
        for found in split.parts {
            let next = starts.pop_front();
            let offset = line.offset + start as u64;
            let length = next.map_or(line.length, |next| next as u64) - start as u64;
            parts.push(match found.what {
                Ok(mut record) => {
                    (record.id.offset, record.length) = (offset, length);
                    self.add_flags(&mut record, &flags);
                    self.add_flags(&mut record, &[(found.may_be_argument, "maybe-argument")]);
                    Part::Record(record)
                }
                Err(reason) => {
                    let bytes = line.bytes.get(start..next.unwrap_or(line.bytes.len()));
                    let bytes = content(bytes.unwrap_or_default());
                    let head = masked_head(bytes, next.is_some() && bytes.starts_with(b"{"));
                    let generation = line.generation;
                    Part::Reject(Reject { generation, offset, length, reason, head })
                }
            });
            start = next.unwrap_or_default();
        }
        match (parts.len(), parts.pop()) {
            (1, Some(Part::Record(record))) => Some(Parsed::Record(record)),
            (_, last) => {
                parts.extend(last);
                Some(Parsed::Parts(parts))
            }
        }
    }

    /// Adds the flags that are true.
    fn add_flags(&mut self, record: &mut Record, flags: &[(bool, &str)]) {
        let flags = flags.iter().filter(|(is_true, _)| *is_true);
        record.flags.extend(flags.map(|(_, flag)| self.texts.shared(flag).text));
        record.flags.sort_unstable();
        record.flags.dedup();
    }
}

/// The line without a byte order mark and the spaces around it.
fn content(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii()
}

/// Names the byte, so that people can tell which other encoding was used.
fn not_utf8(bytes: &[u8], error: std::str::Utf8Error) -> String {
    let at = error.valid_up_to();
    let byte = bytes.get(at).copied().unwrap_or_default();
    format!("not UTF-8 at byte {} (0x{byte:02x}); write the log in UTF-8", at + 1)
}

/// The record with the fields that a line of any dialect may carry; of what kind it is, the dialect
/// says.
fn shared_fields(
    reading: &mut Reading<'_, '_>,
    shape: &Shape,
    line: &Line<'_>,
    stream: &Text,
    now: Micros,
) -> Record {
    let (at, time_quality) = reading.time(now);
    Record {
        id: RecordId { generation: line.generation, offset: line.offset, index: 0 },
        length: line.length,
        stream: stream.clone(),
        at,
        time_quality,
        dialect: shape.dialect,
        witness: Witness::Server,
        kind: RecordKind::Context,
        class: OutcomeClass::Unknown,
        code: reading.texts.shared("").text,
        detail: None,
        tool: None,
        server: reading.name(&["server"], "tool.server"),
        args: Args::default(),
        request_id: None,
        group_id: None,
        trace_id: reading.trace_id(),
        tool_use_id: reading.id(&["tool_use_id", "toolUseId"], "tool_use_id"),
        principal: reading.name(shape.principal_keys, "principal"),
        client: reading.name(&["client_id"], "client"),
        tenant: reading.name(&["tenant"], "tenant"),
        session: reading.name(&["session", "session_id", "conversation_id"], "session"),
        duration_ms: reading.duration_ms(shape.duration_keys),
        flags: Vec::new(),
        also: Vec::new(),
        extra: None,
    }
}

const fn kind_of(value: &Json<'_>) -> &'static str {
    match value {
        Json::Null => "a null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::Text(_) => "a text",
        Json::List(_) => "a list",
        Json::Object(_) => "an object",
    }
}

fn unknown_shape(fields: &Fields<'_>) -> String {
    let keys = fields.keys().count();
    let named: Vec<String> = fields
        .keys()
        .take(REASON_KEYS_MAX)
        .map(|key| display_untrusted(head(&mask_text(head(key, 4096)), REASON_KEY_BYTES_MAX)))
        .collect();
    let known: Vec<String> = SHAPES
        .iter()
        .map(|shape| format!("{} ({})", shape.dialect.as_str(), shape.known_by))
        .collect();
    let more = match keys - named.len() {
        0 => Cow::Borrowed(""),
        more => format!(" and {more} more").into(),
    };
    let named = if named.is_empty() { "(none)".to_owned() } else { named.join(", ") };
    format!(
        "no known format has these keys: {named}{more}. Known: {}. \
         The README shows a line of each",
        known.join("; ")
    )
}

/// What is shown of rejected bytes. `is_cut`: they end in the middle of something.
fn masked_head(bytes: &[u8], is_cut: bool) -> String {
    let seen = bytes.get(..HEAD_BYTES_MAX + HEAD_MARGIN_BYTES).unwrap_or(bytes);
    let mut masked =
        if is_cut || seen.len() < bytes.len() { mask_cut(seen) } else { mask_line(seen) };
    masked.truncate(head(&masked, HEAD_BYTES_MAX).len());
    masked
}
