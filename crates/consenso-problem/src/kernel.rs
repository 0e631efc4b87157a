//! The inner loops: one pass over the rows for margins and gradients.
//!
//! A kernel is written once, over `Lanes`: eight rows at a time, a lane each, fused multiply-adds,
//! a fixed order of every sum. On x86 those are AVX-512 or AVX2 registers (through `pulp`, chosen
//! at run time); elsewhere plain arrays that do the very same arithmetic. The machine changes the
//! speed and never a bit of the result. Outside those kernels nothing uses a fused multiply-add:
//! without the target feature it is a call into a library, ten times the price of the sum.

use std::ops::Range;

use crate::data::{Codes, LANES, LEVELS, Lanes8, Layout, Nonzeros};

type Eight = [f64; LANES];

/// Eight `f64` and what kernels do with them.
pub(crate) trait Lanes: Copy {
    /// Eight numbers.
    type V: Copy;
    /// Whether eight are one register: then eight chains of multiply-adds run side by side where
    /// four of two registers each would do, for one waits four cycles for its last and two begin in
    /// each.
    const WIDE: bool = false;
    fn load(self, from: &Lanes8) -> Self::V;
    fn store(self, v: Self::V) -> Lanes8;
    fn splat(self, value: f64) -> Self::V;
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// a·b + c, rounded once.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `x` between `low` and `high`; a NaN becomes `low`.
    fn clamp(self, x: Self::V, low: f64, high: f64) -> Self::V;
    /// 2^n, n the integer in the low bits of a number that was rounded by adding 1.5·2^52.
    fn power_of_two(self, shifted: Self::V) -> Self::V;
    /// ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])) of each of four.
    fn totals(self, v: [Self::V; 4]) -> [f64; 4];
    /// |x|.
    fn abs(self, x: Self::V) -> Self::V;
    /// `x` where the same of `of` is finite, else 0.
    fn where_finite(self, of: Self::V, x: Self::V) -> Self::V;
    /// One number where the same of `of` is above zero, another elsewhere.
    fn by_sign(self, of: Self::V, above: f64, elsewhere: f64) -> Self::V;
    /// The numbers of a table that eight codes name.
    fn pick(self, table: &Lookup, codes: &[u8; LANES]) -> Self::V;
    /// Asks for the line of memory at an address, where the machine can be asked.
    #[inline(always)]
    fn prefetch(self, _address: usize) {}
}

/// Plain arrays, for every machine. On x86 only processors older than AVX2 come here, where a fused
/// multiply-add is a call anyway: what is called once there instead of written out in every kernel
/// saves the program half a megabyte.
#[derive(Clone, Copy)]
struct Portable;

impl Lanes for Portable {
    type V = Eight;
    fn load(self, from: &Lanes8) -> Eight {
        from.0
    }
    fn store(self, v: Eight) -> Lanes8 {
        Lanes8(v)
    }
    fn splat(self, value: f64) -> Eight {
        [value; LANES]
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn add(self, a: Eight, b: Eight) -> Eight {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn sub(self, a: Eight, b: Eight) -> Eight {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn mul(self, a: Eight, b: Eight) -> Eight {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn div(self, a: Eight, b: Eight) -> Eight {
        std::array::from_fn(|i| a[i] / b[i])
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn fma(self, a: Eight, b: Eight, c: Eight) -> Eight {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn clamp(self, x: Eight, low: f64, high: f64) -> Eight {
        let one = |x: f64| {
            let x = if x > low { x } else { low };
            if x < high { x } else { high }
        };
        x.map(one)
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn power_of_two(self, shifted: Eight) -> Eight {
        shifted.map(|s| f64::from_bits((s.to_bits() << 52).wrapping_add(1023 << 52)))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn totals(self, v: [Eight; 4]) -> [f64; 4] {
        v.map(|v| ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn abs(self, x: Eight) -> Eight {
        x.map(f64::abs)
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn where_finite(self, of: Eight, x: Eight) -> Eight {
        std::array::from_fn(|i| if of[i].is_finite() { x[i] } else { 0.0 })
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn by_sign(self, of: Eight, above: f64, elsewhere: f64) -> Eight {
        of.map(|of| if of > 0.0 { above } else { elsewhere })
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn pick(self, table: &Lookup, codes: &[u8; LANES]) -> Eight {
        codes.map(|code| table[usize::from(code)])
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{LANES, Lanes, Lanes8, Lookup, levels};
    use pulp::cast;
    use pulp::x86::V3;
    use std::arch::x86_64::{__m256d, _CMP_GT_OQ, _CMP_LT_OQ};

    type Pair = [__m256d; 2];

    impl Lanes for V3 {
        type V = Pair;
        #[inline(always)]
        fn load(self, from: &Lanes8) -> Pair {
            cast(from.0)
        }
        #[inline(always)]
        fn store(self, v: Pair) -> Lanes8 {
            Lanes8(cast(v))
        }
        #[inline(always)]
        fn splat(self, value: f64) -> Pair {
            [self.avx._mm256_set1_pd(value); 2]
        }
        #[inline(always)]
        fn add(self, a: Pair, b: Pair) -> Pair {
            [self.avx._mm256_add_pd(a[0], b[0]), self.avx._mm256_add_pd(a[1], b[1])]
        }
        #[inline(always)]
        fn sub(self, a: Pair, b: Pair) -> Pair {
            [self.avx._mm256_sub_pd(a[0], b[0]), self.avx._mm256_sub_pd(a[1], b[1])]
        }
        #[inline(always)]
        fn mul(self, a: Pair, b: Pair) -> Pair {
            [self.avx._mm256_mul_pd(a[0], b[0]), self.avx._mm256_mul_pd(a[1], b[1])]
        }
        #[inline(always)]
        fn div(self, a: Pair, b: Pair) -> Pair {
            [self.avx._mm256_div_pd(a[0], b[0]), self.avx._mm256_div_pd(a[1], b[1])]
        }
        #[inline(always)]
        fn fma(self, a: Pair, b: Pair, c: Pair) -> Pair {
            [self.fma._mm256_fmadd_pd(a[0], b[0], c[0]), self.fma._mm256_fmadd_pd(a[1], b[1], c[1])]
        }
        #[inline(always)]
        fn clamp(self, x: Pair, low: f64, high: f64) -> Pair {
            // The instruction returns its second operand when either is NaN.
            let (low, high) = (self.avx._mm256_set1_pd(low), self.avx._mm256_set1_pd(high));
            let [a, b] = x;
            let (a, b) = (self.avx._mm256_max_pd(a, low), self.avx._mm256_max_pd(b, low));
            [self.avx._mm256_min_pd(a, high), self.avx._mm256_min_pd(b, high)]
        }
        #[inline(always)]
        fn power_of_two(self, shifted: Pair) -> Pair {
            let [a, b] = shifted;
            let one = self.avx._mm256_set1_epi64x(1023 << 52);
            let a = self.avx2._mm256_slli_epi64::<52>(self.avx._mm256_castpd_si256(a));
            let b = self.avx2._mm256_slli_epi64::<52>(self.avx._mm256_castpd_si256(b));
            let (a, b) = (self.avx2._mm256_add_epi64(a, one), self.avx2._mm256_add_epi64(b, one));
            [self.avx._mm256_castsi256_pd(a), self.avx._mm256_castsi256_pd(b)]
        }
        #[inline(always)]
        fn totals(self, [a, b, c, d]: [Pair; 4]) -> [f64; 4] {
            let (a, b) = (self.avx._mm256_add_pd(a[0], a[1]), self.avx._mm256_add_pd(b[0], b[1]));
            let (c, d) = (self.avx._mm256_add_pd(c[0], c[1]), self.avx._mm256_add_pd(d[0], d[1]));
            // Halves of two side by side, then neighbours added: they come out as 0, 2, 1, 3.
            let low = self.avx._mm256_permute2f128_pd::<0x20>(a, b);
            let ab = self.avx._mm256_add_pd(low, self.avx._mm256_permute2f128_pd::<0x31>(a, b));
            let low = self.avx._mm256_permute2f128_pd::<0x20>(c, d);
            let cd = self.avx._mm256_add_pd(low, self.avx._mm256_permute2f128_pd::<0x31>(c, d));
            let mixed = self.avx._mm256_hadd_pd(ab, cd);
            cast(self.avx2._mm256_permute4x64_pd::<0b11_01_10_00>(mixed))
        }
        #[inline(always)]
        fn abs(self, x: Pair) -> Pair {
            let (sign, [a, b]) = (self.avx._mm256_set1_pd(-0.0), x);
            [self.avx._mm256_andnot_pd(sign, a), self.avx._mm256_andnot_pd(sign, b)]
        }
        #[inline(always)]
        fn where_finite(self, of: Pair, x: Pair) -> Pair {
            let ([a, b], [of_a, of_b]) = (x, self.abs(of));
            let infinity = self.avx._mm256_set1_pd(f64::INFINITY);
            // Not for NaN, which is below nothing.
            let a_finite = self.avx._mm256_cmp_pd::<_CMP_LT_OQ>(of_a, infinity);
            let b_finite = self.avx._mm256_cmp_pd::<_CMP_LT_OQ>(of_b, infinity);
            [self.avx._mm256_and_pd(a, a_finite), self.avx._mm256_and_pd(b, b_finite)]
        }
        #[inline(always)]
        fn by_sign(self, of: Pair, above: f64, elsewhere: f64) -> Pair {
            let zero = self.avx._mm256_setzero_pd();
            let (above, elsewhere) =
                (self.avx._mm256_set1_pd(above), self.avx._mm256_set1_pd(elsewhere));
            let [a, b] = of;
            let a = self.avx._mm256_cmp_pd::<_CMP_GT_OQ>(a, zero);
            let b = self.avx._mm256_cmp_pd::<_CMP_GT_OQ>(b, zero);
            [
                self.avx._mm256_blendv_pd(elsewhere, above, a),
                self.avx._mm256_blendv_pd(elsewhere, above, b),
            ]
        }
        #[inline(always)]
        fn pick(self, table: &Lookup, codes: &[u8; LANES]) -> Pair {
            // One by one into registers: eight stores that one load waits for took longer.
            let [a, b, c, d, e, f, g, h] = levels(codes);
            [
                self.avx._mm256_setr_pd(table[a], table[b], table[c], table[d]),
                self.avx._mm256_setr_pd(table[e], table[f], table[g], table[h]),
            ]
        }
        #[inline(always)]
        fn prefetch(self, address: usize) {
            self.sse._mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                std::ptr::without_provenance(address),
            );
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{LANES, Lanes, Lanes8, Lookup};
    use pulp::cast;
    use pulp::x86::V4;
    use std::arch::x86_64::__m512d;

    impl Lanes for V4 {
        type V = __m512d;
        const WIDE: bool = true;
        #[inline(always)]
        fn load(self, from: &Lanes8) -> __m512d {
            cast(from.0)
        }
        #[inline(always)]
        fn store(self, v: __m512d) -> Lanes8 {
            Lanes8(cast(v))
        }
        #[inline(always)]
        fn splat(self, value: f64) -> __m512d {
            self.avx512f._mm512_set1_pd(value)
        }
        #[inline(always)]
        fn add(self, a: __m512d, b: __m512d) -> __m512d {
            self.avx512f._mm512_add_pd(a, b)
        }
        #[inline(always)]
        fn sub(self, a: __m512d, b: __m512d) -> __m512d {
            self.avx512f._mm512_sub_pd(a, b)
        }
        #[inline(always)]
        fn mul(self, a: __m512d, b: __m512d) -> __m512d {
            self.avx512f._mm512_mul_pd(a, b)
        }
        #[inline(always)]
        fn div(self, a: __m512d, b: __m512d) -> __m512d {
            self.avx512f._mm512_div_pd(a, b)
        }
        #[inline(always)]
        fn fma(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d {
            self.avx512f._mm512_fmadd_pd(a, b, c)
        }
        #[inline(always)]
        fn clamp(self, x: __m512d, low: f64, high: f64) -> __m512d {
            // The instruction returns its second operand when either is NaN.
            let (low, high) = (self.avx512f._mm512_set1_pd(low), self.avx512f._mm512_set1_pd(high));
            self.avx512f._mm512_min_pd(self.avx512f._mm512_max_pd(x, low), high)
        }
        #[inline(always)]
        fn power_of_two(self, shifted: __m512d) -> __m512d {
            let bits =
                self.avx512f._mm512_slli_epi64::<52>(self.avx512f._mm512_castpd_si512(shifted));
            let one = self.avx512f._mm512_set1_epi64(1023 << 52);
            self.avx512f._mm512_castsi512_pd(self.avx512f._mm512_add_epi64(bits, one))
        }
        #[inline(always)]
        fn totals(self, v: [__m512d; 4]) -> [f64; 4] {
            let [a, b, c, d] = v;
            (*self).totals([cast(a), cast(b), cast(c), cast(d)])
        }
        #[inline(always)]
        fn abs(self, x: __m512d) -> __m512d {
            cast((*self).abs(cast(x)))
        }
        #[inline(always)]
        fn where_finite(self, of: __m512d, x: __m512d) -> __m512d {
            cast((*self).where_finite(cast(of), cast(x)))
        }
        #[inline(always)]
        fn by_sign(self, of: __m512d, above: f64, elsewhere: f64) -> __m512d {
            cast((*self).by_sign(cast(of), above, elsewhere))
        }
        #[inline(always)]
        fn pick(self, table: &Lookup, codes: &[u8; LANES]) -> __m512d {
            cast((*self).pick(table, codes))
        }
        #[inline(always)]
        fn prefetch(self, address: usize) {
            (*self).prefetch(address);
        }
    }
}

/// Registers of 512 bits where they pay: processors that have VBMI2 (Ice Lake, Zen 4 and later)
/// keep their clock with them, those before lower it. Measured on Ice Lake against AVX2: dense rows
/// in the cache 1.1 to 1.2 times as fast (with eight chains; four were slower), rows from memory as
/// fast. On Zen 5 codes from memory are 1.1 times as fast.
#[cfg(target_arch = "x86_64")]
fn wide() -> Option<pulp::x86::V4> {
    if std::is_x86_feature_detected!("avx512vbmi2") { pulp::x86::V4::try_new() } else { None }
}

/// e^t, for t clamped to [−708, 708].
///
/// t = n·ln 2 + r with |r| ≤ ln 2 / 2 (ln 2 split in two so that r is good to 1 ulp), e^r by its
/// Taylor polynomial of degree 13 (truncation below 2^−57), 2^n by its bits. Relative error below
/// 4·2^−53.
#[inline(always)]
pub(crate) fn exp<S: Lanes>(s: S, t: S::V) -> S::V {
    const SHIFT: f64 = 6_755_399_441_055_744.0; // 1.5·2^52: adding it rounds to an integer held in the low bits
    const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    // 1/k! for k = 13 and 12, 11 and 10, …: the odd and the even half of the polynomial run side by
    // side.
    const TAYLOR: [(f64, f64); 6] = [
        (1.0 / 6_227_020_800.0, 1.0 / 479_001_600.0),
        (1.0 / 39_916_800.0, 1.0 / 3_628_800.0),
        (1.0 / 362_880.0, 1.0 / 40_320.0),
        (1.0 / 5_040.0, 1.0 / 720.0),
        (1.0 / 120.0, 1.0 / 24.0),
        (1.0 / 6.0, 1.0 / 2.0),
    ];
    let t = s.clamp(t, -708.0, 708.0);
    let shifted = s.fma(t, s.splat(std::f64::consts::LOG2_E), s.splat(SHIFT));
    let n = s.sub(shifted, s.splat(SHIFT));
    let r = s.fma(n, s.splat(-LN2_LOW), s.fma(n, s.splat(-LN2_HIGH), t));
    let r2 = s.mul(r, r);
    let (mut odd, mut even) = (s.splat(TAYLOR[0].0), s.splat(TAYLOR[0].1));
    for &(o, e) in &TAYLOR[1..] {
        odd = s.fma(odd, r2, s.splat(o));
        even = s.fma(even, r2, s.splat(e));
    }
    let e = s.add(s.fma(r2, s.fma(odd, r, even), r), s.splat(1.0));
    s.mul(e, s.power_of_two(shifted))
}

/// Where [`log1p_exp`] leaves its lanes: e^t is far from overflow there, and NaN is not inside.
const MOST_EXPONENT: f64 = 700.0;

/// log(1 + e^t) without overflow.
pub(crate) fn log1p_exp(t: f64) -> f64 {
    t.max(0.0) + libm::log1p(libm::exp(-t.abs()))
}

/// log(1 + e^t) in place of every t.
pub fn all_log1p_exp(values: &mut [f64]) {
    Softplus(values).dispatch();
}

struct Softplus<'a>(&'a mut [f64]);

impl Kernel for Softplus<'_> {
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        for values in self.0.chunks_mut(LANES) {
            if values.iter().all(|t| t.abs() < MOST_EXPONENT) {
                let mut eight = [0.0; LANES];
                eight[..values.len()].copy_from_slice(values);
                let eight = s.store(softplus(s, s.load(&Lanes8(eight))));
                values.copy_from_slice(&eight.0[..values.len()]);
            } else {
                values.iter_mut().for_each(|t| *t = log1p_exp(*t));
            }
        }
    }
}

/// log(1 + e^t) = max(t, 0) + log(1 + u), u = e^−|t|.
///
/// log(1 + u) = 2·artanh(v), v = u/(2 + u) ≤ 1/3: v·(2 + 2v²/3 + 2v⁴/5 + …), which after 17 terms
/// leaves less than 2^−55 of it.
#[inline(always)]
fn softplus<S: Lanes>(s: S, t: S::V) -> S::V {
    // 2/k for the terms of v^(4i) and of v^(4i + 2), which run side by side.
    const ARTANH: [(f64, f64); 7] = [
        (2.0 / 29.0, 2.0 / 27.0),
        (2.0 / 25.0, 2.0 / 23.0),
        (2.0 / 21.0, 2.0 / 19.0),
        (2.0 / 17.0, 2.0 / 15.0),
        (2.0 / 13.0, 2.0 / 11.0),
        (2.0 / 9.0, 2.0 / 7.0),
        (2.0 / 5.0, 2.0 / 3.0),
    ];
    let (above, below) = (s.clamp(t, 0.0, MOST_EXPONENT), s.clamp(t, -MOST_EXPONENT, 0.0));
    let u = exp(s, s.sub(below, above));
    let v = s.div(u, s.add(s.splat(2.0), u));
    let v2 = s.mul(v, v);
    let v4 = s.mul(v2, v2);
    let (mut even, mut odd) = (s.splat(2.0 / 33.0), s.splat(2.0 / 31.0));
    for &(e, o) in &ARTANH {
        even = s.fma(even, v4, s.splat(e));
        odd = s.fma(odd, v4, s.splat(o));
    }
    even = s.fma(even, v4, s.splat(2.0));
    s.fma(v, s.fma(odd, v2, even), above)
}

/// A loss that sees a record only through its margin zᵀx and its label: the derivative in the
/// margin.
pub(crate) trait Link: Copy {
    /// Whether the margin matters.
    const MARGIN: bool = true;
    /// φ'(margin, label) of eight rows.
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V;
}

/// Given weights per row instead of a function of the margin: Σ_j w_j z_j (zᵀv), for Hessian
/// products.
#[derive(Clone, Copy)]
struct GivenCurvatures;

impl Link for GivenCurvatures {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, weight: S::V) -> S::V {
        s.mul(margin, weight)
    }
}

/// Given slopes instead of a function of the margin: Σ_j w_j z_j.
#[derive(Clone, Copy)]
struct GivenSlopes;

impl Link for GivenSlopes {
    const MARGIN: bool = false;
    #[inline(always)]
    fn slope<S: Lanes>(self, _: S, _: S::V, weight: S::V) -> S::V {
        weight
    }
}

/// Tiles a batch holds at most.
const BATCH: usize = 16;
/// Entries a batch holds if it can: 24 KiB, half of a first-level cache.
const BATCH_ENTRIES: usize = 384;
const ZERO: Lanes8 = Lanes8([0.0; LANES]);

/// Margins of T tiles, feature by feature, side by side: one chain of multiply-adds alone would
/// wait for itself. (Loops, not closures: a closure is compiled without the target features of its
/// caller.)
#[inline(always)]
fn margins<S: Lanes, const T: usize>(
    s: S,
    tiles: &[Lanes8],
    x: &[f64],
    out: &mut [Lanes8],
    soon: &mut Soon,
) {
    let mut rows: [&[Lanes8]; T] = [&[]; T];
    for (t, row) in rows.iter_mut().enumerate() {
        *row = &tiles[t * x.len()..][..x.len()];
    }
    let mut margins = [s.splat(0.0); T];
    for (l, &x) in x.iter().enumerate() {
        soon.ask(s);
        let x = s.splat(x);
        for t in 0..T {
            margins[t] = s.fma(s.load(&rows[t][l]), x, margins[t]);
        }
    }
    for t in 0..T {
        out[t] = s.store(margins[t]);
    }
}

/// Margins of all rows of the tiles.
#[inline(always)]
fn all<S: Lanes>(s: S, mut tiles: &[Lanes8], x: &[f64], mut out: &mut [Lanes8], soon: &mut Soon) {
    while !out.is_empty() {
        let count = match out.len() {
            8.. if S::WIDE => 8,
            4.. => 4,
            2.. => 2,
            _ => 1,
        };
        let now;
        (now, out) = out.split_at_mut(count);
        match count {
            8 => margins::<S, 8>(s, tiles, x, now, soon),
            4 => margins::<S, 4>(s, tiles, x, now, soon),
            2 => margins::<S, 2>(s, tiles, x, now, soon),
            _ => margins::<S, 1>(s, tiles, x, now, soon),
        }
        tiles = &tiles[count * x.len()..];
    }
}

/// A batch of tiles with their slopes, and where their sums go.
struct Batch<'a> {
    tiles: &'a [Lanes8],
    slopes: &'a [Lanes8],
    /// Eight partial sums a feature, one a lane.
    sums: &'a mut [Lanes8],
    /// Whether the sums start here.
    first: bool,
    /// Where their totals go, if they end here.
    gradient: Option<&'a mut [f64]>,
    /// What is read after it.
    soon: Soon,
}

impl Batch<'_> {
    /// `sums += slope·row` for F features from `start` on.
    #[inline(always)]
    fn features<S: Lanes, const F: usize>(&mut self, s: S, start: usize) {
        let dim = self.sums.len();
        let mut sums = [s.splat(0.0); F];
        if !self.first {
            for (sum, kept) in sums.iter_mut().zip(&self.sums[start..]) {
                *sum = s.load(kept);
            }
        }
        for (tile, slope) in self.tiles.chunks_exact(dim).zip(self.slopes) {
            self.soon.ask(s);
            let (slope, row) = (s.load(slope), &tile[start..start + F]);
            for f in 0..F {
                sums[f] = s.fma(slope, s.load(&row[f]), sums[f]);
            }
        }
        let Some(gradient) = &mut self.gradient else {
            for (sum, kept) in sums.iter().zip(&mut self.sums[start..]) {
                *kept = s.store(*sum);
            }
            return;
        };
        for (sums, gradient) in sums.chunks(4).zip(gradient[start..start + F].chunks_mut(4)) {
            let mut four = [s.splat(0.0); 4];
            four[..sums.len()].copy_from_slice(sums);
            gradient.copy_from_slice(&s.totals(four)[..sums.len()]);
        }
    }

    /// All features.
    #[inline(always)]
    fn run<S: Lanes>(mut self, s: S) {
        let dim = self.sums.len();
        let mut start = 0;
        while start < dim {
            // As many side by side as there are registers for.
            let count = (dim - start).min(if S::WIDE { 8 } else { 4 });
            match count {
                8 => self.features::<S, 8>(s, start),
                7 => self.features::<S, 7>(s, start),
                6 => self.features::<S, 6>(s, start),
                5 => self.features::<S, 5>(s, start),
                4 => self.features::<S, 4>(s, start),
                3 => self.features::<S, 3>(s, start),
                2 => self.features::<S, 2>(s, start),
                _ => self.features::<S, 1>(s, start),
            }
            start += count;
        }
    }
}

/// Lines of a batch that are asked for before they are read, at most: 16 KiB beside as much that is
/// worked on. A larger one would drive out what is worked on (d = 105 took 1.25 times as long), and
/// there the machine sees by itself what is read next.
const AHEAD: usize = 256;

/// Memory that is read soon: lines that are asked for a few at a time, between arithmetic. Of many
/// requests at once most are forgotten.
#[derive(Clone, Copy, Default)]
struct Soon {
    next: usize,
    end: usize,
    /// Bytes that are asked for at a time.
    step: usize,
}

impl Soon {
    /// Bytes of a line.
    const LINE: usize = size_of::<Lanes8>();

    /// So many bytes from an address on, over so many requests; nothing if they are too many.
    fn new((address, bytes): (usize, usize), requests: usize) -> Self {
        let lines = bytes.div_ceil(Self::LINE);
        if lines > AHEAD {
            return Self::default();
        }
        let step = lines.div_ceil(requests.max(1)) * Self::LINE;
        Self { next: address, end: address + bytes, step }
    }

    /// Asks for some more of it.
    #[inline(always)]
    fn ask<S: Lanes>(&mut self, s: S) {
        let until = self.end.min(self.next + self.step);
        while self.next < until {
            s.prefetch(self.next);
            self.next += Self::LINE;
        }
    }
}

/// Where numbers lie in memory, and how many bytes they take.
fn place<T>(numbers: &[T]) -> (usize, usize) {
    (numbers.as_ptr().addr(), size_of_val(numbers))
}

/// Where the rows and the labels of an objective lie: what a pass over other rows can ask for while
/// it computes.
#[derive(Clone, Copy, Debug, Default)]
#[doc(hidden)]
pub struct RowsInMemory {
    tiles: (usize, usize),
    labels: (usize, usize),
}

impl RowsInMemory {
    /// Rows that lie in one piece; of others nothing is known.
    pub(crate) fn of(rows: Layout<'_>, labels: &[f64]) -> Self {
        match rows {
            Layout::Tiles(tiles) => Self { tiles: place(tiles), labels: place(labels) },
            Layout::Sparse(_) | Layout::Coded(_) => Self::default(),
        }
    }
}

/// Slopes of a batch in place of its margins. They are nothing but arithmetic, so that lines can
/// come from memory meanwhile.
#[inline(always)]
fn slopes_of<S: Lanes, L: Link>(
    s: S,
    link: L,
    labels: &[f64],
    slopes: &mut [Lanes8],
    soon: &mut Soon,
) {
    let (full, last) = labels.as_chunks::<LANES>();
    for (slope, label) in slopes.iter_mut().zip(full) {
        soon.ask(s);
        *slope = s.store(link.slope(s, s.load(slope), s.load(&Lanes8(*label))));
    }
    if let (Some(slope), false) = (slopes.last_mut(), last.is_empty()) {
        let mut label = [0.0; LANES];
        for (label, known) in label.iter_mut().zip(last) {
            *label = *known;
        }
        *slope = s.store(link.slope(s, s.load(slope), s.load(&Lanes8(label))));
        // Rows that are not there: they have no features, but codes and a base all the same.
        slope.0[last.len()..].fill(0.0);
    }
}

/// `gradient = Σ_j φ'(z_jᵀx, y_j)·z_j` over tiles.
struct Pass<'a, L> {
    tiles: &'a [Lanes8],
    labels: &'a [f64],
    x: &'a [f64],
    link: L,
    sums: &'a mut [Lanes8],
    gradient: &'a mut [f64],
    /// The rows of the pass after this one.
    after: RowsInMemory,
    span: Span,
}

/// Which rows of a sum a pass is over: its first ones, its last ones, or all.
#[derive(Clone, Copy)]
struct Span {
    /// Whether sums start here.
    starts: bool,
    /// Whether they end here.
    ends: bool,
}

impl Span {
    const WHOLE: Self = Self { starts: true, ends: true };
}

impl<L: Link> Kernel for Pass<'_, L> {
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Self { tiles, labels, x, link, sums, gradient, after, span } = self;
        let dim = x.len();
        let sums = &mut sums[..dim];
        // A batch that stays in the first-level cache: all margins, then all slopes, then all sums,
        // so that what takes long in one tile is hidden behind the others. The order of every sum
        // is that of one tile after the other.
        let batch = (BATCH_ENTRIES / dim.max(1)).clamp(4, BATCH);
        let batches = labels.len().div_ceil(batch * LANES);
        let (all_tiles, both) =
            (tiles, tiles.chunks(batch * dim.max(1)).zip(labels.chunks(batch * LANES)));
        for (number, (tiles, labels)) in both.enumerate() {
            let mut slopes = [ZERO; BATCH];
            let slopes = &mut slopes[..labels.len().div_ceil(LANES)];
            // Of the last batch on the rows of the next pass are asked for.
            let rest = &all_tiles[((number + 1) * batch * dim).min(all_tiles.len())..];
            let next = match rest.is_empty() {
                true => after.tiles,
                false => place(&rest[..rest.len().min(batch * dim)]),
            };
            let wide = if S::WIDE { 8 } else { 4 };
            let requests =
                dim * slopes.len().div_ceil(wide) + slopes.len() * (1 + dim.div_ceil(wide));
            let mut soon = Soon::new(next, requests);
            if rest.is_empty() {
                Soon::new(after.labels, 1).ask(s);
            }
            if L::MARGIN {
                all(s, tiles, x, slopes, &mut soon);
            }
            slopes_of(s, link, labels, slopes, &mut soon);
            let gradient = (span.ends && number + 1 == batches).then_some(&mut *gradient);
            let first = span.starts && number == 0;
            Batch { tiles, slopes, sums, first, gradient, soon }.run(s);
        }
    }
}

/// A loop over the rows, for any [`Lanes`].
trait Kernel: Sized {
    /// Whether wide registers help: not where numbers are gathered one by one and hardly anything
    /// is computed from them.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "registers there have one width")
    )]
    const WIDE: bool = true;

    fn run<S: Lanes>(self, s: S);

    /// Runs on the best lanes of this machine.
    fn dispatch(self) {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = wide().filter(|_| Self::WIDE) {
            return simd.vectorize(OnRows(simd, self));
        } else if let Some(simd) = pulp::x86::V3::try_new() {
            return simd.vectorize(OnRows(simd, self));
        }
        self.run(Portable);
    }
}

#[cfg(target_arch = "x86_64")]
struct OnRows<S, K>(S, K);

#[cfg(target_arch = "x86_64")]
impl<S: Lanes, K: Kernel> pulp::NullaryFnOnce for OnRows<S, K> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        self.1.run(self.0);
    }
}

/// Room that kernels work in, kept from one pass to the next.
pub(crate) struct Scratch {
    sums: Vec<Lanes8>,
    tables: Vec<Lookup>,
    bins: Vec<Bins>,
    /// x at the features that are numbers.
    weights: Vec<f64>,
    /// The sum of all slopes so far.
    total: Lanes8,
    /// The rows of the pass after the next.
    after: RowsInMemory,
}

impl Default for Scratch {
    fn default() -> Self {
        let (sums, tables, bins, weights) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { sums, tables, bins, weights, total: ZERO, after: RowsInMemory::default() }
    }
}

/// `gradient = Σ_j φ'(z_jᵀx, y_j)·z_j`.
pub(crate) fn gradient<L: Link>(
    rows: Layout<'_>,
    labels: &[f64],
    x: &[f64],
    link: L,
    scratch: &mut Scratch,
    gradient: &mut [f64],
) {
    match rows {
        Layout::Tiles(tiles) => {
            let after = std::mem::take(&mut scratch.after);
            let sums = &mut scratch.sums;
            sums.resize(x.len(), ZERO);
            if labels.is_empty() {
                gradient.fill(0.0);
            }
            let span = Span::WHOLE;
            Pass { tiles, labels, x, link, sums, gradient, after, span }.dispatch();
        }
        Layout::Sparse(rows) => {
            gradient.fill(0.0);
            SparsePass { rows, labels, x, link, gradient }.dispatch();
        }
        Layout::Coded(rows) => {
            scratch.prepare(rows, x, L::MARGIN);
            let (first, span) = (0, Span::WHOLE);
            CodedPass { rows, labels, x, link, scratch, gradient, first, span }.dispatch();
        }
    }
}

/// Numbers of a block of rows that stay in the second-level cache from one look to the next.
const BLOCK: usize = 1 << 14;

/// `out = Σ_j s_j·z_j`, where `slopes` makes the slopes of some rows out of their margins z_jᵀx: block
/// by block, so that rows come from memory once. `margins` is room for those of a block.
pub(crate) fn sum_of_slopes(
    rows: Layout<'_>,
    count: usize,
    x: &[f64],
    (scratch, margins): (&mut Scratch, &mut Vec<f64>),
    out: &mut [f64],
    mut slopes: impl FnMut(Range<usize>, &mut [f64]),
) {
    let numbers = match rows {
        Layout::Tiles(_) if count > 0 => x.len(),
        Layout::Coded(rows) if count > 0 => rows.shape.numbers.len() + rows.groups.len(),
        _ => {
            margins.resize(count, 0.0);
            all_margins(rows, x, margins);
            slopes(0..count, margins);
            return weighted_sum(rows, margins, scratch, out);
        }
    };
    let block = (BLOCK / numbers.max(1)).next_multiple_of(BATCH * LANES);
    let (link, after) = (GivenSlopes, RowsInMemory::default());
    match rows {
        Layout::Coded(rows) => scratch.prepare(rows, x, true),
        _ => scratch.sums.resize(x.len(), ZERO),
    }
    for start in (0..count).step_by(block) {
        let end = (start + block).min(count);
        let span = Span { starts: start == 0, ends: end == count };
        let first = start / LANES;
        margins.resize(end - start, 0.0);
        match rows {
            Layout::Coded(rows) => {
                let gradient = &mut *out;
                CodedMargins { rows, x, scratch, out: margins, first }.dispatch();
                slopes(start..end, margins);
                let labels = &margins[..];
                CodedPass { rows, labels, x, link, scratch, gradient, first, span }.dispatch();
            }
            Layout::Tiles(tiles) => {
                let tiles = &tiles[first * x.len()..][..(end - start).div_ceil(LANES) * x.len()];
                AllMargins { tiles, x, out: margins }.dispatch();
                slopes(start..end, margins);
                let (labels, sums, gradient) = (&margins[..], &mut scratch.sums[..], &mut *out);
                Pass { tiles, labels, x, link, sums, gradient, after, span }.dispatch();
            }
            Layout::Sparse(_) => unreachable!("returned above"),
        }
    }
}

/// How slopes are clipped, so that no record's gradient is longer than a bound.
#[derive(Clone, Copy)]
pub(crate) struct Clipping {
    /// The longest gradient; infinite for none.
    pub(crate) clip: f64,
    /// What a slope's size is multiplied by, so that it is rounded up.
    pub(crate) up: f64,
    /// What records with a label above zero, and all others, are multiplied by.
    pub(crate) weights: [f64; 2],
}

/// Each slope times the weight of its label, divided by the length of its record's gradient or the
/// clip, whichever is more; zero where that is not finite. `norms` are the lengths of the rows.
pub(crate) fn clip_slopes(how: Clipping, labels: &[f64], norms: &[f64], slopes: &mut [f64]) {
    Clip { how, labels, norms, slopes }.dispatch();
}

struct Clip<'a> {
    how: Clipping,
    labels: &'a [f64],
    norms: &'a [f64],
    slopes: &'a mut [f64],
}

impl Kernel for Clip<'_> {
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Self { how: Clipping { clip, up, weights: [above, elsewhere] }, .. } = self;
        let both = self.labels.chunks(LANES).zip(self.norms.chunks(LANES));
        for (slopes, (labels, norms)) in self.slopes.chunks_mut(LANES).zip(both) {
            let (mut slope, mut label, mut norm) = (ZERO, ZERO, ZERO);
            slope.0[..slopes.len()].copy_from_slice(slopes);
            label.0[..labels.len()].copy_from_slice(labels);
            norm.0[..norms.len()].copy_from_slice(norms);
            let (slope, norm) = (s.load(&slope), s.load(&norm));
            let length = s.mul(s.mul(s.abs(slope), s.splat(up)), norm);
            let mut factor = s.by_sign(s.load(&label), above, elsewhere);
            if clip.is_finite() {
                let longest = s.clamp(length, clip, f64::INFINITY);
                factor = s.mul(s.div(s.splat(1.0), longest), factor);
            }
            let clipped = s.where_finite(length, s.mul(slope, factor));
            slopes.copy_from_slice(&s.store(clipped).0[..slopes.len()]);
        }
    }
}

/// `out = Σ_j w_j (z_jᵀv) z_j`: the curvature of a margin loss along `v`.
pub(crate) fn weighted_gram(
    rows: Layout<'_>,
    weights: &[f64],
    v: &[f64],
    scratch: &mut Scratch,
    out: &mut [f64],
) {
    gradient(rows, weights, v, GivenCurvatures, scratch, out);
}

/// `out = Σ_j w_j z_j`.
pub(crate) fn weighted_sum(
    rows: Layout<'_>,
    weights: &[f64],
    scratch: &mut Scratch,
    out: &mut [f64],
) {
    let zero = vec![0.0; out.len()];
    gradient(rows, weights, &zero, GivenSlopes, scratch, out);
}

/// Margins z_jᵀx of all rows.
pub(crate) fn all_margins(rows: Layout<'_>, x: &[f64], out: &mut [f64]) {
    match rows {
        Layout::Tiles(tiles) => AllMargins { tiles, x, out }.dispatch(),
        Layout::Sparse(rows) => {
            for (row, out) in out.iter_mut().enumerate() {
                *out = sparse_margin(rows.row(row), x);
            }
        }
        Layout::Coded(rows) => {
            let mut scratch = Scratch::default();
            scratch.prepare(rows, x, true);
            CodedMargins { rows, x, scratch: &scratch, out, first: 0 }.dispatch();
        }
    }
}

struct AllMargins<'a> {
    tiles: &'a [Lanes8],
    x: &'a [f64],
    out: &'a mut [f64],
}

impl Kernel for AllMargins<'_> {
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Self { tiles, x, out } = self;
        let batch = BATCH * x.len().max(1);
        for (number, out) in out.chunks_mut(BATCH * LANES).enumerate() {
            let mut margins = [ZERO; BATCH];
            let (_, left) = tiles.split_at((number * batch).min(tiles.len()));
            let (tiles, rest) = left.split_at(batch.min(left.len()));
            let mut soon = Soon::new(place(&rest[..batch.min(rest.len())]), 2 * x.len());
            all(s, tiles, x, &mut margins[..out.len().div_ceil(LANES)], &mut soon);
            for (out, margins) in out.chunks_mut(LANES).zip(&margins) {
                out.copy_from_slice(&margins.0[..out.len()]);
            }
        }
    }
}

/// zᵀx over the non-zeros of z, four sums side by side.
#[inline(always)]
pub(crate) fn sparse_margin((columns, values): (&[u32], &[f64]), x: &[f64]) -> f64 {
    let mut acc = [0.0; 4];
    let ((columns, last_columns), (values, last_values)) =
        (columns.as_chunks::<4>(), values.as_chunks::<4>());
    for (c, v) in columns.iter().zip(values) {
        for lane in 0..4 {
            acc[lane] += v[lane] * x[c[lane] as usize];
        }
    }
    for (c, v) in last_columns.iter().zip(last_values) {
        acc[0] += v * x[*c as usize];
    }
    (acc[0] + acc[2]) + (acc[1] + acc[3])
}

/// `gradient += Σ_j φ'(z_jᵀx, y_j)·z_j` over non-zeros.
struct SparsePass<'a, L> {
    rows: &'a Nonzeros,
    labels: &'a [f64],
    x: &'a [f64],
    link: L,
    gradient: &'a mut [f64],
}

impl<L: Link> Kernel for SparsePass<'_, L> {
    const WIDE: bool = false;

    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Self { rows, labels, x, link, gradient } = self;
        for (group, labels) in labels.chunks(LANES).enumerate() {
            let row = |r: usize| rows.row(LANES * group + r);
            let mut margin = [0.0; LANES];
            for (r, margin) in margin.iter_mut().take(labels.len()).enumerate() {
                *margin = sparse_margin(row(r), x);
            }
            let mut label = [0.0; LANES];
            label[..labels.len()].copy_from_slice(labels);
            let slope = link.slope(s, s.load(&Lanes8(margin)), s.load(&Lanes8(label)));
            for (r, slope) in s.store(slope).0.iter().take(labels.len()).enumerate() {
                let (columns, values) = row(r);
                for (c, v) in columns.iter().zip(values) {
                    gradient[*c as usize] += slope * v;
                }
            }
        }
    }
}

/// φ'(margin, label) in place of the margins.
pub(crate) fn slopes<L: Link>(link: L, labels: &[f64], margins: &mut [f64]) {
    Slopes { link, labels, margins }.dispatch();
}

struct Slopes<'a, L> {
    link: L,
    labels: &'a [f64],
    margins: &'a mut [f64],
}

impl<L: Link> Kernel for Slopes<'_, L> {
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        for (margins, labels) in self.margins.chunks_mut(LANES).zip(self.labels.chunks(LANES)) {
            let (mut margin, mut label) = ([0.0; LANES], [0.0; LANES]);
            margin[..margins.len()].copy_from_slice(margins);
            label[..labels.len()].copy_from_slice(labels);
            let slope = self.link.slope(s, s.load(&Lanes8(margin)), s.load(&Lanes8(label)));
            margins.copy_from_slice(&s.store(slope).0[..margins.len()]);
        }
    }
}

/// Eight codes as places in a table. They are one word that is taken apart: a processor begins a
/// few loads in each cycle, and those of the numbers that the codes name are enough.
#[inline(always)]
fn levels(codes: &[u8; LANES]) -> [usize; LANES] {
    let word = u64::from_le_bytes(*codes);
    let mut levels = [0; LANES];
    for (lane, level) in levels.iter_mut().enumerate() {
        *level = (word >> (8 * lane)) as usize & (LEVELS - 1);
    }
    levels
}

/// What each combination of levels of one group adds to a margin.
type Lookup = [f64; LEVELS];
/// Sums of slopes by combination of levels: four, for rows that follow each other would wait for
/// each other's sum. A little longer than the levels, so that no two of the four lie a page apart,
/// where a processor takes one for the other.
type Bins = [[f64; LEVELS + LANES]; 4];

impl Scratch {
    /// Has the next pass ask for the rows of the one after it while it computes.
    pub(crate) fn reads_after(&mut self, rows: RowsInMemory) {
        self.after = rows;
    }

    /// Tables for x, and empty sums.
    fn prepare(&mut self, rows: &Codes, x: &[f64], margins: bool) {
        self.tables.resize(rows.groups.len(), [0.0; LEVELS]);
        self.bins.resize(rows.groups.len(), [[0.0; LEVELS + LANES]; 4]);
        for ((group, table), bins) in rows.groups.iter().zip(&mut self.tables).zip(&mut self.bins) {
            if margins {
                for (level, entries) in group.entries() {
                    table[level] =
                        entries.iter().map(|&(column, value)| value * x[column as usize]).sum();
                }
            }
            bins.iter_mut().for_each(|bins| bins[..group.levels()].fill(0.0));
        }
        self.weights.clear();
        self.weights.extend(rows.shape.numbers.iter().map(|&column| x[column as usize]));
        self.sums.clear();
        self.sums.resize(rows.shape.numbers.len(), ZERO);
    }
}

/// What margins of coded rows are made of.
#[derive(Clone, Copy)]
struct Terms<'a> {
    rows: &'a Codes,
    tables: &'a [Lookup],
    /// x at the features that are numbers.
    weights: &'a [f64],
    /// The margin of the base.
    constant: f64,
}

impl Terms<'_> {
    /// Margins of T tiles from `first` on, side by side as in [`margins`].
    #[inline(always)]
    fn tiles<S: Lanes, const T: usize>(self, s: S, first: usize, out: &mut [Lanes8]) {
        let Self { rows, tables, weights, constant } = self;
        let mut numbers: [&[Lanes8]; T] = [&[]; T];
        for (t, numbers) in numbers.iter_mut().enumerate() {
            *numbers = &rows.numbers_of(first + t)[..weights.len()];
        }
        let mut margins = [s.splat(constant); T];
        for (k, &weight) in weights.iter().enumerate() {
            let weight = s.splat(weight);
            for t in 0..T {
                margins[t] = s.fma(s.load(&numbers[t][k]), weight, margins[t]);
            }
        }
        for t in 0..T {
            let mut levels = s.splat(0.0);
            for (codes, table) in rows.codes_of(first + t).iter().zip(tables) {
                levels = s.add(levels, s.pick(table, codes));
            }
            out[t] = s.store(match rows.shape.scale {
                Some(k) => s.fma(levels, s.load(&numbers[t][k]), margins[t]),
                None => s.add(levels, margins[t]),
            });
        }
    }

    /// Margins of the tiles from `first` on.
    #[inline(always)]
    fn all<S: Lanes>(self, s: S, mut first: usize, out: &mut [Lanes8]) {
        let (four, rest) = out.as_chunks_mut::<4>();
        for out in four {
            self.tiles::<S, 4>(s, first, out);
            first += 4;
        }
        for out in rest.chunks_mut(1) {
            self.tiles::<S, 1>(s, first, out);
            first += 1;
        }
    }
}

struct CodedMargins<'a> {
    rows: &'a Codes,
    x: &'a [f64],
    scratch: &'a Scratch,
    out: &'a mut [f64],
    /// The tile they start with.
    first: usize,
}

impl Kernel for CodedMargins<'_> {
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Self { rows, x, scratch: Scratch { tables, weights, .. }, out, first } = self;
        let terms = Terms { rows, tables, weights, constant: dot(&rows.shape.base, x) };
        for (batch, out) in out.chunks_mut(BATCH * LANES).enumerate() {
            let mut margins = [ZERO; BATCH];
            terms.all(s, first + batch * BATCH, &mut margins[..out.len().div_ceil(LANES)]);
            for (out, margins) in out.chunks_mut(LANES).zip(&margins) {
                out.copy_from_slice(&margins.0[..out.len()]);
            }
        }
    }
}

/// `gradient = Σ_j φ'(z_jᵀx, y_j)·z_j` over codes: slopes are summed by level, and every level's
/// sum is written to its features at the end.
struct CodedPass<'a, L> {
    rows: &'a Codes,
    labels: &'a [f64],
    x: &'a [f64],
    link: L,
    scratch: &'a mut Scratch,
    gradient: &'a mut [f64],
    /// The tile it starts with.
    first: usize,
    span: Span,
}

impl<L: Link> Kernel for CodedPass<'_, L> {
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Self { rows, labels, x, link, scratch, gradient, first: start, span } = self;
        let Scratch { sums, tables, bins, weights, total: kept, .. } = scratch;
        let (constant, shape) =
            (if L::MARGIN { dot(&rows.shape.base, x) } else { 0.0 }, &*rows.shape);
        let terms = Terms { rows, tables, weights, constant };
        let mut total = if span.starts { s.splat(0.0) } else { s.load(kept) };
        // All margins of a batch, then all slopes, then all sums, as in `Pass`.
        for (batch, labels) in labels.chunks(BATCH * LANES).enumerate() {
            let (first, mut slopes) = (start + batch * BATCH, [ZERO; BATCH]);
            let slopes = &mut slopes[..labels.len().div_ceil(LANES)];
            if L::MARGIN {
                terms.all(s, first, slopes);
            }
            let next = rows.numbers_of_tiles(first + BATCH, BATCH);
            let mut soon = Soon::new(place(next), slopes.len());
            slopes_of(s, link, labels, slopes, &mut soon);
            for (t, slope) in slopes.iter().enumerate() {
                let slope = s.load(slope);
                total = s.add(total, slope);
                let scaled = match shape.scale {
                    Some(k) => s.store(s.mul(slope, s.load(&rows.numbers_of(first + t)[k]))),
                    None => s.store(slope),
                };
                let scaled = scaled.0;
                for (codes, bins) in rows.codes_of(first + t).iter().zip(&mut *bins) {
                    let levels = levels(codes);
                    for lane in 0..LANES {
                        bins[lane % 4][levels[lane]] += scaled[lane];
                    }
                }
            }
            let tiles = rows.numbers_of_tiles(first, slopes.len());
            let first = span.starts && batch == 0;
            Batch { tiles, slopes, sums, first, gradient: None, soon }.run(s);
        }
        if !span.ends {
            *kept = s.store(total);
            return;
        }
        gradient.fill(0.0);
        axpy(s.totals([total, s.splat(0.0), s.splat(0.0), s.splat(0.0)])[0], &shape.base, gradient);
        for (sum, &column) in sums.iter().zip(&shape.numbers) {
            gradient[column as usize] += add_up(s, sum);
        }
        for (group, bins) in rows.groups.iter().zip(bins) {
            for (level, entries) in group.entries() {
                let sum = (bins[0][level] + bins[2][level]) + (bins[1][level] + bins[3][level]);
                for &(column, value) in entries {
                    gradient[column as usize] += value * sum;
                }
            }
        }
    }
}

/// The sum of eight.
#[inline(always)]
fn add_up<S: Lanes>(s: S, eight: &Lanes8) -> f64 {
    let zero = s.splat(0.0);
    s.totals([s.load(eight), zero, zero, zero])[0]
}

/// xᵀy in a fixed order.
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// `y += a·x`.
pub fn axpy(a: f64, x: &[f64], y: &mut [f64]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

/// ‖x‖₂.
pub fn norm(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

/// ‖x − y‖₂.
pub fn distance(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// −y·σ(−y·m).
    #[derive(Clone, Copy)]
    struct Slope;

    impl Link for Slope {
        #[inline(always)]
        fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
            let e = exp(s, s.mul(margin, label));
            s.div(s.sub(s.splat(0.0), label), s.add(s.splat(1.0), e))
        }
    }

    #[test]
    fn log1p_exp_in_lanes_is_that_of_libm_to_a_few_ulp() {
        let mut t: Vec<f64> = (0..20_000).map(|i| 0.0713 * f64::from(i - 10_000)).collect();
        t.extend([0.0, 1e-300, -1e-17, 699.9, -699.9, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
        let mut got = t.clone();
        all_log1p_exp(&mut got);
        for (got, t) in got.iter().zip(t) {
            let want = log1p_exp(t);
            let close = ((got - want) / want).abs() < 8.0 * f64::EPSILON || *got == want;
            assert!(
                close || (got.is_nan() && want.is_nan()),
                "log(1 + e^{t}): {got} against {want}"
            );
        }
    }

    #[test]
    fn exp_is_within_four_ulp_of_libm() {
        let mut t = -700.0;
        while t < 700.0 {
            let got = exp(Portable, [t; LANES])[3];
            let want = libm::exp(t);
            assert!(
                ((got - want) / want).abs() < 4.0 * f64::EPSILON,
                "exp({t}): {got} against {want}"
            );
            t += 0.371;
        }
        assert_eq!(exp(Portable, [0.0; LANES])[0], 1.0);
    }

    fn number(i: usize) -> f64 {
        libm::sin(i as f64 * 12.9898) * 3.0
    }

    fn sign(i: usize) -> f64 {
        if number(i) > 0.0 { 1.0 } else { -1.0 }
    }

    const LANES_HERE: [&str; 4] = ["portable", "avx2", "avx512", "chosen"];

    /// Runs a kernel on lanes of this name; on the chosen ones where this machine has none of that
    /// name.
    fn on(lanes: &str, kernel: impl Kernel) {
        match lanes {
            "portable" => return kernel.run(Portable),
            #[cfg(target_arch = "x86_64")]
            "avx2" => {
                if let Some(simd) = pulp::x86::V3::try_new() {
                    return simd.vectorize(OnRows(simd, kernel));
                }
            }
            #[cfg(target_arch = "x86_64")]
            "avx512" => {
                if let Some(simd) = pulp::x86::V4::try_new() {
                    return simd.vectorize(OnRows(simd, kernel));
                }
            }
            _ => {}
        }
        kernel.dispatch();
    }

    #[test]
    fn every_kind_of_lanes_gives_the_same_bits() {
        for (rows, dim) in [(1, 8), (7, 14), (33, 16), (100, 14), (10, 105)] {
            let mut records = crate::data::Records::with_capacity(dim, rows);
            for r in 0..rows {
                records.push(&(0..dim).map(|l| number(r * dim + l)).collect::<Vec<_>>(), sign(r));
            }
            let Layout::Tiles(tiles) = records.layout() else { unreachable!("dense") };
            let (labels, x) =
                (records.labels(), (0..dim).map(|l| number(l + 77)).collect::<Vec<_>>());
            let (mut sums, mut margins) = (Vec::new(), Vec::new());
            for lanes in LANES_HERE {
                let (mut sum, mut margin) = (vec![0.0; dim], vec![0.0; rows]);
                let (link, sums_of_lanes) = (Slope, &mut vec![ZERO; dim][..]);
                let after = RowsInMemory::of(records.layout(), labels);
                let (sums_here, gradient) = (sums_of_lanes, &mut sum[..]);
                let span = Span::WHOLE;
                let pass =
                    Pass { tiles, labels, x: &x, link, sums: sums_here, gradient, after, span };
                let all = AllMargins { tiles, x: &x, out: &mut margin };
                on(lanes, pass);
                on(lanes, all);
                sums.push(sum);
                margins.push(margin);
            }
            assert!(sums.iter().all(|s| *s == sums[0]) && margins.iter().all(|m| *m == margins[0]));
        }
    }

    #[test]
    fn non_zeros_alone_give_the_same_gradient() {
        for rows in [1, 5, 64] {
            let mut dense = crate::data::Records::with_capacity(40, rows);
            for r in 0..rows {
                let cell = |c: usize| {
                    if (c * 7 + r * 3).is_multiple_of(8) { libm::sin((c + r) as f64) } else { 0.0 }
                };
                dense.push(
                    &(0..40).map(cell).collect::<Vec<_>>(),
                    if r % 3 == 0 { 1.0 } else { -1.0 },
                );
            }
            let sparse = dense.clone().compressed();
            assert!(matches!(sparse.layout(), Layout::Sparse(_)), "mostly zeros");
            let x: Vec<f64> = (0..40).map(|c| libm::cos(c as f64)).collect();
            let of = |records: &crate::data::Records| {
                let (mut g, mut m) = (vec![0.0; 40], vec![0.0; rows]);
                gradient(
                    records.layout(),
                    records.labels(),
                    &x,
                    Slope,
                    &mut Scratch::default(),
                    &mut g,
                );
                all_margins(records.layout(), &x, &mut m);
                (g, m)
            };
            let (want, got) = (of(&dense), of(&sparse));
            assert!(distance(&want.0, &got.0) < 1e-14 * rows as f64);
            assert!(distance(&want.1, &got.1) < 1e-14 * rows as f64);
        }
    }

    /// Rows of two numbers, two categories and a constant, with or without a scale, as codes and as
    /// they are.
    fn coded(rows: usize, scaled: bool) -> (crate::data::Records, crate::data::Records) {
        let mut shape = crate::data::CodeLayout::default();
        shape.number();
        shape.category(30, 30, |l| (l, 0.3 + l as f64));
        shape.category(5, 5, |l| (l, 1.0 - 0.1 * l as f64));
        shape.everywhere(3, -0.7);
        shape.category(2, 1, |l| (0, 2.0 * l as f64 - 1.1));
        if scaled {
            shape.scaling_number();
        } else {
            shape.constant(1.0);
        }
        let mut codes = crate::data::Records::coded(std::sync::Arc::new(shape), rows);
        for j in 0..rows {
            let numbers = [number(j), 0.1 + 0.01 * j as f64];
            codes.push_coded(
                numbers.into_iter(),
                |part| (j * 7 + j / 3) % [30, 5, 2][part],
                sign(j),
            );
        }
        let mut plain = crate::data::Records::with_capacity(codes.dim(), rows);
        (0..rows).for_each(|j| plain.push(&codes.row(j), codes.labels()[j]));
        (codes, plain)
    }

    #[test]
    fn codes_give_the_gradient_of_the_rows_they_stand_for() {
        for (rows, scaled) in
            [(1, true), (7, false), (64, true), (100, false), (1003, true), (1003, false)]
        {
            let (codes, plain) = coded(rows, scaled);
            assert!(
                matches!(codes.layout(), Layout::Coded(_))
                    && matches!(plain.layout(), Layout::Tiles(_))
            );
            let x: Vec<f64> = (0..codes.dim()).map(|c| 0.3 * libm::cos(c as f64)).collect();
            let weights: Vec<f64> = (0..rows).map(number).collect();
            let of = |records: &crate::data::Records| {
                let (dim, scratch) = (records.dim(), &mut Scratch::default());
                let mut all = vec![vec![0.0; dim], vec![0.0; dim], vec![0.0; dim], vec![0.0; rows]];
                gradient(records.layout(), records.labels(), &x, Slope, scratch, &mut all[0]);
                weighted_gram(records.layout(), &weights, &x, scratch, &mut all[1]);
                weighted_sum(records.layout(), &weights, scratch, &mut all[2]);
                all_margins(records.layout(), &x, &mut all[3]);
                all
            };
            for (got, want) in of(&codes).iter().zip(of(&plain)) {
                let size = norm(&want).max(rows as f64);
                assert!(distance(got, &want) < 1e-13 * size, "{rows} rows: {got:?} for {want:?}");
            }
            // The machine changes no bit.
            let Layout::Coded(rows) = codes.layout() else { unreachable!("codes") };
            let run = |lanes: &str| {
                let (mut scratch, mut out) = (Scratch::default(), vec![0.0; codes.dim()]);
                scratch.prepare(rows, &x, true);
                let (labels, scratch, gradient) = (codes.labels(), &mut scratch, &mut out);
                let (x, link, first, span) = (&x[..], Slope, 0, Span::WHOLE);
                let pass = CodedPass { rows, labels, x, link, scratch, gradient, first, span };
                on(lanes, pass);
                out
            };
            assert!(LANES_HERE.iter().all(|lanes| run(lanes) == run("portable")));
        }
    }

    #[test]
    fn a_sum_block_by_block_has_the_bits_of_one_pass() {
        let mut all: Vec<crate::data::Records> = [true, false].map(|s| coded(5003, s).0).into();
        for (rows, dim) in [(1, 3), (128, 14), (3001, 14), (700, 105)] {
            let mut records = crate::data::Records::with_capacity(dim, rows);
            for r in 0..rows {
                records.push(&(0..dim).map(|l| number(r * dim + l)).collect::<Vec<_>>(), sign(r));
            }
            all.push(records);
        }
        for records in all {
            let (layout, dim, rows) = (records.layout(), records.dim(), records.len());
            let x: Vec<f64> = (0..dim).map(|l| 0.1 * number(l + 5)).collect();
            let (mut slopes, mut want, mut got) = (vec![0.0; rows], vec![0.0; dim], vec![1.0; dim]);
            let (mut scratch, mut margins) = (Scratch::default(), Vec::new());
            all_margins(layout, &x, &mut slopes);
            slopes.iter_mut().for_each(|s| *s = 1.0 / (1.0 + s.abs()));
            weighted_sum(layout, &slopes, &mut scratch, &mut want);
            let mut seen = 0;
            let room = (&mut scratch, &mut margins);
            sum_of_slopes(layout, rows, &x, room, &mut got, |some, margins| {
                assert_eq!((some.start, some.len()), (seen, margins.len()));
                seen = some.end;
                margins.iter_mut().for_each(|s| *s = 1.0 / (1.0 + s.abs()));
            });
            assert_eq!((got, seen), (want, rows), "{rows} rows of {dim}");
        }
    }

    /// What a slope is multiplied by, one record at a time.
    fn clipped(how: Clipping, label: f64, norm: f64, slope: f64) -> f64 {
        let Clipping { clip, up, weights: [above, elsewhere] } = how;
        let length = slope.abs() * up * norm;
        let factor = if clip.is_infinite() { 1.0 } else { 1.0 / length.max(clip) };
        let factor = factor * if label > 0.0 { above } else { elsewhere };
        if length.is_finite() { slope * factor } else { 0.0 }
    }

    #[test]
    fn slopes_are_clipped_as_one_by_one_on_all_lanes() {
        let mut slopes: Vec<f64> = (0..203).map(|i| number(i) * 10f64.powi(i as i32 % 9)).collect();
        slopes.extend([0.0, -0.0, 1e300, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
        let labels: Vec<f64> = (0..slopes.len()).map(sign).collect();
        let norms: Vec<f64> = (0..slopes.len()).map(|i| 1.0 + number(i * 3).abs()).collect();
        for clip in [1e-3, 0.7, 40.0, f64::INFINITY] {
            let how = Clipping { clip, up: 1.0 + 9.0 * f64::EPSILON, weights: [1.0, 0.25] };
            let rows = slopes.iter().zip(labels.iter().zip(&norms));
            let want: Vec<f64> = rows.map(|(&s, (&y, &n))| clipped(how, y, n, s)).collect();
            for lanes in LANES_HERE {
                let mut got = slopes.clone();
                on(lanes, Clip { how, labels: &labels, norms: &norms, slopes: &mut got });
                assert_eq!(got, want, "{clip} on {lanes}");
            }
        }
    }

    #[test]
    fn a_short_last_tile_counts_each_row_once() {
        for rows in 1..70 {
            let dim = 7;
            let data: Vec<f64> = (0..rows * dim).map(|i| ((i * 7919) % 13) as f64 - 6.0).collect();
            let weights: Vec<f64> = (0..rows).map(|i| 1.0 + i as f64).collect();
            let v: Vec<f64> = (0..dim).map(|i| i as f64 - 3.0).collect();
            let mut records = crate::data::Records::with_capacity(dim, rows);
            data.chunks(dim).for_each(|row| records.push(row, 1.0));
            let mut got = vec![0.0; dim];
            weighted_gram(records.layout(), &weights, &v, &mut Scratch::default(), &mut got);
            let mut want = vec![0.0; dim];
            for (row, w) in data.chunks(dim).zip(&weights) {
                axpy(w * dot(row, &v), row, &mut want);
            }
            assert_eq!(got, want, "{rows} rows"); // small integers: exact
        }
    }
}
