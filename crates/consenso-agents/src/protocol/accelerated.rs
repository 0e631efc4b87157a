//! Accelerated descent by noised gradients, as in the accelerated ISRL-DP method (Ghadimi and Lan,
//! 2012; Lowy and Razaviyayn, 2023).

use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Parts, Protocol, PublicFacts, View,
    dgd, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// v = (1 − α)a + αw, w⁺ = W(w − (k/2)η∇f(v)), a⁺ = (1 − α)a + αw⁺, with α = 2/(k + 1) and k the
/// number of the round in its phase: the models are a.
///
/// Messages are w_i − (k/2)η∇f_i(v_i) + Δ_i, so that w, a and v are functions of releases. On a
/// complete graph all agents have the same v, and this is the method that its authors give for
/// silos with a server. Where f is strongly convex a phase ends after `phase` rounds, and the next
/// begins with w = a and k = 1.
///
/// One record moves a message by (k/2)η times what it moves a gradient, for nothing else in it
/// depends on the records.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Accelerated {
    /// η.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// Rounds after which it begins again from where it is; one phase if left out, unless the
    /// records are not private and f is strongly convex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<u32>,
}

impl Accelerated {
    /// k, the number of a round (from 1) in its phase.
    fn place(&self, round: u32) -> f64 {
        let within = self.phase.map_or(round - 1, |phase| (round - 1) % phase.max(1));
        f64::from(within + 1)
    }

    /// (k/2)η.
    fn length(&self, round: u32) -> f64 {
        0.5 * self.place(round) * self.step.unwrap_or(f64::NAN)
    }

    /// α.
    fn weight(&self, round: u32) -> f64 {
        2.0 / (self.place(round) + 1.0)
    }

    /// w and a.
    fn state<'a>(view: &View<'a>, memory: &'a [f64]) -> (&'a [f64], &'a [f64]) {
        if view.round() == 0 { (view.own(), view.own()) } else { memory.split_at(view.dim()) }
    }

    /// v.
    fn middle(&self, view: &View<'_>, memory: &[f64], v: &mut [f64]) {
        let alpha = self.weight(view.round() + 1);
        let (w, a) = Self::state(view, memory);
        for ((v, w), a) in v.iter_mut().zip(w).zip(a) {
            *v = (1.0 - alpha) * a + alpha * w;
        }
    }
}

impl Protocol for Accelerated {
    fn kind(&self) -> &'static str {
        "accelerated"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { intervals: false, batches: true, ..Capabilities::default() }
    }

    fn parts(&self) -> Parts<'_> {
        Parts { configured: Some(self), assessed: Some(self), ..Parts::default() }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    /// w and a.
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
        gradient.scaled(self.length(round))
    }

    fn interval(&self, view: &View<'_>, memory: &[f64], low: &mut [f64], high: &mut [f64]) {
        self.middle(view, memory, low);
        let shrink = self.length(view.round() + 1) * view.regularization();
        for (low, w) in low.iter_mut().zip(Self::state(view, memory).0) {
            *low = w - shrink * *low;
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
        let mut v = vec![0.0; view.dim()];
        self.middle(view, memory.public, &mut v);
        local.data_gradient(&v, step, work);
        let length = self.length(view.round() + 1);
        step.iter_mut().for_each(|s| *s *= -length);
    }

    /// Takes in the start before the first exchange changes it.
    fn keep(&self, view: &View<'_>, memory: &mut [f64]) {
        if view.round() == 0 {
            memory[view.dim()..].copy_from_slice(view.own());
        }
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let alpha = self.weight(view.round());
        let (w, a) = memory.split_at_mut(view.dim());
        view.mix(w);
        a.iter_mut().zip(&*w).for_each(|(a, w)| *a = (1.0 - alpha) * *a + alpha * w);
        if self.phase.is_some_and(|phase| view.round().is_multiple_of(phase.max(1))) {
            w.copy_from_slice(a);
        }
    }

    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        model.copy_from_slice(Self::state(view, memory).1);
    }
}

impl Configured for Accelerated {
    /// 1/M, the longest step that is proved with exact gradients. A budget pays for T = Σ η_k as it
    /// does in [`Dgd`](super::Dgd), and steps here add up to K(K + 1)/4 of them.
    fn resolve(&mut self, facts: &PublicFacts) {
        let rounds = f64::from(facts.rounds.max(1));
        let share = 4.0 * facts.worthwhile(super::ENOUGH_STEPS) / (rounds * (rounds + 1.0));
        let proved = 1.0 / facts.smoothness;
        let step = if facts.budget.is_some() { proved.min(share) } else { proved };
        self.step.get_or_insert(step);
        if !facts.private && facts.strong_convexity > 0.0 {
            let condition = facts.smoothness / facts.strong_convexity;
            self.phase.get_or_insert(((8.0 * condition).sqrt().ceil() as u32).max(1));
        }
    }

    /// Fewer than descent takes: n steps of it go as far as about √n of these.
    fn default_rounds(&self, facts: &PublicFacts) -> u32 {
        let enough = (4.0 * facts.worthwhile(super::ENOUGH_STEPS) * facts.smoothness).sqrt();
        let most = if facts.private { 200.0 } else { 500.0 };
        enough.clamp(20.0, most) as u32
    }

    fn check(&self, _: &PublicFacts) -> Result<Option<String>, ConfigError> {
        if self.phase == Some(0) {
            return Err(ConfigError::at("phase", "phase must be at least 1"));
        }
        let eta = self.step.unwrap_or(f64::NAN);
        if eta > 0.0 && eta.is_finite() {
            return Ok(None);
        }
        Err(ConfigError::at("step", format!("step must be a positive number, not {eta}")))
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for Accelerated {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let product = self.step.unwrap_or(f64::NAN) * inputs.facts.smoothness;
        let why = "theorems of accelerated descent are for one model, which agents of a complete graph have, \
                   and for noise that is the same in all rounds";
        dgd::open(product, why)
    }
}
