//! DP-CSGP: push-sum with compressed messages, over links that lead one way (Zhu, Zhao, Huang, Zhou,
//! Ji and Xu, 2025; Taheri, Mokhtari, Hassani and Pedarsani, 2020).

use super::compressed::{self, Compressor};
use super::parameters::share;
use super::push_sum::{like_push_sum, weight};
use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Partial, Parts, Protocol, PublicFacts,
    PushSum, Schedule, View, dgd, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// h = x − η∇f(z), x̂⁺ = x̂ + C(h − x̂), x⁺ = h + γ(Px̂⁺ − x̂⁺), w⁺ = w + γ(Pw − w), z = x/w, with
/// weights P whose columns sum to one and a compressor C.
///
/// h is released with its noise and charged; what is sent is x̂⁺, of which neighbours need the
/// compressed change alone, and w, one number more. All else is a function of releases, so that
/// compression costs no privacy and one record moves a release by η times what it moves a gradient.
/// Columns that sum to one leave Σ_i x_i = Σ_i h_i, whatever was lost in compression; x and w are
/// mixed by the same weights (1 − γ)I + γP, so that z is a model for every γ. Where links lead both
/// ways w stays 1, and this is [`Choco`](super::Choco).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DpCsgp {
    /// η_k.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Schedule>,
    /// γ: how far an agent goes towards what its neighbours' copies say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consensus_step: Option<f64>,
    /// What is left of a change.
    pub compression: Compressor,
    /// The share of numbers that are sent, for `"top-k"`.
    pub keep: f64,
}

impl Default for DpCsgp {
    fn default() -> Self {
        let (compression, keep) = (Compressor::default(), compressed::KEEP);
        Self { step: None, consensus_step: None, compression, keep }
    }
}

impl DpCsgp {
    fn gamma(&self) -> f64 {
        self.consensus_step.unwrap_or(f64::NAN)
    }

    /// What both have in common: where (x, w, z) are kept, and what is drafted from them.
    fn descent(&self) -> PushSum {
        PushSum { step: self.step.clone() }
    }
}

impl Protocol for DpCsgp {
    fn kind(&self) -> &'static str {
        "dp-csgp"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { directed: true, intervals: false, batches: true, ..Capabilities::default() }
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

    like_push_sum!(messages);

    fn bytes(&self, width: usize) -> u64 {
        8 + self.compression.bytes(self.keep, width - 1)
    }

    /// x and w, z, and h.
    fn memory(&self) -> usize {
        3
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

    fn step(
        &self,
        view: &View<'_>,
        memory: Memory<'_>,
        point: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        self.descent().step(view, memory, point, local, work, step);
    }

    fn remember(&self, release: &[f64], memory: &mut [f64]) {
        memory[2 * release.len()..].copy_from_slice(release);
    }

    fn send(&self, view: &View<'_>, _: &[f64], out: &mut [f64]) {
        let dim = view.dim() - 1;
        self.compression.change(self.keep, &view.own()[..dim], &mut out[..dim]);
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let (dim, own, gamma) = (view.dim() - 1, view.own(), self.gamma());
        let (state, half) = memory.split_at_mut(2 * view.dim());
        let (x, z) = state.split_at_mut(dim + 1);
        view.mix_from(0, &mut x[..dim]);
        for ((x, half), own) in x.iter_mut().zip(&half[..dim]).zip(own) {
            *x = half + gamma * (*x - own);
        }
        x[dim] = own[dim] + gamma * (weight(view, dim) - own[dim]);
        z.iter_mut().zip(&x[..dim]).for_each(|(z, l)| *z = l / (1.0 + x[dim]));
    }

    /// Says again what it said: its copy does not change.
    fn idle(&self, view: &View<'_>, out: &mut [f64]) {
        out.copy_from_slice(view.own());
    }
}

impl Configured for DpCsgp {
    /// The step of descent; γ as large as the share of a change that is left, as in
    /// [`Choco`](super::Choco).
    fn resolve(&mut self, facts: &PublicFacts) {
        self.step.get_or_insert_with(|| dgd::default_step(facts));
        self.consensus_step.get_or_insert(self.compression.consensus_step(self.keep));
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        compressed::check_keep(self.keep)?;
        share("consensus_step", self.gamma())?;
        dgd::check_step(self.step.as_ref(), facts)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for DpCsgp {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let why = "the theorem allows far shorter consensus steps than work";
        dgd::open(dgd::longest(self.step.as_ref(), &inputs.facts) * inputs.facts.smoothness, why)
    }
}

impl Partial for DpCsgp {
    like_push_sum!(active);
}
