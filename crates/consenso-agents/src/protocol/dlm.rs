//! DLM: decentralized ADMM with a gradient in place of every local problem (Ling, Shi, Wu and
//! Ribeiro, 2015).

use super::admm::ascend;
use super::parameters::positive;
use super::{
    Assessed, Capabilities, Configured, Memory, Needs, Parameters, Parts, Protocol, PublicFacts,
    View, dgd, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, Certainty, TheoremInputs, short};
use serde::{Deserialize, Serialize};

/// x_i⁺ = x_i − (∇f_i(x_i) + c Σ_{j∈N_i} (x_i − x_j) + λ_i)/(2c·n_i + ρ); λ_i⁺ = λ_i + c Σ_j (x_i⁺
/// − x_j⁺).
///
/// It looks at its neighbours' sum alone, and its duals are functions of releases. With a
/// constraint set it is the projected form, for every agent divides by one number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dlm {
    /// c.
    pub penalty: Option<f64>,
    /// ρ, which makes up for the curvature that a gradient does not see.
    pub proximity: Option<f64>,
}

impl Dlm {
    fn penalty(&self) -> f64 {
        self.penalty.unwrap_or(f64::NAN)
    }

    /// 2c·n_i + ρ.
    fn weight(&self, degree: usize) -> f64 {
        2.0 * self.penalty() * degree as f64 + self.proximity.unwrap_or(f64::NAN)
    }
}

impl Protocol for Dlm {
    fn kind(&self) -> &'static str {
        "dlm"
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

    fn step_sensitivity(
        &self,
        _: u32,
        degree: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        gradient.scaled(1.0 / self.weight(degree))
    }

    fn interval(&self, view: &View<'_>, dual: &[f64], low: &mut [f64], high: &mut [f64]) {
        let (weight, degree) = (self.weight(view.degree()), view.degree() as f64);
        view.neighbour_sum(low);
        for ((low, x), dual) in low.iter_mut().zip(view.own()).zip(dual) {
            let pull = self.penalty() * (degree * x - *low) + dual + view.regularization() * x;
            *low = x - pull / weight;
        }
        high.copy_from_slice(low);
    }

    fn step(
        &self,
        view: &View<'_>,
        _: Memory<'_>,
        _: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        local.data_gradient(view.own(), step, work);
        let weight = self.weight(view.degree());
        step.iter_mut().for_each(|s| *s /= -weight);
    }

    fn absorb(&self, view: &View<'_>, dual: &mut [f64]) {
        ascend(view, dual, -self.penalty());
    }
}

impl Configured for Dlm {
    /// ρ = M, so that every step descends on what it replaces; c balances the curvature of f
    /// against that of the graph, as consensus ADMM does.
    fn resolve(&mut self, facts: &PublicFacts) {
        let middle =
            (facts.smoothness * facts.strong_convexity.max(1e-3 * facts.smoothness)).sqrt();
        let degree = 0.5 * (facts.degrees.0 + facts.degrees.1) as f64;
        self.penalty.get_or_insert(middle / degree);
        self.proximity.get_or_insert(facts.smoothness);
    }

    fn check(&self, _: &PublicFacts) -> Result<Option<String>, ConfigError> {
        for (key, value) in [("penalty", self.penalty), ("proximity", self.proximity)] {
            positive(key, value.unwrap_or(f64::NAN))?;
        }
        Ok(None)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for Dlm {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let product = inputs.facts.smoothness / self.proximity.unwrap_or(f64::NAN);
        let why = "Ling, Shi, Wu and Ribeiro (2015), Theorem 1 has constants of the graph that are not computed here";
        if product <= 1.0 + 1e-12 {
            let rule = "a quadratic of curvature ρ ≥ M lies above f";
            return Assessment {
                promise: Some("without noise every agent reaches the optimum".into()),
                not_certified: Some(why.into()),
                ..Assessment::new(
                    Certainty::PredictedStable,
                    rule,
                    format!("M/proximity = {} ≤ 1", short(product)),
                )
            };
        }
        dgd::open(product, why)
    }
}
