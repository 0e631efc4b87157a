//! ProxSkip: gradient steps of one's own, and an exchange by chance (Mishchenko, Malinovsky, Stich
//! and Richtárik, 2022; Guo, Alghunaim, Yuan, Condat and Cao, 2024, without a server).

use super::parameters::{positive, share};
use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Parts, Protocol, PublicFacts, View,
    dgd, local_steps, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::random::{Purpose, Seed};
use crate::theory::{Assessment, TheoremInputs};
use rand::RngExt;
use serde::{Deserialize, Serialize};

/// z = x − α∇f(x) − y. With chance p, the same for all agents, x⁺ = W_a z and y⁺ = y + β(z − x⁺),
/// W_a = I − (I − W)/(2χ); otherwise x⁺ = z and nothing is sent.
///
/// A round here ends with an exchange, after as many steps as the coins say, which everybody knows.
/// It is [LED](super::Led) with a random number of local steps. Where records are private p must be
/// 1.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProxSkip {
    /// α.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<f64>,
    /// β.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dual_step: Option<f64>,
    /// p; without a value 1 where records are private, and 0.5 elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// χ, 1 or more.
    pub chi: f64,
    /// The seed of the coins.
    pub seed: u64,
}

impl Default for ProxSkip {
    fn default() -> Self {
        Self { step: None, dual_step: None, probability: None, chi: 1.0, seed: 0 }
    }
}

/// No round has more steps than that: the coins of a chance of 0.01 stop before with all but 5e-5.
const MOST_STEPS: u32 = 1000;

impl ProxSkip {
    fn alpha(&self) -> f64 {
        self.step.unwrap_or(f64::NAN)
    }

    fn beta(&self) -> f64 {
        self.dual_step.unwrap_or(f64::NAN)
    }

    fn chance(&self) -> f64 {
        self.probability.unwrap_or(1.0)
    }

    /// How many gradient steps stand before the exchange of round `round` (from 1): coins are
    /// tossed until one falls on an exchange.
    #[must_use]
    pub fn steps(&self, round: u32) -> u32 {
        if self.chance() >= 1.0 {
            return 1;
        }
        let mut coins = Seed::from(self.seed).stream(Purpose::Public, 0, u64::from(round));
        (1..MOST_STEPS).find(|_| coins.random::<f64>() < self.chance()).unwrap_or(MOST_STEPS)
    }

    /// x_i and y_i/β.
    fn state<'a>(view: &View<'a>, memory: &'a [f64]) -> (&'a [f64], &'a [f64]) {
        let (x, y) = memory.split_at(view.dim());
        (if view.round() == 0 { view.own() } else { x }, y)
    }
}

impl Protocol for ProxSkip {
    fn kind(&self) -> &'static str {
        "proxskip"
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

    /// Of one step, which is all that is allowed where records are private.
    fn step_sensitivity(
        &self,
        _: u32,
        _: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        gradient.scaled(self.alpha())
    }

    fn interval(&self, view: &View<'_>, memory: &[f64], low: &mut [f64], high: &mut [f64]) {
        let (x, y) = Self::state(view, memory);
        let pull = f64::from(self.steps(view.round() + 1)) * self.beta();
        let shrink = self.alpha() * view.regularization();
        for ((low, x), y) in low.iter_mut().zip(x).zip(y) {
            *low = x - shrink * x - pull * y;
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
        let (x, y) = Self::state(view, memory.public);
        let (alpha, mu, steps) =
            (self.alpha(), view.regularization(), self.steps(view.round() + 1));
        if steps == 1 {
            local.data_gradient(x, step, work);
            return step.iter_mut().for_each(|s| *s *= -alpha);
        }
        let pull = |l: usize| self.beta() / alpha * y[l];
        local_steps::gradients_along((x, pull), (alpha, mu, steps), local, work, step);
        // The regulariser's part of the first step is public.
        step.iter_mut().zip(x).for_each(|(s, x)| *s = -alpha * (*s - mu * x));
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let (x, y) = memory.split_at_mut(view.dim());
        view.mix(x);
        for ((y, own), x) in y.iter_mut().zip(view.own()).zip(x) {
            *x = own - (own - *x) / (2.0 * self.chi);
            *y += own - *x;
        }
    }

    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        model.copy_from_slice(Self::state(view, memory).0);
    }
}

impl Configured for ProxSkip {
    /// Steps of all coins between two exchanges are as long as one of half the descent limit on
    /// average; β is such that what they pull together is, too.
    fn resolve(&mut self, facts: &PublicFacts) {
        let chance = *self.probability.get_or_insert(if facts.private { 1.0 } else { 0.5 });
        self.step.get_or_insert(0.5 * chance / facts.smoothness);
        self.dual_step.get_or_insert(0.5 * chance);
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        let chance = self.chance();
        share("probability", chance)?;
        if chance < 1.0 && facts.private {
            let text = format!(
                "probability = {chance}: how far one record moves several steps in a row is not bounded here; \
                 leave it out (1), or train without privacy"
            );
            return Err(ConfigError::at("probability", text));
        }
        if !(self.chi >= 1.0 && self.chi.is_finite()) {
            let text = format!("chi must be 1 or more, not {}", self.chi);
            return Err(ConfigError::at("chi", text));
        }
        positive("step", self.alpha())?;
        positive("dual_step", self.beta())?;
        Ok(None)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for ProxSkip {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let product = self.alpha() / self.chance() * inputs.facts.smoothness;
        dgd::open(product, "the theorem is about means over the coins")
    }
}
