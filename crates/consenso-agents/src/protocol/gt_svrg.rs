//! GT-SVRG: gradient tracking by samples of the records, with a variance that vanishes (Xin, Khan
//! and Kar, 2020).

use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Partial, Parts, Protocol, PublicFacts,
    Randomized, Remembering, View, dgd, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::random::{Purpose, Seed};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// v = ∇f_S(x) − ∇f_S(τ) + ∇f(τ), with τ the model at the last full gradient and S a fresh sample of
/// the records; x⁺ = W(x − ηy), y⁺ = Wy + v⁺ − v. Every `period` rounds τ = x, and v = ∇f(x).
///
/// Messages and corrections are those of [`AtcTracking`](super::AtcTracking): (x, y), y = c + v and
/// c⁺ = c − y + Wy. A round reads two samples instead of all records, and both parts of v come
/// together at the optimum, so that a constant step is exact.
///
/// Where records are private, samples are those of `batch`, which nobody but their agent knows; every
/// round takes all records without it. One record moves a message by 2L·R/b in every round, through
/// ∇f(τ), and by 2L·R/(qb) more in those that draw it, for a slope of one sign changes by no more
/// than it can be. What both cost together is proved in [`sampled`](crate::privacy::sampled); the
/// noise must be Gaussian.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GtSvrg {
    /// η.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// q: the chance of a record to be in a sample where no record is private and `batch` is left
    /// out.
    pub share: f64,
    /// Rounds from one full gradient to the next; twice as many as samples make up all records if
    /// left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<u32>,
    /// Whether records are private.
    #[serde(skip)]
    private: bool,
}

impl Default for GtSvrg {
    fn default() -> Self {
        Self { step: None, share: 0.1, period: None, private: false }
    }
}

impl GtSvrg {
    /// Steps, for records that nobody hides and of which a share is drawn.
    #[must_use]
    pub fn new(step: f64, share: f64, period: u32) -> Self {
        Self { step: Some(step), share, period: Some(period), private: false }
    }

    fn eta(&self) -> f64 {
        self.step.unwrap_or(f64::NAN)
    }

    fn period(&self) -> u32 {
        self.period.unwrap_or(1).max(1)
    }

    /// Whether round `round` (from 1) takes a full gradient.
    fn is_full(&self, round: u32) -> bool {
        (round - 1).is_multiple_of(self.period())
    }

    /// Which of so many records the coin of a round draws.
    #[must_use]
    pub fn sample(&self, coin: f64, records: usize) -> Vec<usize> {
        let mut stream = Seed::from(coin.to_bits()).stream(Purpose::Coins, 0, 0);
        crate::privacy::sampled::draw(&mut stream, self.share, records)
    }

    /// x, c, τ and the coin.
    fn state<'a>(view: &View<'a>, memory: &'a [f64]) -> (&'a [f64], &'a [f64], &'a [f64], f64) {
        let dim = view.dim() / 2;
        let (x, c) = memory[..2 * dim].split_at(dim);
        let coin = memory[3 * dim];
        if view.round() == 0 {
            return (&view.own()[..dim], c, &view.own()[..dim], coin);
        }
        (x, c, &memory[2 * dim..3 * dim], coin)
    }
}

impl Protocol for GtSvrg {
    fn kind(&self) -> &'static str {
        "gt-svrg"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { varying: true, intervals: false, batches: true, ..Capabilities::default() }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            configured: Some(self),
            assessed: Some(self),
            partial: Some(self),
            tossing: Some(self),
            remembering: Some(self),
            ..Parts::default()
        }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn width(&self, dim: usize) -> usize {
        2 * dim
    }

    /// x and c; τ and the coin.
    fn memory(&self) -> usize {
        2
    }

    /// ∇f(τ).
    fn private_memory(&self) -> usize {
        1
    }

    /// That of ∇f_S(x) − ∇f_S(τ), or of a full gradient where none is drawn.
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
        let (x, c, _, _) = Self::state(view, memory);
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
        let (x, _, snapshot, coin) = Self::state(view, memory.public);
        let full = &mut memory.private[..x.len()];
        let drawn = local.drawn();
        let whole = drawn.as_ref().map_or(local, |drawn| &drawn.whole);
        let sample = match &drawn {
            Some(_) => Some(local.clone()),
            None if self.private => None,
            None => {
                let records = local.site_weight().records;
                local.of_some(&self.sample(coin, records), self.share * records as f64)
            }
        };
        let Some(sample) = sample.filter(|_| !self.is_full(view.round() + 1)) else {
            // Costs have no records to draw: every gradient is the full one.
            whole.data_gradient(x, step, work);
            return full.copy_from_slice(step);
        };
        sample.data_gradient(snapshot, step, work);
        full.iter().zip(step.iter_mut()).for_each(|(full, s)| *s = full - *s);
        let mut here = vec![0.0; x.len()];
        sample.data_gradient(x, &mut here, work);
        step.iter_mut().zip(here).for_each(|(s, here)| *s += here);
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let dim = view.dim() / 2;
        let (state, later) = memory.split_at_mut(2 * dim);
        let (x, c) = state.split_at_mut(dim);
        let (eta, own) = (self.eta(), &view.own()[dim..]);
        if view.round() == 1 {
            // The first full gradient was taken at the start, which messages begin with.
            later[..dim].copy_from_slice(&view.own()[..dim]);
        }
        let mut tracked = vec![0.0; dim];
        view.mix_from(dim, &mut tracked);
        view.mix_from(0, x);
        for (l, tracked) in tracked.iter().enumerate() {
            c[l] += tracked - own[l];
            x[l] -= eta * tracked;
        }
        view.constraint().project(x);
        if self.is_full(view.round() + 1) {
            later[..dim].copy_from_slice(x);
        }
    }

    /// x once the exchange is taken in; one step behind before.
    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        model.copy_from_slice(Self::state(view, memory).0);
    }
}

impl Configured for GtSvrg {
    /// Half the descent limit for full gradients, and as much shorter as samples have fewer records
    /// to agree on a slope.
    fn resolve(&mut self, facts: &PublicFacts) {
        self.private = facts.private;
        let share = self.share.clamp(1e-3, 1.0);
        self.period.get_or_insert((2.0 / share).ceil() as u32);
        self.step.get_or_insert(0.5 * share.sqrt() / facts.smoothness);
    }

    fn check(&self, _: &PublicFacts) -> Result<Option<String>, ConfigError> {
        if !(self.share > 0.0 && self.share <= 1.0) {
            let text = format!("share must be above 0 and up to 1, not {}", self.share);
            return Err(ConfigError::at("share", text));
        }
        if self.period == Some(0) {
            return Err(ConfigError::at("period", "period must be at least 1"));
        }
        let eta = self.eta();
        if eta > 0.0 && eta.is_finite() {
            return Ok(None);
        }
        Err(ConfigError::at("step", format!("step must be a positive number, not {eta}")))
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for GtSvrg {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let why = "theorems for agents of different curvature allow far shorter steps than work";
        dgd::open(self.eta() * inputs.facts.smoothness, why)
    }
}

impl Partial for GtSvrg {
    fn active(&self, _: u32, width: usize) -> Vec<u32> {
        (width as u32 / 2..width as u32).collect()
    }

    fn hold(&self, view: &View<'_>, memory: &[f64], out: &mut [f64]) {
        out[..view.dim() / 2].copy_from_slice(Self::state(view, memory).0);
    }
}

impl Randomized for GtSvrg {
    fn coins(&self) -> usize {
        1
    }

    fn toss(&self, coins: &[f64], memory: &mut [f64]) {
        let dim = memory.len() / 4;
        memory[3 * dim] = coins[0];
    }
}

impl Remembering for GtSvrg {
    /// ∇f(τ), and the full gradient of the rounds that take one.
    fn undrawn(&self, _: u32, gradient: &Sensitivity) -> f64 {
        gradient.l2
    }
}
