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

/// e^t per lane, for t clamped to [−708, 708].
///
/// t = n·ln 2 + r with |r| ≤ ln 2 / 2 (ln 2 split in two so that r is good to 1 ulp), e^r by its Taylor polynomial of degree 13
/// (truncation below 2^−57), 2^n by its bits. Relative error below 4·2^−53.
#[inline(always)]
pub(crate) fn exp(t: &Block) -> Block {
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
    let mut out = [0.0; LANES];
    for lane in 0..LANES {
        let t = t[lane].clamp(-708.0, 708.0);
        let shifted = t.mul_add(std::f64::consts::LOG2_E, SHIFT);
        let n = shifted - SHIFT;
        let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, t));
        let mut p = TAYLOR[0];
        for &c in &TAYLOR[1..] {
            p = p.mul_add(r, c);
        }
        let e = (r * r).mul_add(p, r) + 1.0;
        let scale = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
        out[lane] = e * scale;
    }
    out
}

/// A loss that sees a record only through its margin zᵀx and its label: the derivative in the margin.
pub(crate) trait Link: Copy {
    /// φ'(margin, label) per lane.
    fn slope(self, margin: &Block, label: &Block) -> Block;
}

/// log(1 + e^{−y·m}): slope −y·σ(−y·m).
#[derive(Clone, Copy)]
pub(crate) struct LogisticLink;

impl Link for LogisticLink {
    #[inline(always)]
    fn slope(self, margin: &Block, label: &Block) -> Block {
        let mut t = [0.0; LANES];
        for lane in 0..LANES {
            t[lane] = margin[lane] * label[lane];
        }
        let e = exp(&t);
        for lane in 0..LANES {
            t[lane] = -label[lane] / (1.0 + e[lane]);
        }
        t
    }
}

/// ½(m − y)² with the residual clipped to ±c; c = ∞ is plain least squares, and a finite c is the Huber loss.
#[derive(Clone, Copy)]
pub(crate) struct ResidualLink {
    pub(crate) clip: f64,
}

impl Link for ResidualLink {
    #[inline(always)]
    fn slope(self, margin: &Block, label: &Block) -> Block {
        let mut r = [0.0; LANES];
        for lane in 0..LANES {
            r[lane] = (margin[lane] - label[lane]).clamp(-self.clip, self.clip);
        }
        r
    }
}

/// Given weights per row instead of a function of the margin: Σ_j w_j z_j (zᵀv), for Hessian products.
#[derive(Clone, Copy)]
struct Weighted;

impl Link for Weighted {
    #[inline(always)]
    fn slope(self, margin: &Block, weight: &Block) -> Block {
        let mut r = [0.0; LANES];
        for lane in 0..LANES {
            r[lane] = margin[lane] * weight[lane];
        }
        r
    }
}

/// Margins of up to eight consecutive rows.
#[inline(always)]
fn margins(rows: &[&[Block]; LANES], x: &[Block]) -> Block {
    let mut acc = [[0.0; LANES]; LANES];
    for (c, x) in x.iter().enumerate() {
        for r in 0..LANES {
            fma(&rows[r][c], x, &mut acc[r]);
        }
    }
    let mut out = [0.0; LANES];
    for r in 0..LANES {
        out[r] = sum(&acc[r]);
    }
    out
}

/// `gradient += Σ_j φ'(z_jᵀx, y_j)·z_j`, rows in order, eight at a time.
#[inline(always)]
fn pass<L: Link>(rows: &[f64], stride: usize, labels: &[f64], x: &[f64], link: L, gradient: &mut [f64]) {
    let x = blocks(x);
    let width = stride / LANES;
    let gradient = gradient.as_chunks_mut::<LANES>().0;
    let (x, gradient) = (&x[..width], &mut gradient[..width]);
    let mut groups = rows.chunks_exact(LANES * stride);
    let mut label_groups = labels.chunks_exact(LANES);
    for (group, label) in groups.by_ref().zip(label_groups.by_ref()) {
        let group = blocks(group);
        let rows: [&[Block]; LANES] = std::array::from_fn(|r| &group[r * width..(r + 1) * width]);
        let label: &Block = label.try_into().expect("a chunk of LANES");
        accumulate(&rows, &link.slope(&margins(&rows, x), label), gradient);
    }
    // The last, short group: absent rows repeat the first one with slope zero, so the arithmetic is that of a full group.
    let (rest, rest_labels) = (groups.remainder(), label_groups.remainder());
    if !rest_labels.is_empty() {
        let group = blocks(rest);
        let present = rest_labels.len();
        let rows: [&[Block]; LANES] = std::array::from_fn(|r| {
            let r = if r < present { r } else { 0 };
            &group[r * width..(r + 1) * width]
        });
        let mut label = [0.0; LANES];
        label[..present].copy_from_slice(rest_labels);
        let mut slope = link.slope(&margins(&rows, x), &label);
        slope[present..].fill(0.0);
        accumulate(&rows, &slope, gradient);
    }
}

#[inline(always)]
fn accumulate(rows: &[&[Block]; LANES], slope: &Block, gradient: &mut [Block]) {
    for (c, g) in gradient.iter_mut().enumerate() {
        let mut even = *g;
        let mut odd = [0.0; LANES];
        for r in (0..LANES).step_by(2) {
            for lane in 0..LANES {
                even[lane] = slope[r].mul_add(rows[r][c][lane], even[lane]);
                odd[lane] = slope[r + 1].mul_add(rows[r + 1][c][lane], odd[lane]);
            }
        }
        for lane in 0..LANES {
            g[lane] = even[lane] + odd[lane];
        }
    }
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
        match stride / LANES {
            // Known widths keep the whole gradient in registers.
            1 => pass(rows, LANES, labels, x, link, gradient),
            2 => pass(rows, 2 * LANES, labels, x, link, gradient),
            _ => pass(rows, stride, labels, x, link, gradient),
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
            let got = exp(&[t; LANES])[3];
            let want = libm::exp(t);
            assert!(((got - want) / want).abs() < 4.0 * f64::EPSILON, "exp({t}): {got} against {want}");
            t += 0.371;
        }
        assert_eq!(exp(&[0.0; LANES])[0], 1.0);
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
