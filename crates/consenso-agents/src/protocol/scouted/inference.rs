//! Standard errors: what `[inference]` adds to training on scouted columns.
//!
//! Training releases noised scores ĝ_t at public points x_t. Near the solution x* of the estimating
//! equation g(x_t) = H(x_t − x*), so every pair is an unbiased estimate x_t − H⁻¹ĝ_t of x*, whatever
//! noise came before. With weights v_t in proportion to the budget of a round,
//!
//! ```text
//! x̄ = Σ v_t x_t,   ḡ = Σ v_t ĝ_t,   x̂ = x̄ − Ĥ⁻¹ḡ,
//! Cov(x̂) = Ĥ⁻¹ ( c Ĵ + σ_g² I + σ_H²(½‖s‖² I + ½ s sᵀ) ) Ĥ⁻¹,   s = −Ĥ⁻¹ḡ,
//! ```
//!
//! c = Σ w_i²/b_i for sites of weight w_i and b_i records, σ_g the noise of ḡ and σ_H that of an
//! entry of Ĥ's diagonal (its other entries have half the variance, so that E E s sᵀ Eᵀ of the noise
//! E is the last term). Ĥ and Ĵ are one release each at x̄ (`problem/scores.rs` has the sums and what
//! one record moves them by). Ĵ is what the scores vary by themselves, so that the covariance is
//! the robust one (a sandwich): it holds where the model is wrong, and where sites differ x* is the
//! solution of the sites' weighted mixture.
//!
//! Three things are unlike training for prediction:
//!
//! - **Records are weighted and not clipped.** A record's weight depends on its columns alone, so
//!   that nothing is biased by it; G = b₀√d and H = 1.5·i₀d, with b₀ and i₀ the bounds of score and
//!   information at the start and d the usual squared length of a row, both public. Of counts G is
//!   a part of that (`reach.rs`).
//! - **The budget grows** from round to round in proportion to t + ½, and steps shrink from a half
//!   to a tenth of 1/h: late points are near x*, where the line above is straight. Nothing is
//!   shrunk towards zero. No step is so long that its noise moves the margin of a usual record by
//!   more than a half over √K: along a direction of little curvature noise adds up over all rounds,
//!   and where it led far away the line was not straight, so that the estimate stayed there with a
//!   small error (a rare level beside hazards had ratios of 70 where 1.2 is found without noise).
//! - **Categories have a reference**, the level that scouting found most often. Its feature is left
//!   out, for all levels together are one column too many; other levels speak against it.
//!
//! Where noise in Ĥ is too large nothing is said. With a = Ĥ⁻¹e_l the equation Ha = e_l is missed by
//! the noise times a, of length σ_H√(d/2)‖a‖: a coefficient for which that is beyond one half is
//! refused, with the number.
//!
//! With `models = "personal"` sites are a sample of sites: `between.rs` adds what varies between them.
//!
//! Without a budget records have no weights: a few scoring steps end at the plain solution, with the
//! robust covariance.

use super::compared::{self, PredictionsBesideOutcomes};
use super::sums::Stage;
use super::{MEMORY, Recipe, Scouted, ScoutingRequest, ScoutingTimetable, State};
use crate::data::RawColumn;
use crate::graph::Graph;
use crate::problem::clipped::Standardised;
use crate::problem::proportional::{LargestDerivatives, Proportional, intercepts};
use crate::problem::scores::{MatrixSum, ScoreBounds, triangle};
use crate::problem::{LocalObjective, Workspace};
use nalgebra::{DMatrix, DVector, SymmetricEigen};
use std::sync::Arc;

/// Shares of μ² for the score at x̄, for Ĥ and for Ĵ.
const SHARES: [f64; 3] = [0.30, 0.15, 0.05];
/// What of it both matrices have.
pub(super) const OF_MATRICES: f64 = SHARES[1] + SHARES[2];
/// Training steps.
pub(super) const STEPS: u32 = 80;
/// First and last step, times h.
const STEP: (f64, f64) = (0.5, 0.1);
/// What the noise of all steps together may move the margin of a usual record by, where nothing
/// calls it back.
const WALK: f64 = 0.5;
/// H in units of the usual information of a record.
pub(super) const CURVATURE: f64 = 1.5;
/// Newton steps of a run without noise.
const NEWTON: u32 = 8;
/// Where Ha = e is missed by more, the coefficient is refused.
pub const MOST_MISSED: f64 = 0.5;
/// How far from its centre a number counts: nothing is cut.
pub(super) const LIMIT: f64 = 1e9;

/// A loss of several intercepts where columns say nothing.
struct Start {
    most: LargestDerivatives,
    /// 1ᵀR1 of a usual record.
    information: f64,
    /// s of `scores.rs`.
    scale: f64,
}

/// What a sum of this stage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The score at x̄.
    Score,
    /// One of the matrices at x̄.
    Matrix(MatrixSum),
    /// Predictions of the estimate beside outcomes.
    Compared,
}

impl ScoutingTimetable {
    /// Sums of this stage.
    pub(super) fn inference_sums(&self) -> u32 {
        self.estimating_sums() + u32::from(self.compares)
    }

    /// Sums of this stage that the estimate needs.
    fn estimating_sums(&self) -> u32 {
        match (self.inference, self.noised) {
            (false, _) => 0,
            (true, true) => 3,
            (true, false) => 2 * NEWTON + 1,
        }
    }

    /// What a sum of this stage is, by its number.
    pub(super) fn inference_part(&self, number: u32) -> Part {
        if number == self.estimating_sums() {
            Part::Compared
        } else if number + 1 == self.estimating_sums() {
            Part::Matrix(MatrixSum::Moment)
        } else if number.is_multiple_of(2) {
            Part::Score
        } else {
            Part::Matrix(MatrixSum::Curvature)
        }
    }

    /// Share of μ² of this stage.
    pub(super) fn inference_share(&self) -> f64 {
        if self.inference { SHARES.iter().sum::<f64>() + self.comparing() } else { 0.0 }
    }

    /// Share of μ² with which predictions are compared with outcomes.
    pub(super) fn comparing(&self) -> f64 {
        if self.compares { compared::SHARE } else { 0.0 }
    }

    /// Share of μ² of one sum of this stage.
    pub(super) fn inference_of(&self, number: u32) -> f64 {
        match SHARES.get(number as usize) {
            Some(share) => *share,
            None => self.comparing(),
        }
    }

    /// Share of μ² of one training step.
    pub(super) fn training_of(&self, number: u32) -> f64 {
        let steps = f64::from(self.steps);
        if self.inference {
            self.training() * (f64::from(number) + 0.5) / (0.5 * steps * steps)
        } else {
            self.training() / steps
        }
    }
}

impl Recipe {
    /// The features that are kept: all but the commonest level of every category of more than two.
    pub(super) fn kept(&self, standard: &[f64]) -> Vec<usize> {
        let (mut kept, mut from, mut at) = (Vec::new(), 0, 0);
        let offset = self.request.layout.offset_feature();
        for column in self.request.layout.columns() {
            match *column {
                RawColumn::Number => {
                    kept.extend((offset != Some(at)).then_some(at));
                    (from, at) = (from + 2, at + 1);
                }
                RawColumn::Levels(levels) => {
                    let shares = &standard[from..from + levels];
                    if levels == 2 {
                        kept.push(at);
                        at += 1;
                    } else if levels > 2 {
                        let reference = super::largest(shares.iter().copied()).0;
                        kept.extend((0..levels).filter(|l| *l != reference).map(|l| at + l));
                        at += levels;
                    }
                    from += levels;
                }
            }
        }
        // One intercept at the end of every block.
        kept.extend((1..=self.request.loss.intercepts()).map(|block| block * (at + 1) - 1));
        kept
    }

    /// What a unit of each kept coordinate is in the sums: s for one of several intercepts, which
    /// have less curvature each than a column has (half of it in units of s).
    fn scales(&self, standard: &[f64]) -> Vec<f64> {
        let several = self
            .at_start(standard)
            .map_or((0, 1.0), |start| (self.request.loss.outputs(), start.scale));
        let mut scales = vec![1.0; self.kept_len()];
        scales.iter_mut().rev().take(several.0).for_each(|s| *s = several.1);
        scales
    }

    /// What is known of a loss of several intercepts where columns say nothing.
    fn at_start(&self, standard: &[f64]) -> Option<Start> {
        let loss = self.request.loss.proportional()?;
        let mut x = vec![0.0; self.coefficients()];
        self.start(standard, &mut x);
        let mut margins = vec![0.0; loss.intercepts()];
        let columns = self.request.layout.features();
        loss.margins(0.0, intercepts(&x, columns), &mut margins);
        let (information, largest) = match loss {
            Proportional::Hazards { intervals } => {
                let part = self.request.layout.label_part(standard);
                let events = part[part.len() - 2];
                (events, events / intervals as f64)
            }
            Proportional::Odds { .. } => loss.expected(&margins),
        };
        let scale = (0.5 * information / largest).sqrt();
        Some(Start { most: loss.most(&margins), information, scale })
    }

    /// Writes the slopes of the first block into all others: every score has the same.
    pub(super) fn repeat_slopes(&self, x: &mut [f64]) {
        if self.request.loss.proportional().is_some() {
            let columns = self.request.layout.features();
            let (first, others) = x.split_at_mut(columns + 1);
            for block in others.chunks_exact_mut(columns + 1) {
                block[..columns].copy_from_slice(&first[..columns]);
            }
        }
    }

    /// How many features are kept, whatever the standard is.
    pub(super) fn kept_len(&self) -> usize {
        let columns = self.request.layout.columns();
        let several =
            columns.iter().filter(|c| matches!(c, RawColumn::Levels(k) if *k > 2)).count();
        let fixed = usize::from(self.request.layout.offset_feature().is_some());
        self.request.layout.features() + self.request.loss.intercepts() - several - fixed
    }

    /// Numbers of a model that this stage adds: how far each kept coefficient's equation is missed,
    /// the covariance, which columns vary within sites, the deviation of residuals, and predictions
    /// beside outcomes.
    pub(super) fn inference_len(&self) -> usize {
        let matrices = if self.request.between { 3 } else { 1 };
        if self.request.inference {
            let behind = self.varies_len() + self.residual_len() + self.compared_len();
            self.kept_len() + matrices * triangle(self.kept_len()) + behind
        } else {
            0
        }
    }

    /// Numbers of a model that say which columns vary within sites.
    pub(super) fn varies_len(&self) -> usize {
        if self.request.between { self.kept_len() } else { 0 }
    }

    /// G and H of `scores.rs`; infinite without noise.
    pub(super) fn bounds(&self, standard: &[f64]) -> (f64, f64) {
        if self.request.mu.is_none() {
            return (f64::INFINITY, f64::INFINITY);
        }
        let person = self.person_length();
        if let Some(Start { most, scale, .. }) = self.at_start(standard) {
            let (square, s) = (self.request.layout.effective_dim(standard), scale * scale);
            let score = most.total * most.total * square + s * most.squares;
            let information = CURVATURE * (most.information * square + s * most.trace);
            return (score.sqrt() * person, information * person);
        }
        let (bound, information) = self.start_score(standard);
        let length = self.usual_square(standard);
        let reach = self.reach_of_counts(standard);
        (reach * bound * length.sqrt() * person, CURVATURE * information * length * person)
    }

    /// The squared length of a usual row, one of several intercepts included.
    fn usual_square(&self, standard: &[f64]) -> f64 {
        let columns = self.request.layout.effective_dim(standard);
        match self.at_start(standard) {
            Some(start) => columns + start.scale * start.scale,
            // The row of a pair is a difference of two.
            None if self.request.loss.is_of_pairs() => 2.0 * columns,
            None => columns + 1.0,
        }
    }

    /// The bound of a score and of its information where every record has the mean's margin.
    pub(super) fn start_score(&self, standard: &[f64]) -> (f64, f64) {
        if let Some(start) = self.at_start(standard) {
            return (start.most.total, start.information);
        }
        let mut x = vec![0.0; self.coefficients()];
        self.start(standard, &mut x);
        let margin = x[x.len() - 1];
        let one = self.loss(standard).score(margin, margin);
        one.map_or((1.0, 1.0), |s| (s.bound, s.most_information))
    }

    /// A sum of scores at `x`, or of one of this stage's parts.
    pub(super) fn sum_for_inference(
        &self,
        part: Part,
        standard: &[f64],
        x: &[f64],
        rows: &Standardised,
        sum: &mut [f64],
    ) {
        let (kept, (gradient, curvature)) = (self.kept(standard), self.bounds(standard));
        let scale = self.at_start(standard).map_or(1.0, |start| start.scale);
        let bounds = ScoreBounds { kept: &kept, gradient, curvature, scale };
        let loss = self.loss(standard);
        let rows = rows.of_loss(loss);
        match part {
            Part::Score => rows.scores_sum(loss, x, &bounds, sum),
            Part::Matrix(matrix) => {
                let length = triangle(kept.len());
                rows.matrix_sum(loss, x, &bounds, matrix, &mut sum[..length]);
            }
            Part::Compared => self.compare(standard, x, rows, &mut sum[..self.compared_len()]),
        }
    }

    /// One training step under noise: the pair of point and score is remembered, weighted by the
    /// budget of the round.
    pub(super) fn descend_for_inference(
        &self,
        shape: &ScoutingTimetable,
        number: u32,
        standard: &[f64],
        mean: &[f64],
        state: &mut State<'_>,
    ) {
        let (unit, _) = self.bounds(standard);
        if number >= shape.steps / 4 {
            let weight = shape.training_of(number);
            state.tally[0] += weight;
            let part = weight / state.tally[0];
            for (mean, x) in state.mean.iter_mut().zip(state.x.iter()) {
                *mean += part * (x - *mean);
            }
            for (kept, new) in state.gradient.iter_mut().zip(mean) {
                *kept += part * (unit * new - *kept);
            }
        }
        let done = f64::from(number) / f64::from(shape.steps);
        let noise = self.request.change_factor * unit * self.noise_per(shape.training_of(number));
        let walked = noise * (self.usual_square(standard) * f64::from(shape.steps)).sqrt();
        let step = STEP.1.max(STEP.0 * (1.0 - done)) / self.start_score(standard).1;
        let step = step.min(WALK / walked);
        for (l, scale) in self.kept(standard).into_iter().zip(self.scales(standard)) {
            state.x[l] -= step * scale * unit * mean[l];
        }
    }

    /// Takes up one sum of this stage.
    pub(super) fn infer(
        &self,
        shape: &ScoutingTimetable,
        number: u32,
        standard: &[f64],
        mean: &[f64],
        state: &mut State<'_>,
    ) {
        let (gradient, curvature) = self.bounds(standard);
        let noised = self.request.mu.is_some();
        let unit = |bound: f64| if noised { bound } else { 1.0 };
        match shape.inference_part(number) {
            Part::Score => {
                let weight = if noised { SHARES[0] } else { 1.0 };
                let before = if noised { state.tally[0] } else { 0.0 };
                let part = weight / (before + weight);
                for (kept, new) in state.gradient.iter_mut().zip(mean) {
                    *kept += part * (unit(gradient) * new - *kept);
                }
                state.tally[0] = before + weight;
            }
            Part::Matrix(MatrixSum::Curvature) => {
                let unit = unit(curvature);
                state.curvature.iter_mut().zip(mean).for_each(|(kept, new)| *kept = unit * new);
                // Without noise points are corrected at once, and again.
                if !noised && number < 2 * NEWTON - 2 {
                    let kept = self.kept(standard);
                    let hessian = symmetric(state.curvature, kept.len());
                    let gradient =
                        DVector::from_iterator(kept.len(), kept.iter().map(|&l| state.gradient[l]));
                    if let Some(step) = hessian.cholesky().map(|c| c.solve(&gradient)) {
                        let scales = self.scales(standard);
                        for ((&l, s), scale) in kept.iter().zip(step.iter()).zip(scales) {
                            state.mean[l] -= scale * s;
                        }
                    }
                }
            }
            Part::Matrix(MatrixSum::Moment) => {
                let unit = unit(gradient).powi(2);
                state.moment.iter_mut().zip(mean).for_each(|(kept, new)| *kept = unit * new);
                if shape.compares {
                    // Predictions are those of the estimate.
                    let mut x = vec![0.0; state.x.len()];
                    self.write_coefficients(state, &mut x);
                    // Bounded labels have mean zero where their scores have.
                    let (last, shifted) = (x.len() - 1, self.shifted(state));
                    let kept = self.kept(standard);
                    kept.iter().filter(|l| **l != last).for_each(|&l| x[l] *= shifted.factor.0);
                    x[last] += shifted.by.0;
                    state.x.copy_from_slice(&x);
                }
            }
            Part::Compared => state.compared.copy_from_slice(&mean[..state.compared.len()]),
        }
    }

    /// The noise of the weighted mean of a sum with this share of μ², in units of what one record
    /// moves it by.
    pub(super) fn noise_per(&self, share: f64) -> f64 {
        self.request.mu.map_or(0.0, |mu| self.r / (mu * share.sqrt()))
    }

    /// The noise of Ĥ's sum, in units of what one record adds to it at most.
    pub(super) fn curvature_noise(&self) -> f64 {
        self.noise_per(SHARES[1])
    }

    /// The noise of an entry on the diagonal of Ĥ and of Ĵ.
    pub(super) fn matrix_noise(&self, standard: &[f64]) -> [f64; 2] {
        if self.request.mu.is_none() {
            return [0.0; 2];
        }
        let (gradient, curvature) = self.bounds(standard);
        let root = self.request.change_factor.sqrt();
        [
            root * curvature * self.curvature_noise(),
            root * gradient * gradient * self.noise_per(SHARES[2]),
        ]
    }

    /// The estimate on the kept features, how far each one's equation is missed, and its covariance;
    /// behind that how coefficients of sites vary, and how far they would seem to if all were equal.
    fn estimate(
        &self,
        standard: &[f64],
        state: &State<'_>,
    ) -> (DVector<f64>, Vec<f64>, Vec<DMatrix<f64>>) {
        let kept = self.kept(standard);
        let size = kept.len();
        let (unit, _) = self.bounds(standard);
        let factor = self.request.change_factor;
        // The noise of ḡ, and of an entry on Ĥ's diagonal.
        let of_gradient = match self.request.mu {
            Some(_) => factor * unit * self.noise_per(state.tally[0]),
            None => 0.0,
        };
        let noise = (of_gradient, self.matrix_noise(standard)[0]);
        let hessian = SymmetricEigen::new(symmetric(state.curvature, size));
        let least = (0.5 * noise.1 * (2.0 * size as f64).sqrt()).max(1e-12);
        let inverse = with_eigenvalues(&hessian, |v| 1.0 / v.max(least));
        let scales = self.scales(standard);
        let at = kept.iter().zip(&scales).map(|(&l, scale)| state.mean[l] / scale);
        let at = DVector::from_iterator(size, at);
        let gradient = DVector::from_iterator(size, kept.iter().map(|&l| state.gradient[l]));
        let step = -(&inverse * gradient);
        let moment = SymmetricEigen::new(symmetric(state.moment, size));
        let sampling: f64 = self.factors.iter().zip(&self.weights).map(|(f, w)| f * w).sum();
        // Under the model a score varies by its information; weights make it vary by less.
        let spread = if self.request.model_based { &hessian } else { &moment };
        let mut middle = with_eigenvalues(spread, |v| sampling * v.max(0.0));
        let (own, across) = (noise.0 * noise.0, 0.5 * noise.1 * noise.1);
        for l in 0..size {
            middle[(l, l)] += own + across * step.norm_squared();
        }
        middle += &step * step.transpose() * across;
        let scores = if self.request.between {
            let unit = if self.request.mu.is_some() { unit } else { 1.0 };
            let site = self.request.mu.map_or(0.0, |mu| factor * unit / (mu * SHARES[0].sqrt()));
            let spread = with_eigenvalues(spread, |v| v.max(0.0));
            let found = symmetric(state.between, size) * (unit * unit);
            let found = self.between_sites(found, &spread, site);
            middle += with_eigenvalues(&SymmetricEigen::new(&found[0] - &found[1]), |v| v.max(0.0))
                * self.weights.iter().map(|w| w * w).sum::<f64>();
            found.to_vec()
        } else {
            Vec::new()
        };
        let missed = noise.1 * (0.5 * size as f64).sqrt();
        let mut missed: Vec<f64> = inverse.column_iter().map(|a| missed * a.norm()).collect();
        let units = DMatrix::from_diagonal(&DVector::from_vec(scales));
        let of_coefficients = |m: DMatrix<f64>| &units * &inverse * m * &inverse * &units;
        let mut matrices: Vec<_> =
            std::iter::once(middle).chain(scores).map(of_coefficients).collect();
        let mut estimate = &units * (at + step);
        // Bounded labels have moved them.
        let shifted = self.shifted(state);
        estimate[size - 1] -= shifted.by.0;
        for l in 0..size - 1 {
            estimate[l] /= shifted.factor.0;
            matrices[0][(l, l)] += estimate[l].powi(2) * shifted.factor.1;
        }
        matrices[0][(size - 1, size - 1)] += shifted.by.1;
        missed[size - 1] = missed[size - 1].max(shifted.missed);
        (estimate, missed, matrices)
    }

    /// Writes the estimate in place of a model's coefficients; how far each is missed, and matrices.
    fn write_coefficients(
        &self,
        state: &State<'_>,
        x: &mut [f64],
    ) -> (Vec<f64>, Vec<DMatrix<f64>>) {
        let (estimate, missed, matrices) = self.estimate(state.standard, state);
        // What is not estimated stays as it began: reference levels, and the offset.
        self.start(state.standard, x);
        let kept = self.kept(state.standard);
        kept.iter().zip(estimate.iter()).for_each(|(&l, e)| x[l] = *e);
        (missed, matrices)
    }

    /// Writes the estimate in place of a model's coefficients, and behind `from` what it is worth.
    pub(super) fn write_estimate(&self, state: &State<'_>, x: &mut [f64], rest: &mut [f64]) {
        let (missed, matrices) = self.write_coefficients(state, x);
        let size = missed.len();
        rest[..size].copy_from_slice(&missed);
        let upper = || (0..size).flat_map(|a| (a..size).map(move |b| (a, b)));
        let numbers = matrices.iter().flat_map(|m| upper().map(|place| m[place]));
        let numbers = numbers.chain(state.varies.iter().copied());
        let (rest, compared) = rest.split_at_mut(rest.len() - self.compared_len());
        compared.copy_from_slice(state.compared);
        let end = rest.len() - self.residual_len();
        let (matrices, residual) = rest[size..].split_at_mut(end - size);
        matrices.iter_mut().zip(numbers).for_each(|(out, number)| *out = number);
        if let [deviation] = residual {
            *deviation = self.residual_deviation(state);
        }
    }
}

/// What a run says of its coefficients, on standardised features.
#[derive(Clone, Debug)]
pub struct Estimated {
    /// The features that have an estimate; the last is the intercept.
    pub kept: Vec<usize>,
    /// How far each one's equation is missed for noise in the curvature: refused beyond
    /// [`MOST_MISSED`].
    pub missed: Vec<f64>,
    /// The covariance of the kept coefficients.
    pub covariance: DMatrix<f64>,
    /// How they vary between sites, where that was asked for.
    pub between: Option<BetweenSites>,
    /// The deviation of residuals in units of the label's, where the loss has such and noise does
    /// not hide it.
    pub residual: Option<f64>,
    /// Predictions beside outcomes, where that was asked for.
    pub compared: Option<PredictionsBesideOutcomes>,
}

/// How coefficients vary between sites.
#[derive(Clone, Debug)]
pub struct BetweenSites {
    /// The covariance of the sites' coefficients around the shared ones, sampling error and noise
    /// in it.
    pub all: DMatrix<f64>,
    /// What of it sampling error and noise make, were all sites equal.
    pub chance: DMatrix<f64>,
    /// Which of the kept coefficients are of columns that vary within sites: of the others nothing
    /// can be told from how the intercept varies.
    pub varies: Vec<bool>,
    /// How many sites of equal weight would say as much: 1/Σ w².
    pub sites: f64,
}

impl Scouted {
    /// Whether standard errors are found.
    pub fn infers(&self) -> bool {
        self.shape.inference
    }

    /// What a model as agents hold it says of its coefficients; `None` before the last sum, and
    /// where nobody asked.
    pub fn estimated(&self, model: &[f64]) -> Option<Estimated> {
        let recipe = &self.recipe;
        let from = recipe.request.layout.standard_len() + recipe.coefficients() + 1;
        let rest = model.get(from..from + recipe.inference_len()).filter(|_| self.infers())?;
        let kept = recipe.kept(self.split(model).0);
        let (missed, rest) = rest.split_at(kept.len());
        let (rest, compared) = rest.split_at(rest.len() - recipe.compared_len());
        let (standard, x) = self.split(model);
        let compared = self.compared(standard, x, compared);
        let (upper, residual) = rest.split_at(rest.len() - recipe.residual_len());
        let residual = residual.first().copied().filter(|d| *d > 0.0);
        let matrix = |upper: &[f64]| {
            let mut matrix = DMatrix::zeros(kept.len(), kept.len());
            let places = (0..kept.len()).flat_map(|a| (a..kept.len()).map(move |b| (a, b)));
            for ((a, b), value) in places.zip(upper) {
                matrix[(a, b)] = *value;
                matrix[(b, a)] = *value;
            }
            matrix
        };
        let (covariance, others) = upper.split_at(triangle(kept.len()));
        let between = recipe.request.between.then(|| {
            let (all, others) = others.split_at(triangle(kept.len()));
            let (chance, varies) = others.split_at(triangle(kept.len()));
            let squares: f64 = recipe.weights.iter().map(|w| w * w).sum();
            let varies = varies.iter().map(|v| *v > 0.5).collect();
            BetweenSites { all: matrix(all), chance: matrix(chance), varies, sites: 1.0 / squares }
        });
        let covariance = matrix(covariance);
        let known = upper.iter().all(|v| v.is_finite()) && upper.first().is_some_and(|v| *v > 0.0);
        let missed = missed.to_vec();
        known.then_some(Estimated { kept, missed, covariance, between, residual, compared })
    }

    /// What the same study finds without noise, as agents would hold it: for simulations, whose
    /// records are nobody's.
    pub fn without_noise(
        &self,
        locals: &[LocalObjective],
        records: &[usize],
        graph: &Arc<Graph>,
    ) -> Option<Vec<f64>> {
        let request = ScoutingRequest {
            mu: None,
            pairwise: None,
            steps: None,
            looks: Some(0),
            ..self.recipe.request.clone()
        };
        let exact = Self::plan(&request, &[records.to_vec()], std::slice::from_ref(graph)).ok()?;
        let (recipe, mut work) = (&exact.recipe, Workspace::default());
        let mut memory = vec![0.0; MEMORY * exact.shape.width];
        for sum in 0..exact.sums() {
            let stage = exact.place(sum * exact.shape.exchanges + 1).0;
            let length = exact.length(stage);
            let mut total = vec![0.0; length];
            let mut sites = Vec::with_capacity(locals.len());
            for (local, factor) in locals.iter().zip(&recipe.factors) {
                let mut own = vec![0.0; length];
                exact.site_sum(stage, &memory, local, &mut work, &mut own);
                crate::kernel::axpy(*factor, &own, &mut total);
                sites.push(own);
            }
            let mut state = exact.state(&mut memory);
            state.total[..length].copy_from_slice(&total);
            exact.compare_sites(stage, sites.iter().map(Vec::as_slice), &mut state);
            exact.apply(stage, &mut state);
        }
        let state = exact.state(&mut memory);
        let mut model = state.standard.to_vec();
        let (mut x, mut rest) =
            (vec![0.0; recipe.coefficients()], vec![0.0; recipe.inference_len()]);
        recipe.write_estimate(&state, &mut x, &mut rest);
        recipe.repeat_slopes(&mut x);
        model.extend(x);
        model.push(1.0);
        model.extend(rest);
        Some(model)
    }

    /// The sum of a step of training or of this stage, where standard errors are found.
    pub(super) fn inference_step(
        &self,
        stage: Stage,
        local: &LocalObjective,
        standard: &[f64],
        (x, mean): (&[f64], &[f64]),
        step: &mut [f64],
    ) {
        let records = local.mean_loss().expect("only records have columns");
        let rows = records.under(standard).expect("scouted records are raw");
        let (part, at) = match stage {
            Stage::Infer(number) => match self.shape.inference_part(number) {
                Part::Compared => (Part::Compared, x),
                part => (part, mean),
            },
            _ => (Part::Score, x),
        };
        self.recipe.sum_for_inference(part, standard, at, &rows, step);
    }
}

/// The matrix of an upper triangle whose numbers beside the diagonal were multiplied by √2.
pub(super) fn symmetric(upper: &[f64], size: usize) -> DMatrix<f64> {
    let mut matrix = DMatrix::zeros(size, size);
    let places = (0..size).flat_map(|a| (a..size).map(move |b| (a, b)));
    for ((a, b), value) in places.zip(upper) {
        let value = if a == b { *value } else { value / std::f64::consts::SQRT_2 };
        matrix[(a, b)] = value;
        matrix[(b, a)] = value;
    }
    matrix
}

/// The matrix with a function of its eigenvalues in their place.
fn with_eigenvalues(
    eigen: &SymmetricEigen<f64, nalgebra::Dyn>,
    of: impl Fn(f64) -> f64,
) -> DMatrix<f64> {
    let scaled =
        DMatrix::from_fn(eigen.eigenvectors.nrows(), eigen.eigenvectors.ncols(), |r, c| {
            eigen.eigenvectors[(r, c)] * of(eigen.eigenvalues[c])
        });
    scaled * eigen.eigenvectors.transpose()
}
