//! Decentralized consensus ADMM (Shi, Ling, Yuan, Wu and Yin, 2014): the non-private reference.

use super::admm::{ASSUMED_RESIDUAL, ascend, solve_at};
use super::parameters::positive;
use super::{
    Assessed, Capabilities, Configured, Memory, Needs, Parameters, Parts, Protocol, PublicFacts,
    Response, View, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{Constraint, LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, Certainty, TheoremInputs, short};
use serde::{Deserialize, Serialize};

/// x_i⁺ = argmin f_i(x) + xᵀα_i + c Σ_{j∈N_i} ‖x − (x_i + x_j)/2‖²; α_i⁺ = α_i + c Σ_j (x_i⁺ −
/// x_j⁺).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsensusAdmm {
    /// c.
    pub penalty: Option<f64>,
}

impl ConsensusAdmm {
    fn penalty(&self) -> f64 {
        self.penalty.unwrap_or(f64::NAN)
    }

    /// Σ_j c‖x − (x_i+x_j)/2‖² + xᵀα is (D/2)‖x − centre‖² up to a constant, with D = 2c·n_i.
    fn weight(&self, degree: usize) -> f64 {
        2.0 * self.penalty() * degree as f64
    }
}

impl Protocol for ConsensusAdmm {
    fn kind(&self) -> &'static str {
        "consensus-admm"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { needs: Needs::Sum, intervals: false, ..Capabilities::default() }
    }

    fn parts(&self) -> Parts<'_> {
        Parts { configured: Some(self), assessed: Some(self), ..Parts::default() }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn memory(&self) -> usize {
        1
    }

    fn response(&self, _: u32, degree: usize) -> Response {
        Response::AtPoint { weight: self.weight(degree) }
    }

    fn step_sensitivity(
        &self,
        _: u32,
        degree: usize,
        gradient: &Sensitivity,
        facts: &PublicFacts,
    ) -> Sensitivity {
        let strength = self.weight(degree) + facts.strong_convexity;
        Sensitivity::from_l2((gradient.l2 + 2.0 * ASSUMED_RESIDUAL) / strength, facts.dim)
    }

    fn interval(&self, view: &View<'_>, dual: &[f64], low: &mut [f64], high: &mut [f64]) {
        let (weight, scale) = (self.weight(view.degree()), 0.5 / view.degree() as f64);
        view.neighbour_sum(low);
        for ((low, x), dual) in low.iter_mut().zip(view.own()).zip(dual) {
            *low = *low * scale + 0.5 * x - dual / weight;
        }
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
        solve_at(view, point, self.weight(view.degree()), view.constraint(), local, work, step);
    }

    fn absorb(&self, view: &View<'_>, dual: &mut [f64]) {
        ascend(view, dual, -self.penalty());
    }
}

impl Configured for ConsensusAdmm {
    /// c balances the curvature of f against that of the graph: √(m·M) over the mean degree, the
    /// geometric middle of the spectrum.
    fn resolve(&mut self, facts: &PublicFacts) {
        let middle =
            (facts.smoothness * facts.strong_convexity.max(1e-3 * facts.smoothness)).sqrt();
        let degree = 0.5 * (facts.degrees.0 + facts.degrees.1) as f64;
        self.penalty.get_or_insert(middle / degree);
    }

    fn check(&self, _: &PublicFacts) -> Result<Option<String>, ConfigError> {
        positive("penalty", self.penalty())?;
        Ok(None)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for ConsensusAdmm {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let m = inputs.facts.strong_convexity;
        if m <= 0.0 || inputs.constraint != Constraint::None {
            let why =
                "Shi et al. (2014), Theorem 1 needs strong convexity, m > 0, and no constraint set";
            return Assessment {
                not_certified: Some(why.into()),
                ..Assessment::open(format!("m = {}", short(m)))
            };
        }
        Assessment {
            promise: Some("without noise every agent reaches the optimum at a linear rate".into()),
            ..Assessment::new(
                Certainty::Certified,
                "Shi, Ling, Yuan, Wu and Yin (2014), Theorem 1",
                format!("every penalty > 0 for m = {} > 0", short(m)),
            )
        }
    }
}
