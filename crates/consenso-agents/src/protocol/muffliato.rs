//! Muffliato: noise once, gossip many times (Cyffers, Even, Bellet and Massoulié, 2022).

use super::{
    Assessed, Capabilities, Configured, Drift, ENOUGH_STEPS, Memory, Parameters, Parts, Protocol,
    PublicFacts, Relaying, Schedule, View, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// Blocks of 1 + G rounds. In the first of a block every agent takes one noised gradient step from
/// the mix of what it heard, x_i⁺ = (1 − ημ)·z_i − η·∇f_i((1 − ημ)·z_i) + n_i, z_i = Σ_j W_ij x_j;
/// in the G others x_i⁺ = Σ_j W_ij x_j, which uses no record and costs nothing.
///
/// The claim is that of the noised steps alone, against everybody else: whoever sees all messages
/// sees each step with its own noise. What mixing hides from a single agent far away is not
/// claimed. One block with a step of 1 on a quadratic loss is a private mean.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Muffliato {
    /// η_k, by block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Schedule>,
    /// G: rounds of mixing after every noised one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixings: Option<u32>,
    /// How many rounds are noised.
    #[serde(skip)]
    blocks: u32,
}

/// More mixing than that between two steps is a mistake.
const MOST_MIXINGS: u32 = 1000;

impl Muffliato {
    /// Blocks of one noised step of `step` and `mixings` rounds of mixing.
    #[must_use]
    pub fn new(step: f64, mixings: u32) -> Self {
        Self { step: Some(Schedule::Constant(step)), mixings: Some(mixings), blocks: 0 }
    }

    /// Enough to shrink what tells agents apart tenfold, unless the file says.
    fn mixings(&self, facts: &PublicFacts) -> u32 {
        let rate = facts.mixing.clamp(0.0, 0.999);
        let enough = if rate < 1e-3 { 1.0 } else { (libm::log(0.1) / libm::log(rate)).ceil() };
        self.mixings.unwrap_or(enough.clamp(1.0, 20.0) as u32)
    }

    /// Rounds of a block.
    fn length(&self) -> u32 {
        1 + self.mixings.unwrap_or(1).min(MOST_MIXINGS)
    }

    fn eta(&self, round: u32) -> f64 {
        super::dgd::eta(self.step.as_ref(), (round - 1) / self.length() + 1)
    }
}

impl Protocol for Muffliato {
    fn kind(&self) -> &'static str {
        "muffliato"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { absence: true, mixes: true, intervals: false, ..Capabilities::default() }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            configured: Some(self),
            assessed: Some(self),
            relaying: Some(self),
            ..Parts::default()
        }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn step_sensitivity(
        &self,
        round: u32,
        _: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        if self.passes_on(round) {
            return Sensitivity { l1: 0.0, l2: 0.0, linf: 0.0 };
        }
        gradient.scaled(self.eta(round))
    }

    fn interval(&self, view: &View<'_>, _: &[f64], low: &mut [f64], high: &mut [f64]) {
        view.mix(low);
        let shrink = 1.0 - self.eta(view.round() + 1) * view.regularization();
        low.iter_mut().for_each(|x| *x *= shrink);
        high.copy_from_slice(low);
    }

    fn step(
        &self,
        view: &View<'_>,
        _: Memory<'_>,
        point: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        local.data_gradient(point, step, work);
        let eta = self.eta(view.round() + 1);
        step.iter_mut().for_each(|s| *s *= -eta);
    }
}

impl Configured for Muffliato {
    fn resolve(&mut self, facts: &PublicFacts) {
        self.mixings = Some(self.mixings(facts));
        self.blocks = facts.rounds.div_ceil(self.length());
        let blocks = PublicFacts { rounds: self.blocks, ..*facts };
        self.step.get_or_insert_with(|| super::dgd::default_step(&blocks));
    }

    /// As many noised steps as are worth taking, and at most 200; each with its mixing.
    fn default_rounds(&self, facts: &PublicFacts) -> u32 {
        let longest = super::dgd::default_step(&PublicFacts { rounds: 0, ..*facts }).at(1);
        let steps = (facts.worthwhile(ENOUGH_STEPS) / longest).clamp(30.0, 200.0) as u32;
        steps * (1 + self.mixings(facts).min(MOST_MIXINGS))
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        match self.mixings {
            Some(0) => {
                return Err(ConfigError::at(
                    "mixings",
                    "mixings = 0 is kind = \"dgd\": give at least 1",
                ));
            }
            Some(many) if many > MOST_MIXINGS => {
                return Err(ConfigError::at(
                    "mixings",
                    format!("mixings = {many} is more than {MOST_MIXINGS}"),
                ));
            }
            _ => {}
        }
        super::dgd::check_step(
            self.step.as_ref(),
            &PublicFacts { rounds: self.blocks.max(1), ..*facts },
        )
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for Muffliato {
    fn drift(&self, round: u32, gradient: f64, facts: &PublicFacts) -> Option<Drift> {
        if self.passes_on(round) {
            return Some(Drift { factor: 1.0, step: 0.0, linear: true });
        }
        let eta = self.eta(round);
        let shrink = 1.0 - eta * facts.strong_convexity;
        Some(Drift {
            factor: shrink.abs().max(1.0),
            step: eta.abs() * gradient,
            linear: shrink >= 0.0,
        })
    }

    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let largest = (1..=self.blocks.max(1))
            .map(|k| super::dgd::eta(self.step.as_ref(), k))
            .fold(0.0, f64::max);
        super::dgd::open(
            largest * inputs.facts.smoothness,
            "no theorem here covers steps between mixing",
        )
    }
}

impl Relaying for Muffliato {
    fn passes_on(&self, round: u32) -> bool {
        !(round - 1).is_multiple_of(self.length())
    }

    fn shares(&self) -> Option<Vec<f64>> {
        let blocks = self.blocks.max(1);
        // Steps of different lengths have noise in proportion, so that each has its part.
        let share = |round: u32| if self.passes_on(round) { 0.0 } else { 1.0 / f64::from(blocks) };
        Some((1..=blocks * self.length()).map(share).collect())
    }
}
