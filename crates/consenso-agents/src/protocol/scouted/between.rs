//! What varies between sites, for standard errors that know of it (`models = "personal"` with
//! `[inference]`).
//!
//! Sites are a sample: site i's own solution is x* + u_i with u_i drawn around 0, as in a mixed
//! model with a random intercept and random slopes. Its mean score at x̄, ŝ_i, is then H·u_i but for
//! sampling error, Cov J/b_i, and noise, Cov σ_i² I. On a complete graph everybody hears every
//! site's release of the score at x̄, so that
//!
//! ```text
//! B = Σ w_i² (ŝ_i − ŝ)(ŝ_i − ŝ)ᵀ,   ŝ = Σ w_i ŝ_i
//! E B = Σ f_i (T + J/b_i + σ_i² I),   f_i = w_i² (1 − 2w_i + Σ w²)
//! ```
//!
//! is a function of releases that were paid for: nothing more leaves a site, and no u_i is ever
//! known beyond its noised score. T̂ = (B − Σ f_i(Ĵ/b_i + σ_i² I))/Σ f_i, without its negative part,
//! is how scores vary between sites, Ĥ⁻¹T̂Ĥ⁻¹ how coefficients do, and Σ w² T̂ what the sampling of
//! sites adds to the covariance of the mean score. Without noise, and for sites of one size, that is
//! the covariance of statsmodels' errors clustered by site, N/(N − 1) times.
//!
//! Deviations of coefficients are so to first order: where sites differ by more than their records
//! scatter, bounded residuals make them come out too large.
//!
//! **Columns that are one number within every site** (a school's type) have no deviation of their
//! own: at a site it cannot be told from the intercept's. What tells them apart is the same release
//! of Ĥ, site by site. With h_i a site's information of its intercepts together and a_il that of
//! column l and them, the information that column l has within sites is
//!
//! ```text
//! V_l = H_ll − Σ w_i (a_il² − σ_a²)/h_i,
//! ```
//!
//! zero for such a column. Where V_l is not three deviations of its noise above zero, nothing is
//! said of how the column's coefficient varies, and the intercept's deviation leaves it out, as a
//! mixed model without a random slope of that column does.

use super::inference::{Part, symmetric};
use super::sums::Stage;
use super::{Recipe, Scouted, State};
use crate::problem::scores::MatrixSum;
use nalgebra::DMatrix;

/// How many deviations of its noise a column's information within sites must have.
const LEAST_WITHIN: f64 = 3.0;
/// What rounding may leave of it, as a share of the column's whole information.
const ROUNDING: f64 = 1e-9;

impl Scouted {
    /// Takes from the releases of a stage what they say of how sites differ, where that is asked
    /// for; the total is known already.
    pub(super) fn compare_sites<'a>(
        &self,
        stage: Stage,
        sites: impl Iterator<Item = &'a [f64]>,
        state: &mut State<'_>,
    ) {
        let Stage::Infer(number) = stage else { return };
        if !self.recipe.request.between {
            return;
        }
        match self.shape.inference_part(number) {
            Part::Score => self.recipe.spread_of_sites(sites, state),
            Part::Matrix(MatrixSum::Curvature) => self.recipe.vary_within_sites(sites, state),
            Part::Matrix(MatrixSum::Moment) | Part::Compared => {}
        }
    }
}

impl Recipe {
    /// Writes which of the kept columns vary within sites: 1 for those that do.
    fn vary_within_sites<'a>(&self, sites: impl Iterator<Item = &'a [f64]>, state: &mut State<'_>) {
        let (size, count) = (self.kept_len(), self.request.loss.intercepts());
        let slopes = size - count;
        let mut of_all = symmetric(state.total, size);
        let whole = |m: &DMatrix<f64>| m.view((slopes, slopes), (count, count)).sum();
        let usual = whole(&of_all);
        // The noise of an entry on the diagonal of one site's sum.
        let each = self.request.mu.map_or(0.0, |_| self.curvature_noise() / self.r);
        let own = self.request.change_factor.sqrt() * each;
        let squares: f64 = self.factors.iter().map(|f| f * f).sum();
        let mut variance = vec![own * own * squares; slopes];
        for ((row, factor), weight) in sites.zip(&self.factors).zip(&self.weights) {
            let per_record = factor / weight;
            let noise = (own * per_record).powi(2);
            let site = symmetric(row, size) * per_record;
            // Noise must not make it small; without noise it is what it is.
            let least = if each > 0.0 { 0.5 * usual } else { 0.0 };
            let h = whole(&site).max(least).max(f64::MIN_POSITIVE);
            let (of_a, of_h) = (0.5 * noise * count as f64, noise * (count * count) as f64);
            for (l, variance) in variance.iter_mut().enumerate() {
                let a = site.view((l, slopes), (1, count)).sum();
                of_all[(l, l)] -= weight * (a * a - of_a) / h;
                let uncertain =
                    (2.0 * of_a + 4.0 * a * a) * of_a / (h * h) + a.powi(4) * of_h / h.powi(4);
                *variance += weight * weight * uncertain;
            }
        }
        let total = symmetric(state.total, size);
        state.varies.fill(1.0);
        for (l, variance) in variance.into_iter().enumerate() {
            let least = LEAST_WITHIN * variance.sqrt() + ROUNDING * total[(l, l)].abs();
            state.varies[l] = if of_all[(l, l)] > least { 1.0 } else { 0.0 };
        }
    }

    /// Writes B, in units of what one record adds at most; the total is known already.
    fn spread_of_sites<'a>(&self, sites: impl Iterator<Item = &'a [f64]>, state: &mut State<'_>) {
        let kept = self.kept(state.standard);
        state.between.fill(0.0);
        for ((row, factor), weight) in sites.zip(&self.factors).zip(&self.weights) {
            // w_i·ŝ_i is (w_i/b_i)·release_i.
            let off: Vec<f64> =
                kept.iter().map(|&l| factor * row[l] - weight * state.total[l]).collect();
            let upper = (0..off.len()).flat_map(|a| (a..off.len()).map(move |b| (a, b)));
            for (out, (a, b)) in state.between.iter_mut().zip(upper) {
                let twice = if a == b { 1.0 } else { std::f64::consts::SQRT_2 };
                *out += twice * off[a] * off[b];
            }
        }
    }

    /// How sites' mean scores vary, Σ f_i's worth of B, and what of it is chance: `sampling` is Ĵ,
    /// `noise` the deviation of a site's sum of scores.
    pub(super) fn between_sites(
        &self,
        found: DMatrix<f64>,
        sampling: &DMatrix<f64>,
        noise: f64,
    ) -> [DMatrix<f64>; 2] {
        let squares: f64 = self.weights.iter().map(|w| w * w).sum();
        let (mut all, mut of_sampling, mut of_noise) = (0.0, 0.0, 0.0);
        for (w, factor) in self.weights.iter().zip(&self.factors) {
            // One over the site's records.
            let (f, each) = (w * w * (1.0 - 2.0 * w + squares), factor / w);
            all += f;
            of_sampling += f * each;
            of_noise += f * (noise * each).powi(2);
        }
        let size = found.nrows();
        let chance = sampling * of_sampling + DMatrix::identity(size, size) * of_noise;
        [found / all, chance / all]
    }
}
