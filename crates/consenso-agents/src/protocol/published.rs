//! Privacy costs as their authors published them.
//!
//! The baselines of docs/paper.md section 3 come with accounts of their own, under their own
//! assumptions: unit rows, a loss of slope at most 1, one record replaced, ideal real-valued noise.
//! A record shows them so that the paper's figures can be drawn and compared; what this software
//! claims is computed elsewhere, from the noise and the sensitivity.

use super::PublicFacts;
use crate::problem::Sensitivity;

/// The noise of a round, as a published formula sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PricedNoise {
    /// Laplace on every coordinate.
    Laplace {
        /// β.
        rate: f64,
    },
    /// Density ∝ e^{−α‖n‖₂}.
    Gamma {
        /// α.
        rate: f64,
    },
    /// Gaussian on every coordinate.
    Gaussian {
        /// σ.
        sigma: f64,
    },
}

/// One agent's round, as a published formula sees it.
#[derive(Clone, Copy, Debug)]
pub struct PricedRound<'a> {
    /// k, from 1.
    pub round: u32,
    /// n_i.
    pub degree: usize,
    /// b_i.
    pub records: usize,
    /// The noise of the round.
    pub noise: PricedNoise,
    /// B_q of the gradient under the experiment's neighbour relation.
    pub gradient: &'a Sensitivity,
    /// Everything else that is public.
    pub facts: &'a PublicFacts,
}

impl PricedRound<'_> {
    /// d·α·β·B_∞: the paper's price of Laplace noise of rate β on a step α·∇f. `None` under
    /// Gaussian noise.
    #[must_use]
    pub fn laplace(&self, factor: f64) -> Option<f64> {
        let PricedNoise::Laplace { rate } = self.noise else { return None };
        Some(self.facts.dim as f64 * factor * rate * self.gradient.linf)
    }
}

/// A published cost of one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PublishedCost {
    /// Pure ε: rounds add up.
    Pure(f64),
    /// ρ-zCDP: rounds add up, and ε = ρ + 2√(ρ·ln(1/δ)) at the end (Bun and Steinke, 2016).
    Zcdp(f64),
}

/// ε after each round, from the published costs of the rounds; empty unless every round has one of
/// the same kind.
pub(crate) fn totals(costs: impl Iterator<Item = Option<PublishedCost>>, delta: f64) -> Vec<f64> {
    let mut totals = Vec::new();
    let (mut pure, mut rho) = (0.0, 0.0);
    for cost in costs {
        match cost {
            Some(PublishedCost::Pure(epsilon)) => pure += epsilon,
            Some(PublishedCost::Zcdp(cost)) => rho += cost,
            None => return Vec::new(),
        }
        totals.push(pure + rho + 2.0 * (rho * libm::log(1.0 / delta)).sqrt());
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pure_costs_add_up_and_concentrated_ones_are_converted_once() {
        let pure = totals([0.5, 0.25].into_iter().map(|e| Some(PublishedCost::Pure(e))), 1e-6);
        assert_eq!(pure, [0.5, 0.75]);
        // ρ = 0.02 at δ = 1e-6: 0.02 + 2·√(0.02·13.8155) = 1.07130.
        let zcdp = totals([0.01, 0.01].into_iter().map(|rho| Some(PublishedCost::Zcdp(rho))), 1e-6);
        assert!((zcdp[1] - 1.071_304_4).abs() < 1e-6, "{}", zcdp[1]);
        assert!(totals([Some(PublishedCost::Pure(1.0)), None].into_iter(), 1e-6).is_empty());
    }
}
