//! Aug-DGM, or ATC-DIGing: gradient tracking that averages both models and trackers after they
//! changed (Xu, Zhu, Soh and Xie, 2015).

use super::parameters::positive;
use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Partial, Parts, Protocol, PublicFacts,
    Relaying, View, dgd, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// x⁺ = W(x − ηy), y⁺ = W(y + ∇f(x⁺) − ∇f(x)), y⁰ = ∇f(x⁰), told by corrections c: two rounds per gradient, of
/// messages twice as long as a model,
///
/// ```text
/// first    (x_i, s_i), s_i = c_i + ∇f_i(x_i) + Δ_i        interval of width 0, private step ∇f_i, noise
///          then y = Ws, c⁺ = c − s + y
/// second   (Proj_C(x_i − ηy_i), s_i)                      a function of releases, which costs nothing
///          then x⁺ = W(x − ηy)
/// ```
///
/// The corrections add up to zero over all agents whatever the noise is, and the private step is
/// one gradient, not a difference of two.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AugDgm {
    /// η.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// How many rounds use the records.
    #[serde(skip)]
    gradients: u32,
}

impl AugDgm {
    /// With a step of this length.
    #[must_use]
    pub fn new(step: f64) -> Self {
        Self { step: Some(step), gradients: 0 }
    }

    fn eta(&self) -> f64 {
        self.step.unwrap_or(f64::NAN)
    }

    /// x, c and y.
    fn state<'a>(view: &View<'a>, memory: &'a [f64]) -> (&'a [f64], &'a [f64], &'a [f64]) {
        let dim = view.dim() / 2;
        // The start is in every message until the first x is averaged.
        let x = if view.round() < 2 { &view.own()[..dim] } else { &memory[..dim] };
        (x, &memory[dim..2 * dim], &memory[2 * dim..3 * dim])
    }
}

impl Protocol for AugDgm {
    fn kind(&self) -> &'static str {
        "aug-dgm"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { intervals: false, ..Capabilities::default() }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            configured: Some(self),
            assessed: Some(self),
            partial: Some(self),
            relaying: Some(self),
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
        2
    }

    fn step_sensitivity(
        &self,
        round: u32,
        _: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        if self.passes_on(round) {
            return Sensitivity { l1: 0.0, l2: 0.0, linf: 0.0 };
        }
        *gradient
    }

    fn interval(&self, view: &View<'_>, memory: &[f64], low: &mut [f64], high: &mut [f64]) {
        let (x, c, _) = Self::state(view, memory);
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
        local.data_gradient(Self::state(view, memory.public).0, step, work);
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let dim = view.dim() / 2;
        let (x, rest) = memory.split_at_mut(dim);
        if self.passes_on(view.round()) {
            return view.mix_from(0, x);
        }
        let (c, y) = rest.split_at_mut(dim);
        if view.round() == 1 {
            // y⁰ is an agent's own gradient, which nobody averages.
            return y[..dim].copy_from_slice(&view.own()[dim..]);
        }
        view.mix_from(dim, &mut y[..dim]);
        for (l, own) in view.own()[dim..].iter().enumerate() {
            c[l] += y[l] - own;
        }
    }

    /// x once the exchange is taken in; one step behind before.
    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        model.copy_from_slice(Self::state(view, memory).0);
    }
}

impl Configured for AugDgm {
    fn resolve(&mut self, facts: &PublicFacts) {
        self.gradients = facts.rounds.div_ceil(2);
        self.step.get_or_insert(0.5 / facts.smoothness);
    }

    /// Twice those of one exchange per gradient.
    fn default_rounds(&self, facts: &PublicFacts) -> u32 {
        2 * dgd::default_rounds(facts)
    }

    fn check(&self, _: &PublicFacts) -> Result<Option<String>, ConfigError> {
        positive("step", self.eta())?;
        Ok(None)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for AugDgm {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let why = "theorems for agents of different curvature allow far shorter steps than work";
        dgd::open(self.eta() * inputs.facts.smoothness, why)
    }
}

impl Partial for AugDgm {
    fn active(&self, _: u32, width: usize) -> Vec<u32> {
        (width as u32 / 2..width as u32).collect()
    }

    fn hold(&self, view: &View<'_>, memory: &[f64], out: &mut [f64]) {
        out[..view.dim() / 2].copy_from_slice(Self::state(view, memory).0);
    }
}

impl Relaying for AugDgm {
    fn passes_on(&self, round: u32) -> bool {
        round.is_multiple_of(2)
    }

    fn pass_on(&self, view: &View<'_>, memory: &[f64], out: &mut [f64]) {
        let ((x, _, y), dim) = (Self::state(view, memory), view.dim() / 2);
        out.copy_from_slice(view.own());
        for (l, out) in out[..dim].iter_mut().enumerate() {
            *out = x[l] - self.eta() * y[l];
        }
        view.constraint().project(&mut out[..dim]);
    }

    fn shares(&self) -> Option<Vec<f64>> {
        let count = self.gradients.max(1);
        let share = |round: u32| if self.passes_on(round) { 0.0 } else { 1.0 / f64::from(count) };
        Some((1..=2 * count).map(share).collect())
    }
}
