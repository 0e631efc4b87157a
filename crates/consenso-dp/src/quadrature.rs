//! Adaptive Gauss–Kronrod quadrature of several integrands at once, with an error that is added,
//! never ignored.
//!
//! Privacy costs are integrals of positive functions that are analytic between known break points.
//! On a panel of half length `c` an integrand analytic inside the Bernstein ellipse of parameter
//! `ρ`, bounded there by `M`, is integrated by an `n`-point Gauss rule with error at most
//! `(64/15)·c·M·ρ^(−2n)/(1 − ρ^(−2))` (Trefethen, *Approximation Theory and Approximation
//! Practice*, theorem 19.3), and by the 21-point Kronrod extension of the 10-point rule, exact to
//! degree 31, with error of order `c·M·ρ^(−32)`. The difference of the two rules is therefore of
//! order `ρ^(−20)`: it exceeds the error of the Kronrod value that is kept by a factor near `ρ^12`.
//! A panel is accepted only when that difference is below `tolerance` times the integral so far,
//! which forces `ρ ≳ 3`; the whole difference is then **added** to the reported error. A panel that
//! never converges keeps its (large) difference in the error, so the caller's `value + error` stays
//! on the safe side.

use std::ops::Range;

/// Kronrod nodes on [0, 1], outermost first; the odd entries are the 10-point Gauss nodes.
const NODES: [f64; 11] = [
    0.995_657_163_025_808_1,
    0.973_906_528_517_171_7,
    0.930_157_491_355_708_2,
    0.865_063_366_688_984_5,
    0.780_817_726_586_416_9,
    0.679_409_568_299_024_4,
    0.562_757_134_668_604_7,
    0.433_395_394_129_247_2,
    0.294_392_862_701_460_2,
    0.148_874_338_981_631_22,
    0.0,
];

/// Weights of the 21-point Kronrod rule.
const KRONROD: [f64; 11] = [
    0.011_694_638_867_371_874,
    0.032_558_162_307_964_725,
    0.054_755_896_574_351_995,
    0.075_039_674_810_919_96,
    0.093_125_454_583_697_6,
    0.109_387_158_802_297_64,
    0.123_491_976_262_065_84,
    0.134_709_217_311_473_34,
    0.142_775_938_577_060_09,
    0.147_739_104_901_338_49,
    0.149_445_554_002_916_9,
];

/// Weights of the embedded 10-point Gauss rule (zero at the nodes only Kronrod uses).
const GAUSS: [f64; 11] = [
    0.0,
    0.066_671_344_308_688_14,
    0.0,
    0.149_451_349_150_580_6,
    0.0,
    0.219_086_362_515_982_04,
    0.0,
    0.269_266_719_309_996_35,
    0.0,
    0.295_524_224_714_752_87,
    0.0,
];

/// Panels are halved at most this often: 2^-40 of a piece is below every scale the integrands have.
const MAX_DEPTH: u32 = 40;

/// What an adaptive integration of several integrands accumulates.
#[derive(Debug, Clone)]
pub(super) struct Integrals {
    /// The integrals so far, one an integrand, closed-form parts included.
    pub(super) value: Vec<f64>,
    /// A bound on what quadrature may have left out, to be added.
    pub(super) error: Vec<f64>,
    tolerance: f64,
    sample: Vec<f64>,
    kronrod: Vec<f64>,
    gauss: Vec<f64>,
}

impl Integrals {
    /// Starts `count` integrals at zero; panels are accepted at `tolerance` relative to the running
    /// value.
    pub(super) fn new(count: usize, tolerance: f64) -> Self {
        let zero = || vec![0.0; count];
        Self {
            value: zero(),
            error: zero(),
            tolerance,
            sample: zero(),
            kronrod: zero(),
            gauss: zero(),
        }
    }

    /// The integrals rounded up: value plus error.
    pub(super) fn upper(&self, index: usize) -> f64 {
        self.value[index] + self.error[index]
    }

    /// Adds the integrals of `integrand` over `[0, length]`, cut into panels that double from
    /// `first`.
    ///
    /// Call it for the piece that holds most of the mass first: acceptance is relative to the
    /// running value.
    pub(super) fn add_graded(
        &mut self,
        length: f64,
        first: f64,
        integrand: &mut dyn FnMut(f64, &mut [f64]),
    ) {
        let mut start = 0.0;
        let mut step = first.min(length);
        while start < length {
            // A last sliver is joined to its neighbour rather than integrated on its own.
            let end = if start + 1.5 * step >= length { length } else { start + step };
            self.add_panel(start..end, MAX_DEPTH, integrand);
            start = end;
            step *= 2.0;
        }
    }

    fn add_panel(
        &mut self,
        panel: Range<f64>,
        depth: u32,
        integrand: &mut dyn FnMut(f64, &mut [f64]),
    ) {
        let (centre, half) = (0.5 * (panel.start + panel.end), 0.5 * (panel.end - panel.start));
        self.kronrod.fill(0.0);
        self.gauss.fill(0.0);
        for (index, &node) in NODES.iter().enumerate() {
            let last = if node == 0.0 { 1 } else { 2 };
            for sign in [-1.0, 1.0].into_iter().take(last) {
                integrand(centre + sign * half * node, &mut self.sample);
                for ((k, g), s) in self.kronrod.iter_mut().zip(&mut self.gauss).zip(&self.sample) {
                    *k += KRONROD[index] * s;
                    *g += GAUSS[index] * s;
                }
            }
        }
        let accepted = (0..self.value.len()).all(|i| {
            let difference = half * (self.kronrod[i] - self.gauss[i]).abs();
            // A sample that is not a number must not halve to the bottom everywhere: it is kept and
            // shows in the result.
            difference.is_nan()
                || difference <= self.tolerance * (self.value[i] + half * self.kronrod[i])
        });
        if accepted || depth == 0 {
            for i in 0..self.value.len() {
                self.value[i] += half * self.kronrod[i];
                self.error[i] += half * (self.kronrod[i] - self.gauss[i]).abs();
            }
        } else {
            self.add_panel(panel.start..centre, depth - 1, integrand);
            self.add_panel(centre..panel.end, depth - 1, integrand);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kronrod_rule_is_exact_to_degree_31_and_gauss_to_19() {
        for degree in (0..=31).step_by(2) {
            let exact = 2.0 / (f64::from(degree) + 1.0);
            let sum = |w: &[f64; 11]| -> f64 {
                (0..11)
                    .map(|i| w[i] * NODES[i].powi(degree) * if i == 10 { 1.0 } else { 2.0 })
                    .sum()
            };
            assert!((sum(&KRONROD) - exact).abs() < 4e-16, "Kronrod, degree {degree}");
            if degree <= 19 {
                assert!((sum(&GAUSS) - exact).abs() < 4e-16, "Gauss, degree {degree}");
            } else if degree == 20 {
                assert!((sum(&GAUSS) - exact).abs() > 1e-8, "Gauss must fail at degree 20");
            }
        }
    }

    #[test]
    fn sharp_peaks_are_resolved_and_the_error_covers_the_truth() {
        let mut integrals = Integrals::new(2, 1e-11);
        integrals.add_graded(3.0, 0.5, &mut |x, out| {
            out[0] = 1.0 / ((x - 1.234) * (x - 1.234) + 1e-6);
            out[1] = libm::exp(-50.0 * x);
        });
        let peak = 1e3 * (libm::atan(1234.0) + libm::atan(1766.0));
        let decay = -libm::expm1(-150.0) / 50.0;
        for (index, exact) in [peak, decay].into_iter().enumerate() {
            assert!(
                (integrals.value[index] - exact).abs() <= integrals.error[index] + 1e-12 * exact
            );
            assert!(integrals.error[index] < 1e-9 * exact);
        }
    }
}
