//! LED: exact diffusion with several local steps between exchanges (Alghunaim, 2024).

use super::parameters::positive;
use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Parts, Protocol, PublicFacts, View,
    dgd, local_steps, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// φ_0 = x_i, φ_{t+1} = φ_t − α∇f_i(φ_t) − βy_i for τ steps; then x_i⁺ = Σ_j W_ij φ_{j,τ} and y_i⁺ =
/// y_i + φ_{i,τ} − x_i⁺.
///
/// Messages are φ_τ, so x and y are functions of releases. One local step with β = 1 is [exact
/// diffusion](super::ExactDiffusion) with W in place of ½(I+W).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Led {
    /// α.
    pub step: Option<f64>,
    /// β.
    pub dual_step: Option<f64>,
    /// τ.
    pub local_steps: u32,
}

impl Default for Led {
    fn default() -> Self {
        Self { step: None, dual_step: None, local_steps: 1 }
    }
}

impl Led {
    fn alpha(&self) -> f64 {
        self.step.unwrap_or(f64::NAN)
    }

    fn beta(&self) -> f64 {
        self.dual_step.unwrap_or(f64::NAN)
    }

    /// x_i and y_i.
    fn state<'a>(view: &View<'a>, memory: &'a [f64]) -> (&'a [f64], &'a [f64]) {
        let (x, y) = memory.split_at(view.dim());
        (if view.round() == 0 { view.own() } else { x }, y)
    }
}

/// What τβ must stay below: 2(1 + λ_min)/(1 − λ_min).
///
/// Without gradients (x, y) moves, along an eigenvector of W with eigenvalue λ < 1, by a matrix of
/// trace λ + 1 − b(1 − λ) and determinant λ, b = τβ: its eigenvalues lie within the unit circle for
/// 0 < b < 2(1 + λ)/(1 − λ) (Jury).
fn limit(facts: &PublicFacts) -> f64 {
    2.0 * (1.0 + facts.mixing_min) / (1.0 - facts.mixing_min).max(f64::MIN_POSITIVE)
}

impl Protocol for Led {
    fn kind(&self) -> &'static str {
        "led"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { intervals: false, ..Capabilities::default() }
    }

    fn parts(&self) -> Parts<'_> {
        Parts { configured: Some(self), assessed: Some(self), ..Parts::default() }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn memory(&self) -> usize {
        2
    }

    /// Of one local step, which is all that is allowed where records are private.
    fn step_sensitivity(
        &self,
        _: u32,
        _: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        gradient.scaled(self.alpha())
    }

    fn interval(&self, view: &View<'_>, memory: &[f64], low: &mut [f64], high: &mut [f64]) {
        let (x, y) = Self::state(view, memory);
        let pull = f64::from(self.local_steps) * self.beta();
        let shrink = self.alpha() * view.regularization();
        for ((low, x), y) in low.iter_mut().zip(x).zip(y) {
            *low = x - shrink * x - pull * y;
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
        let (x, y) = Self::state(view, memory.public);
        let (alpha, mu) = (self.alpha(), view.regularization());
        if self.local_steps == 1 {
            local.data_gradient(x, step, work);
            return step.iter_mut().for_each(|s| *s *= -alpha);
        }
        let pull = |l: usize| self.beta() / alpha * y[l];
        local_steps::gradients_along((x, pull), (alpha, mu, self.local_steps), local, work, step);
        // The regulariser's part of the first step is public.
        step.iter_mut().zip(x).for_each(|(s, x)| *s = -alpha * (*s - mu * x));
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let (x, y) = memory.split_at_mut(view.dim());
        view.mix(x);
        for ((y, own), x) in y.iter_mut().zip(view.own()).zip(&*x) {
            *y += own - x;
        }
    }

    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        model.copy_from_slice(Self::state(view, memory).0);
    }
}

impl Configured for Led {
    /// τ steps together are as long as one of half the descent limit; β is half its own limit, but
    /// no more than that of exact diffusion.
    fn resolve(&mut self, facts: &PublicFacts) {
        let steps = f64::from(self.local_steps.max(1));
        self.step.get_or_insert(0.5 / (facts.smoothness * steps));
        self.dual_step.get_or_insert((0.5 * limit(facts)).min(1.0) / steps);
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        local_steps::check(self.local_steps, facts)?;
        positive("step", self.alpha())?;
        positive("dual_step", self.beta())?;
        let (pull, limit) = (f64::from(self.local_steps) * self.beta(), limit(facts));
        Ok((pull >= limit).then(|| {
            format!(
                "predicted unstable: local_steps·dual_step = {pull} is not below \
                 2(1 + λ_min(W))/(1 − λ_min(W)) = {limit:.3}; use a smaller dual_step"
            )
        }))
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for Led {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let product = self.alpha() * f64::from(self.local_steps) * inputs.facts.smoothness;
        dgd::open(product, "the theorem allows far shorter steps than work")
    }
}
