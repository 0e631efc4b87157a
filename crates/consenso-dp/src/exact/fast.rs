//! The fast path: unit noise and the rounded sum in plain `f64`, sixteen lanes at a time, with
//! proven error bounds.
//!
//! Only IEEE 754 `+ − × ÷ √ fma`, `trunc`, `floor` and integer operations are used: every one is
//! exactly specified, so a draw has the same bits on every machine and at every vector width.
//! (`f64::ln` and friends are the platform's.)
//!
//! # Error bounds
//!
//! Write u₀ = 2⁻⁵³ for the unit roundoff. Hatted names are computed, plain ones are real.
//! First-order terms are given with enough slack to swallow the O(u₀²) ones.
//!
//! ## [`minus_ln`]: |Ê − E| ≤ 2⁻⁴⁵ absolutely, and ≤ (5u₀ + 2⁻⁴⁴·⁷)·E when x ≥ 2⁶³/√2
//!
//! For x = 2ᵏ·m with m ∈ [√½, √2) and 40 ≤ k ≤ 63, E = −ln(x·2⁻⁶³) = (63 − k)·ln 2 − 2·artanh z,
//! z = (m−1)/(m+1),
//! |z| ≤ 0.17158, w = z² ≤ 0.02944.
//! 1. m − 1 is exact (Sterbenz), m + 1 and the quotient round once each: ẑ = z(1 + θ), |θ| ≤
//!    2.01u₀. The condition number of artanh, z/((1−z²)·artanh z), is at most 1.021, so this costs
//!    artanh a relative 2.06u₀.
//! 2. P(w) = Σ_{j<8} wʲ/(2j+1) leaves out Σ_{j≥8} wʲ/(2j+1) ≤ w⁸/(17(1−w)) < 2⁻⁴⁴·⁷, relative to
//!    artanh(z)/z ≥ 1; in E it is 2|z| ≤ 0.3432 times that, below 2⁻⁴⁶·².
//! 3. Horner by fma: the last step rounds once in [1, 2), every earlier error is multiplied by w;
//!    with the rounded coefficients and ŵ's own rounding (multiplied by wP′ ≤ 0.0104) it is within
//!    1.1u₀ of P(ẑ²). The product ẑ·P̂ rounds once. Steps 1 and 3 together: relative 4.2u₀
//!    of |2·artanh z| ≤ 0.3466, so 1.5u₀.
//! 4. `LN2` is within 0.21u₀ of ln 2 and is multiplied by at most 23; the final fma rounds once
//!    below 16: 4.9u₀ + 8u₀.
//!
//! Sum: 2⁻⁴⁶·² + 14.4u₀ < 2⁻⁴⁵. When k = 63 (x ≥ 2⁶³/√2) the terms of step 4 vanish, and steps 1 to
//! 3 are relative to E.
//!
//! ## Exponential from 63 bits: |Ê − E| ≤ 2⁻³⁹·⁹ for u ≥ 2⁴⁰
//!
//! The uniform real is (u + φ)·2⁻⁶³ with φ ∈ [0, 1) not yet drawn: E moves by at most ln(1 + 1/u) ≤
//! 2⁻⁴⁰. Converting u to `f64` moves it by at most 1.01u₀. With [`minus_ln`]: 2⁻⁴⁰ + 2⁻⁴⁵ + 2⁻⁵² <
//! 2⁻³⁹·⁹. Also E ≤ 23·ln 2 < 16.
//!
//! ## [`normal_pair`]: |N̂ − N| ≤ 2⁻⁴⁰ for 2⁴⁰ ≤ u ≤ 2⁶³ − 2⁴³
//!
//! N = √(2E)·cos or sin of an angle in [−π/4, π/4), up to swap and sign; r = √(2E) ≤ 5.66.
//! 1. Radius. |√(2Ê) − r| ≤ |Ê − E|·2/(r + r̂). If x < 2⁶³/√2 then E ≥ 0.3465, r ≥ 0.83, and ≤
//!    1.25·(error of E); the part of it from φ is (1/u)/r, at most 2⁻⁴⁰/5.2 at u = 2⁴⁰ (where r is
//!    5.6) and less for larger u, since u·√(ln(2⁶³/u)) rises up to u = 2⁶³/√e and past it u alone
//!    is above 2⁶². So ≤ 2⁻⁴²·³ + 1.25·(2⁻⁴⁵ + 2⁻⁵²) < 2⁻⁴²·⁰. If x ≥ 2⁶³/√2 then E ≥ 2⁻²⁰, r ≥
//!    2⁻⁹·⁵, and the error of E is at most 1.01u₀ (conversion) + 2⁻⁶² (φ) + (5u₀ + 2⁻⁴⁴·⁷)·E, so
//!    the radius is off by at most 2⁻⁵²·⁹·2⁹·⁵¹ + 2⁻⁴⁴·⁶·r/2 < 2⁻⁴³. The square root rounds once:
//!    5.66u₀.
//! 2. Angle. ĝ is within 2⁻⁵⁴ + 2⁻⁵⁵ + 2⁻⁶² of g (conversion, fma, undrawn bits); x̂ = ĝ·π/2 is
//!    within 2⁻⁵² of x; sine and cosine have slope ≤ 1.
//! 3. Taylor. |x| ≤ π/4 + 2⁻⁵²: sine to x¹⁵ leaves x¹⁷/17! < 2⁻⁵⁴, cosine to x¹⁴ leaves x¹⁶/16! <
//!    2⁻⁴⁹·⁵; Horner by fma on values within [0, 1] with w ≤ 0.62: less than 4u₀. So sine and
//!    cosine are within 2⁻⁴⁹.
//! 4. Product: 2⁻⁴² + 2⁻⁴³ (not both) + 5.66·2⁻⁴⁹ + 5.66u₀ < 2⁻⁴¹ < 2⁻⁴⁰.
//!
//! ## The sum: [`round`]
//!
//! With Y = y/γ, W = ω/γ, B = scale/γ the release is ⌊Y + W·U + B·N + ½⌋. `trunc` splits Y exactly
//! into a whole part, added back at the end as an exact integer, and a rest |ρ| < 1. (Where y/γ or
//! ω/γ underflows it is off by less than 2⁻¹⁰⁰⁰.) U from 64 bits is within 1.01u₀ + 2⁻⁶⁴ of U. Then
//! ρ + W·U, + B·N and + ½ round once each on values below W + 16B + 2: total ≤ W·(4.02u₀) +
//! B·(2⁻³⁹·⁹ + 48u₀) + 6.1u₀ + 2⁻¹⁰⁰⁰, and the distance to the integers itself is computed within
//! u₀. This is less than
//!
//! > τ = W·2⁻⁵⁰ + B·2⁻³⁹ + 2⁻⁴⁸,
//!
//! which leaves room for the rounding of τ itself. If the computed fractional part lies in [τ, 1 −
//! τ] the floor is right for every continuation of the bits. τ < ½ moreover forces B < 2³⁸ and W <
//! 2⁴⁹: no overflow can go unnoticed; and a NaN fails the comparison, which is written so that
//! failing means refining.

/// How many coordinates one kernel call handles.
pub(super) const LANES: usize = 16;
/// One value per lane.
pub(super) type Lanes = [f64; LANES];
/// One random word per lane.
pub(super) type Words = [u64; LANES];
/// A word no kernel finds remarkable: what unused lanes hold.
pub(super) const QUIET: u64 = 1 << 62;

const TWO_52: u64 = 0x4330_0000_0000_0000;
const TWO_84: u64 = 0x4530_0000_0000_0000;
const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
const MANTISSA: u64 = (1 << 52) - 1;
const TWO_NEG_64: f64 = 1.0 / 18_446_744_073_709_551_616.0;
/// 2⁴⁰: below it the undrawn bits of u are worth too much.
const SMALLEST: f64 = 1_099_511_627_776.0;
/// 2⁶³ − 2⁴³: above it the square root of the exponential amplifies too much.
const LARGEST: f64 = 9_223_372_036_854_775_808.0 - 8_796_093_022_208.0;
/// τ's coefficients; see the module.
const TAU_WIDTH: f64 = 1.0 / 1_125_899_906_842_624.0;
const TAU_NOISE: f64 = 1.0 / 549_755_813_888.0;
const TAU: f64 = 1.0 / 281_474_976_710_656.0;

/// `word as f64`, which no instruction of AVX2 does for several words: 2⁸⁴ + h·2³² and 2⁵² + l are
/// written down bit by bit, what they have too much goes from the first without rounding, and their
/// sum h·2³² + l rounds once.
#[inline(always)]
pub(super) fn float(word: u64) -> f64 {
    let high = f64::from_bits(TWO_84 | (word >> 32))
        - (19_342_813_113_834_066_795_298_816.0 + 4_503_599_627_370_496.0);
    high + f64::from_bits(TWO_52 | (word & 0xffff_ffff))
}

/// `q as i64` of whole numbers, for several at once where they are small.
#[inline(always)]
pub(super) fn integers(q: &Lanes) -> [i64; LANES] {
    // 2⁵² + 2⁵¹: the last bit of a sum with it is worth one.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    if q.iter().fold(true, |small, q| small & (q.abs() < 2_251_799_813_685_248.0)) {
        q.map(|q| (q + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits()) as i64)
    } else {
        q.map(|q| q as i64)
    }
}

/// −ln(x·2⁻⁶³) for 2⁴⁰ ≤ x ≤ 2⁶³; the error bound is proven in the module.
#[inline(always)]
pub(super) fn minus_ln(x: f64) -> f64 {
    let shifted = x.to_bits().wrapping_add((1023 << 52) - SQRT_HALF);
    let halvings =
        (4_503_599_627_370_496.0 + 1023.0 + 63.0) - f64::from_bits(TWO_52 | (shifted >> 52));
    let m = f64::from_bits((shifted & MANTISSA) + SQRT_HALF);
    let z = (m - 1.0) / (m + 1.0);
    let w = z * z;
    let mut p = 1.0 / 15.0;
    for c in [1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0, 1.0] {
        p = w.mul_add(p, c);
    }
    halvings.mul_add(std::f64::consts::LN_2, -2.0 * (z * p))
}

/// (sin, cos) of π·g/2 for |g| ≤ ½.
#[inline(always)]
fn sin_cos(g: f64) -> (f64, f64) {
    let x = g * std::f64::consts::FRAC_PI_2;
    let w = x * x;
    // 1/15!, −1/13!, …, 1 and 1/14!, …: each quotient of exact integers rounds once.
    const SIN: [f64; 8] = [
        -1.0 / 1_307_674_368_000.0,
        1.0 / 6_227_020_800.0,
        -1.0 / 39_916_800.0,
        1.0 / 362_880.0,
        -1.0 / 5_040.0,
        1.0 / 120.0,
        -1.0 / 6.0,
        1.0,
    ];
    const COS: [f64; 8] = [
        -1.0 / 87_178_291_200.0,
        1.0 / 479_001_600.0,
        -1.0 / 3_628_800.0,
        1.0 / 40_320.0,
        -1.0 / 720.0,
        1.0 / 24.0,
        -1.0 / 2.0,
        1.0,
    ];
    let (mut s, mut c) = (SIN[0], COS[0]);
    for j in 1..8 {
        s = w.mul_add(s, SIN[j]);
        c = w.mul_add(c, COS[j]);
    }
    (x * s, c)
}

/// A standard Laplace variable a lane: the low bit is the sign, the other 63 the first bits of the
/// uniform real whose −ln it is. Lanes the bound does not cover come out as NaN.
#[inline(always)]
pub(super) fn laplace(words: &Words) -> Lanes {
    let mut noise = [0.0; LANES];
    for (n, &word) in noise.iter_mut().zip(words) {
        let x = float(word >> 1);
        let e = minus_ln(x);
        let e = if x >= SMALLEST { e } else { f64::NAN };
        *n = f64::from_bits(e.to_bits() ^ (word << 63));
    }
    noise
}

/// Two independent standard normal variables a pair of words (Box and Muller): 63 bits for the
/// radius; a sign, a swap and 62 bits for the angle. Uncovered lanes come out as NaN.
#[inline(always)]
pub(super) fn normal_pair(radius: u64, angle: u64) -> (f64, f64) {
    let x = float(radius >> 1);
    let r = (2.0 * minus_ln(x)).sqrt();
    let r = if (SMALLEST..=LARGEST).contains(&x) { r } else { f64::NAN };
    let (s, c) = sin_cos(float(angle << 2).mul_add(TWO_NEG_64, -0.5));
    let r = f64::from_bits(r.to_bits() ^ (angle & (1 << 63)));
    let swap = angle & (1 << 62) != 0;
    (r * if swap { s } else { c }, r * if swap { c } else { s })
}

/// `2·pairs` normals: the first of each pair, then the second of each.
#[inline(always)]
fn gaussian(radius: &[u64; LANES / 2], angle: &[u64; LANES / 2], pairs: usize) -> Lanes {
    let mut halves = [[0.0; LANES / 2]; 2];
    for j in 0..LANES / 2 {
        (halves[0][j], halves[1][j]) = normal_pair(radius[j], angle[j]);
    }
    let mut noise = [0.0; LANES];
    noise[..LANES / 2].copy_from_slice(&halves[0]);
    noise[pairs..][..LANES / 2].copy_from_slice(&halves[1]);
    noise
}

/// The words of one batch, drawn before anything is decided.
pub(super) struct Drawn {
    pub(super) noise: Words,
    pub(super) angle: Words,
    pub(super) uniform: Words,
}

/// What all coordinates of a release have in common.
#[derive(Clone, Copy)]
pub(super) struct Scales {
    pub(super) gaussian: bool,
    /// 1/γ.
    pub(super) unscale: f64,
    /// B, in grid steps.
    pub(super) scale: f64,
    /// Added to τ: zero but in tests, which make it one to send every lane to refinement.
    pub(super) slack: f64,
}

/// Up to sixteen coordinates: [`round`] of their noise, compiled for the machine it runs on. A
/// struct, not a closure, so that it is inlined into the function that carries the target features;
/// elsewhere fused multiply-adds would be emulated.
pub(super) struct Batch<'a> {
    pub(super) scales: Scales,
    pub(super) drawn: &'a Drawn,
    pub(super) y: &'a [f64],
    pub(super) width: &'a [f64],
}

impl pulp::WithSimd for Batch<'_> {
    type Output = (Lanes, [bool; LANES]);

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> Self::Output {
        let Drawn { noise, angle, uniform } = self.drawn;
        let noise = if self.scales.gaussian {
            gaussian(half(noise), half(angle), self.y.len().div_ceil(2))
        } else {
            laplace(noise)
        };
        let (mut y, mut width) = ([0.0; LANES], [0.0; LANES]);
        y[..self.y.len()].copy_from_slice(self.y);
        width[..self.width.len()].copy_from_slice(self.width);
        let (out, undecided) = round(self.scales, &noise, &y, Some((&width, uniform)));
        (out, undecided.map(|u| u != 0))
    }
}

/// Many full batches at once, whose words were drawn together: sixteen noise words of a batch
/// (Laplace), or eight radii and eight angles, then sixteen uniform words if there are widths.
/// Returns whether every coordinate was decided; what stands in `out` counts only then. Zeros in it
/// have no sign.
pub(super) struct Block<'a> {
    pub(super) scales: Scales,
    pub(super) words: &'a [[[u8; 8]; LANES]],
    pub(super) y: &'a [Lanes],
    /// As many as `y`, or none.
    pub(super) width: &'a [Lanes],
    /// What the results are multiplied by: a power of two.
    pub(super) step: f64,
    pub(super) out: &'a mut [Lanes],
}

impl pulp::WithSimd for Block<'_> {
    type Output = bool;

    #[inline(always)]
    #[expect(
        clippy::redundant_closure,
        reason = "a closure is inlined with the caller's target features"
    )]
    fn with_simd<S: pulp::Simd>(self, _: S) -> bool {
        // Apart, so that every loop has one shape.
        match (self.scales.gaussian, self.width.is_empty()) {
            (false, true) => self.plain(|words| laplace(words)),
            (true, true) => self.plain(|words| gaussian(half(words), other_half(words), LANES / 2)),
            (false, false) => self.widened(|words| laplace(words)),
            (true, false) => {
                self.widened(|words| gaussian(half(words), other_half(words), LANES / 2))
            }
        }
    }
}

impl Block<'_> {
    #[inline(always)]
    fn plain(self, noise: impl Fn(&Words) -> Lanes) -> bool {
        let mut undecided = [0; LANES];
        for ((words, y), out) in self.words.iter().zip(self.y).zip(self.out) {
            let found = round(self.scales, &noise(&numbers(words)), y, None);
            *out = found.0.map(|q| (q + 0.0) * self.step);
            keep(&mut undecided, &found.1);
        }
        undecided == [0; LANES]
    }

    #[inline(always)]
    fn widened(self, noise: impl Fn(&Words) -> Lanes) -> bool {
        let mut undecided = [0; LANES];
        let words = self.words.as_chunks::<2>().0;
        for (((words, y), width), out) in words.iter().zip(self.y).zip(self.width).zip(self.out) {
            let uniform = numbers(&words[1]);
            let found = round(self.scales, &noise(&numbers(&words[0])), y, Some((width, &uniform)));
            *out = found.0.map(|q| (q + 0.0) * self.step);
            keep(&mut undecided, &found.1);
        }
        undecided == [0; LANES]
    }
}

#[inline(always)]
fn keep(all: &mut Words, some: &Words) {
    for (all, some) in all.iter_mut().zip(some) {
        *all |= some;
    }
}

#[inline(always)]
fn numbers(bytes: &[[u8; 8]; LANES]) -> Words {
    bytes.map(u64::from_le_bytes)
}

#[inline(always)]
fn half(words: &Words) -> &[u64; LANES / 2] {
    &words.as_chunks().0[0]
}

#[inline(always)]
fn other_half(words: &Words) -> &[u64; LANES / 2] {
    &words.as_chunks().0[1]
}

/// ⌊Y + W·U + B·N + ½⌋ for each lane, and a number other than zero where the lane has to be
/// refined. Y and W are y and ω in grid steps: multiplying by a power of two is exact (or
/// underflows to something negligible).
#[inline(always)]
fn round(
    scales: Scales,
    noise: &Lanes,
    y: &Lanes,
    uniform: Option<(&Lanes, &Words)>,
) -> (Lanes, Words) {
    let mut out = [0.0; LANES];
    let mut undecided = [0; LANES];
    let fixed = scales.scale.mul_add(TAU_NOISE, TAU) + scales.slack;
    for i in 0..LANES {
        let y = y[i] * scales.unscale;
        let whole = y.trunc();
        let mut shifted = y - whole;
        let mut tau = fixed;
        if let Some((width, uniform)) = uniform {
            let width = width[i] * scales.unscale;
            shifted = (width * TWO_NEG_64).mul_add(float(uniform[i]), shifted);
            tau = width.mul_add(TAU_WIDTH, fixed);
        }
        let sum = scales.scale.mul_add(noise[i], shifted) + 0.5;
        let floor = sum.floor();
        let fraction = sum - floor;
        undecided[i] = u64::from(!(fraction >= tau && fraction <= 1.0 - tau));
        out[i] = whole + floor;
    }
    (out, undecided)
}
