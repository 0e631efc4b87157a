//! What an (ε, δ) means for one person: odds, and what a membership attacker can reach.
//!
//! An (ε, δ) claim says that for any two neighbouring data sets and any set S of transcripts, P(S)
//! ≤ e^ε·P′(S) + δ, in both directions. Read as a test of "this person's record is in the data"
//! against "it is not" (or: it is another one), with false alarm rate α and detection rate τ, both
//! directions together are (Wasserman and Zhou 2010; Kairouz, Oh and Viswanath 2015)
//!
//! ```text
//! τ ≤ min(1, e^ε·α + δ, 1 − e^{−ε}·(1 − δ − α)).
//! ```
//!
//! [`Meaning`] is that inequality, for a mechanism of which nothing else is known. δ is *not* the
//! chance that odds grow beyond e^ε: with L the privacy loss, δ = E[(1 − e^{ε−L})₊] at most, which
//! bounds P(L > ε + t) ≤ δ/(1 − e^{−t}) for t > 0 and says nothing at t = 0.
//!
//! [`GaussianMeaning`] is exact for Gaussian noise that was calibrated to the claim, by its
//! trade-off curve (Dong, Roth and Su 2022): L is normal with mean μ²/2 and variance μ², so that
//! P(L > ε) = Φ(μ/2 − ε/μ), and the best attacker reaches τ(α) = Φ(Φ⁻¹(α) + μ).
//!
//! Every figure is rounded up.

use super::gdp;
use super::round::up;
use serde::Serialize;

/// What a claim of (ε, δ) allows an attacker to learn about one record.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Meaning {
    /// ε of the claim.
    pub epsilon: f64,
    /// δ of the claim.
    pub delta: f64,
    /// e^ε: the factor by which the odds of any guess can grow, where δ is left aside.
    pub odds: f64,
    /// The largest chance to tell two equally likely neighbouring data sets apart: (e^ε + δ)/(1 +
    /// e^ε). A coin has ½.
    pub right_guess: f64,
}

impl Meaning {
    /// The meaning of a claim; `None` unless ε ≥ 0 is finite and δ is in [0, 1).
    pub fn of(epsilon: f64, delta: f64) -> Option<Self> {
        if !(epsilon.is_finite() && epsilon >= 0.0 && (0.0..1.0).contains(&delta)) {
            return None;
        }
        // 1/(1 + e^-ε) instead of e^ε/(1 + e^ε): no ∞/∞ where ε is large.
        let shrunk = libm::exp(-epsilon);
        let right_guess = up((1.0 + delta * shrunk) / (1.0 + shrunk)).min(1.0);
        Some(Self { epsilon, delta, odds: up(libm::exp(epsilon)), right_guess })
    }

    /// The largest share of members that an attacker detects who accuses at most the share
    /// `false_alarms` of non-members wrongly.
    pub fn detection(&self, false_alarms: f64) -> f64 {
        let alpha = false_alarms.clamp(0.0, 1.0);
        // An infinite factor of nothing is nothing.
        let by_odds = if alpha > 0.0 { self.odds * alpha + self.delta } else { self.delta };
        // What the subtraction may lose, added.
        let by_complement =
            1.0 - libm::exp(-self.epsilon) * (1.0 - self.delta - alpha) + 4.0 * f64::EPSILON;
        let least = by_odds.min(by_complement);
        if least == 0.0 { 0.0 } else { up(least).min(1.0) }
    }

    /// The largest chance that odds grow by more than `factor`·e^ε, for any mechanism with this
    /// claim: δ/(1 − 1/`factor`). 1 where `factor` is not above 1: the claim says nothing there.
    pub fn beyond(&self, factor: f64) -> f64 {
        if factor > 1.0 { up(self.delta / (1.0 - 1.0 / factor)).min(1.0) } else { 1.0 }
    }

    /// The claim read as that of Gaussian noise calibrated to it; `None` where no Gaussian noise
    /// has this claim (δ = 0, or ε = 0).
    pub fn gaussian(&self) -> Option<GaussianMeaning> {
        let mu = gdp::mu_for(self.epsilon, self.delta).ok()?;
        // `mu_for` ends at most a relative 1e-9 below the μ that spends the claim; here the larger
        // end is the safe one.
        let mu = up(mu * (1.0 + 1e-9));
        let a = self.epsilon / mu - mu / 2.0;
        Some(GaussianMeaning {
            mu,
            beyond: up(0.5 * libm::erfc(a * std::f64::consts::FRAC_1_SQRT_2)).min(1.0),
            right_guess: up(0.5 + 0.5 * gdp::delta(mu, 0.0)).min(1.0),
        })
    }

    /// How sure an attacker may become of a statement about one record that they held for true with
    /// probability `before`, where δ is left aside: odds grow by e^ε at most.
    pub fn belief(&self, before: f64) -> f64 {
        let before = before.clamp(0.0, 1.0);
        let against = (1.0 - before) * libm::exp(-self.epsilon);
        if before == 0.0 { 0.0 } else { up(before / (before + against)).min(1.0) }
    }

    /// The claim about `records` records of one person together: (kε, δ·(1 + e^ε + … +
    /// e^{(k−1)ε})).
    ///
    /// `None` where that δ is no longer below 1.
    pub fn group(&self, records: u32) -> Option<Self> {
        let mut delta = 0.0;
        for k in 0..records {
            if self.delta > 0.0 {
                delta = up(delta + self.delta * libm::exp(f64::from(k) * self.epsilon));
            }
            if delta >= 1.0 {
                return None;
            }
        }
        Self::of(up(f64::from(records) * self.epsilon), delta)
    }
}

/// What Gaussian noise, calibrated to a claim, allows an attacker: exactly, and much less than the
/// claim alone does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GaussianMeaning {
    /// The mechanism's μ: how far apart, in standard deviations, two neighbouring data sets put
    /// what is released.
    pub mu: f64,
    /// The chance that the odds of a guess grow beyond e^ε: above δ, often by far.
    pub beyond: f64,
    /// The largest chance to tell two equally likely neighbouring data sets apart: Φ(μ/2).
    pub right_guess: f64,
}

impl GaussianMeaning {
    /// The largest share of members that an attacker detects who accuses at most the share
    /// `false_alarms` of non-members wrongly: Φ(Φ⁻¹(α) + μ).
    ///
    /// Computed as the least of e^x·α + δ(x) over x: every one of these is an upper bound, so that
    /// the search need not be exact to be safe.
    pub fn detection(&self, false_alarms: f64) -> f64 {
        let alpha = false_alarms.clamp(0.0, 1.0);
        if alpha == 0.0 {
            return 0.0;
        }
        let bound = |x: f64| libm::exp(x) * alpha + gdp::delta(self.mu, x);
        // The least lies where the loss has the threshold of a test with false alarms α, within
        // nine deviations of its mean; the bound is convex in e^x, hence has one valley.
        let reach = self.mu * (self.mu + 9.0);
        let (mut low, mut high) = (-reach, reach);
        for _ in 0..100 {
            let third = (high - low) / 3.0;
            if bound(low + third) <= bound(high - third) { high -= third } else { low += third }
        }
        up(bound(0.5 * (low + high)).min(bound(0.0))).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chance that odds pass e^ε, by mpmath: 20 times δ at ε = 1, 149 times at ε = 0.1.
    #[test]
    fn odds_pass_their_factor_more_often_than_delta_under_gaussian_noise() {
        for (epsilon, times) in [(1.0, 20.0), (0.1, 149.0)] {
            let claim = Meaning::of(epsilon, 1e-6).expect("valid");
            let gaussian = claim.gaussian().expect("δ > 0");
            let ratio = gaussian.beyond / 1e-6;
            assert!((ratio / times - 1.0).abs() < 0.02, "ε = {epsilon}: {ratio} times δ");
            // What any mechanism promises is weaker and still holds for this one.
            let twice = epsilon + 2f64.ln();
            let a = twice / gaussian.mu - gaussian.mu / 2.0;
            assert!(0.5 * libm::erfc(a / 2f64.sqrt()) <= claim.beyond(2.0));
        }
    }

    /// Against a test that shares no formula with the bound: the likelihood-ratio test of N(0, 1)
    /// against N(μ, 1) at a threshold t has false alarms Φ(−t) and detects Φ(μ − t).
    #[test]
    fn the_best_attacker_on_gaussian_noise_is_the_likelihood_ratio_test() {
        let phi = |x: f64| 0.5 * libm::erfc(-x / 2f64.sqrt());
        for (epsilon, delta) in [(0.1, 1e-6), (1.0, 1e-6), (3.0, 1e-3), (8.0, 1e-5)] {
            let gaussian = Meaning::of(epsilon, delta).and_then(|m| m.gaussian()).expect("valid");
            assert!((gaussian.right_guess - phi(gaussian.mu / 2.0)).abs() < 1e-9);
            for threshold in [-2.0, 0.0, 1.0, 2.5, 4.0] {
                let found = gaussian.detection(phi(-threshold));
                let exact = phi(gaussian.mu - threshold);
                assert!(found >= exact * (1.0 - 1e-12), "{found} below {exact}");
                assert!(found <= exact * (1.0 + 1e-6) + 1e-12, "{found} far above {exact}");
            }
        }
    }

    /// Randomised response with flip probability 1/(1 + e^ε) meets every pure bound with equality.
    #[test]
    fn randomised_response_reaches_the_bounds() {
        for epsilon in [0.0, 0.1, 1.0, 3.0] {
            let meaning = Meaning::of(epsilon, 0.0).expect("valid");
            let honest = epsilon.exp() / (1.0 + epsilon.exp());
            assert!((meaning.right_guess - honest).abs() < 1e-9 && meaning.right_guess >= honest);
            assert!((meaning.detection(1.0 - honest) - honest).abs() < 1e-9);
            assert!((meaning.belief(0.5) - honest).abs() < 1e-9);
        }
    }

    #[test]
    fn a_claim_that_allows_everything_says_so_and_none_is_invented() {
        let all = Meaning::of(800.0, 0.0).expect("valid");
        assert!(all.right_guess == 1.0 && all.detection(0.0) == 0.0 && all.detection(1e-3) == 1.0);
        assert!(
            Meaning::of(1.0, 0.5).expect("valid").detection(0.0) >= 0.5,
            "δ is a chance to see the record"
        );
        assert!(Meaning::of(f64::NAN, 0.0).is_none() && Meaning::of(1.0, 1.0).is_none());
        assert!(Meaning::of(-0.1, 0.0).is_none() && Meaning::of(f64::INFINITY, 0.0).is_none());
    }

    #[test]
    fn groups_cost_more_and_too_large_ones_have_no_claim() {
        let one = Meaning::of(1.0, 1e-6).expect("valid");
        let three = one.group(3).expect("small");
        assert!(three.epsilon >= 3.0 && three.epsilon < 3.0001);
        let sum = 1e-6 * (1.0 + 1f64.exp() + 2f64.exp());
        assert!(three.delta >= sum && three.delta < sum * 1.0001);
        assert!(one.group(20).is_none());
    }
}
