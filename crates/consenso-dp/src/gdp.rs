//! Gaussian differential privacy: Gaussian releases compose exactly, `μ² = Σ μ_k²`.

use super::AccountingError;
use super::compose::{Bound, Profile};
use super::error::{check_delta, check_epsilon};
use super::normal::gaussian_delta;

/// `δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)` of a `mu`-GDP Gaussian mechanism (Balle and Wang
/// 2018), rounded up.
pub fn delta(mu: f64, epsilon: f64) -> f64 {
    gaussian_delta(mu, epsilon)
}

/// The smallest ε with `δ(ε) ≤ delta`, from the safe side. Only for Gaussian (and free) events.
///
/// # Errors
/// `delta` outside (0, 1).
pub fn epsilon(profile: &Profile, delta: f64) -> Result<Bound, AccountingError> {
    check_delta(delta)?;
    if let Some(refusal) = profile.not_fixed() {
        return Ok(refusal);
    }
    if profile.pure_groups().next().is_some() {
        return Ok(Bound::not_valid("Laplace and other pure mechanisms are not Gaussian"));
    }
    if !profile.sampled.is_empty() {
        return Ok(Bound::not_valid("a sampled release is a mixture and not Gaussian"));
    }
    if profile.rho > 0.0 {
        return Ok(Bound::not_valid("a zCDP event declares no trade-off function"));
    }
    Ok(Bound::rounded_up(epsilon_of_mu(profile.gaussian_mu_squared.sqrt().next_up(), delta)))
}

/// The ε at `delta` of a `mu`-GDP mechanism: the upper end of a bracket around it.
pub fn epsilon_of_mu(mu: f64, delta: f64) -> f64 {
    if gaussian_delta(mu, 0.0) <= delta {
        return 0.0;
    }
    // P(L > ε) ≤ δ already at ε = μ²/2 + μ√(2 ln 1/δ), and δ(ε) is below that probability.
    let high = mu * mu / 2.0 + mu * (-2.0 * delta.ln()).sqrt();
    bisect(0.0, high * 1.001, |epsilon| gaussian_delta(mu, epsilon) <= delta)
}

/// The largest μ that keeps δ(`epsilon`) within `delta`: the lower end of a bracket around it.
///
/// # Errors
/// `epsilon` not positive and finite, `delta` outside (0, 1).
pub fn mu_for(epsilon: f64, delta: f64) -> Result<f64, AccountingError> {
    check_epsilon(epsilon)?;
    check_delta(delta)?;
    let mut high = 1.0;
    while gaussian_delta(high, epsilon) <= delta && high < 1e150 {
        high *= 4.0;
    }
    let mut low = high;
    while gaussian_delta(low, epsilon) > delta && low > f64::MIN_POSITIVE {
        low /= 4.0;
    }
    if gaussian_delta(low, epsilon) > delta {
        return Err(AccountingError::Unreachable {
            epsilon,
            delta,
            reason: "δ is below what floats resolve",
        });
    }
    // Searching over the inverse keeps the accepted end on the safe side, which is the smaller μ.
    Ok(1.0
        / bisect(1.0 / high, 1.0 / low, |inverse| gaussian_delta(1.0 / inverse, epsilon) <= delta)
            .next_up())
}

/// The upper end of a bracket around the point where `accept` turns true, narrowed to a relative
/// 1e-15.
fn bisect(mut low: f64, mut high: f64, accept: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if high - low <= 1e-15 * high || middle <= low || middle >= high {
            break;
        }
        if accept(middle) { high = middle } else { low = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epsilon_and_delta_are_inverse() {
        for mu in [1e-4, 0.02, 0.7, 3.0, 40.0] {
            for target in [1e-12, 1e-6, 1e-2] {
                let epsilon = epsilon_of_mu(mu, target);
                assert!(delta(mu, epsilon) <= target, "the returned end is the safe one");
                if epsilon > 0.0 {
                    let below = delta(mu, epsilon * (1.0 - 1e-9));
                    assert!(
                        below > target * (1.0 - 1e-6),
                        "mu {mu} delta {target}: {epsilon} is not tight"
                    );
                }
            }
        }
    }

    #[test]
    fn the_calibrated_mu_spends_the_budget_and_no_more() {
        for (epsilon, target) in [(1.0, 1e-6), (0.1, 1e-5), (8.0, 1e-10), (1e-3, 1e-9)] {
            let mu = mu_for(epsilon, target).unwrap();
            assert!(delta(mu, epsilon) <= target);
            assert!(delta(mu * (1.0 + 1e-9), epsilon) > target);
        }
    }
}
