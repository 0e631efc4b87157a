//! PP: penalty perturbation (Zhang, Khalili and Liu, 2018).

use super::admm::{ascend, default_exact_rounds, half_way, solve_at};
use super::dvp::published_volume;
use super::parameters::positive;
use super::{
    Configured, Memory, Parameters, Parts, Priced, PricedNoise, PricedRound, Protocol, PublicFacts,
    PublishedCost, Response, Schedule, View, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{Constraint, LocalObjective, Sensitivity, Workspace};
use serde::{Deserialize, Serialize};

/// The x with ∇f_i(x) + D x = η_k n_i x_i + η_k Σ_j x_j + λ_i − D ε_i, D = 2η_k n_i; λ_i⁺ = λ_i + θ
/// Σ_j (x_j⁺ − x_i⁺).
///
/// The penalty η_k grows, which makes later rounds cheaper. The noise ε_i stands in the penalty,
/// that is in the centre of the local problem: the gate draws it first. Its authors' noise has
/// density ∝ e^{−α‖ε‖₂} (`noise = { gamma_rate = … }`); the paper compares with independent Laplace
/// coordinates. Both are symmetric, so their sign does not matter.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PenaltyPerturbation {
    /// η_k, not decreasing.
    pub penalty: Option<Schedule>,
    /// θ: dual step, at most η_1 in the authors' analysis.
    pub dual_step: Option<f64>,
}

/// c₁ of the logistic loss: its second derivative is at most a quarter.
const LOGISTIC_CURVATURE: f64 = 0.25;

impl PenaltyPerturbation {
    fn eta(&self, round: u32) -> f64 {
        self.penalty.as_ref().map_or(f64::NAN, |penalty| penalty.at(round))
    }

    fn dual_step(&self) -> f64 {
        self.dual_step.unwrap_or(f64::NAN)
    }

    /// D = 2η_k n_i.
    fn weight(&self, round: u32, degree: usize) -> f64 {
        2.0 * self.eta(round) * degree as f64
    }
}

impl Protocol for PenaltyPerturbation {
    fn kind(&self) -> &'static str {
        "pp"
    }

    fn parts(&self) -> Parts<'_> {
        Parts { configured: Some(self), priced: Some(self), ..Parts::default() }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn memory(&self) -> usize {
        1
    }

    fn response(&self, round: u32, degree: usize) -> Response {
        Response::AtNoisedPoint { weight: self.weight(round, degree) }
    }

    fn step_sensitivity(
        &self,
        round: u32,
        degree: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        gradient.scaled(1.0 / self.weight(round, degree))
    }

    fn interval(&self, view: &View<'_>, dual: &[f64], low: &mut [f64], high: &mut [f64]) {
        half_way(view, dual, self.weight(view.round() + 1, view.degree()), low);
        high.copy_from_slice(low);
    }

    /// Over all of R^d: the account needs every release to have its noise. The gate moves it into
    /// the constraint set.
    fn step(
        &self,
        view: &View<'_>,
        _: Memory<'_>,
        point: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        solve_at(
            view,
            point,
            self.weight(view.round() + 1, view.degree()),
            &Constraint::None,
            local,
            work,
            step,
        );
    }

    fn absorb(&self, view: &View<'_>, dual: &mut [f64]) {
        ascend(view, dual, self.dual_step());
    }
}

impl Configured for PenaltyPerturbation {
    fn default_rounds(&self, facts: &PublicFacts) -> u32 {
        let mean_degree = 0.5 * (facts.degrees.0 + facts.degrees.1) as f64;
        let weight = self.penalty.is_some().then(|| 2.0 * self.eta(1) * mean_degree);
        default_exact_rounds(weight, facts)
    }

    /// D starts at 2M as for the other methods, for an agent of mean degree, and doubles over the
    /// run; θ is as small against D as theirs.
    fn resolve(&mut self, facts: &PublicFacts) {
        let mean_degree = 0.5 * (facts.degrees.0 + facts.degrees.1) as f64;
        let ratio = libm::pow(2.0, 1.0 / f64::from(facts.rounds.max(1)));
        self.penalty
            .get_or_insert_with(|| Schedule::geometric(facts.smoothness / mean_degree, ratio));
        let weight = self.weight(1, facts.degrees.0);
        self.dual_step.get_or_insert(0.1 * weight / facts.laplacian_max);
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        if let Some(problem) =
            self.penalty.as_ref().and_then(|penalty| penalty.problem(facts.rounds))
        {
            return Err(ConfigError::at("penalty", format!("penalty: {problem}")));
        }
        let falls = |k: &u32| self.eta(k + 1) < self.eta(*k) * (1.0 - 1e-12);
        if let Some(k) = (1..facts.rounds).find(falls) {
            let message = format!("penalty must not decrease, as it does after round {k}");
            return Err(ConfigError::at("penalty", message));
        }
        let theta = self.dual_step();
        positive("dual_step", theta)?;
        let first = self.eta(1);
        Ok((theta > first).then(|| {
            format!("convergence is proved for dual_step ≤ penalty; {theta:.3} is above its first value {first:.3}")
        }))
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Priced for PenaltyPerturbation {
    /// The authors' own account for their noise; for Laplace coordinates the form the paper
    /// compares with.
    fn published_cost(&self, priced: &PricedRound<'_>) -> Option<PublishedCost> {
        let weight = self.weight(priced.round, priced.degree);
        let epsilon = match priced.noise {
            PricedNoise::Gamma { rate: alpha } => {
                (2.8 * LOGISTIC_CURVATURE + 2.0 * alpha) / (weight * priced.records as f64)
            }
            _ => priced.laplace(1.0 / weight)? + published_volume(weight, priced.records),
        };
        Some(PublishedCost::Pure(epsilon))
    }

    fn published_formula(&self) -> &'static str {
        "Σ (2.8c₁ + 2α_k)/(D·b_i), c₁ = ¼, for noise of density e^(−α‖ε‖₂) (Zhang, Khalili and Liu, 2018); \
         Σ d·β_k·B_∞/D + 2.8/(D·b_i) for Laplace noise, as the paper charges it; D = 2η_k n_i"
    }
}
