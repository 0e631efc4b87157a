//! Gradient tracking: every agent follows the mean gradient, so that a constant step reaches the
//! optimum (Nedić, Olshevsky and Shi, 2017).

use super::{
    Assessed, Configured, ENOUGH_STEPS, Memory, Parameters, Partial, Parts, Protocol, PublicFacts,
    Schedule, View, dgd, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, Certainty, TheoremInputs, short};
use serde::{Deserialize, Serialize};

/// x⁺ = Wx − ηy, y⁺ = Wy + ∇f(x⁺) − ∇f(x), told by running sums s = Σ y: message k + 1 is (x^k,
/// s^{k+1}), twice as long as a model, with
///
/// ```text
/// x^k     = Proj_C(Σ_j W_ij x_j^{k−1} − η(s_i^k − s_i^{k−1}))       a function of releases, which gets no noise and costs nothing
/// s^{k+1} = Σ_j W_ij s_j^k + ∇f_i(x_i^k) + Δ_i                       interval of width 0, private step ∇f_i, noise
/// ```
///
/// Without noise y = s^{k+1} − s^k makes this the recursion above. The sums are what suits privacy:
/// sending y itself would make the private step a difference of two gradients, which moves twice as
/// far as one, and the noise of every round would stay in Σ_i y_i for good. Here Σ_i(s_i^{k+1} −
/// s_i^k) holds the noise of round k + 1 alone (Pu, 2020, sends sums for the same reason).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GradientTracking {
    /// η_k.
    pub step: Option<Schedule>,
}

/// What η·M must stay below: (1 + λ_min)²/2.
///
/// Along an eigenvector of W with eigenvalue λ, and of a curvature h that all agents have, (x, y)
/// moves by the matrix with rows (λ, −η) and (h(λ − 1), λ − ηh), whose characteristic polynomial is
/// z² − (2λ − ηh)z + λ² − ηh. Its roots lie within the unit circle for ηh < (1 + λ)²/2 (Jury),
/// where λ < 1, and for ηh < 2 where λ = 1.
fn limit(facts: &PublicFacts) -> f64 {
    0.5 * (1.0 + facts.mixing_min).powi(2)
}

/// The longest step that the rule for equal curvatures allows, less a tenth; under a budget no
/// longer than what is worth spending.
fn default_step(facts: &PublicFacts) -> Schedule {
    let longest = (0.9 * limit(facts) / facts.smoothness).min(10.0);
    let share = facts.worthwhile(ENOUGH_STEPS) / f64::from(facts.rounds.max(1));
    Schedule::Constant(if facts.budget.is_some() { longest.min(share) } else { longest })
}

impl GradientTracking {
    /// Two vectors: x^k, and the s^k that it was made with. Both are functions of releases.
    fn parts<'a>(view: &View<'_>, memory: &'a [f64]) -> (&'a [f64], &'a [f64]) {
        memory.split_at(view.dim() / 2)
    }

    /// x^k, where gradients of the next message are taken.
    fn point<'a>(view: &View<'a>, memory: &'a [f64]) -> &'a [f64] {
        if view.round() == 0 { &view.own()[..view.dim() / 2] } else { Self::parts(view, memory).0 }
    }
}

impl Protocol for GradientTracking {
    fn kind(&self) -> &'static str {
        "gradient-tracking"
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
        view.mix_from(low.len(), low);
        crate::kernel::axpy(view.regularization(), Self::point(view, memory), low);
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
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let dim = view.dim() / 2;
        let (x, before) = memory.split_at_mut(dim);
        let (eta, now) = (dgd::eta(self.step.as_ref(), view.round()), &view.own()[dim..]);
        view.mix_from(0, x);
        for ((x, now), before) in x.iter_mut().zip(now).zip(&*before) {
            *x -= eta * (now - before);
        }
        view.constraint().project(x);
        before.copy_from_slice(now);
    }

    /// x^k once the exchange is taken in; one step behind before.
    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        model.copy_from_slice(Self::point(view, memory));
    }
}

impl Configured for GradientTracking {
    fn resolve(&mut self, facts: &PublicFacts) {
        self.step.get_or_insert_with(|| default_step(facts));
    }

    fn default_rounds(&self, facts: &PublicFacts) -> u32 {
        let longest = default_step(&PublicFacts { rounds: 0, budget: None, ..*facts }).at(1);
        let enough = (facts.worthwhile(ENOUGH_STEPS) / longest).clamp(30.0, 200.0) as u32;
        if facts.budget.is_some() { enough.max((4 * facts.agents).min(400) as u32) } else { enough }
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        dgd::check_step(self.step.as_ref(), facts)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for GradientTracking {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let facts = &inputs.facts;
        let largest =
            (1..=facts.rounds.max(1)).map(|k| dgd::eta(self.step.as_ref(), k)).fold(0.0, f64::max);
        let (product, limit) = (largest * facts.smoothness, limit(facts));
        let why = "theorems for agents of different curvature allow far shorter steps than work";
        let rule = "linear analysis for agents of equal curvature";
        if product < limit {
            let inequality =
                format!("step·M = {} < (1 + λ_min(W))²/2 = {}", short(product), short(limit));
            return Assessment {
                promise: Some("without noise every agent reaches the optimum".into()),
                not_certified: Some(why.into()),
                ..Assessment::new(Certainty::PredictedStable, rule, inequality)
            };
        }
        let inequality =
            format!("step·M = {} ≥ (1 + λ_min(W))²/2 = {}", short(product), short(limit));
        Assessment { not_certified: Some(why.into()), ..Assessment::open(inequality) }
    }
}

impl Partial for GradientTracking {
    fn active(&self, _: u32, width: usize) -> Vec<u32> {
        (width as u32 / 2..width as u32).collect()
    }

    fn hold(&self, view: &View<'_>, memory: &[f64], out: &mut [f64]) {
        out[..view.dim() / 2].copy_from_slice(Self::point(view, memory));
    }
}
