//! Rényi differential privacy: costs add up at every order, and any order converts to (ε, δ).

use super::AccountingError;
use super::basic;
use super::compose::{Bound, Profile};
use super::error::check_delta;
use super::round::UNIT;
use super::sampled::Moments;
use super::zcdp;
use rayon::prelude::*;

/// Rényi divergence of order `order` between Laplace distributions `epsilon` scales apart, rounded
/// up: `D_a = ε + ln(1 + (a−1)(e^{ε(1−2a)} − 1)/(2a−1))/(a−1)`.
///
/// For small ε the terms cancel; then the valid bounds `a·ε²/2` (zCDP) and ε are better than the
/// rounding allowance.
pub(crate) fn laplace_cost(epsilon: f64, order: f64) -> f64 {
    let excess = order - 1.0;
    let inner = excess / (2.0 * order - 1.0) * (-epsilon * (2.0 * order - 1.0)).exp_m1();
    // ln_1p magnifies the relative error of 1 + inner, which stays above ½.
    let formula =
        epsilon + inner.ln_1p() / excess + UNIT * (8.0 * epsilon + 8.0 * inner.abs() / excess);
    formula.min(order * epsilon * epsilon / 2.0 * (1.0 + 8.0 * UNIT)).min(epsilon)
}

/// Rényi divergence of order `order` of randomised response, which bounds every `epsilon`-DP
/// mechanism, rounded up: `D_a = (ln cosh((a − ½)ε) − ln cosh(ε/2))/(a−1)`.
pub(crate) fn pure_cost(epsilon: f64, order: f64) -> f64 {
    let (far, near) = (ln_cosh((order - 0.5) * epsilon), ln_cosh(epsilon / 2.0));
    let formula = (far - near + 16.0 * UNIT * (far + near)) / (order - 1.0);
    formula.min(order * zcdp::pure_rho(epsilon)).min(epsilon)
}

/// `ln cosh x` for `x ≥ 0` to a few units of rounding, also where it is tiny or `cosh` overflows.
fn ln_cosh(x: f64) -> f64 {
    if x < 1.0 {
        let half = (x / 2.0).sinh();
        return (2.0 * half * half).ln_1p();
    }
    x + (-2.0 * x).exp().ln_1p() - std::f64::consts::LN_2
}

/// Σ of the costs of all events but the interval ones at `order`, rounded up to a relative 1e-13.
pub fn cost(profile: &Profile, order: f64) -> f64 {
    cost_with(profile, &moments(profile), order)
}

/// What the costs of the sampled releases are computed from, at any order.
pub(crate) fn moments(profile: &Profile) -> Vec<Moments> {
    profile.sampled.par_iter().map(Moments::new).collect()
}

fn cost_with(profile: &Profile, moments: &[Moments], order: f64) -> f64 {
    let laplace: f64 =
        profile.laplace.iter().map(|&(e, count)| count as f64 * laplace_cost(e, order)).sum();
    let pure: f64 = profile.pure.iter().map(|&(e, count)| count as f64 * pure_cost(e, order)).sum();
    let sampled: f64 =
        profile.sampled.iter().zip(moments).map(|(s, m)| s.count as f64 * m.cost(order)).sum();
    let terms = (profile.laplace.len() + profile.pure.len() + moments.len() + 8) as f64;
    let total =
        laplace + pure + sampled + order * (profile.gaussian_mu_squared / 2.0 + profile.rho);
    total * (1.0 + terms * UNIT * 2.0)
}

/// `ε = ρ(a) + ln(1 − 1/a) − ln(δa)/(a−1)`: (a, ρ(a))-RDP implies (ε, δ)-DP (Canonne, Kamath and
/// Steinke 2020, Proposition 12). Never below 0.
pub fn convert(cost: f64, order: f64, delta: f64) -> f64 {
    (cost - order_allowance(order, delta)).max(0.0)
}

/// What an order leaves for costs beyond ε: `(ln(δa))/(a−1) − ln(1 − 1/a)`, rounded down. Usually
/// negative.
pub(crate) fn order_allowance(order: f64, delta: f64) -> f64 {
    let excess = order - 1.0;
    let (first, second) = ((delta.ln() + order.ln()) / excess, (-1.0 / order).ln_1p());
    first - second - 8.0 * UNIT * ((delta.ln().abs() + order.ln()) / excess + second.abs())
}

/// The order that converts best, and the ε it gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Optimum {
    /// The order.
    pub order: f64,
    /// ε at that order.
    pub epsilon: f64,
}

/// Minimises the conversion of `curve(order)` over continuous orders. Every order gives a valid
/// bound, so the search may stop anywhere; it starts at the optimum of the concentrated curve
/// `rho·a` and ends by golden section in `ln(a − 1)`.
pub(crate) fn minimise(curve: impl Fn(f64) -> f64, rho: f64, delta: f64) -> Optimum {
    const STEP: f64 = 0.5;
    if rho == 0.0 {
        return Optimum { order: 2.0, epsilon: 0.0 };
    }
    // ln(a − 1) stays within what keeps a above 1 in floats and its powers finite.
    let (lowest, highest) = (-18.0, 40.0);
    let value = |x: f64| convert(curve(1.0 + x.exp()), 1.0 + x.exp(), delta);
    let start = (0.5 * (-delta.ln() / rho).ln()).clamp(lowest, highest);
    descend(value, start, STEP, lowest..=highest)
}

/// Walks from `start` in steps until the value grows, then narrows it down.
fn descend(
    value: impl Fn(f64) -> f64,
    start: f64,
    step: f64,
    range: std::ops::RangeInclusive<f64>,
) -> Optimum {
    let mut best = (start, value(start));
    for direction in [step, -step] {
        loop {
            let x = best.0 + direction;
            let found = if range.contains(&x) { value(x) } else { f64::INFINITY };
            if found >= best.1 {
                break;
            }
            best = (x, found);
        }
    }
    let (mut low, mut high) = (best.0 - step, best.0 + step);
    let ratio = 0.5 * (5f64.sqrt() - 1.0);
    let (mut left, mut right) = (high - ratio * (high - low), low + ratio * (high - low));
    let (mut at_left, mut at_right) = (value(left), value(right));
    while high - low > 1e-4 {
        if at_left < at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - ratio * (high - low);
            at_left = value(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + ratio * (high - low);
            at_right = value(right);
        }
    }
    for candidate in [(left, at_left), (right, at_right)] {
        if candidate.1 < best.1 {
            best = candidate;
        }
    }
    Optimum { order: 1.0 + best.0.exp(), epsilon: best.1 }
}

/// The best order for a profile's costs; `moments` are those of its sampled releases.
pub(crate) fn optimum(profile: &Profile, moments: &[Moments], delta: f64) -> Optimum {
    let curve = |order: f64| cost_with(profile, moments, order);
    if moments.is_empty() {
        return minimise(curve, zcdp::rho(profile), delta);
    }
    // Costs of sampled releases turn steep at some order: a look at all of them finds the valley.
    let value = |x: f64| convert(curve(1.0 + x.exp()), 1.0 + x.exp(), delta);
    let orders = (-8..=32).map(|k| 0.5 * f64::from(k));
    let best = |best: (f64, f64), x: f64| {
        let found = value(x);
        if found < best.1 { (x, found) } else { best }
    };
    let (start, _) = orders.fold((0.0, f64::INFINITY), best);
    descend(value, start, 0.25, -18.0..=40.0)
}

/// Σ Rényi costs, converted at the best order; capped by the pure sum where there is one.
///
/// # Errors
/// `delta` outside (0, 1).
pub fn epsilon(profile: &Profile, delta: f64) -> Result<Bound, AccountingError> {
    check_delta(delta)?;
    if let Some(refusal) = profile.not_fixed() {
        return Ok(refusal);
    }
    let mut epsilon = optimum(profile, &moments(profile), delta).epsilon;
    if profile.not_pure().is_none() {
        // D_a ≤ Σε at every order, so the order at infinity gives the plain sum.
        epsilon = epsilon.min(basic::sum(profile));
    }
    Ok(Bound::rounded_up(epsilon))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `∫ p^a q^{1−a}` by the midpoint rule, for a check that shares nothing with the closed form.
    fn laplace_by_quadrature(epsilon: f64, order: f64) -> f64 {
        let (low, high, cells) = (-60.0, 60.0 + epsilon, 1_000_000);
        let width = (high - low) / f64::from(cells);
        let sum: f64 = (0..cells)
            .map(|i| {
                let x = low + (f64::from(i) + 0.5) * width;
                0.5 * (-order * x.abs() - (1.0 - order) * (x - epsilon).abs()).exp()
            })
            .sum();
        (sum * width).ln() / (order - 1.0)
    }

    #[test]
    fn laplace_closed_form_is_the_integral() {
        for (epsilon, order) in [(0.1, 2.0), (1.0, 1.5), (1.0, 8.0), (3.0, 4.0)] {
            let (closed, integral) =
                (laplace_cost(epsilon, order), laplace_by_quadrature(epsilon, order));
            assert!((closed - integral).abs() < 1e-7, "{epsilon} {order}: {closed} {integral}");
        }
    }

    #[test]
    fn randomised_response_closed_form_is_the_sum() {
        for (epsilon, order) in [(0.1f64, 2.0f64), (1.0, 1.5), (2.0, 8.0)] {
            let (p, q) = (epsilon.exp() / (1.0 + epsilon.exp()), 1.0 / (1.0 + epsilon.exp()));
            let sum = p.powf(order) * q.powf(1.0 - order) + q.powf(order) * p.powf(1.0 - order);
            let expected = sum.ln() / (order - 1.0);
            assert!((pure_cost(epsilon, order) / expected - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn costs_stay_above_the_truth_where_terms_cancel() {
        // mpmath, 50 digits.
        for (epsilon, order, exact) in
            [(1e-7, 2.0, 9.999_999_666_666_64e-15), (1e-3, 10.0, 4.998_258_811_686_956e-6)]
        {
            let found = laplace_cost(epsilon, order);
            assert!(
                found >= exact && found < exact * (1.0 + 1e-6),
                "{epsilon} {order}: {found:e} {exact:e}"
            );
        }
    }
}
