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

use super::inference::Part;
use super::sums::Stage;
use super::{Recipe, Scouted, State};
use nalgebra::DMatrix;

impl Scouted {
    /// Whether the releases of a stage say how sites differ.
    pub(super) fn measures_between(&self, stage: Stage) -> bool {
        self.recipe.request.between
            && matches!(stage, Stage::Infer(number) if self.shape.inference_part(number) == Part::Score)
    }
}

impl Recipe {
    /// Writes B, in units of what one record adds at most; the total is known already.
    pub(super) fn spread_of_sites<'a>(
        &self,
        sites: impl Iterator<Item = &'a [f64]>,
        state: &mut State<'_>,
    ) {
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
