//! Predictions beside outcomes: a release of its own that says where a model's predictions are off
//! (`calibration = true` in `[inference]`, a twentieth of μ²).
//!
//! Records are sorted by their score zᵀx̂ under the estimate into five bins. With the intercept as
//! the middle of the scores and √Σx̂² as their deviation, which standardised columns that do not go
//! together have, the bins end at the quintiles of a normal law: all of it is public by then. A
//! record adds (1, u, u²)/√3 to its bin. Of two classes u is the outcome less its prediction, so
//! that nothing is cut; of labels that are standardised it is that in units of three deviations, cut
//! to ±1; of counts and amounts it is the record's bounded score (`problem/losses`) over its bound,
//! which has mean zero where the law at the prediction is right, however often it is cut. Σ u² says
//! how much Σ u varies by chance, so that nothing is assumed of how labels vary.
//!
//! **Sensitivity.** Replacing a record moves the sum by at most √2 (`outcomes_sum` in `scores.rs` has
//! the proof), setting its summand to zero by one, as a matrix of `scores.rs` moves.
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
/// And without noise up to so many ranges of the label: all do.
const UNCUT: f64 = 1e6;

/// What a release says of predictions beside outcomes, on scores of standardised columns.
#[derive(Clone, Debug)]
pub struct PredictionsBesideOutcomes {
    /// Where the bins of scores end; the first and the last are open.
    pub ends: Vec<f64>,
    /// A score in the middle of each bin.
    pub middles: Vec<f64>,
    /// The share of the records in each bin, noised.
    pub shares: Vec<f64>,
    /// The sum of u over the records of each bin, as a share of all records, noised.
    pub differences: Vec<f64>,
    /// The same of u².
    pub squares: Vec<f64>,
    /// The deviation of the noise of all these.
    pub noise: f64,
    /// What a u of one is: outcomes less predictions, in units of the label's deviation where labels
    /// are standardised; absent where u is a score.
    pub unit: Option<f64>,
    /// The variance of the mean over all records of a number that varies by one.
    pub sampling: f64,
}

impl Recipe {
    /// Numbers of this release.
    pub(super) fn compared_len(&self) -> usize {
        if self.request.compares { 3 * BINS } else { 0 }
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

    /// How far an outcome counts; `None` where scores count. Without noise nothing is cut.
    fn outcome_unit(&self, standard: &[f64]) -> Option<f64> {
        let layout = &self.request.layout;
        match layout.label_moments(standard) {
            Some(_) if self.request.mu.is_none() => Some(UNCUT * layout.label_range()),
            Some(_) if layout.keeps_labels() => None,
            Some(_) => Some(REACH),
            None => Some(1.0),
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
        let root = 3f64.sqrt();
        let (middle, deviation) = self.scores_of(x);
        let of = |part: usize| total.chunks_exact(3).map(|bin| root * bin[part]).collect();
        PredictionsBesideOutcomes {
            ends: self.bin_ends(x),
            middles: MIDDLES.iter().map(|t| middle + deviation * t).collect(),
            shares: of(0),
            differences: of(1),
            squares: of(2),
            noise: root * self.request.change_factor.sqrt() * self.noise_per(SHARE),
            unit: self.outcome_unit(standard),
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
