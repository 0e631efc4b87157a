//! Positive amounts with a log link: half the gamma deviance y·e^{−m} + m, linear where its slope
//! 1 − y·e^{−m} would be below −`clip`.

use super::{Family, Labels, MarginLoss, Options, Score};
use crate::config_error::ConfigError;
use crate::data::Task;
use crate::kernel::{Lanes, Link, exp};
use serde::{Deserialize, Serialize};

/// Labels count up to one more than so many times their mean.
const CLIP: f64 = 20.0;

/// Residuals 1 − y/μ count up to so many coefficients of variation in a score.
const REACH: f64 = 1.5;

/// Positive amounts, with a log link.
///
/// Half the gamma deviance, made linear where its slope 1 − y·e^(−zᵀx) would be below −`clip`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gamma {
    /// How many times its mean a label counts at most, less one.
    pub clip: f64,
    /// The coefficient of variation of labels.
    pub dispersion: f64,
}

impl Gamma {
    /// The margin below which slopes of this label are clipped.
    fn bend(self, label: f64) -> f64 {
        libm::log(label / (1.0 + self.clip))
    }
}

impl Link for Gamma {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        let back = exp(s, s.sub(s.splat(0.0), margin));
        s.clamp(s.sub(s.splat(1.0), s.mul(label, back)), -self.clip, 1.0)
    }
}

impl MarginLoss for Gamma {
    const LABELS: Labels = Labels::AsTheyAre;

    fn value(self, margin: f64, label: f64) -> f64 {
        let m = margin.max(self.bend(label));
        let ratio = label * libm::exp(-m);
        ratio - 1.0 - libm::log(ratio) + super::linear(self.clip, m - margin)
    }

    fn slope_at(self, margin: f64, label: f64) -> f64 {
        (1.0 - label * libm::exp(-margin.clamp(-708.0, 708.0))).clamp(-self.clip, 1.0)
    }

    fn curvature_at(self, margin: f64, label: f64) -> f64 {
        if margin < self.bend(label) { 0.0 } else { label * libm::exp(-margin) }
    }

    fn steepest(self) -> f64 {
        self.clip.max(1.0)
    }

    /// φ'' = y·e^{−m} ≤ 1 + clip wherever the slope is not clipped.
    fn curvature(self) -> f64 {
        (1.0 + self.clip).next_up()
    }

    fn saturates(self) -> f64 {
        libm::log1p(self.clip) + 12.0
    }

    fn mean(self, margin: f64) -> f64 {
        libm::exp(margin.min(super::count::MOST_MARGIN))
    }

    fn margin_of(self, mean: f64) -> f64 {
        libm::log(mean)
    }

    fn usual_slope(self, mean: f64, deviation: f64) -> f64 {
        deviation / mean
    }

    fn usual_curvature(self, _: f64) -> f64 {
        1.0
    }

    fn deviance(self, margin: f64, label: f64) -> Option<f64> {
        let ratio = label * libm::exp(-margin);
        Some(2.0 * (ratio - 1.0 - libm::log(ratio)))
    }

    /// The residual 1 − y/μ clipped to ±1.5 coefficients of variation. y/μ has one law whatever the
    /// columns are, so that what clipping moves is the intercept alone.
    fn score(self, margin: f64, label: f64) -> Option<Score> {
        let ratio = label * libm::exp(-margin.clamp(-708.0, 708.0));
        let bound = REACH * self.dispersion;
        let clipped = (1.0 - ratio).abs() > bound;
        Some(Score {
            value: (1.0 - ratio).clamp(-bound, bound),
            bound,
            information: if clipped { 0.0 } else { ratio },
            most_information: 1.0 + bound,
        })
    }

    /// The coefficient of variation of the label: what the columns explain of it included.
    fn fitted_to(self, mean: f64, deviation: f64) -> Self {
        let dispersion = (deviation / mean.max(f64::MIN_POSITIVE)).clamp(0.05, 5.0);
        Self { dispersion, ..self }
    }
}

impl Family for Gamma {
    fn of(task: Task, options: &Options) -> Result<Self, ConfigError> {
        match task {
            Task::Regression { min, .. } if min > 0.0 => {
                Ok(Self { clip: options.clip_or(CLIP)?, dispersion: 1.0 })
            }
            _ => Err(ConfigError::at(
                "loss",
                "gamma is for a label that is a positive number; declare min above 0 and max at the label",
            )),
        }
    }

    fn options(self) -> Options {
        Options { clip: (self.clip != CLIP).then_some(self.clip), ..Options::default() }
    }
}
