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

/// Values of g: 1, and down to an eighth by fourths of an octave.
const CHOICES: i32 = 12;
/// Means differ by no more than this many powers of e, as a variance.
const MOST_SPREAD: f64 = 2.25;
/// Points of the normal law of margins.
const POINTS: i32 = 24;

impl Recipe {
    /// g: what the bound of a count's score is multiplied by; 1 for other losses.
    pub(super) fn reach_of_counts(&self, standard: &[f64]) -> f64 {
        let loss = self.loss(standard);
        let alpha = match loss {
            Loss::Poisson { .. } => 0.0,
            Loss::NegativeBinomial { dispersion, .. } => dispersion.unwrap_or(0.0),
            _ => return 1.0,
        };
        let Some((mean, deviation)) = self.label_moments(standard) else { return 1.0 };
        let beyond = deviation * deviation - mean - alpha * mean * mean;
        let spread = libm::log1p(beyond.max(0.0) / (1.0 + alpha) / (mean * mean)).min(MOST_SPREAD);
        if spread == 0.0 {
            return 1.0;
        }
        // Bound and information of the margins' law, beside those at the mean.
        let at = |margin: f64| {
            loss.score(margin, mean).map_or((1.0, 1.0), |s| (s.bound, s.most_information))
        };
        let usual = at(libm::log(mean));
        let records: Vec<(f64, f64, f64)> = (-POINTS..=POINTS)
            .map(|k| {
                let t = f64::from(k) / f64::from(POINTS) * 3.5;
                let (bound, information) = at(libm::log(mean) - 0.5 * spread + spread.sqrt() * t);
                (libm::exp(-0.5 * t * t), bound, information)
            })
            .collect();
        let all: f64 = records.iter().map(|r| r.0).sum();
        let length = self.request.layout.effective_dim(standard) + 1.0;
        let gradients = 1.0 - self.counted.share() - inference::OF_MATRICES;
        let of_score = self.request.reach * usual.0 * length.sqrt() * self.noise_per(gradients);
        let of_curvature =
            self.request.reach.sqrt() * CURVATURE * usual.1 * length * self.curvature_noise();
        let variance = |g: f64| {
            let (mut single, mut squares) = (0.0, 0.0);
            for (chance, bound, information) in &records {
                let weight = (g * usual.0 / bound).min(CURVATURE * usual.1 / information).min(1.0);
                single += chance / all * weight * information;
                squares += chance / all * weight * weight * information;
            }
            let missed = of_curvature * of_curvature * length / 2.0 / (single * single);
            (self.spread * squares + (g * of_score).powi(2)) / (single * single)
                * (1.0 + 3.0 * missed)
        };
        let choices = (0..=CHOICES).map(|k| libm::exp2(-f64::from(k) / 4.0));
        choices.map(|g| (variance(g), g)).fold((f64::INFINITY, 1.0), |best, one| {
            if one.0 < best.0 { one } else { best }
        }).1
    }
}
