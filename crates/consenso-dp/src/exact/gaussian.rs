//! Gaussian noise by Box and Muller, exact because it is a formula: no accept-or-reject decision to
//! get wrong.
//!
//! √(−2 ln V)·(cos θ, sin θ) with V and θ uniform is a pair of independent standard normals. The
//! radius word holds the first 63 bits of V (its low bit is unused). The angle word holds a sign, a
//! swap and the first 62 bits of v; the angle is (v − ½)·π/2, and sign and swap carry that quarter
//! of the circle onto the four quarters, each once, so the direction is uniform.
//!
//! The fast path is [`fast::normal_pair`](super::fast::normal_pair); this refines the coordinates
//! of one pair together, since they share bits. A turn appends 64 bits to V, to v and then to the
//! uniform point of each coordinate still open.

use rand::Rng;

use super::refine::{Bits, Coordinate, Interval};

/// The pair of standard normals, or `None` while V could be zero.
pub(super) fn enclose(
    radius: &Bits,
    angle: &Bits,
    word: u64,
    precision: u64,
) -> Option<[Interval; 2]> {
    let r = radius.minus_ln(precision)?.sqrt_of_double(precision);
    let r = if word >> 63 == 1 { r.negated() } else { r };
    let (sin, cos) = angle.sin_cos(precision);
    let pair = if word >> 62 & 1 == 1 { [sin, cos] } else { [cos, sin] };
    Some(pair.map(|c| r.times(&c, precision)))
}

/// Decides the given coordinates (`None`: not asked for) of the pair made from two words.
#[cold]
pub(super) fn refine(
    rng: &mut impl Rng,
    words: [u64; 2],
    sigma: f64,
    mut open: [Option<Coordinate>; 2],
) -> [Option<i64>; 2] {
    let mut radius = Bits::new(words[0] >> 1, 63);
    let mut angle = Bits::new(words[1] & ((1 << 62) - 1), 62);
    let mut decided = [None; 2];
    while open.iter().any(Option::is_some) {
        let precision = radius.precision();
        if let Some(pair) = enclose(&radius, &angle, words[1], precision) {
            for ((at, noise), q) in open.iter_mut().zip(&pair).zip(&mut decided) {
                *q = q.or_else(|| at.as_ref().and_then(|at| at.decide(sigma, noise, precision)));
                if q.is_some() {
                    *at = None;
                }
            }
        }
        if open.iter().all(Option::is_none) {
            break;
        }
        radius.extend(rng);
        angle.extend(rng);
        for at in open.iter_mut().flatten() {
            at.extend(rng);
        }
    }
    decided
}
