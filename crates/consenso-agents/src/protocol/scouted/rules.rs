//! What follows from public numbers alone: sizes of sites, columns, classes and the budget.

use super::calibration::{CALIBRATION, CALIBRATION_AIM, CALIBRATION_STEPS, calibration_clip};
use super::histograms::{LOOKS, Weights, bins, out_of_reach};
use super::training::{LEAST_LEFT, LONGEST_STEP};
use super::{MethodPart, Recipe, ScoutingRequest};
use crate::config_error::ConfigError;
use crate::data::scouted::LIMIT;
use crate::problem::Loss;

/// Share of μ² that scouting gets.
pub(super) const SCOUTING: f64 = 0.1;
/// The part of it that is kept for second looks, where there are any.
pub(super) const LOOKING: f64 = 0.4;
/// Share of the last iterates whose mean is the model.
pub(super) const AVERAGED: f64 = 0.75;
/// What a level's variance is raised by before it scales its feature: a level rarer than this
/// counts for less, the more so the noisier the run.
const RARE: (f64, f64) = (0.003, 0.1);
/// Squared deviation of the score that the noise is weighed against.
pub(super) const SIGNAL: f64 = 0.49;
/// The shortest time that is travelled, and that of an intercept.
pub(super) const SHORTEST_TIME: (f64, f64) = (3.0, 8.0);
/// Exchanges of a whole run that are aimed at, as many steps as there are at least, and as there
/// are even where a step takes many exchanges.
const EXCHANGES: u32 = 240;
const FEWEST_STEPS: (u32, u32) = (32, 24);
/// Rounds of a run without noise, which uses accelerated steps.
pub(super) const EXACT_STEPS: u32 = 400;

impl Recipe {
    /// The choices for sites with these numbers of records.
    ///
    /// # Errors
    /// Weights that do not fit.
    pub(crate) fn new(request: &ScoutingRequest, records: &[usize]) -> Result<Self, ConfigError> {
        let layout = &request.layout;
        let columns = layout.features() as f64;
        // A person's records move a histogram as often as there are of them. Their gradients are
        // clipped together, at a length that grows with the root of their number.
        let person = f64::from(request.person.max(1));
        let even =
            request.mu.map_or(0.0, |mu| person * request.change_factor * 2.0 * columns / (mu * mu));
        let weights = request
            .weights
            .of(records, even)
            .map_err(|fault| ConfigError::at("weights", format!("weights: {fault}")))?;
        let factors: Vec<f64> = weights.iter().zip(records).map(|(w, &b)| w / b as f64).collect();
        let own = request.pairwise.map_or(1.0, |(_, own)| own);
        let r = own * factors.iter().map(|f| f * f).sum::<f64>().sqrt();
        let classes = layout.classes().unwrap_or(2) as f64;
        let half = if request.has(MethodPart::Classes) { classes / 2.0 } else { classes - 1.0 };
        let per_mu = request.mu.map_or(0.0, |mu| request.change_factor / 2.0 * r / mu);
        let q = 4.0 * columns * half * per_mu * person.sqrt();
        let counted = Weights::of(layout);
        let numbers = layout.numbers() + usize::from(counted.looks_at_label(layout));
        let per_cell = |share: f64| {
            request.mu.map_or(0.0, |mu| person * r / mu * (request.change_factor / share).sqrt())
        };
        let whole = counted.length() * per_cell(counted.share());
        let looks = match request.looks {
            Some(looks) => looks,
            None if numbers == 0 || request.mu.is_none() || out_of_reach(whole, numbers) => 0,
            None if !request.has(MethodPart::Looks) => 0,
            None => LOOKS,
        };
        let first = if looks > 0 { 1.0 - LOOKING } else { 1.0 };
        let cell_noise = counted.length() * per_cell(first * counted.share());
        let look = LOOKING * counted.share() / f64::from(LOOKS);
        let per_clip = 2.0 * per_mu * (f64::from(CALIBRATION_STEPS) / CALIBRATION).sqrt();
        let mut recipe = Self {
            r,
            q,
            spread: weights.iter().zip(&factors).map(|(w, f)| w * f).sum(),
            factors,
            weights,
            cell_noise,
            look_noise: if looks > 0 { per_cell(look) } else { 0.0 },
            looks,
            look_cells: 0,
            bins: bins(cell_noise),
            label_bins: bins(cell_noise / counted.label),
            counted,
            floor: q.clamp(RARE.0, RARE.1),
            calibration_clip: calibration_clip(CALIBRATION_AIM / per_clip),
            // Weighted classes have no probabilities to calibrate, and of several classes every
            // offset would have the noise that one score has: it costs more than it mends.
            calibrates: request.mu.is_some()
                && request.has(MethodPart::Calibration)
                && matches!(request.loss, Loss::Logistic)
                && !request.balanced
                && !request.inference,
            request: request.clone(),
        };
        recipe.look_cells = recipe.look_cells();
        Ok(recipe)
    }

    /// Steps of a fifth of 1/h at most, as it looks before anything is scouted, but no more than
    /// make [`EXCHANGES`] in all where each sum takes so many: momentum makes up for the others.
    pub(super) fn default_steps(&self, exchanges: u32) -> u32 {
        let Some(mu) = self.request.mu else {
            return if self.request.loss.proportional().is_some() { 1 } else { EXACT_STEPS };
        };
        if self.request.inference {
            return super::inference::STEPS;
        }
        let (calibration, sums) =
            if self.calibrates { (CALIBRATION, CALIBRATION_STEPS) } else { (0.0, 0) };
        let blind = self.request.layout.blind(self.floor);
        let others = 1 + self.looks + sums + self.looks_at_lengths(EXCHANGES);
        let most = (EXCHANGES / exchanges).saturating_sub(others).max(FEWEST_STEPS.1);
        let time = self.time(1.0 - SCOUTING - calibration, &blind, mu);
        // As many as go that far with the most momentum that there is.
        let least = libm::ceil((time / LONGEST_STEP * LEAST_LEFT).sqrt());
        let least = least.min(f64::from(EXACT_STEPS)) as u32;
        let wanted = libm::ceil(time / LONGEST_STEP).min(1e6) as u32;
        wanted.clamp(FEWEST_STEPS.0.min(most), most).max(least)
    }

    /// ν: the noise that all training gradients together leave in one, with this share of μ², if
    /// gradients are `usual` times as long as at the start.
    pub(super) fn noise(&self, training: f64, standard: &[f64], usual: f64, mu: f64) -> f64 {
        let longest = usual * self.longest(standard);
        self.request.change_factor * longest * self.r / (mu * training.sqrt())
    }

    /// What a unit of the released sums stands for: a record counts at most as the heaviest class.
    pub(super) fn longest(&self, standard: &[f64]) -> f64 {
        self.clip(standard) * self.loss(standard).heaviest()
    }

    /// τ²: the variance of a coefficient before anything is known of it. A softmax tells k classes
    /// apart, log₂k times what two are told apart by.
    pub(super) fn prior(&self, standard: &[f64]) -> f64 {
        let bits = match self.request.loss {
            Loss::Softmax { classes } if self.request.has(MethodPart::Classes) => {
                libm::log2(classes as f64)
            }
            _ => 1.0,
        };
        SIGNAL * bits * bits / self.request.layout.effective_dim(standard).max(1.0)
    }

    /// T = (8/5)hτ/ν.
    pub(super) fn time(&self, training: f64, standard: &[f64], mu: f64) -> f64 {
        self.time_at(training, standard, 1.0, mu)
    }

    /// T of gradients that are `usual` times as long as at the start.
    pub(super) fn time_at(&self, training: f64, standard: &[f64], usual: f64, mu: f64) -> f64 {
        let travelled = 1.0 - AVERAGED / 2.0;
        let noise = self.noise(training, standard, usual, mu) * travelled;
        (self.curvature(standard) * self.prior(standard).sqrt() / noise).max(SHORTEST_TIME.0)
    }

    /// How far from its centre a number counts.
    pub(super) fn limit(&self, standard: &[f64]) -> f64 {
        if self.request.inference {
            return super::inference::LIMIT;
        }
        let deff = self.request.layout.effective_dim(standard);
        (self.clip_share(standard) * ((deff + 1.0) / 2.0).sqrt()).max(LIMIT)
    }

    /// How much longer the gradient of a person is than that of a record: √k for k records that go
    /// apart.
    pub(super) fn person_length(&self) -> f64 {
        f64::from(self.request.person.max(1)).sqrt()
    }

    pub(super) fn coefficients(&self) -> usize {
        self.request.loss.outputs() * (self.request.layout.features() + 1)
    }
}
