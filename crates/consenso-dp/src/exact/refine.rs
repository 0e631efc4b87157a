//! The slow path: the same release in interval arithmetic of any precision, drawing more bits until
//! the floor is certain.
//!
//! A real number is enclosed by two integers over 2ᵖ. Lower ends only ever round down, upper ends
//! only ever up, so an enclosure needs no error analysis beyond the tails of its series. Slow (tens
//! of microseconds) and rare (about one Laplace draw in 2²³, one Gaussian draw in 2²⁰). The loop
//! ends with probability one: the sum has a density, so it is not an integer.

use num_bigint::{BigInt, BigUint, Sign};
use rand::Rng;

use super::{Grid, LARGEST_STEP};

/// A uniform real of which the first bits are known: it lies in [value, value + 1)/2^len.
pub(super) struct Bits {
    value: BigUint,
    len: u64,
}

impl Bits {
    /// The low `len` bits of `value`.
    pub(super) fn new(value: u64, len: u64) -> Self {
        Self { value: BigUint::from(value), len }
    }

    /// Appends the next 64 bits of the stream.
    pub(super) fn extend(&mut self, rng: &mut impl Rng) {
        self.value = (&self.value << 64u32) | BigUint::from(rng.next_u64());
        self.len += 64;
    }

    /// The precision that makes rounding negligible beside the bits not yet drawn.
    pub(super) fn precision(&self) -> u64 {
        self.len + 96
    }

    /// The real itself.
    fn enclose(&self, precision: u64) -> Interval {
        let at = |v: BigUint| BigInt::from(v << (precision - self.len));
        Interval { lo: at(self.value.clone()), hi: at(&self.value + 1u32) }
    }

    /// −ln of the real, unless all bits so far are zero.
    pub(super) fn minus_ln(&self, precision: u64) -> Option<Interval> {
        let hi = minus_ln(&self.value, self.len, precision)?.hi;
        let lo = minus_ln(&(&self.value + 1u32), self.len, precision)?.lo;
        Some(Interval { lo, hi })
    }

    /// (sin, cos) of the angle (v − ½)·π/2.
    pub(super) fn sin_cos(&self, precision: u64) -> (Interval, Interval) {
        let half = BigInt::from(1) << (precision - 1);
        let v = self.enclose(precision);
        let centred = Interval { lo: v.lo - &half, hi: v.hi - &half };
        let quarter_turn = half_pi(precision);
        sin_cos(&centred.times(&quarter_turn, precision), precision)
    }
}

/// A real in [lo, hi]/2^precision; the precision travels beside it.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    pub(super) lo: BigInt,
    pub(super) hi: BigInt,
}

/// ⌈a/2^k⌉ (`>>` on a `BigInt` is the floor).
fn ceil_shift(a: BigInt, k: u64) -> BigInt {
    -(-a >> k)
}

impl Interval {
    fn exact(value: BigInt) -> Self {
        Self { lo: value.clone(), hi: value }
    }

    fn plus(&self, other: &Self) -> Self {
        Self { lo: &self.lo + &other.lo, hi: &self.hi + &other.hi }
    }

    pub(super) fn negated(&self) -> Self {
        Self { lo: -&self.hi, hi: -&self.lo }
    }

    /// An exact integer multiple; `factor` ≥ 0.
    fn times_integer(&self, factor: u64) -> Self {
        Self { lo: &self.lo * factor, hi: &self.hi * factor }
    }

    /// The quotient by a positive integer.
    fn over_integer(&self, divisor: u64) -> Self {
        let floor = |a: &BigInt| {
            let (q, r) = (a / divisor, a % divisor);
            if r.sign() == Sign::Minus { q - 1 } else { q }
        };
        Self { lo: floor(&self.lo), hi: -floor(&-&self.hi) }
    }

    pub(super) fn times(&self, other: &Self, precision: u64) -> Self {
        let products = [
            &self.lo * &other.lo,
            &self.lo * &other.hi,
            &self.hi * &other.lo,
            &self.hi * &other.hi,
        ];
        let [mut lo, mut hi] = [products[0].clone(), products[0].clone()];
        for p in products {
            if p < lo {
                lo = p;
            } else if p > hi {
                hi = p;
            }
        }
        Self { lo: lo >> precision, hi: ceil_shift(hi, precision) }
    }

    /// √(2·self); a lower end below zero counts as zero.
    pub(super) fn sqrt_of_double(&self, precision: u64) -> Self {
        let root = |a: &BigInt| (a.to_biguint().unwrap_or_default() << (precision + 1)).sqrt();
        Self { lo: BigInt::from(root(&self.lo)), hi: BigInt::from(root(&self.hi) + 1u32) }
    }

    /// The product with 2^shift.
    fn shifted(&self, shift: i64) -> Self {
        let by = shift.unsigned_abs();
        if shift >= 0 {
            Self { lo: &self.lo << by, hi: &self.hi << by }
        } else {
            Self { lo: &self.lo >> by, hi: ceil_shift(self.hi.clone(), by) }
        }
    }

    /// The product with a non-negative `f64`, in grid steps.
    fn scaled(&self, factor: f64, grid: Grid) -> Self {
        let (mantissa, exponent) = decode(factor);
        self.times_integer(mantissa).shifted(exponent - i64::from(grid.exponent()))
    }
}

/// |x| = mantissa·2^exponent, exactly.
fn decode(x: f64) -> (u64, i64) {
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i64;
    let fraction = bits & ((1 << 52) - 1);
    if exponent == 0 { (fraction, -1074) } else { (fraction | (1 << 52), exponent - 1075) }
}

/// One coordinate of a release, exactly as the caller gave it.
pub(super) struct Coordinate {
    pub(super) y: f64,
    pub(super) width: f64,
    /// The bits of the uniform point, if the release has one.
    pub(super) uniform: Option<Bits>,
    pub(super) grid: Grid,
}

impl Coordinate {
    /// ⌊(y + U·ω + scale·noise)/γ + ½⌋ if the bits drawn so far decide it.
    pub(super) fn decide(&self, scale: f64, noise: &Interval, precision: u64) -> Option<i64> {
        let one = Interval::exact(BigInt::from(1) << precision);
        let y = one.scaled(self.y.abs(), self.grid);
        let y = if self.y < 0.0 { y.negated() } else { y };
        let mut sum = y.plus(&noise.scaled(scale, self.grid)).plus(&one.shifted(-1));
        if let Some(bits) = &self.uniform {
            sum = sum.plus(&bits.enclose(precision).scaled(self.width, self.grid));
        }
        let floor: BigInt = sum.lo >> precision;
        (floor == sum.hi >> precision).then(|| saturate(&floor))
    }

    /// Draws 64 more bits of the uniform point.
    pub(super) fn extend(&mut self, rng: &mut impl Rng) {
        if let Some(bits) = &mut self.uniform {
            bits.extend(rng);
        }
    }
}

/// Clamping what was released is post-processing: a tail beyond the range costs accuracy of one
/// draw in 2⁹⁰, never privacy.
fn saturate(q: &BigInt) -> i64 {
    i64::try_from(q)
        .map_or(if q.sign() == Sign::Minus { -LARGEST_STEP } else { LARGEST_STEP }, |q| {
            q.clamp(-LARGEST_STEP, LARGEST_STEP)
        })
}

/// −ln(a/2^len) = (len − k)·ln 2 − 2·artanh((a − 2ᵏ)/(a + 2ᵏ)) with 2ᵏ ≤ a < 2ᵏ⁺¹ and a ≤ 2^len;
/// `None` for a = 0.
fn minus_ln(a: &BigUint, len: u64, precision: u64) -> Option<Interval> {
    let k = a.bits().checked_sub(1)?;
    let power = BigUint::from(1u32) << k;
    let mantissa = artanh(&(a - &power), &(a + &power), precision).shifted(1).negated();
    // ln 2 = 2·artanh(1/3).
    let ln_2 = artanh(&BigUint::from(1u32), &BigUint::from(3u32), precision).shifted(1);
    Some(ln_2.times_integer(len - k).plus(&mantissa))
}

/// artanh(n/d) = Σ z^(2j+1)/(2j+1) for 0 ≤ z = n/d ≤ 1/3.
///
/// Once the upper power is at most one unit, what is left is below Σ z^(2j) ≤ 9/8 units: two cover
/// it.
fn artanh(n: &BigUint, d: &BigUint, precision: u64) -> Interval {
    let scaled = n << precision;
    let z = Interval { lo: BigInt::from(&scaled / d), hi: BigInt::from(scaled / d + 1u32) };
    let square = z.times(&z, precision);
    let (mut power, mut sum) = (z.clone(), z);
    for j in 1u64.. {
        power = power.times(&square, precision);
        if power.hi <= BigInt::from(1) {
            break;
        }
        sum = sum.plus(&power.over_integer(2 * j + 1));
    }
    sum.hi += 2;
    sum
}

/// π/2 = 8·arctan(1/5) − 2·arctan(1/239) (Machin).
fn half_pi(precision: u64) -> Interval {
    let fifth = arctan_reciprocal(5, precision).times_integer(8);
    fifth.plus(&arctan_reciprocal(239, precision).times_integer(2).negated())
}

/// arctan(1/n): alternating with falling terms, so the first term left out, below two units, bounds
/// the rest.
fn arctan_reciprocal(n: u64, precision: u64) -> Interval {
    let mut power = Interval::exact(BigInt::from(1) << precision).over_integer(n);
    let mut sum = power.clone();
    for j in 1u64.. {
        power = power.over_integer(n * n);
        if power.hi <= BigInt::from(1) {
            break;
        }
        let term = power.over_integer(2 * j + 1);
        sum = sum.plus(&if j % 2 == 1 { term.negated() } else { term });
    }
    Interval { lo: sum.lo - 2, hi: sum.hi + 2 }
}

/// (sin x, cos x) by Taylor for |x| < 1: Lagrange's remainder is at most the first term left out,
/// below two units.
fn sin_cos(x: &Interval, precision: u64) -> (Interval, Interval) {
    let mut term = Interval::exact(BigInt::from(1) << precision);
    let zero = Interval::exact(BigInt::from(0));
    let mut sums = [zero.clone(), term.clone()];
    for j in 1u64.. {
        term = term.times(x, precision).over_integer(j);
        if term.lo >= BigInt::from(-2) && term.hi <= BigInt::from(2) {
            break;
        }
        let signed = if j % 4 >= 2 { term.negated() } else { term.clone() };
        let sum = &mut sums[usize::from(j % 2 == 0)];
        *sum = sum.plus(&signed);
    }
    let [sin, cos] = sums.map(|s| Interval { lo: s.lo - 2, hi: s.hi + 2 });
    (sin, cos)
}
