//! Kairouz–Oh–Viswanath optimal composition of ε-DP mechanisms.
//!
//! Every ε-DP mechanism is post-processing of randomised response, so the composition of randomised
//! responses is both reachable and worst. With all ε equal its δ(ε) is a binomial sum, evaluated
//! here exactly up to charged rounding (Theorem 3.3 of Kairouz, Oh and Viswanath 2015). With
//! different ε the exact value is #P-hard (Murtagh and Vadhan 2016); the loss of each randomised
//! response is then rounded up to a fine grid by connect-the-dots and the grid distributions are
//! composed, which gives an upper bound that the grid makes as tight as wanted (see [`pld`]).

use super::compose::{Bound, Profile};
use super::error::check_delta;
use super::round::UNIT;
use super::{AccountingError, basic, pld};

/// The optimal ε at `delta` for mechanisms of which only ε_k is known; Laplace events count as
/// such.
///
/// # Errors
/// `delta` outside (0, 1).
pub fn epsilon(profile: &Profile, delta: f64) -> Result<Bound, AccountingError> {
    check_delta(delta)?;
    if let Some(refusal) = profile.not_fixed().or_else(|| profile.not_pure()) {
        return Ok(refusal);
    }
    let responses = profile.as_randomised_responses();
    let sum = basic::sum(&responses);
    let bound = match responses.pure.as_slice() {
        [] => 0.0,
        [(epsilon, count)] if *count <= EXACT_LIMIT => homogeneous(*epsilon, *count, delta),
        _ => return pld::epsilon(&responses, delta),
    };
    Ok(Bound::rounded_up(bound.min(sum)))
}

/// Beyond this many releases the binomial sum's rounding allowance would show; the grid takes over.
const EXACT_LIMIT: u64 = 1 << 22;

/// `δ(ε) = Σ_l C(k,l) p^{k−l} (1−p)^l (1 − e^{ε − (k−2l)ε₀})₊` with `p = e^{ε₀}/(1 + e^{ε₀})`,
/// solved for ε.
///
/// Between two neighbouring losses δ is linear in `e^ε`, so the solution has a closed form once the
/// cell is known.
fn homogeneous(epsilon: f64, count: u64, delta: f64) -> f64 {
    let masses = binomial_from_mode(epsilon, count);
    // Every mass is a product of at most `count` ratios, each with a relative error below 4 units
    // of rounding.
    let cell = Cell {
        error: 16.0 * UNIT * (count as f64 + 64.0),
        delta: delta - UNDERFLOW * count as f64,
    };
    let loss = |l: u64| (count as f64 - 2.0 * l as f64) * epsilon;
    let step = (-2.0 * epsilon).exp();
    // From the largest loss down: S₀ = Σ mass, S₁ = Σ mass·e^{here − loss}, so that δ(ε) = S₀ −
    // e^{ε − here}·S₁.
    let (mut mass_sum, mut weighted, mut here) = (0.0, 0.0, loss(masses.first));
    for (offset, mass) in masses.values.iter().enumerate() {
        let next = loss(masses.first + offset as u64);
        if next <= 0.0 {
            break;
        }
        let weighted_next = if offset == 0 { 0.0 } else { weighted * step };
        if cell.delta_above(mass_sum, weighted_next) > cell.delta {
            return cell.solve(mass_sum, weighted, here);
        }
        (mass_sum, weighted, here) = (mass_sum + mass, weighted_next + mass, next);
    }
    if cell.delta_above(mass_sum, weighted * (-here).exp()) <= cell.delta {
        return 0.0;
    }
    cell.solve(mass_sum, weighted, here)
}

/// The bound δ(ε) ≤ (1 + error)·S₀ − (1 − error)·S₁·e^{ε − here}, and the δ it must meet.
struct Cell {
    error: f64,
    delta: f64,
}

impl Cell {
    fn delta_above(&self, mass: f64, weighted: f64) -> f64 {
        mass - weighted + self.error * (mass + weighted)
    }

    /// The ε in the cell below `here` that meets δ, rounded up and not below 0.
    fn solve(&self, mass: f64, weighted: f64, here: f64) -> f64 {
        let excess = mass * (1.0 + self.error) - self.delta;
        if excess <= 0.0 || weighted == 0.0 {
            return here.max(0.0);
        }
        let rounding = 16.0 * UNIT * (1.0 + here.abs() + mass / excess);
        (here + (excess / (weighted * (1.0 - self.error))).ln() + rounding)
            .clamp(0.0, here.max(0.0))
    }
}

/// Masses below this, relative to the largest, are left out and charged instead.
const UNDERFLOW: f64 = 1e-300;

/// Probabilities of `l` wrong answers out of `count`, from `first` on.
struct Masses {
    first: u64,
    values: Vec<f64>,
}

/// The binomial masses around the mode, by their ratios and then normalised: no factorial, no
/// cancellation.
fn binomial_from_mode(epsilon: f64, count: u64) -> Masses {
    let odds = (-epsilon).exp();
    let mode = ((count as f64 + 1.0) * odds / (1.0 + odds)).min(count as f64) as u64;
    let ratio_up = |l: u64| (count - l) as f64 / (l + 1) as f64 * odds;
    let mut values = vec![1.0];
    let mut mass = 1.0;
    for l in (0..mode).rev() {
        mass /= ratio_up(l);
        if mass < UNDERFLOW {
            break;
        }
        values.push(mass);
    }
    let first = mode + 1 - values.len() as u64;
    values.reverse();
    mass = 1.0;
    for l in mode..count {
        mass *= ratio_up(l);
        if mass < UNDERFLOW {
            break;
        }
        values.push(mass);
    }
    let total: f64 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= total);
    Masses { first, values }
}
