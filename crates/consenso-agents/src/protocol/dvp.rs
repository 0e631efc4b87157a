//! DVP: dual variable perturbation (Zhang and Zhu, 2017).

use super::admm::{ascend, check_exact, default_exact_rounds, half_way, resolve_exact, solve_at};
use super::{
    Configured, Memory, Parameters, Parts, Priced, PricedRound, Protocol, PublicFacts,
    PublishedCost, Response, View, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{Constraint, LocalObjective, Sensitivity, Workspace};
use serde::{Deserialize, Serialize};

/// The x with ∇f_i(x) + D x = (D/2) x_i + (D/(2n_i)) Σ_j x_j + λ_i + ξ_i, ξ_i = D·Δ_i; λ_i⁺ = λ_i +
/// ζ Σ_j (x_j⁺ − x_i⁺).
///
/// Noise on the dual variable is noise on the centre of the local problem: the gate draws Δ_i first
/// and the minimiser is computed with it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DualVariablePerturbation {
    /// D.
    pub penalty: Option<f64>,
    /// ζ: dual step.
    pub dual_step: Option<f64>,
}

impl DualVariablePerturbation {
    fn penalty(&self) -> f64 {
        self.penalty.unwrap_or(f64::NAN)
    }

    fn dual_step(&self) -> f64 {
        self.dual_step.unwrap_or(f64::NAN)
    }
}

/// J = 2.8/(D·b_i): what the paper charges for the determinant (c₁ = 1), whatever the loss.
pub(super) fn published_volume(penalty: f64, records: usize) -> f64 {
    2.8 / (penalty * records as f64)
}

impl Protocol for DualVariablePerturbation {
    fn kind(&self) -> &'static str {
        "dvp"
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

    fn response(&self, _: u32, _: usize) -> Response {
        Response::AtNoisedPoint { weight: self.penalty() }
    }

    fn step_sensitivity(
        &self,
        _: u32,
        _: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        gradient.scaled(1.0 / self.penalty())
    }

    fn interval(&self, view: &View<'_>, dual: &[f64], low: &mut [f64], high: &mut [f64]) {
        half_way(view, dual, self.penalty(), low);
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
        solve_at(view, point, self.penalty(), &Constraint::None, local, work, step);
    }

    fn absorb(&self, view: &View<'_>, dual: &mut [f64]) {
        ascend(view, dual, self.dual_step());
    }
}

impl Configured for DualVariablePerturbation {
    fn default_rounds(&self, facts: &PublicFacts) -> u32 {
        default_exact_rounds(self.penalty, facts)
    }

    fn resolve(&mut self, facts: &PublicFacts) {
        resolve_exact(&mut self.penalty, &mut self.dual_step, facts);
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        check_exact(self.penalty(), self.dual_step(), facts)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Priced for DualVariablePerturbation {
    fn published_cost(&self, priced: &PricedRound<'_>) -> Option<PublishedCost> {
        let noise = priced.laplace(1.0 / self.penalty())?;
        Some(PublishedCost::Pure(noise + published_volume(self.penalty(), priced.records)))
    }

    fn published_formula(&self) -> &'static str {
        "Σ d·β_k·B_∞/D + 2.8/(D·b_i) (Zhang and Zhu, 2017, as the paper charges it)"
    }
}
