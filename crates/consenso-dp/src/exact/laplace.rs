//! Laplace noise: a random sign times −ln of a uniform real.
//!
//! A word holds the sign in its low bit and the first 63 bits of the uniform real in the others.
//! The fast path is [`fast::laplace`]; this is the refinement of one coordinate. It appends to the
//! uniform real first, to the uniform point second, 64 bits each a turn.

use rand::Rng;

use super::refine::{Bits, Coordinate};

/// Decides one coordinate from its word and as many further words of the stream as that takes.
#[cold]
pub(super) fn refine(rng: &mut impl Rng, word: u64, scale: f64, mut at: Coordinate) -> i64 {
    let mut bits = Bits::new(word >> 1, 63);
    loop {
        let precision = bits.precision();
        if let Some(magnitude) = bits.minus_ln(precision) {
            let noise = if word & 1 == 1 { magnitude.negated() } else { magnitude };
            if let Some(q) = at.decide(scale, &noise, precision) {
                return q;
            }
        }
        bits.extend(rng);
        at.extend(rng);
    }
}
