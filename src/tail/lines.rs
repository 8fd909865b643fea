//! Where a line of a file begins, also of a compressed one.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;

use super::codec::{Codec, Step};
use super::name::is_packed;

/// Bytes read at a time: lines can be very long.
const READ_BYTES: usize = 1 << 20;

/// Where a line begins in a file's content, in bytes; none where there is no such line. Lines count
/// from 1. Of a file that ends with `.gz` or `.zst` the content is what it was made from, as far as it
/// can be unpacked.
pub fn line_offset(path: &Path, line: u64) -> io::Result<Option<u64>> {
    let file = File::open(path)?;
    let mut place = Place { offset: 0, newlines_left: line.saturating_sub(1), is_found: false };
    if is_packed(path) {
        let mut codec = Codec::new(&Arc::new(file));
        while !place.is_found {
            match codec.step(|bytes| place.pass(bytes))? {
                Step::More => {}
                Step::End => break,
                Step::Fault(fault) => return Err(io::Error::other(fault.message())),
            }
        }
    } else {
        let mut reader = BufReader::with_capacity(READ_BYTES, file);
        while !place.is_found {
            let bytes = reader.fill_buf()?;
            let count = bytes.len();
            if count == 0 {
                break;
            }
            place.pass(bytes);
            reader.consume(count);
        }
    }
    Ok(place.is_found.then_some(place.offset))
}

/// How far a search has come.
struct Place {
    /// Of what was passed, in bytes.
    offset: u64,
    newlines_left: u64,
    is_found: bool,
}

impl Place {
    /// Passes bytes up to the line's first one.
    fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_found {
            if self.newlines_left == 0 {
                self.is_found = true;
                return;
            }
            let end = memchr::memchr(b'\n', bytes).map(|end| end + 1);
            let used = end.unwrap_or(bytes.len());
            self.newlines_left -= u64::from(end.is_some());
            self.offset += used as u64;
            bytes = bytes.get(used..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    #[test]
    fn lines_are_found_in_plain_and_in_compressed_files() {
        let folder = tempfile::tempdir().unwrap();
        let text = b"one\n\nthree\nfour";
        let plain = folder.path().join("a.jsonl");
        fs::write(&plain, text).unwrap();
        let gzip = folder.path().join("a.jsonl.1.gz");
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text).unwrap();
        fs::write(&gzip, packed.finish().unwrap()).unwrap();
        for path in [plain, gzip] {
            let found: Vec<Option<u64>> =
                (1..=5).map(|line| line_offset(&path, line).unwrap()).collect();
            assert_eq!(found, [Some(0), Some(4), Some(5), Some(11), None], "{}", path.display());
        }
    }

    #[test]
    fn a_file_that_only_looks_compressed_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl.gz");
        fs::write(&path, "plain\n").unwrap();
        assert!(line_offset(&path, 1).is_err());
    }
}
