//! What rule files may cost: what is made of one, and of all of them, has a bound in memory and so in time. Regular
//! expressions can cost most, and are compiled here alone.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};

use super::literal::{Literal, Place};

/// What is made of one rule file, in bytes of memory, about.
const FILE_BYTES_MAX: usize = 16 << 20;
/// What is made of all files of a rule set, in bytes of memory, about.
const SET_BYTES_MAX: usize = 64 << 20;
/// The longest regular expression, and the longest text that is looked for in values, as it is written.
const PATTERN_BYTES_MAX: usize = 4096;
/// The sizes that a regular expression is tried to be compiled in, in bytes: how large it will be is not told before.
/// The last is the most.
const PROGRAM_BYTES: [usize; 9] =
    [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
/// A program is there twice, forward and backward.
const PROGRAMS: usize = 2;
/// What a character costs while a regular expression is read.
const READING_BYTES: usize = 64;
/// What a regular expression remembers at most of the texts it has seen, in bytes, by its size.
const CACHE_BYTES_MIN: usize = 128 << 10;
const CACHE_BYTES_MAX: usize = 2 << 20;

/// What is left to be made of rule files.
pub(super) struct Allowance {
    of_file: usize,
    of_set: usize,
    /// Equal expressions are one, over all files.
    known: BTreeMap<String, Regex>,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { of_file: FILE_BYTES_MAX, of_set: SET_BYTES_MAX, known: BTreeMap::new() }
    }
}

impl Allowance {
    /// Goes on to another file.
    pub(super) const fn next_file(&mut self) {
        self.of_file = FILE_BYTES_MAX;
    }

    /// True where nothing more is made of this file: that was told, and the file is refused.
    pub(super) const fn is_spent(&self) -> bool {
        self.of_file == 0
    }

    /// Takes from what is left; the error says that there is too little.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.of_file.checked_sub(bytes).zip(self.of_set.checked_sub(bytes));
        if let Some(left) = left {
            (self.of_file, self.of_set) = left;
            return Ok(());
        }
        let (whose, max) = if self.of_file < bytes {
            ("this file", FILE_BYTES_MAX)
        } else {
            ("all rule files together", SET_BYTES_MAX)
        };
        self.of_file = 0;
        Err(format!(
            "what is made of {whose} is too large: more than {} MiB in memory up to here, and nothing behind it is \
             looked at. Regular expressions with many repetitions such as `\\w{{100}}` cost most, then long lists of \
             texts with wildcards inside such as `a*b` (one regular expression is smaller), tens of thousands of texts \
             with `contains`, conditions that name the same long lists often, and cases with thousands of events",
            max >> 20
        ))
    }

    /// Of tries that left nothing behind.
    const fn give_back(&mut self, bytes: usize) {
        self.of_file = self.of_file.saturating_add(bytes);
        self.of_set = self.of_set.saturating_add(bytes);
    }

    /// Makes a text ready to be looked for in values; the error is the reason to refuse it.
    pub(super) fn literal(
        &mut self,
        text: &str,
        place: Place,
        cased: bool,
    ) -> Result<Literal, String> {
        bounded(text)?;
        let literal = Literal::new(text, place, cased);
        self.spend(literal.bytes())?;
        Ok(literal)
    }

    /// Compiles a regular expression; the error is the reason to refuse it.
    pub(super) fn pattern(&mut self, text: &str) -> Result<Regex, String> {
        if let Some(known) = self.known.get(text) {
            return Ok(known.clone());
        }
        bounded(text)?;
        self.spend(text.len().saturating_mul(READING_BYTES))?;
        let mut tried = 0;
        for size in PROGRAM_BYTES {
            let bytes = size.saturating_mul(PROGRAMS);
            self.spend(bytes)?;
            let cache = size.saturating_mul(8).clamp(CACHE_BYTES_MIN, CACHE_BYTES_MAX);
            match RegexBuilder::new(text).size_limit(size).dfa_size_limit(cache).build() {
                Ok(regex) => {
                    self.give_back(tried);
                    self.known.insert(text.to_owned(), regex.clone());
                    return Ok(regex);
                }
                Err(regex::Error::CompiledTooBig(_)) => tried += bytes,
                Err(error) => return Err(last_line(&error)),
            }
        }
        // What is too large took its time and gives nothing back, or a file of such would hold up the daemon.
        let [.., max] = PROGRAM_BYTES;
        Err(format!(
            "this is too large: compiled it takes more than {} KiB. Repeat less, or a smaller class: `\\w` is a letter \
             of any script, `[a-z0-9_]` costs a hundredth",
            max >> 10
        ))
    }
}

/// The error says that the text is too long.
fn bounded(text: &str) -> Result<(), String> {
    let length = text.len();
    if length <= PATTERN_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "a regular expression or a text with wildcards, `contains` and the like has {PATTERN_BYTES_MAX} bytes at \
         most, and this one has {length} (as it is compiled); write several"
    ))
}

/// A regex error draws the pattern first; its last line says what is wrong.
fn last_line(error: &regex::Error) -> String {
    error.to_string().lines().last().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_expressions_are_refused_one_by_one_and_in_sum() {
        let mut allowance = Allowance::default();
        assert!(allowance.pattern(r"(?i)\w{200}x").unwrap_err().contains("too large: compiled"));
        assert!(
            allowance
                .pattern(&"a".repeat(PATTERN_BYTES_MAX + 1))
                .unwrap_err()
                .contains("write several")
        );
        assert!(allowance.pattern("(").unwrap_err().contains("unclosed group"));
        let mut refused = 0;
        for file in 0..100 {
            allowance.next_file();
            for number in 0..100 {
                let of_file = allowance.pattern(&format!(r"\w{{20}}{file}x{number}"));
                refused += usize::from(of_file.is_err());
                if of_file.is_err() {
                    assert!(allowance.is_spent());
                    break;
                }
            }
        }
        assert_eq!(refused, 100, "no file has room for a hundred");
        let size = |count: usize| count * (256 << 10);
        assert!(size(allowance.known.len()) <= SET_BYTES_MAX, "{}", allowance.known.len());
        // Nothing is left of the set, whatever file it is.
        allowance.next_file();
        assert!(allowance.pattern(r"\w{19}").unwrap_err().contains("all rule files together"));
    }

    #[test]
    fn equal_expressions_cost_once_and_small_ones_little() {
        let mut allowance = Allowance::default();
        for _ in 0..10_000 {
            allowance.pattern("^a+$").unwrap();
        }
        for number in 0..1000 {
            allowance.pattern(&format!("(?is)^(?:evil.*{number})$")).unwrap();
        }
        assert!(!allowance.is_spent());
    }

    #[test]
    fn an_expression_costs_the_size_that_fits_and_no_smaller_ones() {
        let mut allowance = Allowance::default();
        let text = "(?is)^(?:something.*evil.*with.*many.*words.*here)$";
        allowance.pattern(text).unwrap();
        let spent = FILE_BYTES_MAX - allowance.of_file - text.len() * READING_BYTES;
        assert!(PROGRAM_BYTES.iter().any(|size| size * PROGRAMS == spent), "{spent}");
        assert!(spent > PROGRAM_BYTES[0] * PROGRAMS, "the first try is too small: {spent}");
        assert_eq!(SET_BYTES_MAX - allowance.of_set, FILE_BYTES_MAX - allowance.of_file);
    }

    #[test]
    fn a_text_costs_its_length_and_a_little() {
        let mut allowance = Allowance::default();
        for number in 0..30_000 {
            allowance.literal(&format!("evil{number:036}"), Place::Anywhere, false).unwrap();
        }
        assert!(!allowance.is_spent());
        let long = "a".repeat(PATTERN_BYTES_MAX + 1);
        assert!(
            allowance.literal(&long, Place::Start, true).unwrap_err().contains("write several")
        );
        while allowance.literal("evil", Place::Whole, false).is_ok() {}
        assert!(allowance.is_spent());
    }
}
