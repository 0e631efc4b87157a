//! Tightened advanced composition, the form in the paper's footnote to Theorem 2.2.

use super::compose::{Bound, Profile};
use super::error::check_delta;
use super::round::SumUp;
use super::{AccountingError, basic};

/// `ε = Σ ε_k·(e^{ε_k} − 1)/(e^{ε_k} + 1) + √(2 ln(1/δ) Σ ε_k²)`, or `Σ ε_k` where that is smaller
/// (Kairouz, Oh and Viswanath 2015, Theorem 3.5). Holds for any ε_k-DP mechanisms with ε_k fixed in
/// advance.
///
/// # Errors
/// `delta` outside (0, 1).
pub fn epsilon(profile: &Profile, delta: f64) -> Result<Bound, AccountingError> {
    check_delta(delta)?;
    if let Some(refusal) = profile.not_fixed().or_else(|| profile.not_pure()) {
        return Ok(refusal);
    }
    let (mut drift, mut squares) = (SumUp::default(), SumUp::default());
    for (epsilon, count) in profile.pure_groups().chain(profile.sampled_pure()) {
        drift.add_times(count, epsilon * (epsilon / 2.0).tanh());
        squares.add_times(count, epsilon * epsilon);
    }
    let concentrated = drift.value() + (-2.0 * delta.ln() * squares.value()).sqrt();
    Ok(Bound::rounded_up(concentrated.min(basic::sum(profile))))
}
