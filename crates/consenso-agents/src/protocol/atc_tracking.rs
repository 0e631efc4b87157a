//! Gradient tracking in its adapt-then-combine form (Di Lorenzo and Scutari, 2016), with several
//! local steps between exchanges if wanted (K-GT: Liu, Lin, Koloskova and Stich, 2024).

use super::parameters::positive;
use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Partial, Parts, Protocol, PublicFacts,
    View, dgd, local_steps, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// x⁺ = W(x − ηy), y⁺ = Wy + ∇f(x⁺) − ∇f(x), told by corrections c = y − ∇f(x): a message is (x, y),
/// twice as long as a model, with
///
/// ```text
/// y_i = c_i + ∇f_i(x_i) + Δ_i                interval of width 0, private step ∇f_i, noise
/// c⁺  = c − y + Wy,  x⁺ = Proj_C(W(x − ηy))   functions of releases, which cost nothing
/// ```
///
/// The corrections add up to zero over all agents whatever the noise is, so that Σ_i y_i holds the
/// noise of one round alone, and the private step is one gradient, not a difference of two. With K
/// local steps y is c plus the mean gradient along them and η is K times a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AtcTracking {
    /// η over K.
    pub step: Option<f64>,
    /// K.
    pub local_steps: u32,
}

impl Default for AtcTracking {
    fn default() -> Self {
        Self { step: None, local_steps: 1 }
    }
}

impl AtcTracking {
    fn eta(&self) -> f64 {
        self.step.unwrap_or(f64::NAN)
    }

    /// x_i and c_i.
    fn state<'a>(view: &View<'a>, memory: &'a [f64]) -> (&'a [f64], &'a [f64]) {
        let dim = view.dim() / 2;
        let (x, c) = memory.split_at(dim);
        (if view.round() == 0 { &view.own()[..dim] } else { x }, c)
    }
}

impl Protocol for AtcTracking {
    fn kind(&self) -> &'static str {
        "atc-tracking"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { varying: true, intervals: false, ..Capabilities::default() }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            configured: Some(self),
            assessed: Some(self),
            partial: Some(self),
            ..Parts::default()
        }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn width(&self, dim: usize) -> usize {
        2 * dim
    }

    fn memory(&self) -> usize {
        1
    }

    /// Of one local step, which is all that is allowed where records are private.
    fn step_sensitivity(
        &self,
        _: u32,
        _: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        *gradient
    }

    fn interval(&self, view: &View<'_>, memory: &[f64], low: &mut [f64], high: &mut [f64]) {
        let (x, c) = Self::state(view, memory);
        for ((low, x), c) in low.iter_mut().zip(x).zip(c) {
            *low = c + view.regularization() * x;
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
        let (x, c) = Self::state(view, memory.public);
        if self.local_steps == 1 {
            return local.data_gradient(x, step, work);
        }
        let (mu, count) = (view.regularization(), self.local_steps);
        let along = (self.eta(), mu, count);
        local_steps::gradients_along((x, |l| c[l]), along, local, work, step);
        // The regulariser's part at the first point is public.
        step.iter_mut().zip(x).for_each(|(s, x)| *s = *s / f64::from(count) - mu * x);
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let dim = view.dim() / 2;
        let (x, c) = memory.split_at_mut(dim);
        let (eta, own) = (self.eta() * f64::from(self.local_steps), &view.own()[dim..]);
        let mut tracked = vec![0.0; dim];
        view.mix_from(dim, &mut tracked);
        view.mix_from(0, x);
        for (l, tracked) in tracked.iter().enumerate() {
            c[l] += tracked - own[l];
            x[l] -= eta * tracked;
        }
        view.constraint().project(x);
    }

    /// x once the exchange is taken in; one step behind before.
    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        model.copy_from_slice(Self::state(view, memory).0);
    }
}

impl Configured for AtcTracking {
    fn resolve(&mut self, facts: &PublicFacts) {
        let steps = f64::from(self.local_steps.max(1));
        self.step.get_or_insert(0.5 / (facts.smoothness * steps));
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        local_steps::check(self.local_steps, facts)?;
        positive("step", self.eta())?;
        Ok(None)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for AtcTracking {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let product = self.eta() * f64::from(self.local_steps) * inputs.facts.smoothness;
        let why = "theorems for agents of different curvature allow far shorter steps than work";
        dgd::open(product, why)
    }
}

impl Partial for AtcTracking {
    fn active(&self, _: u32, width: usize) -> Vec<u32> {
        (width as u32 / 2..width as u32).collect()
    }

    fn hold(&self, view: &View<'_>, memory: &[f64], out: &mut [f64]) {
        out[..view.dim() / 2].copy_from_slice(Self::state(view, memory).0);
    }
}
