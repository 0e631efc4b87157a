//! How far labels lie from their predictions, from the matrices that standard errors are made of.
//!
//! Residuals r of `ridge` and `huber` count up to ±δ. Where they do not depend on the columns, and
//! with q = ‖z‖² of a row and w its weight,
//!
//! ```text
//! tr J = E[min(r², δ²)]·E[w²q],      tr H = P(|r| ≤ δ)·E[wq],
//! ```
//!
//! and the ratio of both expectations over residuals grows with their deviation σ: for normal ones
//! it is solved for σ. E[w²q]/E[wq] is that of rows with independent normal columns, whose q is χ²
//! but for the intercept; it is between 0.88 and 1. Without noise no
//! record is weighted, and the intercept's entries alone say it. Nothing more is released for it.
//!
//! The same ratio of amounts (`gamma`) and of counts whose dispersion is open says how they vary
//! around their means, and with it how far estimates are off because labels are bounded
//! (`BoundedAmounts` and `BoundedCounts` in `problem/losses`): they are moved back by that, and
//! their variances grow by what noise makes of the ratio.

use super::inference::CURVATURE;
use super::{Recipe, State};
use crate::problem::Loss;
use crate::problem::losses::{BoundedAmounts, BoundedCounts};

/// Deviations that are told apart, in units of the label's.
const RANGE: (f64, f64) = (1e-3, 3.0);

/// Where noise is more of a trace than this, nothing is said.
const MOST_NOISE: f64 = 0.5;

/// tr J/tr H over records of rows alike: E[ψ²] over the information of a score.
struct Ratio {
    value: f64,
    /// The larger part that noise has in a trace.
    noise: f64,
    /// The variance of the logarithm of `value`.
    variance: f64,
}

/// What bounding labels does to estimates.
pub(super) struct Shifted {
    /// What the intercept is off by, and the variance of that.
    pub(super) by: (f64, f64),
    /// What slopes are multiplied by, and the variance of that.
    pub(super) factor: (f64, f64),
    /// How far the intercept is hidden by noise, as coefficients are.
    pub(super) missed: f64,
}

impl Recipe {
    /// Whether a model has a number for it: residuals of one record each, and no other law.
    pub(super) fn residual_len(&self) -> usize {
        let one = self.request.person <= 1;
        let loss = matches!(
            self.request.loss,
            Loss::Ridge { .. } | Loss::Huber { .. } | Loss::Gamma(_) | Loss::Poisson(_)
        );
        usize::from(self.request.inference && one && loss)
    }

    /// How far both matrices' traces say that residuals lie from predictions.
    ///
    /// A record adds at most G² to one trace and H to the other, so that the mean of such numbers
    /// varies by no more than c times their bound times their mean.
    fn ratio(&self, state: &State<'_>) -> Ratio {
        let standard = &*state.standard;
        let noise = self.matrix_noise(standard);
        let (size, noised) = (self.kept_len(), self.request.mu.is_some());
        let entry = |a: usize| a * size - a * a.saturating_sub(1) / 2;
        let first = if noised { 0 } else { size - 1 };
        let trace = |upper: &[f64]| (first..size).map(|a| upper[entry(a)]).sum::<f64>();
        let (moment, curvature) = (trace(state.moment), trace(state.curvature));
        let columns = self.request.layout.effective_dim(standard);
        let value = moment / curvature / if noised { weighted_share(columns) } else { 1.0 };
        let root = (size as f64).sqrt();
        let parts = [noise[1] * root / moment.max(0.0), noise[0] * root / curvature.max(0.0)];
        let (gradient, most) = self.bounds(standard);
        let sampling = if noised {
            self.spread * (gradient * gradient / moment + most / curvature)
        } else {
            0.0
        };
        Ratio {
            value,
            noise: if noised { parts[0].max(parts[1]) } else { 0.0 },
            variance: parts[0] * parts[0] + parts[1] * parts[1] + sampling,
        }
    }

    /// The deviation of residuals in units of the label's, of amounts in units of their mean; of
    /// counts how many times as much their scores vary as Poisson's law lets them. Zero where noise
    /// hides it, and of counts without noise.
    pub(super) fn residual_deviation(&self, state: &State<'_>) -> f64 {
        let ratio = self.ratio(state);
        if ratio.noise.is_nan() || ratio.noise > MOST_NOISE {
            return 0.0;
        }
        let noised = self.request.mu.is_some();
        let most = match self.loss(state.standard) {
            // The score of ridge is bounded at one under noise, and not at all without.
            Loss::Ridge { clip } if noised => clip.min(1.0),
            Loss::Ridge { clip } => clip,
            Loss::Huber { delta } => delta,
            Loss::Gamma(_) if noised => {
                return BoundedAmounts::of(ratio.value, self.start_score(state.standard).0)
                    .dispersion;
            }
            Loss::Gamma(_) => f64::INFINITY,
            Loss::Poisson(_) if noised => {
                let mean = self.label_moments(state.standard).map_or(1.0, |moments| moments.0);
                return ratio.value / BoundedCounts::usual_ratio(mean);
            }
            _ => return 0.0,
        };
        deviation_of(ratio.value, most)
    }

    /// What bounded labels do to the estimates of a loss that leans on a dispersion; nothing for
    /// other losses, and without noise.
    pub(super) fn shifted(&self, state: &State<'_>) -> Shifted {
        let nothing = Shifted { by: (0.0, 0.0), factor: (1.0, 0.0), missed: 0.0 };
        let standard = &*state.standard;
        let found = |ratio: f64| match self.loss(standard) {
            Loss::Gamma(_) => (BoundedAmounts::of(ratio, self.start_score(standard).0).shift, 1.0),
            Loss::NegativeBinomial(loss) => {
                let mean = self.label_moments(standard).map_or(1.0, |moments| moments.0);
                let found = BoundedCounts::of(loss, mean, ratio, CURVATURE);
                (found.shift, found.factor)
            }
            _ => (0.0, 1.0),
        };
        let leans = match self.request.loss {
            Loss::NegativeBinomial(loss) => loss.dispersion.is_none(),
            loss => matches!(loss, Loss::Gamma(_)),
        };
        if !leans || self.request.mu.is_none() {
            return nothing;
        }
        if self.request.person > 1 {
            return Shifted { missed: f64::MAX, ..nothing };
        }
        let ratio = self.ratio(state);
        if ratio.noise.is_nan() || ratio.noise > MOST_NOISE {
            let missed = if ratio.noise.is_nan() { MOST_NOISE } else { ratio.noise.min(1e6) };
            return Shifted { missed, ..nothing };
        }
        // Half a deviation of the ratio to either side says how far its error leads.
        let half = 0.5 * ratio.variance.sqrt().max(1e-6);
        let (up, down) =
            (found(ratio.value * libm::exp(half)), found(ratio.value * libm::exp(-half)));
        let (by, factor) = found(ratio.value);
        Shifted {
            by: (by, (up.0 - down.0).powi(2)),
            factor: (factor, (up.1 - down.1).powi(2)),
            missed: ratio.noise,
        }
    }
}

/// The deviation σ of normal residuals with E[min(r², δ²)]/P(|r| ≤ δ) = `ratio`.
fn deviation_of(ratio: f64, most: f64) -> f64 {
    if most.is_infinite() {
        return ratio.max(0.0).sqrt();
    }
    let of = |deviation: f64| {
        let c = most / deviation;
        let inside = libm::erf(c / std::f64::consts::SQRT_2);
        let density = libm::exp(-0.5 * c * c) / (2.0 * std::f64::consts::PI).sqrt();
        let square = deviation * deviation * (inside - 2.0 * c * density);
        (square + most * most * (1.0 - inside)) / inside
    };
    let (mut low, mut high) = RANGE;
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if of(middle) < ratio { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// E[w²q]/E[wq] for q = 1 + χ² of so many degrees of freedom and w = min(1, √(m/q), 1.5m/q), m the
/// mean of q: the quantiles of χ² are Wilson and Hilferty's.
fn weighted_share(columns: f64) -> f64 {
    let (mean, v) = (columns + 1.0, 2.0 / (9.0 * columns.max(1.0)));
    let (mut squares, mut singles) = (0.0, 0.0);
    for k in -40..=40 {
        let t = f64::from(k) / 10.0;
        let q = 1.0 + columns * (1.0 - v + t * v.sqrt()).max(0.0).powi(3);
        let w = (mean / q).sqrt().min(CURVATURE * mean / q).min(1.0);
        let density = libm::exp(-0.5 * t * t);
        squares += density * w * w * q;
        singles += density * w * q;
    }
    squares / singles
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ratio of a known deviation leads back to it. Ratios are scipy's, by quadrature of the
    /// normal density.
    #[test]
    fn deviations_are_found_from_bounded_residuals() {
        for (deviation, most, ratio) in RATIOS {
            let found = deviation_of(ratio, most);
            assert!((found - deviation).abs() < 1e-6, "{deviation} {most}: {found}");
        }
        assert!((deviation_of(0.49, f64::INFINITY) - 0.7).abs() < 1e-12);
    }

    /// Against a million rows of normal columns drawn by numpy.
    #[test]
    fn weights_of_rows_are_those_of_normal_columns() {
        for (columns, want) in SHARES {
            let found = weighted_share(columns);
            assert!((found - want).abs() < 0.01, "{columns}: {found} {want}");
        }
    }

    const RATIOS: [(f64, f64, f64); 4] = [
        (0.3, 1.0, 0.08993269551324796),
        (0.7, 1.0, 0.4330970375804858),
        (1.0, 1.0, 0.7559198682643374),
        (0.9, 2.0, 0.7930425793340539),
    ];
    const SHARES: [(f64, f64); 3] = [(3.0, 0.8881), (8.0, 0.9154), (40.0, 0.9575)];
}
