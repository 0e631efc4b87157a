//! Zero-concentrated differential privacy: one number ρ per release, `D_a ≤ ρ·a` for every order
//! `a > 1`.
//!
//! The ρ used here are tight: `D_a/a` is largest as `a → 1`, where it is the Kullback–Leibler
//! divergence. For both mechanisms `(a−1)·D_a = F((a − ½)²) − F(¼)` with `F` concave: randomised
//! response has `F(y) = ln cosh(ε√y)`, Laplace `F(y) = ln(cosh(ε√y) + sinh(ε√y)/(2√y))`, an entire
//! function with real negative zeros only (it is the characteristic function of a Sturm–Liouville
//! problem), whose logarithm is a sum of concave terms. `a(a−1) = (a−½)² − ¼`, so `D_a/a` is the
//! slope of a chord of `F` from ¼, which falls with `a`.

use super::AccountingError;
use super::compose::{Bound, Profile};
use super::error::check_delta;
use super::rdp;
use super::round::{SumUp, UNIT};

/// ρ of the Laplace mechanism with l1 sensitivity over scale `epsilon`: `ε + e^{−ε} − 1`, rounded
/// up.
pub fn laplace_rho(epsilon: f64) -> f64 {
    if epsilon == 0.0 {
        return 0.0;
    }
    if epsilon < 0.01 {
        // The series alternates with falling terms: stopping after a positive one bounds it from
        // above.
        let bracket = 1.0
            - epsilon / 3.0 * (1.0 - epsilon / 4.0 * (1.0 - epsilon / 5.0 * (1.0 - epsilon / 6.0)));
        // An ε whose square underflows still costs something.
        return (epsilon * epsilon / 2.0 * bracket * (1.0 + 8.0 * UNIT)).max(f64::MIN_POSITIVE);
    }
    epsilon + (-epsilon).exp_m1() + 4.0 * UNIT * epsilon
}

/// ρ of any `epsilon`-DP mechanism: `ε·tanh(ε/2)`, that of randomised response, rounded up.
pub(crate) fn pure_rho(epsilon: f64) -> f64 {
    let rho = epsilon * (epsilon / 2.0).tanh() * (1.0 + 8.0 * UNIT);
    if epsilon > 0.0 { rho.max(f64::MIN_POSITIVE) } else { 0.0 }
}

/// Σ ρ over all events but the interval ones and sampled Gaussians, rounded up.
pub(crate) fn rho(profile: &Profile) -> f64 {
    let mut total = SumUp::default();
    profile
        .laplace
        .iter()
        .for_each(|&(epsilon, count)| total.add_times(count, laplace_rho(epsilon)));
    profile.pure.iter().for_each(|&(epsilon, count)| total.add_times(count, pure_rho(epsilon)));
    // A sampled Laplace release is pure, and never dearer than one that draws every record.
    for release in &profile.sampled {
        if let Some(pure) = release.pure() {
            total.add_times(release.count, pure_rho(pure).min(laplace_rho(release.shift)));
        }
    }
    total.add(profile.gaussian_mu_squared / 2.0);
    total.add(profile.rho);
    total.value()
}

/// Σ ρ turned into (ε, δ) through the best point of the Rényi curve `a ↦ ρ·a`, which is tighter
/// than the classical `ρ + 2√(ρ ln 1/δ)`.
///
/// # Errors
/// `delta` outside (0, 1).
pub fn epsilon(profile: &Profile, delta: f64) -> Result<Bound, AccountingError> {
    check_delta(delta)?;
    if let Some(refusal) = profile.not_fixed() {
        return Ok(refusal);
    }
    if profile.has_sampled_gaussian() {
        return Ok(Bound::not_valid(
            "zCDP bounds every order at once, and at large ones sampling amplifies no Gaussian",
        ));
    }
    let rho = rho(profile);
    Ok(Bound::rounded_up(epsilon_of_rho(rho, delta)))
}

/// The ε at `delta` of a ρ-zCDP mechanism, before the final slack.
pub fn epsilon_of_rho(rho: f64, delta: f64) -> f64 {
    rdp::minimise(|order| rho * order, rho, delta).epsilon
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laplace_rho_is_continuous_and_above_its_formula() {
        // mpmath: eps + exp(-eps) - 1.
        for (epsilon, exact) in [
            (1e-6, 4.999_998_333_333_75e-13),
            (0.01, 4.983_374_916_805_4e-5),
            (1.0, 0.367_879_441_171_442_33),
        ] {
            let found = laplace_rho(epsilon);
            assert!(
                found >= exact * (1.0 - 1e-14) && found <= exact * (1.0 + 1e-8),
                "{epsilon}: {found:e}"
            );
        }
        let (below, above) = (laplace_rho(0.01 - 1e-15), laplace_rho(0.01 + 1e-15));
        assert!((below - above).abs() < 1e-11 * above);
    }

    #[test]
    fn renyi_divergence_over_order_falls_from_rho() {
        for epsilon in [1e-3, 0.1, 1.0, 5.0, 30.0] {
            for order in [1.001, 1.1, 1.5, 2.0, 5.0, 40.0, 1e4] {
                let slack = 1.0 + 1e-9;
                assert!(rdp::laplace_cost(epsilon, order) <= order * laplace_rho(epsilon) * slack);
                assert!(rdp::pure_cost(epsilon, order) <= order * pure_rho(epsilon) * slack);
                assert!(
                    rdp::laplace_cost(epsilon, order) <= rdp::pure_cost(epsilon, order) * slack
                );
            }
        }
    }
}
