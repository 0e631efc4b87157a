//! Adapt-then-combine diffusion: a gradient step of one's own, then an average (Cattivelli and
//! Sayed, 2010).

use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Parts, Protocol, PublicFacts, Schedule,
    View, dgd, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// x⁺ = W(x − η∇f(x)), told by what is averaged: message ψ_i = x_i − η∇f_i(x_i) + Δ_i, with x_i =
/// Σ_j W_ij ψ_j a function of releases.
///
/// [`Dgd`](super::Dgd) averages first and adds its step after it, so that noise is in a model as it
/// was drawn; here every model is an average of noised messages.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diffusion {
    /// η_k.
    pub step: Option<Schedule>,
}

impl Diffusion {
    /// x^k: the start, then the average of the last messages, which is kept.
    fn point<'a>(view: &View<'a>, memory: &'a [f64]) -> &'a [f64] {
        if view.round() == 0 { view.own() } else { memory }
    }
}

impl Protocol for Diffusion {
    fn kind(&self) -> &'static str {
        "diffusion"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            alone: true,
            mixes: true,
            varying: true,
            intervals: false,
            batches: true,
            ..Capabilities::default()
        }
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
        round: u32,
        _: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        gradient.scaled(dgd::eta(self.step.as_ref(), round))
    }

    fn interval(&self, view: &View<'_>, memory: &[f64], low: &mut [f64], high: &mut [f64]) {
        let shrink = dgd::eta(self.step.as_ref(), view.round() + 1) * view.regularization();
        for (low, x) in low.iter_mut().zip(Self::point(view, memory)) {
            *low = x - shrink * x;
        }
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
        local.data_gradient(Self::point(view, memory.public), step, work);
        let eta = dgd::eta(self.step.as_ref(), view.round() + 1);
        step.iter_mut().for_each(|s| *s *= -eta);
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        view.mix(memory);
    }

    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        model.copy_from_slice(Self::point(view, memory));
    }
}

impl Configured for Diffusion {
    fn resolve(&mut self, facts: &PublicFacts) {
        self.step.get_or_insert_with(|| dgd::default_step(facts));
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        dgd::check_step(self.step.as_ref(), facts)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for Diffusion {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let largest = (1..=inputs.facts.rounds.max(1))
            .map(|k| dgd::eta(self.step.as_ref(), k))
            .fold(0.0, f64::max);
        let why = "agents end within O(step) of the optimum; no theorem here says how close";
        dgd::working(largest * inputs.facts.smoothness, why)
    }
}
