//! The inner loops: one pass over the rows for margins and gradients.
//!
//! Every kernel is written over fixed arrays of [`LANES`] values with fused multiply-adds and a fixed order of reduction, and is
//! compiled for the widest instruction set of the machine at run time (`pulp`). The lane width of the hardware therefore
//! changes the speed and never a bit of the result. Outside those kernels nothing uses a fused multiply-add: without the target feature it
//! is a call into a library, ten times the price of the sum.

use crate::data::LANES;

type Block = [f64; LANES];

#[inline(always)]
fn blocks(row: &[f64]) -> &[Block] {
    row.as_chunks::<LANES>().0
}

#[inline(always)]
fn fma(a: &Block, b: &Block, acc: &mut Block) {
    for lane in 0..LANES {
        acc[lane] = a[lane].mul_add(b[lane], acc[lane]);
    }
}

/// The sum of the lanes, as a fixed tree.
#[inline(always)]
fn sum(v: &Block) -> f64 {
    ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
}

/// Rows a step of a pass takes together: enough to fill the machine's multipliers, few enough to stay in registers.
const ROWS: usize = 4;

type Quad = [f64; ROWS];

/// e^t per row, for t clamped to [−708, 708].
///
/// t = n·ln 2 + r with |r| ≤ ln 2 / 2 (ln 2 split in two so that r is good to 1 ulp), e^r by its Taylor polynomial of degree 13
/// (truncation below 2^−57), 2^n by its bits. Relative error below 4·2^−53.
#[inline(always)]
pub(crate) fn exp(t: &Quad) -> Quad {
    const SHIFT: f64 = 6_755_399_441_055_744.0; // 1.5·2^52: adding it rounds to an integer held in the low bits
    const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const TAYLOR: [f64; 12] = [
        1.0 / 6_227_020_800.0,
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        1.0 / 2.0,
    ];
    let mut out = [0.0; ROWS];
    for row in 0..ROWS {
        let t = t[row].clamp(-708.0, 708.0);
        let shifted = t.mul_add(std::f64::consts::LOG2_E, SHIFT);
        let n = shifted - SHIFT;
        let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, t));
        // Even and odd halves of the polynomial run side by side.
        let r2 = r * r;
        let (mut odd, mut even) = (TAYLOR[0], TAYLOR[1]);
        for k in (2..TAYLOR.len()).step_by(2) {
            odd = odd.mul_add(r2, TAYLOR[k]);
            even = even.mul_add(r2, TAYLOR[k + 1]);
        }
        let e = r2.mul_add(odd.mul_add(r, even), r) + 1.0;
        let scale = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
        out[row] = e * scale;
    }
    out
}

/// A loss that sees a record only through its margin zᵀx and its label: the derivative in the margin.
pub(crate) trait Link: Copy {
    /// φ'(margin, label) per row.
    fn slope(self, margin: &Quad, label: &Quad) -> Quad;
}

/// log(1 + e^{−y·m}): slope −y·σ(−y·m).
#[derive(Clone, Copy)]
pub(crate) struct LogisticLink;

impl Link for LogisticLink {
    #[inline(always)]
    fn slope(self, margin: &Quad, label: &Quad) -> Quad {
        let e = exp(&std::array::from_fn(|row| margin[row] * label[row]));
        std::array::from_fn(|row| -label[row] / (1.0 + e[row]))
    }
}

/// ½(m − y)² with the residual clipped to ±c; c = ∞ is plain least squares, and a finite c is the Huber loss.
#[derive(Clone, Copy)]
pub(crate) struct ResidualLink {
    pub(crate) clip: f64,
}

impl Link for ResidualLink {
    #[inline(always)]
    fn slope(self, margin: &Quad, label: &Quad) -> Quad {
        std::array::from_fn(|row| (margin[row] - label[row]).clamp(-self.clip, self.clip))
    }
}

/// Given weights per row instead of a function of the margin: Σ_j w_j z_j (zᵀv), for Hessian products.
#[derive(Clone, Copy)]
struct Weighted;

impl Link for Weighted {
    #[inline(always)]
    fn slope(self, margin: &Quad, weight: &Quad) -> Quad {
        std::array::from_fn(|row| margin[row] * weight[row])
    }
}

/// Margins of four rows.
#[inline(always)]
fn margins([a, b, c, d]: [&[Block]; ROWS], x: &[Block]) -> Quad {
    let mut acc = [[0.0; LANES]; ROWS];
    for ((((x, a), b), c), d) in x.iter().zip(a).zip(b).zip(c).zip(d) {
        fma(a, x, &mut acc[0]);
        fma(b, x, &mut acc[1]);
        fma(c, x, &mut acc[2]);
        fma(d, x, &mut acc[3]);
    }
    std::array::from_fn(|row| sum(&acc[row]))
}

/// `gradient += Σ slope·row` over four rows, two chains side by side.
#[inline(always)]
fn accumulate([a, b, c, d]: [&[Block]; ROWS], slope: &Quad, gradient: &mut [Block]) {
    for ((((g, a), b), c), d) in gradient.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        for lane in 0..LANES {
            let left = slope[1].mul_add(b[lane], slope[0].mul_add(a[lane], g[lane]));
            g[lane] = left + slope[3].mul_add(d[lane], slope[2] * c[lane]);
        }
    }
}

/// `gradient += Σ_j φ'(z_jᵀx, y_j)·z_j`, rows in order, four at a time.
#[inline(always)]
fn pass<L: Link>(rows: &[f64], width: usize, labels: &[f64], x: &[Block], link: L, gradient: &mut [Block]) {
    let (x, gradient) = (&x[..width], &mut gradient[..width]);
    let blocks = blocks(rows);
    let (quads, rest) = labels.as_chunks::<ROWS>();
    for (label, group) in quads.iter().zip(blocks.chunks_exact(ROWS * width)) {
        let (ab, cd) = group.split_at(2 * width);
        let ((a, b), (c, d)) = (ab.split_at(width), cd.split_at(width));
        let rows = [a, b, c, d];
        accumulate(rows, &link.slope(&margins(rows, x), label), gradient);
    }
    // The last, short group: absent rows repeat the first one with slope zero, so the arithmetic is that of a full group.
    if !rest.is_empty() {
        let group = &blocks[quads.len() * ROWS * width..];
        let rows: [&[Block]; ROWS] = std::array::from_fn(|r| {
            let r = if r < rest.len() { r } else { 0 };
            &group[r * width..(r + 1) * width]
        });
        let mut label = [0.0; ROWS];
        label[..rest.len()].copy_from_slice(rest);
        let mut slope = link.slope(&margins(rows, x), &label);
        slope[rest.len()..].fill(0.0);
        accumulate(rows, &slope, gradient);
    }
}

/// [`pass`] for a known width: the whole gradient stays in registers.
#[inline(always)]
fn narrow_pass<const WIDTH: usize, L: Link>(rows: &[f64], labels: &[f64], x: &[Block], link: L, gradient: &mut [Block]) {
    let x: [Block; WIDTH] = std::array::from_fn(|c| x[c]);
    let mut kept: [Block; WIDTH] = std::array::from_fn(|c| gradient[c]);
    pass(rows, WIDTH, labels, &x, link, &mut kept);
    gradient[..WIDTH].copy_from_slice(&kept);
}

/// One call of [`pass`], compiled for the machine it runs on. A struct, not a closure: closures this large are not inlined into
/// the function that carries the target features, and would fall back to emulated fused multiply-adds.
struct Pass<'a, L> {
    rows: &'a [f64],
    stride: usize,
    labels: &'a [f64],
    x: &'a [f64],
    link: L,
    gradient: &'a mut [f64],
}

impl<L: Link> pulp::WithSimd for Pass<'_, L> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Self { rows, stride, labels, x, link, gradient } = self;
        let (x, gradient) = (blocks(x), gradient.as_chunks_mut::<LANES>().0);
        match stride / LANES {
            1 => narrow_pass::<1, L>(rows, labels, x, link, gradient),
            2 => narrow_pass::<2, L>(rows, labels, x, link, gradient),
            width => pass(rows, width, labels, x, link, gradient),
        }
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
    pulp::Arch::new().dispatch(Pass { rows, stride, labels, x, link, gradient });
}

/// `out += Σ_j w_j (z_jᵀv) z_j`: the curvature of a margin loss along `v`.
pub(crate) fn weighted_gram(rows: &[f64], stride: usize, weights: &[f64], v: &[f64], out: &mut [f64]) {
    gradient(rows, stride, weights, v, Weighted, out);
}

/// Margins z_jᵀx of all rows.
pub(crate) fn all_margins(rows: &[f64], stride: usize, x: &[f64], out: &mut [f64]) {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            let x = blocks(x);
            for (row, out) in rows.chunks_exact(stride).zip(out) {
                let mut acc = [0.0; LANES];
                for (z, x) in blocks(row).iter().zip(x) {
                    fma(z, x, &mut acc);
                }
                *out = sum(&acc);
            }
        },
    );
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
            let got = exp(&[t; ROWS])[3];
            let want = libm::exp(t);
            assert!(((got - want) / want).abs() < 4.0 * f64::EPSILON, "exp({t}): {got} against {want}");
            t += 0.371;
        }
        assert_eq!(exp(&[0.0; ROWS])[0], 1.0);
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
