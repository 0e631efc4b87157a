//! How far the score of a count reaches: G of `inference.rs` where means differ from record to record.
//!
//! The bound b of a count's score and its information i grow with its mean, so that G pays for
//! records of a large mean in noise while most have a small one. A smaller G weighs those records
//! down, which costs precision and biases nothing. Which G costs least follows from public numbers:
//! the label's variance has beyond what the law at its mean ȳ explains what means differ by,
//!
//! ```text
//! Var μ = (s² − V(ȳ))/(1 + α),      V(μ) = μ + αμ²      (α = 0 for Poisson's law)
//! ```
//!
//! and with margins as normal, μ is lognormal. For records of the usual length √D the variance of a
//! coefficient is, with G = g·b(ȳ)√D, the weights w(μ) = min(1, g·b(ȳ)/b(μ), H/(i(μ)D)), and c, σ_g
//! and σ_H of `inference.rs`,
//!
//! ```text
//! v(g) = (c·E[w²i] + σ_g²)/E[w i]² · (1 + 3σ_H²D/(2E[w i]²)),
//! ```
//!
//! for no score varies by more than its information, and noise E of the curvature adds 3H⁻¹EEH⁻¹ to
//! an inverse that stands on both sides, to second order. The g ≤ 1 of least v is taken. Neither a
//! record nor a score of a test says anything in this choice.

use super::inference::CURVATURE;
use super::{Recipe, inference};
use crate::problem::Loss;
use crate::problem::losses::NegativeBinomial;

/// Values of g: 1, and down to an eighth by fourths of an octave.
const CHOICES: i32 = 12;
/// Means differ by no more than this many powers of e, as a variance.
const MOST_SPREAD: f64 = 2.25;
/// Points of the normal law of margins on either side, and how many deviations they reach.
const POINTS: i32 = 24;
const REACH: f64 = 3.5;

impl Recipe {
    /// g: what the bound of a count's score is multiplied by; 1 for other losses.
    pub(super) fn reach_of_counts(&self, standard: &[f64]) -> f64 {
        let loss = self.loss(standard);
        let alpha = match loss {
            Loss::Poisson(_) => 0.0,
            Loss::NegativeBinomial(NegativeBinomial { dispersion, .. }) => {
                dispersion.unwrap_or(0.0)
            }
            _ => return 1.0,
        };
        let Some((mean, deviation)) = self.label_moments(standard) else { return 1.0 };
        let beyond = deviation * deviation - mean - alpha * mean * mean;
        let spread = libm::log1p(beyond.max(0.0) / (1.0 + alpha) / (mean * mean)).min(MOST_SPREAD);
        if spread == 0.0 {
            return 1.0;
        }
        let length = self.request.layout.effective_dim(standard) + 1.0;
        let gradients = 1.0 - self.counted.share() - inference::OF_MATRICES;
        let noise = Noise {
            sampling: self.spread,
            score: self.request.change_factor * self.noise_per(gradients),
            curvature: self.request.change_factor.sqrt() * self.curvature_noise(),
        };
        cheapest(loss, mean, spread, length, &noise)
    }
}

/// What estimates vary by.
struct Noise {
    /// c: the variance of the weighted mean of records that vary by one.
    sampling: f64,
    /// σ_g and σ_H, in units of what one record adds to the sums at most.
    score: f64,
    curvature: f64,
}

/// The g of least v, where margins vary by `spread` around those of `mean`.
fn cheapest(loss: Loss, mean: f64, spread: f64, length: f64, noise: &Noise) -> f64 {
    // Bound and information of the margins' law, beside those at the mean.
    let at = |margin: f64| {
        loss.score(margin, mean).map_or((1.0, 1.0), |s| (s.bound, s.most_information))
    };
    let usual = at(libm::log(mean));
    let records: Vec<(f64, f64, f64)> = (-POINTS..=POINTS)
        .map(|k| {
            let t = f64::from(k) / f64::from(POINTS) * REACH;
            let (bound, information) = at(libm::log(mean) - 0.5 * spread + spread.sqrt() * t);
            (libm::exp(-0.5 * t * t), bound, information)
        })
        .collect();
    let all: f64 = records.iter().map(|r| r.0).sum();
    let of_score = noise.score * usual.0 * length.sqrt();
    let of_curvature = noise.curvature * CURVATURE * usual.1 * length;
    let variance = |g: f64| {
        let (mut single, mut squares) = (0.0, 0.0);
        for (chance, bound, information) in &records {
            let weight = (g * usual.0 / bound).min(CURVATURE * usual.1 / information).min(1.0);
            single += chance / all * weight * information;
            squares += chance / all * weight * weight * information;
        }
        let missed = of_curvature * of_curvature * length / 2.0 / (single * single);
        let score = noise.sampling * squares + (g * of_score).powi(2);
        score / (single * single) * (1.0 + 3.0 * missed)
    };
    let mut best = (f64::INFINITY, 1.0);
    for g in (0..=CHOICES).map(|k| libm::exp2(-f64::from(k) / 4.0)) {
        let found = variance(g);
        if found < best.0 {
            best = (found, g);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::losses::Poisson;

    /// Without noise nobody is weighed down for a score, nor where all means are alike; with noise
    /// large means are, less so where the curvature's noise is what counts. The numbers are those of
    /// the same sums in numpy.
    #[test]
    fn large_means_are_weighed_down_for_noise_alone() {
        let loss = Loss::Poisson(Poisson { clip: 60.0, most: 60.0 });
        let g = |spread: f64, times: f64| {
            let noise = Noise { sampling: 5e-5, score: times * 2e-3, curvature: times * 3e-3 };
            cheapest(loss, 0.55, spread, 9.0, &noise)
        };
        assert_eq!(g(0.7, 0.0), 1.0);
        assert_eq!(g(1e-9, 1.0), 1.0);
        let found = [0.5, 1.0, 2.0].map(|times| g(0.7, times));
        assert_eq!(found, [-0.75, -0.75, -0.5].map(f64::exp2));
    }
}
