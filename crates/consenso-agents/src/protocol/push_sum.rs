//! Push-sum, or stochastic gradient push: descent over links that lead one way (Nedić and
//! Olshevsky, 2015; Assran, Loizou, Ballas and Rabbat, 2019).

use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Partial, Parts, Protocol, PublicFacts,
    Schedule, View, dgd, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// x⁺ = P(x − η∇f(z)), w⁺ = Pw, z = x/w, with weights P whose columns sum to one and whose rows need
/// not: a message is (x, w), one number longer than a model, with
///
/// ```text
/// x_i − η∇f_i(z_i) + Δ_i      interval of width 0, private step −η∇f_i(z_i), noise
/// w_i                         a function of the graph alone, which gets no noise and costs nothing
/// ```
///
/// Whoever sends needs to know how many hear it, and not who else they hear. w says how much of
/// everybody's mass an agent holds, and dividing by it takes the bias out. Where links lead both
/// ways weights are doubly stochastic, w stays 1, and this is [`Diffusion`](super::Diffusion).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PushSum {
    /// η_k.
    pub step: Option<Schedule>,
}

/// What an algorithm says like the [`PushSum`] that its `descent()` is: of its messages, of what it
/// keeps, and of which numbers are active.
macro_rules! like_push_sum {
    (messages) => {
        fn width(&self, dim: usize) -> usize {
            self.descent().width(dim)
        }

        fn interval(&self, view: &View<'_>, memory: &[f64], low: &mut [f64], high: &mut [f64]) {
            self.descent().interval(view, memory, low, high);
        }

        fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
            self.descent().model(view, memory, model);
        }
    };
    (mixing) => {
        fn memory(&self) -> usize {
            self.descent().memory()
        }

        fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
            self.descent().absorb(view, memory);
        }

        fn idle(&self, view: &View<'_>, out: &mut [f64]) {
            self.descent().idle(view, out);
        }
    };
    (active) => {
        fn active(&self, round: u32, width: usize) -> Vec<u32> {
            self.descent().active(round, width)
        }

        fn hold(&self, view: &View<'_>, memory: &[f64], out: &mut [f64]) {
            self.descent().hold(view, memory, out);
        }
    };
}
pub(super) use like_push_sum;

/// Takes in w of everybody who is heard. Messages and memories hold w − 1, which starts at zero.
pub(super) fn weight(view: &View<'_>, place: usize) -> f64 {
    view.mix_at(place) + view.weight_total() - 1.0
}

impl PushSum {
    /// x_i and w_i − 1, then z_i.
    pub(super) fn state<'a>(view: &View<'a>, memory: &'a [f64]) -> (&'a [f64], f64, &'a [f64]) {
        let dim = view.dim() - 1;
        if view.round() == 0 {
            let start = &view.own()[..dim];
            return (start, 0.0, start);
        }
        (&memory[..dim], memory[dim], &memory[dim + 1..2 * dim + 1])
    }
}

impl Protocol for PushSum {
    fn kind(&self) -> &'static str {
        "push-sum"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            directed: true,
            varying: true,
            intervals: false,
            batches: true,
            ..Capabilities::default()
        }
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
        dim + 1
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
        gradient.scaled(dgd::eta(self.step.as_ref(), round))
    }

    fn interval(&self, view: &View<'_>, memory: &[f64], low: &mut [f64], high: &mut [f64]) {
        let shrink = dgd::eta(self.step.as_ref(), view.round() + 1) * view.regularization();
        let (x, _, z) = Self::state(view, memory);
        for ((low, x), z) in low.iter_mut().zip(x).zip(z) {
            *low = x - shrink * z;
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
        local.data_gradient(Self::state(view, memory.public).2, step, work);
        let eta = dgd::eta(self.step.as_ref(), view.round() + 1);
        step.iter_mut().for_each(|s| *s *= -eta);
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let dim = view.dim() - 1;
        let (x, z) = memory.split_at_mut(dim + 1);
        view.mix_from(0, &mut x[..dim]);
        x[dim] = weight(view, dim);
        z.iter_mut().zip(&x[..dim]).for_each(|(z, l)| *z = l / (1.0 + x[dim]));
    }

    /// z once the exchange is taken in; one step behind before.
    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        model.copy_from_slice(Self::state(view, memory).2);
    }

    /// Passes on what it heard, without a step.
    fn idle(&self, view: &View<'_>, out: &mut [f64]) {
        view.mix(out);
        let last = out.len() - 1;
        out[last] = weight(view, last);
    }
}

impl Configured for PushSum {
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

impl Assessed for PushSum {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let why = "agents end within O(step) of the optimum; no theorem here says how close";
        dgd::working(dgd::longest(self.step.as_ref(), &inputs.facts) * inputs.facts.smoothness, why)
    }
}

impl Partial for PushSum {
    fn active(&self, _: u32, width: usize) -> Vec<u32> {
        (0..width as u32 - 1).collect()
    }

    fn hold(&self, view: &View<'_>, memory: &[f64], out: &mut [f64]) {
        out[view.dim() - 1] = Self::state(view, memory).1;
    }
}
