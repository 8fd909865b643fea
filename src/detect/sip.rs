//! SipHash-1-3 with 128 bits, over whole words: what names groups is hashed for every call, and the standard library's
//! hasher has 64 bits and gathers its words byte by byte.

/// A hash under way. What it is made of is told apart by its words alone: each text comes after its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sip {
    state: [u64; 4],
    words: u64,
}

impl Sip {
    pub(super) const fn new([one, two]: [u64; 2]) -> Self {
        let state = [
            one ^ 0x736f_6d65_7073_6575,
            two ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            one ^ 0x6c79_6765_6e65_7261,
            two ^ 0x7465_6462_7974_6573,
        ];
        Self { state, words: 0 }
    }

    pub(super) fn text(&mut self, text: &str) {
        self.word(text.len() as u64);
        let (words, rest) = text.as_bytes().as_chunks();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            // By hand: a copy of unknown length is a call.
            self.word(rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    pub(super) const fn word(&mut self, word: u64) {
        self.words = self.words.wrapping_add(1);
        self.state[3] ^= word;
        self.round();
        self.state[0] ^= word;
    }

    pub(super) const fn finish(mut self) -> [u64; 2] {
        // What ends a message says how many bytes it has.
        self.word(self.words << 59);
        self.state[2] ^= 0xee;
        let first = self.sum();
        self.state[1] ^= 0xdd;
        [first, self.sum()]
    }

    const fn sum(&mut self) -> u64 {
        self.round();
        self.round();
        self.round();
        self.state[0] ^ self.state[1] ^ self.state[2] ^ self.state[3]
    }

    const fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.state;
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32).wrapping_add(d);
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        d = d.rotate_left(21) ^ a;
        c = c.rotate_left(32);
        self.state = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{DefaultHasher, Hasher};

    use super::*;

    /// The standard library's hasher is SipHash-1-3 with 64 bits, which begins and ends a little otherwise.
    #[test]
    fn rounds_are_those_of_siphash() {
        let words = [7, u64::MAX, 0x0123_4567_89ab_cdef];
        let (mut ours, mut standard) = (Sip::new([0, 0]), DefaultHasher::new());
        ours.state[1] ^= 0xee;
        for word in words {
            ours.word(word);
            standard.write(&word.to_le_bytes());
        }
        ours.word(ours.words << 59);
        ours.state[2] ^= 0xff;
        assert_eq!(ours.sum(), standard.finish());
    }

    #[test]
    fn texts_differ_by_length_and_by_every_byte() {
        let of = |texts: &[&str]| {
            let mut sip = Sip::new([1, 2]);
            for text in texts {
                sip.text(text);
            }
            sip.finish()
        };
        let all: [&[&str]; 9] = [
            &[],
            &[""],
            &["\0"],
            &["", ""],
            &["12345678"],
            &["12345678\0"],
            &["12345678", ""],
            &["123456789"],
            &["023456789"],
        ];
        for (number, one) in all.iter().enumerate() {
            for other in &all[..number] {
                let ([a, b], [c, d]) = (of(one), of(other));
                assert!(a != c && b != d, "{one:?} {other:?}");
            }
        }
    }
}
