//! PDOP: private distributed optimisation with decaying steps (Huang, Mitra and Vaidya, 2015).

use super::dgd::{check_step, eta};
use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Parts, Priced, PricedRound, Protocol,
    PublicFacts, PublishedCost, Schedule, View, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use serde::{Deserialize, Serialize};

/// y_j = x_j + Laplace; z_i = Σ_j W_ij y_j; x_i⁺ = Proj_C(z_i − γ_k ∇f_i(z_i)), with Metropolis
/// weights W.
///
/// The message is y, so the draft is z − γ∇f(z) and the gate adds the noise. z is computed from
/// messages: unlike in DGD the gradient is taken at the mixed point. A constraint set is the
/// gate's, which projects after the noise (what is sent lies in the set).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pdop {
    /// γ_k. The authors need it summable, so that a pure budget is finite; the paper uses 0.9^k.
    pub step: Option<Schedule>,
}

impl Protocol for Pdop {
    fn kind(&self) -> &'static str {
        "pdop"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { mixes: true, intervals: false, ..Capabilities::default() }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            configured: Some(self),
            assessed: Some(self),
            priced: Some(self),
            ..Parts::default()
        }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    /// Room for z.
    fn private_memory(&self) -> usize {
        1
    }

    fn step_sensitivity(
        &self,
        round: u32,
        _: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        gradient.scaled(eta(self.step.as_ref(), round))
    }

    fn interval(&self, view: &View<'_>, _: &[f64], low: &mut [f64], high: &mut [f64]) {
        view.mix(low);
        let shrink = 1.0 - eta(self.step.as_ref(), view.round() + 1) * view.regularization();
        low.iter_mut().for_each(|z| *z *= shrink);
        high.copy_from_slice(low);
    }

    fn step(
        &self,
        view: &View<'_>,
        memory: Memory<'_>,
        _: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        let mixed = memory.private;
        view.mix(mixed);
        local.data_gradient(mixed, step, work);
        let eta = eta(self.step.as_ref(), view.round() + 1);
        step.iter_mut().for_each(|s| *s *= -eta);
    }

    /// z, the public part of the next x: what is sent is x with noise on it, and nobody would use
    /// that.
    fn model(&self, view: &View<'_>, _: &[f64], model: &mut [f64]) {
        view.mix(model);
    }
}

impl Configured for Pdop {
    /// A first step of 2.5/M as for DGD, shrinking to a hundredth of it over the run: the authors'
    /// geometric form.
    fn resolve(&mut self, facts: &PublicFacts) {
        let first = super::dgd::default_step(&PublicFacts { rounds: 0, ..*facts }).at(1);
        let ratio = libm::pow(0.01, 1.0 / f64::from(facts.rounds.max(1)));
        self.step.get_or_insert_with(|| Schedule::geometric(first, ratio));
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        check_step(self.step.as_ref(), facts)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for Pdop {
    fn drift(&self, round: u32, gradient: f64, facts: &PublicFacts) -> Option<super::Drift> {
        Some(super::dgd::drift(self.step.as_ref(), round, gradient, facts))
    }
}

impl Priced for Pdop {
    fn published_cost(&self, priced: &PricedRound<'_>) -> Option<PublishedCost> {
        priced.laplace(eta(self.step.as_ref(), priced.round)).map(PublishedCost::Pure)
    }

    fn published_formula(&self) -> &'static str {
        "Σ d·γ_k·β_k·B_∞ (Huang, Mitra and Vaidya, 2015, in the paper's notation)"
    }
}
