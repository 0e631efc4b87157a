//! Predictions beside outcomes: a release of its own that says where a model's predictions are off
//! (`calibration = true` in `[inference]`, a twentieth of μ²).
//!
//! Records are sorted by their score zᵀx̂ under the estimate into five bins. With the intercept as
//! the middle of the scores and √Σx̂² as their deviation, which standardised columns that do not go
//! together have, the bins end at the quintiles of a normal law: all of it is public by then. A
//! record adds (1, u)/√2 to its bin, where u is its outcome less its prediction in units of `unit`,
//! cut to ±1: the unit is one for two classes, so that nothing is cut, and three deviations of the
//! label otherwise.
//!
//! **Sensitivity.** The vector is at most one long. Two records of different bins have orthogonal
//! vectors, and two of the same bin differ in u alone, by at most 2/√2: replacing a record moves the
//! sum by at most √2, setting its summand to zero by one, as a matrix of `scores.rs` moves.
//!
//! What is found is about the model as it was released: noise in x̂ that makes it predict too much
//! is seen as such.

use super::{Recipe, Scouted};

/// Bins of scores.
pub(super) const BINS: usize = 5;
/// Share of μ².
pub(super) const SHARE: f64 = 0.05;
/// Where bins end, in deviations of the scores, and the score in the middle of each.
const ENDS: [f64; BINS - 1] = [-0.841_621, -0.253_347, 0.253_347, 0.841_621];
const MIDDLES: [f64; BINS] = [-1.281_552, -0.524_401, 0.0, 0.524_401, 1.281_552];
/// Outcomes count up to so many deviations of the label from their predictions.
const REACH: f64 = 3.0;

/// What a release says of predictions beside outcomes, on scores of standardised columns.
#[derive(Clone, Debug)]
pub struct PredictionsBesideOutcomes {
    /// Where the bins of scores end; the first and the last are open.
    pub ends: Vec<f64>,
    /// A score in the middle of each bin.
    pub middles: Vec<f64>,
    /// The share of the records in each bin, noised.
    pub shares: Vec<f64>,
    /// The sum of outcomes less predictions over the records of each bin, as a share of all records,
    /// noised; in units of the label's deviation where labels are standardised.
    pub differences: Vec<f64>,
    /// The deviation of the noise of shares, and of differences.
    pub noise: (f64, f64),
    /// The variance of the mean over all records of a number that varies by one.
    pub sampling: f64,
}

impl Recipe {
    /// Numbers of this release.
    pub(super) fn compared_len(&self) -> usize {
        if self.request.compares { 2 * BINS } else { 0 }
    }

    /// Middle and deviation of the scores of `x`.
    fn scores_of(&self, x: &[f64]) -> (f64, f64) {
        let columns = self.request.layout.features();
        let square: f64 = x[..columns].iter().map(|x| x * x).sum();
        (x[columns], square.sqrt().max(1e-9))
    }

    fn bin_ends(&self, x: &[f64]) -> Vec<f64> {
        let (middle, deviation) = self.scores_of(x);
        ENDS.iter().map(|t| middle + deviation * t).collect()
    }

    /// How far an outcome counts.
    fn outcome_unit(&self, standard: &[f64]) -> f64 {
        let layout = &self.request.layout;
        match layout.label_moments(standard) {
            Some((_, deviation)) if layout.keeps_labels() => REACH * deviation.max(1e-9),
            Some(_) => REACH,
            None => 1.0,
        }
    }

    /// A site's sum at the estimate `x`.
    pub(super) fn compare(
        &self,
        standard: &[f64],
        x: &[f64],
        rows: &crate::problem::clipped::Standardised,
        sum: &mut [f64],
    ) {
        let (ends, unit) = (self.bin_ends(x), self.outcome_unit(standard));
        rows.outcomes_sum(self.loss(standard), x, &ends, unit, sum);
    }

    /// What the total of all sites says.
    pub(super) fn compared(
        &self,
        standard: &[f64],
        x: &[f64],
        total: &[f64],
    ) -> PredictionsBesideOutcomes {
        let root = std::f64::consts::SQRT_2;
        let (middle, deviation) = self.scores_of(x);
        let unit = self.outcome_unit(standard);
        let noise = root * self.request.change_factor.sqrt() * self.noise_per(SHARE);
        PredictionsBesideOutcomes {
            ends: self.bin_ends(x),
            middles: MIDDLES.iter().map(|t| middle + deviation * t).collect(),
            shares: total.chunks_exact(2).map(|pair| root * pair[0]).collect(),
            differences: total.chunks_exact(2).map(|pair| root * unit * pair[1]).collect(),
            noise: (noise, unit * noise),
            sampling: self.factors.iter().zip(&self.weights).map(|(f, w)| f * w).sum(),
        }
    }
}

impl Scouted {
    /// What a model as agents hold it says of its predictions; `None` where nobody asked.
    pub(super) fn compared(
        &self,
        standard: &[f64],
        x: &[f64],
        total: &[f64],
    ) -> Option<PredictionsBesideOutcomes> {
        (!total.is_empty()).then(|| self.recipe.compared(standard, x, total))
    }
}
