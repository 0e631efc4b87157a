//! Output-perturbed ADMM, "P-ADMM" (Ding, Errapotu, Zhang, Gong, Pan and Han, 2019).

use super::admm::{ASSUMED_RESIDUAL, ascend, check_exact, half_way, solve_at};
use super::{
    Capabilities, Configured, Memory, Parameters, Parts, Priced, PricedNoise, PricedRound,
    Protocol, PublicFacts, PublishedCost, Response, View, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use serde::{Deserialize, Serialize};

/// x_i⁺ = argmin f_i(x) − xᵀλ_i + (D/2)‖x − (x_i + mean_j x_j)/2‖² + Δ_i; λ_i⁺ = λ_i + ζ Σ_j (x_j⁺
/// − x_i⁺).
///
/// The exact minimiser with constant penalties, then noise on the output: Gaussian with a decaying
/// variance under zCDP as its authors do, or Laplace. The minimiser is (D + m)⁻¹-Lipschitz in the
/// gradient's change, so its l2 sensitivity is B_2/(D + m), plus the solver's error.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputAdmm {
    /// D.
    pub penalty: Option<f64>,
    /// ζ: dual step.
    pub dual_step: Option<f64>,
}

impl OutputAdmm {
    fn penalty(&self) -> f64 {
        self.penalty.unwrap_or(f64::NAN)
    }

    fn dual_step(&self) -> f64 {
        self.dual_step.unwrap_or(f64::NAN)
    }
}

impl Protocol for OutputAdmm {
    fn kind(&self) -> &'static str {
        "output-admm"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { intervals: false, ..Capabilities::default() }
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
        Response::AtPoint { weight: self.penalty() }
    }

    fn step_sensitivity(
        &self,
        _: u32,
        _: usize,
        gradient: &Sensitivity,
        facts: &PublicFacts,
    ) -> Sensitivity {
        let strength = self.penalty() + facts.strong_convexity;
        Sensitivity::from_l2((gradient.l2 + 2.0 * ASSUMED_RESIDUAL) / strength, facts.dim)
    }

    fn interval(&self, view: &View<'_>, dual: &[f64], low: &mut [f64], high: &mut [f64]) {
        half_way(view, dual, self.penalty(), low);
        high.copy_from_slice(low);
    }

    fn step(
        &self,
        view: &View<'_>,
        _: Memory<'_>,
        point: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        solve_at(view, point, self.penalty(), view.constraint(), local, work, step);
    }

    fn absorb(&self, view: &View<'_>, dual: &mut [f64]) {
        ascend(view, dual, self.dual_step());
    }
}

impl Configured for OutputAdmm {
    fn default_rounds(&self, facts: &PublicFacts) -> u32 {
        super::admm::default_exact_rounds(self.penalty, facts)
    }

    fn resolve(&mut self, facts: &PublicFacts) {
        super::admm::resolve_exact(&mut self.penalty, &mut self.dual_step, facts);
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        check_exact(self.penalty(), self.dual_step(), facts)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Priced for OutputAdmm {
    /// Under Gaussian noise ρ = Δ₂²/(2σ²) with Δ₂ = 2/(b(D + m)). The paper calls the authors'
    /// account of Laplace noise too loose to plot.
    fn published_cost(&self, priced: &PricedRound<'_>) -> Option<PublishedCost> {
        let PricedNoise::Gaussian { sigma } = priced.noise else { return None };
        let shift =
            2.0 / (priced.records as f64 * (self.penalty() + priced.facts.strong_convexity));
        Some(PublishedCost::Zcdp(0.5 * (shift / sigma).powi(2)))
    }

    fn published_formula(&self) -> &'static str {
        "ρ = Σ Δ₂²/(2σ_k²), Δ₂ = 2/(b_i(D + m)); ε = ρ + 2√(ρ·ln(1/δ)) (Ding et al., 2019)"
    }
}
