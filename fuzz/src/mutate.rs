//! Changed inputs: bits, bytes, numbers, pieces of one input in another, words of a format.

/// A small generator (SplitMix64): the same seed finds the same again.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Numbers at which programs break.
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    7,
    8,
    0x7f,
    0x80,
    0xff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    u64::MAX,
    1 << 63,
];

/// The same as texts.
const TEXTS: [&str; 16] = [
    "0", "-1", "1", "1e308", "-1e-320", "nan", "inf", "-inf", "18446744073709551615", "1e400", "\"\"",
    "true", "[]", "{}", "null", "\u{1b}[2J",
];

/// One of the inputs, changed a few times.
pub fn change(inputs: &[Vec<u8>], chance: &mut Chance, longest: usize, words: &[&str]) -> Vec<u8> {
    let none = Vec::new();
    // The newest reach what others did not.
    let newest = inputs.len().saturating_sub(1 + chance.below(8));
    let index = if chance.below(3) == 0 { newest } else { chance.below(inputs.len()) };
    let mut bytes = inputs.get(index).unwrap_or(&none).clone();
    for _ in 0..1 << chance.below(5) {
        let at = chance.below(bytes.len() + 1);
        match chance.below(11) {
            0 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
            1 if at < bytes.len() => bytes[at] = chance.next() as u8,
            2 => bytes.insert(at, chance.next() as u8),
            3 if at < bytes.len() => drop(bytes.drain(at..(at + 1 + chance.below(8)).min(bytes.len()))),
            4 => {
                let number = EDGES[chance.below(EDGES.len())].to_le_bytes();
                let width = 1 << chance.below(4);
                put(&mut bytes, at, &number[..width], chance.below(2) == 0);
            }
            5 => {
                let word = match chance.below(3) {
                    0 => TEXTS[chance.below(TEXTS.len())],
                    _ if words.is_empty() => TEXTS[chance.below(TEXTS.len())],
                    _ => words[chance.below(words.len())],
                };
                put(&mut bytes, at, word.as_bytes(), chance.below(3) > 0);
            }
            6 | 7 => {
                let other = inputs.get(chance.below(inputs.len())).unwrap_or(&none);
                let from = chance.below(other.len() + 1);
                let until = (from + 1 + chance.below(64)).min(other.len());
                let piece = other[from..until].to_vec();
                put(&mut bytes, at, &piece, chance.below(2) == 0);
            }
            8 => {
                // A piece of its own again.
                let until = (at + 1 + chance.below(48)).min(bytes.len());
                let piece = bytes[at..until].to_vec();
                let to = chance.below(bytes.len() + 1);
                put(&mut bytes, to, &piece, true);
            }
            9 => {
                // A line less, or twice.
                let lines: Vec<Vec<u8>> = bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
                let gone = chance.below(lines.len());
                let twice = chance.below(2) == 0;
                let keep = |(k, line): (usize, Vec<u8>)| match (k == gone, twice) {
                    (true, true) => [line.clone(), line].concat(),
                    (true, false) => Vec::new(),
                    _ => line,
                };
                bytes = lines.into_iter().enumerate().flat_map(keep).collect();
            }
            _ => bytes.truncate(at),
        }
    }
    bytes.truncate(longest);
    bytes
}

/// Puts a piece between, or over what is there.
fn put(bytes: &mut Vec<u8>, at: usize, piece: &[u8], between: bool) {
    let until = if between { at } else { (at + piece.len()).min(bytes.len()) };
    drop(bytes.splice(at..until, piece.iter().copied()));
}
