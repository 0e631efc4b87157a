//! Exact diffusion: diffusion that corrects its own bias, with a constant step (Yuan, Ying, Zhao
//! and Sayed, 2019). [NIDS](super::Nids) is the same recursion after another first step.

use super::parameters::positive;
use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Parts, Protocol, PublicFacts, View,
    dgd, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs, short};
use serde::{Deserialize, Serialize};

/// x^{k+1} = ½(I+W)(2x^k − x^{k−1} − α(∇f(x^k) − ∇f(x^{k−1}))), with x¹ = ½(I+W)(x⁰ − α∇f(x⁰)).
///
/// Messages are what is averaged, so that models are functions of releases. An agent remembers x^k
/// and x^{k−1}, public, and the previous gradient of the data term, private.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExactDiffusion {
    /// α.
    pub step: Option<f64>,
}

/// x^k, and x^{k−1} after the first round.
fn models<'a>(view: &View<'a>, memory: &'a [f64]) -> (&'a [f64], Option<&'a [f64]>) {
    if view.round() == 0 {
        return (view.own(), None);
    }
    let (now, before) = memory.split_at(view.dim());
    (now, Some(before))
}

/// What is public of the next message: 2x^k − x^{k−1}, less the regulariser's part.
pub(super) fn interval(
    alpha: f64,
    view: &View<'_>,
    memory: &[f64],
    low: &mut [f64],
    high: &mut [f64],
) {
    let shrink = alpha * view.regularization();
    let (now, before) = models(view, memory);
    match before {
        None => low.iter_mut().zip(now).for_each(|(low, x)| *low = x - shrink * x),
        Some(before) => {
            for ((low, x), before) in low.iter_mut().zip(now).zip(before) {
                *low = x + (1.0 - shrink) * (x - before);
            }
        }
    }
    high.copy_from_slice(low);
}

/// −α times the change of the gradient, which is remembered.
pub(super) fn step(
    alpha: f64,
    view: &View<'_>,
    memory: Memory<'_>,
    local: &LocalObjective,
    work: &mut Workspace,
    step: &mut [f64],
) {
    local.data_gradient(models(view, memory.public).0, step, work);
    let first = view.round() == 0;
    for (step, previous) in step.iter_mut().zip(memory.private) {
        let before = std::mem::replace(previous, *step);
        *step = -alpha * if first { *step } else { *step - before };
    }
}

/// Remembers the start, before anything is exchanged.
pub(super) fn keep(view: &View<'_>, memory: &mut [f64]) {
    if view.round() == 0 {
        memory[..view.dim()].copy_from_slice(view.own());
    }
}

/// x^{k+1} = ½(I+W) of the messages, or the own message if nothing is `mixed`.
pub(super) fn absorb(mixed: bool, view: &View<'_>, memory: &mut [f64]) {
    let (now, before) = memory.split_at_mut(view.dim());
    before.copy_from_slice(now);
    if !mixed {
        return now.copy_from_slice(view.own());
    }
    view.mix(now);
    for (now, own) in now.iter_mut().zip(view.own()) {
        *now = 0.5 * (*now + own);
    }
}

/// x^k.
pub(super) fn model(view: &View<'_>, memory: &[f64], model: &mut [f64]) {
    model.copy_from_slice(models(view, memory).0);
}

/// After round 1 the step is a difference of two gradients, each of which moves.
pub(super) fn step_sensitivity(alpha: f64, round: u32, gradient: &Sensitivity) -> Sensitivity {
    gradient.scaled(if round == 1 { alpha } else { 2.0 * alpha })
}

/// Refuses a step that is not a positive number; says where one at 2/M or beyond leads.
pub(super) fn check(alpha: f64, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
    positive("step", alpha)?;
    let limit = 2.0 / facts.smoothness;
    Ok((alpha >= limit).then(|| {
        format!(
            "predicted unstable: step = {alpha} is not below 2/M = {limit:.3}; use a smaller step"
        )
    }))
}

/// Both methods converge for α < 2/M whatever the graph is (Li, Shi and Yan, 2019, Theorem 1), for
/// ½(I+W) has no negative eigenvalue.
pub(super) fn assess(alpha: f64, inputs: &TheoremInputs) -> Assessment {
    let product = alpha * inputs.facts.smoothness;
    let theorem = "Li, Shi and Yan (2019), Theorem 1";
    if inputs.constraint != crate::problem::Constraint::None {
        return dgd::open(product, "messages, not models, are moved into the constraint set");
    }
    if product < 2.0 {
        return Assessment {
            promise: Some("without noise every agent reaches the optimum".into()),
            ..Assessment::new(
                crate::theory::Certainty::Certified,
                theorem,
                format!("step·M = {} < 2", short(product)),
            )
        };
    }
    let mut nearest = Parameters::new();
    nearest.insert("step".into(), (1.98 / inputs.facts.smoothness).into());
    let why = format!("{theorem}: step·M = {} is not below 2", short(product));
    Assessment { nearest_certified: Some(nearest), ..dgd::open(product, &why) }
}

/// Makes a type with a constant `step` an algorithm of this recursion.
macro_rules! recursion {
    ($type:ty, $kind:literal, $mixed:expr) => {
        impl $type {
            fn alpha(&self) -> f64 {
                self.step.unwrap_or(f64::NAN)
            }
        }

        impl Protocol for $type {
            fn kind(&self) -> &'static str {
                $kind
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
                exact_diffusion::step_sensitivity(self.alpha(), round, gradient)
            }

            fn interval(&self, view: &View<'_>, memory: &[f64], low: &mut [f64], high: &mut [f64]) {
                exact_diffusion::interval(self.alpha(), view, memory, low, high);
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
                exact_diffusion::step(self.alpha(), view, memory, local, work, step);
            }

            fn keep(&self, view: &View<'_>, memory: &mut [f64]) {
                exact_diffusion::keep(view, memory);
            }

            fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
                let mixed: fn(u32) -> bool = $mixed;
                exact_diffusion::absorb(mixed(view.round()), view, memory);
            }

            fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
                exact_diffusion::model(view, memory, model);
            }
        }

        impl Configured for $type {
            fn resolve(&mut self, facts: &PublicFacts) {
                self.step.get_or_insert(1.0 / facts.smoothness);
            }

            fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
                exact_diffusion::check(self.alpha(), facts)
            }

            fn parameters(&self) -> Parameters {
                table_of(self)
            }
        }

        impl Assessed for $type {
            fn assess(&self, inputs: &TheoremInputs) -> Assessment {
                exact_diffusion::assess(self.alpha(), inputs)
            }
        }
    };
}
pub(super) use recursion;

use super::exact_diffusion;
recursion!(ExactDiffusion, "exact-diffusion", |_| true);
