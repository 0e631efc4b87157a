//! The Gaussian mechanism's δ(ε), without cancellation and never too small.

use super::round::UNIT;
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Mills' ratio `Φ(−x)/φ(x)` for `x ≥ 0`, with a relative error below 16 units of rounding.
fn mills(x: f64) -> f64 {
    let z = x * FRAC_1_SQRT_2;
    let root = (PI / 2.0).sqrt();
    if z < 20.0 {
        // exp(z²)·erfc(z), with z² carried in two floats: its rounding error would be multiplied by
        // z².
        let square = z * z;
        let rest = z.mul_add(z, -square);
        return root * (square.exp() * libm::erfc(z)) * (1.0 + rest);
    }
    // Laplace's continued fraction, backwards from a depth at which it has long converged for
    // x > 28.
    let tail = (1..=30).rev().fold(x, |below, k| x + f64::from(k) / below);
    1.0 / tail
}

/// `δ` of the Gaussian mechanism with `mu` = l2 sensitivity over σ, at any real `epsilon`, rounded
/// up: `δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)`.
///
/// With `a = ε/μ − μ/2`, `b = ε/μ + μ/2` and `φ(a) = e^ε φ(b)` the difference is
/// `φ(a)·(m(a) − m(b))`, `m` Mills' ratio, which keeps its relative accuracy where both Φ
/// underflow.
pub(crate) fn gaussian_delta(mu: f64, epsilon: f64) -> f64 {
    if mu == 0.0 {
        return (-epsilon.exp_m1()).clamp(0.0, 1.0);
    }
    let a = epsilon / mu - mu / 2.0;
    let b = epsilon / mu + mu / 2.0;
    // Rounding in `a` itself: absolute error e changes φ(a) by the factor 1 ± |a|e.
    let argument_error = UNIT * 3.0 * (epsilon.abs() / mu + mu);
    if a >= 0.0 {
        let density = (-0.5 * a * a).exp() / (2.0 * PI).sqrt();
        let (near, far) = (mills(a), mills(b));
        let error = near * (64.0 * UNIT + (a + 1.0) * argument_error * 2.0 + a * a * UNIT);
        return (density * ((near - far).max(0.0) + error)).min(1.0);
    }
    // a < 0: the first term is at least one half, and the plain difference loses only absolute
    // accuracy.
    let first = 0.5 * libm::erfc(a * FRAC_1_SQRT_2);
    let second = if b >= 0.0 {
        (-0.5 * a * a).exp() / (2.0 * PI).sqrt() * mills(b)
    } else {
        epsilon.exp() * 0.5 * libm::erfc(b * FRAC_1_SQRT_2)
    };
    ((first - second).max(0.0) + 32.0 * UNIT + argument_error).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mills_ratio_matches_known_values() {
        // mpmath, 40 digits: sqrt(pi/2)*erfcx(x/sqrt(2)).
        for (x, expected) in [
            (0.0, 1.253_314_137_315_500_3),
            (1.0, 0.655_679_542_418_798_5),
            (5.0, 0.192_808_104_715_315_76),
            (28.0, 0.035_668_904_990_075_764),
            (29.0, 0.034_441_901_929_091_246),
            (100.0, 0.009_999_000_299_850_105),
        ] {
            let error = (mills(x) / expected - 1.0).abs();
            assert!(error < 4e-15, "x = {x}: {} against {expected}", mills(x));
        }
    }

    #[test]
    fn delta_is_continuous_across_its_two_forms() {
        for mu in [0.01, 0.3, 1.0, 4.0] {
            let seam = mu * mu / 2.0;
            let (below, above) = (
                gaussian_delta(mu, seam * (1.0 - 1e-13)),
                gaussian_delta(mu, seam * (1.0 + 1e-13)),
            );
            assert!((below - above).abs() < 1e-12 * (1.0 + mu), "mu = {mu}: {below} {above}");
        }
    }

    #[test]
    fn far_tail_keeps_its_relative_accuracy() {
        // mpmath, 60 digits: Phi(mu/2-eps/mu) - exp(eps)*Phi(-mu/2-eps/mu) at mu = 1, eps = 20.
        let (found, expected) = (gaussian_delta(1.0, 20.0), 2.664_706_705_365_497_7e-86);
        assert!(found >= expected && found < expected * (1.0 + 1e-11), "{found:e}");
    }
}
