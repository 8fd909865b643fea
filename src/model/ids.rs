//! Derived ids: each is a hash of what it names, so that processing again gives the same id.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where a record stands: byte `offset` of a source's `generation`, and its index on that line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordId {
    /// Number of the content stream; a rewritten file is a new generation.
    pub generation: u64,
    /// Byte offset of the line's first byte in the generation.
    pub offset: u64,
    /// Index of the record among those of one line.
    pub index: u32,
}

/// Hashes fields, each with its length, so that no two different lists of fields hash alike.
#[derive(Default)]
pub struct IdHasher(blake3::Hasher);

impl IdHasher {
    pub fn new(kind: &str) -> Self {
        let mut hasher = Self::default();
        hasher.text(kind);
        hasher
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
        self
    }

    /// An absent text is not the empty one.
    pub fn optional(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.number(1).text(text),
            None => self.number(0),
        }
    }

    pub fn number(&mut self, number: u64) -> &mut Self {
        self.0.update(&number.to_le_bytes());
        self
    }

    /// The first sixteen bytes of the hash.
    pub fn finish(&self) -> [u8; 16] {
        let mut out = [0; 16];
        self.0.finalize_xof().fill(&mut out);
        out
    }
}

/// Makes an id type of sixteen bytes, shown as 32 lowercase hex digits.
macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        impl $name {
            pub fn from_hasher(hasher: &IdHasher) -> Self {
                Self(hasher.finish())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                parse_hex(text).map(Self).ok_or(BadId)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id_type!(
    /// Names one call: a hash of its lead witness's first record.
    CallId
);
id_type!(
    /// Names one alert: a hash of rule, group and the closing call of its first match.
    AlertId
);

id_type!(
    /// Names one session: a hash of its key and its first call.
    SessionId
);

/// A text that is not 32 hex digits.
#[derive(Debug, thiserror::Error)]
#[error("an id is 32 hexadecimal digits")]
pub struct BadId;

fn parse_hex(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    let mut out = [0; 16];
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(out)
}
