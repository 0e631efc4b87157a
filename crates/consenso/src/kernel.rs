//! The inner loops: one pass over the rows for margins and gradients.
//!
//! A kernel is written once, over `Lanes`: four numbers at a time, fused multiply-adds, a fixed order of reduction. On x86 with AVX2 those
//! are vector registers (through `pulp`, chosen at run time); elsewhere plain arrays that do the very same arithmetic. The machine
//! changes the speed and never a bit of the result. Vector types are spelled out because the optimiser, left to vectorise arrays, shuffles rows
//! into each other and halves the speed. Outside those kernels nothing uses a fused multiply-add: without the target
//! feature it is a call into a library, ten times the price of the sum.

use crate::data::{LANES, Nonzeros};

type Quad = [f64; 4];
type Block = [f64; LANES];

fn blocks(row: &[f64]) -> &[Block] {
    row.as_chunks::<LANES>().0
}

/// Four `f64` and what kernels do with them.
pub(crate) trait Lanes: Copy {
    /// Four numbers.
    type V: Copy;
    fn load(self, from: &Quad) -> Self::V;
    fn store(self, v: Self::V) -> Quad;
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
    /// (v[0] + v[2]) + (v[1] + v[3]) of each of four.
    fn sums(self, v: [Self::V; 4]) -> Self::V;
}

/// Plain arrays, for every machine.
#[derive(Clone, Copy)]
struct Portable;

impl Lanes for Portable {
    type V = Quad;
    fn load(self, from: &Quad) -> Quad {
        *from
    }
    fn store(self, v: Quad) -> Quad {
        v
    }
    fn splat(self, value: f64) -> Quad {
        [value; 4]
    }
    fn add(self, a: Quad, b: Quad) -> Quad {
        std::array::from_fn(|i| a[i] + b[i])
    }
    fn sub(self, a: Quad, b: Quad) -> Quad {
        std::array::from_fn(|i| a[i] - b[i])
    }
    fn mul(self, a: Quad, b: Quad) -> Quad {
        std::array::from_fn(|i| a[i] * b[i])
    }
    fn div(self, a: Quad, b: Quad) -> Quad {
        std::array::from_fn(|i| a[i] / b[i])
    }
    fn fma(self, a: Quad, b: Quad, c: Quad) -> Quad {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    fn clamp(self, x: Quad, low: f64, high: f64) -> Quad {
        let one = |x: f64| {
            let x = if x > low { x } else { low };
            if x < high { x } else { high }
        };
        x.map(one)
    }
    fn power_of_two(self, shifted: Quad) -> Quad {
        shifted.map(|s| f64::from_bits((s.to_bits() << 52).wrapping_add(1023 << 52)))
    }
    fn sums(self, v: [Quad; 4]) -> Quad {
        v.map(|v| (v[0] + v[2]) + (v[1] + v[3]))
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Lanes, Quad};
    use pulp::cast;
    use pulp::x86::V3;
    use std::arch::x86_64::__m256d;

    impl Lanes for V3 {
        type V = __m256d;
        #[inline(always)]
        fn load(self, from: &Quad) -> __m256d {
            cast(*from)
        }
        #[inline(always)]
        fn store(self, v: __m256d) -> Quad {
            cast(v)
        }
        #[inline(always)]
        fn splat(self, value: f64) -> __m256d {
            self.avx._mm256_set1_pd(value)
        }
        #[inline(always)]
        fn add(self, a: __m256d, b: __m256d) -> __m256d {
            self.avx._mm256_add_pd(a, b)
        }
        #[inline(always)]
        fn sub(self, a: __m256d, b: __m256d) -> __m256d {
            self.avx._mm256_sub_pd(a, b)
        }
        #[inline(always)]
        fn mul(self, a: __m256d, b: __m256d) -> __m256d {
            self.avx._mm256_mul_pd(a, b)
        }
        #[inline(always)]
        fn div(self, a: __m256d, b: __m256d) -> __m256d {
            self.avx._mm256_div_pd(a, b)
        }
        #[inline(always)]
        fn fma(self, a: __m256d, b: __m256d, c: __m256d) -> __m256d {
            self.fma._mm256_fmadd_pd(a, b, c)
        }
        #[inline(always)]
        fn clamp(self, x: __m256d, low: f64, high: f64) -> __m256d {
            // The instruction returns its second operand when either is NaN.
            let x = self.avx._mm256_max_pd(x, self.splat(low));
            self.avx._mm256_min_pd(x, self.splat(high))
        }
        #[inline(always)]
        fn power_of_two(self, shifted: __m256d) -> __m256d {
            let bits = self.avx2._mm256_slli_epi64::<52>(self.avx._mm256_castpd_si256(shifted));
            let one = self.avx._mm256_set1_epi64x(1023 << 52);
            self.avx._mm256_castsi256_pd(self.avx2._mm256_add_epi64(bits, one))
        }
        #[inline(always)]
        fn sums(self, [a, b, c, d]: [__m256d; 4]) -> __m256d {
            // Halves of two rows side by side, then neighbours added: rows come out as 0, 2, 1, 3.
            let fold = |p, q| {
                let low = self.avx._mm256_permute2f128_pd::<0x20>(p, q);
                let high = self.avx._mm256_permute2f128_pd::<0x31>(p, q);
                self.avx._mm256_add_pd(low, high)
            };
            let mixed = self.avx._mm256_hadd_pd(fold(a, b), fold(c, d));
            self.avx2._mm256_permute4x64_pd::<0b11_01_10_00>(mixed)
        }
    }
}

/// e^t, for t clamped to [−708, 708].
///
/// t = n·ln 2 + r with |r| ≤ ln 2 / 2 (ln 2 split in two so that r is good to 1 ulp), e^r by its Taylor polynomial of degree 13
/// (truncation below 2^−57), 2^n by its bits. Relative error below 4·2^−53.
#[inline(always)]
fn exp<S: Lanes>(s: S, t: S::V) -> S::V {
    const SHIFT: f64 = 6_755_399_441_055_744.0; // 1.5·2^52: adding it rounds to an integer held in the low bits
    const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    // 1/k! for k = 13 and 12, 11 and 10, …: the odd and the even half of the polynomial run side by side.
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

/// A loss that sees a record only through its margin zᵀx and its label: the derivative in the margin.
pub(crate) trait Link: Copy {
    /// φ'(margin, label) of four rows.
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V;
}

/// log(1 + e^{−y·m}): slope −y·σ(−y·m).
#[derive(Clone, Copy)]
pub(crate) struct LogisticLink;

impl Link for LogisticLink {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        let e = exp(s, s.mul(margin, label));
        s.div(s.sub(s.splat(0.0), label), s.add(s.splat(1.0), e))
    }
}

/// ½(m − y)² with the residual clipped to ±c; c = ∞ is plain least squares, and a finite c is the Huber loss.
#[derive(Clone, Copy)]
pub(crate) struct ResidualLink {
    pub(crate) clip: f64,
}

impl Link for ResidualLink {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        s.clamp(s.sub(margin, label), -self.clip, self.clip)
    }
}

/// Given weights per row instead of a function of the margin: Σ_j w_j z_j (zᵀv), for Hessian products.
#[derive(Clone, Copy)]
struct Weighted;

impl Link for Weighted {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, weight: S::V) -> S::V {
        s.mul(margin, weight)
    }
}

#[inline(always)]
fn halves(block: &Block) -> (&Quad, &Quad) {
    let (low, high) = block.split_at(4);
    (low.try_into().expect("four"), high.try_into().expect("four"))
}

/// Margins of four rows.
#[inline(always)]
fn margins<S: Lanes>(s: S, [a, b, c, d]: [&[Block]; 4], x: &[Block]) -> S::V {
    let zero = s.splat(0.0);
    let mut acc = [(zero, zero); 4];
    for ((((x, a), b), c), d) in x.iter().zip(a).zip(b).zip(c).zip(d) {
        let (x_low, x_high) = halves(x);
        let (x_low, x_high) = (s.load(x_low), s.load(x_high));
        for (row, acc) in [a, b, c, d].into_iter().zip(&mut acc) {
            let (low, high) = halves(row);
            *acc = (s.fma(s.load(low), x_low, acc.0), s.fma(s.load(high), x_high, acc.1));
        }
    }
    s.sums(acc.map(|(low, high)| s.add(low, high)))
}

/// `gradient += Σ slope·row` over four rows, two chains side by side.
#[inline(always)]
fn accumulate<S: Lanes>(s: S, [a, b, c, d]: [&[Block]; 4], slope: &Quad, gradient: &mut [Block]) {
    let slope = slope.map(|v| s.splat(v));
    for ((((g, a), b), c), d) in gradient.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        let ((g0, g1), (a0, a1), (b0, b1), (c0, c1), (d0, d1)) =
            (halves(g), halves(a), halves(b), halves(c), halves(d));
        let one = |g, a, b, c, d| {
            let left = s.fma(slope[1], s.load(b), s.fma(slope[0], s.load(a), s.load(g)));
            s.store(s.add(left, s.fma(slope[3], s.load(d), s.mul(slope[2], s.load(c)))))
        };
        let (low, high) = (one(g0, a0, b0, c0, d0), one(g1, a1, b1, c1, d1));
        g[..4].copy_from_slice(&low);
        g[4..].copy_from_slice(&high);
    }
}

/// Groups of four rows a batch holds at most.
const BATCH: usize = 8;
/// Blocks a batch holds at most: 16 KiB, a third of a first-level cache.
const BATCH_BLOCKS: usize = 256;

/// The four rows of a group.
#[inline(always)]
fn four(group: &[Block], width: usize) -> [&[Block]; 4] {
    let (ab, cd) = group.split_at(2 * width);
    let ((a, b), (c, d)) = (ab.split_at(width), cd.split_at(width));
    [a, b, c, d]
}

/// `gradient += Σ_j φ'(z_jᵀx, y_j)·z_j`, rows in order, four at a time.
#[inline(always)]
fn pass<S: Lanes, L: Link>(
    s: S,
    rows: &[Block],
    width: usize,
    labels: &[f64],
    x: &[Block],
    link: L,
    gradient: &mut [Block],
) {
    let (x, gradient) = (&x[..width], &mut gradient[..width]);
    let (quads, rest) = labels.as_chunks::<4>();
    // A batch that stays in the first-level cache: all margins, then all slopes, then all sums, so that the long latency of a
    // slope is hidden behind its neighbours'. The order of every sum is that of one group after the other.
    let batch = (BATCH_BLOCKS / (4 * width)).clamp(1, BATCH);
    for (labels, rows) in quads.chunks(batch).zip(rows.chunks(batch * 4 * width)) {
        let mut slopes = [[0.0; 4]; BATCH];
        for (slope, group) in slopes.iter_mut().zip(rows.chunks_exact(4 * width).take(labels.len())) {
            *slope = s.store(margins(s, four(group, width), x));
        }
        for (slope, label) in slopes.iter_mut().zip(labels) {
            *slope = s.store(link.slope(s, s.load(slope), s.load(label)));
        }
        for (slope, group) in slopes.iter().zip(rows.chunks_exact(4 * width).take(labels.len())) {
            accumulate(s, four(group, width), slope, gradient);
        }
    }
    // The last, short group: absent rows repeat the first one with slope zero, so the arithmetic is that of a full group.
    if !rest.is_empty() {
        let group = &rows[quads.len() * 4 * width..];
        let rows: [&[Block]; 4] = std::array::from_fn(|r| {
            let r = if r < rest.len() { r } else { 0 };
            &group[r * width..(r + 1) * width]
        });
        let mut label = [0.0; 4];
        label[..rest.len()].copy_from_slice(rest);
        let mut slope = s.store(link.slope(s, margins(s, rows, x), s.load(&label)));
        slope[rest.len()..].fill(0.0);
        accumulate(s, rows, &slope, gradient);
    }
}

/// One call of [`pass`], compiled for the machine it runs on.
struct Pass<'a, L> {
    rows: &'a [f64],
    stride: usize,
    labels: &'a [f64],
    x: &'a [f64],
    link: L,
    gradient: &'a mut [f64],
}

impl<L: Link> Kernel for Pass<'_, L> {
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Self { rows, stride, labels, x, link, gradient } = self;
        let (rows, x, gradient) = (blocks(rows), blocks(x), gradient.as_chunks_mut::<LANES>().0);
        match stride / LANES {
            // A known width keeps the whole gradient in registers.
            2 => {
                let x = [x[0], x[1]];
                let mut kept = [gradient[0], gradient[1]];
                pass(s, rows, 2, labels, &x, link, &mut kept);
                gradient[..2].copy_from_slice(&kept);
            }
            width => pass(s, rows, width, labels, x, link, gradient),
        }
    }
}

/// A loop over the rows, for any [`Lanes`].
trait Kernel: Sized {
    fn run<S: Lanes>(self, s: S);

    /// Runs on the best lanes of this machine.
    fn dispatch(self) {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = pulp::x86::V3::try_new() {
            return simd.vectorize(OnAvx2(simd, self));
        }
        self.run(Portable);
    }
}

#[cfg(target_arch = "x86_64")]
struct OnAvx2<K>(pulp::x86::V3, K);

#[cfg(target_arch = "x86_64")]
impl<K: Kernel> pulp::NullaryFnOnce for OnAvx2<K> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        self.1.run(self.0);
    }
}

/// `gradient += Σ_j φ'(z_jᵀx, y_j)·z_j` over padded rows; `x` and `gradient` are padded to `stride`.
pub(crate) fn gradient<L: Link>(
    rows: &[f64],
    stride: usize,
    labels: &[f64],
    x: &[f64],
    link: L,
    gradient: &mut [f64],
) {
    Pass { rows, stride, labels, x, link, gradient }.dispatch();
}

/// `out += Σ_j w_j (z_jᵀv) z_j`: the curvature of a margin loss along `v`.
pub(crate) fn weighted_gram(rows: &[f64], stride: usize, weights: &[f64], v: &[f64], out: &mut [f64]) {
    gradient(rows, stride, weights, v, Weighted, out);
}

/// Margins z_jᵀx of all rows.
pub(crate) fn all_margins(rows: &[f64], stride: usize, x: &[f64], out: &mut [f64]) {
    AllMargins { rows, stride, x, out }.dispatch();
}

struct AllMargins<'a> {
    rows: &'a [f64],
    stride: usize,
    x: &'a [f64],
    out: &'a mut [f64],
}

impl Kernel for AllMargins<'_> {
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Self { rows, stride, x, out } = self;
        let (rows, width) = (blocks(rows), stride / LANES);
        let x = &blocks(x)[..width];
        let (quads, rest) = out.as_chunks_mut::<4>();
        let done = quads.len() * 4 * width;
        for (out, group) in quads.iter_mut().zip(rows.chunks_exact(4 * width)) {
            *out = s.store(margins(s, four(group, width), x));
        }
        for (out, row) in rest.iter_mut().zip(rows[done..].chunks_exact(width)) {
            *out = s.store(margins(s, [row; 4], x))[0];
        }
    }
}

/// zᵀx over the non-zeros of z, four sums side by side.
#[inline(always)]
fn sparse_margin((columns, values): (&[u32], &[f64]), x: &[f64]) -> f64 {
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

/// [`Pass`] over an index of non-zeros.
struct SparsePass<'a, L> {
    rows: &'a Nonzeros,
    labels: &'a [f64],
    x: &'a [f64],
    link: L,
    gradient: &'a mut [f64],
}

impl<L: Link> Kernel for SparsePass<'_, L> {
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let Self { rows, labels, x, link, gradient } = self;
        for (group, label) in labels.chunks(4).enumerate() {
            let row = |r: usize| rows.row(4 * group + r.min(label.len() - 1));
            let margin: Quad = std::array::from_fn(|r| sparse_margin(row(r), x));
            let labels: Quad = std::array::from_fn(|r| label[r.min(label.len() - 1)]);
            let slope = s.store(link.slope(s, s.load(&margin), s.load(&labels)));
            for (r, slope) in slope.iter().take(label.len()).enumerate() {
                let (columns, values) = row(r);
                for (c, v) in columns.iter().zip(values) {
                    gradient[*c as usize] += slope * v;
                }
            }
        }
    }
}

/// [`gradient`] over an index of non-zeros.
pub(crate) fn sparse_gradient<L: Link>(
    rows: &Nonzeros,
    labels: &[f64],
    x: &[f64],
    link: L,
    gradient: &mut [f64],
) {
    SparsePass { rows, labels, x, link, gradient }.dispatch();
}

/// [`weighted_gram`] over an index of non-zeros.
pub(crate) fn sparse_weighted_gram(rows: &Nonzeros, weights: &[f64], v: &[f64], out: &mut [f64]) {
    sparse_gradient(rows, weights, v, Weighted, out);
}

/// [`all_margins`] over an index of non-zeros.
pub(crate) fn sparse_margins(rows: &Nonzeros, x: &[f64], out: &mut [f64]) {
    for (row, out) in out.iter_mut().enumerate() {
        *out = sparse_margin(rows.row(row), x);
    }
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

    #[test]
    fn exp_is_within_four_ulp_of_libm() {
        let mut t = -700.0;
        while t < 700.0 {
            let got = exp(Portable, [t; 4])[3];
            let want = libm::exp(t);
            assert!(((got - want) / want).abs() < 4.0 * f64::EPSILON, "exp({t}): {got} against {want}");
            t += 0.371;
        }
        assert_eq!(exp(Portable, [0.0; 4])[0], 1.0);
    }

    #[test]
    fn vector_registers_and_plain_arrays_give_the_same_bits() {
        for (rows, stride) in [(1, 8), (7, 16), (33, 16), (10, 112)] {
            let number = |i: usize| libm::sin(i as f64 * 12.9898) * 3.0;
            let data: Vec<f64> = (0..rows * stride).map(number).collect();
            let labels: Vec<f64> = (0..rows).map(|i| if number(i) > 0.0 { 1.0 } else { -1.0 }).collect();
            let x: Vec<f64> = (0..stride).map(|i| number(i + 77)).collect();
            let (mut plain, mut fast) = (vec![0.1; stride], vec![0.1; stride]);
            Pass { rows: &data, stride, labels: &labels, x: &x, link: LogisticLink, gradient: &mut plain }
                .run(Portable);
            gradient(&data, stride, &labels, &x, LogisticLink, &mut fast);
            assert_eq!(plain, fast);
            let (mut plain, mut fast) = (vec![0.0; rows], vec![0.0; rows]);
            AllMargins { rows: &data, stride, x: &x, out: &mut plain }.run(Portable);
            all_margins(&data, stride, &x, &mut fast);
            assert_eq!(plain, fast);
        }
    }

    #[test]
    fn an_index_of_non_zeros_gives_the_same_gradient() {
        for rows in [1, 5, 64] {
            let mut dense = crate::data::Records::with_capacity(40, rows);
            for r in 0..rows {
                let cell = |c: usize| {
                    if (c * 7 + r * 3).is_multiple_of(8) { libm::sin((c + r) as f64) } else { 0.0 }
                };
                dense.push(&(0..40).map(cell).collect::<Vec<_>>(), if r % 3 == 0 { 1.0 } else { -1.0 });
            }
            let records = dense.clone().indexed();
            let index = records.nonzeros().expect("mostly zeros");
            let x: Vec<f64> = (0..40).map(|c| libm::cos(c as f64)).collect();
            let (mut want, mut got) = (vec![0.0; 40], vec![0.0; 40]);
            gradient(dense.padded(), 40, dense.labels(), &x, LogisticLink, &mut want);
            sparse_gradient(index, dense.labels(), &x, LogisticLink, &mut got);
            assert!(distance(&want, &got) < 1e-14 * rows as f64);
            let (mut want, mut got) = (vec![0.0; rows], vec![0.0; rows]);
            all_margins(dense.padded(), 40, &x, &mut want);
            sparse_margins(index, &x, &mut got);
            assert!(distance(&want, &got) < 1e-14 * rows as f64);
        }
    }

    #[test]
    fn a_short_last_group_counts_each_row_once() {
        for rows in 1..20 {
            let stride = 8;
            let data: Vec<f64> = (0..rows * stride).map(|i| ((i * 7919) % 13) as f64 - 6.0).collect();
            let weights: Vec<f64> = (0..rows).map(|i| 1.0 + i as f64).collect();
            let v: Vec<f64> = (0..stride).map(|i| i as f64 - 3.0).collect();
            let mut got = vec![0.0; stride];
            weighted_gram(&data, stride, &weights, &v, &mut got);
            let mut want = vec![0.0; stride];
            for (row, w) in data.chunks(stride).zip(&weights) {
                axpy(w * dot(row, &v), row, &mut want);
            }
            assert_eq!(got, want, "{rows} rows"); // small integers: exact
        }
    }
}
