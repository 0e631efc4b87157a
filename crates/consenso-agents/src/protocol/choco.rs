//! CHOCO-SGD: descent with compressed messages (Koloskova, Stich and Jaggi, 2019).

use super::compressed::{self, Compressor};
use super::parameters::share;
use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Parts, Protocol, PublicFacts, Schedule,
    View, dgd, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// x^½ = x − η∇f(x), x̂⁺ = x̂ + C(x^½ − x̂), x⁺ = x^½ + γ(Wx̂⁺ − x̂⁺), with C a compressor.
///
/// x^½ is released with its noise and charged; what is sent is x̂⁺, of which neighbours need the
/// compressed change alone. All else is a function of releases, so that compression costs no
/// privacy and one record moves a release by η times what it moves a gradient.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Choco {
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

impl Default for Choco {
    fn default() -> Self {
        let (compression, keep) = (Compressor::default(), compressed::KEEP);
        Self { step: None, consensus_step: None, compression, keep }
    }
}

impl Choco {
    fn gamma(&self) -> f64 {
        self.consensus_step.unwrap_or(f64::NAN)
    }

    /// x.
    fn point<'a>(view: &View<'a>, memory: &'a [f64]) -> &'a [f64] {
        if view.round() == 0 { view.own() } else { &memory[..view.dim()] }
    }
}

impl Protocol for Choco {
    fn kind(&self) -> &'static str {
        "choco"
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

    /// x and x^½.
    fn memory(&self) -> usize {
        2
    }

    fn bytes(&self, width: usize) -> u64 {
        self.compression.bytes(self.keep, width)
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
        for (low, x) in low.iter_mut().zip(Self::point(view, memory)) {
            *low = x - shrink * x;
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
        local.data_gradient(Self::point(view, memory.public), step, work);
        let eta = dgd::eta(self.step.as_ref(), view.round() + 1);
        step.iter_mut().for_each(|s| *s *= -eta);
    }

    fn remember(&self, release: &[f64], memory: &mut [f64]) {
        memory[release.len()..].copy_from_slice(release);
    }

    fn send(&self, view: &View<'_>, _: &[f64], out: &mut [f64]) {
        self.compression.change(self.keep, view.own(), out);
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let (x, half) = memory.split_at_mut(view.dim());
        view.mix(x);
        for ((x, half), own) in x.iter_mut().zip(half).zip(view.own()) {
            *x = *half + self.gamma() * (*x - own);
        }
        view.constraint().project(x);
    }

    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        model.copy_from_slice(Self::point(view, memory));
    }
}

impl Configured for Choco {
    /// The step of descent; γ as large as the share of a change that is left, for copies that lag
    /// behind say little.
    fn resolve(&mut self, facts: &PublicFacts) {
        self.step.get_or_insert_with(|| dgd::default_step(facts));
        let left = match self.compression {
            Compressor::TopK => self.keep,
            Compressor::Sign => compressed::KEEP,
        };
        self.consensus_step.get_or_insert(left.clamp(0.05, 1.0));
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

impl Assessed for Choco {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let largest = (1..=inputs.facts.rounds.max(1))
            .map(|k| dgd::eta(self.step.as_ref(), k))
            .fold(0.0, f64::max);
        let why = "the theorem allows far shorter consensus steps than work";
        dgd::open(largest * inputs.facts.smoothness, why)
    }
}
