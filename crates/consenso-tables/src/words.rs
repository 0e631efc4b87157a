//! Tables of short texts, looked up once per cell.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash as _, Hasher};

/// What is known of texts.
pub(super) type Words<K, T> = HashMap<K, T, BuildHasherDefault<Folded>>;

/// A hash of short texts in a few instructions: eight bytes at a time are multiplied into it, and
/// the halves of the product are folded together. Whoever chooses the texts can make them collide,
/// and then waits longer for a file of their own.
#[derive(Debug)]
pub(super) struct Folded(u64);

impl Default for Folded {
    fn default() -> Self {
        Self(0x2d35_8dcc_aa6c_78a5)
    }
}

impl Folded {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

impl Hasher for Folded {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|&word| self.fold(u64::from_le_bytes(word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.fold(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    #[inline]
    fn write_u8(&mut self, _: u8) {
        // A text ends with a byte that texts do not have; its length is in the hash already.
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The hash of one text.
pub(super) fn hash(text: &str) -> u64 {
    let mut hasher = Folded::default();
    text.hash(&mut hasher);
    hasher.finish()
}
