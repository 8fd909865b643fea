//! Raw lines to records: one file per log format, and one table that tells which a line is in by
//! its keys. Formats may be mixed in one file. Pure: a line, its stream's name and the time of
//! reading go in, a [`Parsed`] comes out; a line that cannot be read is data ([`Reject`]), never an
//! error. `README.md` here says how to add a format.

#[cfg(test)]
mod cases;
mod fields;
mod gate;
mod json;
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

use self::fields::Fields;
use self::json::Json;
use self::reading::Reading;
use self::texts::{Texts, head};
use self::words::Words;
use crate::mask::{mask_cut, mask_line, mask_text};
use crate::model::{
    Args, Dialect, Line, Micros, OutcomeClass, Record, RecordId, RecordKind, Reject, Text, Witness,
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
}

/// Makes records of lines. It remembers texts it has seen, within bounds, to share them; nothing
/// else carries over from line to line.
pub struct Parser {
    texts: Texts,
    words: Words,
}

impl Parser {
    /// `hash_key` keys the hashes of argument values; `words` are outcome words of the
    /// configuration, which win over the common ones.
    pub fn new(hash_key: [u8; 32], words: Vec<(String, OutcomeClass)>) -> Self {
        Self { texts: Texts::new(hash_key), words: Words::new(words) }
    }

    /// Reads one line of `stream`. `now` is when it was read: a time more than a minute ahead of it
    /// is kept but marked.
    pub fn parse(&mut self, line: &Line<'_>, stream: &Text, now: Micros) -> Parsed {
        let bytes = line.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line.bytes).trim_ascii();
        if bytes.is_empty() {
            return Parsed::Blank;
        }
        match self.read(bytes, line, stream, now) {
            Ok(record) => Parsed::Record(record),
            Err(reason) => Parsed::Reject(Reject {
                generation: line.generation,
                offset: line.offset,
                length: line.length,
                reason,
                head: masked_head(bytes),
            }),
        }
    }

    /// The error says why the line is rejected.
    fn read(
        &mut self,
        bytes: &[u8],
        line: &Line<'_>,
        stream: &Text,
        now: Micros,
    ) -> Result<Record, String> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| format!("not UTF-8 at byte {}", error.valid_up_to() + 1))?;
        let fields = match json::parse(text)? {
            Json::Object(pairs) => Fields::new(pairs),
            other => return Err(format!("{}, where an object was expected", kind_of(&other))),
        };
        let shape = SHAPES
            .iter()
            .find(|shape| (shape.fits)(&fields))
            .ok_or_else(|| unknown_shape(&fields))?;
        let mut reading = Reading::new(fields, &mut self.texts, &self.words);
        let mut record = shared_fields(&mut reading, shape, line, stream, now);
        (shape.read)(&mut reading, &mut record);
        reading.finish(&mut record);
        Ok(record)
    }
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

fn masked_head(bytes: &[u8]) -> String {
    let mut masked = match bytes.get(..HEAD_BYTES_MAX + HEAD_MARGIN_BYTES) {
        Some(seen) if seen.len() < bytes.len() => mask_cut(seen),
        _ => mask_line(bytes),
    };
    masked.truncate(head(&masked, HEAD_BYTES_MAX).len());
    masked
}
