//! What an account's releases add to the studies of the same records.

use super::NoiseSchedule;
use crate::gate::{Ledger, Noise, RoundNoise};
use consenso_dp::studies::StudyCost;
use consenso_dp::{Claim, Sensitivity, zcdp};

impl NoiseSchedule {
    /// What the account's releases cost, in every way that is known, under the claim made for them.
    #[must_use]
    pub fn cost(&self, claim: &Claim) -> StudyCost {
        let claimed = StudyCost::claimed(claim.epsilon, claim.delta);
        let plan = match &self.ledger {
            Ledger::Schedule { plan, .. } => plan,
            // Σ μ² alone decides: whatever is released, it stays within its limit.
            Ledger::Filter { filter, .. } if filter.orders().is_empty() => {
                let limit = filter.gaussian().map(|g| g.limit().sqrt().next_up());
                return limit
                    .map_or(claimed, |mu| StudyCost::gaussian(claim.epsilon, claim.delta, mu));
            }
            _ => return claimed,
        };
        // Noise inside a problem, and releases that some records are in, are (ε, δ) and nothing
        // simpler.
        if plan.is_inside() || plan.is_sampled() || self.noise.is_empty() {
            return claimed;
        }
        let own = || self.noise.iter().map(RoundNoise::noise).collect();
        let noise: Vec<Noise> =
            if self.hidden_by.is_empty() { own() } else { self.hidden_by.to_vec() };
        let rounds = || self.steps.iter().zip(noise.iter().copied()).take(plan.allowed() as usize);
        let ratio = |a: f64, b: f64| if a == 0.0 { 0.0 } else { (a / b).next_up() };
        let up = |total: f64| total * (1.0 + f64::EPSILON * (self.steps.len() + 4) as f64);
        if rounds().all(|(_, n)| matches!(n, Noise::Gaussian { .. })) {
            let squares: f64 =
                rounds().map(|(s, n)| ratio(s.l2, n.scale()).powi(2).next_up()).sum();
            let mu = up(squares).sqrt().next_up();
            return StudyCost::gaussian(claim.epsilon, claim.delta, mu).within(self.distance);
        }
        if rounds().all(|(_, n)| matches!(n, Noise::Laplace { .. })) {
            // D_a of a Laplace shift v is at most a·v²/2, so that ½‖t‖₂²/b² is a ρ too.
            let one = |(s, n): (&Sensitivity, Noise)| {
                let (l1, l2) = (ratio(s.l1, n.scale()), ratio(s.l2, n.scale()));
                zcdp::laplace_rho(l1).min((0.5 * l2 * l2).next_up())
            };
            return StudyCost::concentrated(
                claim.epsilon,
                claim.delta,
                up(rounds().map(one).sum()),
            );
        }
        claimed
    }
}
