//! Dyn-D²P: push-sum whose clip and noise shrink from round to round (Zhu, Huang, Wang, Ji and Xu,
//! 2025).

use super::push_sum::like_push_sum;
use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Partial, Parts, Protocol, PublicFacts,
    PushSum, Relaying, Schedule, View, dgd, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// [`PushSum`] with gradients that are clipped to a share c_k of what a record's may be, and with
/// noise that shrinks with the clip and beyond it, by public rules:
///
/// ```text
/// c_k = c·ρ_c^(−(k−1)/K)            of the largest slope that the loss has
/// μ_k = μ_1·ρ_μ^((k−1)/K)           the Gaussian-DP budget of round k of K: σ_k = ηc_k·B₂/μ_k
/// ```
///
/// One record moves a message by η·c_k times what it moves a gradient that is not clipped: where
/// the loss has a slope per record it is the slope that is clipped; elsewhere (several classes,
/// families whose slopes are not symmetric) the gradient is multiplied by c_k, which shortens it as
/// much. The budgets μ_k² add up to that of the run, whatever the rules are.
///
/// By their abstract, which is all that was read, its authors let the clip follow how far gradients
/// have converged; here it follows a fixed public rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DynD2p {
    /// η_k.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Schedule>,
    /// c: the share of the largest slope that counts in the first round.
    pub first_clip: f64,
    /// ρ_c: how many times smaller the clip is at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_decay: Option<f64>,
    /// ρ_μ: how many times the budget of the last round is that of the first.
    pub budget_growth: f64,
    /// K.
    #[serde(skip)]
    rounds: u32,
}

impl Default for DynD2p {
    fn default() -> Self {
        Self { step: None, first_clip: 1.0, clip_decay: None, budget_growth: 2.0, rounds: 0 }
    }
}

impl DynD2p {
    /// ρ^((k−1)/K).
    fn power(&self, base: f64, round: u32) -> f64 {
        libm::pow(base, f64::from(round - 1) / f64::from(self.rounds.max(1)))
    }

    /// c_k.
    #[must_use]
    pub fn clip(&self, round: u32) -> f64 {
        (self.first_clip / self.power(self.clip_decay.unwrap_or(1.0), round)).min(1.0)
    }

    /// Steps, the first clip and how it shrinks over so many rounds.
    #[must_use]
    pub fn new(step: Schedule, first_clip: f64, clip_decay: f64, rounds: u32) -> Self {
        let (step, clip_decay) = (Some(step), Some(clip_decay));
        Self { step, first_clip, clip_decay, rounds, ..Self::default() }
    }

    fn descent(&self) -> PushSum {
        PushSum { step: self.step.clone() }
    }
}

impl Protocol for DynD2p {
    fn kind(&self) -> &'static str {
        "dyn-d2p"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { directed: true, varying: true, intervals: false, ..Capabilities::default() }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            configured: Some(self),
            assessed: Some(self),
            partial: Some(self),
            relaying: Some(self),
            ..Parts::default()
        }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    like_push_sum!(messages);
    like_push_sum!(mixing);

    fn step_sensitivity(
        &self,
        round: u32,
        _: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        gradient.scaled(dgd::eta(self.step.as_ref(), round) * self.clip(round))
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
        let (_, _, z) = PushSum::state(view, memory.public);
        let round = view.round() + 1;
        local.clipped_gradient(self.clip(round), z, step, work);
        let eta = dgd::eta(self.step.as_ref(), round);
        step.iter_mut().for_each(|s| *s *= -eta);
    }
}

impl Configured for DynD2p {
    /// Where nothing is private nothing is clipped.
    fn resolve(&mut self, facts: &PublicFacts) {
        self.rounds = facts.rounds;
        self.clip_decay.get_or_insert(if facts.private { 2.0 } else { 1.0 });
        self.step.get_or_insert_with(|| dgd::default_step(facts));
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        if !(self.first_clip > 0.0 && self.first_clip <= 1.0) {
            let text = format!("first_clip must be above 0 and up to 1, not {}", self.first_clip);
            return Err(ConfigError::at("first_clip", text));
        }
        let decay = self.clip_decay.unwrap_or(1.0);
        for (key, value) in [("clip_decay", decay), ("budget_growth", self.budget_growth)] {
            if !(1.0..=1e6).contains(&value) {
                let text = format!("{key} must lie between 1 and a million, not {value}");
                return Err(ConfigError::at(key, text));
            }
        }
        dgd::check_step(self.step.as_ref(), facts)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for DynD2p {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let why = "clipped gradients end at another point than the optimum; no theorem here says how far from it";
        dgd::working(dgd::longest(self.step.as_ref(), &inputs.facts) * inputs.facts.smoothness, why)
    }
}

impl Partial for DynD2p {
    like_push_sum!(active);
}

impl Relaying for DynD2p {
    fn passes_on(&self, _: u32) -> bool {
        false
    }

    fn shares(&self) -> Option<Vec<f64>> {
        let part = |round: u32| self.power(self.budget_growth, round).powi(2);
        let all: f64 = (1..=self.rounds).map(part).sum();
        Some((1..=self.rounds).map(|round| part(round) / all).collect())
    }
}
