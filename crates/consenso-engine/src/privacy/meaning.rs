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
//! Everything here is that inequality; every figure is rounded up.

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

#[cfg(test)]
mod tests {
    use super::*;

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
