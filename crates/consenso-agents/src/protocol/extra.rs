//! EXTRA: an exact first-order method with a constant step (Shi, Ling, Wu and Yin, 2015).

use super::parameters::positive;
use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Parts, Protocol, PublicFacts, View,
    table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// x¹ = Wx⁰ − α∇f(x⁰); x^{k+2} = (I+W)x^{k+1} − ½(I+W)x^k − α(∇f(x^{k+1}) − ∇f(x^k)).
///
/// With a constraint set it is PG-EXTRA (the same authors, 2015): the recursion runs on the
/// releases z before they are moved into the set, z^{k+2} = Wx^{k+1} + z^{k+1} − ½(I+W)x^k −
/// α(∇f(x^{k+1}) − ∇f(x^k)), x = Proj_C(z). Projecting inside the plain recursion would not
/// converge.
///
/// Its memory is the mixed previous iterate ½(I+W)x^k, x^k itself and z^{k+1}, public, and the
/// previous gradient of the data term, private.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extra {
    /// α.
    pub step: Option<f64>,
}

impl Extra {
    fn alpha(&self) -> f64 {
        self.step.unwrap_or(f64::NAN)
    }

    /// `out = ½(I + W)x`.
    fn half_mix(view: &View<'_>, out: &mut [f64]) {
        view.mix(out);
        for (o, x) in out.iter_mut().zip(view.own()) {
            *o = 0.5 * (*o + x);
        }
    }
}

impl Protocol for Extra {
    fn kind(&self) -> &'static str {
        "extra"
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
        3
    }

    fn private_memory(&self) -> usize {
        1
    }

    /// After round 1 the step is a difference of two gradients, each of which moves.
    fn step_sensitivity(
        &self,
        round: u32,
        _: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        gradient.scaled(if round == 1 { self.alpha() } else { 2.0 * self.alpha() })
    }

    fn interval(&self, view: &View<'_>, memory: &[f64], low: &mut [f64], high: &mut [f64]) {
        view.mix(low);
        let shrink = self.alpha() * view.regularization();
        let (mixed, rest) = memory.split_at(view.dim());
        let unprojected = &memory[2 * view.dim()..];
        for (l, x) in view.own().iter().enumerate() {
            low[l] += if view.round() > 0 {
                unprojected[l] - mixed[l] - shrink * (x - rest[l])
            } else {
                -shrink * x
            };
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
        local.data_gradient(view.own(), step, work);
        let (alpha, first) = (self.alpha(), view.round() == 0);
        for (step, previous) in step.iter_mut().zip(memory.private) {
            let before = std::mem::replace(previous, *step);
            *step = -alpha * if first { *step } else { *step - before };
        }
    }

    fn keep(&self, view: &View<'_>, memory: &mut [f64]) {
        let (mixed, rest) = memory.split_at_mut(view.dim());
        Self::half_mix(view, mixed);
        rest[..view.dim()].copy_from_slice(view.own());
    }

    fn remember(&self, release: &[f64], memory: &mut [f64]) {
        let dim = release.len();
        memory[2 * dim..].copy_from_slice(release);
    }
}

impl Configured for Extra {
    fn resolve(&mut self, facts: &PublicFacts) {
        self.step.get_or_insert(0.5 / facts.smoothness);
    }

    /// Convergence needs α < 2λ_min(½(I+W))/M; for Metropolis weights λ_min(W) > −1 makes that
    /// positive, and 1/M is safe for λ_min(W) ≥ 0.
    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        let alpha = self.alpha();
        positive("step", alpha)?;
        let limit = 2.0 / facts.smoothness;
        Ok((alpha >= limit).then(|| {
            format!("predicted unstable: step = {alpha} is not below 2/M = {limit:.3}; use a smaller step")
        }))
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for Extra {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let theorem = "Shi, Ling, Wu and Yin (2015), Theorem 3.3";
        super::dgd::assess_step(
            self.alpha(),
            inputs,
            theorem,
            "without noise every agent reaches the optimum",
        )
    }
}
