//! Push-DIGing: gradient tracking over links that lead one way (Nedić, Olshevsky and Shi, 2017).

use super::parameters::positive;
use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Partial, Parts, Protocol, PublicFacts,
    View, dgd, push_sum, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// u⁺ = P(u − ηy), v⁺ = Pv, x⁺ = u⁺/v⁺, y⁺ = Py + ∇f(x⁺) − ∇f(x), with weights P whose columns sum
/// to one, told by corrections c = y − ∇f(x): a message is (u, y, v), with
///
/// ```text
/// y_i = c_i + ∇f_i(x_i) + Δ_i                       interval of width 0, private step ∇f_i, noise
/// c⁺  = c − y + Py,  u⁺ = P(u − ηy),  v⁺ = Pv        functions of releases, which cost nothing
/// ```
///
/// Columns that sum to one leave Σ_i c_i at zero, so that Σ_i y_i holds the noise of one round
/// alone, and the private step is one gradient, not a difference of two.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PushDiging {
    /// η.
    pub step: Option<f64>,
}

/// What an agent keeps, all of it functions of releases.
struct State<'a> {
    u: &'a [f64],
    c: &'a [f64],
    /// v − 1.
    v: f64,
    x: &'a [f64],
}

impl PushDiging {
    fn eta(&self) -> f64 {
        self.step.unwrap_or(f64::NAN)
    }

    fn state<'a>(view: &View<'a>, memory: &'a [f64]) -> State<'a> {
        let (width, dim) = (view.dim(), view.dim() / 2);
        let c = &memory[dim..2 * dim];
        if view.round() == 0 {
            let start = &view.own()[..dim];
            return State { u: start, c, v: 0.0, x: start };
        }
        State { u: &memory[..dim], c, v: memory[width - 1], x: &memory[width..width + dim] }
    }
}

impl Protocol for PushDiging {
    fn kind(&self) -> &'static str {
        "push-diging"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { directed: true, varying: true, intervals: false, ..Capabilities::default() }
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
        2 * dim + 1
    }

    fn memory(&self) -> usize {
        2
    }

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
        let state = Self::state(view, memory);
        for ((low, x), c) in low.iter_mut().zip(state.x).zip(state.c) {
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
        local.data_gradient(Self::state(view, memory.public).x, step, work);
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let (width, dim) = (view.dim(), view.dim() / 2);
        let (kept, x) = memory.split_at_mut(width);
        let (u, rest) = kept.split_at_mut(dim);
        let own = &view.own()[dim..2 * dim];
        // Py stands where x will.
        view.mix_from(dim, &mut x[..dim]);
        view.mix_from(0, u);
        rest[dim] = push_sum::weight(view, 2 * dim);
        for l in 0..dim {
            rest[l] += x[l] - own[l];
            u[l] -= self.eta() * x[l];
            x[l] = u[l] / (1.0 + rest[dim]);
        }
    }

    /// x once the exchange is taken in; one step behind before.
    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        model.copy_from_slice(Self::state(view, memory).x);
    }

    /// Passes on what it heard, without a step.
    fn idle(&self, view: &View<'_>, out: &mut [f64]) {
        view.mix(out);
        let last = out.len() - 1;
        out[last] = push_sum::weight(view, last);
    }
}

impl Configured for PushDiging {
    /// A quarter of the gap of the graph whose links lead both ways, over M: on a directed ring, whose
    /// weights have complex eigenvalues, twice as much is too much already.
    fn resolve(&mut self, facts: &PublicFacts) {
        let gap = (1.0 - facts.mixing).clamp(1e-3, 0.4);
        self.step.get_or_insert(0.25 * gap / facts.smoothness);
    }

    fn check(&self, _: &PublicFacts) -> Result<Option<String>, ConfigError> {
        positive("step", self.eta())?;
        Ok(None)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for PushDiging {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let product = self.eta() * inputs.facts.smoothness;
        dgd::open(product, "theorems for directed links allow far shorter steps than work")
    }
}

impl Partial for PushDiging {
    fn active(&self, _: u32, width: usize) -> Vec<u32> {
        (width as u32 / 2..width as u32 - 1).collect()
    }

    fn hold(&self, view: &View<'_>, memory: &[f64], out: &mut [f64]) {
        let state = Self::state(view, memory);
        out[..view.dim() / 2].copy_from_slice(state.u);
        out[view.dim() - 1] = state.v;
    }
}
