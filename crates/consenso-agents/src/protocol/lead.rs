//! LEAD: an exact method with compressed messages (Liu, Li, Wang, Tang and Yan, 2021).

use super::compressed::{self, Compressor};
use super::parameters::{positive, share};
use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Parts, Protocol, PublicFacts, View,
    dgd, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// y = x − η∇f(x) − ηd, ŷ = h + C(y − h), h⁺ = (1 − α)h + αŷ, d⁺ = d + γ/(2η)·(ŷ − Wŷ), x⁺ = x −
/// η∇f(x) − ηd⁺, with C a compressor.
///
/// y is released with its noise and charged; what is sent is ŷ, of which neighbours need the
/// compressed change alone. x⁺ = y − ½γ(ŷ − Wŷ) is a function of releases like all else, so that
/// one record moves a release by η times what it moves a gradient. Without compression it is exact
/// diffusion.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lead {
    /// η.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// γ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consensus_step: Option<f64>,
    /// α: how fast what changes are measured from follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_step: Option<f64>,
    /// What is left of a change.
    pub compression: Compressor,
    /// The share of numbers that are sent, for `"top-k"`.
    pub keep: f64,
}

impl Default for Lead {
    fn default() -> Self {
        let (compression, keep) = (Compressor::default(), compressed::KEEP);
        Self { step: None, consensus_step: None, memory_step: None, compression, keep }
    }
}

impl Lead {
    fn eta(&self) -> f64 {
        self.step.unwrap_or(f64::NAN)
    }

    fn gamma(&self) -> f64 {
        self.consensus_step.unwrap_or(f64::NAN)
    }

    fn alpha(&self) -> f64 {
        self.memory_step.unwrap_or(f64::NAN)
    }

    /// x, then d.
    fn state<'a>(view: &View<'a>, memory: &'a [f64]) -> (&'a [f64], &'a [f64]) {
        let dim = view.dim();
        let x = if view.round() == 0 { view.own() } else { &memory[..dim] };
        (x, &memory[dim..2 * dim])
    }
}

impl Protocol for Lead {
    fn kind(&self) -> &'static str {
        "lead"
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

    /// x, d, y and h.
    fn memory(&self) -> usize {
        4
    }

    fn bytes(&self, width: usize) -> u64 {
        self.compression.bytes(self.keep, width)
    }

    fn step_sensitivity(
        &self,
        _: u32,
        _: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        gradient.scaled(self.eta())
    }

    fn interval(&self, view: &View<'_>, memory: &[f64], low: &mut [f64], high: &mut [f64]) {
        let ((x, d), shrink) = (Self::state(view, memory), self.eta() * view.regularization());
        for ((low, x), d) in low.iter_mut().zip(x).zip(d) {
            *low = x - shrink * x - self.eta() * d;
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
        step.iter_mut().for_each(|s| *s *= -self.eta());
    }

    fn remember(&self, release: &[f64], memory: &mut [f64]) {
        let dim = release.len();
        memory[2 * dim..3 * dim].copy_from_slice(release);
    }

    fn send(&self, view: &View<'_>, memory: &[f64], out: &mut [f64]) {
        self.compression.change(self.keep, &memory[3 * view.dim()..], out);
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let dim = view.dim();
        let (x, rest) = memory.split_at_mut(dim);
        view.mix(x);
        for (l, (x, own)) in x.iter_mut().zip(view.own()).enumerate() {
            let apart = own - *x;
            rest[l] += 0.5 * self.gamma() / self.eta() * apart;
            *x = rest[dim + l] - 0.5 * self.gamma() * apart;
            let base = &mut rest[2 * dim + l];
            *base += self.alpha() * (own - *base);
        }
        view.constraint().project(x);
    }

    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        model.copy_from_slice(Self::state(view, memory).0);
    }
}

impl Configured for Lead {
    fn resolve(&mut self, facts: &PublicFacts) {
        self.step.get_or_insert(0.5 / facts.smoothness);
        let left = match self.compression {
            Compressor::TopK => self.keep,
            Compressor::Sign => compressed::KEEP,
        };
        self.consensus_step.get_or_insert(left.clamp(0.05, 1.0));
        self.memory_step.get_or_insert(left.clamp(0.05, 1.0));
    }

    fn check(&self, _: &PublicFacts) -> Result<Option<String>, ConfigError> {
        compressed::check_keep(self.keep)?;
        positive("step", self.eta())?;
        share("consensus_step", self.gamma())?;
        share("memory_step", self.alpha())?;
        Ok(None)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for Lead {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let product = self.eta() * inputs.facts.smoothness;
        dgd::open(product, "the theorem has constants of the compressor that are not computed here")
    }
}
