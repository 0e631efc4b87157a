//! Counts that vary more than Poisson's: log link, variance μ + αμ², linear where the slope
//! (μ − y)/(1 + αμ) would exceed `clip`.

use super::count::{self, Count, Moments};
use super::{Family, Labels, MarginLoss, Options, Score};
use crate::config_error::ConfigError;
use crate::data::Task;
use crate::kernel::{Lanes, Link, exp};
use serde::{Deserialize, Serialize};

/// Counts that vary more than Poisson's, with a log link.
///
/// The variance is μ + αμ²; the loss is linear where its slope would exceed `clip`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NegativeBinomial {
    /// Largest slope that counts; the largest label where files leave it open.
    pub clip: f64,
    /// α; found from the label's mean and variance where it is open and columns are scouted.
    pub dispersion: Option<f64>,
    /// The largest label.
    pub most: f64,
}

/// α where nothing is known of it.
const DISPERSION: f64 = 1.0;

impl NegativeBinomial {
    fn alpha(self) -> f64 {
        self.dispersion.unwrap_or(DISPERSION)
    }

    /// The mean whose slope for this label is `slope`: (y + s)/(1 − αs), or the end of its range.
    fn mean_with(self, slope: f64, label: f64) -> f64 {
        let room = 1.0 - self.alpha() * slope;
        if room > 0.0 { ((label + slope) / room).max(0.0) } else { f64::INFINITY }
    }

    /// Margins between which no slope of this label is clipped.
    fn ends(self, label: f64) -> (f64, f64) {
        (libm::log(self.mean_with(-self.clip, label)), libm::log(self.mean_with(self.clip, label)))
    }

    /// Half the unit deviance.
    fn half_deviance(self, margin: f64, label: f64) -> f64 {
        let a = self.alpha();
        // ln((1 + αy)/(1 + αμ)), with α·e^m kept from overflowing.
        let log_mean = if margin > 30.0 {
            libm::log(a) + margin + libm::log1p(libm::exp(-margin) / a)
        } else {
            libm::log1p(a * libm::exp(margin))
        };
        let surprise = if label > 0.0 { label * (libm::log(label) - margin) } else { 0.0 };
        surprise + (label + 1.0 / a) * (log_mean - libm::log1p(a * label))
    }
}

impl Link for NegativeBinomial {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        // Numerator and denominator times e^{−m}, so that neither overflows: both are finite.
        let back = exp(s, s.sub(s.splat(0.0), margin));
        let above = s.sub(s.splat(1.0), s.mul(label, back));
        s.clamp(s.div(above, s.add(back, s.splat(self.alpha()))), -self.clip, self.clip)
    }
}

impl MarginLoss for NegativeBinomial {
    const LABELS: Labels = Labels::AsTheyAre;

    fn value(self, margin: f64, label: f64) -> f64 {
        let (low, high) = self.ends(label);
        let m = margin.clamp(low, high);
        self.half_deviance(m, label) + super::linear(self.clip, margin - m)
    }

    fn slope_at(self, margin: f64, label: f64) -> f64 {
        let back = libm::exp(-margin.clamp(-708.0, 708.0));
        ((1.0 - label * back) / (back + self.alpha())).clamp(-self.clip, self.clip)
    }

    fn curvature_at(self, margin: f64, label: f64) -> f64 {
        let (low, high) = self.ends(label);
        if !(low..=high).contains(&margin) {
            return 0.0;
        }
        let back = libm::exp(-margin.clamp(-708.0, 708.0));
        back * (1.0 + self.alpha() * label) / (back + self.alpha()).powi(2)
    }

    fn steepest(self) -> f64 {
        self.clip
    }

    /// φ'' = μ(1 + αy)/(1 + αμ)² is at most (1 + αy)/(4α), and where the slope is not clipped
    /// μ/(1 + αμ) ≤ clip + y, so that it is at most (clip + y)(1 + αy).
    fn curvature(self) -> f64 {
        let (a, y) = (self.alpha(), self.most);
        ((1.0 + a * y) * (0.25 / a).min(self.clip + y)) * (1.0 + 1e-15)
    }

    fn saturates(self) -> f64 {
        libm::log1p(self.clip.max(self.most)) + 12.0
    }

    fn mean(self, margin: f64) -> f64 {
        libm::exp(margin.min(count::MOST_MARGIN))
    }

    fn margin_of(self, mean: f64) -> f64 {
        libm::log(mean)
    }

    fn usual_slope(self, mean: f64, deviation: f64) -> f64 {
        deviation / (1.0 + self.alpha() * mean)
    }

    fn usual_curvature(self, mean: f64) -> f64 {
        mean / (1.0 + self.alpha() * mean)
    }

    fn deviance(self, margin: f64, label: f64) -> Option<f64> {
        Some(2.0 * self.half_deviance(margin, label))
    }

    fn score(self, margin: f64, label: f64) -> Option<Score> {
        let (mean, a) = (self.mean(margin), self.alpha());
        let grown = 1.0 + a * mean;
        let variance = mean * grown;
        let first = libm::exp(-libm::log1p(a * mean) / a);
        let following = |y: f64| (y + 1.0 / a) / (y + 1.0) * (a * mean / grown);
        let skewness = (1.0 + 2.0 * a * mean) / variance.sqrt();
        Some(count::score(Moments { mean, variance, skewness }, grown, label, first, following))
    }

    /// α by moments: what the label's variance has beyond its mean. Part of that variance is what
    /// the columns explain, so that α is rather too large: a downweighting, and no bias.
    fn fitted_to(self, mean: f64, deviation: f64) -> Self {
        let found = (deviation * deviation - mean) / (mean * mean).max(f64::MIN_POSITIVE);
        Self { dispersion: self.dispersion.or(Some(found.clamp(0.01, 10.0))), ..self }
    }
}

impl Family for NegativeBinomial {
    fn of(task: Task, options: &Options) -> Result<Self, ConfigError> {
        let most = Count::labels("negative-binomial", task)?;
        let dispersion = match options.dispersion {
            Some(a) if !(a > 0.0 && a.is_finite()) => {
                return Err(ConfigError::at(
                    "dispersion",
                    format!("{a} must be a positive number"),
                ));
            }
            given => given,
        };
        Ok(Self { clip: options.clip_or(most.max(1.0))?, dispersion, most })
    }

    fn options(self) -> Options {
        Options { clip: Some(self.clip), dispersion: self.dispersion, ..Options::default() }
    }
}
